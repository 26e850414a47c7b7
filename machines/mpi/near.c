/* near.c: meeting where all ranks share memory: in the window, by a futex, for collective calls of MPI are polled and take several
 * naps.
 *
 * Behind the words that every window has: how many have come to all meetings together; the gate, which is the number of meetings
 * that are over; two times the words that each rank brings; each rank's mail. Who comes last opens the gate and wakes the others. No
 * rank comes to meeting n + 2 before all have left meeting n, for they have to come to n + 1. So the words of meeting n lie in one
 * of two places in turns. */
#include "dist.h"

#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static size_t word_come(int ranks) { return (size_t)WORD_OF(ranks); }
static size_t word_gate(int ranks) { return word_come(ranks) + 1; }
static size_t word_brought(int ranks, uint64_t meeting) {
    return word_gate(ranks) + 1 + (size_t)(meeting % 2) * (size_t)ranks * OUTCOME_WORDS;
}
static size_t word_mail(int ranks) { return word_brought(ranks, 1) + (size_t)ranks * OUTCOME_WORDS; }

size_t near_words(int ranks) { return word_mail(ranks) + (size_t)ranks * (MAIL_BYTES / sizeof(uint64_t)); }

unsigned char *near_mail(const weft_dist *dist, int rank) {
    return (unsigned char *)(dist->words + word_mail(dist->ranks)) + (size_t)rank * MAIL_BYTES;
}

/* Of other processes, too. */
static void gate_sleep(const uint32_t *gate, uint32_t value) {
    const struct timespec time = {0, (long)LOOK_NS};
    syscall(SYS_futex, gate, FUTEX_WAIT, value, &time, NULL, 0);
}

void near_meet(weft_dist *dist, const uint64_t mine[OUTCOME_WORDS]) {
    uint64_t *brought = dist->words + word_brought(dist->ranks, dist->meetings);
    uint32_t *gate = (uint32_t *)(dist->words + word_gate(dist->ranks)), open = (uint32_t)++dist->meetings;
    memcpy(brought + (size_t)dist->rank * OUTCOME_WORDS, mine, sizeof(struct outcome));
    /* Acquire: what all have brought, also for those whom the gate lets in. Release: what this rank has. */
    uint64_t come = __atomic_add_fetch(&dist->words[word_come(dist->ranks)], 1, __ATOMIC_ACQ_REL);
    if (come == dist->meetings * (uint64_t)dist->ranks) {
        __atomic_store_n(gate, open, __ATOMIC_RELEASE);
        syscall(SYS_futex, gate, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
    while (__atomic_load_n(gate, __ATOMIC_ACQUIRE) != open) {
        gate_sleep(gate, open - 1);
        watch_say(dist, false);
        watch_look(dist);
        dist_progress(dist); /* another rank may be inside MPI still, and need this one */
    }
    memcpy(dist->outcomes, brought, (size_t)dist->ranks * sizeof(struct outcome));
}
