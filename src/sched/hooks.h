/* hooks.h: the points at which sched calls predict/ and observe/. src/rooms.c binds them. If a hook is NULL, nothing happens, and
 * the pool works without it. The seat's own thread calls them, unless a comment says otherwise. */
#ifndef WEFT_HOOKS_H
#define WEFT_HOOKS_H

#include "sched/worker.h"

/* ---- prediction: when work comes, what a wake costs, where to sleep ------------------------------------------------- */

enum poll_end { POLL_NOT, POLL_WOKEN, POLL_OVER };

struct predict_hooks {
    /* A claim of `tasks` tasks from that lane took `ticks`. Decides whether tasks are short, and whether the lane's are tiny. */
    void (*timed)(struct weft_worker *seat, struct lane *lane, uint64_t ticks, uint64_t tasks);
    /* Another thread feeds tiny tasks to the lane that the worker claimed from last: lets that thread run ahead. */
    void (*let_ahead)(struct weft_worker *seat);
    /* Are tasks short, as many workers awake as there are CPUs, and does one more poll? Then no worker need be woken. */
    bool (*suffices)(const struct weft_worker *seat, const struct park_view *view);

    /* The worker is about to sleep. POLL_NOT: it must park. Else it has polled and is a searcher now; its last sleep began at
     * *since (ticks). POLL_WOKEN: another thread woke it. */
    enum poll_end (*poll)(struct weft_worker *seat, bool is_searcher, uint64_t *since);
    /* It is about to park, and has parked. */
    void (*before_park)(struct weft_worker *seat);
    void (*after_park)(struct weft_worker *seat, bool was_woken);
    /* The worker has announced that it parks, and was told to be awake at `told_ns` (0: was not told). Returns the time at which
     * the clock should wake it (CLOCK_MONOTONIC ns); 0: never. */
    uint64_t (*plan)(struct weft_worker *seat, uint64_t told_ns);
    /* Another thread has woken the parked worker. */
    void (*woken)(struct weft_worker *seat);
    /* The worker may run on another CPU than before. */
    void (*moved)(struct weft_worker *seat);
    /* No other thread woke the worker from its sleep; it is a searcher now: looks out for the work that it expects. */
    void (*look_out)(struct weft_worker *seat);

    /* A searcher has looked for work before a sleep; `came`: it found some, and kept its CPU meanwhile. */
    void (*searched)(struct weft_worker *seat, bool came);
    /* A loop of its thread began at `start` and ended at `end`; the one before it ended at `since` (ticks). */
    void (*recurs)(struct weft_worker *seat, uint64_t since, uint64_t start, uint64_t end);
};
extern const struct predict_hooks predict; /* src/rooms.c */

INLINE void predict_timed(struct weft_worker *seat, struct lane *lane, uint64_t ticks, uint64_t tasks) {
    if (predict.timed != NULL) predict.timed(seat, lane, ticks, tasks);
}
INLINE void predict_let_ahead(struct weft_worker *seat) {
    if (predict.let_ahead != NULL) predict.let_ahead(seat);
}
INLINE bool predict_suffices(const struct weft_worker *seat, const struct park_view *view) {
    return view->polling && predict.suffices(seat, view); /* workers poll only in the hook `poll`; then this is bound */
}
INLINE enum poll_end predict_poll(struct weft_worker *seat, bool is_searcher, uint64_t *since) {
    return predict.poll == NULL ? POLL_NOT : predict.poll(seat, is_searcher, since);
}
INLINE void predict_before_park(struct weft_worker *seat) {
    if (predict.before_park != NULL) predict.before_park(seat);
}
INLINE void predict_after_park(struct weft_worker *seat, bool was_woken) {
    if (predict.after_park != NULL) predict.after_park(seat, was_woken);
}
INLINE uint64_t predict_plan(struct weft_worker *seat, uint64_t told_ns) {
    return predict.plan == NULL ? 0 : predict.plan(seat, told_ns);
}
INLINE void predict_woken(struct weft_worker *seat) {
    if (predict.woken != NULL) predict.woken(seat);
}
INLINE void predict_moved(struct weft_worker *seat) {
    if (predict.moved != NULL) predict.moved(seat);
}
INLINE void predict_look_out(struct weft_worker *seat) {
    if (predict.look_out != NULL) predict.look_out(seat);
}
INLINE void predict_searched(struct weft_worker *seat, bool came) {
    if (predict.searched != NULL) predict.searched(seat, came);
}
INLINE void predict_recurs(struct weft_worker *seat, uint64_t since, uint64_t start, uint64_t end) {
    if (predict.recurs != NULL) predict.recurs(seat, since, start, end);
}

/* ---- observation: a timeline, tasks that run too long ----------------------------------------------------------------- */

/* What lasted from `start` to its end, or happened at `start`. */
enum trace_kind {
    TRACE_TASK,
    TRACE_NODE,
    TRACE_FORK,
    TRACE_LOOP,
    TRACE_HELP_LOOP,
    TRACE_PARK,
    TRACE_WAKING,
    TRACE_WAIT,
    TRACE_CLAIM, /* first of the kinds that happen at one moment; `what`: its tasks; `detail`: claim_source; `place`: seat */
    TRACE_WAKE,
    TRACE_SUBMIT, /* `what`: tasks noted together, this one first; `detail`: cells from one task to the next */
    TRACE_KINDS
};

/* All but `start` and `end` are called only in pools with EXTRA_TRACED or EXTRA_WATCHED, which only observe/ sets. */
struct observe_hooks {
    /* The pool's threads are about to start: does what the configuration asks for. WEFT_OK; or an error, and nothing is left
     * open. The thread that makes the pool calls it. The thread that ends the pool calls `end` when no other thread runs. */
    int (*start)(weft_pool *pool);
    void (*end)(weft_pool *pool);
    /* In a forked child: other threads of the parent may hold locks. */
    void (*forked)(void);
    /* Called in place of a task's function, which is in seat->running. */
    weft_fn run;
    /* A node of a graph, inside such a task. */
    int (*node)(struct weft_worker *seat, weft_fn fn, void *context);
    /* An event that began at `start` (ticks) ends now. */
    void (*span)(struct weft_worker *seat, enum trace_kind kind, uint64_t start, uintptr_t what);
    /* A sleep that began at `slept` and the wake, sent at `sent`, that ended it at `now`. */
    void (*wake)(struct weft_worker *seat, uint64_t slept, uint64_t sent, uint64_t now);
    /* A task is about to be submitted at lane->cell, where there is room. Moves lane->last to the place of the next task that this
     * hook is to be called for. */
    void (*submits)(struct weft_worker *seat, struct lane *lane);
};
extern const struct observe_hooks observe; /* src/rooms.c */

INLINE int observe_start(weft_pool *pool) { return observe.start == NULL ? WEFT_OK : observe.start(pool); }
INLINE void observe_end(weft_pool *pool) {
    if (observe.end != NULL) observe.end(pool);
}
INLINE void observe_forked(void) {
    if (observe.forked != NULL) observe.forked();
}
INLINE bool observe_tasks(const weft_pool *pool) {
    return UNLIKELY((load_rlx(&pool->extras) & (EXTRA_TRACED | EXTRA_WATCHED)) != 0);
}
INLINE weft_fn observe_task(const weft_pool *pool, weft_fn fn) { return observe_tasks(pool) ? observe.run : fn; }
/* The clock, if the pool is traced or watched; else 0. */
INLINE uint64_t observe_clock(const struct weft_worker *seat) { return observe_tasks(seat->pool) ? os_ticks() : 0; }
/* The clock, if a timeline is recorded; else 0. */
INLINE uint64_t trace_begin(const struct weft_worker *seat) {
    return UNLIKELY((load_rlx(&seat->pool->extras) & EXTRA_TRACED) != 0) ? os_ticks() : 0;
}
/* Notes that what began at `start` ends now. Does nothing if trace_begin returned 0. */
INLINE void trace_end(struct weft_worker *seat, enum trace_kind kind, uint64_t start, uintptr_t what) {
    if (UNLIKELY(start != 0)) observe.span(seat, kind, start, what);
}
INLINE void trace_submit(struct weft_worker *seat, struct lane *lane) {
    lane->last = lane->end;
    if (UNLIKELY((load_rlx(&seat->pool->extras) & EXTRA_TRACED) != 0)) observe.submits(seat, lane);
}
INLINE void observe_wake(struct weft_worker *seat, uint64_t slept, uint64_t sent, uint64_t now) {
    if (UNLIKELY((load_rlx(&seat->pool->extras) & EXTRA_TRACED) != 0)) observe.wake(seat, slept, sent, now);
}

#endif
