/* plain.c: what the compiler tells of plain accesses. The library's sources are compiled as for ThreadSanitizer, but not linked
 * with it: the calls that its pass leaves before each access of memory come here, and race.c judges them. So a plain access
 * need not be announced in the sources; what libc does for them (memcpy) must. */
#include "engine.h"

static void access_plain(const void *memory, size_t size, bool write, const void *code) {
    struct thread *self = R.current;
    if (self == NULL || (!R.stacks && (uintptr_t)memory - (uintptr_t)self->fiber.stack < self->fiber.size)) return;
    R.code = code;
    race_plain(memory, size, write);
    R.code = NULL;
}

#define CALL(name, size, write)                                                                                             \
    void __tsan_##name(void *memory);                                                                                       \
    void __tsan_##name(void *memory) { access_plain(memory, size, write, __builtin_return_address(0)); }
#define CALLS(size)                                                                                                         \
    CALL(read##size, size, false)                                                                                           \
    CALL(write##size, size, true)                                                                                           \
    CALL(unaligned_read##size, size, false)                                                                                 \
    CALL(unaligned_write##size, size, true)
#define CALL_RANGE(name, write)                                                                                             \
    void __tsan_##name##_range(void *memory, size_t size);                                                                  \
    void __tsan_##name##_range(void *memory, size_t size) { access_plain(memory, size, write, __builtin_return_address(0)); }
CALLS(1)
CALLS(2)
CALLS(4)
CALLS(8)
CALLS(16)
CALL_RANGE(read, false)
CALL_RANGE(write, true)

void __tsan_init(void);
void __tsan_init(void) {}
void __tsan_func_entry(void *caller);
void __tsan_func_entry(void *caller) { (void)caller; }
void __tsan_func_exit(void);
void __tsan_func_exit(void) {}
