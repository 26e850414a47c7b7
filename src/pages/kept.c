/* kept.c: see kept.h.
 *
 * Without this cache, a program that allocates and frees blocks over 3.9 MiB (frames, matrices) would have the system clear all of
 * their pages each time.
 *
 * The cache holds ranges of address space. A shelf is one word: 0, or a range's address, its length in slots, and whether a turn of
 * decay has seen it there. The thread that changes the word to 0 owns the range; no thread touches a range on a shelf.
 *
 *   put     the range is merged with its neighbours, which leave their shelves, and is put on an empty shelf
 *   take    the smallest range that is long enough leaves its shelf; the rest of it is put on an empty one
 *   gather  if none is long enough, the largest grows, or the pages of several move into a new range
 *   give    a range leaves its shelf; its end is unmapped, and the rest is put on an empty shelf
 *
 * A process may have only so many mappings (vm.max_map_count, 65,530). At that limit the system does not unmap what lies in the
 * middle of a mapping; it takes the pages alone. Such a range becomes a stray, on a shelf behind the others, where put, take and
 * purge find it too. Strays have no pages, so they are not counted, and `gather` leaves them out. The shelves of strays are looked
 * at only while there are any.
 *
 * Two neighbours that are put at the same time may miss each other; they stay separate until one is taken. If no shelf is empty, a
 * range is unmapped to empty one. Bytes are added to the count before a range is put and subtracted after it was taken, so the count
 * is never less than what is kept. A range that would exceed the limit is refused, or others are unmapped for it. In a child of fork,
 * a range that another thread owned at that moment belongs to nobody, and may stay counted.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   F1  shelf_fill: CAS shelf   release  F2      the next user's writes meet the last one's; split: a range is lost
 *   F2  claim: CAS shelf        acquire  F1      see F1; split: two owners
 *   F3  kept_purge: CAS shelf   relaxed  F1      split: a range taken meanwhile is on the shelf again, and has two owners
 *   F4  stray: CAS strays_end   relaxed  -       split: a stray that nobody finds
 */
#include "pages/kept.h"

#include "pages/heads.h"
#include "pages/poke.h"

#ifndef KEPT_SHELVES
#define KEPT_SHELVES 64u
#endif
#ifndef KEPT_STRAYS
#define KEPT_STRAYS 65536u /* as many as there are mappings that they can lie between */
#endif
#define OLD UINT64_C(1)
#define LENGTH_BITS (64 - ADDRESS_BITS)

typedef ATOMIC(uint64_t) shelf;

static PROCESS_STATE struct {
    shelf shelves[KEPT_SHELVES + KEPT_STRAYS];
    ATOMIC(size_t) bytes;
    ATOMIC(uint32_t) strays, strays_end; /* how many there are or are about to be; behind the last shelf that had one */
    ATOMIC(uint32_t) turn;               /* where the next search for a range to unmap begins */
} kept;

static uint64_t word_of(const char *start, size_t bytes) {
    return (uint64_t)(uintptr_t)start >> SLOT_SHIFT << LENGTH_BITS | (uint64_t)(bytes >> SLOT_SHIFT) << 1;
}
static char *start_of(uint64_t word) { return (char *)(uintptr_t)(word >> LENGTH_BITS << SLOT_SHIFT); }
static size_t bytes_of(uint64_t word) { return (size_t)((word & ((UINT64_C(1) << LENGTH_BITS) - 1)) >> 1) << SLOT_SHIFT; }

static uint32_t shelves_used(void) {
    return LIKELY(load_rlx(&kept.strays) == 0) ? KEPT_SHELVES : KEPT_SHELVES + load_rlx(&kept.strays_end);
}
static bool is_stray(const shelf *at) { return at >= &kept.shelves[KEPT_SHELVES]; }

/* Takes the range off its shelf. Returns whether it is the caller's now. */
static bool claim(shelf *from, uint64_t word) {
    size_t bytes = bytes_of(word);
    if (word == 0 || !cas_acq(F2, from, &word, 0)) return false;
    if (is_stray(from))
        add_rlx(&kept.strays, (uint32_t)-1);
    else
        add_rlx(&kept.bytes, -bytes);
    unpoison(start_of(word), bytes);
    return true;
}

/* Fills one of the shelves from `first` on. Returns which; `end`: all are full. */
static uint32_t shelf_fill(uint64_t word, uint32_t first, uint32_t end) {
    for (; first < end; first++) {
        uint64_t found = load_rlx(&kept.shelves[first]);
        if (found == 0 && cas_rel(F1, &kept.shelves[first], &found, word)) break;
    }
    return first;
}

/* Merges the range with its neighbours on the shelves from there on. Their bytes are no longer counted. */
static void join(char **start, size_t *bytes, uint32_t first) {
    for (uint32_t i = first; i < shelves_used(); i++) {
        uint64_t word = load_rlx(&kept.shelves[i]);
        bool is_before = start_of(word) + bytes_of(word) == *start, is_behind = *start + *bytes == start_of(word);
        if (word == 0 || (!is_before && !is_behind) || !claim(&kept.shelves[i], word)) continue;
        if (is_before) *start = start_of(word);
        *bytes += bytes_of(word);
    }
}

/* Makes a range of the caller's, of which nothing is in memory, a stray. */
static void stray(const char *start, size_t bytes) {
    poison(start, bytes);
    add_rlx(&kept.strays, 1);
    uint32_t end = shelf_fill(word_of(start, bytes), KEPT_SHELVES, KEPT_SHELVES + KEPT_STRAYS) + 1 - KEPT_SHELVES;
    if (end > KEPT_STRAYS) {
        add_rlx(&kept.strays, (uint32_t)-1); /* lost */
        return;
    }
    uint32_t found = load_rlx(&kept.strays_end);
    while (found < end && !cas_rlx(F4, &kept.strays_end, &found, end)) {}
}

void kept_unmap(char *start, size_t bytes) {
    heads_pieces_end(start, bytes);
    if (os_unmap(start, bytes)) return;
    char *first = (char *)round_up((uintptr_t)start, SEGMENT_BYTES);
    size_t before = (size_t)(first - start), whole = before < bytes ? (bytes - before) & ~SEGMENT_MASK : 0;
    if (whole == 0) return;
    join(&first, &whole, KEPT_SHELVES);
    stray(first, whole);
}

static size_t give_one(size_t wanted);

/* Puts a range on a shelf. Its bytes are counted already. */
static void stand(uint64_t word) {
    poison(start_of(word), bytes_of(word));
    while (shelf_fill(word, 0, KEPT_SHELVES) == KEPT_SHELVES) give_one(SIZE_MAX);
}

/* Puts the rest of the caller's range, from `at` on, on a shelf, as old as the range was, or as a stray as the range was. Its
 * bytes are not counted yet. */
static void leave(char *at, size_t bytes, uint64_t word, const shelf *from) {
    if (bytes == 0) return;
    if (is_stray(from)) {
        stray(at, bytes);
        return;
    }
    add_rlx(&kept.bytes, bytes);
    stand(word_of(at, bytes) | (word & OLD));
}

/* ---- giving back -------------------------------------------------------------------------------------------------- */

/* Unmaps the end of a range. Returns the bytes unmapped; 0: another thread was faster. */
static size_t cut(shelf *from, uint64_t word, size_t wanted) {
    if (!claim(from, word)) return 0;
    size_t bytes = bytes_of(word), gone = wanted >= bytes ? bytes : (size_t)min_u64(round_up(wanted, SEGMENT_BYTES), bytes);
    kept_unmap(start_of(word) + bytes - gone, gone);
    leave(start_of(word), bytes - gone, word, from);
    return gone;
}

/* Unmaps up to `wanted` bytes of one range, an old one if there is any. Returns how many; 0: there is none. */
static size_t give_one(size_t wanted) {
    uint32_t first = add_rlx(&kept.turn, 1);
    for (uint32_t i = 0; i < 2 * KEPT_SHELVES; i++) {
        shelf *from = &kept.shelves[(first + i) % KEPT_SHELVES];
        uint64_t word = load_rlx(from);
        if (i < KEPT_SHELVES && (word & OLD) == 0) continue;
        size_t gone = cut(from, word, wanted);
        if (gone != 0) return gone;
    }
    return 0;
}

size_t kept_give(size_t bytes) {
    size_t all = 0, gone;
    while (all < bytes && (gone = give_one(bytes - all)) != 0) all += gone;
    return all;
}

/* Unmaps strays, if the system takes them again. */
static void strays_give(void) {
    for (uint32_t i = KEPT_SHELVES; i < shelves_used(); i++) {
        uint64_t word = load_rlx(&kept.shelves[i]);
        if (!claim(&kept.shelves[i], word)) continue;
        heads_pieces_end(start_of(word), bytes_of(word));
        if (os_unmap(start_of(word), bytes_of(word))) continue;
        stray(start_of(word), bytes_of(word));
        return;
    }
}

size_t kept_purge(bool all) {
    size_t bytes = 0;
    strays_give();
    for (uint32_t i = 0; i < KEPT_SHELVES; i++) {
        uint64_t word = load_rlx(&kept.shelves[i]);
        if (all || (word & OLD) != 0)
            bytes += cut(&kept.shelves[i], word, SIZE_MAX);
        else if (word != 0)
            cas_rlx(F3, &kept.shelves[i], &word, word | OLD);
    }
    return bytes;
}

/* ---- put and take ------------------------------------------------------------------------------------------------- */

static bool reserve(size_t bytes, size_t most) {
    if (bytes > most) return false;
    for (;;) {
        size_t sum = add_rlx(&kept.bytes, bytes) + bytes;
        if (sum <= most) return true;
        add_rlx(&kept.bytes, -bytes);
        if (give_one(sum - most) == 0) return false;
    }
}

bool kept_put(char *start, size_t bytes, size_t most) {
    if (!reserve(bytes, most)) return false;
    size_t joined = bytes;
    join(&start, &joined, 0);
    add_rlx(&kept.bytes, joined - bytes);
    stand(word_of(start, joined));
    purge_poke();
    return true;
}

/* The smallest range of at least `bytes` on the first `count` shelves, or if there is none, the largest. NULL: nothing is
 * there. */
static shelf *find(size_t bytes, uint32_t count, uint64_t *word) {
    shelf *best = NULL;
    *word = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t found = load_rlx(&kept.shelves[i]);
        size_t has = bytes_of(found), best_has = bytes_of(*word);
        if (best_has < bytes ? has <= best_has : has < bytes || has >= best_has) continue;
        best = &kept.shelves[i];
        *word = found;
    }
    return best;
}

/* Takes `bytes` if some range has them, else the whole of the largest range if that has at least `least`. NULL: there is
 * none. *bytes: how many were taken. */
static char *take(size_t least, size_t *bytes) {
    for (;;) {
        uint64_t word;
        shelf *best = find(*bytes, least == *bytes ? shelves_used() : KEPT_SHELVES, &word);
        if (best == NULL || bytes_of(word) < least) return NULL;
        if (!claim(best, word)) continue;
        if (*bytes > bytes_of(word)) *bytes = bytes_of(word);
        leave(start_of(word) + *bytes, bytes_of(word) - *bytes, word, best);
        return start_of(word);
    }
}

char *kept_take(size_t bytes) { return take(bytes, &bytes); }

char *kept_take_clean(size_t bytes) {
    char *start = kept_take(bytes);
    if (start != NULL) os_purge(start, bytes);
    return start;
}

void kept_unmap_around(char *start, size_t bytes, const char *hole, size_t hole_bytes) {
    size_t before = (size_t)(hole - start), behind = bytes - before - hole_bytes;
    if (before != 0) kept_unmap(start, before);
    if (behind != 0) kept_unmap(start + bytes - behind, behind);
}

/* Moves the pages of SEGMENT_BYTES from one range of the caller's to another, or else gives them back. false: the target is
 * lost. */
static bool move_piece(char *from, char *to) {
    enum os_grow outcome = os_grow(from, SEGMENT_BYTES, 2 * SEGMENT_BYTES);
    if (outcome == OS_GREW) os_unmap(from + SEGMENT_BYTES, SEGMENT_BYTES);
    enum os_moved moved = outcome == OS_UNEVEN ? OS_STAYED : os_move(from, SEGMENT_BYTES, to);
    if (moved != OS_MOVED)
        kept_unmap(from, SEGMENT_BYTES);
    else
        heads_piece(to);
    if (moved == OS_MOVED) heads_pieces_end(from, SEGMENT_BYTES);
    return moved != OS_LOST;
}

/* NULL: all pieces were handled; else the piece of the target that is lost. */
static char *move_pieces(char *from, size_t bytes, char *to) {
    size_t moved = 0;
    while (moved < bytes && move_piece(from + moved, to + moved)) moved += SEGMENT_BYTES;
    if (moved == bytes) return NULL;
    if (moved + SEGMENT_BYTES < bytes) kept_unmap(from + moved + SEGMENT_BYTES, bytes - moved - SEGMENT_BYTES);
    return to + moved;
}

char *kept_gather(size_t bytes) {
    if (!os_moves() || heads_pieces() >= PIECES_MAX) return NULL;
    size_t have = bytes;
    char *from = take(SEGMENT_BYTES, &have);
    if (from == NULL || have == bytes || os_grow(from, have, bytes) == OS_GREW) return from;
    char *start = os_map_aligned(bytes, SEGMENT_BYTES);
    if (start == NULL) kept_unmap(from, have);
    for (size_t left = bytes; start != NULL && from != NULL; from = left == 0 ? NULL : take(SEGMENT_BYTES, &have)) {
        char *lost = move_pieces(from, have, start + bytes - left);
        if (lost != NULL) {
            kept_unmap_around(start, bytes, lost, SEGMENT_BYTES);
            return NULL;
        }
        left -= have;
        have = left;
    }
    return start;
}

bool kept_take_at(const char *start, size_t bytes) {
    for (uint32_t i = 0; i < shelves_used(); i++) {
        uint64_t word = load_rlx(&kept.shelves[i]);
        if (word == 0 || start_of(word) != start || bytes_of(word) < bytes || !claim(&kept.shelves[i], word)) continue;
        leave(start_of(word) + bytes, bytes_of(word) - bytes, word, &kept.shelves[i]);
        return true;
    }
    return false;
}

/* ---- counts ------------------------------------------------------------------------------------------------------- */

size_t kept_held(void) { return load_rlx(&kept.bytes); }

size_t kept_bytes(void) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < shelves_used(); i++) bytes += bytes_of(load_rlx(&kept.shelves[i]));
    return bytes;
}

/* Ranges that are unmapped meanwhile count as not in memory. */
size_t kept_resident(void) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < KEPT_SHELVES; i++) {
        uint64_t word = load_rlx(&kept.shelves[i]);
        if (word != 0) bytes += os_resident(start_of(word), bytes_of(word));
    }
    return bytes;
}
