// Finding the entrants: the list written by the build, and the peers given by hand.
#include "alloc.hpp"

#include "../../bench/pattern.hpp"

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

namespace {

// What an entrant's object says of itself, passed through a pipe.
struct Card {
    bool there;
    char name[64];
    char text[160];
    char workload[32];
    unsigned offers;
    uint32_t flags;
    unsigned workers_min, workers_max;
    size_t payload_max;
};

struct Cards {
    Card tasks, patterns;
    char error[256];
};

template <class Table> void card_fill(Card &card, const Table &table) {
    card.there = true;
    strncpy(card.name, table.name, sizeof card.name - 1);
    strncpy(card.text, table.text, sizeof card.text - 1);
    card.flags = table.flags;
    card.workers_min = table.workers_min;
    card.workers_max = table.workers_max;
}

void cards_fill(Cards &cards, const char *file) {
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        strncpy(cards.error, dlerror(), sizeof cards.error - 1);
        return;
    }
    const auto *tasks = static_cast<const entrant *>(dlsym(library, "weft_entrant"));
    const auto *forms = static_cast<const patterns *>(dlsym(library, "weft_patterns"));
    const char *error = "";
    if (tasks == nullptr && forms == nullptr) error = "it exports neither weft_entrant nor weft_patterns";
    if (tasks != nullptr && tasks->version != ENTRANT_VERSION) error = "it was built for another version of entrant.h";
    if (forms != nullptr && forms->version != PATTERNS_VERSION) error = "it was built for another version of patterns.h";
    if (forms != nullptr && *error == 0 && pattern_offers(*forms) == 0) error = "its weft_patterns offers nothing";
    strncpy(cards.error, error, sizeof cards.error - 1);
    if (*error != 0) return;
    if (tasks != nullptr) {
        card_fill(cards.tasks, *tasks);
        if (tasks->workload != nullptr) strncpy(cards.tasks.workload, tasks->workload, sizeof cards.tasks.workload - 1);
        cards.tasks.payload_max = tasks->payload_max;
    }
    if (forms != nullptr) {
        card_fill(cards.patterns, *forms);
        cards.patterns.offers = pattern_offers(*forms);
    }
}

// Loads the object in a process of its own: some runtimes start threads, or cannot live beside another.
Cards cards_read(const std::string &file) {
    int ends[2];
    Cards cards{};
    if (pipe(ends) != 0) throw std::runtime_error("no pipe");
    pid_t child = fork();
    if (child == 0) {
        interrupt_undo();
        alarm(load_limit_s); // its constructors may never return
        cards_fill(cards, file.c_str());
        _exit(write_all(ends[1], &cards, sizeof cards) ? 0 : 1);
    }
    close(ends[1]);
    bool told = child > 0 && read_all(ends[0], &cards, sizeof cards);
    close(ends[0]);
    int status = 0;
    if (child > 0) waitpid(child, &status, 0);
    if (interrupted()) throw std::runtime_error("interrupted");
    if (told) return cards;
    bool slow = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
    strncpy(cards.error, slow ? "it takes too long to load" : "it ended the process", sizeof cards.error - 1);
    return cards;
}

Entrant entrant_from(const Card &card, const std::string &file) {
    Entrant found;
    found.name = card.name;
    found.file = file;
    found.text = card.text;
    found.workload = card.workload;
    found.offers = card.offers;
    found.flags = card.flags;
    found.workers_min = card.workers_min;
    found.workers_max = card.workers_max;
    found.payload_max = card.payload_max;
    return found;
}

void add(std::vector<Entrant> &all, const Cards &cards, const std::string &file) {
    for (const Card *card : {&cards.tasks, &cards.patterns}) {
        if (card->there) all.push_back(entrant_from(*card, file));
    }
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

void add_listed(std::vector<Entrant> &all, const std::string &line, const std::string &dir) {
    size_t first = line.find('\t'), second = line.find('\t', first + 1);
    std::string name = line.substr(0, first), file = line.substr(first + 1, second - first - 1);
    Cards cards{};
    if (file != "-") cards = cards_read(dir + "/" + file);
    if (file == "-" || cards.error[0] != 0)
        all.push_back(missing(name, file == "-" ? line.substr(second + 1) : cards.error));
    else
        add(all, cards, dir + "/" + file);
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
        if (std::count(line.begin(), line.end(), '\t') == 2) add_listed(all, line, dir);
    }
    std::vector<Entrant> allocators = allocators_find(dir);
    all.insert(all.end(), allocators.begin(), allocators.end());
    for (const auto &file : options.peers) {
        std::string path = file.find('/') == std::string::npos ? "./" + file : file;
        Cards cards = cards_read(path);
        if (cards.error[0] == 0) {
            add(all, cards, path);
            continue;
        }
        Entrant allocator = allocator_peer(path, all);
        if (allocator.file.empty()) {
            throw std::invalid_argument("peer " + file + ": no pool: " + cards.error +
                                        "; no allocator: " + allocator.reason);
        }
        all.push_back(allocator);
    }
    all.push_back(static_threads());
    return all;
}
