// See perf.hpp.
#include "../doctor/doctor.hpp"
#include "perf.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/perf_event.h>
#include <stdexcept>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ctime>
#include <unistd.h>

namespace {

constexpr size_t pages_all = 512, pages_own = 32; // of a ring; the second fits into what everybody may lock
const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));

perf_event_attr attributes(bool all) {
    perf_event_attr attr{};
    attr.size = sizeof attr;
    attr.type = PERF_TYPE_SOFTWARE;
    attr.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU;
    attr.sample_id_all = 1;
    attr.use_clockid = 1;
    attr.clockid = CLOCK_MONOTONIC;
    attr.exclude_kernel = all ? 0 : 1;
    attr.exclude_hv = 1;
    return attr;
}

int open_event(perf_event_attr &attr, pid_t pid, unsigned cpu) {
    return static_cast<int>(syscall(SYS_perf_event_open, &attr, pid, static_cast<int>(cpu), -1, PERF_FLAG_FD_CLOEXEC));
}

// Page faults that begin, or (MIN) that have been served without a disk: these have an address more, by which they are told apart.
int open_faults(pid_t child, unsigned cpu, bool all, uint64_t which) {
    perf_event_attr attr = attributes(all);
    attr.config = which;
    attr.sample_period = 1;
    attr.inherit = 1;
    if (which == PERF_COUNT_SW_PAGE_FAULTS_MIN) attr.sample_type |= PERF_SAMPLE_ADDR;
    return open_event(attr, child, cpu);
}

// Wake-ups that any thread on that CPU sends: these have raw data more.
int open_wakes(unsigned cpu, uint64_t tracepoint) {
    perf_event_attr attr = attributes(true);
    attr.type = PERF_TYPE_TRACEPOINT;
    attr.config = tracepoint;
    attr.sample_period = 1;
    attr.sample_type |= PERF_SAMPLE_RAW;
    return open_event(attr, -1, cpu);
}

// The kernel's trace events, mounted for this process alone if need be; -1: not to be had.
int tracefs_open() {
    int there = open("/sys/kernel/tracing", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (there >= 0 && faccessat(there, "events", R_OK, 0) == 0) return there;
    if (there >= 0) close(there);
    int context = static_cast<int>(syscall(SYS_fsopen, "tracefs", FSOPEN_CLOEXEC));
    if (context < 0) return -1;
    int mounted = syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) == 0
                      ? static_cast<int>(syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC, 0))
                      : -1;
    close(context);
    return mounted;
}

std::string text_in(int directory, const char *file) {
    char text[4096];
    int fd = openat(directory, file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return "";
    ssize_t got = read(fd, text, sizeof text);
    close(fd);
    return std::string(text, got > 0 ? static_cast<size_t>(got) : 0);
}

struct Id { // how each record ends
    uint32_t pid, tid;
    uint64_t time;
    uint32_t cpu, unused;
};

Id id_of(const char *event) {
    perf_event_header header;
    Id id;
    memcpy(&header, event, sizeof header);
    memcpy(&id, event + header.size - sizeof id, sizeof id);
    return id;
}

// The event names threads by the numbers that they have outside of all PID namespaces.
bool sees_kernels_numbers() {
    char name[32] = "";
    return readlink("/proc/self/ns/pid", name, sizeof name - 1) > 0 && strcmp(name, "pid:[4026531836]") == 0;
}

} // namespace

// sched_waking: a thread that slept is told to run. The thread is in a field of the event's own data.
Perf::Tracepoint Perf::waking_find() {
    if (!sees_kernels_numbers()) return {};
    int tracefs = tracefs_open();
    if (tracefs < 0) return {};
    std::string number = text_in(tracefs, "events/sched/sched_waking/id");
    std::string format = text_in(tracefs, "events/sched/sched_waking/format");
    close(tracefs);
    size_t field = format.find("field:pid_t pid;"), at = format.find("offset:", field);
    if (number.empty() || field == std::string::npos || at == std::string::npos) return {};
    return {strtoull(number.c_str(), nullptr, 10), strtoul(format.c_str() + at + strlen("offset:"), nullptr, 10)};
}

Perf::~Perf() {
    for (const Ring &ring : rings) {
        munmap(ring.base, page + bytes);
        close(ring.fd);
        for (int more : {ring.faults, ring.served, ring.wakes})
            if (more >= 0) close(more);
    }
}

void Perf::add_cpu(pid_t child, unsigned cpu, bool all) {
    perf_event_attr attr = attributes(all);
    attr.config = PERF_COUNT_SW_DUMMY;
    attr.context_switch = attr.comm = attr.task = 1;
    attr.inherit = all ? 0 : 1;
    int fd = open_event(attr, all ? -1 : child, cpu);
    if (fd < 0) throw std::runtime_error(strerror(errno));
    bytes = page * (all ? pages_all : pages_own);
    void *base = mmap(nullptr, page + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        int error = errno;
        close(fd);
        throw std::runtime_error(strerror(error));
    }
    int faults = open_faults(child, cpu, all, PERF_COUNT_SW_PAGE_FAULTS),
        served = open_faults(child, cpu, all, PERF_COUNT_SW_PAGE_FAULTS_MIN);
    int woken = waking.number == 0 ? -1 : open_wakes(cpu, waking.number);
    for (int event : {faults, served, woken})
        if (event >= 0) ioctl(event, PERF_EVENT_IOC_SET_OUTPUT, fd);
    record->sees_wakes = woken >= 0 && (rings.empty() || record->sees_wakes);
    rings.push_back({fd, faults, served, woken, static_cast<char *>(base)});
}

std::string Perf::open(pid_t child, bool all) {
    if (all) waking = waking_find(); // others wake the program's threads, too
    try {
        std::string online; // not always the first ones
        std::getline(std::ifstream("/sys/devices/system/cpu/online"), online);
        std::vector<unsigned> cpus = cpu_list(online);
        for (long cpu = 0; cpus.empty() && cpu < sysconf(_SC_NPROCESSORS_ONLN); cpu++)
            cpus.push_back(static_cast<unsigned>(cpu));
        for (unsigned cpu : cpus) add_cpu(child, cpu, all);
    } catch (const std::runtime_error &error) {
        return error.what();
    }
    record->sees_others = all;
    record->source = all ? std::string("perf_event_open: context switches of all CPUs, page faults") +
                               (record->sees_wakes ? ", wake-ups" : "; wake-ups are not seen (tracefs)")
                         : "perf_event_open: context switches and page faults of its own threads (others' need CAP_PERFMON)";
    return "";
}

// Its thread and time stand at the beginning, in the order of an Id.
void Perf::take_sample(const char *event, uint16_t size) {
    Id id;
    memcpy(&id, event + sizeof(perf_event_header), sizeof id);
    size_t more = size - sizeof(perf_event_header) - sizeof id;
    if (more <= sizeof(uint64_t)) {
        (more > 0 ? record->served : record->faults)[id.tid].push_back(id.time);
        return;
    }
    uint32_t woken = 0;
    const size_t raw = sizeof(perf_event_header) + sizeof id + sizeof(uint32_t); // after its length
    if (raw + waking.pid_at + sizeof woken > size) return;
    memcpy(&woken, event + raw + waking.pid_at, sizeof woken);
    wakes[woken].push_back(id.time);
}

void Perf::take(const char *event) {
    perf_event_header header;
    memcpy(&header, event, sizeof header);
    Id id = id_of(event);
    switch (header.type) {
    case PERF_RECORD_SWITCH:
    case PERF_RECORD_SWITCH_CPU_WIDE:
        switches.push_back({id.time, id.tid, id.cpu, (header.misc & PERF_RECORD_MISC_SWITCH_OUT) != 0,
                            (header.misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT) != 0});
        record->process[id.tid] = id.pid;
        break;
    case PERF_RECORD_SAMPLE: take_sample(event, header.size); break;
    case PERF_RECORD_COMM: {
        uint32_t ids[2];
        memcpy(ids, event + sizeof header, sizeof ids);
        record->names[ids[1]] = event + sizeof header + sizeof ids;
        break;
    }
    case PERF_RECORD_FORK: {
        uint32_t ids[4]; // its process, that of who made it, and the threads
        memcpy(ids, event + sizeof header, sizeof ids);
        auto name = record->names.find(ids[3]);
        if (name != record->names.end()) record->names[ids[2]] = std::string(name->second);
        break;
    }
    case PERF_RECORD_LOST: {
        uint64_t lost[2];
        memcpy(lost, event + sizeof header, sizeof lost);
        record->lost += lost[1];
        break;
    }
    default: break;
    }
}

void Perf::drain() {
    std::vector<char> event;
    for (const Ring &ring : rings) {
        auto *head = reinterpret_cast<perf_event_mmap_page *>(ring.base);
        uint64_t until = __atomic_load_n(&head->data_head, __ATOMIC_ACQUIRE), at = head->data_tail;
        const char *data = ring.base + page;
        while (at < until) {
            perf_event_header header;
            for (size_t i = 0; i < sizeof header; i++) reinterpret_cast<char *>(&header)[i] = data[(at + i) % bytes];
            event.resize(header.size);
            for (size_t i = 0; i < header.size; i++) event[i] = data[(at + i) % bytes];
            take(event.data());
            at += header.size;
        }
        __atomic_store_n(&head->data_tail, at, __ATOMIC_RELEASE);
    }
}

// A sleep ends with the first wake-up after it began; from then on the thread waited for a CPU.
void Perf::add_away(const Switch &out, const Switch &in) {
    std::vector<Away> &away = record->away[in.tid];
    const std::vector<uint64_t> &woken = wakes[in.tid];
    auto first = std::upper_bound(woken.begin(), woken.end(), out.when);
    if (out.ready || first == woken.end() || *first >= in.when) {
        away.push_back({out.when, in.when, out.ready, in.cpu});
        return;
    }
    away.push_back({out.when, *first, false, in.cpu});
    away.push_back({*first, in.when, true, in.cpu, true});
}

uint64_t Perf::woken_before(uint32_t tid, uint64_t when) const {
    auto all = wakes.find(tid);
    if (all == wakes.end()) return 0;
    auto after = std::upper_bound(all->second.begin(), all->second.end(), when);
    return after == all->second.begin() ? 0 : *(after - 1);
}

void Perf::finish() {
    for (auto &one : wakes) std::sort(one.second.begin(), one.second.end());
    std::stable_sort(switches.begin(), switches.end(), [](const Switch &a, const Switch &b) { return a.when < b.when; });
    std::map<uint32_t, Switch> out, in; // the last of each thread
    for (const Switch &each : switches) {
        if (record->cpus.size() <= each.cpu) record->cpus.resize(each.cpu + 1);
        if (each.out) {
            auto began = in.find(each.tid);
            if (began != in.end() && each.tid != 0)
                record->cpus[each.cpu].push_back({each.tid, each.cpu, began->second.when, each.when});
            out[each.tid] = each;
            in.erase(each.tid);
            continue;
        }
        auto left = out.find(each.tid);
        if (left != out.end()) add_away(left->second, each);
        out.erase(each.tid);
        in[each.tid] = each;
    }
    for (auto *faults : {&record->faults, &record->served})
        for (auto &one : *faults) std::sort(one.second.begin(), one.second.end());
    for (auto &runs : record->cpus)
        std::sort(runs.begin(), runs.end(), [](const Run &a, const Run &b) { return a.from < b.from; });
}
