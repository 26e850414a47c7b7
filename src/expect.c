/* expect.c: see expect.h.
 *
 * Learning: if each of the last gaps between beats is about a multiple of their median, that is the period. Then the pattern is on
 * trial: it must foretell some beats before anybody gets up for it; more after each pattern that did not last, so that chance
 * patterns in irregular work cost little.
 *
 * Following: the next beat is expected one period after the last one, or on a grid that follows the beats slowly, whichever was
 * nearer lately: the first suits jitter that adds up, the second jitter around a clock's ticks. The grid is a tracking filter of
 * second order: a part of the error moves the grid, a smaller one the period, so it follows drift.
 *
 * Stopping: after a few beats in a row that did not come, or too many that fit nothing, the pattern is forgotten. */
#include "expect.h"

#define PERIOD_MIN 100000u     /* ns; below it spinning serves */
#define PERIOD_MAX 1000000000u /* ns */
#define MULTIPLE_MAX 8u        /* periods in a gap */
#define MISSED_MAX 4u          /* in a row */
#define SKIPS_MAX 4u           /* then the period has become longer */
#define STRAYS_MAX 6u          /* a stray counts two, a beat in its place takes one off */
#define TRIAL_MIN 2u
#define TRIAL_MAX 64u
#define OFF_MARGIN 5000u /* ns */
#define LEAD_MIN 10000u  /* ns */
#define LEAD_FIRST 100000u
#define LEAD_MAX 400000u
#define EARLY_MAX 45000u /* ns: being earlier on average costs more than a wake does */
#define HOLD_MIN 20000u
#define HOLD_FIRST 50000u
#define HOLD_MAX 150000u
#define STEP_UP 16000u                /* ns: the beat found it asleep */
#define STEP_DOWN 400u                /* ns: it was in time; so that is so for all but one in forty */
#define SPENT_SPAN UINT64_C(50000000) /* ns: the budget is kept over spans about that long */

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
    expect->lead = max_u64(expect->lead, LEAD_FIRST);
    expect->hold = max_u64(expect->hold, HOLD_FIRST);
    expect->trial_next = (uint32_t)max_u64(expect->trial_next, TRIAL_MIN);
    expect->trial = expect->trial_next;
}

static void forget(struct expect *expect, bool is_failure) {
    expect->period = 0;
    expect->gap_count = 0;
    if (is_failure) expect->trial_next = (uint32_t)min_u64(UINT64_C(2) * expect->trial_next, TRIAL_MAX);
}

/* ---- following ---------------------------------------------------------------------------------------------------- */

/* The beat was `multiple` periods after the grid's last. What is far off moves the grid no more than what is usual. */
static void follow(struct expect *expect, uint64_t when, uint64_t multiple) {
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
    expect->skips = multiple > 1 ? expect->skips + 1 : 0;
    if (expect->strays > 0) expect->strays--;
    if (expect->trial > 0) expect->trial--;
    if (expect->trial == 0 && expect->trial_next > TRIAL_MIN) expect->trial_next--;
}

/* Where the beat is expected that is `multiple` periods after the last. */
static uint64_t next_beat(const struct expect *expect, uint64_t multiple) {
    uint64_t from = expect->off_last < expect->off_grid ? expect->last : expect->grid;
    return from + multiple * expect->period;
}

static uint64_t step(uint64_t value, bool is_up, uint64_t least, uint64_t most) {
    return is_up ? min_u64(value + STEP_UP, most) : max_u64(value - STEP_DOWN, least);
}

/* Was it in time for the beat? Gets up earlier the next times, or looks longer. */
static void adapt(struct expect *expect, uint64_t when, uint64_t multiple, bool was_ready) {
    bool is_late = when > next_beat(expect, multiple) + expect->hold;
    if (was_ready || is_late) expect->hold = step(expect->hold, is_late, HOLD_MIN, HOLD_MAX);
    if (was_ready || !is_late) expect->lead = step(expect->lead, !was_ready, LEAD_MIN, LEAD_MAX);
    if (was_ready) expect->early = average(expect->early, min_u64(when - expect->woke, LEAD_MAX));
    if (was_ready && expect->early > EARLY_MAX) expect->lead = max_u64(expect->lead - STEP_UP / 8, LEAD_MIN);
}

void expect_beat(struct expect *expect, uint64_t when, bool was_ready) {
    if (when <= expect->last) return;
    if (expect->last != 0) expect->gaps[expect->gap_count++ % EXPECT_KEPT] = when - expect->last;
    if (expect->period != 0) {
        uint64_t since = when > expect->grid ? when - expect->grid : 0;
        uint64_t multiple = (since + expect->period / 2) / expect->period;
        if (multiple != 0 && distance(since, multiple * expect->period) <= expect->period / 4) {
            if (expect->is_planned) adapt(expect, when, multiple, was_ready);
            follow(expect, when, multiple);
        } else if ((expect->strays += 2) > STRAYS_MAX) {
            forget(expect, true);
        }
    }
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

struct expect_plan expect_next(struct expect *expect, uint64_t now, uint32_t percent) {
    struct expect_plan none = {0, 0};
    expect->is_planned = false;
    if (expect->period == 0) return none;
    uint64_t begun = next_beat(expect, 0) + expect->hold;
    uint64_t passed = now > begun ? (now - begun) / expect->period : 0;
    if (passed > expect->missed) expect->missed = passed;
    if (expect->missed >= MISSED_MAX) {
        forget(expect, expect->trial > 0);
        return none;
    }
    if (expect->trial > 0 || percent == 0) return none;
    if (!may_spend(expect, now, percent)) {
        expect->lead = max_u64(expect->lead - min_u64(STEP_UP / 2, expect->lead), LEAD_MIN);
        return none;
    }
    expect->is_planned = true;
    uint64_t beat = next_beat(expect, expect->missed + 1);
    return (struct expect_plan){beat - min_u64(expect->lead, beat - 1), beat + expect->hold};
}

void expect_pass(struct expect *expect, uint32_t beats) { expect->trial = (uint32_t)max_u64(expect->trial, beats); }

void expect_looked(struct expect *expect, uint64_t woke, uint64_t now) {
    expect->spent += now - woke;
    expect->woke = woke;
}
