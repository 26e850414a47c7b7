/* topology.c: which CPUs share what, as sysfs tells. Layer 1; the contracts are in os.h.
 *
 * What cannot be read is shared by nobody; without nodes all CPUs are of one. */
#define _GNU_SOURCE
#include "os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define TEXT_MAX 4096
#define CACHES_MAX 8u
#define NODES_MAX 1024u
#define CPU_FOLDER "%s/sys/devices/system/cpu/cpu%u/"

/* The file's first line. */
static bool read_text(const char *path, char text[TEXT_MAX]) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, TEXT_MAX - 1);
    if (fd >= 0) close(fd);
    if (length <= 0) return false;
    text[length] = 0;
    for (char *at = text; *at != 0; at++)
        if (*at == '\n') *at = 0;
    return true;
}

struct reading {
    uint16_t *shared;
    uint32_t cpus;
    const char *root;
    char path[TEXT_MAX];
    char text[TEXT_MAX];
};

static uint16_t *shared_of(const struct reading *in, uint32_t cpu, enum os_near level) {
    return &in->shared[cpu * OS_NEAR_LEVELS + level];
}

/* The CPUs of the list in the file at in->path share something. */
static void note_list(struct reading *in, enum os_near level) {
    os_cpuset set;
    uint32_t lowest = OS_NO_CPU;
    if (!read_text(in->path, in->text) || !os_cpuset_parse(&set, in->text)) return;
    for (uint32_t cpu = 0; cpu < in->cpus; cpu++) {
        if (!os_cpuset_has(&set, cpu)) continue;
        if (lowest == OS_NO_CPU) lowest = cpu;
        *shared_of(in, cpu, level) = (uint16_t)lowest;
    }
}

static void read_caches(struct reading *in, uint32_t cpu) {
    for (unsigned i = 0; i < CACHES_MAX; i++) {
        snprintf(in->path, sizeof in->path, CPU_FOLDER "cache/index%u/level", in->root, cpu, i);
        if (!read_text(in->path, in->text)) return;
        if ((in->text[0] != '2' && in->text[0] != '3') || in->text[1] != 0) continue;
        enum os_near level = in->text[0] == '2' ? OS_NEAR_L2 : OS_NEAR_L3;
        if (*shared_of(in, cpu, level) != cpu) continue; /* told by another of them */
        snprintf(in->path, sizeof in->path, CPU_FOLDER "cache/index%u/shared_cpu_list", in->root, cpu, i);
        note_list(in, level);
    }
}

static void read_nodes(struct reading *in) {
    os_cpuset nodes; /* a list as those of CPUs */
    snprintf(in->path, sizeof in->path, "%s/sys/devices/system/node/online", in->root);
    if (!read_text(in->path, in->text) || !os_cpuset_parse(&nodes, in->text)) return;
    for (unsigned node = 0; node < NODES_MAX; node++) {
        if (!os_cpuset_has(&nodes, node)) continue;
        snprintf(in->path, sizeof in->path, "%s/sys/devices/system/node/node%u/cpulist", in->root, node);
        note_list(in, OS_NEAR_NODE);
    }
}

bool os_topology(uint16_t *shared, uint32_t cpus, const char *root) {
    int saved = errno;
    struct reading *in = os_alloc(sizeof *in);
    if (in == NULL) return false;
    in->shared = shared;
    in->cpus = cpus;
    in->root = root;
    for (uint32_t cpu = 0; cpu < cpus; cpu++)
        for (unsigned level = 0; level < OS_NEAR_LEVELS; level++)
            *shared_of(in, cpu, level) = (uint16_t)(level == OS_NEAR_NODE ? 0 : cpu);
    read_nodes(in);
    for (uint32_t cpu = 0; cpu < cpus; cpu++) {
        read_caches(in, cpu);
        if (*shared_of(in, cpu, OS_NEAR_CORE) != cpu) continue;
        snprintf(in->path, sizeof in->path, CPU_FOLDER "topology/thread_siblings_list", in->root, cpu);
        note_list(in, OS_NEAR_CORE);
    }
    os_free(in);
    errno = saved;
    return true;
}
