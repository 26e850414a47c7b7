/* drive_program.c: random programs under the explorer. Each driver draws a program from the number that the explorer gives
 * it, some schedules for each; spec.c judges. See program.h, play.h. */
#include "explore.h"
#include "play.h"
#include "spec.h"

#include <string.h>

enum { HERES = 16 };

/* No task counts as tiny or short: for those a worker may poll until its time has passed. See program_awake.c. */
void pool_stays_awake(weft_pool *pool);

static const struct program_limits limits = {.threads = 3,
                                             .workers = 2,
                                             .depth = 3,
                                             .ops = 4,
                                             .tasks = 48,
                                             .count = 3,
                                             .nested = 3,
                                             .pools = 2,
                                             .payload = 3000,
                                             .inline_max = 80,
                                             .nodes = 8,
                                             .is_model = true};
static const struct program_limits sound_limits = {.threads = 3,
                                                   .workers = 2,
                                                   .depth = 3,
                                                   .ops = 4,
                                                   .tasks = 30,
                                                   .count = 3,
                                                   .nested = 3,
                                                   .pools = 1,
                                                   .payload = 80,
                                                   .inline_max = 80,
                                                   .nodes = 8,
                                                   .is_model = true,
                                                   .is_sound = true};
/* Waits nested deeper than any table of weft's. */
static const struct program_limits deep_limits = {.threads = 2,
                                                  .workers = 2,
                                                  .depth = 2,
                                                  .ops = 3,
                                                  .tasks = 100,
                                                  .count = 2,
                                                  .nested = 40,
                                                  .pools = 1,
                                                  .payload = 80,
                                                  .inline_max = 80,
                                                  .nodes = 3,
                                                  .is_model = true};
/* Groups that outlive the task which submits to them, and what they say while it happens. */
static const struct program_limits crossed_limits = {.threads = 2,
                                                     .workers = 2,
                                                     .depth = 3,
                                                     .ops = 3,
                                                     .tasks = 12,
                                                     .count = 1,
                                                     .nested = 2,
                                                     .pools = 1,
                                                     .payload = 8,
                                                     .inline_max = 8,
                                                     .nodes = 1,
                                                     .is_model = true,
                                                     .is_bare = true};

static struct {
    struct program program;
    struct here here[HERES];
    mask known[PROGRAM_THREADS]; /* what each thread has left */
} world;

/* ---- the world of a program --------------------------------------------------------------------------------------- */

void *world_alloc(size_t bytes) {
    void *memory = os_alloc(bytes);
    if (memory == NULL) explore_fail("no memory for the program itself");
    return memory;
}
void world_free(void *memory) { os_free(memory); }
void world_group_end(weft_group *group) { os_free(group); }
void world_reads(const void *memory, size_t bytes) {
    if (bytes > 0) plain_read(memory, bytes);
}
void world_writes(const void *memory, size_t bytes) {
    if (bytes > 0) plain_write(memory, bytes);
}
void world_step(void) { explore_step(); }
uint64_t world_now_ns(void) { return os_now_ns(); }
struct here *world_here(void) {
    return &world.here[explore_self()];
}
void world_fail(const char *text) { explore_fail("%s", text); }

static bool make_with(uint64_t number, const uint32_t *cuts, uint32_t count, const struct program_limits *with) {
    bool changes = true;
    program_draw(&world.program, number, with);
    for (uint32_t i = 0; i < count; i++) changes = program_cut(&world.program, cuts[i]);
    return changes;
}
static bool make(uint64_t number, const uint32_t *cuts, uint32_t count) { return make_with(number, cuts, count, &limits); }
static bool make_sound(uint64_t number, const uint32_t *cuts, uint32_t count) {
    return make_with(number, cuts, count, &sound_limits);
}
static bool make_deep(uint64_t number, const uint32_t *cuts, uint32_t count) {
    return make_with(number, cuts, count, &deep_limits);
}
static bool make_crossed(uint64_t number, const uint32_t *cuts, uint32_t count) {
    return make_with(number, cuts, count, &crossed_limits);
}
static uint32_t ways(void) { return program_cuts(&world.program); }
static void print(FILE *file) { program_print(&world.program, file); }

/* ---- running it --------------------------------------------------------------------------------------------------- */

static void thread_main(void *argument) {
    const mask *known = argument;
    uint32_t thread = (uint32_t)(known - world.known);
    play_thread(thread, &world.known[thread]);
}

static void run_pool(uint32_t index) {
    os_thread started[PROGRAM_THREADS];
    const struct program_pool *pool = &world.program.pool[index];
    mask known = {{0}};
    play_begin(index);
    if (play.limits->is_sound) pool_stays_awake(play.pool);
    for (uint32_t i = 0; i < pool->threads; i++)
        EXPECT(os_thread_start(&started[i], &(os_thread_options){0}, thread_main, &world.known[i]) == 0);
    for (uint32_t i = 0; i < pool->threads; i++) os_thread_join(started[i]);
    for (uint32_t i = 0; i < pool->threads; i++)
        for (uint32_t k = 0; k < KNOWN / 64; k++) known.word[k] |= world.known[i].word[k];
    play_end(&known);
}

static void run_with(const struct program_limits *with) {
    for (uint32_t i = 0; i < HERES; i++) world.here[i].top = NULL;
    play_reset(&world.program, with);
    for (uint32_t i = 0; i < world.program.pools; i++) run_pool(i);
    play_finish();
}
static void run(void) { run_with(&limits); }
static void run_sound(void) { run_with(&sound_limits); }
static void run_deep(void) { run_with(&deep_limits); }
static void run_crossed(void) { run_with(&crossed_limits); }

static const explore_program any = {.make = make, .ways = ways, .print = print, .schedules = 12};
static const explore_program sound = {.make = make_sound, .ways = ways, .print = print, .schedules = 12};
static const explore_program deep = {.make = make_deep, .ways = ways, .print = print, .schedules = 4};
static const explore_program crossed = {.make = make_crossed, .ways = ways, .print = print, .schedules = 24};

EXPLORE_DRIVER(program_any, .about = "a program drawn from the seed", .check = run, .program = &any, .steps_max = 500000);
EXPLORE_DRIVER(program_sound, .about = "the same without deadlines, and no wake-up lost", .check = run_sound,
               .program = &sound, .steps_max = 500000, .flags = EXPLORE_NO_RESCUE);
EXPLORE_DRIVER(program_deep, .about = "programs whose waits are nested deep", .check = run_deep, .program = &deep,
               .steps_max = 1000000);
EXPLORE_DRIVER(program_crossed, .about = "tasks that submit to two groups, which others wait for", .check = run_crossed,
               .program = &crossed, .steps_max = 500000);
