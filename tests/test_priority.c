/* test_priority.c: urgent and background groups, from the contracts of weft.h alone. */
#define _GNU_SOURCE
#include "pool_help.h"

#define GROUP_OF(wish)                                                                                                      \
    { .flags = (wish) }

static weft_pool *pool_of(uint32_t workers, uint32_t background_max, uint32_t flags) {
    weft_config config = config_of(workers);
    config.background_max = background_max;
    config.flags = flags;
    return make_pool_with(&config);
}

/* ---- what goes first ---------------------------------------------------------------------------------------------- */

struct note {
    char *log;
    atomic_uint *length;
    char name;
};
static int note_task(void *payload, weft_worker *self) {
    const struct note *note = payload;
    (void)self;
    note->log[atomic_fetch_add(note->length, 1)] = note->name;
    return 0;
}

/* The only worker stands in a gate; what is submitted meanwhile is run in the order that `expected` says. */
static void check_order(uint32_t flags_a, uint32_t flags_b, bool boosts_b, const char *expected) {
    weft_pool *pool = pool_of(1, 1, WEFT_POOL_NO_HELP);
    weft_group continuation = WEFT_GROUP_INIT, a = GROUP_OF(flags_a), b = GROUP_OF(flags_b), before[4] = {GROUP_OF(0)};
    char log[8] = "";
    atomic_uint length = 0, count = 0;
    gate g;
    for (int i = 0; i < 4; i++) { /* what was boosted before is no concern of the groups that come after it */
        assert_int_equal(submit_count(pool, &before[i], &count), WEFT_OK);
        assert_int_equal(weft_group_boost(pool, &before[i]), WEFT_OK);
    }
    for (int i = 0; i < 4; i++) assert_int_equal(weft_group_wait(pool, &before[i]), WEFT_OK);
    gate_occupy(&g, pool, &continuation);
    for (unsigned i = 0; i < 6; i++) {
        const struct note note = {log, &length, i % 2 == 0 ? 'a' : 'b'};
        assert_int_equal(weft_submit(pool, i % 2 == 0 ? &a : &b, note_task, &note, sizeof note), WEFT_OK);
    }
    if (boosts_b) assert_int_equal(weft_group_boost(pool, &b), WEFT_OK);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &a), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &b), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &continuation), WEFT_OK);
    end_pool(pool);
    assert_string_equal(log, expected);
}

static void test_order(void **state) {
    (void)state;
    check_order(0, WEFT_GROUP_URGENT, false, "bbbaaa");
    check_order(WEFT_GROUP_URGENT, 0, false, "aaabbb");
    check_order(0, WEFT_GROUP_BACKGROUND, false, "aaabbb");
    check_order(WEFT_GROUP_BACKGROUND, 0, false, "bbbaaa");
    check_order(WEFT_GROUP_BACKGROUND, WEFT_GROUP_URGENT, false, "bbbaaa");
}

static void test_boost(void **state) {
    (void)state;
    check_order(0, 0, true, "bbbaaa");
    check_order(0, WEFT_GROUP_BACKGROUND, true, "bbbaaa");
    check_order(WEFT_GROUP_BACKGROUND, WEFT_GROUP_BACKGROUND, true, "bbbaaa");
    weft_pool *pool = make_pool(1);
    weft_group group = WEFT_GROUP_INIT;
    atomic_uint count = 0;
    for (unsigned round = 0; round < 100; round++) { /* the boost ends with the wait, and may come too early */
        assert_int_equal(weft_group_boost(pool, &group), WEFT_OK);
        assert_int_equal(submit_count(pool, &group, &count), WEFT_OK);
        assert_int_equal(weft_group_boost(pool, &group), WEFT_OK);
        assert_int_equal(weft_group_boost(pool, &group), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    }
    assert_int_equal(weft_group_boost(pool, NULL), WEFT_OK);
    assert_int_equal(atomic_load(&count), 100);
    end_pool(pool);
}

/* ---- slots -------------------------------------------------------------------------------------------------------- */

static void submit_gate(weft_pool *pool, weft_group *group, gate *g) {
    assert_int_equal(weft_submit(pool, group, gate_task, &g, sizeof g), WEFT_OK);
}

/* Four workers, two slots: of six background tasks two run, and others find workers. */
static void test_slots(void **state) {
    (void)state;
    weft_pool *pool = pool_of(4, 2, WEFT_POOL_NO_HELP);
    weft_group background = GROUP_OF(WEFT_GROUP_BACKGROUND), urgent = GROUP_OF(WEFT_GROUP_URGENT), normal = WEFT_GROUP_INIT;
    gate gates[6];
    atomic_uint count = 0;
    for (unsigned i = 0; i < 6; i++) {
        gate_init(&gates[i]);
        submit_gate(pool, &background, &gates[i]);
    }
    await(&gates[0].entered);
    await(&gates[1].entered);
    for (unsigned round = 0; round < 100; round++) {
        for (unsigned i = 0; i < 10; i++) submit_count(pool, i % 2 == 0 ? &urgent : &normal, &count);
        assert_int_equal(weft_group_wait(pool, &urgent), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &normal), WEFT_OK);
    }
    for (unsigned i = 0; i < 4; i++) {
        assert_int_not_equal(sem_trywait(&gates[i + 2].entered), 0);
        gate_open(&gates[i]); /* the next takes its slot, by whichever worker */
        await(&gates[i + 2].entered);
    }
    gate_open(&gates[4]);
    gate_open(&gates[5]);
    assert_int_equal(weft_group_wait(pool, &background), WEFT_OK);
    assert_int_equal(atomic_load(&count), 1000);
    end_pool(pool);
}

/* The only worker runs a background task, or blocks in one: a spare does the rest. */
static void test_spare_stands_in(void **state) {
    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        weft_pool *pool = pool_of(1, 0, round % 2 == 0 ? WEFT_POOL_NO_HELP : 0);
        weft_group background = GROUP_OF(WEFT_GROUP_BACKGROUND), urgent = GROUP_OF(WEFT_GROUP_URGENT);
        gate g, next;
        atomic_uint count = 0;
        gate_occupy(&g, pool, &background);
        gate_init(&next);
        submit_gate(pool, &background, &next);
        submit_count(pool, &urgent, &count);
        assert_int_equal(weft_group_wait_until(pool, &urgent, WEFT_HELP_NONE, 0), WEFT_OK);
        assert_int_equal(atomic_load(&count), 1);
        assert_int_not_equal(sem_trywait(&next.entered), 0);
        gate_open(&g);
        await(&next.entered);
        gate_open(&next);
        assert_int_equal(weft_group_wait_until(pool, &background, WEFT_HELP_NONE, 0), WEFT_OK);
        end_pool(pool);
    }
}

/* No slot is free, but who waits for the group may help, and a boost lifts it out of the background. */
static void test_ways_round_the_slots(void **state) {
    (void)state;
    weft_pool *pool = pool_of(2, 1, 0);
    weft_group continuation = GROUP_OF(WEFT_GROUP_BACKGROUND), helped = GROUP_OF(WEFT_GROUP_BACKGROUND),
               lifted = GROUP_OF(WEFT_GROUP_BACKGROUND);
    gate g;
    atomic_uint count = 0;
    gate_occupy(&g, pool, &continuation);
    for (unsigned i = 0; i < 3; i++) submit_count(pool, &helped, &count);
    assert_int_equal(weft_group_wait(pool, &helped), WEFT_OK);
    assert_int_equal(atomic_load(&count), 3);
    for (unsigned round = 0; round < 20; round++) {
        gate next;
        gate_init(&next);
        submit_gate(pool, &lifted, &next);
        if (round % 2 == 0) nap(); /* the other worker may be asleep */
        assert_int_not_equal(sem_trywait(&next.entered), 0);
        assert_int_equal(weft_group_boost(pool, &lifted), WEFT_OK);
        await(&next.entered);
        gate_open(&next);
        assert_int_equal(weft_group_wait(pool, &lifted), WEFT_OK);
    }
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &continuation), WEFT_OK);
    end_pool(pool);
}

/* A task in the only slot blocks, waits for the next background task: that gets the slot. */
static int wait_below(void *payload, weft_worker *self) {
    weft_group below = GROUP_OF(WEFT_GROUP_BACKGROUND);
    atomic_uint *count = *(atomic_uint **)payload;
    REQUIRE(submit_count(weft_worker_pool(self), &below, count) == WEFT_OK);
    REQUIRE(weft_group_wait_until(weft_worker_pool(self), &below, WEFT_HELP_NONE, 0) == WEFT_OK);
    return 0;
}
static int block_for(void *payload, weft_worker *self) {
    gate *g = *(gate **)payload;
    (void)weft_block_begin(self);
    sem_post(&g->entered);
    await(&g->opened);
    REQUIRE(weft_block_end(self) == WEFT_OK);
    return 0;
}
static void test_blocked_ones_give_their_slot(void **state) {
    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        weft_pool *pool = pool_of(1 + round % 3, 1, round % 2 == 0 ? WEFT_POOL_NO_HELP : 0);
        weft_group background = GROUP_OF(WEFT_GROUP_BACKGROUND);
        atomic_uint count = 0, *counter = &count;
        gate g, *at = &g;
        gate_init(&g);
        assert_int_equal(weft_submit(pool, &background, wait_below, &counter, sizeof counter), WEFT_OK);
        assert_int_equal(weft_group_wait_until(pool, &background, WEFT_HELP_NONE, 0), WEFT_OK);
        assert_int_equal(atomic_load(&count), 1);
        assert_int_equal(weft_submit(pool, &background, block_for, &at, sizeof at), WEFT_OK);
        await(&g.entered);
        weft_group other = GROUP_OF(WEFT_GROUP_BACKGROUND);
        submit_count(pool, &other, &count);
        assert_int_equal(weft_group_wait_until(pool, &other, WEFT_HELP_NONE, 0), WEFT_OK);
        gate_open(&g);
        assert_int_equal(weft_group_wait(pool, &background), WEFT_OK);
        assert_int_equal(atomic_load(&count), 2);
        end_pool(pool);
    }
}

/* A task in the only slot sleeps in a wait for a task that waits for the next background task: that gets the slot. */
static struct {
    weft_pool *pool;
    weft_group between, needed;
    gate is_between, in_slot;
} asleep;

static int wait_in_slot(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    sem_post(&asleep.in_slot.entered);
    REQUIRE(weft_group_wait(asleep.pool, &asleep.between) == WEFT_OK);
    return 0;
}
static int need_slot(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    sem_post(&asleep.is_between.entered);
    await(&asleep.is_between.opened);
    REQUIRE(weft_group_wait_until(asleep.pool, &asleep.needed, WEFT_HELP_NONE, 0) == WEFT_OK);
    return 0;
}
static void test_sleeping_ones_give_their_slot(void **state) {
    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        weft_group background = GROUP_OF(WEFT_GROUP_BACKGROUND);
        asleep.pool = pool_of(2, 1, round % 2 == 0 ? WEFT_POOL_NO_HELP : 0);
        asleep.between = (weft_group)WEFT_GROUP_INIT;
        asleep.needed = background;
        atomic_uint count = 0;
        gate_init(&asleep.is_between), gate_init(&asleep.in_slot);
        assert_int_equal(weft_submit(asleep.pool, &asleep.between, need_slot, NULL, 0), WEFT_OK);
        await(&asleep.is_between.entered);
        assert_int_equal(weft_submit(asleep.pool, &background, wait_in_slot, NULL, 0), WEFT_OK);
        await(&asleep.in_slot.entered);
        for (unsigned i = 0; i < 3; i++) assert_int_equal(submit_count(asleep.pool, &asleep.needed, &count), WEFT_OK);
        if (round % 4 < 2) nap(); /* the first one sleeps by then, or falls asleep later */
        gate_open(&asleep.is_between);
        assert_int_equal(weft_group_wait_until(asleep.pool, &background, WEFT_HELP_NONE, 0), WEFT_OK);
        assert_int_equal(weft_group_wait_until(asleep.pool, &asleep.between, WEFT_HELP_NONE, 0), WEFT_OK);
        assert_int_equal(weft_group_wait_until(asleep.pool, &asleep.needed, WEFT_HELP_NONE, 0), WEFT_OK);
        assert_int_equal(atomic_load(&count), 3);
        end_pool(asleep.pool);
    }
}

/* A gate that tells who stands in it. */
struct indexed_gate {
    gate gate;
    unsigned index;
};
static int indexed_task(void *payload, weft_worker *self) {
    struct indexed_gate *at = *(struct indexed_gate **)payload;
    gate *g = &at->gate;
    at->index = weft_worker_index(self);
    return gate_task(&g, self);
}
static void submit_indexed(weft_pool *pool, weft_group *group, struct indexed_gate *at) {
    gate_init(&at->gate);
    assert_int_equal(weft_submit(pool, group, indexed_task, &at, sizeof at), WEFT_OK);
}
static void run_another(weft_pool *pool) {
    weft_group group = WEFT_GROUP_INIT;
    assert_int_equal(weft_submit(pool, &group, empty_task, NULL, 0), WEFT_OK);
    assert_int_equal(weft_group_wait_until(pool, &group, WEFT_HELP_NONE, 0), WEFT_OK);
}

/* The pool gets smaller while the first worker is in a background task: a spare comes for the others. */
static void test_spare_stands_in_after_resize(void **state) {
    (void)state;
    weft_pool *pool = pool_of(2, 1, WEFT_POOL_NO_HELP);
    weft_group background = GROUP_OF(WEFT_GROUP_BACKGROUND), gates = WEFT_GROUP_INIT;
    struct indexed_gate held[3];
    for (unsigned i = 0; i < 2; i++) submit_indexed(pool, &gates, &held[i]);
    for (unsigned i = 0; i < 2; i++) await(&held[i].gate.entered);
    submit_indexed(pool, &background, &held[2]);
    unsigned first = held[0].index == 0 ? 0 : 1;
    gate_open(&held[first].gate);
    await(&held[2].gate.entered);
    assert_int_equal(held[2].index, 0);
    assert_int_equal(weft_pool_resize(pool, 1), WEFT_OK);
    gate_open(&held[1 - first].gate);
    assert_int_equal(weft_group_wait(pool, &gates), WEFT_OK);
    run_another(pool);
    gate_open(&held[2].gate);
    assert_int_equal(weft_group_wait(pool, &background), WEFT_OK);
    run_another(pool);
    end_pool(pool);
}

/* In a section, then out of it. */
struct section {
    gate inside, after;
};
static int block_and_stay(void *payload, weft_worker *self) {
    struct section *at = *(struct section **)payload;
    gate *inside = &at->inside, *after = &at->after;
    REQUIRE(weft_block_begin(self) == WEFT_OK);
    (void)gate_task(&inside, self);
    REQUIRE(weft_block_end(self) == WEFT_OK);
    return gate_task(&after, self);
}

/* The only slot was another's during a task's section: after it all workers are in background tasks. */
static void test_spare_stands_in_after_section(void **state) {
    (void)state;
    weft_pool *pool = pool_of(2, 1, WEFT_POOL_NO_HELP);
    weft_group background = GROUP_OF(WEFT_GROUP_BACKGROUND), gates = WEFT_GROUP_INIT;
    struct indexed_gate held[2], other;
    struct section section, *at = &section;
    gate_init(&section.inside);
    gate_init(&section.after);
    assert_int_equal(weft_submit(pool, &background, block_and_stay, &at, sizeof at), WEFT_OK);
    await(&section.inside.entered);
    for (unsigned i = 0; i < 2; i++) submit_indexed(pool, &gates, &held[i]);
    for (unsigned i = 0; i < 2; i++) await(&held[i].gate.entered);
    unsigned first = held[0].index < held[1].index ? 0 : 1; /* the other is the spare */
    submit_indexed(pool, &background, &other);
    gate_open(&held[first].gate);
    await(&other.gate.entered);
    gate_open(&section.inside);
    await(&section.after.entered);
    gate_open(&held[1 - first].gate);
    assert_int_equal(weft_group_wait(pool, &gates), WEFT_OK);
    run_another(pool);
    gate_open(&section.after);
    gate_open(&other.gate);
    assert_int_equal(weft_group_wait(pool, &background), WEFT_OK);
    end_pool(pool);
}

/* ---- what background tasks start ---------------------------------------------------------------------------------- */

static int same_thread(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)self;
    REQUIRE(pthread_equal(pthread_self(), *(const pthread_t *)context));
    for (size_t i = begin; i < end; i++) sched_yield();
    return 0;
}
struct fork_argument {
    const pthread_t *thread;
    unsigned depth;
};
static int forked(weft_fork_slot *here, struct fork_argument argument);
WEFT_FORK(forked, int, struct fork_argument)
static int forked(weft_fork_slot *here, struct fork_argument argument) {
    REQUIRE(pthread_equal(pthread_self(), *argument.thread));
    sched_yield();
    if (argument.depth == 0) return 1;
    argument.depth--;
    weft_fork_slot *deeper = forked_fork(here, &argument);
    int other = forked(deeper, argument);
    return forked_join(here, &argument) + other;
}
static int start_much(void *payload, weft_worker *self) {
    const pthread_t me = pthread_self();
    weft_fork_slot *here;
    (void)payload;
    REQUIRE(weft_for(weft_worker_pool(self), (weft_range){0, 500, 1}, same_thread, (void *)&me) == WEFT_OK);
    REQUIRE(weft_fork_enter(weft_worker_pool(self), &here) == WEFT_OK);
    REQUIRE(forked(here, (struct fork_argument){&me, 9}) == 512);
    weft_fork_leave(here);
    return 0;
}
static void test_nobody_helps_a_background_task(void **state) {
    (void)state;
    weft_pool *pool = pool_of(4, 2, WEFT_POOL_NO_HELP);
    weft_group background = GROUP_OF(WEFT_GROUP_BACKGROUND);
    for (unsigned i = 0; i < 20; i++) assert_int_equal(weft_submit(pool, &background, start_much, &i, sizeof i), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &background), WEFT_OK);
    end_pool(pool);
}

/* Nor where a wait runs it, while the slots are taken. */
static void test_nobody_helps_what_a_wait_runs(void **state) {
    (void)state;
    weft_pool *pool = pool_of(3, 1, 0);
    weft_group background = GROUP_OF(WEFT_GROUP_BACKGROUND), taken = GROUP_OF(WEFT_GROUP_BACKGROUND);
    gate g;
    gate_occupy(&g, pool, &taken);
    for (unsigned i = 0; i < 20; i++) assert_int_equal(weft_submit(pool, &background, start_much, &i, sizeof i), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &background), WEFT_OK);
    assert_int_equal(weft_run(pool, &background, start_much, NULL), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &background), WEFT_OK);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &taken), WEFT_OK);
    end_pool(pool);
}

/* ---- ends --------------------------------------------------------------------------------------------------------- */

static void count_clean(void *payload, size_t size, void *context) {
    (void)payload;
    (void)size;
    atomic_fetch_add((atomic_uint *)context, 1);
}
static void test_ends(void **state) {
    (void)state;
    atomic_uint count = 0;
    weft_group left = GROUP_OF(WEFT_GROUP_BACKGROUND);
    weft_pool *pool = pool_of(2, 1, 0);
    for (unsigned i = 0; i < 50; i++) submit_count(pool, &left, &count);
    end_pool(pool);
    assert_int_equal(atomic_load(&count), 50);

    weft_config config = config_of(2);
    config.clean = count_clean;
    config.context = &count;
    pool = make_pool_with(&config);
    weft_group cancelled = GROUP_OF(WEFT_GROUP_BACKGROUND);
    for (unsigned i = 0; i < 50; i++) submit_count(pool, &cancelled, &count);
    assert_int_equal(weft_group_cancel(pool, &cancelled), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &cancelled), WEFT_ECANCELED);
    assert_int_equal(atomic_load(&count), 100);
    weft_group dropped = GROUP_OF(WEFT_GROUP_BACKGROUND);
    for (unsigned i = 0; i < 50; i++) submit_count(pool, &dropped, &count);
    assert_int_equal(weft_pool_abort(&pool, count_clean, &count), WEFT_OK);
    assert_int_equal(atomic_load(&count), 150);
}

static void test_misuse(void **state) {
    (void)state;
    weft_config config = config_of(1);
    weft_pool *pool = NULL;
    config.background_max = WEFT_WORKERS_MAX + 1;
    assert_int_equal(weft_pool_create(&pool, &config), WEFT_EINVAL);
    atomic_uint count = 0;
    pool = make_pool(1);
    weft_group both = GROUP_OF(WEFT_GROUP_URGENT | WEFT_GROUP_BACKGROUND), unknown = GROUP_OF(16);
    assert_int_equal(submit_count(pool, &both, &count), WEFT_EINVAL);
    assert_int_equal(submit_count(pool, &unknown, &count), WEFT_EINVAL);
    assert_int_equal(weft_group_boost(NULL, NULL), WEFT_EINVAL);
    end_pool(pool);
    pool = pool_of(1, 0, WEFT_POOL_ORDERED);
    weft_group urgent = GROUP_OF(WEFT_GROUP_URGENT), background = GROUP_OF(WEFT_GROUP_BACKGROUND);
    assert_int_equal(submit_count(pool, &urgent, &count), WEFT_EINVAL);
    assert_int_equal(submit_count(pool, &background, &count), WEFT_EINVAL);
    assert_int_equal(weft_group_boost(pool, NULL), WEFT_EINVAL);
    end_pool(pool);
    assert_int_equal(atomic_load(&count), 0);
}

/* ---- all at once -------------------------------------------------------------------------------------------------- */

static struct {
    weft_pool *pool;
    atomic_uint running, most, count;
} crowd;

static int background_task(void *payload, weft_worker *self) {
    (void)payload;
    (void)self;
    unsigned running = atomic_fetch_add(&crowd.running, 1) + 1;
    unsigned most = atomic_load(&crowd.most);
    while (running > most && !atomic_compare_exchange_weak(&crowd.most, &most, running)) {}
    sched_yield();
    atomic_fetch_sub(&crowd.running, 1);
    atomic_fetch_add(&crowd.count, 1);
    return 0;
}
static void *crowd_thread(void *argument) {
    unsigned seed = *(unsigned *)argument;
    atomic_uint *counter = &crowd.count;
    for (unsigned round = 0; round < 300; round++) {
        weft_group background = GROUP_OF(WEFT_GROUP_BACKGROUND), urgent = GROUP_OF(WEFT_GROUP_URGENT),
                   normal = WEFT_GROUP_INIT;
        weft_group lifted = WEFT_GROUP_INIT;
        for (unsigned i = 0; i < 20; i++) {
            seed = seed * 1103515245 + 12345;
            switch (seed >> 16 & 3) {
            case 0: REQUIRE(weft_submit(crowd.pool, &background, background_task, &i, sizeof i) == WEFT_OK); break;
            case 1: REQUIRE(submit_count(crowd.pool, &urgent, counter) == WEFT_OK); break;
            case 2: REQUIRE(submit_count(crowd.pool, &normal, counter) == WEFT_OK); break;
            default: REQUIRE(submit_count(crowd.pool, &lifted, counter) == WEFT_OK); break;
            }
        }
        REQUIRE(weft_group_boost(crowd.pool, &lifted) == WEFT_OK);
        REQUIRE(weft_group_wait(crowd.pool, &urgent) == WEFT_OK);
        REQUIRE(weft_group_wait(crowd.pool, &background) == WEFT_OK);
        REQUIRE(weft_group_wait(crowd.pool, &lifted) == WEFT_OK);
        REQUIRE(weft_group_wait(crowd.pool, &normal) == WEFT_OK);
    }
    return NULL;
}
static void test_crowd(void **state) {
    (void)state;
    static const unsigned workers[] = {1, 2, 4};
    for (unsigned w = 0; w < 3; w++) {
        crowd.pool = pool_of(workers[w], workers[w] / 2, WEFT_POOL_NO_HELP);
        atomic_store(&crowd.count, 0);
        atomic_store(&crowd.most, 0);
        pthread_t threads[3];
        unsigned seeds[3] = {1, 2, 3};
        for (unsigned i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, crowd_thread, &seeds[i]), 0);
        for (unsigned i = 0; i < 3; i++) pthread_join(threads[i], NULL);
        assert_int_equal(atomic_load(&crowd.count), 3 * 300 * 20);
        assert_in_range(atomic_load(&crowd.most), 1, workers[w] == 4 ? 2 : 1);
        end_pool(crowd.pool);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_boost),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_spare_stands_in),
        cmocka_unit_test(test_spare_stands_in_after_resize),
        cmocka_unit_test(test_spare_stands_in_after_section),
        cmocka_unit_test(test_ways_round_the_slots),
        cmocka_unit_test(test_blocked_ones_give_their_slot),
        cmocka_unit_test(test_sleeping_ones_give_their_slot),
        cmocka_unit_test(test_nobody_helps_a_background_task),
        cmocka_unit_test(test_nobody_helps_what_a_wait_runs),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_crowd),
    };
    choose_cases(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
