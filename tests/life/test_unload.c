/* test_unload.c: a plugin that uses weft is loaded and closed a thousand times, and closed while weft's threads live. */
#define _GNU_SOURCE
#include "../help.h"

#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <weft.h>

typedef unsigned (*use_fn)(void);
typedef unsigned (*leave_fn)(weft_pool **);

static void *symbol(void *plugin, const char *name) {
    void *found = dlsym(plugin, name);
    if (found == NULL) fprintf(stderr, "%s\n", dlerror());
    REQUIRE(found != NULL);
    return found;
}

static void *load(const char *path) {
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (plugin == NULL) fprintf(stderr, "%s\n", dlerror());
    REQUIRE(plugin != NULL);
    return plugin;
}

static unsigned threads_now(void) {
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    REQUIRE(tasks != NULL);
    for (const struct dirent *entry; (entry = readdir(tasks)) != NULL;) count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

static unsigned mappings_now(void) {
    unsigned count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    REQUIRE(maps != NULL);
    for (int c; (c = fgetc(maps)) != EOF;) count += c == '\n';
    fclose(maps);
    return count;
}

/* More keys than a process can have, threads and mappings would show what a round leaves behind. */
static int load_often(void *path) {
    enum { ROUNDS = SANITIZED ? 100 : 1000 };
    unsigned mappings = 0;
    unsigned threads = threads_now(); /* one, or an emulator's own beside it */
    for (int round = 0; round < ROUNDS; round++) {
        void *plugin = load(path);
        union {
            void *object;
            use_fn use;
        } found = {symbol(plugin, "plugin_use")};
        REQUIRE(found.use() == 100);
        REQUIRE(dlclose(plugin) == 0);
        if (round == 20) mappings = mappings_now();
    }
    REQUIRE(SANITIZED || threads_now() == threads);
    REQUIRE(SANITIZED || mappings_now() <= mappings + 16);
    return 0;
}

static void test_load_often_shared(void **state) {
    (void)state;
    assert_int_equal(in_child(load_often, PLUGIN_SHARED), 0);
}

static void test_load_often_static(void **state) {
    (void)state;
    assert_int_equal(in_child(load_often, PLUGIN_STATIC), 0);
}

/* libweft.so stays when its last user goes: the threads go on, and the next user finds the same pool. */
static int close_while_threads_live(void *path) {
    weft_pool *first = NULL, *again = NULL;
    for (int round = 0; round < 50; round++) {
        void *plugin = load(path);
        union {
            void *object;
            leave_fn leave;
        } found = {symbol(plugin, "plugin_leave")};
        REQUIRE(found.leave(&again) == 100);
        REQUIRE(first == NULL || first == again);
        first = again;
        unsigned threads = threads_now();
        REQUIRE(dlclose(plugin) == 0);
        REQUIRE(SANITIZED || (threads > 1 && threads_now() == threads));
    }
    return 0;
}

static void test_close_while_threads_live(void **state) {
    (void)state;
    assert_int_equal(in_child(close_while_threads_live, PLUGIN_SHARED), 0);
}

/* A plugin with weft in it, whose pools tell stacks: the signal for that is the process's again when it is closed. */
static int give_signal_back(void *path) {
    struct sigaction during, after;
    REQUIRE(setenv("WEFT_STACK_WAIT_NS", "1000000", 1) == 0);
    void *plugin = load(path);
    union {
        void *object;
        use_fn use;
    } found = {symbol(plugin, "plugin_use")};
    REQUIRE(found.use() == 100);
    REQUIRE(sigaction(SIGPROF, NULL, &during) == 0);
    REQUIRE(dlclose(plugin) == 0);
    REQUIRE(sigaction(SIGPROF, NULL, &after) == 0);
#if defined(__GLIBC__)
    REQUIRE(during.sa_handler != SIG_DFL);
#endif
    REQUIRE(after.sa_handler == SIG_DFL);
    return 0;
}

static void test_gives_signal_back(void **state) {
    (void)state;
    assert_int_equal(in_child(give_signal_back, PLUGIN_STATIC), 0);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load_often_shared),
        cmocka_unit_test(test_load_often_static),
        cmocka_unit_test(test_close_while_threads_live),
        cmocka_unit_test(test_gives_signal_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
