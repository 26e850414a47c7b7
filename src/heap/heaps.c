/* heaps.c: what all heaps of the process share. Who writes it: heap_life.c, and of the configuration heap_api.c and heap_check.c. */
#include "heap/heap.h"

PROCESS_STATE struct heaps heaps;
