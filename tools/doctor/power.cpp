// Power, memory and time.
#include "doctor.hpp"

#include <cstdlib>

namespace {

constexpr unsigned long latency_max_us = 10; // of an idle state from which a CPU comes back in time

Finding governor(const Tree &tree) {
    std::vector<std::string> files = tree.glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor");
    Finding found("frequency", files.empty() ? "the kernel does not choose it here" : "",
                  "a CPU that was idle starts slow: a job takes longer until the frequency has followed");
    for (const auto &file : files) {
        std::string now = tree.line(file).value_or("");
        if (found.now.find(now) == std::string::npos) found.now += (found.now.empty() ? "" : ", ") + now;
        if (now != "performance") found.settings.push_back({file, "performance", now});
    }
    if (files.empty()) return found;
    found.judge(found.settings.empty());
    if (!found.settings.empty())
        found.command = "for f in /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; do echo performance > $f; done";
    return found;
}

// The states are the same on all CPUs but for hybrid ones; the deepest in use over all CPUs counts.
Finding idle_states(const Tree &tree) {
    Finding found("idle states", "", "an idle CPU needs that long before a wake is served");
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
    if (files.empty())
        found.now = tree.line("/sys/devices/system/cpu/cpuidle/current_driver").value_or("the kernel has none");
    else if (found.now.empty())
        found.now = "none that takes time";
    if (!files.empty()) found.judge(found.settings.empty());
    if (!found.settings.empty())
        found.command =
            "for each state with a latency over 10 us: echo 1 > .../cpuidle/stateN/disable (more heat, more power)";
    return found;
}

// What a guest's CPU does before it gives itself back to the host.
Finding halt_poll(const Tree &tree) {
    const std::string path = "/sys/module/haltpoll/parameters/guest_halt_poll_ns";
    std::optional<std::string> now = tree.line(path);
    Finding found("halt polling", now ? *now + " ns" : "no virtual machine's idle driver",
                  "an idle CPU of a guest goes to the host at once: a wake needs the host, too");
    if (!now) return found;
    found.judge(*now != "0");
    if (*now == "0") found.change(path, "200000", *now);
    return found;
}

// The word in brackets of a file that lists choices.
Finding huge_pages(const Tree &tree) {
    Finding found("huge pages", "the kernel has none", "a first touch may gather and clear 2 MiB instead of 4 KiB");
    const std::string path = "/sys/kernel/mm/transparent_hugepage/enabled";
    std::string choices = tree.line(path).value_or("");
    size_t open = choices.find('['), close = choices.find(']');
    if (open == std::string::npos || close == std::string::npos) return found;
    found.now = choices.substr(open + 1, close - open - 1);
    found.judge(found.now != "always");
    if (found.now == "always") found.change(path, "madvise", found.now);
    return found;
}

Finding timer_slack(const Tree &tree) {
    std::optional<std::string> now = tree.line("/proc/self/timerslack_ns");
    Finding found("timer slack", now ? *now + " ns" : "the kernel does not tell",
                  "a thread that sleeps until its next beat wakes up to so much later");
    if (!now) return found;
    found.judge(strtoul(now->c_str(), nullptr, 10) <= 1000);
    if (found.verdict == Verdict::costs) found.command = "in the program, no privilege needed: prctl(PR_SET_TIMERSLACK, 1)";
    return found;
}

Finding clock_source(const Tree &tree) {
    const std::string folder = "/sys/devices/system/clocksource/clocksource0/";
    std::optional<std::string> now = tree.line(folder + "current_clocksource");
    std::string available = tree.line(folder + "available_clocksource").value_or("") + " ";
    Finding found("clock source", now.value_or("the kernel does not tell"),
                  "reading the time is a system call or slow hardware: many times as long as by the CPU's own counter");
    if (!now) return found;
    bool quick = *now == "tsc" || *now == "kvm-clock" || *now == "arch_sys_counter" || *now == "hyperv_clocksource_tsc_page";
    found.judge(quick);
    if (!quick && available.find("tsc ") != std::string::npos) found.change(folder + "current_clocksource", "tsc", *now);
    return found;
}

} // namespace

std::vector<Finding> findings_power(const Tree &tree) {
    return {governor(tree), idle_states(tree), halt_poll(tree), huge_pages(tree), timer_slack(tree), clock_source(tree)};
}
