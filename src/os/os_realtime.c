/* os_realtime.c: real time: how the system schedules a thread, and memory that stays. Layer 1; the contracts are in os.h. */
#define _GNU_SOURCE
#include "os/os.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- scheduling --------------------------------------------------------------------------------------------------- */

#define KERNEL_DEADLINE 6       /* SCHED_DEADLINE */
#define KERNEL_RESET_ON_FORK 1u /* SCHED_FLAG_RESET_ON_FORK */

/* struct sched_attr of the kernel, which glibc has no name for before 2.41. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

int os_policy_apply(const os_policy *policy) {
    static const uint32_t kernel[] = {SCHED_OTHER, SCHED_FIFO, SCHED_RR, KERNEL_DEADLINE};
    struct attributes wish = {.size = sizeof wish,
                              .policy = kernel[policy->kind],
                              .flags = KERNEL_RESET_ON_FORK,
                              .priority = policy->priority,
                              .runtime = policy->runtime_ns,
                              .deadline = policy->deadline_ns,
                              .period = policy->period_ns};
    KEEP_ERRNO;
    return syscall(SYS_sched_setattr, 0, &wish, 0u) == 0 ? 0 : errno;
}

/* sched_getattr's flags and fields suit sched_setattr. A kernel without slices returns 0 for `runtime`. */
static int attributes_get(struct attributes *now) {
    *now = (struct attributes){.size = sizeof *now};
    if (syscall(SYS_sched_getattr, 0, now, sizeof *now, 0u) != 0) return errno;
    if (now->policy != SCHED_OTHER && now->policy != SCHED_BATCH) return EINVAL;
    now->size = sizeof *now;
    return now->runtime == 0 ? EOPNOTSUPP : 0;
}

int os_slice_get(uint64_t *slice_ns) {
    struct attributes now;
    KEEP_ERRNO;
    int error = attributes_get(&now);
    *slice_ns = error == 0 ? now.runtime : 0;
    return error;
}

/* Without SCHED_FLAG_RESET_ON_FORK: an unprivileged thread that has it may no longer choose a class, not even SCHED_IDLE. So the
 * thread's children inherit the slice. */
int os_slice_set(uint64_t slice_ns) {
    struct attributes now;
    KEEP_ERRNO;
    int error = attributes_get(&now);
    now.runtime = slice_ns;
    if (error == 0 && syscall(SYS_sched_setattr, 0, &now, 0u) != 0) error = errno;
    return error;
}

bool os_policy_is_real_time(void) {
    KEEP_ERRNO;
    int policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
    return policy == SCHED_FIFO || policy == SCHED_RR || policy == KERNEL_DEADLINE;
}

int os_cpu_bind(uint32_t cpu) {
    os_cpuset one = {{0}};
    if (cpu >= OS_CPUS_MAX) return EINVAL;
    one.bits[cpu / 64] = UINT64_C(1) << cpu % 64;
    KEEP_ERRNO;
    return sched_setaffinity(0, sizeof one, (const cpu_set_t *)&one) == 0 ? 0 : errno;
}

/* The number in a file that holds just one; `otherwise` if it cannot be read. */
static int64_t read_number(const char *path, int64_t otherwise) {
    char text[32];
    uint64_t number;
    int fd = os_open(path);
    text[fd < 0 ? 0 : os_read(fd, text, sizeof text - 1)] = 0;
    if (fd >= 0) os_close(fd);
    const char *digits = text + (text[0] == '-');
    if (!digits_parse(&digits, INT64_MAX, &number)) return otherwise;
    return text[0] == '-' ? -(int64_t)number : (int64_t)number;
}

#define RUNTIME_US_DEFAULT 950000
#define PERIOD_US_DEFAULT 1000000

uint64_t os_real_time_share(uint64_t *period_ns) {
    KEEP_ERRNO;
    int64_t runtime_us = read_number("/proc/sys/kernel/sched_rt_runtime_us", RUNTIME_US_DEFAULT);
    int64_t period_us = read_number("/proc/sys/kernel/sched_rt_period_us", PERIOD_US_DEFAULT);
    if (runtime_us < 0 || period_us <= 0 || runtime_us >= period_us) return 0;
    *period_ns = (uint64_t)period_us * 1000;
    return max_u64((uint64_t)runtime_us, 1) * 1000;
}

/* ---- errors ----------------------------------------------------------------------------------------------------- */

const char *os_error_name(int error) {
    switch (error) {
    case EPERM: return "EPERM";
    case EINVAL: return "EINVAL";
    case EBUSY: return "EBUSY";
    case EAGAIN: return "EAGAIN";
    case EACCES: return "EACCES";
    case EBADF: return "EBADF";
    case EMFILE: return "EMFILE";
    case ENFILE: return "ENFILE";
    case ENOENT: return "ENOENT";
    case ENOMEM: return "ENOMEM";
    case EISDIR: return "EISDIR";
    case ELOOP: return "ELOOP";
    case ENOLCK: return "ENOLCK";
    case ENOSPC: return "ENOSPC";
    case ENOTDIR: return "ENOTDIR";
    case EROFS: return "EROFS";
    case ENOSYS: return "ENOSYS";
    case EOPNOTSUPP: return "EOPNOTSUPP";
    default: return "another error";
    }
}

/* ---- memory ------------------------------------------------------------------------------------------------------- */

#if !defined(MADV_POPULATE_WRITE)
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

int os_memory_lock(void *memory, size_t bytes) {
    if (memory == NULL) return ENOMEM;
    KEEP_ERRNO;
    int error = mlock(memory, bytes) == 0 ? 0 : errno;
    if (error != 0) madvise(memory, bytes, MADV_POPULATE_WRITE); /* in memory at least for now */
    return error;
}

void os_memory_unlock(void *memory, size_t bytes) {
    KEEP_ERRNO;
    munlock(memory, bytes);
}

bool os_stack(void **lowest, size_t *bytes) {
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return false;
    bool is_known = pthread_attr_getstack(&attributes, lowest, bytes) == 0;
    pthread_attr_destroy(&attributes);
    return is_known;
}
