// oneTBB: parallel_for with its static partitioner.
#include "tbb.hpp"

namespace {

void *create(const entrant_config *config) { return new TbbTeam(config); }

void destroy(void *pool) { delete static_cast<TbbTeam *>(pool); }

int loop(void *, const pattern_loop *loop) { return tbb_loop(loop, tbb::static_partitioner()); }

} // namespace

extern "C" const patterns weft_patterns = {
    PATTERNS_VERSION,
    ENTRANT_CALLER_RUNS,
    "tbb-static",
    "oneTBB: parallel_for with the static partitioner",
    1,
    0,
    create,
    destroy,
    tbb_enter,
    nullptr,
    nullptr,
    nullptr,
    loop,
    nullptr,
    nullptr,
};
