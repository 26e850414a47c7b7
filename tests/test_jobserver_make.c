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

/* Pairs of programs use up what `make -j2` allows, each by a thread in a call that ends when tasks have run on workers. */
#define GRACE_TASKS 5u
static void meet(atomic_uint *count) {
    unsigned own = atomic_fetch_add(count, 1) + 1;
    while (atomic_load(count) < (own + 1) / 2 * 2) nap();
}
static atomic_uint ran;
static int stay(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    while (atomic_load(&ran) < GRACE_TASKS) nap();
    meet(&tally->left);
    return 0;
}
static int run_on_worker(void *payload, weft_worker *self) {
    (void)payload;
    REQUIRE(self->is_worker);
    atomic_fetch_add(&ran, 1);
    atomic_fetch_add(&tally->done, 1);
    return 0;
}
static void need_grace(weft_pool *pool, weft_group *group) {
    store_rlx(&tokens_grace_us, 0); /* 100 ms */
    alarm(120);
    meet(&tally->arrived);
    for (unsigned i = 0; i < GRACE_TASKS; i++) REQUIRE(weft_submit(pool, group, run_on_worker, NULL, 0) == WEFT_OK);
    REQUIRE(weft_run(pool, NULL, stay, NULL) == WEFT_OK);
    REQUIRE(weft_group_wait(pool, group) == WEFT_OK);
    end_pool(pool);
}

/* What make starts: this program, with a file of the tally. */
static int scene(const char *how, const char *file) {
    int fd = open(file, O_RDWR);
    REQUIRE(fd >= 0);
    tally = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    REQUIRE(tally != MAP_FAILED);
    weft_config config = config_of(4);
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
    if (strcmp(how, "grace") == 0) {
        need_grace(pool, &group);
        return 0;
    }
    unsigned pauses = strcmp(how, "short") == 0 ? 2000 : 100000;
    submit_counted(pool, &group, 10, pauses);
    REQUIRE(weft_group_wait_until(pool, &group, WEFT_HELP_NONE, 0) == WEFT_OK); /* by workers alone */
    submit_counted(pool, &group, 390, pauses);
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
    printf("; at most %u at once, %u on workers\n", atomic_load(&tally->most), atomic_load(&tally->most_workers));
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
    run_make("-j2", "+@WEFT_JOBSERVER=1 ", "long", output, sizeof output);
    if (strstr(output, "refused=none") == NULL || strstr(output, "refused=jobserver") != NULL) fail_msg("%s", output);
    if (strstr(output, "jobserver tokens") != NULL) fail_msg("%s", output); /* as many as make put in */
    assert_int_equal(atomic_load(&found.done), 1600);
    assert_in_range(atomic_load(&found.most_workers), 1, 2);
    run_make("-j2", "+@", "long", output, sizeof output); /* it does not ask */
    if (strstr(output, "jobserver") != NULL) fail_msg("%s", output);
    assert_int_equal(atomic_load(&found.done), 1600);
    run_make("-j3", "+@WEFT_JOBSERVER=1 ", "short", output, sizeof output);
    if (strstr(output, "jobserver tokens") != NULL) fail_msg("%s", output);
    assert_in_range(atomic_load(&found.most_workers), 1, 3);
    run_make("-j2", "@WEFT_JOBSERVER=1 ", "short", output, sizeof output); /* a recipe without + */
    assert_int_equal(atomic_load(&found.done), 1600);
    if (strstr(output, "jobserver tokens") != NULL) fail_msg("%s", output);
    run_make("", "+@WEFT_JOBSERVER=1 ", "short", output, sizeof output); /* no -j */
    assert_int_equal(atomic_load(&found.done), 1600);
    if (strstr(output, "refused=jobserver (ENOENT)") == NULL) fail_msg("%s", output);
}

/* There is no token, and a thread stays in a call: tasks run all the same, after 100 ms. */
static void test_make_grace(void **state) {
    (void)state;
    char output[8192];
    if (!has_make()) return;
    struct tally found;
    tally = &found;
    run_make("-j2", "+@WEFT_JOBSERVER=1 ", "grace", output, sizeof output);
    if (strstr(output, "refused=none") == NULL || strstr(output, "refused=jobserver") != NULL) fail_msg("%s", output);
    if (strstr(output, "jobserver tokens") != NULL) fail_msg("%s", output);
    assert_int_equal(atomic_load(&found.done), 4 * GRACE_TASKS);
}

/* make counts at its end. */
static void test_make_misses_tokens(void **state) {
    (void)state;
    char output[8192];
    if (!has_make()) return;
    struct tally found;
    tally = &found;
    run_make("-k -j8", "+-@WEFT_JOBSERVER=1 ", "die", output, sizeof output);
    if (strstr(output, "jobserver tokens available; should be") == NULL) fail_msg("%s", output);
}

int main(int argc, char **argv) {
    store_rlx(&tokens_grace_us, TOKENS_GRACE_NONE); /* what is counted is exact */
    if (argc == 4 && strcmp(argv[1], "scene") == 0) return scene(argv[2], argv[3]);
    if (is_emulated()) {
        printf("skipped, all: make cannot start this program (under an emulator)\n");
        return 0;
    }
    choose_cases(argc, argv);
    ssize_t length = readlink("/proc/self/exe", self_path, sizeof self_path - 1);
    REQUIRE(length > 0);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_make), cmocka_unit_test(test_make_grace),
                                       cmocka_unit_test(test_make_misses_tokens)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
