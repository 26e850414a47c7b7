/* mutant.c: which mutant of a rewritten build is on (schemata.py). Linked into its programs, instrumented by nobody.
 *
 * WEFT_MUTANT is the number of the one that is on; none without it. WEFT_MUTANT_HITS names a file of 32-bit counts, by number, to
 * which each asking adds: that is how it is known which driver or test runs which site. */
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static unsigned mutant_now;
static uint32_t *mutant_hits;
static size_t hit_count;

/* Not exported: a library that is loaded has its own, and nothing keeps it loaded. The count may lose some, and has no locked
 * instruction, for tests count those. */
__attribute__((visibility("hidden"))) int mutant(unsigned number);
int mutant(unsigned number) {
    if (mutant_hits != NULL && number < hit_count) {
        uint32_t *hits = &mutant_hits[number];
        __atomic_store_n(hits, __atomic_load_n(hits, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
    }
    return number == mutant_now;
}

/* For the inline functions that C++ programs compile. */
__attribute__((visibility("hidden"))) int mutant_cpp(unsigned number) __asm__("_Z6mutantj");
int mutant_cpp(unsigned number) { return mutant(number); }

__attribute__((constructor(101))) static void mutant_choose(void) {
    const char *number = getenv("WEFT_MUTANT");
    if (number != NULL) mutant_now = (unsigned)strtoul(number, NULL, 10);
    const char *path = getenv("WEFT_MUTANT_HITS");
    if (path == NULL) return;
    int file = open(path, O_RDWR | O_CLOEXEC);
    struct stat about;
    if (file >= 0 && fstat(file, &about) == 0) {
        void *counts = mmap(NULL, (size_t)about.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (counts != MAP_FAILED) {
            mutant_hits = counts;
            hit_count = (size_t)about.st_size / sizeof *mutant_hits;
        }
    }
    if (file >= 0) close(file);
}

/* A library that is unloaded leaves no mapping. */
__attribute__((destructor(101))) static void mutant_end(void) {
    void *counts = mutant_hits;
    mutant_hits = NULL;
    if (counts != NULL) munmap(counts, hit_count * sizeof *mutant_hits);
}
