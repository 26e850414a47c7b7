/* seat.h: the seats of a pool's threads, and spares. Layer 4. */
#ifndef WEFT_SEAT_H
#define WEFT_SEAT_H

#include "sched/worker.h"

/* The calling thread's seat, taken on first use. NULL: *error is WEFT_EAGAIN, WEFT_ENOMEM or WEFT_EFORK. Takes locks when
 * the thread has no seat yet or last used another pool. */
struct weft_worker *seat_find(weft_pool *pool, int *error);

/* Called by the seat's own thread (lanes.c): an empty lane of the seat, to be bound to a group; in an ordered pool its only lane,
 * empty or not. NULL: no memory. */
struct lane *lanes_get(struct weft_worker *seat);
/* Hides the seat's newest lanes as far as they are empty. A hidden lane is bound to no group. */
void lanes_hide(struct weft_worker *seat);

/* Called by a worker's thread: if it ends while its os_self still says that it is a worker, the process ends with a message. */
void seat_watch(void);

/* Under the lock, or while the pool is made. Makes the seat of that index; NULL: no memory. Starts its thread: 0 or a negative
 * code. */
struct weft_worker *seat_make(weft_pool *pool, uint32_t index);
int seat_start_thread(weft_pool *pool, struct weft_worker *seat);
/* The registry of living pools. registry_add gives the pool its id. After a fork the registry is empty. */
void registry_add(weft_pool *pool);
void registry_remove(weft_pool *pool);
void registry_forked(void);
/* The thread's seat in that pool, or NULL. seat_forget: the thread need not remember its seat there any more. */
struct weft_worker *seat_of(const os_self *self, const weft_pool *pool);
void seat_forget(os_self *self, const weft_pool *pool);

/* Spares are threads that run tasks while others cannot. One is wanted for each worker and spare in a blocking section. More are
 * wanted if no worker would be left because the others are held up: asleep inside a task until another thread has done something.
 * That other thread, which may be an outside one, may itself wait in a section for a queued task. */
uint32_t pool_spares_wanted(const weft_pool *pool);
uint32_t pool_spares_most(const weft_pool *pool);
/* Might one more spare come for a thread that is about to sleep? */
bool pool_spare_may_come(const weft_pool *pool);
/* The caller cannot run tasks for a while: a spare stands in, and is started if necessary. Returns whether there are as many as
 * wanted. pool_stand_down ends this. */
bool pool_stand_in(const struct weft_worker *seat);
void pool_stand_down(const struct weft_worker *seat);
/* One more thread runs a background task: if no worker is left for other tasks, now or later, spares stand in. */
void pool_stand_aside(weft_pool *pool);
/* Sleeps on an event of that pool. If the caller runs a task of another pool, it is in a blocking section there meanwhile. */
void pool_wait(const weft_pool *pool, os_word *word, uint32_t value, uint64_t deadline_ns);
/* Is the calling thread inside a task of another pool? */
bool pool_is_visited(const weft_pool *pool);
/* Called before a wait inside a task: other threads may take the unstarted rest of the seat's claim at once. false: there is no
 * rest. rest_keep: called after the wait. */
bool rest_offer(struct weft_worker *seat);
void rest_keep(struct weft_worker *seat);
/* The seat's thread sleeps in a join, a loop or a wait until its wait_event is no longer `event`, or the deadline (0: none).
 * That holds up a worker or a spare that is in no section; outside threads are counted separately. */
void pool_sleep(struct weft_worker *seat, uint32_t event, uint64_t deadline_ns);
/* Is a worker or a spare neither in a section nor held up? */
bool pool_has_runner(const weft_pool *pool);
/* Starts and wakes the spares that are wanted. Returns whether there are as many. Any thread. */
bool pool_call_spares(weft_pool *pool);

#endif
