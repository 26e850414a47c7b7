/* choose.c: every decision a schedule consists of is made here, so that a seed (or a depth-first number) replays it.
 *
 * At random: at each step the current thread goes on or another runs, by a chance drawn for the schedule.
 * By priorities (PCT): the ready thread of the highest priority runs; at a few steps drawn ahead the running one falls to
 * the lowest (S. Burckhardt, P. Kothari, M. Musuvathi, S. Nagarakatte, "A randomized scheduler with probabilistic guarantees
 * of finding bugs", ASPLOS 2010, doi:10.1145/1736020.1736040).
 * Depth first: all schedules with at most so many preemptions, and so many departures from the newest value. */
#include "engine.h"

enum { DECISIONS_MAX = 1 << 16 };

static struct {
    struct {
        uint8_t options, taken;
    } stack[DECISIONS_MAX];
    uint32_t depth; /* decisions of the schedule so far */
    uint32_t known; /* decisions that are prescribed */
} dfs;
static uint32_t dfs_preemptions = 2, dfs_departures = 1;

static uint64_t random_next(void) {
    uint64_t z = (R.random += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint32_t random_below(uint32_t n) { return (uint32_t)(((random_next() >> 32) * n) >> 32); }

void choose_set_preemptions(uint32_t preemptions, uint32_t departures) {
    dfs_preemptions = preemptions;
    dfs_departures = departures;
}

static void draw_chances(void) {
    static const uint32_t switches[] = {256, 128, 64, 24, 8};
    static const uint32_t stales[] = {0, 16, 64, 160};
    static const uint32_t inserts[] = {0, 64};
    static const uint32_t timeouts[] = {0, 0, 2, 24};
    R.switch_chance = switches[random_below(5)];
    R.stale_chance = stales[random_below(4)];
    R.insert_chance = inserts[random_below(2)];
    R.timeout_chance = timeouts[random_below(4)];
    R.spurious_budget = random_below(3);
    R.failure_budget = random_below(3);
    R.weak_budget = UINT32_MAX;
}

static void draw_change_points(void) {
    uint32_t count = random_below(7);
    uint32_t reach = 1u << (5 + random_below(7));
    for (uint32_t i = 0; i < 8; i++) R.change_points[i] = i < count ? 1 + random_below(reach) : 0;
}

void choose_begin(uint64_t seed, enum mode mode) {
    static const uint64_t ticks_ns[] = {10, 1000, 200000};
    R.random = seed * UINT64_C(0xd1342543de82ef95) + 1;
    random_next();
    if (mode == MODE_MIX) mode = random_below(3) == 0 ? MODE_PCT : MODE_RANDOM;
    R.mode = mode;
    R.priority_floor = 0;
    dfs.depth = 0;
    R.preempt_budget = dfs_preemptions;
    if (mode == MODE_DFS) {
        R.weak_budget = dfs_departures;
        R.stale_chance = R.insert_chance = 1;
        R.switch_chance = R.timeout_chance = 0;
        R.spurious_budget = 0;
        R.failure_budget = 1;
    } else {
        draw_chances();
        draw_change_points();
    }
    R.asymmetric = choose(2) == 0;
    R.tick_ns = mode == MODE_DFS ? 1000 : ticks_ns[random_below(3)];
    if (R.driver->flags & EXPLORE_ALWAYS_FULL) R.asymmetric = false;
    if (R.driver->flags & EXPLORE_ALWAYS_LIGHT) R.asymmetric = true;
}

static uint32_t choose_dfs(uint32_t n) {
    if (dfs.depth == DECISIONS_MAX || n > UINT8_MAX) explore_fail(LIMIT "depth first: too many decisions");
    if (dfs.depth == dfs.known) {
        dfs.stack[dfs.depth].options = (uint8_t)n;
        dfs.stack[dfs.depth].taken = 0;
        dfs.known++;
    }
    if (dfs.stack[dfs.depth].options != n) explore_fail("depth first: the driver does not repeat itself");
    return dfs.stack[dfs.depth++].taken;
}

void choose_first_dfs(void) { dfs.known = 0; }

bool choose_next_dfs(void) {
    dfs.known = dfs.depth;
    while (dfs.known > 0 && dfs.stack[dfs.known - 1].taken + 1 == dfs.stack[dfs.known - 1].options) dfs.known--;
    if (dfs.known == 0) return false;
    dfs.stack[dfs.known - 1].taken++;
    return true;
}

uint32_t choose(uint32_t n) {
    if (n <= 1) return 0;
    return R.mode == MODE_DFS ? choose_dfs(n) : random_below(n);
}

bool choose_rarely(uint32_t chance) {
    if (chance == 0 || R.weak_budget == 0) return false;
    if (R.mode != MODE_DFS) return (random_next() >> 56) < chance;
    bool departs = choose_dfs(2) != 0;
    if (departs) R.weak_budget--;
    return departs;
}

static struct thread *choose_by_priority(struct thread **ready, uint32_t n) {
    for (uint32_t i = 0; i < 8; i++)
        if (R.change_points[i] == R.steps && R.steps != 0) R.current->priority = --R.priority_floor;
    struct thread *best = ready[0];
    for (uint32_t i = 1; i < n; i++)
        if (ready[i]->priority > best->priority) best = ready[i];
    return best;
}

static struct thread *choose_depth_first(struct thread **ready, uint32_t n, bool may_stay) {
    if (!may_stay) return ready[choose(n)];
    if (R.preempt_budget == 0) return R.current;
    uint32_t pick = choose(n);
    if (pick == 0) return R.current;
    R.preempt_budget--;
    /* Option 0 is the current thread, the others follow in the order of their numbers. */
    for (uint32_t i = 0; i < n; i++)
        if (ready[i] != R.current && --pick == 0) return ready[i];
    return R.current;
}

/* One of real-time priority keeps the others off the CPU. */
static struct thread *fifo_thread(void) {
    for (uint32_t i = 0; i < R.thread_count; i++) {
        struct thread *t = &R.threads[i];
        if (t->is_fifo && t->state == THREAD_READY && !t->yields) return t;
    }
    return NULL;
}

/* The threads that can run, and do not stand; or, if there are none, those that stand. */
static uint32_t list_ready(struct thread **ready, bool may_stay, bool stand) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < R.thread_count; i++) {
        struct thread *t = &R.threads[i];
        bool is_ready = t->state == THREAD_READY && (may_stay || t != R.current);
        if (is_ready && (t->stands_until > R.steps) == stand) ready[n++] = t;
    }
    return n;
}

struct thread *choose_thread(bool may_stay) {
    struct thread *ready[THREADS_MAX];
    struct thread *first = fifo_thread();
    if (first != NULL) return may_stay || first != R.current ? first : NULL;
    uint32_t n = list_ready(ready, may_stay, false);
    if (n == 0) n = list_ready(ready, may_stay, true);
    if (n == 0) return NULL;
    if (R.mode == MODE_PCT) return choose_by_priority(ready, n);
    if (R.mode == MODE_DFS) return choose_depth_first(ready, n, may_stay);
    bool stands = R.current->stands_until > R.steps;
    if (may_stay && !stands && (random_next() >> 56) >= R.switch_chance) return R.current;
    return ready[random_below(n)];
}

uint32_t explore_pick(uint32_t n) { return choose(n); }
