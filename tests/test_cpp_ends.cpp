// weft.hpp: tasks that never run in a pool that cleans payloads, and waits that are refused.
#include <doctest/doctest.h>

#include "cpp_help.hpp"

#include <array>
#include <memory>
#include <string>
#include <thread>

// ---- a pool of C's, with a clean ---------------------------------------------------------------------------------------

static std::atomic<int> cleaned{0};
static void clean(void *payload, std::size_t, void *) {
    if (payload != nullptr) cleaned++;
}

static weft_config cleaning() {
    weft_config config;
    weft_config_init(&config);
    config.workers = 1;
    config.clean = clean;
    return config;
}

static int nothing(void *, weft_worker *) { return 0; }

// Callables of bytes alone, of which some fit into a cell, some into several, and some nowhere.
static void submit_each(weft::group &group) {
    std::array<char, 200> some{};
    std::array<char, WEFT_INLINE_MAX> much{};
    group.submit([] { FAIL("a task ran that was cancelled"); });
    group.submit([some] { FAIL("a task ran that was cancelled: ", some[0]); });
    group.submit([much] { FAIL("a task ran that was cancelled: ", much[0]); });
}

TEST_CASE("a pool's clean gets payloads of C alone") {
    const std::array<char, 4> payload{};
    cleaned = 0;
    std::error_code error;
    weft::pool pool(cleaning());
    {
        occupied worker(pool);
        weft::group group(pool);
        submit_each(group);
        REQUIRE(weft_submit(pool, group.native(), nothing, payload.data(), payload.size()) == WEFT_OK);
        group.cancel();
        group.wait(error);
    }
    CHECK(error.value() == WEFT_ECANCELED);
    CHECK(pool.stats().task_dropped_count == 4);
    CHECK(cleaned == 1);
}

TEST_CASE("nor does that of an abort") {
    cleaned = 0;
    weft_config config = cleaning();
    weft_pool *pool = nullptr;
    REQUIRE(weft_pool_create(&pool, &config) == WEFT_OK);
    gate door;
    {
        weft::group first(pool), group(pool);
        first.submit([&door] { door(); });
        door.entered.await();
        submit_each(group);
        REQUIRE(weft_submit(pool, group.native(), nothing, "abc", 4) == WEFT_OK);
        std::thread opener([&door, native = pool] {
            while (weft_submit(native, nullptr, nothing, nullptr, 0) != WEFT_ESHUTDOWN) std::this_thread::yield();
            door.opened.set();
        });
        weft_pool_abort(&pool, clean, nullptr);
        opener.join();
        *first.native() = *group.native() = WEFT_GROUP_INIT;
    }
    CHECK(cleaned == 1);
}

// ---- without memory ----------------------------------------------------------------------------------------------------

static thread_local int hungry = 0; // so many allocations of weft's fail on this thread
static thread_local int refused = 0;
static thread_local event *after_the_last = nullptr;

static bool gets_nothing() {
    if (hungry == 0) return false;
    refused++;
    if (--hungry == 0 && after_the_last != nullptr) after_the_last->set();
    return true;
}

// The linker puts these in place of weft's (CMakeLists.txt).
extern "C" {
void *__real_os_alloc(std::size_t bytes);
void *__wrap_os_alloc(std::size_t bytes) { return gets_nothing() ? nullptr : __real_os_alloc(bytes); }
void *__real_os_map(std::size_t bytes);
void *__wrap_os_map(std::size_t bytes) { return gets_nothing() ? nullptr : __real_os_map(bytes); }
void *__real_weft_alloc(std::size_t bytes);
void *__wrap_weft_alloc(std::size_t bytes) { return gets_nothing() ? nullptr : __real_weft_alloc(bytes); }
}

TEST_CASE("a wait for which there is no memory forgets nothing of what was thrown") {
    weft::pool pool(1);
    weft::group group(pool);
    group.submit([] { throw std::string("first"); });
    std::error_code error;
    std::thread([&] {
        hungry = 1;
        group.wait(error);
    }).join();
    CHECK(error.value() == WEFT_ENOMEM);
    CHECK_THROWS_AS(group.wait(), std::string);
}

TEST_CASE("a task that returns the error of such a wait ends the group all the same") {
    weft::pool pool(1);
    weft::group group(pool);
    std::error_code error;
    auto shared = std::make_shared<int>(1);
    struct holds {
        std::shared_ptr<int> shared;
    };
    group.submit([] { return int{WEFT_ENOMEM}; });
    group.submit([shared] { throw holds{shared}; });
    group.wait(error);
    CHECK(error.value() == WEFT_ENOMEM);
    CHECK(shared.use_count() == 1);
}

TEST_CASE("a second run of a graph for which there is no memory leaves the first its exceptions") {
    weft::pool pool(1);
    weft::graph graph;
    std::error_code error;
    const occupied worker(pool); // so this thread runs the nodes, the first of them first
    graph.add([] { throw std::string("first"); });
    graph.add([&] {
        std::thread([&] {
            hungry = 1;
            graph.run(pool, error);
        }).join();
    });
    graph.build();
    CHECK_THROWS_AS(graph.run(pool), std::string);
    CHECK(error.value() == WEFT_EBUSY);
}

TEST_CASE("a group and a future that go wait for memory") {
    weft::pool pool(1);
    std::atomic<int> ran{0};
    int failed = 0;
    std::thread([&] {
        auto group = std::make_unique<weft::group>(pool);
        std::thread([&] { group->submit([&] { ran++; }); }).join(); // this thread is new to the pool yet
        hungry = 3;
        group.reset();
        failed += refused;
    }).join();
    CHECK(failed == 3);
    CHECK(ran == 1);
    gate door;
    auto future = pool.async([&] { door(); });
    door.entered.await();
    std::thread([&] {
        hungry = 3;
        after_the_last = &door.opened;
        auto last = std::move(future);
    }).join();
    CHECK_FALSE(future.valid());
}

// ---- a worker that is slow to say that a future's task is done -----------------------------------------------------------

static gate *late = nullptr; ///< workers stand there after their waits

extern "C" {
int __real_weft_group_wait(weft_pool *pool, weft_group *group);
int __wrap_weft_group_wait(weft_pool *pool, weft_group *group);
int __wrap_weft_group_wait(weft_pool *pool, weft_group *group) {
    const int code = __real_weft_group_wait(pool, group);
    if (late != nullptr && weft_worker_here() != nullptr) (*late)();
    return code;
}
}

TEST_CASE("a future is ready after its wait") {
    weft::pool pool(1);
    gate behind;
    event begun;
    late = &behind;
    auto future = pool.async([&] {
        begun.set();
        return 3;
    });
    begun.await();
    future.wait(); // the worker has begun it, and has not come back
    CHECK(future.is_ready());
    behind.opened.set();
    behind.entered.await();
    CHECK(future.get() == 3);
    late = nullptr;
}
