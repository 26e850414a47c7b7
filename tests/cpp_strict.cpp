// Every template of the C++ headers, once: compiles without a warning where -Weffc++ is an error (CMakeLists.txt).
#include <string>
#include <vector>
#include <weft.hpp>
#include <weft_memory.hpp>
#if defined(__cpp_impl_coroutine)
#include <weft_coroutine.hpp>
#endif

struct alignas(64) wide {
    char bytes[64];
};
static int twice(weft_fork_slot *, int number) { return 2 * number; }
WEFT_FORK(twice, int, int)
static void nothing(weft_fork_slot *, int) {}
WEFT_FORK_VOID(nothing, int)

static void groups(weft::pool &pool) {
    weft::group group(pool);
    const std::string text = "text";
    const wide aligned{};
    std::error_code error;
    group.submit([] {});
    group.submit([](weft_worker *) { return 1; });
    group.submit([text] { static_cast<void>(text); });
    group.submit([aligned] { static_cast<void>(aligned); }, error);
    group.wait(error);
    int number = 0;
    pool.async([] { return std::string("a"); }).get();
    pool.async([] {}).get();
    weft::async(pool, [&]() -> int & { return number; }).get() = 2;
}
static void patterns(weft::pool &pool) {
    weft::parallel_for(pool, 0, 10, [](int) {});
    weft::parallel_for(pool, short{-5}, short{9}, [](short, short) { return 0; });
    weft::parallel_for_tiles(pool, {0, 5, 0}, {0, 7, 0}, [](std::size_t, std::size_t) {});
    const auto name = [](std::size_t i) { return std::to_string(i); };
    const auto join = [](const std::string &a, const std::string &b) { return a + b; };
    static_cast<void>(weft::reduce(pool, {0, 10, 0}, std::string(), name, join));
    std::vector<int, weft::allocator<int>> numbers(5000);
    weft::sort(pool, numbers.begin(), numbers.end());
    weft::sort(pool, numbers.data(), numbers.data() + 5000, [](int a, int b) { return a > b; });
    struct answer {
        bool is_yes;
        explicit operator bool() const { return is_yes; }
    };
    std::vector<bool> bits{true, false};
    const auto less = [](int a, int b) { return answer{a < b}; };
    weft::sort(pool, numbers.begin(), numbers.end(), less);
    weft::sort(pool, bits.begin(), bits.end(), less);
    weft::graph graph;
    graph.add([] {}, {graph.add([] {})});
    graph.build();
    graph.run(pool);
    weft::invoke(
        pool, [] {}, [](weft_fork_slot *) {}, [] {});
    weft_fork_slot *here = nullptr;
    if (weft_fork_enter(pool, &here) != WEFT_OK) return;
    const int one = 1;
    twice_fork(here, &one);
    static_cast<void>(twice_join(here, &one));
    nothing_fork(here, &one);
    nothing_join(here, &one);
    weft_fork_leave(here);
}
#if defined(__cpp_impl_coroutine)
static weft::co<int> leaf(int number) { co_return number; }
static weft::co<> awaits(weft::group &group) {
    co_await group;
    co_await weft::resume_on(group);
    static_cast<void>(co_await leaf(3));
}
static void coroutines(weft::pool &pool) {
    weft::group group(pool), home(pool);
    weft::spawn(home, awaits(group));
    weft::sync_wait(pool, awaits(group));
    static_cast<void>(weft::sync_wait(pool, leaf(1)));
}
#else
static void coroutines(weft::pool &) {}
#endif

void use_all(weft::pool &pool);
void use_all(weft::pool &pool) {
    groups(pool);
    patterns(pool);
    coroutines(pool);
}
