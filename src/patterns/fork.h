/* fork.h: forked calls that other threads take. Layer 6. The protocol is in fork.c. */
#ifndef WEFT_FORK_H
#define WEFT_FORK_H

#include "patterns/loop.h"

/* Which calls may be taken. `accepts`: those of groups whose record it accepts, as in lane_claim. `inside`: those forked in
 * a body of a loop that it accepts, or in such a call. No filter, or neither: any. */
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

/* Takes a call that a seat offers. With `force`, also one that its thread has not offered because it is busy with a long
 * call. */
bool fork_find(struct weft_worker *seat, bool force, const struct fork_filter *filter, struct fork_call *call);
/* Takes a call below the call of slot `here`, which another thread runs, or inside a loop below it; or enters such a
 * loop. */
bool fork_find_below(struct weft_worker *seat, weft_fork_slot *here, bool force, struct fork_help *help);
void fork_run(struct weft_worker *seat, struct fork_call *call);
/* Runs the help; a loop only until `until_ns`, 0: to its end. */
void fork_help_run(struct weft_worker *seat, struct fork_help *help, uint64_t until_ns);

/* Might there be a call to take? `force`: as in fork_find. Any thread. */
bool forks_are_open(const weft_pool *pool, bool force);
/* Asks every thread that forks calls which the filter accepts to offer its oldest. */
void forks_ask(const weft_pool *pool, const struct fork_filter *filter);
/* As forks_ask, for a thread about to sleep: whatever is forked from now on will be offered, and a sleeper woken. */
void forks_ask_firmly(const weft_pool *pool, const struct fork_filter *filter);

/* Detached calls: nobody waits for a detached call that another thread has taken. Its function first of all calls
 * fork_detach: from then on the call is a task of its region's group, counted there, and the slot belongs to its thread
 * again. Such calls are forked by weft_fork_slot_push, but not in a chunk's last slot (fork_is_full). fork_retake takes them
 * back, newest first; the argument is then in the payload. */

/* Begins a region for the seat's frame and returns its first slot. NULL: no memory. */
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
/* Another thread asks, and calls have been forked from `first` to before `here`: offers the oldest that is still there.
 * Returns the slot for the next fork, which may be lower: it goes back over done calls that were taken. */
weft_fork_slot *fork_answer(weft_fork_slot *first, weft_fork_slot *here);

#endif
