// handoff_bed.hpp: where a side of a ring sleeps while it has nothing to do.
#ifndef WEFT_BENCH_HANDOFF_BED_HPP
#define WEFT_BENCH_HANDOFF_BED_HPP

#include <atomic>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace handoff {

// A side asleep. `sleeping` is stored before the last look at what the other says, and read after one has said something:
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
    // The same, asleep or not.
    void call() {
        std::atomic_thread_fence(std::memory_order_seq_cst);
        sleeping.store(0, std::memory_order_relaxed);
        syscall(SYS_futex, &sleeping, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    }
};

} // namespace handoff

#endif
