/* test_faults.c: malloc, os_map and pthread_create fail at the Nth call, for every N that a scenario reaches. Nothing
 * crashes, hangs or leaks; errors are those that weft.h lists. The linker's --wrap sends the library's calls here. */
#define _GNU_SOURCE
#include "pool_help.h"

/* ---- the functions that fail -------------------------------------------------------------------------------------- */

enum wrapped { MALLOC, MAP, THREAD, WRAPPED };

static struct {
    atomic_uint calls;       /* so far in this scenario */
    atomic_uint fail_at;     /* the call that fails, from 1; 0: none */
    atomic_bool and_after;   /* all later ones, too */
    atomic_uint failed;      /* calls that did */
    atomic_long outstanding; /* blocks not yet freed; pages not yet unmapped; threads not yet joined */
} faults[WRAPPED];

static bool fails(enum wrapped which) {
    unsigned call = atomic_fetch_add(&faults[which].calls, 1) + 1, at = atomic_load(&faults[which].fail_at);
    bool now = at != 0 && (call == at || (call > at && atomic_load(&faults[which].and_after)));
    if (now) atomic_fetch_add(&faults[which].failed, 1);
    return now;
}

static void count(enum wrapped which, long change) { atomic_fetch_add(&faults[which].outstanding, change); }

/* The names are the linker's choice. */
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void __real_free(void *memory);
void __wrap_free(void *memory);
void *__real_os_map(size_t bytes);
void *__wrap_os_map(size_t bytes);
void __real_os_unmap(void *memory, size_t bytes);
void __wrap_os_unmap(void *memory, size_t bytes);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*entry)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*entry)(void *), void *argument);
int __real_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result);

void *__wrap_malloc(size_t size) {
    void *memory = fails(MALLOC) ? NULL : __real_malloc(size);
    if (memory == NULL)
        errno = ENOMEM;
    else
        count(MALLOC, 1);
    return memory;
}

void __wrap_free(void *memory) {
    if (memory != NULL) count(MALLOC, -1);
    __real_free(memory);
}

void *__wrap_os_map(size_t bytes) {
    void *memory = fails(MAP) ? NULL : __real_os_map(bytes);
    if (memory != NULL) count(MAP, (long)bytes);
    return memory;
}

void __wrap_os_unmap(void *memory, size_t bytes) {
    count(MAP, -(long)bytes);
    __real_os_unmap(memory, bytes);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*entry)(void *), void *argument) {
    if (fails(THREAD)) return EAGAIN;
    int error = __real_pthread_create(thread, attr, entry, argument);
    if (error == 0) count(THREAD, 1);
    return error;
}

int __wrap_pthread_join(pthread_t thread, void **result) {
    count(THREAD, -1);
    return __real_pthread_join(thread, result);
}

static void arm(enum wrapped which, unsigned at, bool and_after) {
    for (int i = 0; i < WRAPPED; i++) {
        atomic_store(&faults[i].calls, 0);
        atomic_store(&faults[i].failed, 0);
        atomic_store(&faults[i].fail_at, 0);
    }
    atomic_store(&faults[which].and_after, and_after);
    atomic_store(&faults[which].fail_at, at);
}

static void disarm(void) {
    for (int i = 0; i < WRAPPED; i++) atomic_store(&faults[i].fail_at, 0);
}

static void check_nothing_left(const long *before, const char *where, unsigned at) {
    static const char *const names[] = {"blocks", "bytes mapped", "threads"};
    for (int i = 0; i < WRAPPED; i++) {
        long left = atomic_load(&faults[i].outstanding) - before[i];
        if (left != 0) fail_msg("%s, call %u fails: %ld %s left", where, at, left, names[i]);
    }
}

static void note_outstanding(long *before) {
    for (int i = 0; i < WRAPPED; i++) before[i] = atomic_load(&faults[i].outstanding);
}

/* ---- scenarios ---------------------------------------------------------------------------------------------------- */

static bool is_shortage(int error) { return error == WEFT_ENOMEM || error == WEFT_EAGAIN; }

static atomic_uint cleaned;

static void count_clean(void *payload, size_t size, void *context) {
    REQUIRE(payload != NULL && size >= sizeof(atomic_uint *));
    (void)context;
    atomic_fetch_add(&cleaned, 1);
}

/* Submits tasks of several sizes; returns how many were accepted. */
static unsigned submit_sizes(weft_pool *pool, weft_group *group, atomic_uint *counter, unsigned tasks) {
    static const size_t sizes[] = {sizeof(void *), 100, 416, WEFT_INLINE_MAX, WEFT_INLINE_MAX + 1, 5000};
    unsigned accepted = 0;
    for (unsigned i = 0; i < tasks; i++) {
        unsigned char payload[5000] = {0};
        memcpy(payload, &counter, sizeof counter);
        int error = weft_submit(pool, group, count_task, payload, sizes[i % 6]);
        REQUIRE(error == WEFT_OK || is_shortage(error));
        accepted += error == WEFT_OK;
    }
    return accepted;
}

typedef struct nested {
    atomic_uint *counter;
    atomic_uint *accepted;
} nested;

static int nested_task(void *payload, weft_worker *self) {
    const nested *n = payload;
    weft_group group = WEFT_GROUP_INIT;
    unsigned accepted = submit_sizes(weft_worker_pool(self), &group, n->counter, 12);
    REQUIRE(weft_wait(weft_worker_pool(self), &group) == WEFT_OK);
    atomic_fetch_add(n->accepted, accepted);
    int error = weft_block_begin(self);
    REQUIRE(error == WEFT_OK || error == WEFT_EAGAIN);
    REQUIRE(weft_block_end(self) == WEFT_OK);
    return 0;
}

typedef struct outsider {
    weft_pool *pool;
    atomic_uint *counter;
    unsigned accepted;
} outsider;

static void *outsider_thread(void *argument) {
    outsider *o = argument;
    weft_group group = WEFT_GROUP_INIT;
    o->accepted = submit_sizes(o->pool, &group, o->counter, 12);
    int error = weft_wait(o->pool, &group);
    REQUIRE(error == WEFT_OK || is_shortage(error));
    while (atomic_load(o->counter) < o->accepted) /* should the wait have found no memory to wait with */
        sched_yield();
    return NULL;
}

/* More open forks than one segment of places holds: without memory for the next they are run by their joins. */
static unsigned leaf(weft_place *here, unsigned number) {
    (void)here;
    return number;
}
WEFT_FORK(leaf, unsigned, unsigned)

static unsigned row(weft_place *here, unsigned length) {
    if (length == 0) return 0;
    weft_place *deeper = leaf_fork(here, &length);
    unsigned rest = row(deeper, length - 1);
    return leaf_join(here, &length) + rest;
}

static void use_forks(weft_pool *pool) {
    enum { LENGTH = 700 };
    weft_place *here;
    int error = weft_enter(pool, &here);
    if (error != WEFT_OK) {
        REQUIRE(is_shortage(error) && here == NULL);
        return;
    }
    for (int i = 0; i < 2; i++) REQUIRE(row(here, LENGTH) == LENGTH * (LENGTH + 1) / 2);
    weft_leave(here);
}

/* Many outstanding tasks, nested ones, another thread, a cancelled group, then the end. */
static void use_pool(weft_pool *pool, bool abort) {
    atomic_uint counter = 0, below = 0, below_accepted = 0, outside = 0;
    weft_group group = WEFT_GROUP_INIT, cancelled = WEFT_GROUP_INIT;
    const nested n = {&below, &below_accepted};
    unsigned accepted = submit_sizes(pool, &group, &counter, 600);
    for (int i = 0; i < 4; i++) {
        int error = weft_submit(pool, &group, nested_task, &n, sizeof n);
        REQUIRE(error == WEFT_OK || is_shortage(error));
    }
    outsider o = {pool, &outside, 0};
    pthread_t thread;
    REQUIRE(__real_pthread_create(&thread, NULL, outsider_thread, &o) == 0);
    REQUIRE(__real_pthread_join(thread, NULL) == 0);
    REQUIRE(weft_wait(pool, &group) == WEFT_OK);
    REQUIRE(atomic_load(&counter) == accepted);
    REQUIRE(atomic_load(&below) == atomic_load(&below_accepted));
    REQUIRE(atomic_load(&outside) == o.accepted);
    use_forks(pool);
    atomic_store(&counter, 0);
    atomic_store(&cleaned, 0);
    accepted = submit_sizes(pool, &cancelled, &counter, 60);
    int error = weft_cancel(pool, &cancelled);
    REQUIRE(error == WEFT_OK || is_shortage(error));
    accepted += submit_sizes(pool, NULL, &counter, 60);
    if (abort) {
        REQUIRE(weft_pool_abort(&pool, count_clean, NULL) == WEFT_OK);
    } else {
        error = weft_wait(pool, &cancelled);
        REQUIRE(error == WEFT_OK || error == WEFT_ECANCELED);
        REQUIRE(weft_pool_destroy(&pool) == WEFT_OK);
    }
    REQUIRE(pool == NULL);
    REQUIRE(atomic_load(&counter) + atomic_load(&cleaned) == accepted);
}

/* One life of a pool, in a thread of its own: its end frees what weft keeps for a thread. */
typedef struct life {
    uint32_t workers;
    bool abort;
    int error; /* of create */
    uint32_t workers_made;
} life;

static const char *observed_to; /* pools are watched, and write what they have done to this file; or NULL */

static void *live_thread(void *argument) {
    life *l = argument;
    weft_pool *pool = NULL;
    weft_config config = config_of(l->workers);
    config.clean = count_clean;
    config.name = "faulty";
    config.stack_size = 65536;
    config.trace = config.stats = observed_to;
    config.trace_events = 64;
    config.watchdog_ns = observed_to == NULL ? 0 : 3600000000000;
    l->error = weft_pool_create(&pool, &config);
    if (l->error != WEFT_OK) {
        REQUIRE(is_shortage(l->error));
        REQUIRE(pool == NULL);
        return NULL;
    }
    l->workers_made = weft_pool_workers(pool);
    REQUIRE(l->workers_made >= 1 && l->workers_made <= l->workers);
    use_pool(pool, l->abort);
    return NULL;
}

static life live(uint32_t workers, bool abort) {
    life l = {.workers = workers, .abort = abort};
    pthread_t thread;
    REQUIRE(__real_pthread_create(&thread, NULL, live_thread, &l) == 0);
    REQUIRE(__real_pthread_join(thread, NULL) == 0);
    return l;
}

static void sweep(enum wrapped which, bool and_after, const char *name) {
    long before[WRAPPED];
    arm(which, 0, false);
    live(3, false); /* what is made once and kept */
    note_outstanding(before);
    for (unsigned at = 1;; at++) {
        arm(which, at, and_after);
        life l = live(3, at % 2 == 0);
        bool struck = atomic_load(&faults[which].failed) != 0;
        disarm();
        check_nothing_left(before, name, at);
        if (!struck) {
            assert_int_equal(l.error, WEFT_OK);
            printf("%s%s: %u calls made to fail\n", name, and_after ? " and all after" : "", at - 1);
            assert_true(at > 1); /* the wrapper was in the way */
            break;
        }
    }
}

static void test_malloc_fails(void **state) {
    (void)state;
    sweep(MALLOC, false, "malloc");
}

static void test_malloc_fails_from_then_on(void **state) {
    (void)state;
    sweep(MALLOC, true, "malloc");
}

static void test_map_fails(void **state) {
    (void)state;
    sweep(MAP, false, "os_map");
}

static void test_map_fails_from_then_on(void **state) {
    (void)state;
    sweep(MAP, true, "os_map");
}

static void test_thread_fails(void **state) {
    (void)state;
    sweep(THREAD, false, "pthread_create");
}

static void test_observed_pool(void **state) {
    (void)state;
    observed_to = "/dev/null";
    sweep(MALLOC, false, "observed, malloc");
    sweep(MAP, false, "observed, os_map");
    sweep(THREAD, false, "observed, pthread_create");
    sweep(THREAD, true, "observed, pthread_create");
    observed_to = NULL;
}

/* "When only some could, the pool runs with those." */
static void test_threads_run_out(void **state) {
    (void)state;
    enum { WORKERS = 6 };
    long before[WRAPPED];
    arm(THREAD, 0, false);
    live(WORKERS, false);
    note_outstanding(before);
    for (unsigned at = 1; at <= WORKERS + 1; at++) {
        arm(THREAD, at, true);
        life l = live(WORKERS, false);
        disarm();
        assert_int_equal(l.error, at == 1 ? WEFT_EAGAIN : WEFT_OK);
        assert_int_equal(l.workers_made, at - 1);
        check_nothing_left(before, "threads run out", at);
    }
}

/* A task that blocks while no spare can be started still goes on. */
static int block_task(void *payload, weft_worker *self) {
    atomic_uint *refused = *(atomic_uint **)payload;
    int error = weft_block_begin(self);
    REQUIRE(error == WEFT_EAGAIN || error == WEFT_OK);
    if (error == WEFT_EAGAIN) atomic_fetch_add(refused, 1);
    REQUIRE(weft_block_end(self) == WEFT_OK);
    return 0;
}

static void test_no_spare_to_be_had(void **state) {
    (void)state;
    weft_config config = config_of(1);
    config.flags = WEFT_NO_HELP;
    weft_pool *pool = make_pool_with(&config);
    atomic_uint refused = 0, *pointer = &refused;
    arm(THREAD, 1, true);
    for (int i = 0; i < 20; i++) assert_int_equal(weft_submit(pool, NULL, block_task, &pointer, sizeof pointer), WEFT_OK);
    assert_int_equal(weft_wait(pool, NULL), WEFT_OK);
    unsigned spares = stats_of(pool).spares_started;
    disarm();
    assert_true(spares == 0 ? atomic_load(&refused) == 20 : spares == 1); /* or the spare was started ahead */
    end_pool(pool);
}

/* An empty pool costs nothing that grows with use: as many tasks again leave memory where it was. */
static void test_no_allocation_per_task(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    unsigned early = 0;
    for (int round = 0; round < 20; round++) {
        weft_group group = WEFT_GROUP_INIT;
        atomic_uint counter = 0, *pointer = &counter;
        unsigned char payload[416] = {0};
        memcpy(payload, &pointer, sizeof pointer);
        arm(MALLOC, 0, false);
        for (int i = 0; i < 500; i++)
            assert_int_equal(weft_submit(pool, &group, count_task, payload, sizeof payload), WEFT_OK);
        assert_int_equal(weft_wait(pool, &group), WEFT_OK);
        assert_int_equal(atomic_load(&counter), 500);
        if (round >= 10) early += atomic_load(&faults[MALLOC].calls) + atomic_load(&faults[MAP].calls);
    }
    assert_int_equal(early, 0);
    end_pool(pool);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_malloc_fails),
        cmocka_unit_test(test_malloc_fails_from_then_on),
        cmocka_unit_test(test_map_fails),
        cmocka_unit_test(test_map_fails_from_then_on),
        cmocka_unit_test(test_thread_fails),
        cmocka_unit_test(test_threads_run_out),
        cmocka_unit_test(test_observed_pool),
        cmocka_unit_test(test_no_spare_to_be_had),
        cmocka_unit_test(test_no_allocation_per_task),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
