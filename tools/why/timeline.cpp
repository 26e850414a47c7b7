// See timeline.hpp.
#include "timeline.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <vector>

using nlohmann::ordered_json;

namespace {

ordered_json read_file(const std::string &file) {
    std::ifstream in(file);
    if (!in) throw std::runtime_error(file + ": it cannot be read");
    ordered_json timeline = ordered_json::parse(in, nullptr, false);
    bool is_one = timeline.is_object() && timeline.contains("traceEvents") && timeline["traceEvents"].is_array() &&
                  timeline.contains("otherData") && timeline["otherData"].contains("weft");
    return is_one ? timeline : ordered_json();
}

// "trace-PROCESS-POOL.json" -> " of pool POOL"
std::string pool_of(const std::string &file) {
    size_t first = file.rfind('-') + 1;
    return " of pool " + file.substr(first, file.rfind('.') - first);
}

// Arrows of two pools may have the same number.
void tell_pool(ordered_json &event, const std::string &pool, uint64_t number) {
    if (event.at("name") == "thread_name") {
        auto &name = event.at("args").at("name");
        name = name.get<std::string>() + pool;
    }
    auto arrow = event.find("bind_id");
    if (arrow == event.end()) return;
    char text[32];
    snprintf(text, sizeof text, "%#llx", std::stoull(arrow->get<std::string>(), nullptr, 16) ^ (number << 56));
    *arrow = text;
}

void add(Timeline &all, ordered_json &&one) {
    all.lost += one["otherData"].value("dropped", UINT64_C(0));
    all.kept = std::max(all.kept, one["otherData"].value("events_per_thread", UINT64_C(0)));
    if (all.json.is_null()) {
        all.json = std::move(one);
        return;
    }
    auto &events = all.json["traceEvents"].get_ref<ordered_json::array_t &>();
    auto &more = one["traceEvents"].get_ref<ordered_json::array_t &>();
    std::move(more.begin(), more.end(), std::back_inserter(events));
    all.json["otherData"]["dropped"] = all.lost;
}

} // namespace

Timeline timeline_of_file(const std::string &file) {
    Timeline all;
    ordered_json one = read_file(file);
    if (one.is_null()) throw std::runtime_error(file + ": it is no timeline of weft's");
    add(all, std::move(one));
    return all;
}

Timeline timeline_of_directory(const std::string &directory) {
    Timeline all;
    std::vector<std::string> files;
    for (const auto &entry : std::filesystem::directory_iterator(directory)) files.push_back(entry.path().string());
    std::sort(files.begin(), files.end());
    uint64_t number = 0;
    for (const std::string &file : files) {
        ordered_json one = read_file(file);
        if (one.is_null()) {
            all.unfinished++;
            continue;
        }
        for (ordered_json &event : one["traceEvents"])
            if (files.size() > 1) tell_pool(event, pool_of(file), number);
        number++;
        add(all, std::move(one));
    }
    return all;
}
