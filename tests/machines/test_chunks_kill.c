/* test_chunks_kill.c: workers killed by SIGKILL at random moments, and new ones in their place, until the queue is done. Each
 * chunk's output is written to a name of its own and renamed; at the end the outputs are added up.
 *
 *     WEFT_TEST_KILLS=1000 test_chunks_kill
 *
 * Half the queues are worked on by processes that look like those of other machines to each other, so that only leases tell. */
#include "chunks_help.h"

#include <sys/mman.h>

enum { WORKERS = 3, CHUNKS = 48, CHUNK = 7 };

static char base[PATH_BYTES], place[PATH_BYTES + 16];
static int is_remote; /* no worker can see that another one's process has ended */

static uint64_t random_state;
static uint64_t random_next(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void output_path(char path[PATH_BYTES + 64], size_t chunk) {
    snprintf(path, PATH_BYTES + 64, "%s/out.%zu", base, chunk);
}

static uint64_t value_of(size_t index) { return (index + 1) * UINT64_C(0x9e3779b97f4a7c15); }

/* One call for each chunk. */
static int body(size_t begin, size_t end, void *context, weft_worker *self) {
    char path[PATH_BYTES + 64], own[PATH_BYTES + 96];
    uint64_t sum = 0;
    (void)context;
    (void)self;
    REQUIRE(records_of(place, begin / CHUNK, "done") == 0); /* what is finished is not begun again */
    for (size_t i = begin; i < end; i++) sum += value_of(i);
    output_path(path, begin / CHUNK);
    snprintf(own, sizeof own, "%s.%d", path, (int)getpid());
    int fd = open(own, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    for (size_t i = 0; i < sizeof sum; i++) REQUIRE(write(fd, (char *)&sum + i, 1) == 1);
    REQUIRE(fsync(fd) == 0 && close(fd) == 0 && rename(own, path) == 0);
    return 0;
}

/* The space of pids that this process is in: one of its own, where it is to look like another machine's. */
int __real_stat(const char *path, struct stat *about);
int __wrap_stat(const char *path, struct stat *about);
int __wrap_stat(const char *path, struct stat *about) {
    int result = __real_stat(path, about);
    if (is_remote && strcmp(path, "/proc/self/ns/pid") == 0) about->st_ino += (ino_t)getpid();
    return result;
}

static int work(void) {
    weft_chunks *queue = open_queue(place);
    weft_pool *pool = make_pool(1);
    const weft_chunks_work work = {.pool = pool, .grain = SIZE_MAX, .body = body};
    int error = weft_chunks_for(queue, &work);
    end_pool(pool);
    close_queue(queue);
    return error;
}

static pid_t start(void) {
    fflush(NULL);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) _exit(work() == WEFT_OK ? 0 : 1);
    return child;
}

/* Every chunk is in the sum once, and the journal says so. */
static void check(void) {
    uint64_t sum = 0, all = 0;
    for (size_t chunk = 0; chunk < CHUNKS; chunk++) {
        char path[PATH_BYTES + 64];
        uint64_t part = 0;
        output_path(path, chunk);
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        assert_int_equal(fread(&part, sizeof part, 1, file), 1);
        fclose(file);
        sum += part;
        assert_int_equal(records_of(place, chunk, "done"), 1);
    }
    for (size_t i = 0; i < (size_t)CHUNKS * CHUNK; i++) all += value_of(i);
    assert_true(sum == all);
    weft_chunks *queue = open_queue(place);
    assert_int_equal(weft_chunks_result(queue), WEFT_OK);
    close_queue(queue);
}

/* Runs one queue to its end; returns how many workers were killed. */
static unsigned queue_run(unsigned kills_max) {
    weft_chunks_plan plan = plan_of((size_t)CHUNKS * CHUNK, CHUNK);
    plan.losses = UINT32_MAX; /* any may lose as many as are killed */
    plan.lease_ms = is_remote ? 100 : 30000;
    REQUIRE(weft_chunks_create(place, &plan) == WEFT_OK);
    pid_t workers[WORKERS];
    unsigned kills = 0;
    for (int i = 0; i < WORKERS; i++) workers[i] = start();
    while (kills < kills_max) {
        const struct timespec moment = {0, (long)(random_next() % 8000000)};
        nanosleep(&moment, NULL);
        unsigned victim = (unsigned)(random_next() % WORKERS);
        kill(workers[victim], SIGKILL);
        int status = child_status(workers[victim]);
        assert_true(status == 0 || status == 1000 + SIGKILL);
        workers[victim] = start();
        if (status == 0) break; /* it had finished: the queue is done */
        kills++;
    }
    for (int i = 0; i < WORKERS; i++) assert_int_equal(child_status(workers[i]), 0);
    check();
    return kills;
}

static void test_kill(void **state) {
    (void)state;
    const char *wish = getenv("WEFT_TEST_KILLS"), *seed = getenv("WEFT_TEST_SEED");
    unsigned wanted = wish != NULL ? (unsigned)strtoul(wish, NULL, 10) : 100, kills = 0, queues = 0;
    random_state = (seed != NULL ? strtoull(seed, NULL, 10) : clock_ns()) | 1;
    printf("seed %llu\n", (unsigned long long)random_state);
    while (kills < wanted) {
        base_make(base);
        snprintf(place, sizeof place, "%s/q", base);
        is_remote = (int)(queues++ % 2);
        unsigned left = wanted - kills;
        kills += queue_run(left < 20 ? left : 20);
        tree_remove(base);
    }
    printf("%u workers killed in %u queues of %d chunks: each chunk counted once\n", kills, queues, CHUNKS);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kill)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
