/* tally.h: how many tasks run at once, in all processes that share the memory. */
#ifndef WEFT_TESTS_TALLY_H
#define WEFT_TESTS_TALLY_H

#include "front.h"
#include "pool_help.h"

#include <sys/mman.h>

#define TALLY_LEVELS 8u
struct tally {
    atomic_uint now, most;                 /* tasks that run, and the most of them */
    atomic_uint workers, most_workers;     /* the same of those that run on workers */
    atomic_uint arrived, left;             /* programs that meet (test_jobserver_make.c) */
    atomic_uint done, begun[TALLY_LEVELS]; /* how many have ended; have begun as the first, second, ... */
};
static struct tally *tally; /* of the processes that share it */

static inline void tally_begin(void) {
    int shared = MAP_SHARED | MAP_ANONYMOUS;
    tally = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, shared, -1, 0);
    REQUIRE(tally != MAP_FAILED);
}
static inline void tally_end(void) { munmap(tally, sizeof *tally); }

static inline unsigned tally_up(atomic_uint *count, atomic_uint *most) {
    unsigned now = atomic_fetch_add(count, 1) + 1;
    unsigned found = atomic_load(most);
    while (now > found && !atomic_compare_exchange_weak(most, &found, now)) {}
    return now;
}

static inline int counted(void *payload, weft_worker *self) {
    unsigned now = tally_up(&tally->now, &tally->most);
    if (self->is_worker) tally_up(&tally->workers, &tally->most_workers);
    atomic_fetch_add(&tally->begun[min_u64(now, TALLY_LEVELS) - 1], 1);
    for (unsigned i = *(unsigned *)payload; i > 0; i--) os_pause();
    if (self->is_worker) atomic_fetch_sub(&tally->workers, 1);
    atomic_fetch_sub(&tally->now, 1);
    atomic_fetch_add(&tally->done, 1);
    return 0;
}

static inline void submit_counted(weft_pool *pool, weft_group *group, unsigned tasks, unsigned pauses) {
    for (unsigned i = 0; i < tasks; i++) REQUIRE(weft_submit(pool, group, counted, &pauses, sizeof pauses) == WEFT_OK);
}

#endif
