/* fork.h: forked calls that other threads take. Layer 6. The protocol is in fork.c. */
#ifndef WEFT_FORK_H
#define WEFT_FORK_H

#include "patterns/loop.h"

/* Whose calls may be taken: those of groups whose record it accepts, as in lane_claim; with `inside`, those forked in a
 * body of a loop that this accepts, or in such a call. No filter, or neither: anybody's. */
struct fork_filter {
    lane_filter accepts;
    const void *context;
    bool (*inside)(const void *context, const struct loop *loop);
};

/* A call that the finder has taken: it must run it. */
struct fork_call {
    weft_fork_slot *slot;
    weft_fork_fn fn;
    bool is_detached;
};

/* Work other than tasks that a waiting thread has taken and must run: a loop that it has entered, or a call. */
struct fork_help {
    struct loop *loop;
    uint32_t number; /* its number as a helper of the loop; 0: it is the call */
    struct fork_call call;
};

/* The position after the head of the seat's present chunk, and so after all chunks before it; 0: the seat has no chunk. */
uint64_t fork_position(const struct weft_worker *seat);
/* Wakes every thread that sleeps in a join, so that it checks whether it can help. */
void fork_wake_joins(const weft_pool *pool);

/* Takes a call that a seat offers. With `force`, also one that its thread has not offered because it is busy with a long call. */
bool fork_find(struct weft_worker *seat, bool force, const struct fork_filter *filter, struct fork_call *call);
/* The same of a call below the one of that slot, which another thread runs, or inside a loop below it; or enters such a
 * loop. */
bool fork_find_below(struct weft_worker *seat, weft_fork_slot *here, bool force, struct fork_help *help);
void fork_run(struct weft_worker *seat, struct fork_call *call);
/* The loop no longer than until that time; 0: to its end. */
void fork_help_run(struct weft_worker *seat, struct fork_help *help, uint64_t until_ns);

/* Might there be something to take? `force` as above. Any thread. */
bool forks_are_open(const weft_pool *pool, bool force);
/* Asks every thread that forks such calls to offer its oldest. */
void forks_ask(const weft_pool *pool, const struct fork_filter *filter);
/* The same by one that is about to sleep: whatever is forked from now on will be offered and somebody woken. */
void forks_ask_firmly(const weft_pool *pool, const struct fork_filter *filter);

/* Detached calls: nobody waits for one that another thread has taken. Its function calls fork_detach before all else:
 * then it is a task of its region's group, counted there, and the slot is its thread's again. Forked by weft_fork_slot_push,
 * the chunk's last slot (fork_is_full) excepted; taken back, the newest first, by fork_retake, the argument then is in
 * the payload. */

/* Begins a region for the seat's frame; its first slot. NULL: no memory. */
weft_fork_slot *fork_enter(struct weft_worker *seat);
void fork_leave(weft_fork_slot *first);
INLINE bool fork_is_full(const weft_fork_slot *here) { return (uintptr_t)(here + 1) % WEFT_FORK_CHUNK == 0; }
void fork_detach(struct weft_worker *seat);
/* false: another thread has taken it. */
INLINE bool fork_retake(weft_fork_slot *here) { return !weft_fork_slot_pop(here) || !weft_fork_join_slow(here, NULL, 0); }
INLINE bool fork_is_asked(const weft_fork_slot *here) {
    const struct weft_fork_chunk *chunk = (const void *)((uintptr_t)here & ~(uintptr_t)(WEFT_FORK_CHUNK - 1));
    return weft_load_rlx(&chunk->limit) < here;
}
/* Somebody asks, and forks have been made from `first` to before `here`: offers the oldest that is there still. Returns
 * the slot for the next fork, after having passed back over those that were taken. */
weft_fork_slot *fork_answer(weft_fork_slot *first, weft_fork_slot *here);

#endif
