/* tally.h: how many tasks run at once, in all processes that share the memory. */
#ifndef WEFT_TESTS_TALLY_H
#define WEFT_TESTS_TALLY_H

#include "front.h"
#include "pool_help.h"

#include <sys/mman.h>

struct tally {
    atomic_uint now, most, done;
};
static struct tally *tally; /* of the processes that share it */

static inline void tally_begin(void) {
    int shared = MAP_SHARED | MAP_ANONYMOUS;
    tally = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, shared, -1, 0);
    REQUIRE(tally != MAP_FAILED);
}
static inline void tally_end(void) { munmap(tally, sizeof *tally); }

static inline void tally_enter(void) {
    unsigned now = atomic_fetch_add(&tally->now, 1) + 1;
    unsigned most = atomic_load(&tally->most);
    while (now > most && !atomic_compare_exchange_weak(&tally->most, &most, now)) {}
}

static inline int counted(void *payload, weft_worker *self) {
    (void)self;
    tally_enter();
    for (unsigned i = *(unsigned *)payload; i > 0; i--) os_pause();
    atomic_fetch_sub(&tally->now, 1);
    atomic_fetch_add(&tally->done, 1);
    return 0;
}

static inline void submit_counted(weft_pool *pool, weft_group *group, unsigned tasks, unsigned pauses) {
    for (unsigned i = 0; i < tasks; i++) REQUIRE(weft_submit(pool, group, counted, &pauses, sizeof pauses) == WEFT_OK);
}

#endif
