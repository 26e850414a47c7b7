/* weft_memory.hpp: weft's heap for C++17 containers, over weft.h alone.
 *
 *     std::vector<int, weft::allocator<int>> numbers;
 *     std::pmr::vector<int> others(weft::heap_resource());
 *
 * Memory may be freed by any thread. What cannot be served throws std::bad_alloc; without exceptions (-fno-exceptions) it
 * ends the program and says why.
 *
 * Copyright the weft authors. MIT licence, see LICENSE.
 */
#ifndef WEFT_MEMORY_HPP
#define WEFT_MEMORY_HPP

#if __cplusplus < 201703L
#error "weft_memory.hpp needs C++17 or later; weft.h serves C++11"
#endif

#include <weft.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory_resource>
#include <new>
#include <type_traits>

#if !defined(WEFT_PREFIX)
#define WEFT_NAME(name) name
#endif
#if defined(WEFT_STATIC)
#define WEFT_SEEN WEFT_API
#else
#define WEFT_SEEN
#endif
#if defined(__cpp_exceptions)
#define WEFT_WAYS WEFT_NAME(throwing)
#else
#define WEFT_WAYS WEFT_NAME(aborting)
#endif

namespace weft {
inline namespace WEFT_WAYS WEFT_SEEN { // as in weft.hpp

namespace detail {

constexpr std::size_t heap_align = 16; // of weft_alloc

[[noreturn]] inline void no_memory() {
#if defined(__cpp_exceptions)
    throw std::bad_alloc();
#else
    std::fputs("weft: out of memory\n", stderr);
    std::abort();
#endif
}

inline void *heap_take(std::size_t bytes, std::size_t alignment) {
    void *memory = alignment <= heap_align ? weft_alloc(bytes) : weft_alloc_aligned(alignment, bytes);
    if (memory == nullptr) no_memory();
    return memory;
}

// As they were passed to heap_take.
inline void heap_give(void *memory, std::size_t bytes, std::size_t alignment) noexcept {
    if (alignment <= heap_align)
        weft_free_sized(memory, bytes);
    else
        weft_free(memory);
}

class heap_memory final : public std::pmr::memory_resource {
    void *do_allocate(std::size_t bytes, std::size_t alignment) override { return heap_take(bytes, alignment); }
    void do_deallocate(void *memory, std::size_t bytes, std::size_t alignment) override {
        heap_give(memory, bytes, alignment);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override { return this == &other; }
};

} // namespace detail

// The heap as a memory resource. Never destroyed: containers that end after main may still give their memory back.
inline std::pmr::memory_resource *heap_resource() noexcept {
    alignas(detail::heap_memory) static std::byte place[sizeof(detail::heap_memory)];
    static std::pmr::memory_resource *const resource = ::new (static_cast<void *>(place)) detail::heap_memory;
    return resource;
}

// A stateless allocator: all are equal.
template <class T> struct allocator {
    using value_type = T;
    using is_always_equal = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;

    allocator() noexcept = default;
    template <class U> allocator(const allocator<U> &) noexcept {}

    [[nodiscard]] T *allocate(std::size_t count) {
        if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) detail::no_memory();
        return static_cast<T *>(detail::heap_take(count * sizeof(T), alignof(T)));
    }
    void deallocate(T *memory, std::size_t count) noexcept { detail::heap_give(memory, count * sizeof(T), alignof(T)); }
};

template <class T, class U> bool operator==(const allocator<T> &, const allocator<U> &) noexcept { return true; }
template <class T, class U> bool operator!=(const allocator<T> &, const allocator<U> &) noexcept { return false; }

} // namespace WEFT_SEEN
} // namespace weft

#endif
