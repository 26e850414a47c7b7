#include <stdio.h>
#include <weft.h>

static int square(void *payload, weft_worker *self) {
    int *number = *(int **)payload;
    (void)self;
    *number *= *number;
    return 0;
}
int main(void) {
    int numbers[] = {1, 2, 3, 4};
    weft_pool *pool;
    weft_group group = WEFT_GROUP_INIT;
    if (weft_pool_create(&pool, NULL) != WEFT_OK) return 1;
    for (int *number = numbers; number < numbers + 4; number++) weft_submit(pool, &group, square, &number, sizeof number);
    int error = weft_group_wait(pool, &group); /* helps, then sleeps */
    printf("%d %d %d %d\n", numbers[0], numbers[1], numbers[2], numbers[3]);
    weft_pool_destroy(&pool);
    return error;
}
