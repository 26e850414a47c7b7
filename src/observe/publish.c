/* publish.c: the file that `weft top` reads: a pool's counters, rewritten four times a second. Layer 7.
 *
 * A pool has one only if asked (weft_config.top). The pool's looking thread writes it (observe.c), so it is still written
 * when every worker hangs. A reader may see a part of one text, or parts of two: the text begins and ends with its number,
 * and is whole only if both are equal. The file is removed with the pool. A file that is left belongs to a process that
 * exited without ending its pool.
 *
 * The pool keeps its file locked. So who finds its own name taken knows whether the other one still writes: another copy of the
 * library in this process, or a process of another PID namespace. Only what is locked by nobody is removed. */
#include "observe/origin.h"
#include "observe/state.h"

#define HEAP_EVERY 8u /* updates: counting the heap visits every page */

void observe_file_name(const weft_pool *pool, const char *kind, uint32_t number, char name[FILE_NAME_BYTES]) {
    struct text text = {.size = FILE_NAME_BYTES, .fd = TEXT_TO_MEMORY};
    text.to = name;
    text_format(&text, "%s-%u-%lu", kind, os_process_id(), pool->id);
    if (number > 1) text_format(&text, ".%u", number);
    text_put(&text, ".json");
    text_end(&text);
}

/* ---- how long tasks were queued, while a timeline is recorded ----------------------------------------------------- *
 *
 * Each update counts every task that ended since the one before. Its submission may be any event that the rings still hold. */

struct queued {
    struct origins origins;
    size_t rows;
    uint64_t since; /* ticks: what ended earlier belongs to an earlier recording */
    uint64_t tasks, sum, most;
    uint64_t unseen; /* events that newer ones had replaced before they were counted */
};

typedef void (*event_use)(struct queued *queued, const struct weft_worker *seat, const struct trace_event *event);

static void use_for_rows(struct queued *queued, const struct weft_worker *seat, const struct trace_event *event) {
    (void)seat;
    queued->rows += event->kind == TRACE_SUBMIT || event->kind == TRACE_WAKE;
}

static void use_for_origins(struct queued *queued, const struct weft_worker *seat, const struct trace_event *event) {
    origins_add_event(&queued->origins, seat->index, event);
}

static void use_for_count(struct queued *queued, const struct weft_worker *seat, const struct trace_event *event) {
    struct submitted when;
    (void)seat;
    if (event->kind != TRACE_TASK || (int64_t)(event->end - queued->since) < 0) return;
    if (origin_of_task(&queued->origins, event->place, event->start, &when) == NULL) return;
    queued->tasks++;
    queued->sum += event->start - when.last;
    queued->most = max_u64(queued->most, event->start - when.last);
}

static void use_events(struct queued *queued, const struct weft_worker *seat, uint64_t from, uint64_t count, event_use use) {
    const struct trace_ring *ring = observe_ring(seat);
    struct trace_event event;
    for (uint64_t n = max_u64(from, count > ring->events ? count - ring->events : 0); n < count; n++)
        if (trace_read(ring, n, &event)) use(queued, seat, &event);
}

/* Whatever is to be counted was submitted, and the event of that recorded, before the marks are set. */
static void rings_mark(const weft_pool *pool, struct queued *queued) {
    for (struct seats all = seats_made(pool); seats_next(&all);) {
        struct trace_ring *ring = observe_ring(all.seat);
        if (ring == NULL) continue;
        ring->publishing = trace_count(ring);
        uint64_t count = ring->publishing - ring->published; /* the oldest in a full ring may be about to be replaced */
        if (count >= ring->events) queued->unseen += count - ring->events + 1;
    }
}

static void use_all(const weft_pool *pool, struct queued *queued, event_use use) {
    for (struct seats all = seats_made(pool); seats_next(&all);) {
        const struct trace_ring *ring = observe_ring(all.seat);
        if (ring != NULL) use_events(queued, all.seat, 0, trace_count(ring), use);
    }
}

static void rings_count(const weft_pool *pool, struct queued *queued) {
    for (struct seats all = seats_made(pool); seats_next(&all);) {
        struct trace_ring *ring = observe_ring(all.seat);
        if (ring == NULL) continue;
        use_events(queued, all.seat, ring->published, ring->publishing, use_for_count);
        ring->published = ring->publishing;
    }
}

static void put_queued(struct text *text, const weft_pool *pool) {
    if ((load_rlx(&pool->extras) & EXTRA_TRACED) == 0) return;
    struct queued queued = {.since = load_rlx(&observe_of_pool(pool)->trace.since)};
    rings_mark(pool, &queued);
    use_all(pool, &queued, use_for_rows);
    origins_make(&queued.origins, queued.rows);
    use_all(pool, &queued, use_for_origins);
    origins_sort(&queued.origins);
    rings_count(pool, &queued);
    origins_end(&queued.origins);
    text_put_field(text, "queued_task_count", queued.tasks);
    text_put_field(text, "queued_ns_mean", queued.tasks == 0 ? 0 : observe_ns(queued.sum / queued.tasks));
    text_put_field(text, "queued_ns_max", observe_ns(queued.most));
    text_put_field(text, "queued_unseen_count", queued.unseen);
}

/* ---- the text ----------------------------------------------------------------------------------------------------- */

static void put_threads(struct text *text, const weft_pool *pool) {
    struct park_view view = park_look(&pool->park);
    uint64_t running = 0, waiting = 0, cells = 0;
    for (struct seats all = seats_made(pool); seats_next(&all);) {
        bool is_waiting = load_rlx(&all.seat->wait_id) != 0;
        waiting += is_waiting;
        running += !is_waiting && load_rlx(&all.seat->running) != 0;
        cells += observe_backlog(all.seat);
    }
    text_put_field(text, "running", running);
    text_put_field(text, "searching", view.searchers);
    text_put_field(text, "polling", view.polling);
    text_put_field(text, "sleeping", view.parked);
    text_put_field(text, "waiting", waiting);
    text_put_field(text, "blocked", (uint32_t)load_rlx(&pool->blocked));
    text_put_field(text, "queue_cells", cells);
}

static void put_heap(struct text *text, struct publisher *own) {
    own->heap.struct_size = sizeof own->heap;
    if (own->heap.classes == 0 || own->number % HEAP_EVERY == 0) weft_heap_stats(&own->heap);
    text_put_field(text, "heap_live_bytes", own->heap.live_bytes);
    text_put_field(text, "heap_mapped_bytes", own->heap.mapped_bytes);
    text_put_field(text, "heap_resident_bytes", own->heap.resident_bytes);
}

static void put_pool(struct text *text, const weft_pool *pool, struct publisher *own) {
    text_put(text, "{");
    text_put_field(text, "number", own->number);
    text_put(text, "\"weft\": \"" VERSION_TEXT "\", \"pool\": ");
    text_put_quoted(text, pool->name);
    text_put(text, ", ");
    text_put_field(text, "process", os_process_id());
    text_put_field(text, "pool_id", pool->id);
    text_put_field(text, "monotonic_ns", os_now_ns());
    text_put_field(text, "period_ns", PUBLISH_NS);
    put_threads(text, pool);
    put_queued(text, pool);
    put_heap(text, own);
    stats_put_sums(text, pool);
    text_format(text, ", \"end\": %lu}\n", own->number);
}

/* ---- the file ----------------------------------------------------------------------------------------------------- */

/* The first free name; what nobody writes any more has none. */
static int file_make(const weft_pool *pool, int directory, uint32_t *number) {
    char name[FILE_NAME_BYTES];
    for (*number = 1; *number > 0;) {
        observe_file_name(pool, "weft", *number, name);
        int fd = os_make_in(directory, name);
        if (fd >= 0 && os_hold_made(fd)) return fd;
        if (fd >= 0) os_close(fd); /* one more that looks for a name has taken it for left */
        if (fd == -1) return -1;
        if (fd == OS_EXISTS && !os_remove_left(directory, name)) ++*number;
    }
    return -1;
}

int publish_start(weft_pool *pool) {
    struct observe_pool *own = observe_of_pool(pool);
    if (pool->config.top == NULL) return WEFT_OK;
    if (!store_text(&pool->store, &pool->config.top)) return WEFT_ENOMEM;
    own->top_directory = os_open_directory(pool->config.top) + 1;
    if (own->top_directory == 0) return WEFT_EINVAL;
    own->top_file = file_make(pool, own->top_directory - 1, &own->top_number) + 1;
    if (own->top_file == 0) return WEFT_EINVAL;
    publish(pool, &(struct publisher){0});
    return WEFT_OK;
}

void publish(weft_pool *pool, struct publisher *own) {
    char buffer[4096];
    int file = observe_of_pool(pool)->top_file - 1;
    if (file < 0) return;
    struct text text = {.to = buffer, .size = sizeof buffer, .fd = TEXT_TO_MEMORY};
    put_pool(&text, pool, own);
    own->number++;
    ASSERT(text.length < sizeof buffer);
    text.fd = file; /* only now, so that readers seldom find part of a text */
    os_empty(file);
    if (text_end(&text) == 0) return;
    text_tell(pool->config.top, " took not all of", " the counters for weft top: no more come");
    publish_end(pool);
}

void publish_end(weft_pool *pool) {
    char name[FILE_NAME_BYTES];
    struct observe_pool *own = observe_of_pool(pool);
    bool is_child = pool->fork_count != os_fork_count(); /* then the file is still its parent's */
    if (own->top_directory == 0) return;                 /* no system call: a sandbox may not allow it */
    observe_file_name(pool, "weft", own->top_number, name);
    if (own->top_file > 0 && !is_child)
        os_remove_in(own->top_directory - 1, name); /* while it is locked, it is this pool's */
    if (own->top_file > 0) os_close(own->top_file - 1);
    os_close(own->top_directory - 1);
    own->top_file = own->top_directory = 0;
}
