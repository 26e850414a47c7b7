/* OpenAirInterface's answers of tasks on weft: replaces task_ans.c for either pool, with the host's own task_ans.h.
 *
 * The host has two forms: a flag for each task, and a join of an array of flags (2024); and a counter with a semaphore
 * (2025, where task_ans.h includes semaphore.h). In both, the answer is a futex word here. A join looks at the word for a
 * moment, then sleeps; the task that completes the last job wakes it. It does not poll. After the wake the task does not
 * touch *ans, which may be gone. A join of nothing returns at once. A join in a task of weft counts as blocking; crew.h says
 * what another thread does meanwhile, and when a join runs tasks. */
#define _GNU_SOURCE
#include "task_ans.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "assertions.h"

#include "../view.h"

#define LOOKS 200 /* before a join sleeps: the last task is often about to end */

/* From a pool in the same program (crew.h). The first runs some of the tasks that are waited for. The second runs tasks that
 * this thread has pushed and no thread has begun, until the answer is complete. The others go around a sleep. */
__attribute__((weak)) _Bool weft_oai_help(void);
__attribute__((weak)) void weft_oai_help_own(const void *answer, _Bool (*is_done)(const void *answer));
__attribute__((weak)) int weft_oai_sleep_begin(void);
__attribute__((weak)) void weft_oai_sleep_end(int how);

static void word_wake(_Atomic(int) *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0); }

/* The two forms: whether the word is complete, and the value that says that a thread sleeps. */
#ifdef SEM_FAILED
#define ANSWER_WORD counter
#define SLEEPS (1 << 30) /* a bit beside the number of jobs left */
static int is_complete(int value) { return (value & ~SLEEPS) == 0; }
static int with_sleeper(int value) { return value | SLEEPS; }
#else
#define ANSWER_WORD status
#define COMPLETE 1
#define SLEEPS 2
static int is_complete(int value) { return value == COMPLETE; }
static int with_sleeper(int value) {
    (void)value;
    return SLEEPS;
}
#endif

static int word_look(const _Atomic(int) *word) {
    int value = atomic_load_explicit(word, memory_order_acquire);
    for (int i = 0; i < LOOKS && !is_complete(value); i++) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#endif
        value = atomic_load_explicit(word, memory_order_acquire);
    }
    return value;
}

static void word_sleep(_Atomic(int) *word, int value) {
    while (!is_complete(value)) {
        const int wanted = with_sleeper(value);
        if (value == wanted)
            syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
        else if (!atomic_compare_exchange_strong_explicit(word, &value, wanted, memory_order_acquire, memory_order_acquire))
            continue;
        value = atomic_load_explicit(word, memory_order_acquire);
    }
}

static _Bool word_is_complete(const void *word) {
    return is_complete(atomic_load_explicit((const _Atomic(int) *)word, memory_order_acquire));
}

static void join_one(task_ans_t *ans) {
    _Atomic(int) *word = &ans->ANSWER_WORD;
    if (weft_oai_help_own != NULL) weft_oai_help_own(word, word_is_complete);
    if (is_complete(word_look(word))) return;
    if (!view_sleep_begin() && weft_oai_help != NULL) /* no thread stands in: the tasks joined may need this one */
        while (!is_complete(atomic_load_explicit(word, memory_order_acquire)) && weft_oai_help()) {}
    const int how = weft_oai_sleep_begin != NULL ? weft_oai_sleep_begin() : 0;
    word_sleep(word, atomic_load_explicit(word, memory_order_acquire));
    if (how != 0) weft_oai_sleep_end(how);
    view_sleep_end();
}

#ifdef SEM_FAILED

void init_task_ans(task_ans_t *ans, unsigned int num_jobs) {
    DevAssert(ans != NULL && num_jobs < SLEEPS);
    atomic_store_explicit(&ans->counter, (int)num_jobs, memory_order_relaxed);
}

void completed_many_task_ans(task_ans_t *ans, uint num_completed_jobs) {
    DevAssert(ans != NULL);
    const int before = atomic_fetch_sub_explicit(&ans->counter, (int)num_completed_jobs, memory_order_acq_rel);
    if ((before & SLEEPS) != 0 && is_complete(before - (int)num_completed_jobs)) word_wake(&ans->counter);
}

void join_task_ans(task_ans_t *arr) {
    DevAssert(arr != NULL);
    join_one(arr);
}

#else

void completed_task_ans(task_ans_t *task) {
    DevAssert(task != NULL);
    const int before = atomic_exchange_explicit(&task->status, COMPLETE, memory_order_acq_rel);
    AssertFatal(before != COMPLETE, "a task was completed twice\n");
    if (before == SLEEPS) word_wake(&task->status);
}

void join_task_ans(task_ans_t *arr, size_t len) {
    DevAssert(arr != NULL || len == 0);
    /* The last task most likely ends last. So there is one sleep, not one for each task. */
    for (size_t i = len; i > 0; i--) join_one(&arr[i - 1]);
}

#endif
