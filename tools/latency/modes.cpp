// weft in its modes, behind the entrants' table: W - 1 workers and a caller that helps while it waits.
#include "latency.hpp"

#include <weft.h>

#include <cstring>
#include <memory>
#include <stdexcept>

namespace {

enum class Mode { anticipated, told, parked, spinning, parked_fifo, parked_rr, real_time };

constexpr int64_t spin_longest_ns = 1000000000; // longer than any pause within a slice

// The one place that says what a mode is.
void mode_apply(Mode mode, weft_config &config) {
    if (mode == Mode::parked_fifo || mode == Mode::real_time) config.policy = WEFT_POLICY_FIFO;
    if (mode == Mode::parked_rr) config.policy = WEFT_POLICY_RR;
    if (config.policy != WEFT_POLICY_INHERIT) config.priority = 1;
    if (mode == Mode::anticipated || mode == Mode::told || mode == Mode::real_time) return; // the default
    config.expect_percent = WEFT_EXPECT_NONE;
    config.spin_ns = mode == Mode::spinning ? spin_longest_ns : WEFT_SPIN_NONE;
}

struct ModePool {
    weft_pool *pool = nullptr;
    weft_group group = WEFT_GROUP_INIT;
};

template <Mode mode> void *create(const entrant_config *wish) {
    auto self = std::make_unique<ModePool>();
    weft_config config;
    weft_config_init(&config);
    config.workers = wish->workers - 1;
    mode_apply(mode, config);
    int error = weft_pool_create(&self->pool, &config);
    if (error != WEFT_OK) throw std::runtime_error(std::string("weft_pool_create: ") + weft_strerror(error));
    weft_real_time outcome{};
    outcome.struct_size = sizeof outcome;
    weft_pool_real_time(self->pool, &outcome);
    if (outcome.policy_refused > 0) {
        weft_pool_destroy(&self->pool);
        throw std::runtime_error("real-time scheduling is not permitted here");
    }
    return self.release();
}

int submit(void *pool, entrant_fn fn, const void *payload, size_t size) {
    auto *self = static_cast<ModePool *>(pool);
    return weft_submit(self->pool, &self->group, fn, payload, size);
}

int wait(void *pool) {
    auto *self = static_cast<ModePool *>(pool);
    return weft_group_wait(self->pool, &self->group);
}

void destroy(void *pool) {
    std::unique_ptr<ModePool> self(static_cast<ModePool *>(pool));
    weft_pool_destroy(&self->pool);
}

void expect(void *pool, uint64_t when_ns) {
    auto *self = static_cast<ModePool *>(pool);
    weft_pool_expect(self->pool, weft_pool_workers(self->pool), when_ns);
}

template <Mode mode> Contestant contestant(const char *name, const char *text) {
    static const entrant table = {ENTRANT_VERSION,
                                  ENTRANT_OURS | ENTRANT_NESTED | ENTRANT_CALLER_RUNS,
                                  "weft",
                                  text,
                                  nullptr,
                                  2,
                                  0,
                                  0,
                                  create<mode>,
                                  nullptr,
                                  submit,
                                  wait,
                                  destroy};
    Contestant who;
    who.pool = table.name;
    who.mode = name;
    who.text = text;
    who.table = &table;
    who.flags = table.flags;
    if (mode == Mode::told) who.expect = expect;
    return who;
}

} // namespace

std::vector<Contestant> weft_modes() {
    return {contestant<Mode::anticipated>("anticipated", "the default: workers learn when bursts come and are awake then"),
            contestant<Mode::told>("told", "the default, and weft_pool_expect announces the next burst"),
            contestant<Mode::parked>("parked", "idle workers sleep at once"),
            contestant<Mode::spinning>("spinning", "idle workers never sleep"),
            contestant<Mode::parked_fifo>("parked-fifo", "parked, the workers in SCHED_FIFO"),
            contestant<Mode::parked_rr>("parked-rr", "parked, the workers in SCHED_RR"),
            contestant<Mode::real_time>("real-time", "the default, with workers in SCHED_FIFO")};
}
