/* test_slice.c: the time slices of a pool's threads: who has which, what is told where they are refused, what they cost; and
 * for whom a thread that waits awake gives its CPU away. */
#define _GNU_SOURCE
#include "os_help.h"
#include "pool_help.h"
#include "predict/predict.h"
#include "sched/find.h"
#include "sched/slice.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define LEAST_NS 100000u
#define LONG_NS 20000000u

static atomic_uint sets;
static atomic_int refusal; /* errno value of the calls from now on; 0: the system's */
int __real_os_slice_set(uint64_t slice_ns);
int __wrap_os_slice_set(uint64_t slice_ns);
int __wrap_os_slice_set(uint64_t slice_ns) {
    atomic_fetch_add(&sets, 1);
    return atomic_load(&refusal) != 0 ? atomic_load(&refusal) : __real_os_slice_set(slice_ns);
}
static bool is_old; /* a kernel without slices */
int __real_os_slice_get(uint64_t *slice_ns);
int __wrap_os_slice_get(uint64_t *slice_ns);
int __wrap_os_slice_get(uint64_t *slice_ns) {
    *slice_ns = 0;
    return is_old ? EOPNOTSUPP : __real_os_slice_get(slice_ns);
}
static _Thread_local unsigned given; /* by the thread, not by the pool's own */
void __wrap_os_give_way(void);
void __wrap_os_give_way(void) { given++; }
static uint32_t cpu = OS_NO_CPU; /* the test's own; OS_NO_CPU: the system's */
uint32_t __real_os_cpu(void);
uint32_t __wrap_os_cpu(void);
uint32_t __wrap_os_cpu(void) { return cpu != OS_NO_CPU ? cpu : __real_os_cpu(); }

/* Of the calling thread; 0: it has none. */
static uint64_t own_slice(void) {
    uint64_t slice_ns;
    return __real_os_slice_get(&slice_ns) == 0 ? slice_ns : 0;
}
#define NEED_SLICES()                                                                                                       \
    if (own_slice() == 0) SKIP("the system knows no slices, or refuses them")

/* ---- what workers have -------------------------------------------------------------------------------------------- */

enum { WORKERS = 2 };
static struct {
    uint64_t slice_ns[2 * WORKERS];
    int nice[2 * WORKERS];
    atomic_uint seen;
} sights;

static void look_around(weft_worker *self, void *context) {
    (void)context;
    sights.slice_ns[weft_worker_index(self)] = own_slice();
    sights.nice[weft_worker_index(self)] = getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid));
    atomic_fetch_add(&sights.seen, 1);
}

static weft_pool *pool_of(int64_t slice_ns) {
    weft_config config = config_of(WORKERS);
    config.slice_ns = slice_ns;
    config.start = look_around;
    atomic_store(&sights.seen, 0);
    return make_pool_with(&config);
}

static weft_real_time outcome_of(const weft_pool *pool) {
    weft_real_time outcome = {.struct_size = sizeof outcome};
    REQUIRE(weft_pool_real_time(pool, &outcome) == WEFT_OK);
    return outcome;
}

static void runs_tasks(weft_pool *pool) {
    atomic_uint count = 0;
    weft_group group = WEFT_GROUP_INIT;
    for (int i = 0; i < 100; i++) REQUIRE(submit_count(pool, &group, &count) == WEFT_OK);
    REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
    REQUIRE(count == 100);
}

static void see(int64_t wish_ns, uint64_t slice_ns) {
    uint64_t before_ns = own_slice();
    weft_pool *pool = pool_of(wish_ns);
    assert_int_equal(sights.seen, WORKERS);
    for (int i = 0; i < WORKERS; i++) assert_int_equal(sights.slice_ns[i], slice_ns);
    runs_tasks(pool);
    assert_int_equal(outcome_of(pool).slice_refused, 0);
    assert_int_equal(outcome_of(pool).slice_errno, 0);
    end_pool(pool);
    assert_int_equal(own_slice(), before_ns); /* of who made it, submitted and waited */
}

static void test_wishes(void **state) {
    (void)state;
    NEED_SLICES();
    see(300000, 300000);
    see(100000000, 100000000);
    see(0, min_u64(own_slice(), LEAST_NS));
    see(WEFT_SLICE_NONE, own_slice());
}

/* Those of a task, of a thread and of a process that it makes. */
struct family {
    uint64_t task_ns, thread_ns, process_ns;
};

static void *look_in_thread(void *slice_ns) {
    *(uint64_t *)slice_ns = own_slice();
    return NULL;
}

static int task_with_children(void *payload, weft_worker *self) {
    struct family *family = *(struct family **)payload;
    pthread_t thread;
    int ends[2];
    (void)self;
    family->task_ns = own_slice();
    REQUIRE(pthread_create(&thread, NULL, look_in_thread, &family->thread_ns) == 0 && pthread_join(thread, NULL) == 0);
    REQUIRE(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        uint64_t slice_ns = own_slice();
        _exit(write(ends[1], &slice_ns, sizeof slice_ns) == (ssize_t)sizeof slice_ns ? 0 : 1);
    }
    REQUIRE(child > 0 && waitpid(child, NULL, 0) == child);
    REQUIRE(read(ends[0], &family->process_ns, sizeof family->process_ns) == (ssize_t)sizeof family->process_ns);
    close(ends[0]);
    close(ends[1]);
    return 0;
}

/* Threads and processes that tasks make inherit the slice, as weft.h says. */
static void test_children(void **state) {
    (void)state;
    NEED_SLICES();
    weft_pool *pool = pool_of(300000);
    weft_group group = WEFT_GROUP_INIT;
    struct family family = {0, 0, 0}, *at = &family;
    REQUIRE(weft_submit(pool, &group, task_with_children, &at, sizeof at) == WEFT_OK);
    REQUIRE(weft_group_wait_until(pool, &group, WEFT_HELP_NONE, 0) == WEFT_OK);
    assert_int_equal(family.task_ns, 300000);
    assert_int_equal(family.thread_ns, 300000);
    assert_int_equal(family.process_ns, 300000);
    end_pool(pool);
}

/* An unprivileged thread of the pool may choose its class, as any thread may. */
static atomic_uint chose;
static void choose_class(void) {
    enum { NOBODY = 65534 };
    const struct sched_param none = {0};
    if (geteuid() == 0) REQUIRE(syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY) == 0); /* this thread alone */
    REQUIRE((sched_getscheduler(0) & SCHED_RESET_ON_FORK) == 0);
    REQUIRE(sched_setscheduler(0, SCHED_BATCH, &none) == 0 && sched_setscheduler(0, SCHED_OTHER, &none) == 0);
    REQUIRE(sched_setscheduler(0, SCHED_IDLE, &none) == 0);
    atomic_fetch_add(&chose, 1);
}
static void choose_in_hook(weft_worker *self, void *context) {
    (void)self, (void)context;
    choose_class();
}
static int choose_in_task(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    choose_class();
    return 0;
}

static void test_class_is_free(void **state) {
    (void)state;
    for (int in_hook = 0; in_hook < 2; in_hook++) {
        weft_config config = config_of(1);
        if (in_hook) config.start = choose_in_hook;
        atomic_store(&chose, 0);
        weft_pool *pool = make_pool_with(&config);
        weft_group group = WEFT_GROUP_INIT;
        if (!in_hook) REQUIRE(weft_submit(pool, &group, choose_in_task, NULL, 0) == WEFT_OK);
        REQUIRE(weft_group_wait_until(pool, &group, WEFT_HELP_NONE, 0) == WEFT_OK);
        assert_int_equal(atomic_load(&chose), 1);
        end_pool(pool);
    }
}

/* A pool whose maker has a short slice and is nice to others: neither changes. */
static void *make_in_thread(void *nothing) {
    id_t self = (id_t)syscall(SYS_gettid);
    REQUIRE(__real_os_slice_set(150000) == 0 && setpriority(PRIO_PROCESS, self, 7) == 0);
    weft_pool *pool = pool_of(1000000);
    for (int i = 0; i < WORKERS; i++) REQUIRE(sights.slice_ns[i] == 1000000 && sights.nice[i] == 7);
    end_pool(pool);
    pool = pool_of(WEFT_SLICE_NONE);
    for (int i = 0; i < WORKERS; i++) REQUIRE(sights.slice_ns[i] == 150000 && sights.nice[i] == 7);
    end_pool(pool);
    REQUIRE(own_slice() == 150000);
    return nothing;
}

static void test_makers_own(void **state) {
    (void)state;
    NEED_SLICES();
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, make_in_thread, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* ---- what tasks take ---------------------------------------------------------------------------------------------- */

static void *choose(void *nothing) {
    weft_pool pool = {.ticks_per_us = 1000};
    struct weft_worker seat = {.pool = &pool};
    static const struct {
        uint64_t task_us, slice_us;
    } cases[] = {{0, 100}, {10, 100}, {50, 100}, {51, 200}, {190, 400}, {600, 1500}, {5000, 1500}, {50, 100}, {0, 100}};
    REQUIRE(__real_os_slice_set(1500000) == 0);
    slice_configure(&pool);
    slice_begin(&seat);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        store_rlx(&seat.task_ticks, cases[i].task_us * pool.ticks_per_us);
        for (int turn = 0; turn < 3; turn++) slice_before_sleep(&seat);
        REQUIRE(own_slice() == cases[i].slice_us * 1000);
    }
    unsigned before = atomic_load(&sets);
    for (uint64_t i = 0; i < 1000; i++) { /* what stays about the same costs nothing */
        store_rlx(&seat.task_ticks, (20 + i % 30) * pool.ticks_per_us);
        slice_before_sleep(&seat);
    }
    REQUIRE(atomic_load(&sets) == before);
    return nothing;
}

static void test_choice(void **state) {
    (void)state;
    NEED_SLICES();
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, choose, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static int note_slice(void *payload, weft_worker *self) {
    (void)self;
    **(uint64_t **)payload = own_slice();
    return 0;
}

static void test_background(void **state) {
    (void)state;
    NEED_SLICES();
    weft_config config = config_of(1);
    weft_pool *pool = make_pool_with(&config);
    for (int i = 0; i < 5; i++) {
        uint64_t behind_ns = 0, usual_ns = 0, *behind = &behind_ns, *usual = &usual_ns;
        weft_group background = {.flags = WEFT_GROUP_BACKGROUND}, usual_group = WEFT_GROUP_INIT;
        assert_int_equal(weft_submit(pool, &background, note_slice, &behind, sizeof behind), WEFT_OK);
        assert_int_equal(weft_group_wait_until(pool, &background, WEFT_HELP_NONE, 0), WEFT_OK);
        assert_int_equal(weft_submit(pool, &usual_group, note_slice, &usual, sizeof usual), WEFT_OK);
        assert_int_equal(weft_group_wait_until(pool, &usual_group, WEFT_HELP_NONE, 0), WEFT_OK);
        assert_int_equal(behind_ns, LONG_NS);
        assert_true(usual_ns <= own_slice());
    }
    end_pool(pool);
}

/* ---- what is refused ---------------------------------------------------------------------------------------------- */

static void see_refused(int64_t wish_ns, int error) {
    char text[1024];
    weft_config shown;
    weft_config_init(&shown);
    weft_pool *pool = pool_of(wish_ns);
    weft_real_time outcome = outcome_of(pool);
    assert_int_equal(outcome.slice_refused, WORKERS);
    assert_int_equal(outcome.slice_errno, error);
    assert_int_equal(weft_pool_config(pool, &shown), WEFT_OK);
    assert_true(weft_config_format(&shown, text, sizeof text) > 0);
    assert_true((strstr(text, "refused=slice of 2 workers (") != NULL) == (wish_ns > 0));
    runs_tasks(pool);
    weft_group background = {.flags = WEFT_GROUP_BACKGROUND};
    atomic_uint count = 0;
    assert_int_equal(submit_count(pool, &background, &count), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &background), WEFT_OK);
    assert_int_equal(outcome_of(pool).slice_refused, WORKERS); /* nobody asks again */
    end_pool(pool);
}

static void test_refused(void **state) {
    (void)state;
    is_old = true;
    see_refused(0, EOPNOTSUPP);
    see_refused(200000, EOPNOTSUPP);
    is_old = false;
    NEED_SLICES();
    atomic_store(&refusal, EPERM);
    see_refused(0, EPERM);
    see_refused(200000, EPERM);
    atomic_store(&refusal, 0);
}

static void test_bounds(void **state) {
    (void)state;
    static const int64_t wrong[] = {-2, 1, 99999, 100000001, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weft_config config = config_of(1);
        weft_pool *pool = NULL;
        char text[32];
        config.slice_ns = wrong[i];
        assert_int_equal(weft_pool_create(&pool, &config), WEFT_EINVAL);
        assert_string_equal(weft_config_wrong(&config), "slice_ns");
        config.slice_ns = 0;
        snprintf(text, sizeof text, "%lld", (long long)wrong[i]);
        setenv("WEFT_SLICE_NS", text, 1);
        assert_int_equal(weft_config_from_env(&config), WEFT_EINVAL);
        assert_string_equal(weft_config_wrong(&config), "WEFT_SLICE_NS");
    }
    weft_config config = config_of(1);
    setenv("WEFT_SLICE_NS", "400000", 1);
    assert_int_equal(weft_config_from_env(&config), WEFT_OK);
    assert_int_equal(config.slice_ns, 400000);
    setenv("WEFT_SLICE_NS", "-1", 1);
    assert_int_equal(weft_config_from_env(&config), WEFT_OK);
    assert_int_equal(config.slice_ns, WEFT_SLICE_NONE);
    unsetenv("WEFT_SLICE_NS");
}

/* ---- giving way --------------------------------------------------------------------------------------------------- */

/* A waiter on CPU 1, whose pool has two workers. */
static struct {
    weft_pool pool;
    struct weft_worker waiter, workers[2];
    ATOMIC(struct weft_worker *) seats[2]; /* as the pool has them */
} scene;

static unsigned turns(void) {
    uint32_t turn = 0;
    given = 0;
    for (uint32_t i = 0; i < 10 * OS_TURNS; i++) find_take_turns(&scene.waiter, &turn);
    return given;
}

static void scene_begin(void) {
    memset(&scene, 0, sizeof scene);
    scene.pool = (weft_pool){.seats = (void *)scene.seats, .short_ticks = 1000};
    scene.pool.park.words = 1;
    store_rlx(&scene.pool.workers, 2);
    store_rlx(&scene.pool.from_cpu, 1);
    scene.waiter.pool = &scene.pool;
    for (uint32_t i = 0; i < 2; i++) {
        scene.workers[i] = (struct weft_worker){.pool = &scene.pool, .index = i, .is_worker = true};
        store_rlx(&scene.workers[i].runs_on, 1 + 2 * i); /* CPUs 0 and 2 */
        store_rlx(&scene.seats[i], &scene.workers[i]);
    }
    store_rlx(&scene.workers[0].running, 1);
    cpu = 1;
}

static void test_gives_way(void **state) {
    (void)state;
    scene_begin();
    assert_int_equal(turns(), 0); /* short tasks, on other CPUs: whoever is here is a stranger */
    store_rlx(&scene.workers[0].runs_on, 2);
    assert_int_equal(turns(), 10); /* it may have begun here */
    cpu = 0;
    place_moved(&scene.workers[0]);
    cpu = 1;
    assert_int_equal(turns(), 0); /* it has woken elsewhere */
    place_moved(&scene.workers[0]);
    assert_int_equal(turns(), 10);
    store_rlx(&scene.workers[0].running, 0);
    assert_int_equal(turns(), 0);
    store_rlx(&scene.pool.park.word[0].word, PARK_SEARCHER);
    assert_int_equal(turns(), 10); /* or is about to */
    scene_begin();
    store_rlx(&scene.workers[0].task_ticks, 1000);
    assert_int_equal(turns(), 10); /* tasks are long */
    store_rlx(&scene.workers[0].running, 0);
    assert_int_equal(turns(), 0); /* they were */
    scene.waiter.is_worker = true;
    assert_int_equal(turns(), 10); /* who submits is here */
    cpu = OS_NO_CPU - 1;
    assert_int_equal(turns(), 0);
    cpu = OS_NO_CPU;
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wishes),     cmocka_unit_test(test_makers_own), cmocka_unit_test(test_choice),
        cmocka_unit_test(test_background), cmocka_unit_test(test_refused),    cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_gives_way),  cmocka_unit_test(test_children),   cmocka_unit_test(test_class_is_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
