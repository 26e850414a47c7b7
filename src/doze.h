/* doze.h: the worker that looks around now and then so that others may sleep. Layer 4. */
#ifndef WEFT_DOZE_H
#define WEFT_DOZE_H

#include "worker.h"

/* Are as many awake as there are CPUs for brief tasks, and one more looks around now and then? Threads from outside count
 * while they submit, and while they wait and help, and one that did so last time counts from its submission on; not in a
 * bounded pool, where they may sleep until there is room. */
bool doze_suffices(const struct weft_worker *seat, const struct park_view *view);
/* Is it one of those beyond the CPUs, who may be that one? */
bool doze_may_guard(const struct weft_worker *seat);
/* What a dozing worker does; it is a scout after. Whether somebody woke it, from the sleep that began at *since (ticks). */
bool doze(struct weft_worker *seat, uint64_t *since);

#endif
