// chunks.hpp: `weft chunks`: a program as it is, over a range that is kept in a directory (weft_chunks.h).
#ifndef WEFT_CHUNKS_CHUNKS_HPP
#define WEFT_CHUNKS_CHUNKS_HPP

#include <CLI/CLI.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>
#include <weft_chunks.h>

struct ChunksOptions {
    std::string directory;
    // create, run
    bool has_plan = false; // --end was given
    uint64_t begin = 0, end = 0, chunk = 0;
    std::string cuts_file; // one index a line: where chunks begin
    double lease_seconds = 30;
    unsigned tries = 1, losses = 10;
    bool keep_going = false;
    // run
    std::vector<std::string> program;
    std::string output; // a pattern: what the program writes to {output} gets this name when it has succeeded
    unsigned jobs = 1;
    double limit_seconds = 0; // a program that runs longer is ended, its chunk has failed; 0: none
    bool quiet = false;
    // status
    bool all = false;
};

// Adds the subcommand's own subcommands.
void chunks_options(CLI::App &chunks, ChunksOptions &options);
int chunks_main(const CLI::App &chunks, const ChunksOptions &options);

int chunks_create(const ChunksOptions &options);
int chunks_run(const ChunksOptions &options);
int chunks_status(const ChunksOptions &options);
int chunks_cancel(const ChunksOptions &options);
int chunks_retry(const ChunksOptions &options);

// Prints what weft_chunks_why says, and returns the command's exit status for it: 1.
int chunks_fail(const char *what, int error);

// ---- output.cpp; what returns bool leaves errno when it is false

// The name to which the program writes that has the chunk by this record.
std::string output_part(const std::string &output, uint64_t token, uint32_t record);
// Removes what those have written who had the chunk by earlier records.
bool output_clear(const std::string &output, uint32_t record);
bool output_sync(const std::string &part);
bool output_place(const std::string &part, const std::string &output);
// Does that errno of a rename come of what the program has left? Else the system has refused what was right: ENOENT, too, after a
// sync, is of a call whose reply was lost, or of another worker's.
bool output_is_wrong(int number);
// Is there no room for more in it? It is to be removed afterwards.
bool output_is_full(const std::string &part);

// ---- keeper.cpp

// A thread that renews the lease, whatever the worker waits for.
class Keeper {
    weft_chunks *queue;
    const std::chrono::milliseconds step;
    std::mutex lock;
    std::condition_variable ending;
    bool ends = false;
    std::string trouble; // of the last renewal
    std::thread thread;

    void run();

  public:
    Keeper(weft_chunks *queue_given, uint64_t step_ms);
    ~Keeper();
    Keeper(const Keeper &) = delete;
    Keeper &operator=(const Keeper &) = delete;
    std::string take_trouble(); // empty: none since it was asked
};

#endif
