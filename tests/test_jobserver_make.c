/* test_jobserver_make.c: four programs with pools under the real make: no more workers run tasks than -j says. Threads that wait
 * run some beside them until a worker gives way; how many is printed. */
#define _GNU_SOURCE
#include "sched/tokens.h"
#include "tally.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char self_path[PATH_MAX];
static gate held[2];

/* What make starts: this program, with a file of the tally. */
static int scene(const char *how, const char *file) {
    int fd = open(file, O_RDWR);
    REQUIRE(fd >= 0);
    tally = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    REQUIRE(tally != MAP_FAILED);
    weft_config config = config_of(strcmp(how, "auto") == 0 ? 0 : 4);
    REQUIRE(weft_config_from_env(&config) == WEFT_OK);
    weft_pool *pool = make_pool_with(&config);
    weft_config_init(&config);
    REQUIRE(weft_pool_config(pool, &config) == WEFT_OK);
    printf("refused=%s\n", config.refused == NULL ? "none" : config.refused);
    fflush(stdout);
    weft_group group = WEFT_GROUP_INIT;
    if (strcmp(how, "die") == 0) {
        for (unsigned i = 0; i < 2; i++) gate_occupy(&held[i], pool, &group); /* one token */
        raise(SIGKILL);
    }
    unsigned pauses = strcmp(how, "short") == 0 ? 2000 : 100000;
    submit_counted(pool, &group, 400, pauses);
    REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
    end_pool(pool);
    return 0;
}

/* Runs make with four targets; what it wrote. */
static void run_make(const char *options, const char *prefix, const char *how, char *output, size_t size) {
    char directory[] = "/tmp/weft-make-XXXXXX", path[64], counts[64], command[PATH_MAX + 200];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/Makefile", directory);
    snprintf(counts, sizeof counts, "%s/counts", directory);
    FILE *makefile = fopen(path, "w");
    assert_non_null(makefile);
    fprintf(makefile, "all: a b c d\na b c d:\n\t%s%s scene %s %s\n", prefix, self_path, how, counts);
    fclose(makefile);
    FILE *file = fopen(counts, "w");
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), sizeof *tally), 0);
    snprintf(command, sizeof command, "unset MAKEFLAGS MAKELEVEL WEFT_JOBSERVER; make %s -f %s 2>&1", options, path);
    FILE *make = popen(command, "r");
    assert_non_null(make);
    size_t length = fread(output, 1, size - 1, make);
    output[length] = 0;
    pclose(make);
    fclose(file);
    int fd = open(counts, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, tally, sizeof *tally), sizeof *tally);
    close(fd);
    printf("%s, %s: tasks that began as the first, second, ...:", options, how);
    for (unsigned i = 0; i < TALLY_LEVELS; i++) printf(" %u", atomic_load(&tally->begun[i]));
    printf("\n");
    unlink(counts);
    unlink(path);
    rmdir(directory);
}

static bool has_make(void) {
    FILE *make = popen("make --version 2>&1", "r");
    assert_non_null(make);
    int major = 0, minor = 0;
    bool has = fscanf(make, "GNU Make %d.%d", &major, &minor) == 2 && major * 100 + minor >= 403;
    pclose(make);
    if (!has) printf("skipped, real make: there is no GNU make, or one before 4.3 (%d.%d)\n", major, minor);
    return has;
}

static void test_make(void **state) {
    (void)state;
    char output[8192];
    if (!has_make()) return;
    struct tally found;
    tally = &found;
    run_make("-j2", "+@WEFT_JOBSERVER=on ", "long", output, sizeof output);
    if (strstr(output, "refused=none") == NULL || strstr(output, "refused=jobserver") != NULL) fail_msg("%s", output);
    if (strstr(output, "jobserver tokens") != NULL) fail_msg("%s", output); /* as many as make put in */
    assert_int_equal(atomic_load(&found.done), 1600);
    assert_in_range(atomic_load(&found.most_workers), 1, 2);
    run_make("-j2", "+@", "auto", output,
             sizeof output); /* MAKEFLAGS alone, where the number of workers is the pool's own */
    if (strstr(output, "jobserver") != NULL) fail_msg("%s", output);
    assert_int_equal(atomic_load(&found.done), 1600);
    assert_in_range(atomic_load(&found.most_workers), 1, 2);
    run_make("-j3", "+@WEFT_JOBSERVER=on ", "short", output, sizeof output);
    if (strstr(output, "jobserver tokens") != NULL) fail_msg("%s", output);
    assert_in_range(atomic_load(&found.most_workers), 1, 3);
    run_make("-j2", "@WEFT_JOBSERVER=on ", "short", output, sizeof output); /* a recipe without + */
    assert_int_equal(atomic_load(&found.done), 1600);
    if (strstr(output, "jobserver tokens") != NULL) fail_msg("%s", output);
    run_make("", "+@WEFT_JOBSERVER=on ", "short", output, sizeof output); /* no -j */
    assert_int_equal(atomic_load(&found.done), 1600);
    if (strstr(output, "refused=jobserver (ENOENT)") == NULL) fail_msg("%s", output);
}

/* make counts at its end. */
static void test_make_misses_tokens(void **state) {
    (void)state;
    char output[8192];
    if (!has_make()) return;
    struct tally found;
    tally = &found;
    run_make("-k -j8", "+-@WEFT_JOBSERVER=on ", "die", output, sizeof output);
    if (strstr(output, "jobserver tokens available; should be") == NULL) fail_msg("%s", output);
}

int main(int argc, char **argv) {
    store_rlx(&tokens_grace_us, TOKENS_GRACE_NONE); /* what is counted is exact */
    if (argc == 4 && strcmp(argv[1], "scene") == 0) return scene(argv[2], argv[3]);
    choose_cases(argc, argv);
    ssize_t length = readlink("/proc/self/exe", self_path, sizeof self_path - 1);
    REQUIRE(length > 0);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_make), cmocka_unit_test(test_make_misses_tokens)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
