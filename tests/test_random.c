/* test_random.c: programs drawn from seeds (verify/program.h) on real threads, held against verify/spec.c. A failure prints the
 * program's seed, and the program as C; so does a watchdog when one hangs.
 *
 *     WEFT_TEST_SEED=n     the first seed (1)
 *     WEFT_TEST_POOLS=n    how many programs
 *     WEFT_TEST_MINUTES=n  as many as there is time for, instead
 *     WEFT_TEST_WORKERS=n  workers of each pool
 *     WEFT_TEST_HANG_S=n   a program that takes longer hangs (300) */
#define _GNU_SOURCE
#include "pool_help.h"
#include "../verify/play.h"
#include "../verify/spec.h"

enum { ENDED_GROUPS = 256, POISON = 0xa5, HANG_S = 300 };

static struct {
    struct program program;
    atomic_ulong seed;
    atomic_uint_least64_t begun_ns; /* of the program that runs; 0: none */
    weft_group *_Atomic ended[ENDED_GROUPS];
    atomic_uint ended_count;
    mask known[PROGRAM_THREADS];
} world;

/* Many short tasks; deep and narrow; and all of everything. */
static const struct program_limits shapes[] = {{.threads = 8,
                                                .workers = 5,
                                                .depth = 3,
                                                .ops = 7,
                                                .tasks = 4000,
                                                .count = 300,
                                                .nested = 12,
                                                .pools = 3,
                                                .payload = 5000,
                                                .inline_max = 2032,
                                                .nodes = 48},
                                               {.threads = 3,
                                                .workers = 3,
                                                .depth = 4,
                                                .ops = 5,
                                                .tasks = 600,
                                                .count = 12,
                                                .nested = 60,
                                                .pools = 2,
                                                .payload = 600,
                                                .inline_max = 600,
                                                .nodes = 8},
                                               {.threads = 2,
                                                .workers = 2,
                                                .depth = 1,
                                                .ops = 8,
                                                .tasks = 9000,
                                                .count = 2000,
                                                .nested = 3,
                                                .pools = 1,
                                                .payload = 112,
                                                .inline_max = 112,
                                                .nodes = 12}};

/* ---- the world of a program --------------------------------------------------------------------------------------- */

static _Thread_local struct here here;

void *world_alloc(size_t bytes) {
    void *memory = malloc(bytes + (bytes == 0));
    REQUIRE(memory != NULL);
    return memory;
}
void world_free(void *memory) { free(memory); }
void world_reads(const void *memory, size_t bytes) { (void)memory, (void)bytes; }
void world_writes(const void *memory, size_t bytes) { (void)memory, (void)bytes; }
void world_step(void) { sched_yield(); }
uint64_t world_now_ns(void) { return clock_ns(); }
struct here *world_here(void) {
    return &here;
}

static void tell(const char *what) {
    fprintf(stderr, "WEFT_TEST_SEED=%lu: %s\n", atomic_load(&world.seed), what);
    program_print(&world.program, stderr);
    if (play.pool != NULL) weft_pool_dump(play.pool, STDERR_FILENO);
}

void world_fail(const char *text) {
    static atomic_flag told;
    if (atomic_flag_test_and_set(&told)) pause(); /* one is enough */
    tell(text);
    _exit(99);
}

static void ended_check(weft_group *group) {
    const unsigned char *bytes = (const unsigned char *)group;
    for (size_t i = 0; group != NULL && i < sizeof *group; i++)
        if (bytes[i] != POISON) world_fail("a weft_group was written after the last wait for it");
    free(group);
}

/* Kept for a while, to see that nobody writes it. */
void world_group_end(weft_group *group) {
    memset(group, POISON, sizeof *group);
    ended_check(atomic_exchange(&world.ended[atomic_fetch_add(&world.ended_count, 1) % ENDED_GROUPS], group));
}

/* ---- running ------------------------------------------------------------------------------------------------------ */

static unsigned long number_of(const char *name, unsigned long otherwise) {
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtoul(text, NULL, 10);
}

static void *thread_main(void *known) {
    play_thread((uint32_t)((mask *)known - world.known), known);
    return NULL;
}

static void run_pool(uint32_t index) {
    const struct program_pool *pool = &world.program.pool[index];
    pthread_t threads[PROGRAM_THREADS];
    mask known = {{0}};
    play_begin(index);
    for (uint32_t i = 0; i < pool->threads; i++)
        REQUIRE(pthread_create(&threads[i], NULL, thread_main, &world.known[i]) == 0);
    for (uint32_t i = 0; i < pool->threads; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);
    for (uint32_t i = 0; i < pool->threads; i++)
        for (uint32_t k = 0; k < KNOWN / 64; k++) known.word[k] |= world.known[i].word[k];
    play_end(&known);
}

static void run_program(unsigned long seed) {
    const struct program_limits *limits = &shapes[seed % (sizeof shapes / sizeof shapes[0])];
    unsigned long workers = number_of("WEFT_TEST_WORKERS", 0);
    atomic_store(&world.seed, seed);
    program_draw(&world.program, seed, limits);
    atomic_store(&world.begun_ns, clock_ns());
    play_reset(&world.program, limits);
    for (uint32_t i = 0; i < world.program.pools; i++) {
        if (workers != 0) world.program.pool[i].workers = (uint32_t)workers;
        run_pool(i);
    }
    play_finish();
    for (size_t i = 0; i < ENDED_GROUPS; i++) ended_check(atomic_exchange(&world.ended[i], NULL));
    atomic_store(&world.begun_ns, 0);
}

static void *watch(void *limit_s) {
    uint64_t limit_ns = *(const unsigned long *)limit_s * UINT64_C(1000000000);
    for (;;) {
        sleep(1);
        uint64_t begun_ns = atomic_load(&world.begun_ns), now_ns = clock_ns();
        if (begun_ns != 0 && now_ns > begun_ns && now_ns - begun_ns > limit_ns) world_fail("it hangs");
    }
    return NULL;
}

static void test_programs(void **state) {
    (void)state;
    static unsigned long hang_s;
    unsigned long first = number_of("WEFT_TEST_SEED", 1), minutes = number_of("WEFT_TEST_MINUTES", 0),
                  count = number_of("WEFT_TEST_POOLS", SANITIZED || is_emulated() ? 200 : 1000), done = 0;
    uint64_t start_ns = clock_ns(), end_ns = start_ns + minutes * UINT64_C(60000000000);
    pthread_t watchdog;
    hang_s = number_of("WEFT_TEST_HANG_S", HANG_S);
    REQUIRE(pthread_create(&watchdog, NULL, watch, &hang_s) == 0);
    REQUIRE(pthread_detach(watchdog) == 0);
    for (; minutes != 0 ? clock_ns() < end_ns : done < count; done++) run_program(first + done);
    double seconds = (double)(clock_ns() - start_ns) / 1e9;
    printf("%lu programs, %llu tasks, %.0f s: %.0f programs/s, %.0f tasks/s; seeds %lu to %lu\n", done,
           (unsigned long long)play.tasks, seconds, (double)done / seconds, (double)play.tasks / seconds, first,
           first + done - 1);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_programs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
