// One of OpenCV's functions on a picture, many times: prints a digest of what it made, and how many threads there were.
//
//     opencv_run NAME ROUNDS THREADS        threads 0: as many as OpenCV takes by itself
//
// NAME `loops` tries what loops promise instead: each index once, numbers of threads, loops in loops, exceptions.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#include <stdexcept>
#include <vector>

namespace {

constexpr int width = 1920, height = 1080;

// Slopes, edges and some noise, the same each time.
cv::Mat picture() {
    cv::Mat made(height, width, CV_8UC3);
    std::uint32_t state = 1;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            state = state * 1664525u + 1013904223u;
            const int level = ((x + 2 * y) / 9 + ((x / 64 + y / 64) % 2) * 60 + static_cast<int>((state >> 8) % 16)) & 255;
            made.at<cv::Vec3b>(y, x) =
                cv::Vec3b(static_cast<uchar>(level), static_cast<uchar>(255 - level), static_cast<uchar>(level / 2));
        }
    return made;
}

void apply(const char *name, const cv::Mat &colours, const cv::Mat &grey, cv::Mat &made) {
    const auto is = [name](const char *other) { return std::strcmp(name, other) == 0; };
    if (is("blur"))
        cv::GaussianBlur(colours, made, {9, 9}, 2);
    else if (is("median"))
        cv::medianBlur(colours, made, 5);
    else if (is("canny"))
        cv::Canny(grey, made, 30, 90);
    else if (is("resize"))
        cv::resize(colours, made, {1280, 720}, 0, 0, cv::INTER_AREA);
    else if (is("warp"))
        cv::warpAffine(colours, made, cv::getRotationMatrix2D({width / 2.f, height / 2.f}, 7, 1.1), colours.size());
    else if (is("colours"))
        cv::cvtColor(colours, made, cv::COLOR_BGR2YUV);
    else if (is("bilateral"))
        cv::bilateralFilter(grey, made, 7, 30, 5);
    else
        std::exit(2);
}

void require(bool is_true, const char *what) {
    if (is_true) return;
    std::fprintf(stderr, "not true: %s\n", what);
    std::exit(1);
}

// Every index of every loop once; who runs one has a number below the number of threads.
void try_loops() {
    constexpr int outer = 200, inner = 50;
    std::vector<std::atomic<int>> runs(static_cast<std::size_t>(outer) * inner);
    cv::parallel_for_({0, outer}, [&](const cv::Range &rows) {
        for (int row = rows.start; row < rows.end; row++) {
            const int mine = cv::getThreadNum();
            require(mine >= 0 && mine < cv::getNumThreads(), "a thread's number is below that of threads");
            cv::parallel_for_({0, inner}, [&, row](const cv::Range &columns) {
                for (int column = columns.start; column < columns.end; column++)
                    runs[static_cast<std::size_t>(row * inner + column)]++;
            });
            require(cv::getThreadNum() == mine, "a loop inside leaves the thread's number");
        }
    });
    for (const auto &each : runs) require(each == 1, "each index once");
}

void try_exceptions() {
    bool is_caught = false;
    try {
        cv::parallel_for_({0, 100}, [](const cv::Range &range) {
            if (range.start <= 70 && range.end > 70) throw std::runtime_error("seventy");
        });
    } catch (const std::exception &) {
        is_caught = true;
    }
    require(is_caught, "an exception reaches the caller");
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    if (std::atoi(argv[3]) > 0) cv::setNumThreads(std::atoi(argv[3]));
    if (std::strcmp(argv[1], "loops") == 0) {
        for (int round = std::atoi(argv[2]); round > 0; round--) {
            try_loops();
            try_exceptions();
        }
        return 0;
    }
    const cv::Mat colours = picture();
    cv::Mat grey, made;
    cv::cvtColor(colours, grey, cv::COLOR_BGR2GRAY);
    std::uint64_t digest = UINT64_C(0xcbf29ce484222325);
    for (int round = std::atoi(argv[2]); round > 0; round--) apply(argv[1], colours, grey, made);
    for (int y = 0; y < made.rows; y++)
        for (std::size_t x = 0; x < made.cols * made.elemSize(); x++)
            digest = (digest ^ made.ptr(y)[x]) * UINT64_C(0x100000001b3);
    std::printf("%s %016llx, %d threads\n", argv[1], static_cast<unsigned long long>(digest), cv::getNumThreads());
    return 0;
}
