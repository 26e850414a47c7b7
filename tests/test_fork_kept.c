/* test_fork_kept.c: programs compiled with clang rely on a slow fork leaving their registers alone (WEFT_FORK_KEEPS). */
#define _GNU_SOURCE
#include "pool_help.h"

#if defined(__x86_64__)

/* Calls slow(here) with `before` in the registers below, and says what they hold after: rax, rcx, rdx, rsi, r8, r9, r10; and
 * rdi, which holds `here` before. */
enum { REGISTERS = 8, PLACES = 256 };
typedef void (*slow_call)(weft_fork_slot *here) WEFT_FORK_KEEPS;
void registers_call(slow_call slow, weft_fork_slot *here, uint64_t after[REGISTERS]);
__asm__(".text\n"
        ".globl registers_call\n"
        ".type registers_call, @function\n"
        "registers_call:\n"
        "pushq %rbx\n"
        "pushq %r12\n"
        "pushq %r13\n"
        "movq %rdi, %r12\n"
        "movq %rsi, %rdi\n"
        "movq %rdx, %rbx\n"
        "movl $1, %eax\n"
        "movl $2, %ecx\n"
        "movl $3, %edx\n"
        "movl $4, %esi\n"
        "movl $5, %r8d\n"
        "movl $6, %r9d\n"
        "movl $7, %r10d\n"
        "call *%r12\n"
        "movq %rax, (%rbx)\n"
        "movq %rcx, 8(%rbx)\n"
        "movq %rdx, 16(%rbx)\n"
        "movq %rsi, 24(%rbx)\n"
        "movq %r8, 32(%rbx)\n"
        "movq %r9, 40(%rbx)\n"
        "movq %r10, 48(%rbx)\n"
        "movq %rdi, 56(%rbx)\n"
        "popq %r13\n"
        "popq %r12\n"
        "popq %rbx\n"
        "ret\n"
        ".size registers_call, .-registers_call\n");

static void nothing(weft_fork_slot *here, void *payload) { (void)here, (void)payload; }

/* Forks through several spans, each fork the slow way, as if the thread were asked each time. */
static void test_registers_are_kept(void **state) {
    (void)state;
    static weft_fork_slot *place[3 * PLACES];
    weft_pool *pool = make_pool(2);
    weft_fork_slot *here = NULL;
    assert_int_equal(weft_fork_enter(pool, &here), WEFT_OK);
    unsigned leaps = 0;
    for (unsigned i = 0; i < 3 * PLACES; i++) {
        struct weft_forker *forker = weft_fork_slot_chunk(here)->forker;
        uint64_t after[REGISTERS] = {0};
        place[i] = here;
        memset(here->payload, 0, sizeof here->payload);
        weft_store_rel(J44, &here->fn, nothing);
        registers_call(forker->slow, here, after);
        for (unsigned k = 0; k < REGISTERS - 1; k++) assert_int_equal(after[k], k + 1);
        assert_int_equal(after[REGISTERS - 1], (uintptr_t)here);
        leaps += forker->deeper != here + 1;
        here = forker->deeper;
    }
    assert_in_range(leaps, 2, 4);
    for (unsigned i = 3 * PLACES; i-- > 0;) {
        const unsigned char argument[WEFT_FORK_BYTES] = {0};
        if (weft_fork_slot_pop(place[i])) weft_fork_join_slow(place[i], argument, sizeof argument);
    }
    weft_fork_leave(place[0]);
    end_pool(pool);
}

#else

static void test_registers_are_kept(void **state) {
    (void)state;
    SKIP("slow forks are plain calls on this processor");
}

#endif

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_registers_are_kept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
