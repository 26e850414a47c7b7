// Lamport's ring (DOI 10.1145/69624.357207): one index per side, no lock. Spinning: both sides poll the other's index;
// blocking: the side that finds nothing to do sleeps on a futex, and the other wakes it.
#include "handoff.hpp"

#include <atomic>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

using handoff::Item;
using handoff::ring_size;

// A side asleep. `sleeping` is stored before the last look at the other's index, and read after one's own index is stored:
// both sequentially consistent, so one of the two sees the other.
class Bed {
    alignas(128) std::atomic<uint32_t> sleeping{0};

  public:
    template <class Ready> void sleep_until(Ready ready) {
        while (!ready()) {
            sleeping.store(1, std::memory_order_seq_cst);
            if (!ready()) syscall(SYS_futex, &sleeping, FUTEX_WAIT_PRIVATE, 1, nullptr, nullptr, 0);
            sleeping.store(0, std::memory_order_relaxed);
        }
    }
    void wake() {
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (sleeping.load(std::memory_order_relaxed) == 0 || sleeping.exchange(0) == 0) return;
        syscall(SYS_futex, &sleeping, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    }
};

class LamportRing {
    alignas(128) std::atomic<uint64_t> head{0}; // the consumer's, advanced after the item has run
    alignas(128) std::atomic<uint64_t> tail{0}; // the producer's
    alignas(128) Item items[ring_size];
    std::atomic<bool> stopped{false};
    Bed consumer;
    Bed producer;
    const bool spin;

    template <class Ready> void wait(Bed &bed, Ready ready) {
        if (spin)
            handoff::spin_until(ready);
        else
            bed.sleep_until(ready);
    }

  public:
    explicit LamportRing(bool spins) : spin(spins) {}

    void push(const Item &item) {
        uint64_t t = tail.load(std::memory_order_relaxed);
        wait(producer, [&] { return t - head.load(std::memory_order_acquire) < ring_size; });
        items[t % ring_size] = item;
        tail.store(t + 1, std::memory_order_release);
        if (!spin) consumer.wake();
    }

    bool consume() {
        uint64_t h = head.load(std::memory_order_relaxed);
        wait(consumer, [&] { return tail.load(std::memory_order_acquire) != h || stopped.load(); });
        if (tail.load(std::memory_order_acquire) == h) return false;
        items[h % ring_size].run();
        head.store(h + 1, std::memory_order_release);
        if (!spin) producer.wake();
        return true;
    }

    void drain() {
        uint64_t t = tail.load(std::memory_order_relaxed);
        wait(producer, [&] { return head.load(std::memory_order_acquire) == t; });
    }

    void stop() {
        stopped.store(true);
        consumer.wake();
    }
};

} // namespace

extern "C" const entrant weft_entrant =
    handoff::Table<LamportRing>::entry("lamport", "own: Lamport's ring; futex on both sides, or polling");
