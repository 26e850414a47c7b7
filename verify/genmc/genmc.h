/* genmc.h: what the drivers for the model checker GenMC share. Each driver is one C file that includes the shipped sources it
 * is about, starts two or three threads and asserts what must hold; verify/genmc/run runs them all. Beside GenMC any compiler
 * takes them: then they run once, on real threads. */
#ifndef WEFT_GENMC_H
#define WEFT_GENMC_H

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#if defined(GENMC) /* which knows no instruction that reads a clock; what is timed are hints */
#define __builtin_ia32_rdtsc() 0
#endif
#include "os/os.h"

#define THREADS_MAX 4

/* GenMC counts an execution that ends here as none. */
#if defined(GENMC)
void __VERIFIER_assume(int condition);
#define WAIT_FOR(x) __VERIFIER_assume(x)
#else
#define WAIT_FOR(x)                                                                                                         \
    while (!(x)) {}
#endif

/* Starts each of the functions as a thread and waits for all. */
static inline void run_threads(void *(*const functions[])(void *), int count) {
    pthread_t threads[THREADS_MAX];
    for (int i = 0; i < count; i++) pthread_create(&threads[i], NULL, functions[i], NULL);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

/* ---- the machine: what the included sources ask of it ---------------------------------------------------------------- */

/* The kernel looks at the word and may return without a reason; a sleeper that nobody wakes waits for ever, which WAIT_FOR
 * turns into a blocked execution: the drivers check the state that the sleeper left behind. */
enum os_wait_result os_wait(os_word *word, uint32_t expected, uint64_t deadline_ns) {
    (void)deadline_ns;
    WAIT_FOR(load_rlx(word) != expected);
    return OS_WOKEN;
}
void os_wake(os_word *word, int count) { (void)word, (void)count; }
uint32_t os_cpu(void) { return 0; }

#endif
