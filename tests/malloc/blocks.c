/* Large blocks, for the tables in docs/howto/malloc.md; run under any allocator:
 *
 *     malloc_blocks SERVER random LOW HIGH LIVE COUNT whole|pages   blocks of random sizes take each other's place
 *     malloc_blocks SERVER phases COUNT                             80 MB of 600 bytes, all freed, then of 4 MiB, and again
 *     malloc_blocks SERVER threads COUNT BLOCKS                     live all at once, each with so many blocks, and end
 *     malloc_blocks SERVER space                                    small blocks fill 300 MiB of address space, and are freed
 *
 * Prints what it cost. Where the server, part of its file's name, is libweft-malloc, the phases fail if the process held over 1.25 of
 * what lived, and what was filled if the program itself can have less than half of it then; "any" may be anything. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "server.h"

#define REQUIRE(holds)                                                                                                      \
    do {                                                                                                                    \
        if (holds) break;                                                                                                   \
        fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #holds);                                               \
        exit(1);                                                                                                            \
    } while (0)

enum { PHASE_BYTES = 80000000, PAGE = 4096 };

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static long peak_kib(long *faults) {
    struct rusage usage;
    REQUIRE(getrusage(RUSAGE_SELF, &usage) == 0);
    *faults = usage.ru_minflt;
    return usage.ru_maxrss;
}

static uint64_t draw(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static void random_sizes(size_t low, size_t high, size_t live, size_t count, int whole) {
    uint64_t state = 1;
    char **blocks = calloc(live, sizeof *blocks);
    REQUIRE(blocks != NULL && low < high && live > 0 && count > 0);
    double start = seconds();
    for (size_t i = 0; i < count; i++) {
        size_t at = draw(&state) % live, size = low + draw(&state) % (high - low);
        free(blocks[at]);
        blocks[at] = malloc(size);
        REQUIRE(blocks[at] != NULL);
        if (whole) memset(blocks[at], (int)i, size);
        for (size_t k = 0; !whole && k < size; k += PAGE) blocks[at][k] = 1;
    }
    double us = (seconds() - start) * 1e6 / (double)count;
    long faults, kib = peak_kib(&faults);
    printf("%.1f us each, %ld page faults, %ld MiB at most\n", us, faults, kib >> 10);
    for (size_t i = 0; i < live; i++) free(blocks[i]);
    free(blocks);
}

static void phase(char **blocks, size_t size) {
    size_t count = PHASE_BYTES / size;
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(size);
        REQUIRE(blocks[i] != NULL);
        memset(blocks[i], (int)i, size);
    }
    for (size_t i = 0; i < count; i++) {
        REQUIRE(blocks[i][0] == (char)i && blocks[i][size - 1] == (char)i);
        free(blocks[i]);
    }
}

static int phases(size_t count, int is_bound) {
    static char *blocks[PHASE_BYTES / 600];
    long faults, before = peak_kib(&faults), kib;
    for (size_t i = 0; i < count; i++) phase(blocks, i % 2 == 0 ? 600 : (size_t)4 << 20);
    kib = peak_kib(&faults) - before;
    printf("%ld page faults, %ld MiB at most beside the program\n", faults, kib >> 10);
    return is_bound && kib / 5 > PHASE_BYTES / 1024 / 4;
}

enum { BLOCKS_MAX = 64, STACK_BYTES = 65536 };
static pthread_barrier_t all_have, all_go;

static void *have_blocks(void *blocks) {
    void *of[BLOCKS_MAX];
    size_t count = *(size_t *)blocks;
    for (size_t i = 0; i < count; i++) REQUIRE((of[i] = malloc(count == 1 ? 40 : 16 + i * 32)) != NULL);
    for (size_t i = 0; i < count; i++) memset(of[i], 1, 16);
    pthread_barrier_wait(&all_have);
    pthread_barrier_wait(&all_go);
    for (size_t i = 0; i < count; i++) free(of[i]);
    return NULL;
}

static double resident_mib(void) {
    char line[256], *behind;
    FILE *file = fopen("/proc/self/statm", "r");
    REQUIRE(file != NULL && fgets(line, sizeof line, file) != NULL);
    fclose(file);
    strtoul(line, &behind, 10); /* what is mapped */
    unsigned long resident = strtoul(behind, NULL, 10);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

/* Two seconds later, too, in which this thread allocates now and then. */
static void threads(unsigned count, size_t blocks) {
    pthread_attr_t attributes;
    pthread_t *made = malloc(count * sizeof *made);
    REQUIRE(made != NULL && blocks >= 1 && blocks <= BLOCKS_MAX);
    pthread_attr_init(&attributes);
    REQUIRE(pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0);
    pthread_barrier_init(&all_have, NULL, count + 1);
    pthread_barrier_init(&all_go, NULL, count + 1);
    for (unsigned i = 0; i < count; i++) REQUIRE(pthread_create(&made[i], &attributes, have_blocks, &blocks) == 0);
    pthread_barrier_wait(&all_have);
    double alive = resident_mib();
    pthread_barrier_wait(&all_go);
    for (unsigned i = 0; i < count; i++) pthread_join(made[i], NULL);
    double ended = resident_mib();
    for (int i = 0; i < 40; i++) {
        usleep(50000);
        for (int k = 0; k < 200; k++) free(malloc(100));
    }
    printf("MiB with %u threads %.0f, ended %.0f, two seconds later %.0f\n", count, alive, ended, resident_mib());
}

enum { SPACE = 300 << 20, PIECE = 1 << 20, PIECES = SPACE / PIECE };

/* In this process the limit is there from its beginning. */
static int fill_space(int is_bound) {
    static char *blocks[SPACE / 600], *pieces[PIECES];
    size_t count = 0, own = 0;
    while (count < SPACE / 600 && (blocks[count] = malloc(600)) != NULL) blocks[count++][0] = 1;
    size_t filled = count * 600 / PIECE;
    while (count > 0) free(blocks[--count]);
    for (; own < PIECES; own++) {
        pieces[own] = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pieces[own] == MAP_FAILED) break;
    }
    for (size_t i = 0; i < own; i++) munmap(pieces[i], PIECE);
    for (int round = 0; round < 2; round++) { /* what was given back comes again */
        while (count < SPACE / 600 && (blocks[count] = malloc(600)) != NULL) blocks[count++][0] = 1;
        REQUIRE(count * 600 / PIECE > filled / 5 * 4);
        while (count > 0) free(blocks[--count]);
    }
    printf("%zu MiB of small blocks, freed: %zu MiB for the program itself\n", filled, own * PIECE >> 20);
    return is_bound && own < filled / 2;
}

static int space(char **argv, int is_bound) {
    struct rlimit limit;
    REQUIRE(getrlimit(RLIMIT_AS, &limit) == 0);
    if (limit.rlim_cur == SPACE) return fill_space(is_bound);
    limit.rlim_cur = SPACE;
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
    execv("/proc/self/exe", argv);
    REQUIRE(0 && "started again");
    return 1;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    require_server(strcmp(argv[1], "any") == 0 ? NULL : argv[1]);
    if (argc == 8 && strcmp(argv[2], "random") == 0)
        random_sizes(strtoul(argv[3], NULL, 10), strtoul(argv[4], NULL, 10), strtoul(argv[5], NULL, 10),
                     strtoul(argv[6], NULL, 10), strcmp(argv[7], "whole") == 0);
    else if (argc == 4 && strcmp(argv[2], "phases") == 0)
        return phases(strtoul(argv[3], NULL, 10), strcmp(argv[1], "libweft-malloc") == 0);
    else if (argc == 3 && strcmp(argv[2], "space") == 0)
        return space(argv, strcmp(argv[1], "libweft-malloc") == 0);
    else if (argc == 5 && strcmp(argv[2], "threads") == 0)
        threads((unsigned)strtoul(argv[3], NULL, 10), strtoul(argv[4], NULL, 10));
    else
        return 2;
    return 0;
}
