/* worker.c: who works on a queue, and who has stopped to.
 *
 * A worker's file workers/ID has one line of constant length, written over in place: how often it has been renewed, and where
 * the process runs. Others look at whether the bytes change. So a line read half old, half new only says that its worker lives,
 * and a full disk does not keep a worker from renewing. It is opened, written and closed each time: over NFS that is what makes
 * it visible to who opens it later.
 *
 * A worker of the same boot and the same pid namespace is gone as soon as its process is, and, in the same time namespace too, as
 * soon as another process has its pid: start times are told by the reader's clock. Everybody else's silence has to last for the
 * lease, counted from when this process first saw it. */
#include "chunks.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HOST_BYTES 65
#define BOOT_BYTES 37
#define START_FIELD 22 /* of /proc/PID/stat, where the state is the third */

/* Where a process runs; a pid without its start time may be another process by now. */
struct home {
    char host[HOST_BYTES];
    char boot[BOOT_BYTES];
    uint64_t space; /* of pids */
    int64_t pid;
    uint64_t start; /* in the system's ticks */
    uint64_t clock; /* of times since the boot: the time namespace; 0: the kernel has none, or it is not known */
};

uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void name_of(uint64_t id, char name[NAME_BYTES]) { snprintf(name, NAME_BYTES, "%016" PRIx64, id); }

/* Bytes of a file's beginning; less than 0: errno. */
static ssize_t slurp(int directory, const char *name, char *text, size_t size) {
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t length;
    do length = read(fd, text, size - 1);
    while (length < 0 && errno == EINTR);
    int number = errno;
    close(fd);
    errno = number;
    if (length >= 0) text[length] = 0;
    return length;
}

/* ---- where a process runs ------------------------------------------------------------------------------------------ */

/* When it started; 0: it has ended, or /proc does not tell. */
static uint64_t start_of(int64_t pid) {
    char path[NAME_BYTES], text[1024];
    snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
    if (slurp(AT_FDCWD, path, text, sizeof text) < 0) return 0;
    const char *behind = strrchr(text, ')'); /* the name before may hold anything */
    if (behind == NULL) return 0;
    if (strlen(behind) < 3 || behind[2] == 'Z' || behind[2] == 'X') return 0;
    for (int field = 2; field < START_FIELD && behind != NULL; field++) behind = strchr(behind + 1, ' ');
    return behind == NULL ? 0 : strtoull(behind, NULL, 10);
}

static void home_here(struct home *home) {
    char boot[64] = "";
    struct stat space, clock;
    memset(home, 0, sizeof *home);
    if (gethostname(home->host, sizeof home->host - 1) != 0 || home->host[0] == 0) strcpy(home->host, "unknown");
    for (char *c = home->host; *c != 0; c++)
        if (*c == ' ' || *c == '\n') *c = '_';
    slurp(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    boot[strcspn(boot, "\n")] = 0;
    snprintf(home->boot, sizeof home->boot, "%.36s", boot[0] == 0 ? "-" : boot);
    home->space = stat("/proc/self/ns/pid", &space) == 0 ? space.st_ino : 0;
    home->clock = stat("/proc/self/ns/time", &clock) == 0 ? clock.st_ino : 0;
    home->pid = getpid();
    home->start = start_of(home->pid);
}

static int home_write(const struct home *home, uint64_t beat, char text[WORKER_BYTES]) {
    return snprintf(text, WORKER_BYTES,
                    "beat %020" PRIu64 " host %-64s boot %-36s space %020" PRIu64 " pid %010" PRId64 " start %020" PRIu64
                    " clock %020" PRIu64 "\n",
                    beat, home->host, home->boot, home->space, home->pid, home->start, home->clock);
}

/* The word behind `label`. */
static bool word_read(const char *text, const char *label, char *word, size_t size) {
    const char *found = strstr(text, label);
    if (found == NULL) return false;
    found += strlen(label);
    size_t length = strcspn(found, " \n");
    if (length == 0 || length >= size) return false;
    memcpy(word, found, length);
    word[length] = 0;
    return true;
}

static bool home_read(const char *text, struct home *home) {
    char space[24], pid[24], start[24], clock[24];
    if (!word_read(text, " host ", home->host, sizeof home->host) ||
        !word_read(text, " boot ", home->boot, sizeof home->boot))
        return false;
    if (!word_read(text, " space ", space, sizeof space) || !word_read(text, " pid ", pid, sizeof pid)) return false;
    if (!word_read(text, " start ", start, sizeof start)) return false;
    home->space = strtoull(space, NULL, 10);
    home->pid = strtoll(pid, NULL, 10);
    home->start = strtoull(start, NULL, 10);
    home->clock = word_read(text, " clock ", clock, sizeof clock) ? strtoull(clock, NULL, 10) : 0;
    return true;
}

/* Has a process that ran there ended for certain? */
static bool home_is_empty(const struct home *there) {
    struct home here;
    home_here(&here);
    if (here.space == 0 || here.space != there->space || strcmp(here.boot, there->boot) != 0 || here.boot[0] == '-')
        return false;
    if (kill((pid_t)there->pid, 0) != 0 && errno == ESRCH) return true;
    if (here.clock != there->clock) return false;
    uint64_t start = start_of(there->pid);
    return there->start != 0 && here.start != 0 && start != there->start && access("/proc/1/stat", R_OK) == 0;
}

/* ---- this worker --------------------------------------------------------------------------------------------------- */

int worker_beat(weft_chunks *queue) {
    char name[NAME_BYTES], text[WORKER_BYTES];
    struct home home;
    home_here(&home);
    name_of(queue->id, name);
    int length = home_write(&home, queue->beat + 1, text);
    int fd = openat(queue->workers, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return why_system("workers/%s cannot be opened", name);
    ssize_t put;
    do put = pwrite(fd, text, (size_t)length, 0);
    while (put < 0 && errno == EINTR);
    if (put >= 0 && put < length) errno = ENOSPC;
    int error = put == length ? WEFT_OK : why_system("workers/%s cannot be written", name);
    if (close(fd) != 0 && error == WEFT_OK) error = why_system("workers/%s cannot be written", name);
    if (error == WEFT_OK) queue->beat++;
    return error;
}

int worker_make(weft_chunks *queue) {
    if (getrandom(&queue->id, sizeof queue->id, 0) != (ssize_t)sizeof queue->id) return why_system("no random numbers");
    int error = worker_beat(queue), number = errno;
    bool is_refused = number == EROFS || number == EACCES || number == EPERM || number == ENOSPC || number == EDQUOT;
    return error != WEFT_OK && is_refused ? WEFT_OK : error;
}

int worker_appear(weft_chunks *queue) {
    pthread_mutex_lock(&queue->renewing);
    int error = queue->beat > 0 ? WEFT_OK : worker_beat(queue);
    pthread_mutex_unlock(&queue->renewing);
    return error;
}

int worker_remove(weft_chunks *queue) {
    char name[NAME_BYTES];
    name_of(queue->id, name);
    bool is_gone = unlinkat(queue->workers, name, 0) == 0 || errno == ENOENT;
    if (!is_gone && queue->beat > 0) return why_system("workers/%s cannot be removed", name);
    return WEFT_OK;
}

/* ---- others -------------------------------------------------------------------------------------------------------- */

static struct peer *peer_find(weft_chunks *queue, uint64_t id) {
    for (size_t i = 0; i < queue->peer_count; i++)
        if (queue->peers[i].id == id) return &queue->peers[i];
    struct peer *more = realloc(queue->peers, (queue->peer_count + 1) * sizeof *more);
    if (more == NULL) return NULL;
    queue->peers = more;
    more += queue->peer_count++;
    *more = (struct peer){.id = id, .changed_ns = now_ns()};
    return more;
}

int worker_expired(weft_chunks *queue, uint64_t id) {
    char name[NAME_BYTES], text[WORKER_BYTES] = "";
    struct home home;
    struct peer *peer = peer_find(queue, id);
    if (peer == NULL) return why(WEFT_ENOMEM, "no memory for the other workers");
    if (peer->gone) return WEFT_CHUNKS_LOST;
    name_of(id, name);
    ssize_t length = slurp(queue->workers, name, text, sizeof text);
    if (length < 0 && errno != ENOENT) return why_system("workers/%s cannot be read", name);
    uint64_t beat = length < 0 ? 0 : (uint64_t)text_check(text, (size_t)length, 0) + 1;
    if (length > 0 && home_read(text, &home) && home_is_empty(&home)) {
        peer->gone = true;
        return WEFT_CHUNKS_LOST;
    }
    uint64_t now = now_ns();
    if (beat != peer->beat) {
        peer->beat = beat;
        peer->changed_ns = now;
    }
    return now - peer->changed_ns > queue->plan.given.lease_ms * 1000000 ? WEFT_CHUNKS_LOST : WEFT_OK;
}

static int file_ms(int directory, const char *name, uint64_t *ms) {
    struct stat about;
    if (fstatat(directory, name, &about, AT_SYMLINK_NOFOLLOW) != 0) return WEFT_CHUNKS_SYSTEM;
    *ms = (uint64_t)about.st_mtim.tv_sec * 1000 + (uint64_t)about.st_mtim.tv_nsec / 1000000;
    return WEFT_OK;
}

/* By the time of the file system, as this worker's own file has it: it was renewed just before. */
void worker_describe(const weft_chunks *queue, uint64_t id, weft_chunk_info *info) {
    char name[NAME_BYTES], own[NAME_BYTES], claim[NAME_BYTES], text[WORKER_BYTES] = "";
    struct home home;
    uint64_t now, then;
    name_of(id, name);
    name_of(queue->id, own);
    snprintf(claim, sizeof claim, "%07zu.%u", info->chunk.index, info->chunk.record);
    snprintf(info->holder, sizeof info->holder, "%s", name);
    if (slurp(queue->workers, name, text, sizeof text) > 0 && home_read(text, &home))
        snprintf(info->holder, sizeof info->holder, "%s:%" PRId64, home.host, home.pid);
    if (file_ms(queue->workers, own, &now) != WEFT_OK) return;
    if (file_ms(queue->workers, name, &then) == WEFT_OK && now > then) info->silent_ms = now - then;
    if (file_ms(queue->records, claim, &then) == WEFT_OK && now > then) info->ms = now - then;
}
