/* trace.c: the ring of a thread's events, with one writer, read by anybody while it is written; and the file that is made of
 * all threads': Chrome trace JSON ("Trace Event Format"). Times in it are microseconds since the recording began. A pool is
 * shown as a process, its threads by their indices.
 *
 * Writer                                     Reader of event n
 *   1. the words of event n + events (Q1)      1. count > n (Q4)
 *   2. count = n + events + 1 (Q2)             2. the words (Q3)
 *                                              3. count again: below n + events? Then they are event n's
 *
 * The reader that has seen a word of event n + events (Q1, Q3) sees also what the writer did before: count = n + events.
 * So 3 throws away what may be mixed; also the event that the writer is about to lose, for it cannot tell.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   Q1  trace_add: store word      release  Q3  an event is read that is half another's
 *   Q2  trace_add: store count     release  Q4  an event is read before it is written
 *   Q3  trace_read: load word      acquire  Q1  see Q1
 *   Q4  trace_count: load count    acquire  Q2  see Q2
 */
#include "observe/state.h"

#include <string.h>

/* ---- the ring ----------------------------------------------------------------------------------------------------- */

void trace_add(struct trace_ring *ring, const struct trace_event *event) {
    uint64_t count = load_rlx(&ring->count);
    struct trace_slot *slot = &ring->slot[count & (ring->events - 1)];
    const uint64_t words[TRACE_WORDS] = {event->start, event->end, event->what, (uint64_t)event->detail << 32 | event->kind};
    for (unsigned i = 0; i < TRACE_WORDS; i++) store_rel(Q1, &slot->word[i], words[i]);
    store_rel(Q2, &ring->count, count + 1);
}

uint64_t trace_count(const struct trace_ring *ring) { return load_acq(Q4, &ring->count); }

bool trace_read(const struct trace_ring *ring, uint64_t number, struct trace_event *event) {
    const struct trace_slot *slot = &ring->slot[number & (ring->events - 1)];
    uint64_t words[TRACE_WORDS];
    for (unsigned i = 0; i < TRACE_WORDS; i++) words[i] = load_acq(Q3, &slot->word[i]);
    *event =
        (struct trace_event){words[0], words[1], words[2], (enum trace_kind)(words[3] & 0xff), (uint32_t)(words[3] >> 32)};
    return load_rlx(&ring->count) < number + ring->events;
}

/* ---- names of functions ------------------------------------------------------------------------------------------- */

/* Thread numbers must differ between processes, and from those of the processes, for viewers to tell them apart. */
#define IDS_PER_POOL 10000u
_Static_assert(SEATS_MAX < IDS_PER_POOL, "each seat has a number");

#define NAMES 256u
#define NAME_BYTES 120u
struct name {
    uint64_t address; /* 0: none */
    char text[NAME_BYTES];
};

struct timeline {
    struct text text;
    const weft_pool *pool;
    struct name *names;    /* by address; NULL: no memory, each is looked up anew */
    uint64_t since;        /* ticks */
    uint64_t ticks_per_us; /* taken once: it gets better with time */
    const char *before;    /* of the next event: a comma after the first */
};

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

static void put_quoted(struct text *text, const char *from) {
    text_put_char(text, '"');
    for (; *from != 0; from++) {
        bool is_plain = (unsigned char)*from >= 0x20 && (unsigned char)*from < 0x7f && *from != '"' && *from != '\\';
        char c = '?';
        if (is_plain) c = *from;
        text_put_char(text, c);
    }
    text_put_char(text, '"');
}

/* Microseconds, of nanoseconds. */
static void put_us(struct timeline *line, const char *field, uint64_t ns) {
    text_put(&line->text, field);
    text_put_decimal(&line->text, ns, 3);
}

/* Since the recording began. Each moment is rounded by itself, so that what ends when another begins does so in the file,
 * too. */
static uint64_t moment_ns(const struct timeline *line, uint64_t ticks) {
    uint64_t span = ticks - line->since;
    return span / line->ticks_per_us * 1000 + span % line->ticks_per_us * 1000 / line->ticks_per_us;
}

/* {"ph": ..., "pid": ..., "tid": ... */
static void put_begin(struct timeline *line, const char *phase, uint32_t thread) {
    text_put(&line->text, line->before);
    line->before = ",\n";
    text_put(&line->text, "{\"ph\":\"");
    text_put(&line->text, phase);
    text_put(&line->text, "\",\"pid\":");
    text_put_number(&line->text, line->pool->id * IDS_PER_POOL);
    text_put(&line->text, ",\"tid\":");
    text_put_number(&line->text, line->pool->id * IDS_PER_POOL + 1 + thread);
}

static void put_process(struct timeline *line) {
    put_begin(line, "M", 0);
    text_put(&line->text, ",\"name\":\"process_name\",\"args\":{\"name\":");
    put_quoted(&line->text, line->pool->name);
    text_put(&line->text, "}}");
}

static void put_thread(struct timeline *line, const struct weft_worker *seat) {
    put_begin(line, "M", seat->index);
    text_put(&line->text, ",\"name\":\"thread_name\",\"args\":{\"name\":\"");
    text_put(&line->text, seat->index < line->pool->workers_max ? "worker " : seat_is_inside(seat) ? "spare " : "outside ");
    text_put_number(&line->text, seat->index);
    text_put(&line->text, "\"}}");
    put_begin(line, "M", seat->index);
    text_put(&line->text, ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":");
    text_put_number(&line->text, seat->index);
    text_put(&line->text, "}}");
}

/* What a viewer shows of each kind; no name: that of the function. */
static const struct {
    const char *category, *name;
} kinds[TRACE_KINDS] = {
    [TRACE_TASK] = {"task", NULL},        [TRACE_NODE] = {"node", NULL},       [TRACE_FORK] = {"fork", NULL},
    [TRACE_LOOP] = {"loop", NULL},        [TRACE_HELP_LOOP] = {"loop", NULL},  [TRACE_PARK] = {"sleep", "parked"},
    [TRACE_WAKING] = {"sleep", "waking"}, [TRACE_WAIT] = {"sleep", "waiting"}, [TRACE_CLAIM] = {"claim", "claim"},
    [TRACE_WAKE] = {"wake", "wake"},
};
static const char *const claim_names[CLAIM_SOURCES] = {"claim", "steal", "take back"};

static void put_event(struct timeline *line, uint32_t thread, const struct trace_event *event) {
    struct text *text = &line->text;
    char room[NAME_BYTES];
    bool is_point = event->kind == TRACE_CLAIM || event->kind == TRACE_WAKE;
    const char *name = kinds[event->kind].name;
    if (name == NULL) name = name_of(line, event->what, &room);
    if (event->kind == TRACE_CLAIM) name = claim_names[event->detail < CLAIM_SOURCES ? event->detail : CLAIM_LANE];
    put_begin(line, is_point ? "i" : "X", thread);
    uint64_t start = moment_ns(line, event->start);
    put_us(line, ",\"ts\":", start);
    if (!is_point) put_us(line, ",\"dur\":", max_u64(moment_ns(line, event->end), start) - start);
    if (is_point) text_put(text, ",\"s\":\"t\"");
    text_put(text, ",\"cat\":\"");
    text_put(text, kinds[event->kind].category);
    text_put(text, "\",\"name\":");
    put_quoted(text, name);
    if (event->kind == TRACE_CLAIM) {
        text_put(text, ",\"args\":{\"tasks\":");
        text_put_number(text, event->what);
        text_put(text, "}");
    }
    if (event->kind == TRACE_TASK && event->detail != 0) {
        text_put(text, ",\"args\":{\"group\":");
        text_put_number(text, event->detail);
        text_put(text, "}");
    }
    if (event->kind == TRACE_HELP_LOOP) text_put(text, ",\"args\":{\"helps\":true}");
    text_put(text, "}");
}

/* ---- the file ----------------------------------------------------------------------------------------------------- */

/* The thread's events of this recording. Returns how many of it had gone. */
static uint64_t put_events(struct timeline *line, const struct weft_worker *seat) {
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
        } else if (event.kind < TRACE_KINDS && (int64_t)(event.end - line->since) >= 0) {
            if ((int64_t)(event.start - line->since) < 0) event.start = line->since; /* it slept when the recording began */
            put_event(line, seat->index, &event);
            any = true;
        }
    }
    if (any && count - first > ring->events) gone += count - first - ring->events;
    return any ? gone : 0;
}

/* When the recording began on CLOCK_MONOTONIC, so that the file lies over what others have recorded. */
static void put_clock(struct timeline *line) {
    uint64_t now_ns = os_now_ns();
    text_put(&line->text, ",\"monotonic_ns\":");
    text_put_number(&line->text, now_ns - min_u64(moment_ns(line, os_ticks()), now_ns));
}

/* The system's numbers of the threads, by those of the file. */
static void put_threads(struct timeline *line) {
    const char *before = ",\"threads\":{";
    uint32_t count = load_rlx(&line->pool->seat_count);
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_worker *seat = observe_seat(line->pool, i);
        const struct trace_ring *ring = seat == NULL ? NULL : observe_ring(seat);
        if (ring == NULL) continue;
        text_put(&line->text, before);
        text_put_char(&line->text, '"');
        text_put_number(&line->text, line->pool->id * IDS_PER_POOL + 1 + i);
        text_put(&line->text, "\":");
        text_put_number(&line->text, load_rlx(&ring->thread));
        before = ",";
    }
    text_put(&line->text, before[1] == 0 ? "}" : ",\"threads\":{}");
}

static void put_all(struct timeline *line) {
    uint64_t gone = 0;
    uint32_t count = load_rlx(&line->pool->seat_count);
    text_put(&line->text, "{\"traceEvents\":[\n");
    put_process(line);
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_worker *seat = observe_seat(line->pool, i);
        if (seat == NULL) continue;
        put_thread(line, seat);
        gone += put_events(line, seat);
    }
    text_put(&line->text, "\n],\"displayTimeUnit\":\"ns\",\"otherData\":{\"weft\":");
    put_quoted(&line->text, VERSION_TEXT);
    text_put(&line->text, ",\"events_per_thread\":");
    text_put_number(&line->text, line->pool->config.trace_events);
    text_put(&line->text, ",\"dropped\":");
    text_put_number(&line->text, gone);
    put_clock(line);
    put_threads(line);
    text_put(&line->text, "}}\n");
}

int weft_trace_write(const weft_pool *pool, int fd) {
    char buffer[4096];
    if (pool == NULL || fd < 0) return WEFT_EINVAL;
    size_t bytes = round_up(NAMES * sizeof(struct name), os_page_size());
    struct timeline line = {.text = {.to = buffer, .size = sizeof buffer, .fd = fd},
                            .pool = pool,
                            .names = os_map(bytes),
                            .since = load_rlx(&observe_of_pool(pool)->trace.since),
                            .ticks_per_us = os_ticks_per_us(),
                            .before = ""};
    put_all(&line);
    if (line.names != NULL) os_unmap(line.names, bytes);
    return text_end(&line.text) == 0 ? WEFT_OK : WEFT_EINVAL;
}

/* ---- on and off --------------------------------------------------------------------------------------------------- */

int weft_trace_start(weft_pool *pool) {
    if (pool == NULL) return WEFT_EINVAL;
    if (pool->fork_count != os_fork_count()) return WEFT_EFORK;
    os_lock(&observe_of_pool(pool)->trace.lock);
    store_rlx(&observe_of_pool(pool)->trace.recording, load_rlx(&observe_of_pool(pool)->trace.recording) + 1);
    store_rlx(&observe_of_pool(pool)->trace.since, os_ticks());
    or_rlx(&pool->extras, EXTRA_TRACED);
    os_unlock(&observe_of_pool(pool)->trace.lock);
    return WEFT_OK;
}

int weft_trace_stop(weft_pool *pool) {
    if (pool == NULL) return WEFT_EINVAL;
    if (pool->fork_count != os_fork_count()) return WEFT_EFORK;
    and_rlx(&pool->extras, ~(uint32_t)EXTRA_TRACED);
    return WEFT_OK;
}

int weft_trace_save(const weft_pool *pool, const char *path) {
    if (pool == NULL || path == NULL) return WEFT_EINVAL;
    int fd = os_create(path);
    if (fd < 0) return WEFT_EINVAL;
    int error = weft_trace_write(pool, fd);
    os_close(fd);
    return error;
}
