/* test_lease.c: programs that share a number of threads without make. Together no more workers run than there are tokens, or one for each
 * program; what a program that is killed held, the others have; who has several gives some to those that have none, or fewer. */
#define _GNU_SOURCE
#include "lease_help.h"

#include <poll.h>

/* ---- one program -------------------------------------------------------------------------------------------------- */

/* Its first thread takes one, too; all are taken while there is work for them, and back when there is none. */
static void test_takes_and_gives(void **state) {
    (void)state;
    gate gates[5];
    weft_group group = WEFT_GROUP_INIT;
    lease_begin(3);
    weft_pool *pool = leasing_pool(6);
    lease_until(0);
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < 3; i++) {
            gate_occupy(&gates[i], pool, &group);
            lease_until(i + 1); /* one that looks for work counts, too */
            if (i > 0) assert_true(is_locked(EXTRA));
        }
        assert_false(is_locked(HUNGRY));
        for (unsigned i = 0; i < 3; i++) gate_open(&gates[i]);
        assert_int_equal(weft_group_wait_until(pool, &group, WEFT_HELP_NONE, 0), WEFT_OK);
        lease_until(0);
        while (is_locked(EXTRA)) nap();
    }
    gates_fill(gates, 5, 3, pool, &group);
    for (unsigned i = 0; i < 10; i++) nap();
    int value = -1;
    for (unsigned i = 3; i < 5; i++) assert_true(sem_getvalue(&gates[i].entered, &value) == 0 && value == 0);
    gates_open(gates, 5, pool, &group);
    end_pool(pool);
    lease_end();
}

/* Of two pools, with two tokens. */
static void test_two_pools(void **state) {
    (void)state;
    lease_begin(2);
    tally_share();
    weft_pool *pools[2] = {leasing_pool(4), leasing_pool(4)};
    weft_group groups[2] = {WEFT_GROUP_INIT, WEFT_GROUP_INIT};
    for (unsigned i = 0; i < 200; i++) submit_counted(pools[i % 2], &groups[i % 2], 20, i * 37 % 1000);
    assert_int_equal(weft_group_wait_until(pools[0], &groups[0], WEFT_HELP_NONE, 0), WEFT_OK);
    assert_int_equal(weft_group_wait(pools[1], &groups[1]), WEFT_OK);
    for (unsigned i = 0; i < 2; i++) end_pool(pools[i]);
    assert_int_equal(atomic_load(&tally->done), 4000);
    assert_in_range(atomic_load(&tally->most_workers), 1, 2);
    tally_unshare();
    lease_end();
}

/* ---- several programs --------------------------------------------------------------------------------------------- */

#define WORK 1000u

static weft_pool *work_pool(bool shares) {
    weft_config config = config_of(4);
    config.flags = shares ? WEFT_POOL_LEASE : 0;
    return make_pool_with(&config);
}

/* A program with 1,000 tasks for four workers, in bursts. */
static int work(bool shares) {
    weft_group group = WEFT_GROUP_INIT;
    weft_pool *pool = work_pool(shares);
    atomic_fetch_add(&tally->arrived, 1);
    until(&tally->arrived, atomic_load(&tally->left)); /* as many as start */
    for (unsigned burst = 0; burst < 10; burst++) {
        submit_counted(pool, &group, WORK / 10, burst % 3 == 0 ? 20000 : 2000);
        REQUIRE(weft_group_wait_until(pool, &group, WEFT_HELP_NONE, 0) == WEFT_OK);
    }
    end_pool(pool);
    return 0;
}

static void run_programs(unsigned programs, unsigned tokens, const char *scene, unsigned most) {
    pid_t started[8];
    lease_begin(tokens);
    tally_share();
    atomic_store(&tally->left, programs);
    for (unsigned i = 0; i < programs; i++) started[i] = program_start(scene);
    for (unsigned i = 0; i < programs; i++) assert_int_equal(program_end(started[i]), 0);
    printf("%u programs, %u tokens, %s: tasks that began as the first, second, ...:", programs, tokens, scene);
    for (unsigned i = 0; i < TALLY_LEVELS; i++) printf(" %u", atomic_load(&tally->begun[i]));
    printf("; at most %u at once\n", atomic_load(&tally->most_workers));
    assert_int_equal(atomic_load(&tally->done), programs * WORK);
    assert_in_range(atomic_load(&tally->most_workers), 1, most);
    tally_unshare();
    lease_end();
}

static void test_programs(void **state) {
    (void)state;
    run_programs(2, 2, "work", 2);
    run_programs(2, 3, "work", 3);
    run_programs(3, 5, "work", 5);
    run_programs(4, 2, "work", 4); /* each runs one */
    run_programs(2, 1, "work", 2);
    run_programs(2, 2, "apart", 8);
    run_programs(4, 2, "apart", 16);
}

/* ---- programs that end -------------------------------------------------------------------------------------------- */

static gate held[8];
static weft_group held_group = WEFT_GROUP_INIT;

/* Takes all tokens, and ends as it is told. `left`: somebody else may go on. */
static int hold(const char *how) {
    unsigned tasks = strcmp(how, "one") == 0 ? 1 : shared.tokens; /* as many as workers: none of these waits for a token */
    weft_pool *pool = leasing_pool(tasks);
    gates_fill(held, tasks, tasks, pool, &held_group);
    if (strcmp(how, "fork") == 0) {
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            atomic_store(&tally->arrived, (unsigned)getpid()); /* it lives on, and holds nothing */
            for (;;) pause();
        }
        for (;;) pause();
    }
    atomic_fetch_add(&tally->arrived, 1);
    until(&tally->left, 1);
    if (strcmp(how, "_exit") == 0) _exit(0);
    if (strcmp(how, "exit") == 0) exit(0);
    if (strcmp(how, "exec") == 0) execl("/proc/self/exe", "scene", "stay", "0", "0", (char *)NULL);
    for (;;) pause();
}

/* A pool that has waited for a token beside such a program gets all of them. */
static void expect_grows(const char *scene, int signal_number) {
    gate gates[3];
    weft_group group = WEFT_GROUP_INIT;
    lease_begin(3);
    tally_share();
    pid_t program = program_start(scene);
    while (atomic_load(&tally->arrived) == 0) nap();
    assert_int_equal(lease_taken(), 3);
    weft_pool *pool = leasing_pool(3);
    gates_fill(gates, 3, 0, pool, &group);
    while (!is_locked(WAITS) || !is_locked(HUNGRY)) nap();
    for (unsigned i = 0; i < 5; i++) nap();
    int value = -1;
    assert_true(sem_getvalue(&gates[0].entered, &value) == 0 && value == 0); /* the tasks there end never */
    atomic_store(&tally->left, 1);
    if (signal_number != 0) assert_int_equal(kill(program, signal_number), 0);
    for (unsigned i = 0; i < 3; i++) await(&gates[i].entered);
    assert_int_equal(lease_taken(), 3);
    assert_false(is_locked(HUNGRY));
    gates_open(gates, 3, pool, &group);
    end_pool(pool);
    if (atomic_load(&tally->arrived) > 1) kill((pid_t)atomic_load(&tally->arrived), SIGKILL);
    if (signal_number == 0) kill(program, SIGKILL);
    program_end(program);
    tally_unshare();
    lease_end();
}

static atomic_bool has_no_watch;
static atomic_uint watches; /* that were opened */
int __real_inotify_init1(int flags);
int __wrap_inotify_init1(int flags);
int __wrap_inotify_init1(int flags) {
    atomic_fetch_add(&watches, 1);
    if (!atomic_load(&has_no_watch)) return __real_inotify_init1(flags);
    errno = EMFILE;
    return -1;
}

static void test_ends(void **state) {
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        atomic_store(&has_no_watch, i == 1);
        for (unsigned round = 0; round < 5; round++) expect_grows("killed", SIGKILL);
        expect_grows("killed", SIGTERM);
        expect_grows("_exit", 0);
        expect_grows("exit", 0);
        expect_grows("exec", 0);
        expect_grows("fork", SIGKILL);
    }
    atomic_store(&has_no_watch, false);
}

/* Of inotify, which other programs need, too, the lease has no more than 32 instances: beside that many a program waits without. */
static void test_few_watches(void **state) {
    (void)state;
    gate gates[2];
    weft_group group = WEFT_GROUP_INIT;
    struct flock slots = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (1 << 20) + 1, .l_len = 32};
    lease_begin(1);
    assert_int_equal(fcntl(shared.fd, F_OFD_SETLK, &slots), 0);
    atomic_store(&watches, 0);
    weft_pool *pool = leasing_pool(2);
    gates_fill(gates, 2, 1, pool, &group);
    while (!is_locked(WAITS)) nap();
    assert_int_equal(atomic_load(&watches), 0);
    slots.l_type = F_UNLCK;
    assert_int_equal(fcntl(shared.fd, F_OFD_SETLK, &slots), 0);
    while (atomic_load(&watches) == 0) nap(); /* there is one for it now */
    slots.l_type = F_WRLCK;
    do assert_int_equal(fcntl(shared.fd, F_OFD_GETLK, &slots), 0);
    while (slots.l_type == F_UNLCK);
    assert_int_equal(slots.l_len, 1);
    gates_open(gates, 2, pool, &group);
    end_pool(pool);
    assert_int_equal(atomic_load(&watches), 1);
    lease_end();
}

/* ---- giving to others --------------------------------------------------------------------------------------------- */

static int again(void *payload, weft_worker *self) {
    for (unsigned i = 0; i < 100; i++) os_pause();
    if (atomic_load(&tally->left) == 0) REQUIRE(weft_submit(weft_worker_pool(self), NULL, again, payload, 8) == WEFT_OK);
    return 0;
}

/* A program that never runs out of work. */
static int be_busy(void) {
    weft_pool *pool = leasing_pool(shared.tokens);
    for (unsigned i = 0; i < 4 * shared.tokens; i++) REQUIRE(weft_submit(pool, NULL, again, "payload", 8) == WEFT_OK);
    lease_until(shared.tokens);
    atomic_store(&tally->arrived, 1);
    REQUIRE(weft_group_wait_until(pool, NULL, WEFT_HELP_NONE, 0) == WEFT_OK);
    end_pool(pool);
    return 0;
}

/* Beside it others have their first thread, and then more: of four tokens two. Without the grace. */
static void test_busy_gives(void **state) {
    (void)state;
    gate gates[2];
    weft_group group = WEFT_GROUP_INIT;
    lease_begin(4);
    tally_share();
    pid_t program = program_start("busy");
    until(&tally->arrived, 1);
    weft_pool *pool = leasing_pool(2);
    for (unsigned round = 0; round < 5; round++) {
        gates_fill(gates, 2, 2, pool, &group);
        assert_in_range(lease_taken(), 2, 4);
        assert_false(is_locked(HUNGRY));
        gates_open(gates, 2, pool, &group);
        lease_until(4); /* the other has them again */
    }
    end_pool(pool);
    atomic_store(&tally->left, 1);
    assert_int_equal(program_end(program), 0);
    tally_unshare();
    lease_end();
}

static int expect_hungry(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    REQUIRE(is_locked(HUNGRY));
    return 0;
}

/* A call runs at once, though all tokens are taken, and leaves nothing behind. */
static void test_call(void **state) {
    (void)state;
    atomic_uint ran = 0;
    lease_begin(2);
    tally_share();
    weft_pool *pool = leasing_pool(1);
    assert_int_equal(submit_count(pool, NULL, &ran), WEFT_OK);
    assert_int_equal(weft_group_wait_until(pool, NULL, WEFT_HELP_NONE, 0), WEFT_OK);
    lease_until(0); /* its worker sleeps, and needs none */
    pid_t program = program_start("killed");
    until(&tally->arrived, 1);
    assert_int_equal(weft_run(pool, NULL, expect_hungry, NULL), WEFT_OK);
    while (is_locked(HUNGRY) || is_locked(WAITS)) nap();
    kill(program, SIGKILL);
    program_end(program);
    end_pool(pool);
    tally_unshare();
    lease_end();
}

static atomic_uint sleeps;
static atomic_bool is_timeless; /* no sleep for a token ends by its time limit */
bool __real_os_lock_file_wait(const os_lock_file *file, const os_pipe *bell, bool asks, uint64_t deadline_ns);
bool __wrap_os_lock_file_wait(const os_lock_file *file, const os_pipe *bell, bool asks, uint64_t deadline_ns);
bool __wrap_os_lock_file_wait(const os_lock_file *file, const os_pipe *bell, bool asks, uint64_t deadline_ns) {
    struct pollfd rings = {bell->fd, POLLIN, 0};
    atomic_fetch_add(&sleeps, 1);
    if (asks && deadline_ns == 0) REQUIRE(is_locked(WAITS)); /* others will tell it */
    while (atomic_load(&is_timeless) && poll(&rings, 1, 0) == 0) nap();
    return __real_os_lock_file_wait(file, bell, asks, deadline_ns);
}

/* Returns how often the pool slept for a token before the task began. */
static unsigned run_one(weft_pool *pool) {
    weft_group group = WEFT_GROUP_INIT;
    atomic_uint ran = 0;
    unsigned before = atomic_load(&sleeps);
    assert_int_equal(submit_count(pool, &group, &ran), WEFT_OK);
    assert_int_equal(weft_group_wait_until(pool, &group, WEFT_HELP_NONE, 0), WEFT_OK);
    assert_int_equal(atomic_load(&ran), 1);
    return atomic_load(&sleeps) - before;
}

/* Beside a program that keeps all in tasks that do not end, the grace is waited for once, not for each burst: until there was a token. */
static void test_grace_once(void **state) {
    (void)state;
    gate stays;
    weft_group group = WEFT_GROUP_INIT;
    lease_begin(2);
    tally_share();
    weft_pool *pool = leasing_pool(1);
    store_rlx(&tokens_grace_us, 1000);
    for (unsigned round = 1; round <= 3; round++) {
        unsigned before = atomic_load(&sleeps);
        pid_t program = program_start("killed");
        until(&tally->arrived, round);
        (void)run_one(pool); /* its worker may have waited already, if it started late */
        assert_int_not_equal(atomic_load(&sleeps), before);
        for (unsigned i = 0; i < 50; i++) assert_int_equal(run_one(pool), 0);
        kill(program, SIGKILL);
        program_end(program);
        for (unsigned taken = 0; taken == 0;) { /* a worker that has just found none goes on for a millisecond */
            gate_occupy(&stays, pool, &group);
            taken = lease_taken();
            gate_open(&stays);
            assert_int_equal(weft_group_wait_until(pool, &group, WEFT_HELP_NONE, 0), WEFT_OK);
        }
        lease_until(0);
    }
    store_rlx(&tokens_grace_us, TOKENS_GRACE_NONE);
    end_pool(pool);
    tally_unshare();
    lease_end();
}

static weft_pool *called;
static void *call_stays(void *to) {
    REQUIRE(weft_run(called, NULL, gate_task, to) == WEFT_OK);
    return NULL;
}

/* Beside a caller a pool that has had its share waits for the next, but not when the call has ended. */
static void test_caller_leaves(void **state) {
    (void)state;
    gate call, *to = &call;
    weft_group group = WEFT_GROUP_INIT;
    pthread_t caller;
    atomic_uint ran = 0;
    lease_begin(2);
    tally_share();
    pid_t program = program_start("killed");
    until(&tally->arrived, 1);
    called = leasing_pool(1);
    store_rlx(&tokens_grace_us, 1000);
    gate_init(&call);
    assert_int_equal(pthread_create(&caller, NULL, call_stays, &to), 0);
    await(&call.entered);
    submit_counted(called, &group, 1, 20000);
    assert_int_equal(weft_group_wait_until(called, &group, WEFT_HELP_NONE, 0), WEFT_OK);
    unsigned before = atomic_load(&sleeps);
    atomic_store(&is_timeless, true);
    assert_int_equal(submit_count(called, &group, &ran), WEFT_OK);
    while (atomic_load(&sleeps) == before) nap();
    gate_open(&call);
    assert_int_equal(weft_group_wait_until(called, &group, WEFT_HELP_NONE, 0), WEFT_OK);
    atomic_store(&is_timeless, false);
    assert_int_equal(pthread_join(caller, NULL), 0);
    store_rlx(&tokens_grace_us, TOKENS_GRACE_NONE);
    end_pool(called);
    kill(program, SIGKILL);
    program_end(program);
    tally_unshare();
    lease_end();
}

/* One token: the second program runs one thread by a pass, and takes the token when it comes free, while it runs. */
static void test_pass(void **state) {
    (void)state;
    gate gates[2];
    weft_group group = WEFT_GROUP_INIT;
    lease_begin(1);
    tally_share();
    pid_t program = program_start("killed");
    until(&tally->arrived, 1);
    weft_pool *pool = leasing_pool(1);
    gate_occupy(&gates[0], pool, &group);
    assert_true(is_locked(HUNGRY));
    assert_int_equal(kill(program, SIGKILL), 0);
    program_end(program);
    assert_int_equal(lease_taken(), 0);
    unsigned i = 0;
    for (; lease_taken() == 0; i++) { /* the worker looks between two tasks, if a millisecond has passed */
        gate *next = &gates[(i + 1) % 2], *to = next;
        gate_init(next);
        assert_int_equal(weft_submit(pool, &group, gate_task, &to, sizeof to), WEFT_OK);
        nap();
        gate_open(&gates[i % 2]);
        await(&next->entered);
    }
    assert_false(is_locked(HUNGRY));
    gate_open(&gates[i % 2]);
    assert_int_equal(weft_group_wait_until(pool, &group, WEFT_HELP_NONE, 0), WEFT_OK);
    end_pool(pool);
    tally_unshare();
    lease_end();
}

/* A program in a long task by a pass does not keep others from tokens that have come free: of three one stays for it. */
static void test_long_pass(void **state) {
    (void)state;
    gate gates[3];
    weft_group group = WEFT_GROUP_INIT;
    lease_begin(3);
    tally_share();
    pid_t programs[3];
    for (unsigned i = 0; i < 3; i++) { /* one token each */
        programs[i] = program_start("one");
        until(&tally->arrived, i + 1);
    }
    assert_int_equal(lease_taken(), 3);
    pid_t passing = program_start("one");
    until(&tally->arrived, 4);
    assert_true(is_locked(HUNGRY));
    for (unsigned i = 0; i < 3; i++) kill(programs[i], SIGKILL), program_end(programs[i]);
    assert_int_equal(lease_taken(), 0);
    weft_pool *pool = leasing_pool(4);
    gates_fill(gates, 3, 2, pool, &group);
    for (unsigned i = 0; i < 5; i++) nap();
    int value = -1;
    assert_true(sem_getvalue(&gates[2].entered, &value) == 0 && value == 0);
    assert_int_equal(lease_taken(), 2);
    kill(passing, SIGKILL);
    program_end(passing);
    await(&gates[2].entered);
    gates_open(gates, 3, pool, &group);
    end_pool(pool);
    tally_unshare();
    lease_end();
}

/* ---- children ----------------------------------------------------------------------------------------------------- */

int __lsan_is_turned_off(void);
static bool is_left;
int __lsan_is_turned_off(void) { return is_left; }

/* However a child ends, its parent's tokens stay the parent's. */
static void test_child(void **state) {
    (void)state;
    gate gates[2];
    weft_group group = WEFT_GROUP_INIT;
    lease_begin(2);
    weft_pool *pool = leasing_pool(2);
    gates_fill(gates, 2, 2, pool, &group);
    for (unsigned way = 0; way < 3; way++) {
        fflush(stdout);
        pid_t child = way == 2 ? _Fork() : fork();
        assert_true(child >= 0);
        if (child == 0) {
            if (way == 1) REQUIRE(weft_pool_destroy(&pool) == WEFT_EFORK);
            is_left = true;
            exit(0);
        }
        assert_int_equal(program_end(child), 0);
        assert_int_equal(lease_taken(), 2);
        assert_true(is_locked(EXTRA));
    }
    gates_open(gates, 2, pool, &group);
    end_pool(pool);
    lease_end();
}

#if !defined(__SANITIZE_THREAD__)
/* A child that makes pools is a program of its own. */
static void test_child_shares(void **state) {
    (void)state;
    gate gates[2];
    weft_group group = WEFT_GROUP_INIT;
    lease_begin(2);
    weft_pool *pool = leasing_pool(2);
    gate_occupy(&gates[0], pool, &group);
    fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        weft_group own = WEFT_GROUP_INIT;
        weft_pool *other = leasing_pool(2);
        gate_occupy(&held[0], other, &own);
        REQUIRE(lease_taken() == 2);
        gate_open(&held[0]);
        REQUIRE(weft_group_wait_until(other, &own, WEFT_HELP_NONE, 0) == WEFT_OK);
        end_pool(other);
        is_left = true;
        _exit(lease_taken() == 1 ? 0 : 1);
    }
    assert_int_equal(program_end(child), 0);
    assert_int_equal(lease_taken(), 1);
    gates_open(gates, 1, pool, &group);
    end_pool(pool);
    lease_end();
}
#endif

/* ---- a random load ------------------------------------------------------------------------------------------------ */

static uint64_t dice = 1;
static unsigned roll(unsigned n) {
    dice = dice * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (unsigned)(dice >> 33) % n;
}
static int add_up(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)self;
    atomic_fetch_add((atomic_ullong *)context, end - begin);
    return 0;
}
static void random_run(void) {
    unsigned count = 1 + roll(2);
    weft_pool *pools[2];
    for (unsigned i = 0; i < count; i++) pools[i] = leasing_pool(1 + roll(4));
    for (unsigned steps = roll(6); steps > 0; steps--) {
        weft_pool *pool = pools[roll(count)];
        weft_group group = WEFT_GROUP_INIT;
        atomic_ullong sum = 0;
        switch (roll(6)) {
        case 0: nap(); break;
        case 1: REQUIRE(weft_for(pool, (weft_range){0, 500, 5}, add_up, &sum) == WEFT_OK); break;
        case 2: (void)weft_pool_resize(pool, 1 + roll(weft_pool_workers(pool))); break;
        default:
            submit_counted(pool, roll(2) == 0 ? NULL : &group, 1 + roll(40), roll(2000));
            if (roll(2) == 0) REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
        }
        REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
    }
    for (unsigned i = 0; i < count; i++) end_pool(pools[i]);
}
static int random_program(void) {
    store_rlx(&tokens_grace_us, 1000);
    dice = (uint64_t)getpid();
    for (unsigned i = 0; i < 150; i++) random_run();
    return 0;
}

/* Three programs, of which one is killed now and then: at the end nobody has anything (lease_end). */
static void test_random(void **state) {
    (void)state;
    lease_begin(2);
    tally_share();
    pid_t programs[2] = {program_start("random"), program_start("random")};
    for (unsigned i = 0; i < 10; i++) {
        pid_t victim = program_start("random");
        for (unsigned naps = 0; naps < 5 + 3 * i; naps++) nap();
        kill(victim, SIGKILL);
        program_end(victim);
    }
    for (unsigned i = 0; i < 2; i++) assert_int_equal(program_end(programs[i]), 0);
    tally_unshare();
    lease_end();
}

static int scene(char **argv) {
    const char *name = argv[1];
    if (strcmp(name, "stay") == 0)
        for (;;) pause();
    program_begin(argv);
    shared.fd = open(getenv("WEFT_LEASE"), O_RDWR | O_CLOEXEC);
    if (strcmp(name, "work") == 0 || strcmp(name, "apart") == 0) return work(name[0] == 'w');
    if (strcmp(name, "busy") == 0) return be_busy();
    return strcmp(name, "random") == 0 ? random_program() : hold(name);
}

int main(int argc, char **argv) {
    store_rlx(&tokens_grace_us, TOKENS_GRACE_NONE); /* what is counted is exact */
    if (argc == 4 && strcmp(argv[0], "scene") == 0) return scene(argv);
    choose_cases(argc, argv);
    unsetenv("MAKEFLAGS");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_takes_and_gives),
        cmocka_unit_test(test_two_pools),
        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_few_watches),
        cmocka_unit_test(test_busy_gives),
        cmocka_unit_test(test_grace_once),
        cmocka_unit_test(test_caller_leaves),
        cmocka_unit_test(test_pass),
        cmocka_unit_test(test_call),
        cmocka_unit_test(test_long_pass),
        cmocka_unit_test(test_child),
#if !defined(__SANITIZE_THREAD__)
        cmocka_unit_test(test_child_shares),
#endif
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
