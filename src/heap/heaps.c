/* heaps.c: what all heaps of the process share. heap_life.c writes it; heap_api.c and heap_check.c write the
 * configuration. */
#include "heap/heap.h"

PROCESS_STATE struct heaps heaps;
