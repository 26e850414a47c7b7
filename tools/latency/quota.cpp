// See quota.hpp.
#include "quota.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <sys/stat.h>
#include <unistd.h>

namespace {

constexpr unsigned period_us = 100000; // the kernel's default

struct Hierarchy {
    std::string folder; // of this process's own group
    bool is_v2;
};

bool lists(const std::string &names, const std::string &name, char separator) {
    std::istringstream all(names);
    for (std::string one; std::getline(all, one, separator);) {
        if (one == name) return true;
    }
    return false;
}

// The path of this process's group: in /proc/self/cgroup a line is number:controllers:path.
std::string own_path(bool is_v2) {
    std::ifstream file("/proc/self/cgroup");
    for (std::string line; std::getline(file, line);) {
        size_t first = line.find(':'), second = line.find(':', first + 1);
        if (second == std::string::npos) continue;
        std::string controllers = line.substr(first + 1, second - first - 1);
        if (is_v2 ? controllers.empty() : lists(controllers, "cpu", ',')) return line.substr(second + 1);
    }
    return "";
}

bool v2_offers_cpu(const std::string &folder) {
    std::ifstream file(folder + "/cgroup.subtree_control");
    std::string names;
    std::getline(file, names);
    return lists(names, "cpu", ' ');
}

// The first hierarchy in which groups have a CPU quota.
Hierarchy hierarchy_find() {
    std::ifstream file("/proc/self/mounts");
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string device, target, type, options;
        words >> device >> target >> type >> options;
        bool is_v2 = type == "cgroup2";
        if (!is_v2 && (type != "cgroup" || !lists(options, "cpu", ','))) continue;
        std::string path = own_path(is_v2);
        if (path.empty()) continue;
        std::string folder = target + (path == "/" ? "" : path);
        if (!is_v2 || v2_offers_cpu(folder)) return {folder, is_v2};
    }
    throw std::runtime_error("no quota: no cgroup here offers the cpu controller");
}

} // namespace

void Quota::write(const std::string &file, const std::string &value) const {
    std::ofstream output(folder + "/" + file);
    output << value << std::flush;
    if (!output) throw std::runtime_error("no quota: " + folder + "/" + file + ": " + strerror(errno));
}

Quota::Quota(unsigned percent, const std::string &name) {
    Hierarchy hierarchy = hierarchy_find();
    folder = hierarchy.folder + "/weft-latency-" + std::to_string(getpid()) + "-" + name;
    if (mkdir(folder.c_str(), 0755) != 0) throw std::runtime_error("no quota: " + folder + ": " + strerror(errno));
    std::string quota = std::to_string(percent * (period_us / 100)), period = std::to_string(period_us);
    try {
        if (hierarchy.is_v2) {
            write("cpu.max", quota + " " + period);
        } else {
            write("cpu.cfs_period_us", period);
            write("cpu.cfs_quota_us", quota);
        }
    } catch (const std::runtime_error &) {
        rmdir(folder.c_str());
        throw;
    }
}

Quota::~Quota() { rmdir(folder.c_str()); }

void Quota::join(pid_t pid) const { write("cgroup.procs", std::to_string(pid)); }
