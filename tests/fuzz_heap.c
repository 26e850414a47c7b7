/* fuzz_heap.c: blocks of all sizes by all calls, each checked against what it ought to be: contents, alignment, zeros,
 * usable size, errno. Threads hand blocks to each other, come and go with frees under way, and fork, while others trim,
 * count and walk.
 *
 *     fuzz SEED STEPS THREADS plain|checked   weft's own names; private heaps and changes of the configuration, too
 *     fuzz SEED STEPS THREADS SERVER          built with FUZZ_MALLOC: the C library's names, served by that file
 *
 * A run that fails says its seed; threads make no run the same twice. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(FUZZ_MALLOC)
#include "malloc/server.h"

#include <malloc.h>
#define GET malloc
#define GET_ZEROED calloc
#define GET_ALIGNED memalign
#define RESIZE realloc
#define FREE free
#define USABLE malloc_usable_size
#else
#include "weft.h"
#define GET weft_alloc
#define GET_ZEROED weft_alloc_zeroed
#define GET_ALIGNED weft_alloc_aligned
#define RESIZE weft_realloc
#define FREE weft_free
#define USABLE weft_usable_size
#endif

#if defined(EMULATED) || defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define FORKS 0
#else
#define FORKS 1
#endif

static unsigned long seed;

#define REQUIRE(x)                                                                                                          \
    do {                                                                                                                    \
        if (!(x)) {                                                                                                         \
            fprintf(stderr, "seed %lu, line %d: not true: %s\n", seed, __LINE__, #x);                                       \
            abort();                                                                                                        \
        }                                                                                                                   \
    } while (0)

enum { OWN = 200, SHARED = 64, WHOLE_MAX = 65536, STRIDE = 509, RARE = 300, CHILD_STEPS = 1000 };

struct block {
    unsigned char *p;
    size_t size;
    uint32_t color;
    bool is_as_asked; /* its size is what it was asked for by, and no alignment was */
};

static struct {
    pthread_mutex_t lock;
    struct block block;
} shared[SHARED];

struct fuzzer {
    uint64_t random;
    long steps;
    int depth;
    bool is_alone; /* in a child of fork: what is shared may be locked by a thread that is gone */
    struct block own[OWN];
};

static uint64_t next(struct fuzzer *f) {
    f->random ^= f->random << 13;
    f->random ^= f->random >> 7;
    f->random ^= f->random << 17;
    return f->random * UINT64_C(0x2545f4914f6cdd1d) >> 11;
}

static size_t below(struct fuzzer *f, size_t n) { return (size_t)(next(f) % n); }

/* ---- contents: every byte of a small block, some of a large one ---------------------------------------------------- */

static unsigned char byte_at(const struct block *b, size_t i) { return (unsigned char)((b->color + i) * 167u >> 3); }
static size_t stride(size_t size) { return size > WHOLE_MAX ? STRIDE : 1; }

static void paint(const struct block *b) {
    for (size_t i = 0; i < b->size; i += stride(b->size)) b->p[i] = byte_at(b, i);
    if (b->size > 0) b->p[b->size - 1] = byte_at(b, b->size - 1);
}

/* The first `kept` bytes. */
static void look(const struct block *b, size_t kept) {
    for (size_t i = 0; i < kept; i += stride(b->size)) REQUIRE(b->p[i] == byte_at(b, i));
    if (b->size > 0 && kept == b->size) REQUIRE(b->p[kept - 1] == byte_at(b, kept - 1));
}

/* ---- one block ----------------------------------------------------------------------------------------------------- */

static size_t some_size(struct fuzzer *f) {
    switch (below(f, 14)) {
    case 0: return below(f, 17);
    case 1:
    case 2:
    case 3:
    case 4: return below(f, 300);
    case 5:
    case 6:
    case 7: return below(f, 5000);
    case 8: return below(f, 40000);
    case 9: return 32768 - 64 + below(f, 128);                                             /* where slabs end */
    case 10: return 65536 * (1 + below(f, 5)) - 32 + below(f, 64);                         /* and slots */
    case 11: return below(f, 8) > 0 ? below(f, 300000) : (2u << 20) - 100 + below(f, 200); /* and runs */
    case 12: return below(f, 16) > 0 ? below(f, 100) : below(f, 12u << 20);
    default: return (size_t)1 << below(f, 17);
    }
}

static unsigned char *get_zeroed(struct fuzzer *f, size_t *size) {
    size_t count = 1 + below(f, 9);
    *size = *size / count * count;
    unsigned char *p = GET_ZEROED(count, *size / count);
    for (size_t i = 0; p != NULL && i < *size; i++) REQUIRE(p[i] == 0);
    return p;
}

static bool keeps_errno = true; /* a C library's own malloc may set it although it succeeds */
static void make(struct fuzzer *f, struct block *b) {
    size_t size = some_size(f), alignment = 16;
    unsigned way = (unsigned)below(f, 6);
    int saved = errno = (int)below(f, 1000) + 1;
    if (way == 1) alignment = (size_t)16 << below(f, 17);
    b->p = way == 0   ? get_zeroed(f, &size)
           : way == 1 ? GET_ALIGNED(alignment, size)
           : way == 2 ? RESIZE(NULL, size)
                      : GET(size);
    REQUIRE(b->p != NULL && (errno == saved || !keeps_errno) && (uintptr_t)b->p % alignment == 0);
    b->is_as_asked = way != 1;
    b->color = (uint32_t)next(f);
    b->size = size;
    if (below(f, 4) == 0) {
        size_t usable = USABLE(b->p);
        REQUIRE(usable >= size);
        if (usable > size) b->is_as_asked = false;
        b->size = usable;
    }
    paint(b);
}

static void drop(struct fuzzer *f, struct block *b) {
    int saved = (int)below(f, 1000) + 1;
    look(b, b->size);
    errno = saved;
#if !defined(FUZZ_MALLOC)
    if (b->is_as_asked && below(f, 2) == 0)
        weft_free_sized(b->p, b->size);
    else
#endif
        FREE(b->p);
    REQUIRE(errno == saved);
    b->p = NULL;
}

static void resize(struct fuzzer *f, struct block *b) {
    size_t size = below(f, 2) == 0 ? some_size(f) : b->size * 2 / 3 + below(f, 2 * b->size / 3 + 20);
    if (size == 0) size = 1;
    b->p = RESIZE(b->p, size);
    REQUIRE(b->p != NULL && (uintptr_t)b->p % 16 == 0);
    look(b, size < b->size ? size : b->size);
    b->size = size;
    b->color = (uint32_t)next(f);
    b->is_as_asked = true;
    paint(b);
}

static void hand_over(struct fuzzer *f, struct block *b) {
    size_t k = below(f, SHARED);
    pthread_mutex_lock(&shared[k].lock);
    struct block other = shared[k].block;
    shared[k].block = *b;
    pthread_mutex_unlock(&shared[k].lock);
    *b = other;
    if (b->p != NULL) look(b, b->size);
}

/* ---- what happens now and then ------------------------------------------------------------------------------------- */

static void run(struct fuzzer *f);

static void *run_thread(void *f) {
    run(f);
    free(f);
    return NULL;
}

static struct fuzzer *fuzzer_new(uint64_t random, long steps) {
    struct fuzzer *f = calloc(1, sizeof *f);
    REQUIRE(f != NULL);
    f->random = random | 1;
    f->steps = steps;
    return f;
}

static void in_thread(struct fuzzer *f, long steps) {
    struct fuzzer *other = fuzzer_new(next(f), steps);
    pthread_t thread;
    other->depth = f->depth + 1;
    other->is_alone = f->is_alone;
    REQUIRE(pthread_create(&thread, NULL, run_thread, other) == 0);
    pthread_join(thread, NULL);
}

static void child(struct fuzzer *f) {
    alarm(600);
    f->is_alone = true;
    for (int i = 0; i < OWN; i += 2)
        if (f->own[i].p != NULL) drop(f, &f->own[i]);
    in_thread(f, CHILD_STEPS);
    f->steps = CHILD_STEPS;
    run(f);
    _exit(0);
}

static void in_child(struct fuzzer *f) {
    int status = 0;
    if (!FORKS || f->is_alone) return;
    fflush(NULL);
    pid_t made = fork();
    if (made == 0) child(f);
    REQUIRE(made > 0);
    while (waitpid(made, &status, 0) < 0) REQUIRE(errno == EINTR);
    REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void many(struct fuzzer *f) {
    enum { MANY = 3000 };
    size_t count = 1 + below(f, MANY), size = 1 + below(f, 2000);
    struct block *all = GET(count * sizeof *all);
    REQUIRE(all != NULL);
    for (size_t i = 0; i < count; i++) {
        all[i] = (struct block){GET(size), size, (uint32_t)i, true};
        REQUIRE(all[i].p != NULL);
        paint(&all[i]);
    }
    for (size_t i = 0; i < count; i++) drop(f, &all[i]);
    FREE(all);
}

static void absurd(struct fuzzer *f) {
    static _Atomic size_t too_much = PTRDIFF_MAX; /* the compiler is not to know */
    size_t size = too_much + 1 + below(f, 1000);
    struct block *b = &f->own[below(f, OWN)];
    REQUIRE(GET(size) == NULL && GET_ZEROED(size / 3, 7) == NULL && GET_ALIGNED(4096, size) == NULL);
    if (b->p == NULL) return;
    REQUIRE(RESIZE(b->p, size) == NULL);
    look(b, b->size);
}

#if defined(FUZZ_MALLOC)
static void trim(void) { malloc_trim(0); }
static void count(void) { REQUIRE(mallinfo2().arena > 0); }
static void others(struct fuzzer *f) { (void)f; }
#else
static uint32_t checks;

static void trim(void) { weft_trim(); }

static int visit(const weft_heap_area *area, void *bytes) {
    *(size_t *)bytes += area->size;
    return 0;
}

static void count(void) {
    static _Thread_local char text[1 << 16];
    weft_heap_counts counts = {.struct_size = sizeof counts};
    size_t bytes = 0;
    REQUIRE(weft_heap_stats(&counts) == WEFT_OK && counts.heap_count > 0);
    REQUIRE(weft_heap_stats_json(text, sizeof text) > 0);
    REQUIRE(weft_heap_walk(visit, &bytes) == 0 && bytes > 0);
}

enum { PRIVATE = 100 };
static void *drop_some(void *blocks) {
    struct block *all = blocks;
    for (int i = 0; i < PRIVATE; i += 3) {
        look(&all[i], all[i].size);
        weft_free(all[i].p);
    }
    return NULL;
}

/* Of a heap's blocks another thread frees a third, its own a third, and a third ends with it. */
static void private_heap(struct fuzzer *f) {
    struct block all[PRIVATE];
    weft_arena *heap;
    pthread_t thread;
    REQUIRE(weft_arena_create(&heap) == WEFT_OK);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < PRIVATE; i++) {
            size_t size = some_size(f) % 400000;
            all[i] = (struct block){weft_arena_alloc(heap, size), size, (uint32_t)next(f), true};
            REQUIRE(all[i].p != NULL);
            paint(&all[i]);
        }
        REQUIRE(pthread_create(&thread, NULL, drop_some, all) == 0);
        for (int i = 1; i < PRIVATE; i += 3) {
            look(&all[i], all[i].size);
            REQUIRE(weft_arena_free(heap, all[i].p) == WEFT_OK);
        }
        pthread_join(thread, NULL);
        for (int i = 2; i < PRIVATE; i += 3) look(&all[i], all[i].size);
    }
    REQUIRE(weft_arena_destroy(&heap) == WEFT_OK && heap == NULL);
}

static void configure(struct fuzzer *f) {
    weft_heap_config config = {.struct_size = sizeof config, .checks = checks};
    config.remote = (uint32_t)below(f, 3);
    config.decay_ms = (int64_t)below(f, 5);
    config.pool_capacity = (int32_t)below(f, 5) - 1;
    config.pool_prefill = (int32_t)below(f, 3);
    config.purge_thread = below(f, 4) == 0;
    int error = weft_heap_configure(&config);
    REQUIRE(error == WEFT_OK || error == WEFT_EBUSY);
}

static void others(struct fuzzer *f) {
    if (below(f, 2) == 0)
        private_heap(f);
    else
        configure(f);
}
#endif

static void now_and_then(struct fuzzer *f) {
    switch (below(f, 12)) {
    case 0: trim(); break;
    case 1: in_child(f); break;
    case 2: count(); break;
    case 3:
    case 4:
    case 5:
        if (f->depth < 2) in_thread(f, (long)below(f, 2000));
        break;
    case 6: usleep((useconds_t)below(f, 10000)); break;
    case 7:
        for (int i = 0; i < OWN; i++)
            if (f->own[i].p != NULL) drop(f, &f->own[i]);
        break;
    case 8: many(f); break;
    case 9: absurd(f); break;
    default: others(f); break;
    }
}

/* ---- all ----------------------------------------------------------------------------------------------------------- */

static void step(struct fuzzer *f) {
    struct block *b = &f->own[below(f, OWN)];
    if (!f->is_alone && below(f, 10) == 0)
        hand_over(f, b);
    else if (b->p == NULL)
        make(f, b);
    else if (below(f, 3) == 0)
        resize(f, b);
    else
        drop(f, b);
    if (below(f, RARE) == 0) now_and_then(f);
}

static void run(struct fuzzer *f) {
    for (long i = 0; i < f->steps; i++) step(f);
    for (int i = 0; i < OWN; i++) {
        if (f->own[i].p != NULL && !f->is_alone && i % 3 == 0) hand_over(f, &f->own[i]);
        if (f->own[i].p != NULL) drop(f, &f->own[i]);
    }
}

static bool begin(const char *how) {
#if defined(FUZZ_MALLOC)
    require_server(how);
    return true;
#else
    static const char *const modes[] = {"plain", "checked", "secure"}; /* enum weft_heap_checks */
    while (checks < 3 && strcmp(how, modes[checks]) != 0) checks++;
    weft_heap_config config = {.struct_size = sizeof config, .checks = checks};
    return checks == 0 || weft_heap_configure(&config) == WEFT_OK;
#endif
}

int main(int argc, char **argv) {
    enum { THREADS_MAX = 64 };
    pthread_t threads[THREADS_MAX];
    if (argc != 5 || !begin(argv[4])) return 2;
    seed = strtoul(argv[1], NULL, 10);
    keeps_errno = strcmp(argv[4], "libc") != 0;
    long steps = strtol(argv[2], NULL, 10), count = strtol(argv[3], NULL, 10);
    if (count < 1 || count > THREADS_MAX) return 2;
    if (!FORKS) printf("skipped, forks: not with threads under a sanitizer or an emulator\n");
    for (int i = 0; i < SHARED; i++) pthread_mutex_init(&shared[i].lock, NULL);
    for (long i = 0; i < count; i++) {
        uint64_t random = (seed * 1000003 + (unsigned long)i * 7919 + 1) * UINT64_C(0x9e3779b97f4a7c15);
        REQUIRE(pthread_create(&threads[i], NULL, run_thread, fuzzer_new(random, steps)) == 0);
    }
    for (long i = 0; i < count; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < SHARED; i++)
        if (shared[i].block.p != NULL) look(&shared[i].block, shared[i].block.size), FREE(shared[i].block.p);
    printf("seed %lu: well\n", seed);
    return 0;
}
