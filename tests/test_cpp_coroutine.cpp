// test_cpp_coroutine.cpp: weft_coroutine.hpp, from its comments alone.
#include "cpp_help.hpp"

#include <csignal>
#include <cstring>
#include <doctest/doctest.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>
#include <weft_coroutine.hpp>

namespace {

// Counts those that are alive.
struct token {
    explicit token(std::atomic<int> &all) : count(&all) { ++*count; }
    token(const token &other) : count(other.count) { ++*count; }
    token &operator=(const token &) = delete;
    ~token() { --*count; }
    std::atomic<int> *count;
};

weft::co<int> value(int number) { co_return number; }
weft::co<int> sum_to(int number) {
    int sum = 0;
    for (int i = 1; i <= number; i++) sum += co_await value(i);
    co_return sum;
}
weft::co<> throws(const char *what) {
    throw std::runtime_error(what);
    co_return;
}
weft::co<int> fib(weft_pool *pool, int n) {
    if (n < 2) co_return n;
    int less = 0;
    weft::group branch(pool);
    weft::spawn(branch, [](weft_pool *in, int m, int &to) -> weft::co<> { to = co_await fib(in, m); }(pool, n - 1, less));
    int lesser = co_await fib(pool, n - 2);
    co_await branch;
    co_return less + lesser;
}

// A coroutine type of somebody else's.
struct foreign {
    struct promise_type {
        foreign get_return_object() { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };
};

} // namespace

TEST_CASE("a coroutine begins when it is awaited, and gives its result") {
    weft::pool pool(2);
    CHECK(weft::sync_wait(pool, value(7)) == 7);
    CHECK(weft::sync_wait(pool, sum_to(1000)) == 500500);
    CHECK(weft::sync_wait(pool, [](std::unique_ptr<int> p) -> weft::co<std::unique_ptr<int>> {
              ++*p;
              co_return p;
          }(std::make_unique<int>(4))) != nullptr);
    std::atomic<int> alive{0};
    {
        auto never = [](token) -> weft::co<> { co_return; }(token(alive));
        auto moved = std::move(never);
        CHECK(alive == 1);
    }
    CHECK(alive == 0);
}

TEST_CASE("what is thrown reaches who awaits, and the wait") {
    weft::pool pool(2);
    CHECK_THROWS_WITH_AS(weft::sync_wait(pool, throws("one")), "one", std::runtime_error);
    auto catches = []() -> weft::co<int> {
        try {
            co_await throws("two");
        } catch (const std::runtime_error &error) {
            co_return std::string(error.what()) == "two" ? 1 : 2;
        }
        co_return 3;
    };
    CHECK(weft::sync_wait(pool, catches()) == 1);
    weft::group group(pool);
    weft::spawn(group, throws("three"));
    CHECK_THROWS_WITH_AS(group.wait(), "three", std::runtime_error);
}

TEST_CASE("no thread waits for a group that is awaited") {
    weft::pool pool(2);
    weft::group many(pool), last(pool);
    std::atomic<int> count{0};
    gate door;
    last.submit([&] { door(); });
    for (int i = 0; i < 1000; i++)
        weft::spawn(many, [](weft::group &group, std::atomic<int> &ran) -> weft::co<> {
            co_await group;
            ran++;
        }(last, count));
    door.entered.await(); // one worker stands there; the other begins all thousand, and is free
    weft::group other(pool);
    other.submit([] {});
    while (!other.wait_until(std::chrono::steady_clock::now() + std::chrono::hours(1), WEFT_HELP_NONE)) {}
    CHECK(count == 0);
    door.opened.set();
    many.wait();
    CHECK(count == 1000);
}

TEST_CASE("a group that has finished is no reason to suspend, nor one that never had a task") {
    weft::pool pool(2);
    weft::sync_wait(pool, [](weft_pool *in) -> weft::co<> {
        weft::group none(in), done(in);
        const std::thread::id here = std::this_thread::get_id();
        co_await none;
        CHECK(here == std::this_thread::get_id());
        done.submit([] {});
        done.wait();
        co_await done;
        CHECK(here == std::this_thread::get_id());
        for (int i = 0; i < 1000; i++) {
            done.submit([] {});
            co_await done;
        }
    }(pool));
}

TEST_CASE("an awaited group throws what its task has thrown, or what it returned") {
    weft::pool pool(2);
    auto awaits = [](weft_pool *in, bool late) -> weft::co<int> {
        weft::group group(in);
        group.submit([=] {
            if (late) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            throw std::runtime_error("task");
        });
        try {
            co_await group;
            co_return 1;
        } catch (const std::runtime_error &) {
            group.submit([] { return 17; });
        }
        try {
            co_await group;
        } catch (const weft::error &error) {
            co_return error.code().value();
        }
        co_return 0;
    };
    for (int round = 0; round < 50; round++) CHECK(weft::sync_wait(pool, awaits(pool, round % 2 == 0)) == 17);
}

TEST_CASE("recursion") {
    for (unsigned workers : {1u, 2u, 4u}) {
        weft::pool pool(workers);
        CHECK(weft::sync_wait(pool, fib(pool, 15)) == 610);
    }
}

TEST_CASE("a group cannot be awaited by one of its own") {
    weft::pool pool(1);
    weft::group group(pool);
    int code = 0;
    weft::spawn(group, [](weft::group &own, int &result) -> weft::co<> {
        try {
            co_await own;
        } catch (const weft::error &error) {
            result = error.code().value();
        }
    }(group, code));
    group.wait();
    CHECK(code == WEFT_EDEADLK);
}

TEST_CASE("a task cannot wait for a coroutine that awaits its group") {
    weft::pool pool(1);
    weft::group group(pool);
    int code = 0;
    group.submit([&] { // the only thread that could begin it
        try {
            weft::sync_wait(pool, [](weft::group &own) -> weft::co<> { co_await own; }(group));
        } catch (const weft::error &error) {
            code = error.code().value();
        }
    });
    while (!group.wait_until(std::chrono::steady_clock::now() + std::chrono::hours(1), WEFT_HELP_NONE)) {}
    CHECK(code == WEFT_EDEADLK);
}

TEST_CASE("cancelled: what has not begun is destroyed, what is suspended is told") {
    weft::pool pool(1);
    std::atomic<int> alive{0}, told{0}, ran{0};
    weft::group group(pool), last(pool);
    gate door;
    last.submit([&] { door(); });
    door.entered.await();
    auto waits = [](weft::group &after, std::atomic<int> &codes, std::atomic<int> &goes_on, token) -> weft::co<> {
        auto inner = [](weft::group &awaited) -> weft::co<> { co_await awaited; };
        goes_on++;
        try {
            co_await inner(after);
            goes_on++;
        } catch (const weft::error &error) {
            if (error.code().value() == WEFT_ECANCELED) codes++;
            throw;
        }
    };
    auto starts = [](std::atomic<int> &count) -> weft::co<> {
        count++;
        co_return;
    };
    std::thread helper([&] { // the only worker stands in the door: this thread begins them
        for (int i = 0; i < 10; i++) weft::spawn(group, waits(last, told, ran, token(alive)));
        while (ran < 10) group.wait_until(std::chrono::steady_clock::now() + std::chrono::milliseconds(1));
    });
    helper.join();
    for (int i = 0; i < 10; i++) weft::spawn(group, waits(last, told, ran, token(alive)));
    CHECK(alive == 20);
    group.cancel();
    CHECK_THROWS_AS(weft::spawn(group, starts(ran)), weft::error);
    door.opened.set();
    std::error_code error;
    group.wait(error);
    CHECK(error.value() == WEFT_ECANCELED);
    CHECK(alive == 0);
    CHECK(told == 10);
    CHECK(ran == 10); // begun, and no further
}

TEST_CASE("a pool ends what is suspended, by its end or by an abort") {
    for (bool aborts : {false, true}) {
        std::atomic<int> alive{0}, ended{0}, told{0};
        weft_pool *pool = nullptr;
        weft_config config;
        weft_config_init(&config);
        config.workers = 2;
        REQUIRE(weft_pool_create(&pool, &config) == WEFT_OK);
        auto door = std::make_unique<gate>();
        alignas(weft::group) unsigned char room[2][sizeof(weft::group)]; // not waited for: they outlive the pool
        auto *last = ::new (room[0]) weft::group(pool), *group = ::new (room[1]) weft::group(pool);
        last->submit([&] { (*door)(); });
        door->entered.await();
        event begun;
        for (int i = 0; i < 20; i++)
            weft::spawn(
                *group,
                [](weft::group &after, std::atomic<int> &done, std::atomic<int> &codes, event &at, token) -> weft::co<> {
                    at.set();
                    try {
                        co_await after;
                        done++;
                    } catch (const weft::error &error) {
                        if (error.code().value() == WEFT_ECANCELED) codes++;
                    }
                }(*last, ended, told, begun, token(alive)));
        for (int i = 0; i < 20; i++) begun.await();
        std::thread opener([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
            door->opened.set();
        });
        CHECK((aborts ? weft_pool_abort(&pool, nullptr, nullptr) : weft_pool_destroy(&pool)) == WEFT_OK);
        opener.join();
        CHECK(alive == 0);
        CHECK(ended + told == 20);
        if (!aborts) CHECK(told == 0);
    }
}

TEST_CASE("an aborted sync_wait says so") {
    weft_pool *pool = nullptr;
    REQUIRE(weft_pool_create(&pool, nullptr) == WEFT_OK);
    CHECK(weft::sync_wait(pool, value(1)) == 1);
    CHECK(weft_pool_destroy(&pool) == WEFT_OK);
    CHECK_THROWS_AS(weft::sync_wait(pool, value(1)), weft::error);
}

TEST_CASE("coroutines of other types") {
    weft::pool pool(2);
    event done;
    weft::group group(pool);
    gate door;
    group.submit([&] { door(); });
    door.entered.await();
    [](weft::group &after, event &at) -> foreign {
        co_await after;
        co_await weft::resume_on(after);
        at.set();
    }(group, done);
    door.opened.set();
    done.await();
    group.wait();
}

TEST_CASE("going on as a new task") {
    weft::pool pool(1), other(1);
    weft::group group(pool);
    std::string order;
    auto turns = [](weft::group &home, std::string &to, char name) -> weft::co<> {
        for (int i = 0; i < 3; i++) {
            to += name;
            co_await weft::resume_on(home);
        }
    };
    {
        occupied worker(pool);
        weft::spawn(group, turns(group, order, 'a'));
        weft::spawn(group, turns(group, order, 'b'));
    }
    while (!group.wait_until(std::chrono::steady_clock::now() + std::chrono::hours(1), WEFT_HELP_NONE)) {}
    CHECK(order == "ababab");
    weft::group foreign_group(other);
    weft::spawn(group, turns(foreign_group, order, 'c'));
    CHECK_THROWS_AS(group.wait(), weft::error);
}

TEST_CASE("a full queue takes no more of the stack with each turn") {
    weft_config config{};
    config.struct_size = sizeof config;
    config.workers = 1;
    config.queue_max = 1;
    weft::pool pool(config);
    weft::group group(pool);
    int turns = 0;
    bool filled = false;
    weft::spawn(group, [](weft::group &home, int &count, bool &last) -> weft::co<> {
        home.submit([&] { last = true; }); // stays in the queue of the one worker, which is here
        for (; count < 300000; count++) co_await weft::resume_on(home);
        CHECK(!last); // each turn went on at once
    }(group, turns, filled));
    while (!group.wait_until(std::chrono::steady_clock::now() + std::chrono::hours(1), WEFT_HELP_NONE)) {}
    CHECK(turns == 300000);
    CHECK(filled);
}

TEST_CASE("what is submitted to a group after it has finished is not waited for") {
    weft::pool pool(1);
    weft::group before(pool), home(pool);
    event later;
    weft::spawn(home, [](weft::group &awaited, weft::group &own, event &on) -> weft::co<> {
        auto blocked = [&on] { on.await(); };
        auto late = [&awaited, blocked] { awaited.submit(blocked); };
        awaited.submit([&own, late] { own.submit(late); }); // queued before the coroutine is
        co_await awaited;
        on.set();
    }(before, home, later));
    for (weft::group *one : {&home, &before})
        while (!one->wait_until(std::chrono::steady_clock::now() + std::chrono::hours(1), WEFT_HELP_NONE)) {}
}

TEST_CASE("an awaited group reports a task's WEFT_ETIMEDOUT") {
    weft::pool pool(1);
    const auto awaits = [](weft::group &after) -> weft::co<int> {
        try {
            co_await after;
        } catch (const weft::error &error) {
            co_return error.code().value();
        }
        co_return 0;
    };
    weft::group before(pool), home(pool);
    gate door;
    const auto fails = [] { return int{WEFT_ETIMEDOUT}; };
    {
        const occupied worker(pool);
        before.submit(fails);
        CHECK(weft_group_help(pool, before.native()) == 1);
        CHECK(weft::sync_wait(pool, awaits(before)) == WEFT_ETIMEDOUT); // at once
        CHECK(before.native()->id == 0);
    }
    int code = 0;
    std::atomic<bool> begun{false};
    before.submit([&] {
        door();
        return fails();
    });
    door.entered.await();
    weft::spawn(home, [](weft::co<int> of, int &to, std::atomic<bool> &at) -> weft::co<> {
        at = true;
        to = co_await std::move(of);
    }(awaits(before), code, begun));
    while (!begun) home.wait_until(std::chrono::steady_clock::now() + std::chrono::milliseconds(1)); // this thread begins it
    door.opened.set();
    home.wait();
    CHECK(code == WEFT_ETIMEDOUT); // after it was suspended
    weft::pool other(1);
    before.submit(fails);
    CHECK(weft::sync_wait(other, awaits(before)) == WEFT_ETIMEDOUT); // by a wait of the thread
}

TEST_CASE("what was submitted to a group after it had finished does not give its error") {
    weft::pool pool(1);
    weft::group before(pool), home(pool);
    int code = 0;
    weft::spawn(home, [](weft::group &awaited, weft::group &own, int &result) -> weft::co<> {
        auto late = [&awaited] { // its task has finished before the coroutine goes on
            awaited.submit([] { return 23; });
            CHECK(weft_group_help(awaited.pool(), awaited.native()) == 1);
        };
        awaited.submit([&own, late] { own.submit(late); }); // queued before the coroutine is
        try {
            co_await awaited;
        } catch (const weft::error &error) {
            result = error.code().value();
        }
    }(before, home, code));
    while (!home.wait_until(std::chrono::steady_clock::now() + std::chrono::hours(1), WEFT_HELP_NONE)) {}
    CHECK(code == 0);
    CHECK_THROWS_AS(before.wait(), weft::error);
}

namespace {
// What coroutines that awaited one group have seen.
struct seen {
    std::atomic<int> begun{0}, exceptions{0}, errors{0}, nothing{0};
    weft::co<> awaits(weft::group &after) {
        begun++;
        try {
            co_await after;
            nothing++;
        } catch (const std::string &) {
            exceptions++;
        } catch (const weft::error &) {
            errors++;
        }
    }
    // No worker is free: this thread begins them, and runs nothing else.
    void begin(weft::group &home, weft::group &after, int count) {
        for (int i = 0; i < count; i++) {
            weft::spawn(home, awaits(after));
            CHECK(weft_group_help(home.pool(), home.native()) == 1);
        }
        CHECK(begun == count);
    }
};
} // namespace

TEST_CASE("each coroutine that awaits a failed group is told") {
    weft::pool pool(1);
    weft::group home(pool), failed(pool);
    seen by;
    {
        const occupied worker(pool);
        failed.submit([] { throw std::string("thrown"); });
        by.begin(home, failed, 5);
        CHECK(weft_group_help(pool, failed.native()) == 1); // finished, and no thread has waited
    }
    home.wait();
    CHECK(by.exceptions == 1);
    CHECK(by.errors == 4);
    CHECK(by.nothing == 0);
    failed.wait(); // that was its end
}

TEST_CASE("a group may go before the coroutines that awaited it go on") {
    for (bool waits : {false, true}) {
        weft::pool pool(1);
        weft::group home(pool);
        seen by;
        alignas(weft::group) unsigned char room[sizeof(weft::group)];
        int exceptions = 0;
        {
            const occupied worker(pool);
            auto *failed = ::new (room) weft::group(pool);
            failed->submit([] { throw std::string("thrown"); });
            by.begin(home, *failed, 3);
            try {
                if (waits) failed->wait(); // runs the task
            } catch (const std::string &) {
                exceptions++;
            }
            failed->~group(); // runs it else
            std::memset(room, 0xff, sizeof room);
        }
        home.wait();
        CHECK(exceptions == (waits ? 1 : 0));
        CHECK(by.exceptions == 0);
        CHECK(by.errors == 3);
        CHECK(by.nothing == 0);
    }
}

TEST_CASE("a coroutine that is dropped after the awaited group has failed has its exception") {
    weft::pool pool(1);
    weft::group home(pool), failed(pool);
    seen by;
    {
        const occupied worker(pool);
        failed.submit([] { throw std::string("thrown"); });
        by.begin(home, failed, 1);
        CHECK(weft_group_help(pool, failed.native()) == 1);
        home.cancel();
    }
    std::error_code error;
    home.wait(error);
    CHECK(error.value() == WEFT_ECANCELED);
    CHECK(by.exceptions == 1);
}

TEST_CASE("a group of another pool is waited for") {
    weft::pool pool(1), other(1);
    int code = weft::sync_wait(pool, [](weft_pool *there) -> weft::co<int> {
        weft::group far(there);
        int result = 0;
        far.submit([&] { result = 9; });
        co_await far;
        co_return result;
    }(other));
    CHECK(code == 9);
}

TEST_CASE("many, from several threads, all awaiting the same groups") {
    weft::pool pool(3);
    std::vector<std::thread> threads;
    threads.reserve(3);
    std::atomic<int> ran{0};
    for (int t = 0; t < 3; t++)
        threads.emplace_back([&] {
            for (int round = 0; round < 100; round++) {
                weft::group stages[3] = {weft::group(pool), weft::group(pool), weft::group(pool)};
                stages[0].submit([&] { ran++; });
                for (int s = 1; s < 3; s++)
                    for (int i = 0; i < 5; i++)
                        weft::spawn(stages[s], [](weft::group &before, std::atomic<int> &count) -> weft::co<> {
                            co_await before;
                            count++;
                        }(stages[s - 1], ran));
                stages[2].wait();
            }
        });
    for (std::thread &thread : threads) thread.join();
    CHECK(ran == 3 * 100 * 11);
}

namespace {
/* What is left behind is used again, which std::move in the same function would forbid. */
template <class T> T taken(T &from) { return std::move(from); }
} // namespace

TEST_CASE("once, and not what was moved from") {
    weft::pool pool(2);
    auto twice = []() -> weft::co<int> {
        auto child = value(3);
        int sum = co_await taken(child), code = 0;
        try {
            sum += co_await taken(child);
        } catch (const weft::error &error) {
            code = error.code().value();
        }
        co_return code == WEFT_EINVAL ? sum : -1;
    };
    CHECK(weft::sync_wait(pool, twice()) == 3);
    auto from = value(1);
    auto to = std::move(from);
    CHECK(weft::sync_wait(pool, taken(to)) == 1);
    weft::error thrown(0, "none");
    try {
        weft::sync_wait(pool, taken(to)); // moved into the first
    } catch (const weft::error &error) {
        thrown = error;
    }
    CHECK(thrown.code().value() == WEFT_EINVAL);
}

TEST_CASE("a coroutine that is dropped leaves what the awaited group's tasks have thrown") {
    weft::pool pool(1);
    weft::group group(pool), awaited(pool);
    gate door;
    awaited.submit([] { throw std::string("first"); });
    awaited.submit([&] { door(); });
    door.entered.await(); // the first has thrown by now
    int code = 0;
    std::atomic<bool> begun{false};
    weft::spawn(group, [](weft::group &after, int &told, std::atomic<bool> &at) -> weft::co<> {
        at = true;
        try {
            co_await after;
        } catch (const weft::error &error) {
            told = error.code().value();
        }
    }(awaited, code, begun));
    while (!begun)
        group.wait_until(std::chrono::steady_clock::now() + std::chrono::milliseconds(1)); // this thread begins it
    group.cancel();
    door.opened.set();
    std::error_code error;
    group.wait(error);
    CHECK(error.value() == WEFT_ECANCELED);
    CHECK(code == WEFT_ECANCELED);
    CHECK_THROWS_AS(awaited.wait(), std::string);
}

TEST_CASE("a result in braces") {
    weft::pool pool(1);
    auto pair = []() -> weft::co<std::pair<int, std::string>> { co_return {7, "seven"}; };
    CHECK(weft::sync_wait(pool, pair()).second == "seven");
}

// What a co does not know of it would not come back from.
template <class Awaited>
concept is_awaited_in_co = requires(weft::co<>::promise_type promise, Awaited awaited) {
    promise.await_transform(static_cast<Awaited>(awaited));
};
static_assert(is_awaited_in_co<weft::group &> && is_awaited_in_co<weft::co<int> &&> && is_awaited_in_co<weft::resume_on &&>);
static_assert(!is_awaited_in_co<std::suspend_always &&>);

// Destroys the coroutine that it waits for.
struct impatient {
    struct promise_type {
        impatient get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };
    std::coroutine_handle<> handle;
};

static void destroy_early() {
    weft::pool pool(1);
    weft::group group(pool);
    gate door;
    group.submit([&] { door(); });
    door.entered.await();
    auto inner = [](weft::group &after) -> weft::co<> { co_await after; };
    auto outer = [](weft::co<> child) -> impatient { co_await std::move(child); }(inner(group));
    outer.handle.destroy();
    door.opened.set();
}

TEST_CASE("a coroutine that is destroyed while it awaits ends the program") {
    if (SANITIZED) {
        std::puts("skipped, a coroutine that is destroyed while it awaits ends the program: sanitizers report the abort");
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        std::signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        destroy_early();
        _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGABRT);
}
