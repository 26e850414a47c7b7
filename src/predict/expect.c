/* expect.c: see expect.h.
 *
 * Learning. If each of the last gaps between arrivals is close to a multiple of their median, the median is the period. The
 * pattern is then on probation: it must predict some arrivals correctly before the worker wakes up for one. Each pattern that
 * does not last raises that number, so that chance patterns in irregular work cost little.
 *
 * Following. There are two predictions of the next arrival: one period after the last one, which suits jitter that adds up,
 * and the next point of a grid that follows the arrivals slowly, which suits jitter around a clock's ticks. The one that was
 * closer lately is used. If the other one is a little earlier, the worker wakes up for that, because a single late arrival
 * moves the first prediction. The grid is a tracking filter of second order: part of the error moves the grid, a smaller part
 * changes the period, so it follows drift.
 *
 * If two arrivals in a row fit each other but not the grid, the pattern has shifted, and the grid moves there.
 *
 * Stopping. After a few looks in a row without an arrival, the worker does not wake up ahead until some have come again.
 * Arrivals that passed while it did not look are not counted. After too many arrivals that do not fit, the pattern is
 * forgotten. */
#include "predict/expect.h"

#define PERIOD_MIN 100000u     /* ns; below it spinning serves */
#define PERIOD_MAX 1000000000u /* ns */
#define MULTIPLE_MAX 8u        /* periods in a gap */
#define VAIN_MAX 3u            /* looks in a row without an arrival, then the worker pauses */
#define MISSED_MAX 64u         /* missing arrivals, looked for or not, then the worker pauses */
#define SKIPS_MAX 4u           /* arrivals in a row that each came after a missing one, then the period is learned anew */
#define STRAYS_MAX 6u /* score: a stray adds two, an arrival that may be late one, an arrival in its place takes one off */
#define PROBATION_MIN 2u
#define PROBATION_MAX 64u
#define OFF_MARGIN 5000u /* ns */
#define DOUBT_MAX 60000u /* ns: how much earlier the worker wakes up at most if the two predictions differ */
#define LEAD_MIN 10000u  /* ns */
#define LEAD_FIRST 100000u
#define LEAD_MAX 400000u
#define EARLY_PART 40u        /* part of the period: bound of how early the worker is on average */
#define EARLY_MOST_MIN 52000u /* ns: the least value of that bound */
#define EARLY_MOST_MAX 90000u /* ns: the greatest value of that bound */
#define EARLY_ROOM 10000u     /* ns: if it is less early than the target by this, each small delay becomes a miss */
#define HOLD_MIN 20000u       /* ns: when the budget is short */
#define HOLD_USUAL 150000u    /* ns: cheap, because most arrivals come */
#define HOLD_MAX 300000u
#define HOLD_TOLD 200000u             /* ns: weft.h says so */
#define REACH_TOLD 400000u            /* ns: an arrival farther from the announced moment is a different one */
#define STEP_UP 16000u                /* ns: lead and hold after the arrival found the worker asleep */
#define STEP_DOWN 400u                /* ns: lead after the worker was earlier than necessary */
#define HOLD_STEP 50u                 /* ns: hold, back to HOLD_USUAL */
#define SPENT_SPAN UINT64_C(50000000) /* ns: the budget applies to spans of about this length */

static uint64_t distance(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

/* Moves an average an eighth of the way. */
static uint64_t average(uint64_t old, uint64_t now) { return old - old / 8 + now / 8; }

/* ---- learning ----------------------------------------------------------------------------------------------------- */

static uint64_t median_gap(const struct expect *expect) {
    uint64_t sorted[EXPECT_KEPT];
    for (uint32_t i = 0; i < EXPECT_KEPT; i++) {
        uint32_t at = i;
        for (; at > 0 && sorted[at - 1] > expect->gaps[i]; at--) sorted[at] = sorted[at - 1];
        sorted[at] = expect->gaps[i];
    }
    return sorted[(EXPECT_KEPT - 1) / 2];
}

static void learn(struct expect *expect) {
    if (expect->gap_count < EXPECT_KEPT) return;
    uint64_t unit = median_gap(expect);
    if (unit < PERIOD_MIN || unit > PERIOD_MAX) return;
    uint64_t sum = 0;
    uint64_t multiples = 0;
    for (uint32_t i = 0; i < EXPECT_KEPT; i++) {
        uint64_t multiple = (expect->gaps[i] + unit / 2) / unit;
        if (multiple == 0 || multiple > MULTIPLE_MAX) return;
        if (distance(expect->gaps[i], multiple * unit) > unit / 3) return;
        sum += expect->gaps[i];
        multiples += multiple;
    }
    expect->period = sum / multiples;
    expect->grid = expect->last;
    expect->missed = 0;
    expect->strays = 0;
    expect->skips = 0;
    expect->off_grid = expect->off_last = expect->period / 32;
    expect->is_stray = false;
    expect->probation_next = (uint32_t)max_u64(expect->probation_next, PROBATION_MIN);
    expect->probation = expect->probation_next;
}

static void distrust(struct expect *expect) {
    expect->probation_next = (uint32_t)min_u64(max_u64(UINT64_C(2) * expect->probation_next, PROBATION_MIN), PROBATION_MAX);
}

static void forget(struct expect *expect) {
    expect->period = 0;
    expect->gap_count = 0;
    distrust(expect);
}

/* ---- following ---------------------------------------------------------------------------------------------------- */

/* The arrival came `multiple` periods after the grid's last point; of the arrivals in between, `seen` were seen not to come.
 * An error far above the usual one moves the grid no more than a usual one. */
static void follow(struct expect *expect, uint64_t when, uint64_t multiple, uint32_t seen) {
    uint64_t grid = expect->grid + multiple * expect->period;
    uint64_t off = distance(when, grid);
    uint64_t believed = min_u64(off, expect->off_grid * 3 + OFF_MARGIN);
    expect->off_last = average(expect->off_last, min_u64(distance(when, expect->last + multiple * expect->period),
                                                         expect->off_last * 4 + OFF_MARGIN));
    expect->off_grid = average(expect->off_grid, min_u64(off, expect->off_grid * 4 + OFF_MARGIN));
    if (when >= grid) {
        expect->grid = grid + believed / 4;
        expect->period += believed / (16 * multiple);
    } else {
        expect->grid = grid - believed / 4;
        expect->period -= believed / (16 * multiple);
    }
    expect->missed = 0;
    if (multiple == 1)
        expect->skips = 0;
    else if (seen >= min_u64(multiple - 1, VAIN_MAX)) /* else the others may have come while the thread had no CPU */
        expect->skips++;
    if (expect->strays > 0) expect->strays--;
    if (expect->probation > 0) expect->probation--;
    if (expect->probation == 0 && expect->probation_next > PROBATION_MIN) expect->probation_next--;
}

/* Where the arrival is expected that comes `multiple` periods after the last one. */
static uint64_t next_arrival(const struct expect *expect, uint64_t multiple) {
    bool by_last = expect->off_last < expect->off_grid && !expect->is_stray;
    return (by_last ? expect->last : expect->grid) + multiple * expect->period;
}

/* How much earlier than that it might come. */
static uint64_t doubt(const struct expect *expect) {
    uint64_t least = min_u64(expect->last, expect->grid);
    return min_u64(next_arrival(expect, 0) - least, DOUBT_MAX);
}

static void look_longer(struct expect *expect) { expect->hold = min_u64(expect->hold + STEP_UP, HOLD_MAX); }

/* The bound of how early the worker is on average. */
static uint64_t early_most(const struct expect *expect) {
    return min_u64(max_u64(expect->period / EARLY_PART, EARLY_MOST_MIN), EARLY_MOST_MAX);
}

/* Was the worker in time for the arrival expected at `moment`? Wakes up earlier the next times, or looks longer. */
static void adapt(struct expect *expect, uint64_t when, uint64_t moment, bool was_ready) {
    bool is_late = when > moment + expect->hold;
    if (is_late)
        look_longer(expect);
    else if (was_ready)
        expect->hold = expect->hold < HOLD_USUAL ? expect->hold + HOLD_STEP : expect->hold - HOLD_STEP;
    if (was_ready) expect->early = average(expect->early, min_u64(when - expect->woke, LEAD_MAX));
    uint64_t most = early_most(expect);
    uint64_t down = expect->early + EARLY_ROOM <= most ? 0 : expect->early <= most ? STEP_DOWN : STEP_DOWN + STEP_UP / 8;
    if (was_ready)
        expect->lead = max_u64(expect->lead - down, LEAD_MIN);
    else if (!is_late)
        expect->lead = min_u64(expect->lead + STEP_UP, LEAD_MAX);
}

/* Is it the announced arrival that the worker woke up for? */
static bool is_told_arrival(const struct expect *expect, uint64_t when) {
    return expect->planned != 0 && expect->planned == expect->told && distance(when, expect->told) <= REACH_TOLD;
}

/* Is it whole periods after the last arrival, which did not fit the grid either? */
static bool has_jumped(const struct expect *expect, uint64_t when) {
    if (!expect->is_stray) return false;
    uint64_t since = when - expect->last;
    uint64_t multiple = (since + expect->period / 2) / expect->period;
    return multiple != 0 && multiple <= MULTIPLE_MAX && distance(since, multiple * expect->period) <= expect->period / 8;
}

/* Where does the arrival stand in the pattern? */
static void compare(struct expect *expect, uint64_t when, bool was_ready, uint32_t seen) {
    uint64_t since = when > expect->grid ? when - expect->grid : 0;
    uint64_t multiple = (since + expect->period / 2) / expect->period;
    bool fits = multiple != 0 && distance(since, multiple * expect->period) <= expect->period / 4;
    if (fits) {
        if (expect->planned != 0) adapt(expect, when, next_arrival(expect, multiple), was_ready);
        if (expect->is_late) look_longer(expect);
        follow(expect, when, multiple, seen);
    } else if (has_jumped(expect, when)) {
        expect->grid = when;
        expect->missed = 0;
        if (expect->probation > 0) expect->probation--;
        fits = true;
    } else if ((expect->strays += since > expect->period ? 1 : 2) > STRAYS_MAX) {
        forget(expect);
    }
    expect->is_stray = !fits;
    expect->is_late = !fits && since > expect->period;
}

void expect_arrival(struct expect *expect, uint64_t when, bool was_ready) {
    if (when <= expect->last) return;
    uint32_t seen = expect->seen;
    expect->vain = expect->seen = 0;
    if (expect->last != 0) expect->gaps[expect->gap_count++ % EXPECT_KEPT] = when - expect->last;
    if (is_told_arrival(expect, when)) {
        adapt(expect, when, expect->told, was_ready);
        expect->obeyed = expect->told;
        expect->planned = 0;
    }
    if (expect->period != 0) compare(expect, when, was_ready, seen);
    expect->last = when;
    if (expect->skips >= SKIPS_MAX) expect->period = 0;
    if (expect->period == 0) learn(expect);
}

/* ---- planning ----------------------------------------------------------------------------------------------------- */

static bool may_spend(struct expect *expect, uint64_t now, uint32_t percent) {
    if (now - expect->spent_since > SPENT_SPAN) {
        expect->spent_since = now - SPENT_SPAN / 2;
        expect->spent /= 2;
    }
    return expect->spent <= (now - expect->spent_since + expect->period) * percent / 100;
}

static void spend_less(struct expect *expect, uint64_t step) {
    expect->lead = max_u64(expect->lead - min_u64(step, expect->lead), LEAD_MIN);
    expect->hold = max_u64(expect->hold - min_u64(step, expect->hold), HOLD_MIN);
}

/* The arrival that the pattern predicts; 0: none. */
static uint64_t learned_arrival(struct expect *expect, uint64_t now) {
    if (expect->period == 0) return 0;
    uint64_t begun = next_arrival(expect, 0) + expect->hold;
    uint64_t passed = now > begun ? (now - begun) / expect->period : 0;
    if (passed > expect->missed) expect->missed = passed;
    bool was_paused = expect->is_paused;
    expect->is_paused = expect->vain >= VAIN_MAX || expect->missed >= MISSED_MAX;
    if (expect->is_paused && !was_paused) {
        if (expect->probation > 0) distrust(expect);
        expect->probation = expect->probation_next - 1; /* the next arrival counts as predicted */
    }
    if (expect->is_paused || expect->probation > 0) return 0;
    uint64_t arrival = next_arrival(expect, expect->missed + 1);
    uint64_t jumped = expect->last + expect->period;
    return expect->is_stray && jumped + expect->hold > now ? min_u64(arrival, jumped) : arrival;
}

static uint64_t told_arrival(const struct expect *expect, uint64_t now) {
    return expect->told > now && expect->told != expect->obeyed ? expect->told : 0;
}

/* The announced arrival, or the learned one if it comes long before that: then it is another one. Nearer ones may be the announced
 * one itself: a program that announces each of its arrivals knows better than a pattern that some of them make by chance. */
static uint64_t arrival_planned(struct expect *expect, uint64_t now) {
    uint64_t told = told_arrival(expect, now);
    uint64_t learned = learned_arrival(expect, now);
    if (told == 0) return learned;
    return learned != 0 && learned < told && (told - learned) / expect->period >= MULTIPLE_MAX ? learned : told;
}

struct expect_plan expect_next(struct expect *expect, uint64_t now, uint32_t percent) {
    if (expect->lead == 0) expect->lead = LEAD_FIRST;
    if (expect->hold == 0) expect->hold = HOLD_USUAL;
    uint64_t arrival = arrival_planned(expect, now);
    expect->planned = 0;
    if (arrival == 0 || percent == 0) return (struct expect_plan){0, 0};
    if (!may_spend(expect, now, percent)) {
        spend_less(expect, STEP_UP / 2);
        arrival = told_arrival(expect, now + SPENT_SPAN); /* by then it may, and nobody may wake the worker before */
        if (arrival == 0) return (struct expect_plan){0, 0};
    } else if (!may_spend(expect, now, percent - percent / 8)) {
        spend_less(expect, STEP_UP / 8);
    }
    expect->planned = arrival;
    bool is_told = arrival == told_arrival(expect, now);
    uint64_t hold = is_told ? HOLD_TOLD : expect->hold;
    uint64_t lead = expect->lead + (is_told ? 0 : doubt(expect));
    return (struct expect_plan){arrival - min_u64(lead, arrival - 1), arrival + min_u64(hold, UINT64_MAX - arrival)};
}

void expect_tell(struct expect *expect, uint64_t when) { expect->told = when; }

void expect_pass(struct expect *expect, uint32_t arrivals) {
    expect->probation = (uint32_t)max_u64(expect->probation, arrivals);
    if (expect->planned == expect->told) expect->obeyed = expect->told;
}

void expect_looked(struct expect *expect, uint64_t woke, uint64_t now) {
    uint64_t over = max_u64(expect->planned + HOLD_MAX, woke); /* after that it was stopped, not looking */
    expect->spent += min_u64(now, over) - woke;
    expect->woke = woke;
    expect->vain++; /* if the arrival came, expect_arrival follows and clears it */
    if (woke <= expect->planned && now >= expect->planned + expect->hold) expect->seen++;
    if (expect->planned == expect->told) expect->obeyed = expect->told;
}
