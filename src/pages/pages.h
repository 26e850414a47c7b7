/* pages.h: the room's door: address space for the heap, in segments of slots and in ranges, and what of it is free.
 *
 * pages/ needs only os/; the use of a slot is heap's business. depot.c has the segments and their free slots, kept.c the
 * freed ranges, and records.c the mappings in use. heads.c tells whether an address belongs to the heap. poke.c wakes the purge thread. mode.c says which
 * checks the heap makes.
 *
 * What may not be touched: the heads of segments stay mapped for ever, so a thread may read a slot's descriptor late
 * (depot.h). The ordering tables are at the heads of depot.c, heads.c, kept.c, poke.c and records.c. */
#ifndef WEFT_PAGES_H
#define WEFT_PAGES_H

#include "pages/depot.h"
#include "pages/heads.h"
#include "pages/kept.h"
#include "pages/mode.h"
#include "pages/poke.h"
#include "pages/records.h"

#endif
