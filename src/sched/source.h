/* source.h: the interface of sources of work other than lanes.
 *
 * Lanes are sched's own source: find.c asks them first, by direct calls. Every other source implements struct source, and
 * src/rooms.c lists it. sched does not know what the work is. */
#ifndef WEFT_SOURCE_H
#define WEFT_SOURCE_H

#include "sched/worker.h"

struct source;

/* What to take: that of groups whose record's index it accepts, as in lane_claim. */
struct source_filter {
    lane_filter accepts;
    const void *context;
    bool leaves; /* the finder, perhaps before it is over: only where others find what is left */
};

/* What was taken: its finder must run it. */
struct source_work {
    const struct source *source;
    void *item; /* these two are the source's */
    uintptr_t detail;
};

struct source {
    /* Takes something. `force`: also what its thread holds back, being long in something else. `filter` NULL: anything.
     * false: there is nothing. */
    bool (*find)(struct weft_worker *seat, bool force, const struct source_filter *filter, struct source_work *work);
    /* The record's index of the group that it counts for; 0: of none. */
    uint32_t (*index)(const struct source_work *work);
    /* Until it is over; or no longer than until that time (0: none), if the filter was one that leaves. */
    void (*run)(struct weft_worker *seat, struct source_work *work, uint64_t until_ns);
    /* Might there be something to take? Any thread. */
    bool (*is_open)(const weft_pool *pool);
    /* The same by force. NULL: nothing is ever held back, nor asked for. */
    bool (*holds_back)(const weft_pool *pool);
    /* Asks every thread that holds such work back to offer some. `firmly`, by one that is about to sleep: whatever comes from
     * now on will be offered, and somebody be woken. */
    void (*ask)(const weft_pool *pool, const struct source_filter *filter, bool firmly);
};

/* In the order in which a worker asks them. */
#define SOURCES_MAX 4u
struct sources {
    uint32_t count;
    const struct source *of[SOURCES_MAX];
};
extern const struct sources sources; /* src/rooms.c */

INLINE bool sources_find(struct weft_worker *seat, bool force, struct source_work *work) {
    for (uint32_t i = 0; i < sources.count; i++)
        if (sources.of[i]->find(seat, force, NULL, work)) return true;
    return false;
}
/* For a wait: the other way round. */
INLINE bool sources_find_for(struct weft_worker *seat, bool force, const struct source_filter *filter,
                             struct source_work *work) {
    for (uint32_t i = sources.count; i-- > 0;)
        if (sources.of[i]->find(seat, force, filter, work)) return true;
    return false;
}
INLINE bool sources_are_open(const weft_pool *pool) {
    for (uint32_t i = 0; i < sources.count; i++)
        if (sources.of[i]->is_open(pool)) return true;
    return false;
}
INLINE bool sources_hold_back(const weft_pool *pool) {
    for (uint32_t i = 0; i < sources.count; i++)
        if (sources.of[i]->holds_back != NULL && sources.of[i]->holds_back(pool)) return true;
    return false;
}
INLINE void sources_ask(const weft_pool *pool, const struct source_filter *filter, bool firmly) {
    for (uint32_t i = 0; i < sources.count; i++)
        if (sources.of[i]->ask != NULL) sources.of[i]->ask(pool, filter, firmly);
}
INLINE uint32_t source_index(const struct source_work *work) { return work->source->index(work); }
INLINE void source_run(struct weft_worker *seat, struct source_work *work, uint64_t until_ns) {
    work->source->run(seat, work, until_ns);
}

#endif
