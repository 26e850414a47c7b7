/* origin.c: see origin.h. The rows are in memory of their own and are sorted once. Layer 7. */
#include "observe/origin.h"

#define PAGE_SHIFT 7u    /* cells */
#define WAKES_AT_ONCE 8u /* how many rows are searched for a wake */

static size_t bytes_of(size_t most) { return round_up(2 * most * sizeof(struct origin), os_page_size()); }

void origins_make(struct origins *origins, size_t most) {
    *origins = (struct origins){.most = most, .ticks_per_us = os_ticks_per_us()};
    if (most > 0) origins->row = os_map(bytes_of(most));
}

void origins_end(struct origins *origins) {
    if (origins->row != NULL) os_unmap(origins->row, bytes_of(origins->most));
}

void origins_add(struct origins *origins, const struct origin *origin) {
    if (origins->row == NULL || origins->count == origins->most) return;
    origins->row[origins->count++] = *origin;
}

/* All that was noted before, by an event of that time, was submitted before then. A task submits nothing that was noted before it
 * began, nor afterwards what was noted in it; a loop or a call may submit what was noted before it. */
static uint64_t bound_of(const struct trace_event *event, uint64_t noted) {
    switch (event->kind) {
    case TRACE_TASK: return event->start >= noted ? event->start : event->end;
    case TRACE_NODE:
    case TRACE_FORK:
    case TRACE_LOOP:
    case TRACE_HELP_LOOP: return event->end;
    default: return event->start;
    }
}

static void close_rows(struct origins *origins, uint32_t seat, const struct trace_event *event) {
    bool is_guess = event->kind == TRACE_SUBMIT && (event->detail & TRACE_GUESSED) != 0;
    if (origins->seat != seat) origins->open = origins->count;
    origins->seat = seat;
    for (; !is_guess && origins->open < origins->count; origins->open++) {
        struct origin *row = &origins->row[origins->open];
        uint64_t bound = max_u64(bound_of(event, row->time), row->time);
        uint64_t us = (bound - row->time) / origins->ticks_per_us + 1;
        row->until_us = us < ORIGIN_OPEN ? (uint32_t)us : ORIGIN_OPEN;
    }
}

void origins_add_event(struct origins *origins, uint32_t seat, const struct trace_event *event) {
    struct origin row = {.key = event->place >> PAGE_SHIFT, .time = event->start, .place = event->place};
    row.seat = (uint16_t)(seat & 0x7fff);
    row.tasks = (uint8_t)event->what;
    row.stride = event->detail & TRACE_STRIDE;
    row.is_guessed = (event->detail & TRACE_GUESSED) != 0;
    row.until_us = ORIGIN_OPEN;
    if (event->kind == TRACE_WAKE) {
        row.key = ORIGIN_WAKES;
        row.place = event->end - event->start;
    }
    close_rows(origins, seat, event);
    if (event->kind == TRACE_WAKE || event->kind == TRACE_SUBMIT) origins_add(origins, &row);
}

static bool is_before(const struct origin *a, const struct origin *b) {
    return a->key != b->key ? a->key < b->key : a->time < b->time;
}

static void merge(const struct origin *from, struct origin *to, const size_t at[3]) {
    size_t left = at[0], right = at[1];
    for (size_t i = at[0]; i < at[2]; i++) {
        bool takes_right = left == at[1] || (right < at[2] && is_before(&from[right], &from[left]));
        to[i] = takes_right ? from[right++] : from[left++];
    }
}

/* The second half of the rows is room for the merges. */
void origins_sort(struct origins *origins) {
    struct origin *from = origins->row;
    struct origin *to = from + origins->most;
    size_t count = origins->count;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t first = 0; first < count; first += 2 * width) {
            const size_t at[3] = {first, min_u64(first + width, count), min_u64(first + 2 * width, count)};
            merge(from, to, at);
        }
        struct origin *swapped = from;
        from = to;
        to = swapped;
    }
    for (size_t i = 0; i < count && from != origins->row; i++) origins->row[i] = from[i];
}

/* How many rows are not after that key and time. */
static size_t rows_until(const struct origins *origins, uint64_t key, uint64_t time) {
    const struct origin sought = {.key = key, .time = time};
    size_t low = 0, high = origins->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (is_before(&sought, &origins->row[middle]))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* When the task of that cell was submitted. It is one of several that are noted together: they are taken to have come evenly
 * until the next noted submission, if that followed at once. */
static uint64_t submitted_at(const struct origins *origins, const struct origin *origin, uint64_t place) {
    const struct origin *next = origin + 1;
    uint64_t nth = (place - origin->place) / origin->stride;
    bool is_last = next == origins->row + origins->count || next->key != origin->key || next->time < origin->time;
    if (nth == 0 || is_last) return origin->time;
    uint64_t most = SUBMIT_RUN_US * origins->ticks_per_us;
    return origin->time + min_u64(next->time - origin->time, most) * nth / origin->tasks;
}

static struct submitted submitted_within(const struct origins *origins, const struct origin *row, uint64_t place,
                                         uint64_t start) {
    uint64_t per_us = origins->ticks_per_us, first = min_u64(submitted_at(origins, row, place), start);
    uint64_t last = row->until_us == ORIGIN_OPEN ? start : min_u64(row->time + row->until_us * per_us, start);
    bool is_known = (place == row->place && !row->is_guessed) || last < first || last - first <= SUBMIT_RUN_US * per_us;
    return (struct submitted){first, is_known ? first : last};
}

static bool is_of(const struct origin *row, uint64_t place) {
    return place >= row->place && place < row->place + (uint64_t)row->tasks * row->stride;
}

/* The row that the task before had is often this one's, too; then no newer one is before `start`. */
static bool is_found_again(const struct origins *origins, uint64_t place, uint64_t start) {
    if (origins->found >= origins->count) return false;
    const struct origin *row = &origins->row[origins->found], *next = row + 1;
    bool is_newest = origins->found + 1 == origins->count || next->key != row->key || next->time > start;
    return is_newest && row->key == place >> PAGE_SHIFT && row->time <= start && is_of(row, place);
}

const struct origin *origin_of_task(struct origins *origins, uint64_t place, uint64_t start, struct submitted *when) {
    if (place == 0) return NULL;
    uint64_t key = place >> PAGE_SHIFT;
    size_t i = is_found_again(origins, place, start) ? origins->found + 1 : rows_until(origins, key, start);
    for (; i > 0 && origins->row[i - 1].key == key; i--) {
        const struct origin *row = &origins->row[i - 1];
        if (!is_of(row, place)) continue;
        origins->found = i - 1;
        *when = submitted_within(origins, row, place, start);
        return row;
    }
    return NULL;
}

const struct origin *origin_before(const struct origins *origins, uint64_t key, uint64_t time) {
    size_t until = rows_until(origins, key, time);
    return until > 0 && origins->row[until - 1].key == key ? &origins->row[until - 1] : NULL;
}

const struct origin *origin_of_wake(const struct origins *origins, uint64_t sent) {
    size_t until = rows_until(origins, ORIGIN_WAKES, sent);
    for (size_t i = until; i > 0 && until - i < WAKES_AT_ONCE; i--) {
        const struct origin *row = &origins->row[i - 1];
        if (row->key == ORIGIN_WAKES && sent - row->time <= row->place) return row;
    }
    return NULL;
}
