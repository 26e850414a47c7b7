/* test_topology.c: what sysfs says CPUs share, whom a worker takes from first. The machines are made up. */
#define _GNU_SOURCE
#include "pool_help.h"
#include "predict/topology.h"

#include <sys/stat.h>

/* ---- a tree of sysfs ---------------------------------------------------------------------------------------------- */

static char root[] = "/tmp/weft-near-XXXXXX";

static void put(const char *text, const char *format, unsigned one, unsigned two) {
    char path[256];
    int length = snprintf(path, sizeof path, "%s/sys/devices/system/", root);
    REQUIRE(length > 0);
    snprintf(path + length, sizeof path - (size_t)length, format, one, two);
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = 0;
        REQUIRE(mkdir(path, 0700) == 0 || errno == EEXIST);
        *at = '/';
    }
    FILE *file = fopen(path, "w");
    REQUIRE(file != NULL && fprintf(file, "%s\n", text) > 0 && fclose(file) == 0);
}

/* Sixteen CPUs: i and i + 8 on one core and L2; an L3 for two cores, a node for four. */
enum { CPUS = 16 };
static void make_machine(void) {
    char text[64];
    REQUIRE(mkdtemp(root) != NULL);
    for (unsigned cpu = 0; cpu < CPUS; cpu++) {
        unsigned core = cpu % 8;
        snprintf(text, sizeof text, "%u,%u", core, core + 8);
        put(text, "cpu/cpu%u/topology/thread_siblings_list", cpu, 0);
        put("1", "cpu/cpu%u/cache/index%u/level", cpu, 0);
        put("not a list", "cpu/cpu%u/cache/index%u/shared_cpu_list", cpu, 0);
        put("2", "cpu/cpu%u/cache/index%u/level", cpu, 1);
        put(text, "cpu/cpu%u/cache/index%u/shared_cpu_list", cpu, 1);
        snprintf(text, sizeof text, "%u-%u,%u-%u", core / 2 * 2, core / 2 * 2 + 1, core / 2 * 2 + 8, core / 2 * 2 + 9);
        put("3", "cpu/cpu%u/cache/index%u/level", cpu, 2);
        put(text, "cpu/cpu%u/cache/index%u/shared_cpu_list", cpu, 2);
    }
    put("0-1", "node/online", 0, 0);
    put("0-3,8-11", "node/node%u/cpulist", 0, 0);
    put("4-7,12-15", "node/node%u/cpulist", 1, 0);
}

static int end_machine(void **state) {
    char command[64];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

static int begin_machine(void **state) {
    (void)state;
    make_machine();
    return 0;
}

/* ---- reading ------------------------------------------------------------------------------------------------------ */

static void test_distances(void **state) {
    (void)state;
    uint16_t shared[CPUS * OS_NEAR_LEVELS];
    assert_true(os_topology(shared, CPUS, root));
    static const struct {
        uint32_t one, other, distance;
    } cases[] = {{5, 5, 0},
                 {5, 13, OS_NEAR_CORE + 1},
                 {5, 4, OS_NEAR_L3 + 1},
                 {5, 12, OS_NEAR_L3 + 1},
                 {5, 6, OS_NEAR_NODE + 1},
                 {5, 15, OS_NEAR_NODE + 1},
                 {5, 3, OS_NEAR_LEVELS + 1},
                 {0, 11, OS_NEAR_NODE + 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(topology_distance(shared, cases[i].one, cases[i].other), cases[i].distance);
        assert_int_equal(topology_distance(shared, cases[i].other, cases[i].one), cases[i].distance);
    }
}

/* No sysfs: all are as far from each other. */
static void test_unknown_machine(void **state) {
    (void)state;
    uint16_t shared[CPUS * OS_NEAR_LEVELS];
    errno = EDOM;
    assert_true(os_topology(shared, CPUS, "/nowhere"));
    assert_int_equal(errno, EDOM);
    for (uint32_t i = 1; i < CPUS; i++) assert_int_equal(topology_distance(shared, 0, i), OS_NEAR_NODE + 1);
}

/* The real one: whatever it is, a CPU is at no distance from itself, and distances are mutual. */
static void test_this_machine(void **state) {
    (void)state;
    enum { HERE = 64 };
    uint16_t shared[HERE * OS_NEAR_LEVELS];
    assert_true(os_topology(shared, HERE, "/"));
    for (uint32_t i = 0; i < HERE; i++) {
        assert_int_equal(topology_distance(shared, i, i), 0);
        for (uint32_t j = 0; j < HERE; j++)
            assert_int_equal(topology_distance(shared, i, j), topology_distance(shared, j, i));
    }
}

/* ---- where it makes a difference -------------------------------------------------------------------------------------- */

/* The pool's look at this machine is at the made-up one. */
bool __real_os_topology(uint16_t *shared, uint32_t cpus, const char *from);
bool __wrap_os_topology(uint16_t *shared, uint32_t cpus, const char *from);
bool __wrap_os_topology(uint16_t *shared, uint32_t cpus, const char *from) {
    return __real_os_topology(shared, cpus, from[0] == 0 ? root : from);
}

static void configure(uint64_t cpus, uint32_t workers, uint32_t shared_cpus) {
    weft_pool pool = {.workers_max = workers, .cpus = {{cpus}}, .config = {.cpus = "as in .cpus"}};
    store_rlx(&pool.cpu_count, os_cpuset_count(&pool.cpus));
    topology_configure(&pool);
    assert_int_equal(predict_of_pool(&pool)->shared_cpus, shared_cpus);
    assert_true((predict_of_pool(&pool)->shared != NULL) == (shared_cpus != 0));
    if (shared_cpus > 8) assert_int_equal(topology_distance(predict_of_pool(&pool)->shared, 0, 8), OS_NEAR_CORE + 1);
    store_end(&pool.store);
}

static void test_where_it_matters(void **state) {
    (void)state;
    configure(0x0303, 4, 10);      /* two cores */
    configure(0xffff, 8, CPUS);    /* all */
    configure(0x0051, 3, 7);       /* one alone in its node: the others are near to each other, not to it */
    configure(0x0055, 4, 7);       /* two in each of two nodes */
    configure(0x0011 | 0x2, 3, 5); /* two with an L3, one elsewhere */
    configure(0x0303, 2, 0);       /* two workers */
    configure(0x0101, 4, 0);       /* two CPUs */
    configure(0x000f, 4, 4);       /* two L3 */
}

/* Where all are as far from each other there is no order. */
static void test_flat(void **state) {
    (void)state;
    char path[sizeof root];
    memcpy(path, root, sizeof root);
    strcpy(root, "/nowhere");
    configure(0x000f, 4, 0);
    configure(0xff0f, 4, 0);
    memcpy(root, path, sizeof root);
    configure(0x0f0f, 4, 12);
}

/* ---- order -------------------------------------------------------------------------------------------------------- */

static void test_order(void **state) {
    (void)state;
    uint16_t shared[CPUS * OS_NEAR_LEVELS];
    uint16_t order[8];
    assert_true(os_topology(shared, CPUS, root));
    /* workers 0..7 on these CPUs, of the last nobody knows */
    static const uint32_t cpus[8] = {0, 5, 4, 13, 6, 1, 12, OS_NO_CPU};
    static const uint16_t expected[8] = {1, 3, 2, 6, 4, 5, 7, 0}; /* core, L3, L3, node, then by number */
    topology_sort(shared, cpus, order, 8, 1);
    for (int i = 0; i < 8; i++) assert_int_equal(order[i], expected[i]);
    topology_sort(shared, cpus, order, 8, 7); /* who does not know its own: as ever */
    for (int i = 0; i < 8; i++) assert_int_equal(order[i], (7 + i) % 8);
}

static void test_every_seat_once(void **state) {
    (void)state;
    weft_pool *pool = make_pool(4);
    struct weft_worker seat = {.pool = pool, .index = 2};
    uint16_t near[11] = {2, 0, 3, 1};
    for (int turn = 0; turn < 2; turn++) {
        uint32_t seen = 0;
        for (uint32_t i = 0; i < 11; i++) seen |= 1u << worker_victim(&seat, i, 11);
        assert_int_equal(seen, (1u << 11) - 1);
        seat.nearest = near;
    }
    assert_int_equal(worker_victim(&seat, 1, 11), 0);
    end_pool(pool);
}

/* ---- taking ------------------------------------------------------------------------------------------------------- */

enum { WORKERS = 4 };
typedef struct scene {
    weft_pool *pool;
    weft_group group;
    sem_t entered, submitted, submit[WORKERS], leave[WORKERS];
    atomic_uint count;
    unsigned taken_from[WORKERS];
} scene;

typedef struct child {
    scene *scene;
    unsigned from;
} child;

static int note_child(void *payload, weft_worker *self) {
    const child *c = payload;
    (void)self;
    c->scene->taken_from[atomic_fetch_add(&c->scene->count, 1)] = c->from;
    return 0;
}

/* Stays on its worker; that of each but the first submits a task to its own lane. */
static int stay(void *payload, weft_worker *self) {
    scene *s = *(scene **)payload;
    unsigned index = weft_worker_index(self);
    sem_post(&s->entered);
    await(&s->submit[index]);
    const child c = {s, index};
    if (index != 0) REQUIRE(weft_submit_child(self, note_child, &c, sizeof c) == WEFT_OK);
    sem_post(&s->submitted);
    await(&s->leave[index]);
    return 0;
}

static void test_near_first(void **state) {
    (void)state;
    scene s = {.count = 0};
    scene *where = &s;
    weft_config config = config_of(WORKERS);
    config.flags = WEFT_POOL_NO_HELP;
    s.pool = make_pool_with(&config);
    sem_init(&s.entered, 0, 0);
    sem_init(&s.submitted, 0, 0);
    for (int i = 0; i < WORKERS; i++) sem_init(&s.submit[i], 0, 0);
    for (int i = 0; i < WORKERS; i++) sem_init(&s.leave[i], 0, 0);
    for (int i = 0; i < WORKERS; i++) REQUIRE(weft_submit(s.pool, &s.group, stay, &where, sizeof where) == WEFT_OK);
    for (int i = 0; i < WORKERS; i++) await(&s.entered);
    uint16_t near[WORKERS] = {0, 3, 1, 2};
    struct weft_worker *hunter = load_rlx(&s.pool->seats[0]);
    if (hunter->nearest == NULL) assert_null(predict_of_pool(s.pool)->shared); /* no difference on this machine */
    hunter->nearest = near;                                                    /* it stands in its task */
    predict_of_pool(s.pool)->shared = NULL; /* so that it keeps that order, should it be moved to another CPU */
    for (int i = 0; i < WORKERS; i++) sem_post(&s.submit[i]);
    for (int i = 0; i < WORKERS; i++) await(&s.submitted);
    sem_post(&s.leave[0]);
    while (atomic_load(&s.count) < WORKERS - 1) nap();
    for (int i = 1; i < WORKERS; i++) sem_post(&s.leave[i]);
    assert_int_equal(weft_group_wait(s.pool, &s.group), WEFT_OK);
    for (int i = 0; i < WORKERS - 1; i++) assert_int_equal(s.taken_from[i], near[i + 1]);
    weft_worker_counts counts = {.struct_size = sizeof counts};
    assert_int_equal(weft_worker_stats(s.pool, 0, &counts), WEFT_OK);
    assert_int_equal(counts.steal_count, WORKERS - 1);
    end_pool(s.pool);
}

/* A pool that knows the machine: who is found on another CPU has the order made anew. */
static void test_moved(void **state) {
    (void)state;
    uint16_t shared[CPUS * OS_NEAR_LEVELS];
    assert_true(os_topology(shared, CPUS, root));
    cpu_set_t own;
    assert_int_equal(sched_getaffinity(0, sizeof own, &own), 0);
    if (!CPU_ISSET(0, &own) || !CPU_ISSET(1, &own)) SKIP("it needs the CPUs 0 and 1");
    static struct weft_worker others[3];
    ATOMIC(struct weft_worker *) seats[3];
    for (int i = 0; i < 3; i++) store_rlx(&seats[i], &others[i]);
    weft_pool made_up = {.workers_max = 3, .seats = (void *)seats};
    predict_of_pool(&made_up)->shared = shared;
    predict_of_pool(&made_up)->shared_cpus = CPUS;
    struct weft_worker seat = {.pool = &made_up, .index = 1};
    store_rlx(&others[0].runs_on, 1u + 7);
    store_rlx(&others[2].runs_on, 1u + 8); /* beside CPU 0 */
    cpu_set_t one;
    for (uint32_t cpu = 0; cpu < 2; cpu++) {
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
        topology_moved(&seat);
        assert_int_equal(load_rlx(&seat.runs_on), cpu + 1);
        assert_int_equal(load_rlx(&predict_of_pool(&made_up)->moves), cpu + 1);
        assert_int_equal(seat.nearest[0], 1);
        assert_int_equal(seat.nearest[1], 2);
        store_rlx(&others[0].runs_on, 1u + 8);
        store_rlx(&others[2].runs_on, 1u + 9); /* beside CPU 1 */
    }
    assert_int_equal(sched_setaffinity(0, sizeof own, &own), 0);
    store_end(&made_up.store);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distances), cmocka_unit_test(test_unknown_machine),  cmocka_unit_test(test_this_machine),
        cmocka_unit_test(test_order),     cmocka_unit_test(test_every_seat_once),  cmocka_unit_test(test_near_first),
        cmocka_unit_test(test_moved),     cmocka_unit_test(test_where_it_matters), cmocka_unit_test(test_flat),
    };
    choose_cases(argc, argv);
    return cmocka_run_group_tests(tests, begin_machine, end_machine);
}
