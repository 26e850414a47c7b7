/* lock_file.c: a file whose bytes processes lock, and hear of each other's locks. Layer 1; the contracts are in os.h. errno stays as it was.
 *
 * The locks are open-file-description locks (F_OFD_SETLK). They belong to what open() made: two copies of the library in one process,
 * each with its own, exclude each other, and closing another descriptor of the same file does not end them, as it would end POSIX
 * locks. The kernel ends them with the last descriptor, thus with the process, whatever ends it. A forked child has a copy of the
 * descriptor, and closes it before it does anything else (os_lock_file_forked), also one that was forked while this file was being
 * opened: then it may have to look for the descriptor. A child that was made otherwise (_Fork, clone) keeps the locks until it ends
 * or calls exec.
 *
 * Which file. All programs of a user have to find the same one. $XDG_RUNTIME_DIR is not set below cron, su and many batch systems,
 * and some programs would have a file of their own. So it is /dev/shm/weft-lease-UID, or, where that directory is not there or
 * takes no files, the same name in /tmp; not for another reason, which may be one only for this program. Anybody may make a file
 * there: one that is another user's, a link, or no regular file is refused. The file stays empty.
 *
 * Hearing. The kernel tells nobody that a lock has ended. So who gives something back sets the file's times, which inotify reports
 * (IN_ATTRIB; a write would need space and could raise SIGXFSZ). A process that ends closes the file (IN_CLOSE_WRITE). The kernel
 * reports that before it drops the locks: who heard it looks again after 1, 4 and 16 ms, too. Without inotify one looks
 * every 10 ms. A user has 128 of its instances by default, for all programs. So one is opened only by a process that waits, and that
 * has locked one of SLOTS bytes. It stays open until the file is closed: to close an instance takes the kernel 10 to 20 ms.
 *
 * The program may close the descriptors of this file, and another file may get the number: see jobserver.c. All inotify descriptors
 * share one inode; /proc/self/fdinfo has the inode that one watches, which is looked at before each read and close. If it cannot be
 * looked at, because too many files are open, the watch is kept and left alone, and one looks every 10 ms meanwhile. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/os.h"
#include "os/text.h"

#define PATH_BYTES 64u
#define LOOK_MS 1000                         /* longest sleep: the program may close the files that the sleeper waits for */
#define DEAF_MS 10u                          /* without a watch */
#define SOON 3u                              /* looks after what was heard, after 1, 4, 16 ms */
#define SLOTS_FIRST (OS_LOCK_FILE_BYTES + 1) /* bytes: who has locked one may have a watch */
#define SLOTS 32u
#define NS_OF_MS UINT64_C(1000000)
#define OPENING (-2) /* the file's descriptor, while its number is not known */
#define FLAGS (O_RDWR | O_NOFOLLOW | O_NONBLOCK)
#define OPENED_MAX 65536 /* the greatest number that a forked child looks at */

/* ---- locks -------------------------------------------------------------------------------------------------------- */

/* false: another's lock is in the way, or it failed. */
static bool lock_apply(os_lock_file *file, int command, struct flock *lock) {
    int result;
    do result = fcntl(file->file.fd, command, lock);
    while (result != 0 && errno == EINTR);
    if (result != 0 && errno != EAGAIN && errno != EACCES) file->has_failed = true;
    return result == 0;
}

static struct flock lock_of(uint32_t byte, short type) {
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
}

void os_lock_file_check(os_lock_file *file) {
    if (!os_pipe_is_open(&file->file)) file->has_failed = true;
}

bool os_lock_file_hold(os_lock_file *file, uint32_t byte, bool with_others) {
    KEEP_ERRNO;
    struct flock lock = lock_of(byte, with_others ? F_RDLCK : F_WRLCK);
    return !file->has_failed && lock_apply(file, F_OFD_SETLK, &lock);
}

void os_lock_file_drop(os_lock_file *file, uint32_t byte) {
    KEEP_ERRNO;
    struct flock lock = lock_of(byte, F_UNLCK);
    if (!file->has_failed) (void)lock_apply(file, F_OFD_SETLK, &lock);
}

/* The kernel names any one lock in a range; the others are on its two sides. */
uint32_t os_lock_file_count(os_lock_file *file, uint32_t first, uint32_t bytes) {
    KEEP_ERRNO;
    struct range {
        off_t from, to;
    } ranges[OS_LOCK_FILE_COUNT + 1] = {{first, (off_t)first + bytes}};
    uint32_t left = 1, count = 0;
    while (left > 0 && count < OS_LOCK_FILE_COUNT && !file->has_failed) {
        struct range range = ranges[--left];
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = range.from, .l_len = range.to - range.from};
        if (range.from == range.to || !lock_apply(file, F_OFD_GETLK, &lock) || lock.l_type == F_UNLCK) continue;
        off_t from = lock.l_start < range.from ? range.from : lock.l_start;
        off_t to = lock.l_len == 0 || lock.l_start + lock.l_len > range.to ? range.to : lock.l_start + lock.l_len;
        count += (uint32_t)(to - from);
        ranges[left++] = (struct range){range.from, from};
        if (left <= OS_LOCK_FILE_COUNT) ranges[left++] = (struct range){to, range.to};
    }
    return (uint32_t)min_u64(count, OS_LOCK_FILE_COUNT);
}

/* ---- opening ------------------------------------------------------------------------------------------------------ */

/* Of a file that was opened. 0, or why it is not to be used. */
static int examine(os_lock_file *file) {
    struct stat found;
    struct flock probe = lock_of(OS_LOCK_FILE_BYTES, F_RDLCK);
    if (fstat(file->file.fd, &found) != 0) return errno;
    if (!S_ISREG(found.st_mode)) return EINVAL;
    if (found.st_uid != geteuid()) return EPERM;
    if ((found.st_mode & 0600) != 0600 && fchmod(file->file.fd, 0600) != 0) return errno; /* new, by an odd umask */
    file->file.device = found.st_dev;
    file->file.inode = found.st_ino;
    if (!lock_apply(file, F_OFD_SETLK, &probe)) return errno;
    probe.l_type = F_UNLCK;
    return lock_apply(file, F_OFD_SETLK, &probe) ? 0 : errno;
}

static int open_path(const char *path, os_lock_file *file) {
    int how = O_CREAT | O_NOCTTY | O_CLOEXEC | FLAGS;
    *file = (os_lock_file){.file = {.fd = OPENING}, .watch = -1};
    file->file.fd = os_beyond_standard((int)syscall(SYS_openat, AT_FDCWD, path, how, 0600));
    if (file->file.fd < 0) return errno;
    int error = examine(file);
    if (error != 0) os_close(file->file.fd);
    if (error != 0) *file = (os_lock_file){.file = {.fd = -1}, .watch = -1};
    return error;
}

static int open_in(const char *directory, os_lock_file *file) {
    char path[PATH_BYTES];
    struct text text = {.to = path, .size = sizeof path, .fd = TEXT_TO_MEMORY};
    text_format(&text, "%s/weft-lease-%u", directory, (uint32_t)geteuid());
    text_end(&text);
    return open_path(path, file);
}

int os_lock_file_open(const char *path, os_lock_file *file) {
    KEEP_ERRNO;
    if (path != NULL) return open_path(path, file);
    int error = open_in("/dev/shm", file);
    bool takes_files = error != ENOENT && error != ENOTDIR && error != EROFS;
    return takes_files || open_in("/tmp", file) != 0 ? error : 0;
}

/* ---- hearing ------------------------------------------------------------------------------------------------------ */

static void fd_path(char path[PATH_BYTES], const char *directory, int fd) {
    struct text text = {.size = PATH_BYTES, .fd = TEXT_TO_MEMORY};
    text.to = path;
    text_format(&text, "/proc/self/%s/%u", directory, (uint32_t)fd);
    text_end(&text);
}

enum owner { OTHERS, OWN, UNKNOWN };

/* Whose the number of this library's watch is now: "inotify wd:1 ino:3f sdev:...". Unknown: the process has too many files open. */
static enum owner watch_owner(const os_lock_file *file) {
    char path[PATH_BYTES], info[512], wanted[PATH_BYTES];
    struct text text = {.to = wanted, .size = sizeof wanted, .fd = TEXT_TO_MEMORY};
    if (file->watch < 0) return OTHERS;
    fd_path(path, "fdinfo", file->watch);
    int fd = os_open(path);
    if (fd < 0) return fcntl(file->watch, F_GETFD) < 0 ? OTHERS : UNKNOWN;
    size_t length = os_read(fd, info, sizeof info);
    os_close(fd);
    text_put_hex(&text, file->file.inode);
    text_put(&text, " sdev:");
    text_end(&text);
    wanted[0] = 'o', wanted[1] = ':'; /* in place of 0x */
    bool is_own = memmem(info, length, wanted, strlen(wanted)) != NULL && memmem(info, length, "inotify wd:", 11) != NULL;
    return is_own ? OWN : OTHERS;
}

/* For good. */
static void give_up_watch(os_lock_file *file) {
    file->watch = -1;
    file->has_no_watch = true;
    os_lock_file_drop(file, file->slot);
}

static bool slot_take(os_lock_file *file) {
    file->slot = SLOTS_FIRST;
    while (file->slot < SLOTS_FIRST + SLOTS && !os_lock_file_hold(file, file->slot, false)) file->slot++;
    return file->slot < SLOTS_FIRST + SLOTS;
}

/* Without a free slot it tries again later. */
static void listen_to(os_lock_file *file) {
    char path[PATH_BYTES];
    if (file->watch >= 0 || file->has_no_watch) return;
    file->is_deaf = true;
    if (!slot_take(file)) return;
    file->watch = os_beyond_standard(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    fd_path(path, "fd", file->file.fd);
    bool listens = file->watch >= 0 && inotify_add_watch(file->watch, path, IN_ATTRIB | IN_CLOSE_WRITE) >= 0;
    file->is_deaf = !listens || watch_owner(file) != OWN;
    if (!file->is_deaf) return;
    if (file->watch >= 0) os_close(file->watch);
    give_up_watch(file);
}

static bool is_readable(int fd) {
    struct pollfd watch = {fd, POLLIN, 0};
    return poll(&watch, 1, 0) > 0;
}

bool os_lock_file_heard(os_lock_file *file) {
    KEEP_ERRNO;
    char events[1024];
    bool has_heard = false;
    if (file->has_failed) return false;
    listen_to(file);
    if (file->watch < 0 || !is_readable(file->watch)) return false;
    enum owner owner = watch_owner(file);
    file->is_deaf = owner != OWN;
    if (owner == OTHERS) give_up_watch(file);
    if (owner != OWN) return owner == OTHERS;
    while (syscall(SYS_read, file->watch, events, sizeof events) > 0) has_heard = true;
    if (has_heard) file->soon = SOON;
    return has_heard;
}

void os_lock_file_tell(os_lock_file *file) {
    KEEP_ERRNO;
    if (!file->has_failed) (void)futimens(file->file.fd, NULL);
}

uint64_t os_lock_file_look_ns(os_lock_file *file) {
    if (file->soon == 0 && !file->is_deaf) return 0;
    uint64_t ms = file->soon == 0 ? DEAF_MS : UINT64_C(1) << 2 * (SOON - file->soon--);
    return os_now_ns() + ms * NS_OF_MS;
}

bool os_lock_file_wait(const os_lock_file *file, const os_pipe *bell, bool asks, uint64_t deadline_ns) {
    KEEP_ERRNO;
    struct pollfd files[] = {{bell->fd, POLLIN, 0},
                             {file->is_deaf ? -1 : file->watch, POLLIN, 0}}; /* a negative one is left out */
    uint64_t now = deadline_ns == 0 ? 0 : os_now_ns();
    uint64_t ms = deadline_ns == 0 ? LOOK_MS : deadline_ns > now ? (deadline_ns - now) / NS_OF_MS + 1 : 0;
    if (!os_pipe_is_open(&file->file) || !os_pipe_is_open(bell)) return false;
    return poll(files, asks ? 2 : 1, (int)min_u64(ms, LOOK_MS)) >= 0 || errno == EINTR;
}

void os_lock_file_close(os_lock_file *file) {
    os_pipe_close(&file->file); /* first: so there is a descriptor to look at the watch with */
    if (watch_owner(file) == OWN) os_close(file->watch);
    file->watch = -1;
}

/* Opened as this file opens them, by this library or perhaps by another copy, which closes its own, too. */
static bool is_lock_file(int fd) {
    struct stat found;
    if ((fcntl(fd, F_GETFL) & (FLAGS | O_ACCMODE)) != FLAGS || fcntl(fd, F_GETFD) != FD_CLOEXEC) return false;
    return fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && found.st_uid == geteuid();
}

static void close_lock_file(int fd) {
    if (is_lock_file(fd)) os_close(fd);
}

void os_lock_file_forked(os_lock_file *file) {
    KEEP_ERRNO;
    if (file->file.fd == OPENING)
        for (int fd = STDERR_FILENO + 1; fd < OPENED_MAX; fd++) close_lock_file(fd);
    if (file->file.fd <= STDERR_FILENO) return;
    if (!os_pipe_is_open(&file->file)) close_lock_file(file->file.fd); /* not examined yet */
    os_lock_file_close(file);
}
