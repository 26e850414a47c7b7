// causes.hpp: why tasks were late: the chain of what each waited for, from the timeline and what the kernel did meanwhile.
#ifndef WEFT_WHY_CAUSES_HPP
#define WEFT_WHY_CAUSES_HPP

#include "record.hpp"

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

enum class Cause { queued, long_itself, asleep, wake, preempted, throttled, stopped, fault, caller, unknown };
constexpr size_t causes = static_cast<size_t>(Cause::unknown) + 1;
const char *cause_name(Cause cause);

struct Link {
    Cause cause;
    uint64_t from, until;    // ns
    const std::string *text; // what happened, without the time; equal texts are one
    uint64_t times = 1;      // links of one cause and text, one right after the other, are one
    uint64_t ns() const { return until - from; }
};

struct Late {
    std::string task;
    uint32_t thread, submitter;
    uint64_t submitted, start, end, usual_ns; // submitted: at the latest, if the timeline has a guess
    std::vector<Link> chain = {};             // by time: the longest
    uint64_t more_links = 0, more_ns = 0;     // those that are left out
    std::array<uint64_t, causes> sums = {};   // ns of each cause, of all links
    Cause cause = Cause::unknown;
    std::string sentence = "";
    uint64_t late_ns() const { return end - submitted > usual_ns ? end - submitted - usual_ns : 0; }
};

// Tasks whose submission the timeline does not know; or only between two moments, so that they were late or not.
struct Unknown {
    size_t tasks = 0, guessed = 0;
};

// The tasks that were surely late by more than that; `only`: no others than this function's; empty: all.
std::vector<Late> causes_find(const nlohmann::ordered_json &timeline, const Record &record, uint64_t late_ns,
                              const std::string &only, Unknown &unknown);

#endif
