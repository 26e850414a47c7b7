/* os_explore.c: os.h as the explorer's mocks. Nothing here sleeps, and time passes only when somebody looks at it. */
#include "engine.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

enum {
    MUTEXES_MAX = 64,
    BELLS_MAX = 8,
    LOCK_FILES_MAX = 4,
    LOCKS_MAX = 32,
    SPURIOUS_CHANCE = 24,
    FAILURE_CHANCE = 64,
    PAGE_BYTES = 4096
};

static struct {
    struct {
        const os_mutex *address;
        const struct view *released; /* what the last holder knew */
        uint32_t holder;
        bool held;
    } mutexes[MUTEXES_MAX];
    uint32_t mutex_count;
    bool has_jobserver;
    uint32_t tokens; /* in its pipe */
    bool rings[BELLS_MAX];
    uint32_t bells;
    uint32_t lock_files; /* opened; the number of one is its fd */
    struct {
        uint32_t byte; /* + 1; 0: a free entry */
        int owner;
        bool with_others;
    } locks[LOCKS_MAX];
    bool heard[LOCK_FILES_MAX];
} O;

extern char __start_explore_state[], __stop_explore_state[];

void os_begin(void) {
    memset(__start_explore_state, 0, (size_t)(__stop_explore_state - __start_explore_state));
    O.mutex_count = 0;
    O.has_jobserver = false;
    O.lock_files = 0;
    memset(O.locks, 0, sizeof O.locks);
    R.barrier_is_lost = false;
    R.now_ns = 1000000;
}

static bool fails(uint32_t flag) {
    if (!(R.driver->flags & flag) || R.failure_budget == 0 || !choose_rarely(FAILURE_CHANCE)) return false;
    R.failure_budget--;
    return true;
}

/* ---- memory ------------------------------------------------------------------------------------------------------- */

static bool has_no_map(void) { return R.current->no_maps || fails(EXPLORE_MEMORY_FAILS); }

void *os_map(size_t bytes) { return has_no_map() ? NULL : block_new(bytes, PAGE_BYTES); }
bool os_unmap(void *memory, size_t bytes) {
    if (R.current->no_unmaps) {
        block_purge(memory, bytes);
        return false;
    }
    block_free(memory, bytes);
    return true;
}
void os_purge(void *memory, size_t bytes) { block_purge(memory, bytes); }
void os_purge_pages(void *pages, size_t bytes) {
    if (!fails(EXPLORE_MEMORY_FAILS)) block_purge(pages, bytes);
}
void *os_map_aligned(size_t bytes, size_t alignment) { return has_no_map() ? NULL : block_new(bytes, alignment); }
void os_huge(void *memory, size_t bytes, bool wanted) { (void)memory, (void)bytes, (void)wanted; }
bool os_space_is_limited(void) { return false; }
enum os_grow os_grow(void *memory, size_t bytes, size_t wanted) {
    return !R.current->no_room && block_grow(memory, bytes, wanted) ? OS_GREW : OS_NO_ROOM;
}

bool os_moves(void) { return true; }
enum os_moved os_move(void *from, size_t bytes, void *to) {
    (void)from, (void)bytes, (void)to;
    return OS_STAYED;
}
enum os_moved os_move_pages(void *from, size_t bytes, void *to) {
    (void)from, (void)bytes, (void)to;
    return OS_STAYED;
}
size_t os_resident(const void *memory, size_t bytes) {
    (void)memory;
    return bytes;
}
uint64_t os_page_faults(void) { return 0; }
size_t explore_page_bytes = PAGE_BYTES;
size_t os_page_size(void) { return explore_page_bytes; }
bool os_guard(void *memory, size_t bytes) {
    os_purge(memory, bytes);
    return true;
}
bool os_unguard(void *memory, size_t bytes) {
    (void)memory, (void)bytes;
    return true;
}
bool os_bar(void *memory, size_t bytes) { return os_guard(memory, bytes); }
void os_seal(void *memory, size_t bytes) { (void)memory, (void)bytes; }
uint64_t os_entropy(void) { return UINT64_C(0x5bd1e995a4c7f013); }
void *os_alloc(size_t bytes) { return fails(EXPLORE_MEMORY_FAILS) ? NULL : block_new(bytes, CACHE_LINE); }
void os_free(void *memory) {
    if (memory != NULL) block_free(memory, 0);
}

/* ---- threads ------------------------------------------------------------------------------------------------------ */

int os_thread_start(os_thread *started, const os_thread_options *options, void (*entry)(void *), void *argument) {
    (void)options;
    step_point();
    if (fails(EXPLORE_THREADS_FAIL)) return EAGAIN;
    struct thread *t = thread_create(entry, argument);
    trace_step("thread started", NULL, 0, t->id, 0);
    started->handle = (uintptr_t)t;
    return 0;
}

size_t os_stack_size(void) { return 65536; }
uint32_t os_thread_id(void) { return R.current->id + 1; }
uint32_t os_process_id(void) { return 1; }

void os_thread_join(os_thread joined) {
    struct thread *t = (struct thread *)joined.handle;
    step_point();
    while (t->state != THREAD_DONE) thread_sleep(SLEEP_JOIN, t, 0);
    view_join(R.current->now, t->released, true);
    trace_step("joined", NULL, 0, t->id, 0);
}

int os_policy_apply(const os_policy *policy) { return policy->kind == OS_POLICY_ORDINARY ? 0 : EPERM; }
bool os_policy_is_real_time(void) { return false; }
/* Who waits sleeps on a word, which changes with each token and each ring. There is one bell for all pools: more wake than need be. */
static PROCESS_STATE os_word server_word;
void explore_jobserver(uint32_t tokens) {
    O.has_jobserver = true;
    O.tokens = tokens;
}
uint32_t explore_tokens(void) { return O.tokens; }
int os_jobserver_open(const char *flags, os_pipe *tokens) {
    (void)flags, (void)tokens; /* the explorer may run under make itself */
    return O.has_jobserver ? 0 : ENOENT;
}
bool os_jobserver_take(const os_pipe *tokens, unsigned char *token) {
    (void)tokens;
    step_point();
    if (O.tokens == 0) return false;
    *token = (unsigned char)O.tokens--;
    return true;
}
static void server_ring(void) {
    (void)add_rlx(&server_word, 1);
    os_wake(&server_word, INT_MAX);
}
bool os_jobserver_give(const os_pipe *tokens, unsigned char token) {
    (void)tokens;
    step_point();
    O.tokens++;
    server_ring();
    return token != 0;
}
/* Without the second after which the system's returns. */
bool os_jobserver_wait(const os_pipe *tokens, const os_pipe *bell, bool asks, uint64_t deadline_ns) {
    (void)tokens;
    uint32_t seen = (uint32_t)model_newest(&server_word.raw, sizeof server_word.raw);
    if (O.rings[bell->fd] || (asks && O.tokens > 0))
        step_point();
    else
        os_wait(&server_word, seen, deadline_ns);
    return true;
}
int os_bell_open(os_pipe *bell) {
    bell->fd = (int)(O.bells++ % BELLS_MAX);
    O.rings[bell->fd] = false;
    return 0;
}
void os_bell_ring(const os_pipe *bell) {
    step_point();
    O.rings[bell->fd] = true;
    server_ring();
}
void os_bell_still(const os_pipe *bell) {
    step_point();
    O.rings[bell->fd] = false;
}
void os_pipe_close(os_pipe *pipe) { (void)pipe; }

/* One file, which each process opens for itself. */
uint32_t explore_locks(uint32_t end) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < LOCKS_MAX; i++) count += O.locks[i].byte != 0 && O.locks[i].byte <= end;
    return count;
}
int os_lock_file_open(const char *path, os_lock_file *file) {
    (void)path;
    *file = (os_lock_file){.file.fd = (int)(O.lock_files++ % LOCK_FILES_MAX), .watch = -1};
    O.heard[file->file.fd] = false;
    return 0;
}
/* Of the byte: this process's entry, or (false) another's; LOCKS_MAX: none. */
static uint32_t lock_find(const os_lock_file *file, uint32_t byte, bool own) {
    uint32_t i = 0;
    while (i < LOCKS_MAX && (O.locks[i].byte != byte + 1 || (O.locks[i].owner == file->file.fd) != own)) i++;
    return i;
}
void os_lock_file_check(os_lock_file *file) { (void)file; }
bool os_lock_file_hold(os_lock_file *file, uint32_t byte, bool with_others) {
    step_point();
    uint32_t other = lock_find(file, byte, false), free = 0;
    if (other < LOCKS_MAX && !(with_others && O.locks[other].with_others)) return false;
    while (O.locks[free].byte != 0) free++;
    O.locks[free].byte = byte + 1;
    O.locks[free].owner = file->file.fd;
    O.locks[free].with_others = with_others;
    return true;
}
void os_lock_file_drop(os_lock_file *file, uint32_t byte) {
    step_point();
    uint32_t own = lock_find(file, byte, true);
    if (own < LOCKS_MAX) O.locks[own].byte = 0;
}
uint32_t os_lock_file_count(os_lock_file *file, uint32_t first, uint32_t bytes) {
    uint32_t count = 0;
    step_point();
    for (uint32_t i = 0; i < LOCKS_MAX; i++)
        count += O.locks[i].byte > first && O.locks[i].byte <= first + bytes && O.locks[i].owner != file->file.fd;
    return count;
}
void os_lock_file_tell(os_lock_file *file) {
    (void)file;
    step_point();
    for (uint32_t i = 0; i < LOCK_FILES_MAX; i++) O.heard[i] = true;
    server_ring();
}
bool os_lock_file_heard(os_lock_file *file) {
    step_point();
    bool has_heard = O.heard[file->file.fd];
    O.heard[file->file.fd] = false;
    return has_heard;
}
uint64_t os_lock_file_look_ns(os_lock_file *file) {
    (void)file;
    return 0;
}
bool os_lock_file_wait(const os_lock_file *file, const os_pipe *bell, bool asks, uint64_t deadline_ns) {
    uint32_t seen = (uint32_t)model_newest(&server_word.raw, sizeof server_word.raw);
    if (O.rings[bell->fd] || (asks && O.heard[file->file.fd]))
        step_point();
    else
        os_wait(&server_word, seen, deadline_ns);
    return true;
}
/* The process ends, or is killed: all locks end at once. */
void os_lock_file_close(os_lock_file *file) {
    step_point();
    for (uint32_t i = 0; i < LOCKS_MAX; i++)
        if (O.locks[i].owner == file->file.fd) O.locks[i].byte = 0;
    os_lock_file_tell(file);
}
void os_lock_file_forked(os_lock_file *file) { (void)file; }
int os_slice_get(uint64_t *slice_ns) {
    *slice_ns = 0;
    return EOPNOTSUPP;
}
int os_slice_set(uint64_t slice_ns) { return slice_ns == 0 ? EINVAL : EOPNOTSUPP; }
int os_cpu_bind(uint32_t cpu) { return cpu < 2 ? 0 : EINVAL; }
uint64_t os_real_time_share(uint64_t *period_ns) {
    *period_ns = 1000000;
    return 950000;
}
int os_memory_lock(void *memory, size_t bytes) {
    (void)memory, (void)bytes;
    return 0;
}
const char *os_error_name(int error) { return error == EPERM ? "EPERM" : "EINVAL"; }
void os_memory_unlock(void *memory, size_t bytes) { (void)memory, (void)bytes; }
bool os_stack(void **lowest, size_t *bytes) {
    (void)lowest, (void)bytes;
    return false;
}

/* ---- sleeping ----------------------------------------------------------------------------------------------------- */

enum os_wait_result os_wait(os_word *word, uint32_t value, uint64_t deadline_ns) {
    step_point();
    struct thread *self = R.current;
    uint64_t found = model_newest(&word->raw, sizeof word->raw);
    trace_step("sleep", NULL, (uintptr_t)word, value, found);
    run_mix(UINT64_C(0x51) << 32 | (uint64_t)(found != value) << 8 | self->id);
    if (found != value) return OS_WOKEN;
    if (deadline_ns != 0 && R.now_ns >= deadline_ns) return OS_TIMEDOUT;
    if (R.spurious_budget > 0 && choose_rarely(SPURIOUS_CHANCE)) {
        R.spurious_budget--;
        return OS_WOKEN;
    }
    thread_sleep(SLEEP_WORD, word, deadline_ns);
    trace_step(self->timed_out ? "timed out" : "woken", NULL, (uintptr_t)word, 0, 0);
    run_mix(UINT64_C(0x52) << 32 | (uint64_t)self->timed_out << 8 | self->id);
    return self->timed_out ? OS_TIMEDOUT : OS_WOKEN;
}

void os_timer_exact(bool is_exact) { (void)is_exact; }

void os_wake(os_word *word, int count) {
    step_point();
    uint32_t woken = thread_wake(SLEEP_WORD, word, count < 0 ? 0 : (uint32_t)count);
    trace_step("wake", NULL, (uintptr_t)word, (uint64_t)count, woken);
    run_mix(UINT64_C(0x53) << 32 | (uint64_t)woken << 8 | R.current->id);
}

static uint32_t mutex_of(os_mutex *mutex) {
    model_newest(&mutex->word.raw, sizeof mutex->word.raw); /* notes who used the memory, and when */
    for (uint32_t i = 0; i < O.mutex_count; i++)
        if (O.mutexes[i].address == mutex) return i;
    if (O.mutex_count == MUTEXES_MAX) explore_fail(LIMIT "more than %d mutexes", MUTEXES_MAX);
    O.mutexes[O.mutex_count].address = mutex;
    O.mutexes[O.mutex_count].released = NULL;
    O.mutexes[O.mutex_count].held = false;
    return O.mutex_count++;
}

void os_lock(os_mutex *mutex) {
    step_point();
    uint32_t i = mutex_of(mutex), self = R.current->id;
    if (O.mutexes[i].held && O.mutexes[i].holder == self) explore_fail("a mutex is locked twice by T%u", self);
    while (O.mutexes[i].held) thread_sleep(SLEEP_MUTEX, mutex, 0);
    O.mutexes[i].held = true;
    O.mutexes[i].holder = self;
    if (O.mutexes[i].released != NULL) view_join(R.current->now, O.mutexes[i].released, true);
    trace_step("lock", NULL, (uintptr_t)mutex, 0, 0);
    run_mix(UINT64_C(0x54) << 32 | (uint64_t)i << 8 | self);
}

uint64_t os_signals_block(void) { return 0; }
void os_signals_restore(uint64_t before) { (void)before; }

bool os_try_lock(os_mutex *mutex) {
    step_point();
    if (O.mutexes[mutex_of(mutex)].held) return false;
    os_lock(mutex);
    return true;
}

void os_unlock(os_mutex *mutex) {
    step_point();
    uint32_t i = mutex_of(mutex);
    if (!O.mutexes[i].held || O.mutexes[i].holder != R.current->id)
        explore_fail("a mutex is unlocked by another than its holder");
    O.mutexes[i].held = false;
    O.mutexes[i].released = model_release(R.current);
    trace_step("unlock", NULL, (uintptr_t)mutex, 0, 0);
    thread_wake(SLEEP_MUTEX, mutex, 1);
}

void os_pause(void) {
    R.current->paused = true;
    trace_step("pause", NULL, 0, 0, 0);
    step_point();
}

void os_give_way(void) { os_yield(); }

void os_yield(void) {
    R.current->yields = true;
    os_pause();
}

/* ---- the rest ----------------------------------------------------------------------------------------------------- */

bool os_fence_is_asymmetric(void) { return R.asymmetric; }
bool os_barrier(void) {
    if (R.barrier_is_lost || fails(EXPLORE_BARRIER_FAILS)) R.barrier_is_lost = true;
    if (!R.barrier_is_lost) os_fence_heavy(explore_barrier);
    return !R.barrier_is_lost;
}
void os_init(void) {}

bool os_write(int fd, const void *data, size_t bytes) { return fd >= 0 && (data != NULL || bytes == 0); }

int os_create(const char *path) { return path == NULL ? -1 : 1; }
int os_append(const char *path) { return os_create(path); }
int os_open_directory(const char *path) { return os_create(path); }
int os_append_and_read(const char *path) { return os_create(path); }
int os_make_in(int directory, const char *name) { return directory < 0 ? -1 : os_create(name); }
bool os_remove_left(int directory, const char *name) { return directory >= 0 && name == NULL; }
bool os_hold_made(int fd) { return fd >= 0; }
bool os_lock_written(int fd, uint64_t deadline_ns) { return fd >= 0 && deadline_ns > 0; }
void os_unlock_written(int fd) { (void)fd; }
size_t os_read_end(int fd, void *to, size_t bytes, uint64_t *size) {
    (void)fd, (void)to, (void)bytes;
    *size = OS_NO_SIZE;
    return 0;
}
bool os_cut(int fd, uint64_t size) { return fd >= 0 && size == 0; }
uint64_t os_process_start(void) { return 0; }
void os_empty(int fd) { (void)fd; }
int os_stacks_begin(void) { return ENOSYS; }
int os_stack_of(uint32_t thread, uintptr_t frames[OS_FRAMES_MAX], uint64_t wait_ns) {
    (void)thread, (void)wait_ns;
    frames[0] = 0;
    return OS_STACK_NONE;
}
void os_remove_in(int directory, const char *name) { (void)directory, (void)name; }
void os_close(int fd) { (void)fd; }
void os_symbol(uintptr_t address, char *name, size_t size) {
    (void)address;
    if (size > 0) name[0] = 0;
}

uint64_t os_now_ns(void) { return R.now_ns += R.tick_ns; }
uint64_t os_ticks(void) { return os_now_ns(); }
uint64_t os_ticks_per_us(void) { return 1000; }

#define TOPS_4 &os_no_heap[OS_HEAP_TOPS], &os_no_heap[OS_HEAP_TOPS], &os_no_heap[OS_HEAP_TOPS], &os_no_heap[OS_HEAP_TOPS]
#define TOPS_16 TOPS_4, TOPS_4, TOPS_4, TOPS_4
void *os_no_heap[OS_NO_HEAP_WORDS] = {TOPS_16, TOPS_16, TOPS_16, TOPS_4};

os_self *os_self_get(void) {
    if (R.current->self.heap == NULL) R.current->self.heap = os_no_heap; /* as a thread begins */
    return &R.current->self;
}
int os_self_watch(enum os_exit who, void (*on_exit)(os_self *self)) {
    R.current->self.on_exit[who] = on_exit;
    return 0;
}
uint64_t os_fork_count(void) { return 0; }
void os_on_fork(void (*begin)(void)) { (void)begin; }

bool os_cpuset_parse(os_cpuset *set, const char *text) {
    (void)text;
    return os_cpuset_current(set);
}
os_word *explore_cpus;
os_thread explore_cpus_of;
bool os_cpuset_current(os_cpuset *set) {
    memset(set, 0, sizeof *set);
    set->bits[0] = explore_cpus == NULL ? 3 : 1;
    return true;
}
bool os_cpuset_main(os_cpuset *set) { return os_cpuset_current(set); }
bool os_cpuset_apply(const os_cpuset *set) {
    (void)set;
    return true;
}
uint32_t os_cpu(void) { return R.current->id % 2; }
uint32_t os_cpuset_nth(const os_cpuset *set, uint32_t number) {
    (void)set;
    return number % 2;
}
unsigned os_cpuset_count(const os_cpuset *set) { return (unsigned)__builtin_popcountll(set->bits[0]); }
uint64_t os_quota_millicpus(const char *proc_cgroup, const char *mountinfo, const char *root) {
    (void)proc_cgroup, (void)mountinfo, (void)root;
    return 0;
}
unsigned os_cpu_count(void) { return 2; }
unsigned os_cpu_count_lately(void) { return 2; }
uint32_t explore_cpu_counts;
unsigned os_cpu_count_now(unsigned allowed) {
    explore_cpu_counts++;
    return allowed;
}
bool os_thread_cpuset(os_thread thread, os_cpuset *set) {
    bool is_known = os_cpuset_current(set);
    if (explore_cpus != NULL && thread.handle == explore_cpus_of.handle) set->bits[0] = load_acq(explore_cpus, explore_cpus);
    return is_known;
}
unsigned os_cpus_online(void) { return 2; }

void os_die(const char *what) { explore_fail("%s", what); }

#if defined(WEFT_CHECKED)
__attribute__((weak)) void weft_panic(const char *what, const char *file, int line) {
    explore_fail("assertion at %s:%d: %s", file, line, what);
}
#endif
