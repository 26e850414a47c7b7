// The process of one entrant in one case: loads it, creates the pool, runs the rounds it is told to and reports on each.
#include "alloc.hpp"
#include "bout.hpp"
#include "probe.hpp"

#include <cstring>
#include <stdexcept>
#include <unistd.h>

namespace {

void round(Bout &bout, const Command &command, Reply &reply) {
    if (command.warm != 0) {
        bout.prove();
        bout.run(command.warm);
    }
    bout.reset(command.tasks);
    Probe probe(command.order == Order::sample);
    bout.run(command.tasks);
    probe.stop(reply);
    reply.tasks = command.tasks;
    reply.elapsed_ns = reply.wall_ns;
    reply.before_bytes = bout.memory_before();
    bout.amend(reply);
    bout.check(command.tasks);
}

// A burst of work, then nothing: what do the idle threads use?
void idle(Bout &bout, const Command &command, Reply &reply) {
    bout.run(command.warm);
    Probe probe(false);
    usleep(idle_us);
    probe.stop(reply);
    reply.tasks = 1;
}

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
    std::unique_ptr<Bout> bout;
    int in = -1, out = -1;
    try {
        Seat seat = seat_from(arguments, 2);
        in = std::stoi(arguments[0]);
        out = std::stoi(arguments[1]);
        if (seat.traced) trace_request();
        hardware_open();
        bout = bout_make(seat);
        reply.ok = 1;
    } catch (const std::exception &failure) {
        reply_error(reply, failure.what());
        if (out < 0) fprintf(stderr, "weft race-child: %s\n", failure.what()); // nobody waits for the reply
    }
    if (!write_all(out, &reply, sizeof reply) || reply.ok == 0) _exit(1);
    Command command;
    while (read_all(in, &command, sizeof command)) {
        reply = Reply{};
        reply.ok = 1;
        try {
            (command.order == Order::idle ? idle : round)(*bout, command, reply);
        } catch (const std::exception &failure) {
            reply_error(reply, failure.what());
        }
        if (!write_all(out, &reply, sizeof reply)) break;
    }
    _exit(0); // some pools need seconds to end
}

int race_solo(const std::vector<std::string> &arguments) {
    try {
        Seat seat = seat_from(arguments, 1);
        auto bout = bout_make(seat);
        uint64_t tasks = std::stoull(arguments[0]), start_ns = clock_ns();
        bout->run(tasks);
        printf("%.3f ns/task\n", static_cast<double>(clock_ns() - start_ns) / static_cast<double>(tasks));
        fflush(stdout);
        if (alloc_is(seat.workload)) return 0; // an allocator may have something to say at exit
        _exit(0);                              // some pools need seconds to end
    } catch (const std::exception &failure) {
        fprintf(stderr, "weft race-solo: %s\n", failure.what());
    }
    return 1;
}
