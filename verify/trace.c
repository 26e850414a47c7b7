/* trace.c: the last steps of a schedule, for the report of a failure and for --trace. */
#include "engine.h"

#include <stdio.h>
#include <string.h>

enum { STEPS_KEPT = 4096 };

static struct {
    step steps[STEPS_KEPT];
    uint32_t count;
    int32_t time, newest; /* the next step's */
} T;

void trace_begin(void) { T.count = 0; }

static const char *base_name(const char *file) {
    const char *slash = strrchr(file, '/');
    return slash == NULL ? file : slash + 1;
}

static void print_value(uint64_t value) {
    if (value < 100000)
        printf(" %llu", (unsigned long long)value);
    else
        printf(" %#llx", (unsigned long long)value);
}

static void print_step(const step *s) {
    static const char *const orders[] = {"rlx", "acq", "rel", "acq_rel", "", "", "", "sc"};
    char name[64] = "";
    if (s->address != 0) block_name(s->address, name, sizeof name);
    printf("%6u  T%-2u %-12s", s->number, s->thread, s->what);
    if (s->site != NULL)
        printf(" %-5s %-7s %s:%d", s->site->tag, orders[s->site->order], base_name(s->site->file), s->site->line);
    printf("  %s", name);
    print_value(s->value);
    if (s->value2 != 0) print_value(s->value2);
    if (s->newest != 0) printf("  @%d%s", s->time, s->time != s->newest ? " not the newest" : "");
    printf("\n");
}

void trace_place(int32_t time, int32_t newest) {
    T.time = time;
    T.newest = newest;
}

void trace_step(const char *what, const explore_site *site, uintptr_t address, uint64_t value, uint64_t value2) {
    step *s = &T.steps[T.count++ % STEPS_KEPT];
    *s = (step){what, site, address, value, value2, T.time, T.newest, R.current->id, R.steps};
    trace_place(0, 0);
    if (R.trace) print_step(s);
}

void trace_print(uint32_t last) {
    uint32_t kept = T.count < STEPS_KEPT ? T.count : STEPS_KEPT;
    if (last > kept) last = kept;
    for (uint32_t i = T.count - last; i != T.count; i++) print_step(&T.steps[i % STEPS_KEPT]);
}
