// Proves that a race's allocator keeps its promises. It is not timed.
#include "alloc_team.hpp"

#include <algorithm>
#include <cstddef>

namespace {

constexpr size_t blocks_max = 256;
constexpr unsigned steps = 2048;

struct Block {
    unsigned char *bytes = nullptr;
    size_t size = 0;
    unsigned char fill = 0;

    void expect(size_t count, unsigned char value) const {
        auto other = [value](unsigned char byte) { return byte != value; };
        if (std::any_of(bytes, bytes + count, other)) throw std::runtime_error("the contents of a block changed in proof");
    }

    void take(void *from, size_t count, unsigned char value) {
        bytes = static_cast<unsigned char *>(from);
        if (bytes == nullptr) throw std::runtime_error("the allocator returned NULL");
        size_t alignment = count < alignof(std::max_align_t) ? alignof(void *) : alignof(std::max_align_t);
        if (reinterpret_cast<uintptr_t>(bytes) % alignment != 0) throw std::runtime_error("a block is not aligned");
        size = count;
        fill = value;
        memset(bytes, value, count);
    }

    void grow(size_t count, unsigned char value) {
        size_t kept = std::min(size, count);
        expect(size, fill);
        bytes = static_cast<unsigned char *>(realloc(bytes, count));
        if (bytes == nullptr) throw std::runtime_error("realloc returned NULL");
        expect(kept, fill);
        take(bytes, count, value);
    }

    void zeroed(size_t count, unsigned char value) {
        bytes = static_cast<unsigned char *>(calloc(count, 1));
        if (bytes == nullptr) throw std::runtime_error("calloc returned NULL");
        expect(count, 0);
        take(bytes, count, value);
    }

    void drop() {
        if (bytes == nullptr) return;
        expect(size, fill);
        free(bytes);
        bytes = nullptr;
    }
};

} // namespace

void alloc_prove(AllocSizes sizes, uint64_t seed) {
    std::vector<Block> blocks(blocks_max);
    AllocRandom random(seed);
    // With large blocks there are fewer of them, so that they take no more bytes in all than small ones.
    size_t used = std::max<size_t>(1, std::min<size_t>(blocks_max, (size_t{8} << 20) / sizes.most));
    for (unsigned i = 0; i < steps; i++) {
        uint64_t number = random.next();
        Block &block = blocks[(number >> 32) % used];
        auto value = static_cast<unsigned char>(number >> 56);
        size_t size = sizes.at(number);
        if (i % 4 == 0 && block.bytes != nullptr) {
            block.grow(size, value);
            continue;
        }
        block.drop();
        if (i % 4 == 1)
            block.zeroed(size, value);
        else
            block.take(malloc(size), size, value);
    }
    for (auto &block : blocks) block.drop();
}
