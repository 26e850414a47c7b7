/* Freed blocks over 3.9 MiB wait in secure mode. They keep no memory meanwhile, and little address space. Every case runs in
 * a child, since the mode never ends. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "heap/heap.h"
#include "mistake_help.h"
#include "os/os.h"
#include "weft.h"

static void begin(void) {
    weft_heap_config config = {.struct_size = sizeof config, .checks = WEFT_HEAP_SECURE};
    REQUIRE(weft_heap_configure(&config) == WEFT_OK);
}
static weft_heap_counts counts_now(void) {
    weft_heap_counts counts = {.struct_size = sizeof counts};
    REQUIRE(weft_heap_stats(&counts) == WEFT_OK);
    return counts;
}
static size_t pages_taken(void) {
    struct rusage usage;
    REQUIRE(getrusage(RUSAGE_SELF, &usage) == 0);
    return (size_t)usage.ru_minflt;
}

static size_t locked_kib(void) {
    char line[512];
    size_t kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    REQUIRE(status != NULL);
    while (fgets(line, sizeof line, status) != NULL)
        if (strncmp(line, "VmLck:", 6) == 0) kib = strtoul(line + 6, NULL, 10);
    fclose(status);
    return kib;
}
/* Also where memory is locked, none of it stays. */
static void free_of_locked_leaves_nothing(void) {
    enum { BYTES = 64 << 20 };
    begin();
    if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0) {
        printf("skipped, locked memory: the system refuses it\n");
        return;
    }
    weft_free(weft_alloc(BYTES));
    size_t before = counts_now().resident_bytes, faults = pages_taken(), locked = locked_kib();
    for (int i = 0; i < 4; i++) {
        char *p = weft_alloc(BYTES);
        REQUIRE(p != NULL);
        weft_free(memset(p, 1, BYTES / 4));
    }
    REQUIRE(locked_kib() < locked + BYTES / 1024);
    REQUIRE(counts_now().resident_bytes - before < BYTES / 4 && pages_taken() - faults < 5 * BYTES / 4 / 4096);
}
/* A mapping that waits is not promised any memory. */
static void a_bar_commits_nothing(void) {
    enum { BYTES = 16 << 20 };
    char line[512], *memory = os_map(BYTES);
    size_t first, last, found = 0;
    bool is_in = false;
    REQUIRE(memory != NULL && os_bar(memory, BYTES));
    FILE *maps = fopen("/proc/self/smaps", "r");
    REQUIRE(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL) {
        if (sscanf(line, "%zx-%zx ", &first, &last) == 2) is_in = (uintptr_t)memory >= first && (uintptr_t)memory < last;
        if (!is_in || strncmp(line, "VmFlags:", 8) != 0) continue;
        found++;
        REQUIRE(strstr(line, " ac") == NULL);
    }
    fclose(maps);
    REQUIRE(found == 1);
    REQUIRE(os_unmap(memory, BYTES));
}

static void large_waits_within_bounds(void) {
    enum { EACH = 256 << 20 };
    begin();
    weft_free(weft_alloc(5 << 20));
    weft_trim();
    weft_heap_counts before = counts_now();
    for (int i = 0; i < 16; i++) {
        char *p = weft_alloc(EACH);
        REQUIRE(p != NULL);
        weft_free(p);
        weft_heap_counts now = counts_now();
        REQUIRE(now.live_bytes <= before.live_bytes);
        REQUIRE(now.mapped_bytes - before.mapped_bytes >= EACH &&
                now.mapped_bytes - before.mapped_bytes <= LARGE_WAITING_BYTES);
        const char *next = weft_alloc(5 << 20); /* also while the bound is reached, its address is not the next one's */
        REQUIRE(next < p || next >= p + EACH);
        weft_free((void *)(uintptr_t)next);
    }
    weft_free(weft_alloc(LARGE_WAITING_BYTES + 1)); /* none waits for it */
    REQUIRE(counts_now().mapped_bytes - before.mapped_bytes >= EACH);
    weft_free(weft_alloc(LARGE_WAITING_BYTES - sizeof(uint64_t))); /* with its canary, just as large as may wait */
    REQUIRE(large_waiting_bytes() == LARGE_WAITING_BYTES);
    weft_trim();
    REQUIRE(large_waiting_bytes() == 0 && counts_now().mapped_bytes <= before.mapped_bytes);
}
static pthread_barrier_t all_have_freed;
static pthread_mutex_t frees = PTHREAD_MUTEX_INITIALIZER;
static void *free_some(void *unused) {
    pthread_mutex_lock(&frees);
    for (int i = 0; i < 16; i++) weft_free(weft_alloc(5 << 20));
    pthread_mutex_unlock(&frees);
    pthread_barrier_wait(&all_have_freed);
    pthread_barrier_wait(&all_have_freed);
    return unused;
}
static void many_wait_within_bounds(void) {
    enum { THREADS = 12 };
    pthread_t threads[THREADS];
    begin();
    REQUIRE(pthread_barrier_init(&all_have_freed, NULL, THREADS + 1) == 0);
    for (int i = 0; i < THREADS; i++) REQUIRE(pthread_create(&threads[i], NULL, free_some, NULL) == 0);
    pthread_barrier_wait(&all_have_freed);
    size_t waiting = large_waiting_bytes() / (5 << 20);
    size_t mapped = counts_now().mapped_bytes;
    REQUIRE(waiting == LARGE_WAITING);
    REQUIRE(mapped <= (size_t)(LARGE_WAITING + THREADS) * (8 << 20)); /* each has one segment of slots at most */
    pthread_barrier_wait(&all_have_freed);
    for (int i = 0; i < THREADS; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);
    weft_trim();
    REQUIRE(large_waiting_bytes() == 0);
}
/* None waits where address space has a limit now. */
static void none_waits_below_a_limit(void) {
    begin();
    weft_free(weft_alloc(5 << 20));
    weft_trim();
    size_t before = counts_now().mapped_bytes;
    struct rlimit limit = {(rlim_t)1 << 40, (rlim_t)1 << 40};
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
    for (int i = 0; i < 16; i++) weft_free(weft_alloc(200 << 20));
    REQUIRE(counts_now().mapped_bytes <= before);
}

static void test_bounds(void **state) {
    (void)state;
    if (SANITIZED) SKIP("a sanitizer maps address space itself");
    lives(large_waits_within_bounds);
    lives(many_wait_within_bounds);
    if (!is_emulated()) lives(none_waits_below_a_limit); /* it knows no such limit */
}

static void test_memory(void **state) {
    (void)state;
    if (SANITIZED || is_emulated()) SKIP("a sanitizer's or an emulator's own pages count as well");
    lives(a_bar_commits_nothing);
    lives(free_of_locked_leaves_nothing);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bounds), cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
