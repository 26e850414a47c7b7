/* fuzz_cpus.c: lists of CPUs; what control groups, mountinfo and sysfs say of the quota. */
#define _GNU_SOURCE
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "os/os.h"

const char *const fuzz_words[] = {"0-3,8",      "cpu,cpuacct",  "0::/",
                                  "/a/b",       "/..",          "cgroup2",
                                  "cgroup rw",  " - ",          "rw,cpu",
                                  "max 100000", "50000 100000", "-1",
                                  "\\040",      "4:cpu:/a",     "36 35 0:31 / /m rw - cgroup2 c rw",
                                  NULL};

enum { TEXT = 6000 };
static char root[] = "/tmp/weft-fuzz-XXXXXX";
static const char *const folders[] = {"m", "m/a", "m/a/b"};
static const char *const files[] = {
    "cgroup", "mountinfo", "m/cpu.max", "m/a/cpu.max", "m/a/b/cpu.cfs_quota_us", "m/a/b/cpu.cfs_period_us"};

enum { FOLDERS = sizeof folders / sizeof folders[0], FILES = sizeof files / sizeof files[0] };

static const char *path_of(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

static void remove_all(void) {
    for (int i = 0; i < FILES; i++) unlink(path_of(files[i]));
    for (int i = FOLDERS - 1; i >= 0; i--) rmdir(path_of(folders[i]));
    rmdir(root);
}

static void make_folders(void) {
    static bool is_made;
    if (is_made) return;
    is_made = true;
    FUZZ_CHECK(mkdtemp(root) != NULL);
    atexit(remove_all);
    for (int i = 0; i < FOLDERS; i++) FUZZ_CHECK(mkdir(path_of(folders[i]), 0700) == 0);
}

/* A set is what its text says: written out and read again it is the same. */
static void check_set(const char *text) {
    os_cpuset set, again;
    if (!os_cpuset_parse(&set, text)) return;
    char *list = malloc((size_t)OS_CPUS_MAX * 6);
    size_t length = 0;
    FUZZ_CHECK(list != NULL && os_cpuset_count(&set) > 0);
    for (uint32_t cpu = 0; cpu < OS_CPUS_MAX; cpu++)
        if (os_cpuset_has(&set, cpu)) length += (size_t)sprintf(list + length, "%s%u", length > 0 ? "," : "", cpu);
    FUZZ_CHECK(os_cpuset_parse(&again, list) && memcmp(&set, &again, sizeof set) == 0);
    FUZZ_CHECK(os_cpuset_has(&set, os_cpuset_nth(&set, os_cpuset_count(&set) - 1)));
    free(list);
}

/* Some lines into the file; a few of the inputs' first bytes say how many. */
static void write_file(struct fuzz *input, const char *name) {
    char line[TEXT];
    FILE *file = fopen(path_of(name), "w");
    FUZZ_CHECK(file != NULL);
    for (unsigned lines = fuzz_below(input, 4); lines > 0; lines--)
        fprintf(file, "%s\n", fuzz_text(input, line, sizeof line));
    fclose(file);
}

void fuzz_one(struct fuzz *input) {
    char text[TEXT], proc_cgroup[64];
    make_folders();
    check_set(fuzz_text(input, text, sizeof text));
    for (int i = 0; i < FILES; i++) write_file(input, files[i]);
    snprintf(proc_cgroup, sizeof proc_cgroup, "%s/cgroup", root);
    os_quota_millicpus(proc_cgroup, path_of("mountinfo"), root);
}
