/* Profiles of the heap: what the samples sum to, what becomes of them, and what is written.
 *
 * A sum of samples has a variance that is known: an allocation of b bytes, looked at with chance c, adds b^2 (1/c - 1). Each sum has to
 * be within 4.5 of its standard deviation; the chance has a fixed seed, so a test passes always or never. */
#define _GNU_SOURCE
#include "help.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "profile/profile.h"
#include "profile/samples.h"
#include "weft.h"

#define INTERVAL 8192
#define DEVIATIONS 4.5
#define OPAQUE(p) __asm__ __volatile__("" : : "r"(p) : "memory")

static atomic_bool maps_fail;
void *__real_os_map(size_t bytes);
void *__wrap_os_map(size_t bytes);
void *__wrap_os_map(size_t bytes) { return atomic_load(&maps_fail) ? NULL : __real_os_map(bytes); }

static void begin(uint64_t interval_bytes, uint64_t seed) {
    weft_heap_profile_config config = {.struct_size = sizeof config, .interval_bytes = interval_bytes, .seed = seed};
    weft_trim(); /* what a cache holds would be handed out first, and be no samples */
    REQUIRE(weft_heap_profile_start(&config) == WEFT_OK);
}

static uint64_t total(enum total which) {
    uint64_t sum = 0;
    for (const struct stack *stack = samples_stacks(); stack != NULL; stack = stack->older)
        sum += load_rlx(&stack->total[which]);
    return sum;
}

/* ---- sums --------------------------------------------------------------------------------------------------------- */

struct sum {
    double bytes, variance;
};

static double root(double x) {
    double r = x / 2 + 1;
    for (int i = 0; i < 100; i++) r = (r + x / r) / 2;
    return r;
}

static void *counted(struct sum *sum, size_t size) {
    void *p = weft_alloc(size);
    REQUIRE(p != NULL);
    double chance = sampling_chance(size <= 256 << 10 ? weft_usable_size(p) : size, INTERVAL);
    sum->bytes += (double)size;
    sum->variance += (double)size * (double)size * (1 / chance - 1);
    OPAQUE(p);
    return p;
}

enum { BLOCKS = 20000, KEPT = 64 };
static void *kept[BLOCKS];

static void one_size(struct sum *sum) {
    for (int i = 0; i < BLOCKS * 10; i++) weft_free(counted(sum, 48));
}
static void growing(struct sum *sum) {
    for (int i = 0; i < BLOCKS; i++) kept[i] = counted(sum, 80);
    for (int i = 0; i < BLOCKS; i++) weft_free(kept[i]);
}
/* Each refill brings as many of one as of the other: looks at fixed places of a cache would see one only. */
static void in_turns(struct sum *sum) {
    for (int i = 0; i < BLOCKS; i++) kept[i] = counted(sum, i % 2 ? 129 : 159);
    for (int i = 0; i < BLOCKS; i++) weft_free(kept[i]);
}
static void in_batches(struct sum *sum) {
    for (int round = 0; round < 300; round++) {
        for (int i = 0; i < 1000; i++) kept[i] = counted(sum, 16 + (size_t)(i % 7) * 200);
        for (int i = 0; i < 1000; i++) weft_free(kept[i]);
    }
}
static void mixed(struct sum *sum) {
    static const size_t sizes[] = {1, 100, 1000, 5000, 30000, 40000, 100000, 200000, 300000, 5000000};
    uint64_t random = 1;
    memset(kept, 0, sizeof kept);
    for (int i = 0; i < 40000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        void **place = &kept[random >> 33 & (KEPT - 1)];
        weft_free(*place);
        *place = counted(sum, i % 1000 == 0 ? sizes[9] : sizes[(random >> 45) % 9]);
    }
    for (int i = 0; i < KEPT; i++) weft_free(kept[i]);
}

static void test_sums(void **state) {
    (void)state;
    static void (*const programs[])(struct sum * sum) = {one_size, growing, in_turns, in_batches, mixed};
    for (uint64_t seed = 1; seed <= (SANITIZED ? 4 : 20); seed++) { /* as below */
        begin(INTERVAL, seed);
        for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
            struct sum sum = {0};
            uint64_t before = total(ALLOCATED_BYTES);
            programs[i](&sum);
            double off = (double)(total(ALLOCATED_BYTES) - before) - sum.bytes;
            if (off < 0) off = -off;
            if (off > DEVIATIONS * root(sum.variance))
                fail_msg("program %zu, seed %lu: %.0f bytes off %.0f, deviation %.0f", i, (unsigned long)seed, off,
                         sum.bytes, root(sum.variance));
            assert_int_equal(total(LIVE_BYTES), 0);
            assert_int_equal(total(LIVE_PARTS), 0);
        }
        assert_int_equal(weft_heap_profile_stop(), WEFT_OK);
    }
    assert_int_equal(samples_lost(), 0);
}

/* The mean over many seeds, of the two that come in turns apart: a hundredth off would be seen. */
static void test_turns_alike(void **state) {
    (void)state;
    double bytes = 0, live = 0, variance = 0;
    for (uint64_t seed = 1; seed <= (SANITIZED ? 20 : 200); seed++) { /* a sanitizer adds nothing to the sums */
        begin(INTERVAL, seed);
        struct sum sum = {0}, other = {0};
        uint64_t before = total(LIVE_BYTES);
        for (int i = 0; i < BLOCKS; i++) kept[i] = counted(i % 2 ? &sum : &other, i % 2 ? 129 : 159);
        for (int i = 0; i < BLOCKS; i += 2) weft_free(kept[i]);
        live += (double)(total(LIVE_BYTES) - before);
        for (int i = 1; i < BLOCKS; i += 2) weft_free(kept[i]);
        bytes += sum.bytes;
        variance += sum.variance;
        assert_int_equal(weft_heap_profile_stop(), WEFT_OK);
    }
    double off = live > bytes ? live - bytes : bytes - live;
    if (off > DEVIATIONS * root(variance)) fail_msg("%.0f off %.0f, deviation %.0f", off, bytes, root(variance));
}

/* ---- what becomes of samples -------------------------------------------------------------------------------------- */

/* Every allocation is one: the sums are those of what lives. */
static void test_resized(void **state) {
    (void)state;
    static const size_t sizes[] = {40,    48,    20,     700,     1,       5000,    9000,    300,    40000, 60000,
                                   90000, 50000, 200000, 3000000, 5000000, 9000000, 4500000, 400000, 100};
    begin(1, 1);
    struct sum unused = {0};
    weft_free(counted(&unused, 16)); /* the heap hears of it */
    uint64_t before = total(LIVE_BYTES);
    unsigned char *p = weft_alloc(10);
    memset(p, 7, 10);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        p = weft_realloc(p, sizes[i]);
        assert_non_null(p);
        assert_int_equal(p[0], 7);
        assert_in_range(total(LIVE_BYTES) - before, sizes[i], sizes[i] + 1);
        assert_true(weft_usable_size(p) >= sizes[i]);
    }
    weft_free(p);
    assert_int_equal(total(LIVE_BYTES), before);
    unsigned char *zeros = weft_alloc_zeroed(1000, 100), *aligned = weft_alloc_aligned(1 << 20, 600000);
    assert_true((uintptr_t)aligned % (1 << 20) == 0);
    for (int i = 0; i < 100000; i++) assert_int_equal(zeros[i], 0);
    assert_in_range(total(LIVE_BYTES) - before, 700000, 700002);
    weft_free_sized(zeros, 100000), weft_free(aligned);
    assert_int_equal(total(LIVE_BYTES), before);
    weft_heap_profile_stop();
    uint64_t stopped = total(ALLOCATED_BYTES);
    for (int i = 0; i < 1000; i++) kept[i] = counted(&unused, 100 + (size_t)i * 300);
    assert_int_equal(total(ALLOCATED_BYTES), stopped);
    for (int i = 0; i < 1000; i++) weft_free(kept[i]);
}

/* What the heap's own counts call no allocation is none: a realloc that leaves the block as it is. */
static void test_resized_in_place(void **state) {
    (void)state;
    enum { BYTES = 8 << 20, TIMES = 1000, LESS = 15, SHRUNK = 6 << 20 };
    begin(1, 1);
    uint64_t before = total(ALLOCATED_BYTES), live = total(LIVE_BYTES);
    char *p = weft_alloc(BYTES);
    for (int i = 0; i <= TIMES; i++) assert_ptr_equal(weft_realloc(p, BYTES - (size_t)(TIMES - i) % (LESS + 1)), p);
    assert_in_range(total(ALLOCATED_BYTES) - before, BYTES, BYTES + BYTES / 10);
    assert_in_range(total(LIVE_BYTES) - live, BYTES, BYTES + 1);
    p = weft_realloc(weft_realloc(p, SHRUNK), BYTES); /* from here on it keeps its pages */
    before = total(ALLOCATED_BYTES);
    for (int i = 0; i < TIMES; i++) assert_ptr_equal(weft_realloc(p, i % 2 == 0 ? SHRUNK : BYTES), p);
    assert_in_range(total(ALLOCATED_BYTES) - before, 0, BYTES / 10);
    assert_in_range(total(LIVE_BYTES) - live, BYTES, BYTES + 1);
    weft_free(p);
    assert_int_equal(total(LIVE_BYTES), live);
    weft_heap_profile_stop();
}

static atomic_bool runs;

/* Blocks go round: each thread frees another's. */
static void *crowd(void *first) {
    static _Atomic(void *) places[512];
    uint64_t random = (uint64_t)(uintptr_t)first;
    while (atomic_load(&runs)) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        size_t size = 1 + (size_t)(random >> 40 & 1023);
        if ((random >> 33 & 63) == 0) size *= 500;
        unsigned char *p = weft_alloc(size);
        if (p != NULL) p[0] = p[size - 1] = 1;
        weft_free(atomic_exchange(&places[random >> 50 & 511], p));
    }
    for (int i = 0; i < 512; i++) weft_free(atomic_exchange(&places[i], NULL));
    return NULL;
}

static pthread_t crowd_threads[4];
static void crowd_begin(void) {
    atomic_store(&runs, true);
    for (uintptr_t i = 0; i < 4; i++) REQUIRE(pthread_create(&crowd_threads[i], NULL, crowd, (void *)(i + 1)) == 0);
}
static void crowd_end(void) {
    atomic_store(&runs, false);
    for (int i = 0; i < 4; i++) REQUIRE(pthread_join(crowd_threads[i], NULL) == 0);
}

static void child_of_crowd(void) {
    struct sum unused = {0};
    alarm(60);
    for (int i = 0; i < 3000; i++) weft_free(counted(&unused, 5000));
    int fd = open("/dev/null", O_WRONLY);
    REQUIRE(weft_heap_profile_write(fd, WEFT_HEAP_PROFILE_PPROF) == WEFT_OK);
    _exit(0);
}

/* fork takes the C library's locks of streams. Who has one of those may free, so fork holds nothing that a free waits for. */
static ssize_t cookie_write(void *cookie, const char *text, size_t bytes) {
    (void)cookie, (void)text;
    void *block = weft_alloc(300000); /* over 256 KiB: its free asks whether it is a sample */
    weft_free(block);
    return (ssize_t)bytes;
}
static void *flusher(void *stream) {
    while (atomic_load(&runs)) {
        fputc('x', stream);
        fflush(NULL);
    }
    return NULL;
}
static void test_fork_beside_streams(void **state) {
    (void)state;
    begin(1024, 1);
    FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = cookie_write});
    pthread_t thread;
    REQUIRE(stream != NULL);
    atomic_store(&runs, true);
    REQUIRE(pthread_create(&thread, NULL, flusher, stream) == 0);
    for (int i = 0; i < (SANITIZED ? 100 : 1000); i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            for (int n = 0; n < 10; n++) weft_free(weft_alloc(300000));
            _exit(0);
        }
        int status = 0;
        REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    atomic_store(&runs, false);
    pthread_join(thread, NULL);
    fclose(stream);
    weft_heap_profile_stop();
}

/* Threads sample, the process forks, and a signal has the profile written in the middle of it. */
static atomic_uint written;
static void write_profile(int number) {
    (void)number;
    int saved = errno, fd = open("/dev/null", O_WRONLY);
    REQUIRE(weft_heap_profile_write(fd, WEFT_HEAP_PROFILE_PPROF) == WEFT_OK);
    close(fd);
    atomic_fetch_add(&written, 1);
    errno = saved;
}

static void test_threads_forks_signals(void **state) {
    (void)state;
    begin(256, 1);
    uint64_t before = total(LIVE_BYTES);
    struct sigaction action = {.sa_handler = write_profile, .sa_flags = SA_RESTART}, old;
    sigaction(SIGALRM, &action, &old);
    crowd_begin();
    struct itimerval often = {{0, 2000}, {0, 2000}}, never = {0};
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 30; i++) {
        pid_t child = fork();
        if (child == 0) {
            signal(SIGALRM, SIG_DFL);
            child_of_crowd();
        }
        int status = 0;
        while (waitpid(child, &status, 0) < 0) REQUIRE(errno == EINTR);
        REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    while (atomic_load(&written) < 20) usleep(1000);
    setitimer(ITIMER_REAL, &never, NULL);
    crowd_end();
    sigaction(SIGALRM, &old, NULL);
    assert_int_equal(total(LIVE_BYTES), before);
    weft_heap_profile_stop();
}

/* ---- what is written ---------------------------------------------------------------------------------------------- */

static char text[1 << 20];

static void read_folded(void) {
    int fd = memfd_create("profile", 0);
    REQUIRE(fd >= 0 && weft_heap_profile_write(fd, WEFT_HEAP_PROFILE_FOLDED) == WEFT_OK);
    ssize_t length = pread(fd, text, sizeof text - 1, 0);
    REQUIRE(length >= 0);
    text[length] = 0;
    close(fd);
}

__attribute__((noinline)) static void *a_caller_of_alloc(size_t size) {
    void *p = weft_alloc(size);
    OPAQUE(p);
    return p;
}

static void test_names(void **state) {
    (void)state;
    uintptr_t frames[OS_FRAMES_MAX];
    if (os_frames_begin() != 0 || os_frames(frames, OS_FRAMES_MAX) == 0) SKIP("no backtrace in this C library");
    begin(1, 1);
    void *p = a_caller_of_alloc(5 << 20);
    read_folded();
    assert_non_null(strstr(text, "test_names;a_caller_of_alloc"));
    weft_free(p);
    read_folded();
    assert_null(strstr(text, "a_caller_of_alloc"));
    weft_heap_profile_stop();
}

/* Code that is gone when the profile is written. */
static void test_unloaded(void **state) {
    (void)state;
    uintptr_t frames[OS_FRAMES_MAX];
    struct os_module module;
    if (os_frames(frames, OS_FRAMES_MAX) == 0) SKIP("no backtrace in this C library");
    if (!os_module_loaded((uintptr_t)test_unloaded, &module)) SKIP("the dynamic linker cannot be asked");
    void *library = dlopen(PLUGIN, RTLD_NOW);
    if (library == NULL) fail_msg("%s", dlerror());
    void *(*call)(void *(*)(size_t), size_t);
    *(void **)&call = dlsym(library, "call_of_a_plugin");
    assert_non_null(call);
    begin(1, 1);
    void *p = call(weft_alloc, 6 << 20);
    assert_int_equal(dlclose(library), 0);
    read_folded();
    assert_non_null(strstr(text, "call_of_a_plugin"));
    weft_free(p);
    weft_heap_profile_stop();
}

static void test_shortage(void **state) {
    (void)state;
    begin(64, 1);
    struct sum unused = {0};
    int fd = open("/dev/null", O_WRONLY);
    uint64_t lost = samples_lost();
    atomic_store(&maps_fail, true);
    for (int i = 0; i < BLOCKS; i++) kept[i] = counted(&unused, 100);
    for (enum weft_heap_profile_form form = WEFT_HEAP_PROFILE_PPROF; form <= WEFT_HEAP_PROFILE_FOLDED_ALLOCATED; form++)
        assert_int_equal(weft_heap_profile_write(fd, form), WEFT_ENOMEM);
    for (int i = 0; i < BLOCKS; i++) weft_free(kept[i]);
    atomic_store(&maps_fail, false);
    assert_true(samples_lost() > lost); /* the table of live ones cannot grow */
    assert_int_equal(weft_heap_profile_write(fd, WEFT_HEAP_PROFILE_PPROF), WEFT_OK);
    close(fd);
    weft_heap_profile_stop();
}

static void test_no_room(void **state) {
    (void)state;
    int full = open("/dev/full", O_WRONLY), closed = dup(full);
    close(closed);
    begin(1, 1);
    void *p = a_caller_of_alloc(5 << 20); /* each form has something to write */
    for (enum weft_heap_profile_form form = WEFT_HEAP_PROFILE_PPROF; form <= WEFT_HEAP_PROFILE_FOLDED_ALLOCATED; form++) {
        assert_int_equal(weft_heap_profile_write(full, form), WEFT_EINVAL);
        assert_int_equal(weft_heap_profile_write(closed, form), WEFT_EINVAL);
    }
    close(full);
    weft_free(p);
    weft_heap_profile_stop();
}

static void test_arguments(void **state) {
    (void)state;
    weft_heap_config checks = {.struct_size = sizeof checks, .checks = 1};
    weft_heap_profile_config config = {.struct_size = 7};
    assert_int_equal(weft_heap_profile_start(&config), WEFT_EINVAL);
    config = (weft_heap_profile_config){.struct_size = sizeof config, .interval_bytes = UINT64_MAX};
    assert_int_equal(weft_heap_profile_start(&config), WEFT_EINVAL);
    assert_int_equal(weft_heap_profile_write(1, 3), WEFT_EINVAL);
    assert_int_equal(weft_heap_profile_write(-1, 0), WEFT_EINVAL);
    assert_int_equal(weft_heap_configure(&checks), WEFT_EBUSY);
}

static void test_not_begun(void **state) {
    (void)state;
    assert_int_equal(weft_heap_profile_stop(), WEFT_EINVAL);
    assert_int_equal(weft_heap_profile_write(1, 0), WEFT_EINVAL);
    pid_t child = fork();
    if (child == 0) {
        weft_heap_config checks = {.struct_size = sizeof checks, .checks = 1};
        REQUIRE(weft_heap_configure(&checks) == WEFT_OK);
        REQUIRE(weft_heap_profile_start(NULL) == WEFT_EBUSY);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_not_begun),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_turns_alike),
        cmocka_unit_test(test_resized),
        cmocka_unit_test(test_resized_in_place),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_unloaded),
        cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_threads_forks_signals),
        cmocka_unit_test(test_fork_beside_streams),
        cmocka_unit_test(test_shortage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
