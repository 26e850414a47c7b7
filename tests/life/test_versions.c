/* test_versions.c: two plugins, linked with two versions of the shared library, in one process. */
#define _GNU_SOURCE
#include "../help.h"
#include "copy.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

typedef unsigned (*work_fn)(unsigned tasks);
typedef unsigned (*keep_fn)(void);
typedef int (*drop_fn)(void);

static void *open_plugin(const char *path) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL); /* the first one's library comes first in every search */
    if (handle == NULL) fprintf(stderr, "%s\n", dlerror());
    REQUIRE(handle != NULL);
    return handle;
}

/* The file that has the function of that version. */
static const char *file_of(const char *function, const char *version) {
    Dl_info info;
    void *found = dlvsym(RTLD_DEFAULT, function, version);
    REQUIRE(found != NULL && dladdr(found, &info) != 0);
    const char *slash = strrchr(info.dli_fname, '/');
    return slash == NULL ? info.dli_fname : slash + 1;
}

static bool is_of(const char *file, const char *library) { /* the file's name may end in its SOVERSION alone */
    return strncmp(file, library, strcspn(library, ".") + 1) == 0;
}

static void *symbol(void *handle, const char *name) {
    void *found = dlsym(handle, name);
    REQUIRE(found != NULL);
    return found;
}

static int both_at_once(void *argument) {
    const char *const *order = argument;
    void *plugins[] = {open_plugin(order[0]), open_plugin(order[1])};
    static const char *const names[] = {"weft_submit", "weft_pool_create", "weft_for", "weft_alloc", "weft_version"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        REQUIRE(is_of(file_of(names[i], FIRST_VERSION), FIRST_LIBRARY));
        REQUIRE(is_of(file_of(names[i], SECOND_VERSION), SECOND_LIBRARY));
    }
    keep_fn keep[2], again[2];
    drop_fn drop[2];
    for (int i = 0; i < 2; i++) {
        work_fn work;
        *(void **)&work = symbol(plugins[i], "copy_work");
        *(void **)&keep[i] = symbol(plugins[i], "copy_keep");
        *(void **)&again[i] = symbol(plugins[i], "copy_again");
        *(void **)&drop[i] = symbol(plugins[i], "copy_drop");
        REQUIRE(work(1000) == 2000);
    }
    /* Each has the process's pool of its own version: the last reference to one ends it, and leaves the other. */
    REQUIRE(keep[0]() == 100 && keep[1]() == 100);
    REQUIRE(drop[0]() == 0);
    REQUIRE(again[1]() == 100);
    REQUIRE(drop[1]() == 0);
    return 0;
}

/* What each plugin calls lies in its own library. */
static int each_calls_its_own(void *argument) {
    const char *const *order = argument;
    for (int i = 0; i < 2; i++) {
        void *plugin = open_plugin(order[i]);
        const char *(*version)(void);
        *(void **)&version = symbol(plugin, "copy_version");
        Dl_info info;
        REQUIRE(dladdr(version(), &info) != 0); /* its text is the library's constant */
        const char *slash = strrchr(info.dli_fname, '/');
        const char *wanted = strcmp(order[i], FIRST) == 0 ? FIRST_LIBRARY : SECOND_LIBRARY;
        if (!is_of(slash == NULL ? info.dli_fname : slash + 1, wanted))
            fprintf(stderr, "%s calls %s\n", order[i], info.dli_fname);
        REQUIRE(is_of(slash == NULL ? info.dli_fname : slash + 1, wanted));
    }
    return 0;
}

static void test_versions(void **state) {
    (void)state;
    const char *orders[][2] = {{FIRST, SECOND}, {SECOND, FIRST}};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(in_child(each_calls_its_own, orders[i]), 0);
        assert_int_equal(in_child(both_at_once, orders[i]), 0);
    }
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_versions)};
    return cmocka_run_group_tests_name("versions", tests, NULL, NULL);
}
