// How the kernel was built and started.
#include "doctor.hpp"

#include <algorithm>
#include <sstream>

namespace {

// The kernel's own configuration, wherever it is told.
std::vector<std::string> configuration(const Tree &tree) {
    std::string release = tree.line("/proc/sys/kernel/osrelease").value_or("");
    for (const auto &path : {"/boot/config-" + release, "/lib/modules/" + release + "/config"}) {
        std::vector<std::string> lines = tree.lines(path);
        if (!lines.empty()) return lines;
    }
    return tree.unpacked("/proc/config.gz");
}

Finding option(const std::vector<std::string> &config, const std::string &name, const std::string &cost) {
    if (config.empty()) return {name, "this kernel does not show its configuration", cost};
    bool there = std::find(config.begin(), config.end(), name + "=y") != config.end();
    Finding found(name, there ? "built in" : "not built in", cost);
    found.judge(there);
    if (!there) found.command = "a kernel built with " + name + "=y";
    return found;
}

// The value of a parameter on the kernel's command line; "" for one without.
std::optional<std::string> parameter(const Tree &tree, const std::string &name) {
    std::istringstream words(tree.line("/proc/cmdline").value_or(""));
    for (std::string word; words >> word;) {
        if (word == name) return "";
        if (word.compare(0, name.size() + 1, name + "=") == 0) return word.substr(name.size() + 1);
    }
    return std::nullopt;
}

// All CPUs but the first, which keeps what else there is to do; empty with one CPU.
std::string quiet_cpus(const Tree &tree) {
    std::vector<unsigned> cpus = cpu_list(tree.line("/sys/devices/system/cpu/online").value_or(""));
    if (!cpus.empty()) cpus.erase(cpus.begin());
    return cpu_list_text(cpus);
}

// A parameter that a kernel without the option ignores.
std::string if_built(const Finding &option, const std::string &wanted) {
    return option.verdict == Verdict::costs ? "" : wanted;
}

Finding boot_list(const std::string &name, const std::string &now, const std::string &wanted, const std::string &cost) {
    Finding found(name, now.empty() ? "no CPU" : "CPUs " + now, cost);
    found.verdict = !now.empty() ? Verdict::good : wanted.empty() ? Verdict::given : Verdict::costs;
    if (found.verdict == Verdict::costs) {
        found.boot = name + "=" + wanted;
        found.command = "kernel parameter " + found.boot;
    }
    if (now.empty() && wanted.empty()) found.cost = "it needs the kernel's option above and a second CPU";
    return found;
}

// A list from /sys, where a kernel without the feature has no file and one without CPUs in it says "" or "(null)".
std::string sysfs_list(const Tree &tree, const std::string &path) {
    return cpu_list_text(cpu_list(tree.line(path).value_or("")));
}

} // namespace

std::vector<Finding> findings_kernel(const Tree &tree) {
    std::vector<std::string> config = configuration(tree);
    std::string quiet = quiet_cpus(tree);
    Finding tickless =
        option(config, "CONFIG_NO_HZ_FULL", "each CPU is interrupted 100 to 1000 times a second while a job runs");
    Finding offload = option(config, "CONFIG_RCU_NOCB_CPU", "the kernel frees memory on the CPUs where jobs run");
    std::string nohz = if_built(tickless, quiet), nocb = if_built(offload, quiet);
    std::vector<Finding> all = {
        tickless,
        offload,
        boot_list("isolcpus", sysfs_list(tree, "/sys/devices/system/cpu/isolated"), quiet,
                  "other programs run on the CPUs of the jobs: a job waits for a time slice (3 ms, by default)"),
        boot_list("nohz_full", sysfs_list(tree, "/sys/devices/system/cpu/nohz_full"), nohz,
                  "the tick goes on while one job runs alone, 100 to 1000 times a second"),
        boot_list("rcu_nocbs", parameter(tree, "rcu_nocbs").value_or(""), nocb,
                  "the kernel's deferred frees run on the CPUs of the jobs"),
    };
    bool polls = parameter(tree, "rcu_nocb_poll").has_value();
    Finding poll("rcu_nocb_poll", polls ? "on" : "off", "a CPU of the jobs wakes the kernel's thread for deferred frees");
    poll.verdict = polls ? Verdict::good : nocb.empty() ? Verdict::given : Verdict::costs;
    if (poll.verdict == Verdict::costs) {
        poll.boot = "rcu_nocb_poll";
        poll.command = "kernel parameter rcu_nocb_poll";
    }
    all.push_back(poll);
    return all;
}
