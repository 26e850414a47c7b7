// See perf.hpp.
#include "../doctor/doctor.hpp"
#include "perf.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
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

} // namespace

Perf::~Perf() {
    for (const Ring &ring : rings) {
        munmap(ring.base, page + bytes);
        close(ring.fd);
        if (ring.faults >= 0) close(ring.faults);
        if (ring.served >= 0) close(ring.served);
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
    for (int event : {faults, served})
        if (event >= 0) ioctl(event, PERF_EVENT_IOC_SET_OUTPUT, fd);
    rings.push_back({fd, faults, served, static_cast<char *>(base)});
}

std::string Perf::open(pid_t child, bool all) {
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
    record->source = all ? "perf_event_open: context switches of all CPUs, page faults"
                         : "perf_event_open: context switches and page faults of its own threads (others' need CAP_PERFMON)";
    return "";
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
    case PERF_RECORD_SAMPLE: // its thread and time stand at the beginning, in the same order
        memcpy(&id, event + sizeof header, sizeof id);
        (header.size > sizeof header + sizeof id ? record->served : record->faults)[id.tid].push_back(id.time);
        break;
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

void Perf::finish() {
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
        if (left != out.end())
            record->away[each.tid].push_back({left->second.when, each.when, left->second.ready, each.cpu});
        out.erase(each.tid);
        in[each.tid] = each;
    }
    for (auto *faults : {&record->faults, &record->served})
        for (auto &one : *faults) std::sort(one.second.begin(), one.second.end());
    for (auto &runs : record->cpus)
        std::sort(runs.begin(), runs.end(), [](const Run &a, const Run &b) { return a.from < b.from; });
}
