/* loop.c: weft_dist_for: chunks fetched one by one.
 *
 * Where ranks share memory a task of the pool fetches them itself, each when the one before has ended. So a rank that finds none
 * left knows that every other one has at most the chunk that it runs.
 *
 * Else only the calling thread may fetch, and that takes a while: up to two chunks are in the pool at a time. A flight is a chunk
 * that is there, as a task whose group the calling thread waits for. Before one should end, by what the one before took, and by
 * twice the time that fetching takes, the next is queued behind it, so that workers go from one to the other. Not earlier: a rank
 * whose processor is slow would have hoarded work. Near the end of the row none is queued ahead, for another rank may be without
 * work by then. So a rank has at most two when another one finds none left, the second only if the first takes longer than was
 * expected.
 *
 * The first chunk of each rank is that of its number: nobody has to ask for it. */
#include "dist.h"
#include "row.h"

#define FLIGHTS 2u
#define GRAINS_PER_WORKER 64u

struct flight {
    const struct loop *loop;
    weft_dist *dist;
    weft_range range;
    weft_group group;
    int error;
    bool has_run;
    uint64_t ahead_ns; /* when the next is to be fetched; 0: when this has ended */
    uint64_t begin_ns;
    uint64_t end_ns;
};

/* One call on one rank. */
struct course {
    weft_dist *dist;
    const struct loop *loop;
    struct row row;
    struct flight flights[FLIGHTS]; /* a ring: tasks know theirs by its address */
    unsigned first;
    unsigned count;
    struct piece last; /* that was fetched */
    bool has_begun;    /* near_task has */
    bool is_over;      /* nothing more is fetched */
    bool has_stopped;  /* the others were told so */
    uint64_t next;     /* fetched */
    MPI_Request fetching;
    uint64_t asked_ns; /* when it was asked for */
    struct outcome outcome;
    uint64_t begin_ns;
    uint64_t end_ns;
    double index_ns; /* what an index took in the last chunk; 0: not known */
};

static const uint64_t one_more = 1, no_more = NO_MORE;

static bool is_cancelled(const weft_dist *dist) { return atomic_load_explicit(&dist->cancelled, memory_order_acquire); }

/* ---- in the pool --------------------------------------------------------------------------------------------------- */

static void flight_run(struct flight *flight) {
    if (is_cancelled(flight->dist)) return;
    flight->begin_ns = now_ns();
    flight->error = weft_for(flight->dist->pool, flight->range, flight->loop->body, flight->loop->context);
    flight->end_ns = now_ns();
    flight->has_run = true;
}

static int flight_task(void *payload, weft_worker *self) {
    (void)self;
    flight_run(*(struct flight **)payload);
    return 0;
}

/* ---- fetching ------------------------------------------------------------------------------------------------------ */

static void fetch_begin(struct course *course) {
    weft_dist *dist = course->dist;
    course->asked_ns = now_ns();
    dist_must(dist,
              MPI_Rget_accumulate(&one_more, 1, MPI_UINT64_T, &course->next, 1, MPI_UINT64_T, 0, WORD_NEXT, 1, MPI_UINT64_T,
                                  MPI_SUM, dist->window, &course->fetching),
              "the next chunk cannot be fetched");
}

static struct flight *flight_at(struct course *course, unsigned index) {
    return &course->flights[(course->first + index) % FLIGHTS];
}

/* Nobody is to begin a chunk any more, as far as it is told in time. */
static void stop(struct course *course) {
    weft_dist *dist = course->dist;
    course->is_over = true;
    if (course->has_stopped) return;
    course->has_stopped = true;
    if (dist->is_near) {
        word_add(dist, WORD_NEXT, NO_MORE);
        return;
    }
    uint64_t before;
    dist_must(dist,
              MPI_Rget_accumulate(&no_more, 1, MPI_UINT64_T, &before, 1, MPI_UINT64_T, 0, WORD_NEXT, 1, MPI_UINT64_T,
                                  MPI_SUM, dist->window, &dist->request),
              "the other ranks cannot be stopped");
    dist_await(dist, "the other ranks cannot be stopped");
}

/* Flights above the chunk that failed need not begin; those below have to end. */
static void fail(struct course *course, uint64_t key, int error) {
    if (key < course->outcome.key) course->outcome = (struct outcome){key, error, 0};
    for (unsigned i = 0; i < course->count; i++) {
        struct flight *flight = flight_at(course, i);
        if (key == KEY_CANCELLED || flight->range.begin > key) weft_group_cancel(course->dist->pool, &flight->group);
    }
    stop(course);
}

static weft_range range_of(const struct course *course, struct piece piece) {
    const weft_range *all = &course->loop->range;
    weft_range range = {all->begin + piece.begin * all->grain, all->end, all->grain};
    if (piece.end < course->row.grains) range.end = all->begin + piece.end * all->grain;
    return range;
}

/* The oldest flight begins about now, if there is one. */
static void hold_first(struct course *course) {
    struct flight *first = flight_at(course, 0);
    watch_hold(course->dist, course->count == 0 ? 0 : first->range.begin + 1);
    double expected_ns = course->index_ns * (double)(first->range.end - first->range.begin);
    if (course->count == 0 || expected_ns <= 0) return;
    double rest_ns = expected_ns - 2 * course->dist->fetch_ns;
    first->ahead_ns = now_ns() + (rest_ns > 0 ? (uint64_t)rest_ns : 0);
}

static void launch(struct course *course, struct piece piece) {
    struct flight *flight = flight_at(course, course->count);
    *flight = (struct flight){.loop = course->loop, .dist = course->dist, .range = range_of(course, piece)};
    int error = weft_submit(course->dist->pool, &flight->group, flight_task, &flight, sizeof flight);
    if (error != WEFT_OK) {
        fail(course, flight->range.begin, error);
        return;
    }
    course->last = piece;
    if (course->count++ == 0) hold_first(course);
}

/* The number of the next chunk is there: is it one? That of a call that was stopped is too large. */
static bool fetched(struct course *course, struct piece *piece) {
    if (!course->is_over && course->next < NO_MORE && row_find(&course->row, course->next, piece)) return true;
    course->is_over = true;
    return false;
}

/* ---- one chunk after the other -------------------------------------------------------------------------------------- */

static void flight_note(struct course *course, const struct flight *flight) {
    weft_dist_counts *counts = &course->dist->counts;
    if (!flight->has_run && is_cancelled(course->dist)) fail(course, KEY_CANCELLED, WEFT_ECANCELED);
    if (!flight->has_run) return;
    uint64_t ns = flight->end_ns - flight->begin_ns;
    if (course->begin_ns == 0) course->begin_ns = flight->begin_ns;
    course->end_ns = flight->end_ns;
    counts->chunks++;
    counts->indices += flight->range.end - flight->range.begin;
    course->index_ns = (double)ns / (double)(flight->range.end - flight->range.begin);
    if (ns > counts->longest_ns) counts->longest_ns = ns;
    if (flight->error != WEFT_OK) fail(course, flight->range.begin, flight->error);
}

static void land(struct course *course) {
    struct flight flight = *flight_at(course, 0);
    course->first = (course->first + 1) % FLIGHTS;
    course->count--;
    flight_note(course, &flight);
    hold_first(course);
}

/* Until the next chunk is to be fetched while one runs. */
static uint64_t ahead_in_ns(const struct course *course) {
    const struct flight *first = &course->flights[course->first];
    uint64_t now = now_ns();
    if (first->ahead_ns == 0 || !row_is_long(&course->row, course->last)) return UINT64_MAX;
    return first->ahead_ns > now ? first->ahead_ns - now : 0;
}

static bool may_fetch(const struct course *course) {
    if (course->is_over || course->fetching != MPI_REQUEST_NULL) return false;
    return course->count == 0 || (course->count < FLIGHTS && ahead_in_ns(course) == 0);
}

/* Until a fetch is asked after again, while a chunk runs: half of what fetches take, then a quarter of what this one has taken. */
static uint64_t fetch_wait_ns(const struct course *course) {
    uint64_t least = poll_ns(course->dist), half = (uint64_t)course->dist->fetch_ns / 2;
    uint64_t taken = now_ns() - course->asked_ns, step = taken < half ? half - taken : taken / 4;
    return step > least ? step : least;
}

/* One step: something fetched, something finished, or some time slept. False: this rank has nothing left. */
static bool course_step(struct course *course, unsigned *turn) {
    weft_dist *dist = course->dist;
    struct piece piece;
    if (!course->is_over && is_cancelled(dist)) fail(course, KEY_CANCELLED, WEFT_ECANCELED);
    if (may_fetch(course)) fetch_begin(course);
    bool is_fetching = course->fetching != MPI_REQUEST_NULL;
    if (is_fetching && dist_test(dist, &course->fetching, "the next chunk cannot be fetched")) {
        *turn = 0;
        dist->fetch_ns += ((double)(now_ns() - course->asked_ns) - dist->fetch_ns) / 4;
        if (fetched(course, &piece)) launch(course, piece);
        return true;
    }
    if (course->count == 0 && is_fetching) dist_nap(dist, turn);
    if (course->count == 0) return is_fetching || !course->is_over;
    uint64_t wait_ns = is_fetching ? fetch_wait_ns(course) : LOOK_NS;
    uint64_t ahead_ns = course->count == 1 && !course->is_over ? ahead_in_ns(course) : UINT64_MAX;
    if (ahead_ns > 0 && ahead_ns < wait_ns) wait_ns = ahead_ns;
    if (dist_await_group(dist, &flight_at(course, 0)->group, wait_ns) != WEFT_ETIMEDOUT) land(course);
    return true;
}

/* ---- where ranks share memory -------------------------------------------------------------------------------------- */

/* All chunks that this rank gets, in one task. */
static int near_task(void *payload, weft_worker *self) {
    struct course *course = *(struct course **)payload;
    weft_dist *dist = course->dist;
    struct piece piece;
    (void)self;
    course->has_begun = true;
    for (course->next = (uint64_t)dist->rank; fetched(course, &piece); course->next = word_add(dist, WORD_NEXT, 1)) {
        struct flight flight = {.loop = course->loop, .dist = dist, .range = range_of(course, piece)};
        watch_hold(dist, flight.range.begin + 1);
        flight_run(&flight);
        flight_note(course, &flight);
    }
    watch_hold(dist, 0);
    return 0;
}

static void near_run(struct course *course) {
    weft_dist *dist = course->dist;
    weft_group group = WEFT_GROUP_INIT;
    int error = weft_submit(dist->pool, &group, near_task, &course, sizeof course);
    if (error != WEFT_OK) {
        fail(course, course->loop->range.end - 1, error);
        return;
    }
    while (dist_await_group(dist, &group, LOOK_NS) == WEFT_ETIMEDOUT)
        if (is_cancelled(dist)) weft_group_cancel(dist->pool, &group);
    if (!course->has_begun) fail(course, KEY_CANCELLED, WEFT_ECANCELED);
}

/* ---- where they do not --------------------------------------------------------------------------------------------- */

static void far_run(struct course *course) {
    struct piece first;
    unsigned turn = 0;
    course->next = (uint64_t)course->dist->rank;
    if (fetched(course, &first)) launch(course, first);
    while (course_step(course, &turn)) {}
}

/* ---- the call ------------------------------------------------------------------------------------------------------ */

struct outcome loop_run(weft_dist *dist, const struct loop *loop) {
    size_t indices = loop->range.end - loop->range.begin, grain = loop->range.grain;
    struct course course = {.dist = dist, .loop = loop, .fetching = MPI_REQUEST_NULL, .outcome = {KEY_NONE, WEFT_OK, 0}};
    /* One rank alone has nobody to leave anything to: the pool balances what it has. */
    course.row = (struct row){indices / grain + (indices % grain != 0), 2 * (size_t)dist->workers_most,
                              dist->ranks == 1 ? 1 : 2 * (size_t)dist->ranks, 0, 0};
    dist->counts = (weft_dist_counts){.struct_size = sizeof dist->counts};
    (dist->is_near ? near_run : far_run)(&course);
    /* Also when nothing was left that it kept from running. */
    if (is_cancelled(dist) && course.outcome.key == KEY_NONE)
        course.outcome = (struct outcome){KEY_CANCELLED, WEFT_ECANCELED, 0};
    dist->counts.busy_ns = course.end_ns - course.begin_ns;
    return course.outcome;
}

/* The ranks' agreement; a wish to cancel is served by it, or went down with the call. */
int loop_end(weft_dist *dist, struct outcome outcome) {
    uint64_t begin = now_ns();
    int error = dist_agree(dist, outcome);
    dist->counts.wait_ns = now_ns() - begin;
    if (error != WEFT_OK) atomic_store_explicit(&dist->cancelled, false, memory_order_relaxed);
    return error;
}

static int for_all(weft_dist *dist, weft_range range, weft_range_fn body, void *context) {
    int error = body == NULL || range.begin > range.end ? WEFT_EINVAL : WEFT_OK;
    error = dist_begin(dist, sum_add(sum_add(sum_add(1, range.begin), range.end), range.grain), error);
    if (error != WEFT_OK || range.begin == range.end) return error;
    size_t parts = (size_t)dist->workers_all * GRAINS_PER_WORKER, indices = range.end - range.begin;
    if (range.grain == 0) range.grain = indices / parts + (indices % parts != 0);
    const struct loop loop = {range, body, context};
    struct outcome outcome = loop_run(dist, &loop);
    return loop_end(dist, outcome);
}

int weft_dist_for(weft_dist *dist, weft_range range, weft_range_fn body, void *context) {
    if (dist == NULL) return WEFT_EINVAL;
    if (!dist_enter(dist)) return WEFT_EDEADLK;
    return dist_leave(dist, for_all(dist, range, body, context));
}
