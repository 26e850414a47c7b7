// weft.hpp: what becomes of callables, their results and what they throw.
#include <doctest/doctest.h>

#include "cpp_help.hpp"

#include <array>
#include <csignal>
#include <cstring>
#include <map>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>
#include <weft_memory.hpp>

// ---- counting allocations ---------------------------------------------------------------------------------------------

static std::atomic<std::size_t> allocated{0};
// Calls of malloc and of operator new since the start, by any thread.
static std::size_t allocations() { return allocated.load(); }

// The linker puts these in place of malloc and operator new, for every object of the program (CMakeLists.txt).
extern "C" {
void *__real_malloc(std::size_t size);
void *__wrap_malloc(std::size_t size) {
    allocated++;
    return __real_malloc(size);
}
void *__real__Znwm(std::size_t size);
void *__wrap__Znwm(std::size_t size) {
    allocated++;
    return __real__Znwm(size);
}
void *__real__ZnwmRKSt9nothrow_t(std::size_t size, const std::nothrow_t &tag);
void *__wrap__ZnwmRKSt9nothrow_t(std::size_t size, const std::nothrow_t &tag) {
    allocated++;
    return __real__ZnwmRKSt9nothrow_t(size, tag);
}
void *__real__ZnwmSt11align_val_t(std::size_t size, std::align_val_t alignment);
void *__wrap__ZnwmSt11align_val_t(std::size_t size, std::align_val_t alignment) {
    allocated++;
    return __real__ZnwmSt11align_val_t(size, alignment);
}
}

// ---- callables --------------------------------------------------------------------------------------------------------

// Knows where it is: wrong when its bytes were copied instead of it being moved.
class rooted {
  public:
    explicit rooted(int n) : self(this), continuation(n) { alive++; }
    rooted(rooted &&other) noexcept : self(this), continuation(other.continuation) {
        check(other);
        alive++;
    }
    rooted(const rooted &other) : self(this), continuation(other.continuation) { alive++; }
    rooted &operator=(const rooted &) = delete;
    ~rooted() {
        check(*this);
        alive--;
    }
    bool is_right() const { return self == this; }
    int number() const { return continuation; }

    static void check(const rooted &it) {
        if (!it.is_right()) wrong++;
    }
    static std::atomic<int> alive, wrong;

  private:
    const rooted *self;
    int continuation;
};

struct move_only {
    explicit move_only(int n) : number(n) {}
    move_only(move_only &&other) noexcept : number(std::exchange(other.number, 0)) {}
    move_only &operator=(const move_only &) = delete;
    ~move_only() = default;
    int number;
};
std::atomic<int> rooted::alive{0}, rooted::wrong{0};

TEST_CASE("a task may take nothing or its worker, and return nothing or an error") {
    weft::pool pool(2);
    weft::group group(pool);
    std::atomic<int> sum{0};
    group.submit([&] { sum += 1; });
    group.submit([&](weft_worker *self) { sum += weft_worker_pool(self) == pool ? 10 : 0; });
    group.submit([&] {
        sum += 100;
        return 0;
    });
    group.wait();
    CHECK(sum == 111);
    group.submit([] { return 7; });
    std::error_code error;
    group.wait(error);
    CHECK(error.value() == 7);
    CHECK(error.category() == weft::category());
    CHECK(error.message() == "a task returned 7");
}

template <std::size_t Bytes> static void submit_bytes(weft::group &group, std::atomic<std::size_t> &sum) {
    std::array<unsigned char, Bytes - sizeof(void *)> bytes{};
    bytes.fill(1);
    auto lambda = [bytes, &sum] {
        std::size_t ones = 0;
        for (unsigned char byte : bytes) ones += byte;
        sum += ones;
    };
    static_assert(sizeof lambda == Bytes);
    group.submit(lambda);
}

TEST_CASE("lambdas up to 64 bytes cost no allocation, moved ones neither") {
    weft::pool pool(2);
    weft::group group(pool);
    std::atomic<std::size_t> sum{0};
    group.submit([] {}); // a thread's first use of a pool may allocate
    for (int round = 0; round < 3; round++) {
        std::size_t before = allocations();
        sum = 0;
        for (int i = 0; i < 30; i++) {
            submit_bytes<16>(group, sum);
            submit_bytes<24>(group, sum);
            submit_bytes<40>(group, sum);
            submit_bytes<64>(group, sum);
            submit_bytes<1000>(group, sum);
            group.submit([only = move_only(1), &sum] { sum += static_cast<std::size_t>(only.number); });
            group.submit([there = rooted(1), &sum] { sum += there.is_right() ? 1 : 0; });
        }
        group.wait();
        std::size_t after = allocations();
        CHECK(after == before);
        CHECK(sum == 30u * (8 + 16 + 32 + 56 + 992 + 2));
    }
    CHECK(rooted::wrong == 0);
    CHECK(rooted::alive == 0);
    CHECK(pool.stats().heap_payload_count == 0);
}

TEST_CASE("larger ones cost one") {
    weft::pool pool(2);
    weft::group group(pool);
    std::atomic<std::size_t> sum{0};
    group.submit([] {});
    std::size_t before = allocations();
    submit_bytes<WEFT_INLINE_MAX>(group, sum); // with what weft.hpp adds it is too large
    CHECK(allocations() == before + 1);
    group.wait();
    CHECK(pool.stats().heap_payload_count == 0);
    std::array<unsigned char, WEFT_INLINE_MAX> bytes{};
    bytes.fill(1);
    before = allocations();
    group.submit([bytes, there = rooted(5), &sum] { sum += bytes.back() + static_cast<std::size_t>(there.number()); });
    group.wait();
    std::size_t after = allocations();
    CHECK(after == before + 1);
    CHECK(sum == WEFT_INLINE_MAX - 8 + 6);
}

TEST_CASE("moved, not copied as bytes; destroyed before the wait returns") {
    weft::pool pool(2);
    weft::group group(pool);
    std::atomic<int> sum{0};
    auto shared = std::make_shared<int>(1);
    std::string small = "inside the string", large(1000, 'x');
    for (int i = 0; i < 1000; i++) {
        group.submit([there = rooted(i), &sum] { sum += there.is_right() ? there.number() : -1000000; });
        group.submit([small, large, &sum] { sum += small == "inside the string" && large.size() == 1000 ? 1 : -1000000; });
        group.submit([shared, &sum] { sum += *shared; });
    }
    group.wait();
    CHECK(sum == 999 * 1000 / 2 + 2000);
    CHECK(shared.use_count() == 1);
    CHECK(rooted::wrong == 0);
    CHECK(rooted::alive == 0);
}

template <std::size_t Align> struct alignas(Align) aligned {
    unsigned char byte = 1;
    bool is_right() const { return reinterpret_cast<std::uintptr_t>(this) % Align == 0; }
};

TEST_CASE("captures of any alignment") {
    weft::pool pool(2);
    weft::group group(pool);
    std::atomic<int> right{0};
    for (int i = 0; i < 100; i++) {
        group.submit([a = aligned<32>(), &right] { right += a.is_right(); });
        group.submit([a = aligned<64>(), &right] { right += a.is_right(); });
        group.submit([a = aligned<256>(), r = rooted(1), &right] { right += a.is_right() && r.is_right(); });
        group.submit([a = aligned<4096>(), &right] { right += a.is_right(); });
    }
    group.wait();
    CHECK(right == 400);
    CHECK(rooted::wrong == 0);
    CHECK(rooted::alive == 0);
}

// Its move may throw, so that it must not happen in the queue.
struct brittle {
    explicit brittle(std::exception_ptr what) : thrown(std::move(what)) {}
    brittle(const brittle &other) : thrown(other.thrown), there(other.there) {
        if (thrown) std::rethrow_exception(thrown);
    }
    brittle &operator=(const brittle &) = delete;
    ~brittle() = default;
    std::exception_ptr thrown;
    rooted there{3};
    void operator()(std::atomic<int> &sum) const { sum += there.number(); }
};

TEST_CASE("what may throw when moved is moved before anything is queued") {
    weft::pool pool(2);
    weft::group group(pool);
    std::atomic<int> sum{0};
    const std::exception_ptr one = std::make_exception_ptr(1);
    const brittle good(nullptr), bad(one);
    group.submit([good, &sum] { good(sum); });
    auto refers = [&bad] { return bad; };
    CHECK_THROWS_AS(group.submit([captured = refers(), &sum] { captured(sum); }), int);
    struct direct : brittle {
        using brittle::brittle;
        void operator()() const {}
    } const unwilling(one);
    CHECK_THROWS_AS(group.submit(unwilling), int);
    group.wait();
    CHECK(sum == 3);
    CHECK(rooted::alive == 3); // good, bad, unwilling
}

// ---- tasks that never run ---------------------------------------------------------------------------------------------

TEST_CASE("cancelled tasks destroy their captures") {
    weft::pool pool(1);
    auto shared = std::make_shared<int>(1);
    std::array<char, WEFT_INLINE_MAX> much{};
    {
        occupied worker(pool);
        weft::group group(pool);
        for (int i = 0; i < 200; i++) {
            group.submit([shared, there = rooted(1)] {});
            group.submit([shared, much] { (void)much; });
            group.submit([shared, a = aligned<128>()] { (void)a; });
        }
        CHECK(shared.use_count() == 601);
        group.cancel();
        std::error_code error;
        group.submit([shared] {}, error);
        CHECK(error == std::errc::operation_canceled);
        group.wait(error);
        CHECK(error.value() == WEFT_ECANCELED);
        CHECK(shared.use_count() == 1);
        group.submit([shared] {});
        group.wait();
    }
    CHECK(shared.use_count() == 1);
    CHECK(rooted::wrong == 0);
    CHECK(rooted::alive == 0);
}

TEST_CASE("a failed task cancels later ones of such a group") {
    weft::pool pool(1);
    auto shared = std::make_shared<int>(1);
    std::atomic<int> ran{0};
    weft::group group(pool, WEFT_GROUP_CANCEL_ON_ERROR);
    {
        occupied worker(pool);
        for (int i = 0; i < 10; i++)
            group.submit([i, shared, &ran] {
                ran++;
                if (i == 4) throw int{i};
            });
    }
    CHECK_THROWS_AS(group.wait(), int);
    CHECK(ran >= 5);
    CHECK(shared.use_count() == 1);
}

TEST_CASE("urgent, boosted and background groups") {
    weft::pool pool(1);
    std::string order;
    weft::group background(pool, WEFT_GROUP_BACKGROUND), normal(pool), lifted(pool), urgent(pool, WEFT_GROUP_URGENT);
    {
        occupied worker(pool);
        background.submit([&] { order += 'd'; });
        normal.submit([&] { order += 'c'; });
        lifted.submit([&] { order += 'b'; });
        urgent.submit([&] { order += 'a'; });
        normal.boost();
        lifted.boost();
    }
    for (weft::group *group : {&background, &normal, &lifted, &urgent})
        while (!group->wait_until(std::chrono::steady_clock::now() + std::chrono::hours(1), WEFT_HELP_NONE)) {}
    CHECK(order.size() == 4);
    CHECK(order.back() == 'd');
    weft::group wrong(pool, WEFT_GROUP_URGENT | WEFT_GROUP_BACKGROUND);
    CHECK_THROWS_AS(wrong.submit([] {}), weft::error);
}

TEST_CASE("an aborted pool destroys captures and fails futures") {
    weft_config config;
    weft_config_init(&config);
    config.workers = 1;
    weft_pool *pool = nullptr;
    REQUIRE(weft_pool_create(&pool, &config) == WEFT_OK);
    auto shared = std::make_shared<int>(1);
    gate door;
    std::vector<weft::future<int>> futures;
    futures.reserve(100);
    auto continuation = weft::async(pool, [&door] { door(); });
    door.entered.await();
    for (int i = 0; i < 100; i++) futures.push_back(weft::async(pool, [shared, there = rooted(1)] { return *shared; }));
    std::thread opener([&door, native = pool] {
        auto nothing = [](void *, weft_worker *) { return 0; };
        while (weft_submit(native, nullptr, nothing, nullptr, 0) != WEFT_ESHUTDOWN) std::this_thread::yield();
        door.opened.set();
    });
    weft_pool_abort(&pool, nullptr, nullptr);
    opener.join();
    for (auto &future : futures) {
        CHECK(future.is_ready());
        CHECK_THROWS_AS(future.get(), weft::error);
    }
    continuation.get(); // it ran, and outlives the pool
    CHECK(shared.use_count() == 1);
    CHECK(rooted::wrong == 0);
    CHECK(rooted::alive == 0);
}

// ---- groups -----------------------------------------------------------------------------------------------------------

TEST_CASE("a wait throws what the task submitted first has thrown") {
    for (unsigned workers : {1u, 3u}) {
        weft::pool pool(workers);
        weft::group group(pool);
        for (int round = 0; round < (SANITIZED ? 20 : 100); round++) {
            for (int i = 0; i < 20; i++)
                group.submit([i]() -> int {
                    if (i == 7) throw std::string("seven");
                    if (i > 7 && i % 2 == 0) throw int{i};
                    return i > 7 ? i : 0;
                });
            std::string thrown;
            try {
                group.wait();
            } catch (const std::string &what) {
                thrown = what;
            }
            CHECK(thrown == "seven");
            group.wait();
        }
        group.submit([] { return 3; });
        group.submit([] { throw 4; });
        int code = 0;
        try {
            group.wait();
        } catch (const weft::error &error) {
            code = error.code().value();
        }
        CHECK(code == 3);
    }
}

TEST_CASE("a group that goes waits, and drops what was thrown") {
    weft::pool pool(2);
    std::atomic<int> ran{0};
    auto shared = std::make_shared<int>(1);
    struct holds {
        std::shared_ptr<int> shared;
    };
    for (int round = 0; round < 50; round++) {
        weft::group group(pool);
        for (int i = 0; i < 10; i++)
            group.submit([&ran, shared] {
                ran++;
                throw holds{shared};
            });
    }
    CHECK(ran == 500);
    CHECK(shared.use_count() == 1);
}

TEST_CASE("waits with a deadline") {
    weft::pool pool(1);
    weft::group group(pool);
    gate door;
    group.submit([&] { door(); });
    door.entered.await();
    CHECK_FALSE(group.wait_until(std::chrono::steady_clock::now()));
    CHECK_FALSE(group.wait_until({}));
    door.opened.set();
    CHECK(group.wait_until(std::chrono::steady_clock::time_point::max()));
}

TEST_CASE("a group with a deadline") {
    weft::pool pool(1);
    weft::group group(pool, WEFT_GROUP_DROP_LATE);
    int ran = 0;
    group.deadline(std::chrono::steady_clock::now() + std::chrono::hours(1));
    group.submit([&] { ran++; });
    group.wait();
    CHECK(ran == 1);
    group.deadline(std::chrono::steady_clock::time_point(std::chrono::nanoseconds(1)));
    group.submit([&] { ran++; });
    std::error_code error;
    group.wait(error);
    CHECK(error.value() == WEFT_ELATE);
    CHECK(ran == 1);
}

TEST_CASE("groups inside tasks") {
    weft::pool pool(2);
    struct tree {
        static int count(weft_pool *pool, int depth) {
            if (depth == 0) return 1;
            std::array<int, 3> below{};
            weft::group group(pool);
            for (int &b : below) group.submit([&b, pool, depth] { b = count(pool, depth - 1); });
            group.wait();
            return below[0] + below[1] + below[2];
        }
    };
    CHECK(tree::count(pool, SANITIZED ? 5 : 8) == (SANITIZED ? 243 : 6561));
}

TEST_CASE("a wait that cannot be forgets nothing of what was thrown") {
    weft::pool pool(1);
    weft::group group(pool);
    std::error_code error;
    {
        occupied worker(pool);
        group.submit([] { throw std::string("first"); });
        group.submit([&] { group.wait(error); }); // its own
    }
    CHECK_THROWS_AS(group.wait(), std::string);
    CHECK(error.value() == WEFT_EDEADLK);
}

// ---- futures ----------------------------------------------------------------------------------------------------------

TEST_CASE("futures of every kind") {
    weft::pool pool(2);
    int x = 1;
    CHECK(pool.async([] { return 42; }).get() == 42);
    CHECK(*pool.async([p = std::make_unique<int>(5)]() mutable { return std::move(p); }).get() == 5);
    CHECK(&pool.async([&x]() -> int & { return x; }).get() == &x);
    pool.async([&x] { x = 2; }).get();
    CHECK(x == 2);
    CHECK(pool.async([there = rooted(4)] { return rooted(there.number()); }).get().number() == 4);
    CHECK(pool.async([a = aligned<256>()] { return a.is_right(); }).get());
    auto thrower = pool.async([]() -> std::string { throw std::string("thrown"); });
    CHECK_THROWS_AS(thrower.get(), std::string);
    CHECK_FALSE(thrower.valid());
    CHECK_THROWS_AS(thrower.get(), weft::error);
    CHECK_THROWS_AS(weft::async(nullptr, [] {}).wait(), weft::error);
    CHECK(rooted::wrong == 0);
    CHECK(rooted::alive == 0);
}

static std::size_t future_allocations(weft::pool &pool) {
    std::size_t before = allocations();
    int got = pool.async([] { return 3; }).get();
    return got == 3 ? allocations() - before : 0;
}

TEST_CASE("a future costs one allocation") {
    weft::pool pool(2);
    pool.async([] {}).get();
    CHECK(future_allocations(pool) == 1);
    CHECK(future_allocations(pool) == 1);
}

TEST_CASE("a future nobody has begun runs where it is waited for") {
    weft::pool pool(1);
    occupied worker(pool);
    auto where = pool.async([] { return std::this_thread::get_id(); });
    CHECK_FALSE(where.is_ready());
    CHECK(where.get() == std::this_thread::get_id());
    {
        auto dropped = pool.async([there = rooted(1)] {});
    }
    CHECK(rooted::wrong == 0);
    CHECK(rooted::alive == 0);
}

TEST_CASE("a callable cannot wait for its own future, wherever it runs") {
    for (bool here : {true, false}) {
        weft::pool pool(1);
        weft::future<std::string> future;
        event made;
        int code = 0;
        bool ready = true;
        auto own = [&] {
            made.await();
            ready = future.is_ready();
            try {
                future.get();
            } catch (const weft::error &error) {
                code = error.code().value();
            }
            return std::string("done");
        };
        if (here) {
            occupied worker(pool);
            future = pool.async(own);
            made.set();
            CHECK(future.get() == "done");
        } else {
            future = pool.async(own);
            made.set();
            pool.async([] {}).get();
            CHECK(future.get() == "done");
        }
        CHECK(code == WEFT_EDEADLK);
        CHECK_FALSE(ready);
    }
}

TEST_CASE("a future that runs elsewhere is waited for") {
    for (int round = 0; round < 20; round++) {
        weft::pool pool(2);
        gate door;
        auto future = pool.async([&] {
            door();
            return 5;
        });
        door.entered.await();
        CHECK_FALSE(future.is_ready());
        std::thread opener([&] { door.opened.set(); });
        CHECK(future.get() == 5);
        opener.join();
    }
}

TEST_CASE("a wait for a future helps with what that submits") {
    weft::pool pool(1);
    event begun, go;
    std::atomic<int> here{0};
    std::thread::id waiter = std::this_thread::get_id();
    auto future = pool.async([&] {
        begun.set();
        go.await();
        weft::group below(pool);
        for (int i = 0; i < 10; i++) below.submit([&] { here += std::this_thread::get_id() == waiter ? 1 : 0; });
        // This worker stays; only the wait for the future can run them.
        while (here < 10) std::this_thread::yield();
        below.wait();
    });
    begun.await();
    std::thread later([&] { go.set(); });
    future.get();
    later.join();
    CHECK(here == 10);
}

TEST_CASE("many futures, taken in any order, inside tasks too") {
    weft::pool pool(2);
    const int count = SANITIZED ? 2000 : 50000;
    std::vector<weft::future<int>> futures;
    futures.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; i++) futures.push_back(pool.async([i] { return i; }));
    long sum = 0;
    for (std::size_t i = futures.size(); i-- > 0;) sum += futures[i].get();
    CHECK(sum == static_cast<long>(count) * (count - 1) / 2);
    struct fib {
        static int of(weft_pool *pool, int n) {
            if (n < 2) return n;
            auto left = weft::async(pool, [=] { return of(pool, n - 1); });
            int right = of(pool, n - 2);
            return left.get() + right;
        }
    };
    CHECK(fib::of(pool, SANITIZED ? 12 : 18) == (SANITIZED ? 144 : 2584));
    weft::pool one(1);
    CHECK(one.async([&one] { return fib::of(one, 12); }).get() == 144);
}

// ---- pools ------------------------------------------------------------------------------------------------------------

TEST_CASE("a pool runs what it was given before it goes") {
    std::atomic<int> ran{0};
    {
        weft::pool pool(2);
        CHECK(pool.workers() == 2);
        for (int i = 0; i < 1000; i++) pool.submit([&ran] { ran++; });
        pool.wait();
        CHECK(ran == 1000);
        pool.submit([] { throw 1; });
        CHECK_THROWS_AS(pool.wait(), int);
        for (int i = 0; i < 1000; i++) pool.submit([&ran, &pool] { pool.submit([&ran] { ran++; }); });
    }
    CHECK(ran == 2000);
}

TEST_CASE("a pool that goes takes what its last tasks submit") {
    auto continuation = std::make_shared<int>(0);
    std::atomic<bool> is_ending{false};
    std::thread other;
    {
        weft::pool pool(2);
        weft_pool *made = pool;
        auto submits = [&is_ending, &pool, &continuation] {
            while (!is_ending) std::this_thread::yield();
            pool.submit([continuation] { throw std::shared_ptr<int>(continuation); });
        };
        weft::group loose(pool); // leaves its tasks to the pool
        loose.submit(submits);
        *loose.native() = WEFT_GROUP_INIT;
        other = std::thread([&is_ending, made] {
            auto none = [](void *, weft_worker *) { return 0; };
            while (weft_submit(made, nullptr, none, nullptr, 0) != WEFT_ESHUTDOWN) std::this_thread::yield();
            is_ending = true;
        });
    }
    other.join();
    CHECK(continuation.use_count() == 1);
}

TEST_CASE("a pool that cannot be made throws") {
    weft_config config;
    weft_config_init(&config);
    config.cpus = "nonsense";
    try {
        weft::pool pool(config);
        CHECK(false);
    } catch (const std::system_error &error) {
        CHECK(error.code() == std::errc::invalid_argument);
        CHECK(std::string(error.what()).find("weft::pool: cpus") != std::string::npos);
        CHECK(std::string(error.what()).find(weft_strerror(WEFT_EINVAL)) != std::string::npos);
    }
}

TEST_CASE("a full queue") {
    weft_config config;
    weft_config_init(&config);
    config.workers = 1;
    config.queue_max = 1;
    config.full = WEFT_FULL_ERROR;
    weft::pool errors(config);
    config.full = WEFT_FULL_RUN;
    weft::pool runs(config);
    occupied first(errors), second(runs);
    weft::group group(errors), inline_group(runs);
    auto shared = std::make_shared<int>(1);
    group.submit([shared] {});
    std::error_code error;
    group.submit([shared] {}, error);
    CHECK(error.value() == WEFT_EFULL);
    CHECK(shared.use_count() == 2);
    std::thread::id where;
    inline_group.submit([shared] {});
    inline_group.submit([shared, there = rooted(1), a = aligned<256>(), &where] {
        where = there.is_right() && a.is_right() ? std::this_thread::get_id() : std::thread::id();
    });
    CHECK(where == std::this_thread::get_id());
    CHECK(shared.use_count() == 3);
}

// ---- another unit, without exceptions ---------------------------------------------------------------------------------

int plain_sum(weft_pool *pool, int count); // cpp_plain.cpp
int plain_error(weft_pool *pool);
int plain_future(weft_pool *pool);
void plain_dies();
void plain_exhausts();

TEST_CASE("a unit without exceptions and RTTI") {
    weft::pool pool(2);
    CHECK(plain_sum(pool, 100) == 4950);
    CHECK(plain_error(pool) == 7);
    CHECK(plain_future(pool) == 5);
}

static bool aborts(void (*run)()) {
    pid_t child = fork();
    if (child == 0) {
        std::signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        run();
        _exit(0);
    }
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

TEST_CASE("without exceptions an error ends the program, of its unit alone") {
    if (SANITIZED) {
        std::puts("skipped, without exceptions an error ends the program: sanitizers report the abort");
        return;
    }
    CHECK(aborts(plain_dies));
    CHECK(aborts(plain_exhausts));
    CHECK_THROWS_AS(static_cast<void>(weft::allocator<int>().allocate(~std::size_t{0} / 8)), std::bad_alloc);
}
