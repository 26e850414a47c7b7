/* machine.c: what the machine is. See engine.h. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

machine M;

static const struct setting {
    const char *name;
    uint64_t *value;
    bool is_time;
    uint64_t least, most; /* as written */
} settings[] = {
#define MACHINE_COUNT(name) {#name, &M.name, false, 0, UINT64_C(1) << 32},
#define MACHINE_TIME(name) {#name, &M.name##_ps, true, 0, UINT64_C(10000000000)},
    MACHINE_COUNTS(MACHINE_COUNT) MACHINE_TIMES(MACHINE_TIME)};

enum { SETTINGS = sizeof settings / sizeof *settings };
static bool is_set[SETTINGS];

bool machine_set(const char *text) {
    size_t length = strcspn(text, "=");
    if (text[length] != '=') return false;
    for (int i = 0; i < SETTINGS; i++) {
        const struct setting *setting = &settings[i];
        if (strlen(setting->name) != length || memcmp(setting->name, text, length) != 0) continue;
        char *end;
        double value = strtod(text + length + 1, &end);
        if (end == text + length + 1 || *end != 0) return false;
        if (!(value >= (double)setting->least && value <= (double)setting->most)) return false;
        *setting->value = (uint64_t)(value * (setting->is_time ? 1000 : 1) + 0.5);
        is_set[i] = true;
        return true;
    }
    return false;
}

const char *machine_wrong(void) {
    for (int i = 0; i < SETTINGS; i++)
        if (!is_set[i]) return settings[i].name;
    if (M.cpus == 0 || M.cpus > CPUS_MAX) return "cpus";
    if (M.sockets == 0 || M.sockets > M.cpus) return "sockets";
    if (M.cluster_cpus == 0) return "cluster_cpus";
    if (M.store_buffer == 0 || M.store_buffer > 64) return "store_buffer";
    if (M.overlap_percent > 100) return "overlap_percent";
    if (M.pair_percent < 100 || M.pair_percent > 1000) return "pair_percent";
    if (PS(slice_ns) == 0) return "slice_ns";
    return NULL;
}

enum distance machine_distance(uint32_t one, uint32_t other) {
    uint64_t per_socket = (M.cpus + M.sockets - 1) / M.sockets;
    if (one == other) return DISTANCE_SELF;
    if (one / per_socket != other / per_socket) return DISTANCE_REMOTE;
    return one % per_socket / M.cluster_cpus == other % per_socket / M.cluster_cpus ? DISTANCE_CLUSTER : DISTANCE_SOCKET;
}
