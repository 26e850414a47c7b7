/* faults.c: mmap fails at the Nth call, or from the Nth on, for every N that the same work reaches. An allocation then returns NULL
 * with ENOMEM or has found memory elsewhere; what is live stays as it is, and later work goes well. `faults SERVER`. */
#include "server.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define REQUIRE(x)                                                                                                          \
    do {                                                                                                                    \
        if (!(x)) {                                                                                                         \
            fprintf(stderr, "line %d: not true: %s\n", __LINE__, #x);                                                       \
            _exit(99);                                                                                                      \
        }                                                                                                                   \
    } while (0)

/* ---- the fault ---------------------------------------------------------------------------------------------------- */

static long calls, fail_at, fail_until; /* calls are counted from 1; none fails while fail_at is 0 */

static bool fails(void) {
    long call = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    return fail_at != 0 && call >= fail_at && call <= fail_until;
}

/* The program's own mmap stands before the C library's, for the preloaded library too. Its six arguments travel as those of a
 * variadic function do on the machines that weft knows. */
void *map_or_fail(void *address, size_t length, ...) __asm__("mmap");
void *map_or_fail(void *address, size_t length, ...) {
    va_list more;
    va_start(more, length);
    int protection = va_arg(more, int), flags = va_arg(more, int), fd = va_arg(more, int);
    off_t offset = va_arg(more, off_t);
    va_end(more);
    if (!fails()) return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
    errno = ENOMEM;
    return MAP_FAILED;
}

/* ---- the work ----------------------------------------------------------------------------------------------------- */

enum { BLOCKS = 32 };

struct work {
    unsigned char *blocks[BLOCKS];
    size_t sizes[BLOCKS];
    unsigned failures;
};

static size_t size_of(unsigned i) {
    static const size_t sizes[] = {16, 100, 1000, 5000, 40000, 300000, 2000000, 9000000};
    return sizes[i % 8] + i;
}

static unsigned char *get(unsigned way, size_t size) {
    if (way == 0) return malloc(size);
    if (way == 1) return calloc(1, size);
    if (way == 2) return memalign(4096, size);
    return realloc(NULL, size);
}

static void allocate(struct work *work) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        errno = 0;
        work->sizes[i] = size_of(i);
        work->blocks[i] = get(i / 8 % 4, work->sizes[i]);
        if (work->blocks[i] == NULL) {
            REQUIRE(errno == ENOMEM);
            work->failures++;
            continue;
        }
        work->blocks[i][0] = work->blocks[i][work->sizes[i] - 1] = (unsigned char)i;
    }
}

static void grow(struct work *work) {
    for (unsigned i = 0; i < BLOCKS; i += 3) {
        unsigned char *old = work->blocks[i];
        if (old == NULL) continue;
        errno = 0;
        unsigned char *grown = realloc(old, work->sizes[i] * 2);
        if (grown == NULL) {
            REQUIRE(errno == ENOMEM);
            work->failures++;
            continue;
        }
        REQUIRE(grown[work->sizes[i] - 1] == (unsigned char)i);
        work->blocks[i] = grown;
    }
}

static void drop(struct work *work) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (work->blocks[i] == NULL) continue;
        REQUIRE(work->blocks[i][0] == (unsigned char)i && work->blocks[i][work->sizes[i] - 1] == (unsigned char)i);
        free(work->blocks[i]);
        work->blocks[i] = NULL;
    }
}

static void *drop_thread(void *argument) {
    struct work *work = argument;
    struct work own = {0};
    allocate(&own);
    drop(work);
    drop(&own);
    work->failures += own.failures;
    return NULL;
}

static unsigned everything(void) {
    struct work work = {0};
    pthread_t thread;
    allocate(&work);
    grow(&work);
    if (pthread_create(&thread, NULL, drop_thread, &work) == 0)
        pthread_join(thread, NULL);
    else
        drop(&work); /* the thread's stack is an mmap, too */
    allocate(&work);
    drop(&work);
    return work.failures;
}

/* In a child: the work with the fault, then again without. Exit status 0 well, 1 well and an allocation failed. */
static void one_fault(long at, long until) {
    alarm(60);
    calls = 0;
    fail_at = at;
    fail_until = until;
    unsigned failures = everything();
    bool reached = calls >= at;
    fail_at = 0;
    REQUIRE(everything() == 0);
    _exit(!reached ? 2 : failures != 0 ? 1 : 0);
}

/* True while the work reaches its Nth mmap. */
static bool sweep_one(long at, long until, unsigned *failed) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) one_fault(at, until);
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) > 2) {
        fprintf(stderr, "mmap %ld to %ld failing: status %#x\n", at, until, (unsigned)status);
        exit(1);
    }
    *failed += WEXITSTATUS(status) == 1;
    return WEXITSTATUS(status) != 2;
}

static long sweep(bool to_the_end, unsigned *failed) {
    long at = 1;
    while (at < 100000 && sweep_one(at, to_the_end ? INT32_MAX : at, failed)) at++;
    return at - 1;
}

int main(int argc, char **argv) {
    unsigned failed = 0, failed_for_good = 0;
    if (argc != 2) return 2;
    require_server(argv[1]);
    long once = sweep(false, &failed), for_good = sweep(true, &failed_for_good);
    printf("one mmap failing: %ld places, an allocation failed in %u of them\n", once, failed);
    printf("all from the Nth on failing: %ld places, in %u of them\n", for_good, failed_for_good);
    REQUIRE(once >= 3 && for_good >= 3 && failed_for_good > 0); /* else the fault was not where memory comes from */
    return 0;
}
