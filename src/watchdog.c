/* watchdog.c: names the task that runs too long. Layer 4.
 *
 * A thread of its own, for a pool may hang with all its threads: then none of them could look. It exists only in pools
 * that asked for it, sleeps but for four looks in each limit, and reads what the workers write anyway (observe.c: the
 * clock before each task). A task that goes on is named again after twice the time, and again after twice that. */
#include "observe.h"
#include "probe.h"
#include "text.h"

#define LOOKS_PER_LIMIT 4u
#define PERIOD_NS_MIN UINT64_C(1000000)
#define NAME_BYTES 160u

static uint64_t backlog_of(const weft_pool *pool) {
    uint64_t cells = 0;
    uint32_t count = load_rlx(&pool->seat_count);
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_worker *seat = observe_seat(pool, i);
        if (seat != NULL) cells += observe_backlog(seat);
    }
    return cells;
}

static void stuck_print(const weft_stuck *stuck) {
    char buffer[512];
    struct text text = {.to = buffer, .size = sizeof buffer, .fd = 2};
    text_put(&text, "weft: worker ");
    text_put_number(&text, stuck->worker);
    text_put(&text, " has run ");
    text_put(&text, stuck->name);
    text_put(&text, " for ");
    text_put_decimal(&text, stuck->ns / 1000000, 3);
    text_put(&text, " s; tasks not begun: ");
    text_put_number(&text, stuck->backlog);
    text_put(&text, " cells\n");
    text_end(&text);
}

static void stuck_report(weft_pool *pool, const struct weft_worker *seat, uintptr_t what, uint64_t ns) {
    char name[NAME_BYTES];
    os_symbol(what, name, sizeof name);
    weft_stuck stuck = {
        .pool = pool, .worker = seat->index, .function = what, .name = name, .ns = ns, .backlog = backlog_of(pool)};
    PROBE(stuck, what, ns);
    if (pool->config.watchdog != NULL)
        pool->config.watchdog(&stuck, pool->config.context);
    else
        stuck_print(&stuck);
}

static void watchdog_look(weft_pool *pool, struct weft_worker *seat) {
    uint64_t since = load_rlx(&seat->running_since);
    uintptr_t what = load_rlx(&seat->running);
    if (since == 0 || what == 0) return;
    uint64_t now = os_ticks();
    uint64_t ns = now > since ? observe_ns(now - since) : 0;
    if (since != seat->watched_since) {
        seat->watched_since = since;
        seat->watched_limit = pool->config.watchdog_ns;
    }
    if (ns < seat->watched_limit || load_rlx(&seat->running_since) != since) return;
    while (seat->watched_limit <= ns) seat->watched_limit *= 2;
    stuck_report(pool, seat, what, ns);
}

static void watchdog_main(void *argument) {
    weft_pool *pool = argument;
    uint64_t period_ns = max_u64(pool->config.watchdog_ns / LOOKS_PER_LIMIT, PERIOD_NS_MIN);
    while (!load_rlx(&pool->watchdog.ends)) {
        os_wait(&pool->watchdog.ends, 0, os_now_ns() + period_ns);
        uint32_t count = load_rlx(&pool->seat_count);
        for (uint32_t i = 0; i < count; i++) {
            struct weft_worker *seat = observe_seat(pool, i);
            if (seat != NULL) watchdog_look(pool, seat);
        }
    }
}

int watchdog_start(weft_pool *pool) {
    os_thread_options options = {.name = "weft-watchdog"};
    or_rlx(&pool->extras, EXTRA_WATCHED);
    pool->watchdog.runs = os_thread_start(&pool->watchdog.thread, &options, watchdog_main, pool) == 0;
    return pool->watchdog.runs ? WEFT_OK : WEFT_EAGAIN;
}

void watchdog_end(weft_pool *pool) {
    if (!pool->watchdog.runs) return;
    store_rlx(&pool->watchdog.ends, 1);
    os_wake(&pool->watchdog.ends, 1);
    os_thread_join(pool->watchdog.thread);
}
