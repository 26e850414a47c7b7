/* Timelines: what is in them, how much, on and off while tasks run. Their JSON is parsed by test_trace.py. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "observe/state.h"
#include "os/os.h"
#include "pool_help.h"

#define TEXT_MAX (1u << 22)

static char *text_of(const char *path) {
    FILE *file = fopen(path, "r");
    REQUIRE(file != NULL);
    char *text = malloc(TEXT_MAX);
    REQUIRE(text != NULL);
    size_t length = fread(text, 1, TEXT_MAX - 1, file);
    REQUIRE(length < TEXT_MAX - 1);
    text[length] = 0;
    fclose(file);
    return text;
}

static unsigned count_of(const char *text, const char *part) {
    unsigned count = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) count++;
    return count;
}

static unsigned long dropped_of(const char *text) {
    const char *at = strstr(text, "\"dropped\":");
    REQUIRE(at != NULL);
    return strtoul(at + strlen("\"dropped\":"), NULL, 10);
}

static char path[] = "/tmp/weft-trace-XXXXXX";

static char *timeline_of(const weft_pool *pool) {
    REQUIRE(weft_trace_save(pool, path) == WEFT_OK);
    return text_of(path);
}

static int traced_leaf(void *payload, weft_worker *self) {
    (void)payload;
    (void)self;
    return 0;
}

static void run_leaves(weft_pool *pool, unsigned count) {
    weft_group group = WEFT_GROUP_INIT;
    for (unsigned i = 0; i < count; i++) REQUIRE(weft_submit(pool, &group, traced_leaf, &i, sizeof i) == WEFT_OK);
    REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
}

/* ---- cases -------------------------------------------------------------------------------------------------------- */

static void test_every_task(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    run_leaves(pool, 50); /* not recorded */
    assert_int_equal(weft_trace_start(pool), WEFT_OK);
    run_leaves(pool, 100);
    assert_int_equal(weft_trace_stop(pool), WEFT_OK);
    run_leaves(pool, 50);
    char *text = timeline_of(pool);
    assert_int_equal(count_of(text, "\"cat\":\"task\",\"name\":\"traced_leaf\""), 100);
    assert_int_equal(count_of(text, "\"name\":\"process_name\",\"args\":{\"name\":\"weft\"}"), 1);
    assert_int_equal(dropped_of(text), 0);
    assert_int_equal(count_of(text, ",\n{\"ph\":\""), count_of(text, "{\"ph\":\"") - 1);
    assert_int_equal(count_of(text, "\"thread_sort_index\",\"args\":{\"sort_index\":"), count_of(text, "\"thread_name\""));
    assert_true(count_of(text, "\"thread_name\"") >= 3);
    free(text);
    assert_int_equal(weft_trace_start(pool), WEFT_OK); /* anew */
    run_leaves(pool, 7);
    text = timeline_of(pool);
    assert_int_equal(count_of(text, "\"cat\":\"task\""), 7);
    assert_int_equal(dropped_of(text), 0);
    free(text);
    end_pool(pool);
}

static void *run_a_leaf(void *pool) {
    run_leaves(pool, 1);
    return (void *)(uintptr_t)gettid();
}

/* One seat, which two threads have one after the other: each has its own events. */
static void test_threads_of_a_seat(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    assert_int_equal(weft_trace_start(pool), WEFT_OK);
    char event[64];
    void *threads[2];
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, run_a_leaf, pool) == 0 && pthread_join(thread, &threads[i]) == 0);
    }
    run_leaves(pool, 1); /* a third, which writes */
    assert_int_equal(weft_trace_stop(pool), WEFT_OK);
    char *text = timeline_of(pool);
    const char *seat = strstr(text, "\"outside ");
    REQUIRE(seat != NULL);
    snprintf(event, sizeof event, "%.*s", (int)(strcspn(seat + 1, "\"") + 2), seat);
    assert_int_equal(count_of(text, event), 3);
    for (int i = 0; i < 2; i++) {
        const char *at = text;
        unsigned submits = 0;
        snprintf(event, sizeof event, "\"tid\":%u,\"ts\"", (unsigned)(uintptr_t)threads[i]);
        for (; (at = strstr(at, event)) != NULL; at++) submits += strstr(at, "\"submit\"") < strchr(at, '\n');
        assert_int_equal(submits, 1);
        snprintf(event, sizeof event, "\"submitter\":%u,", (unsigned)(uintptr_t)threads[i]);
        assert_int_equal(count_of(text, event), 1);
        snprintf(event, sizeof event, "\"tid\":%u,\"name\":\"thread_name\"", (unsigned)(uintptr_t)threads[i]);
        assert_int_equal(count_of(text, event), 1);
    }
    assert_int_equal(dropped_of(text), 0);
    free(text);
    end_pool(pool);
}

struct held {
    atomic_int has_begun, may_end;
};
static int held_leaf(void *payload, weft_worker *self) {
    (void)self;
    struct held *held = *(struct held **)payload;
    atomic_store(&held->has_begun, 1);
    while (!atomic_load(&held->may_end)) sched_yield();
    return 0;
}

/* A task that began in one recording is not in the next. */
static void test_task_of_earlier_recording(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    struct held held = {0}, *payload = &held;
    weft_group group = WEFT_GROUP_INIT;
    assert_int_equal(weft_trace_start(pool), WEFT_OK);
    assert_int_equal(weft_submit(pool, &group, held_leaf, &payload, sizeof payload), WEFT_OK);
    while (!atomic_load(&held.has_begun)) sched_yield();
    assert_int_equal(weft_trace_start(pool), WEFT_OK);
    atomic_store(&held.may_end, 1);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    run_leaves(pool, 3);
    char *text = timeline_of(pool);
    assert_int_equal(count_of(text, "\"name\":\"held_leaf\""), 0);
    assert_int_equal(count_of(text, "\"cat\":\"task\""), 3);
    free(text);
    end_pool(pool);
}

static void test_nothing_recorded(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    run_leaves(pool, 10);
    char *text = timeline_of(pool);
    assert_int_equal(count_of(text, "\"ph\":\"X\""), 0);
    assert_true(count_of(text, "thread_name") >= 2);
    free(text);
    end_pool(pool);
}

static void test_bounded(void **state) {
    (void)state;
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_NO_HELP;
    config.trace_events = 100; /* 128 */
    weft_pool *pool = make_pool_with(&config);
    weft_config in_force = config_of(0);
    assert_int_equal(weft_pool_config(pool, &in_force), WEFT_OK);
    assert_int_equal(in_force.trace_events, 128);
    assert_int_equal(weft_trace_start(pool), WEFT_OK);
    run_leaves(pool, 1000);
    assert_int_equal(weft_trace_stop(pool), WEFT_OK);
    char *text = timeline_of(pool);
    unsigned tasks = count_of(text, "\"cat\":\"task\""), sleeps = count_of(text, "\"cat\":\"sleep\"");
    assert_true(tasks <= 127);         /* the worker's; the oldest of its 128 may be on its way out */
    assert_true(tasks + sleeps >= 64); /* the sleeps are the worker's and this thread's */
    assert_true(dropped_of(text) >= 1000 - 127);
    free(text);
    end_pool(pool);
}

/* Between a reader's look at the number of events and its look at where the recording begins, another recording may begin: its first
 * event is then one that the reader does not know of. */
static void test_begins_between(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    assert_int_equal(weft_trace_start(pool), WEFT_OK);
    run_leaves(pool, 10);
    assert_int_equal(weft_trace_stop(pool), WEFT_OK);
    unsigned rings = 0;
    for (struct seats all = seats_made(pool); seats_next(&all);) {
        struct trace_ring *ring = load_rlx(&observe_of(all.seat)->ring);
        if (ring == NULL) continue;
        store_rlx(&ring->first, trace_count(ring) + 5);
        rings++;
    }
    assert_true(rings > 0);
    char *text = timeline_of(pool);
    assert_true(count_of(text, "\"ph\":\"X\"") > 0);
    assert_int_equal(dropped_of(text), 0);
    free(text);
    end_pool(pool);
}

static int tree(void *payload, weft_worker *self) {
    unsigned depth = *(unsigned *)payload;
    weft_group group = WEFT_GROUP_INIT;
    if (depth-- == 0) return 0;
    for (int i = 0; i < 2; i++) REQUIRE(weft_submit(weft_worker_pool(self), &group, tree, &depth, sizeof depth) == WEFT_OK);
    return weft_group_wait(weft_worker_pool(self), &group);
}

static int loop_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)self;
    atomic_fetch_add((atomic_uint *)context, (unsigned)(end - begin));
    while (atomic_load((atomic_uint *)context) < 2) sched_yield();
    return 0;
}

/* A reduction is shown by the user's function. */
static int summing_leaf(size_t begin, size_t end, void *value, void *context, weft_worker *self) {
    (void)context, (void)self;
    *(size_t *)value = end - begin;
    return 0;
}
static void summing_combine(void *left, const void *right, void *context) {
    (void)context;
    *(size_t *)left += *(const size_t *)right;
}

static void test_reduction(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    const weft_reduction how = {.size = sizeof(size_t), .leaf = summing_leaf, .combine = summing_combine};
    size_t sum = 0;
    assert_int_equal(weft_trace_start(pool), WEFT_OK);
    assert_int_equal(weft_reduce(pool, (weft_range){0, 1000, 1}, &how, &sum), WEFT_OK);
    assert_int_equal(sum, 1000);
    char *text = timeline_of(pool);
    assert_true(count_of(text, "\"cat\":\"loop\",\"name\":\"summing_leaf\"") >= 1);
    free(text);
    end_pool(pool);
}

static void test_kinds(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    assert_int_equal(weft_trace_start(pool), WEFT_OK);
    weft_group group = WEFT_GROUP_INIT;
    unsigned depth = 5;
    atomic_uint inside = 0;
    assert_int_equal(weft_submit(pool, &group, tree, &depth, sizeof depth), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    assert_int_equal(weft_for(pool, (weft_range){0, 2, 1}, loop_body, &inside), WEFT_OK);
    uint64_t woken = stats_of(pool).woken_count;
    for (int i = 0; i < 100 && stats_of(pool).woken_count < woken + 3; i++) {
        nap();
        run_leaves(pool, 4);
    }
    uint64_t slept = stats_of(pool).woken_count - woken; /* those that the timeline has, at least */
    char *text = timeline_of(pool);
    assert_int_equal(count_of(text, "\"name\":\"tree\""), 63);
    assert_true(count_of(text, "\"cat\":\"loop\",\"name\":\"loop_body\"") >= 2);
    assert_true(count_of(text, "\"args\":{\"helps\":true}") >= 1); /* another may come and find nothing left */
    assert_true(slept == 0 || count_of(text, "\"name\":\"waking\"") > 0);
    /* Each worker may have been woken just before the recording began, and have come awake after. */
    assert_true(count_of(text, "\"name\":\"waking\"") <= count_of(text, "\"name\":\"parked\"") + 2);
    assert_true(slept == 0 || count_of(text, "\"name\":\"wake\"") > 0);
    free(text);
    end_pool(pool);
}

/* A claim of several needs tasks known to be tiny; the helper of a busy worker takes from its lane. */
static int hoard(void *payload, weft_worker *self) {
    (void)payload;
    atomic_uint count = 0, *counter = &count;
    for (int i = 0; i < 5; i++) REQUIRE(weft_submit_child(self, count_task, &counter, sizeof counter) == WEFT_OK);
    while (atomic_load(&count) < 5) sched_yield();
    return 0;
}

static void test_steals(void **state) {
    (void)state;
    weft_config config = config_of(2);
    config.flags = WEFT_POOL_NO_HELP;
    weft_pool *pool = make_pool_with(&config);
    weft_group group = WEFT_GROUP_INIT;
    assert_int_equal(weft_trace_start(pool), WEFT_OK);
    assert_int_equal(weft_submit(pool, &group, hoard, NULL, 0), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    char *text = timeline_of(pool);
    assert_int_equal(count_of(text, "\"name\":\"count_task\""), 5);
    assert_true(count_of(text, "\"cat\":\"claim\",\"name\":\"steal\",\"bind_id\":\"0x") >= 1);
    assert_int_equal(count_of(text, "\"name\":\"taken from\""), count_of(text, "\"flow_in\":true,\"args\":{\"tasks\":"));
    free(text);
    end_pool(pool);
}

/* One task from the lane that the thread outside submits to is no claim that is worth an event. */
static void test_claims_of_one(void **state) {
    (void)state;
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_NO_HELP;
    weft_pool *pool = make_pool_with(&config);
    assert_int_equal(weft_trace_start(pool), WEFT_OK);
    for (int i = 0; i < 20; i++) run_leaves(pool, 1);
    char *text = timeline_of(pool);
    assert_int_equal(count_of(text, "\"cat\":\"task\""), 20);
    assert_int_equal(count_of(text, "\"cat\":\"claim\""), 0);
    free(text);
    end_pool(pool);
}

static int turn_off(void *payload, weft_worker *self) {
    (void)payload;
    return weft_trace_stop(weft_worker_pool(self));
}
/* Tells when it ends, some time after. */
static int turn_on(void *payload, weft_worker *self) {
    uint64_t *ends_ns = *(uint64_t **)payload, begin_ns = os_now_ns();
    int error = weft_trace_start(weft_worker_pool(self));
    do {
        *ends_ns = os_now_ns();
    } while (*ends_ns - begin_ns < 2000000);
    return error;
}

/* A task begins where the one before it ended, if that one is in the recording: not before what is not. */
static void test_begins_after_what_is_not_recorded(void **state) {
    (void)state;
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_NO_HELP;
    weft_pool *pool = make_pool_with(&config);
    weft_group group = WEFT_GROUP_INIT;
    uint64_t on_ns = 0, *when = &on_ns;
    gate g;
    run_leaves(pool, 2000); /* so they are known to be tiny, and several are claimed at once */
    assert_int_equal(weft_trace_start(pool), WEFT_OK);
    gate_occupy(&g, pool, &group);
    for (int i = 0; i < 3; i++) REQUIRE(weft_submit(pool, &group, traced_leaf, NULL, 0) == WEFT_OK);
    REQUIRE(weft_submit(pool, &group, turn_off, NULL, 0) == WEFT_OK);
    REQUIRE(weft_submit(pool, &group, turn_on, &when, sizeof when) == WEFT_OK);
    REQUIRE(weft_submit(pool, &group, traced_leaf, NULL, 0) == WEFT_OK);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    char *text = timeline_of(pool);
    assert_int_equal(count_of(text, "\"cat\":\"task\""), 1);
    const char *at = strstr(text, "\"name\":\"traced_leaf\"");
    REQUIRE(at != NULL);
    while (strncmp(at, "\"ts\":", 5) != 0) REQUIRE(--at > text);
    double begins_us = strtod(at + 5, NULL);
    assert_true(begins_us * 1000 > (double)(on_ns - 1000000));
    free(text);
    end_pool(pool);
}

/* However fast they come: each task has its submission, slow and fast ones, of small and large payloads, in one group and in
 * new ones; and where one is noted for several, those are as many. */
static void test_submissions(void **state) {
    (void)state;
    enum { TASKS = 3000, ROUNDS = 3 };
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_NO_HELP;
    weft_pool *pool = make_pool_with(&config);
    char payload[200] = "";
    assert_int_equal(weft_trace_start(pool), WEFT_OK);
    for (int round = 0; round < ROUNDS; round++) {
        weft_group group = WEFT_GROUP_INIT;
        for (int i = 0; i < TASKS; i++) {
            size_t size = i % 1000 < 900 ? 4 : sizeof payload; /* each change of size begins a segment */
            REQUIRE(weft_submit(pool, &group, traced_leaf, payload, size) == WEFT_OK);
        }
        REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
    }
    char *text = timeline_of(pool);
    assert_int_equal(dropped_of(text), 0);
    assert_int_equal(count_of(text, "\"cat\":\"task\""), ROUNDS * TASKS);
    assert_int_equal(count_of(text, "\"submitted\":"), ROUNDS * TASKS);
    assert_true(count_of(text, "\"cat\":\"submit\"") < ROUNDS * TASKS); /* where they come fast, fewer are noted */
    free(text);
    end_pool(pool);
}

/* ---- while everybody works ---------------------------------------------------------------------------------------- */

static atomic_bool ends;

static void *switch_on_and_off(void *argument) {
    weft_pool *pool = argument;
    int sink = open("/dev/null", O_WRONLY);
    while (!atomic_load(&ends)) {
        REQUIRE(weft_trace_start(pool) == WEFT_OK);
        REQUIRE(weft_trace_write(pool, sink) == WEFT_OK);
        REQUIRE(weft_trace_stop(pool) == WEFT_OK);
        REQUIRE(weft_trace_write(pool, sink) == WEFT_OK);
    }
    close(sink);
    return NULL;
}

static void test_on_and_off(void **state) {
    (void)state;
    weft_config config = config_of(3);
    config.trace_events = 64;
    config.queue_max = 100; /* the other reader of the same flags */
    weft_pool *pool = make_pool_with(&config);
    pthread_t other;
    atomic_store(&ends, false);
    assert_int_equal(pthread_create(&other, NULL, switch_on_and_off, pool), 0);
    for (int i = 0; i < 40; i++) run_leaves(pool, 200);
    atomic_store(&ends, true);
    pthread_join(other, NULL);
    assert_int_equal(stats_of(pool).task_run_count, 8000);
    end_pool(pool);
}

/* ---- asked for by the configuration ------------------------------------------------------------------------------- */

static void test_config(void **state) {
    (void)state;
    char file[64], counters[64];
    snprintf(file, sizeof file, "%s.json", path);
    snprintf(counters, sizeof counters, "%s.txt", path);
    weft_config config;
    assert_int_equal(weft_config_init(&config), WEFT_OK);
    setenv("WEFT_TRACE", file, 1);
    setenv("WEFT_STATS", counters, 1);
    setenv("WEFT_TRACE_EVENTS", "4096", 1);
    assert_int_equal(weft_config_from_env(&config), WEFT_OK);
    unsetenv("WEFT_TRACE");
    unsetenv("WEFT_STATS");
    unsetenv("WEFT_TRACE_EVENTS");
    assert_string_equal(config.trace, file);
    assert_int_equal(config.trace_events, 4096);
    config.workers = 2;
    weft_pool *pool = make_pool_with(&config);
    run_leaves(pool, 33);
    end_pool(pool);
    char *text = text_of(file);
    assert_int_equal(count_of(text, "\"name\":\"traced_leaf\""), 33);
    free(text);
    text = text_of(counters);
    assert_int_equal(count_of(text, " worker"), 3); /* "2 workers" and a row for each */
    free(text);
    unlink(file);
    unlink(counters);
}

/* A program with several pools, all configured from one environment, that also writes to the file for the counters itself. */
static void test_one_file(void **state) {
    (void)state;
    char counters[64];
    snprintf(counters, sizeof counters, "%s.txt", path);
    FILE *log = fopen(counters, "w");
    assert_non_null(log);
    fputs("the program's own line\n", log);
    assert_int_equal(fclose(log), 0);
    weft_config config = config_of(1);
    config.trace = path;
    config.stats = counters;
    weft_pool *much = make_pool_with(&config), *little = make_pool_with(&config);
    run_leaves(much, 33);
    run_leaves(little, 5);
    end_pool(much);
    end_pool(little);
    char *text = text_of(path);
    assert_int_equal(count_of(text, "\"name\":\"traced_leaf\""), 38);
    assert_int_equal(count_of(text, "\"traceEvents\""), 1);
    assert_int_equal(count_of(text, "\"pools\":2,"), 1);
    free(text);
    text = text_of(counters);
    assert_int_equal(strncmp(text, "the program's own line\nweft pool", 32), 0);
    assert_int_equal(count_of(text, "counters of 1 worker"), 2);
    free(text);
    unlink(counters);
    unlink(path);
}

/* Standard error is a file here, without O_APPEND, as the shell's 2> makes one: lines, the timeline and the counters stand
 * one after another. */
static int child_says(void *argument) {
    FILE *log = freopen(argument, "w", stderr);
    if (log == NULL || setvbuf(log, NULL, _IONBF, 0) != 0) return 1;
    fputs("before the pool\n", stderr);
    weft_config config = config_of(1);
    config.stats = config.trace = "/dev/stderr";
    weft_pool *pool;
    if (weft_pool_create(&pool, &config) != WEFT_OK) return 2;
    fputs("while it runs\n", stderr);
    if (weft_pool_destroy(&pool) != WEFT_OK) return 3;
    fputs("after it\n", stderr);
    return fclose(log);
}

static void test_own_stream(void **state) {
    (void)state;
    if (SANITIZED) SKIP("a sanitized process does not fork well with threads");
    char file[64];
    snprintf(file, sizeof file, "%s.txt", path);
    assert_int_equal(in_child(child_says, file), 0);
    char *text = text_of(file);
    assert_ptr_equal(strstr(text, "before the pool\nwhile it runs\n{"), text);
    const char *counters = strstr(text, "\nweft pool ");
    assert_non_null(counters);
    assert_non_null(strstr(counters, "\nafter it\n"));
    assert_int_equal(count_of(text, " took not all of"), 0);
    free(text);
    unlink(file);
}

/* Of a name control characters and what is no UTF-8 are shown as question marks, each byte as one. */
static void test_names(void **state) {
    (void)state;
    static const struct {
        const char *name, *shown, *plain;
    } all[] = {
        {" ~!#[]", "\"name\":\" ~!#[]\"", "pool  ~!#[]:"},
        {"a\nb\"c\\d\x1f", "\"name\":\"a?b\\\"c\\\\d?\"", "pool a?b\"c\\d?:"},
        {"\x7f\xc3\xa4", "\"name\":\"?\xc3\xa4\"", "pool ?\xc3\xa4:"},
        {"\xe2\x82\xac\xf0\x9f\xa7\xb5", "\"name\":\"\xe2\x82\xac\xf0\x9f\xa7\xb5\"", "pool \xe2\x82\xac\xf0\x9f\xa7\xb5:"},
        {"\xc2\x9b|\xc0\x80|\xff|", "\"name\":\"??|??|?|\"", "pool ??|??|?|:"},
        {"\xe0\x80\x80\xed\xa0\x80\xc3", "\"name\":\"???????\"", "pool ???????:"},
        {"\xf4\x90\x80\x80\xe2\x82z", "\"name\":\"??????z\"", "pool ??????z:"},
        {"0123456789\xc3\xa4", "\"name\":\"0123456789\"", "pool 0123456789:"}, /* cut to 11 bytes */
        {"12345678\xe2\x82\xac!", "\"name\":\"12345678\xe2\x82\xac\"", "pool 12345678\xe2\x82\xac:"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        weft_config config = config_of(1);
        config.name = all[i].name;
        weft_pool *pool = make_pool_with(&config);
        assert_int_equal(weft_trace_start(pool), WEFT_OK);
        run_leaves(pool, 1);
        char *text = timeline_of(pool);
        assert_int_equal(count_of(text, all[i].shown), 1);
        free(text);
        char dump[4096] = {0};
        int pair[2];
        assert_true(pipe(pair) == 0 && weft_pool_dump(pool, pair[1]) == WEFT_OK);
        assert_true(weft_pool_stats_print(pool, pair[1]) == WEFT_OK && read(pair[0], dump, sizeof dump - 1) > 0);
        assert_int_equal(count_of(dump, all[i].plain), 2);
        close(pair[0]), close(pair[1]);
        end_pool(pool);
    }
}

static void test_bad_arguments(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1), *none = NULL;
    assert_int_equal(weft_trace_start(NULL), WEFT_EINVAL);
    assert_int_equal(weft_trace_stop(NULL), WEFT_EINVAL);
    assert_int_equal(weft_trace_stop(pool), WEFT_OK); /* was not on */
    assert_int_equal(weft_trace_write(NULL, 1), WEFT_EINVAL);
    assert_int_equal(weft_trace_write(pool, -1), WEFT_EINVAL);
    assert_int_equal(weft_trace_write(pool, 1000000), WEFT_EINVAL);
    assert_int_equal(weft_trace_save(pool, NULL), WEFT_EINVAL);
    char not_made[] = "/tmp/weft-trace-none-XXXXXX";
    REQUIRE(mkdtemp(not_made) != NULL && rmdir(not_made) == 0); /* a name that nothing has */
    assert_int_equal(weft_trace_save(NULL, not_made), WEFT_EINVAL);
    assert_int_equal(unlink(not_made), -1);
    assert_int_equal(weft_trace_save(pool, "/nowhere/at/all"), WEFT_EINVAL);
    end_pool(pool);
    weft_config config = config_of(1);
    config.trace = "/nowhere/at/all";
    assert_int_equal(weft_pool_create(&none, &config), WEFT_EINVAL);
    assert_null(none);
    config.trace = NULL;
    config.stats = "/nowhere/at/all";
    assert_int_equal(weft_pool_create(&none, &config), WEFT_EINVAL);
    config.stats = NULL;
    config.trace_events = ((size_t)1 << 24) + 1;
    assert_int_equal(weft_pool_create(&none, &config), WEFT_EINVAL);
}

/* A named pipe that nobody reads is refused at once; one that is read slowly gets all of it. */
static atomic_bool is_saved;

static void *read_all(void *descriptor) {
    char part[256], last = 0; /* but white space */
    int fd = *(const int *)descriptor, ready = 0;
    while (ready < 4096 && !atomic_load(&is_saved)) REQUIRE(ioctl(fd, FIONREAD, &ready) == 0); /* no more goes into it */
    for (ssize_t got; (got = read(fd, part, sizeof part)) > 0;)
        for (ssize_t i = 0; i < got; i++)
            if (part[i] > ' ') last = part[i];
    REQUIRE(last == '}');
    return NULL;
}

static void test_pipe(void **state) {
    (void)state;
    char file[64];
    snprintf(file, sizeof file, "%s.pipe", path);
    assert_int_equal(mkfifo(file, 0600), 0);
    weft_config config = config_of(1);
    weft_pool *pool = NULL;
    config.trace = file;
    assert_int_equal(weft_pool_create(&pool, &config), WEFT_EINVAL);
    config.trace = NULL;
    config.stats = file;
    assert_int_equal(weft_pool_create(&pool, &config), WEFT_EINVAL);
    config.stats = NULL;
    pool = make_pool_with(&config);
    assert_int_equal(weft_trace_save(pool, file), WEFT_EINVAL);
    assert_int_equal(weft_trace_start(pool), WEFT_OK);
    run_leaves(pool, 1000);
    int fd = open(file, O_RDONLY | O_NONBLOCK);
    assert_true(fd >= 0 && fcntl(fd, F_SETPIPE_SZ, 4096) == 4096);
    pthread_t reader;
    atomic_store(&is_saved, false);
    assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
    assert_int_equal(pthread_create(&reader, NULL, read_all, &fd), 0);
    assert_int_equal(weft_trace_save(pool, file), WEFT_OK);
    atomic_store(&is_saved, true);
    pthread_join(reader, NULL);
    close(fd);
    unlink(file);
    end_pool(pool);
}

static int child_traces(void *argument) {
    weft_pool *pool = argument;
    if (weft_trace_start(pool) != WEFT_EFORK || weft_trace_stop(pool) != WEFT_EFORK) return 1;
    return weft_pool_destroy(&pool) == WEFT_EFORK ? 0 : 2;
}

static void test_forked_child(void **state) {
    (void)state;
    if (SANITIZED) SKIP("a sanitized process does not fork well with threads");
    weft_config config = config_of(1);
    config.trace = path;
    weft_pool *pool = make_pool_with(&config);
    run_leaves(pool, 5);
    assert_int_equal(in_child(child_traces, pool), 0);
    struct stat before;
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(before.st_size, 0); /* the child has written nothing */
    end_pool(pool);
    char *text = text_of(path);
    assert_int_equal(count_of(text, "\"name\":\"traced_leaf\""), 5);
    free(text);
    unlink(path);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    int fd = mkstemp(path);
    if (fd < 0) return 1;
    close(fd);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_task),
        cmocka_unit_test(test_threads_of_a_seat),
        cmocka_unit_test(test_task_of_earlier_recording),
        cmocka_unit_test(test_nothing_recorded),
        cmocka_unit_test(test_bounded),
        cmocka_unit_test(test_begins_between),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_submissions),
        cmocka_unit_test(test_steals),
        cmocka_unit_test(test_on_and_off),
        cmocka_unit_test(test_config),
        cmocka_unit_test(test_one_file),
        cmocka_unit_test(test_own_stream),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_forked_child),
        cmocka_unit_test(test_reduction),
        cmocka_unit_test(test_pipe),
        cmocka_unit_test(test_claims_of_one),
        cmocka_unit_test(test_begins_after_what_is_not_recorded),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
