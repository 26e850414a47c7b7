// cxx.cpp: C++'s operators, case by case, on the C++ runtime's own and on libweft-malloc.so. `cxx SERVER`.
#include "server.h"

#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace {

int failures = 0;
void *result; // of a call that should give nothing

void check(bool truth, int line, const char *what) {
    if (truth) return;
    printf("line %d: not true: %s\n", line, what);
    failures++;
}
#define CHECK(x) check((x), __LINE__, #x)

struct alignas(256) Wide {
    char bytes[300];
};

// More than there is, and nothing that a compiler can know of.
size_t too_much() {
    size_t size = SIZE_MAX / 4;
    __asm__("" : "+r"(size));
    return size;
}

template <class Call> bool throws_bad_alloc(Call call) {
    try {
        call();
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

// All forms, by their names: the compiler may not pair and remove them.
void forms() {
    const std::align_val_t wide{512};
    for (size_t size = 0; size < 100000; size = size * 3 + 1) {
        ::operator delete(::operator new(size));
        ::operator delete(::operator new(size), size);
        ::operator delete[](::operator new[](size));
        ::operator delete[](::operator new[](size), size);
        ::operator delete(::operator new(size, std::nothrow), std::nothrow);
        ::operator delete[](::operator new[](size, std::nothrow), std::nothrow);
        void *blocks[] = {::operator new(size, wide), ::operator new[](size, wide), ::operator new(size, wide, std::nothrow),
                          ::operator new[](size, wide, std::nothrow)};
        for (void *block : blocks) CHECK(block != nullptr && reinterpret_cast<uintptr_t>(block) % 512 == 0);
        ::operator delete(blocks[0], size, wide);
        ::operator delete[](blocks[1], size, wide);
        ::operator delete(blocks[2], wide, std::nothrow);
        ::operator delete[](blocks[3], wide, std::nothrow);
        ::operator delete(::operator new(size, wide), wide);
        ::operator delete[](::operator new[](size, wide), wide);
    }
    ::operator delete(nullptr);
    ::operator delete[](nullptr);
    ::operator delete (nullptr, size_t{8});
    ::operator delete(nullptr, wide);
    void *first = ::operator new(0), *second = ::operator new(0);
    CHECK(first != nullptr && second != nullptr && first != second);
    ::operator delete(first);
    ::operator delete(second);
}

void out_of_memory() {
    const std::align_val_t wide{512};
    size_t size = too_much();
    CHECK(throws_bad_alloc([=] { ::operator delete(::operator new(size)); }));
    CHECK(throws_bad_alloc([=] { ::operator delete[](::operator new[](size)); }));
    CHECK(throws_bad_alloc([=] { ::operator delete(::operator new(size, wide), wide); }));
    CHECK(throws_bad_alloc([=] { ::operator delete[](::operator new[](size, wide), wide); }));
    CHECK((result = ::operator new(size, std::nothrow)) == nullptr);
    CHECK((result = ::operator new[](size, std::nothrow)) == nullptr);
    CHECK((result = ::operator new(size, wide, std::nothrow)) == nullptr);
    CHECK((result = ::operator new[](size, wide, std::nothrow)) == nullptr);
}

int handled;

// Gives up at the third call, by taking itself away.
void handler_that_leaves() {
    if (++handled == 3) std::set_new_handler(nullptr);
}

void handler_that_throws() {
    handled++;
    throw std::bad_alloc();
}

void handlers() {
    size_t size = too_much();
    handled = 0;
    std::set_new_handler(handler_that_leaves);
    CHECK(throws_bad_alloc([=] { ::operator delete(::operator new(size)); }) && handled == 3);
    handled = 0;
    std::set_new_handler(handler_that_leaves);
    CHECK((result = ::operator new(size, std::nothrow)) == nullptr && handled == 3);
    handled = 0;
    std::set_new_handler(handler_that_throws);
    CHECK(throws_bad_alloc([=] { ::operator delete(::operator new(size)); }) && handled == 1);
    CHECK((result = ::operator new(size, std::nothrow)) == nullptr && handled == 2);
    CHECK(::operator new (size, std::align_val_t{64}, std::nothrow) == nullptr &&handled == 3);
    std::set_new_handler(nullptr);
}

void objects() {
    auto wide = std::make_unique<Wide>();
    CHECK(reinterpret_cast<uintptr_t>(wide.get()) % 256 == 0);
    std::unique_ptr<Wide[]> several(new Wide[3]);
    CHECK(reinterpret_cast<uintptr_t>(several.get()) % 256 == 0);
    std::map<std::string, std::vector<int>> map;
    for (int i = 0; i < 10000; i++) map[std::string(static_cast<size_t>(i % 100), 'x') + std::to_string(i)].assign(20, i);
    int wrong = 0;
    for (const auto &[key, values] : map)
        wrong += values.size() != 20 || std::stoi(key.substr(key.find_last_of('x') + 1)) != values[7];
    CHECK(wrong == 0);
    // Made here, gone there.
    std::thread([taken = std::move(map)]() mutable { taken.clear(); }).join();
}

} // namespace

int main(int argc, char **argv) {
    require_server(argc == 2 ? argv[1] : nullptr);
    forms();
    out_of_memory();
    handlers();
    objects();
    printf("%d failed\n", failures);
    return failures != 0;
}
