/* lane.c: lanes, and the segments they are made of.
 *
 * An unbounded queue of one producer and many consumers as a list of segments (after the linked rings of M. Michael and
 * M. Scott, "Simple, fast, and practical non-blocking and blocking concurrent queue algorithms", PODC 1996,
 * doi:10.1145/248052.248106, with an array in each node), where a consumer leaves the element in place and runs it there.
 *
 * Positions count cells since the lane's birth, modulo 2^40; a position's slot in its segment is position % SEGMENT_CELLS. The
 * lane starts at slot 1, so that a head at slot 0 always means: the segment it names is used up, the task is in the one
 * that `next` names.
 *
 *   tail  owner: position after the last published task.
 *   head  takers: {position, segment index} of the first unclaimed task, moved by CAS alone. A position never comes back (2^40
 *         tasks would have to pass during one claim), so a CAS that succeeds proves that everything read since `head` was
 *         loaded was still in force: the metas, `next`, the segment itself.
 *   done  takers: byte i of a segment is the number of cells of the finished piece that began at slot i.
 *
 * Life of a segment: free stack -> owner links it behind `current` -> tasks are written, published, claimed, done -> the
 * owner sees every byte of `done` and that head has left it -> written again, or back on the free stack. A task that blocks
 * keeps its own segment and no other: the owner passes over it.
 *
 * Who may do what at once:
 *              push    claim   done    trim
 *   push       -       yes     yes     -        (one owner)
 *   claim              yes     yes     yes
 *   done                       yes     yes
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   L1  lane_claim: load head        acquire  L3  tail may look older than head: cells nobody published are claimed
 *   L2  lane_claim: load tail        acquire  L6  the task's meta, function and payload are not there yet
 *   L3  lane_claim: CAS head         release  L1  see L1; not atomic: a task runs twice
 *   L4  piece_done: store done       release  L5  the owner overwrites a task that still reads its payload
 *   L5  segment_is_finished: load done  acquire  L4  see L4; also head may look as if it had not come here
 *   L6  lane_publish: store tail     release  L2  see L2
 */
#include "lane.h"

/* ---- segments ----------------------------------------------------------------------------------------------------- */

#define CHUNK_CELL_BYTES ((size_t)SEGMENT_CHUNK * SEGMENT_CELLS * CELL_BYTES)

static bool segments_make(void *items, uint32_t count) {
    struct segment *segment = items;
    struct cell *cells = os_map(CHUNK_CELL_BYTES);
    if (cells == NULL) return false;
    for (uint32_t i = 0; i < count; i++) {
        segment[i].cells = &cells[(size_t)i * SEGMENT_CELLS];
        segment[i].purged = true;
    }
    return true;
}

bool segments_init(struct pile *segments, struct store *store) {
    return pile_init(segments, &(struct pile){.store = store,
                                              .item_bytes = sizeof(struct segment),
                                              .chunk_shift = SEGMENT_CHUNK_SHIFT,
                                              .items_max = SEGMENTS_MAX,
                                              .make = segments_make});
}

static struct segment *segment_at(const struct pile *segments, uint32_t index) { return pile_at(segments, index); }

void segments_end(struct pile *segments) {
    uint32_t made = load_rlx(&segments->made);
    for (uint32_t index = 0; index < made; index += SEGMENT_CHUNK) os_unmap(segment_at(segments, index)->cells, CHUNK_CELL_BYTES);
    store_rlx(&segments->made, 0);
}

uint64_t segments_bytes(const struct pile *segments) {
    return (uint64_t)load_rlx(&segments->made) * SEGMENT_CELLS * CELL_BYTES;
}

/* A segment of the caller's own; NULL: no memory. */
static struct segment *segment_get(struct pile *segments) {
    struct segment *segment = pile_get(segments);
    if (segment != NULL) segment->purged = false;
    return segment;
}

void segments_purge(struct pile *segments) {
    uint32_t kept = PILE_NONE;
    struct segment *segment;
    while ((segment = pile_pop(segments)) != NULL) {
        bool was_purged = segment->purged;
        if (!was_purged) os_purge(segment->cells, SEGMENT_CELLS * sizeof *segment->cells);
        segment->purged = true;
        segment->older_next = kept;
        kept = segment->item.index;
        if (was_purged) break; /* below it on the stack nothing was used since the last purge */
    }
    while (kept != PILE_NONE) {
        segment = segment_at(segments, kept);
        kept = segment->older_next;
        pile_put(segments, segment);
    }
}

static bool segment_is_finished(const struct segment *segment) {
    uint32_t slot = 0;
    while (slot < SEGMENT_CELLS) {
        uint32_t cells = load_acq(L5, &segment->done[slot]);
        if (cells == 0) return false;
        slot += cells;
    }
    return true;
}

static void segment_reset(struct segment *segment) {
    for (uint32_t slot = 0; slot < SEGMENT_CELLS; slot++) store_rlx(&segment->done[slot], 0);
}

/* ---- the owner's side --------------------------------------------------------------------------------------------- */

INLINE uint64_t head_make(uint64_t position, uint32_t index) { return position << PILE_INDEX_BITS | index; }
INLINE uint64_t head_position(uint64_t head) { return head >> PILE_INDEX_BITS; }
INLINE uint32_t head_index(uint64_t head) { return (uint32_t)head & PILE_INDEX_MASK; }

bool lane_init(struct lane *lane, struct pile *segments, uint64_t position) {
    struct segment *segment = segment_get(segments);
    if (segment == NULL) return false;
    position -= position % SEGMENT_CELLS;
    segment_reset(segment);
    store_rlx(&segment->done[0], 1);
    lane->segments = segments;
    lane->current = segment;
    lane->position = position + 1;
    lane->limit = position + SEGMENT_CELLS;
    lane->oldest = segment->item.index;
    lane->in_use = 1;
    lane->group_id = LANE_NO_GROUP;
    store_rlx(&lane->tail, position + 1);
    store_rlx(&lane->head, head_make(position + 1, segment->item.index));
    return true;
}

/* Takes the first finished segment among the `reach` oldest out of the lane's list; NULL when there is none. */
static struct segment *lane_unlink(struct lane *lane, uint32_t reach) {
    struct segment *before = NULL;
    struct segment *segment = segment_at(lane->segments, lane->oldest);
    for (; reach > 0 && segment != lane->current; reach--) {
        if (segment_is_finished(segment) && head_index(load_rlx(&lane->head)) != segment->item.index) {
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

/* How many segments lane_extend looks at for one to write again: blocked tasks hold some. */
#define LANE_REACH 4

bool lane_extend(struct lane *lane, uint32_t cells) {
    ASSERT(cells < SEGMENT_CELLS);
    (void)cells;
    struct segment *fresh = lane_unlink(lane, LANE_REACH);
    if (fresh == NULL) {
        fresh = segment_get(lane->segments);
    } else {
        struct segment *surplus = lane_unlink(lane, LANE_REACH); /* a backlog that is gone leaves by one more each time */
        if (surplus != NULL) pile_put(lane->segments, surplus);
    }
    if (fresh == NULL) return false;
    segment_reset(fresh);
    uint32_t rest = (uint32_t)(lane->limit - lane->position);
    if (rest > 0) store_rlx(&lane_cell(lane)->meta, meta_make(0, rest, CELL_FILLER, 0));
    store_rlx(&lane->current->next, fresh->item.index);
    lane->current->older_next = fresh->item.index;
    lane->current = fresh;
    lane->in_use++;
    lane->position = lane->limit;
    lane->limit += SEGMENT_CELLS;
    return true;
}

void lane_publish(struct lane *lane, uint32_t cells) {
    plain_write(&lane_cell(lane)->fn, sizeof(weft_fn));
    lane->position += cells;
    store_rel(L6, &lane->tail, lane->position & LANE_POSITION_MASK);
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

/* Moves piece->end over up to `max` published tasks from piece->begin on. Returns how many; UINT32_MAX when what it read was
 * no longer the lane's. */
static uint32_t piece_walk(struct piece *piece, uint64_t backlog, uint32_t max) {
    uint32_t tasks = 0;
    while (tasks < max && backlog > 0 && piece->end < SEGMENT_CELLS) {
        uint64_t meta = load_rlx(&piece->segment->cells[piece->end].meta);
        uint32_t cells = meta_cells(meta);
        if (cells == 0 || cells > backlog || piece->end + cells > SEGMENT_CELLS) return UINT32_MAX;
        piece->end += cells;
        backlog -= cells;
        if (meta_kind(meta) != CELL_FILLER) tasks++;
    }
    return tasks;
}

uint32_t lane_claim(struct lane *lane, uint32_t max, lane_filter filter, const void *context, struct piece *piece) {
    for (;;) {
        uint64_t head = load_acq(L1, &lane->head);
        uint64_t tail = load_acq(L2, &lane->tail);
        uint64_t position = head_position(head);
        uint64_t backlog = (tail - position) & LANE_POSITION_MASK;
        if (backlog == 0) return 0;
        struct segment *segment = segment_at(lane->segments, head_index(head));
        piece->begin = piece->end = (uint32_t)position % SEGMENT_CELLS;
        if (piece->begin == 0) segment = segment_at(lane->segments, load_rlx(&segment->next));
        if (segment == NULL) continue;
        piece->segment = segment;
        uint32_t tasks = piece_walk(piece, backlog, max);
        if (tasks == UINT32_MAX) continue;
        if (filter != NULL && tasks > 0 && !filter(context, load_rlx(&segment->cells[piece->begin].meta))) return 0;
        uint64_t moved = (position + (piece->end - piece->begin)) & LANE_POSITION_MASK;
        if (!cas_rel(L3, &lane->head, &head, head_make(moved, segment->item.index))) continue;
        if (tasks > 0) return tasks;
        piece_done(piece); /* nothing but a filler */
    }
}

void piece_done(const struct piece *piece) {
    store_rel(L4, &piece->segment->done[piece->begin], (uint8_t)(piece->end - piece->begin));
}
