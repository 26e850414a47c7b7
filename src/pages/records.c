/* records.c: see records.h. A record is a bit of its chunk while it is somebody's.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   E1  chunk_make: CAS chunks     release  E2  a chunk is looked at before it is made
 *   E2  mapping_chunks: load       acquire  E1  see E1
 *   E3  record_drop: used - bit    release  E4  the last user's writes to a record overwrite the next user's
 *   E4  record_in: CAS used        acquire  E3  see E3; split: two mappings have one record
 */
#include "pages/records.h"

#include <string.h>

_Static_assert(sizeof(struct chunk) <= SLOT_BYTES, "a chunk is a slot");

static PROCESS_STATE ATOMIC(struct chunk *) chunks;

static struct chunk *chunk_make(void) {
    struct slots got = depot_take(1);
    if (got.segment == NULL) return NULL;
    depot_soil(got);
    struct chunk *chunk = (struct chunk *)(void *)slot_start(got.segment, (unsigned)__builtin_ctzll(got.bits));
    if (got.dirty != 0) memset(chunk, 0, sizeof *chunk);
    struct chunk *newest = load_rlx(&chunks);
    do {
        store_rlx(&chunk->older, newest);
    } while (!cas_rel(E1, &chunks, &newest, chunk));
    return chunk;
}

static struct mapping *record_in(struct chunk *chunk) {
    for (unsigned i = 0; i < CHUNK_WORDS; i++) {
        uint64_t used = load_rlx(&chunk->used[i]);
        while (used != UINT64_MAX) {
            unsigned free = (unsigned)__builtin_ctzll(~used);
            if (cas_acq(E4, &chunk->used[i], &used, used | UINT64_C(1) << free)) return &chunk->records[i * 64 + free];
        }
    }
    return NULL;
}

struct chunk *mapping_chunks(void) {
    return load_acq(E2, &chunks);
}

struct mapping *record_take(void) {
    struct chunk *chunk = mapping_chunks();
    for (;;) {
        for (; chunk != NULL; chunk = load_rlx(&chunk->older)) {
            struct mapping *record = record_in(chunk);
            if (record != NULL) return record;
        }
        chunk = chunk_make();
        if (chunk == NULL) return NULL;
    }
}

void record_drop(struct mapping *record) {
    struct chunk *chunk = (struct chunk *)((uintptr_t)record & ~(uintptr_t)(SLOT_BYTES - 1));
    size_t index = (size_t)(record - chunk->records);
    store_rlx(&record->block, NULL);
    add_rel(E3, &chunk->used[index / 64], -(UINT64_C(1) << index % 64));
}
