/* test_refused_destroy.c: a host's pool destroyed in a task that a job of that pool waits for. The destroy is refused, or
 * the wait is; jobs come up all the while. After a refused destroy every job that was accepted has run or is going to. */
#define _GNU_SOURCE
#include "pool_help.h"

#include <cthreadpool/thpool.h>

#include "task_manager.h"
#include "thread_pool.h"

enum { THREADS = 3, CHAINS = 2, ROUNDS = 20 };

/* ---- the hosts ---------------------------------------------------------------------------------------------------- */

typedef struct host {
    const char *name;
    void *(*make)(void);
    bool (*add)(void *pool, void (*function)(void *), void *argument);
    void (*wait)(void *pool); /* or NULL: it has none */
    void (*destroy)(void *pool);
    bool refuses; /* adds nothing while a destroy waits, and says so */
} host;

static void *make_thpool(void) { return thpool_init(THREADS); }
static bool add_thpool(void *pool, void (*function)(void *), void *argument) {
    return thpool_add_work(pool, function, argument) == 0;
}
static void wait_thpool(void *pool) { thpool_wait(pool); }
static void destroy_thpool(void *pool) { thpool_destroy(pool); }

static void *make_oai(void) {
    ws_task_manager_t *man = malloc(sizeof *man);
    int floating[THREADS] = {-1, -1, -1};
    REQUIRE(man != NULL);
    init_ws_task_manager(man, floating, THREADS);
    return man;
}
static bool add_oai(void *pool, void (*function)(void *), void *argument) {
    async_ws_task_manager(pool, (task_t){argument, function});
    return true;
}
static void destroy_oai(void *pool) {
    ws_task_manager_t *man = pool;
    free_ws_task_manager(man, NULL);
    if (man->q_arr == NULL) free(man);
}

typedef struct vmaf_job {
    void (*function)(void *);
    void *argument;
} vmaf_job;
static void run_vmaf(void *data, void **thread_data) {
    const vmaf_job *job = data;
    (void)thread_data;
    job->function(job->argument);
}
static void *make_vmaf(void) {
    VmafThreadPool *pool = NULL;
    REQUIRE(vmaf_thread_pool_create(&pool, (VmafThreadPoolConfig){.n_threads = THREADS}) == 0);
    return pool;
}
static bool add_vmaf(void *pool, void (*function)(void *), void *argument) {
    vmaf_job job = {function, argument};
    return vmaf_thread_pool_enqueue(pool, run_vmaf, &job, sizeof job) == 0;
}
static void wait_vmaf(void *pool) { REQUIRE(vmaf_thread_pool_wait(pool) == 0); }
static void destroy_vmaf(void *pool) { (void)vmaf_thread_pool_destroy(pool); }

static const host hosts[] = {{"thpool", make_thpool, add_thpool, wait_thpool, destroy_thpool, false},
                             {"oai", make_oai, add_oai, NULL, destroy_oai, false},
                             {"libvmaf", make_vmaf, add_vmaf, wait_vmaf, destroy_vmaf, true}};

/* ---- one round ---------------------------------------------------------------------------------------------------- */

typedef struct scene {
    const host *host;
    void *pool;
    enum weft_help help;
    weft_pool *other;
    weft_group group;
    sem_t waits;
    atomic_int wait_error;
    atomic_uint accepted, ran;
    atomic_bool stop;
} scene;

/* Each link of a chain adds the next: jobs come up one after the other until it is told to stop. */
static void chain_job(void *argument) {
    scene *s = argument;
    atomic_fetch_add(&s->ran, 1);
    if (atomic_load(&s->stop)) return;
    sched_yield();
    atomic_fetch_add(&s->accepted, 1);
    if (s->host->add(s->pool, chain_job, s)) return;
    REQUIRE(s->host->refuses); /* the chain ends, and it was told */
    atomic_fetch_sub(&s->accepted, 1);
}

static int destroy_task(void *payload, weft_worker *self) {
    scene *s = *(scene **)payload;
    (void)self;
    await(&s->waits);
    for (int i = 0; i < 5; i++) nap(); /* most likely the wait sleeps by now: then this is refused, else that */
    s->host->destroy(s->pool);
    return 0;
}

static void waiting_job(void *argument) {
    scene *s = argument;
    REQUIRE(sem_post(&s->waits) == 0);
    atomic_store(&s->wait_error, weft_group_wait_until(s->other, &s->group, s->help, 0));
}

/* Was it refused? */
static bool play(const host *h, enum weft_help help, weft_pool *other) {
    scene *s = calloc(1, sizeof *s);
    REQUIRE(s != NULL && sem_init(&s->waits, 0, 0) == 0);
    s->host = h;
    s->help = help;
    s->other = other;
    atomic_init(&s->wait_error, 1);
    s->pool = h->make();
    /* From here, not from the job: else its group would be below the host's, and the refusal come before anything else. */
    REQUIRE(weft_submit(other, &s->group, destroy_task, &s, sizeof s) == WEFT_OK);
    atomic_store(&s->accepted, CHAINS);
    for (int i = 0; i < CHAINS; i++) REQUIRE(h->add(s->pool, chain_job, s));
    REQUIRE(h->add(s->pool, waiting_job, s));
    while (atomic_load(&s->wait_error) > 0) nap();
    REQUIRE(weft_group_wait(other, &s->group) == WEFT_OK);
    const bool is_refused = atomic_load(&s->wait_error) == WEFT_OK;
    if (is_refused) {
        for (int i = 0; i < 3; i++) nap();
        atomic_store(&s->stop, true);
        if (h->wait != NULL) h->wait(s->pool);
        while (atomic_load(&s->ran) != atomic_load(&s->accepted)) nap(); /* for ever, if one was lost */
        h->destroy(s->pool);
    } else {
        assert_int_equal(atomic_load(&s->wait_error), WEFT_EDEADLK);
    }
    sem_destroy(&s->waits);
    free(s);
    return is_refused;
}

static void test_nothing_is_lost(void **state) {
    (void)state;
    const enum weft_help helps[] = {WEFT_HELP_NONE, WEFT_HELP_BELOW};
    weft_pool *other = NULL; /* the hosts' own: circles are seen within one pool */
    assert_int_equal(weft_pool_default(&other), WEFT_OK);
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        int refused = 0;
        for (int round = 0; round < ROUNDS; round++) refused += play(&hosts[i], helps[round % 2], other);
        print_message("%s: %d of %d refused\n", hosts[i].name, refused, ROUNDS);
    }
    end_pool(other);
}

int main(void) {
    /* One for the task that destroys, one for the job that waits, one for the chains, on any machine. */
    REQUIRE(setenv("WEFT_WORKERS", "3", 1) == 0);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nothing_is_lost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
