/* kept.c: see kept.h.
 *
 * Who makes and frees a block over 2 MiB again and again, a frame, a matrix, would otherwise have the system clear each
 * of its pages each time. A shelf is one word: 0, or the mapping's address, how many slots it is long, and whether a turn
 * of decay has seen it there. Who changes a word to 0 owns the mapping. The bytes are counted before a mapping is put and
 * after it was taken, so they are never fewer than are kept; what would be too much is refused, or others go for it. In a
 * child of fork a mapping that another thread was putting may stay counted.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   F1  shelf_fill: CAS shelf   release  F2      the next user's writes meet the last one's; split: a mapping is lost
 *   F2  claim: CAS shelf        acquire  F1      see F1; split: two owners
 *   F3  kept_purge: CAS shelf   relaxed  F1      split: what was taken meanwhile is there again, and has two owners
 */
#include "kept.h"

#include "slab.h"

#ifndef KEPT_SHELVES
#define KEPT_SHELVES 16u
#endif
#define OLD UINT64_C(1)
#define LENGTH_BITS (64 - ADDRESS_BITS)

typedef ATOMIC(uint64_t) shelf;

static PROCESS_STATE struct {
    shelf shelves[KEPT_SHELVES];
    ATOMIC(size_t) bytes;
    ATOMIC(uint32_t) turn; /* where to look first for one to unmap */
} kept;

static uint64_t word_of(const char *start, size_t bytes) {
    return (uint64_t)(uintptr_t)start >> SLOT_SHIFT << LENGTH_BITS | (uint64_t)(bytes >> SLOT_SHIFT) << 1;
}
static char *start_of(uint64_t word) { return (char *)(uintptr_t)(word >> LENGTH_BITS << SLOT_SHIFT); }
static size_t bytes_of(uint64_t word) { return (size_t)((word & ((UINT64_C(1) << LENGTH_BITS) - 1)) >> 1) << SLOT_SHIFT; }

/* Whether the mapping is the caller's now. */
static bool claim(shelf *from, uint64_t word) {
    size_t bytes = bytes_of(word);
    if (word == 0 || !cas_acq(F2, from, &word, 0)) return false;
    add_rlx(&kept.bytes, -bytes);
    unpoison(start_of(word), bytes);
    return true;
}

/* The bytes unmapped; 0: another thread was faster. */
static size_t drop(shelf *from, uint64_t word) {
    if (!claim(from, word)) return 0;
    os_unmap(start_of(word), bytes_of(word));
    return bytes_of(word);
}

/* false: there is none. */
static bool drop_one(void) {
    uint32_t first = add_rlx(&kept.turn, 1);
    for (uint32_t i = 0; i < KEPT_SHELVES; i++) {
        shelf *from = &kept.shelves[(first + i) % KEPT_SHELVES];
        if (drop(from, load_rlx(from)) != 0) return true;
    }
    return false;
}

static bool reserve(size_t bytes, size_t most) {
    if (bytes > most) return false;
    while (add_rlx(&kept.bytes, bytes) + bytes > most) {
        add_rlx(&kept.bytes, -bytes);
        if (!drop_one()) return false;
    }
    return true;
}

static bool shelf_fill(uint64_t word) {
    for (uint32_t i = 0; i < KEPT_SHELVES; i++) {
        uint64_t found = load_rlx(&kept.shelves[i]);
        if (found == 0 && cas_rel(F1, &kept.shelves[i], &found, word)) return true;
    }
    return false;
}

bool kept_put(char *start, size_t bytes, size_t most) {
    if (!reserve(bytes, most)) return false;
    poison(start, bytes);
    while (!shelf_fill(word_of(start, bytes))) drop_one();
    purge_poke();
    return true;
}

char *kept_take(size_t wanted, size_t *bytes) {
    for (;;) {
        shelf *best = NULL;
        uint64_t word = 0;
        for (uint32_t i = 0; i < KEPT_SHELVES; i++) {
            uint64_t found = load_rlx(&kept.shelves[i]);
            if (!kept_fits(bytes_of(found), wanted) || (word != 0 && bytes_of(found) >= bytes_of(word))) continue;
            best = &kept.shelves[i];
            word = found;
        }
        if (best == NULL) return NULL;
        if (!claim(best, word)) continue;
        *bytes = bytes_of(word);
        return start_of(word);
    }
}

size_t kept_purge(bool all) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < KEPT_SHELVES; i++) {
        uint64_t word = load_rlx(&kept.shelves[i]);
        if (all || (word & OLD) != 0)
            bytes += drop(&kept.shelves[i], word);
        else if (word != 0)
            cas_rlx(F3, &kept.shelves[i], &word, word | OLD);
    }
    return bytes;
}

size_t kept_bytes(void) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < KEPT_SHELVES; i++) bytes += bytes_of(load_rlx(&kept.shelves[i]));
    return bytes;
}

/* What is unmapped meanwhile counts as not in memory. */
size_t kept_resident(void) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < KEPT_SHELVES; i++) {
        uint64_t word = load_rlx(&kept.shelves[i]);
        if (word != 0) bytes += os_resident(start_of(word), bytes_of(word));
    }
    return bytes;
}
