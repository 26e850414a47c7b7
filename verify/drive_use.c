/* drive_use.c: what is made of tasks and loops: objects, reductions, sorting, tiles; and moments told by hand. In whole
 * pools: each object's end comes once, each value is there when the caller reads it, nobody sleeps for ever. */
#include "explore.h"
#include "weft.h"

#include <string.h>

enum { OBJECTS_MAX = 6, ITEMS = 14, ROWS = 2, COLUMNS = 3 };

struct item {
    uint32_t key, at;
};

static struct {
    weft_pool *pool;
    weft_group group, first;
    uint32_t made, ran, ended; /* objects; the test's own */
    uint32_t *result[2];       /* plain, from os_alloc */
    struct item *items;
    uint32_t *tile[ROWS * COLUMNS];
    uint32_t fails_at;
    ATOMIC(uint32_t) has_begun;
} world;

static void create(uint32_t workers, uint32_t flags) {
    static const int64_t spins_ns[] = {WEFT_SPIN_NONE, 3000};
    weft_config config;
    memset(&world, 0, sizeof world);
    EXPECT(weft_config_init(&config) == WEFT_OK);
    config.workers = workers;
    config.spares = 1;
    config.flags = flags;
    config.spin_ns = spins_ns[explore_pick(2)];
    config.expect_percent = 100;
    world.fails_at = UINT32_MAX;
    EXPECT(weft_pool_create(&world.pool, &config) == WEFT_OK);
}
static void setup_one(void) { create(1, 0); }
static void setup_two(void) { create(2, 0); }
static void setup_no_help(void) { create(1, WEFT_POOL_NO_HELP); }
static void destroy(void) { EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK); }

/* ---- objects: each holds memory that it releases when it has run, or will not --------------------------------------- */

struct object {
    uint32_t *continuation;
};

static int object_run(void *payload, weft_worker *self) {
    struct object *object = payload;
    plain_read(object->continuation, sizeof *object->continuation);
    EXPECT(*object->continuation == 7);
    os_free(object->continuation);
    if (self == NULL)
        world.ended++;
    else
        world.ran++;
    explore_observe(self == NULL);
    return 0;
}
static void object_move(void *payload, void *from) {
    struct object *object = from;
    *(struct object *)payload = *object;
    object->continuation = NULL;
}
static const weft_object moved = {sizeof(struct object), object_run, object_move};
static const weft_object copied = {sizeof(struct object), object_run, NULL};

static struct object make_object(void) {
    struct object object = {os_alloc(sizeof *object.continuation)};
    plain_write(object.continuation, sizeof *object.continuation);
    *object.continuation = 7;
    return object;
}
/* It was taken, or is the caller's still. */
static void note(const struct object *object, int error, int allowed) {
    EXPECT(error == WEFT_OK || error == allowed);
    if (error == WEFT_OK)
        world.made++;
    else
        os_free(object->continuation);
}
static void submit_object(void) {
    struct object object = make_object();
    int error = weft_submit_object(world.pool, &world.group, &moved, &object);
    EXPECT((object.continuation == NULL) == (error == WEFT_OK));
    note(&object, error, WEFT_ECANCELED);
}
static void submit_object_after(int allowed) {
    struct object object = make_object();
    const weft_after after = {&world.first, &world.group};
    note(&object, weft_submit_after_object(world.pool, after, &copied, &object), allowed);
}
static void cancel(void) { EXPECT(weft_group_cancel(world.pool, &world.group) == WEFT_OK); }
static void wait_cancelled(void) {
    int error = weft_group_wait(world.pool, &world.group);
    EXPECT(error == WEFT_OK || error == WEFT_ECANCELED);
}
static void submit_objects(void) {
    submit_object();
    submit_object();
    wait_cancelled();
}
static void check_objects(void) {
    wait_cancelled();
    destroy();
    EXPECT(world.ran + world.ended == world.made);
}
EXPLORE_DRIVER(use_object, .about = "objects submitted, cancelled and waited for at once", .setup = setup_one,
               .threads = {submit_objects, cancel, wait_cancelled}, .check = check_objects, .flags = EXPLORE_NO_RESCUE,
               .must_see = 3);

static void submit_objects_only(void) {
    submit_object();
    submit_object();
}
static void check_aborted(void) {
    EXPECT(weft_pool_abort(&world.pool, NULL, NULL) == WEFT_OK);
    EXPECT(world.ran + world.ended == world.made);
}
EXPLORE_DRIVER(use_object_abort, .about = "the pool is aborted under objects", .setup = setup_no_help,
               .threads = {submit_objects_only, submit_object}, .check = check_aborted, .flags = EXPLORE_NO_RESCUE,
               .must_see = 3);

static int task(void *payload, weft_worker *self) {
    EXPECT(payload == NULL && self != NULL);
    return 0;
}
static void setup_first(void) {
    setup_no_help();
    EXPECT(weft_submit(world.pool, &world.first, task, NULL, 0) == WEFT_OK);
}
static void hold_objects(void) {
    submit_object_after(WEFT_ECANCELED);
    submit_object_after(WEFT_ECANCELED);
    wait_cancelled();
}
static void wait_first(void) { EXPECT(weft_group_wait(world.pool, &world.first) == WEFT_OK); }
static void check_continuation(void) {
    wait_first();
    check_objects();
}
EXPLORE_DRIVER(use_object_after, .about = "continuation objects, cancelled meanwhile; another waits for what they await",
               .setup = setup_first, .threads = {hold_objects, cancel, wait_first}, .check = check_continuation,
               .flags = EXPLORE_NO_RESCUE, .must_see = 3);

/* A task of `first` waits for the group: one of the two is refused, and that object stays the caller's. */
static int waiting_task(void *payload, weft_worker *self) {
    EXPECT(payload == NULL);
    int error = weft_group_wait(weft_worker_pool(self), &world.group);
    EXPECT(error == WEFT_OK || error == WEFT_EDEADLK);
    return 0;
}
static void hold_in_circle(void) {
    EXPECT(weft_submit(world.pool, &world.group, task, NULL, 0) == WEFT_OK);
    EXPECT(weft_submit(world.pool, &world.first, waiting_task, NULL, 0) == WEFT_OK);
    submit_object_after(WEFT_EDEADLK);
    wait_first();
    wait_cancelled();
}
static void check_circle(void) {
    destroy();
    EXPECT(world.ran == world.made && world.ended == 0);
}
EXPLORE_DRIVER(use_object_circle, .about = "an object that is refused for a circle", .setup = setup_two,
               .threads = {hold_in_circle}, .check = check_circle, .flags = EXPLORE_NO_RESCUE);

/* ---- reductions ----------------------------------------------------------------------------------------------------- */

/* Tells in which order what was combined. */
struct value {
    uint32_t begin, end, shape, zero;
};
static int leaf(size_t begin, size_t end, void *value, void *context, weft_worker *self) {
    EXPECT(self != NULL && context == &world);
    if (begin >= world.fails_at) return (int)begin;
    *(struct value *)value = (struct value){(uint32_t)begin, (uint32_t)end, (uint32_t)begin * 5 + 1, 0};
    return 0;
}
static void combine(void *left, const void *right, void *context) {
    struct value *to = left;
    const struct value *from = right;
    EXPECT(context == &world && to->end == from->begin);
    *to = (struct value){to->begin, from->end, to->shape * 31 + from->shape * 7, 0};
}
/* Of leaves 0 .. 4: ((0 1)(2 3)) 4. */
static uint32_t shape_of_five(void) {
    uint32_t low = 1 * 31 + 6 * 7, high = 11 * 31 + 16 * 7;
    return (low * 31 + high * 7) * 31 + 21 * 7;
}
static int reduce_five(struct value *result) {
    const weft_reduction how = {sizeof *result, leaf, combine, NULL, &world};
    return weft_reduce(world.pool, (weft_range){0, 5, 1}, &how, result);
}
static void reduce(void) {
    struct value result = {9, 9, 9, 9};
    EXPECT(reduce_five(&result) == WEFT_OK);
    EXPECT(result.begin == 0 && result.end == 5 && result.shape == shape_of_five());
}
static void reduce_failing(void) {
    struct value result = {9, 9, 9, 9};
    EXPECT(reduce_five(&result) == (int)world.fails_at);
    EXPECT(result.begin == 9 && result.shape == 9);
}
static void setup_failing(void) {
    setup_two();
    world.fails_at = 1 + explore_pick(4);
}
EXPLORE_DRIVER(use_reduce, .about = "two reductions at once: one tree", .setup = setup_two, .threads = {reduce, reduce},
               .check = destroy, .flags = EXPLORE_NO_RESCUE);
EXPLORE_DRIVER(use_reduce_fails, .about = "leaves fail: the error of the lowest", .setup = setup_failing,
               .threads = {reduce_failing}, .check = destroy, .flags = EXPLORE_NO_RESCUE);

/* ---- sorting -------------------------------------------------------------------------------------------------------- */

static int by_key(const void *left, const void *right, void *context) {
    uint32_t a = ((const struct item *)left)->key, b = ((const struct item *)right)->key;
    EXPECT(context == &world);
    store_rlx(&world.has_begun, 1);
    return (a > b) - (a < b);
}
static void make_items(void) {
    world.items = os_alloc(ITEMS * sizeof *world.items);
    for (uint32_t i = 0; i < ITEMS; i++) world.items[i] = (struct item){(i * 5 + 3) % 4, i};
}
static void setup_sort(void) {
    setup_two();
    make_items();
}
static int sort(void) {
    const weft_order order = {sizeof *world.items, by_key, &world};
    return weft_sort(world.pool, world.items, ITEMS, &order);
}
/* Every item is there once. */
static void check_items(bool is_sorted) {
    uint32_t seen = 0;
    for (uint32_t i = 0; i < ITEMS; i++) {
        const struct item *item = &world.items[i];
        EXPECT(item->at < ITEMS && item->key == (item->at * 5 + 3) % 4 && (seen & 1u << item->at) == 0);
        seen |= 1u << item->at;
        if (i == 0 || !is_sorted) continue;
        EXPECT(item[-1].key < item->key || (item[-1].key == item->key && item[-1].at < item->at));
    }
    os_free(world.items);
}
static void sort_all(void) {
    EXPECT(sort() == WEFT_OK);
    check_items(true);
}
EXPLORE_DRIVER(use_sort, .about = "sorted by three, the array released after", .setup = setup_sort, .threads = {sort_all},
               .check = destroy, .flags = EXPLORE_NO_RESCUE);

static int sort_task(void *payload, weft_worker *self) {
    EXPECT(payload == NULL && self != NULL);
    int error = sort();
    EXPECT(error == WEFT_OK || error == WEFT_ECANCELED);
    check_items(error == WEFT_OK);
    world.items = NULL;
    explore_observe(error == WEFT_OK ? 0 : 1);
    return 0;
}
static void sort_inside(void) {
    EXPECT(weft_submit(world.pool, &world.group, sort_task, NULL, 0) == WEFT_OK);
    wait_cancelled();
}
static void cancel_when_begun(void) {
    while (load_rlx(&world.has_begun) == 0) os_pause();
    cancel();
}
EXPLORE_DRIVER(use_sort_cancel, .about = "cancelled meanwhile: no item is lost", .setup = setup_sort,
               .threads = {sort_inside, cancel_when_begun}, .check = destroy, .must_see = 3);

/* ---- tiles ---------------------------------------------------------------------------------------------------------- */

static int tile_body(const weft_tile *tile, void *context, weft_worker *self) {
    EXPECT(context == &world && self != NULL && tile->row_end == tile->row_begin + 1);
    for (size_t column = tile->column_begin; column < tile->column_end; column++) {
        uint32_t *cell = world.tile[tile->row_begin * COLUMNS + column];
        plain_write(cell, sizeof *cell);
        ++*cell;
    }
    return 0;
}
static void tiles(void) {
    for (uint32_t i = 0; i < ROWS * COLUMNS; i++) world.tile[i] = os_alloc(sizeof(uint32_t));
    const weft_tiles all = {{0, ROWS, 1}, {0, COLUMNS, 1}};
    EXPECT(weft_for_tiles(world.pool, all, tile_body, &world) == WEFT_OK);
    for (uint32_t i = 0; i < ROWS * COLUMNS; i++) {
        plain_read(world.tile[i], sizeof(uint32_t));
        EXPECT(*world.tile[i] == 1);
        os_free(world.tile[i]);
    }
}
EXPLORE_DRIVER(use_tiles, .about = "each tile once, its memory released after", .setup = setup_two, .threads = {tiles},
               .check = destroy, .flags = EXPLORE_NO_RESCUE);

/* ---- moments told by hand ------------------------------------------------------------------------------------------- */

static void expect_soon(void) {
    EXPECT(weft_pool_expect(world.pool, 1 + explore_pick(2), os_now_ns() + 400000) == WEFT_OK);
    EXPECT(weft_pool_expect(world.pool, 1, 0) == WEFT_OK);
}
static void expect_far(void) { EXPECT(weft_pool_expect(world.pool, 2, os_now_ns() + UINT64_C(1000000000)) == WEFT_OK); }
static void submit_and_wait(void) {
    for (int i = 0; i < 2; i++) {
        EXPECT(weft_submit(world.pool, &world.group, task, NULL, 0) == WEFT_OK);
        EXPECT(weft_group_wait_until(world.pool, &world.group, WEFT_HELP_NONE, 0) == WEFT_OK);
    }
}
EXPLORE_DRIVER(use_expect, .about = "two tell moments, a third has work", .setup = setup_two,
               .threads = {expect_soon, expect_far, submit_and_wait}, .check = destroy, .flags = EXPLORE_NO_RESCUE);

/* ---- a wait that gives up, in a pool whose threads spin for a second ------------------------------------------------- */

static int await_begun(void *payload, weft_worker *self) {
    (void)payload;
    (void)self;
    while (load_acq(drive_use_task, &world.has_begun) == 0) os_pause();
    return 0;
}
static void setup_spinning(void) {
    weft_config config;
    memset(&world, 0, sizeof world);
    EXPECT(weft_config_init(&config) == WEFT_OK);
    config.workers = 1;
    config.spin_ns = 1000000000;
    EXPECT(weft_pool_create(&world.pool, &config) == WEFT_OK);
}
static void wait_in_time(void) {
    EXPECT(weft_submit(world.pool, &world.group, await_begun, NULL, 0) == WEFT_OK);
    EXPECT(weft_group_wait_until(world.pool, &world.group, WEFT_HELP_NONE, os_now_ns() + 3000) == WEFT_ETIMEDOUT);
    explore_observe(os_now_ns() < 500000000);
    store_rel(drive_use_caller, &world.has_begun, 1);
    EXPECT(weft_group_wait(world.pool, &world.group) == WEFT_OK);
}
EXPLORE_DRIVER(use_wait_spins, .about = "a wait ends when its time has passed, however long the pool's threads may spin",
               .setup = setup_spinning, .threads = {wait_in_time}, .check = destroy, .flags = EXPLORE_NO_RESCUE);
