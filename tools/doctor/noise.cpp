// What runs beside the jobs: interrupts, the kernel's own work, other programs, the host.
#include "doctor.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace {

// A file that should hold one value.
Finding single(const Tree &tree, const std::string &path, const std::string &wanted, const std::string &cost) {
    std::optional<std::string> now = tree.line(path);
    Finding found(path.substr(path.find("/sys/") + 5), now.value_or("this kernel has none"), cost);
    std::replace(found.item.begin(), found.item.end(), '/', '.');
    if (!now) return found;
    found.judge(*now == wanted);
    if (*now != wanted) found.change(path, wanted, *now);
    return found;
}

bool beyond_first(const std::vector<unsigned> &cpus) {
    return std::any_of(cpus.begin(), cpus.end(), [](unsigned cpu) { return cpu != 0; });
}

Finding interrupts(const Tree &tree) {
    Finding found("interrupts", "", "a job stands still while a device is served");
    std::vector<std::string> files = tree.glob("/proc/irq/*/smp_affinity_list");
    for (const auto &file : files) {
        std::string now = tree.line(file).value_or("");
        if (beyond_first(cpu_list(now))) found.settings.push_back({file, "0", now});
    }
    found.now =
        std::to_string(found.settings.size()) + " of " + std::to_string(files.size()) + " may come to other CPUs than 0";
    if (!files.empty()) found.judge(found.settings.empty());
    if (!found.settings.empty()) found.command = "for f in /proc/irq/*/smp_affinity_list; do echo 0 > $f; done";
    return found;
}

// A mask of CPUs in hexadecimal, as the kernel writes it for its work queues.
Finding workqueues(const Tree &tree, const std::string &item, const std::string &path) {
    std::optional<std::string> now = tree.line(path);
    Finding found(item, now ? "CPU mask " + *now : "this kernel does not tell",
                  "the kernel's own work takes turns with the jobs on their CPUs");
    if (!now) return found;
    std::string digits = *now;
    digits.erase(0, digits.find_first_not_of("0,"));
    found.judge(digits == "1");
    if (digits != "1") found.change(path, "1", *now);
    return found;
}

// Of each process, the CPUs it may use.
Finding programs(const Tree &tree) {
    size_t all = 0, beyond = 0;
    for (const auto &file : tree.glob("/proc/[0-9]*/status")) {
        bool is_program = false;
        std::string cpus;
        for (const auto &line : tree.lines(file)) {
            if (line.compare(0, 7, "VmSize:") == 0) is_program = true;
            if (line.compare(0, 18, "Cpus_allowed_list:") == 0) cpus = line.substr(line.find_first_of("0123456789"));
        }
        if (!is_program) continue;
        all++;
        beyond += beyond_first(cpu_list(cpus)) ? 1 : 0;
    }
    Finding found("other programs", std::to_string(beyond) + " of " + std::to_string(all) + " may use other CPUs than 0",
                  "a job waits until such a program sleeps or its time slice ends (3 ms, by default)");
    if (all != 0) found.judge(beyond == 0);
    if (beyond != 0)
        found.command = "for p in /proc/[0-9]*; do taskset -acp 0 ${p#/proc/}; done   (not in the script: it has no undo)";
    return found;
}

Finding steal(const Tree &tree) {
    Finding found("steal time", "", "the host ran something else on these CPUs: a job stands still and cannot know");
    std::istringstream words(tree.line("/proc/stat").value_or(""));
    std::string word;
    double all = 0, value = 0, stolen = 0;
    words >> word;
    for (int i = 0; i < 8 && words >> value; i++) {
        all += value;
        stolen = i == 7 ? value : 0;
    }
    if (all <= 0) return found;
    char text[64];
    snprintf(text, sizeof text, "%.2f %% since the start", 100 * stolen / all);
    found.now = text;
    found.verdict = stolen == 0 ? Verdict::good : Verdict::given;
    return found;
}

} // namespace

std::vector<Finding> findings_noise(const Tree &tree) {
    return {
        interrupts(tree),
        workqueues(tree, "writeback", "/sys/bus/workqueue/devices/writeback/cpumask"),
        workqueues(tree, "work queues", "/sys/devices/virtual/workqueue/cpumask"),
        programs(tree),
        single(tree, "/proc/sys/vm/stat_interval", "120",
               "every CPU is interrupted at this interval, in seconds, for the memory's counters"),
        single(tree, "/proc/sys/kernel/watchdog", "0", "a thread of the highest priority wakes on each CPU every 4 s"),
        single(tree, "/proc/sys/kernel/sched_rt_runtime_us", "-1",
               "real-time threads stand still for what is left of each second; with -1 one that spins for ever locks its "
               "CPU up"),
        steal(tree),
    };
}
