// Which cores there are, and what they share, as hwloc tells, where the command is built with it.
#include "doctor.hpp"

#if defined(WEFT_HWLOC)
#include <cstdlib>
#include <hwloc.h>
#include <memory>

namespace {

struct Topology {
    hwloc_topology_t handle = nullptr;
    bool is_there = false;

    // hwloc reads another tree where the environment says so.
    explicit Topology(const std::string &root) {
        setenv("HWLOC_HIDE_ERRORS", "2", 1);
        if (!root.empty()) {
            setenv("HWLOC_FSROOT", root.c_str(), 1);
            setenv("HWLOC_COMPONENTS", "linux,stop", 1); // not the processor that this runs on
        }
        if (hwloc_topology_init(&handle) != 0) return;
        is_there = hwloc_topology_load(handle) == 0;
    }
    ~Topology() {
        if (handle != nullptr) hwloc_topology_destroy(handle);
    }
    Topology(const Topology &) = delete;
    Topology &operator=(const Topology &) = delete;

    int count(hwloc_obj_type_t type) const { return hwloc_get_nbobjs_by_type(handle, type); }
};

std::string size_text(uint64_t bytes) {
    return bytes >= 1 << 20 ? std::to_string(bytes >> 20) + " MiB" : std::to_string(bytes >> 10) + " KiB";
}

// "L2 1024 KiB x 8".
std::string cache_text(const Topology &topology, hwloc_obj_type_t type, const char *name) {
    int count = topology.count(type);
    if (count <= 0) return "";
    hwloc_obj_t first = hwloc_get_obj_by_type(topology.handle, type, 0);
    std::string size = first->attr->cache.size == 0 ? "" : " " + size_text(first->attr->cache.size);
    return std::string(", ") + name + size + " x " + std::to_string(count);
}

Finding caches(const Topology &topology) {
    Finding found("cores", "", "CPUs of one core share it: a job beside another takes longer than alone");
    found.now = std::to_string(topology.count(HWLOC_OBJ_CORE)) + " cores, " + std::to_string(topology.count(HWLOC_OBJ_PU)) +
                " CPUs" + cache_text(topology, HWLOC_OBJ_L2CACHE, "L2") + cache_text(topology, HWLOC_OBJ_L3CACHE, "L3") +
                ", " + std::to_string(topology.count(HWLOC_OBJ_NUMANODE)) + " memory nodes";
    found.verdict = topology.count(HWLOC_OBJ_PU) <= topology.count(HWLOC_OBJ_CORE) ? Verdict::good : Verdict::given;
    return found;
}

std::string set_text(hwloc_const_cpuset_t set) {
    std::vector<unsigned> cpus;
    for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu))
        cpus.push_back(static_cast<unsigned>(cpu));
    return cpu_list_text(cpus);
}

Finding kinds(const Topology &topology) {
    int count = hwloc_cpukinds_get_nr(topology.handle, 0);
    Finding found("kinds of cores", count <= 1 ? "one" : "",
                  "what runs on the slow ones ends last, and a join waits for it");
    found.verdict = count <= 1 ? Verdict::good : Verdict::given;
    std::unique_ptr<hwloc_bitmap_s, void (*)(hwloc_bitmap_t)> set(hwloc_bitmap_alloc(), hwloc_bitmap_free);
    for (int kind = count - 1; kind >= 0 && count > 1 && set; kind--) { // the fastest comes last
        if (hwloc_cpukinds_get_info(topology.handle, static_cast<unsigned>(kind), set.get(), nullptr, nullptr, nullptr, 0) !=
            0)
            continue;
        found.now += (found.now.empty() ? "fastest first: CPUs " : "; ") + set_text(set.get());
        if (kind == count - 1)
            found.command = "WEFT_CPUS=" + set_text(set.get()) + " in the environment, or weft_config.cpus";
    }
    return found;
}

} // namespace

std::vector<Finding> findings_cores(const DoctorOptions &options) {
    Topology topology(options.root);
    if (topology.is_there && topology.count(HWLOC_OBJ_PU) > 0) return {caches(topology), kinds(topology)};
    return {Finding("cores", "hwloc finds none")};
}

#else

std::vector<Finding> findings_cores(const DoctorOptions &) {
    return {Finding("cores", "this command was built without hwloc (package libhwloc-dev)")};
}

#endif
