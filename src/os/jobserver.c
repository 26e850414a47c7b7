/* jobserver.c: the tokens that GNU make shares out to the programs that it starts: bytes in a pipe. Layer 1; the contracts are in
 * os.h. errno stays as it was.
 *
 * The pipe's file description belongs to make and to all its children: if it were made non-blocking here, it would be so for them. So
 * the pipe is opened anew, by its name in /proc or by its path, for a description of the process's own. That is open both ways: writing
 * never meets a pipe without a reader (SIGPIPE). A bell is a pipe, too: each has an inode of its own, by which it is known, while all
 * eventfds share one.
 *
 * A make that has ended takes its tokens along. It removes a named pipe then. The pipe that it leaves open to its children tells
 * nothing, for they have both ends; there who started this process has ended, which outlives the job that it was part of. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/os.h"

#define PATH_BYTES 4096u
#define LOOK_MS 1000 /* a program may close the files under who waits; nobody can wake it then */

/* What the last of these options says, as far as the next blank; of several the last counts. NULL: there is none. Variables come
 * after a word "--". */
static const char *option_in(const char *flags) {
    static const char *const names[] = {"--jobserver-auth=", "--jobserver-fds="};
    const char *value = NULL;
    for (const char *word = flags; *word != 0;) {
        size_t length = strcspn(word, " \t");
        if (length == 2 && strncmp(word, "--", 2) == 0) break;
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            if (strncmp(word, names[i], strlen(names[i])) == 0) value = word + strlen(names[i]);
        word += length;
        word += strspn(word, " \t");
    }
    return value;
}

/* Digits at *text, moved past them and past one `end`. -1: another text, or a number that no file has. */
static int parse_fd(const char **text, const char *ends) {
    int fd = 0;
    const char *at = *text;
    for (; *at >= '0' && *at <= '9'; at++) {
        fd = fd * 10 + (*at - '0');
        if (fd > 1000000) return -1;
    }
    if (at == *text || strchr(ends, *at) == NULL) return -1;
    *text = *at == 0 ? at : at + 1;
    return fd;
}

/* The standard streams' numbers stay free, whoever has closed those: what is printed is no token. */
static int beyond_standard(int fd) {
    if (fd < 0 || fd > STDERR_FILENO) return fd;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int error = errno;
    os_close(fd);
    errno = error;
    return moved;
}

/* false: there is none. */
static bool note(os_pipe *pipe, int fd, struct stat *found) {
    *pipe = (os_pipe){.fd = -1};
    if (fd < 0 || fstat(fd, found) != 0) return false;
    *pipe = (os_pipe){.fd = fd, .device = found->st_dev, .inode = found->st_ino};
    return true;
}

static int open_both_ways(const char *path, os_pipe *pipe) {
    struct stat found;
    int fd = beyond_standard((int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_NONBLOCK | O_CLOEXEC, 0));
    if (!note(pipe, fd, &found)) return errno;
    if (S_ISFIFO(found.st_mode)) return 0;
    os_close(fd);
    pipe->fd = -1;
    return EINVAL;
}

/* The pipe of a descriptor that is open. */
static int open_anew(int fd, os_pipe *pipe) {
    char path[32] = "/proc/self/fd/";
    size_t length = strlen(path);
    int scale = 1;
    while (fd / scale >= 10) scale *= 10;
    for (; scale > 0; scale /= 10) path[length++] = (char)('0' + fd / scale % 10);
    path[length] = 0;
    return open_both_ways(path, pipe);
}

/* The program may have closed it, and the number may be another file's. */
static bool is_open(const os_pipe *pipe, struct stat *found) {
    return pipe->fd >= 0 && fstat(pipe->fd, found) == 0 && found->st_dev == pipe->device && found->st_ino == pipe->inode;
}

/* Of the tokens: it is open, and their make has not ended. */
static bool is_served(const os_pipe *tokens) {
    struct stat found;
    if (!is_open(tokens, &found) || found.st_nlink == 0) return false;
    return tokens->parent == 0 || tokens->parent == (uint32_t)getppid();
}

/* Both are ends of one pipe, which this program was started with: such a descriptor is not closed at exec. A program that make did not
 * start as one of its own kind finds them closed, or something else there. */
static bool is_pipe(int from, int to) {
    struct stat reads, writes;
    int from_flags = fcntl(from, F_GETFL);
    int to_flags = fcntl(to, F_GETFL);
    if (from_flags < 0 || to_flags < 0 || fstat(from, &reads) != 0 || fstat(to, &writes) != 0) return false;
    return S_ISFIFO(reads.st_mode) && reads.st_dev == writes.st_dev && reads.st_ino == writes.st_ino &&
           (from_flags & O_ACCMODE) != O_WRONLY && (to_flags & O_ACCMODE) != O_RDONLY && fcntl(from, F_GETFD) == 0 &&
           fcntl(to, F_GETFD) == 0;
}

static int open_pipe(const char *text, os_pipe *tokens) {
    if (text[0] == '-') return EBADF; /* make tells so that they are not for this program */
    int from = parse_fd(&text, ",");
    int to = from < 0 ? -1 : parse_fd(&text, " \t");
    if (to < 0) return EINVAL;
    if (!is_pipe(from, to)) return EBADF;
    int error = open_anew(from, tokens);
    if (error == 0) tokens->parent = (uint32_t)getppid();
    return error;
}

static int open_fifo(const char *text, os_pipe *tokens) {
    char path[PATH_BYTES];
    size_t length = strcspn(text, " \t");
    if (length == 0 || length >= sizeof path) return EINVAL;
    memcpy(path, text, length);
    path[length] = 0;
    return open_both_ways(path, tokens);
}

bool os_jobserver_is_named(const char *flags) { return flags != NULL && option_in(flags) != NULL; }

int os_jobserver_open(const char *flags, os_pipe *tokens) {
    KEEP_ERRNO;
    const char *text = flags == NULL ? NULL : option_in(flags);
    *tokens = (os_pipe){.fd = -1};
    if (text == NULL) return ENOENT;
    return strncmp(text, "fifo:", 5) == 0 ? open_fifo(text + 5, tokens) : open_pipe(text, tokens);
}

bool os_jobserver_take(const os_pipe *tokens, unsigned char *token) {
    KEEP_ERRNO;
    long got = is_served(tokens) ? syscall(SYS_read, tokens->fd, token, 1) : 0;
    while (got < 0 && errno == EINTR) got = syscall(SYS_read, tokens->fd, token, 1);
    return got == 1;
}

static bool put(const os_pipe *pipe, unsigned char byte) {
    KEEP_ERRNO;
    struct stat found;
    long put = is_open(pipe, &found) ? syscall(SYS_write, pipe->fd, &byte, 1) : 0;
    while (put < 0 && errno == EINTR) put = syscall(SYS_write, pipe->fd, &byte, 1);
    return put == 1;
}

bool os_jobserver_give(const os_pipe *tokens, unsigned char token) { return put(tokens, token); }

bool os_jobserver_wait(const os_pipe *tokens, const os_pipe *bell, bool asks, uint64_t deadline_ns) {
    KEEP_ERRNO;
    struct stat found;
    struct pollfd files[] = {{bell->fd, POLLIN, 0}, {tokens->fd, POLLIN, 0}};
    uint64_t now = deadline_ns == 0 ? 0 : os_now_ns();
    uint64_t ms = deadline_ns == 0 ? LOOK_MS : deadline_ns > now ? (deadline_ns - now) / 1000000 + 1 : 0;
    if (!is_served(tokens) || !is_open(bell, &found)) return false;
    return poll(files, asks ? 2 : 1, (int)min_u64(ms, LOOK_MS)) >= 0 || errno == EINTR;
}

int os_bell_open(os_pipe *bell) {
    KEEP_ERRNO;
    int ends[2];
    *bell = (os_pipe){.fd = -1};
    if (pipe2(ends, O_CLOEXEC) != 0) return errno;
    int error = open_anew(ends[0], bell);
    os_close(ends[0]);
    os_close(ends[1]);
    return error;
}

/* One that is full of rings rings, too. */
void os_bell_ring(const os_pipe *bell) { (void)put(bell, 1); }

void os_bell_still(const os_pipe *bell) {
    KEEP_ERRNO;
    struct stat found;
    char rings[64];
    while (is_open(bell, &found) && syscall(SYS_read, bell->fd, rings, sizeof rings) == (long)sizeof rings) {}
}

void os_pipe_close(os_pipe *pipe) {
    KEEP_ERRNO;
    struct stat found;
    if (is_open(pipe, &found)) os_close(pipe->fd);
    pipe->fd = -1;
}
