/* engine.h: a machine in virtual time.
 *
 *     machine.c  what the machine is: CPUs, and what things cost
 *     cpus.c     virtual CPUs with a clock each; threads on them, as coroutines; sleep, wake, preemption
 *     lines.c    which CPU has which cache line, and what an access costs
 *     atomics.c  atomic operations, by value
 *     plain.c    plain accesses, told by the compiler
 *     sites.c    what each place in the sources has cost
 *     memory.c   memory at the same addresses in each run
 *     os_simulate.c os.h
 *     main.c     command line, one run of a workload, the report
 *
 * One OS thread runs everything. The CPU whose clock is behind all others goes on, until its clock has passed another's by
 * `skew`: operations take effect in the order of virtual time, give or take that. So any order of effects is one that a
 * sequentially consistent machine could show: what a weaker one may do is the explorer's to find, not this one's.
 *
 * Times are picoseconds. Nothing depends on the real clock, on addresses the system chooses, or on anything but the command line. */
#ifndef WEFT_SIMULATE_ENGINE_H
#define WEFT_SIMULATE_ENGINE_H

#include "os/os.h"

#include "../fiber.h"

#include <stdio.h>

enum { CPUS_MAX = 512, SIM_THREADS_MAX = 4096, SET_WORDS = CPUS_MAX / 64, NO_OWNER = 0xffff };

/* ---- machine.c ---------------------------------------------------------------------------------------------------- */

/* Name in the machine's file; its unit is in it. Times become picoseconds. */
#define MACHINE_COUNTS(X)                                                                                                   \
    X(cpus)                                                                                                                 \
    X(sockets)                                                                                                              \
    X(cluster_cpus)                                                                                                         \
    X(store_buffer)                                                                                                         \
    X(l1_lines)                                                                                                             \
    X(l2_lines)                                                                                                             \
    X(overlap_percent)                                                                                                      \
    X(pair_percent)
#define MACHINE_TIMES(X)                                                                                                    \
    X(access_ns)                                                                                                            \
    X(call_ns)                                                                                                              \
    X(rmw_ns)                                                                                                               \
    X(fence_ns)                                                                                                             \
    X(pause_ns)                                                                                                             \
    X(ticks_ns)                                                                                                             \
    X(now_ns)                                                                                                               \
    X(l2_ns)                                                                                                                \
    X(l3_ns)                                                                                                                \
    X(memory_ns)                                                                                                            \
    X(cluster_ns)                                                                                                           \
    X(socket_ns)                                                                                                            \
    X(remote_ns)                                                                                                            \
    X(share_ns)                                                                                                             \
    X(fault_ns)                                                                                                             \
    X(syscall_ns)                                                                                                           \
    X(sleep_ns)                                                                                                             \
    X(wake_ns)                                                                                                              \
    X(run_short_ns)                                                                                                         \
    X(run_middle_ns)                                                                                                        \
    X(run_long_ns)                                                                                                          \
    X(switch_ns)                                                                                                            \
    X(migrate_ns)                                                                                                           \
    X(slice_ns)                                                                                                             \
    X(timer_slack_ns)                                                                                                       \
    X(barrier_ns)                                                                                                           \
    X(barrier_cpu_ns)                                                                                                       \
    X(interrupt_ns)                                                                                                         \
    X(thread_start_ns)                                                                                                      \
    X(skew_ns)

typedef struct machine {
#define MACHINE_COUNT(name) uint64_t name;
#define MACHINE_TIME(name) uint64_t name##_ps;
    MACHINE_COUNTS(MACHINE_COUNT)
    MACHINE_TIMES(MACHINE_TIME)
#undef MACHINE_COUNT
#undef MACHINE_TIME
} machine;

#define PS(time) (M.time##_ps)

extern machine M;
/* "name=value". false: there is no such name, or that is no value of it. */
bool machine_set(const char *text);
/* The name of a value that is missing or out of range; NULL: none. */
const char *machine_wrong(void);

enum distance { DISTANCE_SELF, DISTANCE_CLUSTER, DISTANCE_SOCKET, DISTANCE_REMOTE };
enum distance machine_distance(uint32_t one, uint32_t other);

/* ---- cpus.c ------------------------------------------------------------------------------------------------------- */

enum thread_state { THREAD_READY, THREAD_RUNS, THREAD_ASLEEP, THREAD_DONE };

typedef struct sim_thread {
    struct fiber fiber;
    os_self self;
    uint32_t id;
    enum thread_state state;
    void (*entry)(void *);
    void *argument;
    uint32_t cpu;          /* where it runs, or ran last */
    uint64_t used_ps;      /* fair share: CPU time, as compared with its neighbours */
    const void *sleeps_on; /* NULL: on nothing but its deadline */
    uint32_t sleep;        /* how many sleeps it has begun */
    bool timed_out, is_exact, bound;
    os_cpuset allowed;       /* when it is bound */
    struct sim_thread *next; /* in a queue of a CPU or of a sleepers' list */
    sim_site *cause;         /* the line that its present call of the system is charged to, or NULL */
} sim_thread;

typedef struct sim_cpu {
    uint64_t clock_ps;
    uint64_t idle_since_ps;
    uint64_t slice_end_ps;
    uint64_t share_ps;  /* the least used_ps of its threads, lately */
    uint64_t drain_ps;  /* when the last of its stores has left the buffer */
    uint64_t missed_ps; /* when its last load that missed was done, and where that stood */
    const sim_site *missed_at;
    uint64_t stores[64]; /* when the last ones that missed are done */
    uint32_t store_next;
    uint32_t fills; /* lines that have come */
    uint32_t heap_at;
    sim_thread *thread; /* NULL: idle */
    sim_thread *queue;  /* waiting for it, in order of arrival */
    uint64_t busy_ps;   /* time with a thread on it */
    uint64_t began_ps;
} sim_cpu;

extern sim_cpu *cpu_now; /* the CPU whose thread runs */
extern uint64_t horizon_ps;
extern uint64_t sleeps, wakes_sent, wakes_empty, preemptions;

/* Runs `entry` as the first thread, until it returns. */
void cpus_run(void (*entry)(void *), void *argument);
uint32_t cpu_index(const sim_cpu *cpu);
sim_cpu *cpu_at(uint32_t index);
uint64_t cpus_busy_ps(void);

void cpu_pass(void); /* the current CPU's clock has passed the horizon: others go first */
INLINE void sim_point(void) {
    if (UNLIKELY(cpu_now->clock_ps > horizon_ps)) cpu_pass();
}
/* What instructions that take `ps` alone take while the other CPU of the core, one of each pair, runs something, too. */
INLINE uint64_t sim_paired(uint64_t ps) {
    bool is_shared = M.pair_percent != 100 && cpu_at(cpu_index(cpu_now) ^ 1)->thread != NULL;
    return is_shared ? ps * M.pair_percent / 100 : ps;
}
/* The thread is busy for so long; it may lose its CPU meanwhile. */
void sim_busy(uint64_t ps);

sim_thread *sim_thread_start(void (*entry)(void *), void *argument);
/* Sleeps on `on` until woken, or until the deadline (0: none). false: the deadline. */
bool sim_sleep(const void *on, uint64_t deadline_ps);
/* Wakes at most `count` sleepers, the first first; returns how many. Each costs the caller wake_ns. */
uint32_t sim_wake(const void *on, uint32_t count, sim_site *site);
void sim_yield(void);
/* Every other CPU that runs something is interrupted for so long. Returns how many those were. */
uint32_t sim_interrupt(uint64_t ps);
/* Moves the thread off its CPU if that is not allowed it. */
void sim_rebind(void);
sim_thread *sim_self(void);
void sim_die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* ---- lines.c ------------------------------------------------------------------------------------------------------ */

void lines_init(void);
/* The current CPU reads, writes, or reads and writes at once: its clock moves, the line changes hands. */
enum access { ACCESS_READ, ACCESS_WRITE, ACCESS_CHANGE };
void line_access(sim_site *site, uintptr_t address, enum access how);
/* Memory that is new: nobody has its lines. */
void lines_forget(uintptr_t address, size_t bytes);
/* Waits until the CPU's stores are out. */
void stores_drain(void);

/* ---- sites.c ------------------------------------------------------------------------------------------------------ */

sim_site *site_of_code(uintptr_t code, enum sim_kind kind);
/* The site that the running call is charged to: its cause, or else the code. */
sim_site *site_of_call(const void *code);
INLINE void site_charge(sim_site *site, uint64_t ps) {
    site->ps += ps;
    cpu_now->clock_ps += ps;
}
void sites_reset(void);
/* Notes what each has cost since the last reset; what comes does not count. */
void sites_keep(void);
void sites_each_kept(void (*visit)(const sim_site *site, void *context), void *context);
/* "FILE:LINE:NS". false: no atomic operation stands there, or that is none of it. */
bool site_plant(const char *text);

/* ---- memory.c ----------------------------------------------------------------------------------------------------- */

#define ARENA_BASE UINT64_C(0x200000000000)
#define ARENA_BYTES (UINT64_C(1) << 35)

void memory_init(void);
void *memory_get(size_t bytes, size_t alignment); /* zeros; NULL: there is no more */
void memory_put(void *memory, size_t bytes);
void memory_purge(void *memory, size_t bytes);
/* Whether the page has not been touched since it was got or purged; it has been then. */
bool memory_first_touch(uintptr_t address);

#endif
