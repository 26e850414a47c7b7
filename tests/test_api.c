/* test_api.c: configuration, payloads, hooks and worker data, from the contracts of weft.h alone. */
#define _GNU_SOURCE
#include "pool_help.h"

#include <sched.h>
#include <sys/prctl.h>

/* ---- texts -------------------------------------------------------------------------------------------------------- */

static void test_texts(void **state) {
    (void)state;
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR, WEFT_VERSION_PATCH);
    assert_string_equal(weft_version(), version);
#define CHECK_TEXT(name, value, text) assert_string_equal(weft_strerror(name), text);
    WEFT_ERROR_LIST(CHECK_TEXT)
#undef CHECK_TEXT
    assert_non_null(weft_strerror(1));
    assert_string_equal(weft_strerror(1), weft_strerror(-10000));
    assert_string_equal(weft_strerror(INT32_MAX), weft_strerror(INT32_MIN));
}

/* ---- configuration ------------------------------------------------------------------------------------------------ */

static void test_config_init(void **state) {
    (void)state;
    weft_config config, zero;
    memset(&config, 0xa5, sizeof config);
    memset(&zero, 0, sizeof zero);
    assert_int_equal(weft_config_init(&config), WEFT_OK);
    assert_int_equal(config.struct_size, sizeof config);
    assert_true(config.workers == 0 && config.spares == 0 && config.name == NULL && config.cpus == NULL);
    assert_true(config.stack_size == 0 && config.spin_ns == 0 && config.flags == 0 && config.full == 0);
    assert_true(config.queue_max == 0 && config.start == NULL && config.stop == NULL && config.data_free == NULL);
    assert_true(config.clean == NULL && config.context == NULL);
    assert_int_equal(weft_config_init(NULL), WEFT_EINVAL);
}

static void test_config_format(void **state) {
    (void)state;
    weft_config config = config_of(2);
    config.spares = 3;
    config.name = "abc";
    char text[1024], small[1024];
    int length = weft_config_format(&config, text, sizeof text);
    assert_true(length > 0 && (size_t)length < sizeof text);
    assert_int_equal(strlen(text), length);
    assert_non_null(strstr(text, "workers=2"));
    assert_non_null(strstr(text, "spares=3"));
    assert_non_null(strstr(text, "abc"));
    assert_null(strchr(text, '\n'));
    assert_int_equal(weft_config_format(&config, NULL, 0), length);
    for (size_t size = 1; size <= (size_t)length + 2; size++) {
        memset(small, '#', sizeof small);
        assert_int_equal(weft_config_format(&config, small, size), length);
        size_t written = size <= (size_t)length ? size - 1 : (size_t)length;
        assert_memory_equal(small, text, written);
        assert_int_equal(small[written], 0);
        for (size_t i = size; i < sizeof small; i++) assert_int_equal(small[i], '#');
    }
}

static void test_config_in_force(void **state) {
    (void)state;
    weft_pool *pool = NULL;
    assert_int_equal(weft_pool_create(&pool, NULL), WEFT_OK);
    weft_config config = config_of(0);
    assert_int_equal(weft_pool_config(pool, &config), WEFT_OK);
    assert_int_equal(config.struct_size, sizeof config);
    assert_int_equal(config.workers, weft_cpu_count());
    assert_int_equal(weft_pool_workers(pool), config.workers);
    assert_int_equal(config.spares, config.workers);
    assert_string_equal(config.name, "weft");
    assert_true(config.stack_size >= 16384);
    assert_true(config.spin_ns != 0);
    end_pool(pool);
}

/* A program that was compiled when weft_config was shorter. */
static void test_config_of_an_older_caller(void **state) {
    (void)state;
    struct {
        weft_config config;
        unsigned char beyond[sizeof(weft_config)];
    } older;
    const size_t size = offsetof(weft_config, name);
    weft_pool *pool = NULL;
    assert_int_equal(weft_pool_create(&pool, NULL), WEFT_OK);
    memset(&older, '#', sizeof older);
    older.config.struct_size = size;
    assert_int_equal(weft_pool_config(pool, &older.config), WEFT_OK);
    assert_int_equal(older.config.struct_size, size);
    assert_int_equal(older.config.workers, weft_pool_workers(pool));
    for (size_t i = size; i < sizeof older.config; i++) assert_int_equal(((unsigned char *)&older)[i], '#');
    older.config.struct_size = 1;
    assert_int_equal(weft_pool_config(pool, &older.config), WEFT_EINVAL);
    end_pool(pool);
}

static int64_t spin_of(const char *cpus) {
    weft_config config = config_of(2), kept = config_of(0);
    config.spin_ns = 7000;
    config.cpus = cpus;
    weft_pool *pool = NULL;
    assert_int_equal(weft_pool_create(&pool, &config), WEFT_OK);
    assert_int_equal(weft_pool_config(pool, &kept), WEFT_OK);
    end_pool(pool);
    return kept.spin_ns;
}

static void test_no_spin_on_one_cpu(void **state) {
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    size_t cpu = 0;
    while (!CPU_ISSET(cpu, &before)) cpu++;
    char name[24];
    snprintf(name, sizeof name, "%zu", cpu);
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    int64_t spin_ns = spin_of(NULL), named_ns = spin_of(name);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(spin_ns, WEFT_SPIN_NONE);
    assert_int_equal(named_ns, 7000);
}

/* A machine with many CPUs has long lists. */
static void test_long_list_kept(void **state) {
    (void)state;
    char cpus[1000] = "0";
    for (size_t i = 1; i + 2 < sizeof cpus; i += 2) memcpy(cpus + i, ",0", 3);
    weft_config config = config_of(1), kept = config_of(0);
    config.cpus = cpus;
    weft_pool *pool = NULL;
    int error = weft_pool_create(&pool, &config);
    if (error == WEFT_EAGAIN || error == WEFT_EINVAL) SKIP("CPU 0 is not to be had");
    assert_int_equal(error, WEFT_OK);
    assert_int_equal(weft_pool_config(pool, &kept), WEFT_OK);
    assert_string_equal(kept.cpus, cpus);
    end_pool(pool);
}

static void test_config_kept(void **state) {
    (void)state;
    char name[] = "kept", cpus[] = "0-0";
    int anything = 0;
    weft_config config = config_of(2), kept = config_of(0);
    config.name = name;
    config.cpus = cpus;
    config.stack_size = 70000;
    config.spin_ns = WEFT_SPIN_NONE;
    config.queue_max = 77;
    config.full = WEFT_FULL_RUN;
    config.flags = WEFT_POOL_ORDERED | WEFT_POOL_NO_HELP;
    config.spares = 1;
    config.context = &anything;
    weft_pool *pool = NULL;
    int error = weft_pool_create(&pool, &config);
    if (error == WEFT_EAGAIN || error == WEFT_EINVAL) SKIP("CPU 0 is not to be had");
    assert_int_equal(error, WEFT_OK);
    memset(name, 'x', sizeof name - 1); /* strings are copied by create */
    memset(cpus, 'x', sizeof cpus - 1);
    assert_int_equal(weft_pool_config(pool, &kept), WEFT_OK);
    assert_string_equal(kept.name, "kept");
    assert_string_equal(kept.cpus, "0-0");
    assert_true(kept.workers == 2 && kept.spares == 1 && kept.stack_size >= 70000 && kept.spin_ns == WEFT_SPIN_NONE);
    assert_true(kept.queue_max == 77 && kept.full == WEFT_FULL_RUN && kept.flags == (WEFT_POOL_ORDERED | WEFT_POOL_NO_HELP));
    assert_ptr_equal(kept.context, &anything);
    end_pool(pool);
}

/* ---- threads ------------------------------------------------------------------------------------------------------ */

typedef struct seen_thread {
    char name[24];
    cpu_set_t cpus;
} seen_thread;

static int look_task(void *payload, weft_worker *self) {
    (void)self;
    seen_thread *seen = *(seen_thread **)payload;
    REQUIRE(prctl(PR_GET_NAME, seen->name) == 0);
    REQUIRE(sched_getaffinity(0, sizeof seen->cpus, &seen->cpus) == 0);
    return 0;
}

static seen_thread look(weft_config *config) {
    seen_thread seen, *pointer = &seen;
    memset(&seen, 0, sizeof seen);
    config->flags |= WEFT_POOL_NO_HELP;
    weft_pool *pool = make_pool_with(config);
    weft_group group = WEFT_GROUP_INIT;
    REQUIRE(weft_submit(pool, &group, look_task, &pointer, sizeof pointer) == WEFT_OK);
    REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
    end_pool(pool);
    return seen;
}

static void test_thread_names(void **state) {
    (void)state;
    weft_config config = config_of(1);
    assert_int_equal(strncmp(look(&config).name, "weft", 4), 0);
    config.name = "elevenchars";
    assert_int_equal(strncmp(look(&config).name, "elevenchars", 11), 0);
    config.name = "elevencharsXYZ";
    seen_thread seen = look(&config);
    assert_int_equal(strncmp(seen.name, "elevenchars", 11), 0);
    assert_null(strchr(seen.name, 'X'));
    config.name = "";
    look(&config);
}

static void test_cpus_of_workers(void **state) {
    (void)state;
    cpu_set_t own;
    assert_int_equal(sched_getaffinity(0, sizeof own, &own), 0);
    size_t last = CPU_SETSIZE - 1;
    while (!CPU_ISSET(last, &own)) last--;
    char list[16];
    snprintf(list, sizeof list, "%zu", last);
    weft_config config = config_of(1);
    config.cpus = list;
    seen_thread seen = look(&config);
    assert_int_equal(CPU_COUNT(&seen.cpus), 1);
    assert_true(CPU_ISSET(last, &seen.cpus));
    config.cpus = NULL;
    seen = look(&config);
    assert_true(CPU_EQUAL(&seen.cpus, &own));
}

static int pool_on_one_cpu(void *argument) {
    (void)argument;
    cpu_set_t set, one;
    REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
    size_t cpu = 0;
    while (!CPU_ISSET(cpu, &set)) cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    REQUIRE(weft_cpu_count() == 1);
    for (uint32_t workers = 0; workers <= 4; workers++) {
        atomic_uint counter = 0;
        weft_pool *pool = make_pool(workers);
        REQUIRE(weft_pool_workers(pool) == (workers == 0 ? 1 : workers));
        weft_group group = WEFT_GROUP_INIT;
        for (int i = 0; i < 10000; i++) REQUIRE(submit_count(pool, &group, &counter) == WEFT_OK);
        REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
        REQUIRE(atomic_load(&counter) == 10000);
        end_pool(pool);
    }
    return 0;
}

static void test_one_cpu(void **state) {
    (void)state;
    assert_true(weft_cpu_count() >= 1);
    assert_int_equal(in_child(pool_on_one_cpu, NULL), 0);
}

/* Uses some of a small stack. */
static int stack_task(void *payload, weft_worker *self) {
    (void)self;
    volatile char room[4096];
    for (size_t i = 0; i < sizeof room; i += 64) room[i] = (char)i;
    atomic_fetch_add(*(atomic_uint **)payload, (unsigned)(room[64] == 64));
    return 0;
}

static void test_many_workers_small_stacks(void **state) {
    (void)state;
    weft_config config = config_of(64);
    config.stack_size = 16384;
    weft_pool *pool = make_pool_with(&config);
    assert_int_equal(weft_pool_workers(pool), 64);
    atomic_uint counter = 0, *pointer = &counter;
    weft_group group = WEFT_GROUP_INIT;
    for (int i = 0; i < 20000; i++)
        assert_int_equal(weft_submit(pool, &group, stack_task, &pointer, sizeof pointer), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    assert_int_equal(atomic_load(&counter), 20000);
    end_pool(pool);
}

/* Every worker is there at once: each task of the group waits for all of them. */
typedef struct meeting {
    pthread_barrier_t barrier;
    atomic_uint indices[WEFT_WORKERS_MAX];
} meeting;

static int meet_task(void *payload, weft_worker *self) {
    meeting *m = *(meeting **)payload;
    unsigned index = weft_worker_index(self);
    REQUIRE(index < WEFT_WORKERS_MAX);
    atomic_fetch_add(&m->indices[index], 1);
    pthread_barrier_wait(&m->barrier);
    return 0;
}

static void test_all_workers_run_at_once(void **state) {
    (void)state;
    static const uint32_t counts[] = {1, 2, 3, 8, 64};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        static meeting m;
        meeting *pointer = &m;
        memset(&m, 0, sizeof m);
        weft_config config = config_of(counts[i]);
        config.flags = WEFT_POOL_NO_HELP;
        weft_pool *pool = make_pool_with(&config);
        pthread_barrier_init(&m.barrier, NULL, counts[i]);
        weft_group group = WEFT_GROUP_INIT;
        for (uint32_t k = 0; k < counts[i]; k++)
            assert_int_equal(weft_submit(pool, &group, meet_task, &pointer, sizeof pointer), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
        for (uint32_t k = 0; k < WEFT_WORKERS_MAX; k++)
            assert_int_equal(atomic_load(&m.indices[k]), k < counts[i]); /* "workers come first", one task each */
        end_pool(pool);
        pthread_barrier_destroy(&m.barrier);
    }
}

/* ---- payloads ----------------------------------------------------------------------------------------------------- */

static unsigned char pattern(size_t size, size_t i) { return (unsigned char)(size * 131 + i * 7 + i / 251); }

/* The first bytes of a payload that is long enough say what its size must be; the rest is the pattern. */
typedef struct header {
    size_t size;
    atomic_uint *intact;
} header;

static int check_task(void *payload, weft_worker *self) {
    REQUIRE(weft_worker_pool(self) != NULL);
    REQUIRE(payload != NULL && (uintptr_t)payload % 16 == 0);
    header h;
    memcpy(&h, payload, sizeof h);
    unsigned char *bytes = payload;
    for (size_t i = sizeof h; i < h.size; i++) REQUIRE(bytes[i] == pattern(h.size, i));
    memset(bytes, 0xee, h.size); /* it is the task's own */
    atomic_fetch_add(h.intact, 1);
    return 0;
}

static void fill(unsigned char *buffer, size_t size, atomic_uint *intact) {
    const header h = {size, intact};
    for (size_t i = 0; i < size; i++) buffer[i] = pattern(size, i);
    memcpy(buffer, &h, sizeof h);
}

static const size_t sizes[] = {16,  17,  31,  32,   47,   48,   49,   64,   65,   111,   112,
                               113, 328, 416, 1008, 1009, 1024, 2031, 2032, 2033, 65536, 1 << 20};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void check_sizes(uint32_t workers) {
    weft_pool *pool = make_pool(workers);
    static unsigned char buffer[1 << 20];
    atomic_uint intact = 0;
    uint64_t heap = 0;
    weft_group group = WEFT_GROUP_INIT;
    for (size_t round = 0; round < 50; round++)
        for (size_t i = 0; i < SIZES; i++) {
            fill(buffer, sizes[i], &intact);
            assert_int_equal(weft_submit(pool, &group, check_task, buffer, sizes[i]), WEFT_OK);
            memset(buffer, 0xdd, sizes[i]); /* the copy is made */
            heap += sizes[i] > WEFT_INLINE_MAX;
        }
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    assert_int_equal(atomic_load(&intact), 50 * SIZES);
    assert_int_equal(stats_of(pool).heap_payload_count, heap);
    end_pool(pool);
}

static void test_payload_sizes(void **state) {
    (void)state;
    check_sizes(1);
    check_sizes(2);
    check_sizes(3);
}

static int small_task(void *payload, weft_worker *self) {
    (void)self;
    unsigned char *bytes = payload;
    REQUIRE((uintptr_t)payload % 16 == 0);
    for (unsigned char i = 1; i < bytes[0]; i++) REQUIRE(bytes[i] == pattern(bytes[0], i));
    return bytes[0] == 15 ? 0 : 1;
}

static int null_task(void *payload, weft_worker *self) {
    (void)self;
    REQUIRE(payload == NULL);
    return 0;
}

static int empty_payload_task(void *payload, weft_worker *self) {
    (void)self;
    REQUIRE(payload != NULL);
    return 0;
}

static void test_payload_small_and_none(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    weft_group group = WEFT_GROUP_INIT;
    unsigned char bytes[15] = {15};
    for (size_t i = 1; i < sizeof bytes; i++) bytes[i] = pattern(sizeof bytes, i);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(weft_submit(pool, &group, null_task, NULL, 0), WEFT_OK);
        assert_int_equal(weft_submit(pool, &group, null_task, NULL, 77), WEFT_OK);
        assert_int_equal(weft_submit(pool, &group, null_task, NULL, SIZE_MAX), WEFT_OK);
        assert_int_equal(weft_submit(pool, &group, empty_payload_task, bytes, 0), WEFT_OK);
        assert_int_equal(weft_submit(pool, &group, small_task, bytes, sizeof bytes), WEFT_OK);
    }
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    bytes[0] = 1; /* one byte: the task that gets it fails */
    assert_int_equal(weft_submit(pool, &group, small_task, bytes, 1), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), 1);
    end_pool(pool);
}

/* Sizes in no order, many at once: wraps, fillers, growth; from outside and from inside of tasks. */
enum { MIXED = 20000, MIXED_MAX = 1200 };

static uint32_t next_random(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static void submit_mixed(weft_pool *pool, weft_group *group, atomic_uint *intact, uint32_t seed) {
    unsigned char buffer[MIXED_MAX];
    for (int i = 0; i < MIXED; i++) {
        size_t size = sizeof(header) + next_random(&seed) % (MIXED_MAX - sizeof(header));
        fill(buffer, size, intact);
        REQUIRE(weft_submit(pool, group, check_task, buffer, size) == WEFT_OK);
    }
}

typedef struct mixed {
    weft_pool *pool;
    weft_group *group;
    atomic_uint *intact;
} mixed;

static int submit_mixed_task(void *payload, weft_worker *self) {
    const mixed *m = payload;
    REQUIRE(weft_worker_pool(self) == m->pool);
    submit_mixed(m->pool, m->group, m->intact, 7);
    return 0;
}

static void test_payload_mixed(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    weft_group group = WEFT_GROUP_INIT, below = WEFT_GROUP_INIT;
    atomic_uint intact = 0;
    const mixed m = {pool, &below, &intact};
    assert_int_equal(weft_submit(pool, &group, submit_mixed_task, &m, sizeof m), WEFT_OK);
    submit_mixed(pool, &group, &intact, 1);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &below), WEFT_OK);
    assert_int_equal(atomic_load(&intact), 2 * MIXED);
    end_pool(pool);
}

/* ---- hooks and data ----------------------------------------------------------------------------------------------- */

typedef struct hooked {
    atomic_uint starts, stops, frees, frees_before_stops;
    unsigned workers;
} hooked;

/* data_free has no context. */
static hooked *hooked_now;

static void on_start(weft_worker *self, void *context) {
    hooked *h = context;
    REQUIRE(*weft_worker_data(self) == NULL);
    REQUIRE(weft_worker_index(self) < h->workers);
    *weft_worker_data(self) = malloc(10);
    atomic_fetch_add(&h->starts, 1);
}

static void on_stop(weft_worker *self, void *context) {
    hooked *h = context;
    REQUIRE(*weft_worker_data(self) != NULL);
    atomic_fetch_add(&h->stops, 1);
}

static void on_data(void *data) {
    hooked *h = hooked_now;
    REQUIRE(data != NULL);
    if (atomic_load(&h->stops) != h->workers) atomic_fetch_add(&h->frees_before_stops, 1);
    atomic_fetch_add(&h->frees, 1);
    free(data);
}

static int data_task(void *payload, weft_worker *self) {
    (void)payload;
    REQUIRE(*weft_worker_data(self) != NULL);
    return 0;
}

static void test_hooks(void **state) {
    (void)state;
    for (uint32_t workers = 1; workers <= 8; workers++) {
        hooked h = {.workers = workers};
        hooked_now = &h;
        weft_config config = config_of(workers);
        config.start = on_start;
        config.stop = on_stop;
        config.data_free = on_data;
        config.context = &h;
        config.flags = WEFT_POOL_NO_HELP;
        weft_pool *pool = make_pool_with(&config);
        assert_int_equal(atomic_load(&h.starts), workers); /* create blocks until every start hook has run */
        assert_int_equal(atomic_load(&h.stops), 0);
        for (int i = 0; i < 1000; i++) assert_int_equal(weft_submit(pool, NULL, data_task, NULL, 0), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
        assert_int_equal(atomic_load(&h.stops) + atomic_load(&h.frees), 0);
        end_pool(pool);
        assert_int_equal(atomic_load(&h.starts), workers);
        assert_int_equal(atomic_load(&h.stops), workers);
        assert_int_equal(atomic_load(&h.frees), workers);
        assert_int_equal(atomic_load(&h.frees_before_stops), 0);
    }
}

static atomic_uint data_made, data_freed;

static void count_data_free(void *data) {
    free(data);
    atomic_fetch_add(&data_freed, 1);
}

/* Worker data is the thread's own: a counter in it needs no atomics. */
static int own_data_task(void *payload, weft_worker *self) {
    (void)payload;
    unsigned **data = (unsigned **)weft_worker_data(self);
    if (*data == NULL) {
        *data = calloc(1, sizeof **data);
        atomic_fetch_add(&data_made, 1);
    }
    (**data)++;
    return 0;
}

static void test_worker_data(void **state) {
    (void)state;
    atomic_store(&data_made, 0);
    atomic_store(&data_freed, 0);
    weft_config config = config_of(3);
    config.data_free = count_data_free;
    weft_pool *pool = make_pool_with(&config);
    for (int round = 0; round < 100; round++) {
        weft_group group = WEFT_GROUP_INIT;
        for (int i = 0; i < 100; i++) assert_int_equal(weft_submit(pool, &group, own_data_task, NULL, 0), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK); /* this thread helps and has data of its own */
    }
    assert_int_equal(atomic_load(&data_freed), 0);
    end_pool(pool);
    assert_true(atomic_load(&data_made) >= 1);
    assert_int_equal(atomic_load(&data_freed), atomic_load(&data_made));
}

/* ---- statistics --------------------------------------------------------------------------------------------------- */

static void test_stats(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    weft_group group = WEFT_GROUP_INIT;
    for (int i = 0; i < 5000; i++) assert_int_equal(weft_submit(pool, &group, empty_task, NULL, 0), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    weft_stats stats = stats_of(pool);
    assert_int_equal(stats.task_run_count, 5000);
    assert_int_equal(stats.task_dropped_count, 0);
    assert_int_equal(stats.workers, 2);
    assert_int_equal(stats.heap_payload_count, 0);
    assert_int_equal(stats.spare_started_count, 0);
    assert_true(stats.lane_count >= 1 && stats.queue_bytes > 0 && stats.claim_count >= 1 && stats.claim_count <= 5000);
    assert_true(stats.claim_count >= stats.task_helped_count);
    struct {
        weft_stats stats;
        unsigned char after[64];
    } guarded;
    memset(&guarded, 0x5a, sizeof guarded);
    guarded.stats.struct_size = offsetof(weft_stats, task_dropped_count); /* an older caller's */
    assert_int_equal(weft_pool_stats(pool, &guarded.stats), WEFT_OK);
    assert_int_equal(guarded.stats.task_run_count, 5000);
    const unsigned char *bytes = (const unsigned char *)&guarded;
    for (size_t i = offsetof(weft_stats, task_dropped_count); i < sizeof guarded; i++) assert_int_equal(bytes[i], 0x5a);
    end_pool(pool);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_config_init),
        cmocka_unit_test(test_config_format),
        cmocka_unit_test(test_config_in_force),
        cmocka_unit_test(test_config_of_an_older_caller),
        cmocka_unit_test(test_no_spin_on_one_cpu),
        cmocka_unit_test(test_config_kept),
        cmocka_unit_test(test_thread_names),
        cmocka_unit_test(test_cpus_of_workers),
        cmocka_unit_test(test_long_list_kept),
        cmocka_unit_test(test_one_cpu),
        cmocka_unit_test(test_many_workers_small_stacks),
        cmocka_unit_test(test_all_workers_run_at_once),
        cmocka_unit_test(test_payload_sizes),
        cmocka_unit_test(test_payload_small_and_none),
        cmocka_unit_test(test_payload_mixed),
        cmocka_unit_test(test_hooks),
        cmocka_unit_test(test_worker_data),
        cmocka_unit_test(test_stats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
