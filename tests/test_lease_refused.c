/* test_lease_refused.c: a lease whose file cannot be had, or is gone: pools say so, and run without. Who shares, and whose tokens where make
 * has some, too. */
#define _GNU_SOURCE
#include "lease_help.h"
#include "os_help.h"

#include <sys/resource.h>

/* ---- refused ------------------------------------------------------------------------------------------------------ */

static weft_real_time outcome_of(const weft_pool *pool) {
    weft_real_time found = {.struct_size = sizeof found};
    REQUIRE(weft_pool_real_time(pool, &found) == WEFT_OK);
    return found;
}

/* The pool that this environment gives: it runs three tasks at once, without tokens. */
static void expect_refused(const char *path, int error, const char *name) {
    char text[64];
    gate gates[3];
    weft_group group = WEFT_GROUP_INIT;
    weft_config config = config_of(3);
    if (path != NULL) setenv("WEFT_LEASE", path, 1);
    config.flags = WEFT_POOL_LEASE;
    weft_pool *pool = make_pool_with(&config);
    weft_config_init(&config);
    REQUIRE(weft_pool_config(pool, &config) == WEFT_OK);
    if (outcome_of(pool).lease_errno != error) fail_msg("%s: %d", path, outcome_of(pool).lease_errno);
    snprintf(text, sizeof text, "lease (%s)", name);
    if (config.refused == NULL || strstr(config.refused, text) == NULL) fail_msg("%s: %s", path, config.refused);
    assert_int_equal(outcome_of(pool).jobserver_errno, 0);
    gates_fill(gates, 3, 3, pool, &group);
    gates_open(gates, 3, pool, &group);
    end_pool(pool);
    unsetenv("WEFT_LEASE");
}

static void test_paths(void **state) {
    (void)state;
    char path[120];
    lease_begin(1);
    char own[sizeof shared.path];
    strcpy(own, shared.path);
    expect_refused("/none/there", ENOENT, "ENOENT");
    expect_refused(shared.directory, EISDIR, "EISDIR");
    expect_refused("/dev/null", EINVAL, "EINVAL");
    snprintf(path, sizeof path, "%s/x", own);
    expect_refused(path, ENOTDIR, "ENOTDIR");
    snprintf(path, sizeof path, "%s/link", shared.directory);
    assert_int_equal(symlink(own, path), 0);
    expect_refused(path, ELOOP, "ELOOP");
    unlink(path);
    snprintf(path, sizeof path, "%s/fifo", shared.directory);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refused(path, EINVAL, "EINVAL");
    unlink(path);
    if (geteuid() == 0) { /* who may open all files still wants its own */
        assert_int_equal(chown(own, 1234, (gid_t)-1), 0);
        expect_refused(own, EPERM, "EPERM");
        assert_int_equal(chown(own, 0, (gid_t)-1), 0);
    } else {
        printf("skipped, test_paths: only root can make another user's file\n");
    }
    assert_string_equal(os_error_name(EROFS), "EROFS");
    assert_string_equal(os_error_name(ENOLCK), "ENOLCK");
    assert_string_equal(os_error_name(ENOSPC), "ENOSPC");
    setenv("WEFT_LEASE", own, 1);
    end_pool(leasing_pool(1));
    lease_end();
}

/* Without a path: one file for the user, empty, which nobody else may open. */
static void test_users_file(void **state) {
    (void)state;
    char path[64];
    struct stat found;
    shared.tokens = 1;
    unsetenv("WEFT_LEASE");
    end_pool(leasing_pool(1));
    snprintf(path, sizeof path, "/dev/shm/weft-lease-%u", (unsigned)geteuid());
    bool is_there = stat(path, &found) == 0;
    snprintf(path, sizeof path, "%s/weft-lease-%u", "/tmp", (unsigned)geteuid());
    assert_true(is_there || stat(path, &found) == 0);
    assert_true(S_ISREG(found.st_mode));
    assert_int_equal(found.st_size, 0);
    assert_int_equal(found.st_uid, geteuid());
    assert_int_equal(found.st_mode & 0077, 0);
}

static void test_no_files(void **state) {
    (void)state;
    struct rlimit before, few;
    lease_begin(1);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int next = dup(shared.fd);
    close(next);
    for (unsigned more = 0; more <= 4; more++) {
        weft_config config = config_of(1);
        config.flags = WEFT_POOL_LEASE;
        few = (struct rlimit){(rlim_t)next + more, before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        weft_pool *pool = make_pool_with(&config);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(outcome_of(pool).lease_errno, more < 4 ? EMFILE : 0);
        end_pool(pool);
        int again = dup(shared.fd);
        assert_int_equal(again, next);
        close(again);
    }
    lease_end();
}

/* Of the lease's file, but for the test's own. */
static bool is_left_open(void) {
    struct stat file, found;
    bool is_left = false;
    REQUIRE(fstat(shared.fd, &file) == 0);
    for (int fd = 0; fd < 256; fd++)
        is_left |= fd != shared.fd && fstat(fd, &found) == 0 && found.st_dev == file.st_dev && found.st_ino == file.st_ino;
    return is_left;
}

/* Where the library is when another thread forks: a step before this reaches 0. */
static atomic_int fork_in;
static atomic_int forked; /* the child: it ends with 0 if it does not keep the file */
static void fork_now(void) {
    if (atomic_fetch_sub(&fork_in, 1) != 1) return;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) _exit(is_left_open() ? 1 : 0);
    atomic_store(&forked, child);
}

/* As the library opens its file. Without a path: refused in /dev/shm, and then in /tmp. */
static atomic_int shm_error;
static atomic_uint opened_elsewhere;
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...) {
    long a[6] = {0};
    va_list arguments;
    va_start(arguments, number);
    for (unsigned i = 0; i < (number == SYS_futex ? 6 : 5); i++)
        a[i] = va_arg(arguments, long); /* the sixth is not in a register */
    va_end(arguments);
    bool is_open = number == SYS_openat && strstr((const char *)a[1], "/weft-lease-") != NULL;
    bool is_shm = is_open && strncmp((const char *)a[1], "/dev/shm/", 9) == 0;
    int error = atomic_load(&shm_error);
    if (is_open && !is_shm) atomic_fetch_add(&opened_elsewhere, 1);
    if (is_open && error != 0) errno = is_shm ? error : ENOSPC;
    if (is_open && error != 0) return -1;
    long result = __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (number == SYS_openat && result >= 0) fork_now();
    return result;
}

/* fcntl as the library calls it: refused from the beginning, or later. */
static atomic_int lock_error;
int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    bool is_lock = command == F_OFD_SETLK || command == F_OFD_GETLK;
    if (is_lock && fd != shared.fd) fork_now();
    if (!is_lock || atomic_load(&lock_error) == 0 || fd == shared.fd) return __real_fcntl(fd, command, argument);
    errno = atomic_load(&lock_error);
    return -1;
}

static void test_no_locks(void **state) {
    (void)state;
    static const struct {
        int error;
        const char *name;
    } kinds[] = {{EPERM, "EPERM"}, {ENOLCK, "ENOLCK"}, {EINVAL, "EINVAL"}, {EOPNOTSUPP, "EOPNOTSUPP"}};
    for (unsigned i = 0; i < 4; i++) {
        gate gates[3];
        weft_group group = WEFT_GROUP_INIT;
        lease_begin(1);
        atomic_store(&lock_error, kinds[i].error);
        expect_refused(shared.path, kinds[i].error, kinds[i].name);
        atomic_store(&lock_error, 0);
        setenv("WEFT_LEASE", shared.path, 1);
        weft_pool *pool = leasing_pool(3);
        gates_fill(gates, 3, 1, pool, &group);
        atomic_store(&lock_error, kinds[i].error); /* a sandbox, entered later: there is no limit from now on */
        gate_open(&gates[0]);
        for (unsigned g = 1; g < 3; g++) await(&gates[g].entered);
        gate_open(&gates[0]);
        gates_open(gates, 3, pool, &group);
        end_pool(pool);
        atomic_store(&lock_error, 0);
        lease_end();
    }
}

/* A filter of system calls that refuses the locks. */
static void test_sandbox(void **state) {
    (void)state;
    lease_begin(2);
    fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!forbid_call(SYS_fcntl, F_OFD_SETLK, EPERM)) _exit(77);
#if defined(__SANITIZE_THREAD__)
        os_lock_file file; /* ThreadSanitizer lets no child of a threaded process start threads */
        _exit(os_lock_file_open(shared.path, &file) == EPERM ? 0 : 1);
#else
        weft_config config = config_of(1);
        config.flags = WEFT_POOL_LEASE;
        weft_pool *pool = make_pool_with(&config);
        _exit(outcome_of(pool).lease_errno == EPERM ? 0 : 1);
#endif
    }
    int status = program_end(child);
    bool has_filters = !WIFEXITED(status) || WEXITSTATUS(status) != 77;
    if (!has_filters) printf("skipped, test_sandbox: no filters\n");
    if (has_filters) assert_int_equal(status, 0);
    lease_end();
}

/* Only where /dev/shm takes no files it is /tmp: programs must not be split by what is in the way of one. */
static void test_no_split(void **state) {
    (void)state;
    static const struct {
        int error;
        const char *name;
        bool goes_on;
    } kinds[] = {{ENOENT, "ENOENT", true},  {ENOTDIR, "ENOTDIR", true}, {EROFS, "EROFS", true},  {EACCES, "EACCES", false},
                 {EMFILE, "EMFILE", false}, {ENOSPC, "ENOSPC", false},  {ELOOP, "ELOOP", false}, {EPERM, "EPERM", false}};
    unsetenv("WEFT_LEASE");
    for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        atomic_store(&opened_elsewhere, 0);
        atomic_store(&shm_error, kinds[i].error);
        expect_refused(NULL, kinds[i].error, kinds[i].name);
        atomic_store(&shm_error, 0);
        if ((atomic_load(&opened_elsewhere) != 0) != kinds[i].goes_on) fail_msg("%s", kinds[i].name);
    }
}

/* Whatever the umask is, the user's next program can open the file. */
static void test_umask(void **state) {
    (void)state;
    struct stat found;
    lease_begin(1);
    assert_int_equal(unlink(shared.path), 0);
    mode_t before = umask(0777);
    end_pool(leasing_pool(1));
    umask(before);
    assert_int_equal(stat(shared.path, &found), 0);
    assert_int_equal(found.st_mode & 07777, 0600);
    end_pool(leasing_pool(1));
    lease_end();
}

/* A child that is forked while the lease is being opened, or used, keeps nothing: neither the file nor, with it, what is locked. */
static void test_fork_meanwhile(void **state) {
    (void)state;
    lease_begin(1);
    for (int step = 1; step <= 8; step++) { /* opened, probed twice, and then locked and dropped */
        gate one;
        weft_group group = WEFT_GROUP_INIT;
        atomic_store(&forked, 0);
        atomic_store(&fork_in, step);
        weft_pool *pool = leasing_pool(1);
        gates_fill(&one, 1, 1, pool, &group);
        gates_open(&one, 1, pool, &group);
        end_pool(pool);
        atomic_store(&fork_in, 0);
        if (step <= 3) assert_int_not_equal(atomic_load(&forked), 0);
        if (atomic_load(&forked) != 0 && program_end(atomic_load(&forked)) != 0) fail_msg("a child has it, step %d", step);
    }
    lease_end();
}

/* ---- closed by the program ---------------------------------------------------------------------------------------- */

/* A program that closes all it does not know: there is no limit, and what it has opened there is left alone. */
static void test_descriptors_are_gone(void **state) {
    (void)state;
#if defined(__SANITIZE_THREAD__)
    SKIP("ThreadSanitizer reports that a descriptor is replaced which a worker polls, and that is what this does");
#endif
    gate gates[3];
    weft_group group = WEFT_GROUP_INIT;
    bool was_open[256];
    lease_begin(1);
    FILE *own = tmpfile();
    assert_non_null(own);
    assert_int_equal(fwrite("own", 1, 3, own), 3);
    assert_int_equal(fflush(own), 0);
    for (int fd = 0; fd < 256; fd++) was_open[fd] = fcntl(fd, F_GETFD) >= 0;
    weft_pool *pool = leasing_pool(3);
    gates_fill(gates, 3, 1, pool, &group);
    while (!is_locked(WAITS)) nap(); /* with a watch */
    for (int fd = 0; fd < 256; fd++)
        if (!was_open[fd] && fcntl(fd, F_GETFD) >= 0) assert_int_equal(dup2(fileno(own), fd), fd);
    lseek(fileno(own), 0, SEEK_SET);
    for (unsigned i = 1; i < 3; i++) await(&gates[i].entered);
    gates_open(gates, 3, pool, &group);
    end_pool(pool);
    struct stat found;
    assert_int_equal(lseek(fileno(own), 0, SEEK_CUR), 0);
    assert_int_equal(fstat(fileno(own), &found), 0);
    assert_int_equal(found.st_size, 3);
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    assert_int_equal(fcntl(fileno(own), F_GETLK, &all), 0);
    assert_int_equal(all.l_type, F_UNLCK);
    for (int fd = 0; fd < 256; fd++)
        if (!was_open[fd] && fcntl(fd, F_GETFD) >= 0) close(fd); /* they were still open */
    fclose(own);
    lease_end();
}

/* All is closed at the end. */
static void test_closes(void **state) {
    (void)state;
    lease_begin(1);
    int before = dup(0);
    close(before);
    for (unsigned i = 0; i < 5; i++) {
        gate gates[2];
        weft_group group = WEFT_GROUP_INIT;
        weft_pool *pool = leasing_pool(2);
        gates_fill(gates, 2, 1, pool, &group);
        while (!is_locked(WAITS)) nap();
        gates_open(gates, 2, pool, &group);
        end_pool(pool);
    }
    int after = dup(0);
    assert_int_equal(after, before);
    close(after);
    lease_end();
}

/* Files that the library opens to read: refused, and how often. */
static atomic_bool has_no_descriptor;
static atomic_uint refusals;
int __real_os_open(const char *path);
int __wrap_os_open(const char *path);
int __wrap_os_open(const char *path) {
    if (!atomic_load(&has_no_descriptor)) return __real_os_open(path);
    atomic_fetch_add(&refusals, 1);
    return -1;
}

static unsigned open_files(void) {
    unsigned count = 0;
    for (int fd = 0; fd < 256; fd++) count += __real_fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* A watch of which it cannot be told for a while whose it is, is kept, used again and closed at the end. */
static void test_keeps_watch(void **state) {
    (void)state;
    gate gates[2];
    weft_group group = WEFT_GROUP_INIT;
    lease_begin(1);
    unsigned before = open_files();
    weft_pool *pool = leasing_pool(2);
    gates_fill(gates, 2, 1, pool, &group);
    while (!is_locked(WAITS)) nap();
    atomic_store(&has_no_descriptor, true);
    while (atomic_load(&refusals) == 0) {
        assert_int_equal(futimens(shared.fd, NULL), 0); /* what it hears */
        nap();
    }
    atomic_store(&has_no_descriptor, false);
    gates_open(gates, 2, pool, &group);
    end_pool(pool);
    assert_int_equal(open_files(), before);
    lease_end();
}

/* ---- who shares --------------------------------------------------------------------------------------------------- */

static void expect_shares(const weft_config *config, bool wish) {
    gate gates[2];
    weft_group group = WEFT_GROUP_INIT;
    weft_config found;
    weft_pool *pool = make_pool_with(config);
    weft_config_init(&found);
    assert_int_equal(weft_pool_config(pool, &found), WEFT_OK);
    assert_int_equal((found.flags & WEFT_POOL_LEASE) != 0, wish);
    assert_null(found.refused);
    gates_fill(gates, 2, 1, pool, &group);
    if (!wish) await(&gates[1].entered);
    assert_int_equal(lease_taken(), wish ? 1 : 0);
    gates_open(gates, 2, pool, &group);
    end_pool(pool);
}

static void test_who_shares(void **state) {
    (void)state;
    char path[sizeof shared.path];
    weft_config config = config_of(2);
    lease_begin(1);
    strcpy(path, shared.path);
    expect_shares(&config, false); /* the variable alone does nothing */
    assert_int_equal(weft_config_from_env(&config), WEFT_OK);
    expect_shares(&config, true);
    setenv("WEFT_LEASE", "0", 1);
    assert_int_equal(weft_config_from_env(&config), WEFT_OK);
    setenv("WEFT_LEASE", path, 1);
    expect_shares(&config, false);
    config.flags = WEFT_POOL_LEASE;
    expect_shares(&config, true);
    setenv("WEFT_LEASE", "relative", 1);
    assert_int_equal(weft_config_from_env(&config), WEFT_EINVAL);
    assert_string_equal(weft_config_wrong(&config), "WEFT_LEASE");
    lease_end();
}

/* make's tokens, if it has some for this program; else the lease. All pools of the process share the same ones. */
static void test_both(void **state) {
    (void)state;
    char fifo[120], flags[200], byte;
    weft_config both = config_of(3), one = config_of(1);
    both.flags = WEFT_POOL_JOBSERVER | WEFT_POOL_LEASE;
    lease_begin(3);
    snprintf(fifo, sizeof fifo, "%s/fifo", shared.directory);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    int make = open(fifo, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    assert_int_equal(write(make, "a", 1), 1);
    for (unsigned is_make = 0; is_make < 2; is_make++) {
        gate gates[3];
        weft_group group = WEFT_GROUP_INIT;
        snprintf(flags, sizeof flags, " -j2 --jobserver-auth=fifo:%s%s", fifo, is_make ? "" : "-none");
        setenv("MAKEFLAGS", flags, 1);
        weft_pool *pool = make_pool_with(&both);
        assert_int_equal(outcome_of(pool).lease_errno, 0);
        assert_int_equal(outcome_of(pool).jobserver_errno, is_make ? 0 : ENOENT);
        gates_fill(gates, 3, is_make ? 2 : 3, pool, &group);
        assert_int_equal(lease_taken(), is_make ? 0 : 3);
        assert_int_equal(read(make, &byte, 1), is_make ? -1 : 1);
        if (!is_make) assert_int_equal(write(make, "a", 1), 1);
        one.flags = WEFT_POOL_LEASE;
        weft_pool *other = make_pool_with(&one);
        assert_int_equal(outcome_of(other).lease_errno, is_make ? EBUSY : 0);
        end_pool(other);
        one.flags = WEFT_POOL_JOBSERVER;
        other = make_pool_with(&one);
        assert_int_equal(outcome_of(other).jobserver_errno, is_make ? 0 : EBUSY);
        assert_int_equal(outcome_of(other).lease_errno, 0);
        end_pool(other);
        gates_open(gates, 3, pool, &group);
        end_pool(pool);
        assert_int_equal(read(make, &byte, 1), 1); /* it is back */
        assert_int_equal(write(make, "a", 1), 1);
    }
    unsetenv("MAKEFLAGS");
    close(make);
    unlink(fifo);
    lease_end();
}

int main(int argc, char **argv) {
    store_rlx(&tokens_grace_us, TOKENS_GRACE_NONE);
    choose_cases(argc, argv);
    unsetenv("MAKEFLAGS");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_users_file),
        cmocka_unit_test(test_no_files),
        cmocka_unit_test(test_no_locks),
        cmocka_unit_test(test_sandbox),
        cmocka_unit_test(test_fork_meanwhile),
        cmocka_unit_test(test_descriptors_are_gone),
        cmocka_unit_test(test_closes),
        cmocka_unit_test(test_keeps_watch),
        cmocka_unit_test(test_no_split),
        cmocka_unit_test(test_umask),
        cmocka_unit_test(test_who_shares),
        cmocka_unit_test(test_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
