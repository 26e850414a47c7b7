/* affinity.c: see affinity.h.
 *
 * Linux often starts a woken thread on the CPU of the thread that woke it, though another CPU is free. The two then take
 * turns, and both are late. That repeats: a thread that has run there once is sent there again. A process may change the
 * affinity of its own threads without privileges. So a worker that was woken there takes that CPU out of its affinity for its
 * next sleeps. The cost is its own, before and after each sleep, not the waker's.
 *
 * Whenever code other than weft's runs, the affinity is the original one, so threads that tasks create inherit all CPUs. If
 * another thread has changed the affinity meanwhile, that change stays. If the cpuset has changed, the thread gets all that it
 * allows now of the CPUs that were chosen for the thread, unless it was confined further. The system has no way to change an
 * affinity only if it is still what was read: a change by another thread between these two calls is lost. */
#include "predict/affinity.h"

#include <string.h>

#define TURNS_MIN 32u
#define TURNS_MAX 4096u

/* Whether the thread has `set` now. */
static bool is_now(const os_cpuset *set) {
    os_cpuset now;
    return os_cpuset_current(&now) && memcmp(&now, set, sizeof now) == 0;
}

static bool apply_all(const struct affinity *affinity) {
    os_cpuset all;
    memset(&all, 0xff, sizeof all);
    return os_cpuset_apply(affinity->wished == NULL ? &all : affinity->wished);
}

/* Gives the thread `before` again. If `before` is all that its cpuset allows, this asks for all that the thread may wish
 * for: the system keeps what is asked for, and would apply it to a cpuset that changes later. */
static void restore(const struct affinity *affinity) {
    if (!affinity->had_all || !apply_all(affinity)) os_cpuset_apply(&affinity->before);
}

/* Whether `before` is all there is. This is asked each time: the same set may be all of one cpuset, and a choice in the
 * next. */
static bool is_all(const struct affinity *affinity) { return apply_all(affinity) && is_now(&affinity->before); }

static os_cpuset less_of(const struct affinity *affinity) {
    os_cpuset less = affinity->before;
    less.bits[affinity->cpu / 64] &= ~(UINT64_C(1) << affinity->cpu % 64);
    return less;
}

static bool narrow(struct affinity *affinity) {
    if (!os_cpuset_current(&affinity->before)) return false;
    os_cpuset less = less_of(affinity);
    uint32_t left = os_cpuset_count(&less);
    if (left == 0 || left == os_cpuset_count(&affinity->before)) return false;
    affinity->had_all = is_all(affinity);
    if (os_cpuset_apply(&less)) return true;
    restore(affinity);
    return false;
}

/* The thread may now have another set than it asked for: either its cpuset has changed, and then it cannot have the narrowed
 * set, or another thread has chosen this set for it. */
static void widen(struct affinity *affinity) {
    os_cpuset now, less = less_of(affinity);
    if (!os_cpuset_current(&now)) return;
    bool is_chosen = memcmp(&now, &less, sizeof now) != 0 && os_cpuset_apply(&less) && is_now(&less);
    if (is_chosen)
        os_cpuset_apply(&now);
    else
        restore(affinity);
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
