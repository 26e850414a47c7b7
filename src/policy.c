/* policy.c: the scheduling policy that a pool asks for, and what the system granted. sched/realtime.c says how each worker
 * applies it, and why spins are bounded. */
#include "front.h"

#include <stdio.h>
#include <string.h>

#define SPIN_PART 8u /* spins take one part in SPIN_PART of what the system allows */

bool policy_is_sound(const weft_config *config) {
    uint64_t deadline_ns = config->deadline_ns == 0 ? config->period_ns : config->deadline_ns;
    bool has_times = (config->runtime_ns | config->deadline_ns | config->period_ns) != 0;
    switch (config->policy) {
    case WEFT_POLICY_INHERIT: return config->priority == 0 && !has_times;
    case WEFT_POLICY_FIFO:
    case WEFT_POLICY_RR: return config->priority >= 1 && config->priority <= 99 && !has_times;
    case WEFT_POLICY_DEADLINE:
        return config->priority == 0 && config->runtime_ns > 0 && config->runtime_ns <= deadline_ns &&
               deadline_ns <= config->period_ns && config->period_ns <= INT64_MAX && config->cpus == NULL &&
               (config->flags & WEFT_POOL_BIND) == 0;
    default: return false;
    }
}

static uint64_t ticks_of(const weft_pool *pool, uint64_t ns) {
    return min_u64(ns, INT64_MAX / pool->ticks_per_us) * pool->ticks_per_us / 1000;
}

/* Bounds the spins of workers with `policy`. Also called while workers run, if their policy was refused to all of them. */
static void bound_spins(weft_pool *pool, uint32_t policy) {
    const weft_config *config = &pool->config;
    uint64_t runtime_ns = 0;
    uint64_t period_ns = 0;
    uint64_t spin_ticks = ticks_of(pool, config->spin_ns < 0 ? 0 : (uint64_t)config->spin_ns);
    if (policy == WEFT_POLICY_DEADLINE) {
        runtime_ns = config->runtime_ns;
        period_ns = config->period_ns;
    } else if (policy != WEFT_POLICY_INHERIT || os_policy_is_real_time()) {
        runtime_ns = os_real_time_share(&period_ns);
    }
    uint64_t share_ticks = ticks_of(pool, runtime_ns) / SPIN_PART;
    if (runtime_ns != 0) spin_ticks = min_u64(spin_ticks, share_ticks);
    store_rlx(&pool->realtime.share_ticks, share_ticks);
    store_rlx(&pool->realtime.window_ticks, runtime_ns == 0 ? 0 : max_u64(ticks_of(pool, period_ns), 1));
    store_rlx(&pool->spin_ticks, spin_ticks);
    store_rlx(&pool->spin_now, spin_ticks);
}

void policy_configure(weft_pool *pool) {
    weft_config *config = &pool->config;
    if (config->deadline_ns == 0) config->deadline_ns = config->period_ns;
    pool->store.locks = (config->flags & WEFT_POOL_LOCK) != 0;
    if (config->policy == WEFT_POLICY_DEADLINE || (config->flags & WEFT_POOL_BIND) != 0) {
        config->flags |= WEFT_POOL_NO_PLACING;
        pool->placing = false;
    }
    if ((config->flags & WEFT_POOL_BIND) != 0 && config->cpus == NULL) os_cpuset_current(&pool->cpus);
    store_lock(&pool->store, pool, round_up(sizeof *pool, os_page_size()));
    bound_spins(pool, config->policy);
}

/* ---- what was granted --------------------------------------------------------------------------------------------- */

int weft_pool_real_time(const weft_pool *pool, weft_real_time *outcome) {
    if (pool == NULL || outcome == NULL) return WEFT_EINVAL;
    weft_real_time found = {.policy_refused = load_rlx(&pool->realtime.policy_refused),
                            .policy_errno = load_rlx(&pool->realtime.policy_error),
                            .bind_refused = load_rlx(&pool->realtime.bind_refused),
                            .bind_errno = load_rlx(&pool->realtime.bind_error),
                            .lock_errno = load_rlx(&pool->store.lock_error),
                            .jobserver_errno = pool->tokens.error,
                            .lease_errno = pool->tokens.lease_error,
                            .locked_bytes = load_rlx(&pool->store.locked_bytes),
                            .unlocked_bytes = load_rlx(&pool->store.unlocked_bytes),
                            .slice_refused = load_rlx(&pool->slices.refused),
                            .slice_errno = load_rlx(&pool->slices.error)};
    return struct_write(outcome, &found, sizeof found) ? WEFT_OK : WEFT_EINVAL;
}

/* Makes the configuration tell the spin time in force. */
static void tell_spin(weft_pool *pool) {
    uint64_t most_ns = load_rlx(&pool->realtime.share_ticks) * 1000 / pool->ticks_per_us;
    if (load_rlx(&pool->realtime.window_ticks) == 0 || pool->config.spin_ns <= (int64_t)most_ns) return;
    pool->config.spin_ns = most_ns == 0 ? WEFT_SPIN_NONE : (int64_t)most_ns;
}

void policy_started(weft_pool *pool) {
    weft_real_time found = {.struct_size = sizeof found};
    struct text told = {.to = pool->realtime.refused, .size = sizeof pool->realtime.refused, .fd = TEXT_TO_MEMORY};
    weft_pool_real_time(pool, &found);
    if (found.policy_refused >= load_rlx(&pool->workers)) bound_spins(pool, WEFT_POLICY_INHERIT);
    tell_spin(pool);
    if (found.policy_refused > 0)
        text_format(&told, "policy of %u workers (%s)", found.policy_refused, os_error_name(found.policy_errno));
    if (found.bind_refused > 0)
        text_format(&told, "%scpu of %u workers (%s)", told.length > 0 ? ", " : "", found.bind_refused,
                    os_error_name(found.bind_errno));
    if (found.unlocked_bytes > 0)
        text_format(&told, "%slock of %lu bytes (%s)", told.length > 0 ? ", " : "", found.unlocked_bytes,
                    os_error_name(found.lock_errno));
    if (found.slice_refused > 0 && pool->config.slice_ns > 0) /* the default is no request */
        text_format(&told, "%sslice of %u workers (%s)", told.length > 0 ? ", " : "", found.slice_refused,
                    os_error_name(found.slice_errno));
    if (found.jobserver_errno != 0)
        text_format(&told, "%sjobserver (%s)", told.length > 0 ? ", " : "", os_error_name(found.jobserver_errno));
    if (found.lease_errno != 0)
        text_format(&told, "%slease (%s)", told.length > 0 ? ", " : "", os_error_name(found.lease_errno));
    text_end(&told);
    pool->config.refused = told.length > 0 ? told.to : NULL;
}

/* ---- as text ------------------------------------------------------------------------------------------------------ */

/* Reads digits at *text, and moves *text past them and past one `end`. */
static bool parse_part(const char **text, char end, uint64_t *number) {
    if (!digits_parse(text, UINT64_MAX, number) || **text != end) return false;
    (*text)++;
    return true;
}

bool policy_parse(weft_config *config, const char *text) {
    weft_config wish = {.policy = WEFT_POLICY_INHERIT};
    uint64_t priority = 0;
    bool is_fine = strcmp(text, "inherit") == 0;
    if (strncmp(text, "fifo:", 5) == 0 || strncmp(text, "rr:", 3) == 0) {
        wish.policy = text[0] == 'f' ? WEFT_POLICY_FIFO : WEFT_POLICY_RR;
        text = strchr(text, ':') + 1;
        is_fine = parse_part(&text, 0, &priority);
    } else if (strncmp(text, "deadline:", 9) == 0) {
        wish.policy = WEFT_POLICY_DEADLINE;
        text += 9;
        is_fine = parse_part(&text, ':', &wish.runtime_ns) && parse_part(&text, ':', &wish.deadline_ns) &&
                  parse_part(&text, 0, &wish.period_ns);
    }
    wish.priority = (uint32_t)min_u64(priority, UINT32_MAX);
    if (!is_fine || !policy_is_sound(&wish)) return false;
    config->policy = wish.policy;
    config->priority = wish.priority;
    config->runtime_ns = wish.runtime_ns;
    config->deadline_ns = wish.deadline_ns;
    config->period_ns = wish.period_ns;
    return true;
}

void policy_format(const weft_config *config, char *text, size_t size) {
    if (config->policy == WEFT_POLICY_FIFO || config->policy == WEFT_POLICY_RR)
        snprintf(text, size, "%s:%u", config->policy == WEFT_POLICY_FIFO ? "fifo" : "rr", config->priority);
    else if (config->policy == WEFT_POLICY_DEADLINE)
        snprintf(text, size, "deadline:%llu:%llu:%llu", (unsigned long long)config->runtime_ns,
                 (unsigned long long)config->deadline_ns, (unsigned long long)config->period_ns);
    else
        snprintf(text, size, "inherit");
}
