/* wait.c: requests waited for without spinning; what ranks agree on; the end after an error. */
#include "dist.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define POLL_NS_MAX UINT64_C(1000000)
#define TURNS_AWAKE 16u /* tests before a wait sleeps in between */

uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t ns_of(uint64_t ms) { return ms > UINT64_MAX / 1000000 ? UINT64_MAX : ms * 1000000; }

void dist_abort(weft_dist *dist, const char *what, int code) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (code != MPI_SUCCESS && MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
    fprintf(stderr, "weft_dist: rank %d of %d: %s%s%.*s; the job is aborted\n", dist->rank, dist->ranks, what,
            length > 0 ? ": " : "", length, text);
    fflush(stderr);
    alarm(5); /* where the abort itself cannot reach anybody */
    MPI_Abort(dist->comm, 1);
    _exit(1);
}

void dist_must(weft_dist *dist, int code, const char *what) {
    if (code != MPI_SUCCESS) dist_abort(dist, what, code);
}

bool dist_test(weft_dist *dist, MPI_Request *request, const char *what) {
    int done = 1;
    if (*request != MPI_REQUEST_NULL) dist_must(dist, MPI_Test(request, &done, MPI_STATUS_IGNORE), what);
    return done != 0;
}

void dist_progress(weft_dist *dist) {
    int flag;
    dist_must(dist, MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, dist->comm, &flag, MPI_STATUS_IGNORE), "MPI cannot work");
}

void dist_nap(weft_dist *dist, unsigned *turn) {
    watch_say(dist, false);
    watch_look(dist);
    if (++*turn <= TURNS_AWAKE) {
        sched_yield();
        return;
    }
    long ns = (long)poll_ns(dist);
    const struct timespec time = {ns / 1000000000, ns % 1000000000};
    nanosleep(&time, NULL);
}

void dist_await(weft_dist *dist, const char *what) {
    unsigned turn = 0;
    while (!dist_test(dist, &dist->request, what)) dist_nap(dist, &turn);
}

/* How long a wait for the pool may sleep. Others need rank 0 alone; another rank needs MPI while something of its own is on its
 * way. What has run for long may be asked less often: others ask for work no more often than this rank does. */
static uint64_t sleep_ns(const weft_dist *dist, uint64_t waited_ns) {
    if (dist->is_near || (dist->rank != 0 && dist->saying == MPI_REQUEST_NULL)) return LOOK_NS;
    uint64_t least = poll_ns(dist), step = waited_ns / 16;
    if (step > POLL_NS_MAX) step = POLL_NS_MAX;
    return step > least ? step : least;
}

int dist_await_group(weft_dist *dist, weft_group *group, uint64_t wait_ns) {
    uint64_t begin = now_ns(), end = wait_ns == 0 ? UINT64_MAX : begin + wait_ns;
    for (;;) {
        uint64_t now = now_ns(), until = now + sleep_ns(dist, now - begin);
        if (until > end) until = end;
        int error = weft_group_wait_until(dist->pool, group, WEFT_HELP_NONE, until);
        if (error != WEFT_ETIMEDOUT) return error;
        if (!dist->is_near) dist_progress(dist);
        watch_say(dist, false);
        watch_look(dist);
        if (now_ns() >= end) return error;
    }
}

struct run {
    int (*fn)(void *);
    void *payload;
    int result;
};

static int run_task(void *payload, weft_worker *self) {
    struct run *run = *(struct run **)payload;
    (void)self;
    run->result = run->fn(run->payload);
    return 0;
}

int dist_run(weft_dist *dist, int (*fn)(void *), void *payload) {
    struct run run = {fn, payload, WEFT_OK}, *place = &run;
    weft_group group = WEFT_GROUP_INIT;
    int error = weft_submit(dist->pool, &group, run_task, &place, sizeof place);
    if (error != WEFT_OK) return error;
    error = dist_await_group(dist, &group, 0);
    return error != WEFT_OK ? error : run.result;
}

bool dist_enter(weft_dist *dist) { return !atomic_exchange_explicit(&dist->is_inside, true, memory_order_acquire); }

int dist_leave(weft_dist *dist, int error) {
    atomic_store_explicit(&dist->is_inside, false, memory_order_release);
    return error;
}

/* ---- agreeing ------------------------------------------------------------------------------------------------------ */

static void outcomes_gather(weft_dist *dist, const struct outcome *mine) {
    const char *what = "the ranks cannot agree";
    uint64_t words[OUTCOME_WORDS];
    memcpy(words, mine, sizeof words);
    if (dist->is_near) {
        near_meet(dist, words);
        return;
    }
    dist_must(dist,
              MPI_Iallgather(words, OUTCOME_WORDS, MPI_UINT64_T, dist->outcomes, OUTCOME_WORDS, MPI_UINT64_T, dist->comm,
                             &dist->request),
              what);
    dist_await(dist, what);
}

int dist_agree(weft_dist *dist, struct outcome outcome) {
    struct outcome lowest = outcome;
    outcomes_gather(dist, &outcome);
    for (int rank = 0; rank < dist->ranks; rank++)
        if (dist->outcomes[rank].key < lowest.key) lowest = dist->outcomes[rank];
    return lowest.key == KEY_NONE ? WEFT_OK : (int)lowest.error;
}

uint64_t sum_add(uint64_t sum, uint64_t value) { return (sum ^ value) * UINT64_C(0x100000001b3) + (sum >> 29); }

static void counter_reset(weft_dist *dist) {
    const uint64_t first = (uint64_t)dist->ranks; /* the chunks before are there already: one for each rank */
    const char *what = "the counter cannot be reset";
    if (dist->rank != 0) return;
    if (dist->is_near) {
        word_store(dist, WORD_NEXT, first);
        return;
    }
    dist_must(dist, MPI_Accumulate(&first, 1, MPI_UINT64_T, 0, WORD_NEXT, 1, MPI_UINT64_T, MPI_REPLACE, dist->window), what);
    dist_must(dist, MPI_Win_flush(0, dist->window), what);
}

/* The least of each word, of all ranks. */
static void least_find(weft_dist *dist, const uint64_t mine[OUTCOME_WORDS], uint64_t least[OUTCOME_WORDS]) {
    const char *what = "the ranks cannot meet";
    if (!dist->is_near) {
        dist_must(dist, MPI_Iallreduce(mine, least, OUTCOME_WORDS, MPI_UINT64_T, MPI_MIN, dist->comm, &dist->request), what);
        dist_await(dist, what);
        return;
    }
    near_meet(dist, mine);
    memcpy(least, mine, sizeof(struct outcome));
    for (int rank = 0; rank < dist->ranks; rank++) {
        uint64_t words[OUTCOME_WORDS];
        memcpy(words, &dist->outcomes[rank], sizeof words);
        for (int i = 0; i < OUTCOME_WORDS; i++)
            if (words[i] < least[i]) least[i] = words[i];
    }
}

int dist_begin(weft_dist *dist, uint64_t sum, int error) {
    sum = sum_add(sum, dist->call + 1);
    const uint64_t mine[OUTCOME_WORDS] = {sum, ~sum, error == WEFT_OK ? 1 : 0};
    uint64_t least[OUTCOME_WORDS];
    counter_reset(dist); /* nobody fetches: all have ended the call before */
    watch_enter(dist);
    least_find(dist, mine, least);
    dist->has_met = true;
    dist->unheard_ns = 0;
    if (least[0] != ~least[1]) return WEFT_EINVAL;
    if (least[2] == 1) return WEFT_OK;
    return dist_agree(dist, (struct outcome){error == WEFT_OK ? KEY_NONE : (uint64_t)dist->rank, error, 0});
}
