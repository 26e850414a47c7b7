// Threads that sleep on one word: a single FUTEX_WAKE starts all of them.
#include "static_team.hpp"

#include <atomic>
#include <climits>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

class FutexGate {
    alignas(128) std::atomic<uint32_t> round{0};
    alignas(128) std::atomic<uint32_t> left{0};
    unsigned others;
    static thread_local uint32_t seen;

    static void sleep(std::atomic<uint32_t> &word, uint32_t value) {
        syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
    }
    static void wake(std::atomic<uint32_t> &word) {
        syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
    }

  public:
    explicit FutexGate(unsigned size) : others(size - 1) {}
    void open() {
        left.store(others, std::memory_order_relaxed);
        round.fetch_add(1, std::memory_order_release);
        wake(round);
    }
    void pass() {
        while (round.load(std::memory_order_acquire) == seen) sleep(round, seen);
        seen++;
    }
    void done() {
        if (left.fetch_sub(1, std::memory_order_release) == 1) wake(left);
    }
    void join() {
        for (uint32_t n = left.load(std::memory_order_acquire); n != 0; n = left.load(std::memory_order_acquire))
            sleep(left, n);
    }
};

thread_local uint32_t FutexGate::seen;

} // namespace

extern "C" const entrant weft_entrant =
    StaticTable<FutexGate>::entry("static-futex", "no pool: threads asleep on one futex, a batch split ahead", 0);
