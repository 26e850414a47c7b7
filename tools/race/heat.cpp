// Running a heat: a process per entrant, all alive at once, all stopped but the one whose turn it is.
#include "process.hpp"
#include "alloc.hpp"
#include "probe.hpp"
#include "stranger.hpp"

#include "../../bench/cpus.hpp"
#include "../../bench/jobs.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <sys/sysinfo.h>
#include <unistd.h>

namespace {

constexpr uint64_t second_ns = 1000000000u;

struct Turn {
    const Entrant *entrant;
    Seat seat;
    uint64_t tasks = 0;
    double estimate_ns = 0; // per task
    std::unique_ptr<Process> process;
    std::vector<Reply> replies; // the first is the cold round's
    Row row;

    uint64_t limit_ns() const {
        return 30 * second_ns + static_cast<uint64_t>(50 * estimate_ns * static_cast<double>(tasks));
    }
};

uint64_t fitting(double tasks, const Heat &heat) { return std::min(heat.fit(static_cast<uint64_t>(tasks)), heat.tasks); }

// Two significant digits, so that the tasks of a row are a number to be quoted.
double two_digits(double value) {
    double scale = 1;
    while (value / scale >= 100) scale *= 10;
    return static_cast<double>(static_cast<uint64_t>(value / scale)) * scale;
}

// The best time of a task in rounds that grow until one takes an eighth of the budget: a short one measures the start, and whatever
// disturbs it.
double best_of_growing(Process &process, const Heat &heat) {
    double best_ns = 0;
    uint64_t tasks = 0, next = fitting(static_cast<double>(heat.pilot_tasks) / 4, heat);
    for (int round = 0; next > tasks || round < 2; round++) {
        tasks = next;
        Reply reply = process.round({Order::round, 0, 0, tasks}, 30 * second_ns);
        if (!process.error().empty()) return 0;
        double ns = static_cast<double>(reply.elapsed_ns) / static_cast<double>(tasks);
        best_ns = round == 0 ? ns : std::min(best_ns, ns);
        if (round > 0 && reply.elapsed_ns >= heat.budget_ns / 8) break;
        next = fitting(static_cast<double>(tasks) * 4, heat);
    }
    return best_ns;
}

// In a process of its own, so that the first round of the row is still a first one.
void pilot(Turn &turn, const Heat &heat) {
    Process process(turn.seat);
    turn.row.error = process.error();
    if (turn.row.error.empty()) turn.estimate_ns = best_of_growing(process, heat);
    turn.row.error = process.error();
}

uint64_t affordable_tasks(double estimate_ns, const Heat &heat) {
    if (heat.budget_ns == 0) return heat.tasks;
    double affordable = static_cast<double>(heat.budget_ns) / std::max(estimate_ns, 1.0);
    return affordable < static_cast<double>(heat.tasks) ? fitting(two_digits(affordable), heat) : heat.tasks;
}

Turn turn_make(const Entrant &entrant, const Heat &heat, unsigned iterations_per_us) {
    Turn turn;
    unsigned workers = entrant.name == "serial" ? 1 : heat.workers;
    turn.entrant = &entrant;
    turn.seat = {entrant.file, heat.workload, heat.name, workers, heat.workers, iterations_per_us, false};
    turn.row.workload = heat.workload;
    turn.row.name = heat.name;
    turn.row.pool = entrant.name;
    turn.row.flags = entrant.flags;
    turn.row.workers = workers;
    pilot(turn, heat);
    turn.tasks = affordable_tasks(turn.estimate_ns, heat);
    return turn;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    size_t middle = values.size() / 2;
    return values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Allocators do the same work: what a task takes depends on how many there are. The middle one's budget decides.
void same_tasks(std::vector<Turn> &turns, const Heat &heat) {
    std::vector<double> estimates;
    for (const auto &turn : turns)
        if (turn.row.error.empty()) estimates.push_back(turn.estimate_ns);
    if (estimates.empty()) return;
    const double middle = median(estimates);
    for (auto &turn : turns) turn.tasks = affordable_tasks(middle, heat);
}

void start(Turn &turn) {
    if (!turn.row.error.empty() || interrupted()) return;
    turn.process = std::make_unique<Process>(turn.seat);
    turn.row.error = turn.process->error();
    turn.process->stop();
}

void take_turn(Turn &turn, const Heat &heat, Order order) {
    if (!turn.row.error.empty() || turn.process == nullptr || interrupted()) return;
    uint64_t warm = turn.replies.empty() ? 0 : fitting(static_cast<double>(turn.tasks) / 8, heat);
    turn.process->resume();
    Reply reply = turn.process->round({order, 0, warm, turn.tasks}, turn.limit_ns());
    turn.process->stop();
    if (turn.process->error().empty())
        turn.replies.push_back(reply);
    else if (!interrupted())
        turn.row.error = turn.process->error();
}

void progress(const Heat &heat, const std::string &what) {
    if (isatty(STDERR_FILENO) == 0) return;
    std::string line = "[" + heat.position + "] " + heat.workload + " " + heat.name + ", " + std::to_string(heat.workers) +
                       " workers: " + what;
    fprintf(stderr, "\r\033[K%.*s", 118, line.c_str());
}

// The median over the warmed rounds of a value per task.
template <class Value> double per_task(const std::vector<Reply> &replies, Value value) {
    std::vector<double> all;
    all.reserve(replies.size());
    for (const auto &reply : replies) all.push_back(static_cast<double>(value(reply)) / static_cast<double>(reply.tasks));
    return median(all);
}

void fill_tail(Row &row, const std::vector<Reply> &warm) {
    auto tail = [](const Reply &r) { return r.tail_ns; };
    row.tail_ns = per_task(warm, tail);
    for (const auto &reply : warm) {
        double ns = per_task({reply}, tail);
        row.round_tail_ns.push_back(ns);
        row.tail_min = row.tail_min ? std::min(*row.tail_min, ns) : ns;
        row.tail_max = row.tail_max ? std::max(*row.tail_max, ns) : ns;
    }
}

void fill_times(Row &row, const std::vector<Reply> &warm) {
    auto wall = [](const Reply &r) { return r.wall_ns; };
    row.ns = per_task(warm, wall);
    for (const auto &reply : warm) {
        double ns = per_task({reply}, wall);
        row.round_ns.push_back(ns);
        row.ns_min = row.ns_min ? std::min(*row.ns_min, ns) : ns;
        row.ns_max = row.ns_max ? std::max(*row.ns_max, ns) : ns;
    }
    if (warm[0].tail_ns != 0) fill_tail(row, warm);
    row.user_ns = per_task(warm, [](const Reply &r) { return r.user_ns; });
    row.system_ns = per_task(warm, [](const Reply &r) { return r.system_ns; });
    row.switches_voluntary = per_task(warm, [](const Reply &r) { return r.switches_voluntary; });
    row.switches_involuntary = per_task(warm, [](const Reply &r) { return r.switches_involuntary; });
    row.faults = per_task(warm, [](const Reply &r) { return r.faults; });
    if (warm[0].migrations >= 0) row.migrations = per_task(warm, [](const Reply &r) { return r.migrations; });
}

void fill_hardware(Row &row, const Reply &sample) {
    const int64_t *value = sample.hardware;
    auto tasks = static_cast<double>(sample.tasks);
    auto of = [&](Hardware which) { return static_cast<double>(value[which]); };
    if (value[hardware_instructions] >= 0) row.instructions = of(hardware_instructions) / tasks;
    if (value[hardware_instructions] >= 0 && value[hardware_cycles] > 0) {
        row.instructions_per_cycle = of(hardware_instructions) / of(hardware_cycles);
    }
    if (value[hardware_branch_misses] >= 0 && value[hardware_branches] > 0) {
        row.branch_miss_percent = 100 * of(hardware_branch_misses) / of(hardware_branches);
    }
}

// What a round left, per task.
double grown_bytes(const Reply &reply, uint64_t least) {
    uint64_t grown = reply.peak_bytes > reply.before_bytes ? reply.peak_bytes - reply.before_bytes : 0;
    return static_cast<double>(std::max(grown, least)) / static_cast<double>(reply.tasks);
}

// Where memory is compared. Pages are what is counted, so less than one is told as one: a ratio to nothing would be none.
void fill_memory(Row &row, const std::vector<Reply> &warm) {
    constexpr uint64_t page_bytes = 4096;
    for (const auto &reply : warm) row.round_bytes.push_back(grown_bytes(reply, page_bytes));
    if (!warm.empty()) row.bytes = median(row.round_bytes);
}

void fill_row(Turn &turn, bool sampled) {
    Row &row = turn.row;
    std::vector<Reply> warm = turn.replies;
    row.tasks = turn.tasks;
    if (warm.empty()) {
        if (row.error.empty()) row.error = "interrupted";
        return;
    }
    row.first_ns = per_task({warm[0]}, [](const Reply &r) { return r.wall_ns; });
    if (warm[0].tail_ns != 0) row.tail_first = per_task({warm[0]}, [](const Reply &r) { return r.tail_ns; });
    const Reply &last = warm.back();
    if (last.has_slot != 0) row.slot = last.slot;
    row.peak_bytes = static_cast<double>(last.peak_bytes);
    row.bytes = grown_bytes(last, 0);
    if (sampled) {
        fill_hardware(row, last);
        warm.pop_back();
    }
    warm.erase(warm.begin());
    row.rounds = static_cast<unsigned>(warm.size());
    if (row.is_memory()) fill_memory(row, warm);
    if (!warm.empty())
        fill_times(row, warm);
    else if (row.error.empty())
        row.error = "interrupted";
}

void count(Turn &turn, const Heat &heat, const Options &options) {
    double affordable = turn.estimate_ns < 1500 ? 50000 : 5000;
    if (heat.count_tasks != 0) affordable = static_cast<double>(heat.count_tasks);
    uint64_t tasks = fitting(affordable, heat);
    Counts counts = count_run(turn.seat, options.entrant_dir, tasks);
    turn.row.malloc_calls = counts.malloc_calls;
    turn.row.memory_calls = counts.memory_calls;
    turn.row.futex_calls = counts.futex_calls;
}

// What needs the whole heat: the serial time, and the best peer's.
void relate(std::vector<Row> &rows, const Heat &heat) {
    Figure serial, best;
    for (const auto &row : rows) {
        if (!row.error.empty() || !row.ns) continue;
        if (row.pool == "serial") serial = row.ns;
        if (row.is_peer() && (!best || *row.score() < *best)) best = row.score();
    }
    const unsigned cpus = cpus_allowed();
    for (auto &row : rows) {
        if (!row.ns || !row.error.empty()) continue;
        const double useful = std::min(row.workers, cpus);
        if (serial && heat.workload != "handoff") row.efficiency = *serial / (useful * *row.ns);
        if (serial) row.serial_ratio = *row.ns / *serial;
        if (best) row.ratio = *row.score() / *best;
    }
}

constexpr uint64_t idle_limit_ns = 60 * second_ns;

void take_idle(Turn &turn, const Reply &reply) {
    if (turn.process->error().empty())
        turn.row.idle_ms = static_cast<double>(reply.user_ns + reply.system_ns) * 1e-6;
    else if (!interrupted())
        turn.row.error = turn.process->error();
}

// What the pools use when they have nothing to do: those that spin one by one, the others together.
void idle(std::vector<Turn> &turns, const Heat &heat) {
    Command command = {Order::idle, 0, fitting(static_cast<double>(heat.pilot_tasks), heat), 0};
    std::vector<Turn *> quiet;
    for (auto &turn : turns) {
        if (!turn.row.error.empty() || turn.process == nullptr || interrupted()) continue;
        progress(heat, "idle, " + turn.row.pool);
        turn.process->resume();
        turn.process->send(command);
        if ((turn.entrant->flags & ENTRANT_SPINS) == 0) {
            quiet.push_back(&turn);
            continue;
        }
        take_idle(turn, turn.process->answer(idle_limit_ns));
        turn.process->stop();
    }
    for (Turn *turn : quiet) take_idle(*turn, turn->process->answer(idle_limit_ns));
}

// Rounds of the turns from `first` to before `end`, each in an order of its own, their processes alive meanwhile: nobody always
// comes after the same one.
void take_turns(std::vector<Turn> &turns, size_t first, size_t end, const Heat &heat, unsigned rounds) {
    bool sample = rounds > heat.rounds + 1;
    std::vector<size_t> order(end - first);
    std::iota(order.begin(), order.end(), first);
    std::minstd_rand random(static_cast<unsigned>(rounds)); // the same order in each run
    for (size_t i = first; i < end; i++) start(turns[i]);
    for (unsigned round = 0; round < rounds; round++) {
        std::shuffle(order.begin(), order.end(), random);
        for (size_t i : order) {
            progress(heat,
                     "round " + std::to_string(round) + " of " + std::to_string(rounds - 1) + ", " + turns[i].row.pool);
            take_turn(turns[i], heat, sample && round + 1 == rounds ? Order::sample : Order::round);
        }
    }
    if (heat.idle) idle(turns, heat);
    for (size_t i = first; i < end; i++) turns[i].process.reset();
}

Row finish(Turn &turn, const Heat &heat, const Options &options, unsigned rounds) {
    fill_row(turn, rounds > heat.rounds + 1 && turn.replies.size() == rounds);
    if (!turn.row.error.empty() || interrupted()) return turn.row;
    progress(heat, "counting, " + turn.row.pool);
    if (options.count) count(turn, heat, options);
    if (options.callgrind) turn.row.callgrind_instructions = callgrind_run(turn.seat, heat);
    return turn.row;
}

// Can all be alive at once, with what each needs for its tasks?
bool fit_together(const Heat &heat, const std::vector<Turn> &turns) {
    constexpr uint64_t bytes_per_task = 256; // of a pool that keeps all that it ever needed
    struct sysinfo memory;
    if (alloc_is(heat.workload) || heat.is_pattern() || sysinfo(&memory) != 0) return true;
    uint64_t tasks = 0;
    for (const auto &turn : turns)
        if (turn.row.error.empty()) tasks += turn.tasks;
    return tasks * bytes_per_task < static_cast<uint64_t>(memory.totalram) * memory.mem_unit / 2;
}

} // namespace

std::vector<Row> heat_run(const Heat &heat, const Options &options, unsigned iterations_per_us) {
    std::vector<Turn> turns;
    std::unique_ptr<Stranger> stranger;
    if (heat.name == "stranger") stranger = std::make_unique<Stranger>(heat.workers);
    for (const auto &entrant : heat.entrants) {
        progress(heat, "trying " + entrant.name);
        if (!interrupted()) turns.push_back(turn_make(entrant, heat, iterations_per_us));
    }
    if (alloc_is(heat.workload)) same_tasks(turns, heat);
    unsigned rounds = heat.rounds + 1 + (hardware_available() ? 1 : 0); // the first, and one for the event counters
    const bool in_turns = fit_together(heat, turns);
    const size_t together = in_turns ? turns.size() : 1;
    for (size_t first = 0; first < turns.size(); first += together) take_turns(turns, first, first + together, heat, rounds);
    std::vector<Row> rows;
    rows.reserve(turns.size());
    for (auto &turn : turns) {
        turn.row.in_turns = in_turns;
        rows.push_back(finish(turn, heat, options, rounds));
    }
    if (isatty(STDERR_FILENO) != 0) fprintf(stderr, "\r\033[K");
    relate(rows, heat);
    return rows;
}

std::vector<Row> heat_tail(const std::vector<Row> &rows, const Heat &heat) {
    std::vector<Row> tail;
    for (Row row : rows) {
        if (!row.tail_ns) continue;
        row.name = "p99";
        row.ns = row.tail_ns;
        row.ns_min = row.tail_min;
        row.ns_max = row.tail_max;
        row.first_ns = row.tail_first;
        row.round_ns = row.round_tail_ns;
        tail.push_back(row);
    }
    relate(tail, heat);
    return tail;
}

unsigned spin_calibrate() {
    double best = 0;
    for (int i = 0; i < 5; i++) {
        constexpr uint32_t iterations = 1000000;
        uint64_t start_ns = clock_ns();
        job_spin(iterations);
        best = std::max(best, iterations * 1000.0 / static_cast<double>(clock_ns() - start_ns));
    }
    return static_cast<unsigned>(best);
}
