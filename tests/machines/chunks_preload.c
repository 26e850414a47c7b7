/* chunks_preload.c: calls of a worker that a file system may make wait or refuse. Loaded by LD_PRELOAD; what is asked is in the
 * environment:
 *
 *     WEFT_SYNC_UNTIL=FILE         fsync of a file begins when FILE is there
 *     WEFT_REFUSE=fsync:28:FILE    fsync of a file, or rename, fails with that errno, once: FILE is made then
 *     WEFT_STOP=FILE               the process stops itself (SIGSTOP) before a rename, once: FILE is made then
 *     WEFT_REFUSE_LINKS=FILE       symlinkat fails with EACCES while FILE is there */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int is_there(const char *name) { return name != NULL && access(name, F_OK) == 0; }

/* True for the first who asks. */
static int make_first(const char *name) {
    int fd = name == NULL ? -1 : open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

static int is_refused(const char *call) {
    const char *wish = getenv("WEFT_REFUSE");
    char name[32], file[512];
    int number;
    if (wish == NULL || sscanf(wish, "%31[^:]:%d:%511s", name, &number, file) != 3) return 0;
    if (strcmp(name, call) != 0 || !make_first(file)) return 0;
    errno = number;
    return 1;
}

int fsync(int fd) {
    static int (*real)(int);
    struct stat about;
    if (real == NULL) real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    const char *until = getenv("WEFT_SYNC_UNTIL");
    const struct timespec moment = {0, 10000000};
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) return real(fd);
    while (until != NULL && !is_there(until)) nanosleep(&moment, NULL);
    return is_refused("fsync") ? -1 : real(fd);
}

int rename(const char *from, const char *to) {
    static int (*real)(const char *, const char *);
    if (real == NULL) real = (int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename");
    if (make_first(getenv("WEFT_STOP"))) raise(SIGSTOP);
    return is_refused("rename") ? -1 : real(from, to);
}

int symlinkat(const char *text, int directory, const char *name) {
    static int (*real)(const char *, int, const char *);
    if (real == NULL) real = (int (*)(const char *, int, const char *))dlsym(RTLD_NEXT, "symlinkat");
    if (is_there(getenv("WEFT_REFUSE_LINKS"))) {
        errno = EACCES;
        return -1;
    }
    return real(text, directory, name);
}
