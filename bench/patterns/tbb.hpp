// tbb.hpp: what oneTBB's two entrants for patterns share.
#ifndef WEFT_BENCH_PATTERNS_TBB_HPP
#define WEFT_BENCH_PATTERNS_TBB_HPP

#include "../patterns.h"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

// Without a limit set here, oneTBB starts no more threads than there are CPUs; deep recursion needs larger stacks.
struct TbbTeam {
    tbb::global_control limit, stack;
    tbb::task_arena arena;

    explicit TbbTeam(const entrant_config *config)
        : limit(tbb::global_control::max_allowed_parallelism, config->workers),
          stack(tbb::global_control::thread_stack_size, size_t{64} << 20), arena(static_cast<int>(config->workers)) {
        arena.initialize();
    }
};

inline void tbb_enter(void *pool, void (*body)(void *), void *arg) {
    static_cast<TbbTeam *>(pool)->arena.execute([=] { body(arg); });
}

template <class Partitioner> int tbb_loop(const pattern_loop *loop, Partitioner partitioner) {
    auto body = [loop](const tbb::blocked_range<size_t> &range) {
        loop->body(range.begin(), range.end(), loop->context, nullptr);
    };
    tbb::parallel_for(tbb::blocked_range<size_t>(0, loop->n, loop->grain), body, partitioner);
    return 0;
}

#endif
