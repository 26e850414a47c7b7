/* regions.c: does a region lie in another, or run on top of what does? A program of many waits inside waits has thousands of
 * regions on one stack, and many ways from one to another, so each is looked at once. */
#include "spec.h"

#include <stdlib.h>

/* Regions that were met. Open addressing, at most half full; those to be looked at stand in `order` behind `done`. */
struct search {
    const struct region **met, **order;
    size_t size, count, done;
};

static const struct region **table(size_t size) {
    const struct region **made = calloc(size, sizeof(const struct region *));
    if (made == NULL) abort();
    return made;
}

/* The place of that region in the table, or the free one where it belongs. */
static const struct region **find(const struct search *search, const struct region *region) {
    size_t i = ((uintptr_t)region >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    while (search->met[i % search->size] != NULL && search->met[i % search->size] != region) i++;
    return &search->met[i % search->size];
}

static void grow(struct search *search) {
    free(search->met);
    search->size *= 2;
    search->met = table(search->size);
    const struct region **order = table(search->size / 2);
    for (size_t i = 0; i < search->count; i++) *find(search, order[i] = search->order[i]) = search->order[i];
    free(search->order);
    search->order = order;
}

static void meet(struct search *search, const struct region *region) {
    if (region == NULL || *find(search, region) != NULL) return;
    if (search->count == search->size / 2) grow(search);
    *find(search, region) = search->order[search->count++] = region;
}

bool region_is_inside(const struct region *region, const struct region *outer) {
    struct search search = {.met = table(128), .order = table(64), .size = 128};
    meet(&search, region);
    while (search.done < search.count && search.order[search.done] != outer) {
        const struct region *next = search.order[search.done++];
        meet(&search, next->above);
        meet(&search, next->beneath);
    }
    bool is_inside = search.done < search.count;
    free(search.met);
    free(search.order);
    return is_inside;
}
