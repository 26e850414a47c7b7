/* worker.c: what workers do: find tasks, run them, sleep.
 *
 * A worker that finds nothing (find.c) lingers for a moment as a busy worker (a flood of tiny tasks has short gaps), then
 * becomes the one searcher and goes on looking for the pool's spin time, then parks (park.c).
 *
 * Tiny tasks: if a lane's recent tasks were shorter than tiny_ticks, a worker claims several at once, and one more worker
 * polls instead of parking (predict/idle.c). No task is left behind: while a claim of several tasks is open, some worker is
 * awake or polling, and no worker parks while an open claim has a rest that could be revoked.
 *
 * Bias: a submitter needs a full fence between publishing a task and reading who sleeps. A submitter of many tasks becomes
 * biased and leaves that fence out; every worker that is about to sleep then makes the heavy fence instead, and ends the
 * bias (worker_unbias). The submitter reads its bias after the publication. If it is still biased, the heavy fence, which
 * follows the clearing, is yet to come and will make the publication visible.
 *   Many workers fall asleep at the same time, and a heavy fence interrupts every CPU. One fence serves all workers that look
 * after its end: a worker that finds every bias cleared by others waits for the count of biased seats to become 0 (D20), which
 * follows the last fence (D1). It then sees what was published before the fence. A later submitter sees the worker's announcement:
 * it makes a full fence after it, or becomes biased anew, which counts after it. The worker waits about as long as a fence takes,
 * then makes its own, because the other thread may have lost its CPU. A worker that sees work without a fence makes none.
 *
 * A searcher that has found work in a lane with more tasks need not look for further work: it wakes two workers, which search on.
 *
 * Events (wait_event, room, drained) change by relaxed additions: the thread that raises one always makes a full fence
 * between the change that the event announces and the addition. A thread that is about to sleep reads the event, fences (T7,
 * T17) or acquires (P2), looks for the change, and only then sleeps on the value that it read.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   D1  bias_end: heavy fence                heavy    T3, D20, D22  a biased submitter's task is not seen by the worker that parks
 *   D3  bias_clear: CAS biased               relaxed  -    split: the count of biased seats goes wrong
 *   D4  run_many: fence                     sc       K3   a worker parks without seeing the open claim, and no worker watches it
 *   D5  worker_seat: load seat              acquire  P1   a seat is looked at before it is made
 *   D6  worker_lanes: load lanes            acquire  T6   a lane is looked at before it is made
 *   D11 worker_main: store has_begun        release  P3   create does not see what the start hook wrote
 *   D12 worker_rest: fence                  sc       T17, T7  a wait sleeps on, though no thread is left to run what it waits for
 *   D13 worker_leave_queue: fence           sc       T7   a submitter waits for room that is there
 *   D14 worker_tell_owner: fence            sc       T17  a wait sleeps on, though the task that it may run is next
 *   D15 leave_searcher: looks again         -        K10  no worker sees a task published while there was a searcher
 *   D16 park: looks again                   -        K3   no worker sees a task published while this one was busy
 *   D17 payload_clean: load extras          acquire  P8   see P8
 *   D20 bias_ends: load biased              acquire  D1   a task published before another's heavy fence is not seen: lost wake-up. That fence may
 *                                                    have come to this thread before it came to the submitter's
 *   D22 bias_end: load biased               acquire  D1   see D20
 */
#include "sched/find.h"
#include "sched/fit.h"
#include "sched/hooks.h"
#include "sched/seat.h"
#include "sched/priority.h"
#include "sched/realtime.h"
#include "sched/slice.h"
#include "sched/tokens.h"

#ifndef LINGER_LOOKS
#define LINGER_LOOKS 16
#endif
#define UNBIAS_LOOKS 32u /* for each CPU: about the time that a heavy fence takes there */
#define LINGER_STAYS 64  /* at most this many times LINGER_LOOKS, after waking a waiter that runs nothing */
#define PURGE_NS UINT64_C(800000000)
#ifndef TIMED_EVERY
#define TIMED_EVERY 8u /* claims */
#endif

/* ---- running ------------------------------------------------------------------------------------------------------ */

void frame_push(struct weft_worker *seat, struct frame *frame) {
    const struct frame *above = seat->frame;
    frame->id = 0; /* one by one: gcc clears a whole frame by `rep stos`, 6 % of a submission and its wait */
    frame->record = NULL;
    frame->index = 0;
    frame->sections = 0;
    frame->deepest = above == NULL ? 0 : (uint32_t)max_u64(above->deepest, record_depth(above->record));
    frame->above = seat->frame;
    frame->unflushed = 0;
    frame->running = load_rlx(&seat->running);
    frame->running_since = load_rlx(&seat->running_since);
    frame->in_loop = seat->in_loop;
    frame->caller = NULL;
    frame->walk = 0;
    frame->walk_next = NULL;
    seat->in_loop = NULL;
    store_rlx(&seat->running_since, observe_clock(seat));
    seat->frame = frame;
    seat->lane = &seat->pool->blank;
}

void frame_pop(struct weft_worker *seat) {
    plain_write(&seat->frame, sizeof seat->frame);
    store_rlx(&seat->running, seat->frame->running);
    store_rlx(&seat->running_since, seat->frame->running_since);
    seat->in_loop = seat->frame->in_loop;
    seat->frame = seat->frame->above;
    seat->lane = &seat->pool->blank;
}

void worker_start_continuation(struct weft_worker *seat, struct record *record) {
    struct groups *groups = &seat->pool->groups;
    struct taken taken = continuation_take(groups, record, seat->index);
    if (taken.oldest == NULL) return;
    continuation_tell(record, &taken);
    for (struct continuation *next; taken.oldest != NULL; taken.oldest = next) {
        next = taken.oldest->next;
        taken.oldest->kind->start(seat, taken.oldest);
        record_leave(groups, record, taken.ends);
        taken.ends = false;
    }
}

void worker_settled(struct weft_worker *seat, struct record *record, uint64_t id) {
    weft_pool *pool = seat->pool;
    if (id != 0 && load_rlx(&record->sleeper) != 0) {
        worker_wake_waiters(pool, record, id);
        seat->has_woken = !pool->helps;
    }
    if (load_rlx(&record->continuation) != NULL) worker_start_continuation(seat, record);
    if (load_rlx(&pool->closed)) event_raise(&pool->drained);
}

void worker_settle(struct weft_worker *seat, struct record *record) {
    if (record_must_wake(record) || UNLIKELY(load_rlx(&seat->pool->closed)))
        worker_settled(seat, record, load_rlx(&record->id) & ~ID_MARKS);
}

struct record *worker_count(struct weft_worker *seat) {
    struct frame *frame = seat->frame;
    struct record *record = frame->record;
    uint64_t tasks = frame->unflushed;
    frame->record = NULL;
    frame->index = 0;
    frame->unflushed = 0;
    if (record == NULL) return NULL;
    seat->lane = &seat->pool->blank;
    if (tasks == 0) return NULL;
    priority_before_count(seat->pool, record);
    struct group_counter *counter = counter_use(&seat->pool->groups, record, seat->counter, frame->id);
    counter_complete(counter, counter_is_shared(counter), tasks);
    return record;
}

/* Switches the frame to the group whose record has that index (0: to none). The previous group's continuations may run in here,
 * and wait: so the frame already names the group of the task that is about to run. */
static NOINLINE void frame_switch(struct weft_worker *seat, uint32_t index) {
    struct frame *frame = seat->frame;
    struct record *record = worker_count(seat);
    frame->record = index == 0 ? NULL : record_at(&seat->pool->groups, index);
    frame->index = index;
    frame->id = index == 0 ? 0 : load_rlx(&frame->record->id) & ~ID_MARKS;
    if (record != NULL) worker_settle(seat, record);
}

void worker_flush(struct weft_worker *seat) {
    if (seat->frame->record != NULL) frame_switch(seat, 0);
}

static void *cell_payload(struct cell *cell, uint64_t meta) {
    switch (meta_kind(meta)) {
    case CELL_NO_PAYLOAD: return NULL;
    case CELL_HEAP: return *(void **)(void *)cell->payload;
    default: return cell->payload;
    }
}

static size_t cell_size(const struct cell *cell, uint64_t meta) {
    return meta_kind(meta) == CELL_HEAP ? ((const size_t *)(const void *)cell->payload)[1] : meta_bytes(meta);
}

static void payload_clean(const weft_pool *pool, void *payload, size_t size) {
    weft_clean_fn clean = pool->config.clean;
    void *context = pool->config.context;
    if ((load_acq(D17, &pool->extras) & EXTRA_ABORTED) != 0) {
        plain_read(&pool->abort_clean, sizeof pool->abort_clean);
        clean = pool->abort_clean.fn;
        context = pool->abort_clean.context;
    }
    if (clean != NULL) clean(payload, size, context);
}

static NOINLINE void cell_drop(struct weft_worker *seat, struct cell *cell, uint64_t meta) {
    void *payload = cell_payload(cell, meta);
    if (meta_kind(meta) == CELL_OBJECT)
        (void)cell->fn(payload, NULL);
    else if (meta_kind(meta) != CELL_PLAIN)
        payload_clean(seat->pool, payload, payload == NULL ? 0 : cell_size(cell, meta));
    if (pool_is_aborted(seat->pool)) record_fail(seat->frame->record, META_SEQUENCE_MAX, WEFT_ECANCELED);
    count_up(&seat->tasks_dropped, 1);
}

NOINLINE void worker_leave_queue(weft_pool *pool) {
    add_rlx(&pool->queued, UINT64_MAX);
    fence_rmw_sc(D13);
    if (load_rlx(&pool->room_wanted) != 0) event_raise(&pool->room);
}

void worker_tell_owner(struct weft_worker *owner) {
    fence_rmw_sc(D14);
    if (load_rlx(&owner->wait_helps) == HELPS_NEXT) event_raise(&owner->wait_event);
}

/* Does what the pool's `extras` ask for before a task runs. Returns the function to call in the task's place. */
static NOINLINE weft_fn begin_extras(struct weft_worker *seat, const struct cell *cell) {
    uint32_t extras = load_rlx(&seat->pool->extras);
    weft_fn fn = cell->fn;
    seat->cell = cell;
    if ((extras & EXTRA_BOUNDED) != 0) worker_leave_queue(seat->pool);
    if ((extras & EXTRA_DUE) != 0) priority_before_task(seat);
    if ((extras & EXTRA_ORDERED) != 0) worker_tell_owner(worker_seat(seat->pool, seat->taken_seat));
    return observe_task(seat->pool, fn);
}

/* worker_run_cell without counting tasks_run: returns 1 if the task ran, 0 if it was dropped. */
INLINE uint32_t run_cell(struct weft_worker *seat, struct cell *cell, uint64_t meta) {
    const weft_pool *pool = seat->pool;
    struct frame *frame = seat->frame;
    uint32_t ran = 1;
    plain_read(cell, CELL_BYTES - CELL_PAYLOAD + meta_bytes(meta));
    if (UNLIKELY(frame->index != meta_record(meta))) frame_switch(seat, meta_record(meta));
    weft_fn fn = cell->fn;
    store_rlx(&seat->running, (uintptr_t)fn);
    uint32_t extras = load_rlx(&pool->extras);
    if (UNLIKELY(extras != 0)) fn = begin_extras(seat, cell);
    if (LIKELY((record_lets_run(frame->record, meta_sequence(meta)) && (extras & EXTRA_ABORTED) == 0) ||
               meta_kind(meta) == CELL_OWN)) {
        int error = fn(meta_is_inline(meta) ? cell->payload : cell_payload(cell, meta), seat);
        if (UNLIKELY(error != 0)) record_fail(frame->record, meta_sequence(meta), error);
    } else {
        cell_drop(seat, cell, meta);
        ran = 0;
    }
    if (UNLIKELY(meta_kind(meta) == CELL_HEAP)) weft_free(cell_payload(cell, meta));
    plain_write(cell->payload, meta_bytes(meta));
    frame->unflushed++;
    return ran;
}

void worker_run_cell(struct weft_worker *seat, struct cell *cell) {
    uint32_t ran = run_cell(seat, cell, cell->meta); /* before the counting: the task may wait, and the wait counts, too */
    count_up(&seat->tasks_run, ran);
}

/* Runs a piece of several tasks as a claim open to thieves: a loose claim if the tasks are not tiny. */
static void run_many(struct weft_worker *seat, struct piece *piece, bool is_tiny) {
    struct cell *cells = piece->segment->cells;
    uint32_t stride = piece->stride;
    uint32_t slot = piece->begin;
    uint64_t ran = 0;
    claim_open(&seat->claim, piece, slot + stride, !is_tiny);
    fence_sc(D4);
    worker_notify(seat, NULL, 0);
    do {
        uint64_t meta = cells[slot].meta;
        seat->claim_group = meta_record(meta);
        ran += run_cell(seat, &cells[slot], meta);
        slot += stride;
        if (UNLIKELY(seat->took_ahead)) { /* else `started`, whose cache line others read, need not be read here */
            slot = load_rlx(&seat->claim.started);
            seat->took_ahead = false;
        }
    } while (slot < piece->end && claim_start(&seat->claim, piece, slot, slot + stride));
    claim_close(&seat->claim, piece);
    count_up(&seat->tasks_run, ran);
    piece_done(piece);
}

static void run_claim(struct weft_worker *seat, struct lane *lane, struct piece *piece, uint32_t tasks) {
    bool is_timed = ++seat->claims % TIMED_EVERY == 0 && lane != NULL;
    uint64_t before = load_rlx(&seat->tasks_run);
    uint64_t start = is_timed ? os_ticks() : 0;
    count_one(&seat->claims_made[seat->taken_from]);
    if (tasks == 1) {
        worker_run_cell(seat, &piece->segment->cells[piece->begin]);
        piece_done(piece);
    } else {
        run_many(seat, piece, (lane == NULL ? load_rlx(&seat->pool->tiny) : load_rlx(&lane->tiny)) != 0);
    }
    if (is_timed) predict_timed(seat, lane, os_ticks() - start, max_u64(load_rlx(&seat->tasks_run) - before, 1));
}

void worker_run_help(struct weft_worker *seat, struct piece *piece) {
    struct frame frame;
    enum claim_source source = seat->help_from;
    frame_push(seat, &frame);
    worker_run_cell(seat, &piece->segment->cells[piece->begin]);
    piece_done(piece);
    worker_flush(seat);
    frame_pop(seat);
    count_up(&seat->claims_made[source], 1);
    count_up(&seat->helped, 1);
}

/* ---- waking ------------------------------------------------------------------------------------------------------- */

void worker_wake(struct weft_worker *seat) {
    uint64_t start = trace_begin(seat);
    if (!park_wake(&seat->pool->park)) return;
    count_up(&seat->wakes, 1);
    trace_end(seat, TRACE_WAKE, start, 0);
    PROBE(wake, seat->index, 0);
}

void worker_wake_helpers(weft_pool *pool, uint64_t id) {
    for (struct seats all = seats_in_use(pool); seats_next(&all);) {
        struct weft_worker *waiter = all.seat;
        uint32_t helps = load_rlx(&waiter->wait_helps);
        if (helps == 0 || helps == HELPS_NEXT) continue;
        if (helps == WEFT_HELP_BELOW + 1 && id != 0 && !group_serves(&pool->groups, id, load_rlx(&waiter->wait_id)))
            continue;
        event_raise(&waiter->wait_event);
    }
}

static void wake_waits(weft_pool *pool, bool stranded) {
    for (struct seats all = seats_in_use(pool); seats_next(&all);) {
        uint32_t helps = load_rlx(&all.seat->wait_helps);
        if (load_rlx(&all.seat->wait_id) == 0 || (stranded && helps != 0 && helps != HELPS_NEXT)) continue;
        event_raise(&all.seat->wait_event);
    }
}

void worker_wake_stranded(weft_pool *pool) {
    wake_waits(pool, true);
    if (load_rlx(&pool->room_wanted) != 0) event_raise(&pool->room);
}
void worker_wake_waits(weft_pool *pool) { wake_waits(pool, false); }

void worker_wake_waiters(weft_pool *pool, const struct record *record, uint64_t id) {
    uint32_t sleeper = load_rlx(&record->sleeper);
    bool is_one = sleeper != SLEEPERS_MANY;
    uint32_t count = is_one ? sleeper : load_rlx(&pool->seats_used);
    for (uint32_t i = is_one && sleeper > 0 ? sleeper - 1 : 0; i < count; i++) {
        struct weft_worker *waiter = worker_seat(pool, i);
        if (waiter == NULL || load_rlx(&waiter->wait_id) != id) continue;
        event_raise(&waiter->wait_event);
    }
}

/* Notes the CPU and the time of an outside submission, for workers that expect more. */
static void note_cpu(struct weft_worker *seat) {
    weft_pool *pool = seat->pool;
    if (seat->is_worker) return;
    uint32_t cpu = os_cpu();
    if (load_rlx(&pool->from_cpu) != cpu) store_rlx(&pool->from_cpu, cpu);
    store_rlx(&pool->outside_ticks, os_ticks());
}

/* Has the pool more workers than CPUs, to get its share of a machine that others use? The system divides a CPU among the threads
 * that are ready. In a chain of wakes, each worker would have to wait for its turn before it wakes the next: so each submitted
 * task wakes a worker of its own. */
static bool is_for_share(const weft_pool *pool) { return load_rlx(&pool->workers) > load_rlx(&pool->cpus_allowed); }

/* Some search already, and others sleep: is one of these to be woken, too, for what was just submitted? */
static bool wants_another(const weft_pool *pool, const struct lane *lane, uint32_t searchers) {
    if (searchers == 1 && (lane == NULL || lane_backlog(lane) > 1)) return true;
    return lane != NULL && is_for_share(pool) && lane_backlog(lane) > searchers;
}

void worker_notify_slow(struct weft_worker *seat, const struct lane *lane, uint64_t id) {
    weft_pool *pool = seat->pool;
    struct park_view view = park_look(&pool->park);
    bool is_tiny = load_rlx(&pool->tiny) != 0;
    note_cpu(seat);
    uint32_t asleep = view.parked + view.polling;
    if (lane != NULL && priority_holds(pool, lane)) {
        worker_wake_helpers(pool, id);
        return;
    }
    bool is_urgent = lane != NULL && priority_has_urgent(pool) && priority_is_urgent(pool, load_rlx(&lane->group));
    if (!is_urgent && predict_suffices(seat, &view)) return;
    if (view.searchers == 0 && asleep > 0) {
        if (view.polling && is_tiny && asleep < load_rlx(&pool->workers)) return;
        worker_wake(seat);
    } else if (asleep > 0 && !is_tiny && wants_another(pool, lane, view.searchers)) {
        worker_wake(seat);
    } else if (lane != NULL && asleep == 0 && view.searchers == 0 && load_rlx(&pool->park.word[0].helpers) > 0) {
        worker_wake_helpers(pool, id);
    }
}

void worker_notify_offer(struct weft_worker *seat) {
    struct park_view view = park_look(&seat->pool->park);
    if (view.searchers == 0 && (view.parked > 0 || view.polling)) worker_wake(seat);
}

/* Returns the number of seats whose bias it has ended. */
static uint32_t bias_clear(const weft_pool *pool) {
    uint32_t cleared = 0;
    for (struct seats all = seats_in_use(pool); seats_next(&all);) {
        uint32_t was = 1;
        if (load_rlx(&all.seat->biased) != 0 && cas_rlx(D3, &all.seat->biased, &was, 0)) cleared++;
    }
    return cleared;
}

/* Waits for another thread's fence to serve this one, too, or for a wake of the worker of `parked`: true. Waits about as long as
 * a fence takes: the other thread may have lost its CPU. */
static bool bias_ends(const weft_pool *pool, const struct weft_worker *parked) {
    uint32_t looks = load_rlx(&pool->cpus_allowed) * UNBIAS_LOOKS;
    for (uint32_t i = 0; i < looks; i++) {
        if (load_acq(D20, &pool->biased) == 0) return true;
        if (parked != NULL && !park_is_parked(&pool->park, parked->index)) return true;
        os_pause();
    }
    return false;
}

/* `parked`: a seat whose worker has announced that it parks, and will check whether it was woken; or NULL. */
static void bias_end(weft_pool *pool, const struct weft_worker *parked) {
    if (load_acq(D22, &pool->biased) == 0) return;
    uint32_t cleared = bias_clear(pool);
    if (cleared == 0 && bias_ends(pool, parked)) return;
    os_fence_heavy(D1);
    if (cleared > 0) add_rlx(&pool->biased, -cleared); /* the fence releases */
}

void worker_unbias(weft_pool *pool) { bias_end(pool, NULL); }

/* ---- a worker's life ---------------------------------------------------------------------------------------------- */

/* The number of tasks left in the lane of `find`, less one for each searcher: no worker is coming for these. 0 for tiny tasks,
 * which are soon gone. */
static uint64_t tasks_left(const weft_pool *pool, const struct find *find, const struct park_view *view) {
    if (find == NULL || find->tasks == 0 || find->lane == NULL || load_rlx(&find->lane->tiny)) return 0;
    if (find->is_background) return 0;                                      /* the others may get no slot */
    if (load_rlx(&pool->workers) > load_rlx(&pool->cpus_allowed)) return 0; /* woken workers would take each other's CPUs */
    uint64_t left = lane_backlog(find->lane) / find->piece.stride;
    return left - min_u64(left, view->searchers);
}

/* A searcher becomes busy: another worker must look for what was published meanwhile. If several tasks are left, it wakes two
 * workers, and each of them does the same: waking one would make a chain as long as the number of tasks. `find`: what the
 * searcher has found, or NULL. */
static void leave_searcher(struct weft_worker *seat, const struct find *find) {
    weft_pool *pool = seat->pool;
    park_unscout(&pool->park, seat->index);
    if (park_glance(&pool->park) == 0) return;
    struct park_view view = park_look(&pool->park);
    uint64_t left = tasks_left(pool, find, &view);
    bool is_watched = (view.polling && load_rlx(&pool->tiny)) || predict_suffices(seat, &view);
    if ((view.searchers > 0 && (left == 0 || view.parked == 0)) || (is_watched && load_rlx(&pool->offers) == 0)) return;
    if (left > 0 && view.parked > 0) {
        worker_wake(seat);
        if (left > 1 && view.parked > 1) worker_wake(seat);
        return;
    }
    worker_unbias(pool);
    sources_ask(pool, NULL, true);
    priority_wake_helpers(pool);
    if (!recheck(D15, find_sees(pool, true, NULL) || sources_hold_back(pool), false)) return;
    if (view.parked > 0 || view.polling)
        worker_wake(seat);
    else
        worker_wake_helpers(pool, 0);
}

/* Looks for work a few more times before the worker becomes a searcher. Looks longer if it has woken a waiter that runs nothing
 * and may soon submit again: otherwise two workers and that thread on two CPUs would sleep and be woken once for each loop. */
static NOINLINE bool linger(struct weft_worker *seat) {
    const weft_pool *pool = seat->pool;
    if ((load_rlx(&pool->cpu_count) == 1 && load_rlx(&pool->spin_ticks) == 0) || realtime_is_spent(seat)) return false;
    uint64_t start = os_ticks();
    bool sees = false;
    uint32_t turn = 0;
    struct find_passed passed = {NULL, 0};
    bool stays = seat->has_woken && workers_awake(pool) <= load_rlx(&pool->cpu_count);
    int looks = stays ? LINGER_LOOKS * LINGER_STAYS : LINGER_LOOKS;
    uint64_t most = load_rlx(&pool->spin_now);
    for (int i = 0; i < looks && !sees && (i < LINGER_LOOKS || os_ticks() - start < most); i++) {
        find_pause(seat, &turn);
        sees = find_sees(pool, false, &passed);
    }
    seat->has_woken = false;
    count_up(&seat->spin_ticks, os_ticks() - start);
    return sees;
}

/* What the searcher found: nothing; work; or work that a thread still holds back, though it was asked for a while. The searcher
 * does not look if more workers are awake than there are CPUs: it would take a CPU from one that runs tasks. */
enum searching { SEARCHER_NOTHING, SEARCHER_WORK, SEARCHER_CONTINUATION_BACK };
static enum searching searcher_look(struct weft_worker *seat, uint64_t start, bool *was_away) {
    const weft_pool *pool = seat->pool;
    if (workers_awake(pool) > load_rlx(&pool->cpu_count) || realtime_is_spent(seat)) return SEARCHER_NOTHING;
    uint32_t turn = 0;
    struct find_passed passed = {NULL, 0};
    for (uint64_t before = 0;;) {
        if (find_sees(pool, false, &passed) || load_rlx(&pool->exits)) return SEARCHER_WORK;
        sources_ask(pool, NULL, false);
        find_pause(seat, &turn);
        uint64_t ticks = os_ticks() - start;
        if (ticks - before > load_rlx(&pool->spin_now)) *was_away = true;
        before = ticks;
        if (ticks >= pool->patience_ticks && sources_hold_back(pool)) return SEARCHER_CONTINUATION_BACK;
        if (ticks >= seat->searcher_ticks) return SEARCHER_NOTHING;
    }
}

static NOINLINE enum searching searcher_spin(struct weft_worker *seat) {
    uint64_t start = os_ticks();
    bool was_away = false;
    enum searching came_upon = searcher_look(seat, start, &was_away);
    count_up(&seat->spin_ticks, os_ticks() - start);
    predict_searched(seat, came_upon != SEARCHER_NOTHING && !was_away);
    return came_upon;
}

/* The worker slept from `since` on and was woken: counts how long the wake took. Returns true. */
static NOINLINE bool time_wake(struct weft_worker *seat, uint64_t since) {
    uint64_t sent = load_rlx(&seat->pool->park.slots[seat->index].sent_ticks);
    uint64_t now = os_ticks();
    if (sent < since || now < sent) return true; /* its waker had not noted the time yet */
    observe_wake(seat, since, sent, now);
    uint64_t ns = (now - sent) * 1000 / os_ticks_per_us();
    PROBE(woken, seat->index, ns);
    uint32_t bucket = 63 - (uint32_t)__builtin_clzll(ns | 1);
    count_up(&seat->wakes_timed[min_u64(bucket, WEFT_WAKE_BUCKETS - 1)], 1);
    return true;
}

static void give_pages_back(weft_pool *pool) {
    segments_purge(&pool->segments);
    heap_rest();
    store_rlx(&pool->purged, 1);
}

/* Sleeps until woken (true); or until the worker should be ready for work or plan anew, or, if it was the last to park, until
 * it should give pages back (false). */
static bool park_until(struct weft_worker *seat, bool is_last) {
    weft_pool *pool = seat->pool;
    uint64_t told_ns = park_told(&pool->park, seat->index);
    uint64_t ready_ns = predict_plan(seat, told_ns);
    uint64_t purge_ns = is_last && load_rlx(&pool->purged) == 0 && !pool->store.locks ? os_now_ns() + PURGE_NS : 0;
    bool is_ready_first = ready_ns != 0 && (purge_ns == 0 || ready_ns < purge_ns);
    if (ready_ns != 0) os_timer_exact(true);
    enum park_end end = park_sleep(&pool->park, seat->index, is_ready_first ? ready_ns : purge_ns, told_ns);
    if (ready_ns != 0) os_timer_exact(false);
    uint64_t now_ns = end == PARK_WOKEN ? 0 : os_now_ns();
    if (end == PARK_WOKEN) predict_woken(seat);
    if (purge_ns != 0 && now_ns >= purge_ns) give_pages_back(pool);
    return end == PARK_WOKEN;
}

/* Parks the worker, which is a searcher afterwards. Returns whether another thread woke it. */
static bool park(struct weft_worker *seat, bool is_searcher) {
    weft_pool *pool = seat->pool;
    park_announce(&pool->park, seat->index, is_searcher);
    bool sees = find_sees(pool, false, NULL); /* if it does, no heavy fence is needed */
    if (!sees) bias_end(pool, seat);
    sources_ask(pool, NULL, true);
    struct park_view view = park_look(&pool->park);
    bool is_guarded = view.searchers > 0 || view.polling; /* those will look at the claims */
    sees = sees || find_sees(pool, !is_guarded, NULL) || (view.searchers == 0 && sources_hold_back(pool));
    bool is_last = view.parked >= load_rlx(&pool->workers);
    if (recheck(D16, sees || load_rlx(&pool->exits), false)) {
        park_retract(&pool->park, seat->index);
        return false;
    }
    priority_wake_helpers(pool);
    PROBE(park, seat->index, 0);
    uint64_t since = os_ticks();
    count_up(&seat->parks, 1);
    if (park_until(seat, is_last)) {
        if (load_rlx(&pool->purged) != 0) store_rlx(&pool->purged, 0);
        return time_wake(seat, since);
    }
    park_retract(&pool->park, seat->index);
    return false;
}

/* Polls or parks; returns as park does. */
static NOINLINE bool worker_sleep(struct weft_worker *seat, bool is_searcher) {
    uint64_t since;
    slice_before_sleep(seat);
    enum poll_end polled = predict_poll(seat, is_searcher, &since);
    if (polled != POLL_NOT) {
        fit_look(seat->pool); /* those who run tasks beside it may all be outside threads, which do not look */
        return polled == POLL_WOKEN && time_wake(seat, since);
    }
    predict_before_park(seat);
    bool was_woken = park(seat, is_searcher);
    predict_after_park(seat, was_woken);
    return was_woken;
}

/* Not timed: the time of a background task says nothing about other tasks. */
static void run_background(struct weft_worker *seat, struct piece *piece) {
    priority_begin(seat);
    slice_stretch(seat);
    run_claim(seat, NULL, piece, 1);
    slice_back(seat);
    worker_flush(seat);
    priority_end(seat);
}

/* Reading the clock took a quarter of each hop of a chain: a claim of tiny tasks does it one time in TIMED_EVERY. */
INLINE bool looks_at_clock(const struct weft_worker *seat, const struct find *find) {
    bool is_tiny = find->tasks > 0 && find->lane != NULL && load_rlx(&find->lane->tiny) != 0;
    return !is_tiny || seat->claims % TIMED_EVERY == 0;
}

INLINE void worker_run(struct weft_worker *seat, struct find *find) {
    seat->has_worked = true;
    /* Other sources' work may take long, and may wait for the very tasks that this frame has not counted yet. */
    if (find->tasks == 0 && seat->frame->record != NULL) {
        frame_switch(seat, source_index(&find->work));
        worker_flush(seat);
    }
    if (looks_at_clock(seat, find)) fit_look(seat->pool);
    if (find->is_background)
        run_background(seat, &find->piece);
    else if (find->tasks == 0)
        source_run(seat, &find->work, 0);
    else
        run_claim(seat, find->lane, &find->piece, find->tasks);
}

/* This thread is not wanted: it rests until it is, or the pool ends. */
static NOINLINE void worker_rest(struct weft_worker *seat, bool is_searcher) {
    uint32_t counts = seat->index < seat->pool->workers_max ? 1 : 0; /* `awake` counts no spares */
    worker_flush(seat);
    lanes_hide(seat);
    store_rlx(&seat->running, 0);
    if (is_searcher)
        leave_searcher(seat, NULL);
    else if (find_sees(seat->pool, true, NULL))
        worker_wake(seat);
    add_rlx(&seat->pool->awake, -counts);
    fence_sc(D12);
    if (!pool_call_spares(seat->pool)) worker_wake_stranded(seat->pool);
    fit_rest(seat);
    add_rlx(&seat->pool->awake, counts);
}

/* has_tokens, the pool's, is a constant here: other pools do not pay. With it the thread counts (tokens.c), but not when it sleeps. */
INLINE void worker_turns(struct weft_worker *seat, bool has_tokens) {
    weft_pool *pool = seat->pool;
    bool is_searcher = false;
    bool may_spin = false; /* the searcher was woken, or has just become one */
    unsigned force = 0;    /* FORCE_*: it has slept, or asked in vain */
    while (!load_rlx(&pool->exits)) {
        struct find find;
        if (!fit_is_wanted(seat)) {
            worker_rest(seat, is_searcher);
            is_searcher = false;
            force = 0;
            continue;
        }
        if (has_tokens && !tokens_await(seat, &is_searcher)) {
            force = 0;
            if (!fit_is_wanted(seat) || load_rlx(&pool->exits)) continue;
        }
        if (find_work(seat, force, &find)) {
            if (is_searcher) leave_searcher(seat, &find);
            is_searcher = false;
            force = 0;
            worker_run(seat, &find);
            continue;
        }
        worker_flush(seat);
        lanes_hide(seat);
        store_rlx(&seat->running, 0);
        if (is_searcher || !linger(seat)) {
            if (!is_searcher) is_searcher = may_spin = park_searcher(&pool->park, seat->index);
            enum searching came_upon = may_spin ? searcher_spin(seat) : SEARCHER_NOTHING;
            if (came_upon == SEARCHER_CONTINUATION_BACK) force |= FORCE_SOURCES;
            if (came_upon != SEARCHER_NOTHING) continue;
            if (has_tokens) (void)tokens_leave();
            may_spin = worker_sleep(seat, is_searcher);
            predict_moved(seat);
            if (!may_spin) predict_look_out(seat);
            is_searcher = true;
            force = FORCE_CLAIMS | FORCE_SOURCES;
        }
    }
    if (has_tokens) (void)tokens_leave();
}

static NOINLINE void worker_turns_with_tokens(struct weft_worker *seat) { worker_turns(seat, true); }

void worker_main(void *argument) {
    struct weft_worker *seat = argument;
    weft_pool *pool = seat->pool;
    struct frame frame;
    os_self *self = os_self_get();
    self->pool_id = pool->id;
    self->worker = seat;
    self->is_worker = true;
    seat_watch();
    store_rlx(&seat->thread_id, os_thread_id());
    frame_push(seat, &frame);
    realtime_begin(seat);
    slice_begin(seat);
    predict_moved(seat);
    if (pool->config.start != NULL) pool->config.start(seat, pool->config.context);
    store_rel(D11, &seat->has_begun, 1);
    os_wake(&seat->has_begun, 1);
    if (UNLIKELY(pool->has_tokens))
        worker_turns_with_tokens(seat);
    else
        worker_turns(seat, false);
    if (pool->config.stop != NULL) pool->config.stop(seat, pool->config.context);
    realtime_end(seat);
    frame_pop(seat);
    self->is_worker = false;
}
