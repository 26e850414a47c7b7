// OpenCV's plugin for loops: weft under programs that stay as they are. The threads are the plugin's own, one fewer than there
// are CPUs, for the calling thread does its part: a further one would take turns with another, and malloc would keep a loop's buffers
// for both. With -DWEFT_VIEW_SHARED, or WEFT_WORKERS or WEFT_CPUS in the environment, the pool is the process's. Its own
// pool stays as it was made when the CPUs that it may use change.
//
//     g++ -O2 -shared -fPIC -fvisibility=hidden -I include -I adapters -I /usr/include/opencv4 adapters/opencv/plugin.cpp
//     libweft.a
//         -o DIR/libopencv_core_parallel_weft.so
//     OPENCV_CORE_PLUGIN_PATH=DIR OPENCV_PARALLEL_PRIORITY_LIST=WEFT program
//
// The plugin's interface is in no installed header, so its version 0 is declared here; OpenCV asks for the version it knows.
#include <hooks/opencv.hpp>
#include <new>
#include <opencv2/core/version.hpp>

namespace {

struct plugin_interface {
    std::size_t size;
    unsigned abi_version, api_version, major, minor, patch;
    const char *status, *description;
    int (*get_instance)(cv::parallel::ParallelForAPI **handle) noexcept; // 0, or -1
};

#ifdef WEFT_VIEW_SHARED
constexpr bool is_shared = true;
#else
constexpr bool is_shared = false;
#endif

// nullptr: the environment's settings are wrong, or there is no memory.
cv::parallel::ParallelForAPI *make() noexcept {
    weft_config config;
    weft_config_init(&config);
    if (weft_config_from_env(&config) != WEFT_OK) return nullptr;
    const bool is_process = is_shared || config.workers > 0 || config.cpus != nullptr;
    const unsigned cpus = weft_cpu_count();
    config.workers = cpus > 1 ? cpus - 1 : 1;
    if ((config.flags & WEFT_POOL_JOBSERVER_AUTO) != 0) config.flags |= WEFT_POOL_JOBSERVER; // loops do with one thread
    if (config.name == nullptr) config.name = "opencv";
    weft_pool *pool = nullptr;
    const int error = is_process ? weft_pool_default(&pool) : weft_pool_create(&pool, &config);
    if (error != WEFT_OK) return nullptr;
    return new (std::nothrow) weft_opencv(pool, is_process || cpus == 1 ? 0 : 1);
}

// Made at the first call and kept: OpenCV has loops as long as the process lives.
cv::parallel::ParallelForAPI *backend() noexcept {
    static cv::parallel::ParallelForAPI *const made = make();
    return made;
}

int get_instance(cv::parallel::ParallelForAPI **handle) noexcept {
    if (handle == nullptr) return -1;
    *handle = backend();
    return *handle != nullptr ? 0 : -1;
}

constexpr plugin_interface plugin = {
    sizeof(plugin_interface), 0,      0,           CV_VERSION_MAJOR, CV_VERSION_MINOR, CV_VERSION_REVISION,
    CV_VERSION_STATUS,        "weft", get_instance};

} // namespace

extern "C" __attribute__((visibility("default"))) const void *opencv_core_parallel_plugin_init_v0(int abi, int api, void *) {
    return abi == 0 && api == 0 ? &plugin : nullptr;
}
