/* files.c: opening, locking, reading, truncating and removing files; safe in signal handlers. Layer 1. errno stays as it was.
 *
 * Locks are open-file-description locks, as in lock_file.c: they exclude two copies of the library in one process, too, and the
 * kernel ends them with the last descriptor of an opening, thus with the process or its exec. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/os.h"
#include "os/text.h"

/* Sets errno. */
static int open_in(int directory, const char *path, int how) {
    return (int)syscall(SYS_openat, directory, path, O_CLOEXEC | how, 0666);
}

static int open_file(const char *path, int how) {
    KEEP_ERRNO;
    return open_in(AT_FDCWD, path, how);
}

/* Moves a descriptor above the three standard streams: if one of them is closed, a new file would be taken for it. */
static int above_streams(int fd) {
    if (fd < 0 || fd > STDERR_FILENO) return fd;
    int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    syscall(SYS_close, fd);
    return above;
}

/* The process's own streams are duplicated, not opened anew. Opening would truncate a file, or write from its beginning over
 * what the process writes there; and a socket (a service's log) cannot be opened at all. */
static int stream_of(const char *path) {
    return strcmp(path, "/dev/stderr") == 0 ? STDERR_FILENO : strcmp(path, "/dev/stdout") == 0 ? STDOUT_FILENO : -1;
}

static int open_to_write(const char *path, int how) {
    KEEP_ERRNO;
    int stream = stream_of(path);
    int fd = stream < 0 ? above_streams(open_file(path, O_WRONLY | O_CREAT | O_NONBLOCK | how))
                        : fcntl(stream, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (stream < 0 && fd >= 0) fcntl(fd, F_SETFL, how); /* blocking again: its reader may be slow */
    return fd;
}

int os_create(const char *path) { return open_to_write(path, O_TRUNC); }

int os_append(const char *path) { return open_to_write(path, O_APPEND); }

int os_open_directory(const char *path) {
    KEEP_ERRNO;
    return above_streams(open_file(path, O_PATH | O_DIRECTORY));
}

static bool is_regular(int fd) {
    struct stat found;
    return fstat(fd, &found) == 0 && S_ISREG(found.st_mode);
}

/* Not at once for both: a pipe's only reader would be this process itself. */
int os_append_and_read(const char *path) {
    KEEP_ERRNO;
    int fd = os_append(path);
    if (fd < 0 || stream_of(path) >= 0 || !is_regular(fd)) return fd;
    int both = above_streams(open_file(path, O_RDWR | O_APPEND | O_NOCTTY | O_NONBLOCK));
    if (both < 0) return fd;
    os_close(fd);
    return both;
}

int os_make_in(int directory, const char *name) {
    KEEP_ERRNO;
    int fd = open_in(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NONBLOCK);
    if (fd < 0) return errno == EEXIST ? OS_EXISTS : -1;
    fd = above_streams(fd);
    if (fd >= 0) fcntl(fd, F_SETFL, O_APPEND);
    return fd;
}

enum locked { LOCKED, OTHERS_LOCK, NO_LOCKS };

/* All of the file. */
static enum locked file_lock(int fd, short type) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
    int result;
    do result = fcntl(fd, F_OFD_SETLK, &lock);
    while (result != 0 && errno == EINTR);
    return result == 0 ? LOCKED : errno == EAGAIN || errno == EACCES ? OTHERS_LOCK : NO_LOCKS;
}

bool os_hold_made(int fd) {
    KEEP_ERRNO;
    struct stat own;
    enum locked locked = file_lock(fd, F_WRLCK);
    return locked == NO_LOCKS || (locked == LOCKED && (fstat(fd, &own) != 0 || own.st_nlink > 0));
}

/* Is it the file of that name, and has it one? */
static bool is_named(int fd, int directory, const char *name) {
    struct stat own, found;
    int other = open_in(directory, name, O_PATH | O_NOFOLLOW);
    bool is_same = other >= 0 && fstat(other, &found) == 0 && fstat(fd, &own) == 0 && S_ISREG(own.st_mode) &&
                   found.st_dev == own.st_dev && found.st_ino == own.st_ino;
    if (other >= 0) os_close(other);
    return is_same;
}

bool os_remove_left(int directory, const char *name) {
    KEEP_ERRNO;
    int fd = above_streams(open_in(directory, name, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK));
    if (fd < 0) return errno == ENOENT;
    bool is_left = is_regular(fd) && file_lock(fd, F_WRLCK) == LOCKED && is_named(fd, directory, name);
    if (is_left) os_remove_in(directory, name);
    is_left = is_left && !is_named(fd, directory, name); /* a directory may keep what is another user's */
    os_close(fd);
    return is_left;
}

#define LOOK_NS UINT64_C(1000000) /* a lock that ends wakes nobody who also looks at the clock */

bool os_lock_written(int fd, uint64_t deadline_ns) {
    KEEP_ERRNO;
    os_word never = {0};
    enum locked locked;
    while ((locked = file_lock(fd, F_WRLCK)) == OTHERS_LOCK && os_now_ns() < deadline_ns)
        os_wait(&never, 0, os_now_ns() + LOOK_NS);
    return locked != OTHERS_LOCK;
}

void os_unlock_written(int fd) {
    KEEP_ERRNO;
    (void)file_lock(fd, F_UNLCK);
}

int os_open(const char *path) { return open_file(path, O_RDONLY | O_NOCTTY | O_NONBLOCK); }

size_t os_read(int fd, void *to, size_t bytes) {
    KEEP_ERRNO;
    long got;
    do got = syscall(SYS_read, fd, to, bytes);
    while (got < 0 && errno == EINTR);
    return got > 0 ? (size_t)got : 0;
}

bool os_read_at(int fd, uint64_t offset, void *to, size_t bytes) {
    KEEP_ERRNO;
    char *at = to;
    while (bytes > 0) {
        long got = syscall(SYS_pread64, fd, at, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        at += got;
        offset += (uint64_t)got;
        bytes -= (size_t)got;
    }
    return bytes == 0;
}

size_t os_read_end(int fd, void *to, size_t bytes, uint64_t *size) {
    KEEP_ERRNO;
    struct stat found;
    *size = OS_NO_SIZE;
    if (fstat(fd, &found) != 0 || !S_ISREG(found.st_mode)) return 0;
    *size = (uint64_t)found.st_size;
    size_t count = (size_t)min_u64(*size, bytes);
    return os_read_at(fd, *size - count, to, count) ? count : 0;
}

static bool is_stream(int fd) {
    struct stat own, stream;
    if (fstat(fd, &own) != 0) return false;
    for (int i = STDOUT_FILENO; i <= STDERR_FILENO; i++)
        if (fstat(i, &stream) == 0 && own.st_dev == stream.st_dev && own.st_ino == stream.st_ino) return true;
    return false;
}

bool os_cut(int fd, uint64_t size) {
    KEEP_ERRNO;
    return !is_stream(fd) && ftruncate(fd, (off_t)size) == 0;
}

/* Fails for a terminal or a pipe, which is fine. */
void os_empty(int fd) { (void)os_cut(fd, 0); }

void os_close(int fd) {
    KEEP_ERRNO;
    syscall(SYS_close, fd);
}

void os_remove_in(int directory, const char *name) {
    KEEP_ERRNO;
    syscall(SYS_unlinkat, directory, name, 0);
}

/* The 22nd word of "1 (name) S ...", where the name may hold anything. */
#define WORDS_AFTER_NAME 20u

uint64_t os_process_start(void) {
    char line[1024];
    uint64_t start = 0;
    int fd = os_open("/proc/self/stat");
    if (fd < 0) return 0;
    size_t length = os_read(fd, line, sizeof line - 1);
    os_close(fd);
    line[length] = 0;
    const char *at = strrchr(line, ')');
    for (unsigned i = 0; at != NULL && i < WORDS_AFTER_NAME; i++) at = strchr(at + 1, ' ');
    if (at == NULL) return 0;
    at++;
    return digits_parse(&at, UINT64_MAX, &start) ? start : 0;
}
