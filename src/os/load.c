/* load.c: what is done when the library is loaded. Layer 1.
 *
 * The kernel registers a process for its barrier (fence.c) in a microsecond while it has one thread, else in some 10 ms: it
 * waits for all CPUs to have changed threads. os_init registers it where this has not. The malloc library does not have this
 * file, for it is put under any program, also those whose filter ends them for an unknown call. */
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
