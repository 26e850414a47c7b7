/* group.c: counting tasks without a shared counter, and ending a group exactly once.
 *
 * Each thread counts what it submits and what it completes in a counter of its own (F. Mattern, "Algorithms for distributed
 * termination detection", 1987, doi:10.1007/BF01782776: two sums over monotonic counters). A waiter sums completions first
 * and submissions second. If the sums are equal, every submitted task had run at the moment between them: a task's own
 * submissions are counted before its completion.
 *
 * Only counters that the group uses are summed. Before its first count for the group, a thread stores its counter's balance
 * (submitted less completed), and then sets the counter's bit in `used`. A submission that is taken back leaves the balance
 * unchanged. A task is completed after it was submitted, so a waiter that has seen the completion also sees the bit of the
 * counter that holds the submission: it reads `used` again after the completions. The shared counter's balance cannot be
 * read when a group begins, because late submitters of the group before may still count there and take that back. The closer
 * computes it from the equal sums, and the next group begins with it.
 *
 * A record has counters for the first seats. The counters of further seats lie in blocks. A record gets a block when such a
 * seat first counts there (block_make), and keeps it. A block's `used` tells which of its counters the group uses; the
 * record's `used_blocks` tells which blocks. A seat sets its bits in these two before it counts there, so a waiter reads
 * both again, too. A late submitter of the group before may set bits there for the group that the record serves now. That is
 * harmless: the counter's balance is right, and the late completions make up for the late submissions.
 *
 * Waiting: the waiter counts itself in `waiting`. Before it sleeps, it notes its seat in `sleeper`, stores in that seat what
 * it waits for, fences and sums again (wait.c). A thread that completes tasks stores its count (G1), fences (G4), and reads
 * `sleeper` and the group's continuations. If there is either, it sums for itself. Of two threads that complete at once, at
 * least one sees the other's count, and the waiter is woken.
 *
 * Closing: the record is about to serve another group, so nobody may count in it under the old id any more. A submitter
 * counts first, makes a light fence (T2 in task.c), and then checks that the id still stands; if not, it counts a
 * completion. The closer marks the id (G7). If a stranger may be submitting, the closer then makes a heavy fence (G8) and
 * sums again. A stranger is noted (G9) when it first turns to the group, and fences once (G10). The thread that opens the
 * group is noted before any other thread knows the group, and needs no fence. The group's own tasks are no strangers,
 * because they run only while it is unfinished. Tasks of groups below it are strangers: it may end before them.
 *
 * Freeing: the last thread out of `waiting` frees the record, provided that the thread that ended the group is out, too. One
 * word holds both facts (G12, G21, G22). With two words, a late thread could free the record, and another group use and end
 * it, before a slow last thread looks. A seat keeps one free record for the next group that it opens, and so need not turn
 * to the pool's pile.
 *
 * Tasks are numbered by the counts of submissions, so these never fall, not even when a submission is taken back. A thread's
 * numbers begin where its counter stood at its first submission to the group. For threads that share a counter, they begin
 * where it stood when the group began: a beginning per thread would move there from one submission to the next.
 *
 * Ids: a weft_group that nobody waited for keeps its id, even beyond the end of its pool, and may be used with another pool.
 * So no two records of the process, of one pool or of several, ever have the same id: a record takes its generations in
 * blocks, from a process-wide count of blocks that all records with the same index modulo 1024 share. An id recurs when its
 * record's index has seen 2^41 groups in the process (three days of nothing else), or 2^33 pools; 2^23 pools if each has a
 * million groups at once. Even then, it is mistaken for an old id only if a weft_group has kept exactly that one. If a
 * record does not serve an id, then the id's group is just ending, or the id is strange here. The thread that ends a group
 * first takes the id out of the weft_group, and a thread that has tried record_enter sees that: an id that still stands
 * there is strange (group_is_astray).
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   G1  counter_complete: completed + n, x2 release  G2  the waiter returns before it sees what the task wrote; split (shared
 *                                                     counters): a completion is lost, the wait never ends
 *   G2  sum_completed: load completed       acquire  G1  see G1; a task's own submissions may be missing from the sum
 *   G4  record_must_wake: fence          sc       T17 the thread that completes last does not see the waiter, which sleeps forever
 *   G5  record_enter: waiting + 1        acquire  G21 the waiter uses a record that was freed; split: the same, or the record is never freed
 *   G6  record_fail: CAS failed          relaxed  -   split: a lower failure is overwritten
 *   G7  record_close: CAS id             relaxed  G14 split: two threads close the group, and the record serves two groups
 *   G8  record_close: heavy fence        heavy    T2  a task is counted in the record's next group
 *   G9  record_note_foreign: CAS foreign relaxed  G11 split: of two strangers, only one is noted
 *   G12 record_leave_last: CAS waiting   acq_rel  G5, G21 a late thread takes the group for open; see G22; split: as G5
 *   G10 record_note_foreign: fence       sc       G11 closer and stranger miss each other
 *   G11 record_close: fence              sc       G10, T17, V1  see G10; also G4, for a thread that ends the group with its own row
 *   G13 record_begin: store id           release  G17 see G17
 *   G14 record_cancel: CAS id            relaxed  G7  split: a closing mark is undone, or an end mark
 *   G15 record_close: sums again         -        G8  the wait misses a task submitted in between
 *   G18 record_fail: CAS cancel_after    relaxed  -   split: a task after the failure runs
 *   G23 record_boost: CAS urgent         relaxed  -   split: the count of urgent groups goes wrong
 *   G24 record_due: CAS deadline_ns      relaxed  -   split: the count of groups with deadlines goes wrong
 *   G25 record_miss: CAS late            relaxed  -   split: a group that missed its last deadline seems to have met it
 *   G19 record_end: store id             release  G20 another waiter does not see what the tasks wrote, nor their error
 *   G20 record_has_ended: load id        acquire  G19 see G19
 *   G26 record_enter: load id            acquire  G19, G13  a thread that comes after the end does not see what the tasks wrote, nor
 *                                                     that the weft_group's id has gone, and takes that id for a strange one
 *   G21 record_leave: waiting - 1        release  G22 the record is opened again while a waiter reads its error; split: the
 *                                                     record is never freed, or under a waiter
 *   G22 record_leave: CAS waiting        acquire  G21 see G21; split: freed twice
 *   G17 record_serving: load id          acquire  G13 the parent read is that of the group before
 *   G27 record_begin: store parent       release  G28 a reader takes the parent of the record's next group for that of
 *                                                     the group before, and a wait runs a stranger's task
 *   G29 counter_begin: used | bit          release  G30 the balance is not visible yet; split: a counter is not summed
 *   G39 blocks_completed: load completed   acquire  G1 see G2
 *   G33 block_make: store block, x2        release  G34 a block is read before it is made
 *   G34 block_at: load block, x4           acquire  G33 see G33
 *   G35 counter_begin_far: used | bit, x2  release  G36 as G29
 *   G36 blocks_completed: load used, x2       acquire  G35 see G35
 *   G37 counters_walk: load used_blocks, x2 acquire G35 the block is not visible yet
 *   G30 sum_completed: load used        acquire  G29 see G29
 *   G32 record_completed: load completed   acquire G1 what the task has submitted may be missing from the sum: destroy ends the
 *                                                     pool before that has run
 *   G31 record_note_sleeper: CAS sleeper relaxed  -   split: of two sleepers, one is not woken
 *   G28 group_parent: load parent        acquire  G27 see G27
 *   T25 record_end: store the user's id  release  T22, V2  a thread that comes after the end does not see the writes of
 *                                                 tasks that were submitted and run while the group was ended
 */
#include "queue/continuation.h"

bool groups_init(struct groups *groups, struct store *store, uint32_t counters) {
    struct pile shape = {.store = store, .chunk_shift = 4, .items_max = RECORDS_MAX};
    groups->store = store;
    groups->counters = counters;
    shape.item_bytes = round_up(sizeof(struct continuation), CACHE_LINE);
    shape.head_bytes = offsetof(struct continuation, cells) + CELL_BYTES;
    if (!pile_init(&groups->continuation, &shape)) return false;
    shape.item_bytes = sizeof(struct record) + counters * sizeof(struct group_counter);
    shape.head_bytes = sizeof(struct record);
    return pile_init(&groups->records, &shape);
}

/* The caller has entered the record, or begins it: so the group does not end meanwhile. */
void record_boost(struct groups *groups, struct record *record, uint64_t id) {
    uint64_t was = 0;
    if (load_rlx(&record->urgent) == 0 && cas_rlx(G23, &record->urgent, &was, id)) add_rlx(&groups->urgent, 1);
}

/* The record serves no group any more. No thread is in it, so none changes `urgent`. */
static void record_unuse(struct groups *groups, struct record *record) {
    store_rlx(&record->id, 0);
    if ((load_rlx(&record->flags) & WEFT_GROUP_BACKGROUND) != 0) add_rlx(&groups->background, UINT32_MAX);
    if (load_rlx(&record->urgent) != 0) {
        store_rlx(&record->urgent, 0);
        add_rlx(&groups->urgent, UINT32_MAX);
    }
    if (load_rlx(&record->deadline_ns) != 0) {
        store_rlx(&record->deadline_ns, 0);
        store_rlx(&record->late, 0);
        add_rlx(&groups->due, UINT32_MAX);
    }
}

void record_due(struct groups *groups, struct record *record, uint64_t deadline_ns) {
    uint64_t was = load_rlx(&record->deadline_ns);
    while (!cas_rlx(G24, &record->deadline_ns, &was, deadline_ns)) {}
    if (was == 0) add_rlx(&groups->due, 1);
}

/* Deadlines are replaced: a thread that has read an earlier one must not undo the miss of a later one. G1 publishes it. */
void record_miss(struct record *record, uint64_t deadline_ns) {
    uint64_t was = load_rlx(&record->late);
    while (was < deadline_ns && !cas_rlx(G25, &record->late, &was, deadline_ns)) {}
}

bool record_is_late(struct record *record) {
    uint64_t deadline_ns = load_rlx(&record->deadline_ns);
    if (deadline_ns == 0 || os_now_ns() <= deadline_ns) return false;
    record_miss(record, deadline_ns);
    return true;
}

struct record *record_serving(const struct groups *groups, uint64_t id) {
    struct record *record = record_at(groups, id_index(id));
    return record != NULL && (load_acq(G17, &record->id) & ~ID_MARKS) == id ? record : NULL;
}

#define ID_COUNTERS 1024u
static PROCESS_STATE ATOMIC(uint64_t) id_blocks[ID_COUNTERS]; /* given out, by the low bits of the records' indices */

/* The next generation of a record. */
static uint64_t generation_next(const struct record *record) {
    uint64_t last_id = load_rlx(&record->last_id);
    uint64_t next = (last_id >> ID_SHIFT) + 1;
    if (last_id != 0 && (next & ((1u << ID_BLOCK_SHIFT) - 1)) != 0) return next;
    return add_rlx(&id_blocks[record->item.index % ID_COUNTERS], 1) << ID_BLOCK_SHIFT;
}

/* The record's group is below `parent`; 0: below none. */
static void record_go_below(const struct groups *groups, struct record *record, uint64_t parent) {
    struct record *upper = parent == 0 ? NULL : record_serving(groups, parent);
    store_rel(G27, &record->parent, parent);
    store_rlx(&record->depth, parent == 0 ? 1 : record_depth(upper) + 1);
    if (upper != NULL && load_rlx(&upper->above) == 0) store_rlx(&upper->above, 1);
}

INLINE uint32_t lowest_bit(uint64_t bits) { return (uint32_t)__builtin_ctzll(bits); }

/* A block of the record, or NULL. */
static struct counter_block *block_at(const struct record *record, uint32_t number) {
    struct counter_blocks *blocks = load_acq(G34, &record->blocks);
    return blocks == NULL ? NULL : load_acq(G34, &blocks->block[number]);
}

/* No counter is used any more. */
static void counters_unuse(struct record *record) {
    store_rlx(&record->used, 0);
    uint64_t blocks = load_acq(G37, &record->used_blocks);
    if (LIKELY(blocks == 0)) return;
    store_rlx(&record->used_blocks, 0);
    for (; blocks != 0; blocks &= blocks - 1) store_rlx(&block_at(record, lowest_bit(blocks))->used, 0);
}

uint64_t record_begin(struct groups *groups, struct record *record, uint64_t parent, uint32_t flags) {
    uint64_t generation = generation_next(record);
    uint64_t id = generation << ID_SHIFT | (uint64_t)record->item.index << ID_INDEX_SHIFT;
    store_rlx(&record->counters, groups->counters);
    store_rlx(&record->last_id, id);
    record_go_below(groups, record, parent);
    store_rlx(&record->above, 0);
    store_rlx(&record->serves, 0);
    store_rlx(&record->flags, flags);
    store_rlx(&record->cancel_after, NOT_CANCELLED);
    store_rlx(&record->failed, NOT_FAILED);
    store_rlx(&record->foreign, FOREIGN_NONE);
    struct group_counter *shared = &record->counter[groups->counters - 1];
    if (UNLIKELY(!counter_is_shared(shared))) store_rlx(&shared->id, COUNTER_SHARED);
    store_rlx(&record->shared_first, load_rlx(&shared->submitted));
    store_rlx(&shared->balance, load_rlx(&record->shared_next));
    counters_unuse(record);
    store_rlx(&record->sleeper, 0);
    if ((flags & WEFT_GROUP_BACKGROUND) != 0) add_rlx(&groups->background, 1);
    if ((flags & WEFT_GROUP_URGENT) != 0) record_boost(groups, record, id);
    store_rel(G13, &record->id, id);
    return id;
}

/* ---- counting ----------------------------------------------------------------------------------------------------- */

/* As block_at, but makes a missing block. NULL: no memory. */
static NOINLINE struct counter_block *block_make(struct groups *groups, struct record *record, uint32_t number) {
    struct counter_block *block = block_at(record, number);
    if (LIKELY(block != NULL)) return block;
    os_lock(&groups->blocks_lock);
    struct counter_blocks *blocks = load_rlx(&record->blocks);
    if (blocks == NULL) blocks = store_get(groups->store, sizeof *blocks);
    if (blocks != NULL) {
        store_rel(G33, &record->blocks, blocks);
        block = load_rlx(&blocks->block[number]);
        if (block == NULL) block = store_get(groups->store, sizeof *block);
        if (block != NULL) store_rel(G33, &blocks->block[number], block);
    }
    os_unlock(&groups->blocks_lock);
    return block;
}

/* Numbers the seats without a counter in the record itself, from 0 on. */
static uint32_t counter_far(const struct record *record, uint32_t number) {
    return number + 1 - load_rlx(&record->counters);
}

NOINLINE struct group_counter *counter_of_far(struct record *record, uint32_t number) {
    uint32_t far = counter_far(record, number);
    struct counter_block *block = far >= COUNTERS_FURTHER ? NULL : block_at(record, far / BLOCK_COUNTERS);
    return block == NULL ? counter_shared(record) : &block->counter[far % BLOCK_COUNTERS];
}

static void counter_begin_own(struct group_counter *counter, uint64_t id) {
    uint64_t submitted = load_rlx(&counter->submitted);
    store_rlx(&counter->balance, submitted - load_rlx(&counter->completed));
    store_rlx(&counter->first, submitted);
    store_rlx(&counter->id, id);
}

/* The bit publishes nothing. Who waits for the group or completes a task of it has acquired its id, and with that the balance. Else
 * only a late submitter of the group before looks: it wakes waiters, who sum for themselves, and its fence (G4) misses none. */
static struct group_counter *counter_begin_shared(struct record *record) {
    uint64_t bit = UINT64_C(1) << (load_rlx(&record->counters) - 1);
    if ((load_rlx(&record->used) & bit) == 0) or_rlx(&record->used, bit);
    return counter_shared(record);
}

static struct group_counter *counter_begin_far(struct groups *groups, struct record *record, uint32_t number, uint64_t id) {
    uint32_t far = counter_far(record, number);
    uint32_t at = far / BLOCK_COUNTERS;
    struct counter_block *block = far >= COUNTERS_FURTHER ? NULL : block_make(groups, record, at);
    if (block == NULL) return counter_begin_shared(record);
    struct group_counter *counter = &block->counter[far % BLOCK_COUNTERS];
    if (LIKELY(load_rlx(&counter->id) == id)) return counter;
    counter_begin_own(counter, id);
    or_rel(G35, &block->used, UINT64_C(1) << far % BLOCK_COUNTERS);
    if ((load_rlx(&record->used_blocks) >> at & 1) == 0) or_rel(G35, &record->used_blocks, UINT64_C(1) << at);
    return counter;
}

NOINLINE struct group_counter *counter_begin(struct groups *groups, struct record *record, uint32_t number, uint64_t id) {
    if (!counter_is_near(record, number)) return counter_begin_far(groups, record, number, id);
    struct group_counter *counter = &record->counter[number];
    counter_begin_own(counter, id);
    or_rel(G29, &record->used, UINT64_C(1) << number);
    return counter;
}

void counter_begin_first(struct groups *groups, struct record *record, uint32_t number, uint64_t id) {
    if (LIKELY(counter_is_near(record, number))) {
        counter_begin_own(&record->counter[number], id);
        store_rlx(&record->used, UINT64_C(1) << number);
        return;
    }
    uint32_t far = counter_far(record, number);
    uint32_t at = far / BLOCK_COUNTERS;
    struct counter_block *block = far >= COUNTERS_FURTHER ? NULL : block_make(groups, record, at);
    if (block == NULL) return;
    counter_begin_own(&block->counter[far % BLOCK_COUNTERS], id);
    store_rlx(&block->used, UINT64_C(1) << far % BLOCK_COUNTERS);
    store_rlx(&record->used_blocks, UINT64_C(1) << at);
}

void counter_complete(struct group_counter *counter, bool is_shared, uint64_t tasks) {
    if (UNLIKELY(is_shared)) {
        add_rel(G1, &counter->completed, tasks);
        return;
    }
    store_rel(G1, &counter->completed, load_rlx(&counter->completed) + tasks);
}

/* Sums over the counters that the group uses: those in the record itself (the shared one, if used, is the last) and those in
 * blocks. */
struct sums {
    uint64_t used, blocks;
    uint64_t seen; /* `used` of all blocks, added up: these only rise while the group lasts */
    uint64_t completed, submitted;
    uint64_t last_balance; /* of the last counter in the record itself */
};

static NOINLINE void blocks_completed(const struct record *record, struct sums *sums) {
    sums->seen = 0;
    for (uint64_t blocks = sums->blocks; blocks != 0; blocks &= blocks - 1) {
        const struct counter_block *block = block_at(record, lowest_bit(blocks));
        uint64_t used = load_acq(G36, &block->used);
        sums->seen += used;
        for (; used != 0; used &= used - 1) {
            const struct group_counter *counter = &block->counter[lowest_bit(used)];
            sums->completed += load_acq(G39, &counter->completed) + load_rlx(&counter->balance);
        }
    }
}
/* Adds the submissions. false: another counter has come into use. */
static NOINLINE bool blocks_submitted(const struct record *record, struct sums *sums) {
    uint64_t seen = 0;
    for (uint64_t blocks = sums->blocks; blocks != 0; blocks &= blocks - 1) {
        const struct counter_block *block = block_at(record, lowest_bit(blocks));
        uint64_t used = load_rlx(&block->used);
        seen += used;
        for (; used != 0; used &= used - 1) sums->submitted += load_rlx(&block->counter[lowest_bit(used)].submitted);
    }
    return seen == sums->seen;
}

static void sum_completed(const struct record *record, struct sums *sums) {
    uint64_t last = 0;
    sums->completed = 0;
    sums->used = load_acq(G30, &record->used);
    for (uint64_t left = sums->used; left != 0; left &= left - 1) {
        const struct group_counter *counter = &record->counter[lowest_bit(left)];
        last = load_acq(G2, &counter->completed);
        sums->completed += last + load_rlx(&counter->balance);
    }
    sums->last_balance = -last;
    sums->blocks = load_acq(G36, &record->used_blocks);
    if (UNLIKELY(sums->blocks != 0)) blocks_completed(record, sums);
}

/* false: a counter has come into use that may hold a submission whose completion is summed. */
static bool sum_submitted(const struct record *record, struct sums *sums) {
    sums->submitted = 0;
    for (uint64_t left = sums->used; left != 0; left &= left - 1) {
        uint64_t submitted = load_rlx(&record->counter[lowest_bit(left)].submitted);
        sums->submitted += submitted;
        if ((left & (left - 1)) == 0) sums->last_balance += submitted;
    }
    if (UNLIKELY(sums->blocks != 0) && !blocks_submitted(record, sums)) return false;
    return load_rlx(&record->used) == sums->used && load_rlx(&record->used_blocks) == sums->blocks;
}

static bool sums_are_equal(const struct record *record, struct sums *sums) {
    do sum_completed(record, sums);
    while (!sum_submitted(record, sums));
    return sums->completed == sums->submitted;
}

bool record_is_finished(const struct record *record) {
    struct sums sums;
    return sums_are_equal(record, &sums);
}

/* The next counter of the record and of its blocks, used or not; `*at` is 0 at first. NULL: there are no more. */
static const struct group_counter *counter_next(const struct record *record, uint32_t *at) {
    uint32_t near = load_rlx(&record->counters);
    if (*at < near) return &record->counter[(*at)++];
    const struct counter_blocks *blocks = load_acq(G34, &record->blocks);
    while (blocks != NULL && *at - near < COUNTERS_FURTHER) {
        uint32_t far = *at - near;
        const struct counter_block *block = load_acq(G34, &blocks->block[far / BLOCK_COUNTERS]);
        *at += block == NULL ? BLOCK_COUNTERS : 1;
        if (block != NULL) return &block->counter[far % BLOCK_COUNTERS];
    }
    return NULL;
}

uint64_t record_completed(const struct record *record) {
    uint64_t sum = 0;
    uint32_t at = 0;
    for (const struct group_counter *counter; (counter = counter_next(record, &at)) != NULL;)
        sum += load_acq(G32, &counter->completed);
    return sum;
}

uint64_t record_submitted(const struct record *record) {
    uint64_t sum = 0;
    uint32_t at = 0;
    for (const struct group_counter *counter; (counter = counter_next(record, &at)) != NULL;)
        sum += load_rlx(&counter->submitted);
    return sum;
}

/* To check one record after another is not enough: a task of a record not yet checked may submit to one that was found
 * finished, and end. So this function, too, sums completions first, and over all counters: they only rise, whichever groups
 * the records serve. */
bool records_are_finished(const struct groups *groups, uint32_t from, uint32_t to) {
    uint64_t open = 0;
    uint32_t end = (uint32_t)min_u64(load_rlx(&groups->records.made), to);
    for (uint32_t i = from; i < end; i++) {
        const struct record *record = record_at(groups, i);
        if (record != NULL) open -= record_completed(record);
    }
    end = (uint32_t)min_u64(load_rlx(&groups->records.made), to);
    for (uint32_t i = from; i < end; i++) {
        const struct record *record = record_at(groups, i);
        if (record != NULL) open += record_submitted(record);
    }
    return open == 0;
}

/* Moves the walk to its next block. */
NOINLINE void counters_next_block(const struct record *record, struct counter_walk *walk) {
    const struct counter_block *block = block_at(record, lowest_bit(walk->blocks));
    walk->blocks &= walk->blocks - 1;
    walk->counters = block->counter;
    walk->left = load_rlx(&block->used);
}

void record_note_sleeper(struct record *record, uint32_t seat) {
    uint32_t noted = load_rlx(&record->sleeper);
    while (noted != seat + 1 && noted != SLEEPERS_MANY)
        if (cas_rlx(G31, &record->sleeper, &noted, noted == 0 ? seat + 1 : SLEEPERS_MANY)) break;
}

bool record_must_wake(const struct record *record) {
    fence_sc(G4);
    return (load_rlx(&record->sleeper) != 0 || load_rlx(&record->continuation) != NULL) && record_is_finished(record);
}

/* ---- errors ------------------------------------------------------------------------------------------------------- */

/* Maps codes to unsigned numbers in the same order. */
INLINE uint32_t code_key(int code) { return (uint32_t)code ^ 0x80000000u; }

void record_fail(struct record *record, uint32_t sequence, int code) {
    uint64_t mine = (uint64_t)sequence << 32 | code_key(code);
    uint64_t kept = load_rlx(&record->failed);
    while (mine < kept)
        if (cas_rlx(G6, &record->failed, &kept, mine)) break;
    if ((load_rlx(&record->flags) & WEFT_GROUP_CANCEL_ON_ERROR) == 0) return;
    uint32_t last = load_rlx(&record->cancel_after);
    while (sequence < last)
        if (cas_rlx(G18, &record->cancel_after, &last, sequence)) break;
}

int record_error(const struct record *record) {
    uint64_t kept = load_rlx(&record->failed);
    return kept == NOT_FAILED ? 0 : (int)((uint32_t)kept ^ 0x80000000u);
}

/* Also cancels a group that is being closed: its closer may find that tasks are still to come. */
bool record_cancel(struct record *record, uint64_t id) {
    uint64_t open = id;
    do {
        if ((open & ~ID_CLOSING) != id) return false;
    } while (!cas_rlx(G14, &record->id, &open, open | ID_CANCELLED));
    return true;
}

/* ---- ending ------------------------------------------------------------------------------------------------------- */

uint64_t record_note_foreign(struct record *record, uint64_t id, uint32_t seat) {
    if ((load_rlx(&record->id) & ~ID_MARKS) != id) return 0;
    uint32_t noted = load_rlx(&record->foreign);
    if (LIKELY(noted == seat + 1)) return load_rlx(&record->id); /* that seat has fenced since, or opened the group */
    while (noted != FOREIGN_MANY) {
        uint32_t now = noted == FOREIGN_NONE ? seat + 1 : FOREIGN_MANY; /* another seat is noted */
        if (cas_rlx(G9, &record->foreign, &noted, now)) break;
    }
    fence_sc(G10);
    return load_rlx(&record->id);
}

bool record_close(struct record *record, uint64_t id, uint32_t seat) {
    uint64_t open = load_rlx(&record->id);
    do {
        if ((open & ~ID_CANCELLED) != id) return false;
    } while (!cas_rlx(G7, &record->id, &open, open | ID_CLOSING));
    fence_rmw_sc(G11);
    uint32_t noted = load_rlx(&record->foreign);
    bool has_strangers = noted != FOREIGN_NONE && noted != seat + 1;
    uint64_t shared = UINT64_C(1) << (load_rlx(&record->counters) - 1);
    if (!has_strangers && (load_rlx(&record->used) & shared) == 0) return true;
    if (has_strangers) os_fence_heavy(G8);
    struct sums sums;
    if (!recheck(G15, sums_are_equal(record, &sums), true)) {
        and_rlx(&record->id, ~ID_CLOSING); /* it may have been cancelled meanwhile */
        return false;
    }
    if ((sums.used & shared) != 0) store_rlx(&record->shared_next, sums.last_balance);
    return true;
}

void record_end(struct record *record, weft_group *group) {
    store_rel(T25, id_of(group), 0); /* only the thread that closed the record clears the id */
    store_rel(G19, &record->id, (load_rlx(&record->id) & ~ID_CLOSING) | ID_ENDED);
}

void record_discard(struct groups *groups, struct record *record) {
    record_unuse(groups, record);
    pile_put(&groups->records, record);
}

bool record_has_ended(const struct record *record) { return (load_acq(G20, &record->id) & ID_ENDED) != 0; }

bool record_enter(struct groups *groups, struct record *record, uint64_t id) {
    add_acq(G5, &record->waiting, 1);
    if ((load_acq(G26, &record->id) & ~(ID_CLOSING | ID_CANCELLED)) == id) return true;
    record_leave(groups, record, false);
    return false;
}

bool group_is_astray(struct groups *groups, struct record *record, const group_id *holder, uint64_t id) {
    bool is_served = record_enter(groups, record, id);
    if (is_served) record_leave(groups, record, false);
    return !is_served && load_rlx(holder) == id;
}

/* A late thread is counted in `waiting` for a moment, and may be the last one out, even of the record's next group. */
bool record_leave_last(struct groups *groups, struct record *record, bool has_ended) {
    uint32_t waiting = 1; /* only this thread */
    if (!has_ended || !cas_acq_rel(G12, &record->waiting, &waiting, 0)) {
        uint32_t change = has_ended ? WAITS_ENDED - 1 : UINT32_MAX;
        waiting = add_rel(G21, &record->waiting, change) + change;
        if (waiting != WAITS_ENDED || !cas_acq(G22, &record->waiting, &waiting, 0)) return false;
    }
    record_unuse(groups, record);
    return true;
}

void record_leave(struct groups *groups, struct record *record, bool has_ended) {
    if (record_leave_last(groups, record, has_ended)) pile_put(&groups->records, record);
}

uint64_t group_parent(const struct groups *groups, uint64_t id) {
    const struct record *record = record_serving(groups, id);
    if (record == NULL) return 0;
    uint64_t parent = load_acq(G28, &record->parent);
    return (load_rlx(&record->id) & ~ID_MARKS) == id ? parent : 0;
}
