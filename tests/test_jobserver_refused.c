/* test_jobserver_refused.c: a jobserver that is not there, not for this program, or gone: pools say so, and run without. */
#define _GNU_SOURCE
#include "jobserver_help.h"

#include <sys/eventfd.h>
#include <sys/resource.h>

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
    close(file);
}

/* make escapes blanks and \ in what it names. An escaped blank does not end a word before the option, either. */
static void test_escaped(void **state) {
    (void)state;
    char directory[] = "/tmp/weft-jobserver-XXXXXX", path[80], flags[200];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/a b\tc\\d$e", directory);
    assert_int_equal(mkfifo(path, 0600), 0);
    snprintf(flags, sizeof flags, " -Ix\\ --jobserver-auth=3,4 --jobserver-auth=fifo:%s/a\\ b\\\tc\\\\d$e -Iy\\ -- -j2",
             directory);
    weft_real_time found = {.struct_size = sizeof found};
    setenv("MAKEFLAGS", flags, 1);
    weft_pool *pool = sharing_pool(2);
    assert_int_equal(weft_pool_real_time(pool, &found), WEFT_OK);
    assert_int_equal(found.jobserver_errno, 0);
    end_pool(pool);
    expect_refused(" -Ix\\ --jobserver-auth=3,4", ENOENT, "ENOENT"); /* part of a name */
    snprintf(flags, sizeof flags, " --jobserver-auth=fifo:%s/a b\\\tc\\\\d$e", directory);
    expect_refused(flags, ENOENT, "ENOENT");
    snprintf(flags, sizeof flags, " --jobserver-auth=fifo:%s\\", directory); /* escapes nothing */
    expect_refused(flags, ENOENT, "ENOENT");
    unlink(path);
    rmdir(directory);
}

/* ---- whose pipe it is --------------------------------------------------------------------------------------------- */

/* This program's own first pipe, at the numbers that make left in MAKEFLAGS: not one byte is taken out. */
static void test_own_pipe(void **state) {
    (void)state;
    char text[160], bytes[4];
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "own", 3), 3);
    snprintf(text, sizeof text, " -j4 --jobserver-auth=%d,%d", ends[0], ends[1]);
    expect_refused(text, EBADF, "EBADF");
    assert_int_equal(read(ends[0], bytes, sizeof bytes), 3);
    for (unsigned i = 0; i < 2; i++) close(ends[i]);
}

/* A program that is started with MAKEFLAGS in its environment, or without, and starts one that shares: 0 if that had the tokens, 1 if not. */
#define OWN_FD 120
static int scene(const char *whose) {
    int ends[2] = {MAKES_FD, MAKES_FD + 1}, status = 0;
    if (strcmp(whose, "own") == 0) pipe_at(ends, OWN_FD, OWN_FD + 1);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        char flags[80];
        weft_real_time found = {.struct_size = sizeof found};
        snprintf(flags, sizeof flags, " -j2 --jobserver-auth=%d,%d", ends[0], ends[1]);
        setenv("MAKEFLAGS", flags, 1);
        weft_pool *pool = sharing_pool(1);
        REQUIRE(weft_pool_real_time(pool, &found) == WEFT_OK);
        end_pool(pool);
        REQUIRE(found.jobserver_errno == 0 || found.jobserver_errno == EBADF);
        _exit(found.jobserver_errno == 0 ? 0 : 1);
    }
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

static int run_scene(const char *whose, const char *makeflags) {
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        char variable[9100];
        char *environment[] = {makeflags == NULL ? NULL : variable, NULL};
        if (makeflags != NULL) snprintf(variable, sizeof variable, "MAKEFLAGS=%s", makeflags);
        execle("/proc/self/exe", "scene", whose, (char *)NULL, environment);
        _exit(3);
    }
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

/* A pipe that the parent has at the same numbers. It is make's if the parent was not told of these; or if it was, and has the pipe
 * from its own parent. */
static void test_parents_pipe(void **state) {
    (void)state;
    if (is_emulated()) SKIP("this program cannot be started again (under an emulator)");
    char makes[80], own[80], old[80], beside[9000];
    snprintf(makes, sizeof makes, " -j2 --jobserver-auth=%d,%d", MAKES_FD, MAKES_FD + 1);
    snprintf(own, sizeof own, "w -j2 --jobserver-auth=%d,%d", OWN_FD, OWN_FD + 1);
    snprintf(old, sizeof old, "w --jobserver-fds=%d,%d -j", OWN_FD, OWN_FD + 1);
    assert_int_equal(run_scene("own", NULL), 0);
    assert_int_equal(run_scene("own", makes), 0);
    assert_int_equal(run_scene("makes", NULL), 0);
    assert_int_equal(run_scene("makes", makes), 0);
    assert_int_equal(run_scene("own", own), 1);
    assert_int_equal(run_scene("own", old), 1);
    for (unsigned length = 4040; length < 4100; length += 3) { /* wherever it is among what is read at once */
        memset(beside, 'k', length);
        strcpy(beside + length, own);
        assert_int_equal(run_scene("own", beside), 1);
    }
}

/* Two files are needed, and two more for a moment; with fewer none stays open. */
static void test_no_files(void **state) {
    (void)state;
    struct rlimit before, few;
    server_begin(1, "fifo");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int next = dup(server.from);
    assert_true(next >= 0);
    close(next);
    for (unsigned more = 0; more <= 4; more++) {
        weft_real_time found = {.struct_size = sizeof found};
        few = (struct rlimit){(rlim_t)next + more, before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        weft_pool *pool = sharing_pool(1);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(weft_pool_real_time(pool, &found), WEFT_OK);
        assert_int_equal(found.jobserver_errno, more < 4 ? EMFILE : 0);
        end_pool(pool);
        int again = dup(server.from);
        assert_int_equal(again, next);
        close(again);
    }
    assert_string_equal(os_error_name(ENFILE), "ENFILE"); /* where the system has too many */
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

/* The same, but only the pool's bell is closed, and the program has an eventfd there: it is not read, nor written. */
static void test_bell_is_gone(void **state) {
    (void)state;
    bool was_open[256];
    server_begin(0, "fifo");
    int own = eventfd(1, EFD_NONBLOCK);
    assert_true(own >= 0);
    for (int fd = 0; fd < 256; fd++) was_open[fd] = fcntl(fd, F_GETFD) >= 0;
    weft_pool *pool = sharing_pool(2);
    int tokens = opened_anew();
    for (int fd = 0; fd < 256; fd++)
        if (!was_open[fd] && fd != tokens && fcntl(fd, F_GETFD) >= 0) assert_int_equal(dup2(own, fd), fd);
    weft_group group = WEFT_GROUP_INIT;
    gate gates[2], *to;
    for (unsigned i = 0; i < 2; i++) { /* without a bell there is no limit */
        to = &gates[i];
        gate_init(to);
        assert_int_equal(weft_submit(pool, &group, gate_task, &to, sizeof to), WEFT_OK);
    }
    for (unsigned i = 0; i < 2; i++) await(&gates[i].entered);
    for (unsigned i = 0; i < 2; i++) gate_open(&gates[i]);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    end_pool(pool);
    uint64_t count = 0;
    assert_int_equal(read(own, &count, sizeof count), sizeof count);
    assert_int_equal(count, 1);
    for (int fd = 0; fd < 256; fd++)
        if (!was_open[fd] && fcntl(fd, F_GETFD) >= 0) close(fd);
    close(own);
    server_end();
}

/* ---- make has ended ----------------------------------------------------------------------------------------------- */

/* There is never a token, but three tasks run at once when make has ended: by `end`. */
static void expect_no_limit(void (*end)(void)) {
    weft_pool *pool = sharing_pool(3);
    weft_group group = WEFT_GROUP_INIT;
    gate gates[3], *to;
    for (unsigned i = 0; i < 3; i++) {
        to = &gates[i];
        gate_init(to);
        REQUIRE(weft_submit(pool, &group, gate_task, &to, sizeof to) == WEFT_OK);
        if (i == 0) await(&to->entered);
    }
    end();
    for (unsigned i = 1; i < 3; i++) await(&gates[i].entered);
    for (unsigned i = 0; i < 3; i++) gate_open(&gates[i]);
    REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
    end_pool(pool);
}

/* It takes the name of its pipe away. */
static void take_name_away(void) { REQUIRE(unlink(server.path) == 0); }
static void test_make_ends(void **state) {
    (void)state;
    int before = dup(0);
    close(before);
    server_begin(0, "fifo");
    expect_no_limit(take_name_away);
    server_end();
    int after = dup(0);
    assert_int_equal(after, before); /* all is closed */
    close(after);
}

/* Where it has none, the job ends that this process was part of: its parent. */
static int to_parent[2], from_child[2];
static void parent_ends(void) {
    pid_t parent = getppid();
    REQUIRE(write(to_parent[1], "e", 1) == 1);
    while (getppid() == parent) nap();
}
static void test_job_ends(void **state) {
    (void)state;
    char byte = 0;
#if defined(__SANITIZE_THREAD__)
    SKIP("ThreadSanitizer lets no child of a threaded process start threads");
#endif
    assert_int_equal(pipe(to_parent), 0);
    assert_int_equal(pipe(from_child), 0);
    fflush(stdout);
    pid_t parent = fork();
    assert_true(parent >= 0);
    if (parent == 0) {
        server_begin(0, "auth");
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child > 0) _exit(read(to_parent[0], &byte, 1) == 1 ? 0 : 1);
        expect_no_limit(parent_ends);
        REQUIRE(write(from_child[1], "c", 1) == 1);
        _exit(0);
    }
    close(from_child[1]);
    int status = 0;
    assert_int_equal(waitpid(parent, &status, 0), parent);
    assert_int_equal(status, 0);
    assert_int_equal(read(from_child[0], &byte, 1), 1); /* or it has died */
    close(from_child[0]);
    for (unsigned i = 0; i < 2; i++) close(to_parent[i]);
}

int main(int argc, char **argv) {
    store_rlx(&tokens_grace_us, TOKENS_GRACE_NONE);
    if (argc == 2 && strcmp(argv[0], "scene") == 0) return scene(argv[1]);
    server_process();
    choose_cases(argc, argv);
    unsetenv("MAKEFLAGS");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_server),    cmocka_unit_test(test_escaped),   cmocka_unit_test(test_own_pipe),
        cmocka_unit_test(test_parents_pipe), cmocka_unit_test(test_no_files),  cmocka_unit_test(test_descriptor_is_gone),
        cmocka_unit_test(test_bell_is_gone), cmocka_unit_test(test_make_ends), cmocka_unit_test(test_job_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
