/* lanes.h: the lanes of a seat. Layer 4. The protocol is in lanes.c. Called by the seat's own thread. */
#ifndef WEFT_LANES_H
#define WEFT_LANES_H

#include "sched/worker.h"

/* One of the seat's lanes that is empty, to be bound to a group; in an ordered pool the only one, empty or not. NULL: no
 * memory. */
struct lane *lanes_get(struct weft_worker *seat);
/* Hides the newest lanes, as far as they are empty. No group is bound to them after. */
void lanes_hide(struct weft_worker *seat);

#endif
