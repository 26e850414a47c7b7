// weft_memory.hpp: the allocator and the memory resource, in containers, over threads, when there is no memory.
#include <doctest/doctest.h>

#include <weft_memory.hpp>

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

weft_heap_counts counts_now() {
    weft_heap_counts counts{};
    counts.struct_size = sizeof counts;
    REQUIRE(weft_heap_stats(&counts) == WEFT_OK);
    return counts;
}

struct alignas(256) wide {
    unsigned char bytes[256];
};

bool is_aligned(const void *p, std::size_t alignment) { return reinterpret_cast<std::uintptr_t>(p) % alignment == 0; }

} // namespace

TEST_CASE("containers take the heap's memory and give all of it back") {
    weft_heap_counts before = counts_now();
    {
        std::vector<int, weft::allocator<int>> numbers;
        for (int i = 0; i < 100000; i++) numbers.insert(numbers.end(), i); /* it grows */
        CHECK(counts_now().live_bytes >= before.live_bytes + 100000 * sizeof(int));
        std::list<std::string, weft::allocator<std::string>> words(
            100, "a word that is longer than what a string holds in itself");
        std::map<int, int, std::less<>, weft::allocator<std::pair<const int, int>>> squares;
        for (int i = 0; i < 1000; i++) squares[i] = i * i;
        CHECK(numbers[99999] == 99999);
        CHECK(squares[999] == 998001);
        auto moved = std::move(numbers);
        CHECK(moved.size() == 100000);
    }
    weft_heap_counts after = counts_now();
    CHECK(after.alloc_count > before.alloc_count + 1100);
    CHECK(after.live_bytes == before.live_bytes);
}

extern long *(weft::allocator<long>::*take_longs)(std::size_t); // not known to the compiler, which would else call it inline
long *(weft::allocator<long>::*take_longs)(std::size_t) = &weft::allocator<long>::allocate;

TEST_CASE("beside a unit without exceptions, in which the same ends the program") {
    weft::allocator<long> allocator;
    CHECK_THROWS_AS((allocator.*take_longs)(SIZE_MAX / 2), std::bad_alloc);
}

TEST_CASE("polymorphic containers") {
    weft_heap_counts before = counts_now();
    {
        std::pmr::unordered_map<int, std::pmr::string> map(weft::heap_resource());
        for (int i = 0; i < 1000; i++) map.emplace(i, "a word that is longer than what a string holds in itself");
        CHECK(map.at(500).get_allocator().resource() == weft::heap_resource());
    }
    CHECK(counts_now().live_bytes == before.live_bytes);
    CHECK(counts_now().alloc_count > before.alloc_count + 2000);
    CHECK(*weft::heap_resource() == *weft::heap_resource());
    CHECK(*weft::heap_resource() != *std::pmr::new_delete_resource());
}

TEST_CASE("alignment beyond 16") {
    std::vector<wide, weft::allocator<wide>> wides(10);
    CHECK(is_aligned(wides.data(), alignof(wide)));
    for (std::size_t alignment = 1; alignment <= 65536; alignment *= 2) {
        void *p = weft::heap_resource()->allocate(100, alignment);
        CHECK(is_aligned(p, alignment));
        weft::heap_resource()->deallocate(p, 100, alignment);
    }
}

TEST_CASE("too much is bad_alloc, and nothing else happened") {
    weft_heap_counts before = counts_now();
    CHECK_THROWS_AS(static_cast<void>(weft::allocator<int>().allocate(SIZE_MAX / 2)), std::bad_alloc);
    CHECK_THROWS_AS(static_cast<void>(weft::allocator<int>().allocate(SIZE_MAX / 8)), std::bad_alloc);
    CHECK_THROWS_AS(static_cast<void>(weft::heap_resource()->allocate(SIZE_MAX - 100)), std::bad_alloc);
    CHECK(counts_now().live_bytes == before.live_bytes);
}

TEST_CASE("made on one thread, freed on another") {
    weft_heap_counts before = counts_now();
    for (int i = 0; i < 20; i++) {
        auto list = std::make_unique<std::list<int, weft::allocator<int>>>(5000, i);
        std::thread([other = std::move(list)] { CHECK(other->size() == 5000); }).join();
    }
    CHECK(counts_now().live_bytes == before.live_bytes);
}
