/* test_jobserver_calls.c: what a pool asks of the system. One without the flag reads no variable and opens no pipe. One with it: how often
 * it asks make, and waits for it, while it has no token; and that the workers that wait for their turn sleep. The clock is the test's:
 * it leaps where the library waits until a time. */
#define _GNU_SOURCE
#include "jobserver_help.h"

static atomic_ullong leapt_ns, stopped_ns;
static atomic_uint takes, waits, waits_for_make;

uint64_t __real_os_now_ns(void);
uint64_t __wrap_os_now_ns(void);
uint64_t __wrap_os_now_ns(void) {
    uint64_t stopped = atomic_load(&stopped_ns);
    return stopped != 0 ? stopped : __real_os_now_ns() + atomic_load(&leapt_ns);
}

bool __real_os_jobserver_take(const os_pipe *tokens, unsigned char *token);
bool __wrap_os_jobserver_take(const os_pipe *tokens, unsigned char *token);
bool __wrap_os_jobserver_take(const os_pipe *tokens, unsigned char *token) {
    atomic_fetch_add(&takes, 1);
    return __real_os_jobserver_take(tokens, token);
}

/* Of who has the turn, one thread. */
bool __real_os_jobserver_wait(const os_pipe *tokens, const os_pipe *bell, bool asks, uint64_t deadline_ns);
bool __wrap_os_jobserver_wait(const os_pipe *tokens, const os_pipe *bell, bool asks, uint64_t deadline_ns);
bool __wrap_os_jobserver_wait(const os_pipe *tokens, const os_pipe *bell, bool asks, uint64_t deadline_ns) {
    uint64_t now = os_now_ns();
    if (deadline_ns == 0) atomic_fetch_add(&waits_for_make, 1);
    if (deadline_ns == 0) return __real_os_jobserver_wait(tokens, bell, asks, 0);
    atomic_fetch_add(&waits, 1);
    if (deadline_ns > now) atomic_fetch_add(&leapt_ns, deadline_ns - now);
    return true;
}

static atomic_uint opens, reads, reads_of_makeflags;
int __real_os_jobserver_open(const char *flags, os_pipe *tokens);
int __wrap_os_jobserver_open(const char *flags, os_pipe *tokens);
int __wrap_os_jobserver_open(const char *flags, os_pipe *tokens) {
    atomic_fetch_add(&opens, 1);
    return __real_os_jobserver_open(flags, tokens);
}

char *__real_secure_getenv(const char *name);
char *__wrap_secure_getenv(const char *name);
char *__wrap_secure_getenv(const char *name) {
    atomic_fetch_add(&reads, 1);
    if (strcmp(name, "MAKEFLAGS") == 0) atomic_fetch_add(&reads_of_makeflags, 1);
    return __real_secure_getenv(name);
}

/* Threads that sleep for the turn of a pool, and how often they began to. */
static _Atomic(os_word *) turn;
static atomic_uint asleep, sleeps;
enum os_wait_result __real_os_wait(os_word *word, uint32_t value, uint64_t deadline_ns);
enum os_wait_result __wrap_os_wait(os_word *word, uint32_t value, uint64_t deadline_ns);
enum os_wait_result __wrap_os_wait(os_word *word, uint32_t value, uint64_t deadline_ns) {
    bool is_turn = word == atomic_load(&turn);
    if (is_turn) atomic_fetch_add(&asleep, 1), atomic_fetch_add(&sleeps, 1);
    enum os_wait_result result = __real_os_wait(word, value, deadline_ns);
    if (is_turn) atomic_fetch_sub(&asleep, 1);
    return result;
}

/* ---- who does not ask --------------------------------------------------------------------------------------------- */

static void test_not_asked(void **state) {
    (void)state;
    server_begin(2, "fifo");
    end_pool(make_pool(1)); /* the first one reads what is the process's (os_init) */
    assert_int_equal(atomic_load(&reads_of_makeflags), 0);
    atomic_store(&reads, 0);
    weft_pool *pool = make_pool(3);
    weft_group group = WEFT_GROUP_INIT;
    gate gates[3];
    for (unsigned i = 0; i < 3; i++) gate_occupy(&gates[i], pool, &group);
    assert_int_equal(atomic_load(&takes), 0);
    for (unsigned i = 0; i < 3; i++) gate_open(&gates[i]);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    end_pool(pool);
    assert_int_equal(atomic_load(&reads), 0);
    weft_config config = config_of(1);
    setenv("WEFT_JOBSERVER", "1", 1);
    assert_int_equal(weft_config_from_env(&config), WEFT_OK);
    unsetenv("WEFT_JOBSERVER");
    assert_int_not_equal(atomic_load(&reads), 0); /* they are counted */
    assert_int_equal(atomic_load(&reads_of_makeflags), 0);
    assert_int_equal(atomic_load(&opens), 0);
    end_pool(make_pool_with(&config));
    assert_int_equal(atomic_load(&reads_of_makeflags), 1);
    assert_int_equal(atomic_load(&opens), 1);
    server_end();
}

/* ---- the turn ----------------------------------------------------------------------------------------------------- */

/* One of four workers runs, one waits for make, and two sleep until they have the turn; then each has it. */
static void test_turn_sleeps(void **state) {
    (void)state;
    server_begin(0, "fifo");
    weft_pool *pool = sharing_pool(4);
    weft_group group = WEFT_GROUP_INIT;
    gate gates[4], *to;
    atomic_store(&sleeps, 0);
    atomic_store(&turn, &pool->tokens.turn);
    for (unsigned i = 0; i < 4; i++) {
        to = &gates[i];
        gate_init(to);
        assert_int_equal(weft_submit(pool, &group, gate_task, &to, sizeof to), WEFT_OK);
    }
    for (unsigned i = 0; atomic_load(&asleep) < 2; i++) {
        if (i > 20000) fail_msg("%u workers sleep", atomic_load(&asleep));
        nap();
    }
    for (unsigned i = 0; i < 20; i++) nap();
    assert_in_range(atomic_load(&sleeps), 2, 100); /* they stay asleep */
    server.tokens = 3;
    assert_int_equal(write(server.to, "abc", 3), 3);
    for (unsigned i = 0; i < 4; i++) await(&gates[i].entered);
    for (unsigned i = 0; i < 4; i++) gate_open(&gates[i]);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    atomic_store(&turn, NULL);
    end_pool(pool);
    server_end();
}

/* ---- beside a caller ---------------------------------------------------------------------------------------------- */

#define TASKS 100u

static int stay(void *payload, weft_worker *self) {
    atomic_uint *ran = *(atomic_uint **)payload;
    (void)self;
    while (atomic_load(ran) < TASKS) sched_yield();
    return 0;
}

/* It stays in a call until others have run many brief tasks: they run together, not each after a wait. Of a share nothing passes
 * but what the test takes; it is minutes. */
static void test_share(void **state) {
    (void)state;
    server_begin(0, "fifo");
    store_rlx(&tokens_grace_us, UINT32_MAX - 1);
    weft_pool *pool = sharing_pool(2);
    weft_group group = WEFT_GROUP_INIT;
    atomic_uint ran = 0, *to = &ran;
    gate first;
    gate_occupy(&first, pool, &group); /* all are there when a worker begins */
    for (unsigned i = 0; i < TASKS; i++) assert_int_equal(submit_count(pool, &group, &ran), WEFT_OK);
    atomic_store(&waits, 0);
    gate_open(&first);
    assert_int_equal(weft_run(pool, NULL, stay, &to), WEFT_OK);
    assert_in_range(atomic_load(&waits), 0, TASKS / 10);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    end_pool(pool);
    store_rlx(&tokens_grace_us, TOKENS_GRACE_NONE);
    server_end();
}

/* ---- giving way ------------------------------------------------------------------------------------------------------ */

#define WARM 5000u /* the library knows then that these tasks are tiny */
#define QUEUED 1000u
#define HELD 10u /* the one of them that is running when the caller comes */

static atomic_uint begun;
static gate held_task;
static int count_and_hold(void *payload, weft_worker *self) {
    (void)self;
    if (atomic_fetch_add(&begun, 1) + 1 == *(unsigned *)payload) {
        sem_post(&held_task.entered);
        await(&held_task.opened);
    }
    return 0;
}

/* The worker's task ends now that this call counts: the worker waits for make before any other of its tasks. */
static unsigned begun_beside;
static int stay_until_it_waits(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    atomic_store(&waits_for_make, 0);
    gate_open(&held_task);
    while (atomic_load(&waits_for_make) == 0 && atomic_load(&begun) < QUEUED) nap();
    begun_beside = atomic_load(&begun);
    return 0;
}

static void test_gives_way(void **state) {
    (void)state;
    server_begin(0, "fifo");
    weft_pool *pool = sharing_pool(1);
    weft_group group = WEFT_GROUP_INIT;
    gate first;
    unsigned none = 0, number = HELD;
    for (unsigned i = 0; i < 20; i++) {
        gate_init(&held_task);
        for (unsigned n = 0; n < WARM; n++)
            assert_int_equal(weft_submit(pool, &group, count_and_hold, &none, sizeof none), WEFT_OK);
        assert_int_equal(weft_group_wait_until(pool, &group, WEFT_HELP_NONE, 0), WEFT_OK); /* by the worker alone */
        atomic_store(&begun, 0);
        gate_occupy(&first, pool, &group); /* all are there when the first is claimed */
        for (unsigned n = 0; n < QUEUED; n++)
            assert_int_equal(weft_submit(pool, &group, count_and_hold, &number, sizeof number), WEFT_OK);
        gate_open(&first);
        await(&held_task.entered);
        assert_int_equal(weft_run(pool, NULL, stay_until_it_waits, NULL), WEFT_OK);
        assert_int_equal(begun_beside, HELD);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
        assert_int_equal(atomic_load(&begun), QUEUED);
    }
    assert_int_equal(pool->claim_max, 1); /* more in one claim would all begin; not each round has had such a claim */
    end_pool(pool);
    server_end();
}

/* ---- calls that find no room -------------------------------------------------------------------------------------- */

static int just_run(void *payload, weft_worker *self) { return (void)payload, (void)self, 0; }

/* In one millisecond make is asked once. */
static void test_full_calls(void **state) {
    (void)state;
    server_begin(0, "fifo");
    weft_pool *pool = sharing_pool(1);
    weft_group group = WEFT_GROUP_INIT;
    gate g;
    gate_occupy(&g, pool, &group);
    atomic_store(&stopped_ns, os_now_ns());
    atomic_store(&takes, 0);
    for (unsigned i = 0; i < 1000; i++) assert_int_equal(weft_run(pool, NULL, just_run, NULL), WEFT_OK);
    assert_in_range(atomic_load(&takes), 0, 1);
    atomic_fetch_add(&stopped_ns, 2000000); /* it is asked again, and has one now */
    assert_int_equal(write(server.to, "a", 1), 1);
    server.tokens = 1;
    assert_int_equal(weft_run(pool, NULL, just_run, NULL), WEFT_OK);
    assert_in_range(atomic_load(&takes), 1, 2);
    atomic_store(&stopped_ns, 0);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    end_pool(pool);
    server_end();
}

int main(int argc, char **argv) {
    store_rlx(&tokens_grace_us, TOKENS_GRACE_NONE);
    choose_cases(argc, argv);
    unsetenv("MAKEFLAGS");
    unsetenv("WEFT_JOBSERVER");
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_not_asked), cmocka_unit_test(test_turn_sleeps),
                                       cmocka_unit_test(test_share), cmocka_unit_test(test_gives_way),
                                       cmocka_unit_test(test_full_calls)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
