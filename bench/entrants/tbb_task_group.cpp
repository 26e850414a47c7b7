// oneTBB task_group inside an arena: the caller is one of its W threads and helps in the wait.
#include "tbb_pool.hpp"

namespace {

void *create(const entrant_config *config) { return new TbbPool(config, 1); }

int enter(void *pool, void (*body)(void *), void *arg) {
    auto *self = static_cast<TbbPool *>(pool);
    self->arena.execute([&] {
        body(arg);
        self->group.wait();
    });
    return 0;
}

int submit(void *pool, entrant_fn fn, const void *payload, size_t size) {
    auto *self = static_cast<TbbPool *>(pool);
    return post_captured(self->records, fn, payload, size, [self](auto job) { self->group.run([job] { job(); }); });
}

int wait(void *pool) {
    records_reset(&static_cast<TbbPool *>(pool)->records);
    return 0; // `enter` has waited
}

} // namespace

extern "C" const entrant weft_entrant = {
    ENTRANT_VERSION,
    ENTRANT_CALLER_RUNS | ENTRANT_INSIDE_ONLY | ENTRANT_NESTED | ENTRANT_FORK_JOIN,
    "tbb-task-group",
    "oneTBB task_group, the caller in its arena",
    nullptr,
    1,
    0,
    0,
    create,
    enter,
    submit,
    wait,
    tbb_destroy,
};
