/* heap_purge.c: the opt-in thread that gives memory back. Layer 2.
 *
 * Without it, threads that allocate and free take the turns of decay. The purge thread takes them instead, every half decay time,
 * also while all other threads sleep. It empties the LRUs, strips ended threads' heaps, and adopts their slabs for a moment to
 * collect freed blocks. If two turns in a row found nothing to do, it sleeps until a slab becomes empty, a large block is
 * freed, a thread ends, or a block of another thread is freed.
 *
 * The state word is NONE, AWAKE, ASLEEP, CHANGING or STOPPING. It is CHANGING while one thread starts or stops the purge
 * thread; meanwhile other threads get WEFT_EBUSY, and the purge thread waits until the change is over. The word also holds
 * the count of forks: a child treats its parent's word as NONE, even if it was CHANGING, so no thread waits for one that
 * does not exist in the child.
 *
 *   A thread that frees             The purge thread
 *     1. frees the slots              1. word = ASLEEP
 *     2. (light fence)                2. heavy fence
 *     3. word is ASLEEP? wakes        3. something to give back? goes on; else sleeps
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   W1  change_begin: CAS word   acquire  W2  the handle is read before it was written, or written while another thread
 *                                             still reads it; split: two threads are started, or two join one
 *   W2  purge_set: store word    release  W1  see W1
 *   W3  purge_sleep: CAS word    relaxed  -   split: a change is overwritten, and its join never ends
 *   W5  purge_sleep: heavy fence heavy    W4  see W4
 */
#include "heap/heap.h"

#define IDLE_TURNS 2 /* with nothing to do, before it sleeps */

static PROCESS_STATE os_thread thread;

static uint32_t state_of(uint32_t word) {
    uint32_t state = word & PURGE_MASK;
    return word == purge_word_of(state) ? state : (uint32_t)PURGE_NONE;
}

/* ---- the thread --------------------------------------------------------------------------------------------------- */

/* For the purge thread, which has a heap. */
static bool heaps_wait(void) {
    if (!tagged_is_empty(&heaps.idle) || !tagged_is_empty(&heaps.ended) || !inbox_is_empty(&heap_mine()->inbox)) return true;
    for (struct heap *heap = heaps_all(); heap != NULL; heap = load_rlx(&heap->older))
        if (load_rlx(&heap->lru) != NULL) return true;
    return heap_asleep_waits(heaps_all());
}

static bool slots_wait(void) {
    if (kept_bytes() != 0) return true;
    for (const struct heap_segment *segment = depot_all(); segment != NULL; segment = load_rlx(&segment->older))
        if ((load_rlx(&segment->free) & load_rlx(&segment->dirty) & ~LISTED) != 0) return true;
    return false;
}

/* Sleeps until there may be something to do, or the thread must wait or stop. */
static void purge_sleep(void) {
    uint32_t found = purge_word_of(PURGE_AWAKE), asleep = purge_word_of(PURGE_ASLEEP);
    if (!cas_rlx(W3, &purge_word, &found, asleep)) return;
    os_fence_heavy(W5);
    if (heaps_wait() || slots_wait()) purge_wake();
    while (load_rlx(&purge_word) == asleep) os_wait(&purge_word, asleep, 0);
}

static void purge_turn(int *idle) {
    struct heap *heap = heap_get();
    if (heap != NULL) {
        *idle = heaps_wait() || slots_wait() ? 0 : *idle + 1;
        heap_decay_turn(heap);
    }
    if (*idle >= IDLE_TURNS) {
        purge_sleep();
        *idle = 0;
    }
    os_wait(&purge_word, purge_word_of(PURGE_AWAKE), os_now_ns() + heap_decay_period_ns());
}

static void purge_main(void *unused) {
    (void)unused;
    uint32_t changing = purge_word_of(PURGE_CHANGING), stopping = purge_word_of(PURGE_STOPPING), word;
    for (int idle = 0; (word = load_rlx(&purge_word)) != stopping;) {
        if (word == changing)
            os_wait(&purge_word, changing, 0);
        else
            purge_turn(&idle);
    }
}

/* ---- its life ----------------------------------------------------------------------------------------------------- */

static int thread_begin(void) {
    os_thread_options options = {.name = "weft-purge"};
    plain_write(&thread, sizeof thread);
    return os_thread_start(&thread, &options, purge_main, NULL) == 0 ? WEFT_OK : WEFT_EAGAIN;
}

static void thread_end(void) {
    store_rlx(&purge_word, purge_word_of(PURGE_STOPPING));
    os_wake(&purge_word, 1);
    plain_read(&thread, sizeof thread);
    os_thread_join(thread);
}

/* Makes the word CHANGING. false: another thread is changing it. *had: whether there is a purge thread. */
static bool change_begin(bool *had) {
    uint32_t found = load_rlx(&purge_word), state;
    do {
        state = state_of(found);
        if (state == PURGE_CHANGING || state == PURGE_STOPPING) return false;
    } while (!cas_acq(W1, &purge_word, &found, purge_word_of(PURGE_CHANGING)));
    *had = state != PURGE_NONE;
    return true;
}

int purge_set(bool wanted, int (*also)(void)) {
    bool had;
    os_init();
    if (!change_begin(&had)) return WEFT_EBUSY;
    int error = wanted && !had ? thread_begin() : WEFT_OK;
    bool has = had || (wanted && error == WEFT_OK);
    if (error == WEFT_OK && also != NULL) error = also();
    bool keeps = error == WEFT_OK ? wanted : had;
    if (has && !keeps) thread_end();
    store_rel(W2, &purge_word, keeps ? purge_word_of(PURGE_AWAKE) : (uint32_t)PURGE_NONE);
    if (keeps) os_wake(&purge_word, 1);
    return error;
}

#if !defined(WEFT_EXPLORE)
/* The thread must not outlive the code that it runs. */
__attribute__((destructor)) static void purge_end(void) { purge_set(false, NULL); }
#endif
