/* test_fit_set.c: pools whose number of workers was set. It stays; what else depends on the CPUs follows the affinity. */
#define _GNU_SOURCE
#include "os_help.h"
#include "pool_help.h"
#include "front.h"

#include <dirent.h>

/* Who opens the quota's files; a sandbox may end the process there. */
static atomic_uint reads;
unsigned __real_os_cpu_count_now(unsigned allowed);
unsigned __wrap_os_cpu_count_now(unsigned allowed);
unsigned __wrap_os_cpu_count_now(unsigned allowed) {
    atomic_fetch_add(&reads, 1);
    return __real_os_cpu_count_now(allowed);
}

/* How often a thread was asked for another one's CPUs. */
static atomic_uint asked;
bool __real_os_thread_cpuset(os_thread thread, os_cpuset *set);
bool __wrap_os_thread_cpuset(os_thread thread, os_cpuset *set);
bool __wrap_os_thread_cpuset(os_thread thread, os_cpuset *set) {
    atomic_fetch_add(&asked, 1);
    return __real_os_thread_cpuset(thread, set);
}

static unsigned most; /* CPUs */
static cpu_set_t all, one;

static bool cpus_suffice(void) {
    REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
    CPU_ZERO(&one);
    for (size_t i = 0; CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
    most = (unsigned)CPU_COUNT(&all);
    return most >= 2 && os_cpu_count() == most;
}

static int short_task(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    for (int i = 0; i < 500; i++) os_pause();
    return 0;
}

/* The next task's worker looks how many CPUs there are. */
static void look(weft_pool *pool) {
    store_rlx(&pool->fit_due, 0);
    do {
        weft_group group = WEFT_GROUP_INIT;
        REQUIRE(weft_submit(pool, &group, short_task, NULL, 0) == WEFT_OK);
        REQUIRE(weft_group_wait_until(pool, &group, WEFT_HELP_NONE, 0) == WEFT_OK);
    } while (load_rlx(&pool->fit_due) == 0); /* while a sleeper takes a CPU from itself, it looks again */
}

/* As taskset -a. */
static void confine_threads(const cpu_set_t *set) {
    DIR *folder = opendir("/proc/self/task");
    REQUIRE(folder != NULL);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.') sched_setaffinity(atoi(entry->d_name), sizeof *set, set);
    closedir(folder);
}

/* A change is lost that comes while a worker sets its own affinity (predict/affinity.c): then it is made once more. */
static void confine(weft_pool *pool, const cpu_set_t *set, unsigned cpus) {
    unsigned workers = weft_pool_workers(pool);
    for (unsigned times = 0; times < 100; times++) {
        confine_threads(set);
        look(pool);
        if (load_rlx(&pool->cpus_allowed) == cpus && load_rlx(&pool->cpu_count) == cpus) break;
    }
    assert_int_equal(load_rlx(&pool->cpus_allowed), cpus);
    assert_int_equal(load_rlx(&pool->cpu_count), cpus);
    assert_true((load_rlx(&pool->expect_percent) > 0) == (cpus > 1));
    assert_true((load_rlx(&pool->spin_ticks) > 0) == (cpus > 1));
    assert_int_equal(weft_pool_workers(pool), workers);
}

/* Workers spin and wake up ahead only where there are two CPUs at least. */
static void test_affinity(void **state) {
    (void)state;
    if (!cpus_suffice()) SKIP("it takes two CPUs, and no quota");
    for (int by_hand = 0; by_hand < 2; by_hand++) {
        weft_config config = config_of(by_hand ? 0 : 2);
        weft_pool *pool = make_pool_with(&config);
        if (by_hand) assert_int_equal(weft_pool_resize(pool, 2), WEFT_OK);
        assert_true(load_rlx(&pool->fit_due) != UINT64_MAX);
        for (int i = 0; i < 20; i++) {
            confine(pool, &one, 1);
            confine(pool, &all, most);
        }
        end_pool(pool);
    }
    assert_int_equal(reads, 0);
}

/* Workers that a start hook binds to one CPU say nothing of who submits: they may still spin. */
static void bind(weft_worker *self, void *context) {
    (void)self;
    REQUIRE(sched_setaffinity(0, sizeof(cpu_set_t), context) == 0);
}
static void test_bound_by_hook(void **state) {
    (void)state;
    if (!cpus_suffice()) SKIP("it takes two CPUs, and no quota");
    weft_config config = config_of(2);
    config.start = bind;
    config.context = &one;
    weft_pool *pool = make_pool_with(&config);
    for (int i = 0; i < 100; i++) {
        look(pool);
        assert_int_equal(load_rlx(&pool->cpus_allowed), most);
        assert_true(load_rlx(&pool->spin_ticks) > 0);
    }
    confine(pool, &one, 1); /* now the main thread, too */
    confine(pool, &all, most);
    end_pool(pool);
}

/* Once the pool's threads may be joined, nobody asks for their CPUs. */
static void test_no_look_at_the_end(void **state) {
    (void)state;
    weft_config config = config_of(2);
    weft_pool *pool = make_pool_with(&config);
    store_rlx(&pool->fit_due, 0);
    fit_look_slow(pool);
    assert_true(atomic_load(&asked) > 0);
    uint32_t cpus = load_rlx(&pool->cpus_allowed);
    store_rlx(&pool->exits, 1);
    atomic_store(&asked, 0);
    store_rlx(&pool->fit_due, 0);
    fit_look_slow(pool);
    assert_int_equal(atomic_load(&asked), 0);
    assert_int_equal(load_rlx(&pool->cpus_allowed), cpus);
    end_pool(pool);
}

static void test_bound_pools_do_not_look(void **state) {
    (void)state;
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_BIND;
    weft_pool *pool = make_pool_with(&config);
    assert_true(load_rlx(&pool->fit_due) == UINT64_MAX);
    end_pool(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_affinity),
        cmocka_unit_test(test_bound_by_hook),
        cmocka_unit_test(test_no_look_at_the_end),
        cmocka_unit_test(test_bound_pools_do_not_look),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
