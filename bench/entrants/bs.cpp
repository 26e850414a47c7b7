// BS::thread_pool, version 4 or later: detached closures, and the pool's own wait.
#include "capture.hpp"

#include <BS_thread_pool.hpp>

namespace {

using Pool = decltype(BS::thread_pool(1U)); // a class in version 4, a template of options in 5

struct BsPool {
    Pool pool;
    struct records records {};
    explicit BsPool(unsigned workers) : pool(workers) {}
};

void *create(const entrant_config *config) {
    auto *self = new BsPool(config->workers);
    records_init(&self->records, sizeof(record), config->payload_max);
    return self;
}

int submit(void *pool, entrant_fn fn, const void *payload, size_t size) {
    auto *self = static_cast<BsPool *>(pool);
    // detach_task takes only callables that return nothing.
    return post_captured(self->records, fn, payload, size,
                         [self](auto job) { self->pool.detach_task([job] { (void)job(); }); });
}

int wait(void *pool) {
    auto *self = static_cast<BsPool *>(pool);
    self->pool.wait();
    records_reset(&self->records);
    return 0;
}

void destroy(void *pool) {
    auto *self = static_cast<BsPool *>(pool);
    self->pool.wait();
    records_free(&self->records);
    delete self;
}

} // namespace

extern "C" const entrant weft_entrant = {
    ENTRANT_VERSION, ENTRANT_NESTED, "bs-thread-pool", "BS::thread_pool, detach_task", nullptr, 1, 0, 0, create, nullptr,
    submit,          wait,           destroy,
};
