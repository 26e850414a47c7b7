/* reduce.c: weft_reduce's tree, over ranks.
 *
 * Leaves are ranges of `grain` indices; node i of level l is made of nodes 2i and 2i+1 of level l-1, a node without a right half is
 * its left one. A block is a subtree of 1 << levels leaves: the loop's index. Its value lies in a slot of its number. What a rank
 * has then is put together as far as both halves are there: node (l, i) lies in slot i << l. The nodes that are left are sent to all
 * ranks, and each puts together the rest. So every rank combines the same operands in the same places of the tree. */
#include "dist.h"

#include <limits.h>
#include <string.h>

/* As many as weft_reduce has: a chunk at the end of the row is two for each of a rank's workers. */
#define BLOCKS_PER_WORKER 256u
#define VALUES_BYTES ((size_t)16 << 20) /* of all blocks, if that leaves four for each worker */
#define NOT_HERE UINT8_MAX

struct tree {
    const weft_reduction *how;
    weft_range range; /* grain set */
    size_t leaves;
    size_t blocks;
    size_t stride;         /* bytes from slot to slot */
    unsigned levels;       /* of a block */
    unsigned char *values; /* a slot for each block */
    uint8_t *level;        /* of the node in a slot; NOT_HERE: none */
    unsigned char *mail;   /* nodes on their way: a head and the value each */
    unsigned char *own;
    size_t letter; /* bytes of one */
};

struct head {
    uint64_t slot;
    uint64_t level;
};

static unsigned char *slot(const struct tree *tree, size_t index) { return tree->values + index * tree->stride; }

/* ---- one block ----------------------------------------------------------------------------------------------------- */

static int leaf(const struct tree *tree, size_t index, void *value, weft_worker *self) {
    size_t begin = tree->range.begin + index * tree->range.grain;
    size_t end = tree->range.end - begin > tree->range.grain ? begin + tree->range.grain : tree->range.end;
    return tree->how->leaf(begin, end, value, tree->how->context, self);
}

/* Leaves one after the other; subtrees that wait for their right neighbour lie on a stack, the largest first. */
static int block_run(const struct tree *tree, size_t block, unsigned char *stack, weft_worker *self) {
    size_t first = block << tree->levels, left = tree->leaves - first, count = 0;
    size_t leaves = left < (size_t)1 << tree->levels ? left : (size_t)1 << tree->levels;
    for (size_t i = 0; i < leaves; i++) {
        int error = leaf(tree, first + i, stack + count * tree->stride, self);
        if (error != 0) return error;
        count++;
        for (size_t at = i; (at & 1) != 0; at >>= 1) {
            count--;
            tree->how->combine(stack + (count - 1) * tree->stride, stack + count * tree->stride, tree->how->context);
        }
    }
    for (; count > 1; count--)
        tree->how->combine(stack + (count - 2) * tree->stride, stack + (count - 1) * tree->stride, tree->how->context);
    memcpy(slot(tree, block), stack, tree->how->size);
    return 0;
}

static int blocks_body(size_t begin, size_t end, void *context, weft_worker *self) {
    const struct tree *tree = context;
    unsigned char *stack = weft_alloc(tree->stride * (tree->levels + 2));
    if (stack == NULL) return WEFT_ENOMEM;
    int error = 0;
    for (size_t block = begin; block < end && error == 0; block++) {
        error = block_run(tree, block, stack, self);
        if (error == 0) tree->level[block] = 0;
    }
    weft_free(stack);
    return error;
}

/* ---- above blocks -------------------------------------------------------------------------------------------------- */

/* Puts together every two halves that are both here. For dist_run. */
static int halves_unite(void *payload) {
    const struct tree *tree = payload;
    for (unsigned level = 0; (tree->blocks - 1) >> level > 0; level++) {
        size_t step = (size_t)1 << level;
        for (size_t left = 0; left < tree->blocks; left += 2 * step) {
            if (tree->level[left] != level) continue;
            bool has_right = left + step < tree->blocks;
            if (has_right && tree->level[left + step] != level) continue;
            if (has_right) {
                tree->how->combine(slot(tree, left), slot(tree, left + step), tree->how->context);
                tree->level[left + step] = NOT_HERE;
            }
            tree->level[left] = (uint8_t)(level + 1);
        }
    }
    return WEFT_OK;
}

static uint64_t nodes_count(const struct tree *tree) {
    uint64_t count = 0;
    for (size_t i = 0; i < tree->blocks; i++) count += tree->level[i] != NOT_HERE;
    return count;
}

static void nodes_pack(const struct tree *tree, unsigned char *letters) {
    size_t count = 0;
    for (size_t i = 0; i < tree->blocks; i++) {
        if (tree->level[i] == NOT_HERE) continue;
        const struct head head = {i, tree->level[i]};
        unsigned char *letter = letters + count++ * tree->letter;
        memcpy(letter, &head, sizeof head);
        memcpy(letter + sizeof head, slot(tree, i), tree->how->size);
    }
}

static void nodes_unpack(const struct tree *tree, const unsigned char *letters, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct head head;
        const unsigned char *letter = letters + i * tree->letter;
        memcpy(&head, letter, sizeof head);
        memcpy(slot(tree, head.slot), letter + sizeof head, tree->how->size);
        tree->level[head.slot] = (uint8_t)head.level;
    }
}

/* Where memory is shared few nodes are put there before the ranks agree. */
static bool nodes_are_few(const weft_dist *dist, const struct tree *tree, uint64_t count) {
    return dist->is_near && count <= MAIL_BYTES / tree->letter;
}

/* False: some rank has too many for that. */
static bool nodes_fetch(const weft_dist *dist, const struct tree *tree) {
    for (int rank = 0; rank < dist->ranks; rank++)
        if (!nodes_are_few(dist, tree, dist->outcomes[rank].brings)) return false;
    for (int rank = 0; rank < dist->ranks; rank++)
        if (rank != dist->rank) nodes_unpack(tree, near_mail(dist, rank), (size_t)dist->outcomes[rank].brings);
    return true;
}

/* Every rank's nodes to every rank; how many each has, all know. `counts` and `places` have one for each. */
static void nodes_exchange(weft_dist *dist, const struct tree *tree, int *counts, int *places) {
    const char *what = "the values cannot be exchanged";
    int all = 0;
    MPI_Datatype letter;
    for (int rank = 0; rank < dist->ranks; rank++) {
        counts[rank] = (int)dist->outcomes[rank].brings;
        places[rank] = all;
        all += counts[rank];
    }
    nodes_pack(tree, tree->own);
    dist_must(dist, MPI_Type_contiguous((int)tree->letter, MPI_BYTE, &letter), what);
    dist_must(dist, MPI_Type_commit(&letter), what);
    dist_must(dist,
              MPI_Iallgatherv(tree->own, counts[dist->rank], letter, tree->mail, counts, places, letter, dist->comm,
                              &dist->request),
              what);
    dist_await(dist, what);
    dist_must(dist, MPI_Type_free(&letter), what);
    nodes_unpack(tree, tree->mail, (size_t)all);
}

/* ---- the call ------------------------------------------------------------------------------------------------------ */

static bool is_sound(weft_range range, const weft_reduction *how, const void *result) {
    return result != NULL && how != NULL && how->size > 0 && how->size <= WEFT_PAYLOAD_MAX && how->leaf != NULL &&
           how->combine != NULL && range.begin <= range.end;
}

static int empty(const weft_reduction *how, void *result) {
    if (how->identity != NULL) memcpy(result, how->identity, how->size);
    if (how->identity == NULL) memset(result, 0, how->size);
    return WEFT_OK;
}

/* How many blocks there are is every rank's to know, so it goes by what all ranks know. */
static void tree_plan(const weft_dist *dist, struct tree *tree) {
    size_t indices = tree->range.end - tree->range.begin, workers = dist->workers_all;
    if (tree->range.grain == 0) tree->range.grain = weft_reduce_grain(indices, tree->how->size);
    tree->leaves = indices / tree->range.grain + (indices % tree->range.grain != 0);
    tree->stride = (tree->how->size + 15) / 16 * 16;
    tree->letter = sizeof(struct head) + tree->stride;
    size_t most = VALUES_BYTES / tree->stride;
    if (most > workers * BLOCKS_PER_WORKER) most = workers * BLOCKS_PER_WORKER;
    if (most < workers * 4) most = workers * 4;
    for (tree->blocks = tree->leaves; tree->blocks > most; tree->blocks = tree->blocks / 2 + tree->blocks % 2)
        tree->levels++;
}

static int tree_make(const weft_dist *dist, struct tree *tree) {
    tree_plan(dist, tree);
    tree->values = weft_alloc(tree->blocks * tree->stride);
    tree->level = weft_alloc(tree->blocks);
    tree->mail = weft_alloc(tree->blocks * tree->letter);
    tree->own = weft_alloc(tree->blocks * tree->letter);
    if (tree->values == NULL || tree->level == NULL || tree->mail == NULL || tree->own == NULL) return WEFT_ENOMEM;
    memset(tree->level, NOT_HERE, tree->blocks);
    return WEFT_OK;
}

static void tree_end(struct tree *tree) {
    weft_free(tree->values);
    weft_free(tree->level);
    weft_free(tree->mail);
    weft_free(tree->own);
}

/* In the pool, for combining may take long; where a task is refused, here. */
static void tree_unite(weft_dist *dist, struct tree *tree) {
    if (dist_run(dist, halves_unite, tree) != WEFT_OK) halves_unite(tree);
}

/* The memory is there on all ranks. Nothing fails any more once all have run their blocks, so nothing else is agreed on. */
static int tree_run(weft_dist *dist, struct tree *tree, int *counts) {
    const struct loop loop = {{0, tree->blocks, 1}, blocks_body, tree};
    struct outcome outcome = loop_run(dist, &loop);
    if (outcome.key == KEY_NONE) {
        tree_unite(dist, tree);
        outcome.brings = nodes_count(tree);
        if (nodes_are_few(dist, tree, outcome.brings)) nodes_pack(tree, near_mail(dist, dist->rank));
    }
    int error = loop_end(dist, outcome);
    if (error != WEFT_OK || dist->ranks == 1) return error;
    if (!nodes_fetch(dist, tree)) nodes_exchange(dist, tree, counts, counts + dist->ranks);
    tree_unite(dist, tree);
    return WEFT_OK;
}

static int reduce_all(weft_dist *dist, weft_range range, const weft_reduction *how, void *result) {
    int error = is_sound(range, how, result) ? WEFT_OK : WEFT_EINVAL;
    struct tree tree = {.how = how, .range = range};
    bool is_empty = error == WEFT_OK && range.begin == range.end;
    int *counts = NULL;
    if (error == WEFT_OK && !is_empty) {
        error = tree_make(dist, &tree);
        counts = weft_alloc(2 * (size_t)dist->ranks * sizeof *counts);
        if (counts == NULL) error = WEFT_ENOMEM;
    }
    uint64_t sum = sum_add(sum_add(sum_add(2, range.begin), range.end), range.grain);
    error = dist_begin(dist, sum_add(sum, how != NULL ? how->size : 0), error);
    if (error == WEFT_OK && counts != NULL) error = tree_run(dist, &tree, counts);
    if (error == WEFT_OK && counts != NULL && how != NULL) memcpy(result, tree.values, how->size);
    if (error == WEFT_OK && is_empty) error = empty(how, result);
    tree_end(&tree);
    weft_free(counts);
    return error;
}

int weft_dist_reduce(weft_dist *dist, weft_range range, const weft_reduction *how, void *result) {
    if (dist == NULL) return WEFT_EINVAL;
    if (!dist_enter(dist)) return WEFT_EDEADLK;
    return dist_leave(dist, reduce_all(dist, range, how, result));
}
