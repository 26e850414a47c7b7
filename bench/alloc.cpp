// See alloc.hpp. A task is one malloc or one free in alloc-mixed and alloc-middle; a malloc and its free in the others; a
// thread in the case short-thread; and a live byte in alloc-memory (alloc_memory.cpp).
#include "alloc.hpp"
#include "alloc_memory.hpp"
#include "alloc_team.hpp"

#include <algorithm>
#include <atomic>
#include <climits>
#include <dlfcn.h>
#include <sched.h>

namespace {

// What the workloads share: no pool, no jobs, a proof on every thread.
class Alloc : public Workload {
    Team team;
    AllocSizes range;
    uint64_t proofs = 1;

  protected:
    AllocSizes sizes() const { return range; }
    uint64_t seed() const { return proofs; }
    virtual void timed(unsigned self, uint64_t tasks) = 0;

    // All blocks are live at once.
    void make_and_free(void **blocks, size_t count, AllocRandom &random) const {
        for (size_t i = 0; i < count; i++) {
            blocks[i] = alloc_block(range.at(random.next()));
            alloc_mark(blocks[i], i);
        }
        for (size_t i = 0; i < count; i++) {
            alloc_check(blocks[i], i);
            alloc_free(blocks[i]);
        }
    }

  public:
    Alloc(unsigned threads, AllocSizes bytes) : team(threads), range(bytes) {}
    size_t payload_max() const override { return range.most; }
    bool run_range(uint64_t, uint64_t) override { return false; }
    job_totals expected(uint64_t) const override { return {0, 0, 0}; }

    void prove() override {
        proofs++;
        team.run([this](unsigned self) { alloc_prove(range, proofs * 64 + self); });
    }

    int run(const entrant &, void *, uint64_t tasks) override {
        team.run([this, tasks](unsigned self) { timed(self, tasks / team.size()); });
        return 0;
    }
};

// Random blocks of a live set are freed and replaced.
class Mixed : public Alloc {
    size_t live;
    std::vector<std::vector<void *>> sets;
    std::vector<AllocRandom> randoms;

    void fill(std::vector<void *> &set, AllocRandom &random) {
        for (size_t i = 0; i < set.size(); i++) {
            set[i] = alloc_block(sizes().at(random.next()));
            alloc_mark(set[i], i);
        }
    }

    void timed(unsigned self, uint64_t tasks) override {
        std::vector<void *> &set = sets[self];
        AllocRandom random = randoms[self];
        if (set.empty()) {
            set.resize(live);
            fill(set, random);
        }
        for (uint64_t i = 0; i < tasks; i += 2) {
            uint64_t number = random.next();
            size_t at = (number >> 32) & (live - 1);
            alloc_check(set[at], at);
            alloc_free(set[at]);
            set[at] = alloc_block(sizes().at(number));
            alloc_mark(set[at], at);
        }
        randoms[self] = random;
    }

  public:
    Mixed(unsigned threads, AllocSizes bytes, size_t blocks) : Alloc(threads, bytes), live(blocks), sets(threads) {
        for (unsigned i = 0; i < threads; i++) randoms.emplace_back(i + 1);
    }
};

// Reuses the same few bytes: allocates `depth` blocks, then frees them in the same order.
template <unsigned depth> class Hot : public Alloc {
    void timed(unsigned, uint64_t tasks) override {
        void *blocks[depth];
        const size_t size = sizes().least;
        for (uint64_t i = 0; i < tasks; i += depth) {
            for (unsigned k = 0; k < depth; k++) {
                blocks[k] = alloc_block(size);
                alloc_mark(blocks[k], k);
            }
            for (unsigned k = 0; k < depth; k++) {
                alloc_check(blocks[k], k);
                alloc_free(blocks[k]);
            }
        }
    }

  public:
    explicit Hot(AllocSizes bytes) : Alloc(1, bytes) {}
};

// More blocks than any cache holds are live at once, then none, again and again.
class Burst : public Alloc {
    static constexpr uint64_t burst_blocks = 65536;

    void timed(unsigned, uint64_t tasks) override {
        AllocRandom random(seed());
        std::vector<void *> blocks(std::min(tasks, burst_blocks));
        for (uint64_t left = tasks; left != 0;) {
            size_t count = std::min(left, burst_blocks);
            make_and_free(blocks.data(), count, random);
            left -= count;
        }
    }

  public:
    explicit Burst(AllocSizes bytes) : Alloc(1, bytes) {}
};

// A task is a thread that allocates a hundred blocks, frees them and ends.
class ShortThread : public Alloc {
    static constexpr unsigned blocks_per_thread = 100;
    std::string failure;

    void one() {
        void *blocks[blocks_per_thread];
        AllocRandom random(seed());
        try {
            make_and_free(blocks, blocks_per_thread, random);
        } catch (const std::exception &wrong) {
            failure = wrong.what();
        }
    }

    void timed(unsigned, uint64_t tasks) override {
        for (uint64_t i = 0; i < tasks; i++) std::thread([this] { one(); }).join();
        if (!failure.empty()) throw std::runtime_error(failure);
    }

  public:
    explicit ShortThread(AllocSizes bytes) : Alloc(1, bytes) {}
};

// Passes pointers from one thread to another, in batches, so that the passing costs little compared with what is measured.
class Pipe {
    static constexpr size_t capacity = 4096;
    void *slots[capacity];
    alignas(128) std::atomic<size_t> head{0};
    alignas(128) std::atomic<size_t> tail{0};

  public:
    static constexpr size_t batch = 64;
    bool has_room() const { return tail.load(std::memory_order_relaxed) - head.load(std::memory_order_acquire) < capacity; }
    bool has_batch() const { return tail.load(std::memory_order_acquire) != head.load(std::memory_order_relaxed); }
    // The next `batch` places; call these only if there is room or a batch. filled() and emptied() pass the places on.
    size_t filled_so_far() const { return tail.load(std::memory_order_relaxed); }
    size_t emptied_so_far() const { return head.load(std::memory_order_relaxed); }
    void **to_fill() { return slots + filled_so_far() % capacity; }
    void **to_empty() { return slots + emptied_so_far() % capacity; }
    void filled() { tail.store(filled_so_far() + batch, std::memory_order_release); }
    void emptied() { head.store(emptied_so_far() + batch, std::memory_order_release); }
};

// Blocks are made on one thread and freed on the other. With `filled`, the maker writes the whole block and the other thread
// reads it all before the free.
class Remote : public Alloc {
    bool both_ways, filled;
    Pipe pipes[2]; // from thread 0, from thread 1
    std::atomic<bool> failed{false};

    size_t words() const { return filled ? sizes().least / sizeof(uint64_t) : 1; }

    void write(void *block, uint64_t number) const {
        auto *word = static_cast<uint64_t *>(block);
        for (size_t i = 0; i < words(); i++) word[i] = number + i;
    }

    void read(const void *block, uint64_t number) const {
        const auto *word = static_cast<const uint64_t *>(block);
        uint64_t wrong = 0;
        for (size_t i = 0; i < words(); i++) wrong |= word[i] ^ (number + i);
        if (wrong != 0) alloc_changed();
    }

    void send(Pipe &pipe) const {
        void **slots = pipe.to_fill();
        size_t number = pipe.filled_so_far();
        for (size_t i = 0; i < Pipe::batch; i++) {
            slots[i] = alloc_block(sizes().least);
            write(slots[i], number + i);
        }
        pipe.filled();
    }

    void receive(Pipe &pipe) const {
        void **slots = pipe.to_empty();
        size_t number = pipe.emptied_so_far();
        for (size_t i = 0; i < Pipe::batch; i++) {
            read(slots[i], number + i);
            alloc_free(slots[i]);
        }
        pipe.emptied();
    }

    void exchange(unsigned self, uint64_t to_send, uint64_t to_receive) {
        unsigned idle = 0;
        while (to_send != 0 || to_receive != 0) {
            bool sends = to_send != 0 && pipes[self].has_room(), receives = to_receive != 0 && pipes[1 - self].has_batch();
            if (sends) {
                send(pipes[self]);
                to_send--;
            }
            if (receives) {
                receive(pipes[1 - self]);
                to_receive--;
            }
            if (sends || receives)
                idle = 0;
            else if (++idle % 1024 == 0)
                sched_yield();
            if (failed.load(std::memory_order_relaxed)) throw std::runtime_error("the other thread failed");
        }
    }

    void timed(unsigned self, uint64_t tasks) override {
        uint64_t batches = tasks * 2 / Pipe::batch; // of the whole round: `tasks` is this thread's half
        try {
            if (both_ways)
                exchange(self, batches / 2, batches / 2);
            else
                exchange(self, self == 0 ? batches : 0, self == 0 ? 0 : batches);
        } catch (const std::exception &) {
            failed.store(true);
            throw;
        }
    }

  public:
    Remote(AllocSizes bytes, bool both, bool whole) : Alloc(2, bytes), both_ways(both), filled(whole) {}
};

// The number at the start of `text`; moves past it and the separator after it.
size_t number_take(const std::string &text, size_t &at) {
    size_t end = text.find_first_not_of("0123456789", at);
    size_t value = std::stoul(text.substr(at, end - at));
    at = end == std::string::npos ? text.size() : text.find_first_of("0123456789", end);
    return value;
}

// "16..1024, 4096 live"
std::unique_ptr<Workload> mixed_case(const std::string &name, unsigned threads) {
    size_t at = 0;
    size_t least = number_take(name, at), most = number_take(name, at), live = number_take(name, at);
    return std::make_unique<Mixed>(threads, AllocSizes{least, most}, live);
}

} // namespace

std::unique_ptr<Workload> alloc_workload_make(const std::string &workload, const std::string &name, unsigned threads) {
    size_t at = 0;
    if (workload == "alloc-mixed" || workload == "alloc-middle") return mixed_case(name, threads);
    if (workload == "alloc-hot") {
        size_t size = number_take(name, at);
        AllocSizes sizes{size, size};
        if (number_take(name, at) == 1) return std::make_unique<Hot<1>>(sizes);
        return std::make_unique<Hot<64>>(sizes);
    }
    if (workload == "alloc-cold" && name == "burst") return std::make_unique<Burst>(AllocSizes{16, 1024});
    if (workload == "alloc-cold" && name == "short-thread") return std::make_unique<ShortThread>(AllocSizes{16, 1024});
    if (workload == "alloc-remote") {
        size_t size = number_take(name, at);
        return std::make_unique<Remote>(AllocSizes{size, size}, name.find("both") != std::string::npos,
                                        name.find("filled") != std::string::npos);
    }
    if (workload == "alloc-memory") return alloc_memory_make(name);
    return nullptr;
}

std::string alloc_library() {
    Dl_info info;
    void *symbol = dlsym(RTLD_DEFAULT, "malloc");
    char path[PATH_MAX];
    if (symbol == nullptr || dladdr(symbol, &info) == 0 || realpath(info.dli_fname, path) == nullptr) return "";
    return path;
}
