// alloc_team.hpp: threads that persist and all run the same work at once, and blocks whose contents can be checked.
#ifndef WEFT_BENCH_ALLOC_TEAM_HPP
#define WEFT_BENCH_ALLOC_TEAM_HPP

#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <sched.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

// The caller is thread number 0. If a thread throws, run() throws the same message.
class Team {
    std::vector<std::thread> threads;
    std::mutex lock;
    std::condition_variable changed;
    std::function<void(unsigned)> work;
    std::string failure;
    uint64_t round = 0;
    unsigned running = 0;
    bool stop = false;

    // Gives each of several threads a CPU of its own: otherwise the kernel may leave two on one CPU for a whole round.
    static void pin(unsigned self) {
        cpu_set_t allowed, one;
        if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
        unsigned left = self % static_cast<unsigned>(CPU_COUNT(&allowed));
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
            if (!CPU_ISSET(cpu, &allowed) || left-- != 0) continue;
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof one, &one);
            return;
        }
    }

    void guarded(unsigned self) {
        try {
            work(self);
        } catch (const std::exception &wrong) {
            std::lock_guard<std::mutex> held(lock);
            failure = wrong.what();
        }
    }

    void thread_main(unsigned self) {
        std::unique_lock<std::mutex> held(lock);
        for (uint64_t seen = 0;; seen = round) {
            changed.wait(held, [&] { return round != seen || stop; });
            if (stop) return;
            held.unlock();
            guarded(self);
            held.lock();
            if (--running == 0) changed.notify_all();
        }
    }

  public:
    explicit Team(unsigned count) {
        for (unsigned i = 1; i < count; i++) {
            threads.emplace_back([this, i] {
                pin(i);
                thread_main(i);
            });
        }
        if (count > 1) pin(0);
    }
    Team(const Team &) = delete;
    Team &operator=(const Team &) = delete;
    ~Team() {
        {
            std::lock_guard<std::mutex> held(lock);
            stop = true;
            changed.notify_all();
        }
        for (auto &thread : threads) thread.join();
    }

    unsigned size() const { return static_cast<unsigned>(threads.size()) + 1; }

    void run(const std::function<void(unsigned)> &what) {
        {
            std::lock_guard<std::mutex> held(lock);
            work = what;
            running = static_cast<unsigned>(threads.size());
            round++;
            changed.notify_all();
        }
        guarded(0);
        std::unique_lock<std::mutex> held(lock);
        changed.wait(held, [this] { return running == 0; });
        if (!failure.empty()) throw std::runtime_error(failure);
    }
};

// malloc and free under other names. The compiler may remove a pair of the real ones, but does not recognise these.
extern "C" {
void *alloc_call(size_t size) __asm__("malloc");
void alloc_free(void *block) __asm__("free");
}

struct AllocRandom {
    uint64_t state;
    explicit AllocRandom(uint64_t seed) : state(seed * 0x9e3779b97f4a7c15u + 1) {}
    uint64_t next() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return state * 0x2545f4914f6cdd1du;
    }
    // Uses the low half of a random number; the high half is left for another use.
    static size_t between(uint64_t random, size_t least, size_t most) {
        return least + ((random & 0xffffffffu) * (most - least + 1) >> 32);
    }
};

struct AllocSizes {
    size_t least, most;
    size_t at(uint64_t random) const { return AllocRandom::between(random, least, most); }
};

inline void *alloc_block(size_t size) {
    void *block = alloc_call(size);
    if (block == nullptr) throw std::runtime_error("malloc returned NULL");
    return block;
}

[[noreturn]] inline void alloc_changed() { throw std::runtime_error("the contents of a block changed while it was in use"); }

// The first word of a block holds a number that no other live block has.
inline void alloc_mark(void *block, uint64_t number) { *static_cast<uint64_t *>(block) = number; }

inline void alloc_check(const void *block, uint64_t number) {
    if (__builtin_expect(*static_cast<const uint64_t *>(block) != number, 0)) alloc_changed();
}

// Checks every byte of blocks of these sizes on this thread: alignment, zeros and kept contents, with malloc, calloc and
// realloc. Throws.
void alloc_prove(AllocSizes sizes, uint64_t seed);

#endif
