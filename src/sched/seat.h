/* seat.h: the seats of a pool's threads, and spares. Layer 4. */
#ifndef WEFT_SEAT_H
#define WEFT_SEAT_H

#include "sched/worker.h"

/* The calling thread's seat, taken on first use. NULL: *error is WEFT_EAGAIN, WEFT_ENOMEM or WEFT_EFORK. Takes locks when
 * the thread has no seat yet or last used another pool. */
struct weft_worker *seat_find(weft_pool *pool, int *error);

/* By the seat's own thread (lanes.c): one of its lanes that is empty, to be bound to a group; in an ordered pool the only one, empty
 * or not. NULL: no memory. */
struct lane *lanes_get(struct weft_worker *seat);
/* Hides its newest lanes, as far as they are empty. No group is bound to them after. */
void lanes_hide(struct weft_worker *seat);

/* The calling thread, a worker until its os_self says no more, ends the process with a word should it end before. */
void seat_watch(void);

/* By who makes a pool and ends it. The seat of that index, which it makes; NULL: no memory. Its thread: 0, or a negative code. */
struct weft_worker *seat_make(weft_pool *pool, uint32_t index);
int seat_start_thread(weft_pool *pool, struct weft_worker *seat);
/* The pools that live; the pool gets its id. After a fork there are none. */
void registry_add(weft_pool *pool);
void registry_remove(weft_pool *pool);
void registry_forked(void);
/* The thread's seat in that pool, or NULL. It need not remember that one any more. */
struct weft_worker *seat_of(const os_self *self, const weft_pool *pool);
void seat_forget(os_self *self, const weft_pool *pool);

/* Spares: threads that run tasks while others cannot. As many are wanted as workers and spares are in sections; more when
 * so many workers are held up, asleep inside a task until another thread has done something, that nobody would be left:
 * what they sleep for may wait in a section, also of a thread from outside, for a task that is queued. */
uint32_t pool_spares_wanted(const weft_pool *pool);
uint32_t pool_spares_most(const weft_pool *pool);
/* A worker always is. */
INLINE bool spare_is_wanted(const struct weft_worker *seat) {
    return seat->index < seat->pool->workers_max || seat->index - seat->pool->workers_max < pool_spares_wanted(seat->pool);
}
/* Might one more be had for who is about to sleep? */
bool pool_spare_may_come(const weft_pool *pool);
/* A worker is not to be had for a while: a spare stands in, started if need be. Whether there are as many as wanted. */
bool pool_stand_in(weft_pool *pool);
void pool_stand_down(weft_pool *pool);
/* One more runs a background task: where no worker is left for others, now or later, spares stand in. */
void pool_stand_aside(weft_pool *pool);
/* Sleeps in that pool; a thread of another one, inside a task, is in a section there meanwhile. */
void pool_wait(const weft_pool *pool, os_word *word, uint32_t value, uint64_t deadline_ns);
/* About to wait inside a task: what it has claimed and not begun may be taken at once. False: there is nothing. And after. */
bool rest_offer(struct weft_worker *seat);
void rest_keep(struct weft_worker *seat);
/* The seat's thread sleeps in a join, a loop or a wait until its wait_event is no longer `event`, or the deadline (0: none).
 * That holds up a worker or a spare that is in no section; threads from outside are counted apart. */
void pool_sleep(struct weft_worker *seat, uint32_t event, uint64_t deadline_ns);
/* Gives free pages back. */
void pool_purge(weft_pool *pool);
/* Is a worker or a spare neither in a section nor held up? */
bool pool_has_runner(const weft_pool *pool);
/* Starts and wakes the spares that are wanted. Whether there are as many. Any thread. */
bool pool_call_spares(weft_pool *pool);

#endif
