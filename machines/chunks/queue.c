/* queue.c: making, opening and closing a queue; what can be asked of it. */
#include "chunks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Makes a directory and opens it. */
static int directory_make(int parent, const char *name, int *fd) {
    bool is_new = mkdirat(parent, name, 0777) == 0;
    if (!is_new && errno != EEXIST) return why_system("%s cannot be made", name);
    *fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *fd < 0 ? why_system("%s cannot be opened", name) : WEFT_OK;
}

int weft_chunks_create(const char *directory, const weft_chunks_plan *plan) {
    static const char *const inner[] = {"chunks", "workers"};
    if (directory == NULL) return why(WEFT_EINVAL, "no directory");
    int error = plan_check(plan);
    if (error != WEFT_OK) return error;
    int top = -1, fd = -1;
    error = directory_make(AT_FDCWD, directory, &top);
    if (error != WEFT_OK) return error;
    for (int i = 0; i < 2 && error == WEFT_OK; i++) {
        error = directory_make(top, inner[i], &fd);
        if (error == WEFT_OK) close(fd);
    }
    if (error == WEFT_OK) error = plan_write(top, plan);
    close(top);
    return error;
}

static int part_open(int parent, const char *name, int *fd) {
    *fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd < 0 && errno == ENOENT) return why(WEFT_CHUNKS_OTHER, "there is no directory %s", name);
    return *fd < 0 ? why_system("%s cannot be opened", name) : WEFT_OK;
}

static void queue_free(weft_chunks *queue) {
    const int fds[] = {queue->directory, queue->records, queue->workers};
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0) close(fds[i]);
    plan_end(&queue->plan);
    free(queue->marks);
    free(queue->peers);
    pthread_mutex_destroy(&queue->renewing);
    free(queue);
}

static int queue_fill(weft_chunks *queue, const char *directory) {
    int error = part_open(AT_FDCWD, directory, &queue->directory);
    if (error == WEFT_OK) error = plan_read(queue->directory, &queue->plan);
    if (error == WEFT_OK) error = part_open(queue->directory, "chunks", &queue->records);
    if (error == WEFT_OK) error = part_open(queue->directory, "workers", &queue->workers);
    if (error != WEFT_OK) return error;
    queue->marks = calloc(queue->plan.count, sizeof *queue->marks);
    if (queue->marks == NULL) return why(WEFT_ENOMEM, "no memory for %zu chunks", queue->plan.count);
    queue->limit = queue->plan.count;
    error = marks_scan(queue);
    if (error != WEFT_OK) return error;
    error = worker_make(queue);
    if (error != WEFT_OK) worker_remove(queue); /* half written */
    return error;
}

int weft_chunks_open(weft_chunks **queue, const char *directory) {
    if (queue == NULL || directory == NULL) return why(WEFT_EINVAL, "no directory, or nowhere to put the queue");
    *queue = NULL;
    weft_chunks *made = calloc(1, sizeof *made);
    if (made == NULL) return why(WEFT_ENOMEM, "no memory for the queue");
    made->directory = made->records = made->workers = -1;
    pthread_mutex_init(&made->renewing, NULL);
    int error = queue_fill(made, directory);
    if (error == WEFT_OK)
        *queue = made;
    else
        queue_free(made);
    return error;
}

/* What this worker still holds, as far as it knows. */
static int claims_release(weft_chunks *queue) {
    int result = WEFT_OK;
    for (size_t i = 0; i < queue->plan.count; i++) {
        const struct mark *mark = &queue->marks[i];
        if (mark->state != WEFT_CHUNK_HELD || mark->worker != queue->id) continue;
        const weft_chunk chunk = {.index = i, .record = mark->sound};
        int error = weft_chunks_release(queue, &chunk);
        if (error != WEFT_OK && error != WEFT_CHUNKS_LOST) result = error;
    }
    return result;
}

int weft_chunks_close(weft_chunks **queue) {
    if (queue == NULL || *queue == NULL) return why(WEFT_EINVAL, "no queue");
    int error = claims_release(*queue);
    int removed = worker_remove(*queue);
    queue_free(*queue);
    *queue = NULL;
    return error != WEFT_OK ? error : removed;
}

int weft_chunks_renew(weft_chunks *queue) {
    if (queue == NULL) return why(WEFT_EINVAL, "no queue");
    pthread_mutex_lock(&queue->renewing);
    int error = worker_beat(queue);
    pthread_mutex_unlock(&queue->renewing);
    return error;
}

size_t weft_chunks_count(const weft_chunks *queue) { return queue == NULL ? 0 : queue->plan.count; }

int weft_chunks_plan_of(const weft_chunks *queue, weft_chunks_plan *plan) {
    if (queue == NULL || plan == NULL || plan->struct_size != sizeof *plan) return why(WEFT_EINVAL, "no queue, or no plan");
    *plan = queue->plan.given;
    return WEFT_OK;
}

int weft_chunks_info(weft_chunks *queue, size_t index, weft_chunk_info *info) {
    if (queue == NULL || index >= queue->plan.count || info == NULL || info->struct_size != sizeof *info)
        return why(WEFT_EINVAL, "no queue, no such chunk, or nowhere to put what is known of it");
    const struct mark *mark = &queue->marks[index];
    *info = (weft_chunk_info){.struct_size = sizeof *info, .error = mark->error, .torn = mark->torn, .losses = mark->losses};
    info->state = (enum weft_chunk_state)mark->state;
    plan_chunk(&queue->plan, index, &info->chunk);
    info->chunk.record = mark->sound;
    info->chunk.tries = mark->fails;
    if (mark->state == WEFT_CHUNK_DONE) info->ms = (uint64_t)mark->value;
    if (mark->state != WEFT_CHUNK_HELD) return WEFT_OK;
    worker_describe(queue, mark->worker, info);
    return WEFT_OK;
}
