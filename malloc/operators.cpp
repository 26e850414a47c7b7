// operators.cpp: C++'s operators new and delete, but for the plain forms, which malloc.c has. See docs/malloc.md.
//
// The library needs no C++ runtime: what it uses of one is weak, and called only when memory has run out, in a process that
// has one. Without one, an allocation that cannot be served ends the process.
#include "malloc_internal.h"

#include <cstdlib>
#include <new>

__asm__(".weak __gxx_personality_v0, __cxa_begin_catch, __cxa_end_catch, _Unwind_Resume");

// std::get_new_handler and std::__throw_bad_alloc, by their names in the object file.
std::new_handler runtime_handler() noexcept __asm__("_ZSt15get_new_handlerv") __attribute__((weak));
[[noreturn]] void runtime_throw() __asm__("_ZSt17__throw_bad_allocv") __attribute__((weak));

using size = std::size_t;
using alignment = std::align_val_t;

namespace {

void *get(size bytes, size align) { return align == 0 ? weft_alloc(bytes) : weft_alloc_aligned(align, bytes); }

// What the standard asks for: the handler makes room, or throws; without a handler, std::bad_alloc.
NOINLINE void *get_slow(size bytes, size align) {
    for (;;) {
        std::new_handler handler = runtime_handler != nullptr ? runtime_handler() : nullptr;
        if (handler == nullptr) {
            if (runtime_throw == nullptr) abort();
            runtime_throw();
        }
        handler();
        void *block = get(bytes, align);
        if (block != nullptr) return block;
    }
}

NOINLINE void *try_slow(size bytes, size align) noexcept {
    if (runtime_handler == nullptr || runtime_handler() == nullptr) return nullptr;
    try {
        return get_slow(bytes, align);
    } catch (...) {
        return nullptr;
    }
}

inline void *get_or_throw(size bytes, alignment align) {
    void *block = get(bytes, static_cast<size>(align));
    return LIKELY(block != nullptr) ? block : get_slow(bytes, static_cast<size>(align));
}

inline void *get_or_null(size bytes) noexcept {
    void *block = weft_alloc(bytes);
    return LIKELY(block != nullptr) ? block : try_slow(bytes, 0);
}

inline void *get_or_null(size bytes, alignment align) noexcept {
    void *block = get(bytes, static_cast<size>(align));
    return LIKELY(block != nullptr) ? block : try_slow(bytes, static_cast<size>(align));
}

} // namespace

void *operators_new_slow(size_t bytes) { return get_slow(bytes, 0); }

EXPORT void *operator new(size bytes, alignment align) { return get_or_throw(bytes, align); }
EXPORT void *operator new[](size bytes, alignment align) { return get_or_throw(bytes, align); }
EXPORT void *operator new(size bytes, const std::nothrow_t &) noexcept { return get_or_null(bytes); }
EXPORT void *operator new[](size bytes, const std::nothrow_t &) noexcept { return get_or_null(bytes); }
EXPORT void *operator new(size bytes, alignment align, const std::nothrow_t &) noexcept { return get_or_null(bytes, align); }
EXPORT void *operator new[](size bytes, alignment align, const std::nothrow_t &) noexcept {
    return get_or_null(bytes, align);
}

EXPORT void operator delete(void *block, alignment) noexcept { weft_free(block); }
EXPORT void operator delete[](void *block, alignment) noexcept { weft_free(block); }
EXPORT void operator delete(void *block, size, alignment) noexcept { weft_free(block); }
EXPORT void operator delete[](void *block, size, alignment) noexcept { weft_free(block); }
EXPORT void operator delete(void *block, const std::nothrow_t &) noexcept { weft_free(block); }
EXPORT void operator delete[](void *block, const std::nothrow_t &) noexcept { weft_free(block); }
EXPORT void operator delete(void *block, alignment, const std::nothrow_t &) noexcept { weft_free(block); }
EXPORT void operator delete[](void *block, alignment, const std::nothrow_t &) noexcept { weft_free(block); }
