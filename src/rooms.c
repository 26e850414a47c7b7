/* rooms.c: where the rooms meet. No room calls a higher one by name: the functions that sched calls in higher rooms are bound
 * here, in tables that the linker fills in. The tables are constants, so a call through them costs one load. If a line is left
 * out, the pool works without the feature that it names. */
#include "observe/observe.h"
#include "patterns/patterns.h"
#include "predict/predict.h"

const struct sources sources = {.count = 2, .of = {&loop_source, &fork_source}};

const struct predict_hooks predict = {
    .timed = tasks_timed,
    .let_ahead = tasks_let_ahead,
    .suffices = poll_suffices,
    .poll = poll_work,
    .before_park = place_before_park,
    .after_park = place_after_park,
    .plan = ready_plan,
    .woken = ready_woken,
    .moved = place_moved,
    .look_out = look_out,
    .searched = ready_searched,
    .recurs = ready_recur,
};

const struct observe_hooks observe = {
    .start = observer_start,
    .end = observer_end,
    .forked = observer_forked,
    .run = observer_run,
    .node = observer_node,
    .span = observer_span,
    .wake = observer_wake,
    .submits = observer_submits,
};
