/* at_rest.c: every pool that ends is looked at when its own threads have ended and its memory is still there. */
#include "at_rest.h"

#include "sched/seat.h"

/* Hidden ones, too. */
static const struct lane *newest_lane(const struct weft_worker *seat) {
    const struct lane *lane = worker_lanes(seat);
    while (lane != NULL && lane->newer != NULL) lane = lane->newer;
    return lane;
}
/* Of what was made, the place of index 0, which no item has, and what the pile holds; that is popped. */
static uint32_t free_of(struct pile *pile) {
    uint32_t count = load_rlx(&pile->made) == 0 ? 0 : 1;
    while (pile_pop(pile) != NULL) count++;
    return count;
}

/* Nobody runs anything, no task waits, and each segment is in a lane or free. */
static void expect_lanes_at_rest(weft_pool *pool) {
    uint32_t in_use = 0;
    for (uint32_t i = 0; i < load_rlx(&pool->seat_count); i++) {
        const struct weft_worker *seat = worker_seat(pool, i);
        if (seat == NULL) continue;
        EXPECT(patterns_of(seat)->loop == NULL);
        EXPECT(seat->in_loop == NULL);
        EXPECT(forks_of(seat)->running == NULL);
        EXPECT(load_rlx(&forks_of(seat)->offer) % 2 == 0);
        for (const struct lane *lane = newest_lane(seat); lane != NULL; lane = load_rlx(&lane->next)) {
            EXPECT(lane_is_empty(lane));
            in_use += lane->in_use;
        }
    }
    EXPECT(in_use + free_of(&pool->segments) == load_rlx(&pool->segments.made));
}

/* No wait sleeps inside a task, what groups held is free, and those that were not waited for are counted. */
static void expect_records_at_rest(weft_pool *pool) {
    uint32_t background = 0, urgent = 0, due = 0;
    for (uint32_t i = 1; i < load_rlx(&pool->groups.records.made); i++) {
        const struct record *record = record_at(&pool->groups, i);
        if (record == NULL) continue;
        EXPECT(load_rlx(&record->slept_in) == 0);
        EXPECT(record->sleepers == NULL);
        EXPECT((load_rlx(&record->waiting) & ~WAITS_ENDED) == 0);
        background += load_rlx(&record->id) != 0 && (load_rlx(&record->flags) & WEFT_GROUP_BACKGROUND) != 0;
        urgent += load_rlx(&record->urgent) != 0;
        due += load_rlx(&record->deadline_ns) != 0;
    }
    EXPECT(free_of(&pool->groups.continuation) == load_rlx(&pool->groups.continuation.made));
    EXPECT(load_rlx(&pool->groups.background) == background);
    EXPECT(load_rlx(&pool->groups.urgent) == urgent);
    EXPECT(load_rlx(&pool->groups.due) == due);
}

void __real_registry_remove(weft_pool *pool);
void __wrap_registry_remove(weft_pool *pool);
void __wrap_registry_remove(weft_pool *pool) {
    expect_at_rest(pool);
    EXPECT(load_rlx(&pool->queued) == 0 && load_rlx(&pool->background_busy) == 0);
    expect_lanes_at_rest(pool);
    expect_records_at_rest(pool);
    __real_registry_remove(pool);
}
