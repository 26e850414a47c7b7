// Who is ahead: pools' rounds taken in turns, compared turn by turn, since what disturbs the machine disturbs neighbours alike.
#include "race.hpp"

#include <algorithm>
#include <cmath>

namespace {

// The fastest row that `wanted` holds for; nullptr: none.
template <class Wanted> const Row *fastest(const std::vector<Row> &rows, Wanted wanted) {
    const Row *best = nullptr;
    for (const auto &row : rows) {
        if (!row.error.empty() || !row.ns || !wanted(row)) continue;
        if (best == nullptr || *row.score() < *best->score()) best = &row;
    }
    return best;
}

constexpr size_t rounds_to_decide = 6; // all on one side of 1: by chance once in 32

// How many of n rounds, on either side, the true median is not beyond with 95 % confidence: as a sign test has it.
size_t outside_interval(size_t n) {
    double ways = std::pow(0.5, static_cast<double>(n)), tail = ways;
    size_t k = 0;
    while (k + 1 < n / 2) {
        ways *= static_cast<double>(n - k) / static_cast<double>(k + 1);
        tail += ways;
        if (2 * tail > 0.05) break;
        k++;
    }
    return k;
}

// The median of the rounds' ratios, and between which two of them the true one lies. Rounds of different minutes prove nothing.
Paired paired(const Row &ours, const Row &peer) {
    const std::vector<double> &own = ours.round_scores(), &other = peer.round_scores();
    const size_t rounds = std::min(own.size(), other.size());
    if (rounds == 0) {
        const double ratio = *ours.score() / *peer.score();
        return {ratio, ratio, ratio, false};
    }
    std::vector<double> ratios;
    ratios.reserve(rounds);
    for (size_t i = 0; i < rounds; i++) ratios.push_back(own[i] / other[i]);
    std::sort(ratios.begin(), ratios.end());
    const size_t outside = outside_interval(rounds);
    return {(ratios[(rounds - 1) / 2] + ratios[rounds / 2]) / 2, ratios[outside], ratios[rounds - 1 - outside],
            ours.in_turns && rounds >= rounds_to_decide};
}

bool is_worse(const Paired &a, const Paired &b) {
    return a.verdict() != b.verdict() ? a.verdict() > b.verdict() : a.ratio > b.ratio;
}

} // namespace

const char *verdict_word(RaceVerdict verdict) {
    constexpr const char *words[] = {"first", "level", "undecided", "LOSES"};
    return words[static_cast<size_t>(verdict)];
}

std::optional<Standing> heat_standing(const std::vector<Row> &rows) {
    const Row *ours = fastest(rows, [](const Row &row) { return row.is_ours(); });
    if (ours == nullptr) return std::nullopt;
    Standing standing = {ours->workload, ours->name, ours->workers, ours->pool, "", {}, "", {}, ours->in_turns};
    for (const auto &row : rows) {
        if (!row.error.empty() || !row.ns || !row.is_peer()) continue;
        const Paired beside = paired(*ours, row);
        if (standing.best_peer.empty() || is_worse(beside, standing.paired)) {
            standing.best_peer = row.pool;
            standing.paired = beside;
        }
        if (row.is_outside() && (!standing.outside_ratio || beside.ratio > *standing.outside_ratio)) {
            standing.best_outside_peer = row.pool;
            standing.outside_ratio = beside.ratio;
        }
    }
    if (standing.best_peer.empty()) return std::nullopt;
    return standing;
}
