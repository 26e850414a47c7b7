/* libaom on the process's pool, in programs that are not changed: linked in before libaom.a, this is installed before main.
 *
 * Compiled with -I of libaom's source and of the folder where it was configured (aom_util/aom_thread.h,
 * config/aom_config.h), of weft's include and of adapters. The pool is made when libaom first has work for a thread. If the
 * environment's settings are wrong, libaom keeps its own threads. */
#include "aom_util/aom_thread.h"

#include <hooks/aom.h>

__attribute__((constructor)) static void install(void) { (void)weft_aom_install_late(); }
