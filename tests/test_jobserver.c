/* test_jobserver.c: pools that share make's budget of threads: under a server of the test's own, by a named pipe and by a pipe, and
 * under the real make. Tokens are conserved, no more threads run than there are tokens for, and nothing needs one. */
#define _GNU_SOURCE
#include "front.h"
#include "pool_help.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
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

/* ---- how many run at once ----------------------------------------------------------------------------------------- */

struct tally {
    atomic_uint now, most, done;
};
static struct tally *tally; /* of the processes that share it */

static void tally_begin(void) {
    int shared = MAP_SHARED | MAP_ANONYMOUS;
    tally = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, shared, -1, 0);
    REQUIRE(tally != MAP_FAILED);
}
static void tally_end(void) { munmap(tally, sizeof *tally); }

static void tally_enter(void) {
    unsigned now = atomic_fetch_add(&tally->now, 1) + 1;
    unsigned most = atomic_load(&tally->most);
    while (now > most && !atomic_compare_exchange_weak(&tally->most, &most, now)) {}
}

static int counted(void *payload, weft_worker *self) {
    (void)self;
    tally_enter();
    for (unsigned i = *(unsigned *)payload; i > 0; i--) os_pause();
    atomic_fetch_sub(&tally->now, 1);
    atomic_fetch_add(&tally->done, 1);
    return 0;
}

static void submit_counted(weft_pool *pool, weft_group *group, unsigned tasks, unsigned pauses) {
    for (unsigned i = 0; i < tasks; i++) REQUIRE(weft_submit(pool, group, counted, &pauses, sizeof pauses) == WEFT_OK);
}

/* ---- tokens ------------------------------------------------------------------------------------------------------- */

/* All tokens are taken while there is work for them, and are back when there is none, before the pool ends. */
static void takes_and_gives(const char *style) {
    server_begin(3, style);
    int flags = fcntl(server.from, F_GETFL);
    weft_pool *pool = sharing_pool(6);
    assert_int_equal(weft_pool_workers(pool), 1);
    assert_int_equal(server_has(), 3);
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
        assert_int_equal(weft_pool_workers(pool), 4);
        for (unsigned i = 0; i < 4; i++) gate_open(&gates[i]);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
        server_until(3);
        assert_int_equal(weft_pool_workers(pool), 1);
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

/* Of two pools, with two tokens: no more than four tasks at once. */
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
    assert_in_range(atomic_load(&tally->most), 1, 4);
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

/* There is never a token: one worker does all. */
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
    assert_int_equal(server_has(), 2);
    assert_int_equal(weft_pool_workers(pool), 2);
    assert_int_equal(weft_pool_resize(pool, 4), WEFT_OK);
    gate late;
    gate_init(&late);
    third = &late;
    assert_int_equal(weft_submit(pool, &group, gate_task, &third, sizeof third), WEFT_OK);
    await(&late.entered); /* no worker comes to its next task: the next one to run has looked */
    server_until(1);      /* a fourth would have nothing to run */
    assert_int_equal(weft_pool_resize(pool, 1), WEFT_OK);
    gate_open(&late);
    for (unsigned i = 0; i < 2; i++) gate_open(&gates[i]);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    server_until(3);
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

/* A program that closes all it does not know, and opens a file of its own: no token comes from there or gets there. */
static void test_descriptor_is_gone(void **state) {
    (void)state;
    server_begin(2, "fifo");
    weft_group group = WEFT_GROUP_INIT;
    weft_pool *pool = holding_pool(&group);
    int fd = pool->tokens.server.fd;
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

/* ---- the real make ------------------------------------------------------------------------------------------------ */

static char self_path[PATH_MAX];

/* What make starts: this program, with a file of the tally. */
static int scene(const char *how, const char *file) {
    int fd = open(file, O_RDWR);
    REQUIRE(fd >= 0);
    tally = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    REQUIRE(tally != MAP_FAILED);
    weft_config config = config_of(strcmp(how, "auto") == 0 ? 0 : 4);
    REQUIRE(weft_config_from_env(&config) == WEFT_OK);
    weft_pool *pool = make_pool_with(&config);
    weft_config_init(&config);
    REQUIRE(weft_pool_config(pool, &config) == WEFT_OK);
    printf("refused=%s\n", config.refused == NULL ? "none" : config.refused);
    fflush(stdout);
    weft_group group = WEFT_GROUP_INIT;
    if (strcmp(how, "die") == 0) {
        for (unsigned i = 0; i < 2; i++) gate_occupy(&held[i], pool, &group); /* one token */
        raise(SIGKILL);
    }
    unsigned pauses = strcmp(how, "short") == 0 ? 2000 : 100000;
    submit_counted(pool, &group, 400, pauses);
    REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
    end_pool(pool);
    return 0;
}

/* Runs make with four targets; what it wrote. */
static void run_make(const char *options, const char *prefix, const char *how, char *output, size_t size) {
    char directory[] = "/tmp/weft-make-XXXXXX", path[64], counts[64], command[PATH_MAX + 200];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/Makefile", directory);
    snprintf(counts, sizeof counts, "%s/counts", directory);
    FILE *makefile = fopen(path, "w");
    assert_non_null(makefile);
    fprintf(makefile, "all: a b c d\na b c d:\n\t%s%s scene %s %s\n", prefix, self_path, how, counts);
    fclose(makefile);
    FILE *file = fopen(counts, "w");
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), sizeof *tally), 0);
    snprintf(command, sizeof command, "unset MAKEFLAGS MAKELEVEL WEFT_JOBSERVER; make %s -f %s 2>&1", options, path);
    FILE *make = popen(command, "r");
    assert_non_null(make);
    size_t length = fread(output, 1, size - 1, make);
    output[length] = 0;
    pclose(make);
    fclose(file);
    int fd = open(counts, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, tally, sizeof *tally), sizeof *tally);
    close(fd);
    unlink(counts);
    unlink(path);
    rmdir(directory);
}

static bool has_make(void) {
    bool has = system("make --version > /dev/null 2>&1") == 0;
    if (!has) printf("skipped, real make: there is no make\n");
    return has;
}

static void test_make(void **state) {
    (void)state;
    char output[8192];
    if (!has_make()) return;
    struct tally found;
    tally = &found;
    run_make("-j2", "+@WEFT_JOBSERVER=on ", "long", output, sizeof output);
    if (strstr(output, "refused=none") == NULL || strstr(output, "refused=jobserver") != NULL) fail_msg("%s", output);
    if (strstr(output, "jobserver tokens") != NULL) fail_msg("%s", output); /* as many as make put in */
    assert_int_equal(atomic_load(&found.done), 1600);
    assert_in_range(atomic_load(&found.most), 1, 2);
    run_make("-j2", "+@", "auto", output,
             sizeof output); /* MAKEFLAGS alone, where the number of workers is the pool's own */
    if (strstr(output, "jobserver") != NULL) fail_msg("%s", output);
    assert_int_equal(atomic_load(&found.done), 1600);
    assert_in_range(atomic_load(&found.most), 1, 2);
    run_make("-j3", "+@WEFT_JOBSERVER=on ", "short", output, sizeof output);
    if (strstr(output, "jobserver tokens") != NULL) fail_msg("%s", output);
    assert_in_range(atomic_load(&found.most), 1, 3);
    run_make("-j2", "@WEFT_JOBSERVER=on ", "short", output, sizeof output); /* a recipe without + */
    assert_int_equal(atomic_load(&found.done), 1600);
    if (strstr(output, "jobserver tokens") != NULL) fail_msg("%s", output);
    run_make("", "+@WEFT_JOBSERVER=on ", "short", output, sizeof output); /* no -j */
    assert_int_equal(atomic_load(&found.done), 1600);
    if (strstr(output, "refused=jobserver (ENOENT)") == NULL) fail_msg("%s", output);
}

/* make counts at its end. */
static void test_make_misses_tokens(void **state) {
    (void)state;
    char output[8192];
    if (!has_make()) return;
    struct tally found;
    tally = &found;
    run_make("-k -j8", "+-@WEFT_JOBSERVER=on ", "die", output, sizeof output);
    if (strstr(output, "jobserver tokens available; should be") == NULL) fail_msg("%s", output);
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "scene") == 0) return scene(argv[2], argv[3]);
    choose_cases(argc, argv);
    unsetenv("MAKEFLAGS");
#if defined(__SANITIZE_ADDRESS__)
    printf("skipped, leaks of processes that leave a pool: LeakSanitizer does not see what its memory points to\n");
#endif
    ssize_t length = readlink("/proc/self/exe", self_path, sizeof self_path - 1);
    REQUIRE(length > 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fifo),
        cmocka_unit_test(test_pipe),
        cmocka_unit_test(test_old_pipe),
        cmocka_unit_test(test_no_more_than_tokens),
        cmocka_unit_test(test_no_token),
        cmocka_unit_test(test_resize),
        cmocka_unit_test(test_conserved),
        cmocka_unit_test(test_child_has_none),
        cmocka_unit_test(test_exit_and_kill),
        cmocka_unit_test(test_no_server),
        cmocka_unit_test(test_descriptor_is_gone),
        cmocka_unit_test(test_make),
        cmocka_unit_test(test_make_misses_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
