// oneTBB arena; tasks are enqueued from outside, and W threads run besides the caller.
#include "tbb_pool.hpp"

namespace {

void *create(const entrant_config *config) { return new TbbPool(config, 0); }

int submit(void *pool, entrant_fn fn, const void *payload, size_t size) {
    auto *self = static_cast<TbbPool *>(pool);
    return post_captured(self->records, fn, payload, size,
                         [self](auto job) { self->arena.enqueue(self->group.defer([job] { job(); })); });
}

int wait(void *pool) {
    auto *self = static_cast<TbbPool *>(pool);
    self->group.wait();
    records_reset(&self->records);
    return 0;
}

} // namespace

extern "C" const entrant weft_entrant = {
    ENTRANT_VERSION,
    ENTRANT_NESTED,
    "tbb-arena",
    "oneTBB task_arena::enqueue from outside",
    nullptr,
    1,
    0,
    0,
    create,
    nullptr,
    submit,
    wait,
    tbb_destroy,
};
