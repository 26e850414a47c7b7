/* shrink.c: makes the program of a failed schedule smaller, as long as one of some schedules still fails. */
#include "engine.h"

#include <stdio.h>
#include <string.h>

enum { RATE_SCHEDULES = 3000, TRIES_MIN = 40, TRIES_MAX = 3000, ROUNDS_MAX = 12 };
#define STEPS_ALL_MAX UINT64_C(40000000) /* of all schedules together: some ten seconds */

static struct {
    const explore_driver *driver;
    struct cuts cuts;
    uint64_t failed_seed;
    uint32_t tries; /* schedules of each candidate */
    uint64_t schedules, steps;
    bool was_buffered;
    char failure[sizeof R.failure];
} S;

static bool fails_with(uint64_t seed) {
    S.schedules++;
    bool was_buffered = run_schedule(S.driver, seed);
    S.steps += R.steps;
    if (!R.failed) return false;
    S.was_buffered = was_buffered;
    S.failed_seed = seed;
    memcpy(S.failure, R.failure, sizeof S.failure);
    return true;
}

/* The schedule that failed last first: often nothing before the failure has changed. */
static bool fails(uint32_t tries) {
    if (fails_with(S.failed_seed)) return true;
    for (uint64_t seed = 1; seed <= tries && S.steps < STEPS_ALL_MAX; seed++)
        if (fails_with(seed)) return true;
    return false;
}

static bool make(void) { return S.driver->program->make(S.cuts.program, S.cuts.cut, S.cuts.count); }

/* How often it fails as it is tells how many schedules a smaller one deserves. */
static void measure(void) {
    uint32_t failed = 0, schedules = 0;
    uint64_t first = S.failed_seed;
    while (schedules < RATE_SCHEDULES && failed < 10 && S.steps < STEPS_ALL_MAX / 4) failed += fails_with(++schedules);
    S.failed_seed = failed == 0 ? first : S.failed_seed;
    uint32_t tries = failed == 0 ? TRIES_MAX : 4 * schedules / failed;
    S.tries = tries < TRIES_MIN ? TRIES_MIN : tries > TRIES_MAX ? TRIES_MAX : tries;
}

static bool one_round(void) {
    bool any = false;
    make();
    uint32_t ways = S.driver->program->ways();
    for (uint32_t cut = 0; cut < ways && S.cuts.count < CUTS_MAX && S.steps < STEPS_ALL_MAX; cut++) {
        uint64_t seed = S.failed_seed;
        S.cuts.cut[S.cuts.count++] = cut;
        if (make() && fails(S.tries)) {
            any = true;
            continue;
        }
        S.cuts.count--;
        S.failed_seed = seed;
    }
    return any;
}

void shrink(const explore_driver *driver, const struct cuts *from, uint64_t seed, struct shrunk *shrunk) {
    S.driver = driver;
    S.cuts = *from;
    S.failed_seed = seed;
    S.was_buffered = shrunk->was_buffered;
    S.schedules = S.steps = 0;
    memcpy(S.failure, R.failure, sizeof S.failure);
    bool traces = R.trace;
    R.trace = false;
    measure();
    for (uint32_t round = 0; round < ROUNDS_MAX && one_round(); round++) {}
    make();
    R.trace = traces;
    shrunk->cuts = S.cuts;
    shrunk->seed = S.failed_seed;
    shrunk->schedules = S.schedules;
    shrunk->was_buffered = S.was_buffered;
    memcpy(shrunk->failure, S.failure, sizeof shrunk->failure);
}
