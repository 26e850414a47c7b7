// test_cpp_names.cpp: a namespace of the user's with functions that are called like weft's own, and take anything. Callables,
// elements and results of types from there must not lead weft to them.
#include "cpp_help.hpp"

#include <doctest/doctest.h>
#include <string>
#include <utility>
#include <vector>
#include <weft_memory.hpp>
#if defined(__cpp_impl_coroutine)
#include <weft_coroutine.hpp>
#endif

namespace app {

static std::atomic<int> called{0};

// Each with as many parameters as weft's, more exact than weft's, and with any number.
#define TAKES_ANYTHING(name)                                                                                                \
    template <class A> int name(A &&) { return ++called; }                                                                  \
    template <class A, class B> int name(A &&, B &&) { return ++called; }                                                   \
    template <class A, class B, class C> int name(A &&, B &&, C &&) { return ++called; }                                    \
    template <class A, class B, class C, class D> int name(A &&, B &&, C &&, D &&) { return ++called; }
TAKES_ANYTHING(call)
TAKES_ANYTHING(call_task)
TAKES_ANYTHING(submit)
TAKES_ANYTHING(submit_task)
TAKES_ANYTHING(submit_boxed)
TAKES_ANYTHING(invoke)
TAKES_ANYTHING(invoke_all)
TAKES_ANYTHING(invoke_branches)
TAKES_ANYTHING(async)
TAKES_ANYTHING(reduce)
TAKES_ANYTHING(sort)
TAKES_ANYTHING(parallel_for)
TAKES_ANYTHING(site_of)
TAKES_ANYTHING(root_of)
TAKES_ANYTHING(spawn)
TAKES_ANYTHING(sync_wait)
TAKES_ANYTHING(check)
TAKES_ANYTHING(fail)
TAKES_ANYTHING(move)
TAKES_ANYTHING(forward)
TAKES_ANYTHING(addressof)
TAKES_ANYTHING(exchange)
TAKES_ANYTHING(min)
TAKES_ANYTHING(clamp)
TAKES_ANYTHING(stable_sort)
TAKES_ANYTHING(make_move_iterator)
template <class A> void operator&(A &&) { ++called; } // none has an address
template <class A, class B> void operator,(A &&, B &&) { ++called; }

struct element {
    int key;
    bool operator<(const element &other) const { return key < other.key; }
};
template <std::size_t size> struct adds { // of bytes, an object, or boxed
    std::atomic<int> *to;
    char rest[size]{};
    int operator()(weft_worker *) const { return (*to)++, 0; }
};
struct adds_named {
    std::atomic<int> *to;
    std::string name{"a callable that is moved"};
    void operator()() const { (*to)++; }
    void operator()(weft_fork_slot *) const { (*to)++; }
};
struct throws_element {
    [[noreturn]] void operator()(weft_worker *) const { throw element{7}; }
};
struct each {
    std::atomic<int> *to;
    void operator()(int) const { (*to)++; }
};
struct each_of_tile {
    std::atomic<int> *to;
    void operator()(std::size_t, std::size_t) const { (*to)++; }
};

static void use(weft::pool &pool) {
    std::atomic<int> ran{0}, *const to = std::addressof(ran);
    weft::group group(pool);
    group.submit(adds<1>{to});
    group.submit(adds<4000>{to});
    group.submit(adds_named{to});
    group.wait();
    CHECK(ran == 3);
    group.submit(throws_element{});
    CHECK_THROWS_AS(group.wait(), element);
    weft::invoke(pool, adds_named{to}, adds_named{to}, adds_named{to});
    CHECK(ran == 6);
    weft::parallel_for(pool, 0, 10, each{to});
    weft::parallel_for_tiles(pool, {0, 3, 0}, {0, 4, 0}, each_of_tile{to});
    CHECK(ran == 6 + 10 + 12);
    CHECK(pool.async([] { return element{5}; }).get().key == 5);
    const auto key = [](std::size_t i) { return element{static_cast<int>(i)}; };
    const auto sum = [](element a, element b) { return element{a.key + b.key}; };
    CHECK(weft::reduce(pool, {0, 100, 0}, element{0}, key, sum).key == 4950);
    std::vector<element, weft::allocator<element>> elements;
    for (int i = 0; i < 5000; i++) elements.push_back(element{i * 7919 % 5000});
    weft::sort(pool, elements.begin(), elements.end());
    for (std::size_t i = 0; i < elements.size(); i++) CHECK(elements[i].key == static_cast<int>(i));
    weft::graph graph;
    const weft_node first = graph.add(adds<1>{to});
    graph.add(adds_named{to}, {first});
    graph.build();
    graph.run(pool);
    CHECK(ran == 6 + 10 + 12 + 2);
}

#if defined(__cpp_impl_coroutine)
struct foreign {
    struct promise_type {
        foreign get_return_object() { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };
};
static void await(weft::pool &pool) {
    weft::group group(pool);
    const auto gives = [](weft::group &after) -> weft::co<element> {
        after.submit([] {});
        co_await after;
        co_await weft::resume_on(after);
        co_return element{3};
    };
    CHECK(weft::sync_wait(pool, gives(group)).key == 3);
    event done;
    [](weft::group &after, event &at) -> foreign {
        co_await after;
        co_await weft::resume_on(after);
        at.set();
    }(group, done);
    done.await();
}
#else
static void await(weft::pool &) {}
#endif

} // namespace app

TEST_CASE("functions of the user's that are called like weft's own are not called") {
    weft::pool pool(2);
    app::use(pool);
    app::await(pool);
    CHECK(app::called == 0);
}
