// handoff_bed.hpp: where one side of a ring sleeps while it has nothing to do.
#ifndef WEFT_BENCH_HANDOFF_BED_HPP
#define WEFT_BENCH_HANDOFF_BED_HPP

#include <atomic>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace handoff {

// One side's sleep. It stores `sleeping` before its last look at the other side's data; the other side reads `sleeping`
// after it has changed the data. Both are sequentially consistent, so at least one side sees the other.
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
    // The same, but calls the kernel whether the side sleeps or not.
    void call() {
        std::atomic_thread_fence(std::memory_order_seq_cst);
        sleeping.store(0, std::memory_order_relaxed);
        syscall(SYS_futex, &sleeping, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    }
};

} // namespace handoff

#endif
