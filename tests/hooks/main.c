/* hooks: the libraries of adapters/hooks on their own threads and on weft.
 *
 *     hooks                each alone, both ways: is the output the same?
 *     hooks --race [N]     also how long it takes, in N turns (5), and all at once in one process; N rounds give N ratios
 *
 * Every run is a process of its own, so that no threads are left of the other. The pool is the process's default pool. */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hooks.h"

enum { LIBRARIES = 5, MASK_OPENBLAS = 1 << 3, REPEATS_MAX = 4096, TURNS_MAX = 99 };
static const library *const libraries[LIBRARIES] = {&library_fftw, &library_jxl, &library_ffmpeg, &library_openblas,
                                                    &library_blosc2};

/* What a process has to say. */
typedef struct result {
    uint64_t digest[LIBRARIES];
    double seconds;
    int threads; /* of the process, at the end of the work */
} result;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int thread_count(void) {
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == NULL) return 0;
    for (const struct dirent *entry; (entry = readdir(tasks)) != NULL;) count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

/* ---- in a process of its own -------------------------------------------------------------------------------------- */

typedef struct job {
    const library *library;
    int repeats;
    uint64_t digest;
} job;

static void *repeat(void *argument) {
    job *j = argument;
    for (int i = 0; i < j->repeats; i++) {
        const uint64_t hash = j->library->run();
        j->digest = digest(j->digest, &hash, sizeof hash);
    }
    return NULL;
}

/* The libraries of the mask, each `repeats[i]` times, side by side. */
static result work(unsigned mask, bool on_weft, const int *repeats) {
    weft_pool *pool = NULL;
    job jobs[LIBRARIES];
    pthread_t threads[LIBRARIES];
    result r = {.threads = 0};
    const int cpus = (int)weft_cpu_count();
    if (on_weft) REQUIRE(weft_default_pool(&pool) == WEFT_OK);
    for (int i = 0; i < LIBRARIES; i++) {
        if (!(mask & 1u << i)) continue;
        libraries[i]->open(pool, cpus > 1 ? cpus : 2);
        jobs[i] = (job){libraries[i], 2, 0};
        repeat(&jobs[i]);
        jobs[i].repeats = repeats[i];
    }
    double start = now();
    for (int i = 0; i < LIBRARIES; i++)
        if (mask & 1u << i) REQUIRE(pthread_create(&threads[i], NULL, repeat, &jobs[i]) == 0);
    r.threads = thread_count();
    for (int i = 0; i < LIBRARIES; i++)
        if (mask & 1u << i) pthread_join(threads[i], NULL);
    r.seconds = now() - start;
    for (int i = 0; i < LIBRARIES; i++) {
        if (!(mask & 1u << i)) continue;
        r.digest[i] = jobs[i].digest;
        libraries[i]->close();
    }
    if (on_weft) REQUIRE(weft_pool_destroy(&pool) == WEFT_OK);
    return r;
}

/* ---- the parent --------------------------------------------------------------------------------------------------- */

static char *program;

/* What runs the libraries' jobs. hooks/openblas.h asks for a setting that lets OpenBLAS's own threads sleep soon: with it
 * alone, they are the third, for what of a gain comes from there. */
enum side { OWN, WEFT, OWN_SLEEPY, SIDES };
static const char *const side_names[SIDES] = {"own", "weft", "own, OPENBLAS_THREAD_TIMEOUT=4"};

/* A new process, not only a fork: libraries keep threads and settings for good. */
static result work_elsewhere(unsigned mask, enum side side, const int *repeats) {
    char words[3 + LIBRARIES][16], *arguments[4 + LIBRARIES] = {program};
    int ends[2], status = -1;
    result r = {.threads = 0};
    snprintf(words[0], sizeof words[0], "%s", side == WEFT ? "weft" : "own");
    snprintf(words[1], sizeof words[1], "%u", mask);
    for (int i = 0; i < LIBRARIES; i++) snprintf(words[2 + i], sizeof words[0], "%d", repeats[i]);
    for (int i = 0; i < 2 + LIBRARIES; i++) arguments[1 + i] = words[i];
    REQUIRE(pipe(ends) == 0);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        dup2(ends[1], 3);
        if (side != OWN) setenv("OPENBLAS_THREAD_TIMEOUT", "4", 1);
        execv("/proc/self/exe", arguments);
        _exit(98);
    }
    close(ends[1]);
    ssize_t size = read(ends[0], &r, sizeof r);
    close(ends[0]);
    REQUIRE(waitpid(child, &status, 0) == child);
    if (status != 0 || size != (ssize_t)sizeof r) {
        fprintf(stderr, "hooks: a run on %s failed, status %d\n", words[0], status);
        exit(1);
    }
    return r;
}

static int compare_doubles(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void report(enum side side, const double *seconds, const double *weft, int turns) {
    double ratios[TURNS_MAX];
    for (int turn = 0; turn < turns; turn++) ratios[turn] = seconds[turn] / weft[turn];
    qsort(ratios, (size_t)turns, sizeof *ratios, compare_doubles);
    printf("; %s / weft %.3f (%.3f to %.3f)", side_names[side], ratios[turns / 2], ratios[0], ratios[turns - 1]);
}

/* All ways in turns. false: the output differs. */
static bool race(const char *name, unsigned mask, const int *repeats, int turns) {
    double seconds[SIDES][TURNS_MAX];
    result results[SIDES] = {{.threads = 0}};
    bool same = true;
    int sides = turns > 1 && (mask & MASK_OPENBLAS) ? SIDES : OWN_SLEEPY;
    for (int turn = 0; turn < turns; turn++) {
        for (int i = 0; i < sides; i++) {
            enum side side = (enum side)((turn + i) % sides);
            results[side] = work_elsewhere(mask, side, repeats);
            seconds[side][turn] = results[side].seconds;
        }
        for (int i = 0; i < LIBRARIES; i++) {
            if (results[OWN].digest[i] == results[WEFT].digest[i]) continue;
            printf("%s: the output differs\n", libraries[i]->name);
            same = false;
        }
    }
    printf("%-11s output %s; threads %d own, %d weft", name, same ? "identical" : "DIFFERS", results[OWN].threads,
           results[WEFT].threads);
    if (turns > 1) report(OWN, seconds[OWN], seconds[WEFT], turns);
    if (sides == SIDES) report(OWN_SLEEPY, seconds[OWN_SLEEPY], seconds[WEFT], turns);
    printf("\n");
    fflush(stdout);
    return same;
}

/* How often each is to run so that it takes about as long as the others. */
static void balance(unsigned mask, double seconds, int *repeats) {
    for (int i = 0; i < LIBRARIES; i++) {
        int probe[LIBRARIES] = {10, 10, 10, 10, 10};
        if (!(mask & 1u << i)) continue;
        double each = work_elsewhere(1u << i, OWN, probe).seconds / 10;
        repeats[i] = each * REPEATS_MAX < seconds ? REPEATS_MAX : (int)(seconds / each) + 1;
    }
}

int main(int argc, char **argv) {
    program = argv[0];
    int repeats[LIBRARIES] = {3, 3, 3, 3, 3}, turns = 1;
    if (argc == 3 + LIBRARIES) {
        for (int i = 0; i < LIBRARIES; i++) repeats[i] = (int)strtol(argv[3 + i], NULL, 10);
        result r = work((unsigned)strtoul(argv[2], NULL, 10), strcmp(argv[1], "weft") == 0, repeats);
        return write(3, &r, sizeof r) == (ssize_t)sizeof r ? 0 : 97;
    }
    if (argc > 1) turns = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 5;
    if (argc > 3 || (argc > 1 && strcmp(argv[1], "--race") != 0) || turns < 1 || turns > TURNS_MAX) {
        fprintf(stderr, "usage: hooks [--race [TURNS]]\n");
        return 2;
    }
    unsigned mask = 0;
    bool same = true;
    for (int i = 0; i < LIBRARIES; i++) {
        if (libraries[i]->missing != NULL)
            printf("skipped, %s: %s\n", libraries[i]->name, libraries[i]->missing);
        else
            mask |= 1u << i;
    }
    if (turns > 1) balance(mask, 0.25, repeats);
    for (int i = 0; i < LIBRARIES; i++)
        if (mask & 1u << i) same &= race(libraries[i]->name, 1u << i, repeats, turns);
    for (int i = 0; i < LIBRARIES && turns > 1; i++) { /* all but one, at once */
        const unsigned rest = mask & ~(1u << i);
        char name[32];
        if (rest == mask || (rest & (rest - 1)) == 0) continue;
        snprintf(name, sizeof name, "no %s", libraries[i]->name);
        same &= race(name, rest, repeats, turns);
    }
    if ((mask & (mask - 1)) != 0) same &= race("all", mask, repeats, turns);
    return same ? 0 : 1;
}
