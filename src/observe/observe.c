/* observe.c: recording of events while a timeline is recorded, and the watchdog for tasks that run too long. trace.c has the
 * ring of each thread.
 *
 * A thread allocates its ring with its first event. Rings remain until the pool ends. Each recording has its own number, and
 * events of earlier ones are recognised by their time.
 *
 * The watchdog reports tasks that run too long. It is a thread of its own, because a pool may hang with all its threads. It
 * exists only in pools that asked for it, wakes up four times in each limit, and reads what the workers write anyway (the
 * clock before each task). A task that continues is reported again after twice the time, and again after twice that.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   Q5  ring_make: store ring         release  Q6  a ring is read before it is made
 *   Q6  observe_ring: load ring      acquire  Q5  see Q5
 *   Q8  observe_lanes: load lanes     acquire  T6  a lane is looked at before it is made
 */
#include "observe/state.h"

struct lane *observe_lanes(const struct weft_worker *seat) {
    struct lane *lane = load_acq(Q8, &seat->lanes);
    if (lane != NULL) plain_read(&lane->segments, sizeof lane->segments);
    return lane;
}

uint64_t observe_backlog(const struct weft_worker *seat) {
    uint64_t cells = 0;
    for (const struct lane *lane = observe_lanes(seat); lane != NULL; lane = load_rlx(&lane->next))
        cells += lane_backlog(lane);
    return cells;
}

uint64_t observe_ns(uint64_t ticks) {
    uint64_t per_us = os_ticks_per_us();
    return ticks / per_us * 1000 + ticks % per_us * 1000 / per_us;
}

#define CLOCK_TRIES 3u /* the thread may lose its CPU between two reads */

uint64_t observe_clocks(uint64_t *ns) {
    uint64_t ticks = 0, least = UINT64_MAX;
    for (unsigned i = 0; i < CLOCK_TRIES; i++) {
        uint64_t before = os_ticks(), now_ns = os_now_ns(), took = os_ticks() - before;
        if (took >= least) continue;
        least = took;
        ticks = before + took / 2;
        *ns = now_ns;
    }
    return ticks;
}

/* ---- recording ---------------------------------------------------------------------------------------------------- */

static NOINLINE struct trace_ring *ring_make(struct weft_worker *seat) {
    uint64_t events = seat->pool->config.trace_events;
    struct trace_ring *ring = store_get(&seat->pool->store, trace_ring_bytes(events));
    if (ring == NULL) return NULL;
    ring->events = events;
    plain_write(&ring->events, sizeof ring->events);
    store_rel(Q5, &observe_of(seat)->ring, ring);
    return ring;
}

struct trace_ring *observe_ring(const struct weft_worker *seat) {
    struct trace_ring *ring = load_acq(Q6, &observe_of(seat)->ring);
    if (ring != NULL) plain_read(&ring->events, sizeof ring->events);
    return ring;
}

static NOINLINE void ring_begin(struct trace_ring *ring, uint64_t recording) {
    ring->recording = recording;
    store_rlx(&ring->first, load_rlx(&ring->count));
}

/* Notes that a seat for outside threads has another thread than before. Workers have no such event. */
static NOINLINE void ring_owner(struct trace_ring *ring, uint32_t thread, uint64_t since) {
    uint32_t before = load_rlx(&ring->thread);
    if (before != 0) trace_add(ring, since, since, thread, trace_label(TRACE_OWNER, 0, before));
    store_rlx(&ring->thread, thread);
}

INLINE void record(struct weft_worker *seat, uint64_t start, uint64_t end, uint64_t what, uint64_t label) {
    struct trace_ring *ring = load_rlx(&observe_of(seat)->ring);
    if (UNLIKELY(ring == NULL)) ring = ring_make(seat);
    if (UNLIKELY(ring == NULL)) return;
    uint64_t recording = load_rlx(&observe_of_pool(seat->pool)->trace.recording);
    if (UNLIKELY(ring->recording != recording)) ring_begin(ring, recording);
    uint32_t thread = load_rlx(&seat->thread_id);
    if (UNLIKELY(load_rlx(&ring->thread) != thread)) ring_owner(ring, thread, start);
    trace_add(ring, start, end, what, label);
}

/* Where tasks come fast, one submission in several is noted, so that it costs nothing: those that come within SUBMIT_RUN_US
 * are noted together, as far as the earlier ones predict it. In a rush of whole segments of one group, the clock is read for
 * one segment in SUBMIT_GUESSES + 1, because reading it takes longer than four submissions. The other segments are noted one
 * tick after the one before, as guessed: too early, but never after their tasks began.
 *
 * A pause that no event shows may follow: the thread just comes back later, and its next submissions are noted already. So only
 * one lane of a seat has such submissions: what is submitted elsewhere is noted by the clock, and ends them. */
#define SUBMIT_RUN_MAX 128u
#define SUBMIT_GUESSES 3u

/* The thread does something else than submit. Its next submission is noted anew, by the clock. So whatever an event in the ring
 * stands for was submitted before this moment (origin.c). */
static void submits_pause(struct observe_seat *own) {
    if (own->noted != NULL) own->noted->last = NULL;
    own->noted = NULL;
}

NOINLINE void observer_span(struct weft_worker *seat, enum trace_kind kind, uint64_t start, uintptr_t what) {
    record(seat, start, os_ticks(), what, trace_label(kind, 0, 0));
    submits_pause(observe_of(seat));
    if (kind == TRACE_WAKE) observe_of(seat)->submit_run = 0;
}

NOINLINE void observer_wake(struct weft_worker *seat, uint64_t slept, uint64_t sent, uint64_t now) {
    submits_pause(observe_of(seat));
    record(seat, slept, sent, 0, trace_label(TRACE_PARK, 0, 0));
    record(seat, sent, now, 0, trace_label(TRACE_WAKING, 0, 0));
}

/* Records the claim whose first task is about to run, unless it is a single task from an own or an outside lane. */
static NOINLINE void record_claim(struct weft_worker *seat, uint64_t now) {
    const struct claim *claim = &seat->claim;
    uint32_t tasks = 1;
    if ((load_rlx(&claim->state) & 0xff) != CLAIM_CLOSED) {
        uint32_t stride = shape_stride(load_rlx(&load_rlx(&claim->segment)->shape));
        tasks += (load_rlx(&claim->end) - load_rlx(&claim->started)) / stride;
    }
    observe_of(seat)->claims_seen = seat->claims;
    if (tasks == 1 && seat->taken_from == CLAIM_LANE) return;
    record(seat, now, now, tasks, trace_label(TRACE_CLAIM, seat->taken_from, seat->taken_seat));
}

/* When the task begins. Each task of a claim begins when the one before it ends, so one reading of the clock serves both. */
static uint64_t task_begins(const struct weft_worker *self) {
    const struct observe_seat *own = observe_of(self);
    bool is_of_claim = self->frame->unflushed > 0 && own->claims_seen == self->claims; /* not the first that helps */
    bool follows = is_of_claim && own->task_end > load_rlx(&observe_of_pool(self->pool)->trace.since);
    return follows ? own->task_end : os_ticks();
}

static int run_traced(void *payload, weft_worker *self) {
    uintptr_t what = load_rlx(&self->running);
    uint64_t start = task_begins(self);
    uint64_t place = trace_place(self->cell);
    self->cell = NULL; /* a task that runs inside this one, without a cell, must not find it */
    store_rlx(&self->running_since, start);
    submits_pause(observe_of(self));
    observe_of(self)->task_end = 0;
    if (observe_of(self)->claims_seen != self->claims) record_claim(self, start);
    int error = ((weft_fn)what)(payload, self);
    uint64_t end = os_ticks();
    store_rlx(&self->running_since, 0);
    observe_of(self)->task_end = end;
    submits_pause(observe_of(self));
    uint32_t group = id_index(self->frame->id); /* another group may get this number later */
    record(self, start, end, what, trace_label(TRACE_TASK, group, place));
    return error;
}

int observer_run(void *payload, weft_worker *self) {
    if ((load_rlx(&self->pool->extras) & EXTRA_TRACED) != 0) return run_traced(payload, self);
    uintptr_t what = load_rlx(&self->running);
    store_rlx(&self->running_since, os_ticks());
    self->cell = NULL;
    int error = ((weft_fn)what)(payload, self);
    store_rlx(&self->running_since, 0);
    return error;
}

static bool may_guess(const struct observe_seat *own, const struct lane *lane) {
    return own->noted == lane && own->submit_run == SUBMIT_RUN_MAX && lane->cell == lane->current->cells &&
           own->submit_guesses < SUBMIT_GUESSES;
}

/* When this submission was made, by the clock, and how many are noted with it. */
static uint64_t submit_time(struct observe_seat *own, const weft_pool *pool) {
    uint64_t now = os_ticks();
    uint64_t took = (now - own->submit_ticks) / (own->submit_guesses + 1);
    uint64_t most = SUBMIT_RUN_US * pool->ticks_per_us;
    own->submit_run = took > most ? 1 : took > most / 2 ? own->submit_run : 2 * own->submit_run;
    own->submit_run = (uint32_t)min_u64(max_u64(own->submit_run, 1), SUBMIT_RUN_MAX);
    own->submit_guesses = 0;
    own->submit_ticks = now;
    return now;
}

void observer_submits(struct weft_worker *seat, struct lane *lane) {
    struct observe_seat *own = observe_of(seat);
    bool guesses = may_guess(own, lane);
    uint64_t now = guesses ? own->submit_ticks + ++own->submit_guesses : submit_time(own, seat->pool);
    if (own->noted != NULL && own->noted != lane) own->noted->last = NULL;
    own->noted = lane;
    uint32_t room = (uint32_t)(lane->end - lane->cell) / lane->stride + 1;
    uint32_t run = (uint32_t)min_u64(own->submit_run, room);
    lane->last = lane->cell + (size_t)(run - 1) * lane->stride;
    uint32_t detail = lane->stride | (guesses ? TRACE_GUESSED : 0);
    record(seat, now, now, run, trace_label(TRACE_SUBMIT, detail, trace_place(lane->cell)));
}

int observer_node(struct weft_worker *seat, weft_fn fn, void *context) {
    uintptr_t task = load_rlx(&seat->running);
    uint64_t since = load_rlx(&seat->running_since);
    uint64_t start = os_ticks();
    store_rlx(&seat->running, (uintptr_t)fn);
    store_rlx(&seat->running_since, start);
    int error = fn(context, seat);
    store_rlx(&seat->running, task);
    store_rlx(&seat->running_since, since);
    if ((load_rlx(&seat->pool->extras) & EXTRA_TRACED) != 0) observer_span(seat, TRACE_NODE, start, (uintptr_t)fn);
    return error;
}

/* ---- the watchdog ------------------------------------------------------------------------------------------------- */

#define LOOKS_PER_LIMIT 4u
#define PERIOD_NS_MIN UINT64_C(1000000)
#define NAME_BYTES 160u

static uint64_t backlog_of(const weft_pool *pool) {
    uint64_t cells = 0;
    for (struct seats all = seats_made(pool); seats_next(&all);) cells += observe_backlog(all.seat);
    return cells;
}

static void stuck_print(const weft_stuck *stuck, const struct weft_worker *seat) {
    char buffer[512];
    struct text text = {.to = buffer, .size = sizeof buffer, .fd = 2};
    text_format(&text, "weft: worker %u has run ", stuck->worker);
    text_put_name(&text, stuck->name);
    text_put(&text, " for ");
    text_put_decimal(&text, stuck->ns / 1000000, 3);
    text_format(&text, " s; tasks not begun: %lu cells\n", stuck->backlog);
    observe_put_stack(&text, seat);
    text_end(&text);
}

static void stuck_report(weft_pool *pool, const struct weft_worker *seat, uintptr_t what, uint64_t ns) {
    char name[NAME_BYTES];
    os_symbol(what, name, sizeof name);
    weft_stuck stuck = {
        .pool = pool, .worker = seat->index, .function = what, .name = name, .ns = ns, .backlog = backlog_of(pool)};
    PROBE(stuck, what, ns);
    if (pool->config.watchdog != NULL)
        pool->config.watchdog(&stuck, pool->config.context);
    else
        stuck_print(&stuck, seat);
}

static void watchdog_look(weft_pool *pool, struct weft_worker *seat) {
    uint64_t since = load_rlx(&seat->running_since);
    uintptr_t what = load_rlx(&seat->running);
    if (since == 0 || what == 0) return;
    uint64_t now = os_ticks();
    uint64_t ns = now > since ? observe_ns(now - since) : 0;
    if (since != observe_of(seat)->watched_since) {
        observe_of(seat)->watched_since = since;
        observe_of(seat)->watched_limit = pool->config.watchdog_ns;
    }
    if (ns < observe_of(seat)->watched_limit || load_rlx(&seat->running_since) != since) return;
    while (observe_of(seat)->watched_limit <= ns) observe_of(seat)->watched_limit *= 2;
    stuck_report(pool, seat, what, ns);
}

/* ---- the looking thread --------------------------------------------------------------------------------------------- */

static void looker_main(void *argument) {
    weft_pool *pool = argument;
    bool watches = pool->config.watchdog_ns != 0, publishes = pool->config.top != NULL;
    uint64_t period_ns = watches ? max_u64(pool->config.watchdog_ns / LOOKS_PER_LIMIT, PERIOD_NS_MIN) : PUBLISH_NS;
    if (publishes) period_ns = min_u64(period_ns, PUBLISH_NS);
    struct publisher publisher = {.number = 1}; /* publish_start has written number 0 */
    uint64_t published_ns = os_now_ns();
    while (!load_rlx(&observe_of_pool(pool)->looker.ends)) {
        os_wait(&observe_of_pool(pool)->looker.ends, 0, os_now_ns() + period_ns);
        for (struct seats all = seats_made(pool); watches && seats_next(&all);) watchdog_look(pool, all.seat);
        if (os_now_ns() - published_ns < PUBLISH_NS) continue;
        published_ns = os_now_ns();
        publish(pool, &publisher);
    }
}

static int looker_start(weft_pool *pool) {
    bool watches = pool->config.watchdog_ns != 0;
    os_thread_options options = {.name = watches ? "weft-watchdog" : "weft-top"};
    if (watches) or_rlx(&pool->extras, EXTRA_WATCHED);
    observe_of_pool(pool)->looker.runs =
        os_thread_start(&observe_of_pool(pool)->looker.thread, &options, looker_main, pool) == 0;
    return observe_of_pool(pool)->looker.runs ? WEFT_OK : WEFT_EAGAIN;
}

/* Also if none was started. */
static void looker_end(weft_pool *pool) {
    if (!observe_of_pool(pool)->looker.runs) return;
    store_rlx(&observe_of_pool(pool)->looker.ends, 1);
    os_wake(&observe_of_pool(pool)->looker.ends, 1);
    os_thread_join(observe_of_pool(pool)->looker.thread);
}

/* ---- what the configuration asks for ------------------------------------------------------------------------------ */

#define TRACE_EVENTS_DEFAULT 65536u

/* Opens the file for the counters, if the configuration names one, and keeps the name. */
static int stats_file_open(weft_pool *pool) {
    int *file = &observe_of_pool(pool)->stats_file;
    if (pool->config.stats == NULL) return WEFT_OK;
    if (!store_text(&pool->store, &pool->config.stats)) return WEFT_ENOMEM;
    *file = os_append(pool->config.stats) + 1;
    return *file > 0 ? WEFT_OK : WEFT_EINVAL;
}

static bool stats_file_write(const weft_pool *pool) {
    int fd = observe_of_pool(pool)->stats_file - 1;
    if (!files_lock(fd)) return false;
    bool is_written = weft_pool_stats_print(pool, fd) == WEFT_OK;
    files_unlock(fd);
    return is_written;
}

static void file_close(int *file) {
    if (*file > 0) os_close(*file - 1);
    *file = 0;
}

int observer_start(weft_pool *pool) {
    weft_config *config = &pool->config;
    if (config->trace_events == 0) config->trace_events = TRACE_EVENTS_DEFAULT;
    while ((config->trace_events & (config->trace_events - 1)) != 0)
        config->trace_events += config->trace_events & -config->trace_events;
    if (config->stack_wait_ns != 0) os_stacks_begin(); /* if this fails, the dump says so */
    int error = trace_file_open(pool);
    if (error == WEFT_OK) error = stats_file_open(pool);
    if (error == WEFT_OK) error = publish_start(pool);
    if (error == WEFT_OK && (config->watchdog_ns != 0 || config->top != NULL)) error = looker_start(pool);
    if (error == WEFT_OK && config->trace != NULL) weft_trace_start(pool);
    if (error == WEFT_OK) return WEFT_OK;
    file_close(&observe_of_pool(pool)->trace.file);
    file_close(&observe_of_pool(pool)->stats_file);
    publish_end(pool);
    return error;
}

/* For a forked child, which writes nothing: the files are its parent's. */
static void end_in_child(weft_pool *pool) {
    if (observe_of_pool(pool)->looker.runs) os_thread_join(observe_of_pool(pool)->looker.thread);
    publish_end(pool);
    file_close(&observe_of_pool(pool)->trace.file);
    file_close(&observe_of_pool(pool)->stats_file);
}

void observer_end(weft_pool *pool) {
    if (pool->fork_count != os_fork_count()) {
        end_in_child(pool);
        return;
    }
    looker_end(pool);
    publish_end(pool);
    if (observe_of_pool(pool)->trace.file > 0 && !trace_file_write(pool))
        text_tell(pool->config.trace, " took not all of", " the timeline");
    if (observe_of_pool(pool)->stats_file > 0 && !stats_file_write(pool))
        text_tell(pool->config.stats, " took not all of", " the counters");
    file_close(&observe_of_pool(pool)->trace.file);
    file_close(&observe_of_pool(pool)->stats_file);
}
