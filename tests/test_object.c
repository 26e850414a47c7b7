/* Payloads that are more than bytes, and tasks run at once. */
#define _GNU_SOURCE
#include "pool_help.h"

static atomic_int moves, runs, drops, cleans;

struct thing {
    struct thing *self; /* where it is */
    int *sum;
    int number;
};

static void thing_move(void *payload, void *object) {
    struct thing *to = payload;
    const struct thing *from = object;
    REQUIRE(from->self == object);
    REQUIRE((uintptr_t)payload % 16 == 0);
    *to = (struct thing){to, from->sum, from->number};
    atomic_fetch_add(&moves, 1);
}

static int thing_run(void *payload, weft_worker *self) {
    const struct thing *thing = payload;
    REQUIRE(thing->self == payload);
    atomic_fetch_add(self == NULL ? &drops : &runs, 1);
    return self == NULL ? 0 : thing->number;
}

static const weft_object thing_type = {sizeof(struct thing), thing_run, thing_move};

static void clean(void *payload, size_t size, void *context) {
    (void)payload;
    (void)size;
    (void)context;
    atomic_fetch_add(&cleans, 1);
}

static int submit_thing(weft_pool *pool, weft_group *group, int number) {
    struct thing thing = {&thing, NULL, number};
    return weft_submit_object(pool, group, &thing_type, &thing);
}

static void reset(void) { moves = runs = drops = cleans = 0; }

static void objects_are_moved_and_run(void **state) {
    (void)state;
    reset();
    weft_pool *pool = make_pool(2);
    weft_group group = WEFT_GROUP_INIT;
    for (int i = 0; i < 1000; i++) assert_int_equal(submit_thing(pool, i % 2 ? &group : NULL, i == 501 ? 7 : 0), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), 7);
    assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
    end_pool(pool);
    assert_int_equal(moves, 1000);
    assert_int_equal(runs, 1000);
    assert_int_equal(drops, 0);
}

static void cancelled_objects_are_ended(void **state) {
    (void)state;
    reset();
    weft_config config = config_of(1);
    config.clean = clean;
    weft_pool *pool = make_pool_with(&config);
    weft_group busy = WEFT_GROUP_INIT;
    weft_group group = WEFT_GROUP_INIT;
    gate g;
    int number = 5;
    gate_occupy(&g, pool, &busy);
    for (int i = 0; i < 100; i++) assert_int_equal(submit_thing(pool, &group, 0), WEFT_OK);
    assert_int_equal(weft_submit(pool, &group, empty_task, &number, sizeof number), WEFT_OK);
    assert_int_equal(weft_group_cancel(pool, &group), WEFT_OK);
    assert_int_equal(submit_thing(pool, &group, 0), WEFT_ECANCELED);
    assert_int_equal(moves, 100);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_ECANCELED);
    assert_int_equal(runs, 0);
    assert_int_equal(drops, 100);
    assert_int_equal(cleans, 1); /* the payload of bytes */
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &busy), WEFT_OK);
    end_pool(pool);
}

static int after_run(void *payload, weft_worker *self) {
    atomic_fetch_add(self == NULL ? &drops : &runs, *(int *)payload);
    return 0;
}
static void objects_after_a_group(void **state) {
    (void)state;
    reset();
    const weft_object type = {sizeof(int), after_run, NULL};
    weft_pool *pool = make_pool(1);
    weft_group busy = WEFT_GROUP_INIT, kept = WEFT_GROUP_INIT, cancelled = WEFT_GROUP_INIT, idle = WEFT_GROUP_INIT;
    int one = 1, ten = 10, hundred = 100;
    gate g;
    gate_occupy(&g, pool, &busy);
    assert_int_equal(weft_submit_after_object(pool, (weft_after){&busy, &kept}, &type, &one), WEFT_OK);
    assert_int_equal(weft_submit_after_object(pool, (weft_after){&busy, &cancelled}, &type, &ten), WEFT_OK);
    assert_int_equal(weft_submit_after_object(pool, (weft_after){&busy, &busy}, &type, &ten), WEFT_EDEADLK);
    assert_int_equal(weft_submit_after_object(pool, (weft_after){&idle, &kept}, &type, &hundred), WEFT_OK);
    assert_int_equal(weft_group_cancel(pool, &cancelled), WEFT_OK);
    assert_int_equal(weft_submit_after_object(pool, (weft_after){&busy, &cancelled}, &type, &ten), WEFT_ECANCELED);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &kept), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &cancelled), WEFT_ECANCELED);
    assert_int_equal(weft_group_wait(pool, &busy), WEFT_OK);
    end_pool(pool);
    assert_int_equal(runs, 101);
    assert_int_equal(drops, 10);
}

static void wrong_objects_are_refused(void **state) {
    (void)state;
    reset();
    weft_pool *pool = make_pool(1);
    struct thing thing = {&thing, NULL, 0};
    const weft_object large = {WEFT_INLINE_MAX + 1, thing_run, thing_move};
    const weft_object idle = {sizeof thing, NULL, thing_move};
    const weft_object stuck = {sizeof thing, thing_run, NULL};
    assert_int_equal(weft_submit_object(NULL, NULL, &thing_type, &thing), WEFT_EINVAL);
    assert_int_equal(weft_submit_object(pool, NULL, NULL, &thing), WEFT_EINVAL);
    assert_int_equal(weft_submit_object(pool, NULL, &thing_type, NULL), WEFT_EINVAL);
    assert_int_equal(weft_submit_object(pool, NULL, &large, &thing), WEFT_EINVAL);
    assert_int_equal(weft_submit_object(pool, NULL, &idle, &thing), WEFT_EINVAL);
    weft_group group = WEFT_GROUP_INIT;
    const weft_after after = {&group, NULL};
    const weft_object too_large = {113, thing_run, NULL}, nothing = {8, NULL, NULL};
    assert_int_equal(weft_submit_after_object(NULL, after, &stuck, &thing), WEFT_EINVAL);
    assert_int_equal(weft_submit_after_object(pool, after, NULL, &thing), WEFT_EINVAL);
    assert_int_equal(weft_submit_after_object(pool, after, &stuck, NULL), WEFT_EINVAL);
    assert_int_equal(weft_submit_after_object(pool, after, &thing_type, &thing), WEFT_EINVAL);
    assert_int_equal(weft_submit_after_object(pool, after, &too_large, &thing), WEFT_EINVAL);
    assert_int_equal(weft_submit_after_object(pool, after, &nothing, &thing), WEFT_EINVAL);
    end_pool(pool);
    assert_int_equal(moves, 0);
}

static void objects_run_when_the_queue_is_full(void **state) {
    (void)state;
    reset();
    weft_config config = config_of(1);
    config.queue_max = 1;
    config.full = WEFT_FULL_RUN;
    weft_pool *pool = make_pool_with(&config);
    weft_group group = WEFT_GROUP_INIT;
    gate g;
    gate_occupy(&g, pool, &group);
    assert_int_equal(submit_thing(pool, &group, 0), WEFT_OK);
    assert_int_equal(submit_thing(pool, &group, 3), WEFT_OK);
    assert_int_equal(runs, 1);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &group), 3);
    end_pool(pool);
    assert_int_equal(moves, 2);
    assert_int_equal(runs, 2);
}

/* ---- weft_run ----------------------------------------------------------------------------------------------------- */

struct here {
    pthread_t thread;
    weft_pool *pool;
    void *payload;
    int error;
};

static int run_here(void *payload, weft_worker *self) {
    struct here *here = payload;
    here->thread = pthread_self();
    here->pool = weft_worker_pool(self);
    here->payload = payload;
    return here->error;
}

static int fail_with(void *payload, weft_worker *self) {
    (void)self;
    return *(int *)payload;
}

static void run_is_at_once_and_here(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    weft_group group = WEFT_GROUP_INIT;
    struct here here = {.error = 4};
    int later = 5;
    assert_int_equal(weft_run(NULL, &group, run_here, &here), WEFT_EINVAL);
    assert_int_equal(weft_run(pool, &group, NULL, &here), WEFT_EINVAL);
    assert_int_equal(weft_run(pool, &group, run_here, &here), WEFT_OK);
    assert_true(pthread_equal(here.thread, pthread_self()));
    assert_ptr_equal(here.pool, pool);
    assert_ptr_equal(here.payload, &here);
    assert_int_equal(weft_submit(pool, &group, fail_with, &later, sizeof later), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), 4); /* of two errors that of the first */
    assert_int_equal(weft_run(pool, NULL, run_here, &here), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, NULL), 4);
    here.pool = NULL;
    assert_int_equal(weft_group_cancel(pool, &group), WEFT_OK);
    assert_int_equal(weft_run(pool, &group, run_here, &here), WEFT_OK); /* a group without tasks cannot be cancelled */
    assert_int_equal(weft_group_cancel(pool, &group), WEFT_OK);
    here.pool = NULL;
    assert_int_equal(weft_run(pool, &group, run_here, &here), WEFT_ECANCELED);
    assert_null(here.pool);
    assert_int_equal(weft_group_wait(pool, &group), 4);
    end_pool(pool);
}

struct upper {
    weft_pool *pool;
    weft_group *group;
    sem_t begun;
    atomic_uint ran;
};

/* Runs on the only worker, which stays until somebody else has run what it submits. */
static int upper_run(void *payload, weft_worker *self) {
    struct upper *upper = payload;
    weft_group below = WEFT_GROUP_INIT;
    (void)self;
    sem_post(&upper->begun);
    for (int i = 0; i < 10; i++) REQUIRE(submit_count(upper->pool, &below, &upper->ran) == WEFT_OK);
    while (upper->ran < 10) nap();
    return weft_group_wait(upper->pool, &below);
}

static int upper_task(void *payload, weft_worker *self) {
    struct upper *upper = *(struct upper **)payload;
    (void)self;
    return weft_run(upper->pool, upper->group, upper_run, upper);
}

static void a_wait_helps_below_what_is_run(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    weft_group group = WEFT_GROUP_INIT;
    weft_group outer = WEFT_GROUP_INIT;
    struct upper upper = {.pool = pool, .group = &group};
    struct upper *there = &upper;
    REQUIRE(sem_init(&upper.begun, 0, 0) == 0);
    assert_int_equal(weft_submit(pool, &outer, upper_task, &there, sizeof there), WEFT_OK);
    await(&upper.begun);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    assert_int_equal(upper.ran, 10);
    assert_int_equal(weft_group_wait(pool, &outer), WEFT_OK);
    end_pool(pool);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_are_moved_and_run),
        cmocka_unit_test(cancelled_objects_are_ended),
        cmocka_unit_test(objects_after_a_group),
        cmocka_unit_test(wrong_objects_are_refused),
        cmocka_unit_test(objects_run_when_the_queue_is_full),
        cmocka_unit_test(run_is_at_once_and_here),
        cmocka_unit_test(a_wait_helps_below_what_is_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
