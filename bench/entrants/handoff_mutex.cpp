// A ring under one mutex. Spinning: both sides poll. Blocking: condition variables.
#include "handoff.hpp"

#include <condition_variable>
#include <mutex>

namespace {

using handoff::Item;
using handoff::ring_size;

class MutexRing {
    std::mutex lock;
    std::condition_variable consumer_side;
    std::condition_variable producer_side;
    Item items[ring_size];
    uint64_t head = 0; // next to run; advanced after it has run
    uint64_t tail = 0;
    bool stopped = false;
    const bool spin;

    // Returns the lock, held, once ready() is true.
    template <class Ready> std::unique_lock<std::mutex> lock_when(std::condition_variable &side, Ready ready) {
        std::unique_lock<std::mutex> held(lock);
        if (!spin) {
            side.wait(held, ready);
            return held;
        }
        handoff::spin_until([&] {
            if (ready()) return true;
            held.unlock();
            handoff::relax();
            held.lock();
            return false;
        });
        return held;
    }

  public:
    explicit MutexRing(bool spins) : spin(spins) {}

    void push(const Item &item) {
        auto held = lock_when(producer_side, [this] { return tail - head < ring_size; });
        items[tail++ % ring_size] = item;
        if (!spin) consumer_side.notify_one();
    }

    bool consume() {
        auto held = lock_when(consumer_side, [this] { return head != tail || stopped; });
        if (head == tail) return false;
        Item item = items[head % ring_size];
        held.unlock();
        item.run();
        held.lock();
        head++;
        if (!spin) producer_side.notify_one();
        return true;
    }

    void drain() {
        auto held = lock_when(producer_side, [this] { return head == tail; });
    }

    void stop() {
        std::lock_guard<std::mutex> held(lock);
        stopped = true;
        consumer_side.notify_one();
    }
};

} // namespace

extern "C" const entrant weft_entrant =
    handoff::Table<MutexRing>::entry("mutex-condvar", "own: a ring under a mutex; condition variables, or polling");
