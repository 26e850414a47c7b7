/* rooms.c: where the rooms meet. No room calls one above it: what the rooms above have for sched is bound here, by tables
 * that the linker fills in. They are constants, so a call through them costs one load, and a pool that a test makes has
 * them too. Leave a line out, and the pool works without what it names. */
#include "observe/observe.h"
#include "patterns/patterns.h"
#include "predict/predict.h"

const struct sources sources = {.count = 2, .of = {&loop_source, &fork_source}};

const struct predict_hooks predict = {
    .made = topology_configure,
    .timed = tasks_timed,
    .let_ahead = tasks_let_ahead,
    .suffices = poll_suffices,
    .poll = poll_work,
    .before_park = place_before_park,
    .after_park = place_after_park,
    .plan = ready_plan,
    .woken = ready_woken,
    .moved = topology_moved,
    .look_out = look_out,
    .scouted = ready_scouted,
    .step_ticks = ready_step_ticks,
    .recurs = ready_recur,
};

const struct observe_hooks observe = {
    .start = observer_start,
    .end = observer_end,
    .run = observer_run,
    .node = observer_node,
    .span = observer_span,
    .wake = observer_wake,
    .submits = observer_submits,
};
