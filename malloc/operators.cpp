// operators.cpp: C++'s operators new and delete, except for the plain forms, which are in malloc.c. See
// docs/howto/malloc.md.
//
// The library needs no C++ runtime: it refers to one by weak symbols, and calls it only when memory has run out, in a
// process that has one. If a runtime was loaded later, by dlopen, it is looked up then. It may be visible only to its own
// library, and it has to catch exceptions in our place, because our code to catch them was not bound when we were loaded.
// Without a runtime, an allocation that cannot be served ends the process.
#include "malloc_internal.h"

#include <cstdlib>
#include <dlfcn.h>
#include <new>

// The last is std::terminate.
__asm__(".weak __gxx_personality_v0, __cxa_begin_catch, __cxa_end_catch, _Unwind_Resume, _ZSt9terminatev");

// std::get_new_handler and std::__throw_bad_alloc, by their names in the object file.
std::new_handler runtime_handler() noexcept __asm__("_ZSt15get_new_handlerv") __attribute__((weak));
[[noreturn]] void runtime_throw() __asm__("_ZSt17__throw_bad_allocv") __attribute__((weak));

using size = std::size_t;
using alignment = std::align_val_t;

namespace {

// NULL: the process has no such function.
template <class Function> Function late(const char *name) {
    static const char *const runtimes[] = {"libstdc++.so.6", "libc++.so.1"};
    for (const char *runtime : runtimes) {
        void *library = dlopen(runtime, RTLD_LAZY | RTLD_NOLOAD),
             *found = library != nullptr ? dlsym(library, name) : nullptr;
        if (found != nullptr) return reinterpret_cast<Function>(found);
    }
    return nullptr;
}

std::new_handler handler_now() {
    auto ask = runtime_handler != nullptr ? runtime_handler : late<std::new_handler (*)()>("_ZSt15get_new_handlerv");
    return ask != nullptr ? ask() : nullptr;
}

[[noreturn]] void throw_now() {
    auto raise = runtime_throw != nullptr ? runtime_throw : late<void (*)()>("_ZSt17__throw_bad_allocv");
    if (raise != nullptr) raise();
    abort();
}

void *get(size bytes, size align) { return align == 0 ? weft_alloc(bytes) : weft_alloc_aligned(align, bytes); }

// As the standard requires: the handler makes room or throws; without a handler this throws std::bad_alloc.
NOINLINE void *get_slow(size bytes, size align) {
    for (;;) {
        std::new_handler handler = handler_now();
        if (handler == nullptr) throw_now();
        handler();
        void *block = get(bytes, align);
        if (block != nullptr) return block;
    }
}

// The runtime's own nothrow form calls our operator new, and catches what it throws.
void *try_late(size bytes, size align) {
    if (align == 0) {
        auto plain = late<void *(*)(size, const std::nothrow_t &)>("_ZnwmRKSt9nothrow_t");
        return plain != nullptr ? plain(bytes, std::nothrow_t{}) : nullptr;
    }
    auto aligned = late<void *(*)(size, alignment, const std::nothrow_t &)>("_ZnwmSt11align_val_tRKSt9nothrow_t");
    return aligned != nullptr ? aligned(bytes, static_cast<alignment>(align), std::nothrow_t{}) : nullptr;
}

NOINLINE void *try_slow(size bytes, size align) noexcept {
    if (handler_now() == nullptr) return nullptr;
    if (runtime_handler == nullptr) return try_late(bytes, align);
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

// ---- if the program has its own ----------------------------------------------------------------------------------------

// The standard says that a form that the program has not replaced calls one that it may have replaced. Calls of operators in
// this file go through the linker's names, and so to the program's. If the plain ones are ours, the most used forms skip
// that call. Until they have been compared, all forms make it: a library's constructor may run before.
bool operators_new_is_replaced = true, operators_delete_is_replaced = true;

void *operators_new_used(size_t bytes) { return ::operator new(bytes); }
void operators_delete_used(void *block) { ::operator delete(block); }
void operators_delete_array_used(void *block) { ::operator delete[](block); }

OURS void *operators_new_aligned(size bytes, alignment align) noexcept(false)
    __attribute__((alias("_ZnwmSt11align_val_t"), malloc, alloc_size(1)));

namespace {

bool plain_is_replaced = true, aligned_is_replaced = true; // operator new alone, and its aligned form

// The asm hides the value from the compiler, which assumes that two functions have different addresses.
template <class Function> bool is_ours(Function used, Function ours) {
    __asm__("" : "+r"(used));
    return used == ours;
}

__attribute__((constructor(101))) void operators_compare() {
    using new_form = void *(*)(size);
    using delete_form = void (*)(void *);
    using aligned_form = void *(*)(size, alignment);
    plain_is_replaced = !is_ours(static_cast<new_form>(::operator new), operators_new);
    operators_new_is_replaced = plain_is_replaced || !is_ours(static_cast<new_form>(::operator new[]), operators_new_array);
    operators_delete_is_replaced = !is_ours(static_cast<delete_form>(::operator delete), operators_delete) ||
                                   !is_ours(static_cast<delete_form>(::operator delete[]), operators_delete_array);
    aligned_is_replaced = !is_ours(static_cast<aligned_form>(::operator new), operators_new_aligned);
}

template <class Call> void *null_if_thrown(Call call) noexcept {
    try {
        return call();
    } catch (...) {
        return nullptr;
    }
}

} // namespace

// ---- the operators -----------------------------------------------------------------------------------------------------

EXPORT void *operator new(size bytes, alignment align) { return get_or_throw(bytes, align); }
EXPORT void *operator new[](size bytes, alignment align) { return ::operator new(bytes, align); }
EXPORT void *operator new(size bytes, const std::nothrow_t &) noexcept {
    if (UNLIKELY(plain_is_replaced)) return null_if_thrown([=] { return ::operator new(bytes); });
    return get_or_null(bytes);
}
EXPORT void *operator new[](size bytes, const std::nothrow_t &) noexcept {
    if (UNLIKELY(operators_new_is_replaced)) return null_if_thrown([=] { return ::operator new[](bytes); });
    return get_or_null(bytes);
}
EXPORT void *operator new(size bytes, alignment align, const std::nothrow_t &) noexcept {
    if (UNLIKELY(aligned_is_replaced)) return null_if_thrown([=] { return ::operator new(bytes, align); });
    return get_or_null(bytes, align);
}
EXPORT void *operator new[](size bytes, alignment align, const std::nothrow_t &) noexcept {
    if (UNLIKELY(aligned_is_replaced)) return null_if_thrown([=] { return ::operator new[](bytes, align); });
    return get_or_null(bytes, align);
}

EXPORT void operator delete(void *block, alignment) noexcept { weft_free(block); }
EXPORT void operator delete[](void *block, alignment align) noexcept { ::operator delete(block, align); }
EXPORT void operator delete(void *block, size, alignment align) noexcept { ::operator delete(block, align); }
EXPORT void operator delete[](void *block, size, alignment align) noexcept { ::operator delete[](block, align); }
EXPORT void operator delete(void *block, const std::nothrow_t &) noexcept { ::operator delete(block); }
EXPORT void operator delete[](void *block, const std::nothrow_t &) noexcept { ::operator delete[](block); }
EXPORT void operator delete(void *block, alignment align, const std::nothrow_t &) noexcept {
    ::operator delete(block, align);
}
EXPORT void operator delete[](void *block, alignment align, const std::nothrow_t &) noexcept {
    ::operator delete[](block, align);
}
