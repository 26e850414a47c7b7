/* test_jobserver.c: pools that share make's budget of threads: under a server of the test's own, by a named pipe and by a pipe.
 * Tokens are conserved, no more threads run than there are tokens for, and nothing needs one. */
#define _GNU_SOURCE
#include "sched/tokens.h"
#include "tally.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#define CHILDREN_START_THREADS false
#else
#define CHILDREN_START_THREADS true
#endif

/* ---- a server ----------------------------------------------------------------------------------------------------- */

#define TOKENS_MAX 16u

static struct {
    int from, to; /* as make's: blocking */
    char directory[64], path[80];
    unsigned tokens;
} server;

static void server_fill(unsigned tokens, const char *style) {
    char flags[160];
    server.tokens = tokens;
    for (unsigned i = 0; i < tokens; i++) {
        char token = (char)('a' + i);
        REQUIRE(write(server.to, &token, 1) == 1);
    }
    if (strcmp(style, "fifo") == 0)
        snprintf(flags, sizeof flags, "kw -j%u --jobserver-auth=fifo:%s -- A=--jobserver-auth=x", tokens + 1, server.path);
    else
        snprintf(flags, sizeof flags, " -j%u --jobserver-%s=%d,%d", tokens + 1, style, server.from, server.to);
    REQUIRE(setenv("MAKEFLAGS", flags, 1) == 0);
}

static void server_begin(unsigned tokens, const char *style) {
    int ends[2];
    if (strcmp(style, "fifo") == 0) {
        strcpy(server.directory, "/tmp/weft-jobserver-XXXXXX");
        REQUIRE(mkdtemp(server.directory) != NULL);
        snprintf(server.path, sizeof server.path, "%s/fifo", server.directory);
        REQUIRE(mkfifo(server.path, 0600) == 0);
        server.from = open(server.path, O_RDWR | O_CLOEXEC);
        server.to = server.from;
        REQUIRE(server.from >= 0);
    } else {
        REQUIRE(pipe(ends) == 0);
        server.from = ends[0];
        server.to = ends[1];
    }
    server_fill(tokens, style);
}

static unsigned server_has(void) {
    int bytes = -1;
    REQUIRE(ioctl(server.from, FIONREAD, &bytes) == 0);
    return (unsigned)bytes;
}

/* The time limit of the whole test is the watchdog. */
static void server_until(unsigned tokens) {
    while (server_has() != tokens) nap();
}

/* All are there again, each once. */
static void server_expect_all(void) {
    char tokens[TOKENS_MAX];
    bool seen[TOKENS_MAX] = {false};
    REQUIRE(server_has() == server.tokens);
    if (server.tokens == 0) return;
    REQUIRE(read(server.from, tokens, sizeof tokens) == (ssize_t)server.tokens);
    for (unsigned i = 0; i < server.tokens; i++) {
        unsigned number = (unsigned)(tokens[i] - 'a');
        REQUIRE(number < server.tokens && !seen[number]);
        seen[number] = true;
    }
    REQUIRE(write(server.to, tokens, server.tokens) == (ssize_t)server.tokens);
}

static void server_end(void) {
    server_expect_all();
    close(server.from);
    if (server.to != server.from) close(server.to);
    if (server.path[0] != 0) unlink(server.path);
    if (server.path[0] != 0) rmdir(server.directory);
    server.path[0] = 0;
    unsetenv("MAKEFLAGS");
}

static weft_pool *sharing_pool(uint32_t workers) {
    weft_config config = config_of(workers);
    config.flags = WEFT_POOL_JOBSERVER;
    return make_pool_with(&config);
}

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

/* Of two pools, with two tokens: no more than three tasks at once, in workers and in the thread that waits. */
static void test_no_more_than_tokens(void **state) {
    (void)state;
    server_begin(2, "fifo");
    tally_begin();
    weft_pool *pools[2] = {sharing_pool(4), sharing_pool(4)};
    weft_group groups[2] = {WEFT_GROUP_INIT, WEFT_GROUP_INIT};
    for (unsigned i = 0; i < 200; i++) submit_counted(pools[i % 2], &groups[i % 2], 20, i * 37 % 1000);
    for (unsigned i = 0; i < 2; i++) assert_int_equal(weft_group_wait(pools[i], &groups[i]), WEFT_OK);
    for (unsigned i = 0; i < 2; i++) end_pool(pools[i]);
    assert_int_equal(atomic_load(&tally->done), 4000);
    assert_in_range(atomic_load(&tally->most), 1, 3);
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

/* There is never a token: one thread at a time does all. */
static void test_no_token(void **state) {
    (void)state;
    server_begin(0, "fifo");
    tally_begin();
    looping = sharing_pool(4);
    weft_group group = WEFT_GROUP_INIT;
    submit_counted(looping, &group, 500, 100);
    for (unsigned i = 0; i < 100; i++) assert_int_equal(weft_submit(looping, &group, loop_task, NULL, 0), WEFT_OK);
    assert_int_equal(weft_group_wait(looping, &group), WEFT_OK);
    assert_int_equal(atomic_load(&tally->done), 1000);
    assert_int_equal(atomic_load(&tally->most), 1);
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
    tokens_grace_ns = 1000000;
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(weft_submit(pool, &group, block_task, &to, sizeof to), WEFT_OK);
        assert_int_equal(weft_submit(pool, &group, gate_task, &to, sizeof to), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    }
    tokens_grace_ns = TOKENS_GRACE_NONE;
    end_pool(pool);
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
    tokens_grace_ns = 1000000;
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
    tokens_grace_ns = TOKENS_GRACE_NONE;
    end_pool(other);
    end_pool(pool);
    server_end();
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

/* A pool of three that holds two tokens. */
static gate held[3];
static weft_pool *holding_pool(weft_group *group) {
    weft_pool *pool = sharing_pool(3);
    for (unsigned i = 0; i < 3; i++) gate_occupy(&held[i], pool, group);
    return pool;
}

/* A child has none of its parent's tokens, whatever it does at its end. */
static void test_child_has_none(void **state) {
    (void)state;
    server_begin(2, "auth");
    weft_group group = WEFT_GROUP_INIT;
    weft_pool *pool = holding_pool(&group);
    assert_int_equal(server_has(), 0);
    for (unsigned way = 0; way < 2; way++) {
        pid_t child = fork();
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

/* ---- no server ---------------------------------------------------------------------------------------------------- */

static void expect_refused(const char *flags, int error, const char *name) {
    char text[64];
    if (flags == NULL) unsetenv("MAKEFLAGS");
    if (flags != NULL) setenv("MAKEFLAGS", flags, 1);
    weft_pool *pool = sharing_pool(3);
    weft_real_time found = {.struct_size = sizeof found};
    weft_config config;
    weft_config_init(&config);
    assert_int_equal(weft_pool_real_time(pool, &found), WEFT_OK);
    assert_int_equal(weft_pool_config(pool, &config), WEFT_OK);
    if (found.jobserver_errno != error) fail_msg("%s: %d", flags, found.jobserver_errno);
    snprintf(text, sizeof text, "jobserver (%s)", name);
    if (config.refused == NULL || strstr(config.refused, text) == NULL) fail_msg("%s: %s", flags, config.refused);
    assert_int_equal(weft_pool_workers(pool), 3);
    atomic_uint ran = 0;
    for (unsigned i = 0; i < 10; i++) assert_int_equal(submit_count(pool, NULL, &ran), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
    assert_int_equal(atomic_load(&ran), 10);
    end_pool(pool);
    unsetenv("MAKEFLAGS");
}

static void test_no_server(void **state) {
    (void)state;
    char text[160];
    int ends[2], others[2];
    int file = open("/dev/null", O_RDWR);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(pipe(others), 0);
    expect_refused(NULL, ENOENT, "ENOENT");
    expect_refused("", ENOENT, "ENOENT");
    expect_refused("ks -j4", ENOENT, "ENOENT");
    expect_refused("-- --jobserver-auth=3,4", ENOENT, "ENOENT");
    expect_refused(" --jobserver-auth=fifo:/none/there", ENOENT, "ENOENT");
    expect_refused(" --jobserver-auth=fifo:", EINVAL, "EINVAL");
    expect_refused(" --jobserver-auth=fifo:/dev/null", EINVAL, "EINVAL");
    expect_refused(" --jobserver-auth=", EINVAL, "EINVAL");
    expect_refused(" --jobserver-auth=3", EINVAL, "EINVAL");
    expect_refused(" --jobserver-auth=3,4x", EINVAL, "EINVAL");
    expect_refused(" --jobserver-auth=99999999999999,4", EINVAL, "EINVAL");
    expect_refused(" --jobserver-auth=gmake_semaphore_4", EINVAL, "EINVAL");
    expect_refused(" --jobserver-auth=-2,-2", EBADF, "EBADF");
    expect_refused(" --jobserver-auth=900,901", EBADF, "EBADF");
    snprintf(text, sizeof text, "--jobserver-auth=%d,%d", file, file);
    expect_refused(text, EBADF, "EBADF");
    snprintf(text, sizeof text, "--jobserver-auth=%d,%d", ends[0], others[1]);
    expect_refused(text, EBADF, "EBADF");
    snprintf(text, sizeof text, "--jobserver-auth=%d,%d", ends[1], ends[0]);
    expect_refused(text, EBADF, "EBADF");
    snprintf(text, sizeof text, "--jobserver-auth=%d,%d --jobserver-auth=-2,-2", ends[0], ends[1]);
    expect_refused(text, EBADF, "EBADF"); /* the last one counts */
    for (unsigned i = 0; i < 2; i++) close(ends[i]), close(others[i]);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0); /* of this program's own: it was not started with that */
    snprintf(text, sizeof text, "--jobserver-auth=%d,%d", ends[0], ends[1]);
    expect_refused(text, EBADF, "EBADF");
    for (unsigned i = 0; i < 2; i++) close(ends[i]);
    close(file);
}

/* Three files are needed; with fewer none stays open. */
static void test_no_files(void **state) {
    (void)state;
    struct rlimit before, few;
    server_begin(1, "fifo");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int next = dup(server.from);
    assert_true(next >= 0);
    close(next);
    for (unsigned more = 0; more <= 3; more++) {
        weft_real_time found = {.struct_size = sizeof found};
        few = (struct rlimit){(rlim_t)next + more, before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        weft_pool *pool = sharing_pool(1);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(weft_pool_real_time(pool, &found), WEFT_OK);
        assert_int_equal(found.jobserver_errno, more < 3 ? EMFILE : 0);
        end_pool(pool);
        int again = dup(server.from);
        assert_int_equal(again, next);
        close(again);
    }
    server_end();
}

/* The library's own descriptor for the server. */
static int opened_anew(void) {
    struct stat wanted, found;
    assert_int_equal(fstat(server.from, &wanted), 0);
    for (int fd = 3; fd < 1024; fd++)
        if (fd != server.from && fstat(fd, &found) == 0 && found.st_ino == wanted.st_ino && found.st_dev == wanted.st_dev)
            return fd;
    fail_msg("it has none");
    return -1;
}

/* A program that closes all it does not know, and opens a file of its own: no token comes from there or gets there. */
static void test_descriptor_is_gone(void **state) {
    (void)state;
    server_begin(2, "fifo");
    weft_group group = WEFT_GROUP_INIT;
    weft_pool *pool = holding_pool(&group);
    int fd = opened_anew();
    FILE *own = tmpfile();
    assert_non_null(own);
    assert_int_equal(fwrite("own", 1, 3, own), 3);
    assert_int_equal(fflush(own), 0);
    assert_int_equal(dup2(fileno(own), fd), fd);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    for (unsigned i = 0; i < 3; i++) gate_open(&held[i]);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    tally_begin();
    for (unsigned i = 0; i < 20; i++) {
        submit_counted(pool, &group, 50, 100);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
        nap();
    }
    end_pool(pool);
    assert_int_equal(atomic_load(&tally->done), 1000);
    tally_end();
    struct stat found;
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
    assert_int_equal(fstat(fd, &found), 0); /* it is still open */
    assert_int_equal(found.st_size, 3);
    fclose(own);
    close(fd);
    assert_int_equal(write(server.to, "ab", 2), 2); /* those were lost */
    server_end();
}

int main(int argc, char **argv) {
    tokens_grace_ns = TOKENS_GRACE_NONE; /* no test but those for it needs it: what they count is exact */
    choose_cases(argc, argv);
    unsetenv("MAKEFLAGS");
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
        cmocka_unit_test(test_grace),
        cmocka_unit_test(test_conserved),
        cmocka_unit_test(test_child_has_none),
        cmocka_unit_test(test_exit_and_kill),
        cmocka_unit_test(test_no_server),
        cmocka_unit_test(test_no_files),
        cmocka_unit_test(test_descriptor_is_gone),

    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
