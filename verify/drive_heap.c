/* drive_heap.c: slabs between threads: remote frees, orphans and their adoption, the depot, empty slabs taken by others. */
#include "explore.h"
#include "heap/heap.h"
#include "pages/kept.h"

#include <string.h>

/* Four blocks to a slab. */
enum { KIND = 19, BLOCKS = 4, HEAPS = 2 };

static struct {
    struct {
        struct heap heap ALIGNED(SLOT_BYTES);
    } of[HEAPS];
    struct slab *slab;
    void *blocks[BLOCKS];
    bool freed[BLOCKS]; /* by its user, the test's own */
    uint32_t content[BLOCKS];
    ATOMIC(uint32_t) collected;
} world;

static void heaps_reset(void) {
    memset(&depot, 0, sizeof depot);
    memset(&heaps, 0, sizeof heaps);
    memset(orphans, 0, sizeof orphans);
}

static struct slab *slab_taken_of(unsigned kind, struct heap *owner) {
    struct slots got = depot_take(1);
    EXPECT(got.segment != NULL);
    depot_soil(got);
    struct slab *slab = &got.segment->slabs[__builtin_ctzll(got.bits)];
    slab_init(slab, kind, owner, 0);
    return slab;
}

static struct slab *slab_taken(struct heap *owner) { return slab_taken_of(KIND, owner); }

static void slab_setup(void) {
    memset(&world, 0, sizeof world);
    heaps_reset();
    EXPECT(class_info[KIND].blocks == BLOCKS);
    world.slab = slab_taken(&world.of[0].heap);
    EXPECT(slab_carve(world.slab, world.blocks, BLOCKS) == BLOCKS);
}

/* ---- remote frees ------------------------------------------------------------------------------------------------- */

/* A user's last touch of a block, before it is freed. */
static void use_last(uint32_t i) {
    plain_write(&world.content[i], sizeof world.content[i]);
    world.content[i] = explore_self();
    world.freed[i] = true;
}

static void send(uint32_t first, uint32_t count) {
    void *message[BLOCKS];
    for (uint32_t i = 0; i < count; i++) {
        use_last(first + i);
        message[i] = world.blocks[first + i];
    }
    slab_send(world.slab, message, count);
}

static void send_two(void) { send(0, 2); }
static void send_one(void) { send(2, 1); }
static void send_one_and_one(void) {
    send(2, 1);
    send(3, 1);
}

/* Every block that is free has been freed, and its last use is over. */
static void expect_free_blocks(void) {
    for (uint32_t i = 0; i < BLOCKS; i++) {
        if ((world.slab->free[0] >> index_in(KIND, world.blocks[i]) & 1) == 0) continue;
        plain_write(&world.content[i], sizeof world.content[i]);
        EXPECT(world.freed[i]);
    }
}

static uint32_t collect_into(struct inbox *inbox) {
    uint32_t got = 0;
    struct slab *slab = inbox_take(inbox);
    while (slab != NULL) {
        struct slab *next = inbox_next(slab);
        EXPECT(slab == world.slab);
        got += inbox_collect(inbox, slab);
        slab = next;
    }
    expect_free_blocks();
    return got;
}

static void owner(void) {
    for (int i = 0; i < 3; i++) {
        uint32_t got = collect_into(&world.of[0].heap.inbox);
        if (got != 0) explore_observe(0);
        if (world.of[0].heap.inbox.waiting != NULL) explore_observe(1);
    }
}

static void all_come_home(struct inbox *inbox, uint32_t sent) {
    for (int i = 0; i < 2; i++) collect_into(inbox);
    EXPECT(world.slab->room == sent && load_rlx(&world.slab->used) == BLOCKS - sent);
    EXPECT((load_rlx(&world.slab->state) & PENDING_MASK) == 0);
    EXPECT(inbox_is_empty(inbox));
}
static void three_come_home(void) { all_come_home(&world.of[0].heap.inbox, 3); }
static void four_come_home(void) { all_come_home(&world.of[0].heap.inbox, 4); }

EXPLORE_DRIVER(heap_remote, .about = "one frees another's blocks", .setup = slab_setup,
               .threads = {owner, send_two, send_one}, .check = three_come_home, .must_see = 3);
EXPLORE_DRIVER(heap_remote_again, .about = "frees announced anew while the owner collects", .setup = slab_setup,
               .threads = {owner, send_two, send_one_and_one}, .check = four_come_home, .must_see = 3);

/* Two slabs in one inbox: none is lost. */
static struct slab *second;
static void *second_blocks[BLOCKS];
static void two_slabs_setup(void) {
    slab_setup();
    second = slab_taken(&world.of[0].heap);
    EXPECT(slab_carve(second, second_blocks, BLOCKS) == BLOCKS);
}
static void send_second(void) { slab_send(second, second_blocks, 2); }
static void send_first(void) { slab_send(world.slab, world.blocks, 2); }
static void collect_all(struct inbox *inbox) {
    struct slab *slab = inbox_take(inbox);
    while (slab != NULL) {
        struct slab *next = inbox_next(slab);
        inbox_collect(inbox, slab);
        slab = next;
    }
}
static void owner_of_two(void) {
    for (int i = 0; i < 2; i++) collect_all(&world.of[0].heap.inbox);
}
static void two_slabs_check(void) {
    for (int i = 0; i < 2; i++) collect_all(&world.of[0].heap.inbox);
    EXPECT(world.slab->room == 2 && second->room == 2 && inbox_is_empty(&world.of[0].heap.inbox));
}
EXPLORE_DRIVER(heap_two_slabs, .about = "two slabs in one inbox", .setup = two_slabs_setup,
               .threads = {owner_of_two, send_first, send_second}, .check = two_slabs_check);

/* A slab of more blocks than its descriptor has bits for; another such begins in the same segment meanwhile. */
enum { MANY = SLAB_BLOCKS_MAX, SENT = 3 };
static void *many[MANY];
static void *const *many_sent(void) {
    static void *message[SENT];
    message[0] = many[0], message[1] = many[1], message[2] = many[MANY - 1];
    return message;
}
static void many_setup(void) {
    memset(&world, 0, sizeof world);
    heaps_reset();
    world.slab = slab_taken_of(0, &world.of[0].heap);
    EXPECT(slab_carve(world.slab, many, MANY) == MANY && world.slab->free != world.slab->near_free);
}
static void many_send(void) { slab_send(world.slab, many_sent(), SENT); }
static void many_collect(void) { collect_all(&world.of[0].heap.inbox); }
static void many_begin(void) {
    second = slab_taken_of(0, &world.of[1].heap);
    EXPECT(slab_carve(second, second_blocks, 2) == 2);
    EXPECT(slab_put(second, second_blocks, 2) == 2);
}
static void many_check(void) {
    many_collect();
    EXPECT(world.slab->room == SENT && second->room == MANY && second->free[0] == 3);
    for (int i = 0; i < SENT; i++) EXPECT(slab_is_free(world.slab, index_in(0, many_sent()[i])));
}
EXPLORE_DRIVER(heap_far, .about = "bits beyond the descriptors of two slabs", .setup = many_setup,
               .threads = {many_collect, many_send, many_begin}, .check = many_check);

/* Two such live twice each: what one gives up the other may have next. */
static void bits_setup(void) {
    memset(&world, 0, sizeof world);
    heaps_reset();
    world.slab = slab_taken_of(0, &world.of[0].heap);
    second = slab_taken_of(0, &world.of[1].heap);
    EXPECT(segment_of(world.slab) == segment_of(second));
}
static void bits_live(struct slab *slab) {
    void *blocks[2];
    for (int life = 0; life < 2; life++) {
        EXPECT(slab_carve(slab, blocks, 2) == 2 && slab->free == NULL);
        EXPECT(slab_put(slab, blocks, 2) == 2);
        explore_observe(slab->free != segment_of(slab)->far_free);
        EXPECT(slab->free[0] == 3);
        slab_bits_drop(slab);
        slab_init(slab, 0, slab_owner(slab), 0);
    }
}
static void bits_first(void) { bits_live(world.slab); }
static void bits_second(void) { bits_live(second); }
static void bits_check(void) {
    const struct heap_segment *segment = segment_of(second);
    EXPECT(load_rlx(&segment->far_lines[0]) == 0);
    for (unsigned i = 0; i < SEGMENT_SLOTS * FAR_LINES; i++) EXPECT(segment->far_free[i * LINE_WORDS] == 0);
}
EXPLORE_DRIVER(heap_bits, .about = "lines of bits given up and taken", .setup = bits_setup,
               .threads = {bits_first, bits_second}, .check = bits_check);

/* ---- orphans ------------------------------------------------------------------------------------------------------ */

/* The owner ends: it tries to abandon the slab, collecting what hinders it. */
static void owner_ends(void) {
    struct heap *heap = &world.of[0].heap;
    for (int i = 0; i < 3; i++) {
        collect_into(&heap->inbox);
        plain_write(world.slab, sizeof(void *));
        if (slab_abandon(world.slab, heap)) {
            slabs_push(&orphans[KIND], world.slab);
            explore_observe(0);
            return;
        }
    }
}

static void adopter_of(struct heap *heap) {
    struct slab *slab = slabs_take(&orphans[KIND]);
    if (slab == NULL) return;
    EXPECT(slab == world.slab && load_rlx(&slab->link) == NULL);
    plain_write(slab, sizeof(void *));
    slab_adopt(slab, heap, &heap->inbox);
    explore_observe(1);
    collect_into(&heap->inbox);
}
static void adopter(void) {
    for (int i = 0; i < 2; i++) adopter_of(&world.of[1].heap);
}

static void adopted_check(void) {
    for (int i = 0; i < HEAPS; i++) collect_into(&world.of[i].heap.inbox);
    adopter_of(&world.of[1].heap);
    collect_into(&world.of[1].heap.inbox);
    EXPECT(world.slab->room == 3 && load_rlx(&world.slab->used) == 1);
    EXPECT(inbox_is_empty(&world.of[0].heap.inbox) && inbox_is_empty(&world.of[1].heap.inbox));
}
EXPLORE_DRIVER(heap_orphan, .about = "a slab is abandoned and adopted while its blocks are freed", .setup = slab_setup,
               .threads = {owner_ends, send_two, adopter, send_one}, .check = adopted_check, .must_see = 3);

/* Two want the orphan. */
static struct slab *adopted[2];
static void orphan_setup(void) {
    slab_setup();
    adopted[0] = adopted[1] = NULL;
    EXPECT(slab_abandon(world.slab, &world.of[0].heap));
}
static void puts_orphan(void) {
    plain_write(world.slab, sizeof(void *));
    slabs_push(&orphans[KIND], world.slab);
}
static void take_orphan(uint32_t i) {
    adopted[i] = slabs_take(&orphans[KIND]);
    if (adopted[i] == NULL) return;
    plain_write(adopted[i], sizeof(void *));
    slab_adopt(adopted[i], &world.of[i].heap, &world.of[i].heap.inbox);
}
static void takes_orphan_0(void) { take_orphan(0); }
static void takes_orphan_1(void) { take_orphan(1); }
static void one_took_it(void) { EXPECT(adopted[0] == NULL || adopted[1] == NULL); }
EXPLORE_DRIVER(heap_orphan_two, .about = "two want one orphan", .setup = orphan_setup,
               .threads = {puts_orphan, takes_orphan_0, takes_orphan_1}, .check = one_took_it);

/* A thread's first heap, made where other things lay before, adopts the slab while its blocks are freed. */
static void fresh_setup(void) {
    slab_setup();
    struct slots got = depot_take_run(HEAP_SLOTS, 1);
    depot_soil(got);
    depot_put(got.segment, got.bits);
    EXPECT(slab_abandon(world.slab, &world.of[0].heap));
    slabs_push(&orphans[KIND], world.slab);
}
static void adopts_fresh(void) {
    struct heap *heap = heap_get();
    EXPECT(heap != NULL && heap_adopt(heap, KIND) == 1);
    if (!inbox_is_empty(&heap->inbox)) explore_observe(0);
    collect_into(&heap->inbox);
    if (world.slab->room == 3) explore_observe(1);
}
static void fresh_check(void) {
    struct heap *heap = slab_owner(world.slab);
    EXPECT(heap != NULL && heap != &world.of[0].heap);
    all_come_home(&heap->inbox, 3);
}
EXPLORE_DRIVER(heap_orphan_fresh, .about = "a heap made a moment ago adopts a slab while its blocks are freed",
               .setup = fresh_setup, .threads = {adopts_fresh, send_two, send_one}, .check = fresh_check, .must_see = 3);

/* ---- the depot ---------------------------------------------------------------------------------------------------- */

/* Slots are taken, written and freed by several; nobody gets one that another has, and none is lost. */
static struct {
    uint32_t owner[SEGMENT_SLOTS];
    struct heap_segment *segment;
} slots_world;

static void own_slots(struct slots got) {
    if (slots_world.segment == NULL) slots_world.segment = got.segment;
    if (got.segment != slots_world.segment) return;
    for (uint64_t bits = got.bits; bits != 0; bits &= bits - 1) {
        int i = __builtin_ctzll(bits);
        plain_write(&slots_world.owner[i], sizeof(uint32_t));
        EXPECT(slots_world.owner[i] == 0);
        slots_world.owner[i] = explore_self() + 1;
    }
}
static void disown_slots(struct slots got) {
    if (got.segment == slots_world.segment)
        for (uint64_t bits = got.bits; bits != 0; bits &= bits - 1) slots_world.owner[__builtin_ctzll(bits)] = 0;
    depot_put(got.segment, got.bits);
}

/* All slots but two of the only segment are taken. */
static void depot_setup(void) {
    heaps_reset();
    memset(&slots_world, 0, sizeof slots_world);
    struct slots got = depot_take(1);
    uint64_t mine = got.bits;
    while (__builtin_popcountll(load_rlx(&got.segment->free) & ~LISTED) > 2) mine |= depot_take(1).bits;
    slots_world.segment = got.segment;
    for (uint64_t bits = mine; bits != 0; bits &= bits - 1) slots_world.owner[__builtin_ctzll(bits)] = 99;
}
static void take_and_put(void) {
    for (int i = 0; i < 2; i++) {
        struct slots got = depot_take(1);
        if (got.segment == NULL) continue;
        own_slots(got);
        depot_soil(got);
        disown_slots(got);
    }
}
static void take_two_and_put(void) {
    struct slots got = depot_take(2);
    if (got.segment == NULL) return;
    own_slots(got);
    depot_soil(got);
    disown_slots(got);
}
static void purge_all(void) {
    for (int i = 0; i < 2; i++)
        if (depot_purge(true) != 0) explore_observe(0);
}
/* Both are in memory in part, as the one says who had them last. */
static void parts_setup(void) {
    depot_setup();
    struct slots got = depot_take(2);
    depot_soil(got);
    for (uint64_t bits = got.bits; bits != 0; bits &= bits - 1) {
        got.segment->slabs[__builtin_ctzll(bits)].touched = 1;
        depot_put_part(got.segment, bits & -bits);
    }
}
static void take_part_and_put(void) {
    for (int i = 0; i < 2; i++) {
        struct slots got = depot_take_part();
        if (got.segment == NULL) continue;
        own_slots(got);
        depot_soil(got);
        explore_observe(got.part == 0 ? 2 : 1);
        if (got.part == 0) {
            disown_slots(got);
            continue;
        }
        struct slab *slab = &got.segment->slabs[__builtin_ctzll(got.bits)];
        plain_read(&slab->touched, sizeof slab->touched);
        EXPECT(slab->touched > 0 && slab->touched < SLOT_PARTS);
        plain_write(&slab->touched, sizeof slab->touched);
        slab->touched++;
        slots_world.owner[__builtin_ctzll(got.bits)] = 0;
        depot_put_part(got.segment, got.bits);
    }
}
/* Free slots can be found. */
static void depot_check(void) {
    uint32_t found = 0;
    for (struct heap_segment *s = depot_all(); s != NULL; s = load_rlx(&s->older))
        if (s == slots_world.segment) EXPECT(__builtin_popcountll(load_rlx(&s->free) & ~LISTED) == 2);
    uint64_t segments = load_rlx(&depot.segments);
    for (;;) {
        struct slots got = depot_take(1);
        EXPECT(got.segment != NULL);
        if (load_rlx(&depot.segments) != segments) break;
        if (got.segment == slots_world.segment) found++;
        own_slots(got);
    }
    EXPECT(found == 2);
}
EXPLORE_DRIVER(heap_depot, .about = "slots are taken and freed", .setup = depot_setup,
               .threads = {take_and_put, take_two_and_put, take_and_put}, .check = depot_check);
EXPLORE_DRIVER(heap_depot_part, .about = "slots in memory in part are taken, freed and purged", .setup = parts_setup,
               .threads = {take_part_and_put, take_and_put, take_part_and_put, purge_all}, .check = depot_check,
               .must_see = 3);
EXPLORE_DRIVER(heap_depot_purge, .about = "slots are purged while others take them", .setup = depot_setup,
               .threads = {take_and_put, purge_all, take_two_and_put}, .check = depot_check, .must_see = 1);

static void take_run(void) {
    struct slots got = depot_take_run(2, 2);
    if (got.segment == NULL) return;
    uint64_t low = got.bits & -got.bits;
    EXPECT(got.bits == low * 3 && __builtin_ctzll(low) % 2 == 0);
    own_slots(got);
    disown_slots(got);
}
EXPLORE_DRIVER(heap_runs, .about = "runs of slots beside single ones", .setup = depot_setup,
               .threads = {take_run, take_and_put, take_run}, .check = depot_check);

/* Also to who may see what was there before. */
static bool is_made(const struct heap_segment *segment) { return slot_kind(segment, SEGMENT_SLOTS - 1) == KIND_OTHER; }

/* The first use of the depot by several at once. */
static void empty_setup(void) {
    heaps_reset();
    memset(&slots_world, 0, sizeof slots_world);
}
static void take_first(void) {
    struct slots got = depot_take(1);
    if (got.segment == NULL) return;
    EXPECT(__builtin_popcountll(got.bits) == 1);
    depot_soil(got);
    for (struct heap_segment *s = depot_all(); s != NULL; s = load_rlx(&s->older)) EXPECT(is_made(s));
}
static void nothing(void) {}
EXPLORE_DRIVER(heap_depot_first, .about = "several need the first segment, which there may be no memory for",
               .setup = empty_setup, .threads = {take_first, take_first}, .check = nothing, .flags = EXPLORE_MEMORY_FAILS);

/* Two owners put orphans of one class at once. */
static void two_orphans_setup(void) {
    two_slabs_setup();
    EXPECT(slab_abandon(world.slab, &world.of[0].heap) && slab_abandon(second, &world.of[0].heap));
}
static void puts_first(void) { slabs_push(&orphans[KIND], world.slab); }
static void puts_second(void) { slabs_push(&orphans[KIND], second); }
static void two_orphans_check(void) {
    uint32_t found = 0;
    for (struct slab *slab = slabs_take(&orphans[KIND]); slab != NULL; slab = load_rlx(&slab->link)) found++;
    EXPECT(found == 2);
}
EXPLORE_DRIVER(heap_orphans_put, .about = "two put orphans at once", .setup = two_orphans_setup,
               .threads = {puts_first, puts_second}, .check = two_orphans_check);

/* The only segment is full and still in the stack. One thread makes a second, another puts the first on top of it again,
 * and a third that began its walk at the first meets the second. */
static uint64_t walk_bits;
static void walk_setup(void) {
    empty_setup();
    struct slots got = depot_take(1);
    walk_bits = got.bits;
    slots_world.segment = got.segment;
    while ((load_rlx(&got.segment->free) & ~LISTED) != 0) depot_take(1);
}
static void walk_makes(void) { take_first(); }
static void walk_puts(void) {
    for (int i = 0; i < 3; i++) os_pause();
    depot_put(slots_world.segment, walk_bits);
}
static void walk_walks(void) {
    struct slots got = depot_take_run(2, 2);
    if (got.segment != NULL) EXPECT(is_made(got.segment));
}
EXPLORE_DRIVER(heap_walk, .about = "a walk meets a segment younger than its start", .setup = walk_setup,
               .threads = {walk_makes, walk_puts, walk_walks}, .check = nothing);

/* ---- empty slabs -------------------------------------------------------------------------------------------------- */

static slab_link lru;
static uint32_t lru_seen[2]; /* times each slab came out, the test's own */

static void lru_setup(void) {
    two_slabs_setup();
    store_rlx(&lru, NULL);
    memset(lru_seen, 0, sizeof lru_seen);
}
static void seen(struct slab *slab) {
    plain_write(slab, sizeof(void *));
    lru_seen[slab == second]++;
}
static void seen_all(void) {
    struct slab *slab = slabs_take(&lru);
    while (slab != NULL) {
        struct slab *next = load_rlx(&slab->link);
        seen(slab);
        slab = next;
    }
}
static void lru_owner(void) {
    plain_write(world.slab, sizeof(void *));
    slabs_push(&lru, world.slab);
    plain_write(second, sizeof(void *));
    slabs_push(&lru, second);
    struct slab *slab = slabs_pop(&lru);
    if (slab != NULL) seen(slab);
}
static void lru_check(void) {
    seen_all();
    EXPECT(lru_seen[0] == 1 && lru_seen[1] == 1);
}
EXPLORE_DRIVER(heap_empties, .about = "others take what the owner pops", .setup = lru_setup,
               .threads = {lru_owner, seen_all, seen_all}, .check = lru_check);

/* Segments become hollow while slots are taken, written and put back: a slot that is taken is mapped. */
static void slot_use(void) {
    for (int i = 0; i < 2; i++) {
        const struct heap_segment *hollow = depot_all();
        while (hollow != NULL && !load_rlx(&hollow->hollow)) hollow = load_rlx(&hollow->older);
        struct slots got = depot_take_run(1 + explore_pick(2), 1);
        EXPECT(got.segment != NULL);
        if (got.segment == hollow) explore_observe(1);
        uint32_t *word = (uint32_t *)(void *)slot_start(got.segment, (unsigned)__builtin_ctzll(got.bits));
        plain_write(word, sizeof *word);
        EXPECT(got.dirty != 0 || *word == 0);
        depot_soil(got);
        *word = 1 + explore_self();
        explore_step();
        EXPECT(*word == 1 + explore_self());
        depot_put(got.segment, got.bits);
    }
}
static void hollow_out(void) {
    for (int i = 0; i < 2; i++)
        if (depot_hollow() != 0) explore_observe(0);
}
static void hollow_check(void) {
    uint64_t hollows = 0, segments = 0;
    for (const struct heap_segment *segment = depot_all(); segment != NULL; segment = load_rlx(&segment->older), segments++)
        hollows += load_rlx(&segment->hollow);
    EXPECT(hollows == load_rlx(&depot.hollows) && segments == load_rlx(&depot.segments));
    while (load_rlx(&depot.hollows) != 0) EXPECT(depot_take_run(SEGMENT_SLOTS - HEAD_SLOTS, 1).segment != NULL);
    EXPECT(segments == load_rlx(&depot.segments));
}
EXPLORE_DRIVER(heap_hollow, .about = "segments without blocks lose their slots and get them back", .setup = heaps_reset,
               .threads = {slot_use, hollow_out, slot_use}, .check = hollow_check, .must_see = 3);

/* Two want a segment, and one is hollow. */
static void hollow_setup(void) {
    heaps_reset();
    struct slots got = depot_take(1);
    depot_put(got.segment, got.bits);
    EXPECT(depot_hollow() != 0);
}
static void take_all_slots(void) { EXPECT(depot_take_run(SEGMENT_SLOTS - HEAD_SLOTS, 1).segment != NULL); }
static void filled_check(void) {
    EXPECT(load_rlx(&depot.hollows) == 0 && load_rlx(&depot.segments) == 2);
    for (const struct heap_segment *segment = depot_all(); segment != NULL; segment = load_rlx(&segment->older))
        EXPECT(!load_rlx(&segment->hollow) && (load_rlx(&segment->free) & ~LISTED) == 0);
}
EXPLORE_DRIVER(heap_hollow_filled, .about = "a hollow segment is filled by one of two", .setup = hollow_setup,
               .threads = {take_all_slots, take_all_slots}, .check = filled_check);

/* A hollow segment is filled by whom no other memory is given, at once or after another has found no room there. */
static struct heap_segment *hollowed;
static bool was_refused; /* the test's own */
static void hollow_later_setup(void) {
    heaps_reset();
    was_refused = false;
    struct slots got = depot_take(1);
    hollowed = got.segment;
    depot_put(got.segment, got.bits);
}
static void hollow_it(void) { EXPECT(depot_hollow() != 0); }
static void fill_it(void) {
    struct slots got;
    explore_memory(false, true);
    while ((got = depot_take(1)).segment == NULL) os_pause();
    EXPECT(got.segment == hollowed);
}
static void fill_hollow(void) {
    while (!load_rlx(&hollowed->hollow)) os_pause();
    fill_it();
}
static void find_no_room(void) {
    while (!load_rlx(&hollowed->hollow)) os_pause();
    explore_memory(false, false);
    EXPECT(depot_take(1).segment == NULL);
    was_refused = true;
}
static void fill_refused(void) {
    while (!was_refused) os_pause();
    fill_it();
}
static void hollow_later_check(void) { EXPECT(load_rlx(&depot.hollows) == 0 && load_rlx(&depot.segments) == 1); }
EXPLORE_DRIVER(heap_hollow_seen, .about = "a hollow segment is filled as soon as it is seen", .setup = hollow_later_setup,
               .threads = {hollow_it, fill_hollow}, .check = hollow_later_check);
EXPLORE_DRIVER(heap_hollow_refused, .about = "the same after another has found no room for it", .setup = hollow_later_setup,
               .threads = {hollow_it, find_no_room, fill_refused}, .check = hollow_later_check);

/* ---- kept mappings ------------------------------------------------------------------------------------------------ */

/* Two places; a turn of decay sees what is kept while it is taken, in part, and put back. */
enum { PIECES = 3 };

static uint32_t *word_in(char *start, size_t piece) { return (uint32_t *)(void *)(start + piece * SEGMENT_BYTES); }

static void range_use(char *start, size_t bytes) {
    for (size_t i = 0; i < bytes / SEGMENT_BYTES; i++) {
        plain_write(word_in(start, i), sizeof(uint32_t));
        EXPECT(*word_in(start, i) == 0);
        *word_in(start, i) = 1 + explore_self();
    }
    explore_step();
    for (size_t i = 0; i < bytes / SEGMENT_BYTES; i++) {
        EXPECT(*word_in(start, i) == 1 + explore_self());
        *word_in(start, i) = 0;
    }
}
static void range_put(char *start, size_t bytes) {
    if (!kept_put(start, bytes, (size_t)(1 + explore_pick(PIECES)) * SEGMENT_BYTES)) os_unmap(start, bytes);
}
static void range_take(void) {
    size_t bytes = (size_t)(1 + explore_pick(2)) * SEGMENT_BYTES;
    char *start = kept_take(bytes);
    if (start != NULL) explore_observe(0);
    if (start == NULL) start = kept_gather(bytes);
    if (start == NULL) start = os_map_aligned(bytes, SEGMENT_BYTES);
    range_use(start, bytes);
    if (explore_pick(2) == 0 && kept_take_at(start + bytes, SEGMENT_BYTES)) {
        explore_observe(1);
        range_use(start + bytes, SEGMENT_BYTES);
        bytes += SEGMENT_BYTES;
    }
    range_put(start, bytes);
}
static void take_twice(void) {
    range_take();
    range_take();
}
static void kept_setup(void) {
    EXPECT(
        kept_put(os_map_aligned((size_t)PIECES * SEGMENT_BYTES, SEGMENT_BYTES), (size_t)PIECES * SEGMENT_BYTES, SIZE_MAX));
}
static void kept_turns(void) {
    for (int i = 0; i < 3; i++)
        if (kept_purge(false) != 0) explore_observe(2);
}
static void kept_gives(void) {
    for (int i = 0; i < 2; i++)
        if (kept_give(SEGMENT_BYTES) != 0) explore_observe(2);
}
/* What is counted is what is there: when nothing is, as much as may be kept goes in. */
static void kept_check(void) {
    size_t kept = kept_bytes();
    EXPECT(kept <= (size_t)2 * PIECES * SEGMENT_BYTES);
    EXPECT(kept_purge(true) == kept && kept_bytes() == 0);
    EXPECT(kept_put(os_map_aligned(SEGMENT_BYTES, SEGMENT_BYTES), SEGMENT_BYTES, SEGMENT_BYTES));
    EXPECT(kept_purge(true) == SEGMENT_BYTES);
}
EXPLORE_DRIVER(heap_kept, .about = "ranges are kept, split, joined and seen by decay", .setup = kept_setup,
               .threads = {take_twice, kept_turns, take_twice}, .check = kept_check, .must_see = 7);
EXPLORE_DRIVER(heap_kept_gives, .about = "ranges are given back in part meanwhile", .setup = kept_setup,
               .threads = {take_twice, kept_gives, range_take}, .check = kept_check, .must_see = 7);

/* Pieces of a range that come back one by one are one range again. */
static void pieces_join(void) {
    char *first = kept_take(SEGMENT_BYTES), *rest = kept_take((size_t)2 * SEGMENT_BYTES);
    EXPECT(first != NULL && rest == first + SEGMENT_BYTES && kept_bytes() == 0);
    char *order[] = {first, first + SEGMENT_BYTES, first + (size_t)2 * SEGMENT_BYTES};
    uint32_t which = explore_pick(3);
    range_use(first, SEGMENT_BYTES);
    for (uint32_t i = 0; i < PIECES; i++) EXPECT(kept_put(order[(which + 2 * i) % PIECES], SEGMENT_BYTES, SIZE_MAX));
    EXPECT(kept_take((size_t)PIECES * SEGMENT_BYTES) == first && kept_bytes() == 0);
    os_unmap(first, (size_t)PIECES * SEGMENT_BYTES);
}
EXPLORE_DRIVER(heap_kept_join, .about = "neighbours become one range", .setup = kept_setup, .threads = {pieces_join});
