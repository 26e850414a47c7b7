/* test_await.c: tasks that are waits for the group that they come after (weft_submit_await). */
#define _GNU_SOURCE
#include "pool_help.h"
#include "queue/continuation.h"

struct news {
    atomic_uint told, ran, dropped;
    atomic_int result, has_ended;
};
struct awaiting {
    struct news *news;
    int result; /* written by `tell` */
    unsigned char rest[CONTINUATION_AWAIT_MAX - sizeof(void *) - sizeof(int)];
};

static void tell(void *payload, int result, int has_ended) {
    struct awaiting *it = payload;
    it->result = result;
    atomic_store(&it->news->result, result);
    atomic_store(&it->news->has_ended, has_ended);
    atomic_fetch_add(&it->news->told, 1);
}
static int awaiting_run(void *payload, weft_worker *self) {
    const struct awaiting *it = payload;
    if (self == NULL) {
        atomic_fetch_add(&it->news->dropped, 1);
        return 0;
    }
    for (size_t i = 0; i < sizeof it->rest; i++) REQUIRE(it->rest[i] == (unsigned char)i);
    atomic_fetch_add(&it->news->ran, 1);
    return it->result;
}
static const weft_object type = {sizeof(struct awaiting), awaiting_run, NULL};

static int submit_await(weft_pool *pool, weft_group *after, weft_group *group, struct news *news) {
    struct awaiting it = {.news = news, .result = -1};
    for (size_t i = 0; i < sizeof it.rest; i++) it.rest[i] = (unsigned char)i;
    return weft_submit_await(pool, (weft_after){after, group}, &type, &it, tell);
}

static int code_task(void *payload, weft_worker *self) {
    (void)self;
    return *(int *)payload;
}
static void submit_code(weft_pool *pool, weft_group *group, int code) {
    REQUIRE(weft_submit(pool, group, code_task, &code, sizeof code) == WEFT_OK);
}

/* Each is told the error, and so is a thread that waits beside them; the group has ended. */
static void test_all_are_told(void **state) {
    (void)state;
    enum { MANY = 5 };
    for (uint32_t queue_max = 0; queue_max < 2; queue_max++) {
        weft_config config = config_of(2);
        config.queue_max = queue_max * 100;
        weft_pool *pool = make_pool_with(&config);
        for (int code = 0; code < 10; code += 5) {
            weft_group first = WEFT_GROUP_INIT, then[MANY];
            struct news news = {0};
            gate g;
            gate_occupy(&g, pool, &first);
            submit_code(pool, &first, code);
            for (int i = 0; i < MANY; i++) {
                then[i] = (weft_group)WEFT_GROUP_INIT;
                assert_int_equal(submit_await(pool, &first, &then[i], &news), WEFT_OK);
            }
            gate_open(&g);
            for (int i = 0; i < MANY; i++) assert_int_equal(weft_group_wait(pool, &then[i]), code);
            assert_int_equal(atomic_load(&news.told), MANY);
            assert_int_equal(atomic_load(&news.ran), MANY);
            assert_int_equal(atomic_load(&news.has_ended), 1);
            assert_int_equal(first.id, 0);
            assert_int_equal(weft_group_wait(pool, &first), WEFT_OK);
        }
        end_pool(pool);
    }
}

/* The thread's wait ends the group, whose memory is gone when the task is still to come. */
static void test_after_a_wait(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    weft_group first = WEFT_GROUP_INIT, then = WEFT_GROUP_INIT, busy = WEFT_GROUP_INIT;
    struct news news = {0};
    gate g;
    gate_occupy(&g, pool, &busy);
    submit_code(pool, &first, 7);
    assert_int_equal(submit_await(pool, &first, &then, &news), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &first), 7); /* runs the task here */
    memset(&first, 0xff, sizeof first);
    assert_int_equal(atomic_load(&news.has_ended), 0);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &then), 7);
    assert_int_equal(atomic_load(&news.told), 1);
    assert_int_equal(weft_group_wait(pool, &busy), WEFT_OK);
    for (size_t i = 0; i < sizeof first; i++) assert_int_equal(((unsigned char *)&first)[i], 0xff);
    end_pool(pool);
}

/* Who will not run takes no result from others. */
static void test_cancelled(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    weft_group first = WEFT_GROUP_INIT, then = WEFT_GROUP_INIT;
    struct news news = {0};
    gate g;
    gate_occupy(&g, pool, &first);
    submit_code(pool, &first, 9);
    assert_int_equal(submit_await(pool, &first, &then, &news), WEFT_OK);
    assert_int_equal(weft_group_cancel(pool, &then), WEFT_OK);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &then), WEFT_ECANCELED);
    assert_int_equal(atomic_load(&news.told), 0);
    assert_int_equal(atomic_load(&news.dropped), 1);
    assert_int_equal(weft_group_wait(pool, &first), 9);
    end_pool(pool);
}

/* A cancelled group, and one that has missed its deadline, say so. */
static void test_other_results(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    for (int is_late = 0; is_late < 2; is_late++) {
        weft_group first = WEFT_GROUP_INIT, then = WEFT_GROUP_INIT;
        struct news news = {0};
        gate g;
        gate_occupy(&g, pool, &first);
        assert_int_equal(submit_await(pool, &first, &then, &news), WEFT_OK);
        int error = is_late ? weft_group_deadline(pool, &first, 1) : weft_group_cancel(pool, &first);
        assert_int_equal(error, WEFT_OK);
        gate_open(&g);
        assert_int_equal(weft_group_wait(pool, &then), is_late ? WEFT_ELATE : WEFT_ECANCELED);
        assert_int_equal(first.id, 0);
    }
    end_pool(pool);
}

/* A finished group is the caller's to wait for. */
static void test_nothing_to_await(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    weft_group first = WEFT_GROUP_INIT, then = WEFT_GROUP_INIT, busy = WEFT_GROUP_INIT;
    struct news news = {0};
    gate g;
    assert_int_equal(submit_await(pool, &first, &then, &news), 1); /* never had a task */
    gate_occupy(&g, pool, &busy);
    submit_code(pool, &first, 3);
    assert_int_equal(weft_group_help(pool, &first), 1);
    assert_int_equal(submit_await(pool, &first, &then, &news), 1);
    assert_int_equal(weft_group_wait(pool, &first), 3);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &then), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &busy), WEFT_OK);
    assert_int_equal(atomic_load(&news.told), 0);
    end_pool(pool);
}

/* The pool's own group ends, too. */
static void test_own_group(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    weft_group then = WEFT_GROUP_INIT;
    struct news news = {0};
    gate g;
    gate_occupy(&g, pool, NULL);
    submit_code(pool, NULL, 4);
    assert_int_equal(submit_await(pool, NULL, &then, &news), WEFT_OK);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &then), 4);
    assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
    end_pool(pool);
}

/* ---- many threads ------------------------------------------------------------------------------------------------- */

enum { ROUNDS = 300, WAITERS = 3 };
struct crowd {
    weft_pool *pool;
    pthread_barrier_t begin, end;
    weft_group *first;
    struct news news;
    atomic_uint at_once; /* there was nothing to await, and the wait was too late for the error, or not */
};
static void *crowd_thread(void *argument) {
    struct crowd *crowd = argument;
    for (int i = 0; i < ROUNDS; i++) {
        weft_group then = WEFT_GROUP_INIT;
        pthread_barrier_wait(&crowd->begin);
        int error = submit_await(crowd->pool, crowd->first, &then, &crowd->news);
        if (error == 1) atomic_fetch_add(&crowd->at_once, 1);
        REQUIRE(error == WEFT_OK || error == 1);
        if (i % 2 == 0) (void)weft_group_wait(crowd->pool, crowd->first);
        pthread_barrier_wait(&crowd->end);
        REQUIRE(weft_group_wait(crowd->pool, &then) == (error == 1 ? WEFT_OK : 6));
    }
    return NULL;
}
/* The group lives only until each call with it has returned. */
static void test_crowd(void **state) {
    (void)state;
    struct crowd crowd = {.pool = make_pool(2)};
    pthread_t threads[WAITERS];
    REQUIRE(pthread_barrier_init(&crowd.begin, NULL, WAITERS + 1) == 0);
    REQUIRE(pthread_barrier_init(&crowd.end, NULL, WAITERS + 1) == 0);
    for (int i = 0; i < WAITERS; i++) REQUIRE(pthread_create(&threads[i], NULL, crowd_thread, &crowd) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        weft_group *first = malloc(sizeof *first);
        REQUIRE(first != NULL);
        *first = (weft_group)WEFT_GROUP_INIT;
        crowd.first = first;
        submit_code(crowd.pool, first, 6);
        pthread_barrier_wait(&crowd.begin);
        pthread_barrier_wait(&crowd.end);
        (void)weft_group_wait(crowd.pool, first);
        memset(first, 0xff, sizeof *first);
        free(first);
    }
    for (int i = 0; i < WAITERS; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);
    assert_int_equal(atomic_load(&crowd.news.told) + atomic_load(&crowd.at_once), ROUNDS * WAITERS);
    assert_int_equal(atomic_load(&crowd.news.ran), atomic_load(&crowd.news.told));
    REQUIRE(pthread_barrier_destroy(&crowd.begin) == 0 && pthread_barrier_destroy(&crowd.end) == 0);
    end_pool(crowd.pool);
}

/* ---- misuse, ends -------------------------------------------------------------------------------------------------- */

/* Destroy runs it, abort drops it; both tell it before. */
static void test_pool_ends(void **state) {
    (void)state;
    for (int aborts = 0; aborts < 2; aborts++) {
        weft_pool *pool = make_pool(1);
        weft_group first = WEFT_GROUP_INIT, then = WEFT_GROUP_INIT;
        struct news news = {0};
        submit_code(pool, &first, 2);
        int error = submit_await(pool, &first, &then, &news);
        assert_true(error == WEFT_OK || error == 1);
        assert_int_equal(aborts ? weft_pool_abort(&pool, NULL, NULL) : weft_pool_destroy(&pool), WEFT_OK);
        assert_int_equal(atomic_load(&news.told), error == WEFT_OK);
        assert_int_equal(atomic_load(&news.ran) + atomic_load(&news.dropped), error == WEFT_OK);
        if (!aborts) assert_int_equal(atomic_load(&news.dropped), 0);
    }
}

static void test_misuse(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1), *other = make_pool(1);
    weft_group first = WEFT_GROUP_INIT, then = WEFT_GROUP_INIT;
    unsigned char bytes[CONTINUATION_INLINE_MAX] = {0};
    const weft_after after = {&first, &then};
    const weft_object no_run = {1, NULL, NULL}, large = {CONTINUATION_AWAIT_MAX + 1, awaiting_run, NULL};
    assert_int_equal(weft_submit_await(NULL, after, &type, bytes, tell), WEFT_EINVAL);
    assert_int_equal(weft_submit_await(pool, after, NULL, bytes, tell), WEFT_EINVAL);
    assert_int_equal(weft_submit_await(pool, after, &no_run, bytes, tell), WEFT_EINVAL);
    assert_int_equal(weft_submit_await(pool, after, &large, bytes, tell), WEFT_EINVAL);
    assert_int_equal(weft_submit_await(pool, after, &type, NULL, tell), WEFT_EINVAL);
    assert_int_equal(weft_submit_await(pool, after, &type, bytes, NULL), WEFT_EINVAL);
    assert_int_equal(weft_submit_await(pool, (weft_after){&first, &first}, &type, bytes, tell), WEFT_EDEADLK);
    gate g;
    gate_occupy(&g, pool, &first);
    assert_int_equal(weft_submit_await(other, after, &type, bytes, tell), WEFT_EINVAL);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &first), WEFT_OK);
    end_pool(pool);
    end_pool(other);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_are_told),  cmocka_unit_test(test_after_a_wait),     cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_other_results), cmocka_unit_test(test_nothing_to_await), cmocka_unit_test(test_own_group),
        cmocka_unit_test(test_crowd),         cmocka_unit_test(test_pool_ends),        cmocka_unit_test(test_misuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
