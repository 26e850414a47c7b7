/* lane.c: lanes, and the segments they are made of.
 *
 * A lane is an unbounded single-producer, multi-consumer queue: a list of segments (after the linked queue of M. Michael and
 * M. Scott, "Simple, fast, and practical non-blocking and blocking concurrent queue algorithms", PODC 1996,
 * doi:10.1145/248052.248106, with an array in each node). A consumer leaves the element in place and runs it there.
 *
 * Positions count cells since the lane's birth, modulo 2^40; a position's slot in its segment is position %
 * SEGMENT_CELLS. The tasks of a segment lie at equal distances, the segment's stride: a task that needs more cells starts
 * the next segment, a task that needs fewer leaves cells unused. So a taker finds the tasks' places without reading a task.
 * A head at slot 0, or at or past the end of its segment's tasks, means that the segment it names is used up: the task is
 * in the segment that `next` names. (A head at slot 0 never names the segment of its task, so the lane starts at slot 1.)
 *
 *   tail  owner: position after the last published task.
 *   head  takers: {position, segment index} of the first unclaimed task, moved by CAS alone. A position never recurs (2^40
 *         cells would have to pass during one claim), so a CAS that succeeds proves that everything read since `head` was
 *         loaded was still valid: shape and `next` of the segments, the group. Where many takers claim, the head's cache
 *         line passes from one to the next, and a taker that loads the head before its CAS waits for the line twice. So
 *         where others claim much, a taker's CAS expects the head that its own last claim left: it was the lane's head then,
 *         and fewer than 2^40 positions have passed since. A CAS that fails has fetched the line and the head. If that head
 *         is among the tasks just seen, the next try begins there at once: those tasks were published, so what was read of
 *         their segment holds; and the lane has not been empty since, so their group is unchanged. Because of the line's
 *         travels, the owner, too, avoids reading the head.
 *   done  takers: byte i of a segment is the number of cells of the finished piece that began at slot i.
 *
 * Life of a segment: free stack -> the owner links it behind `current` -> tasks are written, published, claimed, done -> the
 * owner sees that all its tasks are done, and, from head or from the `done` of a later segment, that head has left it -> it
 * is written again, or goes back to the free stack. A blocked task keeps its own segment and no other: the owner skips it.
 *
 * What may run concurrently:
 *              push    claim   done    trim
 *   push       -       yes     yes     -        (one owner)
 *   claim              yes     yes     yes
 *   done                       yes     yes
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   L1  lane_claim_want: load head   acquire  L3  tail may look older than head: cells nobody published are claimed
 *   L2  lane_claim_want: load tail   acquire  L6  the task, its segment's shape and link are not visible yet
 *   L3  view_claim: CAS head         release  L1  see L1; not atomic: a task runs twice
 *   L4  piece_done: store done       release  L5  the owner overwrites a task that still reads its payload
 *   L5  segment_is_finished: load done  acquire  L4  see L4; also head may seem not to have come here yet
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

/* Called by the owner while no other thread looks at `done` or the cells. Takers have read the cells' cache lines last. One
 * store into each, in a row, brings the lines to this core together; the stores of tasks would wait for them one by one. */
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

/* How many segments lane_extend checks for one to reuse: blocked tasks hold some. */
#define LANE_REACH 4

/* Does the head name a later segment? Yes if a task of the later one is done. Reading the head is slow if many claim. */
static bool head_has_left(const struct lane *lane, const struct segment *segment, bool reads_head) {
    const struct segment *later = segment_at(lane->segments, segment->older_next);
    for (uint32_t slot = 0; slot < SEGMENT_CELLS; slot++)
        if (load_rlx(&later->done[slot]) != 0) return true;
    return reads_head && head_index(load_rlx(&lane->head)) != segment->item.index;
}

/* Takes the first finished segment among the `reach` oldest out of the lane's list. NULL: there is none. */
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
    if (used == 0) { /* entered for a task that was then not submitted; takers cannot pass an empty segment */
        store_rlx(&lane->current->shape, shape_make(cells, SEGMENT_CELLS / cells * cells));
        lane_enter(lane, lane->current, cells, lane_position(lane));
        return true;
    }
    struct segment *fresh = lane_unlink(lane, LANE_REACH);
    if (fresh == NULL) {
        fresh = segment_get(lane->segments);
    } else {
        struct segment *surplus = lane_unlink(lane, LANE_REACH); /* returns a past backlog's segments one by one */
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

/* Prefetches the first cells of several tasks together. Not their whole payloads: a cache line that no task reads would
 * travel here and back for nothing. */
static void piece_prefetch(const struct piece *piece) {
    const struct cell *cells = piece->segment->cells;
    uint32_t step = (uint32_t)max_u64(piece->stride, CACHE_LINE / CELL_BYTES);
    for (uint32_t slot = piece->begin; slot < piece->end; slot += step) prefetch_read(&cells[slot]);
}

/* What a taker makes of head and tail. */
struct view {
    struct piece *piece; /* from the first unclaimed task, the published tasks of its segment; the caller's */
    uint64_t base;       /* position of that segment's slot 0 */
    uint64_t tail;
};

/* Computes the view from a head that the lane had once. false: it read what is no longer the lane's. */
INLINE bool lane_view(const struct lane *lane, uint64_t head, uint64_t tail, struct view *view) {
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
    *view->piece = (struct piece){segment, slot, end, shape_stride(shape)};
    return published <= LANE_POSITION_MASK / 2 && slot < end && end <= SEGMENT_CELLS && shape_stride(shape) > 0;
}

static bool lane_accepts(const struct lane *lane, const struct lane_want *want) {
    return want->filter == NULL || want->filter(want->context, load_rlx(&lane->group));
}

/* A CAS failed and found `head` instead. true: that head is among the view's tasks, and the filter still accepts them. A
 * lane that holds one group's tasks at a time still holds that group's, for it has not been empty since they were published;
 * in an ordered pool, the task that is next now may be another group's. */
static bool view_follow(const struct lane *lane, struct view *view, uint64_t head, const struct lane_want *want) {
    uint64_t slot = (head_position(head) - view->base) & LANE_POSITION_MASK;
    if (head_index(head) != view->piece->segment->item.index || slot >= view->piece->end) return false;
    view->piece->begin = (uint32_t)slot;
    return lane_accepts(lane, want);
}

/* How many of the view's tasks to claim; `end`: where the view's tasks end. */
static uint32_t view_tasks(const struct view *view, uint32_t end, const struct lane_want *want) {
    const struct piece *piece = view->piece;
    if (want->max == 1 || end - piece->begin == piece->stride) return 1;
    uint64_t tasks = min_u64(want->max, (end - piece->begin) / piece->stride);
    if (want->share == 0) return (uint32_t)tasks;
    uint64_t left = ((view->tail - view->base - piece->begin) & LANE_POSITION_MASK) / piece->stride;
    return (uint32_t)min_u64(tasks, left / want->share + 1);
}

/* Claims the first tasks of the view made from `head`. A CAS that fails has fetched the head's cache line, so the second
 * seldom fails. 0: the head is no longer in the view. */
static uint32_t view_claim(struct lane *lane, struct view *view, uint64_t head, const struct lane_want *want) {
    struct piece *piece = view->piece;
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

/* Notes a claim of `piece`, which ended at `position`. */
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
        struct view view = {.piece = piece};
        if (is_left && tail - left->position > LANE_POSITION_MASK) continue; /* that position may have recurred */
        if (((tail - head_position(head)) & LANE_POSITION_MASK) == 0) return 0;
        if (!lane_view(lane, head, tail, &view)) continue;
        if (!lane_accepts(lane, want)) return 0;
        uint32_t tasks = view_claim(lane, &view, head, want);
        if (tasks == 0) continue;
        if (tasks > 1) piece_prefetch(piece);
        if (left != NULL) left_note(left, tail - ((tail - view.base - piece->end) & LANE_POSITION_MASK), piece);
        return tasks;
    }
}

uint32_t lane_next_record(const struct lane *lane) {
    struct piece piece;
    struct view view = {.piece = &piece};
    uint64_t head = load_rlx(&lane->head);
    if (lane_is_empty(lane) || !lane_view(lane, head, load_rlx(&lane->tail), &view)) return 0;
    return meta_record(piece.segment->cells[piece.begin].meta);
}
