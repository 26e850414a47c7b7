/* test_fit.c: how many workers run: by hand, as the CPUs of the affinity change, as the cgroup's quota changes; while tasks run, of which none
 * is lost. WEFT_TEST_CHANGES=n: so many changes of quota and affinity, at the pool's own looks each half second. */
#define _GNU_SOURCE
#include "os_help.h"
#include "pool_help.h"
#include "front.h"

#include <dirent.h>
#include <sys/stat.h>

/* ---- a machine of the test's own ---------------------------------------------------------------------------------- */

static atomic_uint cpus; /* 0: the system's */
static unsigned online;  /* likewise */
unsigned __real_os_cpu_count(void);
unsigned __wrap_os_cpu_count(void);
unsigned __wrap_os_cpu_count(void) { return atomic_load(&cpus) != 0 ? atomic_load(&cpus) : __real_os_cpu_count(); }
unsigned __real_os_cpu_count_lately(void);
unsigned __wrap_os_cpu_count_lately(void);
unsigned __wrap_os_cpu_count_lately(void) {
    return atomic_load(&cpus) != 0 ? atomic_load(&cpus) : __real_os_cpu_count_lately();
}
unsigned __real_os_cpu_count_now(unsigned allowed);
unsigned __wrap_os_cpu_count_now(unsigned allowed);
static atomic_bool is_secret; /* the system does not tell */
static _Thread_local bool has_counted;
unsigned __wrap_os_cpu_count_now(unsigned allowed) {
    has_counted = true;
    unsigned own = atomic_load(&cpus); /* as it was before it became secret */
    if (atomic_load(&is_secret)) return 0;
    return own != 0 ? own : __real_os_cpu_count_now(allowed);
}
/* Looks that began after the last change and have ended, since one ended that began before; and how many there are now. */
static atomic_uint changes, whole_looks, looks_now, all_looks;
void __real_fit_look_slow(weft_pool *pool);
void __wrap_fit_look_slow(weft_pool *pool);
void __wrap_fit_look_slow(weft_pool *pool) {
    atomic_fetch_add(&looks_now, 1);
    atomic_fetch_add(&all_looks, 1);
    unsigned at = atomic_load(&changes);
    has_counted = false;
    __real_fit_look_slow(pool);
    if (has_counted) { /* else it was another thread's */
        if (at == atomic_load(&changes))
            atomic_fetch_add(&whole_looks, 1);
        else
            atomic_store(&whole_looks, 0);
    }
    atomic_fetch_sub(&looks_now, 1);
}

unsigned __real_os_cpus_online(void);
unsigned __wrap_os_cpus_online(void);
unsigned __wrap_os_cpus_online(void) { return online != 0 ? online : __real_os_cpus_online(); }
int __real_os_thread_start(os_thread *thread, const os_thread_options *options, void (*entry)(void *), void *argument);
int __wrap_os_thread_start(os_thread *thread, const os_thread_options *options, void (*entry)(void *), void *argument);
static atomic_bool no_threads;
int __wrap_os_thread_start(os_thread *thread, const os_thread_options *options, void (*entry)(void *), void *argument) {
    return atomic_load(&no_threads) ? EAGAIN : __real_os_thread_start(thread, options, entry, argument);
}

/* Where each thread is, as the system tells: every wake seems to come from there, so that sleepers keep off that CPU. 0: the truth. */
static atomic_uint everybody_on;
uint32_t __real_os_cpu(void);
uint32_t __wrap_os_cpu(void);
uint32_t __wrap_os_cpu(void) { return atomic_load(&everybody_on) != 0 ? atomic_load(&everybody_on) - 1 : __real_os_cpu(); }

/* How often a thread took from itself the CPU where everybody seems to be, and how often no worker of the pool had said so. */
static weft_pool *_Atomic watched;
static atomic_uint narrowed, untold;
bool __real_os_cpuset_apply(const os_cpuset *set);
bool __wrap_os_cpuset_apply(const os_cpuset *set);
bool __wrap_os_cpuset_apply(const os_cpuset *set) {
    weft_pool *pool = atomic_load(&watched);
    if (pool == NULL || os_cpuset_has(set, atomic_load(&everybody_on) - 1)) return __real_os_cpuset_apply(set);
    bool is_told = false;
    for (uint32_t i = 0; i < weft_pool_workers(pool); i++) {
        uint32_t kept_off = (uint32_t)load_rlx(&load_rlx(&pool->seats[i])->kept_off);
        is_told |= kept_off == FIT_UNSURE + 1 || kept_off == atomic_load(&everybody_on);
    }
    atomic_fetch_add(&untold, !is_told);
    atomic_fetch_add(&narrowed, 1);
    return __real_os_cpuset_apply(set);
}

static weft_pool *pool_with(unsigned now, unsigned most, int expect_percent) {
    atomic_store(&cpus, now);
    online = most;
    weft_config config;
    REQUIRE(weft_config_init(&config) == WEFT_OK);
    config.flags = WEFT_POOL_NO_HELP;
    config.expect_percent = expect_percent;
    weft_pool *pool = make_pool_with(&config);
    if (pool->is_fitted) pool->fit_ticks = 20 * pool->ticks_per_us; /* a thousand changes are to take seconds */
    if (pool->is_fitted) store_rlx(&pool->fit_due, 0);
    return pool;
}

static weft_pool *pool_of(unsigned now, unsigned most) { return pool_with(now, most, 0); }

/* Does no worker run tasks that is to rest? */
static bool others_rest(const weft_pool *pool) {
    for (uint32_t i = weft_pool_workers(pool); i < pool->workers_max; i++) {
        const struct weft_worker *seat = load_rlx(&pool->seats[i]);
        if (load_rlx(&seat->running) != 0) return false;
    }
    return true;
}

/* ---- a load ------------------------------------------------------------------------------------------------------- */

static struct {
    weft_pool *pool;
    atomic_bool ends;
    atomic_ullong submitted, run;
} load;

static int work(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    for (int i = 0; i < 500; i++) os_pause();
    atomic_fetch_add(&load.run, 1);
    return 0;
}

static void *submit_on(void *nothing) {
    weft_group group = WEFT_GROUP_INIT;
    while (!atomic_load(&load.ends)) {
        for (int i = 0; i < 32; i++) {
            REQUIRE(weft_submit(load.pool, &group, work, NULL, 0) == WEFT_OK);
            atomic_fetch_add(&load.submitted, 1);
        }
        REQUIRE(weft_group_wait(load.pool, &group) == WEFT_OK);
    }
    return nothing;
}

static pthread_t load_begin(weft_pool *pool) {
    pthread_t thread;
    load.pool = pool;
    atomic_store(&load.ends, false);
    atomic_store(&load.submitted, 0);
    atomic_store(&load.run, 0);
    REQUIRE(pthread_create(&thread, NULL, submit_on, NULL) == 0);
    return thread;
}

static void load_end(pthread_t thread) {
    atomic_store(&load.ends, true);
    REQUIRE(pthread_join(thread, NULL) == 0);
    REQUIRE(atomic_load(&load.submitted) == atomic_load(&load.run));
}

/* The time limit of the whole test is the watchdog. */
static void until_there_are(const weft_pool *pool, unsigned workers) {
    while (weft_pool_workers(pool) != workers || !others_rest(pool)) usleep(20);
}

/* ---- by hand ------------------------------------------------------------------------------------------------------ */

static void test_by_hand(void **state) {
    (void)state;
    weft_config config = config_of(4);
    weft_pool *pool = make_pool_with(&config);
    pthread_t thread = load_begin(pool);
    for (unsigned i = 0; i < 400; i++) {
        unsigned workers = 1 + i * 7 % 4;
        assert_int_equal(weft_pool_resize(pool, workers), WEFT_OK);
        assert_int_equal(weft_pool_workers(pool), workers);
        until_there_are(pool, workers);
    }
    assert_int_equal(weft_pool_resize(pool, 5), WEFT_EINVAL);
    assert_int_equal(weft_pool_resize(pool, 0), WEFT_EINVAL); /* it was made for four */
    assert_int_equal(weft_pool_resize(NULL, 1), WEFT_EINVAL);
    load_end(thread);
    end_pool(pool);
}

/* As many as there are: nobody is woken. */
static void test_same_number(void **state) {
    enum { WORKERS = 3 };
    (void)state;
    weft_config config = config_of(WORKERS);
    weft_pool *pool = make_pool_with(&config);
    atomic_uint counter = 0;
    assert_int_equal(submit_count(pool, NULL, &counter), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
    while (park_look(&pool->park).parked != WORKERS) usleep(20);
    uint64_t sent[WORKERS];
    for (unsigned i = 0; i < WORKERS; i++) sent[i] = load_rlx(&pool->park.slots[i].sent_ticks);
    assert_int_equal(weft_pool_resize(pool, WORKERS), WEFT_OK);
    for (unsigned i = 0; i < WORKERS; i++) assert_int_equal(load_rlx(&pool->park.slots[i].sent_ticks), sent[i]);
    end_pool(pool);
}

/* A resting worker's queue is not forgotten, nor one at rest when the pool ends. */
static int submit_more(void *payload, weft_worker *self) {
    atomic_uint *count = *(atomic_uint **)payload;
    weft_group *group = ((weft_group **)payload)[1];
    for (int i = 0; i < 100; i++) REQUIRE(submit_count(weft_worker_pool(self), group, count) == WEFT_OK);
    REQUIRE(weft_pool_resize(weft_worker_pool(self), 1) == WEFT_OK);
    return 0;
}
static void test_inside(void **state) {
    (void)state;
    for (int i = 0; i < 50; i++) {
        weft_config config = config_of(3);
        weft_pool *pool = make_pool_with(&config);
        atomic_uint count = 0;
        weft_group group = WEFT_GROUP_INIT, all = WEFT_GROUP_INIT;
        void *payload[2] = {&count, &all};
        for (int k = 0; k < 3; k++)
            assert_int_equal(weft_submit(pool, &group, submit_more, payload, sizeof payload), WEFT_OK);
        assert_int_equal(weft_group_wait_until(pool, &group, WEFT_HELP_NONE, 0), WEFT_OK);
        assert_int_equal(weft_group_wait_until(pool, &all, WEFT_HELP_NONE, 0), WEFT_OK);
        assert_int_equal(count, 300);
        end_pool(pool);
    }
}

/* A pool that ends keeps what it has: a task that asks for more workers then is told that there are fewer. */
struct late {
    weft_pool *pool;
    atomic_bool is_in;
    int result;
};
static int resize_late(void *payload, weft_worker *self) {
    struct late *late = *(struct late **)payload;
    (void)self;
    atomic_store(&late->is_in, true);
    while (!load_rlx(&late->pool->closed)) nap();
    late->result = weft_pool_resize(late->pool, 3);
    return 0;
}
static void test_none_while_it_ends(void **state) {
    (void)state;
    weft_config config = config_of(3);
    weft_pool *pool = make_pool_with(&config);
    struct late late = {.pool = pool}, *payload = &late;
    assert_int_equal(weft_pool_resize(pool, 1), WEFT_OK);
    assert_int_equal(weft_submit(pool, NULL, resize_late, &payload, sizeof payload), WEFT_OK);
    while (!atomic_load(&late.is_in)) nap();
    end_pool(pool);
    assert_int_equal(late.result, WEFT_EAGAIN);
}

/* ---- as CPUs come and go ------------------------------------------------------------------------------------------ */

static void test_thousand_changes(void **state) {
    (void)state;
    enum { CHANGES = 1000, MOST = 4 };
    weft_pool *pool = pool_of(1, MOST);
    assert_int_equal(weft_pool_workers(pool), 1);
    pthread_t thread = load_begin(pool);
    unsigned now = 1;
    for (int i = 0; i < CHANGES; i++) {
        unsigned wanted = 1 + (now + 1 + (unsigned)i % (MOST - 1)) % MOST;
        atomic_store(&cpus, wanted);
        until_there_are(pool, wanted);
        now = wanted;
    }
    atomic_store(&cpus, 7); /* never more than there are seats */
    until_there_are(pool, MOST);
    load_end(thread);
    assert_int_equal(pool->workers_made, MOST);
    end_pool(pool);
}

/* Where nobody has said how many: as many spares as workers, half as many background tasks. */
static void check_shares(const weft_pool *pool, unsigned spares, unsigned background_max) {
    weft_config config;
    REQUIRE(weft_config_init(&config) == WEFT_OK && weft_pool_config(pool, &config) == WEFT_OK);
    assert_int_equal(config.spares, spares);
    assert_int_equal(config.background_max, background_max);
}

struct meeting {
    weft_group group;
    atomic_uint begun;
    unsigned all;
};
static int meet_blocked(void *payload, weft_worker *self) {
    struct meeting *meeting = *(struct meeting **)payload;
    (void)weft_block_begin(self);
    atomic_fetch_add(&meeting->begun, 1);
    while (meeting->begun < meeting->all) nap();
    return weft_block_end(self);
}
static int meet(void *payload, weft_worker *self) {
    (void)self;
    struct meeting *meeting = *(struct meeting **)payload;
    atomic_fetch_add(&meeting->begun, 1);
    while (meeting->begun < meeting->all) nap();
    return 0;
}
/* So many of these tasks run at once. */
static void check_meeting(weft_pool *pool, weft_fn fn, uint32_t flags, unsigned all) {
    struct meeting meeting = {.group.flags = flags, .all = all}, *payload = &meeting;
    for (unsigned i = 0; i < all; i++)
        assert_int_equal(weft_submit(pool, &meeting.group, fn, &payload, sizeof payload), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &meeting.group), WEFT_OK);
}

static void test_shares_follow(void **state) {
    (void)state;
    weft_pool *pool = pool_of(1, 6);
    check_shares(pool, 1, 1);
    assert_int_equal(weft_pool_resize(pool, 6), WEFT_OK);
    check_shares(pool, 6, 3);
    check_meeting(pool, meet_blocked, 0, 12); /* as many workers and as many spares */
    check_meeting(pool, meet, WEFT_GROUP_BACKGROUND, 3);
    assert_int_equal(weft_pool_resize(pool, 2), WEFT_OK);
    check_shares(pool, 2, 1);
    assert_int_equal(weft_pool_resize(pool, 6), WEFT_OK);
    check_meeting(pool, meet_blocked, 0, 12);
    check_meeting(pool, meet, WEFT_GROUP_BACKGROUND, 3);
    end_pool(pool);
    weft_config config = config_of(4);
    config.spares = 3;
    config.background_max = 1;
    pool = make_pool_with(&config);
    assert_int_equal(weft_pool_resize(pool, 1), WEFT_OK);
    check_shares(pool, 3, 1);
    assert_int_equal(weft_pool_resize(pool, 4), WEFT_OK);
    check_shares(pool, 3, 1);
    end_pool(pool);
    config = config_of(8);
    pool = make_pool_with(&config);
    check_shares(pool, 8, 4);
    assert_int_equal(weft_pool_resize(pool, 2), WEFT_OK);
    check_shares(pool, 8, 1);
    end_pool(pool);
}

/* What depends on the CPUs follows, too; by hand ends it; 0 begins anew. */
static void test_what_follows(void **state) {
    (void)state;
    weft_pool *pool = pool_of(1, 4);
    assert_int_equal(load_rlx(&pool->expect_percent), 0);
    pthread_t thread = load_begin(pool);
    atomic_store(&cpus, 3);
    until_there_are(pool, 3);
    assert_int_equal(load_rlx(&pool->cpu_count), 3);
    assert_true(load_rlx(&pool->expect_percent) > 0);
    assert_int_equal(weft_pool_resize(pool, 2), WEFT_OK);
    atomic_store(&cpus, 4);
    uint64_t ran = atomic_load(&load.run);
    while (atomic_load(&load.run) < ran + 2000) usleep(100);
    assert_int_equal(weft_pool_workers(pool), 2);
    assert_int_equal(weft_pool_resize(pool, 0), WEFT_OK);
    until_there_are(pool, 4);
    atomic_store(&is_secret, true); /* then it stays what it was */
    atomic_store(&cpus, 1);
    ran = atomic_load(&load.run);
    while (atomic_load(&load.run) < ran + 2000) usleep(100);
    assert_int_equal(weft_pool_workers(pool), 4);
    atomic_store(&is_secret, false);
    until_there_are(pool, 1);
    load_end(thread);
    end_pool(pool);
}

/* The only worker's task lasts until others have run: a resting worker sees that there are more CPUs. */
static void test_long_task(void **state) {
    enum { TASKS = 20 };
    (void)state;
    atomic_uint counter = 0;
    weft_group group = WEFT_GROUP_INIT;
    gate g;
    weft_pool *pool = pool_of(2, 2);
    pthread_t thread = load_begin(pool);
    atomic_store(&cpus, 1);
    until_there_are(pool, 1);
    load_end(thread);
    gate_occupy(&g, pool, &group);
    atomic_store(&cpus, 2);
    for (int i = 0; i < TASKS; i++) assert_int_equal(submit_count(pool, &group, &counter), WEFT_OK);
    while (atomic_load(&counter) < TASKS) nap();
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    end_pool(pool);
}

/* Tasks so short that they are claimed as tiny ones, one after the other: the workers look now and then all the same. */
enum { LINKS = 100000 };
static int next_link(void *payload, weft_worker *self) {
    uint32_t left = *(uint32_t *)payload - 1;
    return left == 0 ? WEFT_OK : weft_submit_child(self, next_link, &left, sizeof left);
}
static void test_tiny_tasks(void **state) {
    (void)state;
    uint32_t left = LINKS;
    weft_group group = WEFT_GROUP_INIT;
    weft_pool *pool = pool_of(2, 2);
    pool->fit_ticks = 0; /* a look is always due */
    store_rlx(&pool->fit_due, 0);
    atomic_store(&all_looks, 0);
    assert_int_equal(weft_submit(pool, &group, next_link, &left, sizeof left), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    assert_true(atomic_load(&all_looks) > LINKS / 16);
    end_pool(pool);
}

/* No thread can be started: it goes on with those that it has. */
static void test_no_threads(void **state) {
    (void)state;
    weft_pool *pool = pool_of(2, 4);
    pthread_t thread = load_begin(pool);
    atomic_store(&no_threads, true);
    atomic_store(&cpus, 4);
    while (load_rlx(&pool->cpu_count) != 4) usleep(20);
    assert_int_equal(weft_pool_workers(pool), 2);
    assert_int_equal(weft_pool_resize(pool, 3), WEFT_EAGAIN);
    assert_int_equal(weft_pool_workers(pool), 2);
    atomic_store(&no_threads, false);
    assert_int_equal(weft_pool_resize(pool, 3), WEFT_OK);
    until_there_are(pool, 3);
    load_end(thread);
    end_pool(pool);
}

/* ---- the system's own --------------------------------------------------------------------------------------------- */

/* As `taskset -a -p`: of every thread of the process. */
static void affinity_of_all(const cpu_set_t *set) {
    DIR *folder = opendir("/proc/self/task");
    REQUIRE(folder != NULL);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.') (void)sched_setaffinity((pid_t)strtol(entry->d_name, NULL, 10), sizeof *set, set);
    closedir(folder);
}

/* A change is lost that comes between a worker's reading and setting of its own affinity (predict/affinity.c), as docs/ says: then it is made
 * once more. */
static void confine_all(const weft_pool *pool, const cpu_set_t *set, unsigned workers) {
    for (unsigned looks = 0; weft_pool_workers(pool) != workers || !others_rest(pool); looks++) {
        if (looks % 100000 == 0) affinity_of_all(set);
        usleep(20);
    }
}

static void test_affinity(void **state) {
    (void)state;
    cpu_set_t all, one;
    REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
    unsigned most = __real_os_cpu_count();
    if (most < 2) SKIP("it takes two CPUs");
    CPU_ZERO(&one);
    for (size_t i = 0; CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
    weft_pool *pool = pool_of(0, 0);
    pthread_t thread = load_begin(pool);
    for (int i = 0; i < 20; i++) {
        confine_all(pool, &one, 1);
        confine_all(pool, &all, most);
    }
    load_end(thread);
    end_pool(pool);
}

static void pin(const cpu_set_t *set) { REQUIRE(sched_setaffinity(0, sizeof *set, set) == 0); }
static int pin_task(void *payload, weft_worker *self) {
    (void)self;
    pin(*(cpu_set_t **)payload);
    return 0;
}
static int short_task(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    return 0;
}

static void workers_stay(weft_pool *pool, weft_group *group, unsigned count) {
    for (int i = 0; i < 3000; i++) { /* a look each 20 us */
        assert_int_equal(weft_submit(pool, group, short_task, NULL, 0), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, group), WEFT_OK);
        assert_int_equal(weft_pool_workers(pool), count);
    }
}

static void first_and_last(cpu_set_t *all, size_t *first, cpu_set_t *last) {
    REQUIRE(sched_getaffinity(0, sizeof *all, all) == 0);
    size_t highest = CPU_SETSIZE;
    for (*first = 0; !CPU_ISSET(*first, all); ++*first) {}
    while (!CPU_ISSET(--highest, all)) {}
    CPU_ZERO(last);
    CPU_SET(highest, last);
}

/* A task that keeps its thread to a CPU says nothing of the pool's. */
static void test_one_worker_is_pinned(void **state) {
    (void)state;
    cpu_set_t all, last, *payload = &last;
    size_t first;
    unsigned most = __real_os_cpu_count();
    if (most < 2) SKIP("it takes two CPUs");
    first_and_last(&all, &first, &last);
    weft_pool *pool = pool_of(0, 0);
    weft_group group = WEFT_GROUP_INIT;
    assert_int_equal(weft_submit(pool, &group, pin_task, &payload, sizeof(void *)), WEFT_OK);
    workers_stay(pool, &group, most);
    end_pool(pool);
}

/* Worker by worker: all but the last are pinned, as by a user; that one lacks the first CPU, as in a sleep that keeps off it. */
static struct {
    atomic_uint arrived, open;
    size_t first;
    cpu_set_t all, last;
} meeting;
static int meeting_task(void *payload, weft_worker *self) {
    (void)payload;
    unsigned place = atomic_fetch_add(&meeting.arrived, 1), most = weft_pool_workers(weft_worker_pool(self));
    while (atomic_load(&meeting.arrived) < most) usleep(100);
    if (place + 1 < most) {
        pin(&meeting.last);
        return 0;
    }
    cpu_set_t but_first = meeting.all;
    CPU_CLR(meeting.first, &but_first);
    fit_keep_off(self, (uint32_t)meeting.first);
    pin(&but_first);
    while (!atomic_load(&meeting.open)) usleep(100);
    pin(&meeting.all);
    fit_keep_off(self, OS_NO_CPU);
    return 0;
}

static void test_sleeper_keeps_off(void **state) {
    (void)state;
    unsigned most = __real_os_cpu_count();
    if (most < 2) SKIP("it takes two CPUs");
    first_and_last(&meeting.all, &meeting.first, &meeting.last);
    weft_pool *pool = pool_of(0, 0);
    weft_group group = WEFT_GROUP_INIT, shorts = WEFT_GROUP_INIT;
    for (unsigned i = 0; i < most; i++) assert_int_equal(weft_submit(pool, &group, meeting_task, NULL, 0), WEFT_OK);
    workers_stay(pool, &shorts, most);
    atomic_store(&meeting.open, 1);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    end_pool(pool);
}

/* Whoever narrows its affinity has told. */
static void test_keeping_off_is_told(void **state) {
    (void)state;
    if (__real_os_cpu_count() < 2) SKIP("it takes two CPUs");
    cpu_set_t all, last;
    size_t first;
    first_and_last(&all, &first, &last);
    atomic_store(&everybody_on, (unsigned)first + 1);
    weft_pool *pool = pool_with(0, 0, WEFT_EXPECT_NONE); /* no sleep ends by the clock */
    atomic_store(&watched, pool);
    weft_group group = WEFT_GROUP_INIT;
    for (int i = 0; i < 10000 && atomic_load(&narrowed) < 100; i++) {
        assert_int_equal(weft_submit(pool, &group, short_task, NULL, 0), WEFT_OK);
        usleep(300); /* they sleep; this thread did not wait when it woke them */
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    }
    atomic_store(&watched, NULL);
    end_pool(pool);
    atomic_store(&everybody_on, 0);
    assert_int_equal(atomic_load(&untold), 0);
    if (atomic_load(&narrowed) == 0) SKIP("no sleeper kept off a CPU: on a machine this busy tasks are not short");
}

static bool write_text(const char *folder, const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r+"); /* where there is no such group no file is made */
    if (file == NULL) return false;
    bool written = fputs(text, file) >= 0;
    return fclose(file) == 0 && written;
}

/* ---- quota and affinity, change by change ------------------------------------------------------------------------- */

static struct {
    const char *folder; /* NULL: no cgroup */
    bool is_v2;
    unsigned made, lost, late; /* late: by more than a second */
} turns;

static bool quota_is(unsigned percent) { /* 0: none */
    char text[32];
    if (percent == 0)
        snprintf(text, sizeof text, turns.is_v2 ? "max" : "-1");
    else
        snprintf(text, sizeof text, turns.is_v2 ? "%u 100000" : "%u", percent * 1000);
    return write_text(turns.folder, turns.is_v2 ? "cpu.max" : "cpu.cfs_quota_us", text);
}

/* A look that began after the change has the right number. */
static void change_is_seen(const weft_pool *pool, const cpu_set_t *set, unsigned percent, unsigned workers) {
    uint64_t begin = os_now_ns();
    for (;;) {
        if (set != NULL)
            affinity_of_all(set);
        else
            REQUIRE(quota_is(percent));
        atomic_fetch_add(&changes, 1);
        while (atomic_load(&looks_now) != 0) usleep(20); /* they may have begun before */
        atomic_store(&whole_looks, 0);
        while (atomic_load(&looks_now) != 0 || atomic_load(&whole_looks) == 0) usleep(20);
        if (weft_pool_workers(pool) == workers) break;
        REQUIRE(set != NULL); /* see confine_all */
        turns.lost++;
        begin = os_now_ns();
    }
    while (!others_rest(pool)) usleep(20);
    turns.late += os_now_ns() - begin > UINT64_C(1000000000);
    turns.made++;
}

/* A process in a group of its own, whose quota is halved, doubled and lifted, and whose affinity is cut and widened. 77: there can be none. */
static int use_quota(void *folder) {
    char pid[32];
    unsigned most = __real_os_cpu_count(), two = most < 2 ? most : 2;
    const char *wish = getenv("WEFT_TEST_CHANGES");
    unsigned wanted = wish != NULL ? (unsigned)strtoul(wish, NULL, 10) : 35;
    cpu_set_t all, one;
    size_t first;
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    turns.folder = folder;
    if (!write_text(folder, "cgroup.procs", pid)) return 77;
    turns.is_v2 = write_text(folder, "cpu.max", "50000 100000");
    if (!turns.is_v2 && !quota_is(50)) return 77;
    first_and_last(&all, &first, &one);
    weft_pool *pool = pool_of(0, 0);
    if (wish != NULL) pool->fit_ticks = 500000 * pool->ticks_per_us;
    REQUIRE(weft_pool_workers(pool) == 1);
    pthread_t thread = load_begin(pool);
    while (turns.made < wanted) {
        change_is_seen(pool, NULL, 100, 1);
        change_is_seen(pool, NULL, 200, two);
        change_is_seen(pool, NULL, 100, 1);
        change_is_seen(pool, NULL, 0, most);
        change_is_seen(pool, &one, 0, 1);
        change_is_seen(pool, &all, 0, most);
        change_is_seen(pool, NULL, 50, 1);
    }
    load_end(thread);
    end_pool(pool);
    printf("%s: %u changes, %u later than a second, %u affinities made twice; %llu tasks, each run\n", turns.folder,
           turns.made, turns.late, turns.lost, atomic_load(&load.run));
    fflush(stdout);                             /* the child ends without */
    REQUIRE(turns.lost <= 5 + turns.made / 10); /* where sleeps are many */
    return 0;
}

static void test_quota(void **state) {
    (void)state;
    static const char *const mounts[] = {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup",
                                         "/sys/fs/cgroup/unified"};
    unsigned used = 0;
    for (size_t i = 0; i < sizeof mounts / sizeof *mounts; i++) {
        char folder[256];
        snprintf(folder, sizeof folder, "%s/weft-fit-%d", mounts[i], (int)getpid());
        if (mkdir(folder, 0755) != 0) continue;
        int status = in_child(use_quota, folder);
        for (int turn = 0; turn < 1000 && rmdir(folder) != 0; turn++) usleep(1000); /* the kernel lags behind */
        if (status == 77) continue;
        assert_int_equal(status, 0);
        used++;
    }
    if (used == 0) SKIP("no cgroup here takes a quota from this process");
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_same_number),
        cmocka_unit_test(test_inside),
        cmocka_unit_test(test_none_while_it_ends),
        cmocka_unit_test(test_thousand_changes),
        cmocka_unit_test(test_what_follows),
        cmocka_unit_test(test_shares_follow),
        cmocka_unit_test(test_long_task),
        cmocka_unit_test(test_tiny_tasks),
        cmocka_unit_test(test_no_threads),
        cmocka_unit_test(test_affinity),
        cmocka_unit_test(test_one_worker_is_pinned),
        cmocka_unit_test(test_sleeper_keeps_off),
        cmocka_unit_test(test_keeping_off_is_told),
        cmocka_unit_test(test_quota),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
