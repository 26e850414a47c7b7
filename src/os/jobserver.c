/* jobserver.c: the tokens that GNU make shares among the programs it starts: bytes in a pipe. Layer 1; the contracts are in os.h.
 * errno stays as it was.
 *
 * The pipe's file description belongs to make and all its children: O_NONBLOCK set on it here would be set for all of them. So the
 * pipe is opened anew, by its number in /proc or by its path, which gives this process a description of its own. It is open for
 * reading and writing, so a write never finds a pipe without a reader (SIGPIPE). A bell is a pipe, too: each pipe has its own inode, by
 * which it is recognized; all eventfds share one.
 *
 * Whose pipe. A named pipe is found by its path. For the form R,W, numbers are all that MAKEFLAGS has, and make up to 4.3 leaves them
 * there for programs whose descriptors it has closed: this program's first pipe, or its parent's, may have just these numbers. So the
 * numbers count only if this process has its ends from make. It has if each process from its parent up to one that was started
 * without these numbers in its environment has the same pipe at the same numbers: that one made the pipe, and named it to the
 * others. A program that made a pipe at these numbers, when it had been told that they are make's, is not that one, and its parent
 * does not have that pipe. Where an ancestor is gone or may not be looked at, the pipe is refused.
 *
 * The program may close the descriptors of this file, and another file may get the number. So the inode is compared before each read,
 * write and close. If the number changes hands after the comparison, that is not seen.
 *
 * The end of make. make removes a named pipe. Other pipes stay open, because the children hold both ends. There the parent of this
 * process stands for make: once it has ended, the job that this process was part of is over. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/os.h"
#include "os/text.h"

#define PATH_BYTES 4096u
#define LOOK_MS 1000      /* longest sleep: the program may close the files that the sleeper waits for */
#define ANCESTORS_MAX 256 /* looked at */
#define PROC_PATH_BYTES 64

/* Up to the next blank that make has not escaped by a \. */
static size_t word_length(const char *word) {
    size_t length = 0;
    while (word[length] != 0 && strchr(" \t", word[length]) == NULL)
        length += word[length] == '\\' && word[length + 1] != 0 ? 2 : 1;
    return length;
}

/* The value of the last of these options, up to the word's end. NULL: there is none. What follows a word "--" are variables. */
static const char *option_in(const char *flags) {
    static const char *const names[] = {"--jobserver-auth=", "--jobserver-fds="};
    const char *value = NULL;
    for (const char *word = flags; *word != 0;) {
        size_t length = word_length(word);
        if (length == 2 && strncmp(word, "--", 2) == 0) break;
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            if (strncmp(word, names[i], strlen(names[i])) == 0) value = word + strlen(names[i]);
        word += length;
        word += strspn(word, " \t");
    }
    return value;
}

/* The numbers of the standard streams stay free if those are closed: otherwise printed text would become tokens. */
int os_beyond_standard(int fd) {
    if (fd < 0 || fd > STDERR_FILENO) return fd;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int error = errno;
    os_close(fd);
    errno = error;
    return moved;
}

static int open_both_ways(const char *path, os_pipe *pipe) {
    struct stat found;
    int fd = os_beyond_standard((int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_NONBLOCK | O_CLOEXEC, 0));
    *pipe = (os_pipe){.fd = -1};
    if (fd < 0 || fstat(fd, &found) != 0) return errno;
    if (!S_ISFIFO(found.st_mode)) {
        os_close(fd);
        return EINVAL;
    }
    *pipe = (os_pipe){.fd = fd, .device = found.st_dev, .inode = found.st_ino};
    return 0;
}

/* /proc/PROCESS/name and, unless it is negative, /NUMBER. process 0: this one. */
static void proc_path(char path[PROC_PATH_BYTES], uint32_t process, const char *name, int number) {
    struct text text = {.to = path, .size = PROC_PATH_BYTES, .fd = TEXT_TO_MEMORY};
    text_format(&text, "/proc/");
    if (process == 0) text_format(&text, "self");
    if (process != 0) text_format(&text, "%u", process);
    text_format(&text, "/%s", name);
    if (number >= 0) text_format(&text, "/%u", (uint32_t)number);
    text_end(&text);
}

/* The pipe of an open descriptor. */
static int open_anew(int fd, os_pipe *pipe) {
    char path[PROC_PATH_BYTES];
    proc_path(path, 0, "fd", fd);
    return open_both_ways(path, pipe);
}

/* false: the program has closed it, and the number may be another file's. */
static bool is_open(const os_pipe *pipe, struct stat *found) {
    return pipe->fd >= 0 && fstat(pipe->fd, found) == 0 && found->st_dev == pipe->device && found->st_ino == pipe->inode;
}

bool os_pipe_is_open(const os_pipe *pipe) {
    KEEP_ERRNO;
    struct stat found;
    return is_open(pipe, &found);
}

/* Of the tokens: they are open, and their make has not ended. */
static bool is_served(const os_pipe *tokens) {
    struct stat found;
    if (!is_open(tokens, &found) || found.st_nlink == 0) return false;
    return tokens->parent == 0 || tokens->parent == (uint32_t)getppid();
}

/* ---- the form R,W ------------------------------------------------------------------------------------------------- */

struct ends {
    int from, to; /* R and W */
    struct stat pipe;
};

/* false: not two numbers. */
static bool parse_ends(const char *text, struct ends *ends) {
    uint64_t from, to;
    if (!digits_parse(&text, INT_MAX, &from) || *text++ != ',' || !digits_parse(&text, INT_MAX, &to)) return false;
    *ends = (struct ends){.from = (int)from, .to = (int)to};
    return strchr(" \t", *text) != NULL; /* or at the text's end */
}

/* They are the two ends of one pipe in this process. */
static bool ends_are_pipe(struct ends *ends) {
    struct stat to;
    int from_flags = fcntl(ends->from, F_GETFL);
    int to_flags = fcntl(ends->to, F_GETFL);
    if (from_flags < 0 || to_flags < 0 || fstat(ends->from, &ends->pipe) != 0 || fstat(ends->to, &to) != 0) return false;
    return S_ISFIFO(to.st_mode) && ends->pipe.st_dev == to.st_dev && ends->pipe.st_ino == to.st_ino &&
           (from_flags & O_ACCMODE) != O_WRONLY && (to_flags & O_ACCMODE) != O_RDONLY;
}

/* That process has the same pipe at this number. */
static bool has_end(uint32_t process, const struct ends *ends, int number) {
    char path[PROC_PATH_BYTES];
    struct stat found;
    proc_path(path, process, "fd", number);
    return stat(path, &found) == 0 && found.st_dev == ends->pipe.st_dev && found.st_ino == ends->pipe.st_ino;
}

/* That process was started with these numbers in its environment, or it cannot be told. */
static bool was_told(uint32_t process, const struct ends *ends) {
    static const char *const names[] = {"auth", "fds"};
    char text[4096], words[2][PROC_PATH_BYTES];
    size_t kept = 0, got;
    bool is_told = false;
    for (int i = 0; i < 2; i++) {
        struct text word = {.to = words[i], .size = sizeof words[i], .fd = TEXT_TO_MEMORY};
        text_format(&word, "--jobserver-%s=%u,%u", names[i], (uint32_t)ends->from, (uint32_t)ends->to);
        text_end(&word);
    }
    proc_path(text, process, "environ", -1);
    int fd = os_open(text);
    if (fd < 0) return true;
    while (!is_told && (got = os_read(fd, text + kept, sizeof text - kept)) > 0) {
        size_t length = kept + got;
        for (int i = 0; i < 2; i++) is_told |= memmem(text, length, words[i], strlen(words[i])) != NULL;
        kept = min_u64(length, sizeof words[0]); /* a word may go on in what is read next */
        memmove(text, text + length - kept, kept);
    }
    os_close(fd);
    return is_told;
}

/* 0: it has none, or it cannot be told. */
static uint32_t parent_of(uint32_t process) {
    char text[512];
    proc_path(text, process, "stat", -1);
    int fd = os_open(text);
    if (fd < 0) return 0;
    text[os_read(fd, text, sizeof text - 1)] = 0;
    os_close(fd);
    const char *at = strrchr(text, ')'); /* "7 (name) S 1": the name may have anything in it */
    uint64_t parent = 0;
    if (at == NULL || strlen(at) < 5) return 0;
    at += 4;
    return digits_parse(&at, UINT32_MAX, &parent) ? (uint32_t)parent : 0;
}

/* This process has these ends from the make that named them (see above). */
static bool ends_are_makes(const struct ends *ends) {
    uint32_t process = (uint32_t)getppid();
    for (int i = 0; i < ANCESTORS_MAX && process != 0; i++) {
        bool is_told = was_told(process, ends);
        if (!has_end(process, ends, ends->from) || !has_end(process, ends, ends->to)) return false;
        if (!is_told) return true;
        process = parent_of(process);
    }
    return false;
}

static int open_pipe(const char *text, os_pipe *tokens) {
    struct ends ends;
    if (text[0] == '-') return EBADF; /* by negative numbers make says that they are not for this program */
    if (!parse_ends(text, &ends)) return EINVAL;
    if (!ends_are_pipe(&ends) || !ends_are_makes(&ends)) return EBADF;
    int error = open_anew(ends.from, tokens);
    if (error == 0) tokens->parent = (uint32_t)getppid();
    return error;
}

static int open_fifo(const char *text, os_pipe *tokens) {
    char path[PATH_BYTES];
    size_t length = word_length(text), to = 0;
    if (length == 0 || length >= sizeof path) return EINVAL;
    for (size_t from = 0; from < length; from++) {
        if (text[from] == '\\' && from + 1 < length) from++;
        path[to++] = text[from];
    }
    path[to] = 0;
    return open_both_ways(path, tokens);
}

/* ---- tokens and bells --------------------------------------------------------------------------------------------- */

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

/* A pipe that is full of rings still rings. */
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
