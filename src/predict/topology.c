/* topology.c: which workers are near to each other.
 *
 * If a pool has at most two workers, or its CPUs are all equally near, workers take in the order of seats. Otherwise each
 * worker has an order of its own: its own lanes, then those of workers on the same core, the same L2, L3 and node, then the
 * others, spares and outside threads included. After each sleep a worker notes on which CPU it runs. It computes its order
 * again after a sleep during which a worker has moved to another CPU. All of it is a hint. */
#include "predict/topology.h"

uint32_t topology_distance(const uint16_t *shared, uint32_t one, uint32_t other) {
    if (one == other) return 0;
    for (uint32_t level = 0; level < OS_NEAR_LEVELS; level++)
        if (shared[one * OS_NEAR_LEVELS + level] == shared[other * OS_NEAR_LEVELS + level]) return level + 1;
    return OS_NEAR_LEVELS + 1;
}

void topology_sort(const uint16_t *shared, const uint32_t *cpus, uint16_t *order, uint32_t workers, uint32_t self) {
    uint32_t at = 0;
    order[at++] = (uint16_t)self;
    for (uint32_t distance = 0; distance <= OS_NEAR_LEVELS + 1; distance++)
        for (uint32_t i = 1; i < workers; i++) {
            uint32_t other = (self + i) % workers;
            bool is_known = cpus[self] != OS_NO_CPU && cpus[other] != OS_NO_CPU;
            uint32_t its = is_known ? topology_distance(shared, cpus[self], cpus[other]) : OS_NEAR_LEVELS + 1;
            if (its == distance) order[at++] = (uint16_t)other;
        }
}

/* Are all CPUs of the set as far from each other? At each level they share all together, or each is alone. */
static bool is_flat(const uint16_t *shared, const os_cpuset *set, uint32_t cpus) {
    for (uint32_t level = 0; level < OS_NEAR_LEVELS; level++) {
        os_cpuset groups = {{0}};
        for (uint32_t cpu = 0; cpu < cpus; cpu++) {
            uint32_t group = shared[cpu * OS_NEAR_LEVELS + level];
            if (os_cpuset_has(set, cpu)) groups.bits[group / 64] |= UINT64_C(1) << group % 64;
        }
        uint32_t count = os_cpuset_count(&groups);
        if (count != 1 && count != os_cpuset_count(set)) return false;
    }
    return true;
}

void topology_configure(weft_pool *pool) {
    os_cpuset set;
    uint32_t cpus = OS_CPUS_MAX;
    if (pool->workers_max <= 2 || load_rlx(&pool->cpu_count) <= 2) return;
    if (pool->config.cpus != NULL)
        set = pool->cpus;
    else if (!os_cpuset_current(&set))
        return;
    while (cpus > 0 && !os_cpuset_has(&set, cpus - 1)) cpus--;
    uint16_t *shared = store_get(&pool->store, (size_t)cpus * OS_NEAR_LEVELS * sizeof *shared);
    if (shared == NULL || !os_topology(shared, cpus, "") || is_flat(shared, &set, cpus)) return;
    predict_of_pool(pool)->shared_cpus = cpus;
    predict_of_pool(pool)->shared = shared;
}

void topology_moved(struct weft_worker *seat) {
    weft_pool *pool = seat->pool;
    struct predict_pool *known = predict_of_pool(pool);
    struct predict_seat *mine = predict_of(seat);
    uint32_t cpus[WEFT_WORKERS_MAX];
    uint32_t here = os_cpu();
    bool has_moved = load_rlx(&seat->runs_on) != here + 1; /* OS_NO_CPU + 1: not known */
    if (has_moved) store_rlx(&seat->runs_on, here + 1);
    if (LIKELY(known->shared == NULL)) return;
    if (here >= known->shared_cpus || seat->index >= pool->workers_max) return;
    if (has_moved) add_rlx(&known->moves, 1);
    uint32_t moves = load_rlx(&known->moves);
    if (seat->nearest != NULL && mine->moves_seen == moves) return;
    if (seat->nearest == NULL) seat->nearest = store_get(&pool->store, pool->workers_max * sizeof *seat->nearest);
    if (seat->nearest == NULL) return;
    mine->moves_seen = moves;
    for (uint32_t i = 0; i < pool->workers_max; i++) {
        const struct weft_worker *other = worker_seat(pool, i);
        cpus[i] = other == NULL ? OS_NO_CPU : load_rlx(&other->runs_on) - 1; /* 0 - 1: not known */
    }
    topology_sort(known->shared, cpus, seat->nearest, pool->workers_max, seat->index);
}
