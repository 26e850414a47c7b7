/* cost.c: how long loops will take.
 *
 * For each kind of loop that it ran lately, a seat remembers how long an index took the last time. It believes a longer time
 * as readily as a shorter one: a loop wrongly thought long costs a wake, one wrongly thought short may cost half its time.
 *
 * A kind is a body and a site. The site is what the user says (weft_for_site), or else the body's context and about how many
 * indices. The body alone is not enough: a backend that hands on others' loops uses one body for all of them.
 *
 * A kind that is not known counts as long. But with a body whose context differs each time, every loop would be of an
 * unknown kind. So after TRUST new kinds of a body in a row turned out short, the next new one is expected to be like the
 * last.
 *
 * Loops of one kind may be short at one time and long at another. If a loop unexpectedly turns out long, and another of its
 * kind did less than COST_NEAR loops before, the kind is in doubt: it counts as not known for DOUBT times as many loops as
 * lay between the two. By then, the next long one has come or not. COST_NEAR is well below the number of short loops between
 * two moments at which the system takes the thread off its CPU, which looks the same.
 *
 * A caller that runs a loop alone rarely reads the clock at its end. Long loops that come at regular intervals could all fall
 * between two such readings. So a kind is watched if one of its loops may have been long, because the caller's next reading
 * came late: each of the next COST_NEAR loops is looked at. Long ones farther apart than that are not in doubt anyway. */
#include "patterns/cost.h"

#define TRUST 64u
#define DOUBT 4u
#define TICKS_MAX (UINT64_C(1) << 50)

/* The most indices of a short loop. */
static uint32_t short_max(const weft_pool *pool, uint64_t ticks_256) {
    return (uint32_t)min_u64((cost_short_ticks(pool) * 256 - 1) / ticks_256, UINT32_MAX);
}

void cost_begin(struct weft_worker *seat, uint64_t key, uintptr_t function) {
    struct loop_body *body = &patterns_of(seat)->loop_bodies[function / 16 % LOOP_BODIES];
    if (body->function != function) *body = (struct loop_body){.function = function};
    struct loop_cost *cost = cost_at(seat, key);
    *cost = (struct loop_cost){.key = key, .body = body, .since = body->since};
    if (body->since < TRUST) return;
    cost->ticks_256 = body->ticks_256;
    cost->short_max = short_max(seat->pool, body->ticks_256);
}

static uint64_t ticks_of(const struct loop_cost *cost, size_t indices) {
    uint64_t ticks_256;
    return __builtin_mul_overflow(indices, cost->ticks_256, &ticks_256) ? UINT64_MAX : ticks_256 / 256;
}
uint64_t cost_ticks(const struct loop_cost *cost, size_t indices) {
    return cost->ticks_256 == 0 || cost->doubt > 0 ? UINT64_MAX : ticks_of(cost, indices);
}

/* The first loop of a new kind also tells about its body. */
static void body_learn(const struct loop_cost *cost, bool is_long) {
    struct loop_body *body = cost->body;
    body->since = is_long ? 0 : (uint8_t)min_u64(body->since + 1u, COST_NEAR);
    body->ticks_256 = cost->ticks_256;
}

static void kind_learn(struct loop_cost *cost, bool is_long, bool was_thought_long) {
    if (!is_long) {
        if (cost->since < COST_NEAR) cost->since++;
        if (cost->doubt > 0) cost->doubt--;
        return;
    }
    if (!was_thought_long && cost->since < COST_NEAR)
        cost->doubt = (uint16_t)max_u64(cost->doubt, DOUBT * (UINT64_C(1) + cost->since));
    cost->since = 0;
}

void cost_learn(struct weft_worker *seat, uint64_t key, uint64_t ticks, uint64_t indices, size_t count) {
    struct loop_cost *cost = cost_at(seat, key);
    if (indices == 0 || cost->key != key) return; /* a loop inside has replaced it */
    const weft_pool *pool = seat->pool;
    bool was_thought_long = cost->doubt == 0 && cost->ticks_256 != 0 && ticks_of(cost, count) >= cost_long_ticks(pool);
    cost->ticks_256 = max_u64(min_u64(ticks, TICKS_MAX) * 256 / indices, 1);
    bool is_long = ticks_of(cost, count) >= cost_long_ticks(pool);
    if (cost->body != NULL) {
        body_learn(cost, is_long);
        cost->body = NULL;
        was_thought_long = is_long;
    }
    kind_learn(cost, is_long, was_thought_long);
    cost->short_max = cost->doubt > 0 ? 0 : short_max(pool, cost->ticks_256);
}

void cost_confirm(struct weft_worker *seat, uint64_t key, uint64_t ticks, size_t count) {
    struct loop_cost *cost = cost_at(seat, key);
    if (cost->key != key) return;
    bool is_watched = cost->look >= COST_LOOK_EVERY;
    cost->look = (uint8_t)((is_watched ? cost->look : COST_LOOK_EVERY) - 1);
    cost->since = (uint8_t)min_u64(cost->since + (is_watched ? 1u : COST_LOOK_EVERY), COST_NEAR);
    if (cost->body != NULL) cost_learn(seat, key, ticks, count, count);
}
