/* sort.c: a stable merge sort.
 *
 * The items are cut into pieces of equal length; the number of pieces is a power of two. A loop sorts each piece by itself.
 * Then one loop per level merges neighbours, from the items to a second array and back. A level is cut into chunks of its
 * output, whose places in both inputs are found by bisection (merge path: S. Odeh, O. Green, Z. Mwassi, O. Shmueli, Y. Birk,
 * "Merge path - parallel merging made simple", IPDPSW 2012, doi:10.1109/IPDPSW.2012.202). The cuts depend only on the number
 * of items.
 *
 * A merge selects its source without a branch, because no predictor knows which of two random items is less. It goes from
 * both ends at once: in each chain, a comparison waits for the one before, and the two chains hide each other's latency (the
 * parity merge of I. van den Hoven's quadsort, here for inputs of any lengths). For as many steps from each end as the
 * shorter input has items, no check of the inputs' ends is needed.
 *
 * A piece that is in order already is left as it is, one in which each item is less than the one before is reversed. If the
 * sorted pieces follow each other in order, nothing is merged.
 *
 * Items of more than ITEM_BYTES are not merged themselves. Pointers to them are sorted, and then each item moves once, along
 * the cycles of the permutation, in place.
 *
 * Every function that moves items takes their size as an argument and is inlined where that is a constant
 * (SORT_FOR_SIZE). */

#include "patterns/patterns.h"

#include <string.h>

#define LOOK_ITEMS 8u /* in a run; shorter runs are too often in order by chance for a branch */
#ifndef PIECE_ITEMS_MIN
#define PIECE_ITEMS_MIN 512u
#define CHUNK_ITEMS 16384u
#endif
#define PIECE_ITEMS 8192u /* at most */
#define PIECES_WANTED 8u  /* if pieces then still have PIECE_ITEMS_MIN items */
#define ITEM_BYTES 384u   /* larger items move once: they are sorted by pointers */
#define SMALL_BYTES 2048u /* a second array this small needs no allocation, nor does an array of pointers */

struct sort {
    const weft_order *order;
    unsigned char *items;
    unsigned char *other; /* as many bytes */
    size_t count;
    unsigned levels; /* 1 << levels pieces */
    unsigned level;  /* being merged: it makes runs of 1 << (level + 1) pieces */
    unsigned char *from;
    unsigned char *to; /* where the pieces, or the level's output, go */
    uint8_t *done;     /* for each piece: DONE once it is sorted and in `to` */
};
enum { DONE = 1, DONE_BOTH }; /* DONE_BOTH: and in `items` too, where it was in order before */

INLINE bool is_greater(const weft_order *order, const void *left, const void *right) {
    return order->compare(left, right, order->context) > 0;
}

/* Two sorted inputs, [at, end) each. */
struct inputs {
    const unsigned char *left;
    const unsigned char *left_end;
    const unsigned char *right;
    const unsigned char *right_end;
};

struct output {
    unsigned char *begin;
    unsigned char *end;
};

/* Selects one of two items; the arithmetic keeps compilers from making this a branch. */
INLINE const unsigned char *choose(const unsigned char *item, const unsigned char *other, uintptr_t takes_other) {
    return item + (ptrdiff_t)((uintptr_t)(other - item) & takes_other);
}
INLINE uintptr_t greater_mask(const weft_order *order, const void *left, const void *right) {
    return -(uintptr_t)is_greater(order, left, right);
}

/* Writes the first and the last `bytes` of the output. Neither input is shorter. Each end is finished before the other end's
 * call: what lives across a call then fits in preserved registers; a place in memory would lengthen the end's chain. */
INLINE void merge_ends(const weft_order *order, struct inputs *in, struct output *out, size_t bytes, size_t size) {
    struct inputs now = *in;
    for (size_t at = 0; at < bytes; at += size) {
        uintptr_t takes_right = greater_mask(order, now.left, now.right);
        memcpy(out->begin + at, choose(now.left, now.right, takes_right), size);
        now.right += size & takes_right;
        now.left += size & ~takes_right;
        uintptr_t takes_left = greater_mask(order, now.left_end - size, now.right_end - size);
        memcpy(out->end - size - at, choose(now.right_end - size, now.left_end - size, takes_left), size);
        now.left_end -= size & takes_left;
        now.right_end -= size & ~takes_left;
    }
    *in = now;
    out->begin += bytes;
    out->end -= bytes;
}

/* Fills the output, which is as long as both inputs together. With an inconsistent order, the two ends may cross in one
 * input: its length is then negative, and the other input is longer than the output. */
INLINE void merge(const weft_order *order, struct inputs in, struct output out, size_t size) {
    for (;;) {
        ptrdiff_t left = in.left_end - in.left;
        ptrdiff_t right = in.right_end - in.right;
        if (left <= 0 || right <= 0) break;
        merge_ends(order, &in, &out, (size_t)(left < right ? left : right), size);
    }
    const unsigned char *rest = in.left < in.left_end ? in.left : in.right;
    memcpy(out.begin, rest, (size_t)(out.end - out.begin));
}

struct pass {
    const unsigned char *from;
    unsigned char *to;
    size_t bytes;
    size_t width; /* bytes of a run in `from` */
};

/* Makes runs of two items. */
INLINE void pairs_run(const weft_order *order, struct pass pass, size_t size) {
    size_t at = 0;
    for (; at + 2 * size <= pass.bytes; at += 2 * size) {
        const unsigned char *left = pass.from + at;
        uintptr_t swaps = greater_mask(order, left, left + size);
        memcpy(pass.to + at, choose(left, left + size, swaps), size);
        memcpy(pass.to + at + size, choose(left + size, left, swaps), size);
    }
    memcpy(pass.to + at, pass.from + at, pass.bytes - at);
}

/* Merges the runs two at a time. */
INLINE void pass_run(const weft_order *order, struct pass pass, size_t size) {
    bool looks = pass.width >= LOOK_ITEMS * size;
    for (size_t at = 0; at < pass.bytes; at += 2 * pass.width) {
        size_t mid = (size_t)min_u64(at + pass.width, pass.bytes);
        size_t end = (size_t)min_u64(at + 2 * pass.width, pass.bytes);
        if (mid == end || (looks && !is_greater(order, pass.from + mid - size, pass.from + mid))) {
            memcpy(pass.to + at, pass.from + at, end - at);
            continue;
        }
        const struct inputs in = {pass.from + at, pass.from + mid, pass.from + mid, pass.from + end};
        merge(order, in, (struct output){pass.to + at, pass.to + end}, size);
    }
}

/* Is each of the items greater than the next (`falls`), or none? */
static bool is_run(const weft_order *order, const unsigned char *items, size_t bytes, bool falls) {
    for (size_t at = order->size; at < bytes; at += order->size)
        if (is_greater(order, items + at - order->size, items + at) != falls) return false;
    return true;
}

/* If the items are one run, leaves it in sort->to; else returns 0. */
static NOINLINE uint8_t piece_run(const struct sort *sort, size_t begin, size_t bytes) {
    size_t size = sort->order->size;
    unsigned char *here = sort->items + begin * size;
    unsigned char *there = sort->other + begin * size;
    if (is_run(sort->order, here, bytes, false)) {
        if (sort->to != sort->items) memcpy(there, here, bytes);
        return DONE_BOTH;
    }
    if (!is_run(sort->order, here, bytes, true)) return 0;
    for (size_t at = 0; at < bytes; at += size) memcpy(there + bytes - size - at, here + at, size);
    if (sort->to == sort->items) memcpy(here, there, bytes);
    return DONE;
}

/* Sorts the items from begin to before end, and leaves them in sort->to. */
INLINE void piece_sort(const struct sort *sort, size_t begin, size_t end, size_t size) {
    size_t bytes = (end - begin) * size;
    unsigned char *here = sort->items + begin * size;
    unsigned char *there = sort->other + begin * size;
    bool is_here = sort->to == sort->items; /* where this pass reads */
    for (size_t width = size; width < bytes; width *= 2) is_here = !is_here;
    if (!is_here) memcpy(there, here, bytes);
    struct pass pass = {is_here ? here : there, is_here ? there : here, bytes, size};
    for (; pass.width < bytes; pass.width *= 2) {
        if (pass.width == size)
            pairs_run(sort->order, pass, size);
        else
            pass_run(sort->order, pass, size);
        pass.from = pass.to;
        pass.to = pass.from == here ? there : here;
    }
}

/* How many of the first `taken` items of both sorted inputs come from the left one. */
INLINE size_t split(const weft_order *order, struct inputs in, size_t taken, size_t size) {
    size_t left = (size_t)(in.left_end - in.left) / size;
    size_t right = (size_t)(in.right_end - in.right) / size;
    size_t low = taken > right ? taken - right : 0;
    size_t high = (size_t)min_u64(taken, left);
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (is_greater(order, in.left + mid * size, in.right + (taken - mid - 1) * size))
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

/* Where piece `index` begins. */
static size_t piece_begin(const struct sort *sort, size_t index) {
    size_t pieces = (size_t)1 << sort->levels;
    return sort->count / pieces * index + (size_t)min_u64(sort->count % pieces, index);
}

/* Neither input is empty, and all of one come before the other's: copies them. */
static NOINLINE bool merge_apart(const weft_order *order, struct inputs in, struct output out) {
    size_t size = order->size;
    ptrdiff_t left = in.left_end - in.left;
    ptrdiff_t right = in.right_end - in.right;
    if (left <= 0 || right <= 0) return false;
    bool is_first = !is_greater(order, in.left_end - size, in.right);
    if (!is_first && !is_greater(order, in.left, in.right_end - size)) return false;
    memcpy(is_first ? out.begin : out.end - left, in.left, (size_t)left);
    memcpy(is_first ? out.end - right : out.begin, in.right, (size_t)right);
    return true;
}

/* Writes the items from begin to before end of the level's output. */
INLINE void chunk_merge(const struct sort *sort, size_t begin, size_t end, size_t size) {
    size_t step = (size_t)1 << sort->level;
    size_t pieces = (size_t)1 << sort->levels;
    for (size_t piece = 0; piece < pieces; piece += 2 * step) {
        size_t low = piece_begin(sort, piece);
        size_t mid = piece_begin(sort, piece + step);
        size_t high = piece_begin(sort, piece + 2 * step);
        if (high <= begin) continue;
        if (low >= end) break;
        size_t first = low > begin ? 0 : begin - low;
        size_t last = (size_t)min_u64(end, high) - low;
        struct inputs in = {sort->from + low * size, sort->from + mid * size, sort->from + mid * size,
                            sort->from + high * size};
        size_t left = split(sort->order, in, first, size);
        size_t left_end = split(sort->order, in, last, size);
        in = (struct inputs){in.left + left * size, in.left + left_end * size, in.right + (first - left) * size,
                             in.right + (last - left_end) * size};
        unsigned char *out = sort->to + low * size;
        struct output chunk = {out + first * size, out + last * size};
        if (!merge_apart(sort->order, in, chunk)) merge(sort->order, in, chunk, size);
    }
}

/* Calls `function` with a size that the compiler knows. */
#define SORT_FOR_SIZE(function, sort, begin, end)                                                                           \
    do {                                                                                                                    \
        switch ((sort)->order->size) {                                                                                      \
        case 4: function(sort, begin, end, 4); break;                                                                       \
        case 8: function(sort, begin, end, 8); break;                                                                       \
        case 16: function(sort, begin, end, 16); break;                                                                     \
        default: function(sort, begin, end, (sort)->order->size); break;                                                    \
        }                                                                                                                   \
    } while (0)

static int pieces_body(size_t begin, size_t end, void *context, weft_worker *self) {
    const struct sort *sort = context;
    (void)self;
    for (size_t i = begin; i < end; i++) {
        size_t first = piece_begin(sort, i);
        size_t last = piece_begin(sort, i + 1);
        uint8_t done = piece_run(sort, first, (last - first) * sort->order->size);
        if (done == 0) SORT_FOR_SIZE(piece_sort, sort, first, last);
        sort->done[i] = done == 0 ? DONE : done;
    }
    return 0;
}

static int chunks_body(size_t begin, size_t end, void *context, weft_worker *self) {
    const struct sort *sort = context;
    (void)self;
    for (size_t i = begin; i < end; i++) {
        size_t first = i * CHUNK_ITEMS;
        SORT_FOR_SIZE(chunk_merge, sort, first, (size_t)min_u64(first + CHUNK_ITEMS, sort->count));
    }
    return 0;
}

/* Moves the pieces that were sorted elsewhere to the items. */
static void pieces_restore(const struct sort *sort) {
    size_t size = sort->order->size;
    for (size_t i = 0; i < (size_t)1 << sort->levels && sort->to != sort->items; i++) {
        size_t begin = piece_begin(sort, i) * size;
        if (sort->done[i] == DONE) memcpy(sort->items + begin, sort->other + begin, piece_begin(sort, i + 1) * size - begin);
    }
}

/* Does each sorted piece begin where the one before has ended? */
static bool pieces_follow(const struct sort *sort) {
    size_t size = sort->order->size;
    for (size_t i = 1; i < (size_t)1 << sort->levels; i++) {
        const unsigned char *next = sort->to + piece_begin(sort, i) * size;
        if (is_greater(sort->order, next - size, next)) return false;
    }
    return true;
}

static int sort_run(weft_pool *pool, struct sort *sort) {
    size_t pieces = (size_t)1 << sort->levels;
    sort->to = sort->levels % 2 == 0 ? sort->items : sort->other;
    int error = weft_for(pool, (weft_range){0, pieces, 1}, pieces_body, sort);
    if (error != WEFT_OK) {
        pieces_restore(sort);
        return error;
    }
    if (pieces_follow(sort)) {
        pieces_restore(sort);
        return WEFT_OK;
    }
    size_t chunks = sort->count / CHUNK_ITEMS + (sort->count % CHUNK_ITEMS != 0);
    for (sort->level = 0; sort->level < sort->levels; sort->level++) {
        sort->from = sort->to;
        sort->to = sort->from == sort->items ? sort->other : sort->items;
        error = weft_for(pool, (weft_range){0, chunks, 1}, chunks_body, sort);
        if (error == WEFT_ENOMEM) error = chunks_body(0, chunks, sort, NULL); /* none to hand the loop over */
        if (error == WEFT_OK) continue;
        if (sort->from == sort->other) memcpy(sort->items, sort->other, sort->count * sort->order->size);
        return error;
    }
    return WEFT_OK;
}

static unsigned choose_levels(size_t count) {
    unsigned levels = 0;
    while (count >> levels > PIECE_ITEMS ||
           ((size_t)1 << levels < PIECES_WANTED && count >> (levels + 1) >= PIECE_ITEMS_MIN))
        levels++;
    return levels;
}

static int sort_with_memory(weft_pool *pool, void *items, size_t count, const weft_order *order) {
    unsigned char small[SMALL_BYTES] ALIGNED(CACHE_LINE);
    struct sort sort = {.order = order, .items = items, .count = count, .levels = choose_levels(count)};
    size_t bytes = count * order->size + ((size_t)1 << sort.levels);
    unsigned char *memory = bytes <= sizeof small ? small : os_alloc(bytes);
    if (memory == NULL) return WEFT_ENOMEM;
    sort.other = memory;
    sort.done = memory + count * order->size;
    memset(sort.done, 0, (size_t)1 << sort.levels);
    int error = sort_run(pool, &sort);
    if (memory != small) os_free(memory);
    return error;
}

/* ---- by pointers -------------------------------------------------------------------------------------------------- */

static int compare_pointed(const void *left, const void *right, void *context) {
    const weft_order *order = context;
    return order->compare(*(void *const *)left, *(void *const *)right, order->context);
}

/* Moves the item at wanted[i] to place i, and what lay there on to the place that wants it, until the cycle is closed. A place
 * that has its item wants itself from then on. If several places want one item, because the order contradicts itself, all but
 * one get another. */
static void cycle_move(unsigned char *items, unsigned char **wanted, size_t i, size_t size, unsigned char *spare) {
    unsigned char *to = items + i * size;
    memcpy(spare, to, size);
    for (;;) {
        unsigned char *from = wanted[i];
        wanted[i] = to;
        i = (size_t)(from - items) / size;
        if (wanted[i] == from) break;
        memcpy(to, from, size);
        to = from;
    }
    memcpy(to, spare, size);
}

static int sort_by_pointers(weft_pool *pool, void *items, size_t count, const weft_order *order) {
    unsigned char *small[SMALL_BYTES / sizeof(unsigned char *)];
    size_t bytes = count * sizeof *small + order->size;
    unsigned char **pointers = bytes <= sizeof small ? small : os_alloc(bytes);
    if (pointers == NULL) return WEFT_ENOMEM;
    for (size_t i = 0; i < count; i++) pointers[i] = (unsigned char *)items + i * order->size;
    weft_order copy = *order;
    const weft_order pointed = {sizeof *pointers, compare_pointed, &copy};
    int error = sort_with_memory(pool, pointers, count, &pointed);
    for (size_t i = 0; i < count && error == WEFT_OK; i++)
        if (pointers[i] != (unsigned char *)items + i * order->size)
            cycle_move(items, pointers, i, order->size, (unsigned char *)(pointers + count));
    if (pointers != small) os_free(pointers);
    return error;
}

int weft_sort(weft_pool *pool, void *items, size_t count, const weft_order *order) {
    if (pool == NULL || order == NULL || order->compare == NULL || order->size == 0) return WEFT_EINVAL;
    if ((items == NULL && count > 0) || count > PTRDIFF_MAX / 2 / order->size) return WEFT_EINVAL;
    int error = WEFT_OK;
    struct weft_worker *seat = seat_find(pool, &error);
    if (seat == NULL) return error;
    if (count < 2) return WEFT_OK;
    guest_enter(seat);
    error = (order->size > ITEM_BYTES ? sort_by_pointers : sort_with_memory)(pool, items, count, order);
    guest_leave(seat);
    return error;
}
