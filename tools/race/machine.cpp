// The machine and the build, for the head of a result.
#include "probe.hpp"
#include "race.hpp"

#include <weft.h>

#include <ctime>
#include <fstream>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <thread>

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
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    machine.date = date;
    machine.compiler = WEFT_COMPILER;
    machine.flags = WEFT_COMPILER_FLAGS;
    machine.build_type = WEFT_BUILD_TYPE;
    machine.version = weft_version();
    machine.hardware = hardware_available();
    return machine;
}
