/* lane.c: lanes, and the segments they are made of.
 *
 * An unbounded queue of one producer and many consumers as a list of segments (after the linked rings of M. Michael and
 * M. Scott, "Simple, fast, and practical non-blocking and blocking concurrent queue algorithms", PODC 1996,
 * doi:10.1145/248052.248106, with an array in each node), where a consumer leaves the element in place and runs it there.
 *
 * Positions count cells since the lane's birth, modulo 2^40; a position's slot in its segment is position %
 * SEGMENT_CELLS. The tasks of a segment lie at equal distances, its stride: a task that needs more starts the next
 * segment, one that needs less leaves cells unused. So a taker finds the tasks' places without reading a task. A head at
 * slot 0, or at or past the end of its segment's tasks, means: the segment it names is used up, the task is in the one
 * that `next` names. (The lane starts at slot 1, for no head ever stands at slot 0 of the segment it names.)
 *
 *   tail  owner: position after the last published task.
 *   head  takers: {position, segment index} of the first unclaimed task, moved by CAS alone. A position never comes back (2^40
 *         cells would have to pass during one claim), so a CAS that succeeds proves that everything read since `head` was
 *         loaded was still in force: shape and `next` of the segments, the group. Where many claim, the head's line passes
 *         from one to the next, and who loads it first waits for it twice. So where others claim much, a taker tries with
 *         the head that its last claim left there: it was the lane's then, and not all of 2^40 positions have passed since.
 *         A CAS that fails has the line, and the head: where that is among the tasks just seen, the next try begins there at
 *         once. They were published, so their segment was as it was read; and the lane was not empty since, so is their group.
 *         For the same reason the owner does not read it where it can do without.
 *   done  takers: byte i of a segment is the number of cells of the finished piece that began at slot i.
 *
 * Life of a segment: free stack -> owner links it behind `current` -> tasks are written, published, claimed, done -> the
 * owner sees every byte of `done` and that head has left it, by it or by a later segment's `done` -> written again, or back on the free stack. A task that blocks
 * keeps its own segment and no other: the owner passes over it.
 *
 * Who may do what at once:
 *              push    claim   done    trim
 *   push       -       yes     yes     -        (one owner)
 *   claim              yes     yes     yes
 *   done                       yes     yes
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   L1  lane_claim_want: load head   acquire  L3  tail may look older than head: cells nobody published are claimed
 *   L2  lane_claim_want: load tail   acquire  L6  the task, its segment's shape and link are not there yet
 *   L3  view_claim: CAS head         release  L1  see L1; not atomic: a task runs twice
 *   L4  piece_done: store done       release  L5  the owner overwrites a task that still reads its payload
 *   L5  segment_is_finished: load done  acquire  L4  see L4; also head may look as if it had not come here
 *   L6  lane_publish: store tail     release  L2  see L2
 */
#include "queue/lane.h"

#include <string.h>

/* ---- segments ----------------------------------------------------------------------------------------------------- */

static bool segment_is_finished(const struct segment *segment) {
    uint32_t slot = 0;
    uint32_t end = shape_end(load_rlx(&segment->shape));
    while (slot < end) {
        uint32_t cells = load_acq(L5, &segment->done[slot]);
        if (cells == 0) return false;
        slot += cells;
    }
    return true;
}

/* By the owner, with nobody else looking at `done` or at the cells. One store into each line of the cells, which takers
 * have read last: directly after each other, the lines come to this core together. A task's stores would wait for them
 * one by one. */
static void segment_reset(struct segment *segment) {
    memset(segment->done, 0, SEGMENT_CELLS);
    for (uint32_t slot = 0; slot < SEGMENT_CELLS; slot += CACHE_LINE / CELL_BYTES) {
        plain_write(&segment->cells[slot].meta, sizeof segment->cells[slot].meta);
        segment->cells[slot].meta = 0;
    }
}

/* ---- the owner's side --------------------------------------------------------------------------------------------- */

INLINE uint64_t head_make(uint64_t position, uint32_t index) { return position << PILE_INDEX_BITS | index; }
INLINE uint64_t head_position(uint64_t head) { return head >> PILE_INDEX_BITS; }
INLINE uint32_t head_index(uint64_t head) { return (uint32_t)head & PILE_INDEX_MASK; }

/* The tail goes to the segment's first cell, at `position`. */
static void lane_enter(struct lane *lane, struct segment *segment, uint32_t stride, uint64_t position) {
    lane->current = segment;
    lane->cell = segment->cells;
    lane->last = lane->end = &segment->cells[SEGMENT_CELLS - stride];
    lane->origin = position - (uintptr_t)segment->cells / CELL_BYTES;
    lane->stride = stride;
}

bool lane_init(struct lane *lane, struct pile *segments, uint64_t position) {
    struct segment *segment = segment_get(segments);
    if (segment == NULL) return false;
    segment_reset(segment);
    store_rlx(&segment->done[0], 1);
    store_rlx(&segment->shape, shape_make(1, SEGMENT_CELLS));
    lane->segments = segments;
    lane_enter(lane, segment, 1, position);
    lane->cell = &segment->cells[1];
    lane->oldest = segment->item.index;
    lane->in_use = 1;
    lane->group_id = LANE_NO_GROUP;
    store_rlx(&lane->tail, position + 1);
    store_rlx(&lane->head, head_make(position + 1, segment->item.index));
    store_rlx(&lane->head_seen, UINT64_MAX);
    return true;
}

/* How many segments lane_extend looks at for one to write again: blocked tasks hold some. */
#define LANE_REACH 4

/* Does it name a later one? Surely where a task of that one is done. To read the head may take long, when many claim. */
static bool head_has_left(const struct lane *lane, const struct segment *segment, bool reads_head) {
    const struct segment *later = segment_at(lane->segments, segment->older_next);
    for (uint32_t slot = 0; slot < SEGMENT_CELLS; slot++)
        if (load_rlx(&later->done[slot]) != 0) return true;
    return reads_head && head_index(load_rlx(&lane->head)) != segment->item.index;
}

/* Takes the first finished segment among the `reach` oldest out of the lane's list; NULL when there is none. */
static struct segment *lane_unlink(struct lane *lane, uint32_t reach) {
    bool reads_head = reach > LANE_REACH || lane->in_use <= LANE_REACH;
    struct segment *before = NULL;
    struct segment *segment = segment_at(lane->segments, lane->oldest);
    for (; reach > 0 && segment != lane->current; reach--) {
        if (segment_is_finished(segment) && head_has_left(lane, segment, reads_head)) {
            if (before == NULL) lane->oldest = segment->older_next;
            if (before != NULL) before->older_next = segment->older_next;
            lane->in_use--;
            return segment;
        }
        before = segment;
        segment = segment_at(lane->segments, segment->older_next);
    }
    return NULL;
}

bool lane_extend(struct lane *lane, uint32_t cells) {
    ASSERT(cells > 0 && cells < SEGMENT_CELLS);
    uint32_t used = (uint32_t)(lane->cell - lane->current->cells);
    if (used == 0) { /* entered for a task that was not submitted after all; left empty, takers could not pass it */
        store_rlx(&lane->current->shape, shape_make(cells, SEGMENT_CELLS / cells * cells));
        lane_enter(lane, lane->current, cells, lane_position(lane));
        return true;
    }
    struct segment *fresh = lane_unlink(lane, LANE_REACH);
    if (fresh == NULL) {
        fresh = segment_get(lane->segments);
    } else {
        struct segment *surplus = lane_unlink(lane, LANE_REACH); /* a backlog that is gone leaves by one more each time */
        if (surplus != NULL) pile_put(lane->segments, surplus);
    }
    if (fresh == NULL) return false;
    segment_reset(fresh);
    store_rlx(&fresh->shape, shape_make(cells, SEGMENT_CELLS / cells * cells));
    store_rlx(&lane->current->shape, shape_make(lane->stride, used));
    store_rlx(&lane->current->next, fresh->item.index);
    lane->current->older_next = fresh->item.index;
    lane->in_use++;
    lane_enter(lane, fresh, cells, lane_position(lane) + SEGMENT_CELLS - used);
    return true;
}

void lane_trim(struct lane *lane) {
    struct segment *segment;
    while ((segment = lane_unlink(lane, UINT32_MAX)) != NULL) pile_put(lane->segments, segment);
}

uint64_t lane_backlog(const struct lane *lane) {
    uint64_t position = head_position(load_rlx(&lane->head));
    uint64_t backlog = (load_rlx(&lane->tail) - position) & LANE_POSITION_MASK;
    return backlog > LANE_POSITION_MASK / 2 ? 0 : backlog; /* the tail was read too early */
}

/* ---- the takers' side --------------------------------------------------------------------------------------------- */

/* The first cells of several tasks, asked for together. Not all their payload: a line that no task reads would cost its
 * way here and back. */
static void piece_prefetch(const struct piece *piece) {
    const struct cell *cells = piece->segment->cells;
    uint32_t step = (uint32_t)max_u64(piece->stride, CACHE_LINE / CELL_BYTES);
    for (uint32_t slot = piece->begin; slot < piece->end; slot += step) prefetch_read(&cells[slot]);
}

/* What a taker makes of head and tail. */
struct view {
    struct piece piece; /* every published task of the segment with the first unclaimed one */
    uint64_t base;      /* position of that segment's slot 0 */
    uint64_t tail;
};

/* From a head that was the lane's once. false: what it read was no longer the lane's. */
static bool lane_view(const struct lane *lane, uint64_t head, uint64_t tail, struct view *view) {
    uint64_t position = head_position(head);
    uint32_t slot = (uint32_t)position % SEGMENT_CELLS;
    struct segment *segment = segment_at(lane->segments, head_index(head));
    uint32_t shape = load_rlx(&segment->shape);
    view->base = position - slot;
    view->tail = tail;
    if (slot == 0 || slot >= shape_end(shape)) {
        if (slot != 0) view->base += SEGMENT_CELLS;
        slot = 0;
        segment = segment_at(lane->segments, load_rlx(&segment->next));
        if (segment == NULL) return false;
        shape = load_rlx(&segment->shape);
    }
    uint64_t published = (tail - view->base) & LANE_POSITION_MASK;
    uint32_t end = (uint32_t)min_u64(published, shape_end(shape));
    view->piece = (struct piece){segment, slot, end, shape_stride(shape)};
    return published <= LANE_POSITION_MASK / 2 && slot < end && end <= SEGMENT_CELLS && shape_stride(shape) > 0;
}

static bool lane_accepts(const struct lane *lane, const struct lane_want *want) {
    return want->filter == NULL || want->filter(want->context, load_rlx(&lane->group));
}

/* The head is another, which a CAS found. true: it is among the tasks of the view, and the filter accepts them still. A
 * lane that holds one group's tasks at a time holds that group's yet, for it has not been empty since they were published; in
 * an ordered pool the task that is next now may be another group's. */
static bool view_follow(const struct lane *lane, struct view *view, uint64_t head, const struct lane_want *want) {
    uint64_t slot = (head_position(head) - view->base) & LANE_POSITION_MASK;
    if (head_index(head) != view->piece.segment->item.index || slot >= view->piece.end) return false;
    view->piece.begin = (uint32_t)slot;
    return lane_accepts(lane, want);
}

/* How many to claim of those in the view, `end` being its last slot's. */
static uint32_t view_tasks(const struct view *view, uint32_t end, const struct lane_want *want) {
    const struct piece *piece = &view->piece;
    if (want->max == 1) return 1;
    uint64_t tasks = min_u64(want->max, (end - piece->begin) / piece->stride);
    if (want->share == 0) return (uint32_t)tasks;
    uint64_t left = ((view->tail - view->base - piece->begin) & LANE_POSITION_MASK) / piece->stride;
    return (uint32_t)min_u64(tasks, left / want->share + 1);
}

/* Claims the first tasks of a view of that head. Who comes late has the head's line by its first try, so its second is
 * seldom late. 0: the head is not in the view any more. */
static uint32_t view_claim(struct lane *lane, struct view *view, uint64_t head, const struct lane_want *want) {
    struct piece *piece = &view->piece;
    uint32_t end = piece->end;
    do {
        uint32_t tasks = view_tasks(view, end, want);
        piece->end = piece->begin + tasks * piece->stride;
        uint64_t moved = (view->base + piece->end) & LANE_POSITION_MASK;
        if (tasks == 0) return 0;
        if (cas_rel(L3, &lane->head, &head, head_make(moved, piece->segment->item.index))) return tasks;
        piece->end = end;
    } while (view_follow(lane, view, head, want));
    return 0;
}

/* After a claim of that piece, which ended at that position. */
static void left_note(struct lane_left *left, uint64_t position, const struct piece *piece) {
    uint64_t cells = piece->end - piece->begin;
    left->are_many = left->segment != PILE_NONE && position - cells - left->position >= LEFT_OTHERS * cells;
    left->position = position;
    left->segment = piece->segment->item.index;
}

uint32_t lane_claim_want(struct lane *lane, const struct lane_want *want, struct piece *piece) {
    struct lane_left *left = want->left;
    bool is_left = left != NULL && left->segment != PILE_NONE && left->are_many;
    for (;; is_left = false) {
        uint64_t head = is_left ? head_make(left->position & LANE_POSITION_MASK, left->segment) : load_acq(L1, &lane->head);
        uint64_t tail = load_acq(L2, &lane->tail);
        struct view view;
        if (is_left && tail - left->position > LANE_POSITION_MASK) continue; /* that position may have come again */
        if (((tail - head_position(head)) & LANE_POSITION_MASK) == 0) return 0;
        if (!lane_view(lane, head, tail, &view)) continue;
        if (!lane_accepts(lane, want)) return 0;
        uint32_t tasks = view_claim(lane, &view, head, want);
        if (tasks == 0) continue;
        *piece = view.piece;
        if (tasks > 1) piece_prefetch(piece);
        if (left != NULL) left_note(left, tail - ((tail - view.base - piece->end) & LANE_POSITION_MASK), piece);
        return tasks;
    }
}

uint32_t lane_next_record(const struct lane *lane) {
    struct view view;
    uint64_t head = load_rlx(&lane->head);
    if (lane_is_empty(lane) || !lane_view(lane, head, load_rlx(&lane->tail), &view)) return 0;
    return meta_record(view.piece.segment->cells[view.piece.begin].meta);
}

void piece_done(const struct piece *piece) {
    store_rel(L4, &piece->segment->done[piece->begin], (uint8_t)(piece->end - piece->begin));
}
