/* test_cost.c: what a thread remembers of its loops, and who gets a chance to help where it is wrong. */
#define _GNU_SOURCE
#include "patterns/cost.h"
#include "front.h"
#include "pool_help.h"

/* ---- the memory alone --------------------------------------------------------------------------------------------- */

struct memory {
    weft_pool *pool;
    weft_fork_slot *here;
    weft_worker *seat;
    uint64_t brief, lasting; /* ticks: of loops that are short, long */
};
static struct memory memory_make(void) {
    struct memory memory = {.pool = make_pool(1)};
    REQUIRE(weft_fork_enter(memory.pool, &memory.here) == WEFT_OK);
    memory.seat = weft_fork_worker(memory.here);
    memory.brief = cost_short_ticks(memory.pool) / 4;
    memory.lasting = cost_long_ticks(memory.pool) * 4;
    return memory;
}
static void memory_end(struct memory *memory) {
    weft_fork_leave(memory->here);
    end_pool(memory->pool);
}

enum { COUNT = 100 };
static char contexts[3 * COST_NEAR];
static const uintptr_t function = 0x5550, other_function = 0x5560;

static uint64_t kind(const void *context) { return cost_key(function, cost_site(context, COUNT)); }
static const struct loop_cost *looked_at(const struct memory *memory, uint64_t key) {
    return cost_of(memory->seat, key, function);
}
static void ran(const struct memory *memory, uint64_t key, uint64_t ticks) {
    (void)looked_at(memory, key);
    cost_learn(memory->seat, key, ticks, COUNT, COUNT);
}
static bool is_unknown(const struct memory *memory, uint64_t key) {
    const struct loop_cost *cost = looked_at(memory, key);
    return cost_ticks(cost, 1) == UINT64_MAX && !cost_is_short(cost, 1);
}
static bool is_short(const struct memory *memory, uint64_t key) {
    const struct loop_cost *cost = looked_at(memory, key);
    return cost_is_short(cost, COUNT) && cost_ticks(cost, COUNT) < cost_short_ticks(memory->pool);
}
static bool is_long(const struct memory *memory, uint64_t key) {
    const struct loop_cost *cost = looked_at(memory, key);
    return !cost_is_short(cost, COUNT) && cost_ticks(cost, COUNT) >= cost_long_ticks(memory->pool);
}

static void test_last_time_is_believed(void **state) {
    (void)state;
    struct memory memory = memory_make();
    const uint64_t key = kind(contexts);
    assert_true(is_unknown(&memory, key));
    ran(&memory, key, memory.lasting);
    assert_true(is_long(&memory, key));
    ran(&memory, key, memory.brief);
    assert_true(is_short(&memory, key));
    assert_false(cost_is_short(looked_at(&memory, key), UINT64_C(8) * COUNT));
    for (unsigned i = 0; i < COST_NEAR; i++) ran(&memory, key, memory.brief);
    ran(&memory, key, memory.lasting);
    assert_true(is_long(&memory, key));
    cost_learn(memory.seat, key, memory.brief, 0, COUNT); /* nothing was seen */
    assert_true(is_long(&memory, key));
    ran(&memory, key, UINT64_MAX);
    assert_true(cost_ticks(looked_at(&memory, key), SIZE_MAX) == UINT64_MAX);
    memory_end(&memory);
}

static void test_kinds(void **state) {
    (void)state;
    struct memory memory = memory_make();
    const uint64_t key = kind(contexts);
    const uint64_t others[] = {
        kind(contexts + 16),
        cost_key(function, cost_site(contexts, 2)),
        cost_key(other_function, cost_site(contexts, COUNT)),
        cost_key(function, 1),
        cost_key(function, 2),
    };
    assert_true(key == cost_key(function, cost_site(contexts, COUNT + 1))); /* about as many */
    for (unsigned i = 0; i < sizeof others / sizeof others[0]; i++) {
        ran(&memory, key, memory.brief);
        assert_true(is_short(&memory, key) && is_unknown(&memory, others[i]));
        for (unsigned j = 0; j < i; j++) assert_true(others[j] != others[i]);
    }
    memory_end(&memory);
}

/* A body is passed something else each time: after many short loops the next is taken for one, until one is long. */
static void test_body_that_is_always_short(void **state) {
    (void)state;
    struct memory memory = memory_make();
    unsigned unknown = 0;
    for (unsigned i = 0; i < sizeof contexts; i++) {
        unknown += is_unknown(&memory, kind(&contexts[i]));
        if (i == sizeof contexts - 1) assert_true(is_short(&memory, kind(&contexts[i])));
        ran(&memory, kind(&contexts[i]), memory.brief);
    }
    assert_in_range(unknown, 1, COST_NEAR);
    const uint64_t next = cost_key(function, 77), after = cost_key(function, 78);
    assert_true(is_short(&memory, next) && cost_is_sure(looked_at(&memory, next)));
    ran(&memory, next, memory.lasting);
    assert_true(is_long(&memory, next) && is_unknown(&memory, after));
    memory_end(&memory);
}

/* What took another's place is not told of that one's loops. */
static void test_loop_inside_takes_the_place(void **state) {
    (void)state;
    struct memory memory = memory_make();
    const uint64_t outer = kind(contexts);
    uint64_t inner = 2;
    while (cost_at(memory.seat, cost_key(function, inner)) != cost_at(memory.seat, outer)) inner++;
    inner = cost_key(function, inner);
    (void)looked_at(&memory, outer);
    ran(&memory, inner, memory.brief);
    cost_learn(memory.seat, outer, memory.lasting, COUNT, COUNT);
    cost_confirm(memory.seat, outer, memory.lasting, COUNT);
    assert_true(is_short(&memory, inner));
    memory_end(&memory);
}

static void test_doubt(void **state) {
    (void)state;
    struct memory memory = memory_make();
    const uint64_t key = kind(contexts);
    ran(&memory, key, memory.lasting);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 20; i++) {
            ran(&memory, key, memory.brief);
            assert_true(round == 0 ? is_short(&memory, key) : is_unknown(&memory, key));
        }
        ran(&memory, key, memory.lasting);
        assert_true(is_unknown(&memory, key));
    }
    unsigned doubted = 0;
    for (; is_unknown(&memory, key); doubted++) ran(&memory, key, memory.brief);
    assert_in_range(doubted, 40, 200); /* as many as lay between, and some more */
    assert_true(is_short(&memory, key));

    for (unsigned i = 0; i < COST_NEAR; i++) { /* one now and then: the system may have been the one that took long */
        assert_false(cost_is_sure(looked_at(&memory, key)) && doubted + i < COST_NEAR);
        ran(&memory, key, memory.brief);
    }
    assert_true(cost_is_sure(looked_at(&memory, key)));
    ran(&memory, key, memory.lasting);
    assert_true(is_long(&memory, key) && !cost_is_sure(looked_at(&memory, key)));
    ran(&memory, key, memory.brief);
    assert_true(is_short(&memory, key));
    for (unsigned i = 0; i < COST_NEAR / COST_LOOK_EVERY; i++) cost_confirm(memory.seat, key, memory.brief, COUNT);
    assert_true(cost_is_sure(looked_at(&memory, key)));
    memory_end(&memory);
}

/* ---- a backend with one body for all loops ------------------------------------------------------------------------ */

struct functor {
    void (*run)(struct functor *, size_t);
    atomic_uint *arrived;
    atomic_uint *by_others; /* indices that the caller has not run */
    pthread_t caller;
};
static int run_functor(size_t begin, size_t end, void *context, weft_worker *self) {
    struct functor *functor = context;
    (void)self;
    for (size_t i = begin; i < end; i++) functor->run(functor, i);
    return 0;
}
static void nothing(struct functor *functor, size_t index) { (void)functor, (void)index; }
/* Each of two waits for the other: nothing promises that, but what these loops are known by lets a worker in. */
static void meet(struct functor *functor, size_t index) {
    (void)index;
    atomic_fetch_add(functor->arrived, 1);
    while (atomic_load(functor->arrived) % 2 != 0) sched_yield();
    nap(); /* a long loop */
}
static void stay(struct functor *functor, size_t index) {
    (void)functor, (void)index;
    nap();
}
/* The first index lasts until another thread has run some. */
static void stay_until_helped(struct functor *functor, size_t index) {
    if (!pthread_equal(pthread_self(), functor->caller)) atomic_fetch_add(functor->by_others, 1);
    while (index == 0 && atomic_load(functor->by_others) == 0) sched_yield();
    nap();
}

static void loops(weft_pool *pool, unsigned times, size_t count, struct functor *functor) {
    for (unsigned i = 0; i < times; i++)
        assert_int_equal(weft_for(pool, (weft_range){0, count, 1}, run_functor, functor), WEFT_OK);
}

/* The long loop is passed another functor, of other loops' size. */
static void test_long_after_short_ones_of_others(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    atomic_uint arrived = 0;
    for (unsigned round = 0; round < 30; round++) {
        struct functor brief = {.run = nothing}, lasting = {.run = meet, .arrived = &arrived};
        loops(pool, 500, 64, &brief);
        loops(pool, 500, 2, &brief);
        if (round % 2 == 0) nap(); /* the worker may be asleep */
        loops(pool, 1, 2, &lasting);
        assert_int_equal(atomic_load(&arrived), 2 * (round + 1));
    }
    end_pool(pool);
}

/* The same functor at the same place has become another. */
static void test_long_after_short_ones_of_a_kind(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    atomic_uint arrived = 0;
    for (unsigned round = 0; round < 30; round++) {
        struct functor functor = {.run = nothing, .arrived = &arrived};
        loops(pool, COST_NEAR / 2, 2, &functor);
        functor.run = meet;
        if (round % 2 == 0) nap();
        loops(pool, 1, 2, &functor);
        assert_int_equal(atomic_load(&arrived), 2 * (round + 1));
    }
    end_pool(pool);
}

/* Of many indices: the second time that this happens the kind is in doubt. */
static void test_long_now_and_then(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    atomic_uint by_others = 0;
    struct functor functor = {.by_others = &by_others, .caller = pthread_self()};
    for (unsigned round = 0; round < 20; round++) {
        functor.run = nothing;
        loops(pool, 20, 16, &functor);
        functor.run = round < 2 ? stay : stay_until_helped;
        atomic_store(&by_others, 0);
        if (round % 2 == 0) nap();
        loops(pool, 1, 16, &functor);
        assert_true(round < 2 || atomic_load(&by_others) > 0);
    }
    end_pool(pool);
}

/* Long at regular intervals, after a first part that is over at once. An index of the rest waits for a while for another
 * thread, which comes unless the caller runs the loop alone. */
enum { WAIT_NAPS = 50 };
struct regular {
    bool is_long;
    size_t first; /* of the rest */
    atomic_bool helped;
    pthread_t caller;
};
static int regular_body(size_t begin, size_t end, void *context, weft_worker *self) {
    struct regular *regular = context;
    (void)self;
    for (size_t i = begin; regular->is_long && i < end; i++) {
        if (!pthread_equal(pthread_self(), regular->caller)) atomic_store(&regular->helped, true);
        for (unsigned n = 0; i >= regular->first && n < WAIT_NAPS && !atomic_load(&regular->helped); n++) nap();
    }
    return 0;
}
/* How many of `times` long loops the caller ran alone, one in `every`. */
static unsigned alone_of(weft_pool *pool, size_t count, unsigned every, unsigned times) {
    struct regular regular = {.first = count / 8, .caller = pthread_self()};
    unsigned alone = 0;
    for (unsigned i = 0; i < 300 + times * every; i++) {
        regular.is_long = i >= 300 && i % every == 0;
        atomic_store(&regular.helped, false);
        assert_int_equal(weft_for(pool, (weft_range){0, count, 0}, regular_body, &regular), WEFT_OK);
        alone += regular.is_long && !atomic_load(&regular.helped);
    }
    return alone;
}
static void test_long_at_intervals(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    for (unsigned every = 4; every <= 32; every *= 2) {
        assert_in_range(alone_of(pool, 16, every, 16), 0, 5);
        assert_in_range(alone_of(pool, 9, every, 16), 0, 5);
    }
    end_pool(pool);
}

/* Which loops alone are looked at: usually one in several; one after another once one of them may have been long. */
static void test_looks(void **state) {
    (void)state;
    struct memory memory = memory_make();
    const uint64_t key = kind(contexts);
    ran(&memory, key, memory.brief);
    struct loop_cost *cost = cost_at(memory.seat, key);
    for (unsigned i = 0; i < 10 * COST_LOOK_EVERY; i++) {
        bool looks = cost_looks(cost);
        assert_int_equal(looks, i % COST_LOOK_EVERY == 0);
        if (looks) cost_confirm(memory.seat, key, memory.brief, COUNT);
    }
    cost_suspect(cost);
    unsigned since = cost->since;
    for (unsigned i = 0; i < COST_NEAR; i++) {
        assert_true(cost_looks(cost));
        cost_confirm(memory.seat, key, memory.brief, COUNT);
        assert_int_equal(cost->since, since + i + 1 < COST_NEAR ? since + i + 1 : COST_NEAR);
    }
    for (unsigned i = 1; i < COST_LOOK_EVERY; i++) assert_false(cost_looks(cost));
    assert_true(cost_looks(cost));
    memory_end(&memory);
}

/* The same context and size, told apart by what the backend says. */
static void test_sites(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    static const char sites[31];
    atomic_uint arrived = 0;
    struct functor functor = {.arrived = &arrived};
    const weft_range two = {0, 2, 1};
    for (unsigned round = 0; round < 30; round++) {
        functor.run = nothing;
        for (unsigned i = 0; i < 3 * COST_NEAR; i++)
            assert_int_equal(weft_for_site(pool, two, run_functor, &functor, &sites[30]), WEFT_OK);
        functor.run = meet;
        assert_int_equal(weft_for_site(pool, two, run_functor, &functor, &sites[round]), WEFT_OK);
        assert_int_equal(atomic_load(&arrived), 2 * (round + 1));
    }
    assert_int_equal(weft_for_site(NULL, two, run_functor, &functor, NULL), WEFT_EINVAL);
    assert_int_equal(weft_for_site(pool, two, NULL, &functor, NULL), WEFT_EINVAL);
    assert_int_equal(weft_for_site(pool, (weft_range){2, 1, 1}, run_functor, &functor, NULL), WEFT_EINVAL);
    functor.run = nothing;
    assert_int_equal(weft_for_site(pool, two, run_functor, &functor, NULL), WEFT_OK);
    end_pool(pool);
}

static int empty_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)begin, (void)end, (void)context, (void)self;
    return 0;
}

/* A loop alone that is looked at counts for those before that were not: so a kind is believed after COST_NEAR loops, or a few
 * more. */
static void test_short_ones_are_believed(void **state) {
    (void)state;
    const weft_range range = {0, 100, 1};
    struct memory memory = memory_make();
    uint64_t key = cost_key((uintptr_t)empty_body, cost_site(contexts, range.end));
    const struct loop_cost *cost = cost_at(memory.seat, key);
    unsigned short_ones = 0;
    bool is_sure = false;
    for (unsigned loops = 0; loops < 100000 && !is_sure; loops++) {
        unsigned before = cost->since;
        assert_int_equal(weft_for(memory.pool, range, empty_body, contexts), WEFT_OK);
        short_ones = cost->key != key || cost->since == 0 || cost->since < before ? 0 : short_ones + 1;
        is_sure = cost->key == key && cost_is_sure(cost);
    }
    memory_end(&memory);
    if (!is_sure) SKIP("such loops are not short here");
    assert_in_range(short_ones, COST_NEAR - 2 * COST_LOOK_EVERY, 2 * COST_NEAR);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_last_time_is_believed),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_body_that_is_always_short),
        cmocka_unit_test(test_loop_inside_takes_the_place),
        cmocka_unit_test(test_doubt),
        cmocka_unit_test(test_long_after_short_ones_of_others),
        cmocka_unit_test(test_long_after_short_ones_of_a_kind),
        cmocka_unit_test(test_long_now_and_then),
        cmocka_unit_test(test_long_at_intervals),
        cmocka_unit_test(test_looks),
        cmocka_unit_test(test_sites),
        cmocka_unit_test(test_short_ones_are_believed),
    };
    return cmocka_run_group_tests_name("cost", tests, NULL, NULL);
}
