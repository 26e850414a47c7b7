/* Counters: what each thread did, by events; their texts. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "pool_help.h"

static weft_worker_counts counts_of(const weft_pool *pool, unsigned index) {
    weft_worker_counts counts = {.struct_size = sizeof counts};
    REQUIRE(weft_worker_stats(pool, index, &counts) == WEFT_OK);
    REQUIRE(counts.index == index);
    return counts;
}

static weft_worker_counts outside_counts(const weft_pool *pool) {
    for (unsigned i = 0; i < stats_of(pool).threads; i++) {
        weft_worker_counts counts = counts_of(pool, i);
        if (counts.kind == WEFT_KIND_OUTSIDE) return counts;
    }
    return (weft_worker_counts){0};
}

/* ---- who did what ------------------------------------------------------------------------------------------------- */

static void test_refused_payload(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    weft_group group = WEFT_GROUP_INIT;
    char large[WEFT_INLINE_MAX + 1] = {0};
    assert_int_equal(weft_submit(pool, &group, empty_task, large, sizeof large), WEFT_OK);
    assert_int_equal(weft_group_cancel(pool, &group), WEFT_OK);
    assert_int_equal(weft_submit(pool, &group, empty_task, large, sizeof large), WEFT_ECANCELED);
    assert_int_equal(stats_of(pool).heap_payload_count, 1);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_ECANCELED);
    end_pool(pool);
}

static void test_shares_add_up(void **state) {
    (void)state;
    weft_pool *pool = make_pool(3);
    weft_group group = WEFT_GROUP_INIT;
    char large[WEFT_INLINE_MAX + 1] = {0};
    for (int i = 0; i < 3000; i++) assert_int_equal(weft_submit(pool, &group, empty_task, NULL, 0), WEFT_OK);
    for (int i = 0; i < 7; i++) assert_int_equal(weft_submit(pool, &group, empty_task, large, sizeof large), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    weft_stats sum = stats_of(pool);
    uint64_t tasks = 0, claims = 0, helped = 0, heap = 0;
    for (unsigned i = 0; i < sum.threads; i++) {
        weft_worker_counts counts = counts_of(pool, i);
        tasks += counts.task_run_count;
        claims += counts.claim_count;
        helped += counts.task_helped_count;
        heap += counts.heap_payload_count;
        assert_true(counts.claim_count >= counts.steal_count + counts.claim_revoked_count);
        if (counts.kind == WEFT_KIND_NONE)
            assert_int_equal(counts.task_run_count + counts.park_count + counts.claim_count, 0);
    }
    assert_int_equal(tasks, 3007);
    assert_int_equal(sum.task_run_count, tasks);
    assert_true(sum.claim_count >= claims); /* workers may have looked on */
    assert_int_equal(sum.task_helped_count, helped);
    assert_int_equal(heap, 7);
    assert_int_equal(outside_counts(pool).heap_payload_count, 7);
    assert_int_equal(outside_counts(pool).task_run_count, helped);
    assert_int_equal(counts_of(pool, 0).kind, WEFT_KIND_WORKER);
    assert_int_equal(counts_of(pool, 2).kind, WEFT_KIND_WORKER);
    assert_int_equal(counts_of(pool, 3).kind, WEFT_KIND_NONE); /* a spare's */
    end_pool(pool);
}

#define STOLEN 9

/* Submits to its own lane and does not return before another thread has run all of it. */
static int hoard(void *payload, weft_worker *self) {
    sem_t *done = *(sem_t **)payload;
    atomic_uint count = 0, *counter = &count;
    unsigned index = weft_worker_index(self);
    for (int i = 0; i < STOLEN; i++) REQUIRE(weft_submit_child(self, count_task, &counter, sizeof counter) == WEFT_OK);
    while (atomic_load(&count) < STOLEN) sched_yield();
    *(unsigned *)payload = index;
    sem_post(done);
    return (int)index + 1;
}

static void test_steals(void **state) {
    (void)state;
    weft_config config = config_of(2);
    config.flags = WEFT_POOL_NO_HELP;
    weft_pool *pool = make_pool_with(&config);
    weft_group group = WEFT_GROUP_INIT;
    sem_t done, *event = &done;
    sem_init(&done, 0, 0);
    assert_int_equal(weft_submit(pool, &group, hoard, &event, sizeof event), WEFT_OK);
    int result = weft_group_wait(pool, &group);
    assert_true(result == 1 || result == 2);
    weft_worker_counts hoarder = counts_of(pool, (unsigned)result - 1), thief = counts_of(pool, 2 - (unsigned)result);
    assert_int_equal(hoarder.task_run_count, 1);
    assert_int_equal(hoarder.claim_count, 1);
    assert_int_equal(hoarder.steal_count, 0);
    assert_int_equal(thief.task_run_count, STOLEN);
    assert_int_equal(thief.claim_count, thief.steal_count + thief.claim_revoked_count);
    assert_true(thief.steal_count >= 1 && thief.steal_count <= STOLEN);
    assert_int_equal(stats_of(pool).steal_count, thief.steal_count);
    end_pool(pool);
}

static int join_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)self;
    atomic_uint *inside = context;
    atomic_fetch_add(inside, (unsigned)(end - begin));
    while (atomic_load(inside) < 2) sched_yield(); /* the first two chunks run side by side */
    return 0;
}

static void test_loop_helpers(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    atomic_uint inside = 0;
    assert_int_equal(weft_for(pool, (weft_range){0, 2, 1}, join_body, &inside), WEFT_OK);
    assert_int_equal(counts_of(pool, 0).loop_helped_count, 1);
    assert_int_equal(stats_of(pool).loop_helped_count, 1);
    end_pool(pool);
}

/* ---- sleep -------------------------------------------------------------------------------------------------------- */

#define ROUNDS 20

static void test_wakes(void **state) {
    (void)state;
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_NO_HELP;
    weft_pool *pool = make_pool_with(&config);
    uint64_t parks = 0;
    for (int i = 0; i < ROUNDS; i++) {
        weft_group group = WEFT_GROUP_INIT;
        while (counts_of(pool, 0).park_count == parks) nap();
        parks = counts_of(pool, 0).park_count;
        assert_int_equal(weft_submit(pool, &group, empty_task, NULL, 0), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    }
    while (counts_of(pool, 0).park_count == parks) nap();
    weft_worker_counts worker = counts_of(pool, 0), own = outside_counts(pool);
    /* A stopped process may find its worker awake by itself. */
    assert_true(own.wake_count >= 1 && own.wake_count <= ROUNDS);
    assert_true(worker.woken_count >= 1 && worker.woken_count <= own.wake_count);
    assert_int_equal(worker.wake_count, 0);
    uint64_t timed = 0;
    for (int i = 0; i < WEFT_WAKE_BUCKETS; i++) {
        timed += worker.wake_ns_log2_count[i];
        assert_int_equal(stats_of(pool).wake_ns_log2_count[i], worker.wake_ns_log2_count[i]);
    }
    assert_int_equal(timed, worker.woken_count);
    assert_int_equal(worker.wake_ns_log2_count[0] + worker.wake_ns_log2_count[1] + worker.wake_ns_log2_count[2],
                     0); /* no system call takes 8 ns */
    if (weft_cpu_count() > 1) assert_true(worker.spin_ns > 0);
    end_pool(pool);
}

/* ---- texts -------------------------------------------------------------------------------------------------------- */

static uint64_t json_field(const char *json, const char *name) {
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\": ", name);
    const char *at = strstr(json, quoted);
    REQUIRE(at != NULL);
    return strtoull(at + strlen(quoted), NULL, 10);
}

static void test_json(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    weft_group group = WEFT_GROUP_INIT;
    for (int i = 0; i < 123; i++) assert_int_equal(weft_submit(pool, &group, empty_task, NULL, 0), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    static char text[16384], cut[100];
    int length = weft_pool_stats_json(pool, NULL, 0);
    assert_true(length > 0 && (size_t)length < sizeof text - 1000);
    length = weft_pool_stats_json(pool, text, sizeof text);
    assert_int_equal(strlen(text), length);
    assert_int_equal(json_field(text, "task_run_count"), 123);
    assert_int_equal(json_field(text, "workers"), 2);
    assert_true(weft_pool_stats_json(pool, cut, sizeof cut) >= (int)sizeof cut);
    assert_int_equal(strlen(cut), sizeof cut - 1);
    assert_memory_equal(cut, text, 30);
    end_pool(pool);
}

static void test_print(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    weft_group group = WEFT_GROUP_INIT;
    for (int i = 0; i < 321; i++) assert_int_equal(weft_submit(pool, &group, empty_task, NULL, 0), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(weft_pool_stats_print(pool, fileno(file)), WEFT_OK);
    rewind(file);
    char line[256], *at;
    unsigned rows = 0;
    unsigned long sum = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned long index = strtoul(line, &at, 10);
        const char *kind = index < 2 ? " worker" : " outside";
        if (at == line || strncmp(at, kind, strlen(kind)) != 0) continue;
        sum += strtoul(at + strlen(kind), NULL, 10);
        rows++;
    }
    fclose(file);
    assert_int_equal(sum, 321);
    assert_int_equal(rows, 3);
    end_pool(pool);
}

static void test_bad_arguments(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    weft_worker_counts counts = {.struct_size = sizeof counts};
    char text[8];
    assert_int_equal(weft_worker_stats(NULL, 0, &counts), WEFT_EINVAL);
    assert_int_equal(weft_worker_stats(pool, 0, NULL), WEFT_EINVAL);
    assert_int_equal(weft_worker_stats(pool, stats_of(pool).threads, &counts), WEFT_EINVAL);
    assert_int_equal(weft_worker_stats(pool, UINT32_MAX, &counts), WEFT_EINVAL);
    counts.struct_size = 0;
    assert_int_equal(weft_worker_stats(pool, 0, &counts), WEFT_EINVAL);
    memset(&counts, 0x5a, sizeof counts);
    counts.struct_size = offsetof(weft_worker_counts, task_dropped_count); /* an older caller's */
    assert_int_equal(weft_worker_stats(pool, 0, &counts), WEFT_OK);
    assert_int_equal(counts.task_run_count, 0);
    assert_int_equal(counts.task_dropped_count, 0x5a5a5a5a5a5a5a5a);
    assert_int_equal(weft_pool_stats_json(NULL, text, sizeof text), WEFT_EINVAL);
    assert_int_equal(weft_pool_stats_json(pool, NULL, 1), WEFT_EINVAL);
    assert_int_equal(weft_pool_stats_print(NULL, 1), WEFT_EINVAL);
    assert_int_equal(weft_pool_stats_print(pool, -1), WEFT_EINVAL);
    int full = open("/dev/full", O_WRONLY);
    if (full >= 0) {
        errno = 77;
        assert_int_equal(weft_pool_stats_print(pool, full), WEFT_EINVAL);
        assert_int_equal(errno, 77);
        close(full);
    }
    end_pool(pool);
}

static int writes_to_nobody(void *fifo) {
    int reader = open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    weft_config config = config_of(1);
    config.stats = fifo;
    weft_pool *pool = make_pool_with(&config);
    close(reader);
    end_pool(pool);
    sigset_t pending;
    return sigpending(&pending) == 0 && !sigismember(&pending, SIGPIPE) ? 0 : 1;
}

/* A reader that goes ends no program. */
static void test_reader_that_goes(void **state) {
    (void)state;
    if (is_emulated()) SKIP("the emulator does not survive fork() in a program with threads");
#if defined(SANITIZED_THREAD)
    SKIP("ThreadSanitizer lets no child of a threaded process start threads");
#endif
    char directory[] = "/tmp/weft-fifo-XXXXXX", fifo[64], said[256];
    REQUIRE(mkdtemp(directory) != NULL);
    snprintf(fifo, sizeof fifo, "%s/fifo", directory);
    REQUIRE(mkfifo(fifo, 0600) == 0);
    int status = in_child_said(writes_to_nobody, fifo, said, sizeof said);
    REQUIRE(unlink(fifo) == 0 && rmdir(directory) == 0);
    assert_int_equal(status, 0);
    assert_non_null(strstr(said, "took not all of the counters"));
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_payload),
        cmocka_unit_test(test_shares_add_up),
        cmocka_unit_test(test_steals),
        cmocka_unit_test(test_loop_helpers),
        cmocka_unit_test(test_wakes),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_reader_that_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
