/* park.h: which workers sleep, which look for work, which to wake. Layer 3. The protocol is in park.c.
 *
 * A worker is busy, a searcher (awake and looking, or on its way after a wake), polling (asleep for a bounded time, at most
 * one of the pool's first PARK_BITS workers) or parked. */
#ifndef WEFT_PARK_H
#define WEFT_PARK_H

#include "queue/store.h"

#ifndef PARK_BITS
#define PARK_BITS 48u /* workers in one word */
#endif
#define PARK_WORDS_MAX 22u /* enough for WEFT_WORKERS_MAX workers and as many spares */

/* A word: bit i (0..47): worker i of this word is parked. The bit of a parked worker may be missing for a moment (the worker
 *   looks once more); the bit of an awake worker must not be set, because a wake would be lost on it.
 * PARK_POLL: one of these workers polls; its bit number stands at PARK_POLLER_SHIFT. Only in word 0: a glance reads all
 *   words as one, and a lane has room for what one poller saw (head_seen).
 * PARK_SEARCHER: the top byte counts the searchers among these workers. It must not count one that will not look at every
 *   lane after its leaving is visible. */
#define PARK_MASK ((UINT64_C(1) << PARK_BITS) - 1)
#define PARK_POLL (UINT64_C(1) << 48)
#define PARK_POLLER_SHIFT 49
#define PARK_POLLER_MASK (UINT64_C(0x3f) << PARK_POLLER_SHIFT)
#define PARK_SEARCHER (UINT64_C(1) << 56)

struct park_word {
    ALIGNED(CACHE_LINE) ATOMIC(uint64_t) word;
    ATOMIC(uint32_t) helpers; /* of word 0: threads asleep in a wait that could help; counted by wait.c, join.c and loop.c */
};

struct park_slot {
    ALIGNED(CACHE_LINE) os_word event; /* counts wakes sent to this worker */
    ATOMIC(uint32_t) sent_from;        /* the CPU that the last one came from; a hint */
    ATOMIC(uint64_t) sent_ticks;       /* when the last one was sent; a hint */
    ATOMIC(uint64_t) expected_ns;      /* the moment to be awake at that it was told (CLOCK_MONOTONIC); 0: none */
};

struct park {
    uint32_t workers;            /* slots */
    ATOMIC(uint64_t) send_ticks; /* roughly what a wake costs the waker; a hint */
    uint32_t words;
    ATOMIC(uint64_t) all; /* word 0's bits that belong to workers (park_limit) */
    struct park_slot *slots;
    struct park_word word[PARK_WORDS_MAX];
};

/* What a submitter needs to know. */
struct park_view {
    uint32_t parked;
    uint32_t searchers;
    uint32_t polling; /* 0 or 1 */
};

/* All workers count as busy at first. false: no memory. */
bool park_init(struct park *park, struct store *store, uint32_t workers);

/* The pool has `workers` workers, at least one; the other slots are spares', or were not started. */
INLINE void park_limit(struct park *park, uint32_t workers) {
    store_rlx(&park->all, PARK_MASK >> (PARK_BITS - min_u64(workers, PARK_BITS)));
}

/* What a submitter reads after its full fence: the word of a pool of up to PARK_BITS workers; 0: all are busy, and no
 * waiting thread could help. In larger pools only zero or nonzero has a meaning. */
INLINE uint64_t park_glance(const struct park *park) {
    uint64_t word = load_rlx(&park->word[0].word) | load_rlx(&park->word[0].helpers);
    for (uint32_t i = 1; UNLIKELY(i < park->words); i++) word |= load_rlx(&park->word[i].word);
    return word;
}
/* From a glance: might somebody sleep? A searcher looks at every lane again before it sleeps. */
INLINE bool park_has_sleeper(uint64_t word) { return (word & (PARK_SEARCHER - 1)) != 0; }
/* From a glance: does a worker look soon enough for tiny tasks? A searcher does; so does the poller while another worker
 * runs. */
INLINE bool park_has_guard(const struct park *park, uint64_t word) {
    if (word >= PARK_SEARCHER) return true;
    uint64_t poller = UINT64_C(1) << ((word & PARK_POLLER_MASK) >> PARK_POLLER_SHIFT);
    return (word & PARK_POLL) != 0 && (~(word | poller) & load_rlx(&park->all)) != 0; /* a spare's bit says nothing */
}
struct park_view park_look(const struct park *park);

/* Busy -> searcher, unless there is one already. */
bool park_searcher(struct park *park, uint32_t worker);
/* Searcher -> busy. Ends with a full fence. The caller must then look for work for which nobody was woken. */
void park_unscout(struct park *park, uint32_t worker);

/* Searcher or busy -> parked. Ends with a full fence; the caller looks at everything once more, then retracts or sleeps. */
void park_announce(struct park *park, uint32_t worker, bool is_searcher);
/* The worker's own thread: has nobody woken it since? */
INLINE bool park_is_parked(const struct park *park, uint32_t worker) {
    return (load_rlx(&park->word[worker / PARK_BITS].word) & UINT64_C(1) << worker % PARK_BITS) != 0;
}
/* Parked -> searcher by the worker itself, if no waker has done it already. */
void park_retract(struct park *park, uint32_t worker);

/* Sleeps until woken: the caller is then a searcher. Or until the deadline (CLOCK_MONOTONIC ns; 0: none), or until it is
 * told another moment than `told_ns`: the caller is then still parked. */
enum park_end { PARK_WOKEN, PARK_TIMEDOUT, PARK_TOLD };
enum park_end park_sleep(struct park *park, uint32_t worker, uint64_t deadline_ns, uint64_t told_ns);

/* Tells a worker to wake itself in time for that moment; 0: no longer. Any thread. */
void park_expect(struct park *park, uint32_t worker, uint64_t when_ns);
/* What a worker was told last; 0: nothing. */
INLINE uint64_t park_told(const struct park *park, uint32_t worker) { return load_rlx(&park->slots[worker].expected_ns); }

/* Searcher or busy -> polling, unless another polls or the worker is not in word 0. Ends with a full fence. */
bool park_poll_announce(struct park *park, uint32_t worker, bool is_searcher);
/* Sleeps until woken (true: the caller is then a searcher) or until the deadline (false: it still polls). */
bool park_poll(struct park *park, uint32_t worker, uint64_t deadline_ns);
/* Polling -> searcher, if no waker has made it one already: others rely on the poller to look, so it leaves as a
 * searcher. */
void park_poll_end(struct park *park, uint32_t worker);

/* Wakes one parked worker, or else the poller, and makes it a searcher. false: there is neither. Any thread. */
bool park_wake(struct park *park);
/* Wakes `worker` if it is parked or polls. */
void park_wake_worker(struct park *park, uint32_t worker);

#endif
