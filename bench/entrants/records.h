/* records.h: memory for pools that take a pointer and leave the job's memory to the caller.
 *
 * There is one record per job of a batch. Records are handed out in order, and all are taken back at once when the batch is
 * over. That is the cheapest way for a caller of such a pool, and it allocates nothing after the first batch. One thread
 * uses it. */
#ifndef WEFT_BENCH_RECORDS_H
#define WEFT_BENCH_RECORDS_H

#include "../entrant.h"

#include <stdlib.h>
#include <string.h>

#define RECORDS_PER_CHUNK 4096u

struct record {
    entrant_fn fn;
    uint64_t unused; /* keeps the payload aligned to 16 */
};

struct records {
    char **chunks;
    size_t chunk_count;
    size_t next; /* index of the record handed out next */
    size_t record_size;
};

static inline void records_init(struct records *all, size_t head_size, size_t payload_max) {
    memset(all, 0, sizeof *all);
    all->record_size = (head_size + payload_max + 15u) & ~(size_t)15u;
}

static inline void *record_payload(struct record *record) { return record + 1; }

static inline int record_run(struct record *record) { return record->fn(record_payload(record), NULL); }

static inline int records_grow(struct records *all) {
    char **chunks = (char **)realloc(all->chunks, (all->chunk_count + 1) * sizeof *chunks);
    if (chunks == NULL) return -1;
    all->chunks = chunks;
    chunks[all->chunk_count] = (char *)aligned_alloc(64, (all->record_size * RECORDS_PER_CHUNK + 63u) & ~(size_t)63u);
    if (chunks[all->chunk_count] == NULL) return -1;
    all->chunk_count++;
    return 0;
}

/* The memory of the next free record; NULL: no memory. */
static inline void *records_take(struct records *all) {
    size_t chunk = all->next / RECORDS_PER_CHUNK;
    if (chunk == all->chunk_count && records_grow(all) != 0) return NULL;
    size_t offset = all->next++ % RECORDS_PER_CHUNK;
    return all->chunks[chunk] + offset * all->record_size;
}

/* A record that contains the job. */
static inline struct record *records_fill(struct records *all, entrant_fn fn, const void *payload, size_t size) {
    struct record *record = (struct record *)records_take(all);
    if (record == NULL) return NULL;
    record->fn = fn;
    memcpy(record_payload(record), payload, size);
    return record;
}

static inline void records_reset(struct records *all) { all->next = 0; }

static inline void records_free(struct records *all) {
    for (size_t i = 0; i < all->chunk_count; i++) free(all->chunks[i]);
    free(all->chunks);
}

#endif
