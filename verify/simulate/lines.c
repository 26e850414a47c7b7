/* lines.c: which CPU has which cache line, and what an access costs.
 *
 * A line is in the caches of a set of CPUs; one alone may own it, and then write. Who has it pays access_ns. Else it has to
 * come: from the owner, from the nearest that shares it, or from memory, by distance. Read-modify-writes of one line queue up
 * behind each other (`busy`), and take effect when the line is there; who had it keeps it for the first half of its way, so one
 * that fails may try again before the next has it, as on a real machine.
 *
 * A load that misses waits. One that follows the last miss of the same place in the sources at once, as in a loop that looks at
 * many lines, was under way already: it waits overlap_percent as long. A store that misses waits in the store buffer, and the
 * CPU goes on, until the buffer is full; read-modify-writes and fences wait for the buffer first.
 *
 * Caches forget by count alone: what the CPU itself touched last comes from its second level, or from beyond, when so many
 * lines have come since. What others have touched since is not looked at that way. */
#define _GNU_SOURCE
#include "engine.h"

#include <string.h>
#include <sys/mman.h>

enum { LINE_SHIFT = 6, OTHERS_MAX = 1 << 16, SAME_LOOP_PS = 60000 };

struct line {
    uint64_t sharers[SET_WORDS];
    uint64_t busy_ps;
    uint32_t fills;   /* its last user's, then */
    uint16_t owner;   /* the only one that has it; NO_OWNER */
    uint16_t last;    /* its last user */
    uint64_t key;     /* outside the arena: its address; else 0 */
    uint32_t pending; /* CPUs that wait to have it alone */
    uint32_t next;    /* the last of them */
    uint64_t unused[4];
};
_Static_assert(sizeof(struct line) == 128, "a line's size is a power of two");

struct cpu_set {
    uint64_t bits[SET_WORDS];
};

static struct line *arena_lines, other_lines[OTHERS_MAX];
static struct cpu_set in_cluster[CPUS_MAX], in_socket[CPUS_MAX];

static void *map_zeros(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) sim_die("no address space for the cache lines");
    return memory;
}

void lines_init(void) {
    arena_lines = map_zeros((ARENA_BYTES >> LINE_SHIFT) * sizeof *arena_lines);
    for (uint32_t one = 0; one < M.cpus; one++)
        for (uint32_t other = 0; other < M.cpus; other++) {
            enum distance distance = machine_distance(one, other);
            if (distance <= DISTANCE_CLUSTER) in_cluster[one].bits[other / 64] |= UINT64_C(1) << other % 64;
            if (distance <= DISTANCE_SOCKET) in_socket[one].bits[other / 64] |= UINT64_C(1) << other % 64;
        }
}

/* Memory beside the arena: the library's static variables. */
static struct line *other_line(uintptr_t address) {
    uint64_t key = address >> LINE_SHIFT;
    uint64_t at = (key * UINT64_C(0x9e3779b97f4a7c15)) >> 48;
    for (uint32_t i = 0; i < OTHERS_MAX; i++, at = (at + 1) % OTHERS_MAX) {
        if (other_lines[at].key == key) return &other_lines[at];
        if (other_lines[at].key != 0) continue;
        other_lines[at].key = key;
        other_lines[at].owner = NO_OWNER;
        return &other_lines[at];
    }
    sim_die("more than %d lines beside the arena", OTHERS_MAX);
}

static bool is_in_arena(uintptr_t address) { return address - ARENA_BASE < ARENA_BYTES; }

static struct line *line_of(uintptr_t address) {
    return is_in_arena(address) ? &arena_lines[(address - ARENA_BASE) >> LINE_SHIFT] : other_line(address);
}

void lines_forget(uintptr_t address, size_t bytes) {
    struct line *first = line_of(address);
    size_t size = (bytes >> LINE_SHIFT) * sizeof *first;
    if (size > (size_t)1 << 20)
        madvise(first, size, MADV_DONTNEED);
    else
        memset(first, 0, size);
}

static bool set_has(const uint64_t *bits, uint32_t cpu) { return (bits[cpu / 64] >> cpu % 64 & 1) != 0; }

static bool sets_meet(const uint64_t *one, const uint64_t *other) {
    uint64_t both = 0;
    for (int i = 0; i < SET_WORDS; i++) both |= one[i] & other[i];
    return both != 0;
}

static bool set_exceeds(const uint64_t *one, const uint64_t *other) {
    uint64_t beyond = 0;
    for (int i = 0; i < SET_WORDS; i++) beyond |= one[i] & ~other[i];
    return beyond != 0;
}

static bool is_empty(const uint64_t *bits) {
    uint64_t any = 0;
    for (int i = 0; i < SET_WORDS; i++) any |= bits[i];
    return any == 0;
}

static uint64_t distance_ps(enum distance distance) {
    if (distance <= DISTANCE_CLUSTER) return PS(cluster_ns);
    return distance == DISTANCE_SOCKET ? PS(socket_ns) : PS(remote_ns);
}

/* How long a line takes to come from the last that waits for it, or from the nearest that shares it, or (`all`) until the farthest has let go of it. */
static uint64_t way_ps(const struct line *line, uint32_t self, bool all) {
    const uint64_t *cluster = in_cluster[self].bits, *socket = in_socket[self].bits;
    if (line->pending > 0) return distance_ps(machine_distance(self, line->next));
    if (is_empty(line->sharers)) return PS(memory_ns);
    if (all) {
        if (set_exceeds(line->sharers, socket)) return PS(remote_ns);
        return set_exceeds(line->sharers, cluster) ? PS(socket_ns) : PS(cluster_ns);
    }
    if (sets_meet(line->sharers, cluster)) return line->owner == NO_OWNER ? PS(l3_ns) : PS(cluster_ns);
    return sets_meet(line->sharers, socket) ? PS(socket_ns) : PS(remote_ns);
}

static void become_only(struct line *line, uint32_t self) {
    memset(line->sharers, 0, sizeof line->sharers);
    line->sharers[self / 64] = UINT64_C(1) << self % 64;
    line->owner = (uint16_t)self;
}

/* What the CPU has, but perhaps no longer in its first level. */
static uint64_t level_ps(struct line *line, uint32_t self) {
    uint32_t since = cpu_now->fills - line->fills;
    if (LIKELY(since <= M.l1_lines) || line->last != self) return 0;
    cpu_now->fills++;
    return since <= M.l2_lines ? PS(l2_ns) : PS(l3_ns);
}

void stores_drain(void) { cpu_now->clock_ps = max_u64(cpu_now->clock_ps, cpu_now->drain_ps); }

/* Others see it on its way from half of that on: until then who had it keeps it. */
static void line_travels(struct line *line, uint64_t way) {
    sim_point();
    memset(line->sharers, 0, sizeof line->sharers);
    line->owner = NO_OWNER;
    cpu_now->clock_ps += way / 2;
    sim_point();
}

static void load_miss(const sim_site *site, struct line *line, uint64_t way) {
    uint64_t now = cpu_now->clock_ps, start = max_u64(now, line->busy_ps), wait = start + way - now;
    bool is_shared = line->owner == NO_OWNER && !is_empty(line->sharers) && line->pending == 0;
    line->busy_ps = start + (is_shared ? PS(share_ns) : way);
    if (cpu_now->missed_at == site && now - cpu_now->missed_ps < SAME_LOOP_PS) wait = wait * M.overlap_percent / 100;
    cpu_now->clock_ps = now + wait;
    cpu_now->missed_at = site;
    cpu_now->missed_ps = cpu_now->clock_ps;
    sim_point();
    uint32_t self = cpu_index(cpu_now);
    if (is_empty(line->sharers)) {
        become_only(line, self);
    } else {
        line->owner = NO_OWNER;
        line->sharers[self / 64] |= UINT64_C(1) << self % 64;
    }
}

/* The store's place in the buffer is the oldest one's. */
static void store_miss(struct line *line, uint64_t way) {
    uint64_t *place = &cpu_now->stores[cpu_now->store_next++ % M.store_buffer];
    cpu_now->clock_ps = max_u64(cpu_now->clock_ps, *place);
    line->busy_ps = max_u64(cpu_now->clock_ps, line->busy_ps) + way;
    *place = line->busy_ps;
    cpu_now->drain_ps = max_u64(cpu_now->drain_ps, line->busy_ps);
    become_only(line, cpu_index(cpu_now));
}

static void change_miss(struct line *line, uint64_t way) {
    uint64_t start = max_u64(cpu_now->clock_ps, line->busy_ps);
    line->busy_ps = start + way + PS(rmw_ns);
    line->pending++;
    line->next = cpu_index(cpu_now);
    cpu_now->clock_ps = start + way - way / 2;
    line_travels(line, way);
    if (line->pending > 0) line->pending--; /* its memory may have gone */
    become_only(line, cpu_index(cpu_now));
}

static void line_miss(sim_site *site, struct line *line, uint32_t self, enum access how) {
    site->moved += !is_empty(line->sharers) || line->busy_ps > cpu_now->clock_ps;
    uint64_t way = way_ps(line, self, how != ACCESS_READ);
    cpu_now->fills++;
    if (how == ACCESS_READ)
        load_miss(site, line, way);
    else if (how == ACCESS_WRITE)
        store_miss(line, way);
    else
        change_miss(line, way);
}

void line_access(sim_site *site, uintptr_t address, enum access how) {
    struct line *line = line_of(address);
    uint32_t self = cpu_index(cpu_now);
    uint64_t before = cpu_now->clock_ps;
    cpu_now->clock_ps += sim_paired(PS(access_ns)) + site->planted_ps;
    if (is_in_arena(address) && UNLIKELY(memory_first_touch(address))) cpu_now->clock_ps += PS(fault_ns);
    if (how == ACCESS_CHANGE) stores_drain();
    bool has = set_has(line->sharers, self) && (how == ACCESS_READ || line->owner == self);
    if (LIKELY(has)) {
        uint64_t level = level_ps(line, self);
        if (UNLIKELY(level != 0) && how != ACCESS_WRITE) cpu_now->clock_ps += level;
    } else {
        line_miss(site, line, self, how);
    }
    if (how == ACCESS_CHANGE) cpu_now->clock_ps += PS(rmw_ns);
    line->last = (uint16_t)cpu_index(cpu_now);
    line->fills = cpu_now->fills;
    site->count++;
    site->ps += cpu_now->clock_ps - before;
}
