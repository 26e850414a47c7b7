/* os_simulate.c: os.h on the machine in virtual time: calls of the system cost what the machine says. */
#include "engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_BYTES = 4096, BLOCK_HEAD = 64 };

#define CALLER site_of_call(__builtin_return_address(0))
#define START_PS UINT64_C(1000000000000) /* where the clock begins */

static uint64_t clock_ns(void) { return (START_PS + cpu_now->clock_ps) / 1000; }

static void charge(sim_site *site, uint64_t ps) {
    site->count++;
    site_charge(site, ps);
    sim_point();
}

/* ---- memory ------------------------------------------------------------------------------------------------------- */

void *os_map_aligned(size_t bytes, size_t alignment) {
    charge(CALLER, PS(syscall_ns));
    return memory_get(bytes, alignment);
}
void *os_map(size_t bytes) {
    charge(CALLER, PS(syscall_ns));
    return memory_get(bytes, PAGE_BYTES);
}
bool os_unmap(void *memory, size_t bytes) {
    charge(CALLER, PS(syscall_ns));
    memory_put(memory, bytes);
    return true;
}
void os_purge(void *memory, size_t bytes) {
    uintptr_t start = round_up((uintptr_t)memory, PAGE_BYTES),
              end = ((uintptr_t)memory + bytes) & ~(uintptr_t)(PAGE_BYTES - 1);
    charge(CALLER, PS(syscall_ns));
    if (start < end) memory_purge((void *)start, end - start);
}
void os_purge_pages(void *pages, size_t bytes) { os_purge(pages, bytes); }
void os_huge(void *memory, size_t bytes, bool wanted) { (void)memory, (void)bytes, (void)wanted; }
bool os_space_is_limited(void) { return false; }
enum os_grow os_grow(void *memory, size_t bytes, size_t wanted) {
    (void)memory, (void)bytes, (void)wanted;
    return OS_NO_ROOM;
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
size_t os_page_size(void) { return PAGE_BYTES; }
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

/* In pages of its own each, with its size before it. */
void *os_alloc(size_t bytes) {
    size_t *block = memory_get(bytes + BLOCK_HEAD, PAGE_BYTES);
    if (block == NULL) return NULL;
    *block = bytes + BLOCK_HEAD;
    return (char *)block + BLOCK_HEAD;
}
void os_free(void *memory) {
    if (memory == NULL) return;
    size_t *block = (size_t *)(void *)((char *)memory - BLOCK_HEAD);
    memory_put(block, *block);
}

/* ---- threads ------------------------------------------------------------------------------------------------------ */

int os_thread_start(os_thread *thread, const os_thread_options *options, void (*entry)(void *), void *argument) {
    charge(CALLER, PS(thread_start_ns));
    sim_thread *started = sim_thread_start(entry, argument);
    if (started == NULL) return EAGAIN;
    const os_cpuset *cpus = options->cpus;
    if (cpus != NULL && os_cpuset_count(cpus) < M.cpus) {
        started->allowed = *cpus;
        started->bound = true;
    }
    thread->handle = (uintptr_t)started;
    return 0;
}

size_t os_stack_size(void) { return 65536; }

uint32_t os_thread_id(void) { return sim_self()->id + 1; }
uint32_t os_process_id(void) { return 1; }
void os_thread_join(os_thread thread) {
    sim_thread *joined = (sim_thread *)thread.handle;
    sim_point();
    while (joined->state != THREAD_DONE) sim_sleep(joined, 0);
}

int os_policy_apply(const os_policy *policy) { return policy->kind == OS_POLICY_ORDINARY ? 0 : EPERM; }
bool os_policy_is_real_time(void) { return false; }
int os_jobserver_open(const char *flags, os_pipe *tokens) {
    (void)flags, (void)tokens;
    return ENOENT;
}
bool os_jobserver_take(const os_pipe *tokens, unsigned char *token) {
    (void)tokens, (void)token;
    return false;
}
bool os_jobserver_give(const os_pipe *tokens, unsigned char token) {
    (void)tokens, (void)token;
    return false;
}
bool os_jobserver_wait(const os_pipe *tokens, const os_pipe *bell, bool asks, uint64_t deadline_ns) {
    (void)tokens, (void)bell, (void)asks;
    return deadline_ns == 0;
}
int os_bell_open(os_pipe *bell) {
    (void)bell;
    return ENOENT;
}
void os_bell_ring(const os_pipe *bell) { (void)bell; }
void os_bell_still(const os_pipe *bell) { (void)bell; }
void os_pipe_close(os_pipe *pipe) { (void)pipe; }
int os_lock_file_open(const char *path, os_lock_file *file) {
    (void)path, (void)file;
    return ENOENT;
}
void os_lock_file_check(os_lock_file *file) { (void)file; }
bool os_lock_file_hold(os_lock_file *file, uint32_t byte, bool with_others) {
    (void)file, (void)byte, (void)with_others;
    return false;
}
void os_lock_file_drop(os_lock_file *file, uint32_t byte) { (void)file, (void)byte; }
uint32_t os_lock_file_count(os_lock_file *file, uint32_t first, uint32_t bytes) {
    (void)file, (void)first, (void)bytes;
    return 0;
}
void os_lock_file_tell(os_lock_file *file) { (void)file; }
bool os_lock_file_heard(os_lock_file *file) {
    (void)file;
    return false;
}
uint64_t os_lock_file_look_ns(os_lock_file *file) {
    (void)file;
    return 0;
}
bool os_lock_file_wait(const os_lock_file *file, const os_pipe *bell, bool asks, uint64_t deadline_ns) {
    (void)file, (void)bell, (void)asks;
    return deadline_ns == 0;
}
void os_lock_file_close(os_lock_file *file) { (void)file; }
void os_lock_file_forked(os_lock_file *file) { (void)file; }
int os_cpu_bind(uint32_t cpu) {
    os_cpuset set = {{0}};
    if (cpu >= M.cpus) return EINVAL;
    set.bits[cpu / 64] = UINT64_C(1) << cpu % 64;
    os_cpuset_apply(&set);
    return 0;
}
uint64_t os_real_time_share(uint64_t *period_ns) {
    *period_ns = 1000000000;
    return 950000000;
}
int os_slice_get(uint64_t *slice_ns) { /* turns are as long as the machine's file says */
    *slice_ns = 0;
    return EOPNOTSUPP;
}
int os_slice_set(uint64_t slice_ns) { return slice_ns == 0 ? EINVAL : EOPNOTSUPP; }
int os_memory_lock(void *memory, size_t bytes) {
    (void)memory, (void)bytes;
    return 0;
}
void os_memory_unlock(void *memory, size_t bytes) { (void)memory, (void)bytes; }
const char *os_error_name(int error) { return error == EPERM ? "EPERM" : "EINVAL"; }
bool os_stack(void **lowest, size_t *bytes) {
    *lowest = NULL;
    *bytes = 0;
    return false;
}

/* ---- sleeping ----------------------------------------------------------------------------------------------------- */

enum os_wait_result os_wait(os_word *word, uint32_t value, uint64_t deadline_ns) {
    sim_site *site = CALLER;
    charge(site, PS(syscall_ns));
    line_access(site, (uintptr_t)word, ACCESS_READ);
    if (word->raw != value) return OS_WOKEN;
    if (deadline_ns != 0 && clock_ns() >= deadline_ns) return OS_TIMEDOUT;
    site_charge(site, PS(sleep_ns));
    uint64_t deadline_ps = deadline_ns == 0 ? 0 : deadline_ns * 1000 - START_PS;
    return sim_sleep(word, deadline_ps) ? OS_WOKEN : OS_TIMEDOUT;
}

void os_timer_exact(bool is_exact) {
    charge(CALLER, PS(syscall_ns));
    sim_self()->is_exact = is_exact;
}

void os_wake(os_word *word, int count) {
    sim_site *site = CALLER;
    charge(site, PS(syscall_ns));
    wakes_empty += sim_wake(word, count < 0 ? 0 : (uint32_t)count, site) == 0;
    sim_point();
}

void os_lock(os_mutex *mutex) {
    sim_site *site = CALLER;
    uint32_t self = sim_self()->id + 1;
    sim_point();
    line_access(site, (uintptr_t)mutex, ACCESS_CHANGE);
    if (mutex->word.raw == self) sim_die("a mutex is locked twice by thread %u", self - 1);
    while (mutex->word.raw != 0) {
        site->failed++;
        charge(site, PS(syscall_ns));
        if (mutex->word.raw == 0) break;
        site_charge(site, PS(sleep_ns));
        sim_sleep(mutex, 0);
    }
    mutex->word.raw = self;
}

uint64_t os_signals_block(void) { return 0; }
void os_signals_restore(uint64_t before) { (void)before; }

bool os_try_lock(os_mutex *mutex) {
    sim_point();
    if (mutex->word.raw != 0) return false;
    os_lock(mutex);
    return true;
}

void os_unlock(os_mutex *mutex) {
    sim_site *site = CALLER;
    sim_point();
    line_access(site, (uintptr_t)mutex, ACCESS_CHANGE);
    mutex->word.raw = 0;
    sim_wake(mutex, 1, site);
}

void os_pause(void) {
    sim_site *site = site_of_code((uintptr_t)__builtin_return_address(0), SIM_PAUSE);
    charge(site, PS(pause_ns));
}

void os_give_way(void) {
    charge(CALLER, PS(syscall_ns));
    sim_yield();
}

void os_yield(void) {
    charge(CALLER, PS(syscall_ns));
    sim_yield();
}

/* ---- fences, time ------------------------------------------------------------------------------------------------- */

bool os_fence_is_asymmetric(void) { return true; }

bool os_barrier(void) {
    sim_site *site = CALLER;
    stores_drain();
    site->count++;
    site_charge(site, PS(barrier_ns));
    site_charge(site, sim_interrupt(PS(interrupt_ns)) * PS(barrier_cpu_ns));
    cpu_pass();
    return true;
}

void os_init(void) {
    static bool is_done;
    if (!is_done) fence_begin();
    is_done = true;
}

uint64_t os_now_ns(void) {
    charge(CALLER, PS(now_ns));
    return clock_ns();
}
uint64_t os_ticks(void) {
    charge(CALLER, PS(ticks_ns));
    return clock_ns();
}
uint64_t os_ticks_per_us(void) { return 1000; }

/* ---- files -------------------------------------------------------------------------------------------------------- */

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
void os_die(const char *what) { sim_die("%s", what); }

/* ---- who am I, CPUs ----------------------------------------------------------------------------------------------- */

#define TOPS_4 &os_no_heap[OS_HEAP_TOPS], &os_no_heap[OS_HEAP_TOPS], &os_no_heap[OS_HEAP_TOPS], &os_no_heap[OS_HEAP_TOPS]
#define TOPS_16 TOPS_4, TOPS_4, TOPS_4, TOPS_4
void *os_no_heap[OS_NO_HEAP_WORDS] = {TOPS_16, TOPS_16, TOPS_16, TOPS_4};

os_self *os_self_get(void) { return &sim_self()->self; }
int os_self_watch(enum os_exit who, void (*on_exit)(os_self *self)) {
    sim_self()->self.on_exit[who] = on_exit;
    return 0;
}
uint64_t os_fork_count(void) { return 0; }
void os_on_fork(void (*begin)(void)) { (void)begin; }

bool os_cpuset_parse(os_cpuset *set, const char *text) {
    (void)text;
    return os_cpuset_current(set);
}
bool os_cpuset_current(os_cpuset *set) {
    memset(set, 0, sizeof *set);
    for (uint32_t cpu = 0; cpu < M.cpus; cpu++)
        if (!sim_self()->bound || os_cpuset_has(&sim_self()->allowed, cpu)) set->bits[cpu / 64] |= UINT64_C(1) << cpu % 64;
    return true;
}
bool os_cpuset_main(os_cpuset *set) { /* nothing has bound it */
    memset(set, 0, sizeof *set);
    for (uint32_t cpu = 0; cpu < M.cpus; cpu++) set->bits[cpu / 64] |= UINT64_C(1) << cpu % 64;
    return true;
}
bool os_cpuset_apply(const os_cpuset *set) {
    sim_thread *self = sim_self();
    charge(CALLER, PS(syscall_ns));
    self->allowed = *set;
    self->bound = os_cpuset_count(set) < M.cpus;
    sim_rebind();
    return true;
}
uint32_t os_cpuset_nth(const os_cpuset *set, uint32_t number) {
    uint32_t count = os_cpuset_count(set);
    if (count == 0) return OS_NO_CPU;
    number %= count;
    for (uint32_t cpu = 0;; cpu++)
        if (os_cpuset_has(set, cpu) && number-- == 0) return cpu;
}
unsigned os_cpuset_count(const os_cpuset *set) {
    unsigned count = 0;
    for (uint32_t i = 0; i < OS_CPUS_MAX / 64; i++) count += bits_set(set->bits[i]);
    return count;
}
uint32_t os_cpu(void) { return cpu_index(cpu_now); }
uint64_t os_quota_millicpus(const char *proc_cgroup, const char *mountinfo, const char *root) {
    (void)proc_cgroup, (void)mountinfo, (void)root;
    return 0;
}
unsigned os_cpu_count(void) { return (unsigned)M.cpus; }
unsigned os_cpu_count_lately(void) { return (unsigned)M.cpus; }
unsigned os_cpu_count_now(unsigned allowed) { return allowed; }
bool os_thread_cpuset(os_thread thread, os_cpuset *set) {
    (void)thread;
    return os_cpuset_current(set);
}
unsigned os_cpus_online(void) { return (unsigned)M.cpus; }

size_t os_read(int fd, void *to, size_t bytes) {
    (void)fd, (void)to, (void)bytes;
    return 0;
}
int os_open(const char *path) {
    (void)path;
    return -1;
}
bool os_read_at(int fd, uint64_t offset, void *to, size_t bytes) {
    (void)fd, (void)offset, (void)to, (void)bytes;
    return false;
}

#if defined(WEFT_CHECKED)
void weft_panic(const char *what, const char *file, int line) { sim_die("assertion at %s:%d: %s", file, line, what); }
#endif
