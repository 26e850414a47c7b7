/* park.c: sleeping and waking of a pool's workers, without a lost wake-up and without a herd.
 *
 * One searcher wakes the next (a scheme of R. Cox and others, the Go scheduler, and of rayon-core's sleep module). Here it
 * uses one word: parked bits, polling mark and count of searchers change together, so nobody sees one without the others.
 *
 * Submitter                                   Worker that finds nothing
 *   1. publishes a task (L6)                    1. announces: searcher - 1 and parked + 1 in one change
 *   2. full fence (in task.c)                   2. full fence (K3)
 *   3. reads the words:                         3. looks at every lane and claim again; work: retracts (K4)
 *      all busy: done. A searcher: done.        4. sleeps while its bit is set (K6)
 *      else wakes one: parked bit off,
 *      searcher + 1 in one change (K5),
 *      then event + 1 (K8), futex wake
 *
 * No wake-up is lost. Because of the two fences, either the submitter's step 3 sees the worker's announcement, or the
 * worker's step 3 sees the task. (a) The submitter saw the worker parked: it wakes that worker or another. (b) The submitter
 * saw a searcher: that searcher leaves later, by a change of the word with a full fence after it (K3, K10), and then looks
 * again. (c) All workers were busy: each of them announces later, and then looks again. A worker that ends its sleep by
 * itself is a searcher again, because another thread may have relied on it. A woken worker counts as a searcher from before
 * its wake-up on, so several submitters wake one worker, not many.
 *
 * The wake itself: the sleeper reads event, then its bit, and then sleeps while event is unchanged. The waker clears the bit
 * and then changes event. In every interleaving, the sleeper sees the bit cleared or event changed.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   K3  park_announce: fence                       sc       the submitter's fence  lost wake-up: the worker misses the task, the submitter the bit
 *   K4  park_retract: CAS word                     relaxed  K5  split: a worker counts as awake and as parked
 *   K5  park_take: CAS word                        relaxed  K4  split: two wakers wake the same worker
 *   K6  park_sleep: load event                     acquire  K8  event is new and the bit old: it sleeps on the new event forever
 *   K8  park_send: event + 1                       release  K6  see K6; split: a wake overwritten by another
 *   K10 park_unscout: fence                        sc       the submitter's fence  the task published before is not seen, and nobody is woken
 *   K11 park_poll_announce: CAS word               relaxed  K5  split: two workers poll
 *   K12 park_poll_announce: fence                  sc       the submitter's fence  see K3, for as long as it polls
 *   K13 park_poll: load event                      acquire  K8  as K6
 *   K14 park_poll_end: CAS word                    relaxed  K5  as K4
 *   K15 park_searcher: CAS word                    relaxed  K5  split: a bit or a searcher is lost
 *   K16 park_expect: event + 1                     release  K6   a worker sleeps on the new event with the old moment; split: as K8
 */
#include "queue/park.h"

static struct park_word *park_word_of(struct park *park, uint32_t worker) { return &park->word[worker / PARK_BITS]; }

static uint64_t park_bit_of(uint32_t worker) { return UINT64_C(1) << worker % PARK_BITS; }

INLINE uint32_t searchers_of(uint64_t word) { return (uint32_t)(word >> 56); }

bool park_init(struct park *park, struct store *store, uint32_t workers) {
    park->workers = workers;
    park->words = (workers + PARK_BITS - 1) / PARK_BITS;
    ASSERT(park->words <= PARK_WORDS_MAX);
    park->slots = store_get(store, workers * sizeof *park->slots);
    return park->slots != NULL;
}

struct park_view park_look(const struct park *park) {
    struct park_view view = {0, 0, 0};
    for (uint32_t i = 0; i < park->words; i++) {
        uint64_t word = load_rlx(&park->word[i].word);
        view.parked += bits_set(word & PARK_MASK);
        view.searchers += searchers_of(word);
        view.polling += (word & PARK_POLL) != 0;
    }
    return view;
}

bool park_searcher(struct park *park, uint32_t worker) {
    if (park_look(park).searchers > 0) return false;
    struct park_word *own = park_word_of(park, worker);
    uint64_t word = load_rlx(&own->word);
    while (searchers_of(word) == 0)
        if (cas_rlx(K15, &own->word, &word, word + PARK_SEARCHER)) return true;
    return false;
}

void park_unscout(struct park *park, uint32_t worker) {
    add_rlx(&park_word_of(park, worker)->word, -PARK_SEARCHER);
    fence_rmw_sc(K10);
}

void park_announce(struct park *park, uint32_t worker, bool is_searcher) {
    add_rlx(&park_word_of(park, worker)->word, park_bit_of(worker) - (is_searcher ? PARK_SEARCHER : 0));
    fence_rmw_sc(K3);
}

void park_retract(struct park *park, uint32_t worker) {
    struct park_word *own = park_word_of(park, worker);
    uint64_t word = load_rlx(&own->word);
    while (word & park_bit_of(worker))
        if (cas_rlx(K4, &own->word, &word, (word & ~park_bit_of(worker)) + PARK_SEARCHER)) return;
}

enum park_end park_sleep(struct park *park, uint32_t worker, uint64_t deadline_ns, uint64_t told_ns) {
    os_word *event = &park->slots[worker].event;
    for (;;) {
        uint32_t seen = load_acq(K6, event);
        if ((load_rlx(&park_word_of(park, worker)->word) & park_bit_of(worker)) == 0) return PARK_WOKEN;
        if (park_told(park, worker) != told_ns) return PARK_TOLD;
        if (os_wait(event, seen, deadline_ns) == OS_TIMEDOUT) return PARK_TIMEDOUT;
    }
}

void park_expect(struct park *park, uint32_t worker, uint64_t when_ns) {
    struct park_slot *slot = &park->slots[worker];
    store_rlx(&slot->expected_ns, when_ns);
    add_rel(K16, &slot->event, 1);
    os_wake(&slot->event, 1);
}

/* ---- polling ------------------------------------------------------------------------------------------------------- */

static uint64_t poller_mark(uint32_t worker) { return PARK_POLL | (uint64_t)(worker % PARK_BITS) << PARK_POLLER_SHIFT; }

static bool is_poller(uint64_t word, uint32_t worker) {
    return (word & (PARK_POLL | PARK_POLLER_MASK)) == poller_mark(worker);
}

bool park_poll_announce(struct park *park, uint32_t worker, bool is_searcher) {
    if (worker >= PARK_BITS) return false;
    struct park_word *own = &park->word[0];
    uint64_t word = load_rlx(&own->word);
    do {
        if (word & PARK_POLL) return false;
    } while (!cas_rlx(K11, &own->word, &word, (word - (is_searcher ? PARK_SEARCHER : 0)) | poller_mark(worker)));
    fence_rmw_sc(K12);
    return true;
}

bool park_poll(struct park *park, uint32_t worker, uint64_t deadline_ns) {
    os_word *event = &park->slots[worker].event;
    for (;;) {
        uint32_t seen = load_acq(K13, event);
        if (!is_poller(load_rlx(&park_word_of(park, worker)->word), worker)) return true;
        if (os_wait(event, seen, deadline_ns) == OS_TIMEDOUT) return false;
    }
}

void park_poll_end(struct park *park, uint32_t worker) {
    struct park_word *own = park_word_of(park, worker);
    uint64_t word = load_rlx(&own->word);
    while (is_poller(word, worker))
        if (cas_rlx(K14, &own->word, &word, (word & ~(PARK_POLL | PARK_POLLER_MASK)) + PARK_SEARCHER)) return;
}

/* ---- waking ------------------------------------------------------------------------------------------------------- */

static void park_send(struct park *park, uint32_t worker) {
    store_rlx(&park->slots[worker].sent_from, os_cpu());
    uint64_t start = os_ticks();
    store_rlx(&park->slots[worker].sent_ticks, start);
    add_rel(K8, &park->slots[worker].event, 1);
    os_wake(&park->slots[worker].event, 1);
    uint64_t known = load_rlx(&park->send_ticks);
    uint64_t took = os_ticks() - start;
    store_rlx(&park->send_ticks, known == 0 ? took : known - known / 8 + min_u64(took, known * 8) / 8);
}

#define PARK_ANY UINT32_MAX
/* Makes a parked worker of the word, or else its poller, a searcher. UINT32_MAX: there is none. Takes the lowest one, so
 * that the same few workers stay warm; `only`: takes none but the one of that bit. */
static uint32_t park_take(struct park_word *own, uint32_t only) {
    uint64_t word = load_rlx(&own->word);
    for (;;) {
        uint32_t bit;
        uint64_t left;
        uint64_t parked = word & (only == PARK_ANY ? PARK_MASK : UINT64_C(1) << only);
        if (parked != 0) {
            bit = (uint32_t)__builtin_ctzll(parked);
            left = word & ~(UINT64_C(1) << bit);
        } else if ((word & PARK_POLL) != 0) {
            bit = (uint32_t)((word & PARK_POLLER_MASK) >> PARK_POLLER_SHIFT);
            left = word & ~(PARK_POLL | PARK_POLLER_MASK);
            if (only != PARK_ANY && bit != only) return UINT32_MAX;
        } else {
            return UINT32_MAX;
        }
        if (cas_rlx(K5, &own->word, &word, left + PARK_SEARCHER)) return bit;
    }
}

bool park_wake(struct park *park) {
    for (uint32_t i = 0; i < park->words; i++) {
        uint32_t bit = park_take(&park->word[i], PARK_ANY);
        if (bit == UINT32_MAX) continue;
        park_send(park, i * PARK_BITS + bit);
        return true;
    }
    return false;
}

void park_wake_worker(struct park *park, uint32_t worker) {
    if (park_take(park_word_of(park, worker), worker % PARK_BITS) != UINT32_MAX) park_send(park, worker);
}
