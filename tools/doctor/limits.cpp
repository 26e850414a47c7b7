// What this process may use: priorities, memory, CPU time.
#include "doctor.hpp"

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace {

// The soft limit of a line of /proc/self/limits.
std::optional<std::string> limit(const Tree &tree, const std::string &name) {
    for (const auto &line : tree.lines("/proc/self/limits")) {
        if (line.compare(0, name.size(), name) != 0) continue;
        std::istringstream words(line.substr(name.size()));
        std::string soft;
        words >> soft;
        return soft;
    }
    return std::nullopt;
}

Finding limit_finding(const Tree &tree, const std::string &name, const std::string &keyword, const std::string &cost) {
    std::optional<std::string> now = limit(tree, name);
    Finding found(name, now.value_or("the kernel does not tell"), cost);
    if (!now) return found;
    bool enough = keyword == "rtprio" ? *now != "0" : *now == "unlimited";
    found.judge(enough);
    if (!enough)
        found.command = "echo \"$USER - " + keyword + (keyword == "rtprio" ? " 95" : " unlimited") +
                        "\" >> /etc/security/limits.d/weft.conf";
    return found;
}

// A cgroup's path in a hierarchy, from the lines of /proc/self/cgroup: "7:cpu,cpuacct:/a/b", or "0::/a/b".
std::string cgroup_path(const Tree &tree, const std::string &controller) {
    for (const auto &line : tree.lines("/proc/self/cgroup")) {
        size_t first = line.find(':'), second = line.find(':', first + 1);
        if (second == std::string::npos) continue;
        std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
        bool found = controller.empty() ? names == ",," : names.find("," + controller + ",") != std::string::npos;
        if (found) return line.substr(second + 1);
    }
    return "";
}

// CPUs that a quota of one group leaves; nothing: no quota.
std::optional<double> group_quota(const Tree &tree, const std::string &folder, bool is_v2) {
    if (is_v2) {
        std::istringstream words(tree.line(folder + "/cpu.max").value_or(""));
        std::string quota;
        double period = 0;
        if (!(words >> quota >> period) || quota == "max" || period <= 0) return std::nullopt;
        return strtod(quota.c_str(), nullptr) / period;
    }
    double quota = strtod(tree.line(folder + "/cpu.cfs_quota_us").value_or("-1").c_str(), nullptr);
    double period = strtod(tree.line(folder + "/cpu.cfs_period_us").value_or("0").c_str(), nullptr);
    return quota > 0 && period > 0 ? std::optional<double>(quota / period) : std::nullopt;
}

struct Tightest {
    std::optional<double> cpus;
    std::string folder;
};

// The tightest of a group and those above it.
void tighten(Tightest &all, const Tree &tree, const std::string &mount, bool is_v2) {
    std::string path = cgroup_path(tree, is_v2 ? "" : "cpu");
    while (true) {
        std::string folder = mount + (path == "/" ? "" : path);
        std::optional<double> cpus = group_quota(tree, folder, is_v2);
        if (cpus && (!all.cpus || *cpus < *all.cpus)) all = {cpus, folder};
        if (path.empty() || path == "/") return;
        path.erase(path.rfind('/'));
    }
}

Finding quota(const Tree &tree) {
    Finding found("CPU quota", "none",
                  "when it is used up every thread stands still until the next period (100 ms each, by default)");
    Tightest all;
    tighten(all, tree, "/sys/fs/cgroup", true);
    tighten(all, tree, "/sys/fs/cgroup/unified", true);
    tighten(all, tree, "/sys/fs/cgroup/cpu", false);
    found.judge(!all.cpus);
    if (!all.cpus) return found;
    char text[48];
    snprintf(text, sizeof text, "%.2f CPUs", *all.cpus);
    found.now = std::string(text) + " (" + all.folder + ")";
    found.command = "whoever started the container sets it; pools take it into account (weft_cpu_count)";
    return found;
}

Finding affinity(const Tree &tree) {
    Finding found("CPUs", "", "this process may not use the others");
    size_t online = cpu_list(tree.line("/sys/devices/system/cpu/online").value_or("")).size();
    for (const auto &line : tree.lines("/proc/self/status")) {
        if (line.compare(0, 18, "Cpus_allowed_list:") != 0) continue;
        size_t own = cpu_list(line.substr(line.find_first_of("0123456789"))).size();
        found.now = std::to_string(own) + " of " + std::to_string(online);
        found.verdict = own >= online ? Verdict::good : Verdict::given;
    }
    return found;
}

} // namespace

std::vector<Finding> findings_limits(const Tree &tree) {
    return {affinity(tree), quota(tree),
            limit_finding(tree, "Max realtime priority", "rtprio", "threads cannot become real-time ones without root"),
            limit_finding(
                tree, "Max locked memory", "memlock",
                "memory beyond it cannot be locked: a page that was swapped out is read from a disk while the job waits")};
}
