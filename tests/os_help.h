/* os_help.h: threads and system calls that fail, for the tests of what asks the system. After _GNU_SOURCE. */
#ifndef WEFT_TESTS_OS_HELP_H
#define WEFT_TESTS_OS_HELP_H

#include "help.h"
#include "os/os.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

static const os_thread_options plain; /* as the creator */

static inline os_thread start_thread(void (*entry)(void *), void *argument) {
    os_thread thread = {0};
    REQUIRE(os_thread_start(&thread, &plain, entry, argument) == 0);
    return thread;
}

#define ANY_SECOND UINT32_MAX

/* From now on the system call fails in this process with that error, when its second argument is that. false: no filters. */
static inline bool forbid_call(uint32_t number, uint32_t second, uint32_t error) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, second, 0, second == ANY_SECOND ? 0 : 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof rules / sizeof rules[0], rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

#endif
