/* dist.h: what the files of libweft-mpi share; include/weft_dist.h says how it works.
 *
 *   dist.c     opening and closing
 *   wait.c     waiting without spinning, agreeing, errors of MPI
 *   near.c     meeting where ranks share memory
 *   watch.c    who lives, who holds what
 *   row.h      the row of chunks
 *   loop.c     weft_dist_for
 *   reduce.c   weft_dist_reduce
 *   sort.c     weft_dist_sort
 *
 * The window is rank 0's, words of 64 bits: first the number of the next chunk, then three for each rank, which it alone writes:
 * the call it is in, 1 + the first index of the chunk it runs, how often it has said that it lives. Where ranks share memory
 * what near.c has in it follows. */
#ifndef WEFT_DIST_INTERNAL_H
#define WEFT_DIST_INTERNAL_H

#include <weft_dist.h>

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>

#define WORD_NEXT 0
#define RANK_WORDS 3
#define WORD_OF(rank) (1 + RANK_WORDS * (MPI_Aint)(rank))
#define OUTCOME_WORDS 3
#define MAIL_BYTES 8192u           /* of a reduction's nodes, from a rank to all, where memory is shared */
#define LOOK_NS UINT64_C(20000000) /* between two looks of a rank that nobody needs */
#define KEY_NONE UINT64_MAX        /* nothing has failed */
#define KEY_CANCELLED (UINT64_MAX - 1)

/* Added to the number of the next chunk, by each rank at most once: there is none. Above the numbers of all chunks, which are
 * fewer than 200 for each rank (row.h), on up to 20 million ranks; what all ranks add does not come round to these. */
#define NO_MORE (UINT64_C(1) << 32)
_Static_assert(NO_MORE <= UINT64_MAX / INT_MAX / 2, "all ranks stop the others");

/* How a call ends on one rank; the lowest key of all wins. */
struct outcome {
    uint64_t key;
    int64_t error;
    uint64_t brings; /* nodes of a reduction that this rank has to send */
};
_Static_assert(sizeof(struct outcome) == OUTCOME_WORDS * sizeof(uint64_t), "an outcome travels as words");

/* What rank 0 has seen of another rank; or another rank, where memory is shared, of rank 0. */
struct seen {
    uint64_t words[RANK_WORDS];
    uint64_t silent_ns; /* that this rank was awake and did not hear of it */
    uint64_t since_ns;  /* since when it has had its chunk, or not come */
    uint64_t named_ns;  /* when it was last named; 0: not for this chunk */
};

struct weft_dist {
    weft_pool *pool;
    MPI_Comm comm;
    MPI_Request request; /* that the calling thread waits for */
    MPI_Win window;
    uint64_t *words;          /* of the window; NULL on ranks that do not share rank 0's memory */
    struct outcome *outcomes; /* of all ranks */
    int rank;
    int ranks;
    unsigned workers_all;
    unsigned workers_most; /* of one rank */
    bool is_near;          /* all ranks share memory, and the window: it is used without MPI */
    weft_dist_config config;
    atomic_bool cancelled;
    atomic_bool is_inside; /* a collective call */
    weft_dist_counts counts;
    double fetch_ns;   /* what fetching a chunk takes, the last times most */
    uint64_t call;     /* number of the collective call */
    uint64_t meetings; /* of near.c */
    uint64_t held;     /* as watch_hold; unused where memory is shared */
    uint64_t held_ns;  /* since when */
    uint64_t beat;
    uint64_t said_ns;
    uint64_t awake_ns;         /* when this rank last looked around */
    uint64_t unheard_ns;       /* that it has been awake since rank 0 should have answered */
    bool has_met;              /* all ranks are in this call */
    uint64_t said[RANK_WORDS]; /* on its way */
    uint64_t unsaid[RANK_WORDS];
    MPI_Request saying;
    struct seen *seen; /* of all ranks, on rank 0; of rank 0, elsewhere */
    uint64_t *look;    /* on its way */
    MPI_Request looking;
    uint64_t looked_ns;
};

static inline uint64_t poll_ns(const weft_dist *dist) { return (uint64_t)dist->config.poll_us * 1000; }

/* ---- wait.c ---- */

uint64_t now_ns(void);
uint64_t ns_of(uint64_t ms); /* UINT64_MAX: more than that can say */
/* An error of MPI, or a rank that is gone: says so and ends the job. Does not return. */
void dist_abort(weft_dist *dist, const char *what, int code) __attribute__((noreturn));
void dist_must(weft_dist *dist, int code, const char *what); /* aborts unless MPI_SUCCESS */
bool dist_test(weft_dist *dist, MPI_Request *request, const char *what);
void dist_await(weft_dist *dist, const char *what); /* until dist->request is done */
void dist_progress(weft_dist *dist);                /* lets MPI work */
void dist_nap(weft_dist *dist, unsigned *turn);     /* between two tests; *turn 0 at first */
/* Sleeps until the group has finished, letting MPI work meanwhile, at most for wait_ns (0: for ever). WEFT_OK, WEFT_ETIMEDOUT. */
int dist_await_group(weft_dist *dist, weft_group *group, uint64_t wait_ns);
/* Runs fn(payload) in the pool, for what takes long. Returns what it does, or an error of weft_submit. */
int dist_run(weft_dist *dist, int (*fn)(void *), void *payload);

/* Around every collective call: false, when the caller is inside one. */
bool dist_enter(weft_dist *dist);
int dist_leave(weft_dist *dist, int error); /* returns it */

int dist_agree(weft_dist *dist, struct outcome outcome); /* dist->outcomes has every rank's then */
/* Begins a collective call: `sum` of its arguments must be the same everywhere. WEFT_OK, or WEFT_EINVAL, or the error that any
 * rank brings along. */
int dist_begin(weft_dist *dist, uint64_t sum, int error);
uint64_t sum_add(uint64_t sum, uint64_t value);

/* Words of a window that is shared memory. */
static inline uint64_t word_add(weft_dist *dist, MPI_Aint word, uint64_t value) {
    return __atomic_fetch_add(&dist->words[word], value, __ATOMIC_RELAXED);
}
static inline void word_store(weft_dist *dist, MPI_Aint word, uint64_t value) {
    __atomic_store_n(&dist->words[word], value, __ATOMIC_RELAXED);
}
static inline uint64_t word_load(const weft_dist *dist, MPI_Aint word) {
    return __atomic_load_n(&dist->words[word], __ATOMIC_RELAXED);
}

/* ---- near.c ---- */

size_t near_words(int ranks); /* of the window, with everything */
/* Waits until all ranks have come with their three words; those of all are in dist->outcomes then. */
void near_meet(weft_dist *dist, const uint64_t mine[OUTCOME_WORDS]);
/* A rank's MAIL_BYTES. What it writes before a meeting others may read behind it, until they come to the next one. */
unsigned char *near_mail(const weft_dist *dist, int rank);

/* ---- watch.c ---- */

void watch_enter(weft_dist *dist); /* after dist_begin's agreement has begun to be waited for */
void watch_say(weft_dist *dist, bool now);
void watch_hold(weft_dist *dist, uint64_t held); /* 1 + first index of the chunk that runs here; 0: none */
void watch_look(weft_dist *dist);
void watch_end(weft_dist *dist); /* nothing is on its way when it returns */

/* ---- loop.c ---- */

struct loop {
    weft_range range; /* grain set */
    weft_range_fn body;
    void *context;
};
struct outcome loop_run(weft_dist *dist, const struct loop *loop);
int loop_end(weft_dist *dist, struct outcome outcome);

#endif
