/* test_copies.c: two plugins, each with a static weft of its own, of two versions, in one process. */
#define _GNU_SOURCE
#include "../help.h"
#include "copy.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

struct copy {
    void *handle;
    const char *(*version)(void);
    unsigned (*work)(unsigned tasks);
    unsigned (*keep)(void);
    unsigned (*again)(void);
    int (*drop)(void);
};

static void *symbol(void *handle, const char *name) {
    void *found = dlsym(handle, name);
    if (found == NULL) fprintf(stderr, "%s\n", dlerror());
    REQUIRE(found != NULL);
    return found;
}
#define FIND(copy, name)                                                                                                    \
    do {                                                                                                                    \
        void *found = symbol((copy).handle, "copy_" #name);                                                                 \
        memcpy(&(copy).name, &found, sizeof found);                                                                         \
    } while (0)

static struct copy load(const char *path, int mode) {
    struct copy copy = {.handle = dlopen(path, RTLD_NOW | mode)};
    if (copy.handle == NULL) fprintf(stderr, "%s\n", dlerror());
    REQUIRE(copy.handle != NULL);
    FIND(copy, version);
    FIND(copy, work);
    FIND(copy, keep);
    FIND(copy, again);
    FIND(copy, drop);
    return copy;
}

static const char *const names[] = {"weft_version", "weft_submit", "weft_pool_create",
                                    "weft_for",     "weft_alloc",  "weft_pool_default"};

static void each_is_its_own(const struct copy *first, const struct copy *second) {
    REQUIRE(strcmp(first->version(), FIRST_VERSION) == 0);
    REQUIRE(strcmp(second->version(), SECOND_VERSION) == 0);
    REQUIRE(strcmp(FIRST_VERSION, SECOND_VERSION) != 0);
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) REQUIRE(dlsym(RTLD_DEFAULT, names[i]) == NULL);
    REQUIRE(first->work(1000) == 2000 && second->work(1000) == 2000);
}

static int both_work_in_child(void *argument) {
    const struct copy *copies = argument;
    for (int i = 0; i < 2; i++) REQUIRE(copies[i].keep() == 100 && copies[i].work(100) == 200 && copies[i].drop() == 0);
    return 0;
}

static void check_in_child(void *argument) {
#ifdef SANITIZED_THREAD
    (void)both_work_in_child;
    (void)argument;
    printf("skipped, pools made in the child: ThreadSanitizer lets no child of a threaded process start threads\n");
#else
    if (is_emulated())
        printf("skipped, pools made in the child: the emulator does not fork with threads\n");
    else
        REQUIRE(in_child(both_work_in_child, argument) == 0);
#endif
}

/* A thread that uses both, and ends after one of them is gone. */
struct user {
    const struct copy *copies;
    sem_t used, ends;
};
static void *use_both(void *argument) {
    struct user *user = argument;
    for (int round = 0; round < 10; round++)
        for (int i = 0; i < 2; i++) REQUIRE(user->copies[i].again() == 100 && user->copies[i].work(100) == 200);
    REQUIRE(sem_post(&user->used) == 0);
    while (sem_wait(&user->ends) != 0) continue;
    return NULL;
}

/* `gone`: which of them is closed first. */
static int close_one(const struct copy *copies, int gone) {
    struct user user = {.copies = copies};
    pthread_t thread;
    REQUIRE(sem_init(&user.used, 0, 0) == 0 && sem_init(&user.ends, 0, 0) == 0);
    each_is_its_own(&copies[0], &copies[1]);
    REQUIRE(copies[0].keep() == 100 && copies[1].keep() == 100);
    REQUIRE(pthread_create(&thread, NULL, use_both, &user) == 0);
    for (int round = 0; round < 10; round++)
        for (int i = 0; i < 2; i++) REQUIRE(copies[i].again() == 100 && copies[i].work(100) == 200);
    while (sem_wait(&user.used) != 0) continue;
    check_in_child((void *)copies);

    REQUIRE(copies[gone].drop() == 0 && dlclose(copies[gone].handle) == 0);
    REQUIRE(dlopen(gone == 0 ? FIRST : SECOND, RTLD_NOW | RTLD_NOLOAD) == NULL);
    REQUIRE(sem_post(&user.ends) == 0 && pthread_join(thread, NULL) == 0);
    const struct copy *left = &copies[1 - gone];
    REQUIRE(left->again() == 100 && left->work(1000) == 2000);
    const struct copy same[] = {*left, *left};
    check_in_child((void *)same); /* no handler of the other's is called */
    REQUIRE(left->drop() == 0 && dlclose(left->handle) == 0);
    return 0;
}

static int global_first_gone(void *argument) {
    (void)argument;
    return close_one((struct copy[]){load(FIRST, RTLD_GLOBAL), load(SECOND, RTLD_GLOBAL)}, 0);
}
static int global_second_gone(void *argument) {
    (void)argument;
    struct copy second = load(SECOND, RTLD_GLOBAL);
    return close_one((struct copy[]){load(FIRST, RTLD_GLOBAL), second}, 1);
}
/* C++, where the library of C++ refers to its users: these stay. */
static int in_cpp(void *argument) {
    (void)argument;
    struct copy copies[] = {load(FIRST_CPP, RTLD_GLOBAL), load(SECOND_CPP, RTLD_GLOBAL)};
    each_is_its_own(&copies[0], &copies[1]);
    for (int i = 0; i < 2; i++) REQUIRE(copies[i].keep() == 100 && copies[i].again() == 100 && copies[i].drop() == 0);
    return 0;
}
static int local(void *argument) {
    (void)argument;
    return close_one((struct copy[]){load(FIRST, RTLD_LOCAL), load(SECOND, RTLD_LOCAL)}, 0);
}

/* Both are told by one environment to write their counters to one file. */
static int one_stats_file(void *argument) {
    REQUIRE(setenv("WEFT_STATS", argument, 1) == 0);
    struct copy copies[] = {load(FIRST, RTLD_GLOBAL), load(SECOND, RTLD_GLOBAL)};
    for (int i = 0; i < 2; i++) REQUIRE(copies[i].keep() == 100);
    for (int i = 0; i < 2; i++) REQUIRE(copies[i].drop() == 0);
    return 0;
}

static void test_global(void **state) {
    (void)state;
    assert_int_equal(in_child(global_first_gone, NULL), 0);
    assert_int_equal(in_child(global_second_gone, NULL), 0);
}
static void test_local(void **state) {
    (void)state;
    assert_int_equal(in_child(local, NULL), 0);
}
static void test_cpp(void **state) {
    (void)state;
    assert_int_equal(in_child(in_cpp, NULL), 0);
}
static void test_one_stats_file(void **state) {
    (void)state;
    char path[] = "/tmp/weft_copies_XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(in_child(one_stats_file, path), 0);
    FILE *stats = fdopen(file, "r");
    assert_non_null(stats);
    unsigned reports = 0;
    for (char line[1000]; fgets(line, sizeof line, stats) != NULL;) reports += strncmp(line, "weft pool", 9) == 0;
    fclose(stats);
    unlink(path);
    assert_int_equal(reports, 2);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_global),
        cmocka_unit_test(test_local),
        cmocka_unit_test(test_cpp),
        cmocka_unit_test(test_one_stats_file),
    };
    return cmocka_run_group_tests_name("copies", tests, NULL, NULL);
}
