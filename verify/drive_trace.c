/* drive_trace.c: a ring of events read while its thread writes it, and found while it is made. */
#include "explore.h"
#include "observe/state.h"
#include "front.h"

#include <string.h>

#define RING_EVENTS 2u
#define ADDED 5u

static struct {
    struct trace_ring ring;
    struct trace_slot slots[RING_EVENTS];
} world;

static void trace_setup(void) {
    memset(&world, 0, sizeof world);
    world.ring.events = RING_EVENTS;
}

/* Event n: all its words tell n. */
static void trace_writer(void) {
    for (uint32_t n = 0; n < ADDED; n++)
        trace_add(&world.ring, n + 10, n + 20, n + 30, trace_label(TRACE_TASK, n + 40, n + 50));
}

static void trace_reader(void) {
    uint64_t count = trace_count(&world.ring);
    for (uint64_t n = count > RING_EVENTS ? count - RING_EVENTS : 0; n < count; n++) {
        struct trace_event event;
        if (!trace_read(&world.ring, n, &event)) {
            explore_observe(0);
            continue;
        }
        explore_observe(1);
        if (count > RING_EVENTS) explore_observe(2);
        EXPECT(event.start == n + 10 && event.end == n + 20 && event.what == n + 30 && event.detail == n + 40 &&
               event.place == n + 50);
    }
}
static void trace_reads_twice(void) {
    trace_reader();
    trace_reader();
}
EXPLORE_DRIVER(trace_ring, .about = "a reader meets a writer that goes round", .setup = trace_setup,
               .threads = {trace_writer, trace_reads_twice}, .must_see = 7);

/* ---- found while they are made ------------------------------------------------------------------------------------ */

static struct {
    weft_pool *pool;
    weft_group group;
} found;

static void found_setup(void) {
    weft_config config;
    memset(&found, 0, sizeof found);
    EXPECT(weft_config_init(&config) == WEFT_OK);
    config.workers = 1;
    config.spares = 1;
    found.pool = pool_make(&config);
    EXPECT(found.pool != NULL);
    found.pool->config.trace_events = RING_EVENTS;
    EXPECT(weft_trace_start(found.pool) == WEFT_OK);
}

static int nothing(void *payload, weft_worker *self) {
    (void)payload;
    (void)self;
    return 0;
}

/* Makes a seat, a lane and a ring. */
static void found_guest(void) {
    EXPECT(weft_submit(found.pool, &found.group, nothing, NULL, 0) == WEFT_OK);
    EXPECT(weft_group_wait(found.pool, &found.group) == WEFT_OK);
}

static void found_watcher(void) {
    for (int look = 0; look < 3; look++) {
        struct weft_worker *seat = worker_seat(found.pool, 2);
        if (seat == NULL) continue;
        EXPECT(seat->pool == found.pool);
        if (observe_backlog(seat) > 0) explore_observe(0);
        const struct trace_ring *ring = observe_ring(seat);
        if (ring == NULL) continue;
        EXPECT(ring->events == RING_EVENTS);
        uint64_t count = trace_count(ring);
        struct trace_event event;
        if (count > 0 && trace_read(ring, count - 1, &event)) EXPECT(event.kind == TRACE_TASK || event.kind == TRACE_SUBMIT);
        if (count > 0) explore_observe(1);
        explore_step();
    }
}

static void found_end(void) {
    store_rlx(&found.pool->workers, 0); /* to be joined */
    EXPECT(weft_pool_destroy(&found.pool) == WEFT_OK);
}
EXPLORE_DRIVER(trace_found, .about = "seats, lanes and rings looked at while their thread makes them", .setup = found_setup,
               .threads = {found_guest, found_watcher}, .check = found_end, .must_see = 3);
