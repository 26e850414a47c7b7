/* affinity.c: see affinity.h.
 *
 * Linux often starts a woken thread on the CPU of the thread that woke it, though another CPU is free. The two then take
 * turns, and both are late. That repeats: a thread that has run there once is sent there again. A process may change the
 * affinity of its own threads without privileges. So a worker that was woken there takes that CPU out of its affinity for its
 * next sleeps. The cost is its own, before and after each sleep, not the waker's.
 *
 * Whenever code other than weft's runs, the affinity is the original one, so threads that tasks create inherit all CPUs. If
 * another thread has changed the affinity meanwhile, that change stays. */
#include "predict/affinity.h"

#include <string.h>

#define TURNS_MIN 32u
#define TURNS_MAX 4096u

static bool narrow(struct affinity *affinity) {
    if (!os_cpuset_current(&affinity->before)) return false;
    affinity->less = affinity->before;
    affinity->less.bits[affinity->cpu / 64] &= ~(UINT64_C(1) << affinity->cpu % 64);
    uint32_t left = os_cpuset_count(&affinity->less);
    return left > 0 && left < os_cpuset_count(&affinity->before) && os_cpuset_apply(&affinity->less);
}

/* Where all CPUs are what it had, that is what it asks for: the system keeps an explicit set, and would hold a cpuset
 * that changes later against it. */
static void widen(struct affinity *affinity) {
    os_cpuset now;
    os_cpuset all;
    memset(&all, 0xff, sizeof all);
    if (!os_cpuset_current(&now) || memcmp(&now, &affinity->less, sizeof now) != 0) return;
    if (!os_cpuset_apply(&all) || !os_cpuset_current(&now) || memcmp(&now, &affinity->before, sizeof now) != 0)
        os_cpuset_apply(&affinity->before);
}

void affinity_before_sleep(struct affinity *affinity, bool has_room) {
    if (affinity->turns == 0 || !has_room) return;
    affinity->turns--;
    affinity->is_narrowed = narrow(affinity);
}

bool affinity_after_sleep(struct affinity *affinity, bool has_room, uint32_t woken_from) {
    bool was_narrowed = affinity->is_narrowed;
    affinity->is_narrowed = false;
    if (was_narrowed) widen(affinity);
    if (woken_from >= OS_CPUS_MAX || !has_room) return false;
    affinity->cpu = woken_from;
    bool is_there = os_cpu() == woken_from;
    if (was_narrowed || affinity->turns > 0) return is_there;
    if (is_there) {
        affinity->turns_new = (uint32_t)min_u64(max_u64(UINT64_C(2) * affinity->turns_new, TURNS_MIN), TURNS_MAX);
        affinity->turns = affinity->turns_new;
    } else {
        affinity->turns_new /= 2;
    }
    return is_there;
}

void affinity_leave(struct affinity *affinity) {
    if (narrow(affinity)) widen(affinity);
}
