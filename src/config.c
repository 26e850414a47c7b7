/* config.c: configurations and texts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "real.h"

#define TEXT_OF(x) TEXT(x)
#define TEXT(x) #x

const char *weft_version(void) {
    return TEXT_OF(WEFT_VERSION_MAJOR) "." TEXT_OF(WEFT_VERSION_MINOR) "." TEXT_OF(WEFT_VERSION_PATCH);
}

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

/* The number in the variable, if it is set. false: it is set to something else than a number from `least` to `most`. */
static bool env_number(const char *name, int64_t least, int64_t most, int64_t *number) {
    const char *text = getenv(name);
    if (text == NULL) return true;
    bool is_negative = *text == '-';
    int64_t value = 0;
    const char *digit = text + is_negative;
    if (*digit == 0) return false;
    for (; *digit != 0; digit++) {
        if (*digit < '0' || *digit > '9' || value > (INT64_MAX - 9) / 10) return false;
        value = value * 10 + (*digit - '0');
    }
    if (is_negative) value = -value;
    if (value < least || value > most) return false;
    *number = value;
    return true;
}

int weft_config_from_env(weft_config *config) {
    if (config == NULL || config->struct_size < sizeof(size_t)) return WEFT_EINVAL;
    weft_config whole = {0}; /* an older caller's ends before the newer fields */
    memcpy(&whole, config, min_u64(config->struct_size, sizeof whole));
    int64_t workers = whole.workers;
    int64_t spares = whole.spares;
    int64_t stack_size = (int64_t)whole.stack_size;
    int64_t queue_max = (int64_t)whole.queue_max;
    int64_t trace_events = (int64_t)whole.trace_events;
    int64_t watchdog_ns = (int64_t)whole.watchdog_ns;
    int64_t background_max = whole.background_max;
    int64_t expect_percent = whole.expect_percent;
    const char *cpus = getenv("WEFT_CPUS");
    const char *policy = getenv("WEFT_POLICY");
    os_cpuset set;
    if (cpus != NULL && !os_cpuset_parse(&set, cpus)) return WEFT_EINVAL;
    if (policy != NULL && !real_policy_parse(&whole, policy)) return WEFT_EINVAL;
    if (!env_number("WEFT_WORKERS", 0, WEFT_WORKERS_MAX, &workers) ||
        !env_number("WEFT_SPARES", 0, WEFT_WORKERS_MAX, &spares) ||
        !env_number("WEFT_SPIN_NS", WEFT_SPIN_NONE, 1000000000, &whole.spin_ns) ||
        !env_number("WEFT_TRACE_EVENTS", 0, (int64_t)TRACE_EVENTS_MAX, &trace_events) ||
        !env_number("WEFT_WATCHDOG_NS", 0, INT64_MAX, &watchdog_ns) ||
        !env_number("WEFT_BACKGROUND_MAX", 0, WEFT_WORKERS_MAX, &background_max) ||
        !env_number("WEFT_EXPECT_PERCENT", WEFT_SPIN_NONE, 100, &expect_percent) ||
        !env_number("WEFT_STACK_SIZE", 0, INT64_MAX, &stack_size) || !env_number("WEFT_QUEUE_MAX", 0, INT64_MAX, &queue_max))
        return WEFT_EINVAL;
    whole.workers = (uint32_t)workers;
    whole.spares = (uint32_t)spares;
    whole.stack_size = (size_t)stack_size;
    whole.queue_max = (uint64_t)queue_max;
    whole.background_max = (uint32_t)background_max;
    whole.expect_percent = (int32_t)expect_percent;
    whole.trace_events = (size_t)trace_events;
    whole.watchdog_ns = (uint64_t)watchdog_ns;
    if (cpus != NULL) whole.cpus = cpus;
    if (getenv("WEFT_STATS") != NULL) whole.stats = getenv("WEFT_STATS");
    if (getenv("WEFT_TRACE") != NULL) whole.trace = getenv("WEFT_TRACE");
    memcpy(config, &whole, min_u64(config->struct_size, sizeof whole));
    return WEFT_OK;
}

int weft_config_format(const weft_config *config, char *text, size_t size) {
    static const char *const full[] = {"block", "run", "error"};
    if (config == NULL || (text == NULL && size > 0) || config->full > WEFT_FULL_ERROR) return WEFT_EINVAL;
    weft_config whole = {0}; /* an older caller's ends before the newer fields */
    char policy[80];
    memcpy(&whole, config, min_u64(config->struct_size, sizeof whole));
    real_policy_format(&whole, policy, sizeof policy);
    return snprintf(text, size,
                    "workers=%u spares=%u name=%s cpus=%s stack_size=%zu spin_ns=%lld ordered=%d help=%d queue_max=%llu "
                    "full=%s placing=%d expect_percent=%d stats=%s trace=%s trace_events=%zu watchdog_ns=%llu "
                    "background_max=%u policy=%s bind=%d lock=%d refused=%s",
                    config->workers, config->spares, config->name == NULL ? "weft" : config->name,
                    config->cpus == NULL ? "any" : config->cpus, config->stack_size, (long long)config->spin_ns,
                    (config->flags & WEFT_ORDERED) != 0, (config->flags & (WEFT_NO_HELP | WEFT_ORDERED)) == 0,
                    (unsigned long long)config->queue_max, full[config->full], (config->flags & WEFT_NO_PLACING) == 0,
                    whole.expect_percent, whole.stats == NULL ? "none" : whole.stats,
                    whole.trace == NULL ? "none" : whole.trace, whole.trace_events, (unsigned long long)whole.watchdog_ns,
                    whole.background_max, policy, (config->flags & WEFT_BIND) != 0, (config->flags & WEFT_LOCK) != 0,
                    whole.refused == NULL ? "none" : whole.refused);
}

int weft_pool_config(const weft_pool *pool, weft_config *config) {
    if (pool == NULL || config == NULL || config->struct_size < sizeof(size_t)) return WEFT_EINVAL;
    weft_config whole = pool->config;
    whole.struct_size = config->struct_size;
    memcpy(config, &whole, min_u64(config->struct_size, sizeof whole));
    return WEFT_OK;
}

unsigned weft_pool_workers(const weft_pool *pool) { return pool == NULL ? 0 : load_rlx(&pool->workers); }

void **weft_worker_data(weft_worker *self) { return self == NULL ? NULL : &self->data; }

unsigned weft_worker_index(const weft_worker *self) { return self == NULL ? 0 : self->index; }

weft_worker *weft_worker_here(void) {
    const os_self *self = os_self_get();
    return self->is_worker ? self->worker : NULL;
}

weft_pool *weft_worker_pool(const weft_worker *self) { return self == NULL ? NULL : self->pool; }
