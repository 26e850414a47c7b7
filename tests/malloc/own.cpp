// own.cpp: a program that replaces some of C++'s operators, with a header before each block: the others are to ask those. `own
// SERVER`. OWN 1: new and delete; 2: new[] and delete[]; 3: those with an alignment.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>

#if !defined(STATIC)
#include "server.h"
#endif

namespace {

constexpr std::size_t header = 512; // and so the alignment that blocks have
constexpr std::uint64_t mark = 0x5eed5eed5eed5eed;
long made, gone;

void *make(std::size_t size) {
    if (size > SIZE_MAX / 8) throw std::bad_alloc();
    char *block = static_cast<char *>(std::aligned_alloc(header, (size / header + 2) * header));
    if (block == nullptr) throw std::bad_alloc();
    *reinterpret_cast<std::uint64_t *>(block) = mark;
    made++;
    return block + header;
}

void end(void *p) {
    if (p == nullptr) return;
    char *block = static_cast<char *>(p) - header;
    if (*reinterpret_cast<std::uint64_t *>(block) != mark) {
        puts("a delete of what this program has not made");
        exit(1);
    }
    *reinterpret_cast<std::uint64_t *>(block) = 0;
    gone++;
    std::free(block);
}

std::size_t too_much() {
    std::size_t size = SIZE_MAX / 4;
    __asm__("" : "+r"(size));
    return size;
}

// Also makes a static program have what catches.
bool throws() {
    try {
        (void)make(too_much());
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

void require(bool holds, int line) {
    if (holds) return;
    printf("line %d: not true; %ld made, %ld gone\n", line, made, gone);
    exit(1);
}
#define REQUIRE(holds) require(holds, __LINE__)

// Whether the last of `forms` pairs each used the program's two functions.
void expect(long forms, int line) {
    static long before;
    before += forms;
    require(made == before && gone == before, line);
}

const std::align_val_t wide{512};

void plain_forms() {
    ::operator delete(::operator new(40));
    ::operator delete (::operator new(40), std::size_t{40});
    ::operator delete(::operator new(40, std::nothrow), std::nothrow);
}

void array_forms() {
    ::operator delete[](::operator new[](40));
    ::operator delete[](::operator new[](40), std::size_t{40});
    ::operator delete[](::operator new[](40, std::nothrow), std::nothrow);
}

void aligned_forms() {
    ::operator delete(::operator new(40, wide), wide);
    ::operator delete (::operator new(40, wide), std::size_t{40}, wide);
    ::operator delete(::operator new(40, wide, std::nothrow), wide, std::nothrow);
    ::operator delete[](::operator new[](40, wide), wide);
    ::operator delete[](::operator new[](40, wide), std::size_t{40}, wide);
    ::operator delete[](::operator new[](40, wide, std::nothrow), wide, std::nothrow);
}

} // namespace

#if OWN == 1
void *operator new(std::size_t size) { return make(size); }
void operator delete(void *p) noexcept { end(p); }
#elif OWN == 2
void *operator new[](std::size_t size) { return make(size); }
void operator delete[](void *p) noexcept { end(p); }
#else
void *operator new(std::size_t size, std::align_val_t) { return make(size); }
void operator delete(void *p, std::align_val_t) noexcept { end(p); }
#endif

int main(int argc, char **argv) {
#if !defined(STATIC)
    require_server(argc == 2 ? argv[1] : nullptr);
#else
    (void)argc, (void)argv;
#endif
    made = gone = 0; // a C++ runtime has begun
    plain_forms();
    expect(OWN == 1 ? 3 : 0, __LINE__);
    array_forms();
    expect(OWN != 3 ? 3 : 0, __LINE__);
    aligned_forms();
    expect(OWN == 3 ? 6 : 0, __LINE__);
    REQUIRE(throws());
    REQUIRE(::operator new(too_much(), std::nothrow) == nullptr);
    REQUIRE(::operator new[](too_much(), std::nothrow) == nullptr);
    REQUIRE(::operator new(too_much(), wide, std::nothrow) == nullptr);
    REQUIRE(::operator new[](too_much(), wide, std::nothrow) == nullptr);
    puts("each form asked the program's");
    return 0;
}
