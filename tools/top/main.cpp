// See top.hpp.
#include "../checks.hpp"
#include "pools.hpp"
#include "top.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <stdexcept>
#include <sys/ioctl.h>
#include <unistd.h>
#include <vector>

using nlohmann::json;
using Pools = std::map<std::string, Pool>;

namespace {

// So many a second, between two looks; negative: not known.
double rate(const json &before, const json &now, const char *name) {
    if (!before.is_object() || !before.contains(name) || before["number"] > now["number"]) return -1;
    double ns = now["monotonic_ns"].get<double>() - before["monotonic_ns"].get<double>();
    double count = now[name].get<double>() - before[name].get<double>();
    return ns <= 0 || count < 0 ? -1 : count * 1e9 / ns;
}

std::string shortened(double value) {
    char text[32];
    const char *units[] = {"", "k", "M", "G", "T"};
    size_t unit = 0;
    if (value < 0) return "-";
    for (; value >= 9999.5 && unit < 4; unit++) value /= 1000;
    snprintf(text, sizeof text, "%.0f%s", value, units[unit]);
    return text;
}

std::string bytes(uint64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%.1f", static_cast<double>(value) / (1 << 20));
    return text;
}

uint64_t number(const json &pool, const char *name) { return pool.value(name, UINT64_C(0)); }

std::string queued_us(const json &pool) {
    char text[64];
    if (number(pool, "queued_task_count") == 0) return "-";
    snprintf(text, sizeof text, "%.1f/%.1f%s", static_cast<double>(number(pool, "queued_ns_mean")) / 1e3,
             static_cast<double>(number(pool, "queued_ns_max")) / 1e3, number(pool, "queued_unseen_count") > 0 ? "+" : "");
    return text;
}

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// Of UTF-8, without control characters, U+0080 to U+009F among them: no file may write to the terminal.
std::string clean(const std::string &text) {
    std::string valid = json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace)), shown;
    for (size_t i = 0; i < valid.size(); i++) {
        auto c = static_cast<unsigned char>(valid[i]);
        bool is_second_set = c == 0xc2 && static_cast<unsigned char>(valid[i + 1]) < 0xa0; // behind the last is a zero
        shown += c < 0x20 || c == 0x7f || is_second_set ? '?' : valid[i];
        if (is_second_set) i++;
    }
    return shown;
}

// The first so many characters.
std::string cut(const std::string &text, size_t width) {
    size_t at = 0;
    for (; at < text.size() && (width > 0 || continues(text[at])); at++) width -= continues(text[at]) ? 0 : 1;
    return text.substr(0, at);
}

// So many characters, with blanks behind.
std::string column(const std::string &text, size_t width) {
    std::string shown = cut(text, width);
    auto used = static_cast<size_t>(std::count_if(shown.begin(), shown.end(), [](char c) { return !continues(c); }));
    return shown + std::string(width - std::min(width, used), ' ');
}

std::string row(const Pool &pool, const json &before) {
    char text[512];
    const json &now = pool.now;
    std::string name = column(clean(now["pool"]), 10), command = column(clean(pool.command), 15);
    snprintf(text, sizeof text, "%7llu %s %s %-6s %7s %4llu %4llu %5llu %4llu %6llu %7s %7s %6llu %7s %14s %8s %8s",
             static_cast<unsigned long long>(number(now, "process")), command.c_str(), name.c_str(), state_name(pool.state),
             shortened(rate(before, now, "task_run_count")).c_str(), static_cast<unsigned long long>(number(now, "workers")),
             static_cast<unsigned long long>(number(now, "running")),
             static_cast<unsigned long long>(number(now, "searching") + number(now, "polling")),
             static_cast<unsigned long long>(number(now, "sleeping")),
             static_cast<unsigned long long>(number(now, "waiting")), shortened(rate(before, now, "wake_count")).c_str(),
             shortened(rate(before, now, "steal_count")).c_str(), static_cast<unsigned long long>(number(now, "blocked")),
             shortened(static_cast<double>(number(now, "queue_cells"))).c_str(), queued_us(now).c_str(),
             bytes(number(now, "heap_live_bytes")).c_str(), bytes(pool.rss_bytes).c_str());
    return text;
}

const char head[] = "process command         pool       state  tasks/s work  run  look slee waitin wakes/s steal/s blockd  "
                    "queued  delay us (max)  heap MiB  RSS MiB";

// Lines and columns of the terminal; {0, 0}: it is none.
std::pair<size_t, size_t> terminal() {
    winsize size{};
    if (isatty(STDOUT_FILENO) == 0) return {0, 0};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) return {24, 80};
    return {size.ws_row, size.ws_col};
}

std::vector<std::string> lines_of(const Pools &pools, const Pools &before, const std::string &directory) {
    std::vector<std::string> lines = {head};
    for (const auto &[file, pool] : pools) {
        auto old = before.find(file);
        if (pool.state == State::unreadable)
            lines.push_back(clean(file) + ": " + pool.problem);
        else
            lines.push_back(row(pool, old == before.end() ? json() : old->second.now));
    }
    if (pools.empty())
        lines.push_back("no pool writes its counters to " + directory + "; programs do with WEFT_TOP set to it");
    if (std::any_of(pools.begin(), pools.end(), [](const auto &one) { return one.second.state == State::gone; }))
        lines.push_back("gone: its process has ended without ending the pool; the file may be removed");
    return lines;
}

void print_table(const Pools &pools, const Pools &before, const TopOptions &options) {
    auto [rows, columns] = terminal();
    bool refreshes = rows > 0 && !options.once;
    std::vector<std::string> lines = lines_of(pools, before, options.directory);
    if (refreshes && lines.size() >= rows) {
        size_t shown = rows > 2 ? rows - 2 : 0, hidden = lines.size() - shown;
        lines.resize(shown);
        lines.push_back("and " + std::to_string(hidden) + " lines more: --once shows all");
    }
    if (refreshes) fputs("\033[H\033[J", stdout);
    for (const std::string &line : lines) printf("%s\n", refreshes ? cut(line, columns).c_str() : line.c_str());
    if (!refreshes && !options.once) printf("\n");
}

void print_json(const Pools &pools, const Pools &before) {
    json all = json::array();
    for (const auto &[file, pool] : pools) {
        json one = pool.now;
        auto old = before.find(file);
        const json &past = old == before.end() ? json() : old->second.now;
        one["file"] = file;
        one["state"] = state_name(pool.state);
        if (!pool.problem.empty()) one["problem"] = pool.problem;
        if (pool.state != State::unreadable) {
            one["command"] = pool.command;
            one["rss_bytes"] = pool.rss_bytes;
            for (const char *name : {"task_run", "wake", "steal", "spare_started"}) {
                double value = rate(past, pool.now, (std::string(name) + "_count").c_str());
                one[std::string(name) + "_per_second"] = value < 0 ? json() : json(value);
            }
        }
        all.push_back(one);
    }
    printf("%s\n", all.dump(-1, ' ', true, json::error_handler_t::replace).c_str());
}

void sleep_seconds(double seconds) {
    timespec left{};
    left.tv_sec = static_cast<time_t>(seconds);
    left.tv_nsec = static_cast<long>((seconds - static_cast<double>(left.tv_sec)) * 1e9);
    while (nanosleep(&left, &left) != 0) {}
}

} // namespace

int top_main(const TopOptions &wish) {
    TopOptions options = wish;
    const char *variable = getenv("WEFT_TOP");
    if (options.directory.empty() && variable != nullptr) options.directory = variable;
    if (options.directory.empty())
        throw std::runtime_error("no directory: neither an argument nor WEFT_TOP names where programs write their counters");
    Pools before = pools_in(options.directory);
    for (;;) {
        sleep_seconds(options.interval);
        Pools pools = pools_in(options.directory);
        if (options.json)
            print_json(pools, before);
        else
            print_table(pools, before, options);
        if (!standard_flush()) return 1; // main says so
        if (options.once) return 0;
        before = std::move(pools);
    }
}
