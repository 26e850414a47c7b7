/* model.c: C11's memory model, operationally, without out-of-thin-air values.
 *
 * A location keeps the last stores of its modification order, each with a time. A thread's view says for each location the
 * oldest store it may still read, so a load may be served late by any store not older. A store may also come before stores
 * in the modification order that ran earlier, as long as its thread has not seen them. A release store carries its thread's
 * view and vector clock, a relaxed one those of the last release fence, and a read-modify-write passes on what it read from.
 * The order of sequentially consistent operations is that in which they run: fences join one common view in both directions,
 * loads and stores only their own location's entry in it, as C11 has it (a sequentially consistent store is no fence).
 *
 * With --locked read-modify-writes are full fences and fence_rmw_sc is none: x86, where that one is compiled to nothing. A site
 * that relies on more than the read-modify-write before it, such as a store between the two, fails then.
 *
 * A light fence is one for the compiler. Where a mutant has none, the compiler may put a load that follows before the store that
 * precedes: the load then knows nothing of a heavy fence that has reached its thread between the two (`hoists`).
 *
 * What cannot happen here although C11 allows it is a load that reads a store that runs later; with --buffering
 * foretell.c sees to that. */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOSS_CHANCE = 64, TIME_STEP = 256, SLOTS = 65536, ARENA_BYTES = 256 * 1024 * 1024, SPLIT_STEPS = 600 };

_Static_assert(SLOTS >= 2 * LOCATIONS_MAX, "the search for an address ends at a free slot");

static struct {
    struct location *locations;
    uint32_t count;
    struct {
        uintptr_t address;
        uint32_t generation, index;
    } * slots;
    uint32_t generation;
    char *arena; /* messages */
    size_t used;
} M;

void model_init(void) {
    M.locations = malloc(LOCATIONS_MAX * sizeof *M.locations);
    M.slots = calloc(SLOTS, sizeof *M.slots);
    M.arena = malloc(ARENA_BYTES);
    if (M.locations == NULL || M.slots == NULL || M.arena == NULL) {
        fputs("explore: out of memory\n", stderr);
        exit(2);
    }
}

void model_begin(void) {
    M.count = 0;
    M.used = 0;
    M.generation++;
    R.sc->n = 0;
}

/* ---- views -------------------------------------------------------------------------------------------------------- */

static void view_raise(struct view *v, uint32_t i, int32_t time) {
    while (v->n <= i) v->time[v->n++] = 0;
    if (v->time[i] < time) v->time[i] = time;
}

void view_join(struct view *into, const struct view *from, bool clocks) {
    uint32_t common = from->n < into->n ? from->n : into->n;
    for (uint32_t i = 0; i < common; i++) into->time[i] = into->time[i] < from->time[i] ? from->time[i] : into->time[i];
    for (uint32_t i = common; i < from->n; i++) into->time[i] = from->time[i];
    if (into->n < from->n) into->n = from->n;
    if (!clocks) return;
    for (uint32_t i = 0; i < THREADS_MAX; i++)
        into->clock[i] = into->clock[i] < from->clock[i] ? from->clock[i] : into->clock[i];
}

const struct view *view_copy(const struct view *from) {
    size_t bytes = round_up(sizeof *from + from->n * sizeof from->time[0], 16);
    if (M.used + bytes > ARENA_BYTES) explore_fail(LIMIT "too many messages: shorten the driver");
    void *copy = M.arena + M.used;
    M.used += bytes;
    memcpy(copy, from, sizeof *from + from->n * sizeof from->time[0]);
    ((struct view *)copy)->born = foretell_loads();
    return copy;
}

const struct view *model_release(struct thread *self) {
    foretell_close(self);
    const struct view *copy = view_copy(self->now);
    self->now->clock[self->id]++;
    return copy;
}

static const struct view *join_messages(const struct view *a, const struct view *b) {
    if (a == NULL) return b;
    if (b == NULL) return a;
    struct view *joined = (struct view *)(uintptr_t)view_copy(a->n > b->n ? a : b);
    view_join(joined, a->n > b->n ? b : a, true);
    return joined;
}

/* ---- locations ---------------------------------------------------------------------------------------------------- */

struct location *model_location(uint32_t index) {
    return &M.locations[index];
}

static uint64_t raw_read(uintptr_t address, uint32_t size) {
    switch (size) {
    case 1: return *(const uint8_t *)address;
    case 2: return *(const uint16_t *)address;
    case 4: return *(const uint32_t *)address;
    case 8: return *(const uint64_t *)address;
    default: explore_fail("an atomic of %u bytes", size);
    }
}

static void raw_write(uintptr_t address, uint32_t size, uint64_t value) {
    switch (size) {
    case 1: *(uint8_t *)address = (uint8_t)value; break;
    case 2: *(uint16_t *)address = (uint16_t)value; break;
    case 4: *(uint32_t *)address = (uint32_t)value; break;
    default: *(uint64_t *)address = value; break;
    }
}

INLINE struct write *newest_of(struct location *l) { return &l->writes[l->count - 1]; }

static uint32_t location_new(uintptr_t address, uint32_t size) {
    if (M.count == LOCATIONS_MAX) explore_fail(LIMIT "more than %d atomic locations", LOCATIONS_MAX);
    struct line *line = race_line(address);
    uint64_t value = raw_read(address, size);
    uint32_t index = M.count++;
    struct location *l = &M.locations[index];
    l->address = address;
    l->size = size;
    l->line = line;
    l->next_in_line = line->first_location;
    line->first_location = index;
    l->count = 1;
    l->writes[0] = (struct write){.value = value, .message = NULL, .time = TIME_STEP, .thread = 0, .change = false};
    memset(l->touched, 0, sizeof l->touched);
    memset(l->written, 0, sizeof l->written);
    return index;
}

void model_forget(struct location *l) { l->address = 0; }

/* The index of the location at `address`, made of what memory holds when there is none, or when memory was written plainly
 * since (an object that was initialised again). */
static uint32_t locate(const void *pointer, size_t size) {
    uintptr_t address = (uintptr_t)pointer;
    uint32_t h = (uint32_t)((address * UINT64_C(0x9e3779b97f4a7c15)) >> 48) % SLOTS;
    while (M.slots[h].generation == M.generation && M.slots[h].address != address) h = (h + 1) % SLOTS;
    if (M.slots[h].generation == M.generation) {
        uint32_t index = M.slots[h].index;
        struct location *l = &M.locations[index];
        if (l->address == address) {
            if (l->size != size) explore_fail("accesses of %u and %zu bytes at one address", l->size, size);
            if (raw_read(address, l->size) == newest_of(l)->value) return index;
            model_forget(l);
        }
    }
    M.slots[h].address = address;
    M.slots[h].generation = M.generation;
    return M.slots[h].index = location_new(address, (uint32_t)size);
}

/* ---- reading and writing ------------------------------------------------------------------------------------------ */

static void acquire(struct thread *self, const struct view *message, enum explore_order order) {
    if (message == NULL) return;
    if (order & EXPLORE_ACQ)
        view_join(self->now, message, true);
    else
        view_join(self->pending, message, true);
}

/* Which store a load reads: mostly the newest, at times any other that the view still allows. `not_value`: not one that
 * holds this (a failed compare and swap); the newest must then hold something else, or NULL is returned. */
static struct write *choose_write(struct thread *self, uint32_t index, bool sc, const uint64_t *not_value) {
    struct location *l = &M.locations[index];
    int32_t oldest = view_at(self->hoists && self->unfenced != NULL ? self->unfenced : self->now, index);
    if (sc && view_at(R.sc, index) > oldest) oldest = view_at(R.sc, index);
    uint32_t n = 1;
    while (n < l->count && l->writes[l->count - 1 - n].time >= oldest) n++;
    bool newest_fits = not_value == NULL || newest_of(l)->value != *not_value;
    if (n > 1 && self->stale[index] < STALE_READS_MAX && choose_rarely(R.stale_chance)) {
        uint32_t back = 1 + choose(n - 1);
        struct write *w = &l->writes[l->count - 1 - back];
        if (not_value == NULL || w->value != *not_value) {
            self->stale[index]++;
            return w;
        }
    }
    self->stale[index] = 0;
    return newest_fits ? newest_of(l) : NULL;
}

static void read_write(struct thread *self, uint32_t index, const struct write *w, enum explore_order order) {
    struct location *l = &M.locations[index];
    foretell_touch(self, index, w->time);
    view_raise(self->now, index, w->time);
    acquire(self, w->message, order);
    if (order == EXPLORE_SC) view_raise(R.sc, index, w->time);
    l->touched[self->id] = self->now->clock[self->id];
}

void model_raise(struct thread *self, uint32_t index, const struct write *w, enum explore_order order) {
    view_raise(self->now, index, w->time);
    acquire(self, w->message, order);
}

static struct write *append(struct location *l) {
    if (l->count == HISTORY_MAX) {
        memmove(l->writes, l->writes + HISTORY_DROP, (HISTORY_MAX - HISTORY_DROP) * sizeof l->writes[0]);
        l->count -= HISTORY_DROP;
    }
    struct write *w = &l->writes[l->count++];
    w->time = l->writes[l->count - 2].time + TIME_STEP;
    return w;
}

/* One of the places right behind a store not older than `oldest` and before another, where a store may come: not between a
 * read-modify-write and what it read. Where the other stands, or 0: there is none. */
static uint32_t choose_gap(const struct location *l, int32_t oldest) {
    uint32_t gaps[HISTORY_MAX], n = 0;
    for (uint32_t at = l->count - 1; at > 0 && l->writes[at - 1].time >= oldest; at--)
        if (!l->writes[at].change && l->writes[at].time - l->writes[at - 1].time >= 2) gaps[n++] = at;
    return n == 0 || l->count == HISTORY_MAX ? 0 : gaps[choose(n)];
}

/* A place for a store before stores that ran earlier; NULL: there is none. */
static struct write *insert(struct location *l, int32_t oldest) {
    uint32_t at = choose_gap(l, oldest);
    if (at == 0) return NULL;
    int32_t before = l->writes[at - 1].time, after = l->writes[at].time;
    memmove(l->writes + at + 1, l->writes + at, (l->count - at) * sizeof l->writes[0]);
    l->count++;
    l->writes[at].time = before + (after - before) / 2;
    return &l->writes[at];
}

static void put(struct thread *self, uint32_t index, struct write *w, uint64_t value, enum explore_order order) {
    struct location *l = &M.locations[index];
    w->value = value;
    w->thread = (uint8_t)self->id;
    foretell_touch(self, index, w->time);
    l->touched[self->id] = l->written[self->id] = self->now->clock[self->id];
    view_raise(self->now, index, w->time);
    if (order == EXPLORE_SC) view_raise(R.sc, index, w->time);
    w->message = (order & EXPLORE_REL) ? model_release(self) : self->released;
    raw_write(l->address, l->size, newest_of(l)->value);
}

/* The part of a heavy fence that happens to another thread, wherever it stands: it orders what that thread stores and loads,
 * but nothing that only a fence written in its code could order is taken as synchronised. */
static void fence_other(struct thread *other) {
    if (R.drops_light && other->unfenced == NULL) other->unfenced = view_copy(other->now);
    foretell_close(other);
    view_join(other->now, other->pending, false);
    view_join(other->now, R.sc, false);
    view_join(R.sc, other->now, false);
}

/* What a read-modify-write of x86 is besides, where that is asked for: a full fence, by which nothing is synchronised that the
 * sources do not say. */
static bool is_locked(void) { return R.locked || (R.driver->flags & EXPLORE_LOCKED) != 0; }
static void locked_fence(struct thread *self) {
    if (is_locked()) fence_other(self);
}

/* ---- the operations ----------------------------------------------------------------------------------------------- */

static void begin_step(explore_site *site) {
    site->hits++;
    step_point();
}
static void begin_store(explore_site *site) {
    R.current->unfenced = NULL;
    R.current->hoists = false;
    begin_step(site);
}

/* `before`: of a change, what it read; else NULL. */
static void note(const char *what, const explore_site *site, uint32_t index, const struct write *w, const uint64_t *before) {
    struct location *l = &M.locations[index];
    run_mix((uint64_t)site->line << 32 | (uint64_t)index << 8 | R.current->id);
    run_mix((uint64_t)(uint32_t)w->time);
    trace_place(w->time, newest_of(l)->time);
    trace_step(what, site, l->address, before == NULL ? w->value : *before, before == NULL ? 0 : w->value);
}

void *explore_load(explore_site *site, const void *address, size_t size, void *result) {
    begin_step(site);
    struct thread *self = R.current;
    uint32_t index = locate(address, size);
    race_atomic(&M.locations[index], false);
    const struct write *w = choose_write(self, index, site->order == EXPLORE_SC, NULL);
    note("load", site, index, w, NULL);
    uint64_t value = w->value;
    read_write(self, index, w, site->order);
    value = foretell_load(self, index, site->order, value);
    memcpy(result, &value, size);
    return result;
}

void explore_store(explore_site *site, void *address, size_t size, const void *value) {
    begin_store(site);
    struct thread *self = R.current;
    uint64_t bits = 0;
    memcpy(&bits, value, size);
    uint32_t index = locate(address, size);
    struct location *l = &M.locations[index];
    race_atomic(l, true);
    int32_t oldest = view_at(self->now, index);
    if (site->order == EXPLORE_SC && view_at(R.sc, index) > oldest) oldest = view_at(R.sc, index);
    struct write *w = newest_of(l)->time > oldest && choose_rarely(R.insert_chance) ? insert(l, oldest) : NULL;
    if (w == NULL) w = append(l);
    w->change = false;
    put(self, index, w, bits, site->order);
    note("store", site, index, w, NULL);
    foretell_store(index, w, w == newest_of(l));
}

/* The index of the store that a read-modify-write reads: the newest, or at times an older one that is followed by a plain
 * store its thread has not seen; it then comes between the two. */
static uint32_t choose_change(const struct thread *self, uint32_t index, bool sc) {
    const struct location *l = &M.locations[index];
    int32_t oldest = view_at(self->now, index);
    if (sc && view_at(R.sc, index) > oldest) oldest = view_at(R.sc, index);
    uint32_t newest = l->count - 1;
    if (newest == 0 || l->writes[newest].time <= oldest || !choose_rarely(R.insert_chance)) return newest;
    uint32_t behind = choose_gap(l, oldest);
    return behind == 0 ? newest : behind - 1;
}

/* Makes room for the store of a read-modify-write behind the one it read. */
static struct write *append_change(struct location *l, uint32_t at) {
    if (at == l->count - 1) return append(l);
    memmove(l->writes + at + 2, l->writes + at + 1, (l->count - at - 1) * sizeof l->writes[0]);
    l->count++;
    l->writes[at + 1].time = l->writes[at].time + (l->writes[at + 2].time - l->writes[at].time) / 2;
    return &l->writes[at + 1];
}

/* A read-modify-write that reads the store `at` and leaves `value`. */
static void change(struct thread *self, explore_site *site, uint32_t index, uint32_t at, uint64_t value) {
    struct location *l = &M.locations[index];
    uint64_t before = l->writes[at].value;
    const struct view *inherited = l->writes[at].message;
    read_write(self, index, &l->writes[at], site->order);
    if (site->split) {
        /* A load and a store: others may come between, often for long. The store is like any other. */
        step_stand(R.mode == MODE_DFS || choose(2) == 0 ? 0 : choose(SPLIT_STEPS));
        struct write *w = append(l);
        w->change = false;
        put(self, index, w, value, site->order);
        note("split", site, index, w, &before);
        foretell_store(index, w, true);
        return;
    }
    struct write *w = append_change(l, at);
    w->change = true;
    put(self, index, w, value, site->order);
    w->message = join_messages(w->message, inherited);
    locked_fence(self);
    note("change", site, index, w, &before);
    foretell_store(index, w, w == newest_of(l));
}

bool explore_cas(explore_site *site, void *address, size_t size, void *expected, const void *value) {
    begin_store(site);
    struct thread *self = R.current;
    uint64_t wanted = 0, bits = 0;
    memcpy(&wanted, expected, size);
    memcpy(&bits, value, size);
    uint32_t index = locate(address, size);
    struct location *l = &M.locations[index];
    race_atomic(l, true);
    locked_fence(self);
    uint32_t at = choose_change(self, index, site->order == EXPLORE_SC);
    if (l->writes[at].value != wanted) at = l->count - 1;
    const struct write *w = at < l->count - 1 ? NULL : choose_write(self, index, false, &wanted);
    if (w == NULL) {
        change(self, site, index, at, bits);
        return true;
    }
    note("failed cas", site, index, w, NULL);
    memcpy(expected, &w->value, size);
    read_write(self, index, w, EXPLORE_RLX);
    locked_fence(self);
    return false;
}

static uint64_t apply(enum explore_op op, uint64_t before, uint64_t operand) {
    switch (op) {
    case EXPLORE_ADD: return before + operand;
    case EXPLORE_OR: return before | operand;
    case EXPLORE_AND: return before & operand;
    default: return operand;
    }
}

void *explore_change(explore_site *site, void *address, size_t size, const void *operand, void *before) {
    begin_store(site);
    uint64_t bits = 0;
    memcpy(&bits, operand, size);
    uint32_t index = locate(address, size);
    struct location *l = &M.locations[index];
    race_atomic(l, true);
    locked_fence(R.current);
    uint32_t at = choose_change(R.current, index, site->order == EXPLORE_SC);
    uint64_t found = l->writes[at].value;
    memcpy(before, &found, size);
    uint64_t mask = size == 8 ? UINT64_MAX : (UINT64_C(1) << (8 * size)) - 1;
    change(R.current, site, index, at, apply(site->op, found, bits) & mask);
    return before;
}

uint64_t model_newest(const void *address, size_t size) {
    struct thread *self = R.current;
    foretell_close(self);
    uint32_t index = locate(address, size);
    struct location *l = &M.locations[index];
    race_atomic(l, false);
    self->stale[index] = 0;
    read_write(self, index, newest_of(l), EXPLORE_RLX);
    return newest_of(l)->value;
}

void model_zero(uint32_t index) {
    struct location *l = &M.locations[index];
    race_atomic(l, true);
    struct write *w = append(l);
    w->change = false;
    put(R.current, index, w, 0, EXPLORE_RLX);
}

/* ---- fences ------------------------------------------------------------------------------------------------------- */

void model_sc_fence(struct thread *self) {
    view_join(self->now, self->pending, true);
    view_join(self->now, R.sc, false);
    view_join(R.sc, self->now, false);
    self->released = model_release(self);
}

static void heavy_fence(void) {
    struct thread *self = R.current;
    model_sc_fence(self);
    uint32_t start = choose(R.mode == MODE_DFS ? 1 : R.thread_count);
    uint32_t count = R.thread_count;
    for (uint32_t i = 0; i < count; i++) {
        struct thread *other = &R.threads[(start + i) % count];
        if (other == self) continue;
        if (other->state != THREAD_DONE) step_point();
        trace_step("fenced by another", NULL, 0, other->id, 0);
        fence_other(other);
    }
    step_point();
    model_sc_fence(self);
}

void explore_fence(explore_site *site) {
    begin_step(site);
    struct thread *self = R.current;
    run_mix((uint64_t)site->line << 32 | UINT64_C(0xfe) << 24 | self->id);
    trace_step("fence", site, 0, site->dropped, 0);
    if (site->dropped) {
        self->hoists = site->op == EXPLORE_LIGHT && R.asymmetric;
        return;
    }
    self->hoists = false;
    enum explore_order order = site->order;
    if (site->op == EXPLORE_FENCE_RMW && is_locked()) order = EXPLORE_ACQ_REL; /* the machine keeps these in order anyway */
    if (site->op == EXPLORE_SETTLE) {
        heavy_fence();
    } else if (site->op == EXPLORE_HEAVY && R.asymmetric) {
        if ((R.loses_barrier || (R.driver->flags & EXPLORE_LOSES_BARRIER) != 0) && choose_rarely(LOSS_CHANCE))
            R.asymmetric = false; /* fence.c: and the wait does as the barrier */
        heavy_fence();
    } else if (site->op == EXPLORE_LIGHT && R.asymmetric) {
        /* A compiler barrier: orders nothing by itself. */
    } else if (order == EXPLORE_SC) {
        model_sc_fence(self);
    } else {
        foretell_close(self);
        if (order & EXPLORE_ACQ) view_join(self->now, self->pending, true);
        if (order & EXPLORE_REL) self->released = model_release(self);
    }
}

bool explore_recheck(explore_site *site) {
    site->hits++;
    return !site->dropped;
}
