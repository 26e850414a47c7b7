/* test_cpus.c: CPU lists, affinity, and control group quotas from made-up and real hierarchies. */
#define _GNU_SOURCE
#include "help.h"
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* ---- sched_getaffinity of a kernel built for more CPUs than the mask offered to it -------------------------------- */

static size_t kernel_mask_bytes; /* 0: the real kernel */
static int affinity_error;       /* what the call fails with; 0: it does not */

/* Stands before the C library's. */
int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set) {
    if (affinity_error != 0 || size < kernel_mask_bytes) {
        errno = affinity_error != 0 ? affinity_error : EINVAL;
        return -1;
    }
    long filled = syscall(SYS_sched_getaffinity, pid, size, set);
    if (filled < 0) return -1;
    memset((char *)set + filled, 0, size - (size_t)filled);
    return 0;
}

/* ---- CPU lists ---------------------------------------------------------------------------------------------------- */

static bool has_cpu(const os_cpuset *set, unsigned cpu) { return (set->bits[cpu / 64] >> cpu % 64 & 1) != 0; }

static void test_list(void **state) {
    (void)state;
    os_cpuset set;
    assert_true(os_cpuset_parse(&set, "0-3,8"));
    assert_int_equal(os_cpuset_count(&set), 5);
    for (unsigned cpu = 0; cpu < 10; cpu++) assert_int_equal(has_cpu(&set, cpu), cpu <= 3 || cpu == 8);
    assert_true(os_cpuset_parse(&set, "5"));
    assert_true(os_cpuset_count(&set) == 1 && has_cpu(&set, 5));
    assert_true(os_cpuset_parse(&set, "4095"));
    assert_true(os_cpuset_count(&set) == 1 && has_cpu(&set, 4095));
    assert_true(os_cpuset_parse(&set, "0-4095"));
    assert_int_equal(os_cpuset_count(&set), OS_CPUS_MAX);
    assert_true(os_cpuset_parse(&set, "7 , 7-7,\t63-64"));
    assert_true(os_cpuset_count(&set) == 3 && has_cpu(&set, 7) && has_cpu(&set, 63) && has_cpu(&set, 64));
}

static void test_list_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",
        " ",
        ",",
        "0,",
        ",0",
        "0,,1",
        "3-1",
        "-1",
        "1-",
        "1-2-3",
        "a",
        "0x1",
        "1a",
        "4096",
        "0-4096",
        "+1",
        " 0",
        "0 ",
        "1 2",
        "1 -2",
        "0-3;8",
        "18446744073709551616",
        "1.5",
        "0-3, ",
        "0\n",
        "4294967296",
        "99999999999999999999999999",
        "-",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        os_cpuset set;
        if (os_cpuset_parse(&set, bad[i])) fail_msg("taken for a CPU list: \"%s\"", bad[i]);
    }
}

/* ---- affinity ----------------------------------------------------------------------------------------------------- */

static unsigned first_cpu(const os_cpuset *set) {
    unsigned cpu = 0;
    while (!has_cpu(set, cpu)) cpu++;
    return cpu;
}

static void test_affinity(void **state) {
    (void)state;
    os_cpuset all;
    errno = EDOM;
    assert_true(os_cpuset_current(&all));
    os_cpuset of_main;
    assert_true(os_cpuset_main(&of_main));
    assert_memory_equal(&of_main, &all, sizeof all);
    assert_int_equal(errno, EDOM);
    cpu_set_t reference;
    assert_int_equal(sched_getaffinity(0, sizeof reference, &reference), 0);
    assert_int_equal(os_cpuset_count(&all), CPU_COUNT(&reference));
    assert_memory_equal(&all, &reference, sizeof reference);
}

static int one_cpu(void *argument) {
    (void)argument;
    os_cpuset set;
    REQUIRE(os_cpuset_current(&set));
    unsigned cpu = first_cpu(&set);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    REQUIRE(os_cpuset_current(&set));
    REQUIRE(os_cpuset_count(&set) == 1 && has_cpu(&set, cpu));
    REQUIRE(os_cpu_count() == 1);
    return 0;
}

static void test_affinity_of_one_cpu(void **state) {
    (void)state;
    assert_int_equal(in_child(one_cpu, NULL), 0);
}

static void test_affinity_of_many_cpus(void **state) {
    (void)state;
    os_cpuset small, big;
    assert_true(os_cpuset_current(&small));
    kernel_mask_bytes = (size_t)1 << 30;
    bool absurd = os_cpuset_current(&big);
    kernel_mask_bytes = 2048;
    errno = EDOM;
    bool known = os_cpuset_current(&big);
    kernel_mask_bytes = 0;
    assert_int_equal(errno, EDOM);
    assert_false(absurd);
    assert_true(known);
    assert_memory_equal(&small, &big, sizeof small);
}

static void test_affinity_unknown(void **state) {
    (void)state;
    os_cpuset set;
    affinity_error = ENOSYS;
    bool known = os_cpuset_current(&set);
    unsigned count = os_cpu_count();
    affinity_error = 0;
    assert_false(known);
    assert_true(count >= 1 && count <= (unsigned long)sysconf(_SC_NPROCESSORS_ONLN));
}

/* ---- quotas: made-up hierarchies ---------------------------------------------------------------------------------- */

#define V2_MOUNT "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_MOUNT "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:7 - cgroup cgroup rw,cpu,cpuacct\n"
#define V1_OTHERS                                                                                                           \
    "32 31 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"                                                     \
    "34 31 0:31 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n"
#define ROOT_MOUNT "23 1 254:0 / / rw,relatime - ext4 /dev/root rw\n"
#define V1_DIR "/sys/fs/cgroup/cpu,cpuacct"
#define V2_DIR "/sys/fs/cgroup"

typedef struct hierarchy {
    const char *name;
    const char *cgroup;    /* /proc/self/cgroup */
    const char *mountinfo; /* /proc/self/mountinfo */
    uint64_t millicpus;    /* what must be found */
    const char *files[9];  /* path, contents, path, contents, ... NULL */
} hierarchy;

#define V1_GROUP(path, quota, period) path "/cpu.cfs_quota_us", quota "\n", path "/cpu.cfs_period_us", period "\n"
#define V2_GROUP(path, max) path "/cpu.max", max "\n"

static const hierarchy hierarchies[] = {
    {"v2", "0::/a\n", ROOT_MOUNT V2_MOUNT, 1500, {V2_GROUP(V2_DIR "/a", "150000 100000")}},
    {"v2, no limit", "0::/a\n", V2_MOUNT, 0, {V2_GROUP(V2_DIR "/a", "max 100000")}},
    {"v2, parent tighter",
     "0::/a/b/c\n",
     V2_MOUNT,
     500,
     {V2_GROUP(V2_DIR "/a/b/c", "400000 100000"), V2_GROUP(V2_DIR "/a/b", "max 100000"),
      V2_GROUP(V2_DIR "/a", "50000 100000")}},
    {"v2, child tighter",
     "0::/a/b\n",
     V2_MOUNT,
     2000,
     {V2_GROUP(V2_DIR "/a/b", "200000 100000"), V2_GROUP(V2_DIR "/a", "300000 100000")}},
    {"v2, another's limit", "0::/a\n", V2_MOUNT, 0, {V2_GROUP(V2_DIR "/b", "50000 100000")}},
    {"v2, name that begins alike", "0::/abc\n", V2_MOUNT, 0, {V2_GROUP(V2_DIR "/ab", "50000 100000")}},
    {"v2, in the root group", "0::/\n", V2_MOUNT, 700, {V2_GROUP(V2_DIR, "70000 100000")}},
    {"v2, rounded up to a thousandth", "0::/a\n", V2_MOUNT, 1001, {V2_GROUP(V2_DIR "/a", "100001 100000")}},
    {"v2, tiny", "0::/a\n", V2_MOUNT, 1, {V2_GROUP(V2_DIR "/a", "1 1000000")}},
    {"v2, own file missing", "0::/a/b\n", V2_MOUNT, 3000, {V2_GROUP(V2_DIR "/a", "300000 100000")}},
    {"v2, mount of a part",
     "0::/a/b/c\n",
     "30 23 0:26 /a/b /mnt rw - cgroup2 none rw\n",
     2500,
     {V2_GROUP("/mnt/c", "250000 100000"), V2_GROUP("/mnt/a/b/c", "1000 100000"), V2_GROUP("/a/b/c", "1000 100000")}},
    {"v2, mount of exactly the own group",
     "0::/a/b\n",
     "30 23 0:26 /a/b /mnt rw - cgroup2 none rw\n",
     2500,
     {V2_GROUP("/mnt", "250000 100000")}},
    {"v2, mount of a stranger's part",
     "0::/a/b\n",
     "30 23 0:26 /a/x /mnt rw - cgroup2 none rw\n",
     0,
     {V2_GROUP("/mnt", "50000 100000"), V2_GROUP("/mnt/b", "50000 100000")}},
    {"v2, mount from above the namespace",
     "0::/\n",
     "30 23 0:26 /.. /mnt rw - cgroup2 none rw\n",
     900,
     {V2_GROUP("/mnt", "90000 100000")}},
    {"v2, mount from far above the namespace",
     "0::/q\n",
     "30 23 0:26 /../.. /mnt rw - cgroup2 none rw\n",
     900,
     {V2_GROUP("/mnt", "90000 100000")}},
    {"v2, mount beside the namespace",
     "0::/\n",
     "30 23 0:26 /../y /mnt rw - cgroup2 none rw\n",
     0,
     {V2_GROUP("/mnt", "5 10")}},
    {"v2, outside, mount beside",
     "0::/../x\n",
     "30 23 0:26 /../y /mnt rw - cgroup2 none rw\n",
     0,
     {V2_GROUP("/mnt", "5 10")}},
    {"v2, outside, mount from far above",
     "0::/../x\n",
     "30 23 0:26 /../.. /mnt rw - cgroup2 none rw\n",
     0,
     {V2_GROUP("/mnt", "5 10")}},
    {"v2, mount whose name begins alike",
     "0::/abc\n",
     "30 23 0:26 /ab /mnt rw - cgroup2 none rw\n",
     0,
     {V2_GROUP("/mntc", "5 10"), V2_GROUP("/mnt", "5 10")}},
    {"v2, blanks in the mount's root",
     "0::/a b/c\n",
     "30 23 0:26 /a\\040b /mnt rw - cgroup2 none rw\n",
     800,
     {V2_GROUP("/mnt/c", "8 10")}},
    {"v2, a parent with a limit of nothing",
     "0::/a/b\n",
     V2_MOUNT,
     3000,
     {V2_GROUP(V2_DIR "/a/b", "30 10"), V2_GROUP(V2_DIR "/a", "0 10")}},
    {"v2, outside the namespace",
     "0::/../x\n",
     V2_MOUNT,
     0,
     {V2_GROUP(V2_DIR, "50000 100000"), V2_GROUP(V2_DIR "/x", "5 10")}},
    {"v2, outside, mount from above",
     "0::/../x\n",
     "30 23 0:26 /.. /mnt rw - cgroup2 none rw\n",
     900,
     {V2_GROUP("/mnt/x", "90000 100000")}},
    {"v2, blanks in the path",
     "0::/a\n",
     "30 23 0:26 / /my\\040cg\\134x\\011y rw - cgroup2 none rw\n",
     1200,
     {V2_GROUP("/my cg\\x\ty/a", "120000 100000")}},
    {"v2, no optional fields, empty source",
     "0::/a\n",
     "30 23 0:26 / /m rw - cgroup2  rw\n",
     1200,
     {V2_GROUP("/m/a", "12 10")}},
    {"v2, many optional fields",
     "0::/a\n",
     "30 23 0:26 / /m rw shared:1 master:2 unbindable - cgroup2 c rw\n",
     1200,
     {V2_GROUP("/m/a", "12 10")}},
    {"v2, colons in the path", "0::/a:b:c\n", V2_MOUNT, 1200, {V2_GROUP(V2_DIR "/a:b:c", "12 10")}},
    {"v2, mounted twice", "0::/a\n", V2_MOUNT "31 23 0:26 / /m rw - cgroup2 c rw\n", 1200, {V2_GROUP("/m/a", "12 10")}},
    {"v1", "4:cpu,cpuacct:/a\n", V1_OTHERS V1_MOUNT, 1500, {V1_GROUP(V1_DIR "/a", "150000", "100000")}},
    {"v1, no limit", "4:cpu,cpuacct:/a\n", V1_MOUNT, 0, {V1_GROUP(V1_DIR "/a", "-1", "100000")}},
    {"v1, cpu alone",
     "9:cpuacct:/z\n1:cpu:/a\n",
     V1_OTHERS "33 31 0:30 / /c rw - cgroup cgroup rw,cpu\n",
     250,
     {V1_GROUP("/c/a", "25000", "100000")}},
    {"v1, cpuset is not cpu",
     "1:cpuset:/a\n",
     "33 31 0:30 / /c rw - cgroup cgroup rw,cpuset\n",
     0,
     {V1_GROUP("/c/a", "25000", "100000")}},
    {"v1, cpuset mounted beside", "1:cpu:/a\n", V1_OTHERS, 0, {V1_GROUP("/sys/fs/cgroup/cpuset/a", "25000", "100000")}},
    {"v1, named hierarchy",
     "1:name=cpu:/a\n",
     "33 31 0:30 / /c rw - cgroup cgroup rw,name=cpu\n",
     0,
     {V1_GROUP("/c/a", "25000", "100000")}},
    {"v1, parent tighter",
     "4:cpu,cpuacct:/a/b\n",
     V1_MOUNT,
     1000,
     {V1_GROUP(V1_DIR "/a/b", "800000", "200000"), V1_GROUP(V1_DIR "/a", "50000", "50000")}},
    {"v1, parent unlimited",
     "4:cpu,cpuacct:/a/b\n",
     V1_MOUNT,
     4000,
     {V1_GROUP(V1_DIR "/a/b", "800000", "200000"), V1_GROUP(V1_DIR "/a", "-1", "100000")}},
    {"v1, container with the host's paths",
     "4:cpuacct,cpu:/docker/0123abcd\n",
     "33 31 0:30 /docker/0123abcd /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n",
     1750,
     {V1_GROUP(V1_DIR, "175000", "100000")}},
    {"v1, path that the mount does not show",
     "4:cpu:/docker/0123abcd\n",
     "33 31 0:30 / /c ro - cgroup cgroup rw,cpu\n",
     1750,
     {V1_GROUP("/c", "175000", "100000")}},
    {"v1, garbage",
     "4:cpu,cpuacct:/a/b\n",
     V1_MOUNT,
     0,
     {V1_GROUP(V1_DIR "/a/b", "5x", "100000"), V1_GROUP(V1_DIR "/a", "50000", "x")}},
    {"v1, period missing", "4:cpu,cpuacct:/a\n", V1_MOUNT, 0, {V1_DIR "/a/cpu.cfs_quota_us", "50000\n"}},
    {"hybrid, limit in v1",
     "4:cpu,cpuacct:/a\n0::/u\n",
     V1_MOUNT "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 c rw\n",
     1500,
     {V1_GROUP(V1_DIR "/a", "150000", "100000"), V2_GROUP("/sys/fs/cgroup/unified/u", "max 100000")}},
    {"hybrid, limit in v2",
     "4:cpu,cpuacct:/a\n0::/u\n",
     V1_MOUNT "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 c rw\n",
     2000,
     {V1_GROUP(V1_DIR "/a", "-1", "100000"), V2_GROUP("/sys/fs/cgroup/unified/u", "200000 100000")}},
    {"hybrid, v1 without cpu", "4:memory:/a\n0::/u\n", V1_OTHERS V2_MOUNT, 2000, {V2_GROUP(V2_DIR "/u", "200000 100000")}},
    {"nothing mounted", "0::/a\n", ROOT_MOUNT, 0, {V2_GROUP("/a", "5 10")}},
    {"no group named", "", V2_MOUNT, 0, {V2_GROUP(V2_DIR, "5 10")}},
    {"garbage in cgroup", "0\n::\n0:\n:::::\nx::/a\n0::a\n\n0:cpu\n", V2_MOUNT V1_MOUNT, 0, {V2_GROUP(V2_DIR "/a", "5 10")}},
    {"garbage in mountinfo",
     "0::/a\n",
     "\n-\n - \n1 2 3\n1 2 3 4 5 6 7\n30 23 0:26 / /m rw -\n30 23 0:26 / /m rw - cgroup\n",
     0,
     {V2_GROUP("/m/a", "5 10")}},
    {"no newline at the end", "0::/a", "30 23 0:26 / /m rw - cgroup2 c rw", 500, {"/m/a/cpu.max", "5 10"}},
};

/* What a kernel never writes sets no limit. */
static const char *const bad_limits[] = {
    "",
    "\n",
    "x\n",
    "max\n",
    "100\n",
    "100 \n",
    " 100 100\n",
    "100 0\n",
    "0 100\n",
    "-1 100\n",
    "100 -1\n",
    "100 100 100\n",
    "1e5 100\n",
    "99999999999999999999999 100\n",
    "100 99999999999999999999999\n",
    "18446744073709551615 1\n",
    "100,100\n",
};

static char tree[64]; /* a temporary directory; the fixtures' "/" */

static void make_parents(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
}

static void put_file(const char *name, const char *text, size_t size) {
    char path[512];
    snprintf(path, sizeof path, "%s%s", tree, name);
    make_parents(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, size), size);
    close(fd);
}

static void put_text(const char *name, const char *text) { put_file(name, text, strlen(text)); }

static void tree_make(void) {
    strcpy(tree, "/tmp/weft-cpus-XXXXXX");
    assert_non_null(mkdtemp(tree));
}

static void tree_drop(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf -- %s", tree);
    assert_int_equal(system(command), 0);
}

static uint64_t tree_quota(void) {
    char cgroup[128], mountinfo[128];
    snprintf(cgroup, sizeof cgroup, "%s/proc-cgroup", tree);
    snprintf(mountinfo, sizeof mountinfo, "%s/proc-mountinfo", tree);
    errno = EDOM;
    uint64_t millicpus = os_quota_millicpus(cgroup, mountinfo, tree);
    assert_int_equal(errno, EDOM);
    return millicpus;
}

static void test_quota_fixtures(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof hierarchies / sizeof hierarchies[0]; i++) {
        const hierarchy *h = &hierarchies[i];
        tree_make();
        put_text("/proc-cgroup", h->cgroup);
        put_text("/proc-mountinfo", h->mountinfo);
        for (size_t f = 0; h->files[f] != NULL; f += 2) put_text(h->files[f], h->files[f + 1]);
        uint64_t found = tree_quota();
        if (found != h->millicpus)
            fail_msg("%s: %llu, not %llu", h->name, (unsigned long long)found, (unsigned long long)h->millicpus);
        tree_drop();
    }
}

static void test_quota_bad_limits(void **state) {
    (void)state;
    tree_make();
    put_text("/proc-cgroup", "0::/a\n4:cpu,cpuacct:/a\n");
    put_text("/proc-mountinfo", V2_MOUNT V1_MOUNT);
    for (size_t i = 0; i < sizeof bad_limits / sizeof bad_limits[0]; i++) {
        put_text(V2_DIR "/a/cpu.max", bad_limits[i]);
        put_text(V1_DIR "/a/cpu.cfs_quota_us", bad_limits[i]);
        put_text(V1_DIR "/a/cpu.cfs_period_us", "0\n");
        uint64_t found = tree_quota();
        if (found != 0) fail_msg("\"%s\" gave %llu", bad_limits[i], (unsigned long long)found);
    }
    tree_drop();
}

static void test_quota_missing_files(void **state) {
    (void)state;
    assert_int_equal(os_quota_millicpus("/nonexistent/cgroup", "/proc/self/mountinfo", ""), 0);
    assert_int_equal(os_quota_millicpus("/proc/self/cgroup", "/nonexistent/mountinfo", ""), 0);
    tree_make();
    put_text("/proc-cgroup", "0::/a\n");
    put_text("/proc-mountinfo", V2_MOUNT);
    put_text(V2_DIR "/a/cpu.max/file", "a directory stands where the limit should\n");
    put_text(V2_DIR "/cpu.max", "20 10\n");
    assert_int_equal(tree_quota(), 2000);
    tree_drop();
}

/* A file whose first line begins with `first` and is filled up to `length` bytes, with `rest` after it. */
static void put_long_line(const char *name, size_t length, const char *first, const char *rest) {
    static char text[10000];
    assert_true(length + strlen(rest) + 2 <= sizeof text);
    memset(text, 'x', length);
    for (size_t i = 0; first[i] != 0; i++) text[i] = first[i];
    snprintf(text + length, sizeof text - length, "\n%s", rest);
    put_text(name, text);
}

/* Lines longer than any buffer must neither hide the good line after them nor be taken for one. */
static void test_quota_long_lines(void **state) {
    (void)state;
    tree_make();
    put_text("/m/a/cpu.max", "30 10\n");
    for (size_t length = 4000; length < 9000; length += length < 4200 ? 1 : 997) {
        put_long_line("/proc-cgroup", length, "9:cpuset:/", "0::/a\n");
        put_long_line("/proc-mountinfo", length, "29 23 0:25 / /m rw - overlay o ", "30 23 0:26 / /m rw - cgroup2 c rw\n");
        assert_int_equal(tree_quota(), 3000);
    }
    tree_drop();
}

static void test_quota_long_paths(void **state) {
    (void)state;
    tree_make();
    put_text("/proc-mountinfo", "30 23 0:26 / /m rw - cgroup2 c rw\n");
    put_text("/m/q/cpu.max", "30 10\n");
    for (size_t length = 3900; length < 4200; length++) {
        put_long_line("/proc-cgroup", length, "0::/q/", "");
        uint64_t found = tree_quota();
        /* Beyond what the library looks at there is no limit; as long as the whole path fits, the parent's is found. */
        assert_true(found == 3000 || (found == 0 && length > 4000));
    }
    tree_drop();
}

/* ---- quotas: the real thing --------------------------------------------------------------------------------------- */

static bool write_file(const char *directory, const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd = open(path, O_WRONLY);
    if (fd < 0) return false;
    bool done = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return done;
}

typedef struct realtime_group {
    char directory[256];
    uint64_t millicpus;
} realtime_group;

/* What was found is remembered: at some try the files are needed no more. */
static bool found_again_without_files(unsigned expected) {
    struct rlimit files, none;
    bool done = getrlimit(RLIMIT_NOFILE, &files) == 0;
    none = (struct rlimit){0, files.rlim_max};
    for (bool found = false; done && !found;) {
        (void)os_cpu_count();
        done = setrlimit(RLIMIT_NOFILE, &none) == 0;
        found = os_cpu_count_lately() == expected;
        done = setrlimit(RLIMIT_NOFILE, &files) == 0 && done;
    }
    return done;
}

static int inside_group(void *argument) {
    const realtime_group *group = argument;
    (void)os_cpu_count();
    uint64_t before = os_quota_millicpus("/proc/self/cgroup", "/proc/self/mountinfo", "");
    REQUIRE(write_file(group->directory, "cgroup.procs", "0"));
    uint64_t after = os_quota_millicpus("/proc/self/cgroup", "/proc/self/mountinfo", "");
    REQUIRE(after == (before == 0 ? group->millicpus : min_u64(before, group->millicpus)));
    os_cpuset set;
    REQUIRE(os_cpuset_current(&set));
    unsigned allowed = os_cpuset_count(&set);
    unsigned expected = (unsigned)max_u64(1, min_u64(allowed, (after + 999) / 1000));
    while (os_cpu_count_lately() != expected) usleep(1000); /* what was found before the move is soon forgotten */
    REQUIRE(os_cpu_count() == expected && os_cpu_count_now(allowed) == expected);
    REQUIRE(found_again_without_files(expected));
    return 0;
}

static void check_real_group(const char *mount, const char *quota, uint64_t millicpus) {
    realtime_group group = {.millicpus = millicpus};
    snprintf(group.directory, sizeof group.directory, "%s/weft-test-%d", mount, (int)getpid());
    if (mkdir(group.directory, 0755) != 0) SKIP("no right to make a control group");
    bool limited =
        write_file(group.directory, "cpu.cfs_period_us", "100000") && write_file(group.directory, "cpu.cfs_quota_us", quota);
    int status = limited ? in_child(inside_group, &group) : 0;
    while (rmdir(group.directory) != 0 && errno == EBUSY) os_yield(); /* the child's end reaches the group a little later */
    if (!limited) SKIP("the control group takes no quota");
    assert_int_equal(status, 0);
}

/* The mount point of the v1 cpu hierarchy, by another road than the library's. */
static bool find_v1_cpu(char *mount, size_t size) {
    FILE *mounts = fopen("/proc/self/mounts", "r");
    char line[1024], point[256], type[64], options[512];
    bool found = false;
    while (mounts != NULL && !found && fgets(line, sizeof line, mounts) != NULL)
        if (sscanf(line, "%*s %255s %63s %511s", point, type, options) == 3 && strcmp(type, "cgroup") == 0) {
            char padded[520];
            snprintf(padded, sizeof padded, ",%s,", options);
            found = strstr(padded, ",cpu,") != NULL;
            snprintf(mount, size, "%s", point);
        }
    if (mounts != NULL) fclose(mounts);
    return found;
}

static void test_quota_real(void **state) {
    (void)state;
    char mount[256];
    if (!find_v1_cpu(mount, sizeof mount)) SKIP("no v1 cpu hierarchy is mounted");
    check_real_group(mount, "150000", 1500);
    check_real_group(mount, "30000", 300);
}

static void test_cpu_count(void **state) {
    (void)state;
    os_cpuset set;
    assert_true(os_cpuset_current(&set));
    errno = EDOM;
    unsigned count = os_cpu_count();
    assert_int_equal(errno, EDOM);
    assert_true(count >= 1 && count <= os_cpuset_count(&set));
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_list_refused),
        cmocka_unit_test(test_affinity),
        cmocka_unit_test(test_affinity_of_one_cpu),
        cmocka_unit_test(test_affinity_of_many_cpus),
        cmocka_unit_test(test_affinity_unknown),
        cmocka_unit_test(test_quota_fixtures),
        cmocka_unit_test(test_quota_bad_limits),
        cmocka_unit_test(test_quota_missing_files),
        cmocka_unit_test(test_quota_long_lines),
        cmocka_unit_test(test_quota_long_paths),
        cmocka_unit_test(test_quota_real),
        cmocka_unit_test(test_cpu_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
