// The process of one entrant in one case: loads it, creates the pool, runs the rounds it is told to and reports on each.
#include "alloc.hpp"
#include "probe.hpp"

#include "../../bench/workload.hpp"

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <unistd.h>

namespace {

// Static threads: no pool, the jobs split ahead. The ceiling of what any pool can reach.
class StaticThreads {
    Workload &work;
    unsigned workers;
    std::vector<std::thread> threads;
    std::mutex lock;
    std::condition_variable changed;
    uint64_t tasks = 0, round = 0;
    unsigned running = 0;
    bool stop = false;

    void thread_main(unsigned self) {
        std::unique_lock<std::mutex> held(lock);
        for (uint64_t seen = 0;; seen = round) {
            changed.wait(held, [&] { return round != seen || stop; });
            if (stop) return;
            uint64_t n = tasks;
            held.unlock();
            work.run_range(n * self / workers, n * (self + 1) / workers);
            held.lock();
            if (--running == 0) changed.notify_all();
        }
    }

  public:
    StaticThreads(Workload &workload, unsigned count) : work(workload), workers(count) {
        for (unsigned i = 0; i < count; i++) threads.emplace_back([this, i] { thread_main(i); });
    }
    ~StaticThreads() {
        {
            std::lock_guard<std::mutex> held(lock);
            stop = true;
            changed.notify_all();
        }
        for (auto &thread : threads) thread.join();
    }
    void run(uint64_t n) {
        std::unique_lock<std::mutex> held(lock);
        tasks = n;
        running = workers;
        round++;
        changed.notify_all();
        changed.wait(held, [this] { return running == 0; });
    }
};

class Racer {
    std::unique_ptr<Workload> work;
    const entrant *table = nullptr;
    void *pool = nullptr;
    std::unique_ptr<StaticThreads> threads;
    uint64_t before_bytes = 0;

    static const entrant *load(const std::string &file) {
        void *library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) throw std::runtime_error(dlerror());
        auto *found = static_cast<const entrant *>(dlsym(library, "weft_entrant"));
        if (found == nullptr) throw std::runtime_error("it exports no weft_entrant");
        if (found->version != ENTRANT_VERSION) throw std::runtime_error("it was built for another version of entrant.h");
        return found;
    }

    void run(uint64_t tasks) {
        if (threads != nullptr) {
            threads->run(tasks);
            return;
        }
        int error = work->run(*table, pool, tasks);
        if (error != 0) throw std::runtime_error("submit or wait failed: " + std::to_string(error));
    }

  public:
    Racer(const Seat &seat) {
        work = workload_make({seat.workload, seat.name, seat.slices, seat.iterations_per_us});
        if (work == nullptr) throw std::runtime_error("no such case");
        before_bytes = resident_bytes();
        if (alloc_is(seat.workload)) {
            static const entrant no_pool{};
            allocator_require(seat.entrant);
            table = &no_pool;
            return;
        }
        if (seat.entrant == "static") {
            threads = std::make_unique<StaticThreads>(*work, seat.workers);
            return;
        }
        table = load(seat.entrant);
        before_bytes = resident_bytes();
        entrant_config config = {seat.workers, work->spin() ? 1u : 0u, work->payload_max()};
        pool = table->create(&config);
        if (pool == nullptr) throw std::runtime_error("the pool could not be created");
    }

    // For a profiler: the jobs and nothing else.
    void profile(uint64_t tasks) { run(tasks); }

    void round(const Command &command, Reply &reply) {
        if (command.warm != 0) {
            work->prove();
            run(command.warm);
        }
        jobs_reset();
        Probe probe(command.order == Order::sample);
        run(command.tasks);
        probe.stop(reply);
        reply.tasks = command.tasks;
        reply.before_bytes = before_bytes;
        if (work->held_bytes() != 0) reply.peak_bytes = work->held_bytes();
        job_totals want = work->expected(command.tasks), have = jobs_total();
        if (memcmp(&want, &have, sizeof want) != 0) {
            throw std::runtime_error("not every job ran exactly once: " + std::to_string(have.count) + " calls for " +
                                     std::to_string(want.count) + " jobs, checks " + std::to_string(have.check) + " for " +
                                     std::to_string(want.check));
        }
    }
};

// The reverse of seat_arguments, from `start` on.
Seat seat_from(const std::vector<std::string> &arguments, size_t start) {
    if (arguments.size() != start + 7) throw std::runtime_error("only weft race starts this");
    auto word = [&](size_t i) { return arguments[start + i]; };
    auto number = [&](size_t i) { return static_cast<unsigned>(std::stoul(word(i))); };
    return {word(0), word(1), word(2), number(3), number(4), number(5), word(6) == "traced"};
}

void reply_error(Reply &reply, const char *text) {
    reply.ok = 0;
    strncpy(reply.error, text, sizeof reply.error - 1);
}

} // namespace

int race_child(const std::vector<std::string> &arguments) {
    Reply reply{};
    std::unique_ptr<Racer> racer;
    int in = -1, out = -1;
    try {
        Seat seat = seat_from(arguments, 2);
        in = std::stoi(arguments[0]);
        out = std::stoi(arguments[1]);
        if (seat.traced) trace_request();
        hardware_open();
        racer = std::make_unique<Racer>(seat);
        reply.ok = 1;
    } catch (const std::exception &failure) {
        reply_error(reply, failure.what());
    }
    if (!write_all(out, &reply, sizeof reply) || reply.ok == 0) _exit(1);
    Command command;
    while (read_all(in, &command, sizeof command)) {
        reply = Reply{};
        reply.ok = 1;
        try {
            racer->round(command, reply);
        } catch (const std::exception &failure) {
            reply_error(reply, failure.what());
        }
        if (!write_all(out, &reply, sizeof reply)) break;
    }
    _exit(0); // some pools need seconds to end
}

int race_solo(const std::vector<std::string> &arguments) {
    try {
        Racer racer(seat_from(arguments, 1));
        racer.profile(std::stoull(arguments[0]));
        _exit(0);
    } catch (const std::exception &failure) {
        fprintf(stderr, "weft race-solo: %s\n", failure.what());
    }
    return 1;
}
