/* place.c: see place.h.
 *
 * Linux often lets a woken thread begin on the CPU of the thread that woke it, though another is free: the two then take
 * turns, and both are late. It is bistable: who once has run there is sent there again. The affinity of one's own threads
 * needs no privilege, so a worker that was woken there takes that one CPU out of its affinity for its next sleeps. It
 * pays for that itself, before it sleeps and after, not the thread that wakes it.
 *
 * The affinity is as it was whenever code runs that is not weft's: threads that it makes inherit all CPUs. Should
 * somebody else have changed the thread's affinity meanwhile, it stays as they want it. */
#include "place.h"

#include <string.h>

#define TURNS_MIN 32u
#define TURNS_MAX 4096u

static bool narrow(struct placing *place) {
    if (!os_cpuset_current(&place->before)) return false;
    place->less = place->before;
    place->less.bits[place->cpu / 64] &= ~(UINT64_C(1) << place->cpu % 64);
    uint32_t left = os_cpuset_count(&place->less);
    return left > 0 && left < os_cpuset_count(&place->before) && os_cpuset_apply(&place->less);
}

/* Where all CPUs are what it had, that is what it asks for: the system keeps an explicit set, and would hold a cpuset
 * that changes later against it. */
static void widen(struct placing *place) {
    os_cpuset now;
    os_cpuset all;
    memset(&all, 0xff, sizeof all);
    if (!os_cpuset_current(&now) || memcmp(&now, &place->less, sizeof now) != 0) return;
    if (!os_cpuset_apply(&all) || !os_cpuset_current(&now) || memcmp(&now, &place->before, sizeof now) != 0)
        os_cpuset_apply(&place->before);
}

void place_pin(struct placing *place, uint32_t index) {
    if (!os_cpuset_current(&place->before)) return;
    uint32_t cpu = os_cpuset_nth(&place->before, index);
    memset(&place->less, 0, sizeof place->less);
    if (cpu != OS_NO_CPU) place->less.bits[cpu / 64] = UINT64_C(1) << cpu % 64;
    place->is_narrowed = os_cpuset_apply(&place->less);
}

void place_before_sleep(struct placing *place, bool has_room) {
    if (place->turns == 0 || !has_room) return;
    place->turns--;
    place->is_narrowed = narrow(place);
}

bool place_after_sleep(struct placing *place, bool has_room, uint32_t woken_from) {
    bool was_narrowed = place->is_narrowed;
    place->is_narrowed = false;
    if (was_narrowed) widen(place);
    if (woken_from >= OS_CPUS_MAX || !has_room) return false;
    place->cpu = woken_from;
    bool is_there = os_cpu() == woken_from;
    if (was_narrowed || place->turns > 0) return is_there;
    if (is_there) {
        place->turns_new = (uint32_t)min_u64(max_u64(UINT64_C(2) * place->turns_new, TURNS_MIN), TURNS_MAX);
        place->turns = place->turns_new;
    } else {
        place->turns_new /= 2;
    }
    return is_there;
}

void place_leave(struct placing *place) {
    if (narrow(place)) widen(place);
}
