/* test_conditions.c: what happens to a program while a scene calls every function of weft.h (fault_scene.c): signals, stops,
 * other affinities, other quotas, fork, exit. Every call does what it is for all the same.
 *
 *     test_conditions [--all] [CONDITION]
 *
 * --all, or WEFT_TEST_ALL=1: often. Moments are drawn from WEFT_TEST_SEED. Steps of the wall clock cannot reach the library:
 * test_faults.c counts that it never asks for that clock. */
#define _GNU_SOURCE
#include "fault_run.h"

#include <execinfo.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>

static bool is_all;

/* ---- what disturbs ------------------------------------------------------------------------------------------------ */

static atomic_bool scene_over;

/* By system calls, as the library's own files are: ThreadSanitizer knows the numbers of neither, and so sees no race between
 * a file closed by one and another that gets its number. */
enum { THREADS = 64 };
static unsigned threads_of(pid_t threads[THREADS]) {
    struct entry { /* of getdents64 */
        uint64_t inode, offset;
        uint16_t size;
        uint8_t type;
        char name[];
    };
    static char bytes[8192] __attribute__((aligned(8))); /* of one disturbing thread at a time */
    unsigned count = 0;
    long tasks = syscall(SYS_openat, AT_FDCWD, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    REQUIRE(tasks >= 0);
    for (long got; (got = syscall(SYS_getdents64, tasks, bytes, sizeof bytes)) > 0;) {
        for (long at = 0; at < got && count < THREADS;) {
            const struct entry *entry = (const void *)(bytes + at);
            if (entry->name[0] != '.') threads[count++] = (pid_t)strtol(entry->name, NULL, 10);
            at += entry->size;
        }
    }
    syscall(SYS_close, tasks);
    return count;
}

static void pause_us(unsigned us) {
    const struct timespec time = {us / 1000000, (long)(us % 1000000) * 1000};
    nanosleep(&time, NULL);
}

static bool scene_is_left; /* exit is to come */

static void *scene_thread(void *stack_size) {
    const struct scene scene = {.is_strict = true, .is_left = scene_is_left, .stack_size = *(const size_t *)stack_size};
    scene_run(&scene);
    return NULL;
}

/* The scene, `rounds` times, while another thread does something to it. */
static void scene_under(void *(*disturb)(void *), unsigned rounds, size_t stack_size) {
    atomic_store(&scene_over, false);
    pthread_t other;
    if (disturb != NULL) other = thread_begin(disturb, NULL);
    for (unsigned i = 0; i < rounds; i++) thread_end(thread_begin(scene_thread, &stack_size));
    atomic_store(&scene_over, true);
    if (disturb != NULL) thread_end(other);
}

/* ---- signals ------------------------------------------------------------------------------------------------------ */

/* Workers leave SIGPROF open, and no other that a program can use like this. */
static void on_signal(int number) {
    (void)number;
    atomic_fetch_add(&shared->events, 1);
}

static void install(void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler}; /* no SA_RESTART */
    REQUIRE(sigaction(SIGPROF, &action, NULL) == 0);
}

static void *storm(void *nothing) {
    pid_t threads[THREADS];
    while (!atomic_load(&scene_over)) {
        unsigned count = threads_of(threads);
        for (unsigned i = 0; i < count; i++)
            if (threads[i] != thread_id()) syscall(SYS_tgkill, getpid(), threads[i], SIGPROF);
        pause_us(100);
    }
    return nothing;
}

static void under_storm(void) {
    install(on_signal);
    scene_under(storm, 3, 0);
}

static void on_stop(int number) {
    (void)number;
    const struct timespec second = {1, 0};
    int saved = errno;
    clock_nanosleep(CLOCK_MONOTONIC, 0, &second, NULL);
    errno = saved;
    atomic_fetch_add(&shared->events, 1);
}

/* One thread, at any moment, does not go on for a second. */
static void *stopper(void *nothing) {
    pid_t threads[THREADS];
    pause_us(draw(15000));
    for (int tries = 0; tries < 20 && !atomic_load(&scene_over); tries++) {
        pid_t victim = threads[draw(threads_of(threads))];
        if (victim == thread_id() || syscall(SYS_tgkill, getpid(), victim, SIGPROF) != 0) continue;
        break;
    }
    return nothing;
}

static void under_stop(void) {
    install(on_stop);
    scene_under(stopper, 1, 0);
}

/* ---- CPUs --------------------------------------------------------------------------------------------------------- */

static cpu_set_t cpus_at_first;

static void *mover(void *nothing) {
    pid_t threads[THREADS];
    while (!atomic_load(&scene_over)) {
        unsigned count = threads_of(threads);
        for (unsigned i = 0; i < count; i++) {
            cpu_set_t wish = cpus_at_first;
            unsigned kept = draw(3);
            for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
                if (kept != 2 && cpu % 2 != kept && CPU_COUNT(&wish) > 1) CPU_CLR(cpu, &wish);
            CPU_AND(&wish, &wish, &cpus_at_first);
            if (sched_setaffinity(threads[i], sizeof wish, &wish) == 0) atomic_fetch_add(&shared->events, 1);
        }
        pause_us(200);
    }
    return nothing;
}

static void under_moves(void) { scene_under(mover, 3, 0); }

static void on_one_cpu(void) {
    cpu_set_t one;
    unsigned cpu = 0;
    while (!CPU_ISSET(cpu, &cpus_at_first)) cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    REQUIRE(weft_cpu_count() == 1);
    scene_under(NULL, 2, 0);
}

static char group_path[64]; /* a control group of its own; empty: none to be had */
static pid_t group_maker;

static bool group_write(const char *name, const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", group_path, name);
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0) return false;
    bool done = write(file, text, strlen(text)) == (ssize_t)strlen(text);
    return close(file) == 0 && done;
}

static void *quota_changer(void *nothing) {
    static const char *const quotas[] = {"20000", "-1", "50000", "150000"};
    while (!atomic_load(&scene_over)) {
        if (group_write("cpu.cfs_quota_us", quotas[draw(4)])) atomic_fetch_add(&shared->events, 1);
        pause_us(5000);
    }
    REQUIRE(group_write("cpu.cfs_quota_us", "-1"));
    return nothing;
}

static void under_quotas(void) {
    char self[16];
    snprintf(self, sizeof self, "%d", (int)getpid());
    REQUIRE(group_write("cgroup.procs", self));
    REQUIRE(group_write("cpu.cfs_quota_us", "50000") && weft_cpu_count() == 1);
    scene_under(quota_changer, 3, 0);
}

/* ---- small stacks ------------------------------------------------------------------------------------------------- */

static void on_small_stacks(void) { scene_under(NULL, 3, 16384); }

/* ---- fork --------------------------------------------------------------------------------------------------------- */

static weft_pool *fork_pool; /* the parent's */
static weft_graph *fork_graph;

static int nothing_range(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)begin, (void)end, (void)context, (void)self;
    return 0;
}

static int nothing_tile(const weft_tile *tile, void *context, weft_worker *self) {
    (void)tile, (void)context, (void)self;
    return 0;
}

static int nothing_leaf(size_t begin, size_t end, void *value, void *context, weft_worker *self) {
    (void)value;
    return nothing_range(begin, end, context, self);
}

static void nothing_combine(void *left, const void *right, void *context) { (void)left, (void)right, (void)context; }

static int nothing_compare(const void *left, const void *right, void *context) {
    (void)left, (void)right, (void)context;
    return 0;
}

static void not_told(void *payload, int result, int has_ended) { (void)payload, (void)result, (void)has_ended; }

#define FORKED(call) REQUIRE((call) == WEFT_EFORK)

/* Of the parent's pool: what refuses says so, what only reads may be called. */
static void parents_pool_is_refused(void) {
    weft_group group = WEFT_GROUP_INIT, other = WEFT_GROUP_INIT;
    const weft_object object = {sizeof(int), empty_task, NULL};
    const weft_reduction how = {sizeof(int), nothing_leaf, nothing_combine, NULL, NULL};
    const weft_order order = {sizeof(int), nothing_compare, NULL};
    weft_fork_slot *here;
    int items[5000] = {0};
    FORKED(weft_submit(fork_pool, &group, empty_task, NULL, 0));
    FORKED(weft_submit_after(fork_pool, (weft_after){&group, &other}, empty_task, NULL, 0));
    FORKED(weft_submit_plain(fork_pool, &group, empty_task, items, sizeof *items));
    FORKED(weft_submit_object(fork_pool, &group, &object, items));
    FORKED(weft_submit_after_object(fork_pool, (weft_after){&group, &other}, &object, items));
    FORKED(weft_submit_await(fork_pool, (weft_after){&group, &other}, &object, items, not_told));
    FORKED(weft_run(fork_pool, &group, empty_task, NULL));
    FORKED(weft_group_wait(fork_pool, NULL));
    FORKED(weft_group_wait_until(fork_pool, &group, WEFT_HELP_ANY, 1));
    FORKED(weft_group_cancel(fork_pool, &group));
    FORKED(weft_group_boost(fork_pool, &group));
    FORKED(weft_group_deadline(fork_pool, &group, 1));
    FORKED(weft_pool_expect(fork_pool, 1, 1));
    FORKED(weft_for(fork_pool, (weft_range){0, 10, 1}, nothing_range, NULL));
    FORKED(weft_for_tiles(fork_pool, (weft_tiles){{0, 10, 1}, {0, 10, 1}}, nothing_tile, NULL));
    FORKED(weft_reduce(fork_pool, (weft_range){0, 10, 1}, &how, items));
    FORKED(weft_sort(fork_pool, items, 5000, &order));
    FORKED(weft_graph_run(fork_pool, fork_graph));
    FORKED(weft_graph_cancel(fork_pool, fork_graph));
    FORKED(weft_fork_enter(fork_pool, &here));
    FORKED(weft_trace_start(fork_pool));
    FORKED(weft_trace_stop(fork_pool));
    weft_stats stats = {.struct_size = sizeof stats};
    REQUIRE(weft_pool_stats(fork_pool, &stats) == WEFT_OK && weft_pool_workers(fork_pool) == 2);
    FORKED(weft_pool_destroy(&fork_pool));
    REQUIRE(fork_pool == NULL);
}

static pthread_barrier_t both;

/* What the child's threads do at once, when nothing has been done in it yet. */
static void *first_use(void *nothing) {
    weft_pool *own = NULL, *shared_one = NULL;
    atomic_uint counter = 0;
    pthread_barrier_wait(&both);
    REQUIRE(weft_pool_default(&shared_one) == WEFT_OK);
    REQUIRE(weft_pool_create(&own, NULL) == WEFT_OK);
    for (int i = 0; i < 50; i++) {
        REQUIRE(submit_count(own, NULL, &counter) == WEFT_OK);
        weft_group group = WEFT_GROUP_INIT;
        REQUIRE(submit_count(shared_one, &group, &counter) == WEFT_OK);
        REQUIRE(weft_group_wait(shared_one, &group) == WEFT_OK);
    }
    end_pool(own);
    end_pool(shared_one);
    REQUIRE(atomic_load(&counter) == 100);
    return nothing;
}

static void in_forked_child(weft_worker *self, unsigned way) {
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (self != NULL) FORKED(weft_submit_child(self, empty_task, NULL, 0));
    if (self != NULL) FORKED(weft_block_begin(self));
    if (way % 2 == 0) {
        pthread_t threads[2];
        REQUIRE(pthread_barrier_init(&both, NULL, 2) == 0);
        for (int i = 0; i < 2; i++) threads[i] = thread_begin(first_use, NULL);
        for (int i = 0; i < 2; i++) thread_end(threads[i]);
    }
    parents_pool_is_refused();
    void *block = weft_alloc(100000);
    REQUIRE(block != NULL);
    weft_free(block);
    scene_forget();
    if (way % 4 < 2) scene_run(&(struct scene){.is_strict = true, .is_forked = true});
    _exit(0);
}

static void fork_now(weft_worker *self) {
    unsigned way = SANITIZED ? 3 : draw(8); /* sanitized, no more than what is refused: see main */
    pid_t child = fork();
    if (child == 0) in_forked_child(self, way);
    int status = child_status(child);
    if (status != 0) fprintf(stderr, "the forked child (way %u): status %d\n", way, status);
    REQUIRE(status == 0);
    atomic_fetch_add(&shared->events, 1);
}

static int forking_task(void *payload, weft_worker *self) {
    (void)payload;
    fork_now(self);
    return 0;
}

/* Now from this thread, now from a task. */
static void *forker(void *nothing) {
    for (int i = 0; !atomic_load(&scene_over); i++) {
        pause_us(draw(3000));
        if (i % 2 == 0)
            fork_now(NULL);
        else
            REQUIRE(weft_submit(fork_pool, NULL, forking_task, NULL, 0) == WEFT_OK);
        if (i % 2 != 0) REQUIRE(weft_group_wait(fork_pool, NULL) == WEFT_OK);
    }
    return nothing;
}

static void under_forks(void) {
    fork_pool = make_pool(2);
    REQUIRE(weft_graph_create(&fork_graph) == WEFT_OK && weft_graph_add(fork_graph, NULL, empty_task, NULL) == WEFT_OK);
    REQUIRE(weft_graph_build(fork_graph, NULL) == WEFT_OK);
    scene_under(forker, 3, 0);
    REQUIRE(weft_graph_destroy(&fork_graph) == WEFT_OK);
    end_pool(fork_pool);
}

/* ---- exit --------------------------------------------------------------------------------------------------------- */

enum { EXIT_STATUS = 7 };
static unsigned exit_way, exit_us;

static void use_late(void) {
    weft_pool *pool = NULL, *own = NULL;
    atomic_uint counter = 0;
    weft_group group = WEFT_GROUP_INIT;
    REQUIRE(weft_pool_default(&pool) == WEFT_OK && weft_pool_create(&own, NULL) == WEFT_OK);
    REQUIRE(submit_count(pool, &group, &counter) == WEFT_OK && submit_count(own, NULL, &counter) == WEFT_OK);
    REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
    end_pool(own);
    REQUIRE(weft_pool_destroy(&pool) == WEFT_OK);
    REQUIRE(atomic_load(&counter) == 2);
}

static int leave(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    if (exit_way % 2 == 0) exit(EXIT_STATUS);
    _exit(EXIT_STATUS);
}

static void *leaver(void *nothing) {
    pause_us(exit_us);
    if (exit_way / 2 % 2 == 0) leave(NULL, NULL);
    weft_pool *pool = make_pool(1);
    REQUIRE(weft_submit(pool, NULL, leave, NULL, 0) == WEFT_OK);
    (void)weft_group_wait(pool, NULL); /* which may run it */
    return nothing;
}

static pthread_key_t late_key;

static void thread_ends(void *value) {
    (void)value;
    use_late();
}

static void *short_lived(void *nothing) {
    REQUIRE(pthread_setspecific(late_key, &late_key) == 0);
    return nothing;
}

/* Asked by LeakSanitizer before it looks. What a thread has in its hands that exit stops in the middle of making another one
 * is in no place that it searches. */
#if defined(SANITIZED_ADDRESS)
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return scene_is_left; }
#endif

static void until_exit(void) {
    REQUIRE(atexit(use_late) == 0 && pthread_key_create(&late_key, thread_ends) == 0);
    scene_is_left = true;
    thread_begin(leaver, NULL);
    for (;;) {
        thread_end(thread_begin(short_lived, NULL));
        scene_under(NULL, 1, 0);
    }
}

static int end_thread(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    pthread_exit(NULL);
}

/* weft.h: the process ends with a message. */
static void thread_exits_in_task(void) {
    weft_pool *pool = make_pool(1);
    REQUIRE(weft_submit(pool, NULL, end_thread, NULL, 0) == WEFT_OK);
    for (;;) pause();
}

static int thread_exits_quietly(void *nothing) {
    (void)nothing;
    REQUIRE(dup2(said_file, STDERR_FILENO) >= 0);
    thread_exits_in_task();
    return 0;
}

static void on_plain(void) { scene_under(NULL, 3, 0); }

/* ---- the whole ---------------------------------------------------------------------------------------------------- */

struct condition {
    const char *name;
    void (*child)(void);
    unsigned runs, runs_of_all;
};

static void report(const char *name, unsigned runs, unsigned events, uint64_t tasks) {
    printf("%s: %u runs, %u events, %llu tasks, none lost or doubled\n", name, runs, events, (unsigned long long)tasks);
    fflush(stdout);
}

static void run_condition(const struct condition *c) {
    unsigned events = 0, runs = is_all ? c->runs_of_all : c->runs;
    uint64_t tasks = 0;
    for (unsigned i = 0; i < runs; i++) {
        draw(2);
        run_child(c->child, c->name);
        events += atomic_load(&shared->events);
        tasks += atomic_load(&shared->outcome.accepted);
    }
    report(c->name, runs, events, tasks);
}

/* From outside, at any moment. */
static void run_stopped_process(unsigned runs) {
    unsigned stops = 0;
    uint64_t tasks = 0;
    for (unsigned i = 0; i < runs; i++) {
        pid_t child = run_start(on_plain);
        for (int round = 0; round < 10; round++) {
            pause_us(draw(10000));
            stops += kill(child, SIGSTOP) == 0;
            pause_us(draw(10000));
            kill(child, SIGCONT);
        }
        run_await(child, "SIGSTOP and SIGCONT", 0);
        tasks += atomic_load(&shared->outcome.accepted);
    }
    report("SIGSTOP and SIGCONT", runs, stops, tasks);
}

static void run_exits(unsigned runs) {
    uint64_t tasks = 0;
    for (unsigned i = 0; i < runs; i++) {
        exit_way = draw(4);
#if defined(SANITIZED_THREAD)
        exit_way |= 1;
#endif
        exit_us = draw(i % 4 == 0 ? 2000 : 60000);
        run_await(run_start(until_exit), exit_way % 2 == 0 ? "exit" : "_exit", EXIT_STATUS);
        tasks += atomic_load(&shared->outcome.accepted);
    }
    printf("exit and _exit, from a thread or a task: %u runs, %llu tasks accepted before\n", runs,
           (unsigned long long)tasks);
    int status = in_child(thread_exits_quietly, NULL);
    REQUIRE(status == 1000 + SIGABRT);
    printf("pthread_exit in a task: the process ends with its message\n");
}

static void skipped(const char *name, const char *why) { printf("skipped, %s: %s\n", name, why); }

/* A group in the hierarchy that limits CPU time, as far as this process may make one. */
static void group_make(void) {
    group_maker = getpid();
    snprintf(group_path, sizeof group_path, "/sys/fs/cgroup/cpu/weft-conditions-%d", (int)group_maker);
    if (mkdir(group_path, 0755) != 0) group_path[0] = 0;
}

static void group_end(void) {
    if (getpid() == group_maker && group_path[0] != 0 && rmdir(group_path) != 0) perror(group_path);
}

static bool is_chosen(const char *chosen, const char *name) { return chosen == NULL || strcmp(chosen, name) == 0; }

/* Why it cannot run here; NULL: it can. */
static const char *obstacle(void (*child)(void)) {
    if (child == under_quotas && group_path[0] == 0) return "no control group of version 1 can be made here";
    if (child == on_small_stacks && SANITIZED) return "sanitized code needs more";
#if defined(SANITIZED_THREAD)
    if (child == under_forks) return "ThreadSanitizer lets no child of a threaded process start threads";
#endif
    return NULL;
}

int main(int argc, char **argv) {
    static const struct condition conditions[] = {
        {"EINTR storm", under_storm, 4, 200},
        {"a thread stopped for a second", under_stop, 6, 120},
        {"affinities that change", under_moves, 4, 200},
        {"one CPU", on_one_cpu, 3, 50},
        {"quotas that change", under_quotas, 2, 50},
        {"stacks of 16 KiB", on_small_stacks, 4, 100},
        {"fork", under_forks, 4, 150},
    };
    const char *chosen = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--all") == 0)
            is_all = true;
        else
            chosen = argv[i];
    }
    is_all |= run_all_wished();
    if (is_emulated()) {
        skipped("all", "signals, stops and forks would be the emulator's");
        return 0;
    }
    void *frames[4];
    /* It loads libgcc_s now: a child forked while another thread loads something has a broken loader. */
    (void)backtrace(frames, 4);
    run_begin();
    printf("seed %llu\n", (unsigned long long)draw_seed());
    REQUIRE(sched_getaffinity(0, sizeof cpus_at_first, &cpus_at_first) == 0);
    group_make();
    REQUIRE(atexit(group_end) == 0);
    for (size_t i = 0; i < sizeof conditions / sizeof conditions[0]; i++) {
        if (!is_chosen(chosen, conditions[i].name)) continue;
        const char *why = obstacle(conditions[i].child);
        if (why != NULL)
            skipped(conditions[i].name, why);
        else
            run_condition(&conditions[i]);
    }
#if defined(SANITIZED_THREAD)
    skipped("exit, all but _exit", "ThreadSanitizer reports each thread that has ended and is not joined yet");
#endif
#if defined(SANITIZED_ADDRESS)
    skipped("exit, leaks", "LeakSanitizer does not see what a thread holds that exit stops in the middle of making another");
    skipped("fork, pools made in the child",
            "AddressSanitizer keeps the stacks of the parent's threads, as places to report");
#endif
    if (is_chosen(chosen, "stop")) run_stopped_process(is_all ? 100 : 3);
    if (is_chosen(chosen, "exit")) run_exits(is_all ? 1000 : SANITIZED ? 8 : 24);
    return 0;
}
