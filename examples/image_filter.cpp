// A filter over an image, row by row: weft::parallel_for. Prints whether the result is that of a plain loop.
#include <cstdint>
#include <cstdio>
#include <vector>
#include <weft.hpp>

namespace {

struct image {
    int width, height;
    std::vector<std::uint8_t> pixels = std::vector<std::uint8_t>(place(0, height));

    std::size_t place(int x, int y) const {
        return static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x);
    }
    std::uint8_t *row(int y) { return &pixels[place(0, y)]; }
    int at(int x, int y) const { // the border goes on outside
        x = x < 0 ? 0 : x >= width ? width - 1 : x;
        y = y < 0 ? 0 : y >= height ? height - 1 : y;
        return pixels[place(x, y)];
    }
};

// The mean of the 5 x 5 pixels around each pixel of a row.
void blur_row(const image &from, image &to, int y) {
    std::uint8_t *row = to.row(y);
    for (int x = 0; x < from.width; x++) {
        int sum = 0;
        for (int dy = -2; dy <= 2; dy++)
            for (int dx = -2; dx <= 2; dx++) sum += from.at(x + dx, y + dy);
        row[x] = static_cast<std::uint8_t>(sum / 25);
    }
}

} // namespace

int main() {
    image picture{640, 360}, serial{640, 360}, parallel{640, 360};
    for (int y = 0; y < picture.height; y++)
        for (int x = 0; x < picture.width; x++) picture.row(y)[x] = static_cast<std::uint8_t>(x * y + 7 * x);

    for (int y = 0; y < picture.height; y++) blur_row(picture, serial, y);

    weft::pool pool;
    weft::parallel_for(pool, 0, picture.height, [&](int y) { blur_row(picture, parallel, y); });

    bool is_same = parallel.pixels == serial.pixels;
    std::printf("%d rows, %s\n", picture.height, is_same ? "the same as serial" : "DIFFERENT from serial");
    return is_same ? 0 : 1;
}
