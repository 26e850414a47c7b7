/* front.h: the front, which no room calls: creation and end of pools (pool.c), their configuration (config.c), real-time
 * policies (policy.c), and the tables that connect the rooms (rooms.c). */
#ifndef WEFT_FRONT_H
#define WEFT_FRONT_H

#include "sched/sched.h"

#define STACK_SIZE_MIN 16384u /* weft_config.stack_size */
#define SLICE_NS_MIN 100000   /* weft_config.slice_ns, the kernel's bounds */
#define SLICE_NS_MAX 100000000

/* Reads the caller's configuration (NULL: the default) into *whole. Returns the name of the first wrong field, or NULL. */
const char *config_read(weft_config *whole, const weft_config *config);
bool slice_is_sound(int64_t slice_ns);
/* The variable's text. NULL: it is not set, or empty, or the program has more rights than its caller (set-user-ID): the text may
 * name files. */
const char *variable(const char *name);
/* The path that WEFT_LEASE names; NULL: none. */
const char *lease_path(const char *text);
/* A pool without a thread, from a configuration that was checked. NULL: no memory. */
weft_pool *pool_make(const weft_config *config);

/* Are the configuration's scheduling wishes possible together? */
bool policy_is_sound(const weft_config *config);
/* Called when the pool's configuration has no defaults left; policy_started: when all its workers have begun. */
void policy_configure(weft_pool *pool);
void policy_started(weft_pool *pool);
/* Policies as text, in the form of WEFT_POLICY: "fifo:10" and so on. */
bool policy_parse(weft_config *config, const char *text);
void policy_format(const weft_config *config, char *text, size_t size);

#endif
