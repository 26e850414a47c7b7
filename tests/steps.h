/* steps.h: what the calling thread does between two calls, instruction by instruction: how many are read-modify-writes or
 * fences, how many pause, ask the system or read the clock. x86-64; other threads are not counted. */
#ifndef WEFT_TEST_STEPS_H
#define WEFT_TEST_STEPS_H

#include "help.h"

#include <signal.h>
#include <stdbool.h>
#include <ucontext.h>

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define STEPS_ARE_COUNTED 1
#else
#define STEPS_ARE_COUNTED 0
#endif

static struct steps { unsigned long locked, pauses, calls, clocks, all; } stepped;

static inline bool step_is_prefix(unsigned char byte) {
    return byte == 0x66 || byte == 0x67 || byte == 0xf2 || byte == 0xf3 || byte == 0x2e || byte == 0x3e || byte == 0x64 ||
           byte == 0x65;
}

/* The instruction that comes next. */
static inline void step_count(const unsigned char *code) {
    bool repeats = false;
    bool is_locked = false;
    for (; step_is_prefix(*code) || *code == 0xf0; code++) {
        repeats |= *code == 0xf3;
        is_locked |= *code == 0xf0;
    }
    if ((*code & 0xf0) == 0x40) code++; /* REX */
    bool exchanges = (*code == 0x86 || *code == 0x87) && code[1] < 0xc0;
    bool is_fence = code[0] == 0x0f && code[1] == 0xae && code[2] >= 0xf0 && code[2] <= 0xf7;
    stepped.all++;
    stepped.locked += is_locked || exchanges || is_fence;
    stepped.pauses += repeats && *code == 0x90;
    stepped.calls += code[0] == 0x0f && code[1] == 0x05;
    stepped.clocks += code[0] == 0x0f && (code[1] == 0x31 || (code[1] == 0x01 && code[2] == 0xf9));
}

#if STEPS_ARE_COUNTED
static inline void step_trapped(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)info;
    step_count((const unsigned char *)(uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP]);
}

/* From here to steps_end, on this thread. */
static inline void steps_begin(void) {
    struct sigaction action = {.sa_sigaction = step_trapped, .sa_flags = SA_SIGINFO};
    REQUIRE(sigaction(SIGTRAP, &action, NULL) == 0);
    stepped = (struct steps){0};
    __asm__ volatile("sub $128, %%rsp\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\tadd $128, %%rsp" ::: "memory", "cc");
}
static inline void steps_end(void) {
    __asm__ volatile("sub $128, %%rsp\n\tpushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq\n\tadd $128, %%rsp" ::: "memory", "cc");
}
#else
static inline void steps_begin(void) {}
static inline void steps_end(void) {}
#endif

#endif
