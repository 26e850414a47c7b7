// Lamport's ring (DOI 10.1145/69624.357207): one index per side, no lock. Spinning: both sides poll the other's index.
// Blocking: a side that finds nothing to do sleeps on a futex, and the other side wakes it.
#include "handoff.hpp"
#include "handoff_bed.hpp"

namespace {

using handoff::Bed;
using handoff::Item;
using handoff::ring_size;

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
