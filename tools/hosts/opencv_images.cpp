// In place of OpenCV's modules for files and windows, which its tests need and which are not built. Each picture that is read is the same
// one, made here: tests that compare with a result for their own fail with any backend, others run.
#include <opencv2/core.hpp>
#include <vector>

namespace cv {

#define INSTEAD __attribute__((visibility("default")))
using Text = const String &;

INSTEAD Mat imread(Text name, int flags);
INSTEAD bool imwrite(Text name, InputArray picture, const std::vector<int> &settings);
INSTEAD void imshow(Text name, InputArray picture);
INSTEAD void namedWindow(Text name, int flags);
INSTEAD int waitKey(int milliseconds);

// Slopes, edges and some noise. Flag 0 wants it grey.
Mat imread(Text, int flags) {
    constexpr int width = 512, height = 480;
    Mat made(height, width, flags == 0 ? CV_8UC1 : CV_8UC3);
    unsigned state = 1;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width * made.channels(); x++) {
            state = state * 1664525u + 1013904223u;
            made.ptr(y)[x] =
                static_cast<uchar>((x + 2 * y) / 7 + (x / 48 + y / 48) % 2 * 60 + static_cast<int>((state >> 8) % 16));
        }
    return made;
}
bool imwrite(Text, InputArray, const std::vector<int> &) { return false; }
void imshow(Text, InputArray) {}
void namedWindow(Text, int) {}
int waitKey(int) { return -1; }

} // namespace cv
