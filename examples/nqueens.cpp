// An irregular tree: in how many ways do 10 queens stand on a board of 10 x 10 without meeting? Each placed queen opens as many
// branches as there are free squares in the next row; the first rows' branches are tasks. Prints the number.
#include <cstdio>
#include <numeric>
#include <vector>
#include <weft.hpp>

namespace {

constexpr unsigned queens = 10, all = (1u << queens) - 1;
constexpr int rows_of_tasks = 3;

// Columns and diagonals taken in the next row, as bits.
struct board {
    unsigned columns = 0, left = 0, right = 0;
    unsigned free() const { return all & ~(columns | left | right); }
    board with(unsigned square) const { return {columns | square, (left | square) << 1, (right | square) >> 1}; }
};

long count(const board &from) {
    if (from.columns == all) return 1;
    long ways = 0;
    for (unsigned free = from.free(); free != 0; free &= free - 1) ways += count(from.with(free & -free));
    return ways;
}

long search(weft_pool *pool, const board &from, int row) {
    if (row == rows_of_tasks) return count(from);
    std::vector<long> ways(queens);
    weft::group branches(pool);
    for (unsigned column = 0; column < queens; column++)
        if ((from.free() >> column & 1) != 0)
            branches.submit([=, &ways] { ways[column] = search(pool, from.with(1u << column), row + 1); });
    branches.wait(); // runs branches of this node meanwhile
    return std::accumulate(ways.begin(), ways.end(), 0L);
}

} // namespace

int main() {
    weft::pool pool;
    long ways = search(pool, board(), 0);
    std::printf("%u queens stand in %ld ways\n", queens, ways);
    return ways == 724 ? 0 : 1;
}
