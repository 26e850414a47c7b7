/* fault_calls.h: the calls that the library makes of the system, each of which can be made to fail. The linker's --wrap sends
 * them here (CMakeLists.txt); what the C library and the sanitizers ask for by themselves is left alone. */
#ifndef WEFT_TESTS_FAULT_CALLS_H
#define WEFT_TESTS_FAULT_CALLS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* name, what it stands for */
#define CALL_LIST(X)                                                                                                        \
    X(MALLOC, "malloc")                                                                                                     \
    X(MAP, "mmap")                                                                                                          \
    X(UNMAP, "munmap")                                                                                                      \
    X(ADVISE, "madvise")                                                                                                    \
    X(REMAP, "mremap")                                                                                                      \
    X(INCORE, "mincore")                                                                                                    \
    X(LOCK, "mlock")                                                                                                        \
    X(THREAD, "pthread_create")                                                                                             \
    X(SPECIFIC, "pthread_setspecific")                                                                                      \
    X(KEY, "pthread_key_create")                                                                                            \
    X(ATFORK, "pthread_atfork")                                                                                             \
    X(ATTR, "pthread_attr_init")                                                                                            \
    X(ATTR_CPUS, "pthread_attr_setaffinity_np")                                                                             \
    X(STACK, "pthread_getattr_np")                                                                                          \
    X(GET_CPUS, "sched_getaffinity")                                                                                        \
    X(SET_CPUS, "sched_setaffinity")                                                                                        \
    X(GET_POLICY, "sched_getscheduler")                                                                                     \
    X(SET_POLICY, "sched_setattr")                                                                                          \
    X(GET_SLICE, "sched_getattr")                                                                                           \
    X(YIELD, "sched_yield")                                                                                                 \
    X(PRCTL, "prctl")                                                                                                       \
    X(FCNTL, "fcntl")                                                                                                       \
    X(STAT, "fstat")                                                                                                        \
    X(TRUNCATE, "ftruncate")                                                                                                \
    X(USAGE, "getrusage")                                                                                                   \
    X(CLOCK, "clock_gettime")                                                                                               \
    X(WAIT, "futex wait")                                                                                                   \
    X(LOCK_PI, "futex lock")                                                                                                \
    X(BARRIER, "membarrier")                                                                                                \
    X(OPEN, "openat")                                                                                                       \
    X(READ, "read")                                                                                                         \
    X(READ_AT, "pread64")                                                                                                   \
    X(WRITE, "write")                                                                                                       \
    X(CLOSE, "close")                                                                                                       \
    X(SLEEP, "clock_nanosleep")

enum call {
#define CALL_ENUM(name, text) CALL_##name,
    CALL_LIST(CALL_ENUM)
#undef CALL_ENUM
        CALLS
};
extern const char *const call_names[CALLS];

/* What a struck call does, when its error is 0. */
enum effect {
    EFFECT_FAIL,    /* its error */
    EFFECT_NOTHING, /* returns at once, as if it had done what it was asked for */
    EFFECT_SHORT,   /* does one byte of it */
    EFFECT_AN_HOUR, /* the clock has leapt, and stays ahead */
    EFFECT_NO_TIME  /* the clock stands still during this call */
};

struct strike {
    enum call call;
    int error; /* errno value */
    enum effect effect;
    unsigned first, last;  /* calls of that kind, from 1 */
    bool barrier_goes_too; /* membarrier works at first, then never again */
};

/* From now on calls are counted, and those of *strike (NULL: none) struck. */
void calls_arm(const struct strike *strike);
/* None is any more. How many were. */
unsigned calls_disarm(void);
unsigned calls_made(enum call call); /* since calls_arm */

/* What the library has and has not given back so far. */
struct kept {
    long blocks, threads, files, keys, forks_watched;
    long mapped_bytes; /* what a refused munmap was to give back counts as given back */
};
struct kept calls_kept(void);

/* Calls that would make the library depend on the wall clock: CLOCK_REALTIME read, slept by or waited by. */
unsigned calls_by_wall_clock(void);

/* Threads of the test's own. */
pthread_t thread_begin(void *(*entry)(void *), void *argument);
void thread_end(pthread_t thread);

#endif
