/* trace.c: a ring of events with one writer, read by anybody while it is written.
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
#include "trace.h"

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
