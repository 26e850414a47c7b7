/* test_jobserver.c: pools that share make's budget of threads: under a server of the test's own, by a named pipe and by a pipe.
 * Tokens are conserved, no more workers run than there are tokens for, and nothing needs one. */
#define _GNU_SOURCE
#include "jobserver_help.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#define CHILDREN_START_THREADS false
#else
#define CHILDREN_START_THREADS true
#endif

/* ---- tokens ------------------------------------------------------------------------------------------------------- */

/* All tokens are taken while there is work for them, and are back when there is none, before the pool ends. */
static void takes_and_gives(const char *style) {
    server_begin(3, style);
    int flags = fcntl(server.from, F_GETFL);
    weft_pool *pool = sharing_pool(6);
    assert_int_equal(weft_pool_workers(pool), 6);
    server_until(3);
    weft_group group = WEFT_GROUP_INIT;
    gate gates[4];
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < 4; i++) {
            gate *g = &gates[i];
            gate_init(g);
            assert_int_equal(weft_submit(pool, &group, gate_task, &g, sizeof g), WEFT_OK);
        }
        for (unsigned i = 0; i < 4; i++) await(&gates[i].entered);
        assert_int_equal(server_has(), 0);
        nap();
        assert_int_equal(server_has(), 0);
        for (unsigned i = 0; i < 4; i++) gate_open(&gates[i]);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
        server_until(3);
    }
    assert_int_equal(fcntl(server.from, F_GETFL), flags); /* make's own description is as it was */
    end_pool(pool);
    server_end();
}
static void test_fifo(void **state) {
    (void)state;
    takes_and_gives("fifo");
}
static void test_pipe(void **state) {
    (void)state;
    takes_and_gives("auth");
}
static void test_old_pipe(void **state) {
    (void)state;
    takes_and_gives("fds");
}

/* Of two pools, with two tokens: no more than three tasks at once in workers, and one beside them in the thread that waits. */
static void test_no_more_than_tokens(void **state) {
    (void)state;
    server_begin(2, "fifo");
    tally_begin();
    weft_pool *pools[2] = {sharing_pool(4), sharing_pool(4)};
    weft_group groups[2] = {WEFT_GROUP_INIT, WEFT_GROUP_INIT};
    for (unsigned i = 0; i < 200; i++) submit_counted(pools[i % 2], &groups[i % 2], 20, i * 37 % 1000);
    /* half by workers alone */
    assert_int_equal(weft_group_wait_until(pools[0], &groups[0], WEFT_HELP_NONE, 0), WEFT_OK);
    assert_int_equal(weft_group_wait(pools[1], &groups[1]), WEFT_OK);
    for (unsigned i = 0; i < 2; i++) end_pool(pools[i]);
    assert_int_equal(atomic_load(&tally->done), 4000);
    assert_in_range(atomic_load(&tally->most), 1, 4);
    assert_in_range(atomic_load(&tally->most_workers), 1, 3);
    tally_end();
    server_end();
}

static int add_up(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)self;
    atomic_fetch_add((atomic_ullong *)context, end - begin);
    return 0;
}
static weft_pool *looping;
static int loop_task(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    atomic_ullong sum = 0;
    REQUIRE(weft_for(looping, (weft_range){0, 1000, 10}, add_up, &sum) == WEFT_OK);
    REQUIRE(atomic_load(&sum) == 1000);
    weft_group inner = WEFT_GROUP_INIT;
    submit_counted(looping, &inner, 5, 100);
    REQUIRE(weft_group_wait(looping, &inner) == WEFT_OK);
    return 0;
}

/* There is never a token: one worker at a time, and the thread that waits, do all. */
static void test_no_token(void **state) {
    (void)state;
    server_begin(0, "fifo");
    tally_begin();
    looping = sharing_pool(4);
    weft_group group = WEFT_GROUP_INIT;
    submit_counted(looping, &group, 500, 100);
    assert_int_equal(weft_group_wait_until(looping, &group, WEFT_HELP_NONE, 0), WEFT_OK); /* by workers alone */
    for (unsigned i = 0; i < 100; i++) assert_int_equal(weft_submit(looping, &group, loop_task, NULL, 0), WEFT_OK);
    assert_int_equal(weft_group_wait(looping, &group), WEFT_OK);
    assert_int_equal(atomic_load(&tally->done), 1000);
    assert_in_range(atomic_load(&tally->most), 1, 2);
    assert_int_equal(atomic_load(&tally->most_workers), 1);
    end_pool(looping);
    tally_end();
    server_end();
}

/* By hand fewer than the tokens allow; then as many as they do. */
static void test_resize(void **state) {
    (void)state;
    server_begin(3, "auth");
    weft_pool *pool = sharing_pool(4);
    weft_group group = WEFT_GROUP_INIT;
    assert_int_equal(weft_pool_resize(pool, 2), WEFT_OK);
    gate gates[2], *third;
    for (unsigned i = 0; i < 2; i++) gate_occupy(&gates[i], pool, &group);
    server_until(2);
    assert_int_equal(weft_pool_workers(pool), 2);
    assert_int_equal(weft_pool_resize(pool, 4), WEFT_OK);
    gate late;
    gate_init(&late);
    third = &late;
    assert_int_equal(weft_submit(pool, &group, gate_task, &third, sizeof third), WEFT_OK);
    await(&late.entered);
    server_until(1); /* a fourth would have nothing to run */
    assert_int_equal(weft_pool_resize(pool, 1), WEFT_OK);
    gate_open(&late);
    for (unsigned i = 0; i < 2; i++) gate_open(&gates[i]);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    server_until(3);
    end_pool(pool);
    server_end();
}

/* Tokens that come free one by one: each brings one worker more, for the next one waits for it then. */
static void test_later(void **state) {
    (void)state;
    server_begin(0, "fifo");
    weft_pool *pool = sharing_pool(4);
    weft_group group = WEFT_GROUP_INIT;
    gate gates[4];
    for (unsigned i = 0; i < 4; i++) {
        gate *g = &gates[i];
        gate_init(g);
        assert_int_equal(weft_submit(pool, &group, gate_task, &g, sizeof g), WEFT_OK);
    }
    for (unsigned i = 0; i < 4; i++) {
        await(&gates[i].entered);
        if (i < 3) assert_int_equal(write(server.to, "c", 1), 1);
    }
    for (unsigned i = 0; i < 4; i++) gate_open(&gates[i]);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    server_until(3);
    end_pool(pool);
    char tokens[3];
    assert_int_equal(read(server.from, tokens, 3), 3);
    assert_memory_equal(tokens, "ccc", 3);
    server_end();
}

/* A worker that never runs out of tasks gives way to a thread that waits. */
static atomic_bool stops;
static int again(void *payload, weft_worker *self) {
    if (!atomic_load(&stops)) REQUIRE(weft_submit(weft_worker_pool(self), NULL, again, payload, 8) == WEFT_OK);
    return 0;
}
static void test_worker_gives_way(void **state) {
    (void)state;
    server_begin(0, "fifo");
    weft_pool *pool = sharing_pool(1);
    weft_group group = WEFT_GROUP_INIT;
    atomic_uint ran = 0;
    atomic_store(&stops, false);
    assert_int_equal(weft_submit(pool, NULL, again, "payload", 8), WEFT_OK);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(submit_count(pool, &group, &ran), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    }
    atomic_store(&stops, true);
    assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
    assert_int_equal(atomic_load(&ran), 20);
    end_pool(pool);
    server_end();
}

/* ---- nobody waits for ever ---------------------------------------------------------------------------------------- */

/* Another pool has the only turn for as long as it likes. One whose workers wait for theirs ends all the same. */
static void test_end_beside(void **state) {
    (void)state;
    server_begin(0, "fifo");
    weft_group group = WEFT_GROUP_INIT;
    gate g;
    weft_pool *other = sharing_pool(1);
    gate_occupy(&g, other, &group);
    for (unsigned i = 0; i < 100; i++) end_pool(sharing_pool(1 + i % 4));
    gate_open(&g);
    assert_int_equal(weft_group_wait(other, &group), WEFT_OK);
    end_pool(other);
    server_end();
}

/* A task in a section lets another run, and comes back though that one has not ended. */
static int block_task(void *payload, weft_worker *self) {
    gate *g = *(gate **)payload;
    REQUIRE(weft_block_begin(self) == WEFT_OK);
    await(&g->entered); /* by the other task */
    REQUIRE(weft_block_end(self) == WEFT_OK);
    gate_open(g);
    return 0;
}
static void test_block(void **state) {
    (void)state;
    server_begin(0, "auth");
    weft_pool *pool = sharing_pool(1);
    weft_group group = WEFT_GROUP_INIT;
    gate g, *to = &g;
    gate_init(&g);
    store_rlx(&tokens_grace_us, 1000);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(weft_submit(pool, &group, block_task, &to, sizeof to), WEFT_OK);
        assert_int_equal(weft_submit(pool, &group, gate_task, &to, sizeof to), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    }
    store_rlx(&tokens_grace_us, TOKENS_GRACE_NONE);
    end_pool(pool);
    server_end();
}

/* A section of another pool, which does not share: the thread of this one sleeps all the same, and another task runs. */
static weft_pool *apart;
static int sleep_apart(void *payload, weft_worker *self) {
    gate *g = *(gate **)payload;
    (void)weft_block_begin(self); /* also where no spare can come */
    await(&g->entered);           /* by the other task */
    gate_open(g);
    REQUIRE(weft_block_end(self) == WEFT_OK);
    return 0;
}
static int run_apart(void *payload, weft_worker *self) {
    (void)self;
    REQUIRE(weft_run(apart, NULL, sleep_apart, payload) == WEFT_OK);
    return 0;
}
static void test_block_across(void **state) {
    (void)state;
    server_begin(0, "fifo");
    apart = make_pool(1);
    weft_pool *pool = sharing_pool(4);
    weft_group group = WEFT_GROUP_INIT;
    gate g, *to = &g;
    gate_init(&g);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(weft_submit(pool, &group, run_apart, &to, sizeof to), WEFT_OK);
        assert_int_equal(weft_submit(pool, &group, gate_task, &to, sizeof to), WEFT_OK);
        assert_int_equal(weft_group_wait_until(pool, &group, WEFT_HELP_NONE, 0), WEFT_OK); /* by workers alone */
    }
    end_pool(pool);
    end_pool(apart);
    server_end();
}

/* A task waits for what a thread does after its own wait, and one of another pool is to run meanwhile. Only time helps. */
static void test_grace(void **state) {
    (void)state;
    server_begin(0, "fifo");
    weft_pool *pool = sharing_pool(2), *other = sharing_pool(2);
    weft_group group = WEFT_GROUP_INIT, brief = WEFT_GROUP_INIT;
    atomic_uint ran = 0;
    gate here, there, *to = &there;
    store_rlx(&tokens_grace_us, 1000);
    for (unsigned i = 0; i < 20; i++) {
        gate_occupy(&here, pool, &group);
        gate_init(&there);
        assert_int_equal(submit_count(pool, &brief, &ran), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &brief), WEFT_OK);
        assert_int_equal(weft_submit(other, NULL, gate_task, &to, sizeof to), WEFT_OK);
        await(&there.entered);
        gate_open(&here);
        gate_open(&there);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
        assert_int_equal(weft_group_wait(other, NULL), WEFT_OK);
    }
    assert_int_equal(atomic_load(&ran), 20);
    store_rlx(&tokens_grace_us, TOKENS_GRACE_NONE);
    end_pool(other);
    end_pool(pool);
    server_end();
}

/* A thread that is always in some call: the pool's worker has its turn all the same. */
static int just_run(void *payload, weft_worker *self) { return (void)payload, (void)self, 0; }
static void test_caller_comes_again(void **state) {
    (void)state;
    server_begin(0, "auth");
    weft_pool *pool = sharing_pool(2);
    store_rlx(&tokens_grace_us, 1000);
    for (unsigned i = 1; i <= 20; i++) {
        atomic_uint ran = 0;
        assert_int_equal(submit_count(pool, NULL, &ran), WEFT_OK);
        while (atomic_load(&ran) == 0) assert_int_equal(weft_run(pool, NULL, just_run, NULL), WEFT_OK);
    }
    store_rlx(&tokens_grace_us, TOKENS_GRACE_NONE);
    end_pool(pool);
    server_end();
}

/* A wait inside a section runs tasks: it counts, and the section's end finds things as they were. */
static int wait_in_section(void *payload, weft_worker *self) {
    weft_pool *pool = weft_worker_pool(self);
    weft_group inner = WEFT_GROUP_INIT;
    (void)weft_block_begin(self); /* also where no spare can come */
    submit_counted(pool, &inner, 5, 100);
    REQUIRE(weft_group_wait_until(pool, &inner, *(enum weft_help *)payload, 0) == WEFT_OK);
    REQUIRE(weft_block_end(self) == WEFT_OK);
    return 0;
}
static void test_wait_in_section(void **state) {
    (void)state;
    tally_begin();
    for (unsigned kind = 0; kind < 4; kind++) {
        server_begin(kind % 2, "fifo");
        weft_config config = config_of(2);
        config.flags = WEFT_POOL_JOBSERVER | (kind >= 2 ? WEFT_POOL_ORDERED : 0);
        weft_pool *pool = make_pool_with(&config);
        weft_group group = WEFT_GROUP_INIT;
        for (unsigned i = 0; i < 60; i++) {
            enum weft_help help = i % 2 == 0 ? WEFT_HELP_BELOW : WEFT_HELP_NONE;
            assert_int_equal(weft_submit(pool, &group, wait_in_section, &help, sizeof help), WEFT_OK);
            if (kind >= 2 || i % 3 == 0) assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
        }
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
        server_until(kind % 2);
        end_pool(pool);
        server_end();
    }
    assert_int_equal(atomic_load(&tally->done), 4 * 60 * 5);
    tally_end();
}

/* A section in a task that a wait in a section runs sleeps until another worker has run a task. */
static gate deep;
static int sleep_inside(void *payload, weft_worker *self) {
    (void)payload;
    (void)weft_block_begin(self);
    await(&deep.opened);
    REQUIRE(weft_block_end(self) == WEFT_OK);
    return 0;
}
static int nest(void *payload, weft_worker *self) {
    weft_pool *pool = weft_worker_pool(self);
    weft_group inner = WEFT_GROUP_INIT;
    (void)payload;
    (void)weft_block_begin(self);
    REQUIRE(weft_submit(pool, &inner, sleep_inside, NULL, 0) == WEFT_OK);
    REQUIRE(weft_group_wait(pool, &inner) == WEFT_OK);
    REQUIRE(weft_block_end(self) == WEFT_OK);
    return 0;
}
static int open_deep(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    gate_open(&deep);
    return 0;
}
static void test_nested_sections(void **state) {
    (void)state;
    gate_init(&deep);
    for (unsigned i = 0; i < 60; i++) {
        server_begin(0, "fifo");
        weft_pool *pool = sharing_pool(2);
        weft_group group = WEFT_GROUP_INIT;
        assert_int_equal(weft_submit(pool, &group, nest, NULL, 0), WEFT_OK);
        assert_int_equal(weft_submit(pool, &group, open_deep, NULL, 0), WEFT_OK);
        enum weft_help help = i % 2 == 0 ? WEFT_HELP_BELOW : WEFT_HELP_NONE;
        assert_int_equal(weft_group_wait_until(pool, &group, help, 0), WEFT_OK);
        end_pool(pool);
        server_end();
    }
}

/* ---- who shares --------------------------------------------------------------------------------------------------- */

/* The pool has the flag as wished, and takes tokens just then; without it, it has no limit and says nothing. */
static void expect_shares(const weft_config *config, bool wish) {
    weft_config found;
    weft_pool *pool = make_pool_with(config);
    weft_group group = WEFT_GROUP_INIT;
    gate gates[2], *to;
    weft_config_init(&found);
    assert_int_equal(weft_pool_config(pool, &found), WEFT_OK);
    assert_int_equal((found.flags & WEFT_POOL_JOBSERVER) != 0, wish);
    if (found.refused != NULL && strstr(found.refused, "jobserver") != NULL) fail_msg("%s", found.refused);
    for (unsigned i = 0; i < 2; i++) gate_occupy(&gates[i], pool, &group);
    assert_int_equal(server_has(), wish ? 0 : 1);
    gate third;
    gate_init(&third);
    to = &third;
    assert_int_equal(weft_submit(pool, &group, gate_task, &to, sizeof to), WEFT_OK);
    if (!wish) await(&third.entered);
    for (unsigned i = 0; i < 2; i++) gate_open(&gates[i]);
    gate_open(&third);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    end_pool(pool);
}

/* Under make: those alone whose program, or whose user, asks. */
static void test_who_shares(void **state) {
    (void)state;
    static const char *const styles[] = {"fifo", "auth"};
    for (unsigned i = 0; i < 2; i++) {
        server_begin(1, styles[i]);
        weft_config config = config_of(3);
        expect_shares(&config, false);
        assert_int_equal(weft_config_from_env(&config), WEFT_OK);
        expect_shares(&config, false);
        config.flags = WEFT_POOL_JOBSERVER;
        expect_shares(&config, true);
        setenv("WEFT_JOBSERVER", "0", 1);
        assert_int_equal(weft_config_from_env(&config), WEFT_OK);
        expect_shares(&config, false);
        setenv("WEFT_JOBSERVER", "1", 1);
        expect_shares(&config, false); /* read where the others are */
        assert_int_equal(weft_config_from_env(&config), WEFT_OK);
        expect_shares(&config, true);
        unsetenv("WEFT_JOBSERVER");
        server_end();
    }
}

/* ---- a random load ------------------------------------------------------------------------------------------------ */

#define RUNS 1000u

static uint64_t dice = 1;
static unsigned roll(unsigned n) {
    dice = dice * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (unsigned)(dice >> 33) % n;
}

static void random_run(void) {
    unsigned count = 1 + roll(2);
    weft_pool *pools[2];
    for (unsigned i = 0; i < count; i++) pools[i] = sharing_pool(1 + roll(4));
    for (unsigned steps = roll(6); steps > 0; steps--) {
        weft_pool *pool = pools[roll(count)];
        weft_group group = WEFT_GROUP_INIT;
        atomic_ullong sum = 0;
        unsigned most = 1;
        switch (roll(6)) {
        case 0: nap(); break; /* idle ones give back */
        case 1: REQUIRE(weft_for(pool, (weft_range){0, 500, 5}, add_up, &sum) == WEFT_OK); break;
        case 2:
            most += weft_pool_workers(pool);
            (void)weft_pool_resize(pool, 1 + roll(most));
            break;
        default:
            submit_counted(pool, roll(2) == 0 ? NULL : &group, 1 + roll(40), roll(2000));
            if (roll(2) == 0) REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
        }
        REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
    }
    if (roll(2) == 0) server_until(server.tokens); /* idle pools keep none */
    for (unsigned i = 0; i < count; i++) end_pool(pools[i]);
}

/* As many tokens as before, the same ones. */
static void test_conserved(void **state) {
    (void)state;
    tally_begin();
    for (unsigned style = 0; style < 2; style++) {
        unsigned tokens = 1 + style * 2;
        server_begin(tokens, style == 0 ? "fifo" : "auth");
        for (unsigned i = 0; i < RUNS / 2; i++) {
            random_run();
            server_expect_all();
        }
        server_end();
    }
    tally_end();
}

/* ---- processes that end ------------------------------------------------------------------------------------------- */

static int status_of(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0) REQUIRE(errno == EINTR);
    return status;
}

/* Asked by LeakSanitizer before it looks: it does not see what the memory of a pool points to that is left as it is. */
static bool is_left;
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return is_left; }

/* A child has none of its parent's tokens, whatever it does at its end, also one whose making nobody was told of. */
static void test_child_has_none(void **state) {
    (void)state;
    server_begin(2, "auth");
    weft_group group = WEFT_GROUP_INIT;
    weft_pool *pool = holding_pool(&group);
    assert_int_equal(server_has(), 0);
    for (unsigned way = 0; way < 3; way++) {
        fflush(stdout);
        pid_t child = way == 2 ? _Fork() : fork();
        assert_true(child >= 0);
        if (child == 0) {
            if (way == 1) REQUIRE(weft_pool_destroy(&pool) == WEFT_EFORK);
            is_left = true;
            exit(0);
        }
        assert_int_equal(status_of(child), 0);
        assert_int_equal(server_has(), 0);
    }
    for (unsigned i = 0; i < 3; i++) gate_open(&held[i]);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    end_pool(pool);
    server_end();
}

/* A program that leaves without an end of its pool gives back what that holds. One that is killed cannot. */
static void test_exit_and_kill(void **state) {
    (void)state;
    if (!CHILDREN_START_THREADS) {
        printf("skipped, exit and kill: ThreadSanitizer lets no child of a threaded process start threads\n");
        return;
    }
    server_begin(2, "fifo");
    for (unsigned way = 0; way < 2; way++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            weft_group group = WEFT_GROUP_INIT;
            (void)holding_pool(&group);
            REQUIRE(server_has() == 0);
            if (way == 1) raise(SIGKILL);
            is_left = true;
            exit(0);
        }
        int status = status_of(child);
        if (way == 0) {
            assert_int_equal(status, 0);
            server_expect_all();
        } else {
            assert_true(WIFSIGNALED(status));
            assert_int_equal(server_has(), 0); /* they are lost: nobody knows whose they were */
        }
    }
    assert_int_equal(write(server.to, "ab", 2), 2);
    server_end();
}

/* exit in a signal handler, wherever the thread is: the process ends, and gives back all that it holds. */
static void leave_by_signal(int number) {
    (void)number;
    exit(0);
}
static void test_exit_by_signal(void **state) {
    (void)state;
    if (!CHILDREN_START_THREADS) {
        printf("skipped, exit by a signal: ThreadSanitizer lets no child of a threaded process start threads\n");
        return;
    }
    server_begin(2, "fifo");
    for (unsigned i = 0; i < 100; i++) {
        fflush(stdout);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            weft_group group = WEFT_GROUP_INIT;
            weft_pool *pool = holding_pool(&group);
            is_left = true;
            signal(SIGALRM, leave_by_signal);
            struct itimerval soon = {.it_value.tv_usec = 100 + 37 * i};
            setitimer(ITIMER_REAL, &soon, NULL);
            for (;;) REQUIRE(weft_run(pool, NULL, just_run, NULL) == WEFT_OK);
        }
        assert_int_equal(status_of(child), 0);
        server_expect_all();
    }
    server_end();
}

int main(int argc, char **argv) {
    server_process();
    store_rlx(&tokens_grace_us, TOKENS_GRACE_NONE); /* no test but those for it needs it: what they count is exact */
    choose_cases(argc, argv);
    unsetenv("MAKEFLAGS");
    unsetenv("WEFT_JOBSERVER");
#if defined(__SANITIZE_ADDRESS__)
    printf("skipped, leaks of processes that leave a pool: LeakSanitizer does not see what its memory points to\n");
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fifo),
        cmocka_unit_test(test_pipe),
        cmocka_unit_test(test_old_pipe),
        cmocka_unit_test(test_no_more_than_tokens),
        cmocka_unit_test(test_no_token),
        cmocka_unit_test(test_resize),
        cmocka_unit_test(test_later),
        cmocka_unit_test(test_worker_gives_way),
        cmocka_unit_test(test_end_beside),
        cmocka_unit_test(test_block),
        cmocka_unit_test(test_block_across),
        cmocka_unit_test(test_grace),
        cmocka_unit_test(test_caller_comes_again),
        cmocka_unit_test(test_wait_in_section),
        cmocka_unit_test(test_nested_sections),
        cmocka_unit_test(test_who_shares),
        cmocka_unit_test(test_conserved),
        cmocka_unit_test(test_child_has_none),
        cmocka_unit_test(test_exit_and_kill),
        cmocka_unit_test(test_exit_by_signal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
