/* tiles.c: loops over two dimensions, as loops over their tiles. */
#include "patterns/cost.h"
#include "patterns/loop.h"

#define TILES_MIN 64u /* if weft chooses the grain and the area suffices */

struct tiles {
    weft_tiles all; /* grains: height and width, not 0 */
    size_t across;  /* tiles side by side */
    weft_tile_fn body;
    void *context;
};

static int tiles_body(size_t begin, size_t end, void *context, weft_worker *self) {
    const struct tiles *tiles = context;
    const weft_range *rows = &tiles->all.rows;
    const weft_range *columns = &tiles->all.columns;
    while (begin < end) {
        size_t row = rows->begin + begin / tiles->across * rows->grain;
        size_t first = begin % tiles->across;
        size_t count = min_u64(end - begin, tiles->across - first);
        size_t column = columns->begin + first * columns->grain;
        const weft_tile tile = {
            .row_begin = row,
            .row_end = row + min_u64(rows->end - row, rows->grain),
            .column_begin = column,
            .column_end = first + count == tiles->across ? columns->end : column + count * columns->grain,
        };
        int error = tiles->body(&tile, tiles->context, self);
        if (error != 0) return error;
        begin += count;
    }
    return 0;
}

static size_t tiles_along(const weft_range *range) { return (range->end - range->begin - 1) / range->grain + 1; }

/* Keeps rows whole unless there are too few. */
static void tiles_choose(weft_tiles *all) {
    if (all->rows.grain == 0) all->rows.grain = 1;
    if (all->columns.grain != 0) return;
    size_t columns = all->columns.end - all->columns.begin;
    size_t across = (TILES_MIN - 1) / min_u64(tiles_along(&all->rows), TILES_MIN) + 1;
    all->columns.grain = (columns - 1) / across + 1;
}

int weft_for_tiles(weft_pool *pool, weft_tiles tiles, weft_tile_fn body, void *context) {
    bool is_good = tiles.rows.begin <= tiles.rows.end && tiles.columns.begin <= tiles.columns.end;
    if (pool == NULL || body == NULL || !is_good) return WEFT_EINVAL;
    struct tiles loop = {.all = tiles, .body = body, .context = context};
    size_t count = 0;
    if (tiles.rows.begin != tiles.rows.end && tiles.columns.begin != tiles.columns.end) {
        tiles_choose(&loop.all);
        loop.across = tiles_along(&loop.all.columns);
        if (__builtin_mul_overflow(loop.across, tiles_along(&loop.all.rows), &count)) return WEFT_EINVAL;
    }
    return loop_for(pool, &(struct loop_job){{0, count, 1}, tiles_body, &loop, (uintptr_t)body, cost_site(context, count)});
}
