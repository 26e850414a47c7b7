/* fiber.c: see fiber.h. Saves what a call must preserve, changes the stack pointer, restores. */
#define _DEFAULT_SOURCE
#include "fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#endif

#if defined(FIBER_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define FIBER_STACK_BYTES ((size_t)512 * 1024)
#else
#define FIBER_STACK_BYTES ((size_t)128 * 1024)
#endif
#define FIBER_GUARD_BYTES ((size_t)64 * 1024)

void fiber_jump(void **save, void *load);

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl fiber_jump\n"
        ".hidden fiber_jump\n"
        ".type fiber_jump, @function\n"
        "fiber_jump:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
        "    ret\n"
        ".size fiber_jump, . - fiber_jump\n");

/* The frame that the first jump pops: six registers, the entry, and an address to make the entry's stack aligned. */
static void *first_frame(char *top, void (*entry)(void)) {
    uintptr_t *frame = (uintptr_t *)(void *)top - 8;
    for (int i = 0; i < 8; i++) frame[i] = 0;
    frame[6] = (uintptr_t)entry;
    return frame;
}
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl fiber_jump\n"
        ".hidden fiber_jump\n"
        ".type fiber_jump, %function\n"
        "fiber_jump:\n"
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp, #0]\n    stp x21, x22, [sp, #16]\n    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n    stp x27, x28, [sp, #64]\n    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n    stp d10, d11, [sp, #112]\n    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n    str x9, [x0]\n    mov sp, x1\n"
        "    ldp x19, x20, [sp, #0]\n    ldp x21, x22, [sp, #16]\n    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n    ldp x27, x28, [sp, #64]\n    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n    ldp d10, d11, [sp, #112]\n    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #160\n"
        "    ret\n"
        ".size fiber_jump, . - fiber_jump\n");

static void *first_frame(char *top, void (*entry)(void)) {
    uintptr_t *frame = (uintptr_t *)(void *)top - 20;
    for (int i = 0; i < 20; i++) frame[i] = 0;
    frame[11] = (uintptr_t)entry; /* x30 */
    return frame;
}
#else
#error "fiber.c knows x86-64 and aarch64"
#endif

bool fiber_stack(struct fiber *fiber) {
    char *memory = mmap(NULL, FIBER_GUARD_BYTES + FIBER_STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, FIBER_GUARD_BYTES, PROT_NONE) != 0) return false;
    fiber->stack = memory + FIBER_GUARD_BYTES;
    fiber->size = FIBER_STACK_BYTES;
    return true;
}

#if defined(FIBER_ASAN)
static struct fiber *came_from, *going_to;

static void landed(void *shadow) {
    const void *bottom;
    size_t size;
    __sanitizer_finish_switch_fiber(shadow, &bottom, &size);
    if (came_from->stack == NULL) {
        /* The OS thread's own stack is known only from here on. */
        came_from->stack = (void *)(uintptr_t)bottom;
        came_from->size = size;
    }
}

static void first_landing(void) {
    landed(NULL);
    going_to->entry();
}

void fiber_reset(struct fiber *fiber, void (*entry)(void)) {
    __asan_unpoison_memory_region(fiber->stack, fiber->size);
    fiber->stack_pointer = first_frame((char *)fiber->stack + fiber->size, first_landing);
    fiber->shadow = NULL;
    fiber->entry = entry;
}

void fiber_switch(struct fiber *from, struct fiber *to, bool last) {
    came_from = from;
    going_to = to;
    __sanitizer_start_switch_fiber(last ? NULL : &from->shadow, to->stack, to->size);
    fiber_jump(&from->stack_pointer, to->stack_pointer);
    landed(from->shadow);
}
#else
void fiber_reset(struct fiber *fiber, void (*entry)(void)) {
    fiber->stack_pointer = first_frame((char *)fiber->stack + fiber->size, entry);
}

void fiber_switch(struct fiber *from, struct fiber *to, bool last) {
    (void)last;
    fiber_jump(&from->stack_pointer, to->stack_pointer);
}
#endif
