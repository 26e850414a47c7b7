/* timeline.c: writes all threads' events to a file: Chrome trace JSON ("Trace Event Format"). Layer 7.
 *
 * Times are microseconds on CLOCK_MONOTONIC, and processes and threads have the system's numbers, so the file can be overlaid on
 * other tools' recordings. Arrows lead from a submission to its task, from a wake-up to the woken thread, and from the thread
 * whose tasks were taken to the one that took them: both slices have the same `bind_id`. Counters are computed from all events,
 * sorted by time. */
#include "observe/origin.h"
#include "observe/state.h"

/* ---- names of functions ------------------------------------------------------------------------------------------- */

#define NAMES 256u
#define NAME_BYTES 120u
struct name {
    uint64_t address; /* 0: none */
    char text[NAME_BYTES];
};

struct timeline {
    struct text text;
    const weft_pool *pool;
    struct name *names; /* by address; NULL: no memory, so each name is looked up anew */
    struct origins origins;
    struct origins steps;  /* of the counters */
    struct origins owners; /* which thread had which seat, and since when */
    uint64_t since;        /* ticks */
    uint64_t since_ns;     /* the same moment on CLOCK_MONOTONIC */
    double ns_per_tick;
    const char *before;         /* what separates the next event from the last one: nothing, then a comma */
    const struct joined *joins; /* the timelines before it in the file; NULL: weft_trace_write's, which stands alone */
};

static bool is_further(const struct timeline *line) { return line->joins != NULL && line->joins->pools > 0; }

/* Tells threads and counters of the pools in one file apart. */
static void put_pool(struct timeline *line) {
    if (is_further(line)) text_format(&line->text, " of pool %lu", line->pool->id);
}

static const char *name_of(struct timeline *line, uint64_t address, char (*room)[NAME_BYTES]) {
    if (line->names == NULL) {
        os_symbol(address, *room, NAME_BYTES);
        return *room;
    }
    struct name *name = &line->names[address / 16 % NAMES];
    if (name->address != address) os_symbol(address, name->text, NAME_BYTES);
    name->address = address;
    return name->text;
}

/* ---- JSON --------------------------------------------------------------------------------------------------------- */

/* Writes nanoseconds as microseconds. */
static void put_us(struct timeline *line, const char *field, uint64_t ns) {
    text_put(&line->text, field);
    text_put_decimal(&line->text, ns, 3);
}

/* The moment on CLOCK_MONOTONIC. Each moment is rounded by itself, so if one event ends when another begins, they do so in
 * the file, too. */
static uint64_t moment_ns(const struct timeline *line, uint64_t ticks) {
    int64_t span = (int64_t)(ticks - line->since);
    return span < 0 ? line->since_ns : line->since_ns + (uint64_t)((double)span * line->ns_per_tick);
}

/* {"ph": ..., "pid": ..., "tid": ... */
static void put_begin(struct timeline *line, const char *phase, uint32_t thread) {
    text_format(&line->text, "%s{\"ph\":\"%s\",\"pid\":%u,\"tid\":%u", line->before, phase, os_process_id(), thread);
    line->before = ",\n";
}

/* The thread that had the seat at that moment: a seat for outside threads may have another one now. */
static uint32_t thread_at(const struct timeline *line, const struct weft_worker *seat, uint64_t ticks) {
    const struct origin *owner = origin_before(&line->owners, seat->index, ticks);
    return owner == NULL ? load_rlx(&seat->thread_id) : (uint32_t)owner->place;
}

static void put_process(struct timeline *line) {
    put_begin(line, "M", os_process_id());
    text_put(&line->text, ",\"name\":\"process_name\",\"args\":{\"name\":");
    text_put_quoted(&line->text, line->pool->name);
    text_put(&line->text, "}}");
}

static void put_thread(struct timeline *line, const struct weft_worker *seat, uint32_t thread) {
    put_begin(line, "M", thread);
    const char *kind = seat->index < line->pool->workers_max ? "worker" : seat_is_inside(seat) ? "spare" : "outside";
    text_format(&line->text, ",\"name\":\"thread_name\",\"args\":{\"name\":\"%s %u", kind, seat->index);
    put_pool(line);
    text_put(&line->text, "\"}}");
    put_begin(line, "M", thread);
    text_format(&line->text, ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%u}}", seat->index);
}

/* What a viewer shows of each kind; no name: the function's. */
static const struct {
    const char *category, *name;
} kinds[TRACE_KINDS] = {
    [TRACE_TASK] = {"task", NULL},        [TRACE_NODE] = {"node", NULL},         [TRACE_FORK] = {"fork", NULL},
    [TRACE_LOOP] = {"loop", NULL},        [TRACE_HELP_LOOP] = {"loop", NULL},    [TRACE_PARK] = {"sleep", "parked"},
    [TRACE_WAKING] = {"sleep", "waking"}, [TRACE_WAIT] = {"sleep", "waiting"},   [TRACE_CLAIM] = {"claim", "claim"},
    [TRACE_WAKE] = {"wake", "wake"},      [TRACE_SUBMIT] = {"submit", "submit"},
};
static const char *const claim_names[CLAIM_SOURCES] = {"claim", "steal", "take back"};

/* Writes an arrow's end at the current slice. Its number is made of the pool, the seat and the moment, and a submission's also
 * of its first cell: one thread may submit twice in one tick of a coarse clock. `leaves`: the arrow begins here. */
enum arrow { ARROW_SUBMIT, ARROW_WAKE, ARROW_TAKE, ARROWS };
#define CELL_SHIFT 24u
#define POOL_SHIFT 56u /* beyond what changes from one moment to the next */
static void put_arrow(struct timeline *line, enum arrow kind, const struct origin *from, bool leaves) {
    uint64_t number = ((from->time * SEATS_MAX + from->seat) * ARROWS + kind) ^ line->pool->id << POOL_SHIFT;
    if (kind == ARROW_SUBMIT) number ^= from->place << CELL_SHIFT;
    text_format(&line->text, ",\"bind_id\":\"%#lx\",\"flow_%s\":true", number, leaves ? "out" : "in");
}

static void put_argument(struct timeline *line, const char *name, uint64_t value) {
    text_format(&line->text, "%s%lu", name, value);
}

/* Writes which thread submitted the task, and when, and if that is a guess, how much later it may have been. */
static void put_task(struct timeline *line, const struct trace_event *event) {
    struct submitted when = {0, 0};
    const struct origin *from = origin_of_task(&line->origins, event->place, event->start, &when);
    const struct weft_worker *seat = from == NULL ? NULL : worker_seat(line->pool, from->seat);
    if (from != NULL) put_arrow(line, ARROW_SUBMIT, from, false);
    if (event->detail == 0 && seat == NULL) return;
    put_argument(line, ",\"args\":{\"group\":", event->detail);
    if (seat != NULL) {
        put_argument(line, ",\"submitter\":", thread_at(line, seat, from->time));
        uint64_t ns = moment_ns(line, when.first);
        put_us(line, ",\"submitted\":", ns);
        put_us(line, ",\"queued_us\":", moment_ns(line, event->start) - ns);
        if (when.last > when.first) put_us(line, ",\"later_us\":", moment_ns(line, when.last) - ns);
    }
    text_put(&line->text, "}");
}

static void put_details(struct timeline *line, uint32_t seat, const struct trace_event *event) {
    const struct origin here = {.time = event->start, .place = event->place, .seat = (uint16_t)(seat & 0x7fff)};
    const struct origin *from = event->kind == TRACE_WAKING ? origin_of_wake(&line->origins, event->start) : NULL;
    if (event->kind == TRACE_TASK) put_task(line, event);
    if (event->kind == TRACE_WAKE) put_arrow(line, ARROW_WAKE, &here, true);
    if (from != NULL) put_arrow(line, ARROW_WAKE, from, false);
    if (event->kind == TRACE_CLAIM && event->detail != CLAIM_LANE) put_arrow(line, ARROW_TAKE, &here, false);
    if (event->kind == TRACE_SUBMIT) put_arrow(line, ARROW_SUBMIT, &here, true);
    bool is_claim = event->kind == TRACE_CLAIM;
    if (is_claim || event->kind == TRACE_SUBMIT) {
        put_argument(line, is_claim ? ",\"args\":{\"tasks\":" : ",\"args\":{\"tasks_expected\":", event->what);
        text_put(&line->text, "}");
    }
    if (event->kind == TRACE_HELP_LOOP) text_put(&line->text, ",\"args\":{\"helps\":true}");
}

static void put_slice(struct timeline *line, uint32_t thread, const struct trace_event *event, const char *name) {
    uint64_t start = moment_ns(line, event->start);
    put_begin(line, "X", thread);
    put_us(line, ",\"ts\":", start);
    put_us(line, ",\"dur\":", max_u64(moment_ns(line, event->end), start) - start);
    text_format(&line->text, ",\"cat\":\"%s\",\"name\":", kinds[event->kind].category);
    text_put_quoted(&line->text, name);
}

/* Gives the thread whose tasks were taken a slice of no length. */
static void put_victim(struct timeline *line, uint32_t seat, const struct trace_event *event) {
    const struct origin here = {.time = event->start, .seat = (uint16_t)(seat & 0x7fff)};
    const struct weft_worker *victim = worker_seat(line->pool, (uint32_t)event->place);
    if (event->detail == CLAIM_LANE || victim == NULL) return;
    put_slice(line, thread_at(line, victim, event->start), event, "taken from");
    put_arrow(line, ARROW_TAKE, &here, true);
    text_put(&line->text, "}");
}

/* Makes a woken thread's slice begin after the wake. Clocks are coarse, and if two slices begin at one moment, viewers take
 * the longer one for the earlier. */
static void begin_later(const struct timeline *line, struct trace_event *event) {
    const struct origin *from = event->kind == TRACE_WAKING ? origin_of_wake(&line->origins, event->start) : NULL;
    if (from == NULL || moment_ns(line, event->start) > moment_ns(line, from->time)) return;
    event->start += os_ticks_per_us() / 500 + 1; /* two nanoseconds, because viewers read times as floating point */
    event->end = max_u64(event->start, event->end);
}

static void put_event(struct timeline *line, const struct weft_worker *seat, const struct trace_event *event) {
    char room[NAME_BYTES];
    const char *name = kinds[event->kind].name;
    if (name == NULL) name = name_of(line, event->what, &room);
    if (event->kind == TRACE_CLAIM) {
        name = claim_names[event->detail < CLAIM_SOURCES ? event->detail : CLAIM_LANE];
        put_victim(line, seat->index, event);
    }
    struct trace_event shown = *event;
    begin_later(line, &shown);
    put_slice(line, thread_at(line, seat, event->end), &shown, name); /* events inside it were added before it */
    put_details(line, seat->index, event);
    text_put(&line->text, "}");
}

/* ---- counters ----------------------------------------------------------------------------------------------------- */

enum counter { COUNT_WAITING, COUNT_RUNNING, COUNT_ASLEEP, COUNTERS };
static const struct {
    const char *name, *key;
} counters[COUNTERS] = {{"tasks", "waiting"}, {"tasks", "running"}, {"workers", "asleep"}};
#define COUNTER_NS 5000u /* changes closer together are shown once */

static void step(struct timeline *line, enum counter counter, uint64_t since, uint64_t until) {
    const struct origin up = {.time = since, .place = counter, .tasks = 1};
    const struct origin down = {.time = max_u64(since, until), .place = counter, .tasks = 0};
    origins_add(&line->steps, &up);
    origins_add(&line->steps, &down);
}

static void use_for_steps(struct timeline *line, const struct weft_worker *seat, const struct trace_event *event) {
    struct submitted when;
    (void)seat;
    if (event->kind == TRACE_PARK) step(line, COUNT_ASLEEP, event->start, event->end);
    if (event->kind != TRACE_TASK) return;
    step(line, COUNT_RUNNING, event->start, event->end);
    if (origin_of_task(&line->origins, event->place, event->start, &when) == NULL) return;
    step(line, COUNT_WAITING, when.last, event->start);
}

static void put_counter(struct timeline *line, enum counter counter, uint64_t ns, uint64_t value) {
    put_begin(line, "C", os_process_id());
    put_us(line, ",\"ts\":", ns);
    text_format(&line->text, ",\"name\":\"%s", counters[counter].name);
    put_pool(line);
    text_format(&line->text, "\",\"args\":{\"%s\":%lu}}", counters[counter].key, value);
}

static void put_counters(struct timeline *line) {
    uint64_t value[COUNTERS] = {0};
    uint64_t shown[COUNTERS] = {0};
    origins_sort(&line->steps);
    for (size_t i = 0; i < line->steps.count; i++) {
        const struct origin *row = &line->steps.row[i];
        bool is_last = i + 1 == line->steps.count;
        uint64_t ns = moment_ns(line, row->time);
        value[row->place] += row->tasks == 1 ? 1 : UINT64_MAX;
        if (!is_last && moment_ns(line, row[1].time) - ns < COUNTER_NS) continue;
        for (unsigned each = 0; each < COUNTERS; each++)
            if (value[each] != shown[each]) put_counter(line, each, ns, shown[each] = value[each]);
    }
}

/* ---- the file ----------------------------------------------------------------------------------------------------- */

typedef void (*event_use)(struct timeline *line, const struct weft_worker *seat, const struct trace_event *event);

/* Whether the event belongs to this recording. Of events that began earlier, only sleeps do. */
static bool take_in(const struct timeline *line, struct trace_event *event) {
    if (event->kind >= TRACE_KINDS || (int64_t)(event->end - line->since) < 0) return false;
    if ((int64_t)(event->start - line->since) >= 0) return true;
    event->start = line->since;
    return event->kind == TRACE_PARK || event->kind == TRACE_WAIT;
}

/* Calls `use` for the thread's events of this recording. Returns how many of them were replaced already. */
static uint64_t use_events(struct timeline *line, const struct weft_worker *seat, event_use use) {
    const struct trace_ring *ring = observe_ring(seat);
    if (ring == NULL) return 0;
    uint64_t count = trace_count(ring);
    uint64_t first = load_rlx(&ring->first);
    uint64_t gone = 0;
    bool any = false;
    for (uint64_t number = count > ring->events ? count - ring->events : 0; number < count; number++) {
        struct trace_event event;
        if (!trace_read(ring, number, &event)) {
            if (number >= first) gone++;
        } else if (take_in(line, &event)) {
            use(line, seat, &event);
            any = true;
        }
    }
    /* A recording that begins between the two loads puts `first` behind `count`. */
    if (any && count > first && count - first > ring->events) gone += count - first - ring->events;
    return any ? gone : 0;
}

static uint64_t use_all(struct timeline *line, event_use use) {
    uint64_t gone = 0;
    for (struct seats all = seats_made(line->pool); seats_next(&all);) gone += use_events(line, all.seat, use);
    return gone;
}

static void use_for_origins(struct timeline *line, const struct weft_worker *seat, const struct trace_event *event) {
    origins_add_event(&line->origins, seat->index, event);
}

/* ---- room for what is sorted -------------------------------------------------------------------------------------- */

struct rows {
    size_t origins, steps, owners;
};

/* Counts the rows that the ring's present events need. Later events have no room. */
static void rows_count(const struct trace_ring *ring, struct rows *rows) {
    uint64_t count = trace_count(ring);
    for (uint64_t number = count > ring->events ? count - ring->events : 0; number < count; number++) {
        struct trace_event event;
        if (!trace_read(ring, number, &event)) continue;
        rows->origins += event.kind == TRACE_WAKE || event.kind == TRACE_SUBMIT;
        rows->steps += event.kind == TRACE_TASK ? 4 : event.kind == TRACE_PARK ? 2 : 0;
        rows->owners += event.kind == TRACE_OWNER;
    }
}

static struct rows rows_of(const weft_pool *pool) {
    struct rows rows = {0};
    for (struct seats all = seats_made(pool); seats_next(&all);) {
        const struct trace_ring *ring = observe_ring(all.seat);
        rows.owners++;
        if (ring != NULL) rows_count(ring, &rows);
    }
    return rows;
}

/* ---- whose events they are ---------------------------------------------------------------------------------------- */

/* Adds a row for the first thread that had the seat, and one for each later thread. While the seat changes hands,
 * `ring->thread` may name a thread whose event is not in `count` yet; so it is read before `count`. */
static void owners_add(struct timeline *line, const struct weft_worker *seat) {
    const struct trace_ring *ring = observe_ring(seat);
    struct origin first = {.key = seat->index, .place = ring == NULL ? 0 : load_rlx(&ring->thread)};
    uint64_t count = ring == NULL ? 0 : trace_count(ring);
    size_t at = line->owners.count;
    if (first.place == 0) first.place = load_rlx(&seat->thread_id);
    if (first.place == 0) return; /* no thread has had it */
    origins_add(&line->owners, &first);
    for (uint64_t number = count > 0 && count > ring->events ? count - ring->events : 0; number < count; number++) {
        struct trace_event event;
        if (!trace_read(ring, number, &event) || event.kind != TRACE_OWNER || line->owners.count <= at) continue;
        if (line->owners.count == at + 1) line->owners.row[at].place = event.place;
        const struct origin next = {.key = seat->index, .time = event.start, .place = event.what};
        origins_add(&line->owners, &next);
    }
}

static void owners_find(struct timeline *line) {
    for (struct seats all = seats_made(line->pool); seats_next(&all);) owners_add(line, all.seat);
    origins_sort(&line->owners);
}

static void put_threads(struct timeline *line) {
    for (size_t i = 0; i < line->owners.count; i++) {
        const struct origin *row = &line->owners.row[i];
        put_thread(line, worker_seat(line->pool, (uint32_t)row->key), (uint32_t)row->place);
    }
}

/* Of all that is in the file. trace_file.c reads it. */
static void put_end(struct timeline *line, uint64_t gone) {
    const struct joined none = {.since_ns = UINT64_MAX}, *joins = is_further(line) ? line->joins : &none;
    text_put(&line->text, "\n],\"displayTimeUnit\":\"ns\",\"otherData\":{\"weft\":");
    text_put_quoted(&line->text, VERSION_TEXT);
    put_argument(line, ",\"events_per_thread\":", max_u64(joins->events, line->pool->config.trace_events));
    put_argument(line, ",\"dropped\":", joins->dropped + gone);
    put_argument(line, ",\"monotonic_ns\":", min_u64(joins->since_ns, line->since_ns));
    if (line->joins != NULL) {
        put_argument(line, ",\"pools\":", joins->pools + 1);
        put_argument(line, ",\"process\":", os_process_id());
        put_argument(line, ",\"process_start\":", os_process_start());
    }
    text_put(&line->text, "}}\n");
}

static void put_all(struct timeline *line) {
    owners_find(line);
    use_all(line, use_for_origins);
    origins_sort(&line->origins);
    use_all(line, use_for_steps);
    if (is_further(line)) {
        line->before = ",\n";
    } else {
        text_put(&line->text, "{\"traceEvents\":[\n");
        put_process(line);
    }
    put_threads(line);
    uint64_t gone = use_all(line, put_event);
    put_counters(line);
    put_end(line, gone);
}

/* From the two moments at which both clocks were read. */
static double ns_per_tick(const struct timeline *line) {
    uint64_t ns, now = observe_clocks(&ns);
    uint64_t ticks = now - line->since;
    double nominal = 1000 / (double)os_ticks_per_us();
    return ticks < 1000 * os_ticks_per_us() ? nominal : (double)(ns - line->since_ns) / (double)ticks;
}

/* Reads when the recording began, by both clocks. In a forked child the lock may belong to a thread that does not exist
 * there. */
static void read_since(struct timeline *line) {
    struct observe_pool *own = observe_of_pool(line->pool);
    bool is_child = line->pool->fork_count != os_fork_count();
    if (!is_child) os_lock(&own->trace.lock);
    line->since = load_rlx(&own->trace.since);
    line->since_ns = load_rlx(&own->trace.since_ns);
    if (!is_child) os_unlock(&own->trace.lock);
    line->ns_per_tick = ns_per_tick(line);
}

int timeline_write(const weft_pool *pool, int fd, const struct joined *joins) {
    char buffer[4096];
    size_t bytes = round_up(NAMES * sizeof(struct name), os_page_size());
    struct timeline line = {.text = {.to = buffer, .size = sizeof buffer, .fd = fd},
                            .pool = pool,
                            .names = os_map(bytes),
                            .joins = joins,
                            .before = ""};
    read_since(&line);
    struct rows rows = rows_of(pool);
    origins_make(&line.origins, rows.origins);
    origins_make(&line.steps, rows.steps);
    origins_make(&line.owners, rows.owners);
    put_all(&line);
    origins_end(&line.origins);
    origins_end(&line.steps);
    origins_end(&line.owners);
    if (line.names != NULL) os_unmap(line.names, bytes);
    return text_end(&line.text) == 0 ? WEFT_OK : WEFT_EINVAL;
}

int weft_trace_write(const weft_pool *pool, int fd) {
    return pool == NULL || fd < 0 ? WEFT_EINVAL : timeline_write(pool, fd, NULL);
}

/* Threads and processes may save to one file at once: it is emptied when its turn has come. */
int weft_trace_save(const weft_pool *pool, const char *path) {
    if (pool == NULL || path == NULL) return WEFT_EINVAL;
    int fd = os_append(path);
    if (fd < 0) return WEFT_EINVAL;
    bool is_locked = files_lock(fd);
    if (is_locked) os_empty(fd);
    int error = is_locked ? weft_trace_write(pool, fd) : WEFT_EINVAL;
    if (is_locked) files_unlock(fd);
    os_close(fd);
    return error;
}
