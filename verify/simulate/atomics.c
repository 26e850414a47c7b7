/* atomics.c: atomic operations: the line's access, then the values. See explore_atomics.h. */
#include "engine.h"

#include <string.h>

static uint64_t value_at(const void *address, size_t size) {
    uint64_t value = 0;
    memcpy(&value, address, size);
    return value;
}

uint64_t sim_load(sim_site *site, const void *address, size_t size) {
    sim_point();
    line_access(site, (uintptr_t)address, ACCESS_READ);
    return value_at(address, size);
}

void sim_store(sim_site *site, void *address, size_t size, uint64_t value) {
    sim_point();
    line_access(site, (uintptr_t)address, ACCESS_WRITE);
    memcpy(address, &value, size);
}

bool sim_cas(sim_site *site, void *address, size_t size, void *expected, uint64_t value) {
    sim_point();
    line_access(site, (uintptr_t)address, ACCESS_CHANGE);
    if (memcmp(address, expected, size) == 0) {
        memcpy(address, &value, size);
        return true;
    }
    memcpy(expected, address, size);
    site->failed++;
    return false;
}

uint64_t sim_change(sim_site *site, void *address, size_t size, enum sim_change how, uint64_t operand) {
    sim_point();
    line_access(site, (uintptr_t)address, ACCESS_CHANGE);
    uint64_t before = value_at(address, size);
    uint64_t after = how == SIM_ADD   ? before + operand
                     : how == SIM_OR  ? before | operand
                     : how == SIM_AND ? before & operand
                                      : operand;
    memcpy(address, &after, size);
    return before;
}

void sim_fence(sim_site *site) {
    uint64_t before = cpu_now->clock_ps;
    stores_drain();
    cpu_now->clock_ps += PS(fence_ns);
    site->count++;
    site->ps += cpu_now->clock_ps - before;
    sim_point();
}

/* fence.c's heavy fence, charged to the line that makes it. */
void sim_heavy(sim_site *site) {
    sim_thread *self = sim_self();
    sim_site *before = self->cause;
    self->cause = site;
    os_fence_heavy_slow();
    self->cause = before;
}
