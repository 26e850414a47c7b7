// weft.hpp: tasks that return the codes of waits, and how long exceptions are kept.
#include <doctest/doctest.h>

#include "cpp_help.hpp"

#include <array>
#include <chrono>
#include <climits>
#include <memory>
#include <string>
#include <system_error>
#include <thread>

namespace {

constexpr auto far_off = std::chrono::hours(1);
std::chrono::steady_clock::time_point later() { return std::chrono::steady_clock::now() + far_off; }

// What is thrown; counts those that are alive.
struct counted {
    counted() { alive++; }
    counted(const counted &) { alive++; }
    counted &operator=(const counted &) = delete;
    ~counted() { alive--; }
    static std::atomic<int> alive;
};
std::atomic<int> counted::alive{0};

// Every WEFT_* code; WEFT_OK is the first.
#define CODE(name, value, text) name,
constexpr std::array codes = {WEFT_ERROR_LIST(CODE)};
#undef CODE
static_assert(codes[0] == WEFT_OK);

// The code of the weft::error that `run` throws; 0: it throws none.
template <class F> int thrown_by(F run) {
    try {
        run();
    } catch (const weft::error &error) {
        return error.code().value();
    }
    return 0;
}

} // namespace

// ---- a task's own code -------------------------------------------------------------------------------------------------

TEST_CASE("a wait with a deadline tells a task's WEFT_ETIMEDOUT from its own") {
    weft::pool pool(1);
    weft::group group(pool);
    group.submit([] { return int{WEFT_ETIMEDOUT}; });
    CHECK(thrown_by([&] { CHECK(group.wait_until(later())); }) == WEFT_ETIMEDOUT);
    CHECK(group.native()->id == 0);
    CHECK(group.wait_until(later()));
    gate door;
    group.submit([&] {
        door();
        return int{WEFT_ETIMEDOUT};
    });
    door.entered.await();
    CHECK_FALSE(group.wait_until(std::chrono::steady_clock::now()));
    door.opened.set();
    CHECK(thrown_by([&] { CHECK(group.wait_until(later())); }) == WEFT_ETIMEDOUT);
}

TEST_CASE("a wait reports any code that a task returns") {
    weft::pool pool(2);
    weft::group group(pool);
    for (int code : {INT_MAX, 1, INT_MIN / 4, -1000, -64, -13}) {
        group.submit([code] { return code; });
        CHECK(thrown_by([&] { group.wait(); }) == code);
    }
    for (int code : codes) {
        const auto fails = [code](std::size_t) { return code; };
        std::error_code error;
        group.submit([code] { return code; });
        group.wait(error);
        CHECK(error.value() == code);
        group.submit([code] { return code; });
        CHECK(thrown_by([&] { CHECK(group.wait_until(later())); }) == code);
        CHECK(group.native()->id == 0);
        CHECK(thrown_by([&] { weft::parallel_for(pool, std::size_t{0}, std::size_t{10}, fails); }) == code);
        weft::graph graph;
        graph.add([code] { return code; });
        graph.build();
        graph.run(pool, error);
        CHECK(error.value() == code);
    }
}

// ---- exceptions that nobody asks for ------------------------------------------------------------------------------------

TEST_CASE("exceptions end with the wait, whatever code it reports") {
    weft::pool pool(2);
    for (std::size_t i = 1; i < codes.size(); i++)
        for (int round = 0; round < 3; round++) {
            const int code = codes[i];
            std::error_code error;
            pool.submit([code] { return code; });
            pool.submit([] { throw counted(); });
            pool.wait(error);
            CHECK(error.value() == code);
            CHECK(counted::alive == 0);
        }
}

TEST_CASE("exceptions end with the run, whatever code it reports") {
    weft::pool pool(2);
    for (std::size_t i = 1; i < codes.size(); i++) {
        const int code = codes[i];
        weft::graph graph;
        graph.add([code] { return code; });
        graph.add([] { throw counted(); });
        graph.build();
        for (int round = 0; round < 3; round++) {
            std::error_code error;
            graph.run(pool, error);
            CHECK(error.value() == code);
            CHECK(counted::alive == 0);
        }
    }
}

// The exception is asked for on the first thread; its destructor, after that, runs the graph again.
TEST_CASE("a graph is in use until its run has returned") {
    weft::pool pool(1);
    weft::graph graph;
    std::error_code inside;
    struct runs {
        weft::graph *graph;
        weft_pool *pool;
        std::error_code *error;
        ~runs() { graph->run(pool, *error); }
    };
    graph.add([] { throw std::string("first"); });
    graph.add([&] {
        auto last = std::make_shared<runs>(runs{&graph, pool, &inside});
        throw last;
    });
    graph.build();
    CHECK_THROWS_AS(graph.run(pool), std::string);
    CHECK(inside.value() == WEFT_EBUSY);
}
