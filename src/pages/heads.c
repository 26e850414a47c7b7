/* heads.c: see heads.h. A leaf covers 128 GiB. Each region's leaf is in one of the lists, which have few leaves each.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   Z1  leaf_make: CAS list     release  Z2, Z3, Z4, Z5  a leaf's region is read before it is written; split: a leaf is lost,
 *                                                        and heads with it
 *   Z2  heads_has: load list     acquire  Z1              see Z1
 *   Z3  leaf_make: load list     acquire  Z1              see Z1
 *   Z4  heads_add: load list     acquire  Z1              see Z1
 *   Z5  heads_remove: load list  acquire  Z1              see Z1
 */
#include "pages/heads.h"

PROCESS_STATE leaf_list leaf_lists[LEAF_LISTS];

/* For a region that had no leaf a moment ago. NULL: no memory. */
static struct leaf *leaf_make(uint64_t region) {
    struct leaf *made = os_map(sizeof *made), *found = NULL;
    if (made == NULL) return NULL;
    made->region = region;
    for (;;) {
        struct leaf *newest = load_acq(Z3, leaf_list_of(region));
        found = leaf_in(newest, region);
        made->older = newest;
        if (found != NULL || cas_rel(Z1, leaf_list_of(region), &newest, made)) break;
    }
    if (found == NULL) return made;
    os_unmap(made, sizeof *made);
    return found;
}

static leaf_word *word_of(struct leaf *leaf, uint64_t number) { return &leaf->bits[number % LEAF_HEADS / 64]; }

bool heads_add(const void *head) {
    uint64_t number = head_number(head), region = number / LEAF_HEADS;
    struct leaf *leaf = leaf_in(load_acq(Z4, leaf_list_of(region)), region);
    if (leaf == NULL && (leaf = leaf_make(region)) == NULL) return false;
    or_rlx(word_of(leaf, number), UINT64_C(1) << number % 64);
    return true;
}

void heads_remove(const void *head) {
    uint64_t number = head_number(head), region = number / LEAF_HEADS;
    struct leaf *leaf = leaf_in(load_acq(Z5, leaf_list_of(region)), region);
    and_rlx(word_of(leaf, number), ~(UINT64_C(1) << number % 64));
}
