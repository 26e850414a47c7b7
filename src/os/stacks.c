/* stacks.c: another thread's stack. The thread is sent a signal and reports its own frames. Layer 1.
 *
 * The signal is SIGPROF: threads of pools block almost all others, and profilers know that it may come at any moment.
 * Signals that were not sent here go to the handler that was there before. Those sent here bear this library's mark, which a
 * second copy of the library does not know. The handler stays as long as the library: a thread that blocks the signal gets
 * it later.
 *
 * backtrace takes no lock from glibc 2.35 on. Older versions could hang in the handler, so there os_stack_of does not work.
 *
 * One thread is asked at a time. The word is the request's number and state:
 *
 *   Asker                                      Thread that is asked
 *     1. FREE -> SET (O20)                       1. ASKED -> TELLS (O22)
 *     2. the thread's number, SET -> ASKED (O21) 2. its frames
 *     3. the signal; sleeps until TOLD (O24)     3. TELLS -> TOLD (O23), wakes
 *     3. the signal; sleeps until TOLD (O24)     3. TELLS -> TOLD (O23), wakes
 *     4. no answer in time: ASKED -> FREE; or if TELLS, the thread goes on, and nobody is asked until the word is TOLD
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   O20  request_take: CAS word       acquire  O25  the frames of the last request are read while they are written
 *   O21  os_stack_of: store word      release  O22  another thread's request is answered
 *   O22  on_signal: load word         acquire  O21  see O21
 *   O23  on_signal: store word        release  O24  frames are read before they are written
 *   O24  is_told: load word           acquire  O23  see O23
 *   O25  os_stack_of: store word      release  O20  see O20
 *   O26  os_stack_of: CAS word        relaxed  -    survives: no frames are read
 *   O27  on_signal: CAS word          relaxed  -    survives: a number never comes twice, so the request is still the same
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 35)
#include <execinfo.h>
#define STACKS
#endif
#endif

#include "os/os.h"

#define OWN_FRAMES 2 /* the handler's, and that of the system's code that calls it */

enum {
    REQUEST_FREE,
    REQUEST_SET,
    REQUEST_ASKED,
    REQUEST_TELLS,
    REQUEST_TOLD,
    REQUEST_STEP = 8
}; /* the number counts in steps */

#if defined(STACKS)
static struct {
    os_word word;
    ATOMIC(uint32_t) thread;
    ATOMIC(bool) is_ready;
    os_mutex lock; /* held while the handler is installed */
    struct sigaction before;
    int count;
    void *frame[OS_FRAMES_MAX + OWN_FRAMES];
} stacks;

/* Gives the signal to the handler or the default action that was there before. */
static void pass_on(int signal, siginfo_t *info, void *context) {
    if ((stacks.before.sa_flags & SA_SIGINFO) != 0) {
        stacks.before.sa_sigaction(signal, info, context);
    } else if (stacks.before.sa_handler == SIG_DFL) {
        sigaction(signal, &stacks.before, NULL);
        syscall(SYS_tgkill, getpid(), (int)os_thread_id(), signal);
    } else if (stacks.before.sa_handler != SIG_IGN) {
        stacks.before.sa_handler(signal);
    }
}

/* Whether the signal was sent here, perhaps for a request that nobody waits for any more. If a process has reached its limit
 * of queued signals, the kernel delivers them without a mark or a sender. */
static bool is_ours(const siginfo_t *info) {
    if (info->si_code == SI_QUEUE) return info->si_value.sival_ptr == &stacks;
    return info->si_code == SI_USER && info->si_pid == 0;
}

static void on_signal(int signal, siginfo_t *info, void *context) {
    KEEP_ERRNO;
    uint32_t word = load_acq(O22, &stacks.word);
    bool is_own = is_ours(info);
    if (is_own && word % REQUEST_STEP == REQUEST_ASKED && load_rlx(&stacks.thread) == os_thread_id() &&
        cas_rlx(O27, &stacks.word, &word, word + REQUEST_TELLS - REQUEST_ASKED)) {
        stacks.count = backtrace(stacks.frame, OS_FRAMES_MAX + OWN_FRAMES);
        store_rel(O23, &stacks.word, word + REQUEST_TOLD - REQUEST_ASKED);
        os_wake(&stacks.word, 1);
    } else if (!is_own) {
        pass_on(signal, info, context);
    }
}

/* The handler blocks the signals that the previous one blocked, and runs on the alternate signal stack: threads of Go have
 * no other stack that is large enough. */
static int handler_set(void) {
    struct sigaction before, action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    if (sigaction(SIGPROF, NULL, &before) != 0) return errno;
    if (before.sa_sigaction == on_signal) return 0; /* in a forked child: the parent had got this far */
    action.sa_mask = before.sa_mask;
    stacks.before = before;
    return sigaction(SIGPROF, &action, NULL) == 0 ? 0 : errno;
}

/* The child has one thread: the parent's other threads no longer work on a request or install the handler. */
static void fork_child(void) {
    uint32_t word = load_rlx(&stacks.word);
    stacks.lock = (os_mutex){0};
    store_rlx(&stacks.word, word - word % REQUEST_STEP + REQUEST_STEP);
}

int os_stacks_begin(void) {
    void *frame[2];
    int error = 0;
    os_lock(&stacks.lock);
    if (!load_rlx(&stacks.is_ready)) {
        /* The first call of backtrace loads a library, which the handler must not do. */
        error = backtrace(frame, 2) > 0 ? pthread_atfork(NULL, NULL, fork_child) : ENOSYS;
        if (error == 0) error = handler_set();
        store_rlx(&stacks.is_ready, error == 0);
    }
    os_unlock(&stacks.lock);
    return error;
}

/* FREE -> SET. false: another thread is being asked. */
static bool request_take(uint32_t *word) {
    uint32_t found = load_rlx(&stacks.word);
    *word = found;
    if (found % REQUEST_STEP == REQUEST_TOLD) *word -= REQUEST_TOLD; /* a late answer: nobody waits for it any more */
    return *word % REQUEST_STEP == REQUEST_FREE && cas_acq(O20, &stacks.word, &found, *word + REQUEST_SET);
}

/* A closed library must leave no handler behind, nor a signal still to come: ignoring SIGPROF drops pending ones. If other
 * code has installed a handler since, that handler stays. After this, nobody can ask. If a request is under way, also at the
 * process's exit, SIGPROF stays ignored. */
__attribute__((destructor)) static void stacks_end(void) {
    struct sigaction now, ignore = {.sa_handler = SIG_IGN};
    uint32_t word;
    if (!load_rlx(&stacks.is_ready) || sigaction(SIGPROF, NULL, &now) != 0) return;
    if ((now.sa_flags & SA_SIGINFO) == 0 || now.sa_sigaction != on_signal) return;
    bool is_last = request_take(&word);
    sigaction(SIGPROF, &ignore, NULL);
    if (is_last) sigaction(SIGPROF, &stacks.before, NULL);
}

static int frames_take(uintptr_t frames[OS_FRAMES_MAX]) {
    int count = stacks.count - OWN_FRAMES;
    for (int i = 0; i < count; i++) frames[i] = (uintptr_t)stacks.frame[i + OWN_FRAMES];
    return count < 0 ? 0 : count;
}

/* Waits for the answer. false: there is none at the deadline. */
static bool is_told(uint32_t asked, uint64_t deadline_ns) {
    for (;;) {
        uint32_t word = load_acq(O24, &stacks.word);
        if (word == asked + REQUEST_TOLD - REQUEST_ASKED) return true;
        if (os_now_ns() >= deadline_ns) return false;
        os_wait(&stacks.word, word, deadline_ns);
    }
}

/* 0, or an OS_STACK_ value. */
static int request_send(uint32_t thread) {
    KEEP_ERRNO;
    siginfo_t info = {.si_signo = SIGPROF, .si_code = SI_QUEUE};
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_ptr = &stacks;
    bool is_sent = syscall(SYS_rt_tgsigqueueinfo, getpid(), (int)thread, SIGPROF, &info) == 0;
    return is_sent ? 0 : errno == ESRCH ? OS_STACK_GONE : OS_STACK_NONE;
}

int os_stack_of(uint32_t thread, uintptr_t frames[OS_FRAMES_MAX], uint64_t wait_ns) {
    if (!load_rlx(&stacks.is_ready)) return OS_STACK_NONE;
    uint32_t word;
    if (!request_take(&word)) return OS_STACK_BUSY;
    uint32_t asked = word + REQUEST_STEP + REQUEST_ASKED;
    store_rlx(&stacks.thread, thread);
    store_rel(O21, &stacks.word, asked);
    int result = request_send(thread);
    if (result == 0 && is_told(asked, os_now_ns() + wait_ns)) {
        result = frames_take(frames);
        store_rel(O25, &stacks.word, asked - REQUEST_ASKED);
        return result;
    }
    if (result == 0) result = OS_STACK_SILENT;
    cas_rlx(O26, &stacks.word, &asked, asked - REQUEST_ASKED); /* fails if the thread is reporting already */
    return result;
}
#else
int os_stacks_begin(void) { return ENOSYS; }

int os_stack_of(uint32_t thread, uintptr_t frames[OS_FRAMES_MAX], uint64_t wait_ns) {
    (void)thread, (void)frames, (void)wait_ns;
    return OS_STACK_NONE;
}
#endif
