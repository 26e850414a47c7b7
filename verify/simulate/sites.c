/* sites.c: what each place in the sources has cost: those of atomic operations by the linker's section, others by the address of
 * the code behind the call. See engine.h. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

enum { CODES_MAX = 1 << 16 };

static sim_site codes[CODES_MAX];

extern sim_site *const __start_sim_sites[], *const __stop_sim_sites[];

sim_site *site_of_code(uintptr_t code, enum sim_kind kind) {
    uint64_t at = (code * UINT64_C(0x9e3779b97f4a7c15)) >> 48;
    for (uint32_t i = 0; i < CODES_MAX; i++, at = (at + 1) % CODES_MAX) {
        if (LIKELY(codes[at].code == code)) return &codes[at];
        if (codes[at].code != 0) continue;
        codes[at] = (sim_site){.tag = "", .kind = kind, .code = code};
        return &codes[at];
    }
    sim_die("more than %d places in the sources", CODES_MAX);
}

sim_site *site_of_call(const void *code) {
    const sim_thread *self = sim_self();
    return self->cause != NULL ? self->cause : site_of_code((uintptr_t)code, SIM_SYSTEM);
}

typedef void (*visit_fn)(sim_site *site, void *context);

static void each(visit_fn visit, void *context) {
    for (sim_site *const *site = __start_sim_sites; site < __stop_sim_sites; site++) visit(*site, context);
    for (uint32_t i = 0; i < CODES_MAX; i++)
        if (codes[i].code != 0) visit(&codes[i], context);
}

static void reset(sim_site *site, void *context) {
    (void)context;
    site->count = site->failed = site->moved = site->ps = 0;
}

void sites_reset(void) { each(reset, NULL); }

static struct {
    sim_site *sites;
    uint32_t count;
} kept;

static void count_one_site(sim_site *site, void *context) {
    (void)context;
    kept.count += site->count != 0;
}

static void keep(sim_site *site, void *context) {
    uint32_t *at = context;
    if (site->count != 0) kept.sites[(*at)++] = *site;
}

void sites_keep(void) {
    uint32_t at = 0;
    kept.count = 0;
    each(count_one_site, NULL);
    free(kept.sites);
    kept.sites = calloc(kept.count + 1, sizeof *kept.sites);
    if (kept.sites == NULL) sim_die("no memory");
    each(keep, &at);
}

void sites_each_kept(void (*visit)(const sim_site *site, void *context), void *context) {
    for (uint32_t i = 0; i < kept.count; i++) visit(&kept.sites[i], context);
}

static bool ends_with(const char *text, const char *end, size_t length) {
    size_t all = strlen(text);
    return all >= length && memcmp(text + all - length, end, length) == 0;
}

bool site_plant(const char *text) {
    const char *colon = strchr(text, ':');
    if (colon == NULL) return false;
    char *end;
    long line = strtol(colon + 1, &end, 10);
    if (*end != ':') return false;
    double ns = strtod(end + 1, &end);
    bool found = false;
    if (*end != 0 || !(ns >= 0 && ns <= 1e9)) return false;
    for (sim_site *const *site = __start_sim_sites; site < __stop_sim_sites; site++) {
        if ((*site)->line != line || !ends_with((*site)->file, text, (size_t)(colon - text))) continue;
        (*site)->planted_ps = (uint64_t)(ns * 1000);
        found = true;
    }
    return found;
}
