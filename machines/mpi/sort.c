/* sort.c: weft_dist_sort: each rank sorts its own items; samples of all say where the sorted whole is to be cut, one part for each
 * rank; each rank merges the part it gets, by a stable sort of pieces that come in the order of the ranks; at last the parts are moved
 * so that each rank has as many items as before (regular sampling: H. Shi, J. Schaeffer, "Parallel sorting by regular sampling",
 * JPDC 1992, doi:10.1016/0743-7315(92)90075-X).
 *
 * Items that compare equal are told apart by where they lie: rank, then place. So there are no equal ones, no part is larger than
 * about twice its share, and the outcome is the one that a stable sort has. With very many ranks or large items there are fewer
 * samples, so that they fit into SAMPLES_BYTES: then parts are less alike, and the outcome is the same. */
#include "dist.h"

#include <limits.h>
#include <string.h>

enum { SAMPLES_BYTES = 64 << 20 }; /* on each rank; one sample of each rank in any case */

/* Where an item lies after its rank has sorted its own. */
struct origin {
    uint64_t rank;
    uint64_t place;
};

struct sort {
    weft_dist *dist;
    const weft_order *order;
    unsigned char *items;
    size_t count;
    size_t stride;    /* of a sample: the item, its origin */
    size_t origin;    /* where in a sample that is */
    uint64_t *counts; /* of each rank's items; then of its part */
    unsigned char *samples;
    size_t sample_count;
    unsigned char *part;
    size_t part_count;
    int *numbers; /* four for each rank: to send, from where; to receive, to where */
};

static int sort_items(void *payload) {
    const struct sort *sort = payload;
    return weft_sort(sort->dist->pool, sort->items, sort->count, sort->order);
}

static int sort_part(void *payload) {
    const struct sort *sort = payload;
    return weft_sort(sort->dist->pool, sort->part, sort->part_count, sort->order);
}

static int agree(weft_dist *dist, int error) {
    return dist_agree(dist, (struct outcome){error == WEFT_OK ? KEY_NONE : (uint64_t)dist->rank, error, 0});
}

static int *numbers(const struct sort *sort, int which) { return sort->numbers + (ptrdiff_t)which * sort->dist->ranks; }

/* ---- samples ------------------------------------------------------------------------------------------------------- */

static int origin_compare(struct origin left, struct origin right) {
    if (left.rank != right.rank) return left.rank < right.rank ? -1 : 1;
    return left.place < right.place ? -1 : left.place > right.place;
}

static int sample_compare(const void *left, const void *right, void *context) {
    const struct sort *sort = context;
    struct origin one, other;
    int order = sort->order->compare(left, right, sort->order->context);
    if (order != 0) return order;
    memcpy(&one, (const unsigned char *)left + sort->origin, sizeof one);
    memcpy(&other, (const unsigned char *)right + sort->origin, sizeof other);
    return origin_compare(one, other);
}

/* As many of each rank, in distances that are equal: of rank r all that it has, if it has no more. */
static size_t samples_of(const struct sort *sort, uint64_t count) {
    size_t ranks = (size_t)sort->dist->ranks, wish = 4 * ranks, room = SAMPLES_BYTES / ranks / sort->stride;
    if (wish > room) wish = room > 0 ? room : 1;
    return count < wish ? (size_t)count : wish;
}

static int samples_gather(struct sort *sort) {
    weft_dist *dist = sort->dist;
    size_t mine = samples_of(sort, sort->count), all = 0, before = 0;
    const char *what = "the samples cannot be exchanged";
    for (int rank = 0; rank < dist->ranks; rank++) {
        size_t its = samples_of(sort, sort->counts[rank]);
        numbers(sort, 2)[rank] = (int)(its * sort->stride);
        numbers(sort, 3)[rank] = (int)(all * sort->stride);
        if (rank < dist->rank) before += its;
        all += its;
    }
    int error = all * sort->stride > INT_MAX ? WEFT_EINVAL : WEFT_OK; /* the same on every rank */
    sort->sample_count = all;
    if (error == WEFT_OK) sort->samples = weft_alloc((all + 1) * sort->stride);
    if (error == WEFT_OK && sort->samples == NULL) error = WEFT_ENOMEM;
    error = agree(dist, error);
    if (error != WEFT_OK || sort->samples == NULL) return error;
    for (size_t i = 0; i < mine; i++) {
        struct origin origin = {(uint64_t)dist->rank, sort->count / mine * i + sort->count % mine * i / mine};
        unsigned char *sample = sort->samples + (before + i) * sort->stride;
        memcpy(sample, sort->items + origin.place * sort->order->size, sort->order->size);
        memcpy(sample + sort->origin, &origin, sizeof origin);
    }
    dist_must(dist,
              MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, sort->samples, numbers(sort, 2), numbers(sort, 3), MPI_BYTE,
                              dist->comm, &dist->request),
              what);
    dist_await(dist, what);
    const weft_order order = {sort->stride, sample_compare, sort};
    return agree(dist, weft_sort(dist->pool, sort->samples, all, &order));
}

/* ---- cutting ------------------------------------------------------------------------------------------------------- */

/* How many of this rank's items come before a sample. */
static size_t items_before(const struct sort *sort, const unsigned char *sample) {
    size_t low = 0, high = sort->count;
    struct origin origin;
    memcpy(&origin, sample + sort->origin, sizeof origin);
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = sort->order->compare(sort->items + mid * sort->order->size, sample, sort->order->context);
        if (order == 0) order = origin_compare((struct origin){(uint64_t)sort->dist->rank, mid}, origin);
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Items for each rank; an order that contradicts itself must not make them less than none. */
static int cuts_make(const struct sort *sort) {
    int ranks = sort->dist->ranks, *sends = numbers(sort, 0), *places = numbers(sort, 1);
    size_t begin = 0;
    if (sort->count > INT_MAX) return WEFT_EINVAL;
    for (int rank = 0; rank < ranks; rank++) {
        size_t end = sort->count;
        if (rank + 1 < ranks && sort->sample_count > 0)
            end = items_before(sort, sort->samples + sort->sample_count * (size_t)(rank + 1) / (size_t)ranks * sort->stride);
        if (end < begin) end = begin;
        places[rank] = (int)begin;
        sends[rank] = (int)(end - begin);
        begin = end;
    }
    return WEFT_OK;
}

static void numbers_exchange(const struct sort *sort, size_t *total) {
    weft_dist *dist = sort->dist;
    dist_must(dist, MPI_Ialltoall(numbers(sort, 0), 1, MPI_INT, numbers(sort, 2), 1, MPI_INT, dist->comm, &dist->request),
              "no counts");
    dist_await(dist, "no counts");
    *total = 0;
    for (int rank = 0; rank < dist->ranks; rank++) {
        numbers(sort, 3)[rank] = (int)*total;
        *total += (size_t)numbers(sort, 2)[rank];
    }
}

static void items_exchange(const struct sort *sort, const void *from, void *to) {
    weft_dist *dist = sort->dist;
    MPI_Datatype item;
    const char *what = "the items cannot be exchanged";
    dist_must(dist, MPI_Type_contiguous((int)sort->order->size, MPI_BYTE, &item), what);
    dist_must(dist, MPI_Type_commit(&item), what);
    dist_must(dist,
              MPI_Ialltoallv(from, numbers(sort, 0), numbers(sort, 1), item, to, numbers(sort, 2), numbers(sort, 3), item,
                             dist->comm, &dist->request),
              what);
    dist_await(dist, what);
    dist_must(dist, MPI_Type_free(&item), what);
}

/* ---- the parts go home --------------------------------------------------------------------------------------------- */

static uint64_t overlap(uint64_t begin, uint64_t end, uint64_t from, uint64_t to) {
    uint64_t low = begin > from ? begin : from, high = end < to ? end : to;
    return low < high ? high - low : 0;
}

/* counts[0..] of items as they were, counts[ranks..] of parts: which of this rank's part belong to whom, and whose parts have what
 * belongs here. */
static void homes_find(const struct sort *sort) {
    int ranks = sort->dist->ranks, me = sort->dist->rank;
    const uint64_t *before = sort->counts, *parts = sort->counts + ranks;
    uint64_t my_part = 0, my_items = 0, part = 0, items = 0, sent = 0, got = 0;
    for (int rank = 0; rank < me; rank++) {
        my_items += before[rank];
        my_part += parts[rank];
    }
    for (int rank = 0; rank < ranks; rank++) {
        uint64_t send = overlap(my_part, my_part + parts[me], items, items + before[rank]);
        uint64_t receive = overlap(my_items, my_items + before[me], part, part + parts[rank]);
        numbers(sort, 0)[rank] = (int)send;
        numbers(sort, 1)[rank] = (int)sent;
        numbers(sort, 2)[rank] = (int)receive;
        numbers(sort, 3)[rank] = (int)got;
        sent += send;
        got += receive;
        items += before[rank];
        part += parts[rank];
    }
}

static void counts_gather(const struct sort *sort, uint64_t mine, uint64_t *counts) {
    dist_must(sort->dist,
              MPI_Iallgather(&mine, 1, MPI_UINT64_T, counts, 1, MPI_UINT64_T, sort->dist->comm, &sort->dist->request),
              "no counts");
    dist_await(sort->dist, "no counts");
}

static int sort_run(struct sort *sort) {
    weft_dist *dist = sort->dist;
    counts_gather(sort, sort->count, sort->counts);
    int error = agree(dist, dist_run(dist, sort_items, sort));
    if (error != WEFT_OK || dist->ranks == 1) return error;
    error = samples_gather(sort);
    if (error != WEFT_OK) return error;
    error = agree(dist, cuts_make(sort));
    if (error != WEFT_OK) return error;
    numbers_exchange(sort, &sort->part_count);
    if (sort->part_count > INT_MAX) error = WEFT_EINVAL;
    sort->part = error == WEFT_OK ? weft_alloc((sort->part_count + 1) * sort->order->size) : NULL;
    if (error == WEFT_OK && sort->part == NULL) error = WEFT_ENOMEM;
    error = agree(dist, error);
    if (error != WEFT_OK) return error;
    items_exchange(sort, sort->items, sort->part);
    error = agree(dist, dist_run(dist, sort_part, sort));
    /* The items go home even if a part is not in order: nothing is lost. */
    counts_gather(sort, sort->part_count, sort->counts + dist->ranks);
    homes_find(sort);
    items_exchange(sort, sort->part, sort->items);
    int ended = agree(dist, WEFT_OK);
    return error != WEFT_OK ? error : ended;
}

static int sort_all(weft_dist *dist, void *items, size_t count, const weft_order *order) {
    bool is_sound = order != NULL && order->compare != NULL && order->size > 0 && order->size <= INT_MAX / 2 &&
                    (items != NULL || count == 0);
    if (is_sound && count > PTRDIFF_MAX / 2 / order->size) is_sound = false;
    size_t size = order != NULL ? order->size : 0, ranks = (size_t)dist->ranks;
    struct sort sort = {.dist = dist, .order = order, .items = items, .count = count};
    sort.origin = (size + 7) / 8 * 8;
    sort.stride = sort.origin + sizeof(struct origin);
    sort.counts = weft_alloc(2 * ranks * sizeof *sort.counts);
    sort.numbers = weft_alloc(4 * ranks * sizeof *sort.numbers);
    int error = !is_sound ? WEFT_EINVAL : sort.counts == NULL || sort.numbers == NULL ? WEFT_ENOMEM : WEFT_OK;
    error = dist_begin(dist, sum_add(3, size), error);
    if (error == WEFT_OK) error = sort_run(&sort);
    weft_free(sort.counts);
    weft_free(sort.numbers);
    weft_free(sort.samples);
    weft_free(sort.part);
    return error;
}

int weft_dist_sort(weft_dist *dist, void *items, size_t count, const weft_order *order) {
    if (dist == NULL) return WEFT_EINVAL;
    if (!dist_enter(dist)) return WEFT_EDEADLK;
    return dist_leave(dist, sort_all(dist, items, count, order));
}
