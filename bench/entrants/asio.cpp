// Boost.Asio's thread_pool, to which closures are posted. It is FIFO and can be joined only once, so a batch ends with a
// fence.
#include "capture.hpp"
#include "fence.h"

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

namespace {

struct AsioPool {
    boost::asio::thread_pool pool;
    unsigned workers;
    struct fence fence {};
    struct records records {};
    explicit AsioPool(unsigned count) : pool(count), workers(count) {}
};

void *create(const entrant_config *config) {
    auto *self = new AsioPool(config->workers);
    records_init(&self->records, sizeof(record), config->payload_max);
    return fence_init(&self->fence, config->workers) == 0 ? self : nullptr;
}

int submit(void *pool, entrant_fn fn, const void *payload, size_t size) {
    auto *self = static_cast<AsioPool *>(pool);
    return post_captured(self->records, fn, payload, size, [self](auto job) { boost::asio::post(self->pool, job); });
}

int wait(void *pool) {
    auto *self = static_cast<AsioPool *>(pool);
    for (unsigned i = 0; i < self->workers; i++) boost::asio::post(self->pool, [self] { fence_meet(&self->fence); });
    fence_meet(&self->fence);
    records_reset(&self->records);
    return 0;
}

void destroy(void *pool) {
    auto *self = static_cast<AsioPool *>(pool);
    self->pool.join();
    records_free(&self->records);
    delete self;
}

} // namespace

extern "C" const entrant weft_entrant = {
    ENTRANT_VERSION, ENTRANT_NESTED, "boost-asio", "Boost.Asio thread_pool, post", nullptr, 1, 0, 0, create, nullptr,
    submit,          wait,           destroy,
};
