/* explore.h: how a driver is written. README.md tells the model and its limits.
 *
 * A driver is a small program over the internals of src/, run again and again, each time with another schedule. `setup` runs
 * first, then one coroutine for each function of `threads`, and after their end `check`. setup and check see everything that
 * happened before them. All shared memory of a driver that is not from os_map or os_alloc must be initialised by setup. */
#ifndef WEFT_EXPLORE_DRIVER_H
#define WEFT_EXPLORE_DRIVER_H

#include "os/os.h"

#include <stdio.h>

#define EXPLORE_DRIVER_THREADS 8

/* explore_driver.flags */
#define EXPLORE_MUST_FAIL 1u       /* a seeded fault: the run passes when a schedule fails */
#define EXPLORE_NO_RESCUE 2u       /* a sleep that only its deadline ends, with nothing else to run, is a lost wake-up */
#define EXPLORE_THREADS_FAIL 4u    /* os_thread_start may fail */
#define EXPLORE_MEMORY_FAILS 8u    /* os_map and os_alloc may fail */
#define EXPLORE_ALWAYS_FULL 16u    /* os_fence_light and os_fence_heavy are always full fences */
#define EXPLORE_ALWAYS_LIGHT 32u   /* they are always the asymmetric pair */
#define EXPLORE_BARRIER_FAILS 128u /* os_barrier may stop working, for good */
#define EXPLORE_LOSES_BARRIER 256u /* as with --lose-barrier: light fences become full ones in the middle */
#define EXPLORE_LOCKED 512u        /* as with --locked: changes are full fences, fence_rmw_sc is none */
#define EXPLORE_BUFFERING 64u      /* as with --buffering: a load may read a store that runs later */

/* A driver that runs a program drawn from a number. Failing ones are made smaller, and printed. */
typedef struct explore_program {
    /* Makes the program of that number and applies the cuts; false: the last one changes nothing. */
    bool (*make)(uint64_t number, const uint32_t *cuts, uint32_t count);
    uint32_t (*ways)(void); /* cuts that may be tried: numbers below this */
    void (*print)(FILE *file);
    uint32_t schedules; /* of each program, one after another */
} explore_program;

typedef struct explore_driver {
    const char *name;
    const char *about;
    void (*setup)(void);
    void (*threads[EXPLORE_DRIVER_THREADS])(void);
    void (*check)(void);
    uint32_t flags;
    uint32_t must_see;  /* bits passed to explore_observe that must all appear in 10,000 schedules, or with --until-seen */
    uint32_t steps_max; /* a longer schedule is a livelock; 0: 50,000 */
    const char *fails_with; /* a part of the report that a seeded fault must end in, or several with | between them */
    const explore_program *program;
} explore_driver;

#define EXPLORE_DRIVER(id, ...)                                                                                             \
    static const explore_driver driver_##id = {.name = #id, __VA_ARGS__};                                                   \
    static const explore_driver *const driver_entry_##id __attribute__((section("explore_drivers"), used)) = &driver_##id

/* A number below n, chosen by the seed: for a driver's parameters (where positions start, how many tasks, ...). */
uint32_t explore_pick(uint32_t n);
/* Notes that an outcome was seen; below 32. */
void explore_observe(unsigned outcome);
/* Lets other threads run for as long as they like. */
void explore_step(void);
/* From now on the calling thread has a real-time priority, on the one CPU of all: as long as it can run, nobody else
 * does. It leaves the CPU only when it sleeps, and to os_yield, never to os_pause. */
void explore_fifo(bool is_fifo);
/* From the pool's making on there is a jobserver with so many tokens; how many it has now. */
void explore_jobserver(uint32_t tokens);
uint32_t explore_tokens(void);
/* How many bytes below `end` processes have locked in the file of the lease. */
uint32_t explore_locks(uint32_t end);
/* What the library does at exit about tokens. */
void explore_process_ends(void);
/* Whether the calling thread finds memory from now on: new mappings, and room where an old one was (os_grow). */
void explore_memory(bool maps, bool grows);
/* Whether the system unmaps what it gives back from now on; otherwise it takes the pages alone. */
void explore_unmaps(bool unmaps);
/* Where a driver has set it: the CPUs of one thread; all others are on the first alone then. NULL: all are on both. */
extern os_word *explore_cpus;
extern os_thread explore_cpus_of;
extern size_t explore_page_bytes;   /* a driver that sets it sets it back */
extern uint32_t explore_cpu_counts; /* how often the CPUs were counted; a driver's setup makes it 0 */
/* Of os_map and os_alloc, not released yet. A driver that has ended all that it began expects none: what is lost fails nothing
 * else. */
uint64_t explore_bytes_left(void);
/* The index of the running coroutine; 0 runs setup and check. */
unsigned explore_self(void);
void explore_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#define EXPECT(condition) ((condition) ? (void)0 : explore_fail("expected at %s:%d: %s", __FILE__, __LINE__, #condition))

#endif
