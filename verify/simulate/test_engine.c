/* test_engine.c: what the machine in virtual time costs, in cases worked out by hand. Each number below is a sum of the machine's
 * (MACHINE), in ns; the comment beside it says of which. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

static const char *const machine_text[] = {
    "cpus=6",           "sockets=2",          "cluster_cpus=2",    "store_buffer=2", "l1_lines=100000",
    "l2_lines=200000",  "overlap_percent=50", "access_ns=1",       "call_ns=0",      "rmw_ns=4",
    "fence_ns=7",       "pause_ns=11",        "ticks_ns=0",        "now_ns=0",       "l2_ns=3",
    "l3_ns=20",         "memory_ns=100",      "cluster_ns=40",     "socket_ns=80",   "remote_ns=200",
    "share_ns=0",       "fault_ns=0",         "syscall_ns=10",     "sleep_ns=30",    "wake_ns=50",
    "run_short_ns=300", "run_middle_ns=300",  "run_long_ns=300",   "switch_ns=5",    "migrate_ns=6",
    "slice_ns=1000000", "pair_percent=100",   "timer_slack_ns=60", "barrier_ns=70",  "barrier_cpu_ns=8",
    "interrupt_ns=9",   "thread_start_ns=0",  "skew_ns=0"};

typedef ATOMIC(uint64_t) word;

static word *lines; /* 64 bytes apart; fresh for each case */
static unsigned failures;

static word *line(size_t i) { return &lines[8 * i]; }
static uint64_t now(void) { return cpu_now->clock_ps / 1000; }
static void until(uint64_t when) { sim_busy(when > now() ? (when - now()) * 1000 : 0); }

static void expect(const char *what, uint64_t found, uint64_t wanted) {
    if (found == wanted) return;
    fprintf(stderr, "%s: %llu ns, by hand %llu\n", what, (unsigned long long)found, (unsigned long long)wanted);
    failures++;
}

/* How long it took. */
#define TOOK(statement)                                                                                                     \
    ({                                                                                                                      \
        uint64_t start_ns = now();                                                                                          \
        (void)(statement);                                                                                                  \
        now() - start_ns;                                                                                                   \
    })

/* ---- one CPU: the sum of its accesses ----------------------------------------------------------------------------- */

static void one_cpu(void) {
    expect("first load", TOOK(load_rlx(line(0))), 1 + 100);
    expect("second load", TOOK(load_rlx(line(0))), 1);
    expect("store to the same line", TOOK(store_rlx(line(0), 1)), 1);
    expect("read-modify-write of it", TOOK(add_rlx(line(0), 1)), 1 + 4);
    expect("read-modify-write of another", TOOK(add_rlx(line(1), 1)), 1 + 100 + 4);
    expect("store that misses", TOOK(store_rlx(line(2), 1)), 1);
    expect("the fence after it", TOOK(fence_sc(X1)), 100 - 0 + 7);
    expect("fence without stores", TOOK(fence_sc(X2)), 7);
    store_rlx(line(3), 1); /* both places of the buffer are taken */
    store_rlx(line(4), 1);
    expect("store into a full buffer", TOOK(store_rlx(line(5), 1)), 1 + 100 - 2);
    expect("pause", TOOK(os_pause()), 11);
    uint64_t sum = load_rlx(line(0));
    expect("what was computed", sum, 2);
}

/* Two that share a core: what one does takes longer while the other runs. */
static void busy_partner(void *argument) {
    os_cpu_bind(1);
    until(*(uint64_t *)argument);
}

static void sharing_a_core(void) {
    uint64_t end = now() + 20000;
    os_cpu_bind(0);
    sim_thread *partner = sim_thread_start(busy_partner, &end);
    until(now() + 1000);
    M.pair_percent = 150;
    expect("work beside a busy partner", TOOK(sim_busy(1000000)), 1500);
    while (partner->state != THREAD_DONE) sim_sleep(partner, 0);
    expect("work alone", TOOK(sim_busy(1000000)), 1000);
    M.pair_percent = 100;
}

static void scan(void) {
    uint64_t start = now();
    for (unsigned i = 0; i < 4; i++) (void)load_rlx(line(10 + i));
    expect("a loop over four lines", now() - start, 4 * 1 + 100 + 3 * 50);
}

/* ---- lines that pass between CPUs --------------------------------------------------------------------------------- */

struct visitor {
    uint64_t at;   /* ns */
    uint64_t took; /* its addition */
    uint32_t cpu;
};

static void visit(void *argument) {
    struct visitor *self = argument;
    os_cpu_bind(self->cpu);
    until(self->at);
    self->took = TOOK(add_rlx(line(20), 1));
}

static void run_visitors(struct visitor *visitors, unsigned count) {
    sim_thread *threads[6];
    for (unsigned i = 0; i < count; i++) threads[i] = sim_thread_start(visit, &visitors[i]);
    for (unsigned i = 0; i < count; i++)
        while (threads[i]->state != THREAD_DONE) sim_sleep(threads[i], 0);
}

static void passing(void) {
    uint64_t at = now() + 10000;
    /* CPUs 0 and 1 share a cache, 0 to 2 a socket; 3 to 5 are the other one. */
    struct visitor visitors[] = {{at, 0, 0}, {at + 1000, 0, 1}, {at + 2000, 0, 2}, {at + 3000, 0, 4}};
    run_visitors(visitors, 4);
    expect("from memory", visitors[0].took, 1 + 100 + 4);
    expect("within a cluster", visitors[1].took, 1 + 40 + 4);
    expect("within a socket", visitors[2].took, 1 + 80 + 4);
    expect("across sockets", visitors[3].took, 1 + 200 + 4);
}

static void contended(void) {
    uint64_t at = now() + 10000;
    struct visitor visitors[] = {{at, 0, 2}, {at + 1000, 0, 0}, {at + 1000, 0, 1}};
    run_visitors(visitors, 3);
    expect("the first of two at once", visitors[1].took, 1 + 80 + 4);
    expect("the second, from the first", visitors[2].took, 1 + 80 + 4 + 40 + 4);
}

/* ---- sleep and wake ----------------------------------------------------------------------------------------------- */

static os_word *event;
static uint64_t woke_at;

static void sleeper(void *argument) {
    os_cpu_bind(1);
    until(*(uint64_t *)argument);
    os_wait(event, 0, 0);
    woke_at = now();
}

static void waking(void) {
    uint64_t at = now() + 10000;
    sim_thread *thread = sim_thread_start(sleeper, &at);
    os_cpu_bind(0);
    until(at + 5000);
    event->raw = 1;
    uint64_t start = now();
    expect("the call that wakes", TOOK(os_wake(event, 1)), 10 + 50);
    while (thread->state != THREAD_DONE) sim_sleep(thread, 0);
    expect("from the wake to running", woke_at - start, 10 + 50 + 300);
    expect("a wake that nobody waits for", TOOK(os_wake(event, 1)), 10);
    start = now();
    expect("timed out", os_wait(event, 1, os_now_ns() + 5000) == OS_TIMEDOUT, 1);
    expect("the deadline, slack and the way to running", now() - start, 5000 + 60 + 300);
}

static void sharing_a_cpu(void) {
    uint64_t at = now() + 10000;
    struct visitor visitors[] = {{at, 0, 3}, {at, 0, 3}};
    run_visitors(visitors, 2);
    expect("additions of two threads on one CPU", load_rlx(line(20)), 2);
}

/* ---- attribution -------------------------------------------------------------------------------------------------- */

static int place;
static uint64_t charged;

static void find_place(const sim_site *site, void *context) {
    (void)context;
    if (site->line == place && strcmp(site->file == NULL ? "" : site->file, __FILE__) == 0) charged += site->ps / 1000;
}

static void attribution(void) {
    sites_reset();
    for (unsigned i = 0; i < 3; i++) place = __LINE__, (void)add_rlx(line(30), 1);
    sites_keep();
    sites_each_kept(find_place, NULL);
    expect("charged to the line", charged, 100 + 3 * (1 + 4));
}

/* ---- all ---------------------------------------------------------------------------------------------------------- */

static void run_case(void (*body)(void)) {
    lines = memory_get(4096, 4096);
    event = memory_get(4096, 4096);
    body();
}

static void run_all(void *argument) {
    (void)argument;
    os_init();
    run_case(one_cpu);
    run_case(scan);
    run_case(passing);
    run_case(contended);
    run_case(waking);
    run_case(sharing_a_cpu);
    run_case(attribution);
    run_case(sharing_a_core);
}

int main(void) {
    for (size_t i = 0; i < sizeof machine_text / sizeof *machine_text; i++)
        if (!machine_set(machine_text[i])) sim_die("%s", machine_text[i]);
    if (machine_wrong() != NULL) sim_die("%s", machine_wrong());
    if (machine_set("cpus=1e30") || machine_set("cpus=") || machine_set("no=1") || machine_set("cpus")) failures++;
    memory_init();
    lines_init();
    cpus_run(run_all, NULL);
    printf("%s\n", failures == 0 ? "as by hand" : "not as by hand");
    return failures == 0 ? 0 : 1;
}
