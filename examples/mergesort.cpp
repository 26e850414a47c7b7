// Recursion: weft::invoke sorts the two halves of a range side by side, where a worker is free. Prints whether it is sorted.
// (To sort, use weft::sort.)
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>
#include <weft.hpp>

namespace {

using iterator = std::vector<std::uint32_t>::iterator;

// Sorts first .. last; `spare` is as long.
void merge_sort(weft_pool *pool, iterator first, iterator last, iterator spare) {
    auto count = last - first;
    if (count < 4096) return std::sort(first, last); // less than this is not worth a task
    iterator middle = first + count / 2;
    weft::invoke(
        pool, [=] { merge_sort(pool, first, middle, spare); }, [=] { merge_sort(pool, middle, last, spare + count / 2); });
    std::merge(first, middle, middle, last, spare);
    std::copy(spare, spare + count, first);
}

} // namespace

int main() {
    std::vector<std::uint32_t> numbers(1000000), spare(numbers.size());
    std::uint32_t random = 1;
    for (auto &number : numbers) number = random = random * 1664525 + 1013904223;

    weft::pool pool;
    merge_sort(pool, numbers.begin(), numbers.end(), spare.begin());

    bool is_sorted = std::is_sorted(numbers.begin(), numbers.end());
    std::printf("%zu numbers, %s\n", numbers.size(), is_sorted ? "sorted" : "NOT sorted");
    return is_sorted ? 0 : 1;
}
