/* front.h: the front, which no room calls: creation and end of pools (pool.c), their configuration (config.c), real-time policies
 * (policy.c), and the tables that connect the rooms (rooms.c). */
#ifndef WEFT_FRONT_H
#define WEFT_FRONT_H

#include "sched/sched.h"

#define STACK_SIZE_MIN 16384u /* weft_config.stack_size */
#define SLICE_NS_MIN 100000   /* weft_config.slice_ns, the kernel's bounds */
#define SLICE_NS_MAX 100000000

/* The caller's configuration (NULL: the default), of this version's size. The name of the first field that is wrong, or NULL. */
const char *config_read(weft_config *whole, const weft_config *config);
bool slice_is_sound(int64_t slice_ns);
/* What it says, or NULL: it is not set, or empty. Not what the caller of a program with more rights than its own (set-user-ID)
 * says: it may name files. */
const char *variable(const char *name);
/* A pool without a thread, from a configuration that was checked. NULL: no memory. */
weft_pool *pool_make(const weft_config *config);

/* Are the configuration's wishes possible together? */
bool policy_is_sound(const weft_config *config);
/* When the pool's configuration has no defaults left; and when all its workers have begun. */
void policy_configure(weft_pool *pool);
void policy_started(weft_pool *pool);
/* "fifo:10" and so on, as WEFT_POLICY has it. */
bool policy_parse(weft_config *config, const char *text);
void policy_format(const weft_config *config, char *text, size_t size);

#endif
