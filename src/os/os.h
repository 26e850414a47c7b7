/* os.h: the room's door: everything weft asks of the machine. Layer 1.
 *
 * os/ is what a port replaces, and all that it replaces. What may not be touched: what is promised here, for the rooms above
 * count on it and the explorer's model (verify/os_explore.c) keeps the same promises: who changes one changes both.
 *
 * os_linux.c serves it in ordinary builds; the schedule explorer serves the same functions with mocks (verify/os_explore.c),
 * so nothing above this layer calls libc or the kernel for memory pages, threads, sleeping, time or "who am I" by itself.
 *
 * No function sets errno on purpose, none is a cancellation point (pthread_cancel); results are stated at each.
 */
#ifndef WEFT_OS_H
#define WEFT_OS_H

#include <errno.h>

#include "os/atomics.h"
#include "os/text.h"

/* errno is at the end of the block, however it is left, what it is here. */
#define KEEP_ERRNO int errno_kept __attribute__((cleanup(errno_restore))) = errno
INLINE void errno_restore(const int *kept) { errno = *kept; }

/* ---- memory ------------------------------------------------------------------------------------------------------- */

/* `bytes` (a multiple of the page size) of zeroed memory, aligned to a page, not touched yet; NULL when there is none. */
void *os_map(size_t bytes);
/* Gives back what os_map gave, or pages of it. false: the system cannot; they stay mapped, and their contents are gone. */
bool os_unmap(void *memory, size_t bytes);
/* Lets the system take back the whole pages in a range, which stays mapped; all of it reads as zeros, and nothing beside it.
 * */
void os_purge(void *memory, size_t bytes);
/* The same for whole pages, which stay as they are if the system refuses. */
void os_purge_pages(void *pages, size_t bytes);
size_t os_page_size(void);
/* Whoever touches these whole pages of a mapping is stopped by a signal; what is in them is lost. false: the system refuses, and
 * nothing happened. */
bool os_guard(void *memory, size_t bytes);
/* They may be touched again, and are zeros. false: the system refuses, and some of them may still be guarded. */
bool os_unguard(void *memory, size_t bytes);
/* These whole pages are never written again by anybody, nor unmapped, as far as the system can see to that. */
void os_seal(void *memory, size_t bytes);
/* A number that nobody can guess, where the system has such. */
uint64_t os_entropy(void);
/* As os_map, aligned to `alignment` (a power of two, a multiple of the page size). */
void *os_map_aligned(size_t bytes, size_t alignment);
/* Asks for huge pages in a range, or (false) for small ones. A wish. */
void os_huge(void *memory, size_t bytes, bool wanted);
/* Whether the process's address space has a limit (RLIMIT_AS). */
bool os_space_is_limited(void);
/* Makes a mapping longer where it stands, with zeros. */
enum os_grow { OS_GREW, OS_NO_ROOM, OS_UNEVEN };
/* OS_NO_ROOM: there is something behind it, or no memory; os_move can move it. OS_UNEVEN: it cannot, for someone changed
 * how the system treats a part of it (madvise, mprotect, mlock). Nothing happened then. */
enum os_grow os_grow(void *memory, size_t bytes, size_t wanted);
/* false: a move has lost a range, so the next might, and none is tried any more. */
bool os_moves(void);
/* Moves a mapping's pages to `to`, a mapped range nobody uses, which they replace; what lies behind stays. The old
 * range is gone. OS_STAYED: nothing happened. OS_LOST: the `bytes` at `to` may be another thread's by now, and are the caller's no
 * more; the old range is as it was. */
enum os_moved { OS_MOVED, OS_STAYED, OS_LOST };
enum os_moved os_move(void *from, size_t bytes, void *to);
/* The same, but the old range stays mapped, with zeros. */
enum os_moved os_move_pages(void *from, size_t bytes, void *to);
/* How many bytes of a mapped range are in memory now. */
size_t os_resident(const void *memory, size_t bytes);
/* Page faults of the process so far. */
uint64_t os_page_faults(void);

/* malloc and free; the allocator that big payloads use. NULL when there is none. */
void *os_alloc(size_t bytes);
void os_free(void *memory);

/* ---- files -------------------------------------------------------------------------------------------------------- */

/* Writes all of it to the file descriptor. Safe in signal handlers. false: not all could be written. */
bool os_write(int fd, const void *data, size_t bytes);
/* Makes the file, empty, or empties it; "/dev/stdout" and "/dev/stderr" are these streams, and stay. Its descriptor,
 * above those of the streams, or -1, also for a named pipe that nobody reads. */
int os_create(const char *path);
/* Makes the file, or opens it to write behind what it has. */
int os_append(const char *path);
/* Opens a directory for the next two. Its descriptor, or -1. */
int os_open_directory(const char *path);
/* As os_append, of a file in it. */
int os_append_in(int directory, const char *name);
/* The name goes, if it is one of a file. */
void os_remove_in(int directory, const char *name);
/* Opens a file to read it, also one that would keep the caller waiting. Its descriptor, or -1. */
int os_open(const char *path);
/* What comes next, at most `bytes`; how much that is; 0: the file's end, or it cannot be read. */
size_t os_read(int fd, void *to, size_t bytes);
/* All of the `bytes` at `offset`. false: they could not be read. */
bool os_read_at(int fd, uint64_t offset, void *to, size_t bytes);
/* Cuts a file that can be cut to nothing, but not one that is the process's standard output or error. */
void os_empty(int fd);
void os_close(int fd);

/* A descriptor of this process's own, which the program may close: make's pipe of tokens, or a bell that wakes who waits for one. */
typedef struct os_pipe {
    int fd; /* below 0: none */
    uint64_t device, inode;
    uint32_t parent; /* of make's: the process that started this one, where nothing else tells when make has ended; or 0 */
} os_pipe;

/* Does MAKEFLAGS (or NULL) tell of tokens? */
bool os_jobserver_is_named(const char *flags);
/* Finds the tokens of the make that MAKEFLAGS tells of (jobserver.c). 0, or a positive errno value and nothing is open: ENOENT, it tells of
 * none, or the named pipe is gone; EBADF, make has not left its pipe to this program; EINVAL, what it tells is no pipe. */
int os_jobserver_open(const char *flags, os_pipe *tokens);
/* Takes one, and gives that one back; neither waits. false: there is none just now; there is no room; make has ended; or the program
 * has closed the descriptor, and its number may be another file's. */
bool os_jobserver_take(const os_pipe *tokens, unsigned char *token);
bool os_jobserver_give(const os_pipe *tokens, unsigned char token);
/* Sleeps until there may be a token, if it `asks` for one, until the bell rings, also before, or until `deadline_ns` (CLOCK_MONOTONIC; 0:
 * none), and for a second at most. May return for no reason. false: this process has them no more. */
bool os_jobserver_wait(const os_pipe *tokens, const os_pipe *bell, bool asks, uint64_t deadline_ns);
/* 0 or a positive errno value. It rings from os_bell_ring until os_bell_still. */
int os_bell_open(os_pipe *bell);
void os_bell_ring(const os_pipe *bell);
void os_bell_still(const os_pipe *bell);
void os_pipe_close(os_pipe *pipe);

/* Ends the process with a line on standard error: going on would hang or do harm. */
void os_die(const char *what) __attribute__((noreturn));

/* What the code at that address is called (symbol.c): its symbol, also a static function's; else file+0x12 with the
 * offset in the file; else 0x12. Cut to size - 1 characters. Safe in signal handlers. */
void os_symbol(uintptr_t address, char *name, size_t size);
/* The same of the code at that offset of a file, which need not be mapped any more. */
void os_symbol_in(const char *path, uint64_t offset, char *name, size_t size);

/* ---- who called (frames.c) ---------------------------------------------------------------------------------------- */

/* Makes os_frames work, which allocates. 0; ENOSYS: the C library has no backtrace that may be asked for anywhere. */
int os_frames_begin(void);
/* The return addresses of the calls that led here, the innermost first; how many, at most OS_FRAMES_MAX; 0 unless os_frames_begin
 * returned 0. Neither allocates nor takes a lock, but where a program has registered frames with the compiler's library. */
int os_frames(uintptr_t *frames, int most);
/* A part of a file that is mapped as code. */
struct os_module {
    uintptr_t start, end;
    uint64_t offset;         /* in the file, of its start */
    bool is_program;         /* the one that the process began with */
    unsigned build_id_bytes; /* 0: none is known */
    uint8_t build_id[32];
    char path[512];
};
/* The one that the dynamic linker has at that address. false: none, or it cannot be asked here. Neither allocates nor takes a
 * lock. */
bool os_module_loaded(uintptr_t address, struct os_module *module);
/* The same as the kernel tells (symbol.c): reads a file. */
bool os_module_mapped(uintptr_t address, struct os_module *module);
/* Calls these, but for those that are NULL, before each fork of the process, and after it in both. 0, or a positive errno value. */
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

/* Starts `entry(argument)` with signals blocked, except those that a fault in the thread itself raises and SIGPROF, and
 * cancellation disabled. 0, or a positive errno value: nothing was started. */
int os_thread_start(os_thread *thread, const os_thread_options *options, void (*entry)(void *), void *argument);
/* Waits for the thread's end. Once for each thread; in a forked child it only releases what a parent's thread held. */
void os_thread_join(os_thread thread);
#define OS_FRAMES_MAX 48
/* Makes os_stack_of work: SIGPROF is taken, until the library is unloaded; who had it goes on getting its own. 0, or a positive
 * errno value; ENOSYS: the C library has no backtrace that handlers may call (musl, glibc before 2.35). */
int os_stacks_begin(void);
/* Where a thread of the process is and who called that, by its number: asks it by a signal and waits so long. Takes no lock. How
 * many frames, the innermost first; or an OS_STACK_. */
enum {
    OS_STACK_SILENT = -1, /* it did not answer */
    OS_STACK_GONE = -2,   /* there is no such thread */
    OS_STACK_BUSY = -3,   /* another one is being asked */
    OS_STACK_NONE = -4    /* no backtrace, or no such signal */
};
int os_stack_of(uint32_t thread, uintptr_t frames[OS_FRAMES_MAX], uint64_t wait_ns);
/* The CPUs that a thread started and not joined may use. false: the system does not say, or it has ended. */
bool os_thread_cpuset(os_thread thread, struct os_cpuset *set);
/* The system's number of the calling thread, as ps and perf have it. */
uint32_t os_thread_id(void);
/* That of the process. */
uint32_t os_process_id(void);
/* The stack that a thread gets by default, bytes. */
size_t os_stack_size(void);

/* ---- real time (os_realtime.c) ---------------------------------------------------------------------------------------- */

enum os_policy_kind { OS_POLICY_ORDINARY, OS_POLICY_FIFO, OS_POLICY_RR, OS_POLICY_DEADLINE };
typedef struct os_policy {
    enum os_policy_kind kind;
    uint32_t priority; /* FIFO, RR */
    uint64_t runtime_ns, deadline_ns, period_ns;
} os_policy;

/* How the system schedules the calling thread from now on; threads that it starts are ordinary ones. 0, or a positive
 * errno value: nothing changed. */
int os_policy_apply(const os_policy *policy);
bool os_policy_is_real_time(void);
/* The calling thread's time slice: how long it runs before another that waits for the CPU may have it; who wakes with a
 * short one need not wait for the end of a longer one. Linux 6.12 and later: 0.1 to 100 ms, what is beyond is cut. Once it
 * is set, threads that it starts have the system's, unless this one's nice value is negative. 0; or a positive errno value, and nothing changed: EOPNOTSUPP, the kernel knows none; EINVAL,
 * the thread is in no ordinary class. */
int os_slice_get(uint64_t *slice_ns);
int os_slice_set(uint64_t slice_ns);
/* The calling thread keeps to that CPU. As os_policy_apply; OS_NO_CPU: EINVAL. */
int os_cpu_bind(uint32_t cpu);
/* How long real-time threads may run in each period, ns, and that; 0: as long as they like. */
uint64_t os_real_time_share(uint64_t *period_ns);
/* Has every page of a mapped range in memory, to stay there until os_memory_unlock or os_unmap. 0; or a positive errno
 * value: they need not stay. NULL: ENOMEM. */
int os_memory_lock(void *memory, size_t bytes);
void os_memory_unlock(void *memory, size_t bytes);
/* "EPERM" and so on, for those that these give. */
const char *os_error_name(int error);
/* The calling thread's stack. */
bool os_stack(void **lowest, size_t *bytes);

/* ---- sleeping ----------------------------------------------------------------------------------------------------- */

typedef ATOMIC(uint32_t) os_word;

enum os_wait_result { OS_WOKEN = 0, OS_TIMEDOUT = 1 };

/* Sleeps while *word == value, until woken or until `deadline_ns` (CLOCK_MONOTONIC; 0: none). OS_WOKEN also for a signal, a
 * spurious return or a word that differs: look again. */
enum os_wait_result os_wait(os_word *word, uint32_t value, uint64_t deadline_ns);
/* Whether deadlines of the calling thread are kept as exactly as the system can, or (false) as it does by default. */
void os_timer_exact(bool is_exact);
/* Wakes at most `count` threads that sleep on the word. */
void os_wake(os_word *word, int count);

/* A lock for slow paths. Zero is unlocked. Not recursive. Who holds it runs with the priority of the most urgent that
 * waits for it. */
typedef struct os_mutex {
    os_word word; /* the holder's thread id, with the kernel's marks; 0: unlocked */
} os_mutex;
void os_lock(os_mutex *mutex);
bool os_try_lock(os_mutex *mutex);
void os_unlock(os_mutex *mutex);

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

/* Lets another runnable thread have this CPU; of several such calls one those of a lower priority, too. */
void os_yield(void);

/* For each turn of a loop that looks for something: at times a thread that is kept waiting for this CPU goes first. The
 * kernel would let it wait for a tick or more: a spinning thread looks like one that works. */
#define OS_TURNS 64u /* about two microseconds */
void os_give_way(void);
INLINE void os_take_turns(uint32_t *turn) {
    if (++*turn % OS_TURNS == 0) os_give_way();
}

/* ---- asymmetric fence --------------------------------------------------------------------------------------------- */

/* os_fence_light on one side and os_fence_heavy on the other order as two sequentially consistent fences do: either the
 * light side's store before is seen by the heavy side's loads after, or the heavy side's store before by the light side's
 * loads after. Heavy is membarrier(2) and light a compiler barrier; without membarrier (seccomp, old kernels,
 * WEFT_FENCE=full in the environment at the first os_init; other words are told) both are full fences, which
 * os_fence_is_asymmetric tells. */
typedef ATOMIC(bool) os_flag;
extern os_flag os_fence_asymmetric; /* cleared for good should membarrier stop working: fence.c */
#define FENCE_LIGHT(tag) (LIKELY(load_rlx(&os_fence_asymmetric)) ? fence_compiler() : fence_sc(tag))
void os_fence_heavy_slow(void);
#if defined(WEFT_EXPLORE)
bool os_fence_is_asymmetric(void); /* os_fence_light and os_fence_heavy: explore_atomics.h */
#else
INLINE bool os_fence_is_asymmetric(void) { return load_rlx(&os_fence_asymmetric); }
#define os_fence_light(tag) FENCE_LIGHT(tag)
#define os_fence_heavy(tag) os_fence_heavy_slow()
#endif
/* fence.c's: a full fence in every thread of the process; false: there is none. */
bool os_barrier(void);
/* Waits far longer than any store stays in a processor's buffer, or any thread takes to see another's store. */
#if !defined(WEFT_EXPLORE)
#define os_settle_heavy(tag) os_settle_now()
void os_settle_now(void);
#endif
/* The barrier works. */
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

/* Who wants to know that a thread ends, in the order of being told. */
enum os_exit { OS_EXIT_POOL, OS_EXIT_HEAP, OS_EXITS };

/* What a thread remembers: its seats in pools. `pool_id` and `worker` are the pool it used last, the fast path of every
 * submit; `seatings` is the slow path's list (sched/seat.c). Never shared with another thread. */
typedef struct os_self {
    uint64_t pool_id; /* 0: none */
    void *worker;
    bool is_worker;      /* a pool's own thread: pool_id and worker are that pool's for good */
    uint32_t heap_exits; /* how often the heap was told that the thread ends */
    void *seatings;
    void *heap;          /* the thread's heap (heap.h); os_no_heap before it has one */
    uintptr_t heap_mask; /* of a block's address - 1, that of its segment; 0: each free is to take the long way */
    uintptr_t heap_base; /* where heap_mask is not 0: what a slot's word is added to */
    void (*on_exit[OS_EXITS])(struct os_self *self);
    bool counts; /* among the threads that run, where programs share them (sched/tokens.c) */
} os_self;

/* Stands for a heap whose caches are empty, so that who allocates need not ask whether there is one: its first OS_HEAP_TOPS
 * words point to a NULL, the others, OS_HEAP_TOPS and those that hold a class of each size, are 0. Never written. */
#define OS_HEAP_TOPS 52
#define OS_NO_HEAP_WORDS (2 * OS_HEAP_TOPS + 9)
extern void *os_no_heap[OS_NO_HEAP_WORDS] ALIGNED(CACHE_LINE);

#if defined(WEFT_EXPLORE)
os_self *os_self_get(void);
#else
extern __thread os_self os_self_of_thread __attribute__((tls_model("initial-exec")));
INLINE os_self *os_self_get(void) { return &os_self_of_thread; }
#endif

/* Has `on_exit(self)` called when the calling thread ends: once for each call of this, so also again when a destructor of
 * thread-local data calls it. 0 or a positive errno value. */
int os_self_watch(enum os_exit who, void (*on_exit)(os_self *self));

/* Counts fork()s seen by this process as a child, from the first os_init on: a pool made at another value is the parent's.
 * In the child every thread's os_self is cleared, but for the heap of the thread that called fork. */
uint64_t os_fork_count(void);
/* What a forked child does before all else, its only thread; after os_init. One for the process. */
void os_on_fork(void (*begin)(void));

/* ---- CPUs (cpus.c) ------------------------------------------------------------------------------------------------ */

#define OS_CPUS_MAX 4096
#define OS_NO_CPU UINT32_MAX
typedef struct os_cpuset {
    uint64_t bits[OS_CPUS_MAX / 64];
} os_cpuset;

/* Parses "0-3,8"; blanks may stand around commas. false, and *set undefined: not a CPU list, empty, or a CPU too high. */
bool os_cpuset_parse(os_cpuset *set, const char *text);
/* The CPUs the calling thread may use; false when the system does not say. */
bool os_cpuset_current(os_cpuset *set);
unsigned os_cpuset_count(const os_cpuset *set);
INLINE bool os_cpuset_has(const os_cpuset *set, uint32_t cpu) { return (set->bits[cpu / 64] >> cpu % 64 & 1) != 0; }
/* The set's CPU of that number, counted round; OS_NO_CPU: it is empty. */
uint32_t os_cpuset_nth(const os_cpuset *set, uint32_t number);
/* Makes them the CPUs that the calling thread may use. false: the system does not let it, nothing changed. */
bool os_cpuset_apply(const os_cpuset *set);
/* The CPU that the calling thread runs on just now; OS_NO_CPU when the system does not say. */
uint32_t os_cpu(void);
/* What cgroup v1 or v2 allows, in thousandths of a CPU, the least over all ancestors; 0: no limit. `proc_cgroup` and
 * `mountinfo` are the files to read (those of /proc/self, or a fixture's), `root` is put before each path found. */
uint64_t os_quota_millicpus(const char *proc_cgroup, const char *mountinfo, const char *root);
/* min(affinity, quota rounded up), at least 1. */
unsigned os_cpu_count(void);
/* The same with the quota as it was less than a second ago: a search takes longer than to make the rest of a pool. */
unsigned os_cpu_count_lately(void);
/* The same with that many CPUs in the affinity; 0: the system does not tell of quotas now, for a sandbox or for want of memory
 * or files. */
unsigned os_cpu_count_now(unsigned allowed);
/* How many CPUs the machine has running, whoever may use them; at least 1. */
unsigned os_cpus_online(void);

/* ---- probes ------------------------------------------------------------------------------------------------------- */

/* Static probes (USDT) for bpftrace, perf and SystemTap, where <sys/sdt.h> was there when weft was compiled; docs/howto/observe.md
 * lists them. A probe is one nop. They stand where a thread sleeps, wakes or turns to another's tasks, never where it runs
 * one. gcc alone compiles them: the header's macros are no C17 to clang. */
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
