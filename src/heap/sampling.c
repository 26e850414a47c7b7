/* sampling.c: which allocations are samples. Layer 2.
 *
 * Each allocation of a class is a sample with the same chance, 1 - exp(-bytes / interval). It is as if random points, an
 * interval apart on average, lay on the bytes that a program asks for, and blocks that contain a point were sampled. Each
 * sample then stands for 1 / chance allocations, and neither the order of allocations nor their sizes bias the sum.
 *
 * The fast paths do not know of it. The number of allocations of a class until the next sample is drawn in advance. How many
 * there have been is known at any moment from counts that a heap keeps anyway (heap_allocs). So the heap only has to look at
 * the class before that many can have come. Two things bring a thread here:
 *
 *   the cache is empty    A place of the cache is made NULL, so that it looks empty earlier: the veil. Every slow path that
 *                         reads the cache first puts back what the veil hides.
 *   some frees            are counted, as in heap_watch.c, but possibly fewer.
 *
 * If v blocks are above the veil and the c-th free from now comes here, at most v + c - 1 allocations are unseen. While
 * `left` allocations remain before the sample, v + c <= left + 1 is kept: so the allocation that is due finds an empty
 * cache. v and c each get half of what is left, so before each sample the looks come closer and closer. While the cache and
 * the frees to count are small compared with what is left, nothing is done at all.
 *
 * The free of a sample must be noticed. A sample of a class is a block of a private heap, whose frees take the slow path
 * anyway. A sample over MEDIUM_MAX has a slot of the kind KIND_RUN or a mapping of its own: neither is cached.
 *
 * Each thread has its own state. The words below are shared; they are set before threads look at them, or need not be seen
 * at once. */
#include <string.h>

#include "heap/hooks.h"
#include "heap/sampling.h"

#define FAR (UINT64_C(1) << 40) /* allocations */

struct veil {
    void **place; /* NULL: none */
    void *block;  /* what stood at the place */
};

/* A heap's state for sampling. */
struct samples {
    uint64_t interval;    /* for which the fields below were drawn; 0: nothing was drawn */
    uint64_t random;      /* the state of the generator */
    uint64_t large_left;  /* bytes of uncached blocks until one contains the next point */
    uint64_t due[CACHED]; /* heap_allocs of the class when the next allocation is a sample */
    struct veil veils[CACHED];
};

static PROCESS_STATE struct {
    ATOMIC(uint64_t) interval; /* bytes; 0: no samples */
    ATOMIC(uint64_t) seed;
    ATOMIC(uint64_t) heaps; /* how many have drawn, so that each draws other numbers */
    ATOMIC(const void *) arena;
} sampling;

/* ---- chance ------------------------------------------------------------------------------------------------------- */

/* 64 random bits: SplitMix64. */
static uint64_t random_next(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* -ln(n / 2^53), 0 < n < 2^53, by the series of atanh, exact to the last bit or two. log() would need another library,
 * libm. */
static double minus_ln(uint64_t n) {
    const double ln2 = 0.693147180559945309417, root2 = 1.41421356237309504880;
    int exponent = 63 - __builtin_clzll(n);
    double part = (double)n / (double)(UINT64_C(1) << exponent), sum = 0;
    if (part > root2) {
        part /= 2;
        exponent++;
    }
    double z = (part - 1) / (part + 1), power = z;
    for (int i = 1; i < 20; i += 2) {
        sum += power / i;
        power *= z * z;
    }
    return (53 - exponent) * ln2 - 2 * sum;
}

/* The distance to the next point, in units of which `interval` contain one point on average. */
static uint64_t draw(struct samples *samples, double interval) {
    double distance = minus_ln(random_next(&samples->random) >> 11 | 1) * interval;
    return distance < (double)FAR ? (uint64_t)distance : FAR;
}

/* 1 - exp(-x) by its series for a small part of x, then doubled: 1 - (1 - q)^2 = q (2 - q). */
double sampling_chance(uint64_t bytes, uint64_t interval_bytes) {
    double x = (double)bytes / (double)interval_bytes;
    if (x > 40) return 1;
    int doublings = 0;
    for (; x > 0.0625; doublings++) x /= 2;
    double q = x * (1 - x / 2 * (1 - x / 3 * (1 - x / 4 * (1 - x / 5 * (1 - x / 6 * (1 - x / 7))))));
    for (; doublings > 0; doublings--) q *= 2 - q;
    return q;
}

static void draw_class(const struct heap *heap, struct samples *samples, unsigned kind) {
    samples->due[kind] = heap_allocs(heap, kind) + draw(samples, (double)samples->interval / class_info[kind].size);
}

/* ---- the veil ----------------------------------------------------------------------------------------------------- */

static void lift(struct samples *samples, unsigned kind) {
    struct veil *veil = &samples->veils[kind];
    if (veil->place == NULL) return;
    *veil->place = veil->block;
    veil->place = NULL;
}

/* Lowers the veil and counts frees as the head of this file says. */
static void lower(struct heap *heap, struct samples *samples, unsigned kind) {
    if (samples->interval == 0) return;
    uint64_t allocs = heap_allocs(heap, kind), due = samples->due[kind], left = due > allocs ? due - allocs : 0;
    uint64_t depth = cache_count(heap, kind), counted = heap_until_counted(heap, kind);
    if (depth + counted <= left + 1) return;
    counted = min_u64(counted, max_u64(1, (left + 1) / 2));
    heap_count_from(heap, kind, (uint32_t)counted);
    uint64_t visible = left + 1 - counted;
    if (visible >= depth) return;
    void **place = load_rlx(&heap->top[kind]) - visible;
    samples->veils[kind] = (struct veil){place, *place};
    *place = NULL;
}

/* Draws anew, because the interval has changed. */
static NOINLINE void draw_all(struct heap *heap, struct samples *samples, uint64_t interval) {
    if (samples->random == 0)
        samples->random = load_rlx(&sampling.seed) + add_rlx(&sampling.heaps, 1) * UINT64_C(0xd1342543de82ef95);
    samples->interval = interval;
    for (unsigned i = 0; i < CACHED; i++) {
        lift(samples, i);
        if (interval == 0) continue;
        draw_class(heap, samples, i);
        lower(heap, samples, i);
    }
    if (interval != 0) samples->large_left = draw(samples, (double)interval);
}

/* The heap's state, up to date. NULL: there is no memory for it, or the heap is private. */
static struct samples *samples_of(struct heap *heap) {
    if (heap->samples == NULL) {
        if (load_rlx(&heap->privacy) != PRIVACY_NONE) return NULL;
        heap->samples = load_rlx(&heaps.sampler)->memory(sizeof *heap->samples);
    }
    struct samples *samples = heap->samples;
    uint64_t interval = load_rlx(&sampling.interval);
    if (samples != NULL && UNLIKELY(samples->interval != interval)) draw_all(heap, samples, interval);
    return samples;
}

void sampling_lift(struct heap *heap, unsigned kind) {
    if (kind < CACHED && heap->samples != NULL) lift(heap->samples, kind);
}

void sampling_lower(struct heap *heap, unsigned kind) {
    struct samples *samples = samples_of(heap);
    if (samples == NULL) return;
    lift(samples, kind);
    lower(heap, samples, kind);
}

/* ---- allocating --------------------------------------------------------------------------------------------------- */

/* Allocates a sample. NULL: no memory. */
static void *take_sample(unsigned kind, size_t size, bool *zeroed) {
    if (kind < CLASSES) return load_rlx(&heaps.sampler)->take(size);
    void *p = heap_hooks.large_alloc(size, BLOCK_MIN, zeroed);
    if (p != NULL && kind_of(p) < CACHED) slot_kind_set(segment_of(p), slot_of(p), KIND_RUN);
    return p;
}

/* Allocates a block that is no sample. */
static void *take_other(struct heap *heap, struct samples *samples, unsigned kind, size_t size, bool *zeroed) {
    if (kind < CLASSES) return heap_alloc_refilled(heap, kind);
    void *p = cache_pop(heap, kind);
    if (p != NULL) return p;
    p = heap_hooks.large_alloc(size, BLOCK_MIN, zeroed);
    if (p != NULL && samples != NULL) samples->due[kind]--; /* heap_allocs counts what the cache serves */
    return p;
}

static void *alloc_cached(struct heap *heap, size_t size, bool *zeroed, const void *from) {
    unsigned kind = size > MEDIUM_MAX ? kind_of_run(size) : class_of(size);
    struct samples *samples = samples_of(heap);
    if (samples != NULL) lift(samples, kind);
    bool is_due = samples != NULL && samples->interval != 0 && heap_allocs(heap, kind) >= samples->due[kind];
    ASSERT(!is_due || heap_allocs(heap, kind) == samples->due[kind]); /* no allocation came unseen */
    void *p = is_due ? take_sample(kind, size, zeroed) : NULL;
    if (is_due) draw_class(heap, samples, kind); /* before `begin`, which may call what allocates */
    if (p != NULL) {
        load_rlx(&heaps.sampler)->begin(p, size, sampling_chance(class_info[kind].size, samples->interval), from);
    } else {
        if (is_due) samples->due[kind]++; /* there was no memory for the sample, so this allocation is none */
        p = take_other(heap, samples, kind, size, zeroed);
    }
    if (samples != NULL) lower(heap, samples, kind);
    return p;
}

void *sampling_alloc(size_t size, bool *zeroed, const void *from) {
    if (size > RUN_CACHED_MAX) return heap_hooks.large_alloc(size, BLOCK_MIN, zeroed);
    bool is_lent;
    struct heap *heap = heap_borrow(&is_lent);
    void *p = heap == NULL ? NULL : alloc_cached(heap, size, zeroed, from);
    heap_return(is_lent);
    if (p != NULL) handed_out(p, size);
    return p;
}

/* For kinds that are cached, alloc_cached decides. */
void sampling_large(void *p, size_t size, const void *from) {
    bool is_lent;
    struct heap *heap = kind_of(p) < CACHED ? NULL : heap_borrow(&is_lent);
    if (heap == NULL) return;
    struct samples *samples = samples_of(heap);
    if (samples != NULL && samples->interval != 0) {
        bool is_sample = size > samples->large_left;
        samples->large_left -= min_u64(size, samples->large_left);
        if (is_sample) {
            samples->large_left = draw(samples, (double)samples->interval);
            load_rlx(&heaps.sampler)->begin(p, size, sampling_chance(size, samples->interval), from);
        }
    }
    heap_return(is_lent);
}

/* ---- what becomes of samples -------------------------------------------------------------------------------------- */

bool sampling_has(const struct slab *slab) {
    const void *arena = load_rlx(&sampling.arena);
    return arena != NULL && slab_owner(slab) == arena;
}

void sampling_free(void *p) {
    unpoison(p, class_info[load_rlx(&slab_of(p)->private_kind)].size); /* its private heap takes it back as any block */
    load_rlx(&heaps.sampler)->put(p);
}

void sampling_end(const void *p) { load_rlx(&heaps.sampler)->end(p); }

void sampling_resize(const void *p, size_t size) { load_rlx(&heaps.sampler)->resize(p, size); }

/* ---- the sampler -------------------------------------------------------------------------------------------------- */

bool sampling_set(const struct sampler *sampler, uint64_t interval_bytes, uint64_t seed) {
    if (mode_checks()) return false;
    store_rlx(&sampling.seed, seed);
    store_rlx(&sampling.interval, interval_bytes);
    store_rlx(&heaps.sampler, sampler);
    return true;
}

void sampling_arena_set(const void *arena) { store_rlx(&sampling.arena, arena); }

bool sampling_is_set(void) { return load_rlx(&heaps.sampler) != NULL; }
