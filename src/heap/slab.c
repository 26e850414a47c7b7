/* slab.c: see slab.h.
 *
 * Remote frees. `state` is one word: the owner (a heap, or 0: an orphan) and how many blocks are announced as freed by
 * others and not collected yet.
 *
 *   Another thread, n blocks of one slab         The owner
 *     1. state + n: reads owner and count before   1. takes the whole inbox
 *     2. count was 0 and there is an owner:        2. for each slab: reads the link, exchanges its words of
 *        pushes the slab onto the owner's inbox       remote bits by 0, moves the bits to `free`
 *     3. ors the blocks' bits into `remote`        3. state - blocks collected; not 0 then: it waits (in a list
 *                                                     of the owner's) for bits that are still to arrive
 *
 * The announced blocks keep the slab alive until the sender's step 3; after that the sender does not touch it. So a slab with
 * announced frees is in exactly one of four places: its owner's inbox, the owner's list of waiting slabs, about to be pushed, or in
 * the hands of a visitor, who has taken the inbox of a sleeping owner and pushes its slabs again (heap_asleep.c). A slab without
 * announced frees is in none of them, and only then may its owner abandon or reuse it. `link` belongs to the thread
 * that raised the count from 0, and then to the owner.
 *
 * Orphans. When the owner's thread ends, the slab gets owner 0 (by CAS, only while nothing is announced) and is pushed onto the stack
 * of its class. Frees of an orphan are announced but not pushed. A thread that needs blocks of the class takes the whole stack (so
 * there is no ABA), makes itself the owner, and collects what was announced meanwhile.
 *
 * Empty slabs. A heap's LRU is a stack that only the owner pushes to and pops from. Others take the whole stack and leave NULL, so
 * that a late CAS of the owner fails: only the owner could push the same slab again.
 *
 * Bits. A slab of small blocks takes lines of a segment's head for its bits when its first block comes back, and returns them, all
 * zeros, when it is empty. Words of that head, which several threads change, say which lines are taken.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   B1  slab_send: state + n            acquire  B5, B10 the inbox of an adopter is used before it is made; the link is written
 *                                                      while the owner still reads it
 *   B2  slabs_push_row: CAS list        release  B4      the taker misses a link, or writes to the slab before the push
 *   B3  slab_send: or remote            release  B6      a block is handed out while its last user still writes to it; the count is
 *                                                      taken down before it went up
 *   B4  slabs_take: exchange list       acquire  B2      see B2; split: a slab is lost, or has two owners
 *   B5  inbox_collect: state - n        release  B1      see B1, the link; split: an announcement is lost
 *   B6  inbox_collect: exchange remote  acquire  B3      see B3; split: a free is lost
 *   B16 slab_arrived: load remote       acquire  B3      a block's last user writes to pages that were given back
 *   B17 slab_put: store used            release  H14     see B16, of blocks that the owner frees
 *   B7  slab_abandon: CAS state         relaxed  B1      split: an announced free that nobody looks for
 *   B10 slab_adopt: state + owner       release  B1      see B1, the inbox; split: an announcement is lost
 *   B12 slabs_pop: CAS list             relaxed  B4      split: two owners
 *   B14 slab_bits_take: CAS lines       acquire  B15     bits are set before they were cleared; split: two slabs have them
 *   B15 slab_bits_drop: lines - bits    release  B14     see B14; split: as B14, or a place that nobody finds
 */
#include <string.h>

#include "heap/hooks.h"

#define HOT_SHARE 16
#define LINES_SENT 8u                       /* lines of a block that are written, at most */
#define LOOKED_AT 16u                       /* of this many blocks, one or two are looked at */
#define UNUSED UINT64_C(0x10e77ab1eb10c4ed) /* at a line's start */
#define LINE_SPARED 256u
#define TRIAL_PAIRS 4u    /* pairs of phases, one that writes and one that does not */
#define TRIAL_PHASES 255u /* from the beginning of one trial to that of the next */
#define TRIAL_MARGIN 16u  /* the part of a phase's time below which a difference does not count */
#define LEARNS 16
#define ANY_BYTES                                                                                                           \
    4096u /* secure mode chooses among the lowest free blocks, from at least this many bytes and at least one word of bits */
#define BLOCKS(bytes) ((uint32_t)(SLOT_BYTES / (bytes)))
/* Lines that a slot has room for before its blocks. */
#define LINES_LEFT(bytes) (SLOT_BYTES % (bytes) / CACHE_LINE + 1)
#define POWER_UP_TO(n)                                                                                                      \
    ((n) >= 64 ? 64u : (n) >= 32 ? 32u : (n) >= 16 ? 16u : (n) >= 8 ? 8u : (n) >= 4 ? 4u : (n) >= 2 ? 2u : 1u)
#define POWER_FROM(n) ((n) > 4 ? 8u : (n) > 2 ? 4u : (n) > 1 ? 2u : 1u) /* of lines of bits */
#define MARGINS(bytes) ((bytes) > TINY_MAX ? (POWER_UP_TO(LINES_LEFT(bytes)) - 1) * (uint32_t)CACHE_LINE : 0)
#define MAGIC(bytes) ((uint32_t)(UINT64_C(0xffffffff) / (bytes)) + 1)
#define CLASS_ROW(bytes)                                                                                                    \
    {                                                                                                                       \
        (bytes), MAGIC(bytes), (bytes) > TINY_MAX ? (UINT32_C(1) << 26) : MAGIC(bytes), BLOCKS(bytes),                      \
            BLOCKS(bytes) / HOT_SHARE + 1, CACHE_BLOCKS(bytes), MARGINS(bytes)                                              \
    }

#define RUN_ROW(slots)                                                                                                      \
    { (uint32_t)((slots)*SLOT_BYTES), 0, UINT32_C(1) << 16, 1, 1, CACHE_RUNS, 0 }

/* The last two rows are for a private heap's large blocks, one to a slab; their sizes are kept elsewhere. */
const struct class_info class_info[KIND_DIRECT + 1] = {
    CLASS_SIZES(CLASS_ROW), RUN_ROW(1), RUN_ROW(2), RUN_ROW(3), RUN_ROW(4), RUN_ROW(1), RUN_ROW(1)};

const uint8_t class_of_tiny[TINY_MAX / BLOCK_MIN + 1] = {0,  0,  1,  2,  3,  4,  5,  6,  7,  8,  8,  9,  9,  10, 10, 11, 11,
                                                         12, 12, 12, 12, 13, 13, 13, 13, 14, 14, 14, 14, 15, 15, 15, 15, 16,
                                                         16, 16, 16, 16, 16, 16, 16, 17, 17, 17, 17, 17, 17, 17, 17, 18, 18,
                                                         18, 18, 18, 18, 18, 18, 19, 19, 19, 19, 19, 19, 19, 19};

const uint8_t class_of_medium[MEDIUM_MAX / MEDIUM_STEP + 1] = {
    0,  7,  11, 13, 15, 16, 17, 18, 19, 20, 21, 22, 22, 23, 23, 24, 24, 25, 25, 25, 25, 26, 26, 26, 26, 27, 27, 27, 27,
    28, 28, 28, 28, 29, 29, 29, 29, 30, 30, 30, 30, 31, 31, 31, 31, 31, 31, 31, 31, 32, 32, 32, 32, 32, 32, 32, 32, 33,
    33, 33, 33, 33, 33, 33, 33, 34, 34, 34, 34, 34, 34, 34, 34, 34, 34, 34, 34, 34, 34, 34, 34, 35, 35, 35, 35, 35, 35,
    35, 35, 35, 35, 35, 35, 35, 35, 35, 35, 36, 36, 36, 36, 36, 36, 36, 36, 36, 36, 36, 36, 36, 36, 36, 36, 37, 37, 37,
    37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38,
    38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 39, 39, 39, 39, 39, 39, 39, 39, 39, 39, 39, 39, 39,
    39, 39, 39, 39, 39, 39, 39, 39, 39, 39, 39, 39, 39, 39, 39, 39, 39, 39, 39, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40,
    40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 41, 41, 41, 41, 41, 41, 41,
    41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41};

/* CACHE_LINE, if a margin may stand before the class's blocks; else 0. */
static size_t lines_before(unsigned kind) { return class_info[kind].margins & CACHE_LINE; }

unsigned class_aligned(size_t alignment, size_t size) {
    if (size > MEDIUM_MAX || alignment > MEDIUM_MAX) return CLASSES;
    unsigned kind = class_of(round_up(size == 0 ? 1 : size, alignment));
    while (kind < CLASSES && ((class_info[kind].size | lines_before(kind)) & (alignment - 1)) != 0) kind++;
    return kind;
}

/* ---- the owner's side --------------------------------------------------------------------------------------------- */

static uint32_t words_of(unsigned kind) { return (class_info[kind].blocks + 63) / 64; }

/* Makes room for `words` of remote bits. Several slots of a segment may do so at once. */
static void far_make(struct slab *slab, uint32_t words) {
    if (words <= slab->far_words) return;
    uint32_t room = LINE_WORDS;
    while (room < words) room *= 2;
    slab->far_at = (uint16_t)add_rlx(&segment_of(slab)->far_used, room);
    slab->far_words = (uint16_t)room;
}

static uint32_t lines_of(unsigned kind) { return (words_of(kind) + LINE_WORDS - 1) / LINE_WORDS; }

static bool take_lines(struct slab *slab, struct heap_segment *segment) {
    uint32_t lines = lines_of(slab->kind), align = POWER_FROM(lines);
    for (uint32_t i = 0; i < FAR_MASKS; i++) {
        uint64_t found = load_rlx(&segment->far_lines[i]), bits;
        while ((bits = bits_find(FAR_ALL & ~found, lines, align)) != 0) {
            if (!cas_acq(B14, &segment->far_lines[i], &found, found | bits)) continue;
            size_t line = (size_t)i * 64 + (size_t)__builtin_ctzll(bits);
            slab->free = &segment->far_free[line * LINE_WORDS];
            plain_write(slab->free, lines * CACHE_LINE);
            return true;
        }
    }
    return false;
}

/* Takes lines in the newest segment while it has room, so that no line of most heads is written. */
void slab_bits_take(struct slab *slab) {
    struct heap_segment *newest = depot_all(), *segment = newest;
    if (take_lines(slab, newest) || take_lines(slab, segment_of(slab))) return;
    while (!take_lines(slab, segment)) {
        segment = load_rlx(&segment->older);
        if (segment == NULL) segment = depot_all();
    }
}

void slab_bits_drop(struct slab *slab) {
    if (slab->free == NULL || slab->free == slab->near_free) return;
    struct heap_segment *segment = segment_of(slab->free);
    size_t words = (slab->carved + 63u) / 64, line = (size_t)(slab->free - segment->far_free) / LINE_WORDS;
    plain_write(slab->free, words * sizeof *slab->free);
    memset(slab->free, 0, words * sizeof *slab->free);
    slab->free = NULL;
    uint64_t bits = ((UINT64_C(1) << lines_of(slab->kind)) - 1) << line % 64;
    add_rel(B15, &segment->far_lines[line / 64], -bits);
}

/* Clears all bits; no block is carved. */
static void bits_begin(struct slab *slab, uint32_t words) {
    slab_bits_drop(slab);
    memset(slab->near_free, 0, sizeof slab->near_free);
    slab->free = words <= FREE_NEAR ? slab->near_free : NULL;
    if (words > REMOTE_NEAR) far_make(slab, words);
    slab->carved = slab->first_word = 0;
}

uint32_t slab_touched(const struct slab *slab) {
    size_t carved = slab->carved * (size_t)class_info[slab->kind].size;
    if (carved != 0) carved += slab_margin(slab->kind, slab_start(slab));
    return (uint32_t)max_u64(slab->touched, (carved * SLOT_PARTS + SLOT_BYTES - 1) / SLOT_BYTES);
}

void slab_init(struct slab *slab, unsigned kind, struct heap *owner, uint32_t touched) {
    plain_write(slab, offsetof(struct slab, near_free));
    bits_begin(slab, words_of(kind));
    slab->kind = (uint8_t)kind;
    slab->room = class_info[kind].blocks;
    slab->touched = (uint8_t)touched;
    slab->tier = TIER_NONE;
    store_rlx(&slab->used, 0);
    store_rlx(&slab->state, (uint64_t)(uintptr_t)owner);
    slot_kind_set(segment_of(slab), slab_slot(slab), kind);
    poison(slab_start(slab), SLOT_BYTES);
}

void slab_init_large(struct slab *slab, unsigned kind, struct heap *owner) {
    bits_begin(slab, 1);
    slab->kind = (uint8_t)kind;
    slab->tier = TIER_NONE;
    slab->room = 0;
    slab->carved = 1;
    slab->touched = SLOT_PARTS;
    store_rlx(&slab->used, 1);
    store_rlx(&slab->private_kind, slab->kind);
    store_rlx(&slab->state, (uint64_t)(uintptr_t)owner);
    slot_kind_set(segment_of(slab), slab_slot(slab), KIND_PRIVATE);
}

/* Moves `count` blocks that were freed to the places below slots_end. */
static void **carve_freed(struct slab *slab, char *start, void **slots_end, uint32_t count) {
    size_t size = class_info[slab->kind].size;
    void **out = slots_end, **slots = slots_end - count;
    uint32_t word = slab->first_word;
    uint64_t *free = slab->free;
    while (out != slots) {
        uint64_t bits = free[word];
        char *base = start + (size_t)word * 64 * size;
        while (bits != 0 && out != slots) {
            *--out = base + (size_t)__builtin_ctzll(bits) * size;
            bits &= bits - 1;
        }
        free[word] = bits;
        if (bits == 0) word++;
    }
    slab->first_word = (uint16_t)word;
    return out;
}

uint32_t slab_carve(struct slab *slab, void **slots, uint32_t count) {
    if (count > slab->room) count = slab->room;
    size_t size = class_info[slab->kind].size;
    char *start = slab_start(slab) + slab_margin(slab->kind, slab_start(slab));
    uint32_t freed = slab->room - (class_info[slab->kind].blocks - slab->carved);
    void **out = slots + count;
    if (freed > 0) out = carve_freed(slab, start, out, (uint32_t)min_u64(count, freed));
    for (char *block = start + slab->carved * size; out != slots; block += size) *--out = block;
    if (count > freed) slab->carved = (uint16_t)(slab->carved + count - freed);
    slab->room -= count;
    store_rlx(&slab->used, load_rlx(&slab->used) + count);
    return count;
}

/* Sets the bits of all blocks that were never handed out. */
static void carve_rest(struct slab *slab) {
    uint32_t blocks = class_info[slab->kind].blocks;
    if (slab->carved == blocks) return;
    if (slab->free == NULL) slab_bits_take(slab);
    for (uint32_t i = slab->carved; i < blocks; i++) slab->free[i / 64] |= UINT64_C(1) << i % 64;
    slab->first_word = (uint16_t)min_u64(slab->first_word, slab->carved / 64);
    slab->carved = (uint16_t)blocks;
}

void *slab_carve_any(struct slab *slab, uint64_t *drawn) {
    carve_rest(slab);
    uint32_t words = words_of(slab->kind), first = slab->first_word, size = class_info[slab->kind].size;
    while (slab->free[first] == 0) first++;
    slab->first_word = (uint16_t)first;
    uint32_t window = (ANY_BYTES + 64 * size - 1) / (64 * size);
    uint32_t word = first + mode_random_below(drawn, (uint32_t)min_u64(window, words - first));
    while (slab->free[word] == 0) word--;
    unsigned bit = mode_random_bit(drawn, slab->free[word]);
    slab->free[word] &= ~(UINT64_C(1) << bit);
    slab->room--;
    store_rlx(&slab->used, load_rlx(&slab->used) + 1);
    char *start = slab_start(slab) + slab_margin(slab->kind, slab_start(slab));
    return start + (word * 64 + bit) * (size_t)size;
}

/* Whether no block in use lies between these offsets in the slot. */
static bool is_free_between(const struct slab *slab, size_t low, size_t high) {
    const struct class_info *info = &class_info[slab->kind];
    size_t margin = slab_margin(slab->kind, slab_start(slab));
    size_t first = low <= margin ? 0 : (low - margin) / info->size;
    size_t end = high <= margin ? 0 : (size_t)min_u64(info->blocks, (high - margin + info->size - 1) / info->size);
    while (first < end && slab_is_free(slab, (uint32_t)first)) first++;
    return first >= end;
}

static size_t purge_resident(char *pages, size_t bytes) {
    size_t resident = os_resident(pages, bytes);
    if (resident != 0) depot_purge_pages(pages, bytes);
    return resident;
}

size_t slab_purge(const struct slab *slab) {
    size_t page = os_page_size(), bytes = 0, row = 0;
    if ((size_t)slab->room * class_info[slab->kind].size < page) return 0;
    for (size_t at = 0; at <= SLOT_BYTES; at += page) {
        if (at < SLOT_BYTES && is_free_between(slab, at, at + page)) continue;
        if (row < at) bytes += purge_resident(slab_start(slab) + row, at - row);
        row = at + page;
    }
    return bytes;
}

/* Keeps in registers what changes with each block: otherwise each block would wait for the stores of the one before. */
uint32_t slab_put(struct slab *slab, void *const *blocks, uint32_t count) {
    if (UNLIKELY(slab->free == NULL)) slab_bits_take(slab);
    const unsigned kind = slab->kind;
    const uint32_t carved = slab->carved;
    uint64_t *free = slab->free;
    uint32_t lowest = slab->first_word, i = 0;
    for (; i < count; i++) {
        uint32_t index = index_in(kind, blocks[i]), word = index / 64;
        uint64_t bit = UINT64_C(1) << index % 64;
        if (UNLIKELY(index >= carved || (free[word] & bit) != 0 || !is_start(kind, blocks[i]))) break;
        free[word] |= bit;
        lowest = word < lowest ? word : lowest;
    }
    slab->first_word = (uint16_t)lowest;
    slab->room += i;
    store_rel(B17, &slab->used, load_rlx(&slab->used) - i);
    return i;
}

/* ---- remote frees ------------------------------------------------------------------------------------------------- */

/* Writes into a block's first lines before it goes home. If one processor wrote a line and another only read it, both have
 * it in their caches, and the next write waits until the other has given it up. Such writes wait one after the other,
 * because stores become visible in order. So the sender writes first, into all blocks of a message together: each line is
 * then in one cache alone, and moves from there at once. */
static void write_lines(char *block, uint32_t lines) {
    const uint64_t unused = UNUSED;
    for (uint32_t i = 1; i < lines; i++) memcpy(block + (size_t)i * CACHE_LINE, &unused, sizeof unused);
}

/* How many lines, from the first on, the block's users have written; at least one. All `lines`, if the block was never
 * sent. */
static uint32_t lines_used(const char *block, uint32_t lines) {
    for (uint64_t word; lines > 1; lines--) {
        memcpy(&word, block + (size_t)(lines - 1) * CACHE_LINE, sizeof word);
        if (word != UNUSED) break;
    }
    return lines;
}

static void learn(uint16_t *spared, uint32_t unused) {
    *spared = (uint16_t)(*spared + ((int32_t)(unused * LINE_SPARED) - *spared) / LEARNS);
}

void blocks_write(unsigned kind, void *const *blocks, uint32_t count, uint16_t *spared) {
#if defined(WEFT_POISONS)
    if (count != 0) return;
#endif
    uint32_t size = class_info[kind].size, most = (uint32_t)min_u64((size + CACHE_LINE - 1) / CACHE_LINE, LINES_SENT);
    uint32_t few = most - (uint32_t)min_u64((*spared + LINE_SPARED / LEARNS) / LINE_SPARED, most - 1);
    unsigned shift = 32u - (unsigned)__builtin_clz(size - 1);
    for (uint32_t i = 0; i < count; i++) {
        bool is_sample = most > 1 && (slot_offset(blocks[i]) >> shift) % LOOKED_AT == 0;
        if (is_sample) learn(spared, most - lines_used(blocks[i], most));
        write_lines(blocks[i], is_sample ? most : few);
    }
}

/* Phase 0 only warms up. Each pair of phases begins the way the previous pair ended, so that neither way always comes
 * second. */
static bool phase_writes(const struct trial *trial) {
    return trial->phase <= 2 * TRIAL_PAIRS ? trial->phase / 2 % 2 != 0 : trial->writes;
}

static bool is_quicker(uint64_t ns, uint64_t other_ns) { return ns < other_ns - other_ns / TRIAL_MARGIN; }

bool trial_next(struct trial *trial, uint64_t now_ns) {
    uint64_t took_ns = now_ns - trial->begun_ns, before_ns = trial->before_ns;
    uint64_t with_ns = phase_writes(trial) ? took_ns : before_ns, without_ns = phase_writes(trial) ? before_ns : took_ns;
    bool ends_pair = trial->phase != 0 && trial->phase % 2 == 0 && trial->phase <= 2 * TRIAL_PAIRS;
    if (ends_pair) trial->votes = (int8_t)(trial->votes + is_quicker(with_ns, without_ns) - is_quicker(without_ns, with_ns));
    if (trial->phase == 2 * TRIAL_PAIRS) {
        if (trial->votes > 1 || trial->votes < -1) trial->writes = trial->votes > 1;
        trial->votes = 0;
    }
    trial->begun_ns = now_ns;
    trial->before_ns = took_ns;
    trial->blocks = 0;
    trial->phase = (uint8_t)((trial->phase + 1u) % TRIAL_PHASES);
    return phase_writes(trial);
}

bool trial_writes(struct trial *trial, uint32_t count) {
    trial->blocks += count;
    return LIKELY(trial->blocks < TRIAL_BLOCKS) ? phase_writes(trial) : trial_next(trial, os_now_ns());
}

static remote_word *remote_of(struct slab *slab, unsigned kind) {
    return words_of(kind) <= REMOTE_NEAR ? slab->near_remote : &segment_of(slab)->far_remote[slab->far_at];
}

void slab_send_prefetch(struct slab *slab, unsigned kind, const void *block) {
    uint64_t state = load_rlx(&slab->state);
    if ((state & PENDING_MASK) == 0 && state_owner(state) != NULL) prefetch_write(heap_inbox(state_owner(state)));
    if (words_of(kind) > REMOTE_NEAR) prefetch_write(&remote_of(slab, kind)[index_in(kind, block) / 64]);
}

static void announce(struct heap *owner, struct slab *slab) {
    if (owner != NULL)
        slabs_push(&heap_inbox(owner)->first, slab);
    else
        purge_poke();
}

/* The first of the blocks whose bits are set in that word. */
static const char *block_of(const struct slab *slab, unsigned kind, uint32_t word, uint64_t bits) {
    const char *start = slab_start(slab) + slab_margin(kind, slab_start(slab));
    return start + (word * 64 + (uint32_t)__builtin_ctzll(bits)) * (size_t)class_info[kind].size;
}

void slab_send(struct slab *slab, void *const *blocks, uint32_t count) {
    unsigned kind = slot_kind(segment_of(slab), slab_slot(slab));
    if (UNLIKELY(kind == KIND_PRIVATE)) kind = load_rlx(&slab->private_kind);
    remote_word *remote = remote_of(slab, kind);
    uint64_t before = add_acq(B1, &slab->state, count);
    if ((before & PENDING_MASK) == 0) announce(state_owner(before), slab);
    for (uint32_t i = 0; i < count;) {
        uint32_t index = index_in(kind, blocks[i]), word = index / 64;
        uint64_t bits = 0;
        for (; index / 64 == word; index = index_in(kind, blocks[i])) {
            bits |= UINT64_C(1) << (index & 63u);
            if (++i == count) break;
        }
        uint64_t before_or = or_rel(B3, &remote[word], bits);
        if (UNLIKELY((before_or & bits) != 0)) heap_hooks.misuse_found(block_of(slab, kind, word, before_or & bits));
    }
}

/* Fetches what inbox_collect writes. Owner. */
static void remote_prefetch(const struct slab *slab) {
    prefetch_write(&slab->state);
    if (words_of(slab->kind) > REMOTE_NEAR) {
        struct heap_segment *segment = segment_of(slab);
        prefetch_write(&segment->far_remote[slab->far_at]);
    }
}

struct slab *inbox_take(struct inbox *inbox) {
    struct slab *waiting = inbox->waiting;
    inbox->waiting = NULL;
    struct slab *first = slabs_take(&inbox->first);
    if (first != NULL) remote_prefetch(first);
    if (waiting == NULL) return first;
    struct slab *last = waiting;
    while (load_rlx(&last->link) != NULL) last = load_rlx(&last->link);
    store_rlx(&last->link, first);
    return waiting;
}

struct slab *inbox_next(struct slab *slab) {
    plain_read(&slab->link, sizeof slab->link); /* nobody writes it again before B5 */
    return load_rlx(&slab->link);
}

uint32_t inbox_collect(struct inbox *inbox, struct slab *slab) {
    uint32_t got = 0;
    uint32_t words = (slab->carved + 63u) / 64;
    remote_word *remote = remote_of(slab, slab->kind);
    if (slab->free == NULL) slab_bits_take(slab);
    for (uint32_t i = 0; i < words; i++) {
        if (load_rlx(&remote[i]) == 0) continue;
        uint64_t bits = xchg_acq(B6, &remote[i], 0);
        if (UNLIKELY((slab->free[i] & bits) != 0))
            heap_hooks.misuse_found(block_of(slab, slab->kind, i, slab->free[i] & bits));
        slab->free[i] |= bits;
        if (i < slab->first_word) slab->first_word = (uint16_t)i;
        got += (uint32_t)__builtin_popcountll(bits);
    }
    slab->room += got;
    store_rlx(&slab->used, load_rlx(&slab->used) - got);
    uint64_t given = load_rlx(&slab->state) & SLAB_GIVEN;
    if (UNLIKELY(given != 0)) add_rlx(&depot.given, (uint64_t)-1);
    uint64_t before = add_rel(B5, &slab->state, -(got + given));
    if ((before & PENDING_MASK) != got) {
        store_rlx(&slab->link, inbox->waiting);
        inbox->waiting = slab;
    }
    return got;
}

uint32_t slab_arrived(struct slab *slab) {
    unsigned kind = slot_kind(segment_of(slab), slab_slot(slab));
    const remote_word *remote = remote_of(slab, kind);
    uint32_t count = 0;
    for (uint32_t i = 0; i < words_of(kind); i++) count += (uint32_t)__builtin_popcountll(load_acq(B16, &remote[i]));
    return count;
}

/* ---- orphans ------------------------------------------------------------------------------------------------------ */

PROCESS_STATE slab_link orphans[CLASSES];

bool slab_abandon(struct slab *slab, struct heap *owner) {
    uint64_t found = (uint64_t)(uintptr_t)owner;
    return cas_rlx(B7, &slab->state, &found, 0);
}

void slab_adopt(struct slab *slab, struct heap *owner, struct inbox *inbox) {
    uint64_t before = add_rel(B10, &slab->state, (uint64_t)(uintptr_t)owner);
    ASSERT(state_owner(before) == NULL);
    if ((before & PENDING_MASK) == 0) return;
    store_rlx(&slab->link, inbox->waiting);
    inbox->waiting = slab;
}

/* ---- lists -------------------------------------------------------------------------------------------------------- */

void slabs_push_row(slab_link *list, struct slab *first, struct slab *last) {
    struct slab *next = load_rlx(list);
    do {
        store_rlx(&last->link, next);
    } while (!cas_rel(B2, list, &next, first));
}

void slabs_push(slab_link *list, struct slab *slab) { slabs_push_row(list, slab, slab); }

struct slab *slabs_pop(slab_link *list) {
    struct slab *first = load_rlx(list);
    while (first != NULL && !cas_rlx(B12, list, &first, load_rlx(&first->link))) {}
    return first;
}

struct slab *slabs_take(slab_link *list) {
    return load_rlx(list) == NULL ? NULL : xchg_acq(B4, list, NULL);
}
