/* files.c: opening, reading, truncating and removing files; safe in signal handlers. Layer 1. errno stays as it was. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/os.h"

static int open_in(int directory, const char *path, int how) {
    KEEP_ERRNO;
    return (int)syscall(SYS_openat, directory, path, O_CLOEXEC | how, 0666);
}

static int open_file(const char *path, int how) { return open_in(AT_FDCWD, path, how); }

/* Moves a descriptor above the three standard streams: if one of them is closed, a new file would be taken for it. */
static int above_streams(int fd) {
    if (fd < 0 || fd > STDERR_FILENO) return fd;
    int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    syscall(SYS_close, fd);
    return above;
}

/* The process's own streams are duplicated, not opened anew. Opening would truncate a file, or write from its beginning over
 * what the process writes there; and a socket (a service's log) cannot be opened at all. */
static int open_to_write(const char *path, int how) {
    KEEP_ERRNO;
    int stream = strcmp(path, "/dev/stderr") == 0 ? STDERR_FILENO : strcmp(path, "/dev/stdout") == 0 ? STDOUT_FILENO : -1;
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

int os_append_in(int directory, const char *name) {
    KEEP_ERRNO;
    int fd = above_streams(open_in(directory, name, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK));
    if (fd >= 0) fcntl(fd, F_SETFL, O_APPEND);
    return fd;
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

static bool is_stream(int fd) {
    struct stat own, stream;
    if (fstat(fd, &own) != 0) return false;
    for (int i = STDOUT_FILENO; i <= STDERR_FILENO; i++)
        if (fstat(i, &stream) == 0 && own.st_dev == stream.st_dev && own.st_ino == stream.st_ino) return true;
    return false;
}

void os_empty(int fd) {
    KEEP_ERRNO;
    if (is_stream(fd) || ftruncate(fd, 0) != 0) return; /* fails for a terminal or a pipe, which is fine */
}

void os_close(int fd) {
    KEEP_ERRNO;
    syscall(SYS_close, fd);
}

void os_remove_in(int directory, const char *name) {
    KEEP_ERRNO;
    syscall(SYS_unlinkat, directory, name, 0);
}
