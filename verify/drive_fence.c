/* drive_fence.c: the asymmetric fence (fence.c) while the system's barrier stops working. Each side stores, fences and loads:
 * of a light and a heavy one at least one sees the other's store. */
#include "explore.h"

enum { ROUNDS = 2 };

static struct {
    ATOMIC(uint32_t) light[2][ROUNDS], heavy[2][ROUNDS];
    uint32_t light_saw[2][2][ROUNDS], heavy_saw[2][2][ROUNDS]; /* who, whose: the test's own */
} world;

static void setup(void) {
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t round = 0; round < ROUNDS; round++) {
            store_rlx(&world.light[i][round], 0);
            store_rlx(&world.heavy[i][round], 0);
        }
    }
    fence_begin();
}
static void light(uint32_t i) {
    for (uint32_t round = 0; round < ROUNDS; round++) {
        store_rlx(&world.light[i][round], 1);
        FENCE_LIGHT(drive_fence_light);
        for (uint32_t k = 0; k < 2; k++) world.light_saw[i][k][round] = load_rlx(&world.heavy[k][round]);
    }
}
static void heavy(uint32_t i) {
    for (uint32_t round = 0; round < ROUNDS; round++) {
        store_rlx(&world.heavy[i][round], 1);
        os_fence_heavy_slow();
        for (uint32_t k = 0; k < 2; k++) world.heavy_saw[i][k][round] = load_rlx(&world.light[k][round]);
    }
}
static void light_0(void) { light(0); }
static void light_1(void) { light(1); }
static void heavy_0(void) { heavy(0); }
static void heavy_1(void) { heavy(1); }
static void check(void) {
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t round = 0; round < ROUNDS; round++)
            EXPECT(world.light_saw[i / 2][i % 2][round] || world.heavy_saw[i % 2][i / 2][round]);
    explore_observe(load_rlx(&os_fence_asymmetric));
}
EXPLORE_DRIVER(fence_lost, .about = "the barrier is lost under two light and two heavy fences", .setup = setup,
               .threads = {light_0, light_1, heavy_0, heavy_1}, .check = check, .must_see = 3,
               .flags = EXPLORE_BARRIER_FAILS | EXPLORE_ALWAYS_LIGHT);
