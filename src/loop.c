/* loop.c: a range of indices, run by the caller and by whoever comes to help.
 *
 * Chunks are handed out in rising order from one counter, so when a chunk fails, every chunk below it has been handed out
 * already and runs to its end: the error of the lowest index is the loop's.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   R1  loop_as_guest: light fence     light    P4  a caller from outside uses a pool that destroy has found empty
 *   R2  loop_take: CAS next            relaxed  -   split: a chunk runs twice
 *   R3  loop_as_guest: guests - 1      release  P10 the pool's memory goes while the caller still uses it; split: destroy waits for
 *                                               ever, or not at all
 */
#include "pool.h"

struct loop {
    weft_range_fn body;
    void *context;
    const struct record *record; /* of the group whose task called, or NULL */
    size_t end;
    size_t grain;
    ATOMIC(size_t) next;   /* first index not handed out yet */
    ATOMIC(size_t) failed; /* the lowest chunk that failed begins here */
    ATOMIC(int) error;     /* its error */
    os_mutex lock;         /* of the last two */
};

static void loop_fail(struct loop *loop, size_t begin, int error) {
    os_lock(&loop->lock);
    if (load_rlx(&loop->error) == 0 || begin < load_rlx(&loop->failed)) {
        store_rlx(&loop->failed, begin);
        store_rlx(&loop->error, error);
    }
    os_unlock(&loop->lock);
}

static bool loop_is_cancelled(const struct loop *loop) {
    return loop->record != NULL && (load_rlx(&loop->record->id) & ID_CANCELLED) != 0;
}

/* The next chunk: from *begin to before *end. false: there is none, or none may start. */
static bool loop_take(struct loop *loop, size_t *begin, size_t *end) {
    size_t next = load_rlx(&loop->next);
    do {
        if (next == loop->end || load_rlx(&loop->error) != 0 || loop_is_cancelled(loop)) return false;
        *end = loop->end - next > loop->grain ? next + loop->grain : loop->end;
    } while (!cas_rlx(R2, &loop->next, &next, *end));
    *begin = next;
    return true;
}

static void loop_run(struct loop *loop, struct weft_worker *seat) {
    size_t begin;
    size_t end;
    while (loop_take(loop, &begin, &end)) {
        int error = loop->body(begin, end, loop->context, seat);
        if (error != 0) loop_fail(loop, begin, error);
    }
}

static int loop_task(void *payload, weft_worker *self) {
    loop_run(*(struct loop **)payload, self);
    return 0;
}

/* Runs the loop on the calling thread and on workers that have nothing else to do. */
static void loop_share(struct loop *loop, struct weft_worker *seat) {
    weft_pool *pool = seat->pool;
    weft_group group = WEFT_GROUP_INIT;
    size_t chunks = (loop->end - load_rlx(&loop->next)) / loop->grain;
    size_t helpers = min_u64(chunks, load_rlx(&pool->workers));
    if (pool->ordered || pool->config.queue_max != 0) helpers = 0;
    while (helpers > 0 && weft_submit(pool, &group, loop_task, &loop, sizeof(struct loop *)) == WEFT_OK) helpers--;
    loop_run(loop, seat);
    weft_wait(pool, &group);
}

static int loop_result(const struct loop *loop) {
    if (load_rlx(&loop->error) != 0) return load_rlx(&loop->error);
    return load_rlx(&loop->next) == loop->end ? WEFT_OK : WEFT_ECANCELED;
}

/* A pool whose own threads alone may run anything: one of them calls. */
static int loop_hand_over(struct loop *loop, weft_pool *pool) {
    weft_group group = WEFT_GROUP_INIT;
    int error = weft_submit(pool, &group, loop_task, &loop, sizeof(struct loop *));
    if (error == WEFT_OK) error = weft_wait(pool, &group);
    return error == WEFT_OK ? loop_result(loop) : error;
}

/* A caller from outside counts as a guest and runs in a frame, as a task would. */
static int loop_as_guest(struct loop *loop, struct weft_worker *seat) {
    weft_pool *pool = seat->pool;
    int error = WEFT_ESHUTDOWN;
    add_rlx(&pool->guests, 1);
    os_fence_light(R1);
    if (!load_rlx(&pool->closed)) {
        struct frame frame;
        frame_push(seat, &frame);
        loop_share(loop, seat);
        frame_pop(seat);
        error = loop_result(loop);
    }
    add_rel(R3, &pool->guests, UINT32_MAX);
    return error;
}

int weft_for(weft_pool *pool, weft_range range, weft_range_fn body, void *context) {
    if (pool == NULL || body == NULL || range.begin > range.end) return WEFT_EINVAL;
    if (pool->fork_count != os_fork_count()) return WEFT_EFORK;
    int error = WEFT_OK;
    struct weft_worker *seat = seat_find(pool, &error);
    if (seat == NULL) return error;
    struct loop loop = {.body = body, .context = context, .end = range.end, .grain = range.grain};
    store_rlx(&loop.next, range.begin);
    if (loop.grain == 0) loop.grain = (range.end - range.begin) / (8 * (size_t)load_rlx(&pool->workers)) + 1;
    if (seat->frame == NULL && (pool->config.flags & WEFT_NO_HELP) != 0) return loop_hand_over(&loop, pool);
    if (seat->frame == NULL) return loop_as_guest(&loop, seat);
    loop.record = seat->frame->record;
    loop_share(&loop, seat);
    return loop_result(&loop);
}
