// See alloc_memory.hpp. The lists are kept in the blocks themselves, so that nothing but blocks is measured.
#include "alloc_memory.hpp"
#include "alloc_team.hpp"

#include <fstream>
#include <malloc.h>
#include <unistd.h>

namespace {

struct Node {
    Node *next;
};

// In order of allocation.
struct List {
    Node *first = nullptr;
    Node *last = nullptr;
    uint64_t bytes = 0; // asked for

    void add(AllocSizes sizes, AllocRandom &random) {
        size_t size = sizes.at(random.next());
        auto *node = static_cast<Node *>(alloc_block(size));
        node->next = nullptr;
        if (last == nullptr)
            first = node;
        else
            last->next = node;
        last = node;
        bytes += size;
    }

    void fill(AllocSizes sizes, uint64_t bytes_wanted, uint64_t seed) {
        AllocRandom random(seed);
        while (bytes < bytes_wanted) add(sizes, random);
    }

    void clear() {
        while (first != nullptr) {
            Node *next = first->next;
            alloc_free(first);
            first = next;
        }
        *this = List();
    }
};

// Counts only pages of no file: pages of the program's own code come when it runs, whatever the allocator. The value is
// exact; the counters in /proc/self/status lag behind by what threads have not reported yet.
uint64_t resident_exact() {
    std::ifstream file("/proc/self/smaps_rollup");
    for (std::string line; std::getline(file, line);) {
        if (line.compare(0, 10, "Anonymous:") == 0) return std::stoull(line.substr(10)) * 1024;
    }
    throw std::runtime_error("/proc/self/smaps_rollup cannot be read");
}

class Memory : public Workload {
    uint64_t before = resident_exact(), resident = 0;
    AllocSizes range;
    uint64_t proofs = 1;

  protected:
    AllocSizes sizes() const { return range; }
    uint64_t seed() const { return proofs; }
    void look() { resident = resident_exact(); }
    virtual void measure(uint64_t bytes) = 0;

  public:
    explicit Memory(AllocSizes bytes) : range(bytes) {}
    size_t payload_max() const override { return range.most; }
    bool run_range(uint64_t, uint64_t) override { return false; }
    job_totals expected(uint64_t) const override { return {0, 0, 0}; }
    void prove() override { alloc_prove(range, ++proofs); }
    uint64_t held_bytes() const override { return resident; }
    uint64_t held_before() const override { return before; }
    int run(const entrant &, void *, uint64_t tasks) override {
        measure(tasks);
        return 0;
    }
};

// Blocks of 8 to 64 bytes, all live.
class Tiny : public Memory {
    void measure(uint64_t bytes) override {
        List list;
        list.fill(sizes(), bytes, seed());
        look();
        list.clear();
    }

  public:
    Tiny() : Memory({8, 64}) {}
};

// A window of live blocks: this thread allocates the newest, another frees the oldest, until sixteen windows have passed.
class Freer : public Memory {
    static constexpr unsigned windows = 16, batch = 256;
    std::mutex lock;
    std::condition_variable changed;
    std::vector<Node *> handed; // lists of `batch` blocks; NULL is the end
    static constexpr size_t handed_max = 8;

    void hand(Node *list) {
        std::unique_lock<std::mutex> held(lock);
        changed.wait(held, [this] { return handed.size() < handed_max; });
        handed.push_back(list);
        changed.notify_all();
    }

    Node *take() {
        std::unique_lock<std::mutex> held(lock);
        changed.wait(held, [this] { return !handed.empty(); });
        Node *list = handed.front();
        handed.erase(handed.begin());
        changed.notify_all();
        return list;
    }

    void free_all() {
        for (Node *list = take(); list != nullptr; list = take()) {
            while (list != nullptr) {
                Node *next = list->next;
                alloc_free(list);
                list = next;
            }
        }
    }

    // Cuts off the oldest blocks: a batch, or fewer if there are fewer. There is at least one.
    static Node *cut(List &list) {
        Node *oldest = list.first, *end = oldest;
        for (unsigned i = 1; i < batch && end->next != nullptr; i++) end = end->next;
        list.first = end->next;
        if (list.first == nullptr) list.last = nullptr;
        end->next = nullptr;
        return oldest;
    }

    void measure(uint64_t bytes) override {
        List window;
        AllocRandom random(seed());
        window.fill(sizes(), bytes, seed());
        std::thread other([this] { free_all(); });
        for (uint64_t end = bytes * windows; window.bytes < end;) {
            for (unsigned i = 0; i < batch; i++) window.add(sizes(), random);
            hand(cut(window));
        }
        // The other thread frees everything before it sees the end, and still lives while memory is measured.
        for (unsigned i = 0; i < handed_max && window.first != nullptr; i++) hand(cut(window));
        drain();
        look();
        hand(nullptr);
        other.join();
        window.clear();
    }

    void drain() {
        std::unique_lock<std::mutex> held(lock);
        changed.wait(held, [this] { return handed.empty(); });
    }

  public:
    Freer() : Memory({16, 1024}) { handed.reserve(handed_max); }
};

enum class After { at_once, trim, second };

// Memory left when everything has been freed, for each byte that was live: at once, after malloc_trim, or after a second in
// which the thread goes on with a little work.
class Freed : public Memory {
    After when;

    void work_a_second() {
        for (unsigned i = 0; i < 100; i++) {
            List list;
            list.fill(sizes(), 4096, i);
            list.clear();
            usleep(10000);
        }
    }

    void measure(uint64_t bytes) override {
        List list;
        list.fill(sizes(), bytes, seed());
        list.clear();
        if (when == After::trim) malloc_trim(0);
        if (when == After::second) work_a_second();
        look();
    }

  public:
    explicit Freed(After moment) : Memory({16, 1024}), when(moment) {}
};

// Twenty threads are alive at once. After they have freed their blocks and ended, this thread allocates as much as they had
// together.
class Exited : public Memory {
    static constexpr unsigned count = 20;

    void measure(uint64_t bytes) override {
        std::vector<std::thread> threads;
        std::mutex lock;
        std::condition_variable changed;
        unsigned full = 0;
        for (unsigned i = 0; i < count; i++) {
            threads.emplace_back([&, i] {
                List list;
                list.fill(sizes(), bytes / count, seed() + i);
                std::unique_lock<std::mutex> held(lock);
                full++;
                changed.notify_all();
                changed.wait(held, [&] { return full == count; });
                held.unlock();
                list.clear();
            });
        }
        for (auto &thread : threads) thread.join();
        List list;
        list.fill(sizes(), bytes, seed());
        look();
        list.clear();
    }

  public:
    Exited() : Memory({16, 1024}) {}
};

} // namespace

std::unique_ptr<Workload> alloc_memory_make(const std::string &name) {
    if (name == "tiny") return std::make_unique<Tiny>();
    if (name == "thread-only-frees") return std::make_unique<Freer>();
    if (name == "freed") return std::make_unique<Freed>(After::at_once);
    if (name == "freed-trim") return std::make_unique<Freed>(After::trim);
    if (name == "freed-1s") return std::make_unique<Freed>(After::second);
    if (name == "20-threads-exited") return std::make_unique<Exited>();
    return nullptr;
}
