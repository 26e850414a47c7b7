/* expect.h: when work is going to come, learned from when it came. Layer 6. Nothing but arithmetic: no clock, no thread;
 * times are nanoseconds on any one clock.
 *
 * A arrival is work that came to a sleeper. A pattern is arrivals one period apart, with jitter and drift, some of them
 * missing. */
#ifndef WEFT_EXPECT_H
#define WEFT_EXPECT_H

#include "os/os.h"

#define EXPECT_KEPT 6u

struct expect {
    uint64_t gaps[EXPECT_KEPT]; /* between the last arrivals; a ring */
    uint32_t gap_count;         /* ever */
    uint64_t last;              /* arrival; 0: none yet */
    /* the pattern */
    uint64_t period;         /* 0: none known */
    uint64_t grid;           /* where the last arrival should have been */
    uint64_t missed;         /* arrivals since then that did not come, or were not seen */
    uint32_t vain;           /* times in a row that it looked out for one and none came, */
    uint32_t seen;           /* and from before its moment on, so that none has come */
    bool is_paused;          /* nobody gets up until a arrival comes */
    uint64_t off_grid;       /* how far arrivals are from the grid, about */
    uint64_t off_last;       /* how far from one period after the arrival before */
    uint32_t strays;         /* arrivals lately that fit nothing */
    uint32_t skips;          /* arrivals in a row that came after one that did not */
    uint32_t probation;      /* arrivals to foretell before anybody gets up for them */
    uint32_t probation_next; /* how many it will be after this pattern, should it fail */
    bool is_stray;           /* the last arrival fitted nothing, */
    bool is_late;            /* and none came where it might belong */
    /* by hand */
    uint64_t told;   /* the moment; 0: none */
    uint64_t obeyed; /* the last one that is over */
    /* getting up for it */
    uint64_t lead;        /* how long before the arrival */
    uint64_t woke;        /* when the clock last woke it */
    uint64_t early;       /* how long before the arrival that was, about */
    uint64_t hold;        /* how long after it to look on */
    uint64_t planned;     /* the arrival that somebody gets up for next; 0: nobody does */
    uint64_t spent;       /* awake for nothing but arrivals to come */
    uint64_t spent_since; /* counted from then on */
};

struct expect_plan {
    uint64_t wake;  /* when to have the clock wake one up; 0: nothing is expected */
    uint64_t until; /* how long to look for the arrival then */
};

/* Work came at `when` to a thread that slept, or (`was_ready`) looked out for it. */
void expect_arrival(struct expect *expect, uint64_t when, bool was_ready);
/* Somebody knows when the next arrival is; 0: nobody does. Told again it changes nothing. */
void expect_tell(struct expect *expect, uint64_t when);
/* What to do about the next arrival after `now`, at the cost of `percent` of the time at most. Arrivals before count as
 * missed. What was told comes first, while it lies ahead. */
struct expect_plan expect_next(struct expect *expect, uint64_t now, uint32_t percent);
/* The thread has looked out from `woke` to `now`. If the arrival came, expect_arrival follows. */
void expect_looked(struct expect *expect, uint64_t woke, uint64_t now);
/* Nobody is to get up for the next arrivals. */
void expect_pass(struct expect *expect, uint32_t arrivals);

#endif
