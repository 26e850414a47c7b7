/* faults.c: mmap fails at the Nth call, or from the Nth on, for every N that the same work reaches. An allocation then
 * returns NULL with ENOMEM or has found memory elsewhere; what is live stays as it is, and later work goes well. A block
 * can be made smaller without any memory. munmap fails as it does where there are too many mappings, mremap as on Linux
 * before 6.17. `faults SERVER`. */
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

/* The program's own mmap stands before the C library's, for the preloaded library too. Its six arguments travel as those
 * of a variadic function do on the machines that weft knows. */
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

/* Not static: the C library's header says of malloc that it calls nothing here, so the compiler would take them for unchanged. */
extern bool munmap_fails, mremap_fails, only_moves_fail;
extern unsigned char *intruder;
bool munmap_fails, mremap_fails, only_moves_fail;
unsigned char *intruder; /* what another thread mapped where a failing mremap left a hole */

int unmap_or_fail(void *address, size_t length) __asm__("munmap");
int unmap_or_fail(void *address, size_t length) {
    if (!munmap_fails) return (int)syscall(SYS_munmap, address, length);
    errno = ENOMEM;
    return -1;
}

/* A block whose pages the system does not treat alike: the target goes first, then mremap finds that it cannot. */
void *remap_or_fail(void *old, size_t size, size_t wanted, int flags, ...) __asm__("mremap");
void *remap_or_fail(void *old, size_t size, size_t wanted, int flags, ...) {
    va_list more;
    va_start(more, flags);
    void *target = (flags & MREMAP_FIXED) != 0 ? va_arg(more, void *) : NULL;
    va_end(more);
    if (!mremap_fails || (only_moves_fail && target == NULL))
        return (void *)syscall(SYS_mremap, old, size, wanted, flags, target);
    if (target != NULL)
        intruder = (void *)syscall(SYS_mmap, target, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                                   -1, 0);
    errno = EFAULT;
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
    alarm(600);
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

/* C23's; not every C library has it. */
void free_sized(void *block, size_t size) __attribute__((weak));

/* ---- smaller, and gone -------------------------------------------------------------------------------------------- */

static void in_child(void (*run)(void)) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        alarm(600);
        run();
        _exit(0);
    }
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void smaller_without_memory(void) {
    enum { COUNT = 12 };
    unsigned char *blocks[COUNT];
    size_t sizes[COUNT], asked[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        sizes[i] = (size_t)10000 << i;
        blocks[i] = malloc(sizes[i]);
        REQUIRE(blocks[i] != NULL);
        memset(blocks[i], (int)i, sizes[i]);
    }
    fail_at = 1;
    fail_until = INT32_MAX;
    for (size_t size = 4000000; size > 0; size /= 2)
        while (malloc(size) != NULL) {}
    for (unsigned i = 0; i < COUNT; i++)
        for (; sizes[i] > 1; sizes[i] /= i % 2 == 0 ? 7 : 300) {
            blocks[i] = realloc(blocks[i], sizes[i]);
            REQUIRE(blocks[i] != NULL && blocks[i][0] == i && blocks[i][sizes[i] - 1] == i);
            asked[i] = sizes[i];
        }
    for (unsigned i = 0; i < COUNT && free_sized != NULL; i++)
        free_sized(blocks[i], asked[i]); /* also where it has stayed */
}

static size_t mapped_pages(void) {
    char line[256];
    FILE *file = fopen("/proc/self/statm", "r");
    REQUIRE(file != NULL && fgets(line, sizeof line, file) != NULL);
    fclose(file);
    return strtoul(line, NULL, 10);
}

static void gone_without_munmap(void) {
    enum { BYTES = 65 << 20 }; /* more than is kept for the next such block */
    unsigned char *block = malloc(BYTES);
    REQUIRE(block != NULL);
    memset(block, 1, BYTES);
    size_t full = resident_bytes();
    munmap_fails = true;
    errno = 0;
    free(block);
    REQUIRE(errno == 0);
    REQUIRE(resident_bytes() < full - BYTES / 2);
    block = malloc(BYTES);
    REQUIRE(block != NULL);
    memset(block, 1, BYTES);
    block = realloc(block, 5 << 20);
    REQUIRE(block != NULL && block[0] == 1 && block[(5 << 20) - 1] == 1);
    REQUIRE(resident_bytes() < full - BYTES / 2);
    free(block);
    size_t mapped = mapped_pages(), page = (size_t)sysconf(_SC_PAGESIZE);
    for (int round = 0; round < 5; round++) {
        REQUIRE((block = calloc(1, BYTES)) != NULL && block[0] == 0 && block[BYTES - 1] == 0);
        memset(block, 1, BYTES);
        free(block);
    }
    REQUIRE(mapped_pages() < mapped + 2 * BYTES / page); /* the address space serves again */
}

static void larger_without_mremap(void) {
    enum { BYTES = 5 << 20 };
    unsigned char *block = malloc(BYTES);
    REQUIRE(block != NULL);
    memset(block, 2, BYTES);
    mremap_fails = true;
    block = realloc(block, (size_t)3 * BYTES);
    REQUIRE(block != NULL && block[0] == 2 && block[BYTES - 1] == 2);
    memset(block, 2, (size_t)3 * BYTES);
    if (intruder != NULL) memset(intruder, 3, BYTES); /* it is not the heap's: nobody may have unmapped it */
    mremap_fails = false;
    unsigned char *others[8];
    for (int i = 0; i < 8; i++) others[i] = calloc(1, BYTES + (size_t)i * 4096);
    for (int i = 0; i < 8; i++) REQUIRE(others[i] != NULL && others[i][0] == 0 && others[i][BYTES - 1] == 0);
    if (intruder != NULL) REQUIRE(intruder[0] == 3 && intruder[BYTES - 1] == 3);
    REQUIRE(block[0] == 2 && block[3 * BYTES - 1] == 2);
}

/* Pages of small blocks that cannot move to a large one, and leave a hole that another thread takes. */
static void large_after_small_without_mremap(void) {
    enum { BYTES = 20 << 20, SMALL = 600, SMALLS = 2 * BYTES / SMALL };
    static unsigned char *small[SMALLS];
    for (int i = 0; i < SMALLS; i++) small[i] = memset(malloc(SMALL), 4, SMALL);
    for (int i = 0; i < SMALLS; i++) free(small[i]);
    intruder = NULL;
    mremap_fails = only_moves_fail = true;
    unsigned char *block = calloc(1, BYTES), *other = calloc(1, BYTES);
    REQUIRE(block != NULL && other != NULL);
    if (intruder != NULL) memset(intruder, 3, 1 << 20);
    for (int i = 0; i < BYTES; i++) REQUIRE(block[i] == 0 && other[i] == 0);
    memset(block, 2, BYTES);
    free(block);
    free(other);
    if (intruder != NULL) REQUIRE(intruder[0] == 3 && intruder[(1 << 20) - 1] == 3);
}

/* The same: of the range that the pages were to move to, no more than the hole is lost. */
static void large_after_small_leaks_nothing(void) {
    enum { BYTES = 60 << 20, SMALL = 600, SMALLS = BYTES / SMALL };
    static unsigned char *small[SMALLS];
    for (int i = 0; i < SMALLS; i++) small[i] = memset(malloc(SMALL), 4, SMALL);
    for (int i = 0; i < SMALLS; i++) free(small[i]);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = mapped_pages();
    intruder = NULL;
    mremap_fails = only_moves_fail = true;
    unsigned char *block = malloc(BYTES);
    REQUIRE(block != NULL);
    REQUIRE(intruder != NULL);
    free(block);
    malloc_trim(0);
    REQUIRE(mapped_pages() < before + (8 << 20) / page);
}

/* Ranges that were kept and cannot move together: what took the place of one is not unmapped. */
static void gathered_without_mremap(void) {
    enum { BYTES = 7 << 20 };
    unsigned char *live[5], *kept[2];
    for (int i = 0; i < 5; i++) {
        REQUIRE((live[i] = malloc(BYTES)) != NULL);
        if (i < 2) REQUIRE((kept[i] = malloc(BYTES)) != NULL);
    }
    for (int i = 0; i < 2; i++) memset(kept[i], 1, BYTES);
    for (int i = 0; i < 2; i++) free(kept[i]);
    intruder = NULL;
    mremap_fails = only_moves_fail = true;
    unsigned char *block = malloc((size_t)2 * BYTES);
    REQUIRE(block != NULL && intruder != NULL);
    mremap_fails = false;
    memset(intruder, 3, 4 << 20); /* faults, if it was unmapped */
    memset(block, 2, (size_t)2 * BYTES);
    unsigned char *other = malloc((size_t)3 * BYTES);
    REQUIRE(other != NULL);
    memset(other, 2, (size_t)3 * BYTES);
    REQUIRE(intruder[0] == 3 && intruder[(4 << 20) - 1] == 3);
}

int main(int argc, char **argv) {
    unsigned failed = 0, failed_for_good = 0;
    if (argc != 2) return 2;
    require_server(argv[1]);
    in_child(smaller_without_memory);
    in_child(gone_without_munmap);
    in_child(larger_without_mremap);
    in_child(large_after_small_without_mremap);
    in_child(large_after_small_leaks_nothing);
    in_child(gathered_without_mremap);
    long once = sweep(false, &failed), for_good = sweep(true, &failed_for_good);
    printf("one mmap failing: %ld places, an allocation failed in %u of them\n", once, failed);
    printf("all from the Nth on failing: %ld places, in %u of them\n", for_good, failed_for_good);
    REQUIRE(once >= 3 && for_good >= 3 && failed_for_good > 0); /* else the fault was not where memory comes from */
    return 0;
}
