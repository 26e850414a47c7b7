/* memory.c: memory at addresses that are the same in each run: costs may not hang on where the system puts things. What is
 * given back is given out again, best fit; its pages go meanwhile. */
#define _GNU_SOURCE
#include "engine.h"

#include <string.h>
#include <sys/mman.h>

enum { PAGE_SHIFT = 12, HOLES_MAX = 65536 };

static struct {
    uintptr_t end; /* of what was ever given out */
    struct hole {
        uintptr_t address;
        size_t bytes;
    } holes[HOLES_MAX];
    uint32_t count;
    uint8_t *touched; /* a bit for each page */
} S;

void memory_init(void) {
    void *arena = mmap((void *)ARENA_BASE, ARENA_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    S.touched = mmap(NULL, ARENA_BYTES >> PAGE_SHIFT >> 3, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena != (void *)ARENA_BASE || S.touched == MAP_FAILED) sim_die("no address space for the memory");
    S.end = ARENA_BASE;
}

static void *take(struct hole *hole, uintptr_t start, size_t bytes) {
    struct hole rest = {start + bytes, hole->address + hole->bytes - (start + bytes)};
    hole->bytes = start - hole->address;
    if (hole->bytes == 0) *hole = S.holes[--S.count];
    if (rest.bytes > 0) {
        if (S.count == HOLES_MAX) sim_die("memory in more than %d holes", HOLES_MAX);
        S.holes[S.count++] = rest;
    }
    lines_forget(start, bytes);
    return (void *)start;
}

void *memory_get(size_t bytes, size_t alignment) {
    struct hole *best = NULL;
    bytes = round_up(bytes, (size_t)1 << PAGE_SHIFT);
    for (uint32_t i = 0; i < S.count; i++) {
        struct hole *hole = &S.holes[i];
        uintptr_t start = round_up(hole->address, alignment);
        if (start + bytes > hole->address + hole->bytes) continue;
        if (best == NULL || hole->bytes < best->bytes || (hole->bytes == best->bytes && hole->address < best->address))
            best = hole;
    }
    if (best != NULL) return take(best, round_up(best->address, alignment), bytes);
    uintptr_t start = round_up(S.end, alignment);
    if (start + bytes > ARENA_BASE + ARENA_BYTES) return NULL;
    if (start > S.end && S.count < HOLES_MAX) S.holes[S.count++] = (struct hole){S.end, start - S.end};
    S.end = start + bytes;
    return (void *)start;
}

void memory_purge(void *memory, size_t bytes) {
    uintptr_t page = (uintptr_t)memory - ARENA_BASE;
    madvise(memory, bytes, MADV_DONTNEED);
    for (uintptr_t end = page + bytes; page < end; page += (uintptr_t)1 << PAGE_SHIFT) {
        uintptr_t number = page >> PAGE_SHIFT;
        S.touched[number >> 3] &= (uint8_t) ~(1u << (number & 7));
    }
    lines_forget((uintptr_t)memory, bytes);
}

/* Beside holes that it touches it becomes one with them. */
void memory_put(void *memory, size_t bytes) {
    struct hole freed = {(uintptr_t)memory, round_up(bytes, (size_t)1 << PAGE_SHIFT)};
    memory_purge(memory, freed.bytes);
    for (uint32_t i = 0; i < S.count;) {
        struct hole *hole = &S.holes[i];
        bool before = hole->address + hole->bytes == freed.address, behind = freed.address + freed.bytes == hole->address;
        if (!before && !behind) {
            i++;
            continue;
        }
        if (before) freed.address = hole->address;
        freed.bytes += hole->bytes;
        *hole = S.holes[--S.count];
    }
    if (S.count == HOLES_MAX) sim_die("memory in more than %d holes", HOLES_MAX);
    S.holes[S.count++] = freed;
}

bool memory_first_touch(uintptr_t address) {
    uintptr_t number = (address - ARENA_BASE) >> PAGE_SHIFT;
    uint8_t bit = (uint8_t)(1u << (number & 7));
    if (S.touched[number >> 3] & bit) return false;
    S.touched[number >> 3] |= bit;
    return true;
}
