/* dump.c: a pool's state as text, from a debugger or a signal handler. Layer 7.
 *
 * It reads only what any thread may read, takes no lock, allocates nothing, and follows no pointer to memory outside the
 * pool. So it works while every thread hangs, even inside weft. If threads run meanwhile, parts of the text may describe
 * different moments. */
#include "observe/state.h"
#include "patterns/patterns.h"

static void put_function(struct text *text, uintptr_t address) {
    char name[160];
    os_symbol(address, name, sizeof name);
    text_put_name(text, name);
}

/* ---- threads ------------------------------------------------------------------------------------------------------ */

static bool is_parked(const weft_pool *pool, uint32_t index) {
    return index < pool->park.workers && park_is_parked(&pool->park, index);
}

/* A forked child has none of the pool's threads but the one that forked it. */
static bool is_of_parent(const weft_pool *pool) { return pool->fork_count != os_fork_count(); }

static bool is_polling(const weft_pool *pool, uint32_t index) {
    if (index >= pool->park.workers) return false;
    uint64_t word = load_rlx(&pool->park.word[index / PARK_BITS].word);
    return (word & PARK_POLL) != 0 && (word & PARK_POLLER_MASK) >> PARK_POLLER_SHIFT == index % PARK_BITS;
}

static const char *no_stack(int error) {
    switch (error) {
    case OS_STACK_SILENT: return "the thread did not answer in time: it blocks SIGPROF, or got no CPU";
    case OS_STACK_NONE: return "this C library has no backtrace for handlers, or the system refuses the signal";
    case OS_STACK_BUSY: return "another thread is being asked for its own";
    default: return "the thread is not there any more";
    }
}

void observe_put_stack(struct text *text, const struct weft_worker *seat) {
    uint64_t wait_ns = seat->pool->config.stack_wait_ns;
    uint32_t thread = load_rlx(&seat->thread_id);
    uintptr_t frames[OS_FRAMES_MAX];
    if (wait_ns == 0 || thread == 0 || is_of_parent(seat->pool) || load_rlx(&seat->running) == 0) return;
    if (is_parked(seat->pool, seat->index) || is_polling(seat->pool, seat->index)) return;
    int count = os_stack_of(thread, frames, wait_ns);
    if (count < 0) text_format(text, "    no stack: %s\n", no_stack(count));
    for (int i = 0; i < count; i++) {
        text_put(text, i == 0 ? "    at " : "    called by ");
        put_function(text, frames[i] - (i > 0)); /* a call may be its function's last instruction */
        text_put(text, "\n");
    }
}

static void dump_doing(struct text *text, const struct weft_worker *seat) {
    const weft_pool *pool = seat->pool;
    uintptr_t running = load_rlx(&seat->running);
    uint64_t since = load_rlx(&seat->running_since);
    if (is_parked(pool, seat->index)) {
        text_put(text, "parked");
    } else if (is_polling(pool, seat->index)) {
        text_put(text, "polling");
    } else if (running != 0) {
        text_put(text, is_of_parent(pool) ? "ran, when this process was forked, " : "runs ");
        put_function(text, running);
        if (since == 0 || is_of_parent(pool)) return;
        text_put(text, " for ");
        text_put_decimal(text, observe_ns(os_ticks() - since) / 1000, 6);
        text_put(text, " s");
    } else {
        bool rests = fit_is_over(seat);
        text_put(text, rests ? "rests" : seat_is_inside(seat) ? "awake, runs nothing" : "outside of tasks");
    }
}

static void dump_waits(struct text *text, const struct weft_worker *seat) {
    uint64_t id = load_rlx(&seat->wait_id);
    uint32_t waits_for = load_rlx(&seat->waits_for);
    const char *helps = (waits_for & WAITS_HELPS) != 0 ? ", helps" : "";
    if (id != 0)
        text_format(text, "; sleeps in a wait for group %u%s", id_index(id), load_rlx(&seat->wait_helps) ? ", helps" : "");
    else if (waits_for != 0)
        text_format(text, "; waits for group %u%s", waits_for & ~WAITS_HELPS, helps);
    if (join_waits(seat)) text_put(text, "; waits for a forked call");
}

static void dump_lanes(struct text *text, const struct weft_worker *seat) {
    for (const struct lane *lane = observe_lanes(seat); lane != NULL; lane = load_rlx(&lane->next)) {
        uint64_t cells = lane_backlog(lane);
        if (cells == 0) continue;
        text_format(text, "    submitted: %lu cells of tasks not begun, of group %u\n", cells, load_rlx(&lane->group));
    }
}

static void dump_seat(struct text *text, const struct weft_worker *seat) {
    const weft_pool *pool = seat->pool;
    bool is_spare = seat->index >= pool->workers_max && seat->index < pool->workers_max + pool->spare_seats;
    text_format(text, "  %u %s: ", seat->index, is_spare ? "spare" : seat_is_inside(seat) ? "worker" : "thread");
    dump_doing(text, seat);
    dump_waits(text, seat);
    text_format(text, "; %lu tasks run", load_rlx(&seat->tasks_run));
    if (load_rlx(&seat->thread_id) != 0) text_format(text, "; thread %u", load_rlx(&seat->thread_id));
    if (claim_has_rest(&seat->claim)) text_put(text, ", more of its claim not begun");
    text_put(text, "\n");
    observe_put_stack(text, seat);
    dump_lanes(text, seat);
}

/* ---- groups ------------------------------------------------------------------------------------------------------- */

static void dump_group(struct text *text, const struct record *record) {
    uint64_t id = load_rlx(&record->id);
    uint64_t parent = load_rlx(&record->parent);
    uint64_t completed = record_completed(record);
    uint64_t submitted = record_submitted(record);
    uint32_t waiting = load_rlx(&record->waiting) & ~WAITS_ENDED;
    if (id == 0 || (submitted == completed && waiting == 0)) return;
    text_format(text, "  group %u: %lu tasks not known to have ended, %u waits", record->item.index,
                submitted > completed ? submitted - completed : 0, waiting);
    if (parent != 0) text_format(text, ", below group %u", id_index(parent));
    if (load_rlx(&record->urgent) == (id & ~ID_MARKS))
        text_put(text, ", urgent");
    else if ((load_rlx(&record->flags) & WEFT_GROUP_BACKGROUND) != 0)
        text_put(text, ", in the background");
    if ((id & ID_CANCELLED) != 0) text_put(text, ", cancelled");
    if (load_rlx(&record->failed) != NOT_FAILED) text_put(text, ", a task failed");
    if (load_rlx(&record->continuation) != NULL) text_put(text, ", holds tasks until its end");
    text_put(text, "\n");
}

/* ---- the pool ----------------------------------------------------------------------------------------------------- */

static void dump_head(struct text *text, const weft_pool *pool) {
    struct park_view view = park_look(&pool->park);
    text_put(text, "weft pool ");
    text_put_name(text, pool->name);
    text_format(text, ": %u workers, %u parked", load_rlx(&pool->workers), view.parked);
    if (view.polling > 0) text_format(text, ", %u polling", view.polling);
    text_format(text, ", %u looking for work", view.searchers);
    uint32_t blocked = (uint32_t)load_rlx(&pool->blocked);
    if (blocked > 0) text_format(text, ", %u blocking sections", blocked);
    if (pool->config.queue_max != 0)
        text_format(text, ", queue %lu of %lu", load_rlx(&pool->queued), pool->config.queue_max);
    if (load_rlx(&pool->closed)) text_put(text, ", being destroyed");
    if (is_of_parent(pool)) text_put(text, "; of the parent process: this one, its forked child, has none of these threads");
    text_put(text, "\n");
}

int weft_pool_dump(const weft_pool *pool, int fd) {
    char buffer[512];
    if (pool == NULL || fd < 0) return WEFT_EINVAL;
    struct text text = {.to = buffer, .size = sizeof buffer, .fd = fd};
    dump_head(&text, pool);
    for (struct seats all = seats_made(pool); seats_next(&all);) dump_seat(&text, all.seat);
    uint32_t made = load_rlx(&pool->groups.records.made);
    for (uint32_t i = 1; i < made; i++) {
        const struct record *record = record_at(&pool->groups, i);
        if (record != NULL) dump_group(&text, record);
    }
    return text_end(&text) == 0 ? WEFT_OK : WEFT_EINVAL;
}
