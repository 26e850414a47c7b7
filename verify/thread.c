/* thread.c: model threads. See engine.h. */
#define _DEFAULT_SOURCE
#include "engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

run R;

static struct view *view_make(void) { return calloc(1, sizeof(struct view) + LOCATIONS_MAX * sizeof(int32_t)); }

void threads_init(void) {
    R.threads = calloc(THREADS_MAX, sizeof *R.threads);
    R.sc = view_make();
    bool ok = R.threads != NULL && R.sc != NULL;
    for (uint32_t i = 0; ok && i < THREADS_MAX; i++) {
        struct thread *t = &R.threads[i];
        t->id = i;
        t->now = view_make();
        t->pending = view_make();
        ok = t->now != NULL && t->pending != NULL && fiber_stack(&t->fiber);
    }
    if (!ok) {
        fputs("explore: out of memory\n", stderr);
        exit(2);
    }
}

void threads_begin(void) {
    for (uint32_t i = 0; i < R.thread_count; i++) R.threads[i].state = THREAD_UNUSED;
    R.thread_count = 0;
    R.current = NULL;
}

/* Gives up the schedule: the fibres are left where they are. */
__attribute__((noreturn)) static void leave(void) {
    fiber_switch(&R.current->fiber, &R.engine, true);
    abort();
}

void explore_fail(const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(R.failure, sizeof R.failure, format, list);
    va_end(list);
    R.failed = true;
    leave();
}

static void switch_to(struct thread *next) {
    struct thread *from = R.current;
    R.current = next;
    next->paused = next->yields = false;
    next->streak = 0;
    fiber_switch(&from->fiber, &next->fiber, from->state == THREAD_DONE);
}

/* Ends the sleep of a thread by its deadline. */
static void time_out(struct thread *t) {
    t->state = THREAD_READY;
    t->timed_out = true;
    if (R.now_ns < t->deadline_ns) R.now_ns = t->deadline_ns;
}

static struct thread *choose_sleeper_with_deadline(void) {
    struct thread *timed[THREADS_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < R.thread_count; i++) {
        struct thread *t = &R.threads[i];
        if (t->state == THREAD_ASLEEP && t->deadline_ns != 0) timed[n++] = t;
    }
    return n == 0 ? NULL : timed[choose(n)];
}

__attribute__((noreturn)) static void fail_deadlock(void) {
    static const char *const kinds[] = {"word", "mutex", "end of thread"};
    char text[800] = "", name[64];
    size_t used = 0;
    for (uint32_t i = 0; i < R.thread_count; i++) {
        struct thread *t = &R.threads[i];
        if (t->state != THREAD_ASLEEP) continue;
        block_name((uintptr_t)t->sleeps_on, name, sizeof name);
        int n = snprintf(text + used, sizeof text - used, "; T%u sleeps on %s %s%s", t->id, kinds[t->sleeps], name,
                         t->deadline_ns != 0 ? " until a deadline" : "");
        if (n > 0) used = min_u64(used + (size_t)n, sizeof text - 1);
    }
    explore_fail("lost wake-up: every thread sleeps%s", text);
}

/* The current thread cannot go on: runs another. */
static void run_another(void) {
    struct thread *next = choose_thread(false);
    if (next == NULL) {
        next = choose_sleeper_with_deadline();
        if (next == NULL || (R.driver->flags & EXPLORE_NO_RESCUE)) fail_deadlock();
        time_out(next);
    }
    if (next != R.current) switch_to(next);
}

static void pause_current(void) {
    R.current->streak = 0;
    if (R.mode == MODE_PCT) R.current->priority = --R.priority_floor;
    struct thread *next = choose_thread(false);
    if (next != NULL) switch_to(next);
}

void step_point(void) {
    struct thread *self = R.current;
    if (++R.steps > R.steps_max) explore_fail("livelock: %u steps", R.steps_max);
    if (choose_rarely(R.mode == MODE_DFS ? 0 : R.timeout_chance)) {
        struct thread *t = choose_sleeper_with_deadline();
        if (t != NULL) time_out(t);
    }
    if (self->paused || ++self->streak > STREAK_MAX) {
        self->paused = false;
        pause_current();
        return;
    }
    struct thread *next = choose_thread(true);
    if (next != self) switch_to(next);
}

void step_stand(uint32_t steps) {
    struct thread *self = R.current;
    self->stands_until = R.steps + steps;
    step_point();
    self->stands_until = 0;
}

void thread_sleep(enum sleep_kind kind, const void *on, uint64_t deadline_ns) {
    struct thread *self = R.current;
    self->state = THREAD_ASLEEP;
    self->sleeps = kind;
    self->sleeps_on = on;
    self->deadline_ns = deadline_ns;
    self->timed_out = false;
    run_another();
}

uint32_t thread_wake(enum sleep_kind kind, const void *on, uint32_t count) {
    uint32_t woken = 0;
    while (woken < count) {
        struct thread *asleep[THREADS_MAX];
        uint32_t n = 0;
        for (uint32_t i = 0; i < R.thread_count; i++) {
            struct thread *t = &R.threads[i];
            if (t->state == THREAD_ASLEEP && t->sleeps == kind && t->sleeps_on == on) asleep[n++] = t;
        }
        if (n == 0) break;
        asleep[choose(n)]->state = THREAD_READY;
        woken++;
    }
    return woken;
}

static void thread_main(void) {
    struct thread *self = R.current;
    self->entry(self->argument);
    for (int who = 0; who < OS_EXITS; who++)
        if (self->self.on_exit[who] != NULL) self->self.on_exit[who](&self->self);
    step_point();
    self->released = model_release(self); /* for those that join it */
    self->state = THREAD_DONE;
    trace_step("end of thread", NULL, 0, 0, 0);
    thread_wake(SLEEP_JOIN, self, THREADS_MAX);
    if (self->id == 0) leave();
    run_another();
    abort();
}

struct thread *thread_create(void (*entry)(void *), void *argument) {
    if (R.thread_count == THREADS_MAX) explore_fail(LIMIT "more than %d threads", THREADS_MAX);
    struct thread *t = &R.threads[R.thread_count++];
    memset(t->now->clock, 0, sizeof t->now->clock);
    memset(t->pending->clock, 0, sizeof t->pending->clock);
    t->now->n = t->pending->n = 0;
    t->released = t->unfenced = NULL;
    t->hoists = false;
    memset(t->stale, 0, sizeof t->stale);
    memset(&t->self, 0, sizeof t->self);
    t->self.heap = os_no_heap;
    t->entry = entry;
    t->argument = argument;
    t->paused = t->timed_out = t->is_fifo = t->yields = t->no_maps = t->no_room = t->no_unmaps = false;
    t->streak = t->stands_until = 0;
    t->deadline_ns = 0;
    t->priority = (int32_t)choose(R.mode == MODE_DFS ? 1 : 1000) + 1;
    if (R.current != NULL) view_join(t->now, model_release(R.current), true);
    t->now->clock[t->id] = 1;
    fiber_reset(&t->fiber, thread_main);
    t->state = THREAD_READY;
    return t;
}

static void driver_thread(void *function) {
    void (*const *body)(void) = function;
    (*body)();
}

/* Thread 0: the driver from setup to check. */
static void driver_main(void *argument) {
    (void)argument;
    const explore_driver *driver = R.driver;
    os_thread started[EXPLORE_DRIVER_THREADS];
    uint32_t n = 0;
    if (driver->setup != NULL) driver->setup();
    for (; n < EXPLORE_DRIVER_THREADS && driver->threads[n] != NULL; n++)
        started[n].handle = (uintptr_t)thread_create(driver_thread, (void *)(uintptr_t)&driver->threads[n]);
    for (uint32_t i = 0; i < n; i++) os_thread_join(started[i]);
    if (driver->check != NULL) driver->check();
    for (uint32_t i = 1; i < R.thread_count; i++)
        if (R.threads[i].state != THREAD_DONE) explore_fail("T%u was never joined and still runs", i);
}

void thread_run_schedule(void) {
    threads_begin();
    struct thread *first = thread_create(driver_main, NULL);
    R.current = first;
    fiber_switch(&R.engine, &first->fiber, false);
}

void explore_fifo(bool is_fifo) { R.current->is_fifo = is_fifo; }

void explore_memory(bool maps, bool grows) {
    R.current->no_maps = !maps;
    R.current->no_room = !grows;
}

void explore_unmaps(bool unmaps) { R.current->no_unmaps = !unmaps; }

unsigned explore_self(void) { return R.current->id; }

void explore_step(void) {
    trace_step("step", NULL, 0, 0, 0);
    step_point();
}
