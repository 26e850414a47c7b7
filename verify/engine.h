/* engine.h: what the explorer's own files share. Drivers see explore.h alone.
 *
 *     fiber.c   coroutines
 *     choose.c  every decision a schedule consists of: at random, by priorities, depth first
 *     thread.c  model threads: ready, asleep, deadlock
 *     model.c   the memory model
 *     foretell.c loads that read what is stored later
 *     race.c    plain accesses, memory blocks and their lifetime
 *     plain.c   what the compiler tells of plain accesses
 *     trace.c   the record of the last steps
 *     shrink.c  programs that fail, made smaller
 *     explore.c command line, the loop over schedules */
#ifndef WEFT_EXPLORE_ENGINE_H
#define WEFT_EXPLORE_ENGINE_H

#include "explore.h"
#include "fiber.h"

enum {
    THREADS_MAX = 16,
    HISTORY_MAX = 24, /* stores kept of a location */
    HISTORY_DROP = 8, /* oldest ones dropped at once when full */
    LOCATIONS_MAX = 16384,
    STALE_READS_MAX = 4, /* reads in a row by one thread of one location that may miss its newest store */
    STEPS_MAX_DEFAULT = 50000,
    STREAK_MAX = 500 /* steps one thread may run while others are ready */
};

/* How a failure begins that says nothing of what runs, but that the explorer has no room for it: kills no mutant. */
#define LIMIT "limit of the explorer: "

/* What a thread, or the message of a store, knows. */
struct view {
    int32_t clock[THREADS_MAX]; /* happens-before: the last known epoch of each thread */
    uint64_t born;              /* of a message: foretell_loads */
    uint32_t n;                 /* times in use; the others are 0 */
    int32_t time[];             /* by location: the oldest store that may still be read */
};

struct line;

struct write {
    uint64_t value;
    const struct view *message; /* what an acquiring reader learns; NULL: nothing */
    int32_t time;               /* its place in the modification order */
    uint8_t thread;
    bool change; /* by a read-modify-write: nothing may come between it and the store before */
};

struct location {
    uintptr_t address; /* 0: memory was written plainly or released since; another location took its place */
    uint32_t size;
    uint32_t count;
    struct line *line;
    uint32_t next_in_line;
    struct write writes[HISTORY_MAX];
    int32_t touched[THREADS_MAX]; /* epoch of each thread's last access, last write */
    int32_t written[THREADS_MAX];
};

enum thread_state { THREAD_UNUSED, THREAD_READY, THREAD_ASLEEP, THREAD_DONE };
enum sleep_kind { SLEEP_WORD, SLEEP_MUTEX, SLEEP_JOIN };

struct thread {
    struct fiber fiber;
    uint32_t id;
    enum thread_state state;
    void (*entry)(void *);
    void *argument;
    struct view *now;            /* what it knows */
    struct view *pending;        /* what it would know after an acquire fence */
    const struct view *released; /* what it knew at its last release fence; NULL: had none */
    const struct view
        *unfenced; /* what it knew before a heavy fence reached it since it came to its last store; NULL: none has */
    bool hoists;   /* a mutant: no light fence keeps its next loads behind that store */
    uint8_t stale[LOCATIONS_MAX];
    enum sleep_kind sleeps;
    const void *sleeps_on;
    uint64_t deadline_ns; /* 0: none */
    bool timed_out;
    bool paused;           /* wants another thread to run */
    bool no_maps, no_room; /* explore_memory */
    bool no_unmaps;        /* explore_unmaps */
    bool is_fifo, yields;  /* runs whenever it can, but for one turn after os_yield */
    int32_t priority;
    uint32_t streak;
    uint32_t stands_until; /* does not run before this step while another can */
    os_self self;
};

enum mode { MODE_MIX, MODE_RANDOM, MODE_PCT, MODE_DFS };

/* The schedule being run. */
typedef struct run {
    const explore_driver *driver;
    uint64_t seed;
    enum mode mode; /* never MODE_MIX */
    uint64_t random;
    struct thread *threads; /* THREADS_MAX */
    uint32_t thread_count;
    struct thread *current;
    struct fiber engine;
    uint32_t steps, steps_max;
    uint64_t hash;
    uint32_t observed;
    bool failed, trace;
    char failure[1024];
    /* chances in 256, drawn for each schedule */
    uint32_t switch_chance, stale_chance, insert_chance, timeout_chance;
    uint32_t weak_budget, preempt_budget, spurious_budget, failure_budget;
    uint32_t change_points[8];
    int32_t priority_floor;
    uint64_t now_ns, tick_ns;
    bool asymmetric, barrier_is_lost;
    bool loses_barrier; /* light fences may become full ones in the middle */
    bool drops_light;   /* a mutant: a light fence is gone */
    bool locked;        /* read-modify-writes are full fences, and fence_rmw_sc is none, as on x86 */
    bool stacks;        /* a thread's accesses of its own stack count, too */
    const void *code;   /* of the plain access being checked, when the compiler announced it; else NULL */
    struct view *sc;    /* the order of the sequentially consistent operations */
} run;

extern run R;

/* choose.c */
void choose_begin(uint64_t seed, enum mode mode);
uint32_t choose(uint32_t n);                 /* one of n equal options; depth first: 0 first */
bool choose_rarely(uint32_t chance);         /* departs from the ordinary; in 256; depth first: while the budget lasts */
struct thread *choose_thread(bool may_stay); /* among the ready ones; NULL: none is */
void choose_first_dfs(void);                 /* before a driver's first schedule */
bool choose_next_dfs(void);                  /* the next schedule; false: all were run */
void choose_set_preemptions(uint32_t preemptions, uint32_t departures);

/* thread.c */
void threads_init(void);
void threads_begin(void);
struct thread *thread_create(void (*entry)(void *), void *argument);
void thread_sleep(enum sleep_kind kind, const void *on, uint64_t deadline_ns);
uint32_t thread_wake(enum sleep_kind kind, const void *on, uint32_t count);
void thread_run_schedule(void);
/* Before each visible step: other threads may run. */
void step_point(void);
/* The same, and the thread stands there for so many steps if others can run. */
void step_stand(uint32_t steps);

/* model.c */
void model_init(void);
void model_begin(void);
/* 0: the view knows nothing of that location. */
INLINE int32_t view_at(const struct view *v, uint32_t i) { return i < v->n ? v->time[i] : 0; }
void view_join(struct view *into, const struct view *from, bool clocks);
const struct view *view_copy(const struct view *from);
const struct view *
model_release(struct thread *self); /* what self knows, for another thread to acquire; a new epoch begins */
uint64_t model_newest(const void *address, size_t size); /* reads as the kernel does */
void model_sc_fence(struct thread *self);
void model_zero(uint32_t index); /* a store of 0, by os_purge */
struct location *model_location(uint32_t index);
void model_forget(struct location *l);
/* The thread has read that store, and has it in its view. */
void model_raise(struct thread *self, uint32_t index, const struct write *w, enum explore_order order);

/* foretell.c */
enum foretell { FORETELL_OFF, FORETELL_LOOK, FORETELL_TELL };
void foretell_begin(enum foretell phase); /* TELL: the schedule in which the last LOOK has found a pair, once more */
bool foretell_has_pair(void);
bool foretell_holds(void);
uint64_t foretell_loads(void); /* of the schedule so far */
/* A load has chosen to read that value: what it returns. */
uint64_t foretell_load(struct thread *self, uint32_t index, enum explore_order order, uint64_t value);
/* The running thread has stored. */
void foretell_store(uint32_t index, const struct write *w, bool is_newest);
/* The thread's loads of that location, or all its loads, must have been performed by now. `time`: of the store that it reads or
 * writes there. */
void foretell_touch(const struct thread *self, uint32_t index, int32_t time);
void foretell_close(const struct thread *self);

/* race.c */
/* Four bytes that were always read and written together; or else `split` is the number of what is known of each. */
struct granule {
    int32_t written; /* epoch of the last write; 0: none */
    int32_t read[THREADS_MAX];
    uint16_t split; /* 0: it is not */
    uint8_t writer;
};

struct line {
    uintptr_t key; /* address / CACHE_LINE */
    uint32_t generation;
    uint32_t first_location; /* chain by next_in_line; NO_LOCATION ends it */
    struct block *block;     /* NULL: not from os_map or os_alloc */
    struct line *next_in_block;
    int32_t purged; /* epoch of the last purge of it; 0: none */
    uint8_t purger;
    struct granule granules[CACHE_LINE / 4];
};

#define NO_LOCATION UINT32_MAX

void race_init(void);
void race_begin(void);
struct line *race_line(uintptr_t address);
void race_atomic(const struct location *l, bool write);
void race_plain(const void *pointer, size_t size, bool write);
void *block_new(size_t bytes, size_t alignment);
void block_free(void *memory, size_t bytes); /* bytes 0: not told */
void block_purge(void *memory, size_t bytes);
bool block_grow(void *memory, size_t bytes, size_t wanted);
/* "b3+64" or the bare address. */
void block_name(uintptr_t address, char *text, size_t size);

/* os_explore.c */
void os_begin(void);

/* trace.c */
typedef struct step {
    const char *what;
    const explore_site *site; /* or NULL */
    uintptr_t address;
    uint64_t value;
    uint64_t value2;
    int32_t time, newest; /* of the store read or written, and the newest of the location */
    uint32_t thread;
    uint32_t number;
} step;

void trace_begin(void);
/* The next step's store: its place in the modification order, and the newest. */
void trace_place(int32_t time, int32_t newest);
void trace_step(const char *what, const explore_site *site, uintptr_t address, uint64_t value, uint64_t value2);
void trace_print(uint32_t last);

/* explore.c */
/* With buffering twice; true: it was the second time, with a load that read a later store. R tells the rest. */
bool run_schedule(const explore_driver *driver, uint64_t seed);

/* shrink.c */
enum { CUTS_MAX = 400 };
struct cuts { /* a program of an explore_program, and what was taken from it, in this order */
    uint64_t program;
    uint32_t count;
    uint32_t cut[CUTS_MAX];
};
struct shrunk {
    struct cuts cuts;
    uint64_t seed, schedules;
    bool was_buffered;
    char failure[sizeof R.failure];
};
/* After a failed schedule of that seed. */
void shrink(const explore_driver *driver, const struct cuts *from, uint64_t seed, struct shrunk *shrunk);

/* A mark in the hash of the schedule. */
INLINE void run_mix(uint64_t x) {
    R.hash = (R.hash ^ x) * UINT64_C(0x9e3779b97f4a7c15);
    R.hash ^= R.hash >> 29;
}

#endif
