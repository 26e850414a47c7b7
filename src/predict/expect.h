/* expect.h: predicts when work will come from when it came before. Layer 6. Pure arithmetic: it reads no clock and knows no
 * threads. Times are nanoseconds on one clock, which the caller chooses.
 *
 * An arrival is a moment at which work came to a sleeping worker. A pattern is a series of arrivals one period apart, with
 * jitter and drift; some may be missing. */
#ifndef WEFT_EXPECT_H
#define WEFT_EXPECT_H

#include "os/os.h"

#define EXPECT_KEPT 6u

struct expect {
    uint64_t gaps[EXPECT_KEPT]; /* between the last arrivals, ns; a ring */
    uint32_t gap_count;         /* gaps noted so far */
    uint64_t last;              /* the last arrival; 0: none yet */
    /* the pattern */
    uint64_t period;         /* ns; 0: no pattern is known */
    uint64_t grid;           /* where the last arrival should have been */
    uint64_t missed;         /* expected arrivals since then that did not come or were not seen */
    uint32_t vain;           /* looks in a row at which no arrival came */
    uint32_t seen;           /* of these, looks that began before the expected moment: so none has come */
    bool is_paused;          /* the worker does not wake up ahead until an arrival comes */
    uint64_t off_grid;       /* average distance of arrivals from the grid, ns */
    uint64_t off_last;       /* average distance from one period after the arrival before, ns */
    uint32_t strays;         /* score of recent arrivals that did not fit: STRAYS_MAX */
    uint32_t skips;          /* arrivals in a row that each came after a missing one */
    uint32_t probation;      /* arrivals to predict correctly before the worker wakes up for the next */
    uint32_t probation_next; /* the same for the next pattern, if this one fails */
    bool is_stray;           /* the last arrival did not fit, */
    bool is_late;            /* and none came at the moment to which it might belong */
    /* announced by weft_pool_expect */
    uint64_t told;   /* the announced moment; 0: none */
    uint64_t obeyed; /* the last announced moment that has passed */
    /* waking up ahead */
    uint64_t lead;        /* ns before the arrival at which to wake up */
    uint64_t woke;        /* when the timer last woke the worker */
    uint64_t early;       /* average time from then to the arrival, ns */
    uint64_t hold;        /* ns after the expected moment until which to look for the arrival */
    uint64_t planned;     /* the arrival for which the worker wakes up next; 0: none */
    uint64_t spent;       /* ns awake only for arrivals to come */
    uint64_t spent_since; /* the moment since which `spent` counts */
};

struct expect_plan {
    uint64_t wake;  /* when the timer is to wake the worker; 0: nothing is expected */
    uint64_t until; /* the moment until which to look for the arrival then */
};

/* Work came at `when` to a worker that slept, or (`was_ready`) was awake ahead of it. */
void expect_arrival(struct expect *expect, uint64_t when, bool was_ready);
/* Announces the moment of the next arrival; 0: withdraws it. Announcing the same moment again changes nothing. */
void expect_tell(struct expect *expect, uint64_t when);
/* Plans for the next arrival after `now`, spending at most `percent` of the time awake. Earlier arrivals count as missed. An
 * announced moment that lies ahead has precedence over what was learned, from eight periods before it on. */
struct expect_plan expect_next(struct expect *expect, uint64_t now, uint32_t percent);
/* The worker was awake ahead of an arrival from `woke` to `now`. If the arrival came, expect_arrival follows. */
void expect_looked(struct expect *expect, uint64_t woke, uint64_t now);
/* The worker is not to wake up for the next `arrivals`. */
void expect_pass(struct expect *expect, uint32_t arrivals);

#endif
