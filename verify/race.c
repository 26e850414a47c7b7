/* race.c: plain accesses and memory blocks, checked by vector clocks. See engine.h.
 *
 * An access at epoch e of thread t happened before what thread u does now when u's clock for t has reached e. Making a block
 * counts as a write of all of it, releasing it too. So does a purge for plain accesses; an atomic one may come before or after.
 *
 * Four bytes stand for one as long as each access is of all of them. The first that is not splits them for the rest of the
 * schedule: each byte has its own last write and its own last reads then. */
#define _DEFAULT_SOURCE
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISON(p, n) __asan_poison_memory_region(p, n)
#define UNPOISON(p, n) __asan_unpoison_memory_region(p, n)
#else
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif

enum {
    LINES_MAX = 32768,
    BLOCKS_MAX = 1024,
    PURGES_MAX = 1024,
    FILL_MAX = 64 * 1024,
    FREED_BYTE = 0xdb,
    PAGE_BYTES = 4096,
    SPLITS_MAX = 16384
};
#define HEAP_BYTES ((size_t)1 << 30)
/* A fixed place, so that a seed replays even what depends on addresses. */
#define HEAP_ADDRESS ((void *)(uintptr_t)0x5e0000000000)

struct block {
    uintptr_t address;
    size_t bytes;
    struct line *lines;
    int32_t epoch; /* of its making */
    uint32_t thread;
    bool freed;
};

/* Of four bytes of a granule each: epochs. */
struct split {
    int32_t written[4];
    uint8_t writer[4];
    int32_t read[THREADS_MAX][4];
};

/* A line that is used for the first time after a purge begins with it. */
struct purge {
    uintptr_t begin, end;
    int32_t epoch;
    uint32_t thread;
};

static struct {
    struct line *lines;
    uint32_t line_count, generation;
    struct split *splits;
    uint32_t split_count;
    struct block blocks[BLOCKS_MAX];
    uint32_t block_count;
    struct purge purges[PURGES_MAX];
    uint32_t purge_count;
    char *heap;
    size_t used;
} P;

void race_init(void) {
    P.lines = calloc(LINES_MAX, sizeof *P.lines);
    P.heap = mmap(HEAP_ADDRESS, HEAP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    P.splits = calloc(SPLITS_MAX, sizeof *P.splits);
    if (P.lines == NULL || P.splits == NULL || P.heap == MAP_FAILED) {
        fputs("explore: out of memory\n", stderr);
        exit(2);
    }
}

void race_begin(void) {
    P.generation++;
    P.line_count = 0;
    P.split_count = 0;
    P.block_count = 0;
    P.purge_count = 0;
    P.used = 0;
    R.code = NULL;
}

extern const char __executable_start; /* the linker's */

/* ---- who knows what ----------------------------------------------------------------------------------------------- */

INLINE bool happened(uint32_t of_thread, int32_t epoch) { return R.current->now->clock[of_thread] >= epoch; }

void block_name(uintptr_t address, char *text, size_t size) {
    for (uint32_t i = 0; i < P.block_count; i++) {
        const struct block *b = &P.blocks[i];
        if (address >= b->address && address < b->address + b->bytes) {
            snprintf(text, size, "b%u+%zu", i, (size_t)(address - b->address));
            return;
        }
    }
    snprintf(text, size, "%#zx", (size_t)address);
}

__attribute__((noreturn)) static void fail_at(const char *what, uintptr_t address, uint32_t other) {
    char name[64];
    block_name(address, name, sizeof name);
    char code[64] = "";
    if (R.code != NULL) /* for addr2line -e */
        snprintf(code, sizeof code, ", code at %#zx", (size_t)((uintptr_t)R.code - (uintptr_t)&__executable_start));
    explore_fail("%s: T%u at %s, against T%u%s", what, R.current->id, name, other, code);
}

static struct block *block_of(uintptr_t address) {
    for (uint32_t i = P.block_count; i-- > 0;) {
        struct block *b = &P.blocks[i];
        if (address >= b->address && address < b->address + b->bytes) return b;
    }
    return NULL;
}

static void line_purged(struct line *l, const struct purge *purge) {
    l->purged = purge->epoch;
    l->purger = (uint8_t)purge->thread;
}

struct line *race_line(uintptr_t address) {
    uintptr_t key = address / CACHE_LINE;
    uint32_t h = (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 45) % LINES_MAX;
    while (P.lines[h].generation == P.generation && P.lines[h].key != key) h = (h + 1) % LINES_MAX;
    struct line *l = &P.lines[h];
    if (l->generation == P.generation) return l;
    if (++P.line_count > LINES_MAX / 2) explore_fail(LIMIT "too much memory used: shorten the driver");
    memset(l, 0, sizeof *l);
    l->key = key;
    l->generation = P.generation;
    l->first_location = NO_LOCATION;
    l->block = block_of(address);
    if (l->block != NULL) {
        l->next_in_block = l->block->lines;
        l->block->lines = l;
    }
    for (uint32_t i = P.purge_count; i-- > 0 && l->purged == 0;)
        if (l->key * CACHE_LINE >= P.purges[i].begin && l->key * CACHE_LINE < P.purges[i].end) line_purged(l, &P.purges[i]);
    return l;
}

/* An access from `address` to `end`, which lie in one line. */
static void check_block(const struct line *l, uintptr_t address, uintptr_t end) {
    const struct block *b = l->block;
    bool is_heap = address - (uintptr_t)P.heap < HEAP_BYTES;
    if (is_heap && (b == NULL || address < b->address || end > b->address + b->bytes))
        explore_fail("access outside every memory block: T%u, %zu bytes at %#zx", R.current->id, (size_t)(end - address),
                     (size_t)address);
    if (b == NULL) return;
    if (b->freed) fail_at("use after free", address, b->thread);
    if (!happened(b->thread, b->epoch)) fail_at("race: memory used before its making is visible", address, b->thread);
}

/* ---- plain accesses ----------------------------------------------------------------------------------------------- */

INLINE uint32_t byte_lowest(uint32_t mask) { return (uint32_t)__builtin_ctz(mask); }

/* Is the write not known to have happened, or, for one who writes, some read? Whose, or THREADS_MAX. */
static uint32_t unseen_write(const struct granule *g, uint32_t mask) {
    if (LIKELY(g->split == 0)) return happened(g->writer, g->written) ? THREADS_MAX : g->writer;
    const struct split *s = &P.splits[g->split];
    for (; mask != 0; mask &= mask - 1) {
        uint32_t i = byte_lowest(mask);
        if (!happened(s->writer[i], s->written[i])) return s->writer[i];
    }
    return THREADS_MAX;
}
static uint32_t unseen_read(const struct granule *g, uint32_t mask) {
    const struct split *s = &P.splits[g->split];
    for (uint32_t t = 0; t < R.thread_count; t++) {
        if (LIKELY(g->split == 0) && !happened(t, g->read[t])) return t;
        for (uint32_t left = g->split == 0 ? 0 : mask; left != 0; left &= left - 1)
            if (!happened(t, s->read[t][byte_lowest(left)])) return t;
    }
    return THREADS_MAX;
}

static void check_granule(const struct granule *g, uintptr_t address, uint32_t mask, bool write) {
    uint32_t other = unseen_write(g, mask);
    if (other < THREADS_MAX)
        fail_at(write ? "race: plain write, plain write" : "race: plain read, plain write", address, other);
    if (write && (other = unseen_read(g, mask)) < THREADS_MAX) fail_at("race: plain write, plain read", address, other);
}

void race_atomic(const struct location *l, bool write) {
    check_block(l->line, l->address, l->address + l->size);
    uint32_t first = (uint32_t)(l->address % CACHE_LINE) / 4;
    uint32_t mask = l->size >= 4 ? 15u : ((1u << l->size) - 1) << (l->address % 4);
    for (uint32_t i = first; i < first + (l->size + 3) / 4; i++) {
        const struct granule *g = &l->line->granules[i];
        uint32_t other = unseen_write(g, mask);
        if (other < THREADS_MAX) fail_at("race: atomic access, plain write", l->address, other);
        if (write && (other = unseen_read(g, mask)) < THREADS_MAX)
            fail_at("race: atomic write, plain read", l->address, other);
    }
}

static void granule_split(struct granule *g) {
    if (++P.split_count == SPLITS_MAX) explore_fail(LIMIT "too many parts of words accessed: shorten the driver");
    g->split = (uint16_t)P.split_count;
    struct split *s = &P.splits[g->split];
    for (uint32_t i = 0; i < 4; i++) {
        s->written[i] = g->written;
        s->writer[i] = g->writer;
        for (uint32_t t = 0; t < THREADS_MAX; t++) s->read[t][i] = g->read[t];
    }
}

static void access_granule(struct line *l, uintptr_t address, uint32_t mask, bool write) {
    struct granule *g = &l->granules[address % CACHE_LINE / 4];
    uint32_t self = R.current->id;
    int32_t epoch = R.current->now->clock[self];
    check_granule(g, address, mask, write);
    if (UNLIKELY(mask != 15 && g->split == 0)) granule_split(g);
    if (g->split == 0) {
        if (write) g->writer = (uint8_t)self;
        *(write ? &g->written : &g->read[self]) = epoch;
        return;
    }
    struct split *s = &P.splits[g->split];
    for (; mask != 0; mask &= mask - 1) {
        uint32_t i = byte_lowest(mask);
        if (write) s->writer[i] = (uint8_t)self;
        *(write ? &s->written[i] : &s->read[self][i]) = epoch;
    }
}

/* A plain access of memory where an atomic variable lies, or lay: the whole life of that must be over, or not begun. */
static void check_locations(struct line *l, uintptr_t begin, uintptr_t end, bool write) {
    for (uint32_t i = l->first_location; i != NO_LOCATION;) {
        struct location *at = model_location(i);
        i = at->next_in_line;
        if (at->address == 0 || at->address >= end || at->address + at->size <= begin) continue;
        const int32_t *epochs = write ? at->touched : at->written;
        for (uint32_t t = 0; t < R.thread_count; t++)
            if (epochs[t] != 0 && !happened(t, epochs[t])) fail_at("race: plain access, atomic access", at->address, t);
        if (write) model_forget(at);
    }
}

static void check_purge(const struct line *l, uintptr_t address) {
    if (!happened(l->purger, l->purged)) fail_at("race: plain access, purge", address, l->purger);
}

void race_plain(const void *pointer, size_t size, bool write) {
    uintptr_t address = (uintptr_t)pointer, end = address + size;
    struct line *l = NULL;
    while (address < end) {
        if (l == NULL || address % CACHE_LINE == 0) {
            l = race_line(address);
            uintptr_t line_end = (address / CACHE_LINE + 1) * CACHE_LINE;
            if (line_end > end) line_end = end;
            check_block(l, address, line_end);
            check_locations(l, address, line_end, write);
            check_purge(l, address);
        }
        uintptr_t next = (address / 4 + 1) * 4;
        if (next > end) next = end;
        uint32_t mask = ((1u << (next - address)) - 1) << (address % 4);
        access_granule(l, address, mask, write);
        address = next;
    }
}

void explore_plain(const void *pointer, size_t size, bool write, const char *file, int line_number) {
    trace_step(write ? "plain write" : "plain read", NULL, (uintptr_t)pointer, size, (uint64_t)line_number);
    (void)file;
    race_plain(pointer, size, write);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------- */

void *block_new(size_t bytes, size_t alignment) {
    if (P.block_count == BLOCKS_MAX) explore_fail(LIMIT "more than %d memory blocks", BLOCKS_MAX);
    bool large = bytes > FILL_MAX;
    if (large && alignment < PAGE_BYTES) alignment = PAGE_BYTES;
    size_t at = round_up((uintptr_t)P.heap + P.used, alignment) - (uintptr_t)P.heap;
    size_t whole = round_up(bytes, CACHE_LINE) + CACHE_LINE;
    if (at + whole > HEAP_BYTES) return NULL;
    P.used = at + whole;
    char *memory = P.heap + at;
    UNPOISON(memory, bytes);
    if (large)
        madvise(memory, round_up(whole, PAGE_BYTES), MADV_DONTNEED);
    else
        memset(memory, 0, bytes);
    uint32_t self = R.current->id;
    P.blocks[P.block_count++] = (struct block){(uintptr_t)memory, bytes, NULL, R.current->now->clock[self], self, false};
    POISON(memory + bytes, whole - bytes);
    return memory;
}

static void check_released_line(struct line *l) {
    uintptr_t address = l->key * CACHE_LINE;
    for (uint32_t i = 0; i < CACHE_LINE / 4; i++) check_granule(&l->granules[i], address + 4 * i, 15, true);
    check_locations(l, address, address + CACHE_LINE, true);
}

/* Cuts the block in which `address` lies in two there, unless one begins there. */
static void block_split(uintptr_t address) {
    struct block *b = block_of(address);
    if (b == NULL || b->address == address) return;
    if (P.block_count == BLOCKS_MAX) explore_fail(LIMIT "more than %d memory blocks", BLOCKS_MAX);
    struct block *behind = &P.blocks[P.block_count++];
    *behind = *b;
    behind->address = address;
    behind->bytes = b->address + b->bytes - address;
    b->bytes -= behind->bytes;
    struct line *l = b->lines, *next;
    b->lines = behind->lines = NULL;
    for (; l != NULL; l = next) {
        next = l->next_in_block;
        struct block *of = l->key * CACHE_LINE < address ? b : behind;
        l->block = of;
        l->next_in_block = of->lines;
        of->lines = l;
    }
}

static void block_end(struct block *b) {
    if (b->freed) explore_fail("memory released twice");
    if (!happened(b->thread, b->epoch)) fail_at("race: released before its making is visible", b->address, b->thread);
    for (struct line *l = b->lines; l != NULL; l = l->next_in_block) check_released_line(l);
    b->freed = true;
    b->thread = R.current->id;
    b->epoch = R.current->now->clock[b->thread];
    if (b->bytes <= FILL_MAX) memset((void *)b->address, FREED_BYTE, b->bytes);
    POISON((void *)b->address, b->bytes);
}

uint64_t explore_bytes_left(void) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < P.block_count; i++) bytes += P.blocks[i].freed ? 0 : P.blocks[i].bytes;
    return bytes;
}

/* bytes 0: all of the block. */
void block_free(void *memory, size_t bytes) {
    uintptr_t at = (uintptr_t)memory;
    struct block *b = block_of(at);
    if (b == NULL || (bytes == 0 && b->address != at)) explore_fail("release of memory that is not a block");
    if (bytes == 0) bytes = b->bytes;
    block_split(at);
    block_split(at + bytes);
    for (size_t done = 0; done < bytes; done += b->bytes) {
        b = block_of(at + done);
        if (b == NULL) explore_fail("unmapped %zu bytes, of which %zu are mapped", bytes, done);
        block_end(b);
    }
}

/* Makes what was unmapped right behind a block, as long as `wanted` asks for, memory again: zeros. false: there is no such, or the
 * thread does not know of its end. */
bool block_grow(void *memory, size_t bytes, size_t wanted) {
    struct block *b = block_of((uintptr_t)memory + bytes);
    if (b == NULL || !b->freed || b->address != (uintptr_t)memory + bytes || b->bytes != wanted - bytes) return false;
    if (!happened(b->thread, b->epoch)) return false;
    b->freed = false;
    b->thread = R.current->id;
    b->epoch = R.current->now->clock[b->thread];
    UNPOISON((void *)b->address, b->bytes);
    block_purge((void *)b->address, b->bytes);
    return true;
}

/* The pages read as zeros from now on; readers of atomic variables there may come late. */
void block_purge(void *memory, size_t bytes) {
    uintptr_t begin = (uintptr_t)memory, end = begin + bytes;
    struct block *b = block_of(begin);
    if (b == NULL || b->freed) explore_fail("purge of memory that is not a block");
    if (begin % CACHE_LINE != 0 || end % CACHE_LINE != 0) explore_fail("purge of parts of lines");
    if (P.purge_count == PURGES_MAX) explore_fail(LIMIT "more than %d purges", PURGES_MAX);
    struct purge *purge = &P.purges[P.purge_count++];
    *purge = (struct purge){begin, end, 0, R.current->id};
    for (struct line *l = b->lines; l != NULL; l = l->next_in_block) {
        uintptr_t address = l->key * CACHE_LINE;
        if (address < begin || address >= end) continue;
        for (uint32_t i = 0; i < CACHE_LINE / 4; i++) check_granule(&l->granules[i], address + 4 * i, 15, true);
        check_purge(l, address);
        for (uint32_t i = l->first_location; i != NO_LOCATION; i = model_location(i)->next_in_line)
            if (model_location(i)->address != 0) model_zero(i);
    }
    memset(memory, 0, bytes);
    purge->epoch = R.current->now->clock[R.current->id];
    for (struct line *l = b->lines; l != NULL; l = l->next_in_block)
        if (l->key * CACHE_LINE >= begin && l->key * CACHE_LINE < end) line_purged(l, purge);
}
