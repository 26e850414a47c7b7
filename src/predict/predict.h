/* predict.h: the room's door: the functions that src/rooms.c binds to sched's hooks (sched/hooks.h says when each is called).
 *
 * predict/ is for guesses: when work comes (expect.c), how long tasks take (tasks.c), what a wake-up costs and which worker
 * should poll instead of sleeping (idle.c), on which CPU to sleep (place.c, affinity.c).
 *
 * What may not be touched: a pool works with wrong guesses and without any. So nothing here decides what runs, counts tasks,
 * or is relied on for a wake-up. The results that sched reads are fields of sched's (pool->tiny, short, spin_now, from_cpu;
 * seat->task_ticks, timed_lane, timed_ticks, searcher_ticks, runs_on; the lane's tiny). All other state is in state.h, which only
 * this room reads. */
#ifndef WEFT_PREDICT_H
#define WEFT_PREDICT_H

#include "sched/sched.h"

/* idle.c */
bool poll_suffices(const struct weft_worker *seat, const struct park_view *view);
enum poll_end poll_work(struct weft_worker *seat, bool is_searcher, uint64_t *since);
uint64_t ready_plan(struct weft_worker *seat, uint64_t told_ns);
void ready_woken(struct weft_worker *seat);
void ready_searched(struct weft_worker *seat, bool came);
void ready_recur(struct weft_worker *seat, uint64_t since, uint64_t start, uint64_t end);
void look_out(struct weft_worker *seat);

/* tasks.c */
void tasks_timed(struct weft_worker *seat, struct lane *lane, uint64_t ticks, uint64_t tasks);
void tasks_let_ahead(struct weft_worker *seat);

/* place.c */
void place_before_park(struct weft_worker *seat);
void place_after_park(struct weft_worker *seat, bool was_woken);
void place_moved(struct weft_worker *seat);

#endif
