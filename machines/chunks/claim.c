/* claim.c: claiming, finishing, the outcome. Every step is one record appended behind the last one that was read; who is refused
 * reads on and decides again. */
#include "chunks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define REFUSALS 8 /* by chunks claimed meanwhile, until the whole directory is read anew */
#define CANCELLED "cancelled"

static int is_cancelled(weft_chunks *queue) {
    /* Opened, not asked for by name: over NFS a name's absence is cached. */
    int fd = openat(queue->directory, CANCELLED, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) return WEFT_OK;
    if (fd < 0) return why_system("%s cannot be opened", CANCELLED);
    close(fd);
    return why(WEFT_ECANCELED, "the queue was cancelled");
}

/* ---- claiming ------------------------------------------------------------------------------------------------------ */

static int claim_one(weft_chunks *queue, size_t index, weft_chunk *chunk) {
    struct mark *mark = &queue->marks[index];
    const struct record record = {KIND_HELD, queue->id, (int64_t)++queue->claims};
    uint32_t number = mark->last + 1;
    switch (record_append(queue->records, (struct place){index, number}, &record)) {
    case FOUND_RECORD: break;
    case FOUND_NONE: return mark_read(queue, index, number) == WEFT_OK ? WEFT_CHUNKS_BUSY : WEFT_CHUNKS_SYSTEM;
    default: return WEFT_CHUNKS_SYSTEM;
    }
    int error = mark_read(queue, index, number);
    if (error != WEFT_OK) return error;
    if (mark->worker != queue->id || mark->sound != number) return WEFT_CHUNKS_BUSY; /* taken over already */
    plan_chunk(&queue->plan, index, chunk);
    chunk->record = number;
    chunk->tries = mark->fails;
    chunk->since_ns = now_ns();
    mark->is_mine = true;
    return WEFT_OK;
}

/* The lowest chunk below `limit` that is free, or `limit`. */
static size_t next_free(weft_chunks *queue, size_t limit) {
    while (queue->hint < limit && queue->marks[queue->hint].state != WEFT_CHUNK_FREE) queue->hint++;
    return queue->hint < limit ? queue->hint : limit;
}

/* WEFT_CHUNKS_END: none is free, as far as this process knows. */
static int claim_free(weft_chunks *queue, weft_chunk *chunk) {
    for (unsigned refusals = 0;; refusals++) {
        if (refusals == REFUSALS) {
            int error = marks_scan(queue);
            if (error != WEFT_OK) return error;
            refusals = 0;
        }
        size_t limit = queue->limit;
        size_t index = next_free(queue, limit);
        if (index == limit) return WEFT_CHUNKS_END;
        int error = claim_one(queue, index, chunk);
        if (error != WEFT_CHUNKS_BUSY) return error;
    }
}

/* A claim of this very worker that it was told had failed is nobody's. */
static int holder_expired(weft_chunks *queue, uint64_t worker) {
    return worker == queue->id ? WEFT_CHUNKS_LOST : worker_expired(queue, worker);
}

/* Claims a chunk whose holder has vanished, or notes that it has failed: it may be what ends its workers. */
static int claim_lost(weft_chunks *queue, size_t index, weft_chunk *chunk) {
    struct mark *mark = &queue->marks[index];
    const struct record record = {KIND_FAIL, queue->id, EOWNERDEAD};
    if (mark->worker == queue->id || mark->losses + 1 < queue->plan.given.losses) return claim_one(queue, index, chunk);
    uint32_t number = mark->last + 1;
    if (record_append(queue->records, (struct place){index, number}, &record) == FOUND_ERROR) return WEFT_CHUNKS_SYSTEM;
    int error = mark_read(queue, index, number);
    return error == WEFT_OK ? WEFT_CHUNKS_BUSY : error;
}

/* WEFT_CHUNKS_BUSY: all that are held have a lease. WEFT_CHUNKS_END: none is held. */
static int claim_expired(weft_chunks *queue, weft_chunk *chunk) {
    int result = WEFT_CHUNKS_END;
    uint64_t asked = 0;
    int answer = WEFT_CHUNKS_END;
    for (size_t index = 0; index < queue->limit; index++) {
        const struct mark *mark = &queue->marks[index];
        if (mark->state != WEFT_CHUNK_HELD) continue;
        result = WEFT_CHUNKS_BUSY;
        if (mark->is_mine) continue;
        if (answer == WEFT_CHUNKS_END || mark->worker != asked) answer = holder_expired(queue, asked = mark->worker);
        if (answer == WEFT_OK) continue;
        if (answer != WEFT_CHUNKS_LOST) return answer;
        int error = claim_lost(queue, index, chunk);
        if (error != WEFT_CHUNKS_BUSY) return error;
    }
    return result;
}

int weft_chunks_claim(weft_chunks *queue, weft_chunk *chunk) {
    if (queue == NULL || chunk == NULL) return why(WEFT_EINVAL, "no queue, or nowhere to put the chunk");
    int error = is_cancelled(queue);
    if (error == WEFT_OK) error = worker_appear(queue);
    if (error == WEFT_OK) error = claim_free(queue, chunk);
    if (error != WEFT_CHUNKS_END) return error;
    error = marks_scan(queue);
    if (error == WEFT_OK) error = claim_free(queue, chunk);
    return error == WEFT_CHUNKS_END ? claim_expired(queue, chunk) : error;
}

/* ---- finishing ----------------------------------------------------------------------------------------------------- */

static bool chunk_is_known(const weft_chunks *queue, const weft_chunk *chunk) {
    return queue != NULL && chunk != NULL && chunk->index < queue->plan.count && chunk->record > 0;
}

/* Reads on first. */
static int chunk_is_mine(weft_chunks *queue, const weft_chunk *chunk) {
    const struct mark *mark = &queue->marks[chunk->index];
    int error = mark_read(queue, chunk->index, chunk->record);
    if (error != WEFT_OK) return error;
    if (mark->state == WEFT_CHUNK_HELD && mark->worker == queue->id && mark->sound == chunk->record) return WEFT_OK;
    return why(WEFT_CHUNKS_LOST, "chunk %zu is no longer this worker's: another one has taken it over", chunk->index);
}

int weft_chunks_check(weft_chunks *queue, const weft_chunk *chunk) {
    if (!chunk_is_known(queue, chunk)) return why(WEFT_EINVAL, "no queue, or no chunk of it");
    return chunk_is_mine(queue, chunk);
}

/* Appends `record` if the chunk is the caller's; or finds it appended by a call before. */
static int chunk_end(weft_chunks *queue, const weft_chunk *chunk, const struct record *record) {
    struct mark *mark = &queue->marks[chunk->index];
    for (;;) {
        int error = chunk_is_mine(queue, chunk);
        if (error != WEFT_OK) return error;
        uint32_t number = mark->last + 1;
        enum found found = record_append(queue->records, (struct place){chunk->index, number}, record);
        if (found == FOUND_ERROR) return WEFT_CHUNKS_SYSTEM;
        if (found == FOUND_RECORD) return mark_read(queue, chunk->index, number);
    }
}

/* Is the last record one by which this worker ended this very claim? Then only the sync was missing. */
static bool chunk_has_ended(weft_chunks *queue, const weft_chunk *chunk, enum kind kind) {
    const struct mark *mark = &queue->marks[chunk->index];
    return mark->worker == queue->id && mark->sound > chunk->record && mark->kind == kind;
}

int weft_chunks_finish(weft_chunks *queue, const weft_chunk *chunk, int error) {
    if (!chunk_is_known(queue, chunk)) return why(WEFT_EINVAL, "no queue, or no chunk of it");
    if (error < 0) return why(WEFT_EINVAL, "%d is no outcome of a chunk: 0, or a positive error", error);
    struct record record = {error == 0 ? KIND_DONE : KIND_FAIL, queue->id, error};
    if (error == 0) record.value = (int64_t)((now_ns() - chunk->since_ns) / 1000000);
    int result = chunk_end(queue, chunk, &record);
    if (result == WEFT_CHUNKS_LOST && chunk_has_ended(queue, chunk, record.kind)) result = WEFT_OK;
    if (result == WEFT_OK && fsync(queue->records) != 0) result = why_system("chunks cannot be synced");
    return result;
}

int weft_chunks_release(weft_chunks *queue, const weft_chunk *chunk) {
    if (!chunk_is_known(queue, chunk)) return why(WEFT_EINVAL, "no queue, or no chunk of it");
    const struct record record = {KIND_FREE, queue->id, 0};
    return chunk_end(queue, chunk, &record);
}

/* ---- the whole ----------------------------------------------------------------------------------------------------- */

int weft_chunks_read(weft_chunks *queue, size_t counts[4]) {
    if (queue == NULL) return why(WEFT_EINVAL, "no queue");
    int error = marks_scan(queue);
    if (error != WEFT_OK || counts == NULL) return error;
    memset(counts, 0, 4 * sizeof *counts);
    for (size_t i = 0; i < queue->plan.count; i++) counts[queue->marks[i].state]++;
    return WEFT_OK;
}

int weft_chunks_result(weft_chunks *queue) {
    int error = weft_chunks_read(queue, NULL);
    if (error != WEFT_OK) return error;
    for (size_t i = 0; i < queue->plan.count; i++) {
        const struct mark *mark = &queue->marks[i];
        if (mark->state == WEFT_CHUNK_FAILED && mark->losses >= queue->plan.given.losses)
            return why(mark->error, "chunk %zu has failed: its worker vanished %u times", i, mark->losses);
        if (mark->state == WEFT_CHUNK_FAILED) return why(mark->error, "chunk %zu has failed with %d", i, mark->error);
        if (mark->state == WEFT_CHUNK_DONE) continue;
        error = is_cancelled(queue);
        return error != WEFT_OK ? error : why(WEFT_CHUNKS_BUSY, "chunk %zu is not finished", i);
    }
    return WEFT_OK;
}

int weft_chunks_cancel(weft_chunks *queue) {
    if (queue == NULL) return why(WEFT_EINVAL, "no queue");
    int fd = openat(queue->directory, CANCELLED, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return why_system("%s cannot be made", CANCELLED);
    close(fd);
    return WEFT_OK;
}

int weft_chunks_retry(weft_chunks *queue) {
    int error = weft_chunks_read(queue, NULL);
    for (size_t i = 0; error == WEFT_OK && i < queue->plan.count; i++) {
        struct mark *mark = &queue->marks[i];
        const struct record record = {KIND_ANEW, queue->id, 0};
        while (error == WEFT_OK && mark->state == WEFT_CHUNK_FAILED) {
            uint32_t number = mark->last + 1;
            if (record_append(queue->records, (struct place){i, number}, &record) == FOUND_ERROR) return WEFT_CHUNKS_SYSTEM;
            error = mark_read(queue, i, number);
        }
    }
    if (error == WEFT_OK && unlinkat(queue->directory, CANCELLED, 0) != 0 && errno != ENOENT)
        error = why_system("%s cannot be removed", CANCELLED);
    return error;
}
