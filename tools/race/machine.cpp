// The machine and the build, for the head of a result.
#include "probe.hpp"
#include "race.hpp"

#include <weft.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <thread>
#include <unistd.h>

// Seconds that all CPUs were not idle, as the kernel or its host counts them.
static double busy_seconds() {
    std::ifstream file("/proc/stat");
    std::string word;
    double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, irq = 0, soft = 0, stolen = 0;
    file >> word >> user >> nice >> system >> idle >> waiting >> irq >> soft >> stolen;
    return (user + nice + system + irq + soft + stolen) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// Of this process and of all it has waited for.
static double own_seconds() {
    double all = 0;
    for (int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
        rusage usage;
        getrusage(who, &usage);
        for (const timeval &time : {usage.ru_utime, usage.ru_stime}) {
            all += static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
        }
    }
    return all;
}

Bystanders::Bystanders() : busy_s(busy_seconds()), own_s(own_seconds()), wall_s(static_cast<double>(clock_ns()) * 1e-9) {}

double Bystanders::share() const {
    double wall = static_cast<double>(clock_ns()) * 1e-9 - wall_s;
    double others = busy_seconds() - busy_s - (own_seconds() - own_s);
    return std::min(1.0, std::max(0.0, others / (wall * std::max(1u, std::thread::hardware_concurrency()))));
}

static std::string cpu_model() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        if (line.compare(0, 10, "model name") == 0) return line.substr(line.find(':') + 2);
    }
    return "unknown";
}

Machine machine_describe() {
    Machine machine;
    utsname name;
    struct sysinfo memory;
    char date[40];
    time_t now = time(nullptr);
    tm utc;
    machine.cpu = cpu_model();
    machine.cpus = std::thread::hardware_concurrency();
    if (uname(&name) == 0) machine.kernel = std::string(name.sysname) + " " + name.release + " " + name.machine;
    if (sysinfo(&memory) == 0) machine.memory_bytes = static_cast<uint64_t>(memory.totalram) * memory.mem_unit;
    if (getloadavg(&machine.load, 1) != 1) machine.load = 0;
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    machine.date = date;
    machine.compiler = WEFT_COMPILER;
    machine.flags = WEFT_COMPILER_FLAGS;
    machine.build_type = WEFT_BUILD_TYPE;
    machine.version = weft_version();
    machine.hardware = hardware_available();
    return machine;
}
