// handoff.hpp: one producer, one consumer, a ring of jobs. The entrants differ in the ring and in how it is guarded.
#ifndef WEFT_BENCH_HANDOFF_HPP
#define WEFT_BENCH_HANDOFF_HPP

#include "../entrant.h"

#include <cstring>
#include <sched.h>
#include <thread>

namespace handoff {

constexpr uint64_t ring_size = 1024;
constexpr size_t payload_bytes = 8;

struct Item {
    entrant_fn fn;
    unsigned char payload[payload_bytes];
    void run() { fn(payload, nullptr); }
};

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

// Spins until ready(). After each 1024 pauses it yields, because the other side may need this CPU.
template <class Ready> void spin_until(Ready ready) {
    for (unsigned i = 1; !ready(); i++) {
        relax();
        if (i % 1024 == 0) sched_yield();
    }
}

// The entrant's functions for a ring with push, consume (false: stopped), drain and stop.
template <class Ring> struct Table {
    struct Pool {
        Ring ring;
        std::thread consumer;
        explicit Pool(bool spin)
            : ring(spin), consumer([this] {
                  while (ring.consume()) {}
              }) {}
        ~Pool() {
            ring.stop();
            consumer.join();
        }
    };
    static void *create(const entrant_config *config) {
        return config->workers == 1 ? new Pool(config->spin != 0) : nullptr;
    }
    static int submit(void *pool, entrant_fn fn, const void *payload, size_t size) {
        Item item{};
        item.fn = fn;
        if (size > payload_bytes) return -1;
        memcpy(item.payload, payload, size);
        static_cast<Pool *>(pool)->ring.push(item);
        return 0;
    }
    static int wait(void *pool) {
        static_cast<Pool *>(pool)->ring.drain();
        return 0;
    }
    static void destroy(void *pool) { delete static_cast<Pool *>(pool); }

    static constexpr entrant entry(const char *name, const char *text) {
        return {ENTRANT_VERSION, ENTRANT_BOUNDED, name,    text,   "handoff", 1,      1,
                payload_bytes,   create,          nullptr, submit, wait,      destroy};
    }
};

} // namespace handoff

#endif
