/* A program of a user, built in every way the README names. C99 and C++11. */
#include <stdio.h>
#include <weft.h>

static int add(void *payload, weft_worker *self) {
    int **sum = (int **)payload;
    (void)self;
    **sum += 1;
    return 0;
}

int main(void) {
    weft_pool *pool = NULL;
    weft_group group = WEFT_GROUP_INIT;
    int sum = 0;
    int *where = &sum;
    if (weft_pool_create(&pool, NULL) != WEFT_OK) return 1;
    if (weft_submit(pool, &group, add, &where, sizeof where) != WEFT_OK) return 2;
    if (weft_wait(pool, &group) != WEFT_OK) return 3;
    if (weft_pool_destroy(&pool) != WEFT_OK) return 4;
    printf("weft %s %d\n", weft_version(), sum);
    return sum == 1 ? 0 : 5;
}
