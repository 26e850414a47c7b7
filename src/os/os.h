/* os.h: the room's door: everything weft asks of the machine. Layer 1.
 *
 * A port replaces os/ and nothing else. What may not be touched: the promises made here. The rooms above rely on them, and
 * the explorer's model (verify/os_explore.c) keeps the same ones; a change of a promise must be made in both places.
 *
 * os_linux.c implements it in ordinary builds, and verify/os_explore.c mocks the same functions for the schedule explorer.
 * So nothing above this layer calls libc or the kernel for memory pages, threads, sleeping, time or "who am I" by itself.
 *
 * No function changes errno on purpose, and none is a cancellation point (pthread_cancel). Each states its results.
 */
#ifndef WEFT_OS_H
#define WEFT_OS_H

#include <errno.h>

#include "os/atomics.h"
#include "os/text.h"

/* Restores errno at the end of the block, however the block is left, to its value here. */
#define KEEP_ERRNO int errno_kept __attribute__((cleanup(errno_restore), unused)) = errno
INLINE void errno_restore(const int *kept) {
    __asm__("" ::: "memory"); /* clang believes that malloc leaves errno as it is, and would drop the line below */
    errno = *kept;
}

/* ---- memory ------------------------------------------------------------------------------------------------------- */

/* `bytes` (a multiple of the page size) of zeroed memory, aligned to a page and not touched yet; NULL: no memory. */
void *os_map(size_t bytes);
/* Gives back what os_map gave, or pages of it. false: the system cannot; the pages stay mapped, and their contents are
 * gone. */
bool os_unmap(void *memory, size_t bytes);
/* Lets the system take back the whole pages in a range, which stays mapped. All of the range reads as zeros; nothing beside
 * it changes. */
void os_purge(void *memory, size_t bytes);
/* The same for whole pages. If the system refuses, they keep their contents. */
void os_purge_pages(void *pages, size_t bytes);
size_t os_page_size(void);
/* From now on a signal stops any thread that touches these whole pages of a mapping; their contents are lost. false: the
 * system refuses, and nothing happened. */
bool os_guard(void *memory, size_t bytes);
/* Lets guarded pages be touched again; they read as zeros. false: the system refuses, and some may still be guarded. */
bool os_unguard(void *memory, size_t bytes);
/* As os_guard, for memory that is not used again before it is unmapped. It keeps nothing but its address space. false: the
 * system refuses, and it is as it was. */
bool os_bar(void *memory, size_t bytes);
/* Makes these whole pages read-only for good, and where the system can, prevents unmapping. */
void os_seal(void *memory, size_t bytes);
/* A number that nobody can guess, where the system provides one. */
uint64_t os_entropy(void);
/* As os_map, aligned to `alignment` (a power of two, a multiple of the page size). */
void *os_map_aligned(size_t bytes, size_t alignment);
/* Asks for huge pages in a range, or (false) for small ones. The system may ignore it. */
void os_huge(void *memory, size_t bytes, bool wanted);
/* Whether the process's address space has a limit (RLIMIT_AS). */
bool os_space_is_limited(void);
/* Extends a mapping in place, with zeros. */
enum os_grow { OS_GREW, OS_NO_ROOM, OS_UNEVEN };
/* OS_NO_ROOM: something lies behind it, or there is no memory; os_move can move it. OS_UNEVEN: it cannot be moved, because
 * the system treats a part of it differently (madvise, mprotect, mlock). In both cases nothing happened. */
enum os_grow os_grow(void *memory, size_t bytes, size_t wanted);
/* false: a move has lost a range, so the next one might too, and no more are tried. */
bool os_moves(void);
/* Moves a mapping's pages to `to`, a mapped range that nobody uses; they replace what is mapped there, but nothing behind
 * it. The old range is unmapped. OS_STAYED: nothing happened. OS_LOST: the `bytes` at `to` may be another thread's by now
 * and are no longer the caller's; the old range is as it was. */
enum os_moved { OS_MOVED, OS_STAYED, OS_LOST };
enum os_moved os_move(void *from, size_t bytes, void *to);
/* The same, but the old range stays mapped, with zeros. */
enum os_moved os_move_pages(void *from, size_t bytes, void *to);
/* How many bytes of a mapped range are in memory now. */
size_t os_resident(const void *memory, size_t bytes);
/* Page faults of the process so far. */
uint64_t os_page_faults(void);

/* malloc and free, the allocator that big payloads use. NULL: no memory. */
void *os_alloc(size_t bytes);
void os_free(void *memory);

/* ---- files -------------------------------------------------------------------------------------------------------- */

/* Writes all of the data to the file descriptor. Safe in signal handlers. false: not all could be written. */
bool os_write(int fd, const void *data, size_t bytes);
/* Creates an empty file, or truncates an existing one. "/dev/stdout" and "/dev/stderr" are the process's own streams, and
 * are not truncated. Returns a descriptor above those of the standard streams, or -1, also for a named pipe that nobody
 * reads. */
int os_create(const char *path);
/* Creates the file, or opens it for appending. */
int os_append(const char *path);
/* As os_append, but a regular file may be read, too, if its mode allows that. */
int os_append_and_read(const char *path);
/* Opens a directory for the next three. Returns its descriptor, or -1. */
int os_open_directory(const char *path);
/* Makes a file to append to. Returns its descriptor; -1; or OS_EXISTS: something has that name. */
#define OS_EXISTS (-2)
int os_make_in(int directory, const char *name);
/* Removes the name, if it is a file's. */
void os_remove_in(int directory, const char *name);
/* The same for a file that somebody locked by os_hold_made and has left: no process has the lock any more. false: it stays. */
bool os_remove_left(int directory, const char *name);
/* Locks the file, which os_make_in has made, until its last descriptor is closed; descriptors of a forked child count. false:
 * another thread or process has removed it meanwhile, or will: make another. true also where files have no locks. */
bool os_hold_made(int fd);
/* Locks the file for what is to be written, against others that do so, too: at most until `deadline_ns` (CLOCK_MONOTONIC). false:
 * another opening of the file is locked still. true also for what has no locks. */
bool os_lock_written(int fd, uint64_t deadline_ns);
void os_unlock_written(int fd);
/* Reads the last bytes of a regular file, at most `bytes`. Returns how many; *size: the file's, or OS_NO_SIZE: it is another file. */
#define OS_NO_SIZE UINT64_MAX
size_t os_read_end(int fd, void *to, size_t bytes, uint64_t *size);
/* Cuts the file off there. false: it cannot be, or is the process's standard output or error. */
bool os_cut(int fd, uint64_t size);
/* Opens a file for reading, without blocking even where an ordinary open would. Returns its descriptor, or -1. */
int os_open(const char *path);
/* Reads at most `bytes` from the current position. Returns how many; 0: the file's end, or it cannot be read. */
size_t os_read(int fd, void *to, size_t bytes);
/* Reads all `bytes` at `offset`. false: they could not be read. */
bool os_read_at(int fd, uint64_t offset, void *to, size_t bytes);
/* Truncates the file, if that is possible, and if it is not the process's standard output or error. */
void os_empty(int fd);
/* When this process began, in the system's clock ticks since the boot; exec does not change it. 0: not known. */
uint64_t os_process_start(void);
void os_close(int fd);

/* A descriptor that the library opened, and that the program may close: make's pipe of tokens, or a bell. */
typedef struct os_pipe {
    int fd; /* negative: none */
    uint64_t device, inode;
    uint32_t parent; /* of make's pipe without a name: the parent of this process, whose end stands for make's; else 0 */
} os_pipe;

/* Opens the tokens of the make that MAKEFLAGS (or NULL) names, as jobserver.c says. 0, or a positive errno value and nothing is open:
 * ENOENT, none is named, or the named pipe is gone; EBADF, this program does not have the pipe from make; EINVAL, it is no pipe. */
int os_jobserver_open(const char *flags, os_pipe *tokens);
/* Takes a token; gives that token back. Neither waits. false: there is none now, or no room; make has ended; or the program has closed
 * the descriptor, whose number may be another file's. */
bool os_jobserver_take(const os_pipe *tokens, unsigned char *token);
bool os_jobserver_give(const os_pipe *tokens, unsigned char token);
/* Sleeps until the bell rings, at once if it has rung; if `asks`, also until there may be a token; until `deadline_ns`
 * (CLOCK_MONOTONIC; 0: none); and for at most a second. May return for no reason. false: the tokens are this process's no more. */
bool os_jobserver_wait(const os_pipe *tokens, const os_pipe *bell, bool asks, uint64_t deadline_ns);
/* Wakes the thread that waits for tokens. Rings from os_bell_ring on until os_bell_still. 0 or a positive errno value. */
int os_bell_open(os_pipe *bell);
void os_bell_ring(const os_pipe *bell);
void os_bell_still(const os_pipe *bell);
void os_pipe_close(os_pipe *pipe);
/* For the room: the descriptor, moved above those of the standard streams; the program has not closed it. */
int os_beyond_standard(int fd);
bool os_pipe_is_open(const os_pipe *pipe);

/* A file whose bytes processes lock (lock_file.c). A lock belongs to what os_lock_file_open opened, not to a thread, and the kernel ends it
 * with the process, however that ends. Each function that fails for another reason than a lock of somebody else's sets has_failed. */
typedef struct os_lock_file {
    os_pipe file;      /* or rather a regular file */
    int watch;         /* an inotify descriptor; negative: none */
    uint32_t slot;     /* the byte that it has locked for the watch */
    bool has_no_watch; /* the system has none for this file, or the program has closed it */
    bool is_deaf;      /* it has none that can be used now: who waits looks every few milliseconds */
    bool has_failed;
    uint32_t soon; /* how often a thread looks again shortly after it heard something */
} os_lock_file;
#define OS_LOCK_FILE_BYTES (UINT32_C(1) << 20)

/* Opens that file, which may not exist yet; NULL: the one that all programs of this user share. 0, or a positive errno value and nothing is
 * open: EPERM, it is another user's; EINVAL, no file or no locks; what else opening or locking a file may report. */
int os_lock_file_open(const char *path, os_lock_file *file);
/* Sets has_failed if the program has closed the descriptor, whose number may be another file's. Call it before one or several of those
 * below, which do nothing once has_failed is set. */
void os_lock_file_check(os_lock_file *file);
/* Locks a byte below OS_LOCK_FILE_BYTES: alone, or with others. Never waits. false: another has a lock on it that does not go with this
 * one, or it cannot be locked. */
bool os_lock_file_hold(os_lock_file *file, uint32_t byte, bool with_others);
void os_lock_file_drop(os_lock_file *file, uint32_t byte);
/* How many of `bytes` bytes from `first` on others have locked; at most OS_LOCK_FILE_COUNT, however many there are. */
#define OS_LOCK_FILE_COUNT 60u
uint32_t os_lock_file_count(os_lock_file *file, uint32_t first, uint32_t bytes);
/* Wakes all that sleep in os_lock_file_wait, and those who are about to: they heard something. */
void os_lock_file_tell(os_lock_file *file);
/* From the first call on this process hears when another tells, and when one that had the file open ends. Whether it has since the last
 * call. It may hear things that are no news. */
bool os_lock_file_heard(os_lock_file *file);
/* When to look again without having heard anything (CLOCK_MONOTONIC, ns); 0: it is enough to listen. One thread at a time may call this, or
 * any of the functions above. */
uint64_t os_lock_file_look_ns(os_lock_file *file);
/* As os_jobserver_wait, for what os_lock_file_heard would report. */
bool os_lock_file_wait(const os_lock_file *file, const os_pipe *bell, bool asks, uint64_t deadline_ns);
/* Drops all its locks, unless a process that was forked has it open. */
void os_lock_file_close(os_lock_file *file);
/* In a forked child, for its parent's file in any state, also while a thread opened it, or zeros: closes it. The parent keeps its locks. */
void os_lock_file_forked(os_lock_file *file);

/* Ends the process with a line on standard error, where going on would hang or do harm. */
void os_die(const char *what) __attribute__((noreturn));

/* The name of the code at that address (symbol.c): its symbol, also a static function's; else file+0x12 with the offset in
 * the file; else 0x12. Cut to size - 1 characters. Safe in signal handlers. */
void os_symbol(uintptr_t address, char *name, size_t size);
/* The same for the code at that offset of a file, which need not be mapped any more. */
void os_symbol_in(const char *path, uint64_t offset, char *name, size_t size);

/* ---- who called (frames.c) ---------------------------------------------------------------------------------------- */

/* Prepares os_frames; this allocates. 0; ENOSYS: the C library has no backtrace that may be called anywhere. */
int os_frames_begin(void);
/* Stores the return addresses of the calls that led here, the innermost first. Returns how many, at most OS_FRAMES_MAX; 0
 * unless os_frames_begin returned 0. Neither allocates nor takes a lock, unless the program has registered frames with the
 * compiler's library. */
int os_frames(uintptr_t *frames, int most);
/* A part of a file, mapped as code. */
struct os_module {
    uintptr_t start, end;
    uint64_t offset;         /* in the file, of its start */
    bool is_program;         /* the file is the process's executable */
    unsigned build_id_bytes; /* 0: none is known */
    uint8_t build_id[32];
    char path[512];
};
/* The module that the dynamic linker has loaded at that address. false: none, or the linker cannot be asked here. Neither
 * allocates nor takes a lock. */
bool os_module_loaded(uintptr_t address, struct os_module *module);
/* The same, according to the kernel (symbol.c): reads a file. */
bool os_module_mapped(uintptr_t address, struct os_module *module);
/* Has these functions called, except those that are NULL, before each fork of the process, and after it in parent and child.
 * 0, or a positive errno value. */
int os_fork_watch(void (*before)(void), void (*in_parent)(void), void (*in_child)(void));

/* ---- threads ------------------------------------------------------------------------------------------------------ */

struct os_cpuset;
typedef struct os_thread {
    uintptr_t handle;
} os_thread;

typedef struct os_thread_options {
    size_t stack_size; /* 0: the system's default */
    const char *name;  /* at most 15 characters, copied; or NULL */
    const void *cpus;  /* an os_cpuset, or NULL for the creator's */
} os_thread_options;

/* Starts `entry(argument)` with cancellation disabled and signals blocked, except SIGPROF and those that a fault in the
 * thread itself raises. 0, or a positive errno value: nothing was started. */
int os_thread_start(os_thread *thread, const os_thread_options *options, void (*entry)(void *), void *argument);
/* Waits for the thread's end. Call it once for each thread. In a forked child it only releases the record of a parent's
 * thread. */
void os_thread_join(os_thread thread);
#define OS_FRAMES_MAX 48
/* Prepares os_stack_of: installs a handler for SIGPROF until the library is unloaded. An earlier handler still gets the
 * program's own signals. 0, or a positive errno value; ENOSYS: the C library has no backtrace that handlers may call (musl,
 * glibc before 2.35). */
int os_stacks_begin(void);
/* Where a thread of the process, given by the system's number, is now and who called that. Sends the thread a signal and
 * waits at most `wait_ns` for the answer. Takes no lock. Returns how many frames, the innermost first; or an OS_STACK_
 * value. */
enum {
    OS_STACK_SILENT = -1, /* it did not answer */
    OS_STACK_GONE = -2,   /* there is no such thread */
    OS_STACK_BUSY = -3,   /* another thread is being asked */
    OS_STACK_NONE = -4    /* no backtrace, or no such signal */
};
int os_stack_of(uint32_t thread, uintptr_t frames[OS_FRAMES_MAX], uint64_t wait_ns);
/* The CPUs that a thread, started and not yet joined, may use. false: the system does not say, or the thread has ended. */
bool os_thread_cpuset(os_thread thread, struct os_cpuset *set);
/* The system's number of the calling thread, as ps and perf show it. */
uint32_t os_thread_id(void);
/* The same for the process. */
uint32_t os_process_id(void);
/* The default size of a thread's stack, in bytes. */
size_t os_stack_size(void);

/* ---- real time (os_realtime.c) ---------------------------------------------------------------------------------------- */

enum os_policy_kind { OS_POLICY_ORDINARY, OS_POLICY_FIFO, OS_POLICY_RR, OS_POLICY_DEADLINE };
typedef struct os_policy {
    enum os_policy_kind kind;
    uint32_t priority; /* FIFO, RR */
    uint64_t runtime_ns, deadline_ns, period_ns;
} os_policy;

/* Sets how the system schedules the calling thread from now on. Threads that it starts are ordinary ones. 0, or a positive
 * errno value: nothing changed. */
int os_policy_apply(const os_policy *policy);
bool os_policy_is_real_time(void);
/* The calling thread's time slice: how long it runs before another thread that waits for the CPU may have it. A thread with
 * a short slice that wakes need not wait for the end of a longer one. Linux 6.12 and later: values are limited to 0.1 to 100
 * ms. Threads that the caller starts inherit it. The caller may change its class as before. 0; or a positive errno value, and
 * nothing changed: EOPNOTSUPP, the kernel has no slices; EINVAL, the thread is in no ordinary class. */
int os_slice_get(uint64_t *slice_ns);
int os_slice_set(uint64_t slice_ns);
/* Binds the calling thread to that CPU. Returns as os_policy_apply; OS_NO_CPU: EINVAL. */
int os_cpu_bind(uint32_t cpu);
/* How long real-time threads may run in each period, ns; *period_ns is the period. 0: there is no limit. */
uint64_t os_real_time_share(uint64_t *period_ns);
/* Brings every page of a mapped range into memory, to stay there until os_memory_unlock or os_unmap. 0; or a positive errno
 * value: the pages may be swapped out. NULL: ENOMEM. */
int os_memory_lock(void *memory, size_t bytes);
void os_memory_unlock(void *memory, size_t bytes);
/* "EPERM" and so on, for the errors that these functions return. */
const char *os_error_name(int error);
/* The calling thread's stack. */
bool os_stack(void **lowest, size_t *bytes);

/* ---- sleeping ----------------------------------------------------------------------------------------------------- */

typedef ATOMIC(uint32_t) os_word;

enum os_wait_result { OS_WOKEN = 0, OS_TIMEDOUT = 1 };

/* Sleeps while *word == value, until woken or until `deadline_ns` (CLOCK_MONOTONIC; 0: none). OS_WOKEN may also mean a
 * signal, a spurious return or a word that differs: look again. */
enum os_wait_result os_wait(os_word *word, uint32_t value, uint64_t deadline_ns);
/* Whether the system keeps the calling thread's deadlines as exactly as it can, or (false) as it does by default. */
void os_timer_exact(bool is_exact);
/* Wakes at most `count` threads that sleep on the word. */
void os_wake(os_word *word, int count);

/* A lock for slow paths. Zero is unlocked. Not recursive. The holder inherits the priority of the most urgent waiter. */
typedef struct os_mutex {
    os_word word; /* the holder's thread id, with the kernel's marks; 0: unlocked */
} os_mutex;
void os_lock(os_mutex *mutex);
/* false: another thread has it, or this one. */
bool os_try_lock(os_mutex *mutex);
void os_unlock(os_mutex *mutex);

/* Blocks all signals of the calling thread; returns what os_signals_restore needs. */
uint64_t os_signals_block(void);
void os_signals_restore(uint64_t before);

/* One turn of a spin loop. */
#if defined(WEFT_EXPLORE)
void os_pause(void);
#elif defined(__x86_64__) || defined(__i386__)
INLINE void os_pause(void) { __builtin_ia32_pause(); }
#elif defined(__aarch64__)
INLINE void os_pause(void) { __asm__ volatile("isb" ::: "memory"); }
#else
INLINE void os_pause(void) { __asm__ volatile("" ::: "memory"); }
#endif

/* Lets another runnable thread have this CPU. One in several calls lets threads of lower priority run, too. */
void os_yield(void);

/* Call it in each turn of a loop that looks for something. Every OS_TURNS turns it lets a thread that waits for this CPU run
 * first. The kernel would make that thread wait for a tick or more, because a spinning thread looks like a working one. */
#define OS_TURNS 64u /* about two microseconds */
void os_give_way(void);
INLINE void os_take_turns(uint32_t *turn) {
    if (++*turn % OS_TURNS == 0) os_give_way();
}

/* ---- asymmetric fence --------------------------------------------------------------------------------------------- */

/* os_fence_light on one side and os_fence_heavy on the other order as two sequentially consistent fences do: either the
 * heavy side's later loads see the light side's earlier store, or the light side's later loads see the heavy side's earlier
 * store. Heavy is membarrier(2) and light a compiler barrier. Without membarrier (seccomp, old kernels, or WEFT_FENCE=full
 * in the environment at the first os_init) both are full fences. os_fence_is_asymmetric says which. Other values of
 * WEFT_FENCE are reported. */
typedef ATOMIC(bool) os_flag;
extern os_flag os_fence_asymmetric; /* cleared for good if membarrier stops working: fence.c */
#define FENCE_LIGHT(tag) (LIKELY(load_rlx(&os_fence_asymmetric)) ? fence_compiler() : fence_sc(tag))
void os_fence_heavy_slow(void);
#if defined(WEFT_EXPLORE)
bool os_fence_is_asymmetric(void); /* os_fence_light and os_fence_heavy: explore_atomics.h */
#else
INLINE bool os_fence_is_asymmetric(void) { return load_rlx(&os_fence_asymmetric); }
#define os_fence_light(tag) FENCE_LIGHT(tag)
#define os_fence_heavy(tag) os_fence_heavy_slow()
#endif
/* For fence.c: a full fence in every thread of the process. false: there is none. */
bool os_barrier(void);
/* Waits far longer than any store stays in a store buffer, or than any thread takes to see another's store. */
#if !defined(WEFT_EXPLORE)
#define os_settle_heavy(tag) os_settle_now()
void os_settle_now(void);
#endif
/* Called once the barrier is known to work. */
void fence_begin(void);
/* Called by os_init: the counter's rate is measured from now on. */
void ticks_begin(void);

/* Finds out what the machine has. Called by each pool's creation; cheap after the first. */
void os_init(void);

/* ---- time --------------------------------------------------------------------------------------------------------- */

/* CLOCK_MONOTONIC, nanoseconds. */
uint64_t os_now_ns(void);

/* A counter that is cheap to read and rises steadily; compare differences. os_ticks_per_us ticks make a microsecond. */
#if defined(WEFT_EXPLORE)
uint64_t os_ticks(void);
#elif defined(__x86_64__)
INLINE uint64_t os_ticks(void) { return __builtin_ia32_rdtsc(); }
#elif defined(__aarch64__)
INLINE uint64_t os_ticks(void) {
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
}
#else
INLINE uint64_t os_ticks(void) { return os_now_ns(); }
#endif
uint64_t os_ticks_per_us(void);

/* ---- who am I ----------------------------------------------------------------------------------------------------- */

/* Who is told when a thread ends, in this order. */
enum os_exit { OS_EXIT_POOL, OS_EXIT_HEAP, OS_EXITS };

/* What a thread remembers: its seats in pools. `pool_id` and `worker` are the pool it used last, the fast path of every
 * submit; `seatings` is the slow path's list (sched/seat.c). Never shared with another thread. */
typedef struct os_self {
    uint64_t pool_id; /* 0: none */
    void *worker;
    bool is_worker;      /* a pool's own thread: pool_id and worker are that pool's for good */
    uint32_t heap_exits; /* how many times the heap was told that the thread ends */
    void *seatings;
    void *heap;          /* the thread's heap (heap.h); os_no_heap before it has one */
    uintptr_t heap_mask; /* (a block's address - 1) & heap_mask is its segment; 0: each free takes the slow path */
    uintptr_t heap_base; /* where heap_mask is not 0: a slot's word is added to it */
    void (*on_exit[OS_EXITS])(struct os_self *self);
    bool counts; /* among the threads that run and need a token (sched/tokens.c) */
} os_self;

/* Stands for a heap whose caches are empty, so that an allocation need not ask whether there is a heap. Its first
 * OS_HEAP_TOPS words point to a NULL. The others, OS_HEAP_TOPS words and those that hold a class of each size, are 0. Never
 * written. */
#define OS_HEAP_TOPS 52
#define OS_NO_HEAP_WORDS (2 * OS_HEAP_TOPS + 9)
extern void *os_no_heap[OS_NO_HEAP_WORDS] ALIGNED(CACHE_LINE);

#if defined(WEFT_EXPLORE)
os_self *os_self_get(void);
#else
extern __thread os_self os_self_of_thread __attribute__((tls_model("initial-exec")));
INLINE os_self *os_self_get(void) { return &os_self_of_thread; }
#endif

/* Has `on_exit(self)` called when the calling thread ends: once for each call of os_self_watch, so again if a destructor of
 * thread-local data calls it. 0, or a positive errno value. */
int os_self_watch(enum os_exit who, void (*on_exit)(os_self *self));

/* Counts the fork()s in which this process was the child, from the first os_init on. A pool made at another value is the
 * parent's. In the child every thread's os_self is cleared, except for the heap of the thread that called fork. */
uint64_t os_fork_count(void);
/* Sets what a forked child does first, while it has one thread. Call it after os_init. There is one such function for the
 * process. */
void os_on_fork(void (*begin)(void));

/* ---- CPUs (cpus.c) ------------------------------------------------------------------------------------------------ */

#define OS_CPUS_MAX 4096
#define OS_NO_CPU UINT32_MAX
typedef struct os_cpuset {
    uint64_t bits[OS_CPUS_MAX / 64];
} os_cpuset;

/* Parses "0-3,8"; blanks are allowed around commas. false, and *set is undefined: not a CPU list, empty, or a CPU too
 * high. */
bool os_cpuset_parse(os_cpuset *set, const char *text);
/* The CPUs that the calling thread may use. false: the system does not say. */
bool os_cpuset_current(os_cpuset *set);
/* The same for the process's main thread. */
bool os_cpuset_main(os_cpuset *set);
unsigned os_cpuset_count(const os_cpuset *set);
INLINE bool os_cpuset_has(const os_cpuset *set, uint32_t cpu) { return (set->bits[cpu / 64] >> cpu % 64 & 1) != 0; }
/* The CPU at that index of the set, modulo the set's size. OS_NO_CPU: the set is empty. */
uint32_t os_cpuset_nth(const os_cpuset *set, uint32_t number);
/* Makes these the CPUs that the calling thread may use. false: the system refuses, and nothing changed. */
bool os_cpuset_apply(const os_cpuset *set);
/* The CPU that the calling thread runs on now; OS_NO_CPU: the system does not say. */
uint32_t os_cpu(void);
/* What cgroup v1 or v2 allows, in thousandths of a CPU: the least over all ancestors; 0: no limit. `proc_cgroup` and
 * `mountinfo` are the files to read (those of /proc/self, or a fixture's); `root` is put before each path found. */
uint64_t os_quota_millicpus(const char *proc_cgroup, const char *mountinfo, const char *root);
/* min(affinity, quota rounded up), at least 1. */
unsigned os_cpu_count(void);
/* The same with a quota that was read less than a second ago: reading it takes longer than making the rest of a pool. */
unsigned os_cpu_count_lately(void);
/* The same for an affinity of `allowed` CPUs. 0: the quota cannot be read now, because of a sandbox or a lack of memory or
 * descriptors. */
unsigned os_cpu_count_now(unsigned allowed);
/* How many CPUs of the machine are online, whoever may use them; at least 1. */
unsigned os_cpus_online(void);

/* ---- probes ------------------------------------------------------------------------------------------------------- */

/* Static probes (USDT) for bpftrace, perf and SystemTap, if <sys/sdt.h> was there when weft was compiled;
 * docs/howto/observe.md lists them. A probe is one nop. Probes stand where a thread sleeps, wakes or turns to another
 * thread's tasks, never where it runs one. Only gcc compiles them: to clang the header's macros are not C17. */
#if defined(__has_include) && !defined(__clang__) && !defined(WEFT_EXPLORE)
#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#define PROBE(name, a, b) DTRACE_PROBE2(weft, name, a, b)
#endif
#endif

#if !defined(PROBE)
#define PROBE(name, a, b) ((void)0)
#endif

#endif
