/* load.c: what is done when the library is loaded. Layer 1.
 *
 * The kernel registers a process for its barrier (fence.c) in a microsecond while the process has one thread, and otherwise
 * in some 10 ms, because it waits until every CPU has switched threads. If this file has not registered the process, os_init
 * does. The malloc library leaves this file out: it is loaded into any program, even one whose seccomp filter kills it for
 * an unknown call. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__GLIBC__) && __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>

__attribute__((constructor)) static void on_load(void) {
    const char *wish = secure_getenv("WEFT_FENCE");
    int saved = errno;
    if (__libc_single_threaded && (wish == NULL || strcmp(wish, "full") != 0))
        syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
    errno = saved;
}
#endif
