// OpenCV's plugin for loops, on the process's pool: weft under programs that stay as they are.
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

// Made at the first call and kept: OpenCV has loops as long as the process lives.
cv::parallel::ParallelForAPI *backend() noexcept {
    static cv::parallel::ParallelForAPI *const made = []() -> cv::parallel::ParallelForAPI * {
        weft_pool *pool = nullptr;
        if (weft_pool_default(&pool) != WEFT_OK) return nullptr;
        return new (std::nothrow) weft_opencv(pool);
    }();
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
