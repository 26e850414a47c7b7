// Threads that never sleep.
#include "static_team.hpp"

#include <atomic>

namespace {

void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

class SpinGate {
    alignas(128) std::atomic<uint64_t> round{0};
    alignas(128) std::atomic<unsigned> left{0};
    unsigned others;
    static thread_local uint64_t seen;

  public:
    explicit SpinGate(unsigned size) : others(size - 1) {}
    void open() {
        left.store(others, std::memory_order_relaxed);
        round.fetch_add(1, std::memory_order_release);
    }
    void pass() {
        while (round.load(std::memory_order_acquire) == seen) pause();
        seen++;
    }
    void done() { left.fetch_sub(1, std::memory_order_release); }
    void join() {
        while (left.load(std::memory_order_acquire) != 0) pause();
    }
};

thread_local uint64_t SpinGate::seen;

} // namespace

extern "C" const entrant weft_entrant =
    StaticTable<SpinGate>::entry("static-spin", "no pool: threads that spin, a batch split ahead", ENTRANT_SPINS);
