/* fault_calls.c: see fault_calls.h. */
#define _GNU_SOURCE
#include "fault_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "help.h"

#define CALL_NAME(name, text) text,
const char *const call_names[CALLS] = {CALL_LIST(CALL_NAME)};
#undef CALL_NAME

static struct {
    atomic_uint made[CALLS];
    atomic_uint struck;
    atomic_bool is_armed;
    atomic_uint arms;
    atomic_ullong ahead_ns;
    atomic_ullong last_ns;
} calls;

/* One for each time that calls were armed: threads may still read the last. */
static struct strike strikes[256];
static const struct strike *strike_now(void) { return &strikes[atomic_load(&calls.arms) % 256]; }

static struct {
    atomic_long blocks, threads, files, keys, forks_watched, mapped_bytes;
    atomic_uint by_wall_clock;
} counts;

void calls_arm(const struct strike *strike) {
    for (int i = 0; i < CALLS; i++) atomic_store(&calls.made[i], 0);
    unsigned arms = atomic_load(&calls.arms) + 1;
    strikes[arms % 256] = strike == NULL ? (struct strike){.call = CALLS} : *strike;
    atomic_store(&calls.arms, arms);
    atomic_store(&calls.struck, 0);
    atomic_store(&calls.is_armed, true);
}

unsigned calls_disarm(void) {
    atomic_store(&calls.is_armed, false);
    return atomic_load(&calls.struck);
}

unsigned calls_made(enum call call) { return atomic_load(&calls.made[call]); }

struct kept calls_kept(void) {
    return (struct kept){atomic_load(&counts.blocks), atomic_load(&counts.threads),       atomic_load(&counts.files),
                         atomic_load(&counts.keys),   atomic_load(&counts.forks_watched), atomic_load(&counts.mapped_bytes)};
}

unsigned calls_by_wall_clock(void) { return atomic_load(&counts.by_wall_clock); }

static bool is_struck(enum call call) {
    if (!atomic_load(&calls.is_armed)) return false;
    unsigned made = atomic_fetch_add(&calls.made[call], 1) + 1;
    bool now = strike_now()->call == call && made >= strike_now()->first && made <= strike_now()->last;
    if (now) atomic_fetch_add(&calls.struck, 1);
    return now;
}

/* The three calls that begin it, and two barriers. */
static bool barrier_is_gone(void) { return strike_now()->barrier_goes_too && atomic_load(&calls.made[CALL_BARRIER]) > 5; }

/* Of calls that return -1 and set errno. */
static bool fails(enum call call) {
    if (!is_struck(call)) return false;
    errno = strike_now()->error;
    return true;
}

/* Of those that return an error number. */
static int error_of(enum call call) { return is_struck(call) ? strike_now()->error : 0; }

/* ---- functions of the C library ----------------------------------------------------------------------------------- */

/* The names are the linker's choice. */
#define WRAPPED(type, name, ...)                                                                                            \
    type __real_##name(__VA_ARGS__);                                                                                        \
    type __wrap_##name(__VA_ARGS__);                                                                                        \
    type __wrap_##name(__VA_ARGS__)

WRAPPED(void *, malloc, size_t size) {
    void *memory = fails(CALL_MALLOC) ? NULL : __real_malloc(size);
    if (memory != NULL) atomic_fetch_add(&counts.blocks, 1);
    return memory;
}

WRAPPED(void, free, void *memory) {
    if (memory != NULL) atomic_fetch_sub(&counts.blocks, 1);
    __real_free(memory);
}

/* Its other arguments travel as those of a variadic function do on the machines that weft knows. */
void *__real_mmap(void *at, size_t bytes, ...);
void *__wrap_mmap(void *at, size_t bytes, ...);
void *__wrap_mmap(void *at, size_t bytes, ...) {
    va_list more;
    va_start(more, bytes);
    int protection = va_arg(more, int), flags = va_arg(more, int), fd = va_arg(more, int);
    off_t offset = va_arg(more, off_t);
    va_end(more);
    void *memory = fails(CALL_MAP) ? MAP_FAILED : __real_mmap(at, bytes, protection, flags, fd, offset);
    if (memory != MAP_FAILED) atomic_fetch_add(&counts.mapped_bytes, (long)bytes);
    return memory;
}

WRAPPED(int, munmap, void *memory, size_t bytes) {
    atomic_fetch_sub(&counts.mapped_bytes, (long)bytes);
    return fails(CALL_UNMAP) ? -1 : __real_munmap(memory, bytes);
}

WRAPPED(int, madvise, void *memory, size_t bytes, int advice) {
    return fails(CALL_ADVISE) ? -1 : __real_madvise(memory, bytes, advice);
}

/* mremap with MREMAP_FIXED takes the place of a mapping that is there: the old one goes, but with MREMAP_DONTUNMAP. */
#define STAYS 4 /* MREMAP_DONTUNMAP */
void *__real_mremap(void *old, size_t bytes, size_t wanted, int flags, ...);
void *__wrap_mremap(void *old, size_t bytes, size_t wanted, int flags, ...);
void *__wrap_mremap(void *old, size_t bytes, size_t wanted, int flags, ...) {
    va_list more;
    va_start(more, flags);
    void *to = (flags & MREMAP_FIXED) != 0 ? va_arg(more, void *) : NULL;
    va_end(more);
    if (fails(CALL_REMAP)) return MAP_FAILED;
    void *moved = __real_mremap(old, bytes, wanted, flags, to);
    if (moved != MAP_FAILED)
        atomic_fetch_add(&counts.mapped_bytes, (flags & STAYS) != 0 ? 0
                                               : to != NULL         ? -(long)bytes
                                                                    : (long)wanted - (long)bytes);
    return moved;
}

WRAPPED(int, mincore, void *memory, size_t bytes, unsigned char *states) {
    return fails(CALL_INCORE) ? -1 : __real_mincore(memory, bytes, states);
}

WRAPPED(int, mlock, const void *memory, size_t bytes) { return fails(CALL_LOCK) ? -1 : __real_mlock(memory, bytes); }

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*entry)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*entry)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*entry)(void *), void *argument) {
    int error = error_of(CALL_THREAD);
    if (error == 0) error = __real_pthread_create(thread, attr, entry, argument);
    if (error == 0) atomic_fetch_add(&counts.threads, 1);
    return error;
}

WRAPPED(int, pthread_join, pthread_t thread, void **result) {
    atomic_fetch_sub(&counts.threads, 1);
    return __real_pthread_join(thread, result);
}

WRAPPED(int, pthread_setspecific, pthread_key_t key, const void *value) {
    int error = error_of(CALL_SPECIFIC);
    return error != 0 ? error : __real_pthread_setspecific(key, value);
}

WRAPPED(int, pthread_key_create, pthread_key_t *key, void (*destructor)(void *)) {
    int error = error_of(CALL_KEY);
    if (error == 0) error = __real_pthread_key_create(key, destructor);
    if (error == 0) atomic_fetch_add(&counts.keys, 1);
    return error;
}

WRAPPED(int, pthread_atfork, void (*before)(void), void (*parent)(void), void (*child)(void)) {
    int error = error_of(CALL_ATFORK);
    if (error == 0) error = __real_pthread_atfork(before, parent, child);
    if (error == 0) atomic_fetch_add(&counts.forks_watched, 1);
    return error;
}

WRAPPED(int, pthread_attr_init, pthread_attr_t *attr) {
    int error = error_of(CALL_ATTR);
    return error != 0 ? error : __real_pthread_attr_init(attr);
}

#if defined(__GLIBC__)
WRAPPED(int, pthread_attr_setaffinity_np, pthread_attr_t *attr, size_t size, const cpu_set_t *set) {
    int error = error_of(CALL_ATTR_CPUS);
    return error != 0 ? error : __real_pthread_attr_setaffinity_np(attr, size, set);
}
#endif

WRAPPED(int, pthread_getattr_np, pthread_t thread, pthread_attr_t *attr) {
    int error = error_of(CALL_STACK);
    return error != 0 ? error : __real_pthread_getattr_np(thread, attr);
}

WRAPPED(int, sched_getaffinity, pid_t thread, size_t size, cpu_set_t *set) {
    return fails(CALL_GET_CPUS) ? -1 : __real_sched_getaffinity(thread, size, set);
}

WRAPPED(int, pthread_getaffinity_np, pthread_t thread, size_t size, cpu_set_t *set) {
    return fails(CALL_GET_CPUS) ? EINVAL : __real_pthread_getaffinity_np(thread, size, set);
}

WRAPPED(int, sched_setaffinity, pid_t thread, size_t size, const cpu_set_t *set) {
    return fails(CALL_SET_CPUS) ? -1 : __real_sched_setaffinity(thread, size, set);
}

WRAPPED(int, sched_getscheduler, pid_t thread) { return fails(CALL_GET_POLICY) ? -1 : __real_sched_getscheduler(thread); }

int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __wrap_sched_yield(void) { return fails(CALL_YIELD) ? -1 : __real_sched_yield(); }

int __real_prctl(int option, ...);
int __wrap_prctl(int option, ...);
int __wrap_prctl(int option, ...) {
    unsigned long words[4];
    va_list more;
    va_start(more, option);
    for (int i = 0; i < 4; i++) words[i] = va_arg(more, unsigned long);
    va_end(more);
    return fails(CALL_PRCTL) ? -1 : __real_prctl(option, words[0], words[1], words[2], words[3]);
}

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...) {
    va_list more;
    va_start(more, command);
    long value = va_arg(more, long); /* or a pointer */
    va_end(more);
    int result = fails(CALL_FCNTL) ? -1 : __real_fcntl(fd, command, value);
    if (result >= 0 && command == F_DUPFD_CLOEXEC) atomic_fetch_add(&counts.files, 1);
    return result;
}

WRAPPED(int, fstat, int fd, struct stat *file) { return fails(CALL_STAT) ? -1 : __real_fstat(fd, file); }

WRAPPED(int, ftruncate, int fd, off_t length) { return fails(CALL_TRUNCATE) ? -1 : __real_ftruncate(fd, length); }

int __real_getrusage(int who, struct rusage *usage);
int __wrap_getrusage(int who, struct rusage *usage);
int __wrap_getrusage(int who, struct rusage *usage) { return fails(CALL_USAGE) ? -1 : __real_getrusage(who, usage); }

/* ---- time --------------------------------------------------------------------------------------------------------- */

#define HOUR_NS UINT64_C(3600000000000)

static void clock_struck(struct timespec *now) {
    uint64_t ns = (uint64_t)now->tv_sec * 1000000000u + (uint64_t)now->tv_nsec, last = atomic_load(&calls.last_ns);
    if (is_struck(CALL_CLOCK)) {
        if (strike_now()->effect == EFFECT_AN_HOUR)
            atomic_store(&calls.ahead_ns, HOUR_NS);
        else if (last != 0)
            ns = last - atomic_load(&calls.ahead_ns);
    }
    ns += atomic_load(&calls.ahead_ns);
    atomic_store(&calls.last_ns, ns);
    *now = (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

WRAPPED(int, clock_gettime, clockid_t clock, struct timespec *now) {
    if (clock != CLOCK_MONOTONIC) atomic_fetch_add(&counts.by_wall_clock, 1);
    int result = __real_clock_gettime(clock, now);
    if (clock == CLOCK_MONOTONIC) clock_struck(now);
    return result;
}

/* ---- system calls ------------------------------------------------------------------------------------------------- */

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

/* How many words it takes; the caller has passed no more. */
static int words_of(long number) {
    switch (number) {
    case SYS_getpid:
    case SYS_gettid: return 0;
    case SYS_close: return 1;
    case SYS_futex: return 6;
    case SYS_openat:
    case SYS_pread64:
    case SYS_sched_getattr:
    case SYS_clock_nanosleep: return 4;
    default: return 3;
    }
}

static enum call call_of(long number, const long *words) {
    switch (number) {
    case SYS_membarrier: return CALL_BARRIER;
    case SYS_openat: return CALL_OPEN;
    case SYS_read: return CALL_READ;
    case SYS_pread64: return CALL_READ_AT;
    case SYS_write: return CALL_WRITE;
    case SYS_close: return CALL_CLOSE;
    case SYS_clock_nanosleep: return CALL_SLEEP;
    case SYS_sched_setattr: return CALL_SET_POLICY;
    case SYS_sched_getattr: return CALL_GET_SLICE;
    case SYS_futex: break;
    default: return CALLS;
    }
    int operation = (int)words[1] & FUTEX_CMD_MASK;
    return operation == FUTEX_WAIT_BITSET ? CALL_WAIT : operation == FUTEX_LOCK_PI ? CALL_LOCK_PI : CALLS;
}

static bool is_by_wall_clock(enum call call, const long *words) {
    if (call == CALL_SLEEP) return words[0] != CLOCK_MONOTONIC;
    return call == CALL_WAIT && (words[1] & FUTEX_CLOCK_REALTIME) != 0;
}

/* A wait without a deadline cannot find that it has passed, and one until a leapt clock's time would not end. */
static void wait_words(long *words, struct timespec *deadline) {
    uint64_t ahead_ns = atomic_load(&calls.ahead_ns);
    if (words[3] == 0 || ahead_ns == 0) return;
    const struct timespec *given = (const struct timespec *)(uintptr_t)words[3];
    uint64_t ns = (uint64_t)given->tv_sec * 1000000000u + (uint64_t)given->tv_nsec;
    ns = ns > ahead_ns ? ns - ahead_ns : 0;
    *deadline = (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    words[3] = (long)(uintptr_t)deadline;
}

static void count_file(enum call call, long result) {
    if (call == CALL_OPEN && result >= 0) atomic_fetch_add(&counts.files, 1);
    if (call == CALL_CLOSE) atomic_fetch_sub(&counts.files, 1);
}

long __wrap_syscall(long number, ...) {
    long words[6] = {0};
    struct timespec deadline;
    va_list more;
    va_start(more, number);
    for (int i = 0; i < words_of(number); i++) words[i] = va_arg(more, long);
    va_end(more);
    enum call call = call_of(number, words);
    if (is_by_wall_clock(call, words)) atomic_fetch_add(&counts.by_wall_clock, 1);
    bool has_no_deadline = call == CALL_WAIT && words[3] == 0 && strike_now()->error == ETIMEDOUT;
    if (call != CALLS && !has_no_deadline && is_struck(call)) {
        if (call == CALL_CLOSE) count_file(call, __real_syscall(number, words[0])); /* Linux closes it all the same */
        if (strike_now()->effect == EFFECT_NOTHING) return 0;
        if (strike_now()->effect == EFFECT_FAIL) errno = strike_now()->error;
        if (strike_now()->effect == EFFECT_FAIL) return -1;
        if (words[2] > 1) words[2] = 1;
    }
    if (call == CALL_BARRIER && atomic_load(&calls.is_armed) && barrier_is_gone()) {
        errno = EPERM;
        return -1;
    }
    if (call == CALL_WAIT) wait_words(words, &deadline);
    long result = __real_syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
    count_file(call, result);
    return result;
}

/* ---- the test's threads ------------------------------------------------------------------------------------------- */

pthread_t thread_begin(void *(*entry)(void *), void *argument) {
    pthread_t thread;
    REQUIRE(__real_pthread_create(&thread, NULL, entry, argument) == 0);
    return thread;
}

void thread_end(pthread_t thread) { REQUIRE(__real_pthread_join(thread, NULL) == 0); }
