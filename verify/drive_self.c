/* drive_self.c: the explorer on programs whose outcomes are known: litmus tests of the memory model, races, lifetimes. What
 * C11 forbids must never appear; what it allows must (must_see), except where model.c says otherwise. */
#include "explore.h"

static ATOMIC(uint32_t) x, y, z;
static uint32_t r1, r2, r3, r4;
static uint32_t data;

static void zero(void) {
    store_rlx(&x, 0);
    store_rlx(&y, 0);
    store_rlx(&z, 0);
    r1 = r2 = r3 = r4 = data = 0;
}

#define BIT(outcome) (1u << (outcome))

/* ---- message passing ---------------------------------------------------------------------------------------------- */

static void mp_write_rel(void) {
    store_rlx(&x, 1);
    store_rel(self_mp_rel, &y, 1);
}
static void mp_write_rlx(void) {
    store_rlx(&x, 1);
    store_rlx(&y, 1);
}
static void mp_write_fence(void) {
    store_rlx(&x, 1);
    fence_rel(self_mp_fence_rel);
    store_rlx(&y, 1);
}
static void mp_read_acq(void) {
    r1 = load_acq(self_mp_acq, &y);
    r2 = load_rlx(&x);
}
static void mp_read_rlx(void) {
    r1 = load_rlx(&y);
    r2 = load_rlx(&x);
}
static void mp_read_fence(void) {
    r1 = load_rlx(&y);
    fence_acq(self_mp_fence_acq);
    r2 = load_rlx(&x);
}
static void observe_two(void) { explore_observe(r1 * 2 + r2); }
static void mp_check(void) {
    EXPECT(!(r1 == 1 && r2 == 0));
    observe_two();
}
#define MP_STRONG (BIT(0) | BIT(1) | BIT(3))
EXPLORE_DRIVER(self_mp, .about = "message passing, release and acquire", .setup = zero,
               .threads = {mp_write_rel, mp_read_acq}, .check = mp_check, .must_see = MP_STRONG);
EXPLORE_DRIVER(self_mp_fences, .about = "message passing, release and acquire fences", .setup = zero,
               .threads = {mp_write_fence, mp_read_fence}, .check = mp_check, .must_see = MP_STRONG);
EXPLORE_DRIVER(self_mp_weak_store, .about = "message passing, relaxed store", .setup = zero,
               .threads = {mp_write_rlx, mp_read_acq}, .check = observe_two, .must_see = MP_STRONG | BIT(2));
EXPLORE_DRIVER(self_mp_weak_load, .about = "message passing, relaxed load", .setup = zero,
               .threads = {mp_write_rel, mp_read_rlx}, .check = observe_two, .must_see = MP_STRONG | BIT(2));

/* ---- store buffering ---------------------------------------------------------------------------------------------- */

static void sb_left(void) {
    store_rel(self_sb_rel, &x, 1);
    r1 = load_acq(self_sb_acq, &y);
}
static void sb_right(void) {
    store_rel(self_sb_rel, &y, 1);
    r2 = load_acq(self_sb_acq, &x);
}
static void sb_left_fence(void) {
    store_rlx(&x, 1);
    fence_sc(self_sb_fence);
    r1 = load_rlx(&y);
}
static void sb_right_fence(void) {
    store_rlx(&y, 1);
    fence_sc(self_sb_fence);
    r2 = load_rlx(&x);
}
static void sb_left_sc(void) {
    store_sc(self_sb_sc, &x, 1);
    r1 = load_sc(self_sb_sc, &y);
}
static void sb_right_sc(void) {
    store_sc(self_sb_sc, &y, 1);
    r2 = load_sc(self_sb_sc, &x);
}
static void sb_left_light(void) {
    store_rlx(&x, 1);
    os_fence_light(self_sb_light);
    r1 = load_rlx(&y);
}
static void sb_right_heavy(void) {
    store_rlx(&y, 1);
    os_fence_heavy(self_sb_heavy);
    r2 = load_rlx(&x);
}
static void sb_right_light(void) {
    store_rlx(&y, 1);
    os_fence_light(self_sb_light);
    r2 = load_rlx(&x);
}
static void sb_left_change(void) {
    add_acq_rel(self_sb_add, &x, 1);
    r1 = load_acq(self_sb_acq, &y);
}
static void sb_right_change(void) {
    add_acq_rel(self_sb_add, &y, 1);
    r2 = load_acq(self_sb_acq, &x);
}
static void sb_left_rmw(void) {
    add_rlx(&x, 1);
    fence_rmw_sc(self_sb_rmw);
    r1 = load_rlx(&y);
}
static void sb_left_store(void) {
    add_rlx(&z, 1);
    store_rlx(&x, 1);
    fence_rmw_sc(self_sb_rmw);
    r1 = load_rlx(&y);
}
static void sb_left_store_first(void) {
    store_rlx(&x, 1);
    uint32_t none = 1;
    (void)cas_rlx(self_sb_cas, &z, &none, 2); /* one that fails, too */
    fence_rmw_sc(self_sb_rmw);
    r1 = load_rlx(&y);
}
static void sb_check(void) {
    EXPECT(r1 == 1 || r2 == 1);
    observe_two();
}
#define SB_STRONG (BIT(1) | BIT(2) | BIT(3))
EXPLORE_DRIVER(self_sb, .about = "store buffering, release and acquire", .setup = zero, .threads = {sb_left, sb_right},
               .check = observe_two, .must_see = SB_STRONG | BIT(0));
EXPLORE_DRIVER(self_sb_fences, .about = "store buffering, full fences", .setup = zero,
               .threads = {sb_left_fence, sb_right_fence}, .check = sb_check, .must_see = SB_STRONG);
EXPLORE_DRIVER(self_sb_sc, .about = "store buffering, sequentially consistent accesses", .setup = zero,
               .threads = {sb_left_sc, sb_right_sc}, .check = sb_check, .must_see = SB_STRONG);
EXPLORE_DRIVER(self_sb_one_fence, .about = "store buffering, one fence missing", .setup = zero,
               .threads = {sb_left_fence, sb_right}, .check = observe_two, .must_see = SB_STRONG | BIT(0));
EXPLORE_DRIVER(self_sb_asymmetric, .about = "store buffering, light and heavy fence", .setup = zero,
               .threads = {sb_left_light, sb_right_heavy}, .check = sb_check, .must_see = SB_STRONG);
EXPLORE_DRIVER(self_sb_light, .about = "the same where the light fence binds the compiler alone", .setup = zero,
               .threads = {sb_left_light, sb_right_heavy}, .check = sb_check, .must_see = SB_STRONG,
               .flags = EXPLORE_ALWAYS_LIGHT);
EXPLORE_DRIVER(self_sb_two_light, .about = "store buffering, two light fences are none", .setup = zero,
               .threads = {sb_left_light, sb_right_light}, .check = observe_two, .must_see = SB_STRONG | BIT(0));
EXPLORE_DRIVER(self_sb_two_light_full, .about = "store buffering, light fences without membarrier", .setup = zero,
               .threads = {sb_left_light, sb_right_light}, .check = sb_check, .must_see = SB_STRONG,
               .flags = EXPLORE_ALWAYS_FULL);
EXPLORE_DRIVER(self_sb_changes, .about = "store buffering, a read-modify-write is no fence", .setup = zero,
               .threads = {sb_left_change, sb_right_change}, .check = observe_two, .must_see = SB_STRONG | BIT(0));
EXPLORE_DRIVER(self_sb_rmw, .about = "store buffering, a fence after a read-modify-write", .setup = zero,
               .threads = {sb_left_rmw, sb_right_fence}, .check = sb_check, .must_see = SB_STRONG);
EXPLORE_DRIVER(self_sb_locked, .about = "the same where the read-modify-write alone is the fence", .setup = zero,
               .threads = {sb_left_rmw, sb_right_fence}, .check = sb_check, .must_see = SB_STRONG, .flags = EXPLORE_LOCKED);
EXPLORE_DRIVER(self_sb_locked_after, .about = "so it orders what was stored before it", .setup = zero,
               .threads = {sb_left_store_first, sb_right_fence}, .check = sb_check, .must_see = SB_STRONG,
               .flags = EXPLORE_LOCKED);
EXPLORE_DRIVER(self_sb_locked_store, .about = "but not what was stored after it", .setup = zero,
               .threads = {sb_left_store, sb_right_fence}, .check = observe_two, .must_see = SB_STRONG | BIT(0),
               .flags = EXPLORE_LOCKED);
EXPLORE_DRIVER(self_sb_store, .about = "which a fence of its own orders", .setup = zero,
               .threads = {sb_left_store, sb_right_fence}, .check = sb_check, .must_see = SB_STRONG);

/* ---- independent reads of independent writes ---------------------------------------------------------------------- */

static void write_x(void) { store_rel(self_iriw_rel, &x, 1); }
static void write_y(void) { store_rel(self_iriw_rel, &y, 1); }
static void iriw_left(void) {
    r1 = load_acq(self_iriw_acq, &x);
    r2 = load_acq(self_iriw_acq, &y);
}
static void iriw_right(void) {
    r3 = load_acq(self_iriw_acq, &y);
    r4 = load_acq(self_iriw_acq, &x);
}
static void iriw_left_fence(void) {
    r1 = load_rlx(&x);
    fence_sc(self_iriw_fence);
    r2 = load_rlx(&y);
}
static void iriw_right_fence(void) {
    r3 = load_rlx(&y);
    fence_sc(self_iriw_fence);
    r4 = load_rlx(&x);
}
static void iriw_observe(void) { explore_observe(r1 == 1 && r2 == 0 && r3 == 1 && r4 == 0); }
static void iriw_check(void) {
    EXPECT(!(r1 == 1 && r2 == 0 && r3 == 1 && r4 == 0));
    explore_observe(0);
}
EXPLORE_DRIVER(self_iriw, .about = "two readers disagree, release and acquire", .setup = zero,
               .threads = {write_x, write_y, iriw_left, iriw_right}, .check = iriw_observe, .must_see = BIT(0) | BIT(1));
EXPLORE_DRIVER(self_iriw_fences, .about = "two readers agree, full fences", .setup = zero,
               .threads = {write_x, write_y, iriw_left_fence, iriw_right_fence}, .check = iriw_check, .must_see = BIT(0));

/* ---- coherence ---------------------------------------------------------------------------------------------------- */

static void write_two(void) {
    store_rlx(&x, 1);
    store_rlx(&x, 2);
}
static void read_two(void) {
    r1 = load_rlx(&x);
    r2 = load_rlx(&x);
}
static void corr_check(void) {
    EXPECT(r2 >= r1);
    explore_observe(r1 * 3 + r2);
}
EXPLORE_DRIVER(self_corr, .about = "reads of one location never go back", .setup = zero, .threads = {write_two, read_two},
               .check = corr_check, .must_see = BIT(0) | BIT(1) | BIT(2) | BIT(4) | BIT(5) | BIT(8));

static void w22_left(void) {
    store_rlx(&x, 1);
    store_rlx(&y, 2);
}
static void w22_right(void) {
    store_rlx(&y, 1);
    store_rlx(&x, 2);
}
static void w22_left_fence(void) {
    store_rlx(&x, 1);
    fence_sc(self_w22_fence);
    store_rlx(&y, 2);
}
static void w22_right_fence(void) {
    store_rlx(&y, 1);
    fence_sc(self_w22_fence);
    store_rlx(&x, 2);
}
static void w22_observe(void) { explore_observe((load_rlx(&x) - 1) * 2 + load_rlx(&y) - 1); }
static void w22_check(void) {
    EXPECT(!(load_rlx(&x) == 1 && load_rlx(&y) == 1));
    w22_observe();
}
EXPLORE_DRIVER(self_2w2w, .about = "both first stores come last, relaxed", .setup = zero, .threads = {w22_left, w22_right},
               .check = w22_observe, .must_see = BIT(0) | BIT(1) | BIT(2) | BIT(3));
EXPLORE_DRIVER(self_2w2w_fences, .about = "both first stores come last: not with full fences", .setup = zero,
               .threads = {w22_left_fence, w22_right_fence}, .check = w22_check, .must_see = BIT(1) | BIT(2) | BIT(3));

/* ---- read-modify-writes ------------------------------------------------------------------------------------------- */

static void add_three(void) {
    for (int i = 0; i < 3; i++) add_rlx(&x, 1);
}
static void cas_three(void) {
    for (int i = 0; i < 3; i++)
        for (uint32_t seen = load_rlx(&x); !cas_rlx(self_cas, &x, &seen, seen + 1);) continue;
}
static void add_check(void) { EXPECT(load_rlx(&x) == 9); }
EXPLORE_DRIVER(self_add, .about = "additions lose nothing", .setup = zero, .threads = {add_three, add_three, cas_three},
               .check = add_check);

static void sequence_change(void) { add_rlx(&x, 1); }
static void sequence_read_data(void) {
    uint32_t seen = load_acq(self_sequence_acq, &x);
    if (seen != 11) return;
    plain_read(&data, sizeof data);
    EXPECT(data == 7);
    explore_observe(1);
}
static void sequence_write_ten(void) {
    plain_write(&data, sizeof data);
    data = 7;
    store_rel(self_sequence_rel, &x, 10);
}
EXPLORE_DRIVER(self_release_sequence, .about = "a relaxed read-modify-write passes a release on", .setup = zero,
               .threads = {sequence_write_ten, sequence_change, sequence_read_data}, .must_see = BIT(1));

/* ---- plain accesses and lifetimes --------------------------------------------------------------------------------- */

static void data_write_rlx(void) {
    plain_write(&data, sizeof data);
    data = 1;
    store_rlx(&x, 1);
}
static void data_write_rel(void) {
    plain_write(&data, sizeof data);
    data = 1;
    store_rel(self_data_rel, &x, 1);
}
static void data_read(void) {
    if (load_acq(self_data_acq, &x) == 0) return;
    plain_read(&data, sizeof data);
    EXPECT(data == 1);
    explore_observe(0);
}
EXPLORE_DRIVER(self_data, .about = "published data", .setup = zero, .threads = {data_write_rel, data_read},
               .must_see = BIT(0));
EXPLORE_DRIVER(self_data_race, .about = "data published by a relaxed store", .setup = zero,
               .threads = {data_write_rlx, data_read}, .flags = EXPLORE_MUST_FAIL, .fails_with = "race");

static ATOMIC(struct { ATOMIC(uint32_t) word; } *) shared;
static void free_setup(void) {
    zero();
    store_rlx(&shared, NULL);
}
static void free_publish(void) {
    EXPLORE_TYPE(&shared) object = os_alloc(sizeof *object);
    store_rel(self_free_rel, &shared, object);
    while (load_acq(self_free_acq, &y) == 0) os_pause();
    os_free(object);
}
static void free_publish_soon(void) {
    EXPLORE_TYPE(&shared) object = os_alloc(sizeof *object);
    store_rel(self_free_rel, &shared, object);
    while (load_rlx(&y) == 0) os_pause();
    os_free(object);
}
static void free_publish_rlx(void) {
    EXPLORE_TYPE(&shared) object = os_alloc(sizeof *object);
    store_rlx(&shared, object);
    while (load_acq(self_free_acq, &y) == 0) os_pause();
    os_free(object);
}
static void free_use(void) {
    EXPLORE_TYPE(&shared) object;
    while ((object = load_acq(self_free_acq, &shared)) == NULL) os_pause();
    store_rlx(&object->word, 1);
    store_rel(self_free_rel, &y, 1);
}
static void free_use_late(void) {
    EXPLORE_TYPE(&shared) object;
    while ((object = load_acq(self_free_acq, &shared)) == NULL) os_pause();
    store_rel(self_free_rel, &y, 1);
    store_rlx(&object->word, 1);
}
EXPLORE_DRIVER(self_free, .about = "memory released after its last use", .setup = free_setup,
               .threads = {free_publish, free_use});
EXPLORE_DRIVER(self_free_early, .about = "memory used after its release", .setup = free_setup,
               .threads = {free_publish, free_use_late}, .flags = EXPLORE_MUST_FAIL,
               .fails_with = "use after free|plain access, atomic access");
EXPLORE_DRIVER(self_free_race, .about = "released after a relaxed load of the last use", .setup = free_setup,
               .threads = {free_publish_soon, free_use}, .flags = EXPLORE_MUST_FAIL, .fails_with = "race");
EXPLORE_DRIVER(self_free_unseen, .about = "memory published by a relaxed store", .setup = free_setup,
               .threads = {free_publish_rlx, free_use}, .flags = EXPLORE_MUST_FAIL, .fails_with = "before its making");

/* ---- threads, mutexes, deadlock ----------------------------------------------------------------------------------- */

static os_mutex lock_a, lock_b;
static void lock_setup(void) {
    zero();
    store_rlx(&lock_a.word, 0);
    store_rlx(&lock_b.word, 0);
}
static void lock_add(void) {
    for (int i = 0; i < 2; i++) {
        os_lock(&lock_a);
        plain_write(&data, sizeof data);
        data++;
        os_unlock(&lock_a);
    }
}
static void lock_check(void) { EXPECT(data == 6); }
EXPLORE_DRIVER(self_mutex, .about = "a mutex excludes and publishes", .setup = lock_setup,
               .threads = {lock_add, lock_add, lock_add}, .check = lock_check);

static void lock_ab(void) {
    os_lock(&lock_a);
    os_lock(&lock_b);
    os_unlock(&lock_b);
    os_unlock(&lock_a);
}
static void lock_ba(void) {
    os_lock(&lock_b);
    os_lock(&lock_a);
    os_unlock(&lock_a);
    os_unlock(&lock_b);
}
EXPLORE_DRIVER(self_deadlock, .about = "two mutexes in two orders", .setup = lock_setup, .threads = {lock_ab, lock_ba},
               .flags = EXPLORE_MUST_FAIL, .fails_with = "lost wake-up");

static void spin_forever(void) {
    while (load_rlx(&x) == 0) os_pause();
}
EXPLORE_DRIVER(self_livelock, .about = "a spin that nobody ends", .setup = zero, .threads = {spin_forever},
               .flags = EXPLORE_MUST_FAIL, .fails_with = "livelock");
static void spin_end(void) { store_rlx(&x, 1); }
EXPLORE_DRIVER(self_spin, .about = "a spin that another thread ends", .setup = zero, .threads = {spin_forever, spin_end},
               .steps_max = 2000);

static void child(void *argument) {
    (void)argument;
    plain_write(&data, sizeof data);
    data = 5;
}
static void start_and_join(void) {
    os_thread thread;
    plain_write(&data, sizeof data);
    data = 4;
    if (os_thread_start(&thread, NULL, child, NULL) != 0) {
        explore_observe(0);
        return;
    }
    os_thread_join(thread);
    plain_read(&data, sizeof data);
    EXPECT(data == 5);
    explore_observe(1);
}
EXPLORE_DRIVER(self_threads, .about = "start and join publish", .setup = zero, .threads = {start_and_join},
               .flags = EXPLORE_THREADS_FAIL, .must_see = BIT(0) | BIT(1));
