/* test_expect.c: what the predictor makes of arrivals, on a clock of the test's own. */
#include "help.h"
#include "predict/expect.h"

#define US UINT64_C(1000)
#define START UINT64_C(5000000000)

/* A thread that sleeps between arrivals as a worker does. Timed wakes come `late` ns late. */
struct sleeper {
    struct expect expect;
    uint64_t now;
    uint64_t late;
    uint32_t percent;
    uint64_t awake;    /* for arrivals, or in vain */
    uint32_t arrivals; /* that came */
    uint32_t ready;    /* found it awake */
    uint32_t vain;     /* times it looked for nothing */
    uint64_t random;
    double jitter; /* of a period, off the grid */
    uint32_t miss; /* one in so many arrivals does not come; 0: all do */
};

static struct sleeper sleeper_make(double jitter, uint32_t miss) {
    return (struct sleeper){
        .now = START, .late = 40 * US, .percent = 15, .random = 88172645463325252, .jitter = jitter, .miss = miss};
}

/* From -1 to 1. */
static double drawn(struct sleeper *self) {
    self->random ^= self->random << 13;
    self->random ^= self->random >> 7;
    self->random ^= self->random << 17;
    return (double)(self->random % 2000001) / 1000000.0 - 1;
}

/* Sleeps and looks until `when`; whether it is awake then. */
static bool await(struct sleeper *self, uint64_t when) {
    for (;;) {
        struct expect_plan plan = expect_next(&self->expect, self->now, self->percent);
        uint64_t woke = max_u64(plan.wake, self->now) + self->late + (uint64_t)((drawn(self) + 1) * 5000);
        if (plan.wake == 0 || woke >= when) return false;
        uint64_t end = max_u64(min_u64(plan.until, when), woke);
        expect_looked(&self->expect, woke, end);
        self->awake += end - woke;
        self->now = end;
        if (end == when) return true;
        self->vain++;
    }
}

static void arrival(struct sleeper *self, uint64_t when) {
    self->arrivals++;
    bool is_ready = await(self, when);
    self->ready += is_ready;
    self->now = when;
    expect_arrival(&self->expect, when, is_ready);
    self->now += 50 * US; /* it works */
}

static void rest(struct sleeper *self, uint64_t until) {
    (void)await(self, until);
    self->now = until;
}

static void forget_counts(struct sleeper *self) {
    self->awake = 0;
    self->arrivals = self->ready = self->vain = 0;
}

static double share(uint64_t part, uint64_t whole) { return (double)part / (double)whole; }

/* `arrivals` of them, every `period`. The end. */
static uint64_t steady(struct sleeper *self, uint64_t from, uint64_t period, uint32_t arrivals) {
    for (uint32_t i = 1; i <= arrivals; i++) {
        uint64_t when = from + i * period + (uint64_t)((1 + self->jitter * drawn(self)) * (double)period) - period;
        if (self->miss == 0 || self->random % self->miss != 0) arrival(self, when);
    }
    return from + arrivals * period;
}

/* ---- cases -------------------------------------------------------------------------------------------------------- */

static void test_steady(void **state) {
    (void)state;
    static const uint64_t periods[] = {150 * US, 500 * US, 3000 * US, 41708 * US, 900000 * US};
    for (unsigned i = 0; i < sizeof periods / sizeof periods[0]; i++) {
        struct sleeper self = sleeper_make(5e3 / (double)periods[i], 0);
        uint64_t at = steady(&self, START, periods[i], 20);
        assert_in_range(self.ready, 10, 20); /* after nine arrivals at most */
        forget_counts(&self);
        steady(&self, at, periods[i], 1000);
        print_message("period %6.0f us: ready %u of 1000, awake %.2f %%\n", (double)periods[i] / 1e3, self.ready,
                      100 * share(self.awake, 1000 * periods[i]));
        assert_in_range(self.ready, 960, 1000);
        assert_true(share(self.awake, 1000 * periods[i]) < 0.15);
    }
}

static void test_jitter(void **state) {
    (void)state;
    struct sleeper self = sleeper_make(0.1, 0);
    uint64_t at = steady(&self, START, 500 * US, 100);
    forget_counts(&self);
    steady(&self, at, 500 * US, 2000);
    print_message("jitter of 10 %%: ready %u of 2000, awake %.2f %%\n", self.ready,
                  100 * share(self.awake, 2000 * (500 * US)));
    assert_in_range(self.ready, 1600, 2000);
    assert_true(share(self.awake, 2000 * (500 * US)) < 0.16);
}

static void test_jitter_that_adds_up(void **state) {
    (void)state;
    struct sleeper self = sleeper_make(0, 0);
    uint64_t at = START;
    for (uint32_t i = 0; i < 2100; i++) {
        if (i == 100) forget_counts(&self);
        at += (uint64_t)(500e3 * (1 + 0.1 * drawn(&self)));
        arrival(&self, at);
    }
    print_message("adding jitter of 10 %%: ready %u of 2000, awake %.2f %%\n", self.ready,
                  100 * share(self.awake, 2000 * (500 * US)));
    assert_in_range(self.ready, 1600, 2000);
}

static void test_missed_arrivals(void **state) {
    (void)state;
    struct sleeper self = sleeper_make(0.01, 10);
    uint64_t at = steady(&self, START, 500 * US, 100);
    forget_counts(&self);
    steady(&self, at, 500 * US, 2000);
    print_message("one in ten missed: ready %u of %u, in vain %u, awake %.2f %%\n", self.ready, self.arrivals, self.vain,
                  100 * share(self.awake, 2000 * (500 * US)));
    assert_true(share(self.ready, self.arrivals) > 0.95);
}

static void test_drift(void **state) {
    (void)state;
    struct sleeper self = sleeper_make(0, 0);
    uint64_t at = START;
    double period = 500e3;
    for (uint32_t i = 0; i < 3000; i++) {
        if (i == 100) forget_counts(&self);
        period *= 1.0003; /* more than doubles */
        at += (uint64_t)period;
        arrival(&self, at);
    }
    print_message("drift: ready %u of %u\n", self.ready, self.arrivals);
    assert_true(share(self.ready, self.arrivals) > 0.97);
}

static void test_double_rate(void **state) {
    (void)state;
    struct sleeper self = sleeper_make(0.002, 0);
    uint64_t at = steady(&self, START, 2000 * US, 100);
    forget_counts(&self);
    at = steady(&self, at, 1000 * US, 100);
    print_message("double rate: ready %u of 100\n", self.ready);
    assert_in_range(self.ready, 75, 100);
    forget_counts(&self);
    steady(&self, at, 2000 * US, 100);
    print_message("and half of it again: ready %u of 100, in vain %u\n", self.ready, self.vain);
    assert_in_range(self.ready, 75, 100);
    assert_in_range(self.vain, 0, 20);
}

static void test_stop(void **state) {
    (void)state;
    static const uint64_t periods[] = {150 * US, 500 * US, 3000 * US, 41708 * US};
    for (unsigned i = 0; i < sizeof periods / sizeof periods[0]; i++) {
        struct sleeper self = sleeper_make(0.002, 0);
        uint64_t at = steady(&self, START, periods[i], 200);
        forget_counts(&self);
        rest(&self, at + 2000000 * US);
        print_message("stop: in vain %u, awake %.1f us\n", self.vain, (double)self.awake / 1e3);
        assert_in_range(self.vain, 1, 4);
        assert_true(self.awake < 1000 * US);
        assert_int_equal(expect_next(&self.expect, self.now, 15).wake, 0);
    }
}

/* The pattern jumps to another phase now and then, or pauses: it is found again at once. */
static void test_jumps(void **state) {
    (void)state;
    struct sleeper self = sleeper_make(0.002, 0);
    uint64_t at = steady(&self, START, 500 * US, 100);
    forget_counts(&self);
    for (uint32_t i = 0; i < 20; i++) at = steady(&self, at + 500 * US * (i % 12) + 200 * US, 500 * US, 50);
    print_message("jumps: ready %u of 1000\n", self.ready);
    assert_in_range(self.ready, 20 * 47, 1000);
}

/* One late arrival costs none but itself. */
static void test_late_arrivals(void **state) {
    (void)state;
    struct sleeper self = sleeper_make(0, 0);
    uint64_t at = steady(&self, START, 500 * US, 100);
    forget_counts(&self);
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t ready = self.ready;
        arrival(&self, at + i * (10 * (500 * US)) + 60 * US);
        assert_in_range(self.ready - ready, 0, 1);
        steady(&self, at + i * (10 * (500 * US)), 500 * US, 9);
    }
    print_message("late arrivals: ready %u of 1000\n", self.ready);
    assert_in_range(self.ready, 985, 1000);
}

/* A arrival so late that it fits nothing costs none but itself either, and forgets no pattern, however often one comes. */
static void test_very_late_arrivals(void **state) {
    (void)state;
    struct sleeper self = sleeper_make(0, 0);
    uint64_t at = steady(&self, START, 500 * US, 100);
    forget_counts(&self);
    for (uint32_t i = 0; i < 200; i++) {
        uint64_t late = (i % 2 == 0 ? 290 : 240) * US;
        arrival(&self, at + i * (5 * (500 * US)) + late);
        uint32_t ready = self.ready;
        steady(&self, at + i * (5 * (500 * US)), 500 * US, 4);
        assert_in_range(self.ready - ready, 3, 4);
    }
    print_message("very late arrivals: ready %u of 1000, awake %.2f %%\n", self.ready,
                  100 * share(self.awake, 1000 * (500 * US)));
    assert_in_range(self.ready, 950, 1000);
    assert_true(share(self.awake, 1000 * (500 * US)) < 0.16);
}

/* The process is stopped while a worker looks out: that is no time spent. */
static void test_stopped(void **state) {
    (void)state;
    struct sleeper self = sleeper_make(0, 0);
    uint64_t at = steady(&self, START, 500 * US, 100);
    struct expect_plan plan = expect_next(&self.expect, self.now, self.percent);
    assert_int_not_equal(plan.wake, 0);
    self.now = at + 2000000 * US;
    expect_looked(&self.expect, plan.wake, self.now);
    forget_counts(&self);
    steady(&self, self.now, 500 * US, 100);
    print_message("stopped: ready %u of 100\n", self.ready);
    assert_in_range(self.ready, 90, 100);
}

/* A worker that gets no CPU for some periods, or works on, has not seen that the arrivals went on: it gets up for the next.
 * */
static void test_unseen_arrivals(void **state) {
    (void)state;
    struct sleeper self = sleeper_make(0, 0);
    uint64_t at = steady(&self, START, 500 * US, 100);
    forget_counts(&self);
    for (uint32_t i = 1; i <= 50; i++) {
        uint32_t unseen = i % 10 * 3;
        self.now = max_u64(self.now, at + unseen * (500 * US) + 60 * US);
        at = steady(&self, at + unseen * (500 * US), 500 * US, 5);
    }
    print_message("unseen arrivals: ready %u of 250\n", self.ready);
    assert_in_range(self.ready, 245, 250);
    forget_counts(&self);
    for (uint32_t i = 1; i <= 100; i++) { /* never two in a row: that does not make the period longer */
        uint32_t unseen = 1 + i * i % 7 % 3;
        self.now = max_u64(self.now, at + unseen * (500 * US) + 60 * US);
        at = steady(&self, at + unseen * (500 * US), 500 * US, 1);
    }
    print_message("unseen arrivals, never two in a row: ready %u of 100\n", self.ready);
    assert_in_range(self.ready, 95, 100);
}

/* Arrivals at any time, each of them told. */
static void test_told(void **state) {
    (void)state;
    struct sleeper self = sleeper_make(0, 0);
    uint64_t at = START;
    for (uint32_t i = 0; i < 2000; i++) {
        if (i == 20) forget_counts(&self);
        at += (uint64_t)(1500e3 * (1 + 0.9 * drawn(&self)));
        expect_tell(&self.expect, at);
        arrival(&self, at);
    }
    print_message("told: ready %u of 1980, in vain %u, awake %.2f %%\n", self.ready, self.vain,
                  100 * share(self.awake, at - START));
    assert_in_range(self.ready, 1960, 1980);
    assert_int_equal(self.vain, 0);
    assert_true(share(self.awake, at - START) < 0.05);
    forget_counts(&self);
    expect_tell(&self.expect, self.now + 1000 * US);
    rest(&self, self.now + 1000000 * US); /* it never came */
    assert_int_equal(self.vain, 1);
}

/* What is announced for later hides no arrivals that recur until then; and it is not lost among them. */
static void test_told_for_later(void **state) {
    (void)state;
    static const uint64_t moments[] = {START + UINT64_C(3600000000000), UINT64_MAX};
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        struct sleeper self = sleeper_make(0, 0);
        uint64_t at = steady(&self, START, 500 * US, 50);
        forget_counts(&self);
        expect_tell(&self.expect, moments[i]);
        at = steady(&self, at, 500 * US, 1000);
        print_message("told for later: ready %u of 1000, in vain %u\n", self.ready, self.vain);
        assert_in_range(self.ready, 990, 1000);
        rest(&self, at + 100000 * US); /* no more of them */
        assert_true(expect_next(&self.expect, self.now, self.percent).wake > self.now + 1000000 * US);
        assert_true(self.expect.planned == moments[i]);
    }
}

/* An announcement costs the few arrivals before it, not all of the pattern. */
static void test_told_beside_a_period(void **state) {
    (void)state;
    struct sleeper self = sleeper_make(0, 0);
    uint64_t at = steady(&self, START, 1000 * US, 50);
    forget_counts(&self);
    for (uint32_t i = 0; i < 10; i++) { /* one between two others */
        expect_tell(&self.expect, at + 100500 * US);
        at = steady(&self, at, 1000 * US, 100);
        arrival(&self, at + 500 * US);
        at = steady(&self, at, 1000 * US, 20);
    }
    print_message("told between two others: ready %u of %u, in vain %u\n", self.ready, self.arrivals, self.vain);
    assert_in_range(self.arrivals - self.ready, 0, 120);
}

static void test_told_while_the_budget_is_spent(void **state) {
    (void)state;
    struct sleeper self = sleeper_make(0, 0);
    (void)steady(&self, START, 500 * US, 50);
    self.expect.spent = UINT64_C(1000000000);
    expect_tell(&self.expect, self.now + 500 * US);
    assert_true(expect_next(&self.expect, self.now, self.percent).wake == 0);
    uint64_t later = self.now + 1000000 * US;
    expect_tell(&self.expect, later);
    uint64_t wake = expect_next(&self.expect, self.now, self.percent).wake;
    assert_true(wake < later && later - wake < 1000 * US);
}

/* Who passes over a learned arrival does not pass over the announced one. */
static void test_told_and_passed(void **state) {
    (void)state;
    struct sleeper self = sleeper_make(0, 0);
    (void)steady(&self, START, 500 * US, 50);
    uint64_t later = self.now + 1000000 * US;
    expect_tell(&self.expect, later);
    assert_true(expect_next(&self.expect, self.now, self.percent).wake < self.now + 500 * US);
    expect_pass(&self.expect, 16);
    assert_true(expect_next(&self.expect, self.now, self.percent).wake > self.now + 900000 * US);
    expect_pass(&self.expect, 16);
    assert_true(expect_next(&self.expect, self.now, self.percent).wake == 0);
}

/* Irregular work: what is spent on patterns that are none. */
static void test_no_pattern(void **state) {
    (void)state;
    struct sleeper self = sleeper_make(0, 0);
    uint64_t at = START;
    for (uint32_t i = 0; i < 20000; i++) {
        at += (uint64_t)(1000e3 * (1 + 0.9 * drawn(&self)));
        arrival(&self, at);
    }
    print_message("no pattern: in vain %u, ready %u of 20000, awake %.3f %%\n", self.vain, self.ready,
                  100 * share(self.awake, at - START));
    assert_true(share(self.awake, at - START) < 0.01);
}

static void test_budget(void **state) {
    (void)state;
    for (uint32_t percent = 0; percent <= 40; percent += 10) {
        struct sleeper self = sleeper_make(0.1, 3);
        self.percent = percent;
        uint64_t at = steady(&self, START, 400 * US, 100);
        forget_counts(&self);
        steady(&self, at, 400 * US, 5000);
        print_message("budget of %u %%: awake %.2f %%, ready %u of %u\n", percent,
                      100 * share(self.awake, 5000 * (400 * US)), self.ready, self.arrivals);
        assert_true(100 * share(self.awake, 5000 * (400 * US)) <= (double)percent * 1.02);
    }
}

static void test_odd_times(void **state) {
    (void)state;
    struct expect expect = {.last = 0};
    for (uint64_t i = 0; i < 100; i++) {
        expect_arrival(&expect, i % 3 == 0 ? 0 : UINT64_MAX - i, i % 2 == 0);
        expect_arrival(&expect, i, false);
        (void)expect_next(&expect, UINT64_MAX, 100);
        (void)expect_next(&expect, 0, 100);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steady),
        cmocka_unit_test(test_jitter),
        cmocka_unit_test(test_jitter_that_adds_up),
        cmocka_unit_test(test_missed_arrivals),
        cmocka_unit_test(test_drift),
        cmocka_unit_test(test_double_rate),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_no_pattern),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_odd_times),
        cmocka_unit_test(test_jumps),
        cmocka_unit_test(test_late_arrivals),
        cmocka_unit_test(test_told),
        cmocka_unit_test(test_told_for_later),
        cmocka_unit_test(test_told_beside_a_period),
        cmocka_unit_test(test_told_while_the_budget_is_spent),
        cmocka_unit_test(test_told_and_passed),
        cmocka_unit_test(test_very_late_arrivals),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_unseen_arrivals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
