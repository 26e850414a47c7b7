#include <stdio.h>
#include <weft.h>

enum { WIDTH = 1200, HEIGHT = 800, TURNS = 255 };
#define ONE (INT64_C(1) << 24) /* numbers are in 2^-24, so that the picture is the same everywhere */

static unsigned char picture[HEIGHT][WIDTH];

/* How often z = z * z + c stays small, at most TURNS. */
static unsigned char turns_at(size_t column, size_t row) {
    int64_t re = (int64_t)column * 3 * ONE / WIDTH - 2 * ONE, im = (int64_t)row * 2 * ONE / HEIGHT - ONE;
    int64_t x = 0, y = 0;
    int turns = 0;
    while (turns < TURNS && x * x / ONE + y * y / ONE < 4 * ONE) {
        int64_t next = (x * x - y * y) / ONE + re;
        y = 2 * x * y / ONE + im;
        x = next;
        turns++;
    }
    return (unsigned char)turns;
}

static int draw_rows(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)context;
    (void)self;
    for (size_t row = begin; row < end; row++)
        for (size_t column = 0; column < WIDTH; column++) picture[row][column] = turns_at(column, row);
    return 0;
}

int main(void) {
    weft_pool *pool;
    int error = weft_pool_default(&pool); /* this one reads WEFT_WORKERS, WEFT_STATS, WEFT_TRACE, ... */
    if (error == WEFT_OK) error = weft_for(pool, (weft_range){.end = HEIGHT}, draw_rows, NULL);
    if (error != WEFT_OK) {
        fprintf(stderr, "mandelbrot: %s\n", weft_strerror(error));
        return 1;
    }
    size_t inside = 0;
    for (size_t row = 0; row < HEIGHT; row++)
        for (size_t column = 0; column < WIDTH; column++) inside += picture[row][column] == TURNS;
    printf("%zu of %d points stay\n", inside, WIDTH * HEIGHT);
    return weft_pool_destroy(&pool) == WEFT_OK ? 0 : 1;
}
