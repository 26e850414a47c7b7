/* span.c: spans and regions.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   J16 span_switch: store current, x2  release  J17 a span is looked at before it is made, or one before it in the chain
 *   J49 span_next: store next           release  J50 a row goes on in a span that is not made yet
 *   J18 region_begin: fence             sc       K3, T17, J20, R21  who falls asleep asks not and is not seen
 *   J19 span_switch: light fence        light    J20 what was asked in the span left is forgotten, who sleeps not seen. survives drop:
 *                                                a barrier to the compiler alone; where J20 is a full fence every fork looks
 */
#include "patterns/span.h"

#include <string.h>

/* NULL: no memory. */
static struct fork_span *span_make(struct weft_worker *seat, uint64_t base) {
    char *memory = store_get(&seat->pool->store, 2 * (size_t)WEFT_FORK_SPAN);
    if (memory == NULL) return NULL;
    struct fork_span *span = (struct fork_span *)round_up((uintptr_t)memory, WEFT_FORK_SPAN);
    plain_write(&span->base, sizeof span->base);
    span->seat = seat;
    span->base = base;
    store_rlx(&span_last(span)->state, STATE_GUARD);
    return span;
}

static struct fork_span *span_next(struct fork_span *span) {
    struct fork_span *next = load_rlx(&span->next);
    if (next != NULL) return next;
    next = span_make(span->seat, span->base + SPAN_PLACES);
    if (next != NULL) store_rel(J49, &span->next, next);
    return next;
}

static struct fork_span *first_span(struct weft_worker *seat) {
    struct fork_span *span = load_rlx(&forks_of(seat)->first);
    if (span != NULL) return span;
    seat->forker.slow = fork_slow;
    span = span_make(seat, 0);
    if (span != NULL) store_rlx(&forks_of(seat)->first, span);
    return span;
}

/* The thread goes on forking in another span, or nowhere: who has asked it before has asked it still, and who has fallen
 * asleep for what is forked there, and not for what was before, asks now. */
static void span_switch(struct fork_span *from, struct fork_span *to) {
    store_rel(J16, &forks_of(from->seat)->current, to);
    os_fence_light(J19);
    if (to == NULL || span_is_asked(to)) return;
    if (span_is_asked(from) || park_glance(&from->seat->pool->park) != 0) store_rlx(&to->limit, NULL);
}

struct fork_span *region_span(struct weft_worker *seat) {
    struct fork_span *current = load_rlx(&forks_of(seat)->current);
    return current == NULL ? first_span(seat) : span_next(current);
}

weft_place *region_begin(struct fork_span *span, uint64_t id, uint32_t index) {
    struct forks *forks = forks_of(span->seat);
    span->outer = load_rlx(&forks->current);
    span->refused = 0;
    span->is_guest = false;
    store_rlx(&span->id, id);
    store_rlx(&span->index, index);
    store_rlx(&span->in_loop, span->seat->in_loop);
    span_rest(span);
    store_rel(J16, &forks->current, span);
    fence_sc(J18);
    if (park_glance(&span->seat->pool->park) != 0 && !span_is_asked(span)) store_rlx(&span->limit, NULL);
    return place_ready(span_place(span, SPAN_FIRST));
}

void region_end(struct fork_span *span) {
    ASSERT(load_rlx(&forks_of(span->seat)->current) == span);
    span_switch(span, span->outer);
}

weft_place *span_leave(struct fork_span *span) {
    struct fork_span *next = span->refused > 0 ? NULL : span_next(span);
    if (next == NULL) {
        span->refused++;
        store_rlx(&span_last(span)->fn, NULL);
        return span_last(span);
    }
    next->refused = 0;
    store_rlx(&next->id, load_rlx(&span->id));
    store_rlx(&next->index, load_rlx(&span->index));
    store_rlx(&next->in_loop, load_rlx(&span->in_loop));
    span_rest(next);
    span_switch(span, next);
    return span_place(next, SPAN_FIRST);
}

void span_return(struct fork_span *span, const void *argument, size_t size) {
    if (span->refused > 0) {
        ASSERT(argument != NULL); /* no detached call is noted here */
        span->refused--;
        memcpy(span_last(span)->payload, argument, size);
        return;
    }
    span_rest(span);
    span_switch(load_rlx(&span->next), span);
}
