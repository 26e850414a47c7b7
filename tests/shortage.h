/* shortage.h: memory that fails at the Nth call, for tests linked with --wrap for os_alloc, os_map and weft_alloc
 * (CMakeLists.txt). */
#ifndef WEFT_TESTS_SHORTAGE_H
#define WEFT_TESTS_SHORTAGE_H

#include "help.h"

#include <stdatomic.h>
#include <stdbool.h>

static struct {
    atomic_uint calls;   /* since shortage_begin */
    atomic_uint fail_at; /* the call that fails, from 1, and all after it if and_after; 0: none */
    atomic_bool and_after;
    atomic_bool struck;
    atomic_size_t least; /* bytes: smaller calls do not count */
    atomic_uint smaller; /* of these, how many */
} shortage;

static inline bool shortage_strikes(void) {
    unsigned call = atomic_fetch_add(&shortage.calls, 1) + 1, at = atomic_load(&shortage.fail_at);
    bool strikes = at != 0 && (call == at || (call > at && atomic_load(&shortage.and_after)));
    if (strikes) atomic_store(&shortage.struck, true);
    return strikes;
}

/* The names are the linker's choice. */
void *__real_os_alloc(size_t bytes);
void *__wrap_os_alloc(size_t bytes);
void *__real_weft_alloc(size_t size);
void *__wrap_weft_alloc(size_t size);
void *__real_os_map(size_t bytes);
void *__wrap_os_map(size_t bytes);

void *__wrap_os_alloc(size_t bytes) { return shortage_strikes() ? NULL : __real_os_alloc(bytes); }
void *__wrap_weft_alloc(size_t size) { return shortage_strikes() ? NULL : __real_weft_alloc(size); }
void *__wrap_os_map(size_t bytes) {
    if (bytes >= atomic_load(&shortage.least)) return shortage_strikes() ? NULL : __real_os_map(bytes);
    atomic_fetch_add(&shortage.smaller, 1);
    return __real_os_map(bytes);
}

static inline void shortage_begin(unsigned at, bool and_after) {
    atomic_store(&shortage.fail_at, at);
    atomic_store(&shortage.and_after, and_after);
    atomic_store(&shortage.struck, false);
    atomic_store(&shortage.calls, 0);
}

/* Whether a call failed since shortage_begin; none do from now on. */
static inline bool shortage_end(void) {
    atomic_store(&shortage.fail_at, 0);
    return atomic_load(&shortage.struck);
}

#endif
