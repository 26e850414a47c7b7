// See causes.hpp.
#include "causes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

using nlohmann::ordered_json;

namespace {

constexpr uint64_t fault_ns = 100000;     // so soon after its beginning a page fault's thread has left its CPU
constexpr uint64_t least_ns = 20000;      // shorter causes are not shown
constexpr uint64_t quota_ns = 100000000;  // a period of a quota
constexpr uint64_t throttle_ns = 3000000; // the cgroup's numbers are read so late at most

struct Slice {
    uint64_t from, until;
    std::string category, name;
    const ordered_json *arguments;
    mutable std::vector<Link> links; // what a task waits for that has all of it ahead; empty: not found yet
};

struct Thread {
    std::string name;
    std::vector<Slice> slices;   // by beginning, the longer first
    std::vector<uint64_t> reach; // of each, how far it and those before it go
    // The first that may go beyond that time: none before it does.
    std::vector<Slice>::const_iterator beyond(uint64_t when) const {
        return slices.begin() + (std::upper_bound(reach.begin(), reach.end(), when) - reach.begin());
    }
};

uint64_t ns_of(const ordered_json &us) { return static_cast<uint64_t>(std::llround(us.get<double>() * 1000)); }
uint64_t overlap(uint64_t from, uint64_t until, uint64_t a, uint64_t b) {
    uint64_t first = std::max(from, a), last = std::min(until, b);
    return last > first ? last - first : 0;
}

std::string number(double value, const char *unit) {
    std::array<char, 48> text{};
    snprintf(text.data(), text.size(), value < 10 ? "%.2f %s" : "%.1f %s", value, unit);
    return text.data();
}
std::string length(uint64_t ns) {
    return ns < 1000000 ? number(static_cast<double>(ns) / 1e3, "us") : number(static_cast<double>(ns) / 1e6, "ms");
}

// Each text once, for ever: thousands of late tasks have the same.
const std::string *the_text(const std::string &text) {
    static std::unordered_set<std::string> texts;
    return &*texts.insert(text).first;
}

class Story {
    const Record &record;
    const std::map<uint32_t, Thread> &threads;
    std::vector<Link> chain;
    std::vector<Link> *pieces = &chain; // to which links are added

    void add(const Link &link) {
        constexpr uint64_t touching_ns = 2000; // from one to the next the worker looks for it
        if (link.until <= link.from) return;
        bool goes_on = !pieces->empty() && pieces->back().cause == link.cause && pieces->back().text == link.text &&
                       link.from <= pieces->back().until + touching_ns && link.from >= pieces->back().from;
        if (!goes_on) {
            pieces->push_back(link);
            return;
        }
        pieces->back().until = std::max(pieces->back().until, link.until);
        pieces->back().times += link.times;
    }
    void add(Cause cause, uint64_t from, uint64_t until, const std::string &text) {
        if (until > from) add(Link{cause, from, until, the_text(text)});
    }

    std::string name_of(uint32_t tid) const {
        auto own = record.process.find(tid);
        uint32_t pid = own == record.process.end() ? tid : own->second;
        auto name = record.names.find(tid);
        if (name == record.names.end()) name = record.names.find(pid);
        return (name == record.names.end() ? std::string("a process") : name->second) + " (pid " + std::to_string(pid) + ")";
    }

    // Who had that CPU most of the time; 0: nobody.
    uint32_t holder(uint32_t cpu, uint64_t from, uint64_t until) const {
        std::map<uint32_t, uint64_t> held;
        if (cpu >= record.cpus.size()) return 0;
        const std::vector<Run> &runs = record.cpus[cpu];
        auto at =
            std::upper_bound(runs.begin(), runs.end(), from, [](uint64_t when, const Run &run) { return when < run.from; });
        if (at != runs.begin()) --at;
        for (; at != runs.end() && at->from < until; ++at) held[at->tid] += overlap(from, until, at->from, at->until);
        uint32_t most = 0;
        uint64_t sum = 0;
        for (const auto &one : held) {
            sum += one.second;
            if (most == 0 || one.second > held[most]) most = one.first;
        }
        return 2 * sum >= until - from ? most : 0;
    }

    uint64_t throttled(uint64_t from, uint64_t until) const {
        auto at = [&](uint64_t when) {
            uint64_t total = record.throttles.empty() ? 0 : record.throttles.front().total_ns;
            for (const Throttle &one : record.throttles) {
                if (one.when > when) break;
                total = one.total_ns;
            }
            return total;
        };
        return at(until + throttle_ns) - at(from);
    }

    bool was_stopped(uint64_t from, uint64_t until) const {
        uint64_t sum = 0;
        for (const Span &stop : record.stops) sum += overlap(from, until, stop.from, stop.until);
        return 2 * sum >= until - from;
    }

    // The last of the times up to that one; 0: none.
    static uint64_t last_until(const std::map<uint32_t, std::vector<uint64_t>> &all, uint32_t tid, uint64_t until) {
        auto times = all.find(tid);
        if (times == all.end()) return 0;
        auto after = std::upper_bound(times->second.begin(), times->second.end(), until);
        return after == times->second.begin() ? 0 : *(after - 1);
    }

    bool in_fault(uint32_t tid, uint64_t left) const {
        uint64_t began = last_until(record.faults, tid, left);
        return began != 0 && left - began < fault_ns && last_until(record.served, tid, left) < began;
    }

    // Ready, with nobody on its CPU, in a cgroup that was throttled about then: the system's numbers come late.
    bool is_held_back(const Away &away) const {
        return away.is_ready && record.sees_others && holder(away.cpu, away.from, away.until) == 0 &&
               throttled(away.from, away.until + quota_ns) > 0;
    }

    Link away_link(uint32_t tid, const Away &away, const std::string &who) const {
        Cause cause = Cause::unknown;
        std::string text;
        if (was_stopped(away.from, away.until)) {
            cause = Cause::stopped;
            text = "the whole process was stopped (SIGSTOP or a debugger)";
        } else if (2 * throttled(away.from, away.until) >= away.until - away.from || is_held_back(away)) {
            cause = Cause::throttled;
            text = who + " was throttled by its cgroup's quota";
        } else if (away.is_ready) {
            uint32_t other = holder(away.cpu, away.from, away.until);
            cause = Cause::preempted;
            text = who + (away.is_woken ? " was woken, but got no CPU" : " was preempted") +
                   (other != 0 ? (away.is_woken ? ": " : " by ") + name_of(other) +
                                     (away.is_woken ? " had CPU " : " on CPU ") + std::to_string(away.cpu)
                    : record.sees_others ? ""
                                         : ", this user may not see by whom");
        } else if (in_fault(tid, away.from)) {
            cause = Cause::fault;
            text = who + " waited in a page fault";
        } else {
            cause = Cause::asleep;
            text = who + " slept inside the task, in a system call" +
                   (record.sees_wakes ? "" : ", or was awake again and waited for a CPU");
        }
        return {cause, away.from, away.until, the_text(text)};
    }

    std::string thread_name(uint32_t tid) const {
        auto thread = threads.find(tid);
        return thread == threads.end() ? "thread " + std::to_string(tid) : thread->second.name;
    }

    // What kept the thread from running in that time: its own links.
    std::vector<Link> losses(uint32_t tid, uint64_t from, uint64_t until) const {
        std::vector<Link> links;
        auto all = record.away.find(tid);
        if (all == record.away.end()) return links;
        auto first = std::partition_point(all->second.begin(), all->second.end(),
                                          [from](const Away &away) { return away.until <= from; });
        for (; first != all->second.end() && first->from < until; ++first) {
            const Away &away = *first;
            if (overlap(from, until, away.from, away.until) < least_ns) continue;
            Link link = away_link(tid, away, thread_name(tid));
            link.from = std::max(from, away.from);
            link.until = std::min(until, away.until);
            links.push_back(link);
        }
        return links;
    }

    uint64_t add_losses(uint32_t tid, uint64_t from, uint64_t until) {
        uint64_t sum = 0;
        for (const Link &link : losses(tid, from, until)) {
            add(link);
            sum += link.ns();
        }
        return sum;
    }

    // It had been sent a wake.
    void add_waking(uint32_t tid, uint64_t sent, uint64_t until) {
        const Away *last = nullptr;
        auto all = record.away.find(tid);
        for (size_t i = 0; all != record.away.end() && i < all->second.size(); i++)
            if (overlap(sent, until, all->second[i].from, all->second[i].until) > 0) last = &all->second[i];
        uint32_t other = last == nullptr ? 0 : holder(last->cpu, sent, until);
        const std::string who = thread_name(tid);
        if (was_stopped(sent, until))
            add(Cause::stopped, sent, until, "the whole process was stopped (SIGSTOP or a debugger)");
        else if (2 * throttled(sent, until) >= until - sent)
            add(Cause::throttled, sent, until, who + " was throttled by its cgroup's quota");
        else if (other != 0 && other != tid)
            add(Cause::preempted, sent, until,
                who + " was woken, but " + name_of(other) + " had CPU " + std::to_string(last->cpu));
        else if (!record.sees_others)
            add(Cause::unknown, sent, until,
                who + " slept: the wake was sent, and it ran so late; whether another program had the CPU is not seen");
        else
            add(Cause::wake, sent, until, who + " slept: the wake was sent, and arrived so late");
    }

    // It ran something else. What that one lost is told in its place, the rest as its own.
    void add_behind(uint32_t tid, const Slice &slice, uint64_t from, uint64_t until) {
        const std::string behind = "queued behind " + slice.name + " on " + thread_name(tid);
        std::vector<Link> lost = losses(tid, from, until);
        uint64_t at = from;
        for (const Link &link : lost) {
            add(Cause::queued, at, link.from, behind);
            add(link.cause, link.from, link.until, behind + ", where " + *link.text);
            at = link.until;
        }
        add(Cause::queued, at, until, behind);
    }

    // A whole slice's links are found once, for all the tasks that waited behind it.
    void add_slice(uint32_t tid, const Slice &slice, uint64_t from, uint64_t until) {
        if (from != slice.from || until != slice.until) {
            find_links(tid, slice, from, until);
            return;
        }
        if (slice.links.empty()) {
            pieces = &slice.links;
            find_links(tid, slice, from, until);
            pieces = &chain;
        }
        for (const Link &link : slice.links) add(link);
    }

    void find_links(uint32_t tid, const Slice &slice, uint64_t from, uint64_t until) {
        if (slice.name == "parked")
            add(Cause::wake, from, until, thread_name(tid) + " slept, and nobody sent a wake");
        else if (slice.name == "waking")
            add_waking(tid, from, until);
        else if (slice.name == "waiting")
            add(Cause::caller, from, until, thread_name(tid) + " slept in a wait");
        else
            add_behind(tid, slice, from, until);
    }

  public:
    Story(const Record &what, const std::map<uint32_t, Thread> &all) : record(what), threads(all) {}

    // The task waited for its thread, from its submission on.
    void queue(uint32_t tid, uint64_t from, uint64_t until) {
        uint64_t at = from;
        auto thread = threads.find(tid);
        if (thread == threads.end()) return;
        for (auto next = thread->second.beyond(from); next != thread->second.slices.end(); ++next) {
            const Slice &slice = *next;
            if (slice.from >= until) break;
            if (slice.until <= at || slice.from == slice.until) continue;
            if (slice.from <= from && slice.until >= until && slice.category == "task") continue; // it waits inside that one
            idle(tid, at, std::max(at, slice.from));
            add_slice(tid, slice, std::max(at, slice.from), std::min(until, slice.until));
            at = std::max(at, std::min(until, slice.until));
        }
        idle(tid, at, until);
    }

    // It ran nothing that is recorded.
    void idle(uint32_t tid, uint64_t from, uint64_t until) {
        if (until < from + least_ns) return;
        const std::string who = thread_name(tid);
        uint64_t sum = 0;
        for (const Link &link : losses(tid, from, until)) {
            bool slept = link.cause == Cause::asleep;
            add(slept ? Cause::unknown : link.cause, link.from, link.until,
                slept ? who + " slept in a system call, outside of tasks" : *link.text);
            sum += link.ns();
        }
        if (sum > 0) return;
        bool is_outside = who.compare(0, 7, "outside") == 0;
        add(is_outside ? Cause::caller : Cause::unknown, from, until,
            is_outside ? who + ", which ran it in the end, did something else of its own"
                       : who + " ran it late, for an unknown reason");
    }

    void run(uint32_t tid, uint64_t from, uint64_t until, uint64_t usual_ns) {
        uint64_t lost = add_losses(tid, from, until);
        uint64_t own = until - from - std::min(lost, until - from);
        if (own > usual_ns + least_ns)
            add(Cause::long_itself, until - (own - usual_ns), until,
                "it ran so much longer than such tasks do (" + length(usual_ns) + ")");
    }

    std::vector<Link> take() {
        std::stable_sort(chain.begin(), chain.end(), [](const Link &a, const Link &b) { return a.from < b.from; });
        return std::move(chain);
    }
};

std::map<uint32_t, Thread> read_threads(const ordered_json &timeline) {
    std::map<uint32_t, Thread> threads;
    for (const ordered_json &event : timeline.at("traceEvents")) {
        uint32_t tid = event.at("tid");
        if (event.at("name") == "thread_name") threads[tid].name = event.at("args").at("name");
        if (event.at("ph") != "X") continue;
        uint64_t from = ns_of(event.at("ts"));
        auto arguments = event.find("args");
        threads[tid].slices.push_back({from,
                                       from + ns_of(event.at("dur")),
                                       event.at("cat"),
                                       event.at("name"),
                                       arguments == event.end() ? nullptr : &*arguments,
                                       {}});
    }
    for (auto &[tid, thread] : threads) {
        std::stable_sort(thread.slices.begin(), thread.slices.end(), [](const Slice &a, const Slice &b) {
            return a.from != b.from ? a.from < b.from : a.until > b.until;
        });
        for (const Slice &slice : thread.slices)
            thread.reach.push_back(std::max(slice.until, thread.reach.empty() ? 0 : thread.reach.back()));
    }
    return threads;
}

std::map<std::string, uint64_t> usual_times(const std::map<uint32_t, Thread> &threads) {
    std::map<std::string, std::vector<uint64_t>> times;
    std::map<std::string, uint64_t> usual;
    for (const auto &thread : threads)
        for (const Slice &slice : thread.second.slices)
            if (slice.category == "task") times[slice.name].push_back(slice.until - slice.from);
    for (auto &one : times) {
        auto middle = one.second.begin() + static_cast<ptrdiff_t>(one.second.size() / 4); // some are late
        std::nth_element(one.second.begin(), middle, one.second.end());
        usual[one.first] = *middle;
    }
    return usual;
}

// The longest stay, by time. Short ones are not shown.
void shorten(Late &late) {
    constexpr size_t most = 16;
    auto shown = std::remove_if(late.chain.begin(), late.chain.end(), [](const Link &link) { return link.ns() < least_ns; });
    late.chain.erase(shown, late.chain.end());
    if (late.chain.size() <= most) return;
    auto end = late.chain.begin() + most;
    std::nth_element(late.chain.begin(), end, late.chain.end(),
                     [](const Link &a, const Link &b) { return a.ns() > b.ns(); });
    for (auto link = end; link != late.chain.end(); ++link) late.more_ns += link->ns();
    late.more_links = late.chain.size() - most;
    late.chain.erase(end, late.chain.end());
    std::sort(late.chain.begin(), late.chain.end(), [](const Link &a, const Link &b) { return a.from < b.from; });
}

struct Share {
    Cause cause;
    uint64_t ns, times;
};

// The cause that took longest in all its links, and what of it did.
void judge(Late &late) {
    std::array<uint64_t, causes> &sums = late.sums;
    std::unordered_map<const std::string *, Share> shares; // a text has one cause
    for (const Link &link : late.chain) {
        Share &share = shares.try_emplace(link.text, Share{link.cause, 0, 0}).first->second;
        share.ns += link.ns();
        share.times += link.times;
        sums[static_cast<size_t>(link.cause)] += link.ns();
    }
    late.cause = static_cast<Cause>(std::max_element(sums.begin(), sums.end()) - sums.begin());
    uint64_t sum = sums[static_cast<size_t>(late.cause)];
    const std::pair<const std::string *const, Share> *longest = nullptr;
    for (const auto &share : shares) {
        if (share.second.cause != late.cause) continue;
        bool is_longer = longest == nullptr || share.second.ns > longest->second.ns ||
                         (share.second.ns == longest->second.ns && *share.first < *longest->first);
        if (is_longer) longest = &share;
    }
    late.sentence = late.task + " ended " + length(late.late_ns()) + " late";
    if (longest == nullptr || sum < least_ns) {
        late.cause = Cause::unknown;
        late.sentence += ", and nothing tells why.";
        return;
    }
    late.sentence += ": for " + length(longest->second.ns) + " of it " + *longest->first;
    if (longest->second.times > 1) late.sentence += " (" + std::to_string(longest->second.times) + " times)";
    if (sum > longest->second.ns + least_ns)
        late.sentence += std::string("; ") + cause_name(late.cause) + " in all: " + length(sum);
    late.sentence += ".";
}

} // namespace

const char *cause_name(Cause cause) {
    static const std::array<const char *, causes> names = {"queued",    "long itself", "task slept", "wake",   "preempted",
                                                           "throttled", "stopped",     "page fault", "caller", "unknown"};
    return names[static_cast<size_t>(cause)];
}

std::vector<Late> causes_find(const ordered_json &timeline, const Record &record, uint64_t late_ns, const std::string &only,
                              Unknown &unknown) {
    std::map<uint32_t, Thread> threads = read_threads(timeline);
    std::map<std::string, uint64_t> usual = usual_times(threads);
    std::vector<Late> all;
    for (const auto &thread : threads)
        for (const Slice &slice : thread.second.slices) {
            if (slice.category != "task" || (!only.empty() && slice.name != only)) continue;
            bool is_known = slice.arguments != nullptr && slice.arguments->contains("submitted");
            uint64_t guess_ns = 0; // it was submitted so much later, or earlier than that: a pause is no delay
            if (!is_known) unknown.tasks++;
            Late late{slice.name, thread.first, 0, slice.from, slice.from, slice.until, usual[slice.name]};
            if (is_known) {
                if (slice.arguments->contains("later_us")) guess_ns = ns_of(slice.arguments->at("later_us"));
                late.submitted = std::min(ns_of(slice.arguments->at("submitted")) + guess_ns, slice.from);
                late.submitter = slice.arguments->at("submitter");
            }
            bool is_late = late.late_ns() > late_ns;
            if (!is_late && late.end - late.submitted + guess_ns > late.usual_ns + late_ns) unknown.guessed++;
            if (!is_late && only.empty()) continue;
            Story story(record, threads);
            story.queue(thread.first, late.submitted, late.start);
            story.run(thread.first, late.start, late.end, late.usual_ns);
            late.chain = story.take();
            judge(late);
            shorten(late);
            all.push_back(std::move(late));
        }
    std::sort(all.begin(), all.end(), [](const Late &a, const Late &b) { return a.submitted < b.submitted; });
    return all;
}
