// static_team.hpp: no pool, but W threads, including the caller, among which each batch is split in advance. Shows what a
// burst costs without any queue, for each way of starting the threads and of learning that they have finished.
#ifndef WEFT_BENCH_STATIC_TEAM_HPP
#define WEFT_BENCH_STATIC_TEAM_HPP

#include "../cpus.hpp"
#include "records.h"

#include <algorithm>
#include <thread>
#include <vector>

// A Gate is constructed with the team's size. open() lets the others start; they wait for that in pass(). done() says that
// one has finished, join() waits for all of them.
template <class Gate> class StaticTeam {
    unsigned size;
    Gate gate;
    struct records jobs {};
    bool stop = false;
    std::vector<std::thread> threads;

    void share(unsigned self) {
        for (size_t i = self; i < jobs.next; i += size) {
            char *chunk = jobs.chunks[i / RECORDS_PER_CHUNK];
            record_run(reinterpret_cast<record *>(chunk + i % RECORDS_PER_CHUNK * jobs.record_size));
        }
    }

    void thread_main(unsigned self) {
        for (gate.pass(); !stop; gate.pass()) {
            share(self);
            gate.done();
        }
    }

  public:
    explicit StaticTeam(const entrant_config &config) : size(std::min(config.workers, cpus_allowed())), gate(size) {
        records_init(&jobs, sizeof(record), config.payload_max);
        for (unsigned i = 1; i < size; i++) threads.emplace_back([this, i] { thread_main(i); });
    }
    ~StaticTeam() {
        stop = true;
        gate.open();
        for (auto &thread : threads) thread.join();
        records_free(&jobs);
    }
    StaticTeam(const StaticTeam &) = delete;
    StaticTeam &operator=(const StaticTeam &) = delete;

    int submit(entrant_fn fn, const void *payload, size_t bytes) {
        return records_fill(&jobs, fn, payload, bytes) != nullptr ? 0 : -1;
    }
    int wait() {
        gate.open();
        share(0);
        gate.join();
        records_reset(&jobs);
        return 0;
    }
};

template <class Gate> struct StaticTable {
    using Team = StaticTeam<Gate>;
    static void *create(const entrant_config *config) { return new Team(*config); }
    static int submit(void *team, entrant_fn fn, const void *payload, size_t size) {
        return static_cast<Team *>(team)->submit(fn, payload, size);
    }
    static int wait(void *team) { return static_cast<Team *>(team)->wait(); }
    static void destroy(void *team) { delete static_cast<Team *>(team); }

    static constexpr entrant entry(const char *name, const char *text, uint32_t flags) {
        return {ENTRANT_VERSION,
                ENTRANT_CALLER_RUNS | ENTRANT_FORK_JOIN | flags,
                name,
                text,
                "slot",
                1,
                0,
                0,
                create,
                nullptr,
                submit,
                wait,
                destroy};
    }
};

#endif
