/* test_chunks_faults.c: every call of the system that the queue makes fails in turn, once or from then on: a full disk, an I/O
 * error, a signal, no memory. Whatever it returns, the next worker finds a queue in which nothing is lost or done twice. And
 * clocks: the one that can be set does not matter, the other one ends leases. */
#include "chunks_help.h"

/* The last four are asked about other workers. */
#define CALL_LIST(X)                                                                                                        \
    X(symlinkat)                                                                                                            \
    X(readlinkat)                                                                                                           \
    X(openat)                                                                                                               \
    X(read)                                                                                                                 \
    X(write)                                                                                                                \
    X(pwrite)                                                                                                               \
    X(close)                                                                                                                \
    X(fsync)                                                                                                                \
    X(linkat)                                                                                                               \
    X(mkdirat)                                                                                                              \
    X(unlinkat)                                                                                                             \
    X(fdopendir)                                                                                                            \
    X(readdir)                                                                                                              \
    X(fstat)                                                                                                                \
    X(getrandom)                                                                                                            \
    X(malloc)                                                                                                               \
    X(calloc)                                                                                                               \
    X(pthread_create)                                                                                                       \
    X(realloc)                                                                                                              \
    X(stat)                                                                                                                 \
    X(kill)                                                                                                                 \
    X(gethostname)
#define CALL_ENUM(name) C_##name,
#define CALL_NAME(name) #name,
enum call { CALL_LIST(CALL_ENUM) CALLS };
static const char *const names[] = {CALL_LIST(CALL_NAME)};

/* ---- the fault ----------------------------------------------------------------------------------------------------- */

static struct {
    atomic_int call; /* CALLS: none */
    atomic_uint skip;
    atomic_bool for_ever;
    atomic_int number; /* errno */
    atomic_uint struck;
} fault = {CALLS, 0, false, 0, 0};

static int strike(enum call call) {
    if (atomic_load(&fault.call) != (int)call) return 0;
    if (atomic_load(&fault.skip) > 0 && atomic_fetch_sub(&fault.skip, 1) > 0) return 0;
    if (!fault.for_ever) fault.call = CALLS;
    atomic_fetch_add(&fault.struck, 1);
    errno = fault.number;
    return 1;
}

#define WRAP(type, name, parameters, arguments, failed)                                                                     \
    type __real_##name parameters;                                                                                          \
    type __wrap_##name parameters;                                                                                          \
    type __wrap_##name parameters { return strike(C_##name) ? (failed) : __real_##name arguments; }

/* Another worker that looks when a record has just been written. */
static void (*after_record)(void);
int __real_symlinkat(const char *text, int fd, const char *name);
int __wrap_symlinkat(const char *text, int fd, const char *name);
int __wrap_symlinkat(const char *text, int fd, const char *name) {
    if (strike(C_symlinkat)) return -1;
    int result = __real_symlinkat(text, fd, name);
    void (*look)(void) = after_record;
    after_record = NULL;
    if (look != NULL) look();
    return result;
}
WRAP(ssize_t, readlinkat, (int fd, const char *name, char *text, size_t size), (fd, name, text, size), -1)
WRAP(ssize_t, read, (int fd, void *to, size_t size), (fd, to, size), -1)
WRAP(ssize_t, write, (int fd, const void *from, size_t size), (fd, from, size), -1)
WRAP(ssize_t, pwrite, (int fd, const void *from, size_t size, off_t at), (fd, from, size, at), -1)
WRAP(int, fsync, (int fd), (fd), -1)
WRAP(int, linkat, (int one, const char *from, int other, const char *to, int flags), (one, from, other, to, flags), -1)
WRAP(int, mkdirat, (int fd, const char *name, mode_t mode), (fd, name, mode), -1)
WRAP(int, unlinkat, (int fd, const char *name, int flags), (fd, name, flags), -1)
WRAP(DIR *, fdopendir, (int fd), (fd), NULL)
WRAP(struct dirent *, readdir, (DIR * listed), (listed), NULL)
WRAP(int, fstat, (int fd, struct stat *about), (fd, about), -1)
WRAP(ssize_t, getrandom, (void *to, size_t size, unsigned flags), (to, size, flags), -1)
WRAP(void *, malloc, (size_t size), (size), NULL)
WRAP(void *, calloc, (size_t count, size_t size), (count, size), NULL)
WRAP(int, pthread_create, (pthread_t * thread, const pthread_attr_t *how, void *(*run)(void *), void *argument),
     (thread, how, run, argument), fault.number)

WRAP(void *, realloc, (void *old, size_t size), (old, size), NULL)
WRAP(int, stat, (const char *path, struct stat *about), (path, about), -1)
WRAP(int, kill, (pid_t process, int number), (process, number), -1)
WRAP(int, gethostname, (char *to, size_t size), (to, size), -1)

int __real_openat(int fd, const char *name, int flags, mode_t mode);
int __wrap_openat(int fd, const char *name, int flags, mode_t mode);
static int refused_writing; /* errno of opening anything to be written */
int __wrap_openat(int fd, const char *name, int flags, mode_t mode) {
    if (refused_writing != 0 && (flags & O_ACCMODE) != O_RDONLY) {
        errno = refused_writing;
        return -1;
    }
    return strike(C_openat) ? -1 : __real_openat(fd, name, flags, mode);
}
/* As of NFS, which tells only now that the disk was full: the descriptor is closed all the same. */
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd) {
    int failed = strike(C_close), number = errno, result = __real_close(fd);
    errno = number;
    return failed ? -1 : result;
}

/* ---- clocks -------------------------------------------------------------------------------------------------------- */

static atomic_ullong ahead_ns; /* of CLOCK_MONOTONIC */
static atomic_uint looks;

/* The clock that can be set is, by a day forwards and backwards, at every look. */
int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
    int result = __real_clock_gettime(clock, now);
    if (clock != CLOCK_MONOTONIC) now->tv_sec += atomic_fetch_add(&looks, 1) % 2 == 0 ? 86400 : -86400;
    if (clock == CLOCK_MONOTONIC) now->tv_sec += (time_t)(ahead_ns / 1000000000);
    return result;
}

/* ---- the scene ----------------------------------------------------------------------------------------------------- */

enum { CHUNKS = 6 };
static char base[PATH_BYTES], place[PATH_BYTES + 16];
static atomic_uint runs[CHUNKS];

static int body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)context;
    (void)self;
    for (size_t i = begin; i < end; i++) {
        int call = atomic_exchange(&fault.call, CALLS); /* what the test itself asks is not struck */
        REQUIRE(records_of(place, i, "done") == 0);
        fault.call = call;
        atomic_fetch_add(&runs[i], 1);
    }
    return 0;
}

static int is_known(int error) {
    return error == WEFT_OK || error == WEFT_CHUNKS_SYSTEM || error == WEFT_ENOMEM || error == WEFT_EAGAIN ||
           error == WEFT_CHUNKS_OTHER;
}

static weft_chunks_plan scene_plan(void) {
    weft_chunks_plan plan = plan_of(CHUNKS, 1);
    plan.lease_ms = 100;
    return plan;
}

/* Makes, opens, works, closes; the first error. */
static int scene(weft_pool *pool) {
    weft_chunks_plan plan = scene_plan();
    weft_chunks *queue;
    int error = weft_chunks_create(place, &plan);
    if (error != WEFT_OK) return error;
    error = weft_chunks_open(&queue, place);
    if (error != WEFT_OK) return error;
    const weft_chunks_work work = {.pool = pool, .body = body};
    error = weft_chunks_for(queue, &work);
    int renewed = weft_chunks_renew(queue);
    int closed = weft_chunks_close(&queue);
    REQUIRE(queue == NULL);
    return error != WEFT_OK ? error : renewed != WEFT_OK ? renewed : closed;
}

static unsigned descriptors(void) {
    unsigned count = 0;
    DIR *fds = opendir("/proc/self/fd");
    while (__real_readdir(fds) != NULL) count++;
    closedir(fds);
    return count;
}

/* Somebody has claimed a chunk and died. */
static int claim_and_die(void *nothing) {
    weft_chunks_plan plan = scene_plan();
    weft_chunk chunk;
    (void)nothing;
    REQUIRE(weft_chunks_create(place, &plan) == WEFT_OK);
    REQUIRE(weft_chunks_claim(open_queue(place), &chunk) == WEFT_OK);
    return 0;
}

/* False: the scene is over before the call comes that was to fail. */
static int scene_with(weft_pool *pool, enum call call, unsigned skip, int number, int for_ever) {
    unsigned open_before = descriptors();
    base_make(base);
    snprintf(place, sizeof place, "%s/q", base);
    for (int i = 0; i < CHUNKS; i++) runs[i] = 0;
    if (call >= C_realloc) REQUIRE(in_child(claim_and_die, NULL) == 0);
    fault.struck = 0;
    fault.skip = skip;
    fault.number = number;
    fault.for_ever = for_ever;
    fault.call = (int)call;
    int error = scene(pool);
    fault.call = CALLS;
    unsigned struck = fault.struck;
    if (!is_known(error)) printf("%s %u errno %d: %d %s\n", names[call], skip, number, error, weft_chunks_why());
    assert_true(is_known(error));
    assert_true(error == WEFT_OK || struck > 0);
    assert_true(error == WEFT_OK || strlen(weft_chunks_why()) > 0);
    ahead_ns += 3600 * UINT64_C(1000000000); /* what was still claimed is not any more, once it has been looked at twice */
    int again = scene(pool);
    if (again != WEFT_OK) printf("%s %u errno %d, then: %d %s\n", names[call], skip, number, again, weft_chunks_why());
    assert_int_equal(again, WEFT_OK);
    for (size_t i = 0; i < CHUNKS; i++) {
        assert_int_equal(records_of(place, i, "done"), 1);
        assert_true(runs[i] >= 1);
        if (struck == 0) assert_int_equal(runs[i], 1);
    }
    tree_remove(base);
    assert_int_equal(descriptors(), open_before);
    return struck > 0;
}

static void test_faults(void **state) {
    (void)state;
    static const int numbers[] = {ENOSPC, EIO, EINTR, EDQUOT, ENOMEM};
    enum { NUMBERS = sizeof numbers / sizeof *numbers, SKIPS_MAX = 400 };
    weft_pool *pool = make_pool(1);
    unsigned cases = 0, struck = 0;
    for (int call = 0; call < CALLS; call++) {
        unsigned before = struck;
        for (unsigned skip = 0; skip < SKIPS_MAX; skip += skip < 12 ? 1 : 5) {
            unsigned hits = 0;
            int number = numbers[(skip + (unsigned)call) % NUMBERS];
            for (int for_ever = 0; for_ever < 2; for_ever++) {
                if (number == EINTR && for_ever) continue; /* it does not last */
                hits += (unsigned)scene_with(pool, (enum call)call, skip, number, for_ever);
                cases++;
            }
            struck += hits;
            if (hits == 0) break;
        }
        if (struck == before) printf("%s is not called\n", names[call]);
        assert_true(struck > before);
    }
    printf("%u cases, a call struck in %u\n", cases, struck);
    end_pool(pool);
}

/* The disk is full when a chunk is to be noted as done, and then there is room: the same worker goes on with the same call. */
static void test_for_again(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    const weft_chunks_work work = {.pool = pool, .body = body};
    for (unsigned skip = 1; skip < 2 * CHUNKS; skip += 2) { /* a claim, an end, ... */
        base_make(base);
        snprintf(place, sizeof place, "%s/q", base);
        for (int i = 0; i < CHUNKS; i++) runs[i] = 0;
        weft_chunks_plan plan = plan_of(CHUNKS, 1);
        REQUIRE(weft_chunks_create(place, &plan) == WEFT_OK);
        weft_chunks *queue = open_queue(place);
        fault.number = ENOSPC;
        fault.skip = skip;
        fault.for_ever = false;
        fault.call = C_symlinkat;
        assert_int_equal(weft_chunks_for(queue, &work), WEFT_CHUNKS_SYSTEM);
        assert_non_null(strstr(weft_chunks_why(), strerror(ENOSPC)));
        assert_int_equal(weft_chunks_for(queue, &work), WEFT_OK);
        for (size_t i = 0; i < CHUNKS; i++) {
            assert_int_equal(records_of(place, i, "done"), 1);
            assert_int_equal(runs[i], i == skip / 2 ? 2 : 1);
        }
        close_queue(queue);
        tree_remove(base);
    }
    end_pool(pool);
}

/* Whoever cannot be opened leaves no file of a worker. */
static void test_open_fails(void **state) {
    (void)state;
    char workers[PATH_BYTES + 32];
    base_make(base);
    snprintf(place, sizeof place, "%s/q", base);
    snprintf(workers, sizeof workers, "%s/workers", place);
    weft_chunks_plan plan = plan_of(1, 1);
    weft_chunks *queue;
    REQUIRE(weft_chunks_create(place, &plan) == WEFT_OK);
    fault.number = EIO;
    fault.skip = 0;
    fault.for_ever = false;
    fault.call = C_pwrite;
    assert_int_equal(weft_chunks_open(&queue, place), WEFT_CHUNKS_SYSTEM);
    assert_null(queue);
    assert_non_null(strstr(weft_chunks_why(), strerror(EIO)));
    assert_int_equal(rmdir(workers), 0); /* it is empty */
    tree_remove(base);
}

/* A claim whose record was written, but could not be read back: nobody knows that it was made. The worker that made it can claim again. */
static void test_unknown_claim(void **state) {
    (void)state;
    weft_chunks_plan plan = plan_of(1, 1);
    weft_chunk chunk;
    base_make(base);
    snprintf(place, sizeof place, "%s/q", base);
    REQUIRE(weft_chunks_create(place, &plan) == WEFT_OK);
    weft_chunks *queue = open_queue(place);
    fault.number = EIO;
    fault.skip = 0;
    fault.for_ever = false;
    fault.call = C_readlinkat;
    assert_int_equal(weft_chunks_claim(queue, &chunk), WEFT_CHUNKS_SYSTEM);
    assert_int_equal(fault.call, CALLS);
    assert_int_equal(records_of(place, 0, "held"), 1);
    assert_int_equal(weft_chunks_claim(queue, &chunk), WEFT_OK);
    assert_int_equal(chunk.record, 2);
    assert_int_equal(weft_chunks_finish(queue, &chunk, 0), WEFT_OK);
    close_queue(queue);
    tree_remove(base);
}

/* ---- leases -------------------------------------------------------------------------------------------------------- */

static void test_lease(void **state) {
    (void)state;
    weft_chunks_plan plan = plan_of(1, 1);
    weft_chunk mine, its;
    base_make(base);
    snprintf(place, sizeof place, "%s/q", base);
    plan.lease_ms = 60000;
    REQUIRE(weft_chunks_create(place, &plan) == WEFT_OK);
    weft_chunks *one = open_queue(place), *other = open_queue(place);
    assert_int_equal(weft_chunks_claim(one, &mine), WEFT_OK);
    for (int i = 0; i < 20; i++) { /* renewed in time */
        assert_int_equal(weft_chunks_claim(other, &its), WEFT_CHUNKS_BUSY);
        ahead_ns += 50 * UINT64_C(1000000000);
        assert_int_equal(weft_chunks_renew(one), WEFT_OK);
    }
    assert_int_equal(weft_chunks_claim(other, &its), WEFT_CHUNKS_BUSY);
    ahead_ns += 59 * UINT64_C(1000000000);
    assert_int_equal(weft_chunks_claim(other, &its), WEFT_CHUNKS_BUSY);
    ahead_ns += 2 * UINT64_C(1000000000);
    assert_int_equal(weft_chunks_claim(other, &its), WEFT_OK);
    assert_int_equal(weft_chunks_check(one, &mine), WEFT_CHUNKS_LOST);
    assert_int_equal(weft_chunks_finish(one, &mine, 0), WEFT_CHUNKS_LOST);
    assert_non_null(strstr(weft_chunks_why(), "taken it over"));
    assert_int_equal(weft_chunks_release(one, &mine), WEFT_CHUNKS_LOST);
    assert_int_equal(weft_chunks_finish(other, &its, 0), WEFT_OK);
    assert_int_equal(weft_chunks_result(one), WEFT_OK);
    close_queue(one);
    close_queue(other);
    tree_remove(base);
}

/* A worker that is stopped when its claim has just been written, for longer than its lease: the chunk is another one's before it looks. */
static weft_chunks *quick;
static weft_chunk quick_chunk;
static void take_over(void) {
    assert_int_equal(weft_chunks_claim(quick, &quick_chunk), WEFT_CHUNKS_BUSY); /* has seen it alive */
    ahead_ns += 61 * UINT64_C(1000000000);
    assert_int_equal(weft_chunks_claim(quick, &quick_chunk), WEFT_OK);
}

static void test_claim_taken_over(void **state) {
    (void)state;
    weft_chunks_plan plan = plan_of(1, 1);
    weft_chunk chunk;
    base_make(base);
    snprintf(place, sizeof place, "%s/q", base);
    plan.lease_ms = 60000;
    REQUIRE(weft_chunks_create(place, &plan) == WEFT_OK);
    weft_chunks *slow = open_queue(place);
    quick = open_queue(place);
    after_record = take_over;
    assert_int_equal(weft_chunks_claim(slow, &chunk), WEFT_CHUNKS_BUSY);
    assert_int_equal(quick_chunk.record, 2);
    ahead_ns += 61 * UINT64_C(1000000000); /* now the other one is silent for a lease, and the first takes it back */
    assert_int_equal(weft_chunks_claim(slow, &chunk), WEFT_OK);
    assert_int_equal(weft_chunks_finish(quick, &quick_chunk, 0), WEFT_CHUNKS_LOST);
    assert_int_equal(weft_chunks_finish(slow, &chunk, 0), WEFT_OK);
    close_queue(slow);
    close_queue(quick);
    tree_remove(base);
}

/* A file system that nothing can be written to: what is there can be read; a claim says why it cannot be made. */
static void test_read_only(void **state) {
    (void)state;
    static const int numbers[] = {EROFS, EACCES, EDQUOT, ENOSPC};
    base_make(base);
    snprintf(place, sizeof place, "%s/q", base);
    weft_chunks_plan plan = plan_of(3, 1);
    REQUIRE(weft_chunks_create(place, &plan) == WEFT_OK);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        weft_chunks *queue = NULL;
        weft_chunk chunk;
        size_t counts[4];
        refused_writing = numbers[i];
        assert_int_equal(weft_chunks_open(&queue, place), WEFT_OK);
        assert_int_equal(weft_chunks_read(queue, counts), WEFT_OK);
        assert_int_equal(counts[WEFT_CHUNK_FREE], 3);
        assert_int_equal(weft_chunks_claim(queue, &chunk), WEFT_CHUNKS_SYSTEM);
        assert_non_null(strstr(weft_chunks_why(), strerror(numbers[i])));
        assert_int_equal(weft_chunks_renew(queue), WEFT_CHUNKS_SYSTEM);
        refused_writing = 0;
        if (i == 0) assert_int_equal(weft_chunks_claim(queue, &chunk), WEFT_OK); /* there is room again */
        close_queue(queue);
    }
    tree_remove(base);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_faults),     cmocka_unit_test(test_for_again),
                                       cmocka_unit_test(test_open_fails), cmocka_unit_test(test_unknown_claim),
                                       cmocka_unit_test(test_lease),      cmocka_unit_test(test_claim_taken_over),
                                       cmocka_unit_test(test_read_only)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
