// Reading a tree of small files.
#include "doctor.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <glob.h>

std::vector<std::string> Tree::lines(const std::string &path) const {
    std::vector<std::string> all;
    std::ifstream file(root + path);
    for (std::string text; std::getline(file, text);) all.push_back(text);
    return all;
}

std::optional<std::string> Tree::line(const std::string &path) const {
    std::ifstream file(root + path);
    std::string text;
    if (!file) return std::nullopt;
    std::getline(file, text);
    if (file.bad()) return std::nullopt;
    text.resize(strlen(text.c_str())); // it may come to a shell
    size_t end = text.find_last_not_of(" \t\n");
    return end == std::string::npos ? "" : text.substr(0, end + 1);
}

std::string shell_quoted(const std::string &text) {
    std::string out = "'";
    for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

std::vector<std::string> Tree::unpacked(const std::string &path) const {
    std::vector<std::string> all;
    if (!std::ifstream(root + path)) return all;
    FILE *output = popen(("gzip -dc " + shell_quoted(root + path) + " 2>/dev/null").c_str(), "r");
    if (output == nullptr) return all;
    char *text = nullptr;
    size_t size = 0;
    for (ssize_t n; (n = getline(&text, &size, output)) > 0;) {
        if (text[n - 1] == '\n') text[n - 1] = 0;
        all.emplace_back(text);
    }
    free(text);
    pclose(output);
    return all;
}

std::vector<std::string> Tree::glob(const std::string &pattern) const {
    std::vector<std::string> all;
    glob_t found{};
    if (::glob((root + pattern).c_str(), 0, nullptr, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) all.push_back(std::string(found.gl_pathv[i]).substr(root.size()));
    }
    globfree(&found);
    return all;
}

std::vector<unsigned> cpu_list(const std::string &text) {
    std::vector<unsigned> all;
    const char *at = text.c_str();
    while (*at >= '0' && *at <= '9') {
        char *end = nullptr;
        unsigned long first = strtoul(at, &end, 10), last = first;
        if (*end == '-') last = strtoul(end + 1, &end, 10);
        for (unsigned long cpu = first; cpu <= last && cpu < 65536; cpu++) all.push_back(static_cast<unsigned>(cpu));
        at = *end == ',' ? end + 1 : end;
    }
    return all;
}

std::string cpu_list_text(const std::vector<unsigned> &cpus) {
    std::string text;
    for (size_t i = 0; i < cpus.size();) {
        size_t last = i;
        while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) last++;
        text += (text.empty() ? "" : ",") + std::to_string(cpus[i]);
        if (last > i) text += "-" + std::to_string(cpus[last]);
        i = last + 1;
    }
    return text;
}
