// Finding the entrants: the list written by the build, and the peers given by hand.
#include "alloc.hpp"

#include <algorithm>
#include <climits>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

namespace {

// What an entrant's object says of itself, passed through a pipe.
struct Card {
    char name[64];
    char text[160];
    char workload[32];
    uint32_t flags;
    unsigned workers_min, workers_max;
    size_t payload_max;
    char error[256];
};

void card_fill(Card &card, const char *file) {
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    const void *symbol = library == nullptr ? nullptr : dlsym(library, "weft_entrant");
    if (symbol == nullptr) {
        const char *why = library == nullptr ? dlerror() : "it exports no weft_entrant";
        strncpy(card.error, why, sizeof card.error - 1);
        return;
    }
    const auto *found = static_cast<const entrant *>(symbol);
    if (found->version != ENTRANT_VERSION) {
        strncpy(card.error, "it was built for another version of entrant.h", sizeof card.error - 1);
        return;
    }
    strncpy(card.name, found->name, sizeof card.name - 1);
    strncpy(card.text, found->text, sizeof card.text - 1);
    if (found->workload != nullptr) strncpy(card.workload, found->workload, sizeof card.workload - 1);
    card.flags = found->flags;
    card.workers_min = found->workers_min;
    card.workers_max = found->workers_max;
    card.payload_max = found->payload_max;
}

// Loads the object in a process of its own: some runtimes start threads, or cannot live beside another.
Card card_read(const std::string &file) {
    int ends[2];
    Card card{};
    if (pipe(ends) != 0) throw std::runtime_error("no pipe");
    pid_t child = fork();
    if (child == 0) {
        card_fill(card, file.c_str());
        _exit(write_all(ends[1], &card, sizeof card) ? 0 : 1);
    }
    close(ends[1]);
    if (child < 0 || !read_all(ends[0], &card, sizeof card))
        strncpy(card.error, "it ended the process", sizeof card.error - 1);
    close(ends[0]);
    if (child > 0) waitpid(child, nullptr, 0);
    return card;
}

Entrant entrant_from(const Card &card, const std::string &file) {
    Entrant found;
    found.name = card.name;
    found.file = file;
    found.text = card.text;
    found.workload = card.workload;
    found.flags = card.flags;
    found.workers_min = card.workers_min;
    found.workers_max = card.workers_max;
    found.payload_max = card.payload_max;
    return found;
}

Entrant missing(const std::string &name, const std::string &reason) {
    Entrant entry;
    entry.name = name;
    entry.reason = reason;
    return entry;
}

std::string program_dir() {
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    std::string file(path, length > 0 ? static_cast<size_t>(length) : 0);
    return file.substr(0, file.rfind('/'));
}

Entrant listed(const std::string &line, const std::string &dir) {
    size_t first = line.find('\t'), second = line.find('\t', first + 1);
    std::string name = line.substr(0, first), file = line.substr(first + 1, second - first - 1);
    if (file == "-") return missing(name, line.substr(second + 1));
    Card card = card_read(dir + "/" + file);
    return card.error[0] != 0 ? missing(name, card.error) : entrant_from(card, dir + "/" + file);
}

Entrant static_threads() {
    Entrant built_in;
    built_in.name = "static";
    built_in.file = "static";
    built_in.text = "no pool: W threads, the jobs split ahead; the ceiling";
    return built_in;
}

} // namespace

std::string entrant_dir_find(const Options &options) {
    if (!options.entrant_dir.empty()) return options.entrant_dir;
    std::string here = program_dir();
    for (const char *place : {"/../bench/entrants", "/../" WEFT_LIBDIR "/weft/entrants"}) {
        if (access((here + place + "/entrants.txt").c_str(), R_OK) == 0) return here + place;
    }
    return here;
}

std::vector<Entrant> entrants_find(const Options &options) {
    std::vector<Entrant> all;
    const std::string &dir = options.entrant_dir;
    std::ifstream list(dir + "/entrants.txt");
    if (!list) throw std::runtime_error("no entrants.txt in " + dir);
    for (std::string line; std::getline(list, line);) {
        if (std::count(line.begin(), line.end(), '\t') == 2) all.push_back(listed(line, dir));
    }
    std::vector<Entrant> allocators = allocators_find(dir);
    all.insert(all.end(), allocators.begin(), allocators.end());
    for (const auto &file : options.peers) {
        std::string path = file.find('/') == std::string::npos ? "./" + file : file;
        Card card = card_read(path);
        Entrant peer = card.error[0] == 0 ? entrant_from(card, path) : allocator_peer(path, all);
        if (peer.file.empty()) {
            throw std::invalid_argument("peer " + file + ": no pool: " + card.error + "; no allocator: " + peer.reason);
        }
        all.push_back(peer);
    }
    all.push_back(static_threads());
    return all;
}
