/* explore.c: the command line, and the loop over schedules. */
#define _GNU_SOURCE
#include "engine.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern explore_site *const __start_explore_sites[], *const __stop_explore_sites[];
extern const explore_driver *const __start_explore_drivers[], *const __stop_explore_drivers[];

enum { SEEN_MIN = 1 << 16, MUST_SEE_MIN = 10000, FAILURE_STEPS = 60, PREEMPTIONS = 2, DEPARTURES = 1 };

static struct {
    uint64_t schedules, seed, at_least;
    enum mode mode;
    bool trace, quiet, coverage, buffering, until_seen;
    uint32_t steps;
    const char *drivers[64];
    uint32_t driver_count;
    const char *mutants[8];
    uint32_t mutant_count;
    uint32_t preemptions, departures; /* depth first */
    struct cuts cuts;                 /* program 0: drawn from the seed */
    bool whole;
} options = {.schedules = 10000, .seed = 1, .mode = MODE_MIX, .preemptions = PREEMPTIONS, .departures = DEPARTURES};

static const char *const mode_names[] = {"mix", "random", "pct", "dfs"};

/* ---- distinct schedules ------------------------------------------------------------------------------------------- */

static struct {
    uint64_t *hashes;
    size_t size, count;
} seen;

static bool seen_put(uint64_t *hashes, size_t size, uint64_t hash) {
    size_t at = (size_t)(hash >> 7) & (size - 1);
    while (hashes[at] != 0 && hashes[at] != hash) at = (at + 1) & (size - 1);
    bool is_new = hashes[at] == 0;
    hashes[at] = hash;
    return is_new;
}

static void seen_grow(void) {
    size_t size = seen.size == 0 ? SEEN_MIN : seen.size * 2;
    uint64_t *hashes = calloc(size, sizeof *hashes);
    if (hashes == NULL) {
        fputs("explore: out of memory\n", stderr);
        exit(2);
    }
    for (size_t i = 0; i < seen.size; i++)
        if (seen.hashes[i] != 0) seen_put(hashes, size, seen.hashes[i]);
    free(seen.hashes);
    seen.hashes = hashes;
    seen.size = size;
}

static void seen_add(uint64_t hash) {
    if (seen.count * 2 >= seen.size) seen_grow();
    seen.count += seen_put(seen.hashes, seen.size, hash | 1);
}

static void seen_clear(void) {
    if (seen.size != 0) memset(seen.hashes, 0, seen.size * sizeof *seen.hashes);
    seen.count = 0;
}

/* ---- one schedule ------------------------------------------------------------------------------------------------- */

static sigjmp_buf crash_return;

static void crashed(int signal) {
    if (R.current == NULL) _exit(2);
    snprintf(R.failure, sizeof R.failure, "crash: %s in T%u", strsignal(signal), R.current->id);
    R.failed = true;
    siglongjmp(crash_return, 1);
}

static void catch_crashes(void) {
#if !defined(__SANITIZE_ADDRESS__)
    static char stack[64 * 1024];
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = crashed, .sa_flags = SA_ONSTACK};
    sigaltstack(&alternate, NULL);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) sigaction(signals[i], &action, NULL);
#else
    (void)crashed;
#endif
}

void explore_observe(unsigned outcome) { R.observed |= 1u << outcome; }

static void run_once(const explore_driver *driver, uint64_t seed, enum foretell phase) {
    R.driver = driver;
    R.seed = seed;
    R.steps = 0;
    R.steps_max = options.steps != 0 ? options.steps : driver->steps_max != 0 ? driver->steps_max : STEPS_MAX_DEFAULT;
    R.hash = 0x1234567;
    R.failed = false;
    threads_begin();
    model_begin();
    race_begin();
    os_begin();
    trace_begin();
    foretell_begin(phase);
    choose_begin(seed, options.mode);
    run_mix(R.asymmetric);
    if (sigsetjmp(crash_return, 1) == 0) thread_run_schedule();
}

/* With buffering the same once more, if there is a load that could have read a later store. true: that is the one that
 * counts. */
bool run_schedule(const explore_driver *driver, uint64_t seed) {
    bool buffers = (options.buffering || (driver->flags & EXPLORE_BUFFERING) != 0) && options.mode != MODE_DFS;
    bool traces = R.trace;
    uint32_t observed = R.observed;
    R.trace = traces && !buffers;
    run_once(driver, seed, buffers ? FORETELL_LOOK : FORETELL_OFF);
    R.trace = traces;
    if (!buffers || R.failed || !foretell_has_pair()) return false;
    uint32_t seen_first = R.observed;
    uint64_t hash = R.hash;
    R.observed = observed;
    run_once(driver, seed, FORETELL_TELL);
    if (foretell_holds()) return true;
    R.failed = false;
    R.observed = seen_first;
    R.hash = hash;
    return false;
}

/* ---- the loop over schedules -------------------------------------------------------------------------------------- */

typedef struct outcome {
    uint64_t schedules, buffered, steps, seed;
    uint32_t observed;
    bool failed, exhausted, was_buffered;
} outcome;

/* The program of that schedule. */
static uint64_t program_of(const explore_driver *driver, uint64_t seed) {
    return options.cuts.program != 0 ? options.cuts.program : 1 + (seed - 1) / driver->program->schedules;
}
static void make_program(const explore_driver *driver, uint64_t seed, uint64_t *made) {
    uint64_t program = driver->program == NULL ? *made : program_of(driver, seed);
    if (program != *made) driver->program->make(program, options.cuts.cut, options.cuts.count);
    *made = program;
}

static void explore_schedules(const explore_driver *driver, outcome *out) {
    uint64_t made = 0;
    uint64_t skip = options.mode == MODE_DFS ? options.seed - 1 : 0;
    uint64_t seed = options.mode == MODE_DFS ? 1 : options.seed;
    for (; out->schedules < options.schedules; seed++) {
        R.trace = options.trace && skip == 0;
        make_program(driver, seed, &made);
        out->was_buffered = run_schedule(driver, seed);
        if (skip > 0) {
            skip--;
        } else {
            out->schedules++;
            out->buffered += out->was_buffered;
            out->steps += R.steps;
            out->seed = seed;
            out->observed |= R.observed;
            seen_add(R.hash);
            if (R.failed || (options.until_seen && (driver->must_see & ~out->observed) == 0)) break;
        }
        if (options.mode == MODE_DFS && !choose_next_dfs()) {
            out->exhausted = true;
            break;
        }
    }
    out->failed = R.failed;
}

static void print_cuts(const struct cuts *cuts) {
    if (cuts->program != 0) printf(" --program %llu", (unsigned long long)cuts->program);
    for (uint32_t i = 0; i < cuts->count; i++) printf("%s%u", i == 0 ? " --cut " : ".", cuts->cut[i]);
}

/* The line that runs that schedule again: every option that has a part in what it is. */
static void print_replay(const explore_driver *driver, const struct cuts *cuts, uint64_t seed, bool is_buffered) {
    printf("    replay: explore %s", driver->name);
    print_cuts(cuts);
    printf(" --seed %llu --mode %s --schedules 1 --trace", (unsigned long long)seed, mode_names[options.mode]);
    for (uint32_t i = 0; i < options.mutant_count; i++) printf(" --mutant %s", options.mutants[i]);
    if (options.mode == MODE_DFS && options.preemptions != PREEMPTIONS) printf(" --preemptions %u", options.preemptions);
    if (options.mode == MODE_DFS && options.departures != DEPARTURES) printf(" --departures %u", options.departures);
    if (options.steps != 0) printf(" --steps %u", options.steps);
    printf("%s%s%s%s", is_buffered ? " --buffering" : "", R.loses_barrier ? " --lose-barrier" : "",
           R.locked ? " --locked" : "", R.stacks ? " --stacks" : "");
}

/* The program as C, made smaller first. */
static void print_program(const explore_driver *driver, const outcome *out) {
    struct shrunk shrunk = {.cuts = options.cuts, .seed = out->seed, .was_buffered = out->was_buffered};
    shrunk.cuts.program = program_of(driver, out->seed);
    memcpy(shrunk.failure, R.failure, sizeof shrunk.failure);
    if (!options.whole) shrink(driver, &shrunk.cuts, out->seed, &shrunk);
    if (!options.whole)
        printf("    made smaller in %llu schedules: %s\n", (unsigned long long)shrunk.schedules, shrunk.failure);
    driver->program->print(stdout);
    print_replay(driver, &shrunk.cuts, shrunk.seed, shrunk.was_buffered);
    printf(" --whole\n");
}

static void print_failure(const explore_driver *driver, const outcome *out) {
    if (!options.trace) trace_print(FAILURE_STEPS);
    printf("%s: FAILED in schedule %llu: %s\n", driver->name, (unsigned long long)out->schedules, R.failure);
    print_replay(driver, &options.cuts, out->seed, out->was_buffered);
    printf("\n");
    if (driver->program != NULL) print_program(driver, out);
}

/* One of the parts between | is in the report. */
static bool fails_as_told(const char *told) {
    for (size_t length; told != NULL; told = told[length] == 0 ? NULL : told + length + 1) {
        length = strcspn(told, "|");
        if (length > 0 && memmem(R.failure, strlen(R.failure), told, length) != NULL) return true;
    }
    return false;
}

/* Whether the driver did what it is for. */
static bool judge(const explore_driver *driver, const outcome *out) {
    if (driver->flags & EXPLORE_MUST_FAIL) {
        bool as_told = out->failed && fails_as_told(driver->fails_with);
        if (as_told)
            printf("    its seeded fault was found: %s\n", R.failure);
        else if (out->failed)
            printf("%s: FAILED: its seeded fault should end in '%s', not: %s\n", driver->name,
                   driver->fails_with == NULL ? "..." : driver->fails_with, R.failure);
        else
            printf("%s: FAILED: its seeded fault was not found\n", driver->name);
        return as_told;
    }
    if (out->failed) {
        print_failure(driver, out);
        return false;
    }
    uint32_t missing = driver->must_see & ~out->observed;
    if (missing != 0 && (out->schedules >= MUST_SEE_MIN || out->exhausted || options.until_seen)) {
        printf("%s: FAILED: allowed outcomes never seen: %#x\n", driver->name, missing);
        return false;
    }
    return true;
}

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t distinct_total;

static bool explore_driver_run(const explore_driver *driver) {
    outcome out = {0};
    double start_s = now_s();
    seen_clear();
    choose_first_dfs();
    R.observed = 0;
    explore_schedules(driver, &out);
    distinct_total += seen.count;
    if (!options.quiet)
        printf("%-28s %8llu schedules %8zu distinct %7.1f steps each %6.2f s%s\n", driver->name,
               (unsigned long long)out.schedules, seen.count,
               out.schedules == 0 ? 0.0 : (double)out.steps / (double)out.schedules, now_s() - start_s,
               out.exhausted ? " (all there are)" : "");
    if (!options.quiet && options.buffering)
        printf("    %llu with a load that read a later store\n", (unsigned long long)out.buffered);
    return judge(driver, &out);
}

/* ---- sites and mutants -------------------------------------------------------------------------------------------- */

static bool is_change(const explore_site *site) { return site->op >= EXPLORE_CAS && site->op <= EXPLORE_XCHG; }
static bool is_fence(const explore_site *site) { return site->op >= EXPLORE_FENCE && site->op <= EXPLORE_SETTLE; }

/* The ways to weaken a site, as words each followed by a blank. */
static const char *mutants_of(const explore_site *site) {
    if (site->op == EXPLORE_RECHECK) return "recheck ";
    if (is_fence(site)) return "drop ";
    bool change = is_change(site);
    switch (site->order) {
    case EXPLORE_RLX: return change ? "split " : "";
    case EXPLORE_SC: return change ? "order sc split " : "order sc ";
    case EXPLORE_ACQ_REL: return "order acq rel split ";
    default: return change ? "order split " : "order ";
    }
}

static bool weaken(explore_site *site, const char *kind) {
    char word[32];
    snprintf(word, sizeof word, "%s ", kind);
    const char *found = strstr(mutants_of(site), word);
    if (found == NULL || (found != mutants_of(site) && found[-1] != ' ')) return false;
    if (strcmp(kind, "split") == 0) site->split = true;
    if (strcmp(kind, "drop") == 0 || strcmp(kind, "recheck") == 0) site->dropped = true;
    if (site->dropped && site->op == EXPLORE_LIGHT) R.drops_light = true;
    if (strcmp(kind, "order") == 0) site->order = EXPLORE_RLX;
    if (strcmp(kind, "acq") == 0) site->order = EXPLORE_ACQ;
    if (strcmp(kind, "rel") == 0) site->order = EXPLORE_REL;
    if (strcmp(kind, "sc") == 0)
        site->order = site->op == EXPLORE_LOAD ? EXPLORE_ACQ : site->op == EXPLORE_STORE ? EXPLORE_REL : EXPLORE_ACQ_REL;
    return true;
}

static bool set_mutant(const char *text) {
    char tag[64];
    const char *slash = strchr(text, '/');
    size_t length = slash == NULL ? strlen(text) : (size_t)(slash - text);
    if (length >= sizeof tag) return false;
    memcpy(tag, text, length);
    tag[length] = 0;
    bool any = false;
    for (explore_site *const *at = __start_explore_sites; at < __stop_explore_sites; at++) {
        explore_site *site = *at;
        if (strcmp(site->tag, tag) != 0) continue;
        const char *kind = slash != NULL                 ? slash + 1
                           : is_fence(site)              ? "drop"
                           : site->op == EXPLORE_RECHECK ? "recheck"
                                                         : "order";
        any |= weaken(site, kind);
    }
    return any;
}

/* One line for each tagged site: tag, file, line, the ways to weaken it; with hits when drivers have run. */
static void print_sites(bool hits) {
    for (explore_site *const *at = __start_explore_sites; at < __stop_explore_sites; at++) {
        const explore_site *site = *at;
        if (site->tag[0] == 0) continue;
        if (hits)
            printf("hits %s %s %d %llu\n", site->tag, site->file, site->line, (unsigned long long)site->hits);
        else
            printf("%s %s %d %s\n", site->tag, site->file, site->line, mutants_of(site));
    }
}

/* ---- drivers ------------------------------------------------------------------------------------------------------ */

enum { DRIVERS_MAX = 1024 };

static const explore_driver *drivers[DRIVERS_MAX];
static size_t driver_count;

static int by_name(const void *a, const void *b) {
    return strcmp((*(const explore_driver *const *)a)->name, (*(const explore_driver *const *)b)->name);
}

static void find_drivers(void) {
    for (const explore_driver *const *at = __start_explore_drivers; at < __stop_explore_drivers; at++) {
        if (driver_count == DRIVERS_MAX) {
            fputs("explore: more drivers than DRIVERS_MAX\n", stderr);
            exit(2);
        }
        drivers[driver_count++] = *at;
    }
    qsort(drivers, driver_count, sizeof drivers[0], by_name);
}

/* ---- command line ------------------------------------------------------------------------------------------------- */

static int usage(void) {
    fputs("explore --list                 drivers\n"
          "explore --sites                tagged operations and the ways to weaken them\n"
          "explore [DRIVER]...            runs them, or all; exit status 1 when one fails.\n"
          "                               DRIVER may be PREFIX*, and !DRIVER leaves out\n"
          "    --schedules N              how many of each (10000)\n"
          "    --seed N                   the first seed; with --mode dfs the number of the first schedule\n"
          "    --mode mix|random|pct|dfs\n"
          "    --preemptions N            depth first: at most so many (2)\n"
          "    --departures N             depth first: late loads and the like, at most so many (1)\n"
          "    --until-seen               only drivers with must_see, each until all of it was seen; else it fails\n"
          "    --at-least N               fails when fewer distinct schedules were run\n"
          "    --steps N                  a longer schedule is a livelock\n"
          "    --mutant TAG[/KIND]        weakens one tag\n"
          "    --trace                    prints every step\n"
          "    --coverage                 prints how often each tagged operation ran\n"
          "    --buffering                lets loads read stores that run later (twice the time)\n"
          "    --lose-barrier             the system's barrier may stop working in the middle\n"
          "    --locked                   read-modify-writes are full fences and fence_rmw_sc is none, as on x86\n"
          "    --stacks                   checks also what threads do on their own stacks (slow)\n"
          "    --program N                of drivers that draw programs: this one in every schedule\n"
          "    --cut N.N...               ... made smaller in these ways\n"
          "    --whole                    a program that fails is not made smaller\n"
          "    --quiet                    prints failures only\n",
          stderr);
    return 2;
}

/* PREFIX* or a whole name; !PATTERN leaves out. */
static bool matches(const char *pattern, const char *name) {
    size_t n = strlen(pattern);
    if (n > 0 && pattern[n - 1] == '*') return strncmp(pattern, name, n - 1) == 0;
    return strcmp(pattern, name) == 0;
}

static bool is_chosen(const explore_driver *driver) {
    bool chosen = options.driver_count == 0 || options.drivers[0][0] == '!';
    for (uint32_t i = 0; i < options.driver_count; i++) {
        bool leave_out = options.drivers[i][0] == '!';
        if (matches(options.drivers[i] + leave_out, driver->name)) chosen = !leave_out;
    }
    return chosen;
}

static int list_drivers(void) {
    for (size_t i = 0; i < driver_count; i++)
        printf("%-28s %s\n", drivers[i]->name, drivers[i]->about != NULL ? drivers[i]->about : "");
    return 0;
}

static bool set_mode(const char *name) {
    for (size_t i = 0; i < sizeof mode_names / sizeof mode_names[0]; i++) {
        if (strcmp(mode_names[i], name) != 0) continue;
        options.mode = (enum mode)i;
        return true;
    }
    return false;
}

/* Numbers with dots between them. */
static bool set_cuts(const char *text) {
    for (char *end; options.cuts.count < CUTS_MAX; text = end + 1) {
        options.cuts.cut[options.cuts.count++] = (uint32_t)strtoul(text, &end, 10);
        if (end == text || *end == 0) return end != text;
        if (*end != '.') return false;
    }
    return false;
}

static bool add_mutant(const char *text) {
    if (options.mutant_count == sizeof options.mutants / sizeof options.mutants[0]) return false;
    options.mutants[options.mutant_count++] = text;
    return set_mutant(text);
}

/* An option with a value; false: unknown, or a bad value. */
static bool set_option(const char *name, const char *value) {
    char *end;
    unsigned long long number = strtoull(value, &end, 0);
    bool is_number = *value != 0 && *end == 0;
    if (strcmp(name, "--mode") == 0) return set_mode(value);
    if (strcmp(name, "--mutant") == 0) return add_mutant(value);
    if (strcmp(name, "--cut") == 0) return set_cuts(value);
    if (!is_number) return false;
    if (strcmp(name, "--schedules") == 0)
        options.schedules = number;
    else if (strcmp(name, "--seed") == 0)
        options.seed = number;
    else if (strcmp(name, "--at-least") == 0)
        options.at_least = number;
    else if (strcmp(name, "--steps") == 0)
        options.steps = (uint32_t)number;
    else if (strcmp(name, "--preemptions") == 0)
        options.preemptions = (uint32_t)number;
    else if (strcmp(name, "--program") == 0)
        options.cuts.program = number;
    else if (strcmp(name, "--departures") == 0)
        options.departures = (uint32_t)number;
    else
        return false;
    return true;
}

static bool set_switch(const char *name) {
    if (strcmp(name, "--trace") == 0) return options.trace = true;
    if (strcmp(name, "--stacks") == 0) return R.stacks = true;
    if (strcmp(name, "--buffering") == 0) return options.buffering = true;
    if (strcmp(name, "--lose-barrier") == 0) return R.loses_barrier = true;
    if (strcmp(name, "--locked") == 0) return R.locked = true;
    if (strcmp(name, "--whole") == 0) return options.whole = true;
    if (strcmp(name, "--quiet") == 0) return options.quiet = true;
    if (strcmp(name, "--until-seen") == 0) return options.until_seen = true;
    if (strcmp(name, "--coverage") == 0) return options.coverage = true;
    return false;
}

static bool parse(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) != 0) {
            if (options.driver_count == sizeof options.drivers / sizeof options.drivers[0]) return false;
            options.drivers[options.driver_count++] = argv[i];
        } else if (!set_switch(argv[i])) {
            if (i + 1 == argc || !set_option(argv[i], argv[i + 1])) return false;
            i++;
        }
    }
    return options.seed > 0;
}

/* A driver that was renamed must not vanish from a list. */
static bool each_pattern_matches(void) {
    for (uint32_t p = 0; p < options.driver_count; p++) {
        const char *pattern = options.drivers[p] + (options.drivers[p][0] == '!');
        size_t i = 0;
        while (i < driver_count && !matches(pattern, drivers[i]->name)) i++;
        if (i < driver_count) continue;
        fprintf(stderr, "explore: no driver is called %s\n", pattern);
        return false;
    }
    return true;
}

static int run_chosen(void) {
    uint32_t ran = 0, failed = 0;
    double start_s = now_s();
    if (!each_pattern_matches()) return 2;
    for (size_t i = 0; i < driver_count; i++) {
        if (!is_chosen(drivers[i]) || (options.until_seen && drivers[i]->must_see == 0)) continue;
        ran++;
        failed += !explore_driver_run(drivers[i]);
        fflush(stdout);
    }
    if (ran == 0) {
        fputs("explore: no such driver\n", stderr);
        return 2;
    }
    if (options.coverage) print_sites(true);
    if (!options.quiet)
        printf("%u drivers, %llu distinct schedules, %u failed, %.1f s\n", ran, (unsigned long long)distinct_total, failed,
               now_s() - start_s);
    if (distinct_total < options.at_least) printf("FAILED: fewer than %llu\n", (unsigned long long)options.at_least);
    return failed != 0 || distinct_total < options.at_least;
}

int main(int argc, char **argv) {
    find_drivers();
    if (argc == 2 && strcmp(argv[1], "--list") == 0) return list_drivers();
    if (argc == 2 && strcmp(argv[1], "--sites") == 0) {
        print_sites(false);
        return 0;
    }
    if (!parse(argc, argv)) return usage();
    choose_set_preemptions(options.preemptions, options.departures);
    threads_init();
    model_init();
    race_init();
    catch_crashes();
    return run_chosen();
}
