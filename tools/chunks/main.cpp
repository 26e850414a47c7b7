// main.cpp: the subcommands of `weft chunks`, and those that are short.
#include "chunks.hpp"

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <weft_chunks.h>

int chunks_fail(const char *what, int error) {
    fprintf(stderr, "weft chunks: %s: %s: %s\n", what, weft_chunks_strerror(error), weft_chunks_why());
    return 1;
}

static std::vector<size_t> cuts_read(const std::string &name) {
    std::ifstream file(name);
    if (!file) throw std::runtime_error("cannot read " + name);
    std::vector<size_t> cuts;
    std::string line;
    while (std::getline(file, line)) {
        if (line.empty()) continue;
        if (line.find_first_not_of("0123456789") != std::string::npos || line.size() > 19)
            throw std::runtime_error(std::string(name).append(": not an index: ").append(line));
        cuts.push_back(std::stoull(line));
    }
    if (file.bad()) throw std::runtime_error("cannot read " + name);
    return cuts;
}

// On one line, and told from every other word or pair of words.
static std::string word_marked(const std::string &word) {
    if (word.empty()) return "''";
    std::string marked;
    for (char c : word) {
        if (c == ' ' || c == '\\' || c == '\'' || c == '\n') marked += '\\';
        marked += c == '\n' ? 'n' : c;
    }
    return marked;
}

// What is done, for the queue's label: the same command may join, another one may not. A long one ends with a hash of the whole (FNV-1a).
static std::string label_of(const ChunksOptions &options) {
    std::string label = options.output.empty() ? "" : "-o " + word_marked(options.output);
    for (const std::string &word : options.program) label += (label.empty() ? "" : " ") + word_marked(word);
    if (label.size() <= WEFT_CHUNKS_LABEL_MAX) return label;
    uint64_t hash = 0xcbf29ce484222325U;
    for (char c : label) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    char end[24];
    snprintf(end, sizeof end, " %016" PRIx64, hash);
    label.resize(WEFT_CHUNKS_LABEL_MAX - strlen(end));
    return label + end;
}

int chunks_create(const ChunksOptions &options) {
    weft_chunks_plan plan = {};
    plan.struct_size = sizeof plan;
    plan.begin = options.begin;
    plan.end = options.end;
    plan.chunk = options.chunk;
    std::vector<size_t> cuts;
    if (!options.cuts_file.empty()) {
        cuts = cuts_read(options.cuts_file);
        if (!cuts.empty() && cuts.front() == plan.begin) cuts.erase(cuts.begin());
        plan.chunk = cuts.empty() ? plan.end - plan.begin : 0;
        plan.cuts = cuts.empty() ? nullptr : cuts.data();
        plan.cut_count = cuts.size();
    }
    plan.lease_ms = static_cast<uint64_t>(options.lease_seconds * 1000);
    plan.tries = options.tries;
    plan.losses = options.losses;
    plan.flags = options.keep_going ? WEFT_CHUNKS_KEEP_GOING : 0;
    const std::string label = label_of(options);
    plan.label = label.c_str();
    int error = weft_chunks_create(options.directory.c_str(), &plan);
    return error == WEFT_OK ? 0 : chunks_fail(options.directory.c_str(), error);
}

template <typename Action> static int with_queue(const ChunksOptions &options, Action action) {
    weft_chunks *queue;
    int error = weft_chunks_open(&queue, options.directory.c_str());
    if (error != WEFT_OK) return chunks_fail(options.directory.c_str(), error);
    error = action(queue);
    int status = error == WEFT_OK ? 0 : chunks_fail(options.directory.c_str(), error);
    error = weft_chunks_close(&queue);
    return error == WEFT_OK || status != 0 ? status : chunks_fail(options.directory.c_str(), error);
}

int chunks_cancel(const ChunksOptions &options) { return with_queue(options, weft_chunks_cancel); }
int chunks_retry(const ChunksOptions &options) { return with_queue(options, weft_chunks_retry); }

// They say what a queue is to be, so they come with --end, or not at all. Returns that option.
static CLI::Option *plan_options(CLI::App &app, ChunksOptions &options) {
    CLI::Option *end = app.add_option("--end", options.end, "The index after the last; a new queue needs it");
    end->check(CLI::Range(0.0, 1e18));
    app.add_option("--begin", options.begin, "The first index")->check(CLI::Range(0.0, 1e18))->needs(end);
    app.add_option("--chunk", options.chunk, "Indices of each chunk")->check(CLI::Range(0.0, 1e18))->needs(end);
    app.add_option("--cuts", options.cuts_file, "Instead: a file with the index at which each chunk begins, one a line")
        ->check(CLI::ExistingFile)
        ->excludes("--chunk")
        ->needs(end);
    app.add_option("--lease", options.lease_seconds, "Seconds of silence after which a worker's chunks go to others")
        ->check(CLI::Range(0.1, 1e6))
        ->needs(end);
    app.add_option("--tries", options.tries,
                   "How often a chunk's program may fail before the chunk has failed, and so the whole")
        ->check(CLI::Range(1U, 1000000U))
        ->needs(end);
    app.add_option("--losses", options.losses,
                   "How often a chunk's worker may vanish, killed or cut off, before the chunk has failed")
        ->check(CLI::Range(1U, 1000000U))
        ->capture_default_str()
        ->needs(end);
    app.add_flag("--keep-going", options.keep_going, "A chunk that failed does not keep those after it from being begun")
        ->needs(end);
    return end;
}

void chunks_options(CLI::App &chunks, ChunksOptions &options) {
    auto directory = [&options](CLI::App *app) {
        app->add_option("--dir", options.directory, "The queue's directory, on a file system that all workers share")
            ->required();
        return app;
    };
    chunks.require_subcommand(1);
    plan_options(*directory(chunks.add_subcommand("create", "make a queue")), options)->required();
    CLI::App *run = directory(chunks.add_subcommand("run", "be a worker: run the program for chunks until none is left"));
    plan_options(*run, options)->each([&options](const std::string &) { options.has_plan = true; });
    run->add_option(
        "-o,--output", options.output,
        "A file's name with {begin} or {chunk}. The program writes to {output}, a name of this worker's own; when it has "
        "succeeded that is synced and renamed to this. It needs a file system with room: without it the chunk is given back "
        "and the "
        "worker ends with 75");
    run->add_option("-j,--jobs", options.jobs, "Programs at once")->check(CLI::Range(1U, 4096U));
    run->add_option("--limit", options.limit_seconds, "Seconds after which a program is ended and its chunk has failed")
        ->check(CLI::Range(0.0, 1e9));
    run->add_flag("-q,--quiet", options.quiet, "No progress bar");
    run->add_option("program", options.program,
                    "After --: the program; {begin} {end} {last} {count} {chunk} {output} are replaced")
        ->required();
    CLI::App *status = directory(chunks.add_subcommand("status", "how far it is, who holds what, and what is late"));
    status->add_flag("--all", options.all, "Each chunk");
    directory(chunks.add_subcommand("cancel", "no chunk is begun any more"));
    directory(chunks.add_subcommand("retry", "lift that, and try again what has failed"));
}

int chunks_main(const CLI::App &chunks, const ChunksOptions &options) {
    const std::string name = chunks.get_subcommands().front()->get_name();
    if (name == "create") return chunks_create(options);
    if (name == "run") return chunks_run(options);
    if (name == "status") return chunks_status(options);
    return name == "cancel" ? chunks_cancel(options) : chunks_retry(options);
}
