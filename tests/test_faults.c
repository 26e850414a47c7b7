/* test_faults.c: each call that the library makes of the system fails, alone, or from then on, while a scene calls every
 * function of weft.h (fault_scene.c). Nothing crashes, hangs or leaks, no task is lost or run twice, every result is one that
 * weft.h names; and when the system serves again, so does weft.
 *
 *     test_faults [--all] [CALL]
 *
 * Each run is a process of its own, so that what is done once is struck, too. --all, or WEFT_TEST_ALL=1: each call of each
 * kind (of kinds with hundreds of them in steps of a hundredth; of waits that never sleep, of a quarter). Else some, drawn from WEFT_TEST_SEED. */
#define _GNU_SOURCE
#include "fault_run.h"

#include <errno.h>

enum { ALONE = 1, BURST = 2, ON = 4 }; /* one call; a hundred; all from it on */
static const char *const span_names[] = {"", "alone", "100 in a row", "", "and all after"};

struct way {
    enum call call;
    const char *how;
    int error;
    enum effect effect;
    unsigned spans;
    bool is_felt; /* by callers: results of shortage. Else every call must do what it is for */
};

/* Calls that are repeated until they do not return EINTR would never end with all of them struck. */
static const struct way ways[] = {
    {CALL_MALLOC, "ENOMEM", ENOMEM, EFFECT_FAIL, ALONE | ON, true},
    {CALL_MAP, "ENOMEM", ENOMEM, EFFECT_FAIL, ALONE | ON, true},
    {CALL_UNMAP, "ENOMEM", ENOMEM, EFFECT_FAIL, ALONE | ON, false},
    {CALL_ADVISE, "EINVAL", EINVAL, EFFECT_FAIL, ALONE | ON, false},
    {CALL_REMAP, "ENOMEM", ENOMEM, EFFECT_FAIL, ALONE | ON, false},
    {CALL_REMAP, "EFAULT", EFAULT, EFFECT_FAIL, ALONE | ON, false},
    {CALL_INCORE, "ENOSYS", ENOSYS, EFFECT_FAIL, ALONE | ON, false},
    {CALL_LOCK, "ENOMEM", ENOMEM, EFFECT_FAIL, ALONE | ON, false},
    {CALL_THREAD, "EAGAIN", EAGAIN, EFFECT_FAIL, ALONE | ON, true},
    {CALL_THREAD, "EPERM", EPERM, EFFECT_FAIL, ALONE, true},
    {CALL_SPECIFIC, "ENOMEM", ENOMEM, EFFECT_FAIL, ALONE | ON, true},
    {CALL_KEY, "EAGAIN", EAGAIN, EFFECT_FAIL, ALONE | ON, true},
    {CALL_ATFORK, "ENOMEM", ENOMEM, EFFECT_FAIL, ALONE | ON, false},
    {CALL_ATTR, "ENOMEM", ENOMEM, EFFECT_FAIL, ALONE | ON, true},
    {CALL_ATTR_CPUS, "ENOMEM", ENOMEM, EFFECT_FAIL, ALONE | ON, true},
    {CALL_STACK, "ENOMEM", ENOMEM, EFFECT_FAIL, ALONE | ON, false},
    {CALL_GET_CPUS, "EPERM", EPERM, EFFECT_FAIL, ALONE | ON, false},
    {CALL_GET_CPUS, "EINVAL", EINVAL, EFFECT_FAIL, ALONE | ON, false},
    {CALL_SET_CPUS, "EINVAL", EINVAL, EFFECT_FAIL, ALONE | ON, false},
    {CALL_GET_POLICY, "ENOSYS", ENOSYS, EFFECT_FAIL, ALONE | ON, false},
    {CALL_SET_POLICY, "EPERM", EPERM, EFFECT_FAIL, ALONE | ON, false},
    {CALL_GET_SLICE, "ENOSYS", ENOSYS, EFFECT_FAIL, ALONE | ON, false},
    {CALL_YIELD, "ENOSYS", ENOSYS, EFFECT_FAIL, ALONE | ON, false},
    {CALL_PRCTL, "EPERM", EPERM, EFFECT_FAIL, ALONE | ON, false},
    {CALL_FCNTL, "EMFILE", EMFILE, EFFECT_FAIL, ALONE | ON, true},
    {CALL_STAT, "EACCES", EACCES, EFFECT_FAIL, ALONE | ON, false},
    {CALL_TRUNCATE, "EINVAL", EINVAL, EFFECT_FAIL, ALONE | ON, false},
    {CALL_USAGE, "EINVAL", EINVAL, EFFECT_FAIL, ALONE | ON, false},
    {CALL_CLOCK, "leaps by an hour", 0, EFFECT_AN_HOUR, ALONE, true},
    {CALL_CLOCK, "stands still", 0, EFFECT_NO_TIME, ALONE | BURST, false},
    {CALL_WAIT, "EINTR", EINTR, EFFECT_FAIL, ALONE | BURST | ON, false},
    {CALL_WAIT, "EAGAIN", EAGAIN, EFFECT_FAIL, ALONE | BURST, false},
    {CALL_WAIT, "returns for no reason", 0, EFFECT_NOTHING, ALONE | BURST | ON, false},
    {CALL_WAIT, "ETIMEDOUT early", ETIMEDOUT, EFFECT_FAIL, ALONE | BURST, false},
    {CALL_WAIT, "ENOSYS", ENOSYS, EFFECT_FAIL, ON, false},
    {CALL_LOCK_PI, "ENOSYS", ENOSYS, EFFECT_FAIL, ALONE | ON, false},
    {CALL_LOCK_PI, "EAGAIN", EAGAIN, EFFECT_FAIL, ALONE | BURST, false},
    {CALL_BARRIER, "EPERM", EPERM, EFFECT_FAIL, ALONE | ON, false},
    {CALL_OPEN, "EMFILE", EMFILE, EFFECT_FAIL, ALONE | ON, true},
    {CALL_READ, "EIO", EIO, EFFECT_FAIL, ALONE | ON, false},
    {CALL_READ, "EINTR", EINTR, EFFECT_FAIL, ALONE | BURST, false},
    {CALL_READ, "one byte", 0, EFFECT_SHORT, ALONE | ON, false},
    {CALL_READ_AT, "EIO", EIO, EFFECT_FAIL, ALONE | ON, false},
    {CALL_READ_AT, "EINTR", EINTR, EFFECT_FAIL, ALONE | BURST, false},
    {CALL_READ_AT, "one byte", 0, EFFECT_SHORT, ALONE | BURST, false},
    {CALL_WRITE, "ENOSPC", ENOSPC, EFFECT_FAIL, ALONE | ON, true},
    {CALL_WRITE, "EINTR", EINTR, EFFECT_FAIL, ALONE | BURST, false},
    {CALL_WRITE, "one byte", 0, EFFECT_SHORT, ALONE | BURST, false},
    {CALL_CLOSE, "EINTR", EINTR, EFFECT_FAIL, ALONE | ON, false},
    {CALL_SLEEP, "EINTR", EINTR, EFFECT_FAIL, ALONE | ON, false},
    {CALL_SLEEP, "ENOSYS", ENOSYS, EFFECT_FAIL, ON, false},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

static bool is_all;
static unsigned made_at_best[CALLS];
static unsigned runs, runs_struck;
static uint64_t calls_struck;
static unsigned ever_seen[SEEN_CALLS];

/* ---- one run ------------------------------------------------------------------------------------------------------ */

/* They are made, locked, joined, cut and removed, or not, as calls fail. */
static char files[] = "/tmp/weft-faults-XXXXXX";
static pid_t files_owner;

static void files_end(void) {
    char trace[64];
    snprintf(trace, sizeof trace, "%s/trace", files);
    if (files_owner == getpid() && (unlink(trace) != 0 || rmdir(files) != 0)) printf("%s is not empty\n", files);
}

static void files_begin(void) {
    files_owner = getpid();
    REQUIRE(mkdtemp(files) != NULL && atexit(files_end) == 0);
}

static struct strike strike_now;
static bool strikes, is_felt;

static void *scene_thread(void *scene) {
    scene_run(scene);
    return NULL;
}

static long live_bytes(void) {
    weft_heap_counts counts = {.struct_size = sizeof counts};
    REQUIRE(weft_heap_stats(&counts) == WEFT_OK);
    shared->mapped_bytes = calls_kept().mapped_bytes;
    shared->heap_bytes = (long)counts.mapped_bytes;
    return (long)counts.live_bytes;
}

/* The scene with the fault, then without: all is as it was, and works. */
static void run_in_child(void) {
    struct scene struck = {.is_strict = !is_felt, .may_be_late = strike_now.effect == EFFECT_AN_HOUR, .files = files};
    struct scene served = {.is_strict = true, .may_be_late = struck.may_be_late, .files = files};
    calls_arm(strikes ? &strike_now : NULL);
    thread_end(thread_begin(scene_thread, &struck));
    shared->struck = calls_disarm();
    for (int i = 0; i < CALLS; i++) shared->made[i] = calls_made((enum call)i);
    thread_end(thread_begin(scene_thread, &served));
    shared->live_bytes = live_bytes();
    shared->kept = calls_kept();
    shared->by_wall_clock = calls_by_wall_clock();
}

static void describe(char *text, size_t size, const struct way *way, unsigned span, unsigned at) {
    snprintf(text, size, "%s, %s, %s, call %u", call_names[way->call], way->how, span_names[span], at);
}

static void wrong(const char *what, const char *how) {
    printf("%s: %s\n", what, how);
    exit(1);
}

/* All is given back, but for the key and the at-fork hooks, one of the pools and one of a profile that could begin. */
static void check_kept(const char *what) {
    const struct kept *kept = &shared->kept;
    char how[256];
    if (kept->blocks == 0 && kept->threads == 0 && kept->files == 0 && kept->keys == 1 && kept->forks_watched >= 1 &&
        kept->forks_watched <= 2 && shared->live_bytes == 0)
        return;
    snprintf(how, sizeof how,
             "left: %ld blocks of malloc, %ld threads, %ld files, %ld keys, %ld at-fork hooks, %ld bytes of the heap",
             kept->blocks, kept->threads, kept->files, kept->keys, kept->forks_watched, shared->live_bytes);
    wrong(what, how);
}

/* weft_pool_real_time says what was refused. Of a thread's policy and slice the first is what is looked at: a later one may be
 * refused to a spare that begins, or to a worker that falls asleep, when the scene has looked already. */
static void check_refusals(const char *what, const struct way *way, unsigned at) {
    const struct outcome *o = &shared->outcome;
    unsigned told = way->call == CALL_LOCK ? atomic_load(&o->lock_errnos) : atomic_load(&o->policy_errnos);
    bool is_policy = way->call == CALL_SET_POLICY || way->call == CALL_GET_SLICE;
    if (way->call != CALL_LOCK && (!is_policy || at > 1)) return;
    if (shared->struck != 0 && (told & 1u << way->error % 32) == 0) wrong(what, "weft_pool_real_time does not tell of it");
}

static void run(const char *what) {
    run_child(run_in_child, what);
    runs++;
    for (int i = 0; i < SEEN_CALLS; i++) ever_seen[i] += atomic_load(&shared->outcome.seen[i]) != 0;
    if (shared->by_wall_clock != 0) wrong(what, "asked for the wall clock");
}

/* ---- a row -------------------------------------------------------------------------------------------------------- */

struct row {
    unsigned runs, struck, errors;
    uint64_t calls_struck, accepted, refused;
};

/* Whether any call was struck. */
static bool strike_at(const struct way *way, unsigned span, unsigned at, struct row *row) {
    char what[128];
    describe(what, sizeof what, way, span, at);
    unsigned last = span == ALONE ? at : span == BURST ? at + 99 : UINT32_MAX;
    strike_now = (struct strike){way->call, way->error, way->effect, at, last, way->call == CALL_SLEEP};
    is_felt = way->is_felt;
    run(what);
    check_kept(what);
    check_refusals(what, way, at);
    row->runs++;
    row->struck += shared->struck != 0;
    row->calls_struck += shared->struck;
    row->errors += atomic_load(&shared->outcome.errors);
    row->accepted += atomic_load(&shared->outcome.accepted);
    row->refused += atomic_load(&shared->outcome.refused);
    return shared->struck != 0;
}

#if defined(SANITIZED_THREAD)
enum { IS_SLOW = 1 }; /* a run takes a second */
#else
enum { IS_SLOW = 0 };
#endif
enum { MANY = 100 };

static void run_row(const struct way *way, unsigned span) {
    struct row row = {0};
    unsigned made = made_at_best[way->call];
    bool is_hasty = way->call == CALL_WAIT && span == ON; /* threads that should sleep run */
    if (is_all) {
        for (unsigned at = 1; strike_at(way, span, at, &row);) at += 1 + (is_hasty ? at / 4 : at / MANY);
    } else if (IS_SLOW && draw(2) == 0) {
        printf("%s, %s, %s: not drawn this time\n", call_names[way->call], way->how, span_names[span]);
        return;
    } else {
        unsigned of_two = IS_SLOW && made > 1 && !is_hasty ? draw(2) : 2; /* one of the two, or both */
        if (!is_hasty && of_two != 1) strike_at(way, span, 1, &row);      /* what is done once, mostly */
        if (made > 1 && of_two != 0) strike_at(way, span, 2 + draw(made - 1), &row);
    }
    printf("%s, %s, %s: %u runs, %u struck, %llu calls failed; %u errors returned, %llu tasks accepted, %llu refused\n",
           call_names[way->call], way->how, span_names[span], row.runs, row.struck, (unsigned long long)row.calls_struck,
           row.errors, (unsigned long long)row.accepted, (unsigned long long)row.refused);
    fflush(stdout);
    runs_struck += row.struck;
    calls_struck += row.calls_struck;
}

/* ---- the whole ---------------------------------------------------------------------------------------------------- */

/* Without faults: what it asks the system for. */
static void run_at_best(void) {
    run("no fault");
    memcpy(made_at_best, shared->made, sizeof made_at_best);
    check_kept("no fault");
    for (int i = 0; i < CALLS; i++) {
        bool is_by_chance = i == CALL_LOCK_PI || i == CALL_SLEEP || i == CALL_YIELD || i == CALL_PRCTL || i == CALL_WAIT;
#if !defined(__GLIBC__)
        is_by_chance |= i == CALL_ATTR_CPUS; /* glibc's alone */
#endif
        if (made_at_best[i] == 0 && !is_by_chance) wrong(call_names[i], "the scene never needs it");
    }
    strikes = true;
}

static int check_seen(void) {
    unsigned missing = 0;
    for (int i = 0; i < SEEN_CALLS; i++) {
        if (ever_seen[i] != 0) continue;
        printf("the scene does not call %s\n", seen_names[i]);
        missing++;
    }
    printf("functions of weft.h called: %u of %u\n", (unsigned)SEEN_CALLS - missing, (unsigned)SEEN_CALLS);
    return missing == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
    const char *chosen = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--all") == 0)
            is_all = true;
        else
            chosen = argv[i];
    }
    is_all |= run_all_wished();
    if (is_emulated()) {
        printf("skipped, all: what the C library refuses is the same on every processor\n");
        return 0;
    }
    run_begin();
    files_begin();
    if (!is_all) printf("some calls of each kind, seed %llu\n", (unsigned long long)draw_seed());
    run_at_best();
    for (int i = 0; i < WAYS; i++) {
        if (chosen != NULL && strcmp(chosen, call_names[ways[i].call]) != 0) continue;
        for (unsigned span = ALONE; span <= ON; span *= 2)
            if ((ways[i].spans & span) != 0) run_row(&ways[i], span);
    }
    printf("%u runs, %u of them struck, %llu calls failed\n", runs, runs_struck, (unsigned long long)calls_struck);
    return chosen == NULL ? check_seen() : 0; /* few runs may not meet a thief */
}
