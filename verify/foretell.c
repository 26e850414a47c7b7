/* foretell.c: load buffering: a load that reads a store which runs later.
 *
 * A load's value is needed when it runs, so such a schedule is run twice. The first time every load reads what has run, and
 * of the pairs of a load and a later store that it could have read one is chosen. The second time is the same schedule, but
 * that load returns what the store is going to write. Up to the store every step and every stored value must be as they
 * were: then the store does not depend on the load, the value does not come out of thin air, and the schedule goes on, with
 * a load that was performed late. Else it is void.
 *
 * A load may be put off until its thread reads or writes the same location, releases, fences, is fenced by another, or
 * asks the kernel. C11 lets relaxed loads, and a processor plain ones, go further: past a release that nobody acquires.
 * Where the store would synchronise with the load, what it tells must be older than the load; and what the thread reads and
 * writes after the load must come after that. The thread's view has it only once the store is there, so a schedule in which
 * it has read something older before is void, too. */
#include "engine.h"

enum { OPEN_MAX = 8, SINCE_MAX = 32 };

struct open_load {
    uint64_t number; /* of the schedule's loads */
    uint64_t value;  /* that it has read */
    uint32_t index;
    int32_t epoch;
    bool acquires;
};

static struct {
    enum foretell phase;
    uint64_t loads, stores; /* of the schedule so far */
    uint64_t values;        /* a hash of what was stored */
    struct open_load open[THREADS_MAX][OPEN_MAX];
    uint32_t count[THREADS_MAX]; /* the newest are kept */
    uint64_t pairs, random;
    struct {
        uint64_t load, store, value, values, hash;
    } pair;                 /* chosen */
    struct thread *told_to; /* after the load, until the store */
    struct open_load told;
    struct {
        uint32_t index;
        int32_t time;
    } since[SINCE_MAX];   /* what that thread has read and written since then */
    uint32_t since_count; /* more than SINCE_MAX: not all are kept */
    bool holds;           /* the store came, all was as it had been */
} F;

void foretell_begin(enum foretell phase) {
    F.phase = phase;
    F.loads = F.stores = F.values = 0;
    F.told_to = NULL;
    F.holds = false;
    for (uint32_t i = 0; i < THREADS_MAX; i++) F.count[i] = 0;
    if (phase == FORETELL_TELL) return;
    F.pairs = 0;
    F.random = R.seed;
}

bool foretell_has_pair(void) { return F.pairs > 0; }
bool foretell_holds(void) { return F.holds; }
uint64_t foretell_loads(void) { return F.loads; }

/* One of n, apart from the choices of the schedule. */
static uint64_t draw(uint64_t n) {
    F.random = F.random * UINT64_C(0x5851f42d4c957f2d) + UINT64_C(0x14057b7ef767814f);
    return (F.random >> 33) % n;
}

/* ---- loads -------------------------------------------------------------------------------------------------------- */

void foretell_close(const struct thread *self) {
    F.count[self->id] = 0;
    if (F.told_to == self) F.told_to = NULL;
}

void foretell_touch(const struct thread *self, uint32_t index, int32_t time) {
    if (F.phase == FORETELL_OFF) return;
    for (uint32_t i = 0; i < OPEN_MAX; i++)
        if (F.open[self->id][i].index == index) F.open[self->id][i].number = 0;
    if (F.told_to != self) return;
    if (F.told.index == index) F.told_to = NULL;
    if (F.since_count < SINCE_MAX) {
        F.since[F.since_count].index = index;
        F.since[F.since_count].time = time;
    }
    F.since_count++;
}

uint64_t foretell_load(struct thread *self, uint32_t index, enum explore_order order, uint64_t value) {
    F.loads++;
    if (F.phase == FORETELL_OFF || order == EXPLORE_SC) return value;
    struct open_load load = {F.loads, value, index, self->now->clock[self->id], (order & EXPLORE_ACQ) != 0};
    if (F.phase == FORETELL_LOOK) {
        F.open[self->id][F.count[self->id]++ % OPEN_MAX] = load;
        return value;
    }
    if (load.number != F.pair.load) return value;
    F.told = load;
    F.told_to = self;
    F.since_count = 0;
    trace_step("reads ahead", NULL, 0, F.pair.value, 0);
    return F.pair.value;
}

/* ---- stores ------------------------------------------------------------------------------------------------------- */

/* Could that load of `self` have read it? */
static bool may_read(const struct thread *self, const struct open_load *load, uint32_t index, const struct write *w) {
    bool tells = load->acquires && w->message != NULL && w->message->born >= load->number;
    return load->number != 0 && load->index == index && load->value != w->value && !tells &&
           R.current->now->clock[self->id] < load->epoch;
}

static void look(uint32_t index, const struct write *w) {
    for (uint32_t t = 0; t < R.thread_count; t++) {
        uint32_t kept = F.count[t] < OPEN_MAX ? F.count[t] : OPEN_MAX;
        for (uint32_t i = 0; i < kept; i++) {
            const struct open_load *load = &F.open[t][i];
            if (t == R.current->id || !may_read(&R.threads[t], load, index, w) || draw(++F.pairs) != 0) continue;
            F.pair.load = load->number;
            F.pair.store = F.stores;
            F.pair.value = w->value;
            F.pair.values = F.values;
            F.pair.hash = R.hash;
        }
    }
}

/* Has its thread read or written something since the load that is older than what the store tells? */
static bool tells_late(const struct view *message) {
    if (!F.told.acquires || message == NULL) return false;
    if (F.since_count > SINCE_MAX) return true;
    for (uint32_t i = 0; i < F.since_count; i++)
        if (F.since[i].time < view_at(message, F.since[i].index)) return true;
    return false;
}

/* The store is there: the load has read it. */
static void tell(uint32_t index, const struct write *w) {
    struct thread *self = F.told_to;
    F.told_to = NULL;
    bool is_same = self != NULL && R.hash == F.pair.hash && F.values == F.pair.values && w->value == F.pair.value &&
                   index == F.told.index;
    if (!is_same || tells_late(w->message)) return;
    F.holds = true;
    model_raise(self, index, w, F.told.acquires ? EXPLORE_ACQ : EXPLORE_RLX);
    trace_step("was read ahead", NULL, 0, self->id, 0);
}

void foretell_store(uint32_t index, const struct write *w, bool is_newest) {
    if (F.phase == FORETELL_OFF) return;
    F.stores++;
    F.values = (F.values ^ w->value ^ (uint64_t)index << 40) * UINT64_C(0x9e3779b97f4a7c15);
    F.values ^= F.values >> 31;
    if (F.phase == FORETELL_LOOK && is_newest) look(index, w);
    if (F.phase == FORETELL_TELL && F.stores == F.pair.store) tell(index, w);
}
