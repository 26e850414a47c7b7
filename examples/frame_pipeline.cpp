// Frames through a pipeline: a weft::graph, built once for four frames, run for each four frames of a clip.
//
//     read ---> read ---> read ---> read        from the clip, in order
//       |         |         |         |
//     smooth -> smooth -> smooth -> smooth      with the frame before
//       |         |         |         |
//     measure   measure   measure   measure     each for itself
//
//     frame_pipeline [clip.y4m]
//
// Says on stderr where the frames come from: the luma of the clip (4:2:0, 8 bits), or made up when none is given. Prints whether
// 32 frames measure the same as in a plain loop.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>
#include <weft.hpp>

namespace {

constexpr std::size_t in_flight = 4, frames = 32;
using luma = std::vector<std::uint8_t>;

class source {
  public:
    // `path` NULL: frames are made up.
    explicit source(const char *path) {
        if (path == nullptr) return;
        file.open(path, std::ios::binary);
        std::string header;
        std::getline(file, header);
        std::size_t w = header.find(" W"), h = header.find(" H");
        if (header.rfind("YUV4MPEG2", 0) != 0 || header.find(" C420") == std::string::npos || w == header.npos ||
            h == header.npos)
            throw std::runtime_error("not a 4:2:0 y4m file");
        width = std::stoi(header.substr(w + 2));
        height = std::stoi(header.substr(h + 2));
    }
    std::size_t pixels() const { return static_cast<std::size_t>(width) * static_cast<std::size_t>(height); }

    void read(luma &frame) {
        frame.resize(pixels());
        if (!file.is_open()) {
            for (std::size_t i = 0; i < frame.size(); i++) frame[i] = static_cast<std::uint8_t>(i % 251 + made * (i % 17));
            made++;
            return;
        }
        std::string line;
        std::getline(file, line); // "FRAME"
        file.read(reinterpret_cast<char *>(frame.data()), static_cast<std::streamsize>(frame.size()));
        file.ignore(static_cast<std::streamsize>(2 * (static_cast<std::size_t>(width + 1) / 2) *
                                                 (static_cast<std::size_t>(height + 1) / 2)));
        if (!file) throw std::runtime_error("the clip is too short");
    }

  private:
    std::ifstream file;
    int width = 320, height = 180;
    std::size_t made = 0;
};

// Each pixel drawn towards the frame before.
void smooth(const luma &from, const luma &before, luma &to) {
    to.resize(from.size());
    for (std::size_t i = 0; i < from.size(); i++)
        to[i] = static_cast<std::uint8_t>(before.empty() ? from[i] : (3 * from[i] + before[i] + 2) / 4);
}

// How much neighbours differ.
std::uint64_t measure(const luma &frame) {
    std::uint64_t sum = 0;
    for (std::size_t i = 1; i < frame.size(); i++) sum += static_cast<std::uint64_t>(std::abs(frame[i] - frame[i - 1]));
    return sum;
}

std::vector<std::uint64_t> plain_loop(const char *path) {
    source clip(path);
    std::vector<std::uint64_t> results;
    luma raw, smoothed, before;
    for (std::size_t i = 0; i < frames; i++) {
        clip.read(raw);
        smooth(raw, before, smoothed);
        results.push_back(measure(smoothed));
        before = smoothed;
    }
    return results;
}

std::vector<std::uint64_t> pipeline(weft_pool *pool, const char *path) {
    source clip(path);
    std::array<luma, in_flight> raw, smoothed;
    std::array<std::uint64_t, in_flight> result{};
    weft::graph graph;
    weft_node last_read = 0, last_smooth = 0;
    for (std::size_t i = 0; i < in_flight; i++) {
        weft_node read = graph.add([&, i] { clip.read(raw[i]); });
        weft_node now =
            graph.add([&, i] { smooth(raw[i], smoothed[(i + in_flight - 1) % in_flight], smoothed[i]); }, {read});
        graph.add([&, i] { result[i] = measure(smoothed[i]); }, {now});
        if (i > 0) graph.edge(last_read, read);
        if (i > 0) graph.edge(last_smooth, now);
        last_read = read;
        last_smooth = now;
    }
    graph.build();
    std::vector<std::uint64_t> results;
    for (std::size_t done = 0; done < frames; done += in_flight) {
        graph.run(pool);
        results.insert(results.end(), result.begin(), result.end());
    }
    return results;
}

} // namespace

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : nullptr;
    std::fprintf(stderr, "frames: %s\n", path != nullptr ? path : "made up, for no clip was given");
    try {
        weft::pool pool;
        bool is_same = pipeline(pool, path) == plain_loop(path);
        std::printf("%zu frames, %s\n", frames, is_same ? "the same as one by one" : "DIFFERENT from one by one");
        return is_same ? 0 : 1;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 2;
    }
}
