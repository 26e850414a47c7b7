/* test_realtime.c: real-time pools: what was asked for is so, or reported; how long they spin; that they share no lock once
 * warm. */
#define _GNU_SOURCE
#include "os_help.h"
#include "pool_help.h"
#include "front.h"
#include "sched/realtime.h"

#include <sys/resource.h>
#include <sys/syscall.h>

#define KERNEL_DEADLINE 6

/* As when the C library has no memory to look for a stack. */
bool __real_os_stack(void **lowest, size_t *bytes);
bool __wrap_os_stack(void **lowest, size_t *bytes);
static bool no_stack;
bool __wrap_os_stack(void **lowest, size_t *bytes) { return !no_stack && __real_os_stack(lowest, bytes); }

void __real_os_lock(os_mutex *mutex);
void __wrap_os_lock(os_mutex *mutex);
static atomic_uint locks;
void __wrap_os_lock(os_mutex *mutex) {
    atomic_fetch_add(&locks, 1);
    __real_os_lock(mutex);
}

static weft_real_time outcome_of(const weft_pool *pool) {
    weft_real_time outcome = {.struct_size = sizeof outcome};
    REQUIRE(weft_pool_real_time(pool, &outcome) == WEFT_OK);
    return outcome;
}

/* ---- what each worker sees ---------------------------------------------------------------------------------------- */

typedef struct sight {
    atomic_uint seen;
    int policy, priority, child_policy, cpus, cpu;
} sight;

static void *policy_of_child(void *policy) {
    *(int *)policy = sched_getscheduler(0);
    return NULL;
}

static void look_around(weft_worker *self, void *context) {
    sight *sights = context;
    sight *mine = &sights[weft_worker_index(self)];
    struct sched_param param;
    cpu_set_t cpus;
    pthread_t child;
    mine->policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
    REQUIRE(sched_getparam(0, &param) == 0);
    mine->priority = param.sched_priority;
    REQUIRE(sched_getaffinity(0, sizeof cpus, &cpus) == 0);
    mine->cpus = CPU_COUNT(&cpus);
    for (int i = CPU_SETSIZE - 1; i >= 0; i--)
        if (CPU_ISSET((size_t)i, &cpus)) mine->cpu = i;
    REQUIRE(pthread_create(&child, NULL, policy_of_child, &mine->child_policy) == 0);
    REQUIRE(pthread_join(child, NULL) == 0);
    atomic_fetch_add(&mine->seen, 1);
}

static void runs_tasks(weft_pool *pool) {
    atomic_uint count = 0;
    weft_group group = WEFT_GROUP_INIT;
    for (int i = 0; i < 100; i++) REQUIRE(submit_count(pool, &group, &count) == WEFT_OK);
    REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
    REQUIRE(count == 100);
}

static void see_policy(uint32_t policy, int kernel, int priority) {
    sight sights[4] = {{.seen = 0}};
    weft_config config = config_of(2);
    config.policy = policy;
    config.priority = (uint32_t)priority;
    if (policy == WEFT_POLICY_DEADLINE) {
        config.runtime_ns = 2000000;
        config.period_ns = 20000000;
    }
    config.start = look_around;
    config.context = sights;
    weft_pool *pool = make_pool_with(&config);
    weft_real_time outcome = outcome_of(pool);
    unsigned refused = 0;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sights[i].seen, 1);
        assert_int_equal(sights[i].child_policy & ~SCHED_RESET_ON_FORK, SCHED_OTHER);
        refused += sights[i].policy != kernel;
        if (sights[i].policy == kernel) assert_int_equal(sights[i].priority, priority);
    }
    assert_int_equal(outcome.policy_refused, refused);
    assert_true((refused > 0) == (outcome.policy_errno != 0));
    runs_tasks(pool);
    end_pool(pool);
    if (refused > 0) SKIP("the system does not allow the policy, as was reported");
}

static void test_fifo(void **state) {
    (void)state;
    see_policy(WEFT_POLICY_FIFO, SCHED_FIFO, 3);
}
static void test_rr(void **state) {
    (void)state;
    see_policy(WEFT_POLICY_RR, SCHED_RR, 2);
}
static void test_deadline(void **state) {
    (void)state;
    see_policy(WEFT_POLICY_DEADLINE, KERNEL_DEADLINE, 0);
}

/* More than the machine has is refused to some, and said. */
static void test_overbooked(void **state) {
    (void)state;
    weft_config config = config_of((uint32_t)sysconf(_SC_NPROCESSORS_ONLN) + 2);
    config.policy = WEFT_POLICY_DEADLINE;
    config.runtime_ns = 9500000;
    config.period_ns = 10000000;
    weft_pool *pool = make_pool_with(&config);
    weft_real_time outcome = outcome_of(pool);
    assert_true(outcome.policy_refused >= 2);
    assert_true(outcome.policy_errno == EBUSY || outcome.policy_errno == EPERM || outcome.policy_errno == ENOSYS);
    runs_tasks(pool);
    end_pool(pool);
}

static int in_section(void *payload, weft_worker *self) {
    gate *g = *(gate **)payload;
    REQUIRE(weft_block_begin(self) == WEFT_OK);
    sem_post(&g->entered);
    await(&g->opened);
    REQUIRE(weft_block_end(self) == WEFT_OK);
    return 0;
}

/* One worker's task opens a section, so that a spare comes; both look around. */
static weft_pool *pool_with_spare(weft_config config, sight *sights) {
    config.start = look_around;
    config.context = sights;
    weft_pool *pool = make_pool_with(&config);
    gate g, *where = &g;
    weft_group group = WEFT_GROUP_INIT;
    gate_init(&g);
    REQUIRE(weft_submit(pool, &group, in_section, &where, sizeof where) == WEFT_OK);
    await(&g.entered);
    while (atomic_load(&sights[1].seen) == 0) nap();
    gate_open(&g);
    REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
    return pool;
}

/* A spare gets what the workers got. */
static void test_spare(void **state) {
    (void)state;
    sight sights[3] = {{.seen = 0}};
    weft_config config = config_of(1);
    config.policy = WEFT_POLICY_FIFO;
    config.priority = 1;
    weft_pool *pool = pool_with_spare(config, sights);
    assert_int_equal(sights[1].policy, sights[0].policy);
    assert_int_equal(outcome_of(pool).policy_refused, sights[0].policy == SCHED_FIFO ? 0 : 2);
    end_pool(pool);
}

/* ---- without privileges ------------------------------------------------------------------------------------------- */

#define NOBODY 65534

static bool drop_privileges(void) {
    const struct rlimit none = {0, 0};
    return setrlimit(RLIMIT_RTPRIO, &none) == 0 && setrlimit(RLIMIT_MEMLOCK, &none) == 0 &&
           (geteuid() != 0 || (setgid(NOBODY) == 0 && setuid(NOBODY) == 0));
}

static int ask_as_nobody(void *nothing) {
    (void)nothing;
    if (!drop_privileges()) return 77;
    weft_config config = config_of(2);
    config.policy = WEFT_POLICY_RR;
    config.priority = 99;
    config.stack_size = 65536;
    config.flags = WEFT_POOL_LOCK;
    weft_pool *pool = make_pool_with(&config);
    weft_real_time outcome = outcome_of(pool);
    REQUIRE(outcome.policy_refused == 2 && outcome.policy_errno == EPERM);
    if (!SANITIZED) { /* they make locking memory do nothing */
        REQUIRE(outcome.unlocked_bytes >= UINT64_C(2) * 65536 && outcome.locked_bytes == 0);
        REQUIRE(outcome.lock_errno == ENOMEM || outcome.lock_errno == EPERM);
    }
    char text[1024];
    weft_config found = {.struct_size = sizeof found};
    REQUIRE(weft_pool_config(pool, &found) == WEFT_OK);
    REQUIRE(found.refused != NULL && strstr(found.refused, "policy of 2 workers (EPERM)") != NULL);
    REQUIRE(weft_config_format(&found, text, sizeof text) < (int)sizeof text);
    REQUIRE(strstr(text, "policy=rr:99") != NULL && strstr(text, found.refused) != NULL);
    runs_tasks(pool);
    end_pool(pool);
    return 0;
}

static void test_refused(void **state) {
    (void)state;
    int status = in_child(ask_as_nobody, NULL);
    if (status == 77) SKIP("privileges cannot be dropped");
    assert_int_equal(status, 0);
}

/* ---- CPUs --------------------------------------------------------------------------------------------------------- */

static void test_bound(void **state) {
    (void)state;
    cpu_set_t own;
    assert_int_equal(sched_getaffinity(0, sizeof own, &own), 0);
    int count = CPU_COUNT(&own);
    sight sights[8] = {{.seen = 0}};
    weft_config config = config_of(3);
    config.flags = WEFT_POOL_BIND;
    config.start = look_around;
    config.context = sights;
    weft_pool *pool = make_pool_with(&config);
    assert_int_equal(outcome_of(pool).bind_refused, 0);
    for (int i = 0; i < 3; i++) {
        int left = i % count;
        int cpu = 0;
        while (!CPU_ISSET((size_t)cpu, &own) || left-- > 0) cpu++;
        assert_int_equal(sights[i].cpus, 1);
        assert_int_equal(sights[i].cpu, cpu);
    }
    runs_tasks(pool);
    end_pool(pool);
}

/* With `cpus` and without: a section's spare is started by a worker that has one CPU. */
static void see_bound_spare(const char *cpus, const cpu_set_t *own) {
    sight sights[3] = {{.seen = 0}};
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_BIND;
    config.cpus = cpus;
    weft_pool *pool = pool_with_spare(config, sights);
    assert_int_equal(sights[0].cpus, 1);
    assert_int_equal(sights[1].cpus, CPU_COUNT(own));
    assert_int_equal(outcome_of(pool).bind_refused, 0);
    end_pool(pool);
}

static void test_bound_spare(void **state) {
    (void)state;
    cpu_set_t own;
    char cpus[16 * CPU_SETSIZE];
    size_t length = 0;
    assert_int_equal(sched_getaffinity(0, sizeof own, &own), 0);
    if (CPU_COUNT(&own) < 2) SKIP("one CPU: a spare that is bound cannot be told");
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &own))
            length += (size_t)snprintf(cpus + length, sizeof cpus - length, "%s%zu", length > 0 ? "," : "", cpu);
    see_bound_spare(NULL, &own);
    if (length < 256) see_bound_spare(cpus, &own); /* as much text as a pool keeps */
}

static int bind_untold(void *nothing) {
    (void)nothing;
    if (!forbid_call(SYS_sched_getaffinity, ANY_SECOND, EPERM)) return 77;
    weft_config config = config_of(2);
    config.flags = WEFT_POOL_BIND;
    weft_pool *pool = make_pool_with(&config);
    weft_real_time outcome = outcome_of(pool);
    REQUIRE(outcome.bind_refused == 2 && outcome.bind_errno == EINVAL);
    runs_tasks(pool);
    end_pool(pool);
    return 0;
}

/* A sandbox does not say which CPUs there are. */
static void test_bound_untold(void **state) {
    (void)state;
    if (SANITIZED) SKIP("a sanitizer's own threads end without what the test forbids");
    int status = in_child(bind_untold, NULL);
    if (status == 77) SKIP("no seccomp filters");
    assert_int_equal(status, 0);
}

/* ---- memory ------------------------------------------------------------------------------------------------------- */

static uint64_t locked_now(void) {
    char line[256];
    uint64_t kilobytes = 0;
    FILE *status = fopen("/proc/self/status", "r");
    REQUIRE(status != NULL);
    while (fgets(line, sizeof line, status) != NULL)
        if (strncmp(line, "VmLck:", 6) == 0) kilobytes = strtoull(line + 6, NULL, 10);
    fclose(status);
    return kilobytes * 1024;
}

static void test_locked(void **state) {
    (void)state;
    if (SANITIZED) SKIP("sanitizers make locking memory do nothing");
    uint64_t before = locked_now();
    weft_config config = config_of(2);
    config.flags = WEFT_POOL_LOCK;
    config.stack_size = 262144;
    weft_pool *pool = make_pool_with(&config);
    weft_real_time outcome = outcome_of(pool);
    uint64_t first_bytes = stats_of(pool).queue_bytes; /* memory for tasks is there from the beginning */
    assert_true(first_bytes > 0);
    assert_true(outcome.locked_bytes + outcome.unlocked_bytes > UINT64_C(2) * 262144 + first_bytes);
    assert_true(locked_now() - before >= outcome.locked_bytes);
    runs_tasks(pool);
    weft_group group = WEFT_GROUP_INIT;
    gate gates[2];
    for (int i = 0; i < 2; i++) gate_occupy(&gates[i], pool, &group);
    for (int i = 0; stats_of(pool).queue_bytes == first_bytes; i++)
        assert_int_equal(weft_submit(pool, &group, empty_task, &i, sizeof i), WEFT_OK);
    weft_real_time grown = outcome_of(pool);
    uint64_t more = grown.locked_bytes + grown.unlocked_bytes - outcome.locked_bytes - outcome.unlocked_bytes;
    assert_true(more >= stats_of(pool).queue_bytes - first_bytes);
    for (int i = 0; i < 2; i++) gate_open(&gates[i]);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    end_pool(pool);
    assert_int_equal(locked_now(), before);
    if (outcome.unlocked_bytes > 0) SKIP("the system lets less be locked, as was reported");
}

static void test_stack_unknown(void **state) {
    (void)state;
    weft_config config = config_of(2);
    config.flags = WEFT_POOL_LOCK;
    config.stack_size = 262144;
    no_stack = true;
    weft_pool *pool = make_pool_with(&config);
    weft_real_time outcome = outcome_of(pool);
    assert_true(outcome.unlocked_bytes >= UINT64_C(2) * 262144);
    assert_true(outcome.lock_errno == ENOMEM || outcome.lock_errno == EPERM);
    end_pool(pool);
    no_stack = false;
}

/* ---- spinning ----------------------------------------------------------------------------------------------------- */

/* A pool whose workers never start, so that nobody is asked for its policy. */
static weft_pool *unstarted_pool(uint64_t runtime_ns, uint64_t period_ns) {
    weft_config config = config_of(1);
    config.policy = WEFT_POLICY_DEADLINE;
    config.runtime_ns = runtime_ns;
    config.period_ns = period_ns;
    config.spin_ns = 1000000000;
    os_init();
    weft_pool *pool = pool_make(&config);
    REQUIRE(pool != NULL);
    return pool;
}
static void end_unstarted(weft_pool *pool) {
    store_rlx(&pool->workers, 0);
    end_pool(pool);
}

static void test_spin_budget(void **state) {
    (void)state;
    weft_pool *pool = unstarted_pool(80000000, 1000000000000); /* the test ends sooner */
    bool spins = load_rlx(&pool->cpus_allowed) > 1;            /* on one CPU there is none */
    uint64_t share = load_rlx(&pool->realtime.share_ticks);
    uint64_t most = load_rlx(&pool->spin_ticks);
    assert_int_equal(share, UINT64_C(10000000) * pool->ticks_per_us / 1000);
    assert_int_equal(most, spins ? share : 0); /* no spin is longer */
    struct weft_worker seat = {.pool = pool};
    seat.spin_window = os_ticks() - load_rlx(&pool->realtime.window_ticks); /* over, however young the machine is */
    store_rlx(&seat.spin_ticks, 1000u);
    assert_false(realtime_is_spent(&seat));
    assert_int_equal(realtime_spin_ticks(&seat), most);
    assert_int_equal(realtime_look_until(&seat, 5, 5 + share / 2), 5 + share / 2);
    assert_int_equal(realtime_look_until(&seat, 5, 5 + 2 * share), 5 + share); /* nor is a look-out */
    store_rlx(&seat.spin_ticks, 1000 + share - 7);
    assert_int_equal(realtime_look_until(&seat, 5, 5 + share), 5 + 7);
    store_rlx(&seat.spin_ticks, 1000 + share);
    assert_true(realtime_is_spent(&seat));
    assert_int_equal(realtime_spin_ticks(&seat), 0);
    seat.spin_window -= load_rlx(&pool->realtime.window_ticks); /* the next */
    assert_false(realtime_is_spent(&seat));
    char text[1024];
    weft_config found = {.struct_size = sizeof found};
    policy_started(pool);
    assert_int_equal(weft_pool_config(pool, &found), WEFT_OK);
    assert_int_equal(found.spin_ns, spins ? 10000000 : WEFT_SPIN_NONE); /* as in force */
    assert_true(weft_config_format(&found, text, sizeof text) < (int)sizeof text);
    assert_non_null(strstr(text, "placing=0"));
    end_unstarted(pool);
}

static void test_spin_budget_of_ages(void **state) {
    (void)state;
    weft_pool *pool = unstarted_pool(INT64_MAX - INT64_MAX / 3, INT64_MAX); /* neither fits in ticks */
    uint64_t window = load_rlx(&pool->realtime.window_ticks);
    assert_true(window > 0);
    assert_int_equal(load_rlx(&pool->realtime.share_ticks), window / 8);
    end_unstarted(pool);
}

/* All that is refused leaves ordinary workers. */
static int spin_as_nobody(void *nothing) {
    (void)nothing;
    if (!drop_privileges()) return 77;
    weft_config config = config_of(2);
    config.policy = WEFT_POLICY_DEADLINE;
    config.runtime_ns = 80000;
    config.period_ns = 10000000;
    config.spin_ns = 30000;
    weft_pool *pool = make_pool_with(&config);
    REQUIRE(outcome_of(pool).policy_refused == 2);
    REQUIRE(load_rlx(&pool->realtime.window_ticks) == 0);
    REQUIRE(load_rlx(&pool->spin_ticks) == (load_rlx(&pool->cpus_allowed) > 1 ? 30 * pool->ticks_per_us : 0));
    runs_tasks(pool);
    end_pool(pool);
    return 0;
}

static void test_refused_spins_as_others(void **state) {
    (void)state;
    int status = in_child(spin_as_nobody, NULL);
    if (status == 77) SKIP("privileges cannot be dropped");
    assert_int_equal(status, 0);
}

static void test_ordinary_pools_spin_as_they_did(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    assert_int_equal(load_rlx(&pool->realtime.window_ticks), 0);
    end_pool(pool);
}

/* ---- locks -------------------------------------------------------------------------------------------------------- */

static int loop_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)self;
    atomic_fetch_add((atomic_uint *)context, (unsigned)(end - begin));
    return 0;
}

static void slot(weft_pool *pool, atomic_uint *count) {
    weft_group symbols = WEFT_GROUP_INIT;
    weft_group decodes = {.flags = WEFT_GROUP_URGENT};
    for (int i = 0; i < 13; i++) REQUIRE(submit_count(pool, &symbols, count) == WEFT_OK);
    REQUIRE(weft_group_wait(pool, &symbols) == WEFT_OK);
    for (int i = 0; i < 140; i++) REQUIRE(submit_count(pool, &decodes, count) == WEFT_OK);
    REQUIRE(weft_group_wait(pool, &decodes) == WEFT_OK);
    REQUIRE(weft_for(pool, (weft_range){0, 64, 1}, loop_body, count) == WEFT_OK);
}

/* Both workers are here, then each runs a loop of its own. */
static int meet_and_loop(void *payload, weft_worker *self) {
    atomic_uint *here = *(atomic_uint **)payload;
    atomic_uint count = 0;
    atomic_fetch_add(here, 1);
    while (atomic_load(here) < 2) nap();
    return weft_for(weft_worker_pool(self), (weft_range){0, 64, 1}, loop_body, &count);
}

/* Each thread has done what it will do, and more has waited to start than ever will. */
static void warm(weft_pool *pool) {
    atomic_uint here = 0;
    atomic_uint *where = &here;
    weft_group continuation = WEFT_GROUP_INIT;
    weft_group groups[2] = {{.flags = 0}, {.flags = WEFT_GROUP_URGENT}};
    gate gates[2];
    for (int i = 0; i < 2; i++) REQUIRE(weft_submit(pool, &continuation, meet_and_loop, &where, sizeof where) == WEFT_OK);
    REQUIRE(weft_group_wait(pool, &continuation) == WEFT_OK);
    for (int i = 0; i < 2; i++) gate_occupy(&gates[i], pool, &continuation);
    for (int i = 0; i < 2000; i++) REQUIRE(weft_submit(pool, &groups[i % 2], empty_task, &i, sizeof i) == WEFT_OK);
    for (int i = 0; i < 2; i++) gate_open(&gates[i]);
    for (int i = 0; i < 2; i++) REQUIRE(weft_group_wait(pool, &groups[i]) == WEFT_OK);
    REQUIRE(weft_group_wait(pool, &continuation) == WEFT_OK);
}

static void test_no_lock_once_warm(void **state) {
    (void)state;
    weft_config config = config_of(2);
    config.policy = WEFT_POLICY_FIFO;
    config.priority = 1;
    config.flags = WEFT_POOL_NO_HELP;
    weft_pool *pool = make_pool_with(&config);
    atomic_uint count = 0;
    warm(pool);
    for (int i = 0; i < 100; i++) slot(pool, &count);
    assert_true(atomic_load(&locks) > 0); /* it would be seen */
    atomic_store(&locks, 0);
    for (int i = 0; i < 1000; i++) slot(pool, &count);
    assert_int_equal(atomic_load(&locks), 0);
    assert_int_equal(count, 1100 * (13 + 140 + 64));
    end_pool(pool);
}

/* ---- wishes ------------------------------------------------------------------------------------------------------- */

static void refuses(weft_config config) {
    weft_pool *pool = NULL;
    assert_int_equal(weft_pool_create(&pool, &config), WEFT_EINVAL);
    assert_null(pool);
}

static void test_contradictions(void **state) {
    (void)state;
    const weft_config ordinary = config_of(1);
    weft_config fifo = ordinary, deadline = ordinary;
    fifo.policy = WEFT_POLICY_FIFO;
    fifo.priority = 1;
    deadline.policy = WEFT_POLICY_DEADLINE;
    deadline.runtime_ns = 1000000;
    deadline.period_ns = 10000000;
#define REFUSED(base, ...)                                                                                                  \
    do {                                                                                                                    \
        weft_config wish = base;                                                                                            \
        __VA_ARGS__;                                                                                                        \
        refuses(wish);                                                                                                      \
    } while (0)
    REFUSED(deadline, wish.cpus = "0");
    REFUSED(deadline, wish.flags = WEFT_POOL_BIND);
    REFUSED(deadline, wish.deadline_ns = 500000);
    REFUSED(deadline, wish.deadline_ns = 20000000);
    REFUSED(deadline, wish.priority = 1);
    REFUSED(deadline, wish.runtime_ns = 0);
    REFUSED(ordinary, wish.priority = 1);
    REFUSED(ordinary, wish.policy = WEFT_POLICY_DEADLINE + 1);
    REFUSED(fifo, wish.priority = 0);
    REFUSED(fifo, wish.priority = 100);
    REFUSED(fifo, wish.period_ns = 1);
#undef REFUSED
}

static void told(const char *text, int error, uint32_t policy) {
    weft_config config = config_of(1);
    assert_int_equal(setenv("WEFT_POLICY", text, 1), 0);
    assert_int_equal(weft_config_from_env(&config), error);
    assert_int_equal(config.policy, policy);
    assert_int_equal(unsetenv("WEFT_POLICY"), 0);
    if (error != WEFT_OK || policy == WEFT_POLICY_INHERIT) return;
    char printed[1024];
    assert_true(weft_config_format(&config, printed, sizeof printed) < (int)sizeof printed);
    assert_non_null(strstr(printed, text));
}

static void test_environment(void **state) {
    (void)state;
    told("fifo:10", WEFT_OK, WEFT_POLICY_FIFO);
    told("rr:99", WEFT_OK, WEFT_POLICY_RR);
    told("deadline:1000000:5000000:10000000", WEFT_OK, WEFT_POLICY_DEADLINE);
    told("inherit", WEFT_OK, WEFT_POLICY_INHERIT);
    static const char *const wrong[] = {
        "fifo:0",          "rr:0",       "deadline:0:0:0", "deadline:3:2:9",   "deadline:1:9:8",
        "fifo:4294967297", "fifo",       "fifo:",          "fifo:100",         "fifo:1x",
        "rr:-1",           "deadline:1", "deadline:1:2:",  "deadline:1:2:3:4", "fifo:99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) told(wrong[i], WEFT_EINVAL, WEFT_POLICY_INHERIT);
}

/* One compiled before the fields were there gets its other wishes from the environment, and no bytes beyond its own. */
static void test_older_caller(void **state) {
    (void)state;
    union {
        weft_config config;
        unsigned char bytes[sizeof(weft_config)];
    } older;
    size_t size = offsetof(weft_config, policy);
    memset(&older, 0, sizeof older);
    memset(older.bytes + size, '#', sizeof older - size);
    older.config.struct_size = size;
    assert_int_equal(setenv("WEFT_BACKGROUND_MAX", "3", 1), 0);
    assert_int_equal(setenv("WEFT_POLICY", "fifo:10", 1), 0);
    assert_int_equal(weft_config_from_env(&older.config), WEFT_OK);
    assert_int_equal(unsetenv("WEFT_BACKGROUND_MAX"), 0);
    assert_int_equal(unsetenv("WEFT_POLICY"), 0);
    assert_int_equal(older.config.background_max, 3);
    for (size_t i = size; i < sizeof older; i++) assert_int_equal(older.bytes[i], '#');
    weft_pool *pool = make_pool_with(&older.config);
    runs_tasks(pool);
    end_pool(pool);
    weft_real_time outcome = {.struct_size = 0};
    assert_int_equal(weft_pool_real_time(NULL, &outcome), WEFT_EINVAL);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fifo),
        cmocka_unit_test(test_rr),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_overbooked),
        cmocka_unit_test(test_spare),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_bound_spare),
        cmocka_unit_test(test_bound_untold),
        cmocka_unit_test(test_locked),
        cmocka_unit_test(test_stack_unknown),
        cmocka_unit_test(test_spin_budget),
        cmocka_unit_test(test_spin_budget_of_ages),
        cmocka_unit_test(test_refused_spins_as_others),
        cmocka_unit_test(test_ordinary_pools_spin_as_they_did),
        cmocka_unit_test(test_no_lock_once_warm),
        cmocka_unit_test(test_contradictions),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_older_caller),
    };
    const struct rlimit longest = {10000000,
                                   10000000}; /* a real-time thread that never sleeps ends the test, not the machine */
    setrlimit(RLIMIT_RTTIME, &longest);
    choose_cases(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
