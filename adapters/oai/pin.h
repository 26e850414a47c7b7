/* pin.h: the calling thread on one CPU. Include after defining _GNU_SOURCE. */
#ifndef WEFT_OAI_PIN_H
#define WEFT_OAI_PIN_H

#include <pthread.h>
#include <sched.h>

/* A CPU below 0, or one that the process may not use, leaves the thread where it may be. */
static inline void pin_self(int cpu) {
    if (cpu < 0 || cpu >= CPU_SETSIZE) return;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET((size_t)cpu, &cpus);
    pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus);
}

#endif
