/* libwebp on the process's pool, in programs that are not changed: linked in beside libwebp, this is installed before main.
 *
 * Compiled with -I of libwebp's source (src/utils/thread_utils.h), of weft's include and of adapters. The pool is made when
 * libwebp first has work for a thread. If the environment's settings are wrong, libwebp keeps its own threads. */
#include "src/utils/thread_utils.h"

#include <hooks/webp.h>

__attribute__((constructor)) static void install(void) { (void)weft_webp_install_late(); }
