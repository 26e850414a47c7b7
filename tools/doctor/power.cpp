// Power, memory and time.
#include "doctor.hpp"

#include <cstdlib>

namespace {

constexpr unsigned long latency_max_us = 10; // of an idle state from which a CPU comes back in time

Finding governor(const Tree &tree) {
    Finding found;
    found.item = "frequency";
    found.cost = "a CPU that was idle starts slow: a job takes longer until the frequency has followed";
    std::vector<std::string> files = tree.glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor");
    found.now = files.empty() ? "the kernel does not choose it here" : "";
    for (const auto &file : files) {
        std::string now = tree.line(file).value_or("");
        if (found.now.find(now) == std::string::npos) found.now += (found.now.empty() ? "" : ", ") + now;
        if (now != "performance") found.settings.push_back({file, "performance", now});
    }
    if (files.empty()) return found;
    found.verdict = found.settings.empty() ? Verdict::good : Verdict::costs;
    if (!found.settings.empty())
        found.command = "for f in /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; do echo performance > $f; done";
    return found;
}

// The states are the same on all CPUs but for hybrid ones; the deepest in use over all CPUs counts.
Finding idle_states(const Tree &tree) {
    Finding found;
    found.item = "idle states";
    unsigned long deepest_us = 0;
    std::vector<std::string> files = tree.glob("/sys/devices/system/cpu/cpu[0-9]*/cpuidle/state[0-9]*/latency");
    for (const auto &file : files) {
        std::string folder = file.substr(0, file.rfind('/'));
        unsigned long us = strtoul(tree.line(file).value_or("0").c_str(), nullptr, 10);
        if (tree.line(folder + "/disable").value_or("0") != "0") continue;
        if (us > deepest_us) {
            deepest_us = us;
            found.now = tree.line(folder + "/name").value_or("?") + ", " + std::to_string(us) + " us to come back";
        }
        if (us > latency_max_us) found.settings.push_back({folder + "/disable", "1", "0"});
    }
    found.cost = "an idle CPU needs that long before a wake is served";
    if (files.empty())
        found.now = tree.line("/sys/devices/system/cpu/cpuidle/current_driver").value_or("the kernel has none");
    else if (found.now.empty())
        found.now = "none that takes time";
    found.verdict = files.empty() ? Verdict::unknown : found.settings.empty() ? Verdict::good : Verdict::costs;
    if (!found.settings.empty())
        found.command =
            "for each state with a latency over 10 us: echo 1 > .../cpuidle/stateN/disable (more heat, more power)";
    return found;
}

// What a guest's CPU does before it gives itself back to the host.
Finding halt_poll(const Tree &tree) {
    Finding found;
    found.item = "halt polling";
    const std::string path = "/sys/module/haltpoll/parameters/guest_halt_poll_ns";
    std::optional<std::string> now = tree.line(path);
    found.now = now ? *now + " ns" : "no virtual machine's idle driver";
    found.cost = "an idle CPU of a guest goes to the host at once: a wake needs the host, too";
    if (!now) return found;
    found.verdict = *now == "0" ? Verdict::costs : Verdict::good;
    if (*now != "0") return found;
    found.settings.push_back({path, "200000", *now});
    found.command = "echo 200000 > " + path;
    return found;
}

// The word in brackets of a file that lists choices.
Finding huge_pages(const Tree &tree) {
    Finding found;
    found.item = "huge pages";
    const std::string path = "/sys/kernel/mm/transparent_hugepage/enabled";
    std::string choices = tree.line(path).value_or("");
    size_t open = choices.find('['), close = choices.find(']');
    found.cost = "a first touch may gather and clear 2 MiB instead of 4 KiB";
    found.now = "the kernel has none";
    if (open == std::string::npos || close == std::string::npos) return found;
    found.now = choices.substr(open + 1, close - open - 1);
    found.verdict = found.now == "always" ? Verdict::costs : Verdict::good;
    if (found.now != "always") return found;
    found.settings.push_back({path, "madvise", found.now});
    found.command = "echo madvise > " + path;
    return found;
}

Finding timer_slack(const Tree &tree) {
    Finding found;
    found.item = "timer slack";
    std::optional<std::string> now = tree.line("/proc/self/timerslack_ns");
    found.now = now ? *now + " ns" : "the kernel does not tell";
    found.cost = "a thread that sleeps until its next beat wakes up to so much later";
    if (!now) return found;
    found.verdict = strtoul(now->c_str(), nullptr, 10) > 1000 ? Verdict::costs : Verdict::good;
    if (found.verdict == Verdict::costs) found.command = "in the program, no privilege needed: prctl(PR_SET_TIMERSLACK, 1)";
    return found;
}

Finding clock_source(const Tree &tree) {
    Finding found;
    found.item = "clock source";
    const std::string folder = "/sys/devices/system/clocksource/clocksource0/";
    std::optional<std::string> now = tree.line(folder + "current_clocksource");
    std::string available = tree.line(folder + "available_clocksource").value_or("") + " ";
    found.now = now.value_or("the kernel does not tell");
    found.cost = "reading the time is a system call or slow hardware: many times as long as by the CPU's own counter";
    if (!now) return found;
    bool quick = *now == "tsc" || *now == "kvm-clock" || *now == "arch_sys_counter" || *now == "hyperv_clocksource_tsc_page";
    found.verdict = quick ? Verdict::good : Verdict::costs;
    if (quick || available.find("tsc ") == std::string::npos) return found;
    found.settings.push_back({folder + "current_clocksource", "tsc", *now});
    found.command = "echo tsc > " + folder + "current_clocksource";
    return found;
}

} // namespace

std::vector<Finding> findings_power(const Tree &tree) {
    return {governor(tree), idle_states(tree), halt_poll(tree), huge_pages(tree), timer_slack(tree), clock_source(tree)};
}
