/* drive_self_park.c: the explorer on one sleeper and one waker over a futex, with three seeded faults that it must find. */
#include "explore.h"

enum fault { FAULT_NONE, FAULT_NO_RECHECK, FAULT_NO_FENCE, FAULT_LATE_VALUE };

static struct {
    enum fault fault;
    ATOMIC(uint32_t) work, asleep;
    os_word event;
    uint32_t payload;
} park;

static void park_setup(enum fault fault) {
    park.fault = fault;
    store_rlx(&park.work, 0);
    store_rlx(&park.asleep, 0);
    store_rlx(&park.event, 0);
}

static void submit(void) {
    plain_write(&park.payload, sizeof park.payload);
    park.payload = 7;
    store_rel(self_park_work, &park.work, 1);
    if (park.fault != FAULT_NO_FENCE) fence_sc(self_park_submit);
    if (load_rlx(&park.asleep) == 0) return;
    add_rel(self_park_event, &park.event, 1);
    os_wake(&park.event, 1);
}

static bool has_work(void) { return load_acq(self_park_look, &park.work) != 0; }

static void sleep_once(void) {
    uint32_t seen = load_acq(self_park_seen, &park.event);
    store_rlx(&park.asleep, 1);
    fence_sc(self_park_sleep);
    if (park.fault == FAULT_NO_RECHECK || !has_work()) {
        if (park.fault == FAULT_LATE_VALUE) seen = load_acq(self_park_seen, &park.event);
        os_wait(&park.event, seen, 0);
    }
    store_rlx(&park.asleep, 0);
}

static void serve(void) {
    while (!has_work()) sleep_once();
    plain_read(&park.payload, sizeof park.payload);
    EXPECT(park.payload == 7);
}

static void setup_sound(void) { park_setup(FAULT_NONE); }
static void setup_no_recheck(void) { park_setup(FAULT_NO_RECHECK); }
static void setup_no_fence(void) { park_setup(FAULT_NO_FENCE); }
static void setup_late_value(void) { park_setup(FAULT_LATE_VALUE); }

#define PARK_DRIVER(name, text, ...)                                                                                        \
    EXPLORE_DRIVER(self_park_##name, .about = text, .setup = setup_##name, .threads = {submit, serve}, __VA_ARGS__)

PARK_DRIVER(sound, "a sleeper and a waker", .flags = EXPLORE_NO_RESCUE);
PARK_DRIVER(no_recheck, "sleeper, fault: does not look again", .flags = EXPLORE_MUST_FAIL, .fails_with = "lost wake-up");
PARK_DRIVER(no_fence, "sleeper, fault: no fence", .flags = EXPLORE_MUST_FAIL, .fails_with = "lost wake-up");
PARK_DRIVER(late_value, "sleeper, fault: expected value read after the check", .flags = EXPLORE_MUST_FAIL,
            .fails_with = "lost wake-up");
