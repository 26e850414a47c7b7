/* test_after_shortage.c: tasks that start when a group has finished, and there is no memory for that. */
#define _GNU_SOURCE
#include "pool_help.h"
#include "shortage.h"

/* Memory fails at the Nth call, and from the Nth on: what was accepted runs once, what was refused does not. */
static unsigned try_with_shortage(unsigned at, bool and_after) {
    weft_pool *pool = make_pool(2);
    enum { GROUPS = 8 };
    weft_group groups[GROUPS] = {WEFT_GROUP_INIT};
    atomic_uint counter = 0, *pointer = &counter;
    static unsigned char bytes[2000];
    unsigned accepted = 0;
    gate g;
    gate_occupy(&g, pool, &groups[0]);
    memcpy(bytes, &pointer, sizeof pointer);
    shortage_begin(at, and_after);
    for (int i = 0; i < 100; i++) {
        const weft_after after = {&groups[i % (GROUPS - 1)], &groups[i % (GROUPS - 1) + 1]};
        int error = weft_submit_after(pool, after, count_task, bytes, i % 3 == 0 ? sizeof bytes : sizeof pointer);
        REQUIRE(error == WEFT_OK || error == WEFT_ENOMEM);
        accepted += error == WEFT_OK;
    }
    gate_open(&g);
    for (int i = 0; i < GROUPS; i++) REQUIRE(weft_group_wait(pool, &groups[i]) == WEFT_OK);
    REQUIRE(atomic_load(&counter) == accepted);
    end_pool(pool);
    return accepted;
}
static void test_shortage(void **state) {
    (void)state;
    for (int and_after = 0; and_after < 2; and_after++) {
        for (unsigned at = 1;; at++) {
            unsigned accepted = try_with_shortage(at, and_after != 0);
            if (shortage_end()) continue;
            assert_int_equal(accepted, 100);
            assert_true(at > 30); /* the wrapper was in the way */
            break;
        }
    }
}

/* More continuations than a new pool's lanes have room for start when there is no memory: each runs all the same. */
static void test_started_without_memory(void **state) {
    enum { CONTINUATION = 10000 };
    (void)state;
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_NO_HELP; /* nobody runs a task before all have started */
    weft_pool *pool = make_pool_with(&config);
    weft_group first = WEFT_GROUP_INIT, then = WEFT_GROUP_INIT;
    atomic_uint counter = 0;
    struct {
        atomic_uint *counter;
        char rest[104]; /* four cells each */
    } payload = {&counter, {0}};
    gate g;
    gate_occupy(&g, pool, &first);
    for (int i = 0; i < CONTINUATION; i++)
        assert_int_equal(weft_submit_after(pool, (weft_after){&first, &then}, count_task, &payload, sizeof payload),
                         WEFT_OK);
    shortage_begin(1, true);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &then), WEFT_OK);
    assert_true(shortage_end()); /* the lane was to grow */
    assert_int_equal(atomic_load(&counter), CONTINUATION);
    assert_int_equal(weft_group_wait(pool, &first), WEFT_OK);
    end_pool(pool);
}

/* Such a task runs on the thread that finished the group, which may have taken its next work by then. */
struct atop {
    weft_group first, then, work;
    weft_pool *pool;
    atomic_bool has_begun, is_open;
    atomic_uint counter;
    int result;
};
static int wait_for_work(void *payload, weft_worker *self) {
    struct atop *atop = *(struct atop **)payload;
    (void)self;
    atomic_store(&atop->has_begun, true);
    atop->result = weft_group_wait(atop->pool, &atop->work);
    return 0;
}
static void hold_many(struct atop *atop) {
    enum { CONTINUATION = 10000 }; /* as above */
    struct {
        void *pointer;
        char rest[104];
    } payload = {NULL, {0}};
    atomic_uint *counter = &atop->counter;
    for (int i = 0; i < CONTINUATION; i++) {
        bool is_last = i == CONTINUATION - 1;
        payload.pointer = is_last ? (void *)atop : (void *)counter;
        assert_int_equal(weft_submit_after(atop->pool, (weft_after){&atop->first, &atop->then},
                                           is_last ? wait_for_work : count_task, &payload, sizeof payload),
                         WEFT_OK);
    }
}
static void test_started_without_memory_before_a_task(void **state) {
    (void)state;
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_NO_HELP;
    struct atop atop = {.pool = make_pool_with(&config)};
    gate g;
    gate_occupy(&g, atop.pool, &atop.first);
    hold_many(&atop);
    assert_int_equal(submit_count(atop.pool, &atop.work, &atop.counter), WEFT_OK);
    shortage_begin(1, true);
    gate_open(&g);
    assert_int_equal(weft_group_wait(atop.pool, &atop.then), WEFT_OK);
    assert_true(shortage_end());
    assert_int_equal(atop.result, WEFT_EDEADLK); /* the only worker is about to run that */
    assert_int_equal(weft_group_wait(atop.pool, &atop.work), WEFT_OK);
    assert_int_equal(atomic_load(&atop.counter), 10000);
    assert_int_equal(weft_group_wait(atop.pool, &atop.first), WEFT_OK);
    end_pool(atop.pool);
}

static int stay_until_helped(size_t begin, size_t end, void *context, weft_worker *self) {
    struct atop *atop = context;
    (void)end;
    (void)self;
    atomic_store(&atop->is_open, true);
    while (begin == 0 && !atomic_load(&atop->has_begun)) sched_yield();
    return 0;
}
static int loop_task(void *payload, weft_worker *self) {
    struct atop *atop = *(struct atop **)payload;
    (void)self;
    return weft_for(atop->pool, (weft_range){0, 100, 1}, stay_until_helped, atop);
}
static void test_started_without_memory_before_a_loop(void **state) {
    (void)state;
    weft_config config = config_of(2);
    config.flags = WEFT_POOL_NO_HELP;
    struct atop atop = {.pool = make_pool_with(&config)}, *pointer = &atop;
    gate g;
    gate_occupy(&g, atop.pool, &atop.first);
    hold_many(&atop);
    assert_int_equal(weft_submit(atop.pool, &atop.work, loop_task, &pointer, sizeof pointer), WEFT_OK);
    while (!atomic_load(&atop.is_open)) sched_yield();
    shortage_begin(1, true);
    gate_open(&g);
    assert_int_equal(weft_group_wait(atop.pool, &atop.then), WEFT_OK);
    assert_true(shortage_end());
    assert_true(atop.result == WEFT_EDEADLK || atop.result == WEFT_OK); /* as it came before, or after, what it waits for */
    assert_int_equal(weft_group_wait(atop.pool, &atop.work), WEFT_OK);
    assert_int_equal(atomic_load(&atop.counter), 9999);
    assert_int_equal(weft_group_wait(atop.pool, &atop.first), WEFT_OK);
    end_pool(atop.pool);
}

/* Whoever tries again, and again without memory, takes no more of it: of what a try needs, the small part could be had. */
static void test_tries_take_nothing(void **state) {
    enum { TRIES = 20000 };
    (void)state;
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_NO_HELP;
    weft_pool *pool = make_pool_with(&config);
    atomic_uint counter = 0;
    unsigned refused = 0, accepted = 0, smaller = 0;
    gate g;
    gate_occupy(&g, pool, NULL);
    atomic_store(&shortage.least, (size_t)512 * 1024); /* the cells of a few segments */
    shortage_begin(1, true);
    while (refused < TRIES) {
        int error = submit_count(pool, NULL, &counter);
        assert_true(error == WEFT_OK || error == WEFT_ENOMEM);
        if (error == WEFT_OK)
            accepted++;
        else if (refused++ == 0)
            smaller = atomic_load(&shortage.smaller);
    }
    assert_int_equal(atomic_load(&shortage.smaller), smaller);
    /* a group of its own wants a lane as well */
    for (int i = 0; i < TRIES; i++) {
        weft_group group = WEFT_GROUP_INIT;
        assert_int_equal(submit_count(pool, &group, &counter), WEFT_ENOMEM);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
        if (i == 0) smaller = atomic_load(&shortage.smaller);
    }
    assert_int_equal(atomic_load(&shortage.smaller), smaller);
    assert_true(shortage_end());
    atomic_store(&shortage.least, 0);
    gate_open(&g);
    end_pool(pool);
    assert_int_equal(atomic_load(&counter), accepted);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shortage),
        cmocka_unit_test(test_started_without_memory),
        cmocka_unit_test(test_started_without_memory_before_a_task),
        cmocka_unit_test(test_started_without_memory_before_a_loop),
        cmocka_unit_test(test_tries_take_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
