// A C++17 program of a user, built in every way the README names.
#include <cstdio>
#include <memory>
#include <weft.hpp>

int main() {
    weft::pool pool;
    int sum = pool.async([one = std::make_unique<int>(1)] { return *one; }).get();
    weft::parallel_for(pool, 0, 10, [](int) {});
    std::printf("weft %s %d\n", weft_version(), sum);
    return sum == 1 ? 0 : 5;
}
