/* misuse.c: reports a program's misuse of its blocks without checked mode. Layer 2.
 *
 * A check of each free may cost next to nothing, so there are few, and they use only what is read anyway.
 *
 *   at the free    The free adds the word of the block's slot to an address (depot.h). A word that is no slot's leads to
 *                  memory that is not mapped, and the process ends by a fault. The block's offset in the slot is multiplied
 *                  by its kind's divisor: an address inside a block takes the slow path, which ends here. So does a block
 *                  whose first word says that it was freed, by whichever thread; the next allocation clears that word.
 *   at the malloc  Above TINY_MAX, a margin before a slab's blocks hides some addresses inside a block from the check at the
 *                  free. They are found when the block would be handed out, which checks its exact place.
 *   at the slab    Any other block that leaves the caches meets its slab's bits. If it is free there already, or no block
 *                  begins at its address, it was freed by mistake, some time ago. This also finds a second free if the
 *                  program wrote the first word in between, or a trim gave the page back.
 *
 * Nothing in a freed block is used as an address.
 *
 * The slow path knows where heads stand (heads.h), and reads no memory that is not the heap's. Every kind without a cache
 * takes it: large blocks, blocks of private heaps. */
#include "heap/block.h"
#include "heap/hooks.h"

/* Whether the block is free, as far as this thread can tell: the bits of other heaps' slabs change meanwhile. */
static bool is_freed(const struct block *block) {
    const struct heap *heap = heap_mine();
    if (block->kind < CACHED && is_tagged(block->start, tag_of(block->start, block->kind))) return true;
    if (block->kind >= CLASSES || slab_owner(slab_of(block->start)) != heap) return false;
    return slab_is_free(slab_of(block->start), index_in(block->kind, block->start));
}

static void tell(const char *call, const void *p, const char *what, const struct block *block) {
    fault_tell((struct fault){call, p, what, SIZE_ANY}, block, MARK_NONE);
}

static struct block find(const void *p, const char *call) {
    struct block block = block_at(p);
    if (block.start == NULL) tell(call, p, "no block of this heap has that address", &block);
    if (block.start != p)
        fault_tell(
            (struct fault){call, p, "begins before it: it is inside, at offset ", (size_t)((const char *)p - block.start)},
            &block, MARK_NONE);
    return block;
}

static struct block look(const void *p, const char *call) {
    struct block block = find(p, call);
    if (is_freed(&block)) tell(call, p, "was freed already", &block);
    return block;
}

/* Whether p is certainly sound. `look` decides the rest. A resize in place takes little longer than this. */
static bool is_sound(const void *p) {
    const struct heap *heap = heap_mine();
    const struct heap_segment *head = head_of(p);
    if (!heads_has(head)) return false;
    unsigned kind = slot_kind(head, slot_of(p));
    if (kind == KIND_DIRECT) return load_rlx(&head->mapping->block) == p;
    if (kind >= CACHED || is_misuse(p, class_info[kind].divisor, tag_of(p, kind))) return false;
    if (kind >= CLASSES) return true;
    const struct slab *slab = &head->slabs[slot_of(p)];
    return is_start(kind, p) && (slab_owner(slab) != heap || !slab_is_free(slab, index_in(kind, p)));
}

static NOINLINE void look_long(const void *p, const char *call) { look(p, call); }

void misuse_look(const void *p, const char *call) {
    if (UNLIKELY(!is_sound(p))) look_long(p, call);
}

/* weft_realloc leaves a block in place if it shrinks to more than half, and the block is then freed with its new size. */
void misuse_sized(const void *p, size_t size) {
    struct block block = look(p, "free");
    bool is_small = block.kind < CLASSES && (size > block.usable / 2 || block.usable == BLOCK_MIN);
    bool may_be = is_small || (block.kind >= CLASSES && large_may_have(block.usable, block.kind, size));
    if (may_be && size <= block.usable) return;
    fault_tell((struct fault){"free", p, "was freed with another size: ", size}, &block, MARK_NONE);
}

void misuse_found(const void *p) {
    struct block block = find(p, "free");
    tell("free", p, "was freed twice, some time ago", &block);
}
