/* samples.c: see samples.h. Layer 3.
 *
 * There are three locks. `beginning` is held while sampling starts. `making` is for the private heap from which the blocks
 * of samples come; what that heap does may end other samples, so `making` is taken before `lock`. `lock` is for the tables:
 * stacks by their frames, live samples by their address, modules.
 *
 * Stacks and modules are written, then published by the head of their list, and never changed, except for the totals. A
 * thread that writes a profile takes no lock, since it may have interrupted the thread that holds it. Memory for them comes
 * from the system in chunks and stays.
 *
 * Fork. The thread that forks takes none of the locks. If a child finds one of them held, another thread was changing the
 * tables: they are torn, and the child has no profile from then on. Otherwise they are whole.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   X1  stack_add: store stacks     release  X2  a stack is read before its frames are written
 *   X2  samples_stacks: load        acquire  X1  see X1
 *   X3  module_add: store modules   release  X4  a module is read before its path is written
 *   X4  samples_modules: load       acquire  X3  see X3
 */
#include <string.h>

#include "profile/samples.h"

#include "profile/profile.h"
#include "weft.h"

#define CHUNK_BYTES ((size_t)1 << 18)
#define STACK_LISTS 4096u
#define STACKS_MAX 65536u /* beyond that, only the innermost frame of new stacks is kept */
#define LIVE_MIN 1024u

struct live {
    uintptr_t block; /* 0: none */
    struct stack *stack;
    size_t size;
    double weight; /* how many allocations it stands for */
};

struct live_table {
    struct live *entries;
    size_t room, count; /* room: a power of two */
};

static PROCESS_STATE struct {
    os_mutex beginning, making, lock;
    ATOMIC(bool) is_torn; /* by a fork: nothing here may be used any more */
    weft_arena *arena;
    ATOMIC(struct stack *) stacks;
    ATOMIC(struct module *) modules;
    ATOMIC(uint64_t) lost;
    struct stack **lists; /* STACK_LISTS */
    size_t stack_count;
    struct live_table live;
    char *chunk, *chunk_end;
    bool is_made;
    bool is_watching; /* forks */
    bool in_library;  /* weft is in a library, whose code is above the program's in each stack */
    uintptr_t own_start, own_end;
} all;

/* If fork took these locks, it could deadlock: it takes the C library's locks as well, and a thread that holds one of those may
 * free a block here. */
static void child_begins(void) {
    os_mutex *const locks[] = {&all.beginning, &all.making, &all.lock};
    for (int i = 0; i < 3; i++) {
        if (load_rlx(&locks[i]->word) != 0) store_rlx(&all.is_torn, true);
        *locks[i] = (os_mutex){0};
    }
    if (load_rlx(&all.is_torn)) (void)samples_stop();
}

/* ---- memory, the lock held ---------------------------------------------------------------------------------------- */

static void *chunk_take(size_t bytes) {
    bytes = round_up(bytes, 16);
    ASSERT(bytes <= CHUNK_BYTES);
    if (bytes > (size_t)(all.chunk_end - all.chunk)) {
        char *chunk = os_map(CHUNK_BYTES);
        if (chunk == NULL) return NULL;
        all.chunk = chunk;
        all.chunk_end = chunk + CHUNK_BYTES;
    }
    void *memory = all.chunk;
    all.chunk += bytes;
    return memory;
}

static void *memory_take(size_t bytes) {
    if (UNLIKELY(load_rlx(&all.is_torn))) return NULL;
    os_lock(&all.lock);
    void *memory = chunk_take(bytes);
    os_unlock(&all.lock);
    return memory;
}

/* ---- modules, the lock held --------------------------------------------------------------------------------------- */

const struct module *samples_modules(void) {
    const struct module *newest = load_acq(X4, &all.modules);
    return newest;
}

static bool is_known(uintptr_t address) {
    for (const struct module *module = load_rlx(&all.modules); module != NULL; module = module->older)
        if (address >= module->os.start && address < module->os.end) return true;
    return false;
}

/* Records the module now: it may be unloaded before a profile is written. */
static void module_add(uintptr_t address) {
    struct os_module found;
    if (is_known(address) || !os_module_loaded(address, &found)) return;
    size_t bytes = offsetof(struct module, os.path) + strlen(found.path) + 1;
    struct module *module = chunk_take(bytes);
    if (module == NULL) return;
    memcpy(&module->os, &found, bytes - offsetof(struct module, os));
    module->older = load_rlx(&all.modules);
    store_rel(X3, &all.modules, module);
}

/* ---- stacks, the lock held ---------------------------------------------------------------------------------------- */

const struct stack *samples_stacks(void) {
    const struct stack *newest = load_acq(X2, &all.stacks);
    return newest;
}

static uint64_t hash_of(const uintptr_t *frames, size_t count) {
    uint64_t hash = count;
    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ frames[i]) * UINT64_C(0x9fb21c651e98df25);
        hash ^= hash >> 32;
    }
    return hash;
}

static struct stack *stack_add(const uintptr_t *frames, size_t count, uint64_t hash) {
    struct stack **list = &all.lists[hash % STACK_LISTS];
    struct stack *stack = chunk_take(sizeof *stack + count * sizeof *frames);
    if (stack == NULL) return NULL;
    stack->chained = *list;
    stack->hash = hash;
    stack->count = count;
    memcpy(stack->frames, frames, count * sizeof *frames);
    for (size_t i = 0; i < count; i++) module_add(frames[i] - 1);
    *list = stack;
    all.stack_count++;
    stack->older = load_rlx(&all.stacks);
    store_rel(X1, &all.stacks, stack);
    return stack;
}

static struct stack *stack_known(const uintptr_t *frames, size_t count, uint64_t hash) {
    struct stack *stack = all.lists[hash % STACK_LISTS];
    while (stack != NULL &&
           (stack->hash != hash || stack->count != count || memcmp(stack->frames, frames, count * sizeof *frames) != 0))
        stack = stack->chained;
    return stack;
}

static struct stack *stack_find(const uintptr_t *frames, size_t count) {
    uint64_t hash = hash_of(frames, count);
    struct stack *stack = stack_known(frames, count, hash);
    if (stack != NULL) return stack;
    if (all.stack_count < STACKS_MAX) return stack_add(frames, count, hash);
    hash = hash_of(frames, 1);
    stack = stack_known(frames, 1, hash);
    return stack != NULL ? stack : stack_add(frames, 1, hash);
}

/* ---- live samples, the lock held ---------------------------------------------------------------------------------- */

static size_t place_of(const struct live_table *table, uintptr_t block) {
    return (size_t)((uint64_t)(block >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (table->room - 1);
}

/* The block's entry, or the free one where it may be put. */
static struct live *live_find(const struct live_table *table, uintptr_t block) {
    size_t i = place_of(table, block);
    while (table->entries[i].block != 0 && table->entries[i].block != block) i = (i + 1) & (table->room - 1);
    return &table->entries[i];
}

static bool table_make(struct live_table *table, size_t room) {
    *table = (struct live_table){os_map(room * sizeof *table->entries), room, 0};
    return table->entries != NULL;
}

/* Makes room for one more. false: no memory, and the table is as full as it may be. */
static bool table_grow(void) {
    struct live_table larger, *table = &all.live;
    if (table->count + 1 <= table->room / 2) return true;
    if (!table_make(&larger, table->room * 2)) return table->count + 1 <= table->room / 8 * 7;
    for (size_t i = 0; i < table->room; i++)
        if (table->entries[i].block != 0) *live_find(&larger, table->entries[i].block) = table->entries[i];
    larger.count = table->count;
    os_unmap(table->entries, table->room * sizeof *table->entries);
    *table = larger;
    return true;
}

/* Frees the entry. Entries behind it that would not be found any more move up. */
static void live_remove(struct live *entry) {
    struct live_table *table = &all.live;
    size_t mask = table->room - 1, hole = (size_t)(entry - table->entries);
    for (size_t i = (hole + 1) & mask; table->entries[i].block != 0; i = (i + 1) & mask) {
        size_t home = place_of(table, table->entries[i].block);
        if (((i - home) & mask) < ((i - hole) & mask)) continue;
        table->entries[hole] = table->entries[i];
        hole = i;
    }
    table->entries[hole].block = 0;
    table->count--;
}

/* ---- totals, the lock held ---------------------------------------------------------------------------------------- */

static uint64_t parts_of(const struct live *live) { return (uint64_t)(live->weight * OBJECT_PARTS + 0.5); }
static uint64_t bytes_of(const struct live *live) { return (uint64_t)((double)live->size * live->weight + 0.5); }

static void total_add(struct stack *stack, enum total total, uint64_t n) {
    store_rlx(&stack->total[total], load_rlx(&stack->total[total]) + n);
}

static void live_drop(struct live *live) {
    total_add(live->stack, LIVE_PARTS, -parts_of(live));
    total_add(live->stack, LIVE_BYTES, -bytes_of(live));
    live_remove(live);
}

static bool sample_add(struct live live, const uintptr_t *frames, size_t count) {
    live.stack = stack_find(frames, count);
    if (live.stack == NULL || !table_grow()) return false;
    struct live *entry = live_find(&all.live, live.block);
    if (entry->block != 0) { /* a run that became a mapping for want of memory has begun here already */
        live_drop(entry);
        entry = live_find(&all.live, live.block);
    }
    *entry = live;
    all.live.count++;
    total_add(live.stack, ALLOCATED_PARTS, parts_of(&live));
    total_add(live.stack, ALLOCATED_BYTES, bytes_of(&live));
    total_add(live.stack, LIVE_PARTS, parts_of(&live));
    total_add(live.stack, LIVE_BYTES, bytes_of(&live));
    return true;
}

/* ---- what the heap tells ------------------------------------------------------------------------------------------ */

/* Leaves out the heap's own calls. They end with the frame that returns to `from`; if weft is in a library, with the
 * library's last. */
static int frames_take(uintptr_t *frames, const void *from) {
    int count = os_frames(frames, OS_FRAMES_MAX), first = 0;
    while (first < count && frames[first] != (uintptr_t)from) first++;
    if (first == count) {
        frames[0] = (uintptr_t)from;
        return 1;
    }
    while (all.in_library && first + 1 < count && frames[first] >= all.own_start && frames[first] < all.own_end) first++;
    memmove(frames, frames + first, (size_t)(count - first) * sizeof *frames);
    return count - first;
}

static void sample_begin(void *p, size_t size, double chance, const void *from) {
    if (UNLIKELY(load_rlx(&all.is_torn))) return;
    uintptr_t frames[OS_FRAMES_MAX];
    int count = frames_take(frames, from);
    struct live live = {.block = (uintptr_t)p, .size = size, .weight = 1 / chance};
    os_lock(&all.lock);
    bool is_added = sample_add(live, frames, (size_t)count);
    os_unlock(&all.lock);
    if (!is_added) add_rlx(&all.lost, 1);
}

static void sample_end(const void *p) {
    if (UNLIKELY(load_rlx(&all.is_torn))) return;
    os_lock(&all.lock);
    struct live *live = live_find(&all.live, (uintptr_t)p);
    if (live->block != 0) live_drop(live);
    os_unlock(&all.lock);
}

static void sample_resize(const void *p, size_t size) {
    if (UNLIKELY(load_rlx(&all.is_torn))) return;
    os_lock(&all.lock);
    struct live *live = live_find(&all.live, (uintptr_t)p);
    if (live->block != 0) {
        uint64_t before = bytes_of(live);
        live->size = size;
        total_add(live->stack, LIVE_BYTES, bytes_of(live) - before);
    }
    os_unlock(&all.lock);
}

static void *block_take(size_t size) {
    if (UNLIKELY(load_rlx(&all.is_torn))) return NULL;
    os_lock(&all.making);
    void *p = weft_arena_alloc(all.arena, size);
    os_unlock(&all.making);
    return p;
}

/* In torn tables the block stays with the child for good. */
static void block_put(void *p) {
    if (UNLIKELY(load_rlx(&all.is_torn))) return;
    sample_end(p);
    os_lock(&all.making);
    (void)weft_arena_free(all.arena, p);
    os_unlock(&all.making);
}

static const struct sampler sampler = {block_take, block_put, sample_begin, sample_end, sample_resize, memory_take};

/* ---- the beginning ------------------------------------------------------------------------------------------------ */

uint64_t samples_lost(void) { return load_rlx(&all.lost); }

/* Finds the code that stacks leave out; there is none if weft is part of the program itself. */
static void own_code_find(void) {
    struct os_module own;
    if (!os_module_loaded((uintptr_t)samples_start, &own) || own.is_program) return;
    all.own_start = own.start;
    all.own_end = own.end;
    all.in_library = true;
}

/* All locks are held, because threads that sample take one first. What was made stays for the next try. */
static int all_make(void) {
    if (all.lists == NULL) all.lists = os_map(STACK_LISTS * sizeof *all.lists);
    if (all.live.entries == NULL) table_make(&all.live, LIVE_MIN);
    if (all.lists == NULL || all.live.entries == NULL) return WEFT_ENOMEM;
    if (!all.is_watching && os_fork_watch(NULL, NULL, child_begins) != 0) return WEFT_ENOMEM;
    all.is_watching = true;
    if (all.arena == NULL && weft_arena_create(&all.arena) != WEFT_OK) return WEFT_ENOMEM;
    sampling_arena_set(all.arena);
    own_code_find();
    return WEFT_OK;
}

int samples_start(uint64_t interval_bytes, uint64_t seed) {
    int error = WEFT_OK;
    os_init();               /* so that a child knows its threads' numbers */
    (void)os_frames_begin(); /* without it a stack has one frame */
    if (load_rlx(&all.is_torn)) return WEFT_EFORK;
    os_lock(&all.beginning);
    if (!all.is_made) {
        os_lock(&all.making);
        os_lock(&all.lock);
        error = all_make();
        os_unlock(&all.lock);
        os_unlock(&all.making);
    }
    all.is_made = error == WEFT_OK;
    if (error == WEFT_OK && !sampling_set(&sampler, interval_bytes, seed)) error = WEFT_EBUSY;
    os_unlock(&all.beginning);
    return error;
}

int samples_stop(void) {
    if (!sampling_is_set()) return WEFT_EINVAL;
    (void)sampling_set(&sampler, 0, 0);
    return WEFT_OK;
}
