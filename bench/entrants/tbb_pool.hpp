// tbb_pool.hpp: what the two oneTBB entrants share.
#ifndef WEFT_BENCH_TBB_POOL_HPP
#define WEFT_BENCH_TBB_POOL_HPP

#include "capture.hpp"

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

// Without a limit set here, oneTBB starts no more threads than there are CPUs.
struct TbbPool {
    tbb::global_control limit;
    tbb::task_arena arena;
    tbb::task_group group;
    struct records records {};

    TbbPool(const entrant_config *config, unsigned reserved)
        : limit(tbb::global_control::max_allowed_parallelism, config->workers + 1),
          arena(static_cast<int>(config->workers), reserved) {
        records_init(&records, sizeof(record), config->payload_max);
        arena.initialize();
    }
    ~TbbPool() { records_free(&records); }
};

inline void tbb_destroy(void *pool) { delete static_cast<TbbPool *>(pool); }

#endif
