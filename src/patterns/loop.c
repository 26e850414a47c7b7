/* loop.c: a range of indices, run by the caller and by helpers.
 *
 * A range is cut into units of the caller's grain. Each thread that runs the loop has a subrange, a word with the units left
 * to it. The thread takes units from the front of its subrange; when that is empty, it takes the upper half of another
 * subrange. Each step is one CAS (the scheme of the ranges in A. Robison, M. Voss, A. Kukanov, "Optimization via reflection
 * on work stealing in TBB", IPDPS 2008, doi:10.1109/IPDPS.2008.4536188, in one word). Chunks get smaller towards the end.
 *
 * None of this happens in a loop that is over before a helper could come: a seat remembers how long a unit took in the
 * bodies that it ran lately. Any other loop of more than one unit opens its entry once the caller's first chunk is cut off,
 * so that awake threads can come in; one sleeper is woken if the rest is worth it. A body that is not known yet counts as
 * long.
 *
 * A helper inside holds the number of its subrange. If no number is left, its subrange lies outside the loop, on its stack.
 * A helper that leaves before the loop is over leaves its subrange as it is: the next holder of the number gets it, or other
 * threads take halves of it.
 *
 * The entry: while it is open, helpers come in and count themselves. The caller shuts it and waits until all have left.
 * Loops keep their type until the pool ends, so a thread that comes too late finds a shut entry, or that of another loop.
 *
 * A caller that waits for its helpers helps with loops and forked calls inside their bodies: a loop or region knows the loop
 * in whose body it began, which cannot end before it; the region of a taken call knows the loop around the call's fork.
 * Waits help with loops of their group, and joins with loops that the call they wait for has called (fork.c). Sleeping ones
 * are told of such loops and calls if no other thread is free. A thread asks where a loop belongs after it has seen the
 * loop's entry open (R20), and enters if the entry is unchanged (R7): from then on, the loop is not over before that thread
 * leaves.
 *
 * The error of the lowest failed chunk is kept. Units above it are dropped, units below it run. If the group is cancelled,
 * the lowest unit that has not begun counts as failed with WEFT_ECANCELED.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   R1  loop_as_guest: light fence    light    P4  a caller from outside uses a pool that destroy has found empty
 *   R2  subrange_take: CAS range      relaxed  R4  split: a unit runs twice
 *   R4  subrange_steal: CAS range     relaxed  R2  see R2
 *   R5  loop_open: store entry        release  R20 a helper sees the loop before
 *   R7  loop_enter: CAS entry         relaxed  R8  split: a helper is not counted
 *   R8  loop_shut: and entry          acquire  R9  what helpers wrote is not seen; split: a helper comes in unseen
 *   R9  loop_help: entry - 1          release  R8  see R8; split: the caller waits forever
 *   R10 loop_open: fence              sc       K3, T17, J20, R21  a thread that could help sleeps and does not see the loop
 *   R11 loop_of: store loops          release  R12 a loop is read before it is made
 *   R12 loop_first: load loops        acquire  R11 see R11
 *   R14 loop_shut: load entry         acquire  R9  see R8
 *   R15 loop_shut: load wait_event    acquire  R16 the caller sleeps on the new event
 *   R16 loop_help: event + 1          release  R15 see R15
 *   R20 loop_find: load entry         acquire  R5  the loop's body, its group and the loop above may be those of an earlier
 *                                                   use
 *   R21 loop_rest: fence              sc       R10, J15, J18  the caller sleeps beside a loop or a call that needs it
 *   R22 loop_rest: looks              -        R10 see R21
 *   R23 number_take: CAS taken        acquire  R24 the subrange seems empty, and what is left of it is lost; split: two helpers have it
 *   R24 number_give: taken - bit      release  R23 see R23; split: a number stays taken, or two helpers have it
 *   R18 loop_of: store next           release  R19 as R11
 *   R19 loop_next: load next          acquire  R18 see R18
 */
#include "patterns/cost.h"
#include "patterns/fork.h"

#define PARTS_MAX 64u /* a bit for each */
#define UNITS_MAX ((size_t)1 << 30)
#define CHUNKS_MOST 65536u /* about: the time of an index, learned from few, may be wrong by far */
#define ALONE_FIRST 8u     /* units: the first step of loop_alone */
#define CHUNK_PART 3u      /* a thread takes one part in CHUNK_PART of its subrange at once */
#define FIRST_PART 16u     /* the caller's first chunk, one part of the loop in FIRST_PART: helpers take half of the rest */
#define CHUNK_NS 50000u    /* a chunk that takes longer is cut, so that cancelling is seen */
#define NEST_MAX 4096u     /* how many loops inside loops are followed: links of loops that have ended may form a circle */
#define FEW_MAX 8u         /* so few units (and at most workers + 1) may each be for another thread: loop_is_few */

struct subrange {
    ATOMIC(uint64_t) range; /* units left: from | to << 32 */
    char apart[LINES_APART - sizeof(uint64_t)];
};

/* entry: count of changes (32 bits) | highest number of a helper's subrange, so far (14) | SLEEPS | OPEN | helpers inside
 * (16) */
#define ENTRY_INSIDE UINT64_C(0xffff)
#define ENTRY_OPEN UINT64_C(0x10000)
#define ENTRY_SLEEPS UINT64_C(0x20000) /* the caller */
#define ENTRY_PART UINT64_C(0x40000)
#define ENTRY_PARTS UINT64_C(0x3fff)
#define ENTRY_COUNT (UINT64_C(1) << 32)

/* A helper on its way in loads, one after another, cache lines that the caller has just written; a searcher reads the first
 * one again and again. So before the entry opens, the caller writes only fields that have changed (keep). */
struct loop {
    ATOMIC(uint64_t) entry;
    ATOMIC(uint64_t) taken;     /* a bit for each number that some helper has */
    ATOMIC(struct loop *) next; /* of the same seat, for loops called inside this one */
    ATOMIC(uint32_t) below;     /* in the seat's first loop: how many after it other threads need look at */
    uint32_t subranges;         /* the number of subranges */
    struct weft_worker *seat;
    struct loop *around; /* of the same seat, for loops around this one; or NULL */
    uint32_t depth;      /* the number of loops around */
    uint32_t was_below;  /* only the caller's: `below` before this loop */
    /* written by the caller before the entry opens */
    ALIGNED(CACHE_LINE) weft_range_fn body;
    void *context;
    size_t begin, count; /* indices */
    size_t unit;         /* indices in one unit */
    uint32_t units;
    uint32_t chunk_max;          /* units; 0: a unit's time is not known, or none: chunks begin with one unit */
    uintptr_t function;          /* the user's */
    uint64_t id;                 /* the group's */
    struct frame *frame;         /* the caller's */
    const struct record *record; /* or NULL */
    ATOMIC(uint32_t) index;      /* record of the group of the task that called */
    /* any participant */
    ATOMIC(uint32_t) failed_at;  /* units from here on are dropped */
    ATOMIC(int) error;           /* of the chunk that begins there */
    os_mutex lock;               /* of failed_at and error */
    ATOMIC(struct loop *) above; /* the loop in whose body this one was called, or NULL */
    ATOMIC(uint64_t) position;   /* fork_position of the caller when the entry opened */
    /* only the caller's */
    ALIGNED(CACHE_LINE) uint64_t owes_since; /* ticks: since when nobody was woken because the loop seemed short; else 0 */
    uint64_t key;                            /* the loop's kind (cost.h) */
    uint64_t alone_read;                     /* ticks: when loop_alone last read the clock */
    struct loop_cost *alone_cost;            /* and for which kind */
    ALIGNED(CACHE_LINE) struct subrange subrange[];
};

static struct loop *loop_first(const struct weft_worker *seat) { return load_acq(R12, &patterns_of(seat)->loops); }
static struct loop *loop_next(const struct loop *loop, uint32_t *left) {
    return (*left)-- == 0 ? NULL : load_acq(R19, &loop->next);
}
/* How many loops after `first`, the seat's first, may be open. */
static uint32_t loops_below(const struct loop *first) { return first == NULL ? 0 : load_rlx(&first->below); }

/* How many subranges may have units left: the caller's and those of helpers, inside or gone. */
INLINE uint32_t entry_subranges(uint64_t entry) { return (uint32_t)(entry / ENTRY_PART & ENTRY_PARTS) + 1; }
/* The entry after a helper has come in. */
INLINE uint64_t entry_after(const struct loop *loop, uint64_t entry, uint32_t number) {
    bool is_known = number == loop->subranges || number < entry_subranges(entry);
    return (is_known ? entry : (entry & ~(ENTRY_PARTS * ENTRY_PART)) + number * ENTRY_PART) + 1;
}
/* Store a value only if it changes, and so leave the cache line alone otherwise. No other thread may write the field
 * meanwhile. */
#define keep(field, v)                                                                                                      \
    do {                                                                                                                    \
        if ((field) != (v)) (field) = (v);                                                                                  \
    } while (0)
#define keep_rlx(a, v)                                                                                                      \
    do {                                                                                                                    \
        if (load_rlx(a) != (v)) store_rlx(a, v);                                                                            \
    } while (0)

INLINE uint64_t range_make(uint64_t from, uint64_t to) { return from | to << 32; }
INLINE uint32_t range_from(uint64_t range) { return (uint32_t)range; }
INLINE uint32_t range_to(uint64_t range) { return (uint32_t)(range >> 32); }
INLINE uint32_t range_left(uint64_t range) {
    return range_to(range) > range_from(range) ? range_to(range) - range_from(range) : 0;
}

/* ---- running ------------------------------------------------------------------------------------------------------ */

static void loop_fail(struct loop *loop, uint32_t from, int error) {
    os_lock(&loop->lock);
    if (from < load_rlx(&loop->failed_at)) {
        store_rlx(&loop->failed_at, from);
        store_rlx(&loop->error, error);
    }
    os_unlock(&loop->lock);
}

static bool loop_is_cancelled(const struct loop *loop) {
    return loop->record != NULL && (load_rlx(&loop->record->id) & ID_CANCELLED) != 0;
}

static void loop_call(struct loop *loop, struct weft_worker *seat, uint32_t from, uint32_t to) {
    size_t begin = loop->begin + from * loop->unit;
    size_t end = to == loop->units ? loop->begin + loop->count : loop->begin + to * loop->unit;
    int error = loop->body(begin, end, loop->context, seat);
    if (UNLIKELY(error != 0)) loop_fail(loop, from, error);
}

/* Takes a chunk from the front of the subrange. false: nothing is left that may run. */
static bool subrange_take(struct loop *loop, struct subrange *subrange, uint64_t most, uint32_t *from, uint32_t *to) {
    uint64_t range = load_rlx(&subrange->range);
    for (;;) {
        uint32_t left = range_left(range);
        *from = range_from(range);
        if (left == 0 || *from >= load_rlx(&loop->failed_at)) return false;
        if (UNLIKELY(loop_is_cancelled(loop))) {
            loop_fail(loop, *from, WEFT_ECANCELED); /* unstarted units below do not run either, and fail likewise */
            return false;
        }
        *to = *from + (uint32_t)max_u64(min_u64(left / CHUNK_PART, most), 1);
        if (cas_rlx(R2, &subrange->range, &range, range_make(*to, range_to(range)))) return true;
    }
}

/* Moves the upper half of the fullest other subrange to this one. false: the others are empty. */
static bool subrange_steal(struct loop *loop, struct subrange *subrange) {
    for (;;) {
        struct subrange *fullest = NULL;
        uint64_t most = 0;
        uint32_t subranges = entry_subranges(load_rlx(&loop->entry));
        for (uint32_t i = 0; i < subranges; i++) {
            uint64_t range = load_rlx(&loop->subrange[i].range);
            if (&loop->subrange[i] == subrange || range_left(range) <= range_left(most)) continue;
            if (range_from(range) >= load_rlx(&loop->failed_at)) continue;
            fullest = &loop->subrange[i];
            most = range;
        }
        if (fullest == NULL) return false;
        uint32_t middle = range_from(most) + range_left(most) / 2;
        if (!cas_rlx(R4, &fullest->range, &most, range_make(range_from(most), middle))) continue;
        store_rlx(&subrange->range, range_make(middle, range_to(most)));
        return true;
    }
}

static bool is_past(uint64_t until_ns) { return UNLIKELY(until_ns != 0) && os_now_ns() >= until_ns; }

static void loop_wake(struct loop *loop) {
    struct weft_worker *seat = loop->seat;
    struct park_view view = park_look(&seat->pool->park);
    if (view.parked > 0 || view.polling) {
        worker_wake(seat);
    } else {
        bool is_below = forks_of(seat)->running != NULL || load_rlx(&loop->above) != NULL;
        if (is_below) fork_wake_joins(seat->pool); /* other loops lie below no call that a join waits for */
        worker_wake_helpers(seat->pool, load_rlx(&loop->above) == NULL ? loop->id : 0);
    }
}

/* The caller, after a chunk: wakes a sleeper if a loop that seemed too short for a wake has become worth one. */
static NOINLINE void loop_pay(struct loop *loop) {
    if (os_ticks() - loop->owes_since < cost_long_ticks(loop->seat->pool)) return;
    loop->owes_since = 0;
    loop_wake(loop);
}

/* Runs chunks while there are any, and returns the number of units run. After `until_ns`, the rest stays in the subrange
 * (which is then one of the loop's) for other threads, in the end the caller. */
static uint64_t loop_share(struct loop *loop, struct weft_worker *seat, struct subrange *subrange, uint64_t until_ns) {
    uint32_t from;
    uint32_t to;
    uint64_t units = 0;
    bool owes = seat == loop->seat && loop->owes_since != 0;
    uint64_t limit = loop->chunk_max == 0 ? UINT32_MAX : loop->chunk_max;
    uint64_t most = loop->chunk_max == 0 || owes ? 1 : limit;
    do {
        while (subrange_take(loop, subrange, most, &from, &to)) {
            most = min_u64(most * 2, limit);
            loop_call(loop, seat, from, to);
            units += to - from;
            if (UNLIKELY(owes) && loop->owes_since != 0) loop_pay(loop);
            if (is_past(until_ns)) return units;
        }
    } while (!is_past(until_ns) && subrange_steal(loop, subrange));
    return units;
}

/* ---- helping ------------------------------------------------------------------------------------------------------ */

/* Is there a unit below the lowest failure that has not begun? */
static bool loop_has_left(const struct loop *loop, uint64_t entry) {
    uint32_t subranges = entry_subranges(entry);
    uint32_t failed_at = load_rlx(&loop->failed_at);
    for (uint32_t i = 0; i < subranges; i++) {
        uint64_t range = load_rlx(&loop->subrange[i].range);
        if (range_left(range) > 0 && range_from(range) < failed_at) return true;
    }
    return false;
}
static bool loop_has_more(const struct loop *loop, uint64_t entry) {
    return (entry & ENTRY_OPEN) != 0 && loop_has_left(loop, entry);
}

static bool loops_are_open(const weft_pool *pool) {
    for (struct seats all = seats_in_use(pool); seats_next(&all);) {
        const struct loop *loop = loop_first(all.seat);
        for (uint32_t left = loops_below(loop); loop != NULL; loop = loop_next(loop, &left))
            if (loop_has_more(loop, load_rlx(&loop->entry))) return true;
    }
    return false;
}

/* Takes a number, from 1 on, that no other helper has; loop->subranges: there is none. */
static uint32_t number_take(struct loop *loop) {
    uint64_t all = UINT64_MAX >> (PARTS_MAX - loop->subranges) & ~UINT64_C(1);
    uint64_t taken = load_rlx(&loop->taken);
    while ((all & ~taken) != 0) {
        uint32_t number = (uint32_t)__builtin_ctzll(all & ~taken);
        if (cas_acq(R23, &loop->taken, &taken, taken | UINT64_C(1) << number)) return number;
    }
    return loop->subranges;
}
static void number_give(struct loop *loop, uint32_t number) {
    if (number < loop->subranges) add_rel(R24, &loop->taken, -(UINT64_C(1) << number));
}

/* Enters, and returns the helper's number, or loop->subranges if none is left. 0: not entered, because the entry is no
 * longer as it was found, or because the helper `leaves` and no number is left. */
static uint32_t loop_enter(struct loop *loop, uint64_t entry, bool leaves) {
    uint64_t count = entry / ENTRY_COUNT;
    prefetch_write(&loop->subrange[0]); /* these two lines come while the helper waits for the entry's */
    uint32_t number = number_take(loop);
    if (number < loop->subranges) prefetch_write(&loop->subrange[number]);
    if (leaves && number == loop->subranges) return 0;
    while ((entry & ENTRY_OPEN) != 0 && entry / ENTRY_COUNT == count)
        if (cas_rlx(R7, &loop->entry, &entry, entry_after(loop, entry, number))) return number;
    number_give(loop, number);
    return 0;
}

uint32_t loop_find(struct weft_worker *seat, const struct loop_filter *filter, struct loop **found) {
    for (struct seats others = seats_beside(seat); seats_next(&others);) {
        struct loop *loop = loop_first(others.seat);
        for (uint32_t left = loops_below(loop); loop != NULL; loop = loop_next(loop, &left)) {
            uint64_t entry = load_acq(R20, &loop->entry);
            if (!loop_has_more(loop, entry)) continue; /* first, because the filter may have a long way up */
            if (filter != NULL && !filter->accepts(filter->context, loop)) continue;
            bool leaves = filter != NULL && filter->leaves;
            uint32_t number = loop_enter(loop, entry, leaves);
            *found = loop;
            if (number != 0) return number;
        }
    }
    return 0;
}

bool loop_is_called(const struct loop *loop, const struct weft_worker *caller, uint64_t from) {
    for (uint32_t i = 0; i < NEST_MAX && loop != NULL; i++, loop = load_rlx(&loop->above))
        if (loop->seat == caller && load_rlx(&loop->position) > from) return true;
    return false;
}

/* Was the loop called in a body of `outer`, which is not over, or in the body of a loop that was, and so on? */
static bool loop_is_inside(const void *outer, const struct loop *loop) {
    if (loop == outer) return false;
    for (uint32_t i = 0; i < NEST_MAX && loop != NULL && loop != outer; i++) loop = load_rlx(&loop->above);
    return loop == outer;
}
static bool loop_holds(const void *outer, const struct loop *loop) { return loop == outer || loop_is_inside(outer, loop); }

/* Takes a call forked in the loop's bodies, or in a call or loop inside them, or enters a loop called there. If there is
 * none, asks for such a call. */
static bool loop_find_inside(const struct loop *loop, bool force, struct fork_help *help) {
    struct weft_worker *seat = loop->seat;
    const struct fork_filter calls = {.inside = loop_holds, .context = loop};
    help->number = 0;
    if (fork_find(seat, force, &calls, &help->call)) return true;
    help->number = loop_find(seat, &(struct loop_filter){loop_is_inside, loop, false}, &help->loop);
    if (help->number == 0) forks_ask(seat->pool, &calls);
    return help->number != 0;
}

#define JOB_BYTES (offsetof(struct loop, index) - offsetof(struct loop, body))

void loop_help(struct weft_worker *seat, struct loop *loop, uint32_t number, uint64_t until_ns) {
    plain_read(&loop->body, JOB_BYTES);
    count_up(&seat->loops_helped, 1);
    struct weft_worker *caller = loop->seat;
    struct frame frame;
    frame_push(seat, &frame);
    frame_helps(seat, loop->frame, load_rlx(&loop->index));
    uint64_t start = trace_begin(seat);
    store_rlx(&seat->running, loop->function);
    seat->in_loop = loop;
    struct subrange own;
    store_rlx(&own.range, 0);
    ASSERT(number < loop->subranges || until_ns == 0);
    struct subrange *subrange = number < loop->subranges ? &loop->subrange[number] : &own;
    if (range_left(load_rlx(&subrange->range)) > 0 || subrange_steal(loop, subrange))
        loop_share(loop, seat, subrange, until_ns);
    trace_end(seat, TRACE_HELP_LOOP, start, loop->function);
    worker_flush(seat);
    frame_pop(seat);
    number_give(loop, number);
    if ((add_rel(R9, &loop->entry, UINT64_MAX) & (ENTRY_SLEEPS | ENTRY_INSIDE)) != (ENTRY_SLEEPS | 1)) return;
    add_rel(R16, &caller->wait_event, 1);
    os_wake(&caller->wait_event, INT32_MAX);
}

/* ---- as a source of work ------------------------------------------------------------------------------------------ */

static bool is_of_group(const void *context, const struct loop *loop) {
    const struct source_filter *filter = context;
    return filter->accepts(filter->context, load_rlx(&loop->index));
}
static bool source_find(struct weft_worker *seat, bool force, const struct source_filter *filter, struct source_work *work) {
    struct loop *loop = NULL;
    const struct loop_filter wanted = {is_of_group, filter, filter != NULL && filter->leaves};
    (void)force;
    uint32_t number = loop_find(seat, filter == NULL ? NULL : &wanted, &loop);
    *work = (struct source_work){&loop_source, loop, number};
    return number != 0;
}
static uint32_t source_index_of(const struct source_work *work) {
    const struct loop *loop = work->item;
    return load_rlx(&loop->index);
}
static void source_help(struct weft_worker *seat, struct source_work *work, uint64_t until_ns) {
    loop_help(seat, work->item, (uint32_t)work->detail, until_ns);
}

const struct source loop_source = {
    .find = source_find, .index = source_index_of, .run = source_help, .is_open = loops_are_open};

/* ---- calling ------------------------------------------------------------------------------------------------------ */

/* The seat's loop for a call inside the loops that it now runs. NULL: no memory. */
static struct loop *loop_of(struct weft_worker *seat) {
    struct loop *around = patterns_of(seat)->loop;
    struct loop *loop = around == NULL ? load_rlx(&patterns_of(seat)->loops) : load_rlx(&around->next);
    if (loop != NULL) return loop;
    uint32_t subranges = (uint32_t)min_u64(seat->pool->workers_max + 1, PARTS_MAX); /* it may grow */
    loop = store_get(&seat->pool->store, sizeof *loop + subranges * sizeof(struct subrange));
    if (loop == NULL) return NULL;
    loop->seat = seat;
    loop->subranges = subranges;
    loop->around = around;
    loop->depth = around == NULL ? 0 : around->depth + 1;
    if (around == NULL)
        store_rel(R11, &patterns_of(seat)->loops, loop);
    else
        store_rel(R18, &around->next, loop);
    return loop;
}

/* Is it worth waking a sleeper for a loop that will take about `ticks`? Also for a short loop if such loops follow each
 * other closely: a thread awake then stays awake for the next one. */
static bool loop_is_worth_a_wake(struct weft_worker *seat, uint64_t ticks) {
    uint64_t worth = cost_long_ticks(seat->pool);
    if (ticks >= worth) return true;
    if (os_ticks() - patterns_of(seat)->loop_end > patterns_of(seat)->loop_row / 8) patterns_of(seat)->loop_row = 0;
    patterns_of(seat)->loop_row += ticks;
    if (patterns_of(seat)->loop_row < worth) return false;
    patterns_of(seat)->loop_row = 0;
    return true;
}

/* Lets helpers in, except to a background task's loop. `ticks`: about how long the loop will take. */
static void loop_open(struct loop *loop, uint64_t ticks) {
    struct weft_worker *seat = loop->seat;
    const weft_pool *pool = seat->pool;
    bool has_more = range_left(load_rlx(&loop->subrange[0].range)) > 0;
    bool is_open = has_more && !load_rlx(&seat->in_background) && priority_lets_help(pool, load_rlx(&loop->index));
    uint64_t open = is_open ? ENTRY_OPEN : 0;
    uint64_t entry = load_rlx(&loop->entry); /* as the loop before left it */
    uint32_t used = entry_subranges(entry);
    struct loop *first = load_rlx(&patterns_of(seat)->loops);
    keep(loop->owes_since, 0);
    keep(loop->was_below, load_rlx(&first->below));
    if (loop != first) store_rlx(&first->below, loop->depth);
    for (uint32_t i = 1; i < used; i++)
        if (range_left(load_rlx(&loop->subrange[i].range)) > 0) store_rlx(&loop->subrange[i].range, 0);
    keep_rlx(&loop->position, fork_position(seat));
    store_rel(R5, &loop->entry, (entry / ENTRY_COUNT + 1) * ENTRY_COUNT | open);
    fence_sc(R10);
    if (open == 0) return;
    if (park_glance(&pool->park) == 0) return;
    struct park_view view = park_look(&pool->park);
    if (view.searchers > 0) return;
    if (loop_is_worth_a_wake(seat, ticks))
        loop_wake(loop);
    else
        loop->owes_since = os_ticks();
}

/* The caller sleeps until all helpers have left. true: it has found work inside instead, as loop_find_inside does. */
static bool loop_rest(struct loop *loop, bool helps, struct fork_help *help) {
    struct weft_worker *seat = loop->seat;
    bool has_help = false;
    uint32_t event = load_acq(R15, &seat->wait_event);
    if ((or_rlx(&loop->entry, ENTRY_SLEEPS) & ENTRY_INSIDE) == 0) return false;
    store_rlx(&seat->wait_helps, helps ? WEFT_HELP_BELOW + 1 : 0);
    add_rlx(&seat->pool->park.word[0].helpers, helps);
    fence_sc(R21);
    if (helps) forks_ask_firmly(seat->pool, &(struct fork_filter){.inside = loop_holds, .context = loop});
    if (recheck(R22, helps, false)) has_help = loop_find_inside(loop, true, help);
    if (!has_help) pool_sleep(seat, event, 0);
    store_rlx(&seat->wait_helps, 0);
    add_rlx(&seat->pool->park.word[0].helpers, -(uint32_t)helps);
    return has_help;
}

/* The caller waits until all helpers that were inside at `start` (ticks) have left. */
static NOINLINE void loop_await(struct loop *loop, uint64_t entry, uint64_t start) {
    struct weft_worker *seat = loop->seat;
    bool helps = seat->is_worker || seat->pool->helps;
    struct fork_help help;
    uint64_t asked = start;
    uint32_t turn = 0;
    do {
        uint64_t now = os_ticks();
        bool force = now - asked >= seat->pool->patience_ticks;
        if (force) asked = now;
        bool has_help = helps && loop_find_inside(loop, force, &help);
        bool spins = now - start < realtime_spin_ticks(seat);
        find_take_turns(seat, &turn);
        if (!has_help && spins)
            os_pause();
        else if (!has_help)
            has_help = loop_rest(loop, helps, &help);
        if (has_help) fork_help_run(seat, &help, 0);
        entry = load_acq(R14, &loop->entry);
    } while ((entry & ENTRY_INSIDE) != 0);
    count_up(&seat->spin_ticks, min_u64(os_ticks() - start, load_rlx(&seat->pool->spin_now)));
    if ((entry & ENTRY_SLEEPS) != 0) store_rlx(&loop->entry, entry & ~ENTRY_SLEEPS);
}

/* Shuts the entry and waits until all helpers have left. `start`: ticks. */
static void loop_shut(struct loop *loop, uint64_t start) {
    uint64_t entry = and_acq(R8, &loop->entry, ~ENTRY_OPEN);
    if ((entry & ENTRY_INSIDE) != 0) loop_await(loop, entry, start);
    if (loop->depth > 0) store_rlx(&load_rlx(&patterns_of(loop->seat)->loops)->below, loop->was_below);
}

/* ---- weft_for ----------------------------------------------------------------------------------------------------- */

/* May each unit be for another thread? A caller that begins such a loop alone may keep half of it to itself, so its kind is
 * thought short only after many short ones in a row. */
static bool loop_is_few(const struct loop *loop) {
    return loop->units > 1 && loop->units <= min_u64(load_rlx(&loop->seat->pool->workers) + 1, FEW_MAX);
}

/* Runs the loop from unit `from` on, together with helpers. */
static void loop_together(struct loop *loop, uint32_t from) {
    const struct loop_cost *cost = cost_of(loop->seat, loop->key, loop->function);
    bool is_sure = !loop_is_few(loop) || cost_is_sure(cost);
    uint64_t ticks = is_sure ? cost_ticks(cost, (loop->units - from) * loop->unit) : UINT64_MAX;
    uint64_t unit_ticks = max_u64(cost_ticks(cost, loop->unit), 1);
    bool is_known = ticks != UINT64_MAX;
    uint64_t most = max_u64(CHUNK_NS * loop->seat->pool->ticks_per_us / 1000 / unit_ticks, loop->units / CHUNKS_MOST + 1);
    /* No other thread can take the first chunk: it is one unit if nobody may come, for today the body may take longer. */
    bool is_long =
        is_known && (ticks >= cost_long_ticks(loop->seat->pool) || park_look(&loop->seat->pool->park).searchers > 0);
    uint64_t first = is_long ? max_u64(min_u64((loop->units - from) / FIRST_PART, most), 1) : 1;
    uint32_t to = from + (uint32_t)first;
    keep(loop->chunk_max, is_known && cost_is_by_index(cost) ? (uint32_t)min_u64(most, UINT32_MAX) : 0);
    store_rlx(&loop->subrange[0].range, range_make(to, loop->units));
    uint64_t start = os_ticks();
    uint64_t traced = trace_begin(loop->seat);
    loop_open(loop, ticks);
    struct loop *outer = loop->seat->in_loop;
    loop->seat->in_loop = loop;
    loop_call(loop, loop->seat, from, to);
    if (UNLIKELY(loop->owes_since != 0)) loop_pay(loop);
    uint64_t units = first + loop_share(loop, loop->seat, &loop->subrange[0], 0);
    loop->seat->in_loop = outer;
    uint64_t end = os_ticks();
    cost_learn(loop->seat, loop->key, end - start, min_u64(units * loop->unit, loop->count), loop->count);
    loop_shut(loop, end);
    loop->seat->in_loop = loop;
    if (subrange_steal(loop, &loop->subrange[0]))
        loop_share(loop, loop->seat, &loop->subrange[0], 0); /* helpers may have left units behind */
    loop->seat->in_loop = outer;
    trace_end(loop->seat, TRACE_LOOP, traced, loop->function);
    end = os_ticks();
    predict_recurs(loop->seat, patterns_of(loop->seat)->loop_end, start, end);
    patterns_of(loop->seat)->loop_end = end;
}

/* Runs a loop that is over before a helper could come, if it takes as long as the last time. If the body takes longer today,
 * little is done before helpers may come: each step has eight times the units of all steps before. The last step is timed
 * only if the loop is looked at; but if the next loop alone reads the clock late, it may have been long. */
static void loop_alone(struct loop *loop, struct loop_cost *cost) {
    uint64_t short_ticks = cost_short_ticks(loop->seat->pool);
    uint64_t start = os_ticks();
    if (UNLIKELY(start - loop->alone_read >= short_ticks) && loop->alone_cost != NULL) cost_suspect(loop->alone_cost);
    bool looks = cost_looks(cost);
    uint64_t now = start;
    uint64_t from = 0;
    uint64_t to = max_u64(min_u64(loop->units / 8, ALONE_FIRST), 1);
    while (from < loop->units && now - start < short_ticks) {
        loop_call(loop, loop->seat, (uint32_t)from, (uint32_t)to);
        if (load_rlx(&loop->error) != 0) return;
        from = to, to = min_u64(from * 9, loop->units);
        if (from < loop->units || looks) now = os_ticks();
    }
    loop->alone_read = now;
    loop->alone_cost = cost;
    uint64_t ticks = now - start;
    if (ticks < short_ticks) {
        if (looks) cost_confirm(loop->seat, loop->key, ticks, loop->count);
        return;
    }
    cost_learn(loop->seat, loop->key, ticks, min_u64(from * loop->unit, loop->count), loop->count);
    if (from < loop->units) loop_together(loop, (uint32_t)from);
}

static int loop_run(struct loop *loop) {
    struct weft_worker *seat = loop->seat;
    struct loop_cost *cost = cost_of(seat, loop->key, loop->function);
    patterns_of(seat)->loop = loop;
    if (loop_is_cancelled(loop))
        store_rlx(&loop->error, WEFT_ECANCELED);
    else if (cost_is_short(cost, loop->count) && (cost_is_sure(cost) || !loop_is_few(loop)))
        loop_alone(loop, cost);
    else
        loop_together(loop, 0);
    patterns_of(seat)->loop = loop->around;
    return load_rlx(&loop->error);
}

/* Runs the loop as one call, of which no other thread knows. */
static NOINLINE int loop_without_memory(struct weft_worker *seat, const struct loop_job *job) {
    if (weft_worker_cancelled(seat)) return WEFT_ECANCELED;
    return job->body(job->range.begin, job->range.end, job->context, seat);
}

static int loop_start(struct weft_worker *seat, const struct loop_job *job) {
    size_t count = job->range.end - job->range.begin;
    if (count == 0) return WEFT_OK;
    struct loop *loop = loop_of(seat);
    if (loop == NULL) return loop_without_memory(seat, job);
    size_t grain = job->range.grain == 0 ? 1 : min_u64(job->range.grain, count);
    size_t units = (count - 1) / grain + 1;
    if (UNLIKELY(units > UNITS_MAX)) {
        grain *= (units - 1) / UNITS_MAX + 1;
        units = (count - 1) / grain + 1;
    }
    plain_write(&loop->body, JOB_BYTES);
    keep(loop->body, job->body);
    keep(loop->context, job->context);
    keep(loop->begin, job->range.begin);
    keep(loop->count, count);
    keep(loop->unit, grain);
    keep(loop->units, (uint32_t)units);
    keep(loop->function, job->function);
    keep(loop->key, cost_key(job->function, job->site));
    keep(loop->id, seat->frame->id);
    keep(loop->frame, seat->frame);
    keep(loop->record, seat->frame->record);
    keep_rlx(&loop->index, seat->frame->index);
    keep_rlx(&loop->failed_at, UINT32_MAX);
    keep_rlx(&loop->error, 0);
    keep_rlx(&loop->above, seat->in_loop);
    return loop_run(loop);
}

struct handed {
    const struct loop_job *job;
    int *result; /* the loop's result, or why it will not run */
};

static int handed_run(void *payload, weft_worker *self) {
    const struct handed *handed = payload;
    *handed->result = self == NULL ? WEFT_ESHUTDOWN : loop_start(self, handed->job);
    return WEFT_OK;
}

/* In a pool in which only its own threads may run anything, one of them calls the loop. The caller waits with just this one
 * task, so the queue's bound does not concern it. */
static int loop_hand_over(struct weft_worker *seat, const struct loop_job *job) {
    static const weft_object type = {sizeof(struct handed), handed_run, NULL};
    weft_group group = WEFT_GROUP_INIT;
    int result = WEFT_OK;
    struct handed handed = {job, &result};
    weft_pool *pool = seat->pool;
    seat->hands_over = true;
    int error = weft_submit_object(pool, &group, &type, &handed);
    seat->hands_over = false;
    (void)task_await_own(pool, &group); /* even after an error: the group may be open */
    return error != WEFT_OK ? error : result;
}

/* The caller runs in a frame, as a task would. */
INLINE int loop_in_frame(struct weft_worker *seat, const struct loop_job *job) {
    struct frame frame;
    bool counts = tokens_enter(seat->pool);
    frame_push(seat, &frame);
    int error = loop_start(seat, job);
    worker_flush(seat);
    frame_pop(seat);
    if (UNLIKELY(counts)) (void)tokens_leave();
    return error;
}

/* An outside caller counts as a guest. */
INLINE int loop_as_guest(struct weft_worker *seat, const struct loop_job *job) {
    weft_pool *pool = seat->pool;
    int error = WEFT_ESHUTDOWN;
    guest_enter(seat);
    os_fence_light(R1);
    if (!load_rlx(&pool->closed))
        error = (pool->config.flags & WEFT_POOL_NO_HELP) != 0 ? loop_hand_over(seat, job) : loop_in_frame(seat, job);
    guest_leave(seat);
    return error;
}

INLINE int loop_for_job(weft_pool *pool, const struct loop_job *job) {
    if (pool->fork_count != os_fork_count()) return WEFT_EFORK;
    int error = WEFT_OK;
    struct weft_worker *seat = seat_find(pool, &error);
    if (seat == NULL) return error;
    return seat->frame != NULL ? loop_start(seat, job) : loop_as_guest(seat, job);
}

NOINLINE int loop_for(weft_pool *pool, const struct loop_job *job) { return loop_for_job(pool, job); }

int weft_for(weft_pool *pool, weft_range range, weft_range_fn body, void *context) {
    if (pool == NULL || body == NULL || range.begin > range.end) return WEFT_EINVAL;
    return loop_for_job(
        pool, &(struct loop_job){range, body, context, (uintptr_t)body, cost_site(context, range.end - range.begin)});
}

int weft_for_site(weft_pool *pool, weft_range range, weft_range_fn body, void *context, const void *site) {
    if (pool == NULL || body == NULL || range.begin > range.end) return WEFT_EINVAL;
    return loop_for(pool, &(struct loop_job){range, body, context, (uintptr_t)body, (uintptr_t)site});
}
