/* jobserver.c: the tokens that GNU make shares out to the programs that it starts: bytes in a pipe. Layer 1; the contracts are in
 * os.h. errno stays as it was.
 *
 * The pipe's file description belongs to make and to all its children: if it were made non-blocking here, it would be so for them. So
 * the pipe is opened anew, by its name in /proc or by its path, for a description of the process's own. That is open both ways: writing
 * never meets a pipe without a reader (SIGPIPE). */
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

static bool note(struct os_jobserver_file *file, int fd) {
    struct stat found;
    bool is_pipe = fstat(fd, &found) == 0 && S_ISFIFO(found.st_mode);
    *file = (struct os_jobserver_file){fd, found.st_dev, found.st_ino};
    return is_pipe;
}

static int open_both_ways(const char *path, os_jobserver *server) {
    int fd = beyond_standard((int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_NONBLOCK | O_CLOEXEC, 0));
    if (fd < 0) return errno;
    if (note(&server->tokens, fd)) return 0;
    os_close(fd);
    server->tokens.fd = -1;
    return EINVAL;
}

/* The program may have closed it, and the number may be another file's. */
static bool is_open(const struct os_jobserver_file *file) {
    struct stat found;
    return file->fd >= 0 && fstat(file->fd, &found) == 0 && found.st_dev == file->device && found.st_ino == file->inode;
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

static int open_pipe(const char *text, os_jobserver *server) {
    if (text[0] == '-') return EBADF; /* make tells so that they are not for this program */
    int from = parse_fd(&text, ",");
    int to = from < 0 ? -1 : parse_fd(&text, " \t");
    if (to < 0) return EINVAL;
    if (!is_pipe(from, to)) return EBADF;
    char path[32] = "/proc/self/fd/";
    size_t length = strlen(path);
    int scale = 1;
    while (from / scale >= 10) scale *= 10;
    for (; scale > 0; scale /= 10) path[length++] = (char)('0' + from / scale % 10);
    path[length] = 0;
    return open_both_ways(path, server);
}

static int open_fifo(const char *text, os_jobserver *server) {
    char path[PATH_BYTES];
    size_t length = strcspn(text, " \t");
    if (length == 0 || length >= sizeof path) return EINVAL;
    memcpy(path, text, length);
    path[length] = 0;
    return open_both_ways(path, server);
}

bool os_jobserver_is_named(const char *flags) { return flags != NULL && option_in(flags) != NULL; }

static int open_bell(os_jobserver *server) {
    int ends[2];
    if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) return errno;
    int from = beyond_standard(ends[0]);
    int to = beyond_standard(ends[1]);
    if (note(&server->rings, from) && note(&server->ringer, to)) return 0;
    return EMFILE;
}

int os_jobserver_open(const char *flags, os_jobserver *server) {
    int saved = errno;
    const char *text = flags == NULL ? NULL : option_in(flags);
    *server = (os_jobserver){{-1, 0, 0}, {-1, 0, 0}, {-1, 0, 0}};
    int error = ENOENT;
    if (text != NULL) error = strncmp(text, "fifo:", 5) == 0 ? open_fifo(text + 5, server) : open_pipe(text, server);
    if (error == 0) error = open_bell(server);
    if (error != 0) os_jobserver_close(server);
    errno = saved;
    return error;
}

static bool take_byte(const struct os_jobserver_file *file, unsigned char *byte) {
    long got = is_open(file) ? syscall(SYS_read, file->fd, byte, 1) : 0;
    while (got < 0 && errno == EINTR) got = syscall(SYS_read, file->fd, byte, 1);
    return got == 1;
}

static bool put_byte(const struct os_jobserver_file *file, unsigned char byte) {
    long put = is_open(file) ? syscall(SYS_write, file->fd, &byte, 1) : 0;
    while (put < 0 && errno == EINTR) put = syscall(SYS_write, file->fd, &byte, 1);
    return put == 1;
}

bool os_jobserver_take(const os_jobserver *server, unsigned char *token) {
    int saved = errno;
    bool has_one = take_byte(&server->tokens, token);
    errno = saved;
    return has_one;
}

bool os_jobserver_give(const os_jobserver *server, unsigned char token) {
    int saved = errno;
    bool is_given = put_byte(&server->tokens, token);
    errno = saved;
    return is_given;
}

bool os_jobserver_wait(const os_jobserver *server, uint64_t deadline_ns) {
    int saved = errno;
    unsigned char ring;
    struct pollfd files[] = {{server->tokens.fd, POLLIN, 0}, {server->rings.fd, POLLIN, 0}};
    uint64_t now = deadline_ns == 0 ? 0 : os_now_ns();
    uint64_t ms = deadline_ns == 0 ? LOOK_MS : deadline_ns > now ? (deadline_ns - now) / 1000000 + 1 : 0;
    bool works = is_open(&server->tokens) && is_open(&server->rings);
    if (works) works = poll(files, 2, (int)min_u64(ms, LOOK_MS)) >= 0 || errno == EINTR;
    while (works && take_byte(&server->rings, &ring)) {}
    errno = saved;
    return works;
}

void os_jobserver_kick(const os_jobserver *server) {
    int saved = errno;
    (void)put_byte(&server->ringer, 0);
    errno = saved;
}

static void close_file(struct os_jobserver_file *file) {
    if (is_open(file)) os_close(file->fd);
    file->fd = -1;
}

void os_jobserver_close(os_jobserver *server) {
    int saved = errno;
    close_file(&server->tokens);
    close_file(&server->rings);
    close_file(&server->ringer);
    errno = saved;
}
