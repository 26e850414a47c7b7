/* heads.c: see heads.h. A leaf covers 128 GiB. Each region's leaf is in one of the lists, which have few leaves each.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   Z1  leaf_make: CAS list     release  Z2, Z3, Z4, Z5  a leaf's region is read before it is written; split: a leaf is lost,
 *                                                        and heads with it
 *   Z2  heads_has: load list     acquire  Z1              see Z1
 *   Z3  leaf_make: load list     acquire  Z1              see Z1
 *   Z4  heads_add: load list     acquire  Z1              see Z1
 *   Z5  leaf_known: load list    acquire  Z1              see Z1
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

/* NULL: no head has stood in the address's region yet. */
static struct leaf *leaf_known(const void *at) {
    uint64_t region = head_number(at) / LEAF_HEADS;
    return leaf_in(load_acq(Z5, leaf_list_of(region)), region);
}

void heads_remove(const void *head) {
    uint64_t number = head_number(head);
    and_rlx(word_of(leaf_known(head), number), ~(UINT64_C(1) << number % 64));
}

/* ---- pieces ------------------------------------------------------------------------------------------------------- */

static PROCESS_STATE ATOMIC(uint32_t) pieces;

uint32_t heads_pieces(void) { return load_rlx(&pieces); }

static piece_count *pieces_at(const char *at) {
    struct leaf *leaf = leaf_known(at);
    return leaf == NULL ? NULL : &leaf->pieces[head_number(at) % LEAF_HEADS];
}

/* A segment with more than fit into its count has as many as that. */
void heads_piece(const char *to) {
    piece_count *count = pieces_at(to);
    if (count == NULL || load_rlx(count) == UINT8_MAX) return; /* no head has stood there yet: not counted */
    store_rlx(count, (uint8_t)(load_rlx(count) + 1));
    add_rlx(&pieces, 1);
}

void heads_pieces_end(const char *start, size_t bytes) {
    for (size_t at = 0; at < bytes && load_rlx(&pieces) != 0; at += SEGMENT_BYTES) {
        piece_count *count = pieces_at(start + at);
        if (count == NULL || load_rlx(count) == 0) continue;
        add_rlx(&pieces, (uint32_t) - (int32_t)load_rlx(count));
        store_rlx(count, 0);
    }
}
