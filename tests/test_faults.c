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
};

/* Calls that are repeated until they do not return EINTR would never end with all of them struck. */
static const struct way ways[] = {
    {CALL_MALLOC, "ENOMEM", ENOMEM, EFFECT_FAIL, ALONE | ON},
    {CALL_MAP, "ENOMEM", ENOMEM, EFFECT_FAIL, ALONE | ON},
    {CALL_UNMAP, "ENOMEM", ENOMEM, EFFECT_FAIL, ALONE | ON},
    {CALL_ADVISE, "EINVAL", EINVAL, EFFECT_FAIL, ALONE | ON},
    {CALL_REMAP, "ENOMEM", ENOMEM, EFFECT_FAIL, ALONE | ON},
    {CALL_REMAP, "EFAULT", EFAULT, EFFECT_FAIL, ALONE | ON},
    {CALL_INCORE, "ENOSYS", ENOSYS, EFFECT_FAIL, ALONE | ON},
    {CALL_LOCK, "ENOMEM", ENOMEM, EFFECT_FAIL, ALONE | ON},
    {CALL_THREAD, "EAGAIN", EAGAIN, EFFECT_FAIL, ALONE | ON},
    {CALL_THREAD, "EPERM", EPERM, EFFECT_FAIL, ALONE},
    {CALL_SPECIFIC, "ENOMEM", ENOMEM, EFFECT_FAIL, ALONE | ON},
    {CALL_KEY, "EAGAIN", EAGAIN, EFFECT_FAIL, ALONE | ON},
    {CALL_ATFORK, "ENOMEM", ENOMEM, EFFECT_FAIL, ALONE | ON},
    {CALL_ATTR, "ENOMEM", ENOMEM, EFFECT_FAIL, ALONE | ON},
    {CALL_ATTR_CPUS, "ENOMEM", ENOMEM, EFFECT_FAIL, ALONE | ON},
    {CALL_STACK, "ENOMEM", ENOMEM, EFFECT_FAIL, ALONE | ON},
    {CALL_GET_CPUS, "EPERM", EPERM, EFFECT_FAIL, ALONE | ON},
    {CALL_GET_CPUS, "EINVAL", EINVAL, EFFECT_FAIL, ALONE | ON},
    {CALL_SET_CPUS, "EINVAL", EINVAL, EFFECT_FAIL, ALONE | ON},
    {CALL_GET_POLICY, "ENOSYS", ENOSYS, EFFECT_FAIL, ALONE | ON},
    {CALL_SET_POLICY, "EPERM", EPERM, EFFECT_FAIL, ALONE | ON},
    {CALL_YIELD, "ENOSYS", ENOSYS, EFFECT_FAIL, ALONE | ON},
    {CALL_PRCTL, "EPERM", EPERM, EFFECT_FAIL, ALONE | ON},
    {CALL_FCNTL, "EMFILE", EMFILE, EFFECT_FAIL, ALONE | ON},
    {CALL_STAT, "EACCES", EACCES, EFFECT_FAIL, ALONE | ON},
    {CALL_TRUNCATE, "EINVAL", EINVAL, EFFECT_FAIL, ALONE | ON},
    {CALL_USAGE, "EINVAL", EINVAL, EFFECT_FAIL, ALONE | ON},
    {CALL_CLOCK, "leaps by an hour", 0, EFFECT_AN_HOUR, ALONE},
    {CALL_CLOCK, "stands still", 0, EFFECT_NO_TIME, ALONE | BURST},
    {CALL_WAIT, "EINTR", EINTR, EFFECT_FAIL, ALONE | BURST | ON},
    {CALL_WAIT, "EAGAIN", EAGAIN, EFFECT_FAIL, ALONE | BURST},
    {CALL_WAIT, "returns for no reason", 0, EFFECT_NOTHING, ALONE | BURST | ON},
    {CALL_WAIT, "ETIMEDOUT early", ETIMEDOUT, EFFECT_FAIL, ALONE | BURST},
    {CALL_WAIT, "ENOSYS", ENOSYS, EFFECT_FAIL, ON},
    {CALL_LOCK_PI, "ENOSYS", ENOSYS, EFFECT_FAIL, ALONE | ON},
    {CALL_LOCK_PI, "EAGAIN", EAGAIN, EFFECT_FAIL, ALONE | BURST},
    {CALL_BARRIER, "EPERM", EPERM, EFFECT_FAIL, ALONE | ON},
    {CALL_OPEN, "EMFILE", EMFILE, EFFECT_FAIL, ALONE | ON},
    {CALL_READ, "EIO", EIO, EFFECT_FAIL, ALONE | ON},
    {CALL_READ, "EINTR", EINTR, EFFECT_FAIL, ALONE | BURST},
    {CALL_READ, "one byte", 0, EFFECT_SHORT, ALONE | ON},
    {CALL_READ_AT, "EIO", EIO, EFFECT_FAIL, ALONE | ON},
    {CALL_READ_AT, "EINTR", EINTR, EFFECT_FAIL, ALONE | BURST},
    {CALL_READ_AT, "one byte", 0, EFFECT_SHORT, ALONE | BURST},
    {CALL_WRITE, "ENOSPC", ENOSPC, EFFECT_FAIL, ALONE | ON},
    {CALL_WRITE, "EINTR", EINTR, EFFECT_FAIL, ALONE | BURST},
    {CALL_WRITE, "one byte", 0, EFFECT_SHORT, ALONE | BURST},
    {CALL_CLOSE, "EINTR", EINTR, EFFECT_FAIL, ALONE | ON},
    {CALL_SLEEP, "EINTR", EINTR, EFFECT_FAIL, ALONE | ON},
    {CALL_SLEEP, "ENOSYS", ENOSYS, EFFECT_FAIL, ON},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

static bool is_all;
static struct kept kept_at_best;
static long live_at_best;
static unsigned made_at_best[CALLS];
static unsigned runs, runs_struck;
static uint64_t calls_struck;
static unsigned ever_seen[SEEN_CALLS];

/* ---- one run ------------------------------------------------------------------------------------------------------ */

static struct strike strike_now;
static bool strikes;

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
    struct scene struck = {.is_strict = !strikes, .may_be_late = strike_now.effect == EFFECT_AN_HOUR};
    struct scene served = {.is_strict = true, .may_be_late = struck.may_be_late};
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

static void check_kept(const char *what) {
    const struct kept *kept = &shared->kept, *best = &kept_at_best;
    bool is_kept = kept->blocks == best->blocks && kept->threads == best->threads && kept->files == best->files &&
                   kept->keys == best->keys && kept->forks_watched == best->forks_watched &&
                   shared->live_bytes == live_at_best;
    if (is_kept) return;
    printf("%s: blocks of malloc, threads, files, keys, at-fork hooks, bytes of the heap left:\n%ld %ld %ld %ld %ld %ld "
           "instead of "
           "%ld %ld %ld %ld %ld %ld\n",
           what, kept->blocks, kept->threads, kept->files, kept->keys, kept->forks_watched, shared->live_bytes, best->blocks,
           best->threads, best->files, best->keys, best->forks_watched, live_at_best);
    exit(1);
}

static void run(const char *what) {
    run_child(run_in_child, what);
    runs++;
    for (int i = 0; i < SEEN_CALLS; i++) ever_seen[i] += atomic_load(&shared->outcome.seen[i]) != 0;
    if (shared->by_wall_clock != 0) printf("%s: asked for the wall clock\n", what);
    if (shared->by_wall_clock != 0) exit(1);
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
    run(what);
    check_kept(what);
    row->runs++;
    row->struck += shared->struck != 0;
    row->calls_struck += shared->struck;
    row->errors += atomic_load(&shared->outcome.errors);
    row->accepted += atomic_load(&shared->outcome.accepted);
    row->refused += atomic_load(&shared->outcome.refused);
    return shared->struck != 0;
}

enum { DRAWN = 2, MANY = 100 };

static void run_row(const struct way *way, unsigned span) {
    struct row row = {0};
    unsigned made = made_at_best[way->call];
    bool is_hasty = way->call == CALL_WAIT && span == ON; /* threads that should sleep run */
    if (is_all) {
        for (unsigned at = 1; strike_at(way, span, at, &row);) at += 1 + (is_hasty ? at / 4 : at / MANY);
    } else {
        if (!is_hasty) strike_at(way, span, 1, &row); /* what is done once, mostly */
        for (int i = 1; i < DRAWN && made > 1; i++) strike_at(way, span, 2 + draw(made - 1), &row);
    }
    printf("%s, %s, %s: %u runs, %u struck, %llu calls failed; %u errors returned, %llu tasks accepted, %llu refused\n",
           call_names[way->call], way->how, span_names[span], row.runs, row.struck, (unsigned long long)row.calls_struck,
           row.errors, (unsigned long long)row.accepted, (unsigned long long)row.refused);
    fflush(stdout);
    runs_struck += row.struck;
    calls_struck += row.calls_struck;
}

/* ---- the whole ---------------------------------------------------------------------------------------------------- */

/* Without faults: what it asks the system for, and what it keeps. */
static void run_at_best(void) {
    strikes = false;
    run("no fault");
    kept_at_best = shared->kept;
    live_at_best = shared->live_bytes;
    memcpy(made_at_best, shared->made, sizeof made_at_best);
    for (int round = 0; round < 3; round++) { /* a scene that differs by itself would tell nothing */
        run("no fault");
        check_kept("no fault");
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
    run_begin();
    if (!is_all) printf("some calls of each kind, seed %llu\n", (unsigned long long)draw_seed());
    run_at_best();
    for (int i = 0; i < WAYS; i++) {
        if (chosen != NULL && strcmp(chosen, call_names[ways[i].call]) != 0) continue;
        for (unsigned span = ALONE; span <= ON; span *= 2)
            if ((ways[i].spans & span) != 0) run_row(&ways[i], span);
    }
    printf("%u runs, %u of them struck, %llu calls failed\n", runs, runs_struck, (unsigned long long)calls_struck);
    return check_seen();
}
