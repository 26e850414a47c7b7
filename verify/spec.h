/* spec.h: what weft.h promises, as code (spec*.c). Each function looks at one call, or at one task, and fails the run when
 * weft.h does not allow what it sees. */
#ifndef WEFT_VERIFY_SPEC_H
#define WEFT_VERIFY_SPEC_H

#include "play.h"

/* ---- knowledge ---------------------------------------------------------------------------------------------------- */

void known_add(mask *known, uint32_t number);
bool known_has(const mask *known, uint32_t number);
void known_join(mask *known, const shared_mask *more);
void known_tell(shared_mask *known, const mask *more);

/* ---- tasks -------------------------------------------------------------------------------------------------------- */

void spec_submits(struct frame *frame, struct batch *batch);
void spec_submit_begins(const struct frame *frame, struct batch *batch);
void spec_submitted(const struct frame *frame, struct batch *batch, uint32_t slot, int error);
void spec_task_begins(struct frame *frame, uint32_t number);
void spec_task_ends(struct frame *frame, uint32_t number, int code);
void spec_task_cleaned(uint32_t number);
/* spec_await.c: weft_submit_await is about to be called; has told the task; has returned 1. */
void spec_awaits(const struct frame *frame, struct batch *batch, struct group *after);
void spec_told(uint32_t number, int result, bool has_ended);
void spec_await_needless(const struct frame *frame, const struct batch *batch, const struct group *after);
/* Why it must not have returned WEFT_OK, or NULL. */
const char *await_is_needless(const struct frame *frame, const struct group *after);
void spec_await_cancelled(const struct frame *frame, const struct group *group);
/* The frame's wait has ended the group, which no other frame has used, with that result. */
void spec_await_ended(const struct frame *frame, const struct group *group, int result);
/* A task begins that awaits a group. */
void spec_await_begins(uint32_t number);
struct account *account_of(uint32_t serial);
/* A piece of a loop, a forked call or a node begins on the calling thread. */
void spec_part_begins(const struct frame *frame);

/* Does the one lie in the other, or run on top of what does? Then it ends first (regions.c). */
bool region_is_inside(const struct region *region, const struct region *outer);

/* A number for a group's relations, until it ends. */
uint8_t relations_begin(void);
void relations_end(uint8_t number);

/* ---- groups ------------------------------------------------------------------------------------------------------- */

struct wait {
    enum weft_help help;
    uint64_t until_ns;
    bool was_justified; /* WEFT_EDEADLK, when it began */
};
void spec_wait_begins(struct frame *frame, struct group *group, struct wait *wait);
void spec_wait_returns(struct frame *frame, struct group *group, const struct wait *wait, int error);
void spec_cancelled(struct frame *frame, struct group *group, int error);
void spec_deadline_begins(const struct frame *frame, const struct group *group);
void spec_deadline_set(struct frame *frame, struct group *group, uint8_t when, int error);
void spec_boosted(const struct frame *frame, struct group *group, int error);
void spec_stale(const char *call, int error);
/* The frame has no group, or its group was cancelled at some time. */
bool may_be_cancelled(const struct group *group);
/* The calling thread is in a task of the group. The frame has opened the group. */
bool stands_on(const struct frame *frame, const struct group *group);
bool is_local_of(const struct frame *frame, const struct group *group);

/* ---- loops, graphs, the pool -------------------------------------------------------------------------------------- */

void spec_loop(const struct frame *frame, const struct op *op, const uint32_t *runs, int error);
uint64_t reduce_combine(uint64_t left, uint64_t right);
uint64_t reduce_leaf(uint64_t begin, uint64_t end);
bool spec_reduced(const struct op *op, uint64_t result);
void spec_graph_begins(struct frame *frame, struct graph *graph, uint32_t *active);
void spec_node_begins(struct frame *frame, struct node *node);
void spec_graph_returns(struct frame *frame, struct graph *graph, uint32_t active, int error);
/* Every task that was submitted has been run, or cleaned. */
void spec_all_ended(const char *when);

#endif
