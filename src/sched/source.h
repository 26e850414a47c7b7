/* source.h: the interface of sources of work other than lanes.
 *
 * Lanes are sched's own source: find.c asks them first, by direct calls. Every other source implements struct source, and
 * src/rooms.c lists it. sched does not know what the work is. */
#ifndef WEFT_SOURCE_H
#define WEFT_SOURCE_H

#include "sched/worker.h"

struct source;

/* What to take: work of the groups whose record index `accepts` accepts, as in lane_claim. */
struct source_filter {
    lane_filter accepts;
    const void *context;
    bool leaves; /* the finder may leave before the work is over: take only work whose rest others can find */
};

/* Work that was taken: the finder must run it. */
struct source_work {
    const struct source *source;
    void *item; /* these two are the source's */
    uintptr_t detail;
};

struct source {
    /* Takes some work. `force`: also work that its thread holds back because it is long busy with something else. `filter` NULL:
     * any work. false: there is none. */
    bool (*find)(struct weft_worker *seat, bool force, const struct source_filter *filter, struct source_work *work);
    /* The record index of the group in which the work counts; 0: in none. */
    uint32_t (*index)(const struct source_work *work);
    /* Runs the work until it is over; or, if the filter had `leaves`, at most until `until_ns` (0: no limit). */
    void (*run)(struct weft_worker *seat, struct source_work *work, uint64_t until_ns);
    /* Might there be work to take without force? Any thread. */
    bool (*is_open)(const weft_pool *pool);
    /* Might there be work to take by force? NULL: the source never holds work back. */
    bool (*holds_back)(const weft_pool *pool);
    /* Asks every thread that holds back work that the filter accepts to offer some. `firmly`: the caller is about to sleep; all work
     * that comes from now on will be offered, and a thread woken for it. NULL: nothing to ask. */
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
/* For a wait: asks the sources in the reverse order. */
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
