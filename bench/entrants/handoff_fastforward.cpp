// FastForward (DOI 10.1145/1345206.1345215): each place says itself whether it is full, so neither side reads the other's
// index. Each place has a cache line of its own. Spinning: both sides poll the place. Blocking: a side that finds nothing to
// do sleeps on a futex, and the other side calls the kernel only if it sleeps (selective); with ALWAYS_WAKES it does so for
// each item.
#include "handoff.hpp"
#include "handoff_bed.hpp"

namespace {

using handoff::Bed;
using handoff::Item;
using handoff::ring_size;

#ifdef ALWAYS_WAKES
constexpr bool always_wakes = true;
constexpr const char *name = "fastforward-futex";
constexpr const char *text = "own: FastForward, a futex call for each item, or polling";
#else
constexpr bool always_wakes = false;
constexpr const char *name = "fastforward";
constexpr const char *text = "own: FastForward; futex where the other side sleeps, or polling";
#endif

struct alignas(64) Place {
    std::atomic<entrant_fn> fn{nullptr}; // nullptr: empty
    unsigned char payload[handoff::payload_bytes];
};

class FastForwardRing {
    alignas(128) uint64_t head = 0; // the consumer's alone
    alignas(128) uint64_t tail = 0; // the producer's alone
    alignas(128) Place places[ring_size];
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
    void wake(Bed &bed) {
        if (spin) return;
        if (always_wakes)
            bed.call();
        else
            bed.wake();
    }
    static bool is_full(const Place &place) { return place.fn.load(std::memory_order_acquire) != nullptr; }

  public:
    explicit FastForwardRing(bool spins) : spin(spins) {}

    void push(const Item &item) {
        Place &place = places[tail++ % ring_size];
        wait(producer, [&] { return !is_full(place); });
        memcpy(place.payload, item.payload, sizeof place.payload);
        place.fn.store(item.fn, std::memory_order_release);
        wake(consumer);
    }

    bool consume() {
        Place &place = places[head % ring_size];
        wait(consumer, [&] { return is_full(place) || stopped.load(); });
        entrant_fn fn = place.fn.load(std::memory_order_acquire);
        if (fn == nullptr) return false;
        fn(place.payload, nullptr);
        head++;
        place.fn.store(nullptr, std::memory_order_release);
        wake(producer);
        return true;
    }

    void drain() {
        Place &last = places[(tail + ring_size - 1) % ring_size];
        wait(producer, [&] { return !is_full(last); });
    }

    void stop() {
        stopped.store(true);
        consumer.wake();
    }
};

} // namespace

extern "C" const entrant weft_entrant = handoff::Table<FastForwardRing>::entry(name, text);
