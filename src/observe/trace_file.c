/* trace_file.c: the file that destroy writes (weft_config.trace): one timeline of all pools of the process that name it. Layer 7.
 *
 * The first pool writes a timeline as weft_trace_write does. Each further one cuts off what follows the last event, and writes its
 * own events and an end for all. An end has marks ("process", "process_start") by which a process knows that a file is its own;
 * another's is replaced. What cannot be read or cut, such as a pipe, gets one timeline after another.
 *
 * One thread writes at a time: of the process, by a lock here, because descriptors of one opening (the standard streams) share the
 * file's lock; of other processes and of other copies of the library, by the file's lock.
 *
 * In a directory each pool makes a file of its own, and no file is ever removed there: one of the same name may be a timeline of
 * another copy of the library, of what the process was before exec, or of another PID namespace. */
#include <string.h>

#include "observe/state.h"

#define END_BYTES 512u
#define LOCK_WAIT_NS UINT64_C(60000000000) /* a thread writes 2 million events in 6 s; longer, and the holder is stopped */

static PROCESS_STATE os_mutex writing;

void observer_forked(void) { writing = (os_mutex){0}; }

bool files_lock(int fd) {
    os_lock(&writing);
    if (os_lock_written(fd, os_now_ns() + LOCK_WAIT_NS)) return true;
    os_unlock(&writing);
    return false;
}

void files_unlock(int fd) {
    os_unlock_written(fd);
    os_unlock(&writing);
}

/* ---- what is in the file ------------------------------------------------------------------------------------------ */

struct found {
    struct joined joins;
    uint64_t cut; /* where the last event ends */
    char text[END_BYTES + 1];
    const char *end; /* in text: what follows the last event */
};

static bool number_of(const char *text, const char *name, uint64_t *number) {
    const char *at = strstr(text, name);
    if (at == NULL) return false;
    at += strlen(name);
    return digits_parse(&at, UINT64_MAX, number);
}

static const char *end_of(const char *text, size_t length) {
    for (size_t at = length; at > 1; at--)
        if (text[at - 2] == '\n' && text[at - 1] == ']') return text + at - 2;
    return NULL;
}

/* false: no timeline that this process has written, or the file cannot be read. */
static bool find_own(int fd, struct found *found) {
    uint64_t process = 0, start = 0, size;
    size_t length = os_read_end(fd, found->text, END_BYTES, &size);
    found->text[length] = 0;
    found->end = end_of(found->text, length);
    if (found->end == NULL || !number_of(found->end, "\"process\":", &process)) return false;
    if (process != os_process_id() || !number_of(found->end, "\"process_start\":", &start)) return false;
    found->cut = size - length + (uint64_t)(found->end - found->text);
    struct joined *joins = &found->joins;
    return start == os_process_start() && number_of(found->end, "\"pools\":", &joins->pools) &&
           number_of(found->end, "\"events_per_thread\":", &joins->events) &&
           number_of(found->end, "\"dropped\":", &joins->dropped) &&
           number_of(found->end, "\"monotonic_ns\":", &joins->since_ns) && joins->pools > 0;
}

/* ---- opening it --------------------------------------------------------------------------------------------------- */

/* What another process has left goes now, so that nobody takes it for this one's. If somebody writes now, it goes at the end. */
static void empty_of_others(int fd) {
    struct found found = {0};
    if (!os_try_lock(&writing)) return;
    if (os_lock_written(fd, 0)) {
        if (!find_own(fd, &found)) os_empty(fd);
        os_unlock_written(fd);
    }
    os_unlock(&writing);
}

static int open_in(int directory, const weft_pool *pool) {
    char name[FILE_NAME_BYTES];
    int fd = OS_EXISTS;
    for (uint32_t number = 1; fd == OS_EXISTS && number > 0; number++) {
        observe_file_name(pool, "trace", number, name);
        fd = os_make_in(directory, name);
    }
    return fd;
}

int trace_file_open(weft_pool *pool) {
    int *file = &observe_of_pool(pool)->trace.file;
    if (pool->config.trace == NULL) return WEFT_OK;
    if (!store_text(&pool->store, &pool->config.trace)) return WEFT_ENOMEM;
    int directory = os_open_directory(pool->config.trace);
    int fd = directory < 0 ? os_append_and_read(pool->config.trace) : open_in(directory, pool);
    if (directory >= 0) os_close(directory);
    if (fd < 0) return WEFT_EINVAL;
    if (directory < 0) empty_of_others(fd);
    *file = fd + 1;
    return WEFT_OK;
}

/* ---- writing it --------------------------------------------------------------------------------------------------- */

bool trace_file_write(const weft_pool *pool) {
    struct found found = {0};
    int fd = observe_of_pool(pool)->trace.file - 1;
    if (!files_lock(fd)) return false;
    bool joins = find_own(fd, &found) && os_cut(fd, found.cut);
    if (!joins) {
        os_empty(fd);
        found.joins.pools = 0;
    }
    bool is_written = timeline_write(pool, fd, &found.joins) == WEFT_OK;
    if (!is_written && joins && os_cut(fd, found.cut)) /* what the others have written stays a timeline */
        is_written = os_write(fd, found.end, strlen(found.end)) && is_written;
    files_unlock(fd);
    return is_written;
}
