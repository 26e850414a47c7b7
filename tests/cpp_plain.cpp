// weft.hpp where exceptions and RTTI are off; the second unit of test_cpp.
#include "cpp_help.hpp"

#include <string>
#include <weft_memory.hpp>

int plain_sum(weft_pool *pool, int count);
int plain_error(weft_pool *pool);
int plain_future(weft_pool *pool);
void plain_dies();
void plain_exhausts();

int plain_sum(weft_pool *pool, int count) {
    weft::group group(pool);
    std::atomic<int> sum{0};
    for (int i = 0; i < count; i++) group.submit([i, text = std::string("short"), &sum] { sum += text == "short" ? i : 0; });
    group.wait();
    return sum;
}

int plain_error(weft_pool *pool) {
    weft::group group(pool);
    std::error_code error;
    group.submit([] { return 7; }, error);
    if (!error) group.wait(error);
    return error.value();
}

int plain_future(weft_pool *pool) {
    return weft::async(pool, [] { return 5; }).get();
}

void plain_dies() {
    weft::pool pool(1);
    weft::group group(pool);
    group.submit([] { return 7; });
    group.wait();
}

void plain_exhausts() { static_cast<void>(weft::allocator<int>().allocate(~std::size_t{0} / 8)); }
