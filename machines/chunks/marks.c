/* marks.c: what this process has seen of each chunk's log. A log only grows, so what a mark says of the past stays true; that
 * it may be old is why only record_append decides. */
#include "chunks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GAP 16u /* records that may be missing in one place of a log */

/* With numbers of as many digits as names may have. */
static bool name_read(const char *name, struct place *place) {
    char *end;
    if (name[0] < '0' || name[0] > '9') return false;
    errno = 0;
    place->chunk = strtoul(name, &end, 10);
    if (end - name < 7 || end[0] != '.' || end[1] < '1' || end[1] > '9') return false;
    unsigned long number = strtoul(end + 1, &end, 10);
    place->number = (uint32_t)number;
    return *end == 0 && errno == 0 && number < UINT32_MAX;
}

/* The chunk has failed, or is to be tried anew. */
static void limit_move(weft_chunks *queue, size_t index, bool has_failed) {
    if ((queue->plan.given.flags & WEFT_CHUNKS_KEEP_GOING) != 0) return;
    if (has_failed && index < queue->limit) queue->limit = index;
    if (has_failed || index != queue->limit) return;
    while (queue->limit < queue->plan.count && queue->marks[queue->limit].state != WEFT_CHUNK_FAILED) queue->limit++;
}

static void mark_apply(weft_chunks *queue, size_t index, const struct record *record) {
    struct mark *mark = &queue->marks[index];
    const weft_chunks_plan *given = &queue->plan.given;
    /* Whoever held it has vanished: another one has it, or has noted that this was the last time. */
    bool is_taken = mark->state == WEFT_CHUNK_HELD && mark->worker != record->worker;
    if (is_taken && (record->kind == KIND_HELD || record->kind == KIND_FAIL)) mark->losses++;
    mark->sound = mark->last;
    mark->worker = record->worker;
    mark->value = record->value;
    mark->kind = (uint8_t)record->kind;
    mark->is_mine = false;
    mark->state = WEFT_CHUNK_FREE;
    if (record->kind == KIND_HELD) mark->state = WEFT_CHUNK_HELD;
    if (record->kind == KIND_DONE) mark->state = WEFT_CHUNK_DONE;
    if (record->kind == KIND_FAIL) {
        mark->error = (int32_t)record->value;
        if (!is_taken) mark->fails++;
        if (mark->fails >= given->tries || mark->losses >= given->losses) mark->state = WEFT_CHUNK_FAILED;
    }
    if (record->kind == KIND_ANEW) {
        mark->fails = mark->losses = 0;
        mark->error = 0;
    }
    limit_move(queue, index, mark->state == WEFT_CHUNK_FAILED);
    if (mark->state == WEFT_CHUNK_FREE && index < queue->hint) queue->hint = index;
}

/* A record that is missing below one that is there counts as torn, too. */
int mark_read(weft_chunks *queue, size_t index, uint32_t until) {
    struct mark *mark = &queue->marks[index];
    for (;;) {
        struct record record;
        enum found found = record_read(queue->records, (struct place){index, mark->last + 1}, &record);
        if (found == FOUND_ERROR) return WEFT_CHUNKS_SYSTEM;
        if (found == FOUND_NONE && mark->last >= until) return WEFT_OK;
        mark->last++;
        if (found == FOUND_RECORD)
            mark_apply(queue, index, &record);
        else
            mark->torn++;
    }
}

/* A name far beyond the log's end tells of a longer log only if it is a record: the name of a backup, say, is not. */
static int name_follow(weft_chunks *queue, struct place place) {
    struct record record;
    enum found found = FOUND_RECORD;
    if (place.number - queue->marks[place.chunk].last > GAP) found = record_read(queue->records, place, &record);
    if (found == FOUND_ERROR) return WEFT_CHUNKS_SYSTEM;
    return found == FOUND_RECORD ? mark_read(queue, place.chunk, place.number) : WEFT_OK;
}

int marks_scan(weft_chunks *queue) {
    /* Opened anew: over NFS that is when a client asks whether the directory has changed. */
    int fd = openat(queue->directory, "chunks", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *names = fd < 0 ? NULL : fdopendir(fd);
    if (names == NULL) {
        int error = why_system("chunks cannot be listed");
        if (fd >= 0) close(fd);
        return error;
    }
    int error = WEFT_OK;
    struct dirent *entry;
    while (error == WEFT_OK && (errno = 0, entry = readdir(names)) != NULL) {
        struct place place;
        if (!name_read(entry->d_name, &place) || place.chunk >= queue->plan.count) continue;
        if (place.number > queue->marks[place.chunk].last) error = name_follow(queue, place);
    }
    if (error == WEFT_OK && errno != 0) error = why_system("chunks cannot be listed");
    closedir(names);
    return error;
}
