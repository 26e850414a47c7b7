// The kernel's trace events, in an instance of their own.
#include "loop.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace {

const char *const events[] = {"sched/sched_switch",
                              "sched/sched_wakeup",
                              "workqueue/workqueue_queue_work",
                              "workqueue/workqueue_execute_start",
                              "timer/hrtimer_expire_entry",
                              "timer/tick_stop"};

bool write_file(const std::string &path, const std::string &text) {
    std::ofstream file(path);
    file << text;
    return static_cast<bool>(file.flush());
}

// The word after "key=", or after "key " in the events that print so.
std::string value(const std::string &line, const std::string &key) {
    size_t at = line.find(key);
    if (at == std::string::npos) return "";
    at += key.size();
    return line.substr(at, line.find_first_of(" :", at) - at);
}

struct Event {
    unsigned cpu;
    double at_us;
    std::string name, text;
};

// "  task-12  [001] d..1.  123.456789: name: text"
bool event_parse(const std::string &line, Event &event) {
    size_t cpu = line.find(" ["), colon = line.find(": ", cpu);
    if (cpu == std::string::npos || colon == std::string::npos) return false;
    size_t time = line.rfind(' ', colon), end = line.find(": ", colon + 2);
    if (time == std::string::npos || end == std::string::npos) return false;
    event.cpu = static_cast<unsigned>(strtoul(line.c_str() + cpu + 2, nullptr, 10));
    event.at_us = 1e6 * strtod(line.c_str() + time, nullptr);
    event.name = line.substr(colon + 2, end - colon - 2);
    event.text = line.substr(end + 2);
    return true;
}

// Who it was: the thread that came, or the function that ran.
std::string cause(const Event &event) {
    if (event.name == "sched_switch") return value(event.text, "next_comm=");
    if (event.name == "workqueue_execute_start") return value(event.text, "function ");
    return value(event.text, "function=");
}

} // namespace

KernelTrace::KernelTrace(int cpu_number) : cpu(static_cast<unsigned>(cpu_number)) {
    const std::string tracing = "/sys/kernel/tracing";
    if (access((tracing + "/instances").c_str(), W_OK) != 0) {
        reason_text = tracing + ": " + strerror(errno) + " (root may: mount -t tracefs tracefs " + tracing + ")";
        return;
    }
    folder = tracing + "/instances/weft-" + std::to_string(getpid());
    if (mkdir(folder.c_str(), 0700) != 0) {
        reason_text = folder + ": " + strerror(errno);
        folder.clear();
        return;
    }
    write_file(folder + "/buffer_size_kb", "8192");
    for (const char *event : events) {
        if (!write_file(folder + "/events/" + event + "/enable", "1")) reason_text = std::string("no event ") + event;
    }
}

KernelTrace::~KernelTrace() {
    if (!folder.empty()) rmdir(folder.c_str());
}

void KernelTrace::stop() {
    if (!folder.empty()) write_file(folder + "/tracing_on", "0");
}

uint64_t KernelTrace::overrun() const {
    uint64_t sum = 0;
    if (folder.empty()) return 0;
    for (const auto &entry : std::filesystem::directory_iterator(folder + "/per_cpu")) {
        std::ifstream file(entry.path() / "stats");
        for (std::string line; std::getline(file, line);)
            for (const char *name : {"overrun: ", "dropped events: "})
                if (line.rfind(name, 0) == 0) sum += strtoull(line.c_str() + strlen(name), nullptr, 10);
    }
    return sum;
}

std::map<std::string, uint64_t> KernelTrace::causes(const std::string &own_name, std::vector<double> &wake_us) const {
    std::map<std::string, uint64_t> all;
    std::map<std::string, double> woken; // by thread
    std::ifstream file(folder + "/trace");
    Event event;
    for (std::string line; std::getline(file, line);) {
        if (folder.empty() || line[0] == '#' || !event_parse(line, event)) continue;
        if (event.name == "sched_wakeup") {
            woken[value(event.text, " pid=")] = event.at_us;
            continue;
        }
        if (event.name == "sched_switch") {
            auto waker = woken.find(value(event.text, "next_pid="));
            if (waker != woken.end()) {
                wake_us.push_back(event.at_us - waker->second);
                woken.erase(waker);
            }
        }
        std::string who = cause(event);
        if (event.cpu == cpu && who != own_name) all[event.name + ": " + who]++;
    }
    return all;
}
