/* cpus.c: virtual CPUs and the threads on them.
 *
 * Who goes on is always the CPU whose clock is least, or a deadline that is due before it. A CPU with nothing to run is idle: its
 * clock stands until a thread is put on it.
 *
 * The system's scheduler, in short. A thread that wakes goes to the CPU where it ran last if that is idle, else to the nearest
 * idle one, else it queues up where it ran last. A new one goes where most CPUs are idle together. A CPU that runs out of
 * threads takes one that waits for another CPU, from the longest queue. Who shares a CPU runs for a slice at least; then
 * the one that has had least goes first. */
#define _GNU_SOURCE
#include "engine.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { STACK_BYTES = 512 * 1024, BUCKETS = 4096, TIMERS_MAX = 1 << 16, BUSY_STEP_PS = 100000000 };

static struct timer {
    uint64_t when_ps;
    sim_thread *thread;
    uint32_t sleep;
} timers[TIMERS_MAX];
static uint32_t timer_count;

static sim_cpu cpus[CPUS_MAX + 1], *heap[CPUS_MAX];
static uint32_t heap_count;
static sim_thread *threads[SIM_THREADS_MAX], *running;
static uint32_t thread_count;
static struct bucket { sim_thread *first, *last; } sleepers[BUCKETS];
static struct fiber engine;

sim_cpu *cpu_now;
uint64_t horizon_ps, sleeps, wakes_sent, wakes_empty, preemptions;

void sim_die(const char *format, ...) {
    va_list list;
    va_start(list, format);
    fputs("simulate: ", stderr);
    vfprintf(stderr, format, list);
    fputs("\n", stderr);
    va_end(list);
    exit(3);
}

uint32_t cpu_index(const sim_cpu *cpu) { return (uint32_t)(cpu - cpus); }
sim_cpu *cpu_at(uint32_t index) { return &cpus[index]; }
sim_thread *sim_self(void) { return running; }

/* ---- the CPUs that run, by their clocks --------------------------------------------------------------------------- */

static bool is_before(const sim_cpu *one, const sim_cpu *other) {
    return one->clock_ps < other->clock_ps || (one->clock_ps == other->clock_ps && one < other);
}

static void heap_put(uint32_t at, sim_cpu *cpu) {
    heap[at] = cpu;
    cpu->heap_at = at;
}

static void heap_down(uint32_t at) {
    sim_cpu *cpu = heap[at];
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= heap_count) break;
        if (child + 1 < heap_count && is_before(heap[child + 1], heap[child])) child++;
        if (!is_before(heap[child], cpu)) break;
        heap_put(at, heap[child]);
        at = child;
    }
    heap_put(at, cpu);
}

static void heap_up(uint32_t at) {
    sim_cpu *cpu = heap[at];
    for (; at > 0 && is_before(cpu, heap[(at - 1) / 2]); at = (at - 1) / 2) heap_put(at, heap[(at - 1) / 2]);
    heap_put(at, cpu);
}

/* The running CPU's clock moves on while it stands at the top. */
static void heap_mend(void) {
    if (heap_count > 0 && cpu_now != NULL && cpu_now->thread != NULL) heap_down(cpu_now->heap_at);
}

static void heap_add(sim_cpu *cpu) {
    heap_put(heap_count, cpu);
    heap_up(heap_count++);
}

static void heap_remove(sim_cpu *cpu) {
    uint32_t at = cpu->heap_at;
    sim_cpu *last = heap[--heap_count];
    if (last == cpu) return;
    heap_put(at, last);
    heap_down(at);
    heap_up(last->heap_at);
}

/* ---- deadlines ---------------------------------------------------------------------------------------------------- */

static bool timer_before(const struct timer *one, const struct timer *other) {
    return one->when_ps < other->when_ps || (one->when_ps == other->when_ps && one->thread->id < other->thread->id);
}

static void timer_add(struct timer timer) {
    if (timer_count == TIMERS_MAX) sim_die("more than %d deadlines", TIMERS_MAX);
    uint32_t at = timer_count++;
    for (; at > 0 && timer_before(&timer, &timers[(at - 1) / 2]); at = (at - 1) / 2) timers[at] = timers[(at - 1) / 2];
    timers[at] = timer;
}

static void timer_drop(void) {
    struct timer last = timers[--timer_count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= timer_count) break;
        if (child + 1 < timer_count && timer_before(&timers[child + 1], &timers[child])) child++;
        if (!timer_before(&timers[child], &last)) break;
        timers[at] = timers[child];
        at = child;
    }
    timers[at] = last;
}

static bool timer_stands(const struct timer *timer) {
    return timer->thread->state == THREAD_ASLEEP && timer->thread->sleep == timer->sleep;
}

/* ---- threads on CPUs ---------------------------------------------------------------------------------------------- */

static bool may_use(const sim_thread *thread, uint32_t cpu) {
    return !thread->bound || os_cpuset_has(&thread->allowed, cpu);
}

static void cpu_begin(sim_cpu *cpu, sim_thread *thread, uint64_t at_ps) {
    bool was_idle = cpu->thread == NULL;
    heap_mend();
    cpu->thread = thread;
    cpu->clock_ps = cpu->began_ps = at_ps;
    cpu->slice_end_ps = at_ps + PS(slice_ns);
    cpu->drain_ps = at_ps;
    cpu->missed_at = NULL;
    cpu->share_ps = max_u64(cpu->share_ps, thread->used_ps);
    thread->cpu = cpu_index(cpu);
    thread->state = THREAD_RUNS;
    if (was_idle)
        heap_add(cpu);
    else
        heap_down(cpu->heap_at);
    horizon_ps = min_u64(horizon_ps, at_ps + PS(skew_ns));
}

static void enqueue(sim_cpu *cpu, sim_thread *thread) {
    sim_thread **end = &cpu->queue;
    while (*end != NULL) end = &(*end)->next;
    thread->next = NULL;
    *end = thread;
    thread->state = THREAD_READY;
    if (cpu == cpu_now) horizon_ps = min_u64(horizon_ps, cpu->slice_end_ps);
}

/* The thread that has had least, of those that may run on `on`. */
static sim_thread *dequeue(sim_cpu *from, uint32_t on) {
    sim_thread **best = NULL;
    for (sim_thread **at = &from->queue; *at != NULL; at = &(*at)->next)
        if (may_use(*at, on) && (best == NULL || (*at)->used_ps < (*best)->used_ps)) best = at;
    if (best == NULL) return NULL;
    sim_thread *thread = *best;
    *best = thread->next;
    return thread;
}

static uint32_t queue_length(const sim_cpu *cpu) {
    uint32_t length = 0;
    for (const sim_thread *thread = cpu->queue; thread != NULL; thread = thread->next) length++;
    return length;
}

/* A thread that waits for another CPU. */
static sim_thread *pull(uint32_t on) {
    sim_cpu *longest = NULL;
    uint32_t most = 0;
    for (uint32_t i = 0; i < M.cpus; i++) {
        if (cpus[i].queue == NULL) continue;
        uint32_t length = queue_length(&cpus[i]);
        if (length > most) {
            most = length;
            longest = &cpus[i];
        }
    }
    return longest == NULL ? NULL : dequeue(longest, on);
}

/* The CPU's thread has left it, and is told apart: another goes on there, or none. */
static void cpu_leave(sim_cpu *cpu) {
    sim_thread *gone = cpu->thread;
    uint64_t used = cpu->clock_ps - cpu->began_ps;
    gone->used_ps += used;
    cpu->busy_ps += used;
    sim_thread *next = dequeue(cpu, cpu_index(cpu));
    uint64_t at_ps = cpu->clock_ps + PS(switch_ns);
    if (next == NULL) {
        next = pull(cpu_index(cpu));
        at_ps += PS(migrate_ns);
    }
    if (next != NULL) {
        cpu_begin(cpu, next, at_ps);
        return;
    }
    heap_mend();
    heap_remove(cpu);
    cpu->thread = NULL;
    cpu->idle_since_ps = cpu->clock_ps;
}

static void thread_slice_is_over(sim_cpu *cpu) {
    sim_thread *thread = cpu->thread;
    preemptions++;
    enqueue(cpu, thread);
    cpu_leave(cpu);
}

static uint64_t idle_latency_ps(const sim_cpu *cpu, uint64_t now_ps) {
    uint64_t idle = now_ps > cpu->idle_since_ps ? now_ps - cpu->idle_since_ps : 0;
    if (idle < 100000000) return PS(run_short_ns);
    return idle < UINT64_C(2000000000) ? PS(run_middle_ns) : PS(run_long_ns);
}

/* The nearest idle CPU; NULL: there is none that it may use. */
static sim_cpu *idle_near(const sim_thread *thread) {
    sim_cpu *best = NULL;
    enum distance least = DISTANCE_REMOTE;
    for (uint32_t i = 0; i < M.cpus; i++) {
        uint32_t at = (thread->cpu + i) % (uint32_t)M.cpus;
        if (cpus[at].thread != NULL || !may_use(thread, at)) continue;
        enum distance distance = machine_distance(thread->cpu, at);
        if (best != NULL && distance >= least) continue;
        best = &cpus[at];
        least = distance;
        if (least <= DISTANCE_CLUSTER) break;
    }
    return best;
}

/* For a new thread: where most are idle together; else the shortest queue. */
static sim_cpu *idle_most(const sim_thread *thread) {
    sim_cpu *best = NULL;
    uint32_t most = 0;
    for (uint32_t at = 0; at < M.cpus; at++) {
        uint32_t idle = 0;
        if (cpus[at].thread != NULL || !may_use(thread, at)) continue;
        for (uint32_t i = 0; i < M.cpus; i++) idle += cpus[i].thread == NULL && machine_distance(at, i) <= DISTANCE_CLUSTER;
        if (idle > most) best = &cpus[at];
        most = idle > most ? idle : most;
    }
    return best;
}

static sim_cpu *shortest_queue(const sim_thread *thread) {
    sim_cpu *best = NULL;
    for (uint32_t at = 0; at < M.cpus; at++)
        if (may_use(thread, at) && (best == NULL || queue_length(&cpus[at]) < queue_length(best))) best = &cpus[at];
    return best == NULL ? &cpus[0] : best;
}

static void thread_ready(sim_thread *thread, uint64_t now_ps, bool is_new) {
    sim_cpu *last = &cpus[thread->cpu];
    sim_cpu *cpu = is_new ? idle_most(thread) : idle_near(thread);
    if (!is_new && last->thread == NULL && may_use(thread, thread->cpu)) cpu = last;
    if (cpu == NULL) cpu = !is_new && may_use(thread, thread->cpu) ? last : shortest_queue(thread);
    thread->used_ps = max_u64(thread->used_ps, cpu->share_ps > PS(slice_ns) ? cpu->share_ps - PS(slice_ns) : 0);
    if (cpu->thread == NULL)
        cpu_begin(cpu, thread, max_u64(now_ps, cpu->idle_since_ps) + idle_latency_ps(cpu, now_ps));
    else
        enqueue(cpu, thread);
}

/* ---- who goes on -------------------------------------------------------------------------------------------------- */

static void sleeper_remove(sim_thread *thread);

static void timer_fire(void) {
    struct timer timer = timers[0];
    timer_drop();
    if (!timer_stands(&timer)) return;
    sleeper_remove(timer.thread);
    timer.thread->timed_out = true;
    thread_ready(timer.thread, timer.when_ps, false);
}

static void set_horizon(void) {
    uint64_t next = UINT64_MAX - PS(skew_ns);
    for (uint32_t i = 1; i < 3 && i < heap_count; i++) next = min_u64(next, heap[i]->clock_ps);
    if (timer_count > 0) next = min_u64(next, timers[0].when_ps);
    horizon_ps = next + PS(skew_ns);
    if (cpu_now->queue != NULL) horizon_ps = min_u64(horizon_ps, cpu_now->slice_end_ps);
}

__attribute__((noreturn)) static void die_asleep(void) {
    for (uint32_t i = 0; i < thread_count; i++)
        if (threads[i]->state == THREAD_ASLEEP)
            fprintf(stderr, "simulate: thread %u sleeps on %p\n", i, threads[i]->sleeps_on);
    sim_die("every thread sleeps, without a deadline");
}

/* The CPU that is behind, for which something is due no sooner; its thread. */
static void choose(void) {
    for (;;) {
        if (heap_count == 0 && timer_count == 0) die_asleep();
        if (timer_count > 0 && (heap_count == 0 || timers[0].when_ps <= heap[0]->clock_ps)) {
            timer_fire();
            continue;
        }
        sim_cpu *first = heap[0];
        if (first->queue == NULL || first->clock_ps < first->slice_end_ps) {
            cpu_now = first;
            return;
        }
        cpu_now = first;
        thread_slice_is_over(first);
    }
}

static void go_on(void) {
    sim_thread *before = running;
    choose();
    set_horizon();
    running = cpu_now->thread;
    if (running != before) fiber_switch(&before->fiber, &running->fiber, before->state == THREAD_DONE);
}

void cpu_pass(void) {
    heap_mend();
    go_on();
}

void sim_busy(uint64_t ps) {
    while (ps > 0) {
        uint64_t step = min_u64(ps, BUSY_STEP_PS);
        cpu_now->clock_ps += sim_paired(step);
        ps -= step;
        sim_point();
    }
}

uint64_t cpus_busy_ps(void) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < M.cpus; i++)
        sum += cpus[i].busy_ps + (cpus[i].thread == NULL ? 0 : cpus[i].clock_ps - cpus[i].began_ps);
    return sum;
}

/* ---- sleeping ----------------------------------------------------------------------------------------------------- */

static struct bucket *bucket_of(const void *on) { return &sleepers[((uintptr_t)on >> 2) * 2654435761u % BUCKETS]; }

static void sleeper_add(sim_thread *thread) {
    struct bucket *bucket = bucket_of(thread->sleeps_on);
    thread->next = NULL;
    if (bucket->last == NULL)
        bucket->first = thread;
    else
        bucket->last->next = thread;
    bucket->last = thread;
}

static void sleeper_remove(sim_thread *thread) {
    struct bucket *bucket = bucket_of(thread->sleeps_on);
    sim_thread *before = NULL;
    for (sim_thread *at = bucket->first; at != thread; at = at->next) before = at;
    if (before == NULL)
        bucket->first = thread->next;
    else
        before->next = thread->next;
    if (bucket->last == thread) bucket->last = before;
}

bool sim_sleep(const void *on, uint64_t deadline_ps) {
    sim_thread *self = running;
    sleeps++;
    self->sleeps_on = on;
    self->sleep++;
    self->timed_out = false;
    self->state = THREAD_ASLEEP;
    sleeper_add(self);
    uint64_t slack = self->is_exact ? 0 : PS(timer_slack_ns);
    if (deadline_ps != 0) timer_add((struct timer){max_u64(deadline_ps + slack, cpu_now->clock_ps), self, self->sleep});
    cpu_leave(cpu_now);
    go_on();
    return !self->timed_out;
}

uint32_t sim_wake(const void *on, uint32_t count, sim_site *site) {
    uint32_t woken = 0;
    sim_thread *next = NULL;
    for (sim_thread *at = bucket_of(on)->first; at != NULL && woken < count; at = next) {
        next = at->next;
        if (at->sleeps_on != on) continue;
        sleeper_remove(at);
        site_charge(site, PS(wake_ns));
        thread_ready(at, cpu_now->clock_ps, false);
        woken++;
    }
    wakes_sent += woken;
    return woken;
}

void sim_yield(void) {
    sim_cpu *cpu = cpu_now;
    if (cpu->queue == NULL) return;
    for (const sim_thread *thread = cpu->queue; thread != NULL; thread = thread->next)
        running->used_ps = max_u64(running->used_ps, thread->used_ps + 1);
    thread_slice_is_over(cpu);
    go_on();
}

uint32_t sim_interrupt(uint64_t ps) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < heap_count; i++) {
        if (heap[i] == cpu_now || heap[i]->thread == NULL) continue;
        heap[i]->clock_ps += ps;
        count++;
    }
    for (uint32_t i = heap_count / 2 + 1; i-- > 0;)
        if (i < heap_count) heap_down(i);
    return count;
}

void sim_rebind(void) {
    sim_thread *self = running;
    if (may_use(self, self->cpu)) return;
    sim_cpu *cpu = cpu_now;
    uint64_t now_ps = cpu->clock_ps;
    cpu_leave(cpu);
    thread_ready(self, now_ps, true);
    go_on();
}

/* ---- threads ------------------------------------------------------------------------------------------------------ */

static void thread_main(void) {
    sim_thread *self = running;
    self->entry(self->argument);
    if (self->id == 0) {
        fiber_switch(&self->fiber, &engine, true);
        abort();
    }
    for (int who = 0; who < OS_EXITS; who++)
        if (self->self.on_exit[who] != NULL) self->self.on_exit[who](&self->self);
    sim_wake(self, UINT32_MAX, site_of_code((uintptr_t)&thread_main, SIM_SYSTEM));
    self->state = THREAD_DONE;
    cpu_leave(cpu_now);
    go_on();
    abort();
}

sim_thread *sim_thread_start(void (*entry)(void *), void *argument) {
    if (thread_count == SIM_THREADS_MAX) return NULL;
    sim_thread *thread = calloc(1, sizeof *thread);
    char *stack = memory_get(STACK_BYTES, 4096);
    if (thread == NULL || stack == NULL || mprotect(stack, 4096, PROT_NONE) != 0) sim_die("no memory for a thread");
    thread->id = thread_count;
    thread->fiber.stack = stack;
    thread->fiber.size = STACK_BYTES;
    thread->entry = entry;
    thread->argument = argument;
    thread->self.heap = os_no_heap;
    fiber_reset(&thread->fiber, thread_main);
    threads[thread_count++] = thread;
    thread_ready(thread, cpu_now == NULL ? 0 : cpu_now->clock_ps, true);
    return thread;
}

void cpus_run(void (*entry)(void *), void *argument) {
    sim_thread *first = sim_thread_start(entry, argument);
    choose();
    set_horizon();
    running = first;
    fiber_switch(&engine, &first->fiber, false);
}
