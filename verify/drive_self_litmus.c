/* drive_self_litmus.c: more litmus tests of the memory model, of three threads and more, of read-modify-writes and release
 * sequences, of the asymmetric fence and the futex. As in drive_self.c what C11 forbids must never appear, and what it allows
 * must. */
#include "explore.h"

static ATOMIC(uint32_t) x, y, z;
static os_word word;
static uint32_t r1, r2, r3, r4, r5, r6;
static uint32_t data;

static void zero(void) {
    store_rlx(&x, 0);
    store_rlx(&y, 0);
    store_rlx(&z, 0);
    store_rlx(&word, 0);
    r1 = r2 = r3 = r4 = r5 = r6 = data = 0;
}

#define BIT(outcome) (1u << (outcome))
#define NEVER(condition)                                                                                                    \
    do {                                                                                                                    \
        EXPECT(!(condition));                                                                                               \
        explore_observe(0);                                                                                                 \
    } while (0)
/* Both must appear: it, and its contrary. */
#define MAY(condition) explore_observe((condition) ? 1 : 0)
#define LITMUS(name, text, ...) EXPLORE_DRIVER(self_##name, .about = text, .setup = zero, .threads = {__VA_ARGS__}
#define FORBIDDEN(name, text, end, ...) LITMUS(name, text, __VA_ARGS__), .check = end, .must_see = BIT(0))
#define ALLOWED(name, text, end, ...) LITMUS(name, text, __VA_ARGS__), .check = end, .must_see = BIT(0) | BIT(1))

static void x_is_1(void) { store_rlx(&x, 1); }
static void x_is_1_rel(void) { store_rel(self_x_rel, &x, 1); }
static void x_is_1_sc(void) { store_sc(self_x_sc, &x, 1); }
static void y_is_1_sc(void) { store_sc(self_y_sc, &y, 1); }

/* ---- load buffering: a load that reads a later store, where the driver asks for it -------------------------------- */

static void lb_left(void) {
    r1 = load_rlx(&x);
    store_rlx(&y, 1);
}
static void lb_right(void) {
    r2 = load_rlx(&y);
    store_rlx(&x, 1);
}
static void lb_check(void) { NEVER(r1 == 1 && r2 == 1); }
FORBIDDEN(lb, "load buffering, not asked for", lb_check, lb_left, lb_right);

#define LATE(name, text, ...) LITMUS(lb_##name, text, __VA_ARGS__), .flags = EXPLORE_BUFFERING
#define LATE_FORBIDDEN(name, text, end, ...) LATE(name, text, __VA_ARGS__), .check = end, .must_see = BIT(0))
#define LATE_ALLOWED(name, text, end, ...) LATE(name, text, __VA_ARGS__), .check = end, .must_see = BIT(0) | BIT(1))

static void lb_left_copies(void) {
    r1 = load_rlx(&x);
    store_rlx(&y, r1);
}
static void lb_right_copies(void) {
    r2 = load_rlx(&y);
    store_rlx(&x, r2);
}
static void lb_left_if(void) {
    r1 = load_rlx(&x);
    if (r1 == 0) store_rlx(&y, 1);
}
static void lb_left_twice(void) {
    r1 = load_rlx(&x);
    r3 = load_rlx(&x);
    store_rlx(&y, 1);
}
static void lb_left_rel(void) {
    r1 = load_rlx(&x);
    store_rel(self_lb_rel, &y, 1);
}
static void lb_left_acq(void) {
    r1 = load_acq(self_lb_acq, &x);
    store_rlx(&y, 1);
}
static void lb_right_acq(void) {
    r2 = load_acq(self_lb_acq, &y);
    store_rlx(&x, 1);
}
static void lb_right_rel(void) {
    r2 = load_rlx(&y);
    store_rel(self_lb_rel, &x, 1);
}
static void lb_left_fence(void) {
    r1 = load_rlx(&x);
    fence_sc(self_lb_fence);
    store_rlx(&y, 1);
}
static void lb_right_fence(void) {
    r2 = load_rlx(&y);
    fence_sc(self_lb_fence);
    store_rlx(&x, 1);
}
static void lb_left_acq_reads(void) {
    r1 = load_acq(self_lb_acq, &x);
    r3 = load_rlx(&z);
    store_rlx(&y, 1);
}
static void lb_right_fence_first(void) {
    store_rlx(&z, 1);
    fence_sc(self_lb_fence);
    r2 = load_rlx(&y);
    store_rlx(&x, 1);
}
static void lb_left_light(void) {
    r1 = load_rlx(&x);
    os_fence_light(self_lb_light);
    store_rlx(&y, 1);
}
static void lb_right_heavy(void) {
    r2 = load_rlx(&y);
    os_fence_heavy(self_lb_heavy);
    store_rlx(&x, 1);
}
static void lb_may(void) { MAY(r1 == 1 && r2 == 1); }
static void lb_may_all(void) {
    EXPECT(!(r1 == 1 && r3 == 0));
    MAY(r1 == 1 && r2 == 1 && r3 == 1);
}
static void lb_never_back(void) { NEVER(r1 == 1 && r3 == 0); }
LATE_ALLOWED(late, "both loads", lb_may, lb_left, lb_right);
LATE_ALLOWED(late_copy, "one thread stores what it has read", lb_may, lb_left, lb_right_copies);
LATE_FORBIDDEN(thin_air, "both do", lb_check, lb_left_copies, lb_right_copies);
LATE_FORBIDDEN(if, "whether it stores depends on what it has read", lb_check, lb_left_if, lb_right);
LATE_FORBIDDEN(twice, "a location is not read backwards", lb_never_back, lb_left_twice, lb_right);
LATE_FORBIDDEN(rel, "no load comes after a release that is acquired", lb_check, lb_left_rel, lb_right_acq);
LATE_FORBIDDEN(acq, "an acquiring load of what is released comes first", lb_check, lb_left_acq, lb_right_rel);
LATE_ALLOWED(acq_older, "unless what it acquires is older", lb_may_all, lb_left_acq_reads, lb_right_fence_first);
LATE_ALLOWED(fence_one, "a fence holds its own thread's loads alone", lb_may, lb_left_fence, lb_right);
LATE_FORBIDDEN(fence, "no load comes after a fence", lb_check, lb_left_fence, lb_right_fence);
LATE_FORBIDDEN(light, "nor after another's heavy one", lb_check, lb_left_light, lb_right_heavy);

/* ---- three threads ------------------------------------------------------------------------------------------------ */

static void wrc_pass_on(void) {
    r1 = load_acq(self_wrc_acq, &x);
    store_rel(self_wrc_rel, &y, 1);
}
static void wrc_pass_on_rlx(void) {
    r1 = load_acq(self_wrc_acq, &x);
    store_rlx(&y, 1);
}
static void wrc_look_rlx(void) {
    r1 = load_rlx(&x);
    store_rel(self_wrc_rel, &y, 1);
}
static void wrc_read(void) {
    r2 = load_acq(self_wrc_acq, &y);
    r3 = load_rlx(&x);
}
#define WRC (r1 == 1 && r2 == 1 && r3 == 0)
static void wrc_never(void) { NEVER(WRC); }
static void wrc_may(void) { MAY(WRC); }
FORBIDDEN(wrc, "what was read is passed on", wrc_never, x_is_1_rel, wrc_pass_on, wrc_read);
FORBIDDEN(wrc_rlx_write, "also what was read of a relaxed store", wrc_never, x_is_1, wrc_look_rlx, wrc_read);
ALLOWED(wrc_rlx_pass, "not by a relaxed store", wrc_may, x_is_1_rel, wrc_pass_on_rlx, wrc_read);

static void isa2_write(void) {
    store_rlx(&x, 1);
    store_rel(self_isa2_rel, &y, 1);
}
static void isa2_pass_on(void) {
    r1 = load_acq(self_isa2_acq, &y);
    store_rel(self_isa2_rel, &z, 1);
}
static void isa2_pass_on_unacquired(void) {
    r1 = load_rlx(&y);
    store_rel(self_isa2_rel, &z, 1);
}
static void isa2_read(void) {
    r2 = load_acq(self_isa2_acq, &z);
    r3 = load_rlx(&x);
}
static void isa2_never(void) { NEVER(WRC); }
static void isa2_may(void) { MAY(WRC); }
FORBIDDEN(isa2, "two hand-overs in a row", isa2_never, isa2_write, isa2_pass_on, isa2_read);
ALLOWED(isa2_rlx, "the first one not acquired", isa2_may, isa2_write, isa2_pass_on_unacquired, isa2_read);

/* ---- two threads, stores that come last --------------------------------------------------------------------------- */

static void s_write(void) {
    store_rlx(&x, 2);
    store_rel(self_s_rel, &y, 1);
}
static void s_read(void) {
    r1 = load_acq(self_s_acq, &y);
    store_rlx(&x, 1);
}
static void s_read_rlx(void) {
    r1 = load_rlx(&y);
    store_rlx(&x, 1);
}
static void s_never(void) { NEVER(r1 == 1 && load_rlx(&x) == 2); }
static void s_may(void) { MAY(r1 == 1 && load_rlx(&x) == 2); }
FORBIDDEN(s, "a store after an acquire comes after what was released", s_never, s_write, s_read);
ALLOWED(s_rlx, "not after a relaxed load", s_may, s_write, s_read_rlx);

static void r_write(void) {
    store_rlx(&x, 1);
    fence_sc(self_r_fence);
    store_rlx(&y, 1);
}
static void r_read(void) {
    store_rlx(&y, 2);
    fence_sc(self_r_fence);
    r1 = load_rlx(&x);
}
static void r_read_unfenced(void) {
    store_rel(self_r_rel, &y, 2);
    r1 = load_acq(self_r_acq, &x);
}
static void r_never(void) { NEVER(load_rlx(&y) == 2 && r1 == 0); }
static void r_may(void) { MAY(load_rlx(&y) == 2 && r1 == 0); }
FORBIDDEN(r, "a store that comes last, a load before all: full fences", r_never, r_write, r_read);
ALLOWED(r_one_fence, "the same, one fence", r_may, r_write, r_read_unfenced);

/* ---- sequentially consistent accesses ----------------------------------------------------------------------------- */

static void iriw_left(void) {
    r1 = load_sc(self_iriw_sc, &x);
    r2 = load_sc(self_iriw_sc, &y);
}
static void iriw_right(void) {
    r3 = load_sc(self_iriw_sc, &y);
    r4 = load_sc(self_iriw_sc, &x);
}
static void iriw_left_acq(void) {
    r1 = load_acq(self_iriw_weak, &x);
    r2 = load_acq(self_iriw_weak, &y);
}
static void iriw_right_acq(void) {
    r3 = load_acq(self_iriw_weak, &y);
    r4 = load_acq(self_iriw_weak, &x);
}
#define IRIW (r1 == 1 && r2 == 0 && r3 == 1 && r4 == 0)
static void iriw_never(void) { NEVER(IRIW); }
static void iriw_may(void) { MAY(IRIW); }
FORBIDDEN(iriw_sc, "two readers agree, sequentially consistent", iriw_never, x_is_1_sc, y_is_1_sc, iriw_left, iriw_right);
ALLOWED(iriw_sc_stores, "not with such stores alone", iriw_may, x_is_1_sc, y_is_1_sc, iriw_left_acq, iriw_right_acq);

static void sb_left_store(void) {
    store_sc(self_sb_store, &x, 1);
    r1 = load_acq(self_sb_weak, &y);
}
static void sb_right_store(void) {
    store_sc(self_sb_store, &y, 1);
    r2 = load_acq(self_sb_weak, &x);
}
static void sb_right_fence(void) {
    store_rlx(&y, 1);
    fence_sc(self_sb_full);
    r2 = load_rlx(&x);
}
static void sb_left_sc(void) {
    store_sc(self_sb_store, &x, 1);
    r1 = load_sc(self_sb_load, &y);
}
static void sb_never(void) { NEVER(r1 == 0 && r2 == 0); }
static void sb_may(void) { MAY(r1 == 0 && r2 == 0); }
ALLOWED(sb_sc_stores, "a sequentially consistent store is no fence", sb_may, sb_left_store, sb_right_store);
FORBIDDEN(sb_sc_and_fence, "store and load, a fence at the other side", sb_never, sb_left_sc, sb_right_fence);

/* ---- fences ------------------------------------------------------------------------------------------------------- */

static void fence_write_two(void) {
    store_rlx(&x, 1);
    fence_rel(self_fence_rel);
    store_rlx(&z, 1);
    store_rlx(&y, 1);
}
static void fence_write_early(void) {
    fence_rel(self_fence_rel);
    store_rlx(&x, 1);
    store_rlx(&y, 1);
}
static void fence_write_changed(void) {
    store_rlx(&x, 1);
    fence_rel(self_fence_rel);
    add_rlx(&y, 1);
}
static void fence_read(void) {
    r1 = load_rlx(&y);
    fence_acq(self_fence_acq);
    r2 = load_rlx(&x);
}
static void fence_read_early(void) {
    fence_acq(self_fence_acq);
    r1 = load_rlx(&y);
    r2 = load_rlx(&x);
}
static void mp_never(void) { NEVER(r1 == 1 && r2 == 0); }
static void mp_may(void) { MAY(r1 == 1 && r2 == 0); }
FORBIDDEN(fence_all, "a release fence is before all later stores", mp_never, fence_write_two, fence_read);
FORBIDDEN(fence_change, "also before a read-modify-write", mp_never, fence_write_changed, fence_read);
ALLOWED(fence_early, "not after an earlier store", mp_may, fence_write_early, fence_read);
ALLOWED(fence_read_early, "an acquire fence before the load", mp_may, fence_write_two, fence_read_early);

static void light_write(void) {
    store_rlx(&x, 1);
    os_fence_light(self_light);
    store_rlx(&y, 1);
}
static void heavy_read(void) {
    r1 = load_rlx(&y);
    os_fence_heavy(self_heavy);
    r2 = load_rlx(&x);
}
static void light_read(void) {
    r1 = load_rlx(&y);
    os_fence_light(self_light);
    r2 = load_rlx(&x);
}
static void heavy_write(void) {
    store_rlx(&x, 1);
    os_fence_heavy(self_heavy);
    store_rlx(&y, 1);
}
FORBIDDEN(heavy_read, "message passing, the heavy fence at the reader", mp_never, light_write, heavy_read);
FORBIDDEN(heavy_write, "message passing, the heavy fence at the writer", mp_never, heavy_write, light_read);
LITMUS(light_both, "message passing, two light fences", light_write, light_read), .check = mp_may,
    .must_see = BIT(0) | BIT(1), .flags = EXPLORE_ALWAYS_LIGHT);
/* Of three threads each pair has one that pays. */
static void heavy_third(void) {
    store_rlx(&x, 1);
    os_fence_heavy(self_heavy);
    r1 = load_rlx(&y);
    r2 = load_rlx(&z);
}
static void light_second(void) {
    store_rlx(&y, 1);
    os_fence_light(self_light);
    r3 = load_rlx(&x);
    r5 = load_rlx(&z);
}
static void light_third(void) {
    store_rlx(&z, 1);
    os_fence_light(self_light);
    r4 = load_rlx(&x);
    r6 = load_rlx(&y);
}
static void heavy_three_check(void) {
    EXPECT(!(r1 == 0 && r3 == 0) && !(r2 == 0 && r4 == 0));
    MAY(r5 == 0 && r6 == 0);
}
LITMUS(heavy_three, "one heavy fence for two light ones, which are none for each other", heavy_third, light_second,
       light_third), .check = heavy_three_check, .must_see = BIT(0) | BIT(1), .flags = EXPLORE_ALWAYS_LIGHT);

/* ---- read-modify-writes and release sequences --------------------------------------------------------------------- */

static void take_first(void) { r1 = xchg_rlx(&x, 1); }
static void take_second(void) { r2 = xchg_rlx(&x, 1); }
static void take_check(void) { NEVER(r1 == r2); }
FORBIDDEN(xchg, "one of two exchanges is the first", take_check, take_first, take_second);

static void cas_first(void) {
    uint32_t seen = 0;
    r1 = cas_rlx(self_cas_one, &x, &seen, 1);
}
static void cas_second(void) {
    uint32_t seen = 0;
    r2 = cas_rlx(self_cas_one, &x, &seen, 2);
}
static void cas_check(void) { NEVER(r1 + r2 != 1 || load_rlx(&x) != (r1 ? 1 : 2)); }
FORBIDDEN(cas_one, "one of two wins", cas_check, cas_first, cas_second);

/* A store beside an addition is before or after it, never between its halves. */
static void add_one(void) { r1 = add_rlx(&x, 1); }
static void store_five(void) { store_rlx(&x, 5); }
static void add_beside_check(void) {
    uint32_t last = load_rlx(&x);
    EXPECT((r1 == 0 && last == 5) || (r1 == 5 && last == 6));
    MAY(last == 5);
}
ALLOWED(add_beside, "a store beside an addition", add_beside_check, add_one, store_five);

static void write_released(void) {
    plain_write(&data, sizeof data);
    data = 7;
    store_rel(self_release, &x, 10);
}
static void write_released_and_more(void) {
    write_released();
    store_rlx(&x, 20);
}
static void write_released_and_changed(void) {
    write_released();
    add_rlx(&x, 10);
}
static void add_ten(void) { add_rlx(&x, 10); }
static void copy(void) {
    if (load_rlx(&x) == 10) store_rlx(&x, 20);
}
static void read_when(uint32_t value) {
    if (load_acq(self_acquire, &x) != value) return;
    plain_read(&data, sizeof data);
    EXPECT(data == 7);
    explore_observe(0);
}
static void read_20(void) { read_when(20); }
static void read_30(void) { read_when(30); }
static void read_31(void) { read_when(31); }
#define SEQUENCE(name, text, ...) LITMUS(name, text, __VA_ARGS__), .must_see = BIT(0))
#define BROKEN(name, text, ...) LITMUS(name, text, __VA_ARGS__), .flags = EXPLORE_MUST_FAIL, .fails_with = "race")
SEQUENCE(sequence_two, "two changes by others pass a release on", write_released, add_ten, add_ten, read_30);
SEQUENCE(sequence_own, "a change by its own thread does", write_released_and_changed, read_20);
BROKEN(sequence_store, "a later store of its own thread does not", write_released_and_more, read_20);
BROKEN(sequence_copy, "a store by another does not", write_released, copy, read_20);
/* What a change reads of a store that has broken the sequence passes nothing on either. */
static void add_eleven(void) {
    if (load_rlx(&x) == 20) add_rlx(&x, 11);
}
BROKEN(sequence_after_store, "nor a change after it", write_released_and_more, add_eleven, read_31);
/* A change that releases begins a sequence of its own and goes on with the other. */
static void add_released(void) {
    r1 = 1;
    add_rel(self_add_release, &x, 10);
}
SEQUENCE(sequence_both, "also a change that releases, too", write_released, add_released, add_ten, read_30);

/* ---- the futex ---------------------------------------------------------------------------------------------------- */

static void futex_write(void) {
    store_rlx(&x, 1);
    add_rlx(&word, 1);
    os_wake(&word, 1);
}
static void futex_sleep(void) {
    while (load_rlx(&word) == 0) os_wait(&word, 0, 0);
    r1 = 1;
    r2 = load_rlx(&x);
}
LITMUS(futex, "a sleeper is woken, and nothing else is ordered", futex_write, futex_sleep), .check = mp_may,
    .must_see = BIT(0) | BIT(1), .flags = EXPLORE_NO_RESCUE);
static void futex_once(void) {
    bool was_woken = os_wait(&word, 0, 0) == OS_WOKEN;
    EXPECT(was_woken);
    explore_observe(load_rlx(&word));
}
LITMUS(futex_spurious, "a sleep that returns with the word unchanged", futex_write, futex_once),
    .must_see = BIT(0) | BIT(1));
/* One wake is for one sleeper. */
static void futex_sleep_long(void) { os_wait(&word, 0, 0); }
static void futex_wake_one(void) { os_wake(&word, 1); }
LITMUS(futex_one, "one wake for two sleepers", futex_sleep_long, futex_sleep_long, futex_wake_one),
    .flags = EXPLORE_MUST_FAIL | EXPLORE_NO_RESCUE, .fails_with = "lost wake-up");

/* A store comes before one that another has changed since: between 0 and 1, though nothing may come between 1 and 11. */
static void change_and_tell(void) {
    while (load_rlx(&x) == 0) os_pause();
    r1 = add_rlx(&x, 10);
    store_rlx(&y, 1);
}
static void hear_and_store(void) {
    while (load_rlx(&y) == 0) os_pause();
    store_rlx(&x, 2);
}
static void before_check(void) {
    EXPECT(r1 == 1 && (load_rlx(&x) == 2 || load_rlx(&x) == 11));
    MAY(load_rlx(&x) == 11);
}
ALLOWED(store_before_change, "a store comes before a store and its change", before_check, x_is_1, change_and_tell,
        hear_and_store);
