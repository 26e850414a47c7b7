/* plain.c: plain accesses. The sources are compiled as for ThreadSanitizer, but not linked with it: the calls that its pass
 * leaves before each access of memory, and where a function begins, come here. */
#include "engine.h"

#include <string.h>

static void access_plain(uintptr_t address, size_t size, enum access how, const void *code) {
    sim_site *site = site_of_code((uintptr_t)code, SIM_PLAIN);
    sim_point();
    line_access(site, address, how);
    for (uintptr_t line = address / CACHE_LINE + 1; line * CACHE_LINE < address + size; line++)
        line_access(site, line * CACHE_LINE, how);
}

#define CALL(name, size, how)                                                                                               \
    void __tsan_##name(void *memory);                                                                                       \
    void __tsan_##name(void *memory) { access_plain((uintptr_t)memory, size, how, __builtin_return_address(0)); }
#define CALLS(size)                                                                                                         \
    CALL(read##size, size, ACCESS_READ)                                                                                     \
    CALL(write##size, size, ACCESS_WRITE)                                                                                   \
    CALL(unaligned_read##size, size, ACCESS_READ)                                                                           \
    CALL(unaligned_write##size, size, ACCESS_WRITE)
#define CALL_RANGE(name, how)                                                                                               \
    void __tsan_##name##_range(void *memory, size_t size);                                                                  \
    void __tsan_##name##_range(void *memory, size_t size) {                                                                 \
        access_plain((uintptr_t)memory, size, how, __builtin_return_address(0));                                            \
    }
CALLS(1)
CALLS(2)
CALLS(4)
CALLS(8)
CALLS(16)
CALL_RANGE(read, ACCESS_READ)
CALL_RANGE(write, ACCESS_WRITE)

/* clang's pass turns these into calls. */
void *__tsan_memcpy(void *to, const void *from, size_t size);
void *__tsan_memcpy(void *to, const void *from, size_t size) { return memcpy(to, from, size); }
void *__tsan_memmove(void *to, const void *from, size_t size);
void *__tsan_memmove(void *to, const void *from, size_t size) { return memmove(to, from, size); }
void *__tsan_memset(void *to, int byte, size_t size);
void *__tsan_memset(void *to, int byte, size_t size) { return memset(to, byte, size); }

void __tsan_init(void);
void __tsan_init(void) {}
void __tsan_func_entry(void *caller);
void __tsan_func_entry(void *caller) {
    (void)caller;
    cpu_now->clock_ps += sim_paired(PS(call_ns));
}
void __tsan_func_exit(void);
void __tsan_func_exit(void) {}
