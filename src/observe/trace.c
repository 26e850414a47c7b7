/* trace.c: the ring of a thread's events. It has one writer; any thread may read it meanwhile.
 *
 * Writer                                     Reader of event n
 *   1. the words of event n + events (Q1)      1. count > n (Q4)
 *   2. count = n + events + 1 (Q2)             2. the words (Q3)
 *                                              3. count again: below n + events? Then they are event n's
 *
 * A reader that has seen a word of event n + events (Q1, Q3) also sees what the writer did before: count = n + events. So
 * step 3 rejects whatever may be mixed. It also rejects the event that the writer is about to replace, because it cannot
 * tell the two cases apart.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   Q1  trace_add: store word, x4  release  Q3  an event is read that is half another event's
 *   Q2  trace_add: store count     release  Q4  an event is read before it is written
 *   Q3  trace_read: load word      acquire  Q1  see Q1
 *   Q4  trace_count: load count    acquire  Q2  see Q2
 */
#include "observe/state.h"

/* ---- the ring ----------------------------------------------------------------------------------------------------- */

uint64_t trace_count(const struct trace_ring *ring) { return load_acq(Q4, &ring->count); }

bool trace_read(const struct trace_ring *ring, uint64_t number, struct trace_event *event) {
    const struct trace_slot *slot = &ring->slot[number & (ring->events - 1)];
    uint64_t words[TRACE_WORDS];
    for (unsigned i = 0; i < TRACE_WORDS; i++) words[i] = load_acq(Q3, &slot->word[i]);
    *event = (struct trace_event){.start = words[0],
                                  .end = words[1],
                                  .what = words[2],
                                  .kind = (enum trace_kind)(words[3] & ((1u << TRACE_KIND_BITS) - 1)),
                                  .detail = (uint32_t)(words[3] >> TRACE_KIND_BITS) & ((1u << TRACE_DETAIL_BITS) - 1),
                                  .place = words[3] >> (TRACE_KIND_BITS + TRACE_DETAIL_BITS)};
    return load_rlx(&ring->count) < number + ring->events;
}

/* ---- on and off --------------------------------------------------------------------------------------------------- */

int weft_trace_start(weft_pool *pool) {
    if (pool == NULL) return WEFT_EINVAL;
    if (pool->fork_count != os_fork_count()) return WEFT_EFORK;
    os_lock(&observe_of_pool(pool)->trace.lock);
    store_rlx(&observe_of_pool(pool)->trace.recording, load_rlx(&observe_of_pool(pool)->trace.recording) + 1);
    uint64_t ns;
    store_rlx(&observe_of_pool(pool)->trace.since, observe_clocks(&ns));
    store_rlx(&observe_of_pool(pool)->trace.since_ns, ns);
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
