/* os_linux.c: the machine, on Linux with pthreads. Layer 1; the contracts are in os.h.
 *
 * Every function leaves errno as it found it: tasks and their callers may be in the middle of using it. A thread cancelled
 * in here would leave locks and files behind, and others waiting. So calls that are cancellation points in the C library go
 * to the kernel directly.
 *
 * The asymmetric fence (fence.c) needs membarrier(2), registered once per process by os_init. WEFT_FENCE=full in the
 * environment (read by os_init alone) asks for full fences instead, so that the fallback can be tested on any machine. A
 * child of fork() inherits the registration with the address space.
 *
 * os_mutex is the kernel's lock with priority inheritance (FUTEX_LOCK_PI): a thread of real-time priority may share it with
 * ordinary ones. Without contention the kernel is not called. With contention, the kernel changes the word by
 * read-modify-writes, so an acquire of the word after them still meets the release before them. Where the kernel does not
 * offer the lock (ENOSYS, seccomp), a thread that finds it locked yields. Where gettid is refused, ID_UNKNOWN locks, in
 * which all is marked that the kernel would mark; for a thread that slept, the kernel has written its real number.
 *
 * Ordering table
 * O1  os_try_lock, cas  acquire  O3, O5  a holder would not see what the previous holder wrote
 * O2  os_lock_slow, load  acquire  O3, O5  the same, for a holder that slept
 * O3  os_unlock, cas  release  O1, O2, O6  the next holder would not see what this one wrote
 * O5  os_unlock, or  release  O1, O2  the same, where the kernel chooses the next holder
 * O6  os_lock_slow, cas  acquire  O3  as O1, without the kernel
 * O9  key_make, store  release  O10  another thread would use the key before it is made
 * O10 os_self_watch, load  acquire  O9  the same
 */
#define _GNU_SOURCE
#include "os/os.h"

#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- memory ------------------------------------------------------------------------------------------------------- */

void *os_map(size_t bytes) {
    KEEP_ERRNO;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

bool os_unmap(void *memory, size_t bytes) {
    KEEP_ERRNO;
    if (munmap(memory, bytes) == 0) return true;
    ASSERT(errno == ENOMEM); /* too many mappings for the process: give back at least the pages */
    madvise(memory, bytes, MADV_DONTNEED);
    return false;
}

void os_purge(void *memory, size_t bytes) {
    KEEP_ERRNO;
    char *begin = memory, *end = begin + bytes;
    /* The kernel would purge all of the last page, but a lane's segment may be a part of one (Arm has pages of 64 KiB). */
    char *first = (char *)round_up((uintptr_t)begin, os_page_size());
    char *last = (char *)((uintptr_t)end & ~(uintptr_t)(os_page_size() - 1));
    /* Locked memory (mlockall, usual in real-time programs) cannot be given back; it must still read as zeros. */
    if (first >= last || madvise(first, (size_t)(last - first), MADV_DONTNEED) != 0) first = last = end;
    memset(begin, 0, (size_t)(first - begin));
    memset(last, 0, (size_t)(end - last));
}

void os_purge_pages(void *pages, size_t bytes) {
    KEEP_ERRNO;
    madvise(pages, bytes, MADV_DONTNEED);
}

size_t os_page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

#if !defined(MADV_GUARD_INSTALL)
#define MADV_GUARD_INSTALL 102 /* Linux 6.13 */
#define MADV_GUARD_REMOVE 103
#endif
#if !defined(SYS_mseal)
#define SYS_mseal 462 /* Linux 6.10 */
#endif

static PROCESS_STATE ATOMIC(bool) protects; /* a guard was once made by mprotect */

/* Prefers guard marks in the page table: mprotect splits one mapping in two or three, and a process may have only 65,530. */
bool os_guard(void *memory, size_t bytes) {
    KEEP_ERRNO;
    if (madvise(memory, bytes, MADV_GUARD_INSTALL) == 0) return true;
    os_purge(memory, bytes); /* also if the range is locked; a locked range takes no guard marks */
    if (mprotect(memory, bytes, PROT_NONE) != 0) return false;
    store_rlx(&protects, true);
    return true;
}

/* If the process has reached its limit of mappings, a part of one that mprotect has guarded cannot be unguarded. */
bool os_unguard(void *memory, size_t bytes) {
    KEEP_ERRNO;
    bool is_open = madvise(memory, bytes, MADV_GUARD_REMOVE) == 0 || errno == EINVAL; /* EINVAL: the kernel has no marks */
    if (load_rlx(&protects) && mprotect(memory, bytes, PROT_READ | PROT_WRITE) != 0) is_open = false;
    return is_open;
}

/* By a new mapping in its place: locked pages go back, too, and no memory is promised for it. If the process locks what it
 * maps, the new one would count as locked. */
bool os_bar(void *memory, size_t bytes) {
    KEEP_ERRNO;
    int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    if (mmap(memory, bytes, PROT_NONE, how, -1, 0) != memory) return false;
    munlock(memory, bytes);
    return true;
}

void os_seal(void *memory, size_t bytes) {
    KEEP_ERRNO;
    if (mprotect(memory, bytes, PROT_READ) == 0) syscall(SYS_mseal, memory, bytes, 0UL);
}

uint64_t os_entropy(void) {
    KEEP_ERRNO;
    uint64_t number = 0;
    if (syscall(SYS_getrandom, &number, sizeof number, GRND_NONBLOCK) != (long)sizeof number) {
        const unsigned char *bytes = (const unsigned char *)(uintptr_t)getauxval(AT_RANDOM); /* 16 bytes from the kernel */
        uint64_t kernels[2] = {0};
        if (bytes != NULL) memcpy(kernels, bytes, sizeof kernels);
        /* The C library makes its own secrets of these two words. The number mixes both, so that it reveals neither. */
        number = (kernels[0] ^ os_ticks()) * (kernels[1] | 1);
        number = (number ^ number >> 32) * (kernels[0] >> 7 | 1) + kernels[1];
        number ^= number >> 29;
    }
    return number;
}

#if !defined(MAP_FIXED_NOREPLACE)
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* Maps these addresses. false: they are not free. Kernels before 4.17 take the address only as a hint. */
static bool map_at(void *place, size_t bytes) {
    void *memory = mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (memory != place && memory != MAP_FAILED) munmap(memory, bytes);
    return memory == place;
}

/* Maps more than needed and cuts off both ends. */
static void *map_and_cut(size_t bytes, size_t alignment) {
    char *memory = os_map(bytes + alignment);
    if (memory == NULL) return NULL;
    size_t behind = ((uintptr_t)memory + alignment) & (alignment - 1);
    size_t before = alignment - behind;
    os_unmap(memory, before);
    if (behind != 0) os_unmap(memory + before + bytes, behind);
    return memory + before;
}

/* The kernel allocates downwards, in the highest hole with room. After the first one, mappings whose sizes are multiples of
 * their alignment mostly lie side by side: the kernel's place is aligned, and no hole too small for the next one is left. If
 * it is not, then the aligned place before it is, and that is mostly free. */
void *os_map_aligned(size_t bytes, size_t alignment) {
    KEEP_ERRNO;
    if (bytes > SIZE_MAX - alignment) return NULL;
    char *memory = os_map(bytes);
    size_t over = (uintptr_t)memory & (alignment - 1);
    if (memory == NULL || over == 0) return memory;
    os_unmap(memory, bytes);
    memory -= over;
    return memory != NULL && map_at(memory, bytes) ? memory : map_and_cut(bytes, alignment);
}

void os_huge(void *memory, size_t bytes, bool wanted) {
    KEEP_ERRNO;
    madvise(memory, bytes, wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

enum os_grow os_grow(void *memory, size_t bytes, size_t wanted) {
    KEEP_ERRNO;
    if (mremap(memory, bytes, wanted, 0) != MAP_FAILED) return OS_GREW;
    return errno == ENOMEM ? OS_NO_ROOM : OS_UNEVEN;
}

#if !defined(MREMAP_DONTUNMAP)
#define MREMAP_DONTUNMAP 4
#endif
/* Linux (to 6.16) may unmap what was at `to` and only then find that the pages cannot move; os_grow is called first to find
 * that out. The hole is mapped again, unless another thread was faster. An operation that the kernel does not know fails
 * (EINVAL) before anything is unmapped. A process at its limit of mappings would lose a range each time, so the first loss
 * ends all moves. */
static PROCESS_STATE ATOMIC(bool) moves_lose;

bool os_moves(void) { return !load_rlx(&moves_lose); }

static enum os_moved move(void *from, size_t bytes, void *to, int how) {
    if (!os_moves()) return OS_STAYED;
    if (mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | how, to) != MAP_FAILED) return OS_MOVED;
    if (errno == EINVAL) return OS_STAYED;
    if (map_at(to, bytes)) return OS_STAYED;
    store_rlx(&moves_lose, true);
    return OS_LOST;
}

enum os_moved os_move(void *from, size_t bytes, void *to) {
    KEEP_ERRNO;
    return move(from, bytes, to, 0);
}

/* Whether the system treats the whole range alike and would let its pages go. It does not let locked pages go, and a move
 * would unlock them. */
static bool can_move(void *from, size_t bytes) {
    size_t page = os_page_size();
    if (madvise(from, page, MADV_DONTNEED) != 0) return false;
    enum os_grow outcome = os_grow(from, bytes, bytes + page);
    if (outcome == OS_GREW) os_unmap((char *)from + bytes, page);
    return outcome != OS_UNEVEN;
}

/* Whether the old range reads as zeros afterwards, as it does not under qemu-user (7.2). Tried once. */
static bool pages_move(void) {
    static PROCESS_STATE ATOMIC(uint32_t) known; /* 0: not yet; 1: they move; 2: they do not */
    uint32_t found = load_rlx(&known);
    if (LIKELY(found != 0)) return found == 1;
    size_t page = os_page_size();
    char *from = os_map(page);
    if (from == NULL) return false;
    *from = 1;
    char *to = mremap(from, page, page, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    bool is_moved = to != MAP_FAILED && *from == 0 && *to == 1;
    if (to != MAP_FAILED) os_unmap(to, page);
    os_unmap(from, page);
    store_rlx(&known, is_moved ? 1u : 2u);
    return is_moved;
}

enum os_moved os_move_pages(void *from, size_t bytes, void *to) {
    KEEP_ERRNO;
    return pages_move() && can_move(from, bytes) ? move(from, bytes, to, MREMAP_DONTUNMAP) : OS_STAYED;
}

size_t os_resident(const void *memory, size_t bytes) {
    KEEP_ERRNO;
    size_t page = os_page_size(), pages = 0;
    unsigned char states[512];
    for (size_t at = 0; at < bytes; at += sizeof states * page) {
        size_t count = (size_t)min_u64(sizeof states, (bytes - at + page - 1) / page);
        if (mincore((char *)(uintptr_t)memory + at, count * page, states) != 0) continue;
        for (size_t i = 0; i < count; i++) pages += states[i] & 1u;
    }
    return pages * page;
}

uint64_t os_page_faults(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) != 0 ? 0 : (uint64_t)usage.ru_minflt + (uint64_t)usage.ru_majflt;
}

void *os_alloc(size_t bytes) {
    KEEP_ERRNO;
    return malloc(bytes);
}

void os_free(void *memory) {
    KEEP_ERRNO; /* free() keeps errno only since glibc 2.33 */
    free(memory);
}

/* ---- files -------------------------------------------------------------------------------------------------------- */

/* Without the signal that a write may raise: SIGPIPE, nobody reads any more; SIGXFSZ, the file has its greatest size (ulimit -f). A
 * program must not end because of a report about it. Both go to the thread that writes. */
static long write_some(int fd, const void *data, size_t bytes) {
    sigset_t raised, before;
    sigemptyset(&raised);
    sigaddset(&raised, SIGPIPE);
    sigaddset(&raised, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &raised, &before);
    long written = syscall(SYS_write, fd, data, bytes);
    int error = errno, signal = error == EPIPE ? SIGPIPE : SIGXFSZ;
    bool may_be_pending = written < 0 && (error == EPIPE || error == EFBIG) && !sigismember(&before, signal);
    sigemptyset(&raised);
    sigaddset(&raised, signal);
    const struct timespec none = {0};
    if (may_be_pending) sigtimedwait(&raised, NULL, &none);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return written;
}

bool os_write(int fd, const void *data, size_t bytes) {
    KEEP_ERRNO;
    const char *from = data;
    while (bytes > 0) {
        long written = write_some(fd, from, bytes);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) break;
        from += written;
        bytes -= (size_t)written;
    }
    return bytes == 0;
}

void os_die(const char *what) {
    text_tell(what, "", "");
    abort();
}

/* ---- who am I ----------------------------------------------------------------------------------------------------- */

#define TOPS_4 &os_no_heap[OS_HEAP_TOPS], &os_no_heap[OS_HEAP_TOPS], &os_no_heap[OS_HEAP_TOPS], &os_no_heap[OS_HEAP_TOPS]
#define TOPS_16 TOPS_4, TOPS_4, TOPS_4, TOPS_4
void *os_no_heap[OS_NO_HEAP_WORDS] = {TOPS_16, TOPS_16, TOPS_16, TOPS_4};

__thread os_self os_self_of_thread __attribute__((tls_model("initial-exec"))) = {.heap = os_no_heap};

enum key_state { KEY_NONE, KEY_LIVE, KEY_GONE };

static os_mutex key_lock;
static pthread_key_t key_of_exit;
static ATOMIC(int) key_state;

/* The key's value is the thread's os_self. A callback is removed before it is called, so that it may register itself
 * again. */
static void thread_ends(void *value) {
    os_self *self = value;
    for (int who = 0; who < OS_EXITS; who++) {
        void (*on_exit)(os_self *) = self->on_exit[who];
        self->on_exit[who] = NULL;
        if (on_exit != NULL) on_exit(self);
    }
}

/* Other code may hold all the keys of the process and give some back later, so the next caller tries again. */
static int key_make(void) {
    int error = 0;
    os_lock(&key_lock);
    if (load_rlx(&key_state) == KEY_NONE) {
        error = pthread_key_create(&key_of_exit, thread_ends);
        if (error == 0) store_rel(O9, &key_state, KEY_LIVE);
    }
    os_unlock(&key_lock);
    return error;
}

/* A library that is closed must leave no destructor behind that points into it. */
__attribute__((destructor)) static void key_drop(void) {
    if (load_rlx(&key_state) == KEY_LIVE) {
        store_rlx(&key_state, KEY_GONE);
        pthread_key_delete(key_of_exit);
    }
}

int os_self_watch(enum os_exit who, void (*on_exit)(os_self *self)) {
    int error = load_acq(O10, &key_state) == KEY_NONE ? key_make() : 0;
    if (error != 0) return error;
    os_self *self = os_self_get();
    self->on_exit[who] = on_exit;
    if (load_rlx(&key_state) == KEY_GONE) return 0; /* the process is in exit(): threads no longer end one by one */
    error = pthread_setspecific(key_of_exit, self);
    if (error != 0) self->on_exit[who] = NULL;
    return error;
}

static __thread uint32_t thread_id_known __attribute__((tls_model("initial-exec"))); /* 0: not known yet */

static ATOMIC(uint64_t) fork_count;
static ATOMIC(bool) forks_watched;

typedef void (*fork_fn)(void);
static ATOMIC(fork_fn) child_begins; /* or NULL */

/* Only the thread that called fork() goes on in the child, so clearing its os_self clears them all. */
static void fork_child(void) {
    add_rlx(&fork_count, 1);
    thread_id_known = 0;
    key_lock = (os_mutex){0}; /* a thread that does not exist in the child may hold it */
    os_self *self = os_self_get(), kept = {.heap = self->heap, .heap_exits = self->heap_exits};
    kept.heap_mask = self->heap_mask;
    kept.heap_base = self->heap_base;
    kept.on_exit[OS_EXIT_HEAP] = self->on_exit[OS_EXIT_HEAP];
    *self = kept;
    fork_fn begin = load_rlx(&child_begins);
    if (begin != NULL) begin();
}

void os_on_fork(void (*begin)(void)) { store_rlx(&child_begins, begin); }

static void forks_watch(void) { store_rlx(&forks_watched, pthread_atfork(NULL, NULL, fork_child) == 0); }

uint64_t os_fork_count(void) { return load_rlx(&fork_count); }

/* ---- threads ------------------------------------------------------------------------------------------------------ */

/* os_thread.handle points to one of these; it lives until the join, so the new thread need not free it (a first free() would
 * make the C library set up an arena for a thread that may never allocate). */
typedef struct thread_record {
    pthread_t thread;
    void (*entry)(void *);
    void *argument;
    uint64_t fork_count; /* of the process that started it */
    char name[16];       /* empty: inherit the creator's */
} thread_record;

static void *thread_main(void *value) {
    const thread_record *record = value;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    if (record->name[0] != 0) pthread_setname_np(pthread_self(), record->name);
    record->entry(record->argument);
    return NULL;
}

/* Signals for faults that the thread itself causes stay unblocked, for crash handlers and sanitizers; so does the profiler's
 * timer. */
static void signals_to_block(sigset_t *set) {
    static const int open[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPROF};
    sigfillset(set);
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++) sigdelset(set, open[i]);
}

/* A new thread inherits the mask of its creator. */
static int create_with_signals_blocked(thread_record *record, const pthread_attr_t *attr) {
    sigset_t blocked, before;
    signals_to_block(&blocked);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    int error = pthread_create(&record->thread, attr, thread_main, record);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* glibc takes the static TLS of all loaded libraries out of the stack and returns EINVAL if too little is left. The caller
 * asked for a stack that it can use, so the size is doubled up to STACK_RETRY_MAX before the function gives up. */
#define STACK_RETRY_MAX ((size_t)1 << 20)

static int create_with_stack(thread_record *record, pthread_attr_t *attr, size_t stack_size) {
    if (stack_size == 0) return create_with_signals_blocked(record, attr);
    if (stack_size > SIZE_MAX / 2) return EINVAL;
    long least = sysconf(_SC_THREAD_STACK_MIN);
    size_t size = round_up(max_u64(stack_size, (uint64_t)(least > 0 ? least : PTHREAD_STACK_MIN)), os_page_size());
    int error;
    do {
        error = pthread_attr_setstacksize(attr, size);
        if (error == 0) error = create_with_signals_blocked(record, attr);
        size *= 2;
    } while (error == EINVAL && size <= STACK_RETRY_MAX);
    return error;
}

static int create_with_cpus(thread_record *record, pthread_attr_t *attr, const os_thread_options *options) {
    if (options->cpus == NULL) return create_with_stack(record, attr, options->stack_size);
#if defined(__GLIBC__)
    int error = pthread_attr_setaffinity_np(attr, sizeof(os_cpuset), options->cpus);
    return error != 0 ? error : create_with_stack(record, attr, options->stack_size);
#else /* musl has no attribute for it, so the new thread inherits the CPUs that its creator has for the moment */
    os_cpuset before;
    if (!os_cpuset_current(&before) || !os_cpuset_apply(options->cpus)) return EINVAL;
    int error = create_with_stack(record, attr, options->stack_size);
    os_cpuset_apply(&before);
    return error;
#endif
}

static int create_with_options(thread_record *record, const os_thread_options *options) {
    pthread_attr_t attr;
    int error = pthread_attr_init(&attr);
    if (error != 0) return error;
    error = create_with_cpus(record, &attr, options);
    pthread_attr_destroy(&attr);
    return error;
}

static void name_copy(char *to, size_t size, const char *from) {
    size_t length = from == NULL ? 0 : strnlen(from, size - 1);
    if (length != 0) memcpy(to, from, length);
    to[length] = 0;
}

int os_thread_start(os_thread *thread, const os_thread_options *options, void (*entry)(void *), void *argument) {
    KEEP_ERRNO;
    thread_record *record = os_alloc(sizeof *record);
    if (record == NULL) return ENOMEM;
    record->entry = entry;
    record->argument = argument;
    record->fork_count = os_fork_count();
    name_copy(record->name, sizeof record->name, options->name);
    int error = create_with_options(record, options);
    if (error != 0)
        os_free(record);
    else
        thread->handle = (uintptr_t)record;
    return error;
}

size_t os_stack_size(void) {
    pthread_attr_t attributes;
    size_t bytes = 0;
    if (pthread_attr_init(&attributes) != 0) return 65536;
    pthread_attr_getstacksize(&attributes, &bytes);
    pthread_attr_destroy(&attributes);
    return bytes;
}

void os_thread_join(os_thread thread) {
    KEEP_ERRNO;
    thread_record *record = (thread_record *)thread.handle;
    if (record->fork_count == os_fork_count()) {
        int state;
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
        int error = pthread_join(record->thread, NULL);
        pthread_setcancelstate(state, NULL);
        ASSERT(error == 0);
        (void)error;
    }
    os_free(record);
}

/* ---- sleeping ----------------------------------------------------------------------------------------------------- */

_Static_assert(sizeof(time_t) == sizeof(long), "system calls take a timespec of longs");

enum os_wait_result os_wait(os_word *word, uint32_t value, uint64_t deadline_ns) {
    KEEP_ERRNO;
    struct timespec deadline = {(time_t)(deadline_ns / 1000000000u), (long)(deadline_ns % 1000000000u)};
    /* BITSET, because only it takes an absolute time; plain FUTEX_WAIT would drift when a signal interrupts it. */
    long result = syscall(SYS_futex, &word->raw, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, value,
                          deadline_ns == 0 ? NULL : &deadline, NULL, FUTEX_BITSET_MATCH_ANY);
    return result != 0 && errno == ETIMEDOUT ? OS_TIMEDOUT : OS_WOKEN;
}

void os_timer_exact(bool is_exact) {
    KEEP_ERRNO;
    prctl(PR_SET_TIMERSLACK, is_exact ? 1ul : 0ul, 0ul, 0ul, 0ul); /* 0: the slack that the thread was created with */
}

void os_wake(os_word *word, int count) {
    KEEP_ERRNO;
    syscall(SYS_futex, &word->raw, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, NULL, NULL, 0);
}

/* Under SCHED_DEADLINE, sched_yield gives up the rest of the period. */
static bool may_yield(void) {
    KEEP_ERRNO;
    int policy = sched_getscheduler(0);
    return policy < 0 || (policy & ~SCHED_RESET_ON_FORK) != SCHED_DEADLINE;
}

void os_give_way(void) {
    if (may_yield()) sched_yield();
}

#define YIELDS 64u /* one of them sleeps */
#define YIELD_NS 20000
/* Calls clock_nanosleep, as the C library's nanosleep does, because sandboxes allow that one. May return early. */
static void sleep_ns(uint64_t ns) {
    const struct timespec time = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &time, NULL);
}

/* The thread that the caller waits for may have a lower priority and be on this CPU: sched_yield lets only threads of equal
 * priority run. */
void os_yield(void) {
    static __thread uint32_t turns __attribute__((tls_model("initial-exec")));
    KEEP_ERRNO;
    if (++turns % YIELDS != 0 && may_yield())
        sched_yield();
    else
        sleep_ns(YIELD_NS);
}

bool os_thread_cpuset(os_thread thread, os_cpuset *set) {
    memset(set, 0, sizeof *set);
    const thread_record *record = (const thread_record *)thread.handle;
    return record != NULL && pthread_getaffinity_np(record->thread, sizeof *set, (cpu_set_t *)set) == 0;
}
#define ID_UNKNOWN UINT32_MAX

uint32_t os_thread_id(void) {
    if (LIKELY(thread_id_known != 0)) return thread_id_known;
    KEEP_ERRNO;
    long id = syscall(SYS_gettid);
    return thread_id_known = id > 0 ? (uint32_t)id : ID_UNKNOWN;
}

uint32_t os_process_id(void) { return (uint32_t)syscall(SYS_getpid); }

static long futex_pi(os_mutex *mutex, int operation) {
    return syscall(SYS_futex, &mutex->word.raw, operation | FUTEX_PRIVATE_FLAG, 0, NULL, NULL, 0);
}

static NOINLINE void os_lock_slow(os_mutex *mutex) {
    KEEP_ERRNO;
    while (futex_pi(mutex, FUTEX_LOCK_PI) != 0) {
        uint32_t found = 0;
        if (cas_acq(O6, &mutex->word, &found, os_thread_id())) return;
        os_yield();
    }
    (void)load_acq(O2, &mutex->word);
}

bool os_try_lock(os_mutex *mutex) {
    uint32_t found = 0;
    return cas_acq(O1, &mutex->word, &found, os_thread_id());
}

void os_lock(os_mutex *mutex) {
    if (UNLIKELY(!os_try_lock(mutex))) os_lock_slow(mutex);
}

void os_unlock(os_mutex *mutex) {
    uint32_t self = os_thread_id();
    if (LIKELY(cas_rel(O3, &mutex->word, &self, 0u))) return;
    ASSERT((self & FUTEX_TID_MASK) == os_thread_id() || os_thread_id() == ID_UNKNOWN); /* the caller holds it */
    KEEP_ERRNO;
    or_rel(O5, &mutex->word, 0u); /* a thread sleeps */
    futex_pi(mutex, FUTEX_UNLOCK_PI);
}

/* By system calls of their own: the C library would leave its own signals, for cancellation, unblocked. */
uint64_t os_signals_block(void) {
    KEEP_ERRNO;
    const uint64_t all = UINT64_MAX;
    uint64_t before = 0;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &before, sizeof all);
    return before;
}
void os_signals_restore(uint64_t before) {
    KEEP_ERRNO;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
}

/* ---- asymmetric fence --------------------------------------------------------------------------------------------- */

#define SETTLE_NS 10000000
void os_settle_now(void) {
    KEEP_ERRNO;
    uint64_t end_ns = os_now_ns() + SETTLE_NS;
    for (uint64_t now_ns; (now_ns = os_now_ns()) < end_ns;) sleep_ns(end_ns - now_ns); /* spins where it may not sleep */
}

static long membarrier_call(int command) { return syscall(SYS_membarrier, command, 0, 0); }

bool os_barrier(void) {
    KEEP_ERRNO;
    return membarrier_call(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
}

/* Whether WEFT_FENCE asks for full fences. Ignored in set-user-ID programs. */
static bool fence_is_full(void) {
    const char *wish = secure_getenv("WEFT_FENCE");
    if (wish == NULL || wish[0] == 0) return false;
    if (strcmp(wish, "full") == 0) return true;
    text_tell("WEFT_FENCE=", wish, " is not understood and has no effect");
    return false;
}

static void fence_init(void) {
    if (fence_is_full()) return;
    long commands = membarrier_call(MEMBARRIER_CMD_QUERY);
    if (commands < 0 || (commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) return;
    if (membarrier_call(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) != 0) return;
    /* A filter may allow the registration but not the barrier itself. */
    if (os_barrier()) fence_begin();
}

/* ---- time --------------------------------------------------------------------------------------------------------- */

uint64_t os_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- start -------------------------------------------------------------------------------------------------------- */

static pthread_once_t init_once = PTHREAD_ONCE_INIT;

static void init(void) {
    fence_init();
    ticks_begin();
    forks_watch();
}

void os_init(void) {
    KEEP_ERRNO;
    pthread_once(&init_once, init);
    if (UNLIKELY(!load_rlx(&forks_watched))) forks_watch(); /* it had no memory before: try again */
}

#if defined(WEFT_CHECKED)
void weft_panic(const char *what, const char *file, int line) {
    char buffer[256];
    struct text text = {.to = buffer, .size = sizeof buffer, .fd = STDERR_FILENO};
    text_format(&text, "weft: assertion failed: %s at %s:%u\n", what, file, (unsigned)line);
    text_end(&text);
    abort();
}
#endif
