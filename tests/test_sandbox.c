/* test_sandbox.c: pools in processes whose filters refuse system calls, or end the process at one that is not on their list:
 * docs/hosts/README.md has that list. */
#define _GNU_SOURCE
#include "os/os.h"
#include "pool_help.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

/* ---- filters ------------------------------------------------------------------------------------------------------ */

enum { CALLS_MAX = 64 };

/* For every thread there is, and those to come. */
static bool filter(const uint32_t *calls, size_t count, uint32_t on_these, uint32_t on_others) {
    struct sock_filter rules[CALLS_MAX + 3] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    REQUIRE(count <= CALLS_MAX);
    for (size_t i = 0; i < count; i++)
        rules[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], (uint8_t)(count - i), 0);
    rules[1 + count] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, on_others);
    rules[2 + count] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, on_these);
    const struct sock_fprog program = {(unsigned short)(count + 3), rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

/* ---- what a pool does --------------------------------------------------------------------------------------------- */

static int add(void *payload, weft_worker *self) {
    (void)self;
    atomic_fetch_add(*(atomic_uint **)payload, 1);
    return 0;
}

static int add_blocked(void *payload, weft_worker *self) {
    int code = weft_block_begin(self);
    REQUIRE(code == WEFT_OK || code == WEFT_EAGAIN);
    REQUIRE(weft_block_end(self) == WEFT_OK);
    return add(payload, self);
}

static int add_all(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)self;
    atomic_fetch_add((atomic_uint *)context, (unsigned)(end - begin));
    return 0;
}

static void use(weft_pool *pool) {
    enum { ROUNDS = 8, TASKS = 200, INDICES = 100000 };
    atomic_uint count = 0, *counted = &count;
    for (int round = 0; round < ROUNDS; round++) {
        weft_group group = {0, round % 2 == 0 ? WEFT_GROUP_URGENT : 0, 0};
        for (int i = 0; i < TASKS; i++)
            REQUIRE(weft_submit(pool, &group, i % 50 == 0 ? add_blocked : add, &counted, sizeof counted) == WEFT_OK);
        REQUIRE(weft_group_wait_until(pool, &group, round % 4 < 2 ? WEFT_HELP_NONE : WEFT_HELP_BELOW, 0) == WEFT_OK);
        REQUIRE(weft_for(pool, (weft_range){0, INDICES, 0}, add_all, counted) == WEFT_OK);
        REQUIRE(weft_pool_expect(pool, 1, clock_ns() + 1000000) == WEFT_OK);
        usleep(round < 2 ? 15000 : 300); /* long enough to park */
        void *block = weft_alloc((size_t)3 << 20);
        REQUIRE(block != NULL);
        memset(block, 1, (size_t)3 << 20);
        weft_free(block);
        weft_trim();
    }
    REQUIRE(atomic_load(&count) == ROUNDS * (TASKS + INDICES));
}

/* ---- calls that are refused --------------------------------------------------------------------------------------- */

/* All that a pool asks for and can do without. */
static const uint32_t optional[] = {SYS_membarrier,
                                    SYS_sched_setaffinity,
                                    SYS_sched_getaffinity,
                                    SYS_sched_getscheduler,
                                    SYS_sched_getattr,
                                    SYS_sched_setattr,
                                    SYS_sched_yield,
                                    SYS_madvise,
                                    SYS_openat,
                                    SYS_prctl,
                                    SYS_gettid};
enum { OPTIONAL = sizeof optional / sizeof optional[0], NO_FILTERS = 77 };

typedef struct refusal {
    size_t first, count; /* of `optional` */
    uint32_t error;
    bool is_late; /* after the pool was made */
} refusal;

static int use_refused(void *argument) {
    const refusal *r = argument;
    weft_pool *pool = r->is_late ? make_pool(2) : NULL;
    if (!filter(&optional[r->first], r->count, SECCOMP_RET_ERRNO | r->error, SECCOMP_RET_ALLOW)) return NO_FILTERS;
    if (pool == NULL) pool = make_pool(2);
    use(pool);
    end_pool(pool);
    return 0;
}

static void test_refused(void **state) {
    (void)state;
    if (SANITIZED) SKIP("a sanitizer's own calls are refused, too");
    for (int i = 0; i < 4; i++) {
        refusal each = {0, 1, i % 2 == 0 ? EPERM : ENOSYS, i / 2 != 0}, all = each;
        all.count = OPTIONAL;
        for (; each.first < OPTIONAL; each.first++) {
            int status = in_child(use_refused, &each);
            if (status == NO_FILTERS) SKIP("no seccomp filters");
            assert_int_equal(status, 0);
        }
        assert_int_equal(in_child(use_refused, &all), 0);
    }
}

/* ---- the list ----------------------------------------------------------------------------------------------------- */

/* What the threads of a running pool and its callers ask for. */
static const uint32_t listed[] = {SYS_futex, SYS_mmap, SYS_munmap, SYS_mremap, SYS_madvise, SYS_clock_nanosleep,
                                  SYS_sched_yield, SYS_sched_getaffinity, SYS_sched_getscheduler, SYS_prctl, SYS_gettid,
                                  /* not with WEFT_POOL_NO_PLACING */
                                  SYS_sched_setaffinity,
                                  /* not with WEFT_SLICE_NONE */
                                  SYS_sched_getattr, SYS_sched_setattr,
                                  /* not with WEFT_FENCE=full */
                                  SYS_membarrier,
                                  /* threads: spares, and the end */
                                  SYS_clone, SYS_clone3, SYS_mprotect, SYS_rt_sigprocmask, SYS_set_robust_list, SYS_rseq,
                                  SYS_exit,
                                  /* the C library's, and this program's own */
                                  SYS_brk, SYS_clock_gettime, SYS_getcpu, SYS_exit_group, SYS_write};

static int use_listed(void *nothing) {
    (void)nothing;
    weft_pool *pool = make_pool(2);
    if (!filter(listed, sizeof listed / sizeof listed[0], SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS)) return NO_FILTERS;
    use(pool);
    for (int i = 0; i < 100; i++) os_yield(); /* some of which sleep */
    os_settle_now();
    end_pool(pool);
    return 0;
}

static void test_listed(void **state) {
    (void)state;
    if (SANITIZED) SKIP("a sanitizer's own calls are not on the list");
    int status = in_child(use_listed, NULL);
    if (status == NO_FILTERS) SKIP("no seccomp filters");
    assert_int_equal(status, 0);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refused), cmocka_unit_test(test_listed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
