// weft_patterns.hpp: invoke, loops, reductions, sorting, graphs.
#include <doctest/doctest.h>

#include "cpp_help.hpp"

#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

// The same numbers in each run.
struct numbers_of {
    std::uint32_t state;
    std::uint32_t operator()() {
        state = state * 1664525 + 1013904223;
        return state >> 8;
    }
};

// The allocation by operator new that fails, counted down from here; 0: none. The linker puts this in its place
// (CMakeLists.txt).
static std::atomic<long> fails_at{0};
static std::atomic<bool> keeps_nothing{false}; // the one that may say so fails always
extern "C" {
void *__real__Znwm(std::size_t size);
void *__wrap__Znwm(std::size_t size) {
    long left = fails_at.load();
    while (left > 0 && !fails_at.compare_exchange_weak(left, left > 1 ? left - 1 : -1)) {}
    if (left == 1) throw std::bad_alloc();
    return __real__Znwm(size);
}
void *__real__ZnwmRKSt9nothrow_t(std::size_t size, const std::nothrow_t &tag);
void *__wrap__ZnwmRKSt9nothrow_t(std::size_t size, const std::nothrow_t &tag) {
    return keeps_nothing ? nullptr : __real__ZnwmRKSt9nothrow_t(size, tag);
}
}

// ---- submitting -------------------------------------------------------------------------------------------------------

TEST_CASE("a callable for which there is no memory") {
    weft::pool pool(2);
    weft::group group(pool);
    std::atomic<int> runs{0};
    std::array<unsigned char, WEFT_INLINE_MAX> bytes{};
    auto large = [bytes, moved = std::make_unique<int>(1), &runs] { runs += bytes[0] + *moved; };
    std::error_code error;
    keeps_nothing = true;
    group.submit(std::move(large), error);
    CHECK(error == std::errc::not_enough_memory);
    CHECK_THROWS_AS(group.submit([bytes, moved = std::make_unique<int>(1), &runs] { runs += bytes[0] + *moved; }),
                    weft::error);
    keeps_nothing = false;
    group.wait();
    CHECK(runs == 0);
}

// ---- fork and join ----------------------------------------------------------------------------------------------------

TEST_CASE("invoke runs all and throws the leftmost's") {
    weft::pool pool(2);
    int a = 0, b = 0, c = 0;
    weft::invoke(
        pool, [&] { a = 1; }, [&] { b = 2; }, [&, p = std::make_unique<int>(3)] { c = *p; });
    CHECK(a + b + c == 6);
    weft::invoke(pool, [&] { a = 4; });
    CHECK(a == 4);
    CHECK_THROWS_AS(weft::invoke(
                        pool, [&] { a = 5; }, [] { throw 1; }, [] { throw std::string(); }),
                    int);
    CHECK(a == 5);
    CHECK_THROWS_AS(weft::invoke(
                        pool, [] { throw std::string(); }, [&] { b = 6; }, [] { throw 1; }),
                    std::string);
    CHECK(b == 6);
}

TEST_CASE("invoke inside invoke") {
    struct fib {
        static long of(weft_pool *pool, int n) {
            if (n < 2) return n;
            long left = 0, right = 0;
            weft::invoke(
                pool, [&] { left = of(pool, n - 1); }, [&] { right = of(pool, n - 2); });
            return left + right;
        }
    };
    for (unsigned workers : {1u, 3u}) {
        weft::pool pool(workers);
        CHECK(fib::of(pool, SANITIZED ? 10 : 16) == (SANITIZED ? 55 : 987));
        CHECK(pool.async([&] { return fib::of(pool, 9); }).get() == 34);
    }
}

TEST_CASE("invoke goes on from a place") {
    struct fib {
        static long of(weft_fork_slot *here, int n) {
            if (n < 2) return n;
            long left = 0, right = 0;
            weft::invoke(
                here, [&](weft_fork_slot *deeper) { left = of(deeper, n - 1); },
                [&](weft_fork_slot *deeper) { right = of(deeper, n - 2); });
            return left + right;
        }
    };
    weft::pool pool(2);
    long result = 0;
    weft::invoke(pool, [&](weft_fork_slot *here) { result = fib::of(here, SANITIZED ? 10 : 20); });
    CHECK(result == (SANITIZED ? 55 : 6765));
    CHECK_THROWS_AS(weft::invoke(pool,
                                 [](weft_fork_slot *here) {
                                     weft::invoke(
                                         here, [] {}, [] { throw 1; });
                                 }),
                    int);
}

// ---- loops ------------------------------------------------------------------------------------------------------------

namespace {
// Bytes, but made from two numbers only, and its address is not for everybody.
struct two_sums {
    two_sums(long first, long second) : low(first), high(second) {}
    void operator&() const = delete;
    long low, high;
};
} // namespace
static two_sums add_up(weft_fork_slot *here, two_sums range);
WEFT_FORK(add_up, two_sums, two_sums)
static two_sums add_up(weft_fork_slot *here, two_sums range) {
    if (range.high - range.low < 2) return {range.low, 1};
    const long middle = (range.low + range.high) / 2;
    const two_sums left(range.low, middle);
    weft_fork_slot *deeper = add_up_fork(here, std::addressof(left));
    const two_sums right = add_up(deeper, {middle, range.high}), joined = add_up_join(here, std::addressof(left));
    return {joined.low + right.low, joined.high + right.high};
}

TEST_CASE("a forked function's types need no default constructor") {
    weft::pool pool(3);
    for (int round = 0; round < 100; round++) {
        weft_fork_slot *here = nullptr;
        REQUIRE(weft_fork_enter(pool, &here) == WEFT_OK);
        const two_sums all = add_up(here, {0, 1000});
        weft_fork_leave(here);
        CHECK(all.low == 499500);
        CHECK(all.high == 1000);
    }
}

TEST_CASE("a loop covers its range once, by index or by piece") {
    weft::pool pool(2);
    std::vector<std::atomic<int>> seen(10000);
    weft::parallel_for(pool, 0, seen.size(), [&](std::size_t i) { seen[i]++; });
    weft::parallel_for(pool, 0, 10000, [&](int begin, int end) {
        for (int i = begin; i < end; i++) seen[static_cast<std::size_t>(i)]++;
    });
    weft::parallel_for(
        pool, -5000, 5000,
        [&](int i) {
            seen[static_cast<std::size_t>(i) + 5000]++;
            return 0;
        },
        7);
    bool all = true;
    for (auto &s : seen) all = all && s == 3;
    CHECK(all);
    weft::parallel_for(pool, 3, 3, [&](int) { all = false; });
    CHECK(all);
    CHECK_THROWS_AS(weft::parallel_for(pool, 4, 3, [](int) {}), weft::error);
    signed char smallest = -128, largest = 127;
    std::atomic<int> count{0};
    weft::parallel_for(pool, smallest, largest, [&](signed char) { count++; });
    CHECK(count == 255);
}

TEST_CASE("a loop over more indices than half its type can count") {
    weft::pool pool(2);
    std::atomic<long long> sum{0}, runs{0};
    weft::parallel_for(
        pool, -2000000000, 2000000000,
        [&](int begin, int end) {
            sum += static_cast<long long>(end) - begin;
            runs += begin < end;
        },
        std::size_t{1} << 24);
    CHECK(sum == 4000000000);
    CHECK(runs > 0);
    std::atomic<int> count{0};
    weft::parallel_for(pool, static_cast<signed char>(-128), static_cast<signed char>(127), [&](signed char) { count++; });
    CHECK(count == 255);
}

/// A loop of two calls that wait for each other, after many short ones of the same type, size and place: not promised, but a
/// function that is not known yet lets a worker in.
static std::atomic<unsigned> met{0};
static void meet_once(int) {
    met.fetch_add(1);
    while (met.load() % 2 != 0) std::this_thread::yield();
}
static void nothing_at_all(int) {}
struct base {
    virtual ~base() = default;
    virtual void operator()(int) const {}
};
struct meeting final : base {
    void operator()(int i) const override { meet_once(i); }
};
TEST_CASE("loops of one type are told apart by what they call") {
    weft::pool pool(1);
    auto run = [&](auto &f) { weft::parallel_for(pool, 0, 2, f, 1); };
    void (*pointer)(int) = nothing_at_all;
    std::function<void(int)> function = [](int) {};
    auto often = [&](auto &f) {
        for (int i = 0; i < 1000; i++) run(f);
    };
    often(pointer);
    pointer = meet_once;
    run(pointer);
    often(nothing_at_all);
    run(meet_once);
    often(function);
    run(function = meeting());
    const base brief{};
    const meeting lasting{};
    const base *object = &brief;
    often(*object);
    object = &lasting;
    run(*object);
    CHECK(met == 8);
}

TEST_CASE("a loop throws what its lowest index has thrown") {
    weft::pool pool(3);
    for (int round = 0; round < 50; round++) {
        int thrown = 0;
        try {
            weft::parallel_for(pool, 0, 1000, [](int i) {
                if (i >= 300) throw int{i};
            });
        } catch (int i) {
            thrown = i;
        }
        CHECK(thrown == 300);
    }
    int code = 0;
    try {
        weft::parallel_for(pool, 0, 100, [](int i) { return i == 17 ? 5 : 0; });
    } catch (const weft::error &error) {
        code = error.code().value();
    }
    CHECK(code == 5);
}

// ---- reductions -------------------------------------------------------------------------------------------------------

static float sum_of(weft_pool *pool, const std::vector<float> &numbers, std::size_t grain) {
    return weft::reduce(
        pool, {0, numbers.size(), grain}, 0.0f, [&](std::size_t i) { return numbers[i]; }, std::plus<>());
}

TEST_CASE("a loop over tiles covers its range once, by place or by tile") {
    for (unsigned workers : {1u, 3u}) {
        weft::pool pool(workers);
        std::vector<std::atomic<int>> marks(6300);
        weft::parallel_for_tiles(pool, {0, 70, 8}, {0, 90, 16},
                                 [&](std::size_t row, std::size_t column) { marks[row * 90 + column]++; });
        weft::parallel_for_tiles(pool, {10, 70, 0}, {5, 90, 0}, [&](const weft_tile &tile) {
            for (std::size_t row = tile.row_begin; row < tile.row_end; row++)
                for (std::size_t column = tile.column_begin; column < tile.column_end; column++) marks[row * 90 + column]++;
        });
        bool right = true;
        for (std::size_t i = 0; i < marks.size(); i++) right = right && marks[i] == (i / 90 >= 10 && i % 90 >= 5 ? 2 : 1);
        CHECK(right);
        auto throws = [](std::size_t row, std::size_t column) {
            if (row >= 3 && column >= 4) throw static_cast<int>(row * 100 + column);
        };
        int thrown = 0;
        try {
            weft::parallel_for_tiles(pool, {0, 70, 1}, {0, 90, 1}, throws);
        } catch (int what) {
            thrown = what;
        }
        CHECK(thrown == 304);
        CHECK_THROWS_AS(weft::parallel_for_tiles(pool, {1, 0, 0}, {0, 1, 0}, throws), weft::error);
    }
}

TEST_CASE("a reduction has the same bits for any number of workers") {
    numbers_of random{1};
    std::vector<float> numbers(100003);
    for (float &n : numbers)
        n = std::ldexp(static_cast<float>(random() % 1000) - 500.0f, static_cast<int>(random() % 40) - 20);
    for (std::size_t grain : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{1} << 40}) {
        weft::pool one(1);
        const float first = sum_of(one, numbers, grain);
        for (unsigned workers : {2u, 3u, 8u}) {
            weft::pool pool(workers);
            for (int round = 0; round < 3; round++) CHECK(sum_of(pool, numbers, grain) == first);
        }
    }
}

static std::uint32_t bits_of(float value) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

TEST_CASE("a reduction has the same bits as in C") {
    numbers_of random{3};
    std::vector<float> numbers(70001);
    for (float &n : numbers)
        n = std::ldexp(static_cast<float>(random() % 1000) - 500.0f, static_cast<int>(random() % 40) - 20);
    weft_reduction how{};
    how.size = sizeof(float);
    how.leaf = [](std::size_t begin, std::size_t end, void *value, void *context, weft_worker *) {
        const auto &all = *static_cast<const std::vector<float> *>(context);
        float sum = all[begin];
        for (std::size_t i = begin + 1; i < end; i++) sum += all[i];
        *static_cast<float *>(value) = sum;
        return 0;
    };
    how.combine = [](void *left, const void *right, void *) {
        *static_cast<float *>(left) += *static_cast<const float *>(right);
    };
    how.context = &numbers;
    weft::pool pool(3);
    for (std::size_t count : {std::size_t{1}, std::size_t{255}, std::size_t{257}, std::size_t{70001}}) {
        for (std::size_t grain : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{1000}}) {
            float in_c = 0;
            REQUIRE(weft_reduce(pool, {0, count, grain}, &how, &in_c) == WEFT_OK);
            float in_cpp = weft::reduce(
                pool, {0, count, grain}, 0.0f, [&](std::size_t i) { return numbers[i]; }, std::plus<>());
            CHECK(bits_of(in_c) == bits_of(in_cpp));
        }
    }
}

TEST_CASE("what combine throws reaches the caller") {
    weft::pool pool(2);
    auto one = [](std::size_t) { return 1; };
    auto throws = [](int a, int b) { return a + b < 500 ? a + b : throw std::string("too many"); };
    CHECK_THROWS_AS(weft::reduce(pool, {0, 1000, 1}, 0, one, throws), std::string);
    CHECK(weft::reduce(pool, {0, 400, 1}, 0, one, throws) == 400);
}

TEST_CASE("a reduction of more pieces than memory can hold") {
    weft::pool pool(1);
    auto one = [](std::size_t) { return 1; };
    CHECK_THROWS_AS(weft::reduce(pool, {0, SIZE_MAX, 1}, 0, one, std::plus<>()), std::bad_alloc);
}

TEST_CASE("a reduction keeps the order of its operands") {
    weft::pool pool(3);
    std::string expected;
    for (char c = 'a'; c <= 'z'; c++) expected += c;
    auto letter = [](std::size_t i) { return std::string(1, static_cast<char>('a' + i)); };
    for (std::size_t grain : {0u, 1u, 2u, 3u, 5u, 26u, 100u})
        CHECK(weft::reduce(pool, {0, 26, grain}, std::string(), letter, std::plus<>()) == expected);
    auto piece = [&](std::size_t begin, std::size_t end) { return expected.substr(begin, end - begin); };
    CHECK(weft::reduce(pool, {2, 20, 4}, std::string(), piece, std::plus<>()) == expected.substr(2, 18));
    CHECK(weft::reduce(pool, {5, 5, 0}, std::string("none"), letter, std::plus<>()) == "none");
    auto owner = [](std::size_t i) { return std::make_unique<std::size_t>(i); };
    auto add = [](std::unique_ptr<std::size_t> a, std::unique_ptr<std::size_t> b) {
        return std::make_unique<std::size_t>(*a + *b);
    };
    CHECK(*weft::reduce(pool, {0, 1000, 0}, std::unique_ptr<std::size_t>(), owner, add) == 499500);
    auto throws = [](std::size_t i) { return i < 600 ? 1 : throw int{7}; };
    CHECK_THROWS_AS(weft::reduce(pool, {0, 1000, 0}, 0, throws, std::plus<>()), int);
}

TEST_CASE("what combines may return one of its arguments by reference") {
    weft::pool pool(2);
    auto name = [](std::size_t i) {
        return "a name too long to lie in the string itself " + std::to_string(1000 + i * 77 % 1000);
    };
    auto later = [](const std::string &a, const std::string &b) -> const std::string & { return a < b ? b : a; };
    auto joined = [](std::string &&a, const std::string &b) -> std::string && {
        if (a < b) a = b;
        return std::move(a);
    };
    for (std::size_t grain : {std::size_t{1}, std::size_t{3}, std::size_t{1000}}) {
        CHECK(weft::reduce(pool, {0, 1000, grain}, std::string(), name, later) == name(987));
        CHECK(weft::reduce(pool, {0, 1000, grain}, std::string(), name, joined) == name(987));
    }
    auto numbers = [](std::size_t i) { return std::vector<std::size_t>{i}; };
    auto appended = [](std::vector<std::size_t> &&a, const std::vector<std::size_t> &b) -> std::vector<std::size_t> && {
        a.insert(a.end(), b.begin(), b.end());
        return std::move(a);
    };
    CHECK(weft::reduce(pool, {0, 1000, 0}, std::vector<std::size_t>(), numbers, appended).size() == 1000);
}

// ---- sorting ----------------------------------------------------------------------------------------------------------

struct item {
    int key;
    std::size_t place;
    std::unique_ptr<int> only_moved;
};

TEST_CASE("a sort is stable, for types that can only be moved, at any length") {
    for (unsigned workers : {1u, 2u, 5u}) {
        weft::pool pool(workers);
        for (std::size_t n : {0u, 1u, 2u, 100u, 2047u, 2048u, 5000u, 33333u}) {
            numbers_of random{static_cast<std::uint32_t>(n)};
            std::vector<item> items;
            items.reserve(n);
            for (std::size_t i = 0; i < n; i++)
                items.push_back({static_cast<int>(random() % 100), i, std::make_unique<int>(static_cast<int>(i))});
            weft::sort(pool, items.begin(), items.end(), [](const item &a, const item &b) { return a.key < b.key; });
            bool right = true;
            for (std::size_t i = 0; i < n; i++) {
                right = right && items[i].only_moved && *items[i].only_moved == static_cast<int>(items[i].place);
                if (i > 0)
                    right = right && (items[i - 1].key < items[i].key ||
                                      (items[i - 1].key == items[i].key && items[i - 1].place < items[i].place));
            }
            CHECK(right);
        }
    }
}

TEST_CASE("sorted, reversed, equal, strings by value") {
    weft::pool pool(3);
    std::vector<int> numbers(20000);
    for (std::size_t i = 0; i < numbers.size(); i++) numbers[i] = static_cast<int>(i);
    weft::sort(pool, numbers.begin(), numbers.end());
    CHECK(std::is_sorted(numbers.begin(), numbers.end()));
    weft::sort(pool, numbers.begin(), numbers.end(), std::greater<>());
    CHECK(std::is_sorted(numbers.begin(), numbers.end(), std::greater<>()));
    std::vector<std::string> texts(10000);
    for (std::size_t i = 0; i < texts.size(); i++) texts[i] = std::to_string(i * 7919 % 10007);
    auto expected = texts;
    std::sort(expected.begin(), expected.end());
    weft::sort(pool, texts.begin(), texts.end(), std::function<bool(std::string, std::string)>(std::less<>()));
    CHECK(texts == expected);
    CHECK_THROWS_AS(weft::sort(pool, numbers.begin(), numbers.end(), [](int a, int b) { return a == 77 ? throw 1 : a < b; }),
                    int);
}

TEST_CASE("an order that contradicts itself loses no element") {
    for (unsigned workers : {1u, 3u}) {
        weft::pool pool(workers);
        numbers_of random{workers};
        std::vector<double> holes(50000);
        for (double &hole : holes) hole = random() % 3 == 0 ? std::nan("") : static_cast<double>(random() % 1000);
        auto is_nan = [](double number) { return std::isnan(number); };
        const auto before = std::count_if(holes.begin(), holes.end(), is_nan);
        weft::sort(pool, holes.begin(), holes.end());
        CHECK(std::count_if(holes.begin(), holes.end(), is_nan) == before);
        for (std::size_t salt = 0; salt < 10; salt++) {
            std::vector<std::string> texts(20000);
            for (std::size_t i = 0; i < texts.size(); i++)
                texts[i] = "too long for a string's own room " + std::to_string(i);
            auto expected = texts;
            weft::sort(pool, texts.begin(), texts.end(), [&](const std::string &a, const std::string &b) {
                return std::hash<std::string>{}(a + b) % 3 == salt % 3;
            });
            std::sort(texts.begin(), texts.end());
            std::sort(expected.begin(), expected.end());
            CHECK(texts == expected);
        }
    }
}

// Answers that no order gives: no, so many times yes, and no again; or at random; or always yes. Each thread has its own.
struct no_order {
    enum kind { by_turns, random, yes } how;
    template <class T> bool operator()(const T &, const T &) const {
        static thread_local numbers_of numbers{1};
        static thread_local unsigned calls = 0;
        return how == yes || (how == random ? numbers() % 3 != 0 : calls++ % 9 != 0);
    }
};

TEST_CASE("whatever the order says, a sort stays in its range and loses no element") {
    for (unsigned workers : {1u, 3u}) {
        weft::pool pool(workers);
        for (auto how : {no_order::by_turns, no_order::random, no_order::yes})
            for (std::size_t n : {0u, 1u, 2u, 3u, 16u, 17u, 100u, 1000u, 2047u, 2048u, 5000u, 30000u}) {
                const std::size_t beside = 20;                        // elements that are not to be sorted
                std::vector<int> all(beside + n + beside), sorted(n); // under a sanitizer, the range is all there is
                for (std::size_t i = 0; i < all.size(); i++) all[i] = static_cast<int>(i);
                std::copy_n(all.begin() + beside, n, sorted.begin());
                weft::sort(pool, sorted.begin(), sorted.end(), no_order{how});
                weft::sort(pool, all.begin() + beside, all.end() - beside, no_order{how});
                std::sort(sorted.begin(), sorted.end());
                std::sort(all.begin() + beside, all.end() - beside);
                bool right = true;
                for (std::size_t i = 0; i < all.size(); i++) right = right && all[i] == static_cast<int>(i);
                for (std::size_t i = 0; i < n; i++) right = right && sorted[i] == static_cast<int>(i + beside);
                CHECK(right);
            }
        std::vector<bool> bits(1000);
        for (std::size_t i = 0; i < bits.size(); i++) bits[i] = i % 3 == 0;
        for (auto how : {no_order::by_turns, no_order::random, no_order::yes})
            weft::sort(pool, bits.begin(), bits.end(), no_order{how});
        CHECK(std::count(bits.begin(), bits.end(), true) == 334);
        weft::sort(pool, bits.begin(), bits.end(), std::greater<>());
        CHECK(std::is_sorted(bits.begin(), bits.end(), std::greater<>()));
        weft::sort(pool, bits.begin(), bits.end());
        CHECK(std::is_sorted(bits.begin(), bits.end()));
        CHECK(std::count(bits.begin(), bits.end(), true) == 334);
    }
}

TEST_CASE("a sort gives the same order as in C") {
    struct entry {
        std::uint32_t key, place;
        bool operator==(const entry &other) const { return key == other.key && place == other.place; }
    };
    weft_order order{};
    order.size = sizeof(entry);
    order.compare = [](const void *left, const void *right, void *) {
        const auto a = static_cast<const entry *>(left)->key, b = static_cast<const entry *>(right)->key;
        return a < b ? -1 : a > b ? 1 : 0;
    };
    for (unsigned workers : {1u, 2u, 3u, 8u}) {
        weft::pool pool(workers);
        for (std::uint32_t n : {0u, 1u, 3u, 2047u, 2048u, 10000u, 50000u})
            for (std::uint32_t keys : {1u, 7u, 1000u, 1u << 30}) {
                numbers_of random{n + keys};
                std::vector<entry> cpp;
                for (std::uint32_t i = 0; i < n; i++) cpp.push_back({static_cast<std::uint32_t>(random()) % keys, i});
                std::vector<entry> c = cpp;
                weft::sort(pool, cpp.begin(), cpp.end(), [](const entry &a, const entry &b) { return a.key < b.key; });
                CHECK(weft_sort(pool, c.data(), c.size(), &order) == WEFT_OK);
                CHECK(cpp == c);
            }
    }
}

TEST_CASE("a sort without memory loses nothing") {
    weft::pool pool(2);
    bool throws = true;
    for (long call = 1; throws; call++) {
        std::vector<std::unique_ptr<int>> items;
        items.reserve(5000);
        for (int i = 0; i < 5000; i++) items.push_back(std::make_unique<int>(i * 7919 % 5000));
        fails_at = call;
        try {
            weft::sort(pool, items.begin(), items.end(), [](const auto &a, const auto &b) { return *a < *b; });
        } catch (const std::bad_alloc &) {}
        throws = fails_at.exchange(0) <= 0;
        CHECK(std::count(items.begin(), items.end(), nullptr) == 0);
        CHECK((throws || std::is_sorted(items.begin(), items.end(), [](const auto &a, const auto &b) { return *a < *b; })));
        CHECK(call < 100);
    }
}

TEST_CASE("a sort whose order throws what there is no memory to keep fails") {
    weft::pool pool(2);
    enum { COUNT = 5000 };
    bool throws = true;
    for (long at = 1; throws; at += at / 16 + 1) {
        std::vector<int> numbers(COUNT);
        for (int i = 0; i < COUNT; i++) numbers[static_cast<std::size_t>(i)] = i * 7919 % COUNT;
        std::atomic<long> left{at};
        bool fails = false;
        keeps_nothing = true;
        try {
            weft::sort(pool, numbers.begin(), numbers.end(), [&](int a, int b) { return --left == 0 ? throw 1 : a < b; });
        } catch (const std::bad_alloc &) {
            fails = true;
        } catch (const weft::error &error) {
            fails = error.code().value() == WEFT_ENOMEM;
        } catch (int) {
            fails = true; // on the calling thread, outside of loops
        }
        keeps_nothing = false;
        throws = left <= 0;
        CHECK(fails == throws);
        CHECK((throws || std::is_sorted(numbers.begin(), numbers.end())));
    }
}

TEST_CASE("a sort in a cancelled group loses nothing") {
    weft::pool pool(2);
    weft::group group(pool);
    std::vector<int> numbers(50000);
    for (std::size_t i = 0; i < numbers.size(); i++) numbers[i] = static_cast<int>(i * 7919 % numbers.size());
    group.submit([&] {
        group.cancel();
        weft::sort(pool, numbers.begin(), numbers.end());
    });
    std::error_code error;
    group.wait(error);
    bool right = true;
    for (std::size_t i = 0; i < numbers.size(); i++) right = right && numbers[i] == static_cast<int>(i);
    CHECK(right);
}

// ---- graphs -----------------------------------------------------------------------------------------------------------

TEST_CASE("a graph of lambdas, run many times") {
    weft::pool pool(2);
    weft::graph graph;
    std::atomic<int> order{0};
    std::array<int, 4> at{};
    auto note = [&](std::size_t who) { return [&, who] { at[who] = order++; }; };
    auto a = graph.add(note(0));
    auto b = graph.add(note(1), {a});
    auto c = graph.add([&, own = std::make_unique<int>(2)](weft_worker *) { at[2] = order++; }, {a});
    graph.add(note(3), {b, c});
    graph.build();
    for (int round = 0; round < 200; round++) {
        order = 0;
        graph.run(pool);
        REQUIRE(at[0] == 0);
        REQUIRE(at[3] == 3);
        REQUIRE(at[1] + at[2] == 3);
    }
}

TEST_CASE("a graph throws what its first failing node has thrown") {
    weft::pool pool(2);
    weft::graph graph;
    std::atomic<int> ran{0};
    auto bad = graph.add([] { throw std::string("bad"); });
    graph.add([&] { ran++; }, {bad});
    graph.add([] { throw 1; });
    graph.build();
    for (int round = 0; round < 20; round++) CHECK_THROWS_AS(graph.run(pool), std::string);
    CHECK(ran == 0);
    weft::graph circle;
    auto a = circle.add([] {});
    auto b = circle.add([] {}, {a});
    circle.edge(b, a);
    CHECK_THROWS_AS(circle.build(), weft::error);
    std::error_code error;
    circle.run(pool, error);
    CHECK(error == std::errc::invalid_argument);
    CHECK_THROWS_AS(circle.add([] {}, {12345}), weft::error);
}

TEST_CASE("a graph that is run in one of its own nodes keeps what was thrown") {
    weft::pool pool(1);
    weft::graph graph;
    std::atomic<int> refused{0}, turn{0};
    graph.add([] { throw std::string("first"); });
    auto waits = graph.add([&] { turn++; });
    for (int i = 0; i < 20; i++)
        graph.add(
            [&] {
                std::error_code error;
                graph.run(pool, error);
                refused += error.value() == WEFT_EBUSY;
            },
            {waits});
    graph.build();
    for (int round = 0; round < 50; round++) {
        CHECK_THROWS_AS(graph.run(pool), std::string);
    }
    CHECK(turn == 50);
    CHECK(refused == 50 * 20);
}

// ---- what is thrown ----------------------------------------------------------------------------------------------------

// As where one thread's wait has ended the group, and another has submitted to it again before that asks what was thrown.
TEST_CASE("what is thrown in a group's next use is not forgotten with the last one's") {
    weft_group counted = {8, 0, 0};
    weft::detail::failures thrown(&counted);
    const auto keep = [&](int number) {
        try {
            throw number;
        } catch (...) {
            return thrown.keep();
        }
    };
    const auto caught = [&](int code, std::uint64_t use) {
        try {
            return thrown.rethrow(code, use) == code ? -1 : -2;
        } catch (int number) {
            return number;
        }
    };
    const int first = keep(1), second = keep(2);
    counted.id = 16;
    const int third = keep(3);
    CHECK(caught(first, 8) == 1);
    CHECK(caught(second, 8) == -1); // of the same use
    CHECK(caught(7, 8) == -1);
    CHECK(caught(third, 16) == 3);
    CHECK(caught(third, 16) == -1);
}
