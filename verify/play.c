/* play.c: runs a program's operations on groups and tasks; the rest is in play_more.c. See play.h. */
#include "play.h"
#include "spec.h"

#include <stdarg.h>
#include <stddef.h>
#include <string.h>

struct play play;

void play_fail(const char *format, ...) {
    char text[600];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    world_fail(text);
}

static uint32_t take(_Atomic uint32_t *count) { return atomic_fetch_add_explicit(count, 1, memory_order_relaxed); }
static uint32_t get(const _Atomic uint32_t *count) { return atomic_load_explicit(count, memory_order_relaxed); }

void frame_enter(struct frame *frame) {
    struct here *here = world_here();
    frame->beneath = here->top;
    frame->own.above = frame->part_of;
    frame->own.beneath = here->top == NULL ? NULL : &here->top->own;
    here->top = frame;
}
void frame_leave(const struct frame *frame) { world_here()->top = frame->beneath; }

uint64_t moment_ns(uint8_t when) {
    static const uint64_t hour_ns = UINT64_C(3600) * 1000000000;
    uint64_t now_ns = world_now_ns();
    switch (when) {
    case MOMENT_PAST: return 1;
    case MOMENT_SOON: return now_ns + 20000;
    case MOMENT_FAR: return now_ns + hour_ns;
    default: return 0;
    }
}

/* ---- payloads ----------------------------------------------------------------------------------------------------- */

/* Eight bytes of the pattern. */
static uint64_t pattern(uint32_t number, size_t at) {
    return (number + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15) ^ (at / 8 + 1) * UINT64_C(0xd1342543de82ef95);
}

/* Bytes `from` to before `bytes`; most in whole eights. */
static void fill_from(unsigned char *memory, size_t bytes, uint32_t number, size_t from) {
    size_t at = from;
    for (; at < bytes; at++) {
        uint64_t eight = pattern(number, at);
        for (; at % 8 == 0 && at + 8 <= bytes; eight = pattern(number, at)) {
            memcpy(memory + at, &eight, 8);
            at += 8;
        }
        if (at < bytes) memory[at] = (unsigned char)(eight >> at % 8 * 8);
    }
}
/* The first byte that is not as filled, or one of its eight; `bytes`: all are. */
static size_t first_wrong(const unsigned char *memory, size_t bytes, uint32_t number, size_t from) {
    size_t at = from;
    for (; at < bytes; at++) {
        uint64_t eight = pattern(number, at), there;
        for (; at % 8 == 0 && at + 8 <= bytes; eight = pattern(number, at)) {
            memcpy(&there, memory + at, 8);
            if (there != eight) return at;
            at += 8;
        }
        if (at < bytes && memory[at] != (unsigned char)(eight >> at % 8 * 8)) return at;
    }
    return bytes;
}

void fill(unsigned char *memory, size_t bytes, uint32_t number) {
    world_writes(memory, bytes);
    fill_from(memory, bytes, number, 0);
}
bool is_filled(const unsigned char *memory, size_t bytes, uint32_t number) {
    world_reads(memory, bytes);
    return first_wrong(memory, bytes, number, 0) == bytes;
}

/* From four bytes on a payload begins with its task's number. Less than that holds `anonymous`. */
static void payload_fill(unsigned char *payload, const struct slot *slot, uint32_t number) {
    const struct batch *batch = &play.batch[slot->batch];
    if (slot->size < 4) {
        for (uint32_t i = 0; i < slot->size; i++) payload[i] = (unsigned char)(batch->anonymous + i * 16);
        return;
    }
    memcpy(payload, &number, 4);
    fill_from(payload, slot->size, number, 4);
}
/* Who tells a task the result that it awaits changes its payload. */
static uint32_t pattern_of(uint32_t number) {
    return number + (atomic_load_explicit(&play.slot[number].told, memory_order_relaxed) != 0 ? SLOTS : 0);
}
static void payload_check(unsigned char *payload, uint32_t number, bool is_copy) {
    const struct slot *slot = &play.slot[number];
    if ((payload == NULL) != (slot->size == 0)) play_fail("task %u got the wrong payload", number);
    if (payload == NULL) return;
    if (is_copy && (uintptr_t)payload % 16 != 0) play_fail("the payload of task %u is not aligned to 16", number);
    world_reads(payload, slot->size);
    size_t wrong = slot->size < 4 ? slot->size : first_wrong(payload, slot->size, pattern_of(number), 4);
    for (size_t i = 1; slot->size < 4 && i < slot->size; i++)
        if (payload[i] != (unsigned char)(play.batch[slot->batch].anonymous + i * 16)) wrong = i;
    if (wrong != slot->size)
        play_fail("byte %zu (or one after) of the %u of task %u's payload is not as filled", wrong, slot->size, number);
    world_writes(payload, slot->size);
    memset(payload, 0xee, slot->size);
}

static size_t block_bytes(uint32_t number) { return 1 + number * 37u % 300; }
static void block_end(struct slot *slot, uint32_t number) {
    if (slot->block == NULL) return;
    if (!is_filled(slot->block, block_bytes(number), number))
        play_fail("the block that task %u was given is not as filled", number);
    if (number % 2 == 0)
        weft_free(slot->block);
    else
        weft_free_sized(slot->block, block_bytes(number));
    slot->block = NULL;
}

/* ---- tasks -------------------------------------------------------------------------------------------------------- */

/* One level of nested waits less: a group of its own with one task, waited for. */
static void nest(struct frame *frame, const struct batch *outer) {
    struct group *group = group_named(frame, GROUP_LOCAL);
    struct batch *batch = batch_new(frame, outer->op, group);
    if (batch == NULL) return;
    batch->levels = (uint16_t)(outer->levels - 1);
    batch_submit(frame, batch, 1);
}

static int task_run(uint32_t number, unsigned char *payload, bool is_copy, weft_worker *self) {
    if (number >= get(&play.slots)) play_fail("a payload is not the one submitted: it names task %u", number);
    struct slot *slot = &play.slot[number];
    const struct batch *batch = &play.batch[slot->batch];
    const struct op *op = batch->op;
    struct frame frame = {
        .self = self, .group = batch->group, .task = number, .is_task = true, .is_joined = batch->is_joined};
    int code = op->fails == slot->index ? op->code : 0;
    bool is_nest = op->kind == OP_NEST && batch->levels > 0;
    if (op->body != NO_BODY && !is_nest) frame.body = &play.program->body[op->body];
    frame_enter(&frame);
    if (frame.beneath != NULL) frame.is_joined |= frame.beneath->is_joined; /* it cannot end before this task */
    spec_task_begins(&frame, number);
    payload_check(payload, number, is_copy);
    block_end(slot, number);
    if (is_nest) nest(&frame, batch);
    play_body(&frame);
    spec_task_ends(&frame, number, code);
    frame_leave(&frame);
    return code;
}

static uint32_t number_of(const unsigned char *payload) {
    uint32_t number;
    memcpy(&number, payload, sizeof number);
    return number;
}
static int task_entry(void *payload, weft_worker *self) { return task_run(number_of(payload), payload, true, self); }
static int run_entry(void *payload, weft_worker *self) { return task_run(number_of(payload), payload, false, self); }

/* The next task of an anonymous batch. */
static uint32_t next_of(uint32_t anonymous) {
    struct batch *batch = &play.batch[get(&play.anonymous[anonymous]) - 1];
    uint32_t next = take(&batch->begun);
    if (next >= batch->given) play_fail("of %u tasks without a number more have run", batch->given);
    return batch->first + next;
}
#define ANONYMOUS_TASK(n)                                                                                                   \
    static int anonymous_##n(void *payload, weft_worker *self) { return task_run(next_of(n), payload, true, self); }
ANONYMOUS_TASK(0)
ANONYMOUS_TASK(1)
ANONYMOUS_TASK(2)
ANONYMOUS_TASK(3)
ANONYMOUS_TASK(4)
ANONYMOUS_TASK(5)
ANONYMOUS_TASK(6)
ANONYMOUS_TASK(7)
static const weft_fn anonymous_tasks[ANONYMOUS] = {anonymous_0, anonymous_1, anonymous_2, anonymous_3,
                                                   anonymous_4, anonymous_5, anonymous_6, anonymous_7};

static void slot_clean(uint32_t number, unsigned char *payload, size_t size) {
    if (number >= get(&play.slots)) play_fail("a payload to be cleaned names task %u", number);
    struct slot *slot = &play.slot[number];
    if (size != slot->size) play_fail("a payload of %u bytes came to clean as %zu", slot->size, size);
    payload_check(payload, number, true);
    block_end(slot, number);
    spec_task_cleaned(number);
}
static void clean(void *payload, size_t size, void *context) {
    if (context != &play) play_fail("clean got another context");
    if (payload == NULL)
        take(&play.null_cleaned);
    else if (size < 4)
        slot_clean(next_of(*(unsigned char *)payload % ANONYMOUS), payload, size);
    else
        slot_clean(number_of(payload), payload, size);
}

static int object_entry(void *payload, weft_worker *self) {
    uint32_t number = number_of(payload);
    if (self != NULL) return task_run(number, payload, true, self);
    slot_clean(number, payload, number < SLOTS ? play.slot[number].size : 0);
    return 0;
}
static void tell(void *payload, int result, int has_ended) {
    uint32_t number = number_of(payload);
    if (number >= get(&play.slots)) play_fail("a payload to be told a result names task %u", number);
    const struct slot *slot = &play.slot[number];
    payload_check(payload, number, true);
    spec_told(number, result, has_ended != 0);
    memcpy(payload, &number, 4);
    fill_from(payload, slot->size, pattern_of(number), 4);
}
static void object_move(void *payload, void *object) {
    uint32_t number = *(uint32_t *)object;
    payload_fill(payload, &play.slot[number], number);
    if (atomic_fetch_add_explicit(&play.slot[number].moved, 1, memory_order_relaxed) != 0)
        play_fail("the object of task %u was moved twice", number);
}

/* ---- submitting --------------------------------------------------------------------------------------------------- */

/* Payloads without room for a number: a function of their own. */
static uint8_t anonymous_take(uint32_t batch) {
    for (unsigned i = 0; i < ANONYMOUS; i++) {
        uint32_t free = 0;
        if (atomic_compare_exchange_strong_explicit(&play.anonymous[i], &free, batch + 1, memory_order_relaxed,
                                                    memory_order_relaxed))
            return (uint8_t)i;
    }
    return UNTRACKED;
}

uint32_t event_new(void) {
    uint32_t event = get(&play.batches) < BATCHES ? take(&play.batches) : BATCHES;
    if (event >= KNOWN) return KNOWN;
    memset(&play.batch[event], 0, sizeof play.batch[event]);
    return event;
}

static bool is_after(const struct op *op) {
    return op->kind == OP_AFTER || op->kind == OP_AFTER_OBJECT || op->kind == OP_AWAIT;
}

struct batch *batch_new(struct frame *frame, const struct op *op, struct group *group) {
    uint32_t number = get(&play.batches) < BATCHES ? take(&play.batches) : BATCHES;
    if (number >= BATCHES) return NULL;
    struct batch *batch = &play.batch[number];
    memset(batch, 0, sizeof *batch);
    batch->group = group;
    batch->number = group->number;
    batch->serial = group->serial;
    batch->anonymous = UNTRACKED;
    batch->after_number = UNTRACKED;
    atomic_store_explicit(&batch->result, NO_RESULT, memory_order_relaxed);
    batch->levels = op->kind == OP_NEST ? op->count : 0;
    if (op->size < 4) batch->anonymous = anonymous_take(number);
    if (is_after(op)) {
        const struct group *after = group_named(frame, op->after);
        batch->after_number = after->number;
        batch->after_serial = after->serial;
        batch->is_held = true;
    }
    batch->is_joined = frame->is_joined;
    batch->known = frame->known;
    if (op->count == 1) known_add(&batch->known, number);
    batch->op = op;
    return batch;
}

static void slot_new(const struct batch *batch, uint32_t index) {
    struct slot *slot = &play.slot[batch->first + index];
    slot->batch = (uint16_t)(batch - play.batch);
    slot->index = (uint16_t)index;
    atomic_store_explicit(&slot->result, NO_RESULT, memory_order_relaxed);
    slot->size = batch->op->size < 4 && batch->anonymous == UNTRACKED ? 4 : batch->op->size;
}

/* About to be submitted. */
static void slot_give(struct batch *batch, uint32_t number) {
    struct slot *slot = &play.slot[number];
    if (batch->op->has_block && batch->anonymous == UNTRACKED) {
        slot->block = weft_alloc(block_bytes(number));
        if (slot->block == NULL) play_fail("no memory");
        fill(slot->block, block_bytes(number), number);
    }
    atomic_store_explicit(&slot->state, SLOT_GIVEN, memory_order_relaxed);
}

static int call_object(const struct frame *frame, const struct batch *batch, uint32_t number) {
    const struct slot *slot = &play.slot[number];
    struct group *after = batch->is_held ? group_named((struct frame *)(uintptr_t)frame, batch->op->after) : NULL;
    weft_object type = {slot->size, object_entry, object_move};
    if (after == NULL) return weft_submit_object(play.pool, batch->group->memory, &type, &number);
    type.move = NULL;
    unsigned char *payload = world_here()->payload;
    payload_fill(payload, slot, number);
    const weft_after groups = {after->memory, batch->group->memory};
    if (batch->op->kind == OP_AWAIT) return weft_submit_await(play.pool, groups, &type, payload, tell);
    return weft_submit_after_object(play.pool, groups, &type, payload);
}

static int call_run(const struct batch *batch, uint32_t number) {
    const struct slot *slot = &play.slot[number];
    unsigned char *payload = world_alloc(slot->size);
    payload_fill(payload, slot, number);
    int error = weft_run(play.pool, batch->group->memory, run_entry, payload);
    world_free(payload);
    return error;
}

static int call_submit(const struct frame *frame, const struct batch *batch, uint32_t number) {
    const struct slot *slot = &play.slot[number];
    const struct op *op = batch->op;
    unsigned char *payload = world_here()->payload;
    weft_fn fn = batch->anonymous != UNTRACKED ? anonymous_tasks[batch->anonymous] : task_entry;
    if (op->kind == OP_OBJECT || op->kind == OP_AFTER_OBJECT || op->kind == OP_AWAIT)
        return call_object(frame, batch, number);
    if (op->kind == OP_RUN) return call_run(batch, number);
    payload_fill(payload, slot, number);
    if (slot->size == 0) payload = NULL;
    if (op->kind == OP_CHILD) return weft_submit_child(frame->self, fn, payload, slot->size);
    if (op->kind != OP_AFTER) return weft_submit(play.pool, batch->group->memory, fn, payload, slot->size);
    const struct group *after = group_named((struct frame *)(uintptr_t)frame, op->after);
    return weft_submit_after(play.pool, (weft_after){after->memory, batch->group->memory}, fn, payload, slot->size);
}

/* Slots of a batch lie side by side. false: there are not so many. */
static bool slots_take(struct batch *batch, uint32_t count) {
    if (get(&play.slots) + count > play.limits->tasks) return false;
    batch->first = atomic_fetch_add_explicit(&play.slots, count, memory_order_relaxed);
    batch->given = count;
    if (batch->first + count > SLOTS) return false;
    for (uint32_t i = 0; i < count; i++) slot_new(batch, i);
    return true;
}

void batch_submit(struct frame *frame, struct batch *batch, uint32_t count) {
    uint32_t index = (uint32_t)(batch - play.batch);
    if (!slots_take(batch, count)) return;
    spec_submits(frame, batch);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = batch->first + i;
        slot_give(batch, number);
        frame->doing = batch->op->kind == OP_RUN ? RUNS : SUBMITS;
        frame->batch = index;
        spec_submit_begins(frame, batch);
        int error = call_submit(frame, batch, number);
        frame->doing = DOES_NOTHING;
        spec_submitted(frame, batch, number, error);
        if (error == WEFT_OK) continue;
        block_end(&play.slot[number], number);
        if (batch->anonymous != UNTRACKED) break;
    }
    known_add(&frame->known, index);
}

/* WEFT_EDEADLK does not see a circle that goes through a loop's end or a join: a piece of a loop that waits for the group of
 * a task which, on top of another task, waits for the loop. So there waits for groups that others use have a deadline. */
static bool waits_are_bounded(const struct frame *frame, const struct group *group) {
    return frame->is_joined && group != frame->local[0] && group != frame->local[1];
}

static void op_submit(struct frame *frame, const struct op *op) {
    bool is_child = op->kind == OP_CHILD;
    struct group *group = is_child ? frame->group : group_named(frame, op->group);
    if (is_after(op) && waits_are_bounded(frame, group_named(frame, op->after))) return;
    if (is_child && (frame->self == NULL || group == NULL)) return;
    struct batch *batch = batch_new(frame, op, group);
    if (batch != NULL) batch_submit(frame, batch, op->kind == OP_NEST ? 1 : op->count);
}

/* ---- groups ------------------------------------------------------------------------------------------------------- */

void group_new(struct group *group, weft_group *memory, uint32_t flags) {
    memset(group, 0, sizeof *group);
    group->memory = memory;
    group->flags = flags;
    group->serial = take(&play.serials) + 1;
    group->number = relations_begin();
    if (memory == NULL) return;
    world_writes(memory, sizeof *memory);
    *memory = (weft_group){.flags = flags};
}

void group_end(const struct group *group) { relations_end(group->number); }

static struct group *group_local(struct frame *frame, uint32_t which) {
    if (frame->local[which] != NULL) return frame->local[which];
    struct group *group = world_alloc(sizeof *group);
    group_new(group, world_alloc(sizeof *group->memory), frame->body == NULL ? 0 : frame->body->local_flags[which]);
    return frame->local[which] = group;
}

struct group *group_named(struct frame *frame, uint8_t name) {
    if (name >= GROUP_LOCAL) return group_local(frame, name - GROUP_LOCAL);
    if (name == GROUP_OWN && frame->group != NULL && frame->group->memory != NULL) return frame->group;
    if (name == GROUP_OWN || name == GROUP_POOL) return &play.own;
    return &play.shared[name - GROUP_SHARED];
}

int group_wait(struct frame *frame, struct group *group, enum weft_help help, uint64_t until_ns) {
    struct wait wait = {.help = help, .until_ns = until_ns};
    spec_wait_begins(frame, group, &wait);
    int error = help == WEFT_HELP_BELOW && until_ns == 0 ? weft_group_wait(play.pool, group->memory)
                                                         : weft_group_wait_until(play.pool, group->memory, help, until_ns);
    spec_wait_returns(frame, group, &wait, error);
    return error;
}

/* On real threads a far deadline is one that few waits reach: two tasks that wait for each other so do not know it. */
static uint64_t far_ns(void) {
    return world_now_ns() + (play.limits->is_model ? UINT64_C(3600000000000) : UINT64_C(2000000));
}

static void op_wait(struct frame *frame, const struct op *op) {
    struct group *group = group_named(frame, op->group);
    bool is_bounded = waits_are_bounded(frame, group);
    uint8_t when = is_bounded && op->when != MOMENT_PAST ? MOMENT_SOON : op->when;
    if (play.limits->is_sound && when != MOMENT_NONE) return;
    group_wait(frame, group, (enum weft_help)op->help, when == MOMENT_FAR ? far_ns() : moment_ns(when));
}

static void op_cancel(struct frame *frame, const struct op *op) {
    struct group *group = group_named(frame, op->group);
    take(&group->cancels);
    take(&account_of(group->serial)->cancels);
    spec_cancelled(frame, group, weft_group_cancel(play.pool, group->memory));
}
static void op_deadline(struct frame *frame, const struct op *op) {
    struct group *group = group_named(frame, op->group);
    if (op->when != MOMENT_FAR) take(&group->deadlines), take(&account_of(group->serial)->deadlines);
    spec_deadline_begins(frame, group);
    spec_deadline_set(frame, group, op->when, weft_group_deadline(play.pool, group->memory, moment_ns(op->when)));
}
static void op_boost(struct frame *frame, const struct op *op) {
    struct group *group = group_named(frame, op->group);
    spec_boosted(frame, group, weft_group_boost(play.pool, group->memory));
}

/* ---- bodies ------------------------------------------------------------------------------------------------------- */

static void op_play(struct frame *frame, const struct op *op) {
    switch (op->kind) {
    case OP_SUBMIT:
    case OP_CHILD:
    case OP_OBJECT:
    case OP_RUN:
    case OP_AFTER:
    case OP_AFTER_OBJECT:
    case OP_AWAIT:
    case OP_NEST: op_submit(frame, op); break;
    case OP_WAIT: op_wait(frame, op); break;
    case OP_CANCEL: op_cancel(frame, op); break;
    case OP_DEADLINE: op_deadline(frame, op); break;
    case OP_BOOST: op_boost(frame, op); break;
    default: play_op_more(frame, op); break;
    }
}

static void group_abandon(struct group *group) {
    struct group *first = atomic_load(&play.abandoned);
    do {
        group->next = first;
    } while (!atomic_compare_exchange_weak(&play.abandoned, &first, group));
}

/* The groups it has opened go with it, unless a wait for one would never end. */
static void locals_end(struct frame *frame) {
    for (uint32_t i = 0; i < 2; i++) {
        struct group *group = frame->local[i];
        if (group == NULL) continue;
        int error = group_wait(frame, group, WEFT_HELP_BELOW, 0);
        frame->local[i] = NULL;
        if (error == WEFT_EDEADLK || error == WEFT_EAGAIN) {
            group_abandon(group);
            continue;
        }
        group_end(group);
        world_group_end(group->memory);
        world_free(group);
    }
}

void play_body(struct frame *frame) {
    for (uint32_t i = 0; frame->body != NULL && i < frame->body->count; i++)
        if (!frame->body->ops[i].is_absent) op_play(frame, &frame->body->ops[i]);
    locals_end(frame);
}

/* ---- pools -------------------------------------------------------------------------------------------------------- */

void play_reset(const struct program *program, const struct program_limits *limits) {
    play.program = program;
    play.limits = limits;
    uint32_t serials = atomic_exchange(&play.serials, 0) + 1;
    memset((void *)play.account, 0, (serials < SERIALS ? serials : SERIALS) * sizeof play.account[0]);
    for (uint32_t i = 0; i < PROGRAM_SHARED; i++) {
        play.shared[i].memory = world_alloc(sizeof(weft_group));
        world_writes(play.shared[i].memory, sizeof(weft_group));
        *play.shared[i].memory = (weft_group)WEFT_GROUP_INIT;
    }
    play_graphs_make();
}

static void state_clear(void) {
    uint32_t slots = get(&play.slots);
    memset(play.slot, 0, (slots < SLOTS ? slots : SLOTS) * sizeof play.slot[0]);
    atomic_store(&play.slots, 0);
    atomic_store(&play.batches, 0);
    atomic_store(&play.numbers, 0);
    atomic_store(&play.has_untracked, 0);
    atomic_store(&play.null_cleaned, 0);
    atomic_store(&play.aborting, 0);
    atomic_store(&play.abandoned, NULL);
    for (uint32_t i = 0; i < ANONYMOUS; i++) atomic_store(&play.anonymous[i], 0);
    for (uint32_t i = 0; i < PROGRAM_GRAPHS; i++) {
        memset(&play.graph[i].ends, 0, sizeof play.graph[i].ends);
        memset(&play.graph[i].cancels, 0, sizeof play.graph[i].cancels);
    }
    memset((void *)play.below, 0, sizeof play.below);
    memset((void *)play.waits, 0, sizeof play.waits);
}

/* A group that the pool before has left with an id. */
static void use_stale(weft_group *group, uint8_t how) {
    switch (how) {
    case 0: spec_stale("weft_group_wait", weft_group_wait(play.pool, group)); break;
    case 1: spec_stale("weft_submit", weft_submit(play.pool, group, task_entry, NULL, 0)); break;
    case 2: spec_stale("weft_group_cancel", weft_group_cancel(play.pool, group)); break;
    case 3:
        spec_stale("weft_submit_after", weft_submit_after(play.pool, (weft_after){NULL, group}, task_entry, NULL, 0));
        break;
    case 4:
        spec_stale("weft_submit_after", weft_submit_after(play.pool, (weft_after){group, NULL}, task_entry, NULL, 0));
        break;
    case 5: {
        const weft_object type = {4, object_entry, NULL};
        const weft_after groups = {group, NULL};
        spec_stale("weft_submit_await", weft_submit_await(play.pool, groups, &type, &(uint32_t){0}, tell));
        break;
    }
    default: spec_stale("weft_group_wait_until", weft_group_wait_until(play.pool, group, WEFT_HELP_NONE, 0)); break;
    }
}

static void configure(weft_config *config, const struct program_pool *drawn) {
    if (weft_config_init(config) != WEFT_OK) play_fail("weft_config_init");
    config->workers = drawn->workers;
    config->spares = drawn->spares;
    config->flags = drawn->flags;
    config->full = drawn->full;
    config->queue_max = drawn->queue_max;
    config->spin_ns = drawn->spin_ns;
    config->background_max = drawn->background_max;
    config->clean = clean;
    config->context = &play;
    if (drawn->is_real_time) { /* or refused */
        config->policy = WEFT_POLICY_FIFO;
        config->priority = 1;
    }
}

void play_begin(uint32_t pool) {
    play.drawn = &play.program->pool[pool];
    state_clear();
    configure(&play.config, play.drawn);
    int error = weft_pool_create(&play.pool, &play.config);
    if (error != WEFT_OK) play_fail("weft_pool_create: %s", weft_strerror(error));
    group_new(&play.own, NULL, 0);
    play.own.is_shared = play.own.is_pools = true;
    for (uint32_t i = 0; i < PROGRAM_SHARED; i++) {
        weft_group *memory = play.shared[i].memory;
        world_reads(memory, sizeof *memory);
        if (memory->id != 0) use_stale(memory, play.drawn->stale_op);
        group_new(&play.shared[i], memory, play.drawn->shared_flags[i]);
        play.shared[i].is_shared = true;
    }
}

void play_thread(uint32_t thread, mask *known) {
    struct frame frame = {.body = &play.program->body[play.drawn->body[thread]]};
    frame_enter(&frame);
    play_body(&frame);
    frame_leave(&frame);
    *known = frame.known;
}

static void wait_for_all(const mask *known) {
    struct frame frame = {.known = *known};
    frame_enter(&frame);
    for (uint32_t calm = 0; calm < 2;) { /* what is submitted in one round is waited for in the next, and submits nothing */
        uint32_t before = get(&play.slots); /* of tasks given and about to be */
        group_wait(&frame, &play.own, WEFT_HELP_BELOW, 0);
        for (uint32_t i = 0; i < PROGRAM_SHARED; i++) group_wait(&frame, &play.shared[i], WEFT_HELP_BELOW, 0);
        calm = get(&play.slots) == before ? calm + 1 : 0;
    }
    frame_leave(&frame);
}

void play_end(const mask *known) {
    uint8_t how = play.drawn->end;
    if (how == END_WAITED) wait_for_all(known);
    if (how == END_WAITED && atomic_load(&play.abandoned) == NULL) spec_all_ended("all groups were waited for");
    if (how == END_ABORTED) atomic_store(&play.aborting, 1);
    weft_pool *pool = play.pool; /* tasks look at the other */
    int error = how == END_ABORTED ? weft_pool_abort(&pool, clean, &play) : weft_pool_destroy(&pool);
    if (error != WEFT_OK || pool != NULL) play_fail("the pool did not end: %s", weft_strerror(error));
    spec_all_ended("the pool has ended");
    play.tasks += get(&play.slots);
    for (struct group *group = atomic_load(&play.abandoned); group != NULL;) {
        struct group *next = group->next;
        world_free(group->memory);
        world_free(group);
        group = next;
    }
}

void play_finish(void) {
    play_graphs_end();
    for (uint32_t i = 0; i < PROGRAM_SHARED; i++) world_free(play.shared[i].memory);
}
