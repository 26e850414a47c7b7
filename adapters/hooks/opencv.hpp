// OpenCV's loops on a weft pool (tested with 4.6):
//
//     weft_opencv backend(pool);
//     cv::parallel::setParallelForBackend(std::shared_ptr<cv::parallel::ParallelForAPI>(&backend, [](auto *) {}));
//
// In a program that is not compiled anew, use adapters/opencv/plugin.cpp. `pool` and the backend must outlive OpenCV's last
// loop.
//
// A loop is cut into some pieces for each thread; a thread that has finished a piece takes the next one. OpenCV's loops may
// nest and be called in tasks of the pool. A loop has as many threads as the pool has workers, the calling one among them;
// with `beside` 1 it has one more, for a pool that only such loops use. OpenCV itself catches an exception of a loop's body
// and passes it on.
#ifndef WEFT_HOOKS_OPENCV_HPP
#define WEFT_HOOKS_OPENCV_HPP

#include <atomic>
#include <opencv2/core/parallel/parallel_backend.hpp>

#include "jobs.h"

class weft_opencv : public cv::parallel::ParallelForAPI {
  public:
    explicit weft_opencv(weft_pool *pool, int beside = 0) : pool_(pool), beside_(beside) {}

    void parallel_for(int tasks, FN_parallel_for_body_cb_t body, void *data) override {
        if (tasks <= 0) return;
        const unsigned slots = static_cast<unsigned>(getNumThreads());
        const size_t most = static_cast<size_t>(slots) * pieces_of_a_thread, count = static_cast<size_t>(tasks);
        loop mine = {{run_piece, count < most ? count : most, 0}, body, data, count};
        hook_run_on(pool_, &mine.jobs, slots);
    }

    int getThreadNum() const override { return place(); }

    int getNumThreads() const override {
        const int wanted = threads_.load(std::memory_order_relaxed),
                  there = static_cast<int>(weft_pool_workers(pool_)) + beside_;
        return wanted > 0 && wanted < there ? wanted : there > 0 ? there : 1;
    }

    // Returns the previous number.
    int setNumThreads(int threads) override { return threads_.exchange(threads, std::memory_order_relaxed); }

    const char *getName() const override { return "weft"; }

  private:
    static constexpr size_t pieces_of_a_thread = 16;

    struct loop {
        hook_jobs jobs; // must be first: run_piece casts it to the loop
        FN_parallel_for_body_cb_t body;
        void *data;
        size_t tasks;
    };

    // The number of this thread in the loop that it runs.
    static int &place() {
        static thread_local int mine = 0;
        return mine;
    }

    static void run_piece(const hook_jobs *jobs, size_t index, unsigned slot) {
        const loop *whole = reinterpret_cast<const loop *>(jobs);
        const int outer = place();
        place() = static_cast<int>(slot);
        whole->body(static_cast<int>(whole->tasks * index / jobs->count),
                    static_cast<int>(whole->tasks * (index + 1) / jobs->count), whole->data);
        place() = outer;
    }

    weft_pool *pool_;
    int beside_;
    std::atomic<int> threads_{0};
};

#endif
