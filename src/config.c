/* config.c: configurations and texts. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front.h"

const char *weft_version(void) { return VERSION_TEXT; }

const char *weft_strerror(int error) {
    switch (error) {
#define CASE(name, value, text)                                                                                             \
    case value: return text;
        WEFT_ERROR_LIST(CASE)
#undef CASE
    default: return "not one of weft's errors";
    }
}

unsigned weft_cpu_count(void) { return os_cpu_count(); }

/* ---- from the environment ----------------------------------------------------------------------------------------- */

const char *variable(const char *name) {
    const char *text = secure_getenv(name);
    return text == NULL || text[0] == 0 ? NULL : text;
}

bool slice_is_sound(int64_t slice_ns) {
    return slice_ns == 0 || slice_ns == WEFT_SLICE_NONE || (slice_ns >= SLICE_NS_MIN && slice_ns <= SLICE_NS_MAX);
}

/* Fields that are numbers. 0, the default, is in every range. `least` is below 0 where -1 stands for none. */
static const struct setting {
    const char *name;
    size_t offset, bytes;
    int64_t least;
    uint64_t most;
} settings[] = {
#define SETTING(name, field, least, most)                                                                                   \
    { name, offsetof(weft_config, field), sizeof((weft_config *)0)->field, least, most }
    SETTING("WEFT_WORKERS", workers, 0, WEFT_WORKERS_MAX),
    SETTING("WEFT_SPARES", spares, 0, WEFT_WORKERS_MAX),
    SETTING("WEFT_SPIN_NS", spin_ns, WEFT_SPIN_NONE, 1000000000),
    SETTING("WEFT_STACK_SIZE", stack_size, STACK_SIZE_MIN, SIZE_MAX / 2),
    SETTING("WEFT_QUEUE_MAX", queue_max, 0, UINT64_MAX),
    SETTING("WEFT_TRACE_EVENTS", trace_events, 0, TRACE_EVENTS_MAX),
    SETTING("WEFT_WATCHDOG_NS", watchdog_ns, 0, INT64_MAX),
    SETTING("WEFT_STACK_WAIT_NS", stack_wait_ns, 0, INT64_MAX),
    SETTING("WEFT_EXPECT_PERCENT", expect_percent, WEFT_EXPECT_NONE, 100),
    SETTING("WEFT_BACKGROUND_MAX", background_max, 0, WEFT_WORKERS_MAX),
    SETTING("WEFT_SLICE_NS", slice_ns, WEFT_SLICE_NONE, SLICE_NS_MAX),
#undef SETTING
};

/* false: the setting's variable is set, but not to a number in range. */
static bool setting_apply(const struct setting *setting, weft_config *config) {
    const char *text = variable(setting->name);
    if (text == NULL) return true;
    bool is_negative = text[0] == '-';
    uint64_t number;
    text += is_negative;
    if (!digits_parse(&text, UINT64_MAX, &number) || text[0] != 0) return false;
    if (is_negative ? setting->least > -(int64_t)min_u64(number, INT64_MAX) : number > setting->most) return false;
    if (!is_negative && setting->least > (int64_t)min_u64(number, INT64_MAX) && number != 0) return false;
    if (is_negative) number = 0 - number;
    uint32_t narrow = (uint32_t)number; /* its range fits */
    bool is_narrow = setting->bytes == sizeof narrow;
    memcpy((char *)config + setting->offset, is_narrow ? (const void *)&narrow : &number, setting->bytes);
    return true;
}

const char *lease_path(const char *text) { return text != NULL && text[0] == '/' ? text : NULL; }

/* false: it is set, but to neither 1 nor 0, nor, if has_path, to a path. */
static bool flag_apply(weft_config *config, const char *name, uint32_t flag, bool has_path) {
    const char *text = variable(name);
    if (text == NULL) return true;
    bool is_path = has_path && lease_path(text) != NULL;
    if (!is_path && strcmp(text, "0") != 0 && strcmp(text, "1") != 0) return false;
    config->flags &= ~flag;
    if (text[0] != '0') config->flags |= flag;
    return true;
}

/* The name of the first wrong variable, and then *config is partly set; or NULL. */
static const char *env_apply(weft_config *config) {
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        if (!setting_apply(&settings[i], config)) return settings[i].name;
    if (!flag_apply(config, "WEFT_JOBSERVER", WEFT_POOL_JOBSERVER, false)) return "WEFT_JOBSERVER";
    if (!flag_apply(config, "WEFT_LEASE", WEFT_POOL_LEASE, true)) return "WEFT_LEASE";
    const char *policy = variable("WEFT_POLICY");
    if (policy != NULL && !policy_parse(config, policy)) return "WEFT_POLICY";
    if (variable("WEFT_SLICE_NS") != NULL && !slice_is_sound(config->slice_ns)) return "WEFT_SLICE_NS";
    const char *cpus = variable("WEFT_CPUS");
    os_cpuset set;
    if (cpus != NULL && !os_cpuset_parse(&set, cpus)) return "WEFT_CPUS";
    if (cpus != NULL) config->cpus = cpus;
    if (policy != NULL && !policy_is_sound(config)) return "WEFT_POLICY"; /* not with these CPUs or flags */
    if (cpus != NULL && !policy_is_sound(config)) return "WEFT_CPUS";
    if (variable("WEFT_STATS") != NULL) config->stats = variable("WEFT_STATS");
    if (variable("WEFT_TRACE") != NULL) config->trace = variable("WEFT_TRACE");
    if (variable("WEFT_TOP") != NULL) config->top = variable("WEFT_TOP");
    return NULL;
}

int weft_config_from_env(weft_config *config) {
    weft_config whole = {0};
    if (config == NULL || !struct_read(&whole, sizeof whole, config)) return WEFT_EINVAL;
    if (env_apply(&whole) != NULL) return WEFT_EINVAL;
    memcpy(config, &whole, min_u64(config->struct_size, sizeof whole));
    return WEFT_OK;
}

const char *weft_config_wrong(const weft_config *config) {
    weft_config whole;
    const char *field = config_read(&whole, config);
    return field != NULL ? field : env_apply(&whole);
}

int weft_config_format(const weft_config *config, char *text, size_t size) {
    static const char *const full[] = {"block", "run", "error"};
    weft_config whole = {0};
    char policy[80];
    if (config == NULL || (text == NULL && size > 0) || !struct_read(&whole, sizeof whole, config)) return WEFT_EINVAL;
    if (whole.full > WEFT_FULL_ERROR) return WEFT_EINVAL;
    policy_format(&whole, policy, sizeof policy);
    return snprintf(
        text, size,
        "workers=%u spares=%u name=%s cpus=%s stack_size=%zu spin_ns=%lld ordered=%d help=%d queue_max=%llu "
        "full=%s placing=%d expect_percent=%d stats=%s trace=%s trace_events=%zu watchdog_ns=%llu "
        "background_max=%u policy=%s bind=%d lock=%d jobserver=%d lease=%d slice_ns=%lld stack_wait_ns=%llu top=%s "
        "refused=%s",
        whole.workers, whole.spares, whole.name == NULL ? "weft" : whole.name, whole.cpus == NULL ? "any" : whole.cpus,
        whole.stack_size, (long long)whole.spin_ns, (whole.flags & WEFT_POOL_ORDERED) != 0,
        (whole.flags & (WEFT_POOL_NO_HELP | WEFT_POOL_ORDERED)) == 0, (unsigned long long)whole.queue_max, full[whole.full],
        (whole.flags & WEFT_POOL_NO_PLACING) == 0, whole.expect_percent, whole.stats == NULL ? "none" : whole.stats,
        whole.trace == NULL ? "none" : whole.trace, whole.trace_events, (unsigned long long)whole.watchdog_ns,
        whole.background_max, policy, (whole.flags & WEFT_POOL_BIND) != 0, (whole.flags & WEFT_POOL_LOCK) != 0,
        (whole.flags & WEFT_POOL_JOBSERVER) != 0, (whole.flags & WEFT_POOL_LEASE) != 0, (long long)whole.slice_ns,
        (unsigned long long)whole.stack_wait_ns, whole.top == NULL ? "none" : whole.top,
        whole.refused == NULL ? "none" : whole.refused);
}

int weft_pool_config(const weft_pool *pool, weft_config *config) {
    if (pool == NULL || config == NULL) return WEFT_EINVAL;
    weft_config now = pool->config;
    now.spares = pool_spares_most(pool);
    now.background_max = load_rlx(&pool->background_max);
    return struct_write(config, &now, sizeof now) ? WEFT_OK : WEFT_EINVAL;
}

unsigned weft_pool_workers(const weft_pool *pool) { return pool == NULL ? 0 : load_rlx(&pool->workers); }

void **weft_worker_data(weft_worker *self) { return self == NULL ? NULL : &self->data; }

unsigned weft_worker_index(const weft_worker *self) { return self == NULL ? 0 : self->index; }

weft_worker *weft_worker_here(void) {
    const os_self *self = os_self_get();
    return self->is_worker ? self->worker : NULL;
}

weft_pool *weft_worker_pool(const weft_worker *self) { return self == NULL ? NULL : self->pool; }
