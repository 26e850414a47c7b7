/* test_work.c: no ready task waits while a worker is idle; bounded queues; blocking sections; interrupted sleeps. Events
 * decide, not times: what must not happen shows as a test that never ends. */
#define _GNU_SOURCE
#include "pool_help.h"

#include <signal.h>

/* ---- work-conservation -------------------------------------------------------------------------------------------- */

enum { BLOCKERS_MAX = 7 };

/* `blockers` tasks stay until all `others` have run. */
typedef struct crowd {
    sem_t ran[BLOCKERS_MAX]; /* one for each blocker, posted by each of the others */
    unsigned blockers, others;
} crowd;

typedef struct member {
    crowd *crowd;
    int blocker; /* which; -1: one of the others */
} member;

static int member_task(void *payload, weft_worker *self) {
    (void)self;
    const member *m = payload;
    if (m->blocker < 0)
        for (unsigned i = 0; i < m->crowd->blockers; i++) sem_post(&m->crowd->ran[i]);
    else
        for (unsigned i = 0; i < m->crowd->others; i++) await(&m->crowd->ran[m->blocker]);
    return 0;
}

static void crowd_init(crowd *c, unsigned blockers, unsigned others) {
    c->blockers = blockers;
    c->others = others;
    for (unsigned i = 0; i < blockers; i++) REQUIRE(sem_init(&c->ran[i], 0, 0) == 0);
}

/* The blockers stand at place `first` and after among the submissions. */
static void crowd_submit(weft_pool *pool, weft_group *group, crowd *c, unsigned first) {
    for (unsigned i = 0; i < c->blockers + c->others; i++) {
        bool blocks = i >= first && i < first + c->blockers;
        const member m = {c, blocks ? (int)(i - first) : -1};
        REQUIRE(weft_submit(pool, group, member_task, &m, sizeof m) == WEFT_OK);
    }
}

static void warm_up(weft_pool *pool, unsigned tasks) {
    weft_group group = WEFT_GROUP_INIT;
    for (unsigned i = 0; i < tasks; i++) REQUIRE(weft_submit(pool, &group, empty_task, NULL, 0) == WEFT_OK);
    REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
}

static weft_pool *pool_without_help(uint32_t workers, uint32_t flags) {
    weft_config config = config_of(workers);
    config.flags = flags | WEFT_POOL_NO_HELP;
    return make_pool_with(&config);
}

/* `tiny` empty tasks before each crowd make the pool claim many at once. */
static void crowd_rounds(uint32_t workers, unsigned others, unsigned tiny, uint32_t flags) {
    weft_pool *pool = pool_without_help(workers, flags);
    unsigned blockers = workers - 1;
    for (unsigned round = 0; round < (SANITIZED ? 30 : 150); round++) {
        crowd c;
        weft_group group = WEFT_GROUP_INIT;
        crowd_init(&c, blockers, others);
        warm_up(pool, tiny);
        crowd_submit(pool, &group, &c, round % (others + 1));
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    }
    end_pool(pool);
}

static void test_first_blocks_until_the_rest_ran(void **state) {
    (void)state;
    crowd_rounds(2, 7, 0, 0);
    crowd_rounds(2, 7, 3000, 0);
    crowd_rounds(2, 7, 0, WEFT_POOL_ORDERED);
    crowd_rounds(2, 200, 3000, 0);
}

static void test_all_but_one_block(void **state) {
    (void)state;
    crowd_rounds(3, 20, 1000, 0);
    crowd_rounds(8, 50, 1000, 0);
    crowd_rounds(8, 50, 0, WEFT_POOL_ORDERED);
}

/* The same within the pool: a task submits the others and blocks until they have run. */
static int inner_task(void *payload, weft_worker *self) {
    crowd *c = *(crowd **)payload;
    const member others = {c, -1};
    member blocker = {c, 0};
    for (unsigned i = 0; i < c->others; i++)
        REQUIRE(weft_submit(weft_worker_pool(self), NULL, member_task, &others, sizeof others) == WEFT_OK);
    return member_task(&blocker, self);
}

static void test_task_blocks_until_its_own_ran(void **state) {
    (void)state;
    weft_pool *pool = pool_without_help(2, 0);
    for (unsigned round = 0; round < (SANITIZED ? 30 : 300); round++) {
        crowd c, *pointer = &c;
        crowd_init(&c, 1, 7 + round % 100);
        warm_up(pool, round % 3 * 500);
        assert_int_equal(weft_submit(pool, NULL, inner_task, &pointer, sizeof pointer), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
    }
    end_pool(pool);
}

/* A task that waits for a group hands back what its worker had claimed besides. */
static int wait_in_gate_task(void *payload, weft_worker *self) {
    gate *g = *(gate **)payload;
    weft_group below = WEFT_GROUP_INIT;
    weft_pool *pool = weft_worker_pool(self);
    REQUIRE(weft_submit(pool, &below, gate_task, &g, sizeof g) == WEFT_OK);
    REQUIRE(weft_group_wait_until(pool, &below, WEFT_HELP_NONE, 0) == WEFT_OK);
    return 0;
}

static void test_waiting_task_holds_back_nothing(void **state) {
    (void)state;
    weft_pool *pool = pool_without_help(3, 0);
    for (unsigned round = 0; round < (SANITIZED ? 30 : 150); round++) {
        gate g, *pointer = &g;
        gate_init(&g);
        atomic_uint counter = 0;
        weft_group group = WEFT_GROUP_INIT, rest = WEFT_GROUP_INIT;
        warm_up(pool, round % 3 * 1000);
        assert_int_equal(weft_submit(pool, &group, wait_in_gate_task, &pointer, sizeof pointer), WEFT_OK);
        for (int i = 0; i < 20; i++) assert_int_equal(submit_count(pool, &rest, &counter), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &rest), WEFT_OK); /* the gate is still shut */
        assert_int_equal(atomic_load(&counter), 20);
        gate_open(&g);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    }
    end_pool(pool);
}

/* One task blocks for long while very many pass: the queue's memory does not grow with them. */
static void test_very_many_pass_a_blocked_task(void **state) {
    (void)state;
    enum { BATCH = SANITIZED ? 500 : 5000, BATCHES = SANITIZED ? 2000 : 20000, EARLY = BATCHES / 20 }; /* 10^8 */
    weft_pool *pool = pool_without_help(2, 0);
    gate g;
    weft_group blocked = WEFT_GROUP_INIT, group = WEFT_GROUP_INIT;
    atomic_uint counter = 0;
    uint64_t early_bytes = 0;
    gate_occupy(&g, pool, &blocked);
    for (unsigned batch = 0; batch < BATCHES; batch++) {
        for (unsigned i = 0; i < BATCH; i++) assert_int_equal(submit_count(pool, &group, &counter), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
        if (batch == EARLY) early_bytes = stats_of(pool).queue_bytes;
    }
    assert_true(early_bytes > 0);
    assert_true(stats_of(pool).queue_bytes <= 2 * early_bytes);
    assert_int_equal(atomic_load(&counter), BATCH * BATCHES);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &blocked), WEFT_OK);
    end_pool(pool);
}

/* ---- bounded queues ----------------------------------------------------------------------------------------------- */

static weft_pool *bounded(uint32_t workers, uint64_t queue_max, uint32_t full) {
    weft_config config = config_of(workers);
    config.queue_max = queue_max;
    config.full = full;
    config.flags = WEFT_POOL_NO_HELP;
    return make_pool_with(&config);
}

static void test_bounded_error(void **state) {
    (void)state;
    weft_pool *pool = bounded(1, 4, WEFT_FULL_ERROR);
    for (int round = 0; round < 100; round++) {
        gate g;
        atomic_uint counter = 0;
        gate_occupy(&g, pool, NULL);
        for (int i = 0; i < 4; i++) assert_int_equal(submit_count(pool, NULL, &counter), WEFT_OK);
        for (int i = 0; i < 4; i++) assert_int_equal(submit_count(pool, NULL, &counter), WEFT_EFULL);
        gate_open(&g);
        assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
        assert_int_equal(atomic_load(&counter), 4);
    }
    end_pool(pool);
}

typedef struct where {
    pthread_t caller;
    bool inline_run;
} where;

static int where_task(void *payload, weft_worker *self) {
    (void)self;
    where *w = *(where **)payload;
    w->inline_run = pthread_equal(pthread_self(), w->caller) != 0;
    return 31;
}

static void test_bounded_run(void **state) {
    (void)state;
    weft_pool *pool = bounded(1, 2, WEFT_FULL_RUN);
    for (int round = 0; round < 100; round++) {
        gate g;
        atomic_uint counter = 0;
        weft_group group = WEFT_GROUP_INIT;
        where w = {pthread_self(), false}, *pointer = &w;
        gate_occupy(&g, pool, NULL);
        for (int i = 0; i < 2; i++) assert_int_equal(submit_count(pool, NULL, &counter), WEFT_OK);
        assert_int_equal(weft_submit(pool, &group, where_task, &pointer, sizeof pointer), WEFT_OK);
        assert_true(w.inline_run); /* "before returning" */
        assert_int_equal(weft_group_wait(pool, &group), 31);
        gate_open(&g);
        assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
        assert_int_equal(atomic_load(&counter), 2);
    }
    end_pool(pool);
}

typedef struct submitter {
    weft_pool *pool;
    atomic_uint *counter;
    atomic_uint submitted;
    unsigned tasks;
} submitter;

static void *submit_thread(void *argument) {
    submitter *s = argument;
    for (unsigned i = 0; i < s->tasks; i++) {
        REQUIRE(submit_count(s->pool, NULL, s->counter) == WEFT_OK);
        atomic_fetch_add(&s->submitted, 1);
    }
    return NULL;
}

static void test_bounded_block(void **state) {
    (void)state;
    weft_pool *pool = bounded(1, 3, WEFT_FULL_BLOCK);
    for (int round = 0; round < 50; round++) {
        gate g;
        atomic_uint counter = 0;
        submitter s = {.pool = pool, .counter = &counter, .tasks = 100};
        pthread_t thread;
        gate_occupy(&g, pool, NULL);
        assert_int_equal(pthread_create(&thread, NULL, submit_thread, &s), 0);
        while (atomic_load(&s.submitted) < 3) sched_yield();
        nap(); /* time in which a queue without a bound would take more */
        assert_int_equal(atomic_load(&s.submitted), 3);
        gate_open(&g);
        pthread_join(thread, NULL);
        assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
        assert_int_equal(atomic_load(&counter), 100);
    }
    end_pool(pool);
}

static void test_bounded_block_many(void **state) {
    (void)state;
    enum { THREADS = 4, TASKS = SANITIZED ? 2000 : 20000 };
    weft_pool *pool = bounded(2, 5, WEFT_FULL_BLOCK);
    atomic_uint counter = 0;
    submitter submitters[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        submitters[i] = (submitter){.pool = pool, .counter = &counter, .tasks = TASKS};
        assert_int_equal(pthread_create(&threads[i], NULL, submit_thread, &submitters[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
    assert_int_equal(atomic_load(&counter), THREADS * TASKS);
    end_pool(pool);
}

/* What finds no room runs at once, before what waits, also where only the pool's own threads run tasks. */
static struct {
    char order[8];
    atomic_uint ran;
    pthread_t here[8];
} early;
static int early_task(void *payload, weft_worker *self) {
    unsigned at = atomic_fetch_add(&early.ran, 1);
    (void)self;
    early.order[at] = *(char *)payload;
    early.here[at] = pthread_self();
    return 0;
}
static int submit_early(void *payload, weft_worker *self) {
    (void)payload;
    for (char name = 'a'; name < 'e'; name++)
        REQUIRE(weft_submit(weft_worker_pool(self), NULL, early_task, &name, 1) == WEFT_OK);
    return 0;
}
static void test_bounded_runs_early(void **state) {
    (void)state;
    const uint32_t flags[] = {WEFT_POOL_ORDERED, WEFT_POOL_NO_HELP};
    for (unsigned i = 0; i < 4; i++) {
        weft_config config = config_of(1);
        config.flags = flags[i % 2];
        config.full = i < 2 ? WEFT_FULL_RUN : WEFT_FULL_BLOCK;
        config.queue_max = 2;
        weft_pool *pool = make_pool_with(&config);
        gate g;
        memset(&early, 0, sizeof early);
        if (i < 2) {
            gate_occupy(&g, pool, NULL);
            for (char name = 'a'; name < 'e'; name++)
                assert_int_equal(weft_submit(pool, NULL, early_task, &name, 1), WEFT_OK);
            assert_int_equal(atomic_load(&early.ran), 2);
            gate_open(&g);
        } else {
            assert_int_equal(weft_submit(pool, NULL, submit_early, NULL, 0), WEFT_OK);
        }
        assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
        end_pool(pool);
        assert_string_equal(early.order, "cdab");
        assert_true(pthread_equal(early.here[0], pthread_self()) != 0 ? i < 2 : i >= 2);
    }
}

/* Tasks that submit to their own full pool. */
static int flood_task(void *payload, weft_worker *self) {
    atomic_uint *counter = *(atomic_uint **)payload;
    weft_pool *pool = weft_worker_pool(self);
    for (int i = 0; i < 100; i++) {
        int error = submit_count(pool, NULL, counter);
        if (error == WEFT_EFULL)
            atomic_fetch_add(counter, 1);
        else
            REQUIRE(error == WEFT_OK);
    }
    return 0;
}

static void test_bounded_from_tasks(void **state) {
    (void)state;
    for (uint32_t full = WEFT_FULL_BLOCK; full <= WEFT_FULL_ERROR; full++)
        for (uint32_t workers = 1; workers <= 3; workers++) {
            weft_pool *pool = bounded(workers, 2, full);
            atomic_uint counter = 0, *pointer = &counter;
            for (int i = 0; i < 20; i++)
                while (weft_submit(pool, NULL, flood_task, &pointer, sizeof pointer) == WEFT_EFULL) sched_yield();
            assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
            assert_int_equal(atomic_load(&counter), 2000);
            end_pool(pool);
        }
}

/* The same while the pool ends, which does not make room. */
typedef struct late_flood {
    gate gate;
    atomic_uint counter;
} late_flood;

static int late_flood_task(void *payload, weft_worker *self) {
    late_flood *late = *(late_flood **)payload;
    atomic_uint *counter = &late->counter;
    sem_post(&late->gate.entered);
    await(&late->gate.opened);
    return flood_task(&counter, self);
}

static void *destroy_thread(void *argument) {
    weft_pool *pool = argument;
    REQUIRE(weft_pool_destroy(&pool) == WEFT_OK);
    return NULL;
}

static void test_bounded_from_tasks_in_destroy(void **state) {
    (void)state;
    for (uint32_t full = WEFT_FULL_BLOCK; full <= WEFT_FULL_ERROR; full++) {
        weft_pool *pool = bounded(1, 2, full);
        late_flood late = {.counter = 0}, *payload = &late;
        atomic_uint counter = 0;
        pthread_t destroying;
        gate_init(&late.gate);
        REQUIRE(weft_submit(pool, NULL, late_flood_task, &payload, sizeof payload) == WEFT_OK);
        await(&late.gate.entered);
        assert_int_equal(pthread_create(&destroying, NULL, destroy_thread, pool), 0);
        while (submit_count(pool, NULL, &counter) != WEFT_ESHUTDOWN) sched_yield();
        gate_open(&late.gate);
        pthread_join(destroying, NULL);
        assert_int_equal(atomic_load(&late.counter), 100);
    }
}

/* A blocked submitter is let go with an answer when the pool ends. */
typedef struct blocked_submitter {
    weft_pool *pool;
    atomic_uint *counter;
    atomic_uint accepted;
    int last;
} blocked_submitter;

static void *submit_until_refused(void *argument) {
    blocked_submitter *b = argument;
    while ((b->last = submit_count(b->pool, NULL, b->counter)) == WEFT_OK) atomic_fetch_add(&b->accepted, 1);
    return NULL;
}

static void test_destroy_with_blocked_submitter(void **state) {
    (void)state;
    for (int round = 0; round < 50; round++) {
        weft_pool *pool = bounded(1, 2, WEFT_FULL_BLOCK);
        gate g;
        atomic_uint counter = 0;
        blocked_submitter b = {.pool = pool, .counter = &counter};
        pthread_t submitting, destroying;
        gate_occupy(&g, pool, NULL);
        assert_int_equal(pthread_create(&submitting, NULL, submit_until_refused, &b), 0);
        while (atomic_load(&b.accepted) < 2) sched_yield();
        assert_int_equal(pthread_create(&destroying, NULL, destroy_thread, pool), 0);
        pthread_join(submitting, NULL); /* it was refused while the gate is shut */
        gate_open(&g);
        pthread_join(destroying, NULL);
        assert_int_equal(b.last, WEFT_ESHUTDOWN);
        assert_int_equal(atomic_load(&counter), atomic_load(&b.accepted));
    }
}

/* ---- turns -------------------------------------------------------------------------------------------------------- */

/* Submits itself again and again, so that its lane never empties, until another task has run; which it may submit first. */
typedef struct chain {
    atomic_uint *stops;
    weft_group *other;
} chain;

static int chain_task(void *payload, weft_worker *self) {
    chain c = *(chain *)payload;
    if (c.other != NULL) REQUIRE(submit_count(weft_worker_pool(self), c.other, c.stops) == WEFT_OK);
    c.other = NULL;
    if (atomic_load(c.stops) == 0) REQUIRE(weft_submit_child(self, chain_task, &c, sizeof c) == WEFT_OK);
    return 0;
}

static void test_lanes_take_turns(void **state) {
    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        weft_pool *pool = pool_without_help(1, 0);
        atomic_uint stops = 0;
        weft_group chained = WEFT_GROUP_INIT, other = WEFT_GROUP_INIT;
        chain c = {&stops, round % 2 ? &other : NULL}; /* of the same thread, or of another */
        assert_int_equal(weft_submit(pool, &chained, chain_task, &c, sizeof c), WEFT_OK);
        if (c.other == NULL) assert_int_equal(submit_count(pool, &other, &stops), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &chained), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &other), WEFT_OK);
        assert_int_equal(atomic_load(&stops), 1);
        end_pool(pool);
    }
}

/* ---- blocking sections -------------------------------------------------------------------------------------------- */

typedef struct section {
    gate *gate;
    int begin, end;
    unsigned depth;
    bool differs; /* an inner begin returned something else */
} section;

static int section_task(void *payload, weft_worker *self) {
    section *s = *(section **)payload;
    for (unsigned i = 0; i < s->depth; i++) {
        int error = weft_block_begin(self);
        if (i == 0) s->begin = error;
        if (error != s->begin) s->differs = true;
    }
    sem_post(&s->gate->entered);
    await(&s->gate->opened);
    for (unsigned i = 0; i < s->depth; i++) {
        int error = weft_block_end(self);
        if (i == 0 || s->end == WEFT_OK) s->end = error;
    }
    return 0;
}

static void section_start(section *s, gate *g, weft_pool *pool, weft_group *group) {
    gate_init(g);
    *s = (section){.gate = g, .begin = 100, .end = 100, .depth = 1 + s->depth};
    REQUIRE(weft_submit(pool, group, section_task, &s, sizeof s) == WEFT_OK);
    await(&g->entered);
}

static void test_spare_stands_in(void **state) {
    (void)state;
    weft_pool *pool = pool_without_help(1, 0);
    for (unsigned round = 0; round < 200; round++) {
        gate g;
        section s = {.depth = round % 3}; /* one to three sections, one in another */
        atomic_uint counter = 0;
        weft_group blocked = WEFT_GROUP_INIT, group = WEFT_GROUP_INIT;
        section_start(&s, &g, pool, &blocked);
        for (int i = 0; i < 20; i++) assert_int_equal(submit_count(pool, &group, &counter), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK); /* although the only worker is in its section */
        gate_open(&g);
        assert_int_equal(weft_group_wait(pool, &blocked), WEFT_OK);
        assert_int_equal(s.begin, WEFT_OK);
        assert_int_equal(s.end, WEFT_OK);
        assert_int_equal(atomic_load(&counter), 20);
    }
    weft_stats stats = stats_of(pool);
    assert_int_equal(stats.spare_started_count, 1);
    assert_int_equal(stats.workers, 1);
    end_pool(pool);
}

static void test_spares_are_capped(void **state) {
    (void)state;
    enum { SPARES = 2 };
    weft_config config = config_of(1);
    config.spares = SPARES;
    config.flags = WEFT_POOL_NO_HELP;
    weft_pool *pool = make_pool_with(&config);
    for (int round = 0; round < 100; round++) {
        gate gates[SPARES + 1];
        section sections[SPARES + 1];
        weft_group group = WEFT_GROUP_INIT;
        for (int i = 0; i <= SPARES; i++) {
            sections[i].depth = (unsigned)(round + i) % 2;
            section_start(&sections[i], &gates[i], pool, &group);
        }
        for (int i = 0; i <= SPARES; i++) gate_open(&gates[round % 2 ? i : SPARES - i]);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
        for (int i = 0; i <= SPARES; i++) {
            assert_int_equal(sections[i].begin, i < SPARES ? WEFT_OK : WEFT_EAGAIN);
            assert_int_equal(sections[i].end, WEFT_OK);
            assert_false(sections[i].differs);
        }
    }
    weft_stats stats = stats_of(pool);
    assert_true(stats.spare_started_count >= 1 && stats.spare_started_count <= SPARES);
    assert_true(stats.spares_peak >= SPARES && stats.spares_peak <= SPARES + 1);
    end_pool(pool);
}

/* Destroy in the middle of blocking sections. */
static void test_destroy_with_open_sections(void **state) {
    (void)state;
    for (int round = 0; round < 50; round++) {
        weft_pool *pool = pool_without_help(2, 0);
        gate g;
        section s = {.depth = 0};
        atomic_uint counter = 0;
        pthread_t thread;
        section_start(&s, &g, pool, NULL);
        for (int i = 0; i < 50; i++) assert_int_equal(submit_count(pool, NULL, &counter), WEFT_OK);
        assert_int_equal(pthread_create(&thread, NULL, destroy_thread, pool), 0);
        while (atomic_load(&counter) < 50) sched_yield();
        gate_open(&g);
        pthread_join(thread, NULL);
        assert_int_equal(s.end, WEFT_OK);
    }
}

static int unpaired_task(void *payload, weft_worker *self) {
    (void)payload;
    REQUIRE(weft_block_end(self) == WEFT_EINVAL);
    int begin = weft_block_begin(self);
    REQUIRE(begin == WEFT_OK || begin == WEFT_EAGAIN);
    REQUIRE(weft_block_end(self) == WEFT_OK);
    REQUIRE(weft_block_end(self) == WEFT_EINVAL);
    return 0;
}

static void test_unpaired_sections(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    for (int i = 0; i < 200; i++) assert_int_equal(weft_submit(pool, NULL, unpaired_task, NULL, 0), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
    assert_int_equal(weft_block_begin(NULL), WEFT_EINVAL);
    assert_int_equal(weft_block_end(NULL), WEFT_EINVAL);
    end_pool(pool);
}

/* ---- interrupted sleeps ------------------------------------------------------------------------------------------- */

enum { STORM_THREADS = 16 };

typedef struct storm {
    pthread_t threads[STORM_THREADS];
    atomic_uint known; /* of threads */
    atomic_bool over;
} storm;

static atomic_uint signals_seen;

static void on_signal(int number) {
    (void)number;
    atomic_fetch_add(&signals_seen, 1);
}

static void storm_join(storm *s) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    REQUIRE(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
    unsigned index = atomic_fetch_add(&s->known, 1);
    REQUIRE(index < STORM_THREADS);
    s->threads[index] = pthread_self();
}

static void storm_start_hook(weft_worker *self, void *context) {
    (void)self;
    storm_join(context);
}

static void *storm_thread(void *argument) {
    storm *s = argument;
    while (!atomic_load(&s->over)) {
        for (unsigned i = 0; i < atomic_load(&s->known); i++) pthread_kill(s->threads[i], SIGUSR1);
        sched_yield();
    }
    return NULL;
}

static void storm_rounds(weft_pool *pool, unsigned rounds) {
    for (unsigned round = 0; round < rounds; round++) {
        atomic_uint counter = 0;
        weft_group group = WEFT_GROUP_INIT;
        for (unsigned i = 0; i < 1 + round % 50; i++) assert_int_equal(submit_count(pool, &group, &counter), WEFT_OK);
        enum weft_help help = round % 2 ? WEFT_HELP_NONE : WEFT_HELP_BELOW;
        assert_int_equal(weft_group_wait_until(pool, &group, help, 0), WEFT_OK);
        assert_int_equal(atomic_load(&counter), 1 + round % 50);
        if (round % 100 == 0) nap(); /* all go to sleep */
    }
}

static void test_signals(void **state) {
    (void)state;
    static storm s;
    struct sigaction action, before;
    memset(&s, 0, sizeof s);
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal; /* no SA_RESTART: every sleep in the kernel ends with EINTR */
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    weft_config config = config_of(3);
    config.start = storm_start_hook;
    config.context = &s;
    config.queue_max = 20;
    weft_pool *pool = make_pool_with(&config);
    storm_join(&s);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, storm_thread, &s), 0);
    while (atomic_load(&signals_seen) == 0) sched_yield();
    storm_rounds(pool, SANITIZED ? 300 : 2000);
    atomic_store(&s.over, true);
    pthread_join(thread, NULL);
    end_pool(pool);
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_blocks_until_the_rest_ran),
        cmocka_unit_test(test_all_but_one_block),
        cmocka_unit_test(test_task_blocks_until_its_own_ran),
        cmocka_unit_test(test_waiting_task_holds_back_nothing),
        cmocka_unit_test(test_very_many_pass_a_blocked_task),
        cmocka_unit_test(test_bounded_error),
        cmocka_unit_test(test_bounded_run),
        cmocka_unit_test(test_bounded_block),
        cmocka_unit_test(test_bounded_block_many),
        cmocka_unit_test(test_bounded_runs_early),
        cmocka_unit_test(test_bounded_from_tasks),
        cmocka_unit_test(test_bounded_from_tasks_in_destroy),
        cmocka_unit_test(test_destroy_with_blocked_submitter),
        cmocka_unit_test(test_spare_stands_in),
        cmocka_unit_test(test_spares_are_capped),
        cmocka_unit_test(test_destroy_with_open_sections),
        cmocka_unit_test(test_unpaired_sections),
        cmocka_unit_test(test_lanes_take_turns),
        cmocka_unit_test(test_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
