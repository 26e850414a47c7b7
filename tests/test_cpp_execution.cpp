// test_cpp_execution.cpp: weft_execution.hpp with stdexec's own algorithms.
#include "cpp_help.hpp"

#include <atomic>
#include <doctest/doctest.h>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>
#include <weft_execution.hpp>

namespace ex = stdexec;

static_assert(ex::scheduler<weft::scheduler>);
static_assert(ex::sender<decltype(ex::schedule(std::declval<weft::scheduler>()))>);

// Tells how an operation has ended.
struct outcome {
    std::atomic<int> values{0}, errors{0}, stops{0}, code{0};
};
struct receiver {
    using receiver_concept = ex::receiver_t;
    outcome *to;
    void set_value() &&noexcept { to->values++; }
    void set_stopped() &&noexcept { to->stops++; }
    void set_error(std::exception_ptr what) &&noexcept {
        to->errors++;
        try {
            std::rethrow_exception(what);
        } catch (const weft::error &error) {
            to->code = error.code().value();
        } catch (...) {}
    }
};

struct stopping {
    using receiver_concept = ex::receiver_t;
    std::atomic<int> *ran, *stopped;
    ex::inplace_stop_token token;
    void set_value() &&noexcept { ++*ran; }
    void set_stopped() &&noexcept { ++*stopped; }
    void set_error(std::exception_ptr) &&noexcept {}
    auto get_env() const noexcept { return ex::prop{ex::get_stop_token, token}; }
};

TEST_CASE("scheduled work runs on a worker") {
    weft::pool pool(2);
    weft::scheduler scheduler(pool);
    CHECK(scheduler == weft::scheduler(pool));
    const std::thread::id here = std::this_thread::get_id();
    auto work = ex::schedule(scheduler) | ex::then([] { return std::this_thread::get_id(); });
    for (int i = 0; i < 100; i++) {
        auto [there] = ex::sync_wait(work).value();
        CHECK(there != here);
    }
    CHECK(ex::get_forward_progress_guarantee(scheduler) == ex::forward_progress_guarantee::parallel);
    CHECK(ex::get_completion_scheduler<ex::set_value_t>(ex::get_env(ex::schedule(scheduler))) == scheduler);
}

TEST_CASE("stdexec's algorithms go over it") {
    weft::pool pool(3);
    weft::scheduler scheduler(pool);
    auto square = [&](int n) { return ex::schedule(scheduler) | ex::then([n] { return n * n; }); };
    auto [a, b, c] = ex::sync_wait(ex::when_all(square(2), square(3), square(4))).value();
    CHECK(a + b + c == 29);
    std::atomic<int> sum{0};
    auto all = ex::starts_on(scheduler, ex::just(100)) | ex::bulk(ex::par, 1000, [&](int i, int) { sum += i; }) |
               ex::continues_on(scheduler) | ex::let_value([&](int n) { return square(n); });
    auto [last] = ex::sync_wait(std::move(all)).value();
    CHECK(sum == 499500);
    CHECK(last == 10000);
    auto throws = ex::schedule(scheduler) | ex::then([] { throw std::runtime_error("thrown"); });
    CHECK_THROWS_WITH_AS(ex::sync_wait(std::move(throws)), "thrown", std::runtime_error);
}

TEST_CASE("a group's work is waited for with the group; dropped, it stops") {
    weft::pool pool(1);
    weft::group group(pool);
    outcome seen;
    auto first = ex::connect(ex::schedule(weft::scheduler(group)), receiver{&seen});
    auto second = ex::connect(ex::schedule(weft::scheduler(group)), receiver{&seen});
    auto third = ex::connect(ex::schedule(weft::scheduler(group)), receiver{&seen});
    ex::start(first);
    group.wait();
    CHECK(seen.values == 1);
    std::error_code code;
    {
        occupied worker(pool);
        ex::start(second);
        group.cancel();
        ex::start(third); // refused
        CHECK(seen.errors == 1);
        CHECK(seen.code == WEFT_ECANCELED);
    }
    group.wait(code);
    CHECK(code.value() == WEFT_ECANCELED);
    CHECK(seen.stops == 1);
    CHECK(seen.values == 1);
}

TEST_CASE("a stop that is asked for before it begins") {
    weft::pool pool(1);
    weft::group group(pool);
    ex::inplace_stop_source source;
    std::atomic<int> ran{0}, stopped{0};
    auto operation = ex::connect(ex::schedule(weft::scheduler(group)), stopping{&ran, &stopped, source.get_token()});
    {
        occupied worker(pool);
        ex::start(operation);
        source.request_stop();
    }
    group.wait();
    CHECK(stopped == 1);
    CHECK(ran == 0);
}

TEST_CASE("a destroyed pool runs what is scheduled, an aborted one stops it") {
    for (bool aborts : {false, true}) {
        weft_pool *pool = nullptr;
        weft_config config;
        weft_config_init(&config);
        config.workers = 1;
        REQUIRE(weft_pool_create(&pool, &config) == WEFT_OK);
        outcome seen;
        gate door;
        auto blocks = ex::connect(ex::schedule(weft::scheduler(pool)) | ex::then([&] { door(); }), receiver{&seen});
        auto work = ex::connect(ex::schedule(weft::scheduler(pool)), receiver{&seen});
        ex::start(blocks);
        door.entered.await();
        ex::start(work);
        if (aborts) {
            weft_pool *same = pool; // another thread opens the door when destroy has begun
            std::thread opener([&] {
                while (weft_submit(
                           same, nullptr, [](void *, weft_worker *) { return 0; }, nullptr, 0) != WEFT_ESHUTDOWN)
                    std::this_thread::yield();
                door.opened.set();
            });
            CHECK(weft_pool_abort(&pool, nullptr, nullptr) == WEFT_OK);
            opener.join();
        } else {
            door.opened.set();
            CHECK(weft_pool_destroy(&pool) == WEFT_OK);
        }
        CHECK(seen.errors == 0);
        CHECK(seen.values == (aborts ? 1 : 2));
        CHECK(seen.stops == (aborts ? 1 : 0));
    }
}

TEST_CASE("many at once") {
    weft::pool pool(2);
    weft::group group(pool);
    outcome seen;
    using operation = decltype(ex::connect(ex::schedule(weft::scheduler(group)), receiver{&seen}));
    std::vector<std::unique_ptr<operation>> all;
    for (int i = 0; i < 5000; i++)
        all.emplace_back(new operation(ex::connect(ex::schedule(weft::scheduler(group)), receiver{&seen})));
    for (auto &each : all) ex::start(*each);
    group.wait();
    CHECK(seen.values == 5000);
}
