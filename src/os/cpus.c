/* cpus.c: how many CPUs there are to use: affinity, and the quota of control groups. Also the limit of address space. Layer
 * 1; the contracts are in os.h.
 *
 * The quota of a process is the least over its own group and all groups above it. /proc/thread-self/cgroup names its own
 * group, one line per hierarchy ("4:cpu,cpuacct:/a/b" in version 1, "0::/a/b" in version 2). /proc/self/mountinfo says where
 * a hierarchy is mounted, and which of its groups is the mount's root: in a container often not "/". See cgroups(7),
 * proc(5).
 *
 * Nothing here fails: what cannot be read or does not parse sets no limit. */
#define _GNU_SOURCE
#include "os/os.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#if defined(__GLIBC__) && defined(__has_include) /* another C library may find glibc's header */
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif
#endif

/* ---- CPU sets ----------------------------------------------------------------------------------------------------- */

static const char *skip_blanks(const char *text) {
    while (*text == ' ' || *text == '\t') text++;
    return text;
}

/* Parses "3" or "0-3" at *text and adds it to the set. */
static bool parse_range(os_cpuset *set, const char **text) {
    uint64_t first, last;
    if (!digits_parse(text, OS_CPUS_MAX - 1, &first)) return false;
    last = first;
    if (**text == '-') {
        (*text)++;
        if (!digits_parse(text, OS_CPUS_MAX - 1, &last) || last < first) return false;
    }
    for (uint64_t cpu = first; cpu <= last; cpu++) set->bits[cpu / 64] |= (uint64_t)1 << cpu % 64;
    return true;
}

bool os_cpuset_parse(os_cpuset *set, const char *text) {
    memset(set, 0, sizeof *set);
    while (parse_range(set, &text)) {
        if (*text == 0) return true;
        text = skip_blanks(text);
        if (*text != ',') return false;
        text = skip_blanks(text + 1);
    }
    return false;
}

unsigned os_cpuset_count(const os_cpuset *set) {
    unsigned count = 0;
    for (size_t i = 0; i < OS_CPUS_MAX / 64; i++) count += bits_set(set->bits[i]);
    return count;
}

uint32_t os_cpuset_nth(const os_cpuset *set, uint32_t number) {
    uint32_t count = os_cpuset_count(set);
    uint32_t left = count == 0 ? 0 : number % count;
    for (uint32_t cpu = 0; cpu < OS_CPUS_MAX; cpu++)
        if (os_cpuset_has(set, cpu) && left-- == 0) return cpu;
    return OS_NO_CPU;
}

/* A kernel built for more CPUs than OS_CPUS_MAX refuses a mask of that size. */
#define MASK_SIZE_MAX ((size_t)1 << 16)

static bool cpuset_of_big(pid_t thread, os_cpuset *set) {
    for (size_t size = sizeof *set * 2; size <= MASK_SIZE_MAX; size *= 2) {
        cpu_set_t *mask = os_alloc(size);
        if (mask == NULL) return false;
        int failed = sched_getaffinity(thread, size, mask);
        if (failed == 0) memcpy(set, mask, sizeof *set);
        os_free(mask);
        if (failed == 0) return true;
        if (errno != EINVAL) return false;
    }
    return false;
}

static bool cpuset_of(pid_t thread, os_cpuset *set) {
    KEEP_ERRNO;
    memset(set, 0, sizeof *set);
    bool known =
        sched_getaffinity(thread, sizeof *set, (cpu_set_t *)set) == 0 || (errno == EINVAL && cpuset_of_big(thread, set));
    return known && os_cpuset_count(set) != 0;
}

bool os_cpuset_current(os_cpuset *set) { return cpuset_of(0, set); }
bool os_cpuset_main(os_cpuset *set) { return cpuset_of(getpid(), set); }

bool os_cpuset_apply(const os_cpuset *set) {
    KEEP_ERRNO;
    return sched_setaffinity(0, sizeof *set, (const cpu_set_t *)set) == 0;
}

/* Where the kernel maintains the CPU's number for each thread, reading it is one load. The C library's function would fault
 * in pages of its code and data. */
uint32_t os_cpu(void) {
#if defined(RSEQ_SIG) && defined(__x86_64__)
    const char *thread;
    __asm__("mov %%fs:0, %0" : "=r"(thread));
    const struct rseq *area = (const void *)(thread + __rseq_offset);
    int known = (int)load_rlx((const ATOMIC(uint32_t) *)(const void *)&area->cpu_id); /* the kernel may write it meanwhile */
    if (LIKELY(known >= 0)) return (uint32_t)known;                                   /* negative: not registered */
#endif
    KEEP_ERRNO;
    int cpu = sched_getcpu();
    return cpu < 0 ? OS_NO_CPU : (uint32_t)cpu;
}

/* ---- reading lines ------------------------------------------------------------------------------------------------ */

#define TEXT_MAX 4096 /* the longest path, line or file that is read; a longer one sets no limit */

typedef struct reader {
    int fd;
    size_t begin, end; /* of the bytes not yet handed out */
    char bytes[TEXT_MAX];
} reader;

static bool reader_open(reader *in, const char *path) {
    in->fd = os_open(path);
    in->begin = in->end = 0;
    return in->fd >= 0;
}

/* false: the end of the file, or it cannot be read. */
static bool reader_fill(reader *in) {
    in->begin = 0;
    in->end = os_read(in->fd, in->bytes, sizeof in->bytes);
    return in->end > 0;
}

/* The next line of less than TEXT_MAX bytes, without its newline; longer ones (overlay mounts) are skipped. false: none. */
static bool reader_line(reader *in, char line[TEXT_MAX]) {
    size_t length = 0;
    for (;;) {
        if (in->begin == in->end && !reader_fill(in)) {
            line[length < TEXT_MAX ? length : 0] = 0;
            return length != 0 && length < TEXT_MAX;
        }
        char byte = in->bytes[in->begin++];
        if (byte != '\n') {
            if (length < TEXT_MAX) line[length++] = byte;
        } else if (length < TEXT_MAX) {
            line[length] = 0;
            return true;
        } else {
            length = 0;
        }
    }
}

/* The first line of a file. false: there is none. */
static bool read_first_line(reader *in, const char *path, char line[TEXT_MAX]) {
    if (!reader_open(in, path)) return false;
    bool any = reader_line(in, line);
    os_close(in->fd);
    return any;
}

/* ---- quota of one group ------------------------------------------------------------------------------------------- */

#define PERIOD_US_MAX ((uint64_t)1000000000)
#define QUOTA_US_MAX (UINT64_MAX / 2000)

/* Has pages of its own: stacks may be small, and a program's heap would keep its 28 KiB. */
typedef struct search {
    reader in;             /* mountinfo */
    reader file;           /* a group's limits */
    char own[2][TEXT_MAX]; /* the own group's path in version 1's cpu hierarchy, and in version 2; empty: none */
    char line[TEXT_MAX];
    char text[TEXT_MAX]; /* contents of one of a group's files */
    char path[TEXT_MAX]; /* the group's directory, and for a moment a file in it */
    uint64_t least;      /* thousandths of a CPU, 0: no limit found yet */
    bool is_told;        /* both files could be read */
} search;

static void search_limit(search *s, uint64_t quota_us, uint64_t period_us) {
    if (quota_us == 0 || period_us == 0) return;
    uint64_t millicpus = (quota_us * 1000 + period_us - 1) / period_us;
    s->least = s->least == 0 ? millicpus : min_u64(s->least, millicpus);
}

/* Reads a file of the group whose directory is the first `length` bytes of s->path into s->text. */
static bool group_file(search *s, size_t length, const char *name) {
    size_t name_size = strlen(name) + 1;
    if (length + name_size > sizeof s->path) return false;
    memcpy(s->path + length, name, name_size);
    bool any = read_first_line(&s->file, s->path, s->text);
    s->path[length] = 0;
    return any;
}

static bool group_number(search *s, size_t length, const char *name, uint64_t most, uint64_t *number) {
    const char *text = s->text;
    return group_file(s, length, name) && digits_parse(&text, most, number) && *text == 0;
}

static void group_limit_v1(search *s, size_t length) {
    uint64_t quota_us, period_us;
    if (group_number(s, length, "/cpu.cfs_quota_us", QUOTA_US_MAX, &quota_us) &&
        group_number(s, length, "/cpu.cfs_period_us", PERIOD_US_MAX, &period_us))
        search_limit(s, quota_us, period_us);
}

/* "50000 100000", or "max 100000". */
static void group_limit_v2(search *s, size_t length) {
    uint64_t quota_us, period_us;
    const char *text = s->text;
    if (!group_file(s, length, "/cpu.max") || !digits_parse(&text, QUOTA_US_MAX, &quota_us) || *text != ' ') return;
    text++;
    if (digits_parse(&text, PERIOD_US_MAX, &period_us) && *text == 0) search_limit(s, quota_us, period_us);
}

/* ---- from the own group up to the mount --------------------------------------------------------------------------- */

enum version { V1 = 0, V2 = 1 };

static void group_limit(search *s, enum version version, size_t length) {
    if (version == V1)
        group_limit_v1(s, length);
    else
        group_limit_v2(s, length);
}

/* The part of `path` below `top`: "" or "/...". NULL: path is neither top nor below it. */
static const char *path_below(const char *path, const char *top) {
    size_t length = strcmp(top, "/") == 0 ? 0 : strlen(top);
    if (strncmp(path, top, length) != 0 || (path[length] != 0 && path[length] != '/')) return NULL;
    const char *rest = path + length;
    if (strcmp(rest, "/") == 0) return ""; /* the root itself, so that it is looked at only once */
    /* "/.." leads out of the mount: a group outside the own cgroup namespace. */
    return strncmp(rest, "/..", 3) == 0 && (rest[3] == 0 || rest[3] == '/') ? NULL : rest;
}

/* Whether a mount's root is "/..", "/../.." and so on. Such a mount shows all groups of the own namespace, under an unknown
 * name. */
static bool is_above_namespace(const char *mount_root) {
    while (strncmp(mount_root, "/..", 3) == 0) mount_root += 3;
    return *mount_root == 0;
}

/* Appends to s->path. false: it does not fit, and the path is as it was. */
static bool path_append(search *s, const char *text) {
    size_t length = strlen(s->path), size = strlen(text) + 1;
    if (length + size > sizeof s->path) return false;
    memcpy(s->path + length, text, size);
    return true;
}

/* Looks at the own group and those above it, as far as this mount shows them. */
static void walk_mount(search *s, enum version version, const char *root, const char *mount_root, const char *mount_point) {
    if (s->own[version][0] == 0) return;
    const char *below = path_below(s->own[version], mount_root);
    if (below == NULL) {
        if (!is_above_namespace(mount_root) || strncmp(s->own[version], "/..", 3) == 0) return;
        below = "";
    }
    s->path[0] = 0;
    if (!path_append(s, root) || !path_append(s, strcmp(mount_point, "/") == 0 ? "" : mount_point)) return;
    size_t top = strlen(s->path);
    if (!path_append(s, below)) return;
    for (;;) {
        size_t length = strlen(s->path);
        group_limit(s, version, length);
        if (length <= top) return;
        while (s->path[length] != '/') length--;
        s->path[length] = 0;
    }
}

/* ---- /proc files -------------------------------------------------------------------------------------------------- */

/* Cuts the text at the next `separator` and returns the part before it. *rest becomes NULL at the end. */
static char *next_field(char **rest, char separator) {
    char *field = *rest;
    char *end = strchr(field, separator);
    if (end != NULL) *end++ = 0;
    *rest = end;
    return field;
}

/* Whether "cpu" is one word of "rw,cpu,cpuacct". */
static bool lists_cpu(char *words) {
    while (words != NULL)
        if (strcmp(next_field(&words, ','), "cpu") == 0) return true;
    return false;
}

/* Replaces "\040" and the like by the characters that they stand for. */
static void decode_octal(char *text) {
    char *to = text;
    for (const char *from = text; *from != 0; to++) {
        if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' && from[2] <= '7' && from[3] >= '0' &&
            from[3] <= '7') {
            *to = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = 0;
}

/* A line of /proc/self/cgroup: "id:controllers:path". */
static void own_line(search *s, char *line) {
    char *rest = line;
    const char *id = next_field(&rest, ':');
    if (rest == NULL) return;
    char *controllers = next_field(&rest, ':');
    if (rest == NULL || rest[0] != '/') return;
    if (strcmp(id, "0") == 0)
        memcpy(s->own[V2], rest, strlen(rest) + 1);
    else if (lists_cpu(controllers))
        memcpy(s->own[V1], rest, strlen(rest) + 1);
}

/* A line of mountinfo: "id parent device root point options [optional fields] - type source super-options". */
static void mount_line(search *s, char *line, const char *root) {
    char *fields[5];
    char *rest = line;
    for (size_t i = 0; i < 5; i++) {
        if (rest == NULL) return;
        fields[i] = next_field(&rest, ' ');
    }
    do {
        if (rest == NULL) return;
    } while (strcmp(next_field(&rest, ' '), "-") != 0);
    char *tail[3] = {NULL, NULL, NULL};
    for (size_t i = 0; i < 3 && rest != NULL; i++) tail[i] = next_field(&rest, ' ');
    if (tail[0] == NULL) return;
    decode_octal(fields[3]);
    decode_octal(fields[4]);
    if (strcmp(tail[0], "cgroup2") == 0)
        walk_mount(s, V2, root, fields[3], fields[4]);
    else if (strcmp(tail[0], "cgroup") == 0 && lists_cpu(tail[2]))
        walk_mount(s, V1, root, fields[3], fields[4]);
}

static void search_run(search *s, const char *proc_cgroup, const char *mountinfo, const char *root) {
    if (!reader_open(&s->in, proc_cgroup)) return;
    while (reader_line(&s->in, s->line)) own_line(s, s->line);
    os_close(s->in.fd);
    if (!reader_open(&s->in, mountinfo)) return;
    while (reader_line(&s->in, s->line)) mount_line(s, s->line, root);
    os_close(s->in.fd);
    s->is_told = true;
}

/* false: the quota is not known. */
static bool quota_find(const char *proc_cgroup, const char *mountinfo, const char *root, uint64_t *millicpus) {
    KEEP_ERRNO;
    size_t bytes = round_up(sizeof(search), os_page_size());
    search *s = os_map(bytes);
    *millicpus = 0;
    if (s == NULL) return false;
    search_run(s, proc_cgroup, mountinfo, root);
    *millicpus = s->least;
    bool is_told = s->is_told;
    os_unmap(s, bytes);
    return is_told;
}

uint64_t os_quota_millicpus(const char *proc_cgroup, const char *mountinfo, const char *root) {
    uint64_t millicpus;
    (void)quota_find(proc_cgroup, mountinfo, root, &millicpus);
    return millicpus;
}

/* ---- the count ---------------------------------------------------------------------------------------------------- */

unsigned os_cpus_online(void) {
    KEEP_ERRNO;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (unsigned)online : 1;
}

static uint64_t usable_cpus(void) {
    os_cpuset set;
    return os_cpuset_current(&set) ? os_cpuset_count(&set) : os_cpus_online();
}

/* What the last search found, for pools made soon after: reading mountinfo takes longer than making the rest of a pool. One
 * word, so that no lock is needed: the upper half is thousandths of a CPU, the lower half the time in units, enough for 36
 * years. 0: none yet. */
static ATOMIC(uint64_t) found;
#define FOUND_UNIT_NS_LOG2 28 /* a quarter of a second; a result is valid for one to two units */

static uint32_t found_time(void) { return (uint32_t)(os_now_ns() >> FOUND_UNIT_NS_LOG2) + 1; }

static bool found_lately(uint64_t *millicpus) {
    uint64_t last = load_rlx(&found);
    *millicpus = last >> 32;
    return last != 0 && found_time() - (uint32_t)last <= 1;
}

static bool search_now(uint64_t *millicpus) {
    bool is_known = quota_find("/proc/thread-self/cgroup", "/proc/self/mountinfo", "", millicpus);
    if (is_known) store_rlx(&found, min_u64(*millicpus, UINT32_MAX) << 32 | found_time());
    return is_known;
}

static unsigned within(uint64_t millicpus, uint64_t cpus) {
    return (unsigned)(millicpus != 0 ? min_u64(cpus, (millicpus + 999) / 1000) : cpus);
}

unsigned os_cpu_count(void) {
    uint64_t millicpus;
    (void)search_now(&millicpus);
    return within(millicpus, usable_cpus());
}

unsigned os_cpu_count_lately(void) {
    uint64_t millicpus;
    if (!found_lately(&millicpus)) (void)search_now(&millicpus);
    return within(millicpus, usable_cpus());
}

unsigned os_cpu_count_now(unsigned allowed) {
    uint64_t millicpus;
    return search_now(&millicpus) ? within(millicpus, allowed) : 0;
}

/* ---- address space ------------------------------------------------------------------------------------------------ */

bool os_space_is_limited(void) {
    struct rlimit limit;
    KEEP_ERRNO;
    return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}
