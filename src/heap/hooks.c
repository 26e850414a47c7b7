/* hooks.c: see hooks.h. The tables are constants, so a call through them costs one load, and only on slow paths. */
#include "heap/hooks.h"

const struct pages_hooks pages_hooks = {.pressure_before = pressure_before};

const struct heap_hooks heap_hooks = {
    .large_alloc = large_alloc,
    .large_free = large_free,
    .private_free = private_free,
    .private_large_end = private_large_end,
    .check_alloc = check_alloc,
    .check_free = check_free,
    .check_flush = check_flush,
    .check_alloc_in = check_alloc_in,
    .check_free_in = check_free_in,
    .check_forget = check_forget,
    .check_renew = check_renew,
    .misuse_look = misuse_look,
    .misuse_sized = misuse_sized,
    .misuse_found = misuse_found,
    .sampling_alloc = sampling_alloc,
    .sampling_large = sampling_large,
    .sampling_lift = sampling_lift,
    .sampling_lower = sampling_lower,
    .sampling_has = sampling_has,
    .sampling_free = sampling_free,
    .sampling_end = sampling_end,
    .sampling_resize = sampling_resize,
};
