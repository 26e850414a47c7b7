/* A program of a user, built in every way the README names. C99 and C++11, as strict as a user may be about casts and
 * zeros. */
#include <stdio.h>
#include <string.h>
#include <weft.h>

static int add(void *payload, weft_worker *self) {
    int *sum;
    (void)self;
    memcpy(&sum, payload, sizeof sum);
    *sum += 1;
    return 0;
}

static int half(weft_fork_slot *here, int depth);
static void nothing(weft_fork_slot *here, int *depth);
WEFT_FORK(half, int, int)
WEFT_FORK_VOID(nothing, int *)

static void nothing(weft_fork_slot *here, int *depth) { (void)here, (void)depth; }
static int half(weft_fork_slot *here, int depth) {
    int above = depth - 1;
    int *where = &above;
    if (depth == 0) return 1;
    weft_fork_slot *deeper = half_fork(here, &above);
    weft_fork_slot *deepest = nothing_fork(deeper, &where);
    int right = half(deepest, above);
    nothing_join(deeper, &where);
    return half_join(here, &above) + right;
}

int main(void) {
    weft_pool *pool;
    weft_config config;
    weft_fork_slot *here;
    weft_group group = WEFT_GROUP_INIT;
    int sum = 0;
    int *where = &sum;
    if (weft_config_init(&config) != WEFT_OK || weft_pool_create(&pool, &config) != WEFT_OK) return 1;
    if (sizeof where > WEFT_PAYLOAD_MAX || weft_submit(pool, &group, add, &where, sizeof where) != WEFT_OK) return 2;
    if (weft_group_wait(pool, &group) != WEFT_OK || weft_fork_enter(pool, &here) != WEFT_OK) return 3;
    int halves = half(here, 10);
    weft_fork_leave(here);
    if (weft_pool_destroy(&pool) != WEFT_OK) return 4;
    printf("weft %s %d\n", weft_version(), sum);
    return sum == 1 && halves == 1024 ? 0 : 5;
}
