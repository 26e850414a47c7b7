/* drive_self_deque.c: the explorer on a small work-stealing deque with six seeded faults, each of which it must find.
 *
 * The deque is that of N. Le, A. Pop, A. Cohen, F. Zappa Nardelli, "Correct and efficient work-stealing for weak memory
 * models", PPoPP 2013, doi:10.1145/2442516.2442524. */
#include "explore.h"

enum fault {
    FAULT_NONE,
    FAULT_NO_TAKE_FENCE,
    FAULT_NO_STEAL_FENCE,
    FAULT_RELAXED_PUBLISH,
    FAULT_RELAXED_GROW,
    FAULT_FREED_BUFFER,
    FAULT_LAST_WITHOUT_CAS
};

enum { ITEMS = 5, EMPTY = 0 };

struct buffer {
    int64_t size;
    ATOMIC(uint32_t) slots[];
};

static struct {
    enum fault fault;
    ATOMIC(int64_t) top, bottom;
    ATOMIC(struct buffer *) buffer;
    uint32_t payload[ITEMS + 1];
    uint32_t taken[ITEMS + 1]; /* the test's own, not part of the model */
} deque;

static struct buffer *buffer_make(int64_t size) {
    struct buffer *buffer = os_alloc(sizeof *buffer + (size_t)size * sizeof buffer->slots[0]);
    plain_write(&buffer->size, sizeof buffer->size);
    buffer->size = size;
    return buffer;
}

static void deque_setup(enum fault fault) {
    deque.fault = fault;
    int64_t start = explore_pick(2) == 0 ? 0 : INT64_MAX / 4;
    store_rlx(&deque.top, start);
    store_rlx(&deque.bottom, start);
    store_rlx(&deque.buffer, buffer_make(1));
    for (int i = 0; i <= ITEMS; i++) deque.taken[i] = 0;
}

static struct buffer *deque_grow(struct buffer *old, int64_t top, int64_t bottom) {
    struct buffer *fresh = buffer_make(old->size * 2);
    for (int64_t i = top; i < bottom; i++) store_rlx(&fresh->slots[i % fresh->size], load_rlx(&old->slots[i % old->size]));
    if (deque.fault == FAULT_RELAXED_GROW)
        store_rlx(&deque.buffer, fresh);
    else
        store_rel(self_deque_grow, &deque.buffer, fresh);
    if (deque.fault == FAULT_FREED_BUFFER) os_free(old);
    return fresh;
}

static void deque_push(uint32_t item) {
    int64_t bottom = load_rlx(&deque.bottom);
    int64_t top = load_acq(self_deque_top, &deque.top);
    struct buffer *buffer = load_rlx(&deque.buffer);
    if (bottom - top >= buffer->size) buffer = deque_grow(buffer, top, bottom);
    plain_write(&deque.payload[item], sizeof deque.payload[item]);
    deque.payload[item] = item;
    store_rlx(&buffer->slots[bottom % buffer->size], item);
    /* A fence, not a release store: take stores bottom again, relaxed, and thieves may read that. */
    if (deque.fault != FAULT_RELAXED_PUBLISH) fence_rel(self_deque_publish);
    store_rlx(&deque.bottom, bottom + 1);
}

static uint32_t deque_take(void) {
    int64_t bottom = load_rlx(&deque.bottom) - 1;
    struct buffer *buffer = load_rlx(&deque.buffer);
    store_rlx(&deque.bottom, bottom);
    if (deque.fault != FAULT_NO_TAKE_FENCE) fence_sc(self_deque_take);
    int64_t top = load_rlx(&deque.top);
    uint32_t item = EMPTY;
    if (top <= bottom) item = load_rlx(&buffer->slots[bottom % buffer->size]);
    if (top == bottom) {
        if (deque.fault == FAULT_LAST_WITHOUT_CAS)
            store_rlx(&deque.top, top + 1);
        else if (!cas_sc(self_deque_last, &deque.top, &top, top + 1))
            item = EMPTY;
    }
    if (top >= bottom || item == EMPTY) store_rlx(&deque.bottom, bottom + 1);
    return item;
}

static uint32_t deque_steal(void) {
    int64_t top = load_acq(self_deque_top, &deque.top);
    if (deque.fault != FAULT_NO_STEAL_FENCE) fence_sc(self_deque_steal);
    int64_t bottom = load_acq(self_deque_bottom, &deque.bottom);
    if (top >= bottom) return EMPTY;
    struct buffer *buffer = load_acq(self_deque_buffer, &deque.buffer);
    plain_read(&buffer->size, sizeof buffer->size);
    uint32_t item = load_rlx(&buffer->slots[top % buffer->size]);
    return cas_sc(self_deque_claim, &deque.top, &top, top + 1) ? item : EMPTY;
}

static void use(uint32_t item) {
    if (item == EMPTY) return;
    EXPECT(item <= ITEMS);
    plain_read(&deque.payload[item], sizeof deque.payload[item]);
    EXPECT(deque.payload[item] == item);
    EXPECT(++deque.taken[item] == 1);
}

static void owner(void) {
    deque_push(1);
    deque_push(2);
    use(deque_take());
    deque_push(3);
    use(deque_take());
    use(deque_take());
    deque_push(4);
    deque_push(5);
    for (uint32_t item; (item = deque_take()) != EMPTY;) use(item);
}

static void thief(void) {
    for (int i = 0; i < 3; i++) use(deque_steal());
}

static void all_taken(void) {
    for (int i = 1; i <= ITEMS; i++) EXPECT(deque.taken[i] == 1);
}

static void setup_sound(void) { deque_setup(FAULT_NONE); }
static void setup_no_take_fence(void) { deque_setup(FAULT_NO_TAKE_FENCE); }
static void setup_no_steal_fence(void) { deque_setup(FAULT_NO_STEAL_FENCE); }
static void setup_relaxed_publish(void) { deque_setup(FAULT_RELAXED_PUBLISH); }
static void setup_relaxed_grow(void) { deque_setup(FAULT_RELAXED_GROW); }
static void setup_freed_buffer(void) { deque_setup(FAULT_FREED_BUFFER); }
static void setup_last_without_cas(void) { deque_setup(FAULT_LAST_WITHOUT_CAS); }

#define DEQUE_DRIVER(name, text, ...)                                                                                       \
    EXPLORE_DRIVER(self_deque_##name, .about = text, .setup = setup_##name, .threads = {owner, thief, thief},               \
                   .check = all_taken, __VA_ARGS__)

DEQUE_DRIVER(sound, "work-stealing deque", .flags = 0);
DEQUE_DRIVER(no_take_fence, "deque, fault: no fence in take", .flags = EXPLORE_MUST_FAIL,
             .fails_with = "taken[item] == 1|plain read, plain write");
DEQUE_DRIVER(no_steal_fence, "deque, fault: no fence in steal", .flags = EXPLORE_MUST_FAIL,
             .fails_with = "taken[item] == 1");
DEQUE_DRIVER(relaxed_publish, "deque, fault: published by a relaxed store", .flags = EXPLORE_MUST_FAIL,
             .fails_with = "race");
DEQUE_DRIVER(relaxed_grow, "deque, fault: grown by a relaxed store", .flags = EXPLORE_MUST_FAIL,
             .fails_with = "used before its making");
DEQUE_DRIVER(freed_buffer, "deque, fault: old buffer released at once", .flags = EXPLORE_MUST_FAIL,
             .fails_with = "use after free|plain write, plain read");
DEQUE_DRIVER(last_without_cas, "deque, fault: last item taken without CAS", .flags = EXPLORE_MUST_FAIL,
             .fails_with = "taken[item] == 1");
