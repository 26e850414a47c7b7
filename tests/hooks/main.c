/* hooks: the libraries of adapters/hooks on their own threads and on weft.
 *
 *     hooks                        each alone, both ways: is the output the same?
 *     hooks --race [N [SCENE]]     also how long it takes: alone, several at once in one process, and one after the other
 *                                  on one thread; N turns (21) of each, or of that scene alone
 *
 * Each way is a process of its own, so that no threads are left of the other. They are there at the same time and work in
 * turns: what the machine does beside strikes all alike. The pool is the process's default pool. A figure is the median of
 * the turns' ratios, with the interval that holds the true median at 95 percent or more; the control is own threads beside
 * own threads. */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hooks.h"

enum { LIBRARIES = 5, OPENBLAS = 3, REPEATS_MAX = 4096, TURNS_MAX = 999, PARENT = 3 /* its socket */ };
static const library *const libraries[LIBRARIES] = {&library_fftw, &library_jxl, &library_ffmpeg, &library_openblas,
                                                    &library_blosc2};

/* What runs together, and how. */
typedef struct scene {
    char name[48];
    unsigned mask;
    bool one_thread; /* calls one library after the other; else each has a thread that calls it */
} scene;

/* What a process has to say. */
typedef struct result {
    uint64_t digest[LIBRARIES];
    double seconds, cpu_seconds;
    int threads; /* of the process, while it works */
} result;

static double now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
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

static void once(job *j) {
    const uint64_t hash = j->library->run();
    j->digest = digest(j->digest, &hash, sizeof hash);
}

static void *repeat(void *argument) {
    job *j = argument;
    for (int i = 0; i < j->repeats; i++) once(j);
    return NULL;
}

/* Each library has a thread that calls it. */
static int run_at_once(unsigned mask, job *jobs) {
    pthread_t threads[LIBRARIES];
    for (int i = 0; i < LIBRARIES; i++)
        if (mask & 1u << i) REQUIRE(pthread_create(&threads[i], NULL, repeat, &jobs[i]) == 0);
    int count = thread_count();
    for (int i = 0; i < LIBRARIES; i++)
        if (mask & 1u << i) pthread_join(threads[i], NULL);
    return count;
}

/* This thread calls one after the other, those that are brief more often. */
static int run_in_turn(unsigned mask, job *jobs) {
    int64_t most = 0;
    for (int i = 0; i < LIBRARIES; i++)
        if ((mask & 1u << i) && jobs[i].repeats > most) most = jobs[i].repeats;
    for (int64_t round = 0; round < most; round++)
        for (int i = 0; i < LIBRARIES; i++)
            if ((mask & 1u << i) && (round + 1) * jobs[i].repeats / most > round * jobs[i].repeats / most) once(&jobs[i]);
    return thread_count();
}

/* Until no thread of this process is busy any more: OpenBLAS's look for work for a tenth of a second. */
static void settle(void) {
    const struct timespec moment = {0, 4000000};
    double before, after = now(CLOCK_PROCESS_CPUTIME_ID);
    do {
        before = after;
        nanosleep(&moment, NULL);
        after = now(CLOCK_PROCESS_CPUTIME_ID);
    } while (after - before > 0.0005);
}

static result turn_run(const scene *s, job *jobs) {
    result r = {.threads = 0};
    double start = now(CLOCK_MONOTONIC), cpu_start = now(CLOCK_PROCESS_CPUTIME_ID);
    r.threads = s->one_thread ? run_in_turn(s->mask, jobs) : run_at_once(s->mask, jobs);
    r.seconds = now(CLOCK_MONOTONIC) - start;
    r.cpu_seconds = now(CLOCK_PROCESS_CPUTIME_ID) - cpu_start;
    settle();
    for (int i = 0; i < LIBRARIES; i++)
        if (s->mask & 1u << i) r.digest[i] = jobs[i].digest;
    return r;
}

/* A turn for each byte that comes from the parent, which gets the result. */
static void work(const scene *s, bool on_weft, const int *repeats) {
    weft_pool *pool = NULL;
    job jobs[LIBRARIES];
    const int cpus = (int)weft_cpu_count();
    if (on_weft) REQUIRE(weft_pool_default(&pool) == WEFT_OK);
    for (int i = 0; i < LIBRARIES; i++) {
        if (!(s->mask & 1u << i)) continue;
        libraries[i]->open(pool, cpus > 1 ? cpus : 2);
        jobs[i] = (job){libraries[i], 2, 0};
        repeat(&jobs[i]);
        jobs[i].repeats = repeats[i];
    }
    settle();
    for (char go; read(PARENT, &go, 1) == 1;) {
        const result r = turn_run(s, jobs);
        REQUIRE(write(PARENT, &r, sizeof r) == (ssize_t)sizeof r);
    }
    for (int i = 0; i < LIBRARIES; i++)
        if (s->mask & 1u << i) libraries[i]->close();
    if (on_weft) REQUIRE(weft_pool_destroy(&pool) == WEFT_OK);
}

/* ---- the parent --------------------------------------------------------------------------------------------------- */

static char *program;

/* What runs the libraries' jobs. hooks/openblas.h asks for a setting that lets OpenBLAS's own threads sleep soon: with it
 * alone, they are the third, for what of a gain comes from there. The last is the first once more, for what is noise. */
enum side { OWN, WEFT, OWN_SLEEPY, OWN_AGAIN, SIDES };
#define TIMEOUT "OPENBLAS_THREAD_TIMEOUT"

typedef struct worker {
    pid_t process;
    int socket;
} worker;

/* A new process, not only a fork: libraries keep threads and settings for good. */
static worker worker_start(const scene *s, enum side side, const int *repeats) {
    char words[3 + LIBRARIES][16], *arguments[5 + LIBRARIES] = {program};
    int ends[2];
    snprintf(words[0], sizeof words[0], "%s", side == WEFT ? "weft" : "own");
    snprintf(words[1], sizeof words[1], "%u", s->mask);
    snprintf(words[2], sizeof words[2], "%d", s->one_thread);
    for (int i = 0; i < LIBRARIES; i++) snprintf(words[3 + i], sizeof words[0], "%d", repeats[i]);
    for (int i = 0; i < 3 + LIBRARIES; i++) arguments[1 + i] = words[i];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        dup2(ends[1], PARENT);
        if (side == OWN || side == OWN_AGAIN)
            unsetenv(TIMEOUT);
        else
            setenv(TIMEOUT, "4", 0);
        execv("/proc/self/exe", arguments);
        _exit(98);
    }
    close(ends[1]);
    return (worker){child, ends[0]};
}

static result worker_turn(const worker *w) {
    result r = {.threads = 0};
    if (send(w->socket, "", 1, MSG_NOSIGNAL) == 1 && read(w->socket, &r, sizeof r) == (ssize_t)sizeof r) return r;
    fprintf(stderr, "hooks: a run failed\n");
    exit(1);
}

static void worker_end(const worker *w) {
    int status = -1;
    close(w->socket);
    REQUIRE(waitpid(w->process, &status, 0) == w->process);
    if (status == 0) return;
    fprintf(stderr, "hooks: a run ended with status %d\n", status);
    exit(1);
}

/* In a process made by worker_start. */
static int work_here(char **words) {
    int repeats[LIBRARIES];
    const scene s = {.mask = (unsigned)strtoul(words[1], NULL, 10), .one_thread = strcmp(words[2], "1") == 0};
    for (int i = 0; i < LIBRARIES; i++) repeats[i] = (int)strtol(words[3 + i], NULL, 10);
    work(&s, strcmp(words[0], "weft") == 0, repeats);
    return 0;
}

static int compare_doubles(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The true median lies between the values at `index` from either end with a probability of at least 95 percent, and of as
 * little more as can be: fair coins fall so. With fewer than six values no interval does: then it is that of all. */
static int interval_index(int count) {
    double chance = 1, below = 0; /* of `index` heads; of so many or fewer */
    int index = 0;
    for (int i = 0; i < count; i++) chance /= 2;
    for (; 2 * (below + chance) <= 0.05; index++) {
        below += chance;
        chance *= (double)(count - index) / (index + 1);
    }
    return index > 0 ? index - 1 : 0;
}

typedef double result_field(const result *r);
static double wall(const result *r) { return r->seconds; }
static double cpu(const result *r) { return r->cpu_seconds; }

/* How many CPUs it kept busy, by the median turn. */
static double busy(const result *results, int turns) {
    double values[TURNS_MAX];
    for (int turn = 0; turn < turns; turn++) values[turn] = results[turn].cpu_seconds / results[turn].seconds;
    qsort(values, (size_t)turns, sizeof *values, compare_doubles);
    return values[turns / 2];
}

static void ratio_print(const char *name, const result *above, const result *below, int turns, result_field *field) {
    double ratios[TURNS_MAX];
    const int low = interval_index(turns);
    for (int turn = 0; turn < turns; turn++) ratios[turn] = field(&above[turn]) / field(&below[turn]);
    qsort(ratios, (size_t)turns, sizeof *ratios, compare_doubles);
    printf("; %s %.3f (%.3f to %.3f)", name, ratios[turns / 2], ratios[low], ratios[turns - 1 - low]);
}

static bool is_same(const result *left, const result *right) {
    bool same = true;
    for (int i = 0; i < LIBRARIES; i++) {
        if (left->digest[i] == right->digest[i]) continue;
        printf("%s: the output differs\n", libraries[i]->name);
        same = false;
    }
    return same;
}

/* All ways in turns. false: the output differs. */
static bool race(const scene *s, const int *repeats, int turns) {
    static result results[SIDES][TURNS_MAX];
    const bool has_openblas = (s->mask & 1u << OPENBLAS) != 0;
    const bool is_there[SIDES] = {true, true, turns > 1 && has_openblas, turns > 1};
    worker workers[SIDES];
    bool same = true;
    for (int side = 0; side < SIDES; side++)
        if (is_there[side]) workers[side] = worker_start(s, (enum side)side, repeats);
    for (int turn = 0; turn < turns; turn++) {
        for (int i = 0; i < SIDES; i++) {
            const int side = (turn + i) % SIDES;
            if (is_there[side]) results[side][turn] = worker_turn(&workers[side]);
        }
        same = is_same(&results[OWN][turn], &results[WEFT][turn]) && same;
    }
    for (int side = 0; side < SIDES; side++)
        if (is_there[side]) worker_end(&workers[side]);
    printf("%s: output %s; threads %d own, %d weft", s->name, same ? "identical" : "DIFFERS", results[OWN]->threads,
           results[WEFT]->threads);
    if (turns > 1) {
        ratio_print("own / weft", results[OWN], results[WEFT], turns, wall);
        if (has_openblas) ratio_print("own, " TIMEOUT "=4, / weft", results[OWN_SLEEPY], results[WEFT], turns, wall);
        ratio_print("CPU time", results[OWN], results[WEFT], turns, cpu);
        printf("; CPUs busy %.2f own, %.2f weft", busy(results[OWN], turns), busy(results[WEFT], turns));
        ratio_print("control", results[OWN], results[OWN_AGAIN], turns, wall);
    }
    printf("\n");
    fflush(stdout);
    return same;
}

/* How often each is to run so that it takes about as long as the others. */
static void balance(unsigned mask, double seconds, int *repeats) {
    for (int i = 0; i < LIBRARIES; i++) {
        const int probe[LIBRARIES] = {10, 10, 10, 10, 10};
        const scene alone = {.mask = 1u << i};
        if (!(mask & 1u << i)) continue;
        const worker w = worker_start(&alone, OWN, probe);
        double each = worker_turn(&w).seconds / 10;
        worker_end(&w);
        repeats[i] = each * REPEATS_MAX < seconds ? REPEATS_MAX : (int)(seconds / each) + 1;
    }
}

/* ---- what runs together ------------------------------------------------------------------------------------------- */

enum { SCENES_MAX = 4 * LIBRARIES };

typedef struct scenes {
    scene list[SCENES_MAX];
    int count;
} scenes;

static void scene_add(scenes *all, unsigned mask, bool one_thread, const char *name, const char *more) {
    scene *s = &all->list[all->count++];
    s->mask = mask;
    s->one_thread = one_thread;
    snprintf(s->name, sizeof s->name, "%s%s%s", name, more, one_thread ? ", one thread" : "");
}

/* With `here` the libraries that there are: each alone, or also several. */
static void scenes_make(scenes *all, unsigned here, bool several) {
    const unsigned openblas = 1u << OPENBLAS;
    for (unsigned i = 0; i < LIBRARIES; i++)
        if (here & 1u << i) scene_add(all, 1u << i, false, libraries[i]->name, "");
    if (!several || (here & (here - 1)) == 0) return;
    for (unsigned i = 0; i < 2 * LIBRARIES; i++) { /* its threads spin, the others' do not */
        const unsigned one = 1u << i / 2;
        if (one != openblas && (here & one) && (here & openblas))
            scene_add(all, one | openblas, i % 2 != 0, "openblas+", libraries[i / 2]->name);
    }
    for (unsigned i = 0; i < LIBRARIES; i++) {
        const unsigned rest = here & ~(1u << i);
        if (rest != here && (rest & (rest - 1)) != 0) scene_add(all, rest, false, "no ", libraries[i]->name);
    }
    scene_add(all, here, false, "all", "");
    scene_add(all, here, true, "all", "");
}

static unsigned libraries_here(void) {
    unsigned here = 0;
    for (int i = 0; i < LIBRARIES; i++) {
        if (libraries[i]->missing != NULL)
            printf("skipped, %s: %s\n", libraries[i]->name, libraries[i]->missing);
        else
            here |= 1u << i;
    }
    return here;
}

int main(int argc, char **argv) {
    program = argv[0];
    int repeats[LIBRARIES] = {3, 3, 3, 3, 3}, turns = 1, ran = 0;
    if (argc == 4 + LIBRARIES) return work_here(argv + 1);
    if (argc > 1) turns = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 21;
    if (argc > 4 || (argc > 1 && strcmp(argv[1], "--race") != 0) || turns < 1 || turns > TURNS_MAX) {
        fprintf(stderr, "usage: hooks [--race [TURNS [SCENE]]]\n");
        return 2;
    }
    static scenes all;
    bool same = true;
    const unsigned here = libraries_here();
    scenes_make(&all, here, argc > 1);
    if (turns > 1) balance(here, 0.05, repeats);
    for (int i = 0; i < all.count; i++) {
        if (argc == 4 && strcmp(argv[3], all.list[i].name) != 0) continue;
        same &= race(&all.list[i], repeats, turns);
        ran++;
    }
    if (argc == 4 && ran == 0) {
        fprintf(stderr, "hooks: no scene %s\n", argv[3]);
        return 2;
    }
    return same ? 0 : 1;
}
