/* few_threads.h: a system that gives only so many threads, for tests linked with --wrap for os_thread_start. */
#ifndef WEFT_TESTS_FEW_THREADS_H
#define WEFT_TESTS_FEW_THREADS_H

#include "os/os.h"

#include <errno.h>

/* The names are the linker's choice. */
int __real_os_thread_start(os_thread *thread, const os_thread_options *options, void (*entry)(void *), void *argument);
int __wrap_os_thread_start(os_thread *thread, const os_thread_options *options, void (*entry)(void *), void *argument);

static int threads_left = -1; /* that the system gives; -1: any number */

int __wrap_os_thread_start(os_thread *thread, const os_thread_options *options, void (*entry)(void *), void *argument) {
    if (threads_left == 0) return EAGAIN;
    if (threads_left > 0) threads_left--;
    return __real_os_thread_start(thread, options, entry, argument);
}

#endif
