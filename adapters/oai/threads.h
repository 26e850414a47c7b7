/* threads.h: the threads of OpenAirInterface's pools. The host says how many there are, on which CPUs, and with which
 * priority.
 *
 * One source file of a pool includes this, with _GNU_SOURCE, after the host's system.h, which defines its real-time policy
 * and priority: SCHED_OAI and OAI_PRIORITY_RT_MAX. Without these, or with WEFT_OAI_ORDINARY defined, the threads are
 * ordinary ones. The result is reported on stderr, in one line for each pool. */
#ifndef WEFT_OAI_THREADS_H
#define WEFT_OAI_THREADS_H

#include <ctype.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "../view.h"

#define OAI_THREADS_MAX 512
#define OAI_FLOATING (-1)

typedef struct oai_threads {
    const char *name;
    int count;
    int core_id[OAI_THREADS_MAX]; /* OAI_FLOATING, or the CPU */
    atomic_int unpinned;          /* threads that may not use their CPU, or whose CPU does not exist */
} oai_threads;

static inline bool oai_threads_pin(const oai_threads *threads) {
    for (int i = 0; i < threads->count; i++)
        if (threads->core_id[i] >= 0) return true;
    return false;
}

/* "-1,2,3": one entry for each thread; an 'n' entry is no thread. 0; -EINVAL: an entry is neither, or there are too many. */
static inline int oai_threads_parse(oai_threads *threads, const char *params) {
    threads->count = 0;
    for (const char *at = params; *at != 0;) {
        at += strspn(at, ", ");
        if (*at == 0) break;
        if (toupper((unsigned char)*at) == 'N') {
            at += strcspn(at, ",");
            continue;
        }
        char *end;
        errno = 0;
        const long value = strtol(at, &end, 10);
        if (end == at || errno != 0 || value < OAI_FLOATING || value > INT16_MAX) return -EINVAL;
        if (*(end + strspn(end, " ")) != ',' && *(end + strspn(end, " ")) != 0) return -EINVAL;
        if (threads->count == OAI_THREADS_MAX) return -EINVAL;
        threads->core_id[threads->count++] = (int)value;
        at = end + strspn(end, " ");
    }
    return 0;
}

#if defined(SCHED_OAI) && defined(OAI_PRIORITY_RT_MAX) && !defined(WEFT_OAI_ORDINARY)
#define OAI_REAL_TIME 1
static inline void oai_threads_wish(weft_config *config) {
    config->policy = SCHED_OAI == SCHED_FIFO ? WEFT_POLICY_FIFO : WEFT_POLICY_RR;
    config->priority = (uint32_t)(OAI_PRIORITY_RT_MAX);
}

/* Threads that a task makes have its policy, as in the host's own pool: weft's threads do not pass theirs on. Without
 * CAP_SYS_NICE, which the host's own pool needs for any priority, that stays so. */
static inline void oai_threads_bequeath(void) {
    struct sched_param param;
    int policy;
    if (pthread_getschedparam(pthread_self(), &policy, &param) == 0 && (policy & ~SCHED_RESET_ON_FORK) == SCHED_OAI)
        (void)pthread_setschedparam(pthread_self(), SCHED_OAI, &param);
}
#else
#define OAI_REAL_TIME 0
static inline void oai_threads_wish(weft_config *config) { (void)config; }
static inline void oai_threads_bequeath(void) {}
#endif

/* Runs on each worker and spare before its first task. Spares are not bound. */
static inline void oai_threads_start(weft_worker *self, void *context) {
    oai_threads *threads = context;
    oai_threads_bequeath();
    const unsigned index = weft_worker_index(self);
    if (index >= (unsigned)threads->count || threads->core_id[index] < 0) return;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    if (threads->core_id[index] < CPU_SETSIZE) CPU_SET((size_t)threads->core_id[index], &cpus);
    if (pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus) != 0) atomic_fetch_add(&threads->unpinned, 1);
}

/* Reports what the system granted of the host's wishes. */
static inline void oai_threads_tell(oai_threads *threads, const weft_pool *pool, const weft_config *config) {
    weft_real_time outcome = {.struct_size = sizeof outcome};
    char text[300];
    const int unpinned = atomic_load(&threads->unpinned);
    const unsigned started = weft_pool_workers(pool);
    int length = snprintf(text, sizeof text, "%s: %u threads", threads->name, started);
    if (weft_pool_real_time(pool, &outcome) != WEFT_OK) return;
    if (started < (unsigned)threads->count)
        length += snprintf(text + length, sizeof text - (size_t)length, " of %d asked for", threads->count);
    if (config->policy != WEFT_POLICY_INHERIT)
        length += snprintf(text + length, sizeof text - (size_t)length, ", %s priority %u",
                           config->policy == WEFT_POLICY_FIFO ? "SCHED_FIFO" : "SCHED_RR", (unsigned)config->priority);
    if (outcome.policy_refused > 0)
        length +=
            snprintf(text + length, sizeof text - (size_t)length, " refused to %u of them (%s): they are ordinary ones",
                     (unsigned)outcome.policy_refused, strerror(outcome.policy_errno));
    if (unpinned > 0)
        length += snprintf(text + length, sizeof text - (size_t)length,
                           ", %d not on their CPU: it is not there, or not this process's", unpinned);
    if (length > 0 && (OAI_REAL_TIME || unpinned > 0 || started < (unsigned)threads->count)) fprintf(stderr, "%s\n", text);
}

/* Opens a view on such threads; `threads` must stay in place as long as the view. With WEFT_VIEW_SHARED, threads on any CPU
 * may be the process's. 0 or a negative errno value; -EAGAIN also if `needs_all` and some threads of its own cannot be had. */
static inline int oai_threads_open(oai_threads *threads, view *v, bool needs_all) {
    const bool pins = oai_threads_pin(threads);
    weft_config config;
    int error = pins ? 1 : view_open_shared(v, (unsigned)threads->count);
    if (error <= 0) return error;
    view_own_threads(&config, (unsigned)threads->count, threads->name);
#ifdef WEFT_OAI_HELP
    config.flags &= ~(uint32_t)WEFT_POOL_NO_HELP; /* joins help: crew.h */
#else
    config.flags |= WEFT_POOL_ORDERED;
#endif
    oai_threads_wish(&config);
    config.start = oai_threads_start;
    config.context = threads;
    if (pins) config.flags |= WEFT_POOL_NO_PLACING;
    error = view_open_with(v, &config);
    if (error == 0) oai_threads_tell(threads, v->pool, &config);
    if (error != 0 || !needs_all || weft_pool_workers(v->pool) == config.workers) return error;
    weft_pool_destroy(&v->pool);
    return -EAGAIN;
}

#endif
