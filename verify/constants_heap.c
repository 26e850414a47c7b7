/* constants_heap.c: what verify/constants_heap runs with each of the heap's constants changed: constants_heap WORKLOAD. Prints the
 * most that was in memory (KiB) and the page faults. Draws from a fixed seed. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { BLOCKS = 100000 };
static char *blocks[BLOCKS];
static uint32_t drawn = 1;

static size_t draw(size_t below) {
    drawn = drawn * 1664525 + 1013904223;
    return (size_t)((uint64_t)(drawn >> 8) * below >> 24);
}

static void make(size_t which, size_t size) {
    blocks[which] = malloc(size);
    if (blocks[which] == NULL) exit(2);
    blocks[which][0] = blocks[which][size - 1] = 1;
}
static void end(size_t which) {
    free(blocks[which]);
    blocks[which] = NULL;
}
static void end_all(void) {
    for (size_t i = 0; i < BLOCKS; i++) end(i * 7919 % BLOCKS);
}

/* All is made, then all is freed in another order. */
static void phases(void) {
    for (int phase = 0; phase < 2; phase++) {
        for (size_t i = 0; i < BLOCKS; i++) make(i, 16 + draw(1000));
        end_all();
    }
}
/* The same of one class, more and fewer. */
static void one_class(void) {
    for (size_t phase = 0; phase < 3; phase++) {
        for (size_t i = 0; i < BLOCKS - phase % 3 * 30000; i++) make(i, 200);
        end_all();
    }
}
static size_t size_small(void) { return 16 + (draw(16) == 0 ? draw(8000) : draw(400)); }
static size_t size_mixed(void) { return draw(20) == 0 ? 40000 + draw(300000) : 16 + draw(3000); }
static size_t size_of_runs(void) { return 40000 + draw(8) * draw(100000); }
static size_t size_of_mappings(void) { return 1000000 + draw(9000000); }
/* Of so many, one drawn at a time is freed and another made. */
static void churn(size_t count, int steps, size_t (*size)(void)) {
    for (int i = 0; i < steps; i++) {
        size_t which = draw(count);
        end(which);
        make(which, size());
    }
    end_all();
}
static void small(void) { churn(BLOCKS, 300000, size_small); }
static void mixed(void) { churn(40000, 150000, size_mixed); }
static void runs(void) { churn(800, 20000, size_of_runs); }
static void mappings(void) { churn(60, 800, size_of_mappings); }
static void grown(void) {
    for (size_t i = 0; i < 30; i++) {
        size_t size = 16;
        make(i % 50, size);
        for (; size < 3000000; size += size / 2) blocks[i % 50] = realloc(blocks[i % 50], size + size / 2);
        if (i % 50 == 49) end_all();
    }
    end_all();
}
/* Another thread frees all of it. */
static void *ends_all(void *unused) {
    end_all();
    return unused;
}
static void handed(void) {
    for (int phase = 0; phase < 2; phase++) {
        pthread_t other;
        for (size_t i = 0; i < BLOCKS; i++) make(i, 16 + draw(500));
        if (pthread_create(&other, NULL, ends_all, NULL) != 0) exit(2);
        pthread_join(other, NULL);
    }
}

int main(int count, char **words) {
    static const struct {
        const char *name;
        void (*run)(void);
    } all[] = {{"phases", phases}, {"one_class", one_class}, {"small", small}, {"mixed", mixed},
               {"runs", runs},     {"mappings", mappings},   {"grown", grown}, {"handed", handed}};
    for (size_t i = 0; count == 2 && i < sizeof all / sizeof *all; i++) {
        if (strcmp(words[1], all[i].name) != 0) continue;
        all[i].run();
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        printf("%ld %ld\n", usage.ru_maxrss, usage.ru_minflt);
        return 0;
    }
    return 1;
}
