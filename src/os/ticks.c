/* ticks.c: the rate of the processor's counter. Layer 1; its contract is in os.h. */
#include <pthread.h>

#include "os/os.h"

#if defined(__x86_64__)
/* The rate is measured between os_init and the call. The function waits until the span is at least CALIBRATE_NS_MIN: with
 * clocks read to some 20 ns at both ends, that gives the rate to a quarter of a percent. The figure is final once the span
 * has reached CALIBRATE_NS_MAX (a longer span gains nothing and may include time in which the machine was suspended). */
#define CALIBRATE_NS_MIN 20000
#define CALIBRATE_NS_MAX 1000000000

static pthread_once_t ticks_once = PTHREAD_ONCE_INIT;
static struct instant { uint64_t ns, ticks; } ticks_start;
static ATOMIC(uint64_t) ticks_per_us; /* 0: not final yet */

/* Reads both clocks at one moment. A thread preempted between the readings would read them at two moments, so this takes the
 * best of three attempts: the one during which the fewest ticks pass. */
static struct instant read_clocks(void) {
    struct instant best = {0};
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 3; i++) {
        uint64_t before = os_ticks();
        uint64_t ns = os_now_ns();
        uint64_t between = os_ticks() - before;
        if (between > least) continue;
        least = between;
        best = (struct instant){.ns = ns, .ticks = before + between / 2};
    }
    return best;
}

static void start_ticks(void) { ticks_start = read_clocks(); }

uint64_t os_ticks_per_us(void) {
    uint64_t settled = load_rlx(&ticks_per_us);
    if (settled != 0) return settled;
    pthread_once(&ticks_once, start_ticks);
    struct instant now;
    do {
        now = read_clocks();
    } while (now.ns - ticks_start.ns < CALIBRATE_NS_MIN);
    uint64_t ns = now.ns - ticks_start.ns;
    int64_t ticks = (int64_t)(now.ticks - ticks_start.ticks);
    /* A counter that stands still or runs backwards (not invariant, reset by a virtual machine) must not give 0. */
    uint64_t rate = ticks <= 0 ? 1 : max_u64(1, (uint64_t)((double)ticks * 1000.0 / (double)ns + 0.5));
    if (ns >= CALIBRATE_NS_MAX) store_rlx(&ticks_per_us, rate);
    return rate;
}

void ticks_begin(void) { pthread_once(&ticks_once, start_ticks); }

#elif defined(__aarch64__)
uint64_t os_ticks_per_us(void) {
    uint64_t ticks_per_s;
    __asm__("mrs %0, cntfrq_el0" : "=r"(ticks_per_s));
    return max_u64(1, (ticks_per_s + 500000) / 1000000);
}

void ticks_begin(void) {}

#else
uint64_t os_ticks_per_us(void) { return 1000; }

void ticks_begin(void) {}
#endif
