/* main.c: one run of a workload on a machine, and what came of it as JSON. `weft simulate` (tools/simulate) starts it, once for
 * each run; its command line is theirs alone:
 *
 *     weft-simulate WORKLOAD WORKERS [name=value...]
 *
 * with every value of the machine (engine.h), and of the play: tasks, task_ns, seed, rounds, submitters, no_help, ordered,
 * jitter_percent, spin_ns, and plant=FILE:LINE:NS, which makes every access of an atomic variable at that line dearer. Exit status:
 * 0; 1: weft returned an error; 2: the command line; 3: the run came to nothing, as when every thread sleeps. */
#include "engine.h"

#include "workload.h"

#include <stdlib.h>
#include <string.h>

enum { WAITS_MAX = 4000000 };

static struct {
    const struct workload *workload;
    struct play play;
    struct outcome outcome;
    int error;
    uint64_t jitter_percent;
    uint64_t random;
    weft_stats before, after;
    uint64_t sleeps, wakes_sent, wakes_empty, preemptions, busy_ps, begin_ps, end_ps;
} T = {.jitter_percent = 2};

/* ---- the stage ---------------------------------------------------------------------------------------------------- */

static uint64_t stage_now_ns(void) { return cpu_now->clock_ps / 1000; }

static uint64_t random_next(void) {
    uint64_t z = (T.random += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Tasks of a real machine never take equally long. */
static void stage_work(uint64_t ns) {
    uint64_t reach = ns * 10 * T.jitter_percent; /* ps */
    sim_busy(ns * 1000 - reach + (reach == 0 ? 0 : random_next() % (2 * reach + 1)));
}

static void stage_sleep_until(uint64_t when_ns) {
    static uint32_t nothing;
    sim_self()->is_exact = true;
    if (when_ns * 1000 > cpu_now->clock_ps) sim_sleep(&nothing, when_ns * 1000);
}

struct together {
    void (*body)(unsigned index, void *context);
    void *context;
    unsigned index;
};

static void together_main(void *argument) {
    struct together *one = argument;
    one->body(one->index, one->context);
}

static void stage_together(unsigned threads, void (*body)(unsigned index, void *context), void *context) {
    struct together *all = calloc(threads, sizeof *all);
    sim_thread **started = calloc(threads, sizeof(sim_thread *));
    if (all == NULL || started == NULL) sim_die("no memory");
    for (unsigned i = 0; i < threads; i++) {
        all[i] = (struct together){body, context, i};
        started[i] = sim_thread_start(together_main, &all[i]);
        if (started[i] == NULL) sim_die("too many threads");
    }
    for (unsigned i = 0; i < threads; i++)
        while (started[i]->state != THREAD_DONE) sim_sleep(started[i], 0);
    free(all);
    free(started);
}

static void stage_begin(weft_pool *pool) {
    T.before.struct_size = sizeof T.before;
    weft_pool_stats(pool, &T.before);
    sites_reset();
    T.sleeps = sleeps;
    T.wakes_sent = wakes_sent;
    T.wakes_empty = wakes_empty;
    T.preemptions = preemptions;
    T.busy_ps = cpus_busy_ps();
    T.begin_ps = cpu_now->clock_ps;
}

static void stage_end(weft_pool *pool) {
    T.end_ps = cpu_now->clock_ps;
    T.busy_ps = cpus_busy_ps() - T.busy_ps;
    T.sleeps = sleeps - T.sleeps;
    T.wakes_sent = wakes_sent - T.wakes_sent;
    T.wakes_empty = wakes_empty - T.wakes_empty;
    T.preemptions = preemptions - T.preemptions;
    sites_keep();
    T.after.struct_size = sizeof T.after;
    weft_pool_stats(pool, &T.after);
}

static const struct stage stage_here = {stage_now_ns, stage_work, stage_sleep_until, stage_together, stage_begin, stage_end};

/* ---- the report --------------------------------------------------------------------------------------------------- */

static const char *const kind_names[SIM_KINDS] = {"load",    "store", "cas",    "change", "fence",
                                                  "barrier", "plain", "system", "pause"};

struct sums {
    uint64_t cas, cas_failed, moved, changes, pauses;
};

static void sum_site(const sim_site *site, void *context) {
    struct sums *sums = context;
    if (site->kind == SIM_CAS) sums->cas += site->count;
    if (site->kind == SIM_CAS) sums->cas_failed += site->failed;
    if (site->kind == SIM_CHANGE) sums->changes += site->count;
    if (site->kind == SIM_PAUSE) sums->pauses += site->count;
    sums->moved += site->moved;
}

static void print_site(const sim_site *site, void *context) {
    bool *is_first = context;
    if (site->count == 0) return;
    printf("%s\n    {\"kind\": \"%s\", \"tag\": \"%s\", ", *is_first ? "" : ",", kind_names[site->kind], site->tag);
    if (site->file != NULL)
        printf("\"file\": \"%s\", \"line\": %d, ", site->file, site->line);
    else
        printf("\"code\": \"%#lx\", ", (unsigned long)site->code);
    printf("\"count\": %llu, \"failed\": %llu, \"moved\": %llu, \"ns\": %.1f}", (unsigned long long)site->count,
           (unsigned long long)site->failed, (unsigned long long)site->moved, (double)site->ps / 1000);
    *is_first = false;
}

static int compare_u32(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return a < b ? -1 : a > b;
}

static uint32_t wait_at(uint64_t percent) {
    uint64_t count = min_u64(T.play.wait_count, WAITS_MAX);
    return count == 0 ? 0 : T.play.waits[(count * percent + 99) / 100 - 1];
}

static void print_number(const char *name, double value) { printf("  \"%s\": %.17g,\n", name, value); }

static void report(void) {
    struct sums sums = {0};
    const struct outcome *out = &T.outcome;
    bool is_first = true;
    qsort(T.play.waits, min_u64(T.play.wait_count, WAITS_MAX), sizeof(uint32_t), compare_u32);
    sites_each_kept(sum_site, &sums);
    printf("{\n  \"workload\": \"%s\",\n  \"compiler\": \"%s\",\n", T.workload->name, __VERSION__);
    print_number("workers", T.play.workers);
    print_number("tasks", (double)out->tasks);
    print_number("work_ns", (double)out->work_ns);
    print_number("elapsed_ns", (double)out->elapsed_ns);
    print_number("ideal_ns", (double)out->ideal_ns);
    print_number("worst_ns", (double)out->worst_ns);
    print_number("cpu_ns", (double)T.busy_ps / 1000);
    print_number("waits", (double)T.play.wait_count);
    print_number("wait_p50_ns", wait_at(50));
    print_number("wait_p99_ns", wait_at(99));
    print_number("claims", (double)(T.after.claim_count - T.before.claim_count));
    print_number("steals", (double)(T.after.steal_count - T.before.steal_count));
    print_number("revoked", (double)(T.after.claim_revoked_count - T.before.claim_revoked_count));
    print_number("helped", (double)(T.after.task_helped_count - T.before.task_helped_count));
    print_number("tasks_run", (double)(T.after.task_run_count - T.before.task_run_count));
    print_number("cas", (double)sums.cas);
    print_number("cas_failed", (double)sums.cas_failed);
    print_number("rmws", (double)(sums.cas + sums.changes));
    print_number("pauses", (double)sums.pauses);
    print_number("transfers", (double)sums.moved);
    print_number("sleeps", (double)T.sleeps);
    print_number("wakes", (double)T.wakes_sent);
    print_number("wakes_in_vain", (double)T.wakes_empty);
    print_number("preemptions", (double)T.preemptions);
    printf("  \"lines\": [");
    sites_each_kept(print_site, &is_first);
    printf("]\n}\n");
}

/* ---- the command line --------------------------------------------------------------------------------------------- */

static bool number_of(const char *text, const char *name, uint64_t *value) {
    size_t length = strlen(name);
    char *end;
    if (strncmp(text, name, length) != 0 || text[length] != '=') return false;
    *value = strtoull(text + length + 1, &end, 10);
    return end != text + length + 1 && *end == 0;
}

static bool play_set(const char *text) {
    uint64_t value;
    if (number_of(text, "tasks", &T.play.tasks) || number_of(text, "task_ns", &T.play.task_ns) ||
        number_of(text, "seed", &T.play.seed) || number_of(text, "jitter_percent", &T.jitter_percent))
        return T.jitter_percent <= 100;
    if (number_of(text, "rounds", &value)) return (T.play.rounds = (unsigned)value) > 0;
    if (number_of(text, "submitters", &value)) {
        T.play.submitters = (unsigned)value;
        return true;
    }
    if (number_of(text, "no_help", &value)) {
        T.play.config.flags |= value != 0 ? WEFT_POOL_NO_HELP : 0;
        return true;
    }
    if (number_of(text, "spin_ns", &value)) {
        T.play.config.spin_ns = value == 0 ? WEFT_SPIN_NONE : (int64_t)value;
        return true;
    }
    return strncmp(text, "plant=", 6) == 0 && site_plant(text + 6);
}

static int parse(int argc, char **argv) {
    char *end;
    if (argc < 3) {
        fputs("usage: weft-simulate WORKLOAD WORKERS [name=value...]\n", stderr);
        return 2;
    }
    T.workload = workload_find(argv[1]);
    if (T.workload == NULL) {
        fprintf(stderr, "simulate: there is no workload %s\n", argv[1]);
        return 2;
    }
    T.play.workers = (unsigned)strtoul(argv[2], &end, 10);
    if (*end != 0 || T.play.workers == 0 || T.play.workers > WEFT_WORKERS_MAX) {
        fprintf(stderr, "simulate: %s is no number of workers, 1 to %u\n", argv[2], WEFT_WORKERS_MAX);
        return 2;
    }
    for (int i = 3; i < argc; i++)
        if (!machine_set(argv[i]) && !play_set(argv[i])) {
            fprintf(stderr, "simulate: %s: no such name, or no value of it\n", argv[i]);
            return 2;
        }
    const char *wrong = machine_wrong();
    if (wrong == NULL) return 0;
    fprintf(stderr, "simulate: the machine's %s is missing, or out of range\n", wrong);
    return 2;
}

static void run(void *argument) {
    (void)argument;
    T.error = workload_play(T.workload, &T.play, &T.outcome);
}

int main(int argc, char **argv) {
    T.play.rounds = 1;
    T.play.on = &stage_here;
    weft_config_init(&T.play.config);
    int status = parse(argc, argv);
    if (status != 0) return status;
    T.random = T.play.seed;
    T.play.waits = calloc(WAITS_MAX, sizeof *T.play.waits);
    T.play.waits_max = WAITS_MAX;
    if (T.play.waits == NULL) sim_die("no memory");
    memory_init();
    lines_init();
    cpus_run(run, NULL);
    if (T.error != 0) {
        fprintf(stderr, "simulate: %s: %s\n", T.workload->name, weft_strerror(T.error));
        return 1;
    }
    report();
    return 0;
}
