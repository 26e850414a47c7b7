/* heap_purge.c: the opt-in thread that gives memory back. Layer 2.
 *
 * Without it, turns of decay are taken by threads that allocate and free. The purge thread takes them in their place, every half
 * decay time, also while all of them sleep: it empties the LRUs, strips ended threads' heaps, and adopts their slabs for a moment to
 * collect what was freed. When two turns in a row found nothing to do it sleeps until a slab empties, a run is freed, a thread
 * ends or a block of an ended thread's is freed.
 *
 * The word: NONE, STARTING and STOPPING (one thread changes that; others are refused meanwhile, so nobody waits for a thread that a
 * fork left behind), AWAKE, ASLEEP. A child of fork has no purge thread, whatever the word says, until it asks for one.
 *
 *   Who frees                       The purge thread
 *     1. frees the slots              1. word = ASLEEP
 *     2. (light fence)                2. heavy fence
 *     3. word is ASLEEP? wakes        3. something to give back? goes on; else sleeps
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   W1  purge_start: CAS word       acquire  W8  the handle is written while who stopped still reads it; split: two threads are started
 *   W2  purge_start: store word     release  W3  who stops it reads a handle that was not written yet
 *   W3  purge_stop: CAS word        acquire  W2  see W2; split: two join one thread
 *   W4  purge_poke: light fence     light    W5  the thread sleeps while memory waits to be given back
 *   W5  purge_sleep: heavy fence    heavy    W4  see W4
 *   W6  purge_sleep: CAS word       relaxed  -   split: a stop is overwritten, and its join never ends
 *   W7  purge_wake: CAS word        relaxed  -   split: a stop is overwritten, and its join never ends
 *   W8  purge_stop: store word      release  W1  see W1
 *   W9  purge_start: load word      acquire  W2  the thread's process is read before it was written, and a second one started
 */
#include "heap.h"

enum { PURGE_NONE, PURGE_STARTING, PURGE_AWAKE, PURGE_ASLEEP, PURGE_STOPPING };

#define IDLE_TURNS 2 /* with nothing to do, before it sleeps */

static PROCESS_STATE struct {
    os_word word;
    os_thread thread;
    ATOMIC(uint64_t) process; /* that has the thread: its fork count and 1 */
} purge;

/* ---- the thread --------------------------------------------------------------------------------------------------- */

/* The thread has a heap. */
static bool heaps_wait(void) {
    if (!tagged_is_empty(&heaps.idle) || !inbox_is_empty(&heap_mine()->inbox)) return true;
    for (struct heap *heap = heaps_all(); heap != NULL; heap = load_rlx(&heap->older))
        if (load_rlx(&heap->lru) != NULL) return true;
    return false;
}

static bool slots_wait(void) {
    for (const struct segment *segment = depot_all(); segment != NULL; segment = load_rlx(&segment->older))
        if ((load_rlx(&segment->free) & load_rlx(&segment->dirty) & ~LISTED) != 0) return true;
    return false;
}

static void purge_wake(void) {
    uint32_t found = PURGE_ASLEEP;
    if (cas_rlx(W7, &purge.word, &found, (uint32_t)PURGE_AWAKE)) os_wake(&purge.word, 1);
}

/* Returns when there may be something to do, or the thread is to stop. */
static void purge_sleep(void) {
    uint32_t found = PURGE_AWAKE;
    if (!cas_rlx(W6, &purge.word, &found, (uint32_t)PURGE_ASLEEP)) return;
    os_fence_heavy(W5);
    if (heaps_wait() || slots_wait()) purge_wake();
    while (load_rlx(&purge.word) == PURGE_ASLEEP) os_wait(&purge.word, PURGE_ASLEEP, 0);
}

void purge_main(void *unused) {
    (void)unused;
    while (load_rlx(&purge.word) == PURGE_STARTING) os_wait(&purge.word, PURGE_STARTING, 0);
    for (int idle = 0; load_rlx(&purge.word) != PURGE_STOPPING;) {
        struct heap *heap = heap_get();
        if (heap != NULL) {
            idle = heaps_wait() || slots_wait() ? 0 : idle + 1;
            heap_decay_turn(heap);
        }
        if (idle >= IDLE_TURNS) {
            purge_sleep();
            idle = 0;
        }
        os_wait(&purge.word, PURGE_AWAKE, os_now_ns() + heap_decay_period_ns());
    }
}

void purge_poke(void) {
    if (LIKELY(load_rlx(&purge.word) == PURGE_NONE)) return;
    os_fence_light(W4);
    if (load_rlx(&purge.word) == PURGE_ASLEEP) purge_wake();
}

/* ---- its life ----------------------------------------------------------------------------------------------------- */

static int thread_begin(void) {
    os_thread_options options = {.name = "weft-purge"};
    plain_write(&purge.thread, sizeof purge.thread);
    store_rlx(&purge.process, os_fork_count() + 1);
    int error = os_thread_start(&purge.thread, &options, purge_main, NULL);
    store_rel(W2, &purge.word, (uint32_t)(error == 0 ? PURGE_AWAKE : PURGE_NONE));
    if (error == 0) os_wake(&purge.word, 1);
    return error == 0 ? WEFT_OK : WEFT_EAGAIN;
}

int purge_start(void) {
    os_init();
    uint32_t found = load_acq(W9, &purge.word);
    if (found == PURGE_AWAKE || found == PURGE_ASLEEP) {
        if (load_rlx(&purge.process) == os_fork_count() + 1) return WEFT_OK;
    } else if (found != PURGE_NONE) {
        return WEFT_EBUSY;
    }
    return cas_acq(W1, &purge.word, &found, (uint32_t)PURGE_STARTING) ? thread_begin() : WEFT_EBUSY;
}

int purge_stop(void) {
    uint32_t found = load_rlx(&purge.word);
    do {
        if (found == PURGE_NONE) return WEFT_OK;
        if (found != PURGE_AWAKE && found != PURGE_ASLEEP) return WEFT_EBUSY;
    } while (!cas_acq(W3, &purge.word, &found, (uint32_t)PURGE_STOPPING));
    os_wake(&purge.word, 1);
    plain_read(&purge.thread, sizeof purge.thread);
    os_thread_join(purge.thread);
    store_rel(W8, &purge.word, (uint32_t)PURGE_NONE);
    return WEFT_OK;
}

#if !defined(WEFT_EXPLORE)
/* The thread may not outlive the code it runs. */
__attribute__((destructor)) static void purge_end(void) { purge_stop(); }
#endif
