/* fault_scene.c: see fault_scene.h. Tasks, groups, loops and forked calls; fault_scene_rest.c has graphs, the heap, what is
 * seen of pools, and other kinds of pools. */
#define _GNU_SOURCE
#include "fault_scene.h"

const char *const seen_names[SEEN_CALLS] = {SEEN_NAMES};
static struct outcome own_outcome;
struct outcome *outcome = &own_outcome;
struct scene scene_now;

void seen_note(enum seen_call call) { atomic_fetch_add_explicit(&outcome->seen[call], 1, memory_order_relaxed); }

int scene_ought(int error, unsigned others, const char *file, int line, const char *what) {
    if (error == WEFT_OK) return error;
    unsigned codes = others | (scene_now.is_strict ? 0 : CODE(WEFT_ENOMEM) | CODE(WEFT_EAGAIN));
    if (scene_now.may_be_late && (others & CODE(WEFT_ETIMEDOUT)) != 0) codes |= CODE(WEFT_ELATE);
    if (error > 0 || error < -31 || (codes & CODE(error)) == 0) {
        fprintf(stderr, "%s:%d: %s is %d, %s\n", file, line, what, error, (weft_strerror)(error));
        _exit(99);
    }
    if (error == WEFT_ENOMEM || error == WEFT_EAGAIN) atomic_fetch_add(&outcome->errors, 1);
    return error;
}

/* ---- tasks, each with a line in a ledger -------------------------------------------------------------------------- */

enum { ITEMS = 1 << 14 };
static struct {
    atomic_uchar ran[ITEMS], accepted[ITEMS];
    atomic_uint next;
} ledger;

struct item item_new(void) {
    uint32_t index = atomic_fetch_add(&ledger.next, 1);
    REQUIRE(index < ITEMS);
    return (struct item){index, 0};
}

int item_entrust(struct item item, int error) {
    atomic_store(&ledger.accepted[item.index], error == WEFT_OK);
    atomic_fetch_add(error == WEFT_OK ? &outcome->accepted : &outcome->refused, 1);
    return error;
}

int item_task(void *payload, weft_worker *self) {
    const struct item *item = payload;
    REQUIRE(self != NULL && weft_worker_index(self) < WEFT_THREADS_MAX);
    atomic_fetch_add(&ledger.ran[item->index], 1);
    atomic_fetch_add(&outcome->ran, 1);
    return (int)item->code;
}

void item_clean(void *payload, size_t size, void *context) {
    const struct item *item = payload;
    (void)context;
    REQUIRE(payload != NULL && size >= sizeof *item);
    atomic_fetch_add(&ledger.ran[item->index], 1);
    atomic_fetch_add(&outcome->cleaned, 1);
}

/* None was lost, none doubled, and none ran that was refused. */
static void ledger_check(void) {
    unsigned count = atomic_load(&ledger.next);
    for (unsigned i = 0; i < count; i++) {
        unsigned ran = atomic_load(&ledger.ran[i]), accepted = atomic_load(&ledger.accepted[i]);
        if (ran != accepted) fprintf(stderr, "task %u: accepted %u times, run or cleaned %u times\n", i, accepted, ran);
        REQUIRE(ran == accepted);
        atomic_store(&ledger.ran[i], 0);
    }
    atomic_store(&ledger.next, 0);
}

bool item_submit(weft_pool *pool, weft_group *group, size_t size, unsigned others) {
    static const size_t small = sizeof(struct item);
    struct item item = item_new();
    unsigned char few[128] = {0}, *bytes = size <= sizeof few ? few : weft_alloc_zeroed(1, size);
    REQUIRE(bytes != NULL || !scene_now.is_strict);
    int error = WEFT_ENOMEM;
    if (bytes != NULL) {
        memcpy(bytes, &item, small);
        error = OUGHT(weft_submit(pool, group, item_task, bytes, size), others);
    }
    if (bytes != few) weft_free(bytes);
    return item_entrust(item, error) == WEFT_OK;
}

/* ---- groups ------------------------------------------------------------------------------------------------------- */

static const size_t sizes[] = {sizeof(struct item), 100, 416, WEFT_INLINE_MAX, WEFT_INLINE_MAX + 1, 5000};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static int nested_task(void *payload, weft_worker *self) {
    weft_pool *pool = weft_worker_pool(self);
    weft_group group = WEFT_GROUP_INIT;
    for (unsigned i = 0; i < SIZES; i++) item_submit(pool, &group, sizes[i], 0);
    for (unsigned i = 0; i < 4; i++) {
        struct item child = item_new();
        item_entrust(child, SHORT(weft_submit_child(self, item_task, &child, sizeof child)));
    }
    /* The data is the task's thread's, and data_free's at the end. */
    void **data = weft_worker_data(self);
    if (*data == NULL) *data = (void *)(uintptr_t)1;
    weft_worker *here = weft_worker_here();
    REQUIRE(here == NULL || here == self);
    REQUIRE(weft_worker_cancelled(self) == 0);
    OUGHT(weft_block_begin(self), CODE(WEFT_EAGAIN));
    REQUIRE(weft_block_end(self) == WEFT_OK);
    REQUIRE(weft_block_end(self) == WEFT_EINVAL);
    REQUIRE(weft_group_wait(pool, &group) == WEFT_OK); /* whose thread has a seat: it is this task's */
    return item_task(payload, self);
}

static void plain_groups(weft_pool *pool, uint32_t flags) {
    weft_group group = {0, flags, 0};
    for (unsigned i = 0; i < 10 * SIZES; i++) item_submit(pool, &group, sizes[i % SIZES], 0);
    for (unsigned i = 0; i < 3; i++) {
        struct item item = item_new();
        item_entrust(item, SHORT(weft_submit(pool, &group, nested_task, &item, sizeof item)));
    }
    struct item plain = item_new();
    item_entrust(plain, SHORT(weft_submit_plain(pool, &group, item_task, &plain, sizeof plain)));
    SHORT(weft_group_boost(pool, &group));
    REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
    item_submit(pool, NULL, sizeof(struct item), 0);
    REQUIRE(weft_group_wait(pool, NULL) == WEFT_OK);
}

static void ended_groups(weft_pool *pool) {
    weft_group failing = {0, WEFT_GROUP_CANCEL_ON_ERROR, 0}, cancelled = WEFT_GROUP_INIT;
    struct item item = item_new();
    item.code = 7;
    bool fails = item_entrust(item, SHORT(weft_submit(pool, &failing, item_task, &item, sizeof item))) == WEFT_OK;
    for (unsigned i = 0; i < 20; i++) item_submit(pool, &failing, sizes[i % SIZES], CODE(WEFT_ECANCELED));
    int error = weft_group_wait(pool, &failing);
    REQUIRE(error == (fails ? 7 : WEFT_OK));
    for (unsigned i = 0; i < 20; i++) item_submit(pool, &cancelled, sizes[i % SIZES], 0);
    REQUIRE(weft_group_cancel(pool, &cancelled) == WEFT_OK);
    error = weft_group_wait(pool, &cancelled);
    REQUIRE(error == WEFT_OK || error == WEFT_ECANCELED);
}

static void timed_groups(weft_pool *pool) {
    weft_group due = WEFT_GROUP_INIT, late = {0, WEFT_GROUP_DROP_LATE, 0}, waited = WEFT_GROUP_INIT;
    bool is_due = SHORT(weft_group_deadline(pool, &due, clock_ns() + 7200 * UINT64_C(1000000000))) == WEFT_OK;
    SHORT(weft_group_deadline(pool, &late, 1));
    for (unsigned i = 0; i < 6; i++) {
        item_submit(pool, &due, sizes[i], 0);
        item_submit(pool, &late, sizes[i], CODE(WEFT_ECANCELED));
    }
    REQUIRE(weft_group_wait(pool, &due) == WEFT_OK || !is_due);
    int error = weft_group_wait(pool, &late);
    REQUIRE(error == WEFT_OK || error == WEFT_ELATE);
    for (unsigned i = 0; i < 3 * SIZES; i++) item_submit(pool, &waited, sizes[i % SIZES], 0);
    error = weft_group_help(pool, &waited);
    SHORT(error > 0 ? WEFT_OK : error);
    error = weft_group_wait_until(pool, &waited, WEFT_HELP_NONE, clock_ns() + 100000);
    REQUIRE(error == WEFT_OK || error == WEFT_ETIMEDOUT);
    REQUIRE(weft_group_wait_until(pool, &waited, WEFT_HELP_ANY, 0) == WEFT_OK);
    SHORT(weft_pool_expect(pool, 2, clock_ns() + 500000)); /* sleepers set their clocks, and get up */
    nap();
    item_submit(pool, NULL, sizes[0], 0);
    REQUIRE(weft_group_wait(pool, NULL) == WEFT_OK);
}

static int gated_task(void *payload, weft_worker *self) {
    atomic_bool *is_open = *(atomic_bool **)payload;
    (void)self;
    while (!atomic_load(is_open)) nap();
    return 0;
}

static int object_run(void *payload, weft_worker *self) {
    if (self != NULL) return item_task(payload, self);
    item_clean(payload, sizeof(struct item), NULL);
    return 0;
}

static void object_move(void *payload, void *object) { memcpy(payload, object, sizeof(struct item)); }

/* More groups than the pool has made at first, each with a task that waits for `first`. */
enum { GROUPS = 70 };
static void many_continuation(weft_pool *pool, weft_group *first, weft_group groups[GROUPS]) {
    for (unsigned i = 0; i < GROUPS; i++) {
        unsigned char bytes[300] = {0};
        struct item item = item_new();
        memcpy(bytes, &item, sizeof item);
        groups[i] = (weft_group)WEFT_GROUP_INIT;
        item_entrust(item, SHORT(weft_submit_after(pool, (weft_after){first, &groups[i]}, item_task, bytes, sizeof bytes)));
    }
}

static void no_news(void *payload, int result, int has_ended) {
    (void)payload;
    (void)has_ended;
    REQUIRE(result == WEFT_OK);
}
/* Tasks that wait for a group whose first task stays until all have been submitted. */
static void continuation_tasks(weft_pool *pool) {
    static const weft_object moved = {sizeof(struct item), object_run, object_move},
                             copied = {sizeof(struct item), object_run, NULL};
    weft_group first = WEFT_GROUP_INIT, then = WEFT_GROUP_INIT, many[GROUPS];
    atomic_bool is_open = false, *pointer = &is_open;
    SHORT(weft_submit(pool, &first, gated_task, &pointer, sizeof pointer));
    for (unsigned i = 0; i < 12; i++) {
        unsigned char bytes[1000] = {0};
        struct item item = item_new();
        memcpy(bytes, &item, sizeof item);
        size_t size = i % 3 == 0 ? sizeof bytes : sizeof item;
        item_entrust(item, SHORT(weft_submit_after(pool, (weft_after){&first, &then}, item_task, bytes, size)));
        item = item_new();
        item_entrust(item, SHORT(weft_submit_after_object(pool, (weft_after){&first, &then}, &copied, &item)));
        item = item_new();
        item_entrust(item, SHORT(weft_submit_await(pool, (weft_after){&first, &then}, &copied, &item, no_news)));
        item = item_new();
        item_entrust(item, SHORT(weft_submit_object(pool, &then, &moved, &item)));
    }
    struct item item = item_new();
    item_entrust(item, SHORT(weft_run(pool, &then, item_task, &item)));
    many_continuation(pool, &first, many);
    atomic_store(&is_open, true);
    REQUIRE(weft_group_wait(pool, &first) == WEFT_OK);
    for (unsigned i = 0; i < GROUPS; i++) REQUIRE(weft_group_wait(pool, &many[i]) == WEFT_OK);
    REQUIRE(weft_group_wait(pool, &then) == WEFT_OK);
}

/* ---- other threads ------------------------------------------------------------------------------------------------ */

struct outsider {
    weft_pool *pool;
    weft_group *watched; /* another thread's */
};

static int pay_index(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)self;
    atomic_fetch_add((atomic_size_t *)context, end - begin);
    return 0;
}

static void *outsider_thread(void *argument) {
    const struct outsider *o = argument;
    weft_group group = WEFT_GROUP_INIT;
    atomic_size_t paid = 0;
    SHORT(weft_group_wait(o->pool, o->watched));
    for (unsigned i = 0; i < 2 * SIZES; i++) item_submit(o->pool, &group, sizes[i % SIZES], 0);
    if (SHORT(weft_for_site(o->pool, (weft_range){0, 500, 0}, pay_index, &paid, o)) == WEFT_OK)
        REQUIRE(atomic_load(&paid) == 500);
    else
        REQUIRE(atomic_load(&paid) == 0);
    REQUIRE(weft_group_wait(o->pool, &group) == WEFT_OK);
    return NULL;
}

static void with_outsiders(weft_pool *pool) {
    weft_group group = WEFT_GROUP_INIT;
    struct outsider o = {pool, &group};
    pthread_t threads[2];
    for (unsigned i = 0; i < SIZES; i++) item_submit(pool, &group, sizes[i], 0);
    for (int i = 0; i < 2; i++) threads[i] = thread_begin(outsider_thread, &o);
    REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
    for (int i = 0; i < 2; i++) thread_end(threads[i]);
}

void scene_groups(weft_pool *pool) {
    plain_groups(pool, 0);
    plain_groups(pool, WEFT_GROUP_URGENT);
    plain_groups(pool, WEFT_GROUP_BACKGROUND);
    ended_groups(pool);
    timed_groups(pool);
    continuation_tasks(pool);
    with_outsiders(pool);
}

/* ---- loops -------------------------------------------------------------------------------------------------------- */

enum { SUMMED = 3000, SORTED = 1500 };
#define SIDE ((size_t)40)

static int pay_tile(const weft_tile *tile, void *context, weft_worker *self) {
    (void)self;
    atomic_fetch_add((atomic_size_t *)context, (tile->row_end - tile->row_begin) * (tile->column_end - tile->column_begin));
    return 0;
}

typedef struct sums {
    uint64_t sum, more[7];
} sums;

static int sum_leaf(size_t begin, size_t end, void *value, void *context, weft_worker *self) {
    sums *s = value;
    (void)context, (void)self;
    *s = (sums){0, {0}};
    for (size_t i = begin; i < end; i++) s->sum += i;
    return 0;
}

static void sum_combine(void *left, const void *right, void *context) {
    (void)context;
    ((sums *)left)->sum += ((const sums *)right)->sum;
}

static int compare_halves(const void *left, const void *right, void *context) {
    uint32_t a = *(const uint32_t *)left >> 16, b = *(const uint32_t *)right >> 16;
    (void)context;
    return a < b ? -1 : a > b;
}

/* Upper halves are what is sorted by, lower ones the places at first. */
static void sort_some(weft_pool *pool) {
    static uint32_t items[SORTED], before[SORTED];
    const weft_order order = {sizeof items[0], compare_halves, NULL};
    for (uint32_t i = 0; i < SORTED; i++) items[i] = i | i * 40503u % 61u << 16;
    memcpy(before, items, sizeof items);
    if (SHORT(weft_sort(pool, items, SORTED, &order)) != WEFT_OK)
        REQUIRE(memcmp(before, items, sizeof items) == 0);
    else
        for (uint32_t i = 1; i < SORTED; i++) REQUIRE(items[i - 1] < items[i]);
}

static void fork_some(weft_pool *pool);

void scene_loops(weft_pool *pool) {
    atomic_size_t paid = 0;
    if (SHORT(weft_for(pool, (weft_range){0, SUMMED, 7}, pay_index, &paid)) == WEFT_OK)
        REQUIRE(atomic_load(&paid) == SUMMED);
    else
        REQUIRE(atomic_load(&paid) == 0);
    atomic_store(&paid, 0);
    if (SHORT(weft_for_tiles(pool, (weft_tiles){{0, SIDE, 4}, {0, SIDE, 8}}, pay_tile, &paid)) == WEFT_OK)
        REQUIRE(atomic_load(&paid) == SIDE * SIDE);
    sums result = {1, {0}};
    const weft_reduction how = {sizeof(sums), sum_leaf, sum_combine, NULL, NULL};
    if (SHORT(weft_reduce(pool, (weft_range){0, SUMMED, 0}, &how, &result)) == WEFT_OK)
        REQUIRE(result.sum == (uint64_t)SUMMED * (SUMMED - 1) / 2);
    else
        REQUIRE(result.sum == 1);
    sort_some(pool);
    fork_some(pool);
}

/* ---- forked calls ------------------------------------------------------------------------------------------------- */

/* More of them open than one span of places holds: without memory for the next they are run by their joins. */
enum { ROW = 600 };
static unsigned leaf(weft_fork_slot *here, unsigned number) {
    REQUIRE(weft_fork_worker(here) != NULL);
    return number;
}
WEFT_FORK(leaf, unsigned, unsigned)

static void fork_some(weft_pool *pool) {
    static weft_fork_slot *places[ROW];
    static unsigned numbers[ROW];
    weft_fork_slot *first;
    REQUIRE(weft_fork_enter_layout(pool, &first, WEFT_FORK_LAYOUT + 1) == WEFT_EINVAL && first == NULL);
    if (SHORT(weft_fork_enter(pool, &first)) != WEFT_OK) {
        REQUIRE(first == NULL);
        return;
    }
    unsigned sum = 0;
    weft_fork_slot *here = first;
    for (unsigned i = 0; i < ROW; i++) {
        numbers[i] = i;
        places[i] = here;
        here = leaf_fork(here, &numbers[i]);
    }
    for (unsigned i = ROW; i-- > 0;) sum += leaf_join(places[i], &numbers[i]);
    REQUIRE(sum == ROW * (ROW - 1) / 2);
    weft_fork_leave(first);
    weft_fork_leave(NULL);
}

/* ---- the whole ---------------------------------------------------------------------------------------------------- */

static atomic_int started, stopped, data_freed;
static weft_pool *_Atomic living[4];

static void hook_start(weft_worker *self, void *context) {
    (void)self, (void)context;
    atomic_fetch_add(&started, 1);
}

static void hook_stop(weft_worker *self, void *context) {
    (void)self, (void)context;
    atomic_fetch_add(&stopped, 1);
}

static void hook_data(void *data) {
    REQUIRE(data == (void *)(uintptr_t)1);
    atomic_fetch_add(&data_freed, 1);
}

static void hook_stuck(const weft_stuck *stuck, void *context) {
    (void)context;
    REQUIRE(stuck->pool != NULL && stuck->name != NULL);
    atomic_fetch_add(&outcome->stuck, 1);
}

weft_config scene_config(uint32_t workers) {
    weft_config config;
    REQUIRE(weft_config_init(&config) == WEFT_OK);
    config.workers = workers;
    config.stack_size = scene_now.stack_size != 0 ? scene_now.stack_size : 65536;
    config.clean = item_clean;
    config.start = hook_start;
    config.stop = hook_stop;
    config.data_free = hook_data;
    config.name = "faulty";
    config.spin_ns = 5000;
    return config;
}

weft_pool *scene_pool(const weft_config *config) {
    weft_pool *pool = NULL;
    int error =
        OUGHT(weft_pool_create(&pool, config), config->stats != NULL && !scene_now.is_strict ? CODE(WEFT_EINVAL) : 0);
    REQUIRE((error == WEFT_OK) == (pool != NULL));
    for (int i = 0; pool != NULL && i < 4; i++) {
        weft_pool *none = NULL;
        if (atomic_compare_exchange_strong(&living[i], &none, pool)) break;
    }
    return pool;
}

static void forget(weft_pool *pool) {
    for (int i = 0; i < 4; i++)
        if (atomic_load(&living[i]) == pool) atomic_store(&living[i], NULL);
}

void scene_end(weft_pool *pool) {
    weft_pool *ended = pool;
    if (pool == NULL) return;
    weft_real_time real = {.struct_size = sizeof real};
    REQUIRE(weft_pool_real_time(pool, &real) == WEFT_OK);
    if (real.slice_errno != 0) atomic_fetch_or(&outcome->policy_errnos, 1u << real.slice_errno % 32);
    REQUIRE(weft_pool_destroy(&pool) == WEFT_OK);
    forget(ended);
    REQUIRE(pool == NULL);
}

void scene_dump(void) {
    for (int i = 0; i < 4; i++) {
        const weft_pool *pool = atomic_load(&living[i]);
        if (pool != NULL) (weft_pool_dump)(pool, STDERR_FILENO);
    }
}

void scene_forget(void) {
    for (int i = 0; i < 4; i++) atomic_store(&living[i], NULL);
    for (unsigned i = 0; i < ITEMS; i++) {
        atomic_store(&ledger.ran[i], 0);
        atomic_store(&ledger.accepted[i], 0);
    }
    atomic_store(&ledger.next, 0);
}

static void scene_watched_pool(void) {
    weft_config config = scene_config(2);
    char trace[96];
    config.spares = 2;
    config.trace = config.stats = "/dev/null";
    if (scene_now.files != NULL) {
        snprintf(trace, sizeof trace, "%s/trace", scene_now.files);
        config.trace = trace;
        config.top = scene_now.files;
    }
    config.trace_events = 64;
    config.watchdog_ns = UINT64_C(1800) * 1000000000;
    config.watchdog = hook_stuck;
    weft_pool *pool = scene_pool(&config);
    if (pool == NULL) return;
    REQUIRE(weft_pool_workers(pool) >= 1 && weft_pool_workers(pool) <= 2);
    unsigned workers = weft_pool_workers(pool);
    REQUIRE(weft_pool_resize(pool, 1) == WEFT_OK && weft_pool_workers(pool) == 1);
    REQUIRE(weft_pool_resize(pool, workers) == WEFT_OK && weft_pool_workers(pool) == workers);
    REQUIRE(!scene_now.is_strict || weft_pool_workers(pool) == 2);
    scene_groups(pool);
    scene_loops(pool);
    scene_graphs(pool);
    scene_observe(pool);
    scene_end(pool);
}

void scene_run(const struct scene *scene) {
    scene_now = *scene;
    atomic_store(&started, 0);
    atomic_store(&stopped, 0);
    scene_heap();
    scene_watched_pool();
    scene_other_pools();
    scene_heap();
    REQUIRE(atomic_load(&started) == atomic_load(&stopped));
    ledger_check();
}
