// `weft why`: runs a program or reads its timeline, and tells.
#include "causes.hpp"
#include "timeline.hpp"
#include "why.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

using nlohmann::ordered_json;

namespace {

constexpr uint32_t track_id = 0x7fff0000; // of what is not a thread; no system numbers threads so high
constexpr uint64_t around_ns = 1000000;
constexpr int unsure_status = 3;

double us_of(uint64_t ns) { return static_cast<double>(ns) / 1000; }

// For the files of a program's pools: gone with the object.
class Temporary {
    std::string name;

  public:
    Temporary() {
        const char *directory = getenv("TMPDIR");
        name = std::string(directory == nullptr ? "/tmp" : directory) + "/weft-why-XXXXXX";
        if (mkdtemp(name.data()) == nullptr) throw std::runtime_error(name + ": no directory can be made");
    }
    ~Temporary() {
        std::error_code ignored;
        std::filesystem::remove_all(name, ignored);
    }
    Temporary(const Temporary &) = delete;
    Temporary &operator=(const Temporary &) = delete;
    const std::string &path() const { return name; }
};

int shell_status(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

Source source_of(const std::string &name) {
    return name == "all" ? Source::all : name == "own" ? Source::own : name == "proc" ? Source::proc : Source::best;
}

std::string ended(int status) {
    return WIFSIGNALED(status)
               ? "was killed by signal " + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) + ")"
               : "has ended with status " + std::to_string(WEXITSTATUS(status));
}

// Runs the program. Its files are gone when this returns, so that nothing which happens later can leave them.
Timeline run(const WhyOptions &options, Record &record, int &status) {
    Timeline timeline;
    {
        Signals signals;
        Temporary own;
        status = record_run({options.command, own.path(), source_of(options.source)}, signals, record);
        timeline = timeline_of_directory(own.path());
    }
    Signals::heed();
    if (status != 0) fprintf(stderr, "weft: %s %s\n", options.command[0].c_str(), ended(status).c_str());
    return timeline;
}

std::string tell(const Record &record) {
    return record.source.empty() ? "the timeline alone; for the kernel's events, let weft why run the program"
                                 : record.source;
}

// The longest links, by time.
constexpr size_t shown_links = 8;
std::vector<Link> longest(std::vector<Link> chain) {
    std::stable_sort(chain.begin(), chain.end(), [](const Link &a, const Link &b) { return a.ns() > b.ns(); });
    if (chain.size() > shown_links) chain.resize(shown_links);
    std::stable_sort(chain.begin(), chain.end(), [](const Link &a, const Link &b) { return a.from < b.from; });
    return chain;
}

void print_link(const Link &link, uint64_t submitted) {
    printf("%27s+ %8.1f us %8.1f us  %s: %s", "", us_of(link.from - submitted), us_of(link.ns()), cause_name(link.cause),
           link.text->c_str());
    if (link.times > 1) printf(" (%llu times)", static_cast<unsigned long long>(link.times));
    printf("\n");
}

// What limits the verdict.
void print_limits(const Timeline &timeline, const Record &record, const Unknown &unknown) {
    printf("The kernel's side: %s.\n", tell(record).c_str());
    if (record.lost > 0) printf("%llu records of it are lost.\n", static_cast<unsigned long long>(record.lost));
    if (timeline.lost > 0)
        printf(
            "%llu events of the program's threads are lost: each keeps its newest %llu (WEFT_TRACE_EVENTS). This is about "
            "the rest only.\n",
            static_cast<unsigned long long>(timeline.lost), static_cast<unsigned long long>(timeline.kept));
    if (timeline.unfinished > 0)
        printf("%zu pools have written no timeline: they were not destroyed. Of their tasks nothing is known.\n",
               timeline.unfinished);
    if (unknown.tasks > 0)
        printf("%zu tasks' submissions are not known (the recording is younger, or full).\n", unknown.tasks);
    if (unknown.guessed > 0)
        printf("%zu tasks were late, or were submitted so late: the timeline has a guess. They are left out.\n",
               unknown.guessed);
}

void print(const std::vector<Late> &all, const WhyOptions &options, bool is_sure) {
    if (all.empty()) printf("No task%s was late by more than %.0f us.\n", is_sure ? "" : " that is known", options.late_us);
    std::map<Cause, size_t> counts;
    for (const Late &late : all) counts[late.cause]++;
    for (const auto &count : counts) printf("%8zu  %s\n", count.second, cause_name(count.first));
    std::vector<const Late *> worst;
    worst.reserve(all.size());
    for (const Late &late : all) worst.push_back(&late);
    std::stable_sort(worst.begin(), worst.end(), [](const Late *a, const Late *b) { return a->late_ns() > b->late_ns(); });
    if (worst.size() > options.rows) worst.resize(options.rows);
    if (!worst.empty()) printf("\n%12s %10s %10s %10s  %s\n", "submitted s", "queued us", "ran us", "late us", "why");
    for (const Late *late : worst) {
        printf("%12.6f %10.1f %10.1f %10.1f  %s\n", static_cast<double>(late->submitted) / 1e9,
               us_of(late->start - late->submitted), us_of(late->end - late->start), us_of(late->late_ns()),
               late->sentence.c_str());
        for (const Link &link : longest(late->chain)) print_link(link, late->submitted);
        size_t more = late->chain.size() + late->more_links;
        if (more > shown_links) printf("%27s  and %zu shorter ones\n", "", more - shown_links);
    }
}

ordered_json json_of(const std::vector<Late> &all, const Timeline &timeline, const Record &record, const Unknown &unknown) {
    ordered_json out = {{"source", tell(record)},
                        {"records_lost", record.lost},
                        {"events_lost", timeline.lost},
                        {"pools_unfinished", timeline.unfinished},
                        {"submissions_unknown", unknown.tasks},
                        {"submissions_guessed", unknown.guessed},
                        {"late", ordered_json::array()}};
    for (const Late &late : all) {
        ordered_json one = {{"task", late.task},
                            {"thread", late.thread},
                            {"submitter", late.submitter},
                            {"submitted_us", us_of(late.submitted)},
                            {"queued_us", us_of(late.start - late.submitted)},
                            {"ran_us", us_of(late.end - late.start)},
                            {"late_us", us_of(late.late_ns())},
                            {"cause", cause_name(late.cause)},
                            {"sentence", late.sentence},
                            {"chain", ordered_json::array()}};
        for (size_t i = 0; i < causes; i++)
            if (late.sums[i] > 0) one["causes_us"][cause_name(static_cast<Cause>(i))] = us_of(late.sums[i]);
        for (const Link &link : late.chain)
            one["chain"].push_back({{"cause", cause_name(link.cause)},
                                    {"at_us", us_of(link.from)},
                                    {"us", us_of(link.ns())},
                                    {"times", link.times},
                                    {"what", *link.text}});
        if (late.more_links > 0) one["more"] = {{"links", late.more_links}, {"us", us_of(late.more_ns)}};
        out["late"].push_back(std::move(one));
    }
    return out;
}

// ---- tracks

ordered_json slice(uint32_t pid, uint32_t tid, uint64_t from, uint64_t until, const std::string &name) {
    return {{"ph", "X"},    {"pid", pid},  {"tid", tid}, {"ts", us_of(from)}, {"dur", us_of(until - from)},
            {"cat", "why"}, {"name", name}};
}
ordered_json meta(uint32_t pid, uint32_t tid, const char *what, const std::string &name) {
    return {{"ph", "M"}, {"pid", pid}, {"tid", tid}, {"name", what}, {"args", {{"name", name}}}};
}

// Late tasks that overlap have tracks of their own: as many as are late at once.
void add_late(ordered_json &events, const std::vector<Late> &all) {
    std::vector<uint64_t> ends;
    events.push_back(meta(track_id, track_id, "process_name", "late, and why"));
    for (const Late &late : all) {
        size_t lane = 0;
        while (lane < ends.size() && ends[lane] > late.submitted) lane++;
        if (lane == ends.size()) {
            ends.push_back(0);
            events.push_back(
                meta(track_id, track_id + 1 + static_cast<uint32_t>(lane), "thread_name", "late " + std::to_string(lane)));
        }
        uint32_t tid = track_id + 1 + static_cast<uint32_t>(lane);
        ends[lane] = late.end;
        ordered_json whole = slice(track_id, tid, late.submitted, late.end, late.task + ": " + cause_name(late.cause));
        whole["args"] = {{"sentence", late.sentence}};
        events.push_back(std::move(whole));
        uint64_t at = late.submitted;
        for (const Link &link : late.chain) { // they may touch, and one may be longer than the next
            uint64_t from = std::max(at, link.from), until = std::min(link.until, late.end);
            if (until <= from) continue;
            events.push_back(slice(track_id, tid, from, until, *link.text));
            at = until;
        }
    }
}

// Who had the CPUs about then.
void add_cpus(ordered_json &events, const std::vector<Late> &all, const Record &record) {
    for (size_t cpu = 0; cpu < record.cpus.size() && record.sees_others; cpu++) {
        uint32_t tid = track_id + 0x8000 + static_cast<uint32_t>(cpu);
        events.push_back(meta(track_id, tid, "thread_name", "CPU " + std::to_string(cpu)));
        std::set<uint64_t> shown;
        for (const Late &late : all)
            for (const Run &run : record.cpus[cpu]) {
                if (run.until + around_ns < late.submitted || run.from > late.end + around_ns ||
                    !shown.insert(run.from).second)
                    continue;
                auto name = record.names.find(run.tid);
                events.push_back(
                    slice(track_id, tid, run.from, run.until,
                          (name == record.names.end() ? "thread" : name->second) + " " + std::to_string(run.tid)));
            }
    }
}

void write_file(const std::string &file, const ordered_json &json, int indent) {
    std::ofstream out(file);
    out << json.dump(indent, ' ', false, ordered_json::error_handler_t::replace) << "\n";
    out.flush();
    if (!out) throw std::runtime_error(file + ": it takes not all");
}

// That a name is mistyped looks like a program without late tasks.
void require_task(const ordered_json &timeline, const std::string &task) {
    for (const auto &event : timeline["traceEvents"])
        if (event.value("cat", "") == "task" && event.value("name", "") == task) return;
    throw std::runtime_error("the timeline has no task of a function " + task);
}

} // namespace

int why_main(const WhyOptions &options) {
    if (options.command.empty() == options.timeline.empty()) {
        fprintf(stderr, "weft: give either a program to run or --timeline FILE\n");
        return 2;
    }
    Record record;
    int status = 0;
    Timeline timeline = options.command.empty() ? timeline_of_file(options.timeline) : run(options, record, status);
    if (timeline.json.is_null()) {
        fprintf(stderr,
                "weft: the program has written no timeline: it makes no pool, ends none%s, or does not call "
                "weft_config_from_env\n",
                WIFSIGNALED(status) ? " when it is killed" : "");
        return status == 0 ? 1 : shell_status(status);
    }
    if (!options.task.empty()) require_task(timeline.json, options.task);
    Unknown unknown;
    auto late_ns = static_cast<uint64_t>(options.late_us * 1000);
    std::vector<Late> all = causes_find(timeline.json, record, late_ns, options.task, unknown);
    bool is_sure = timeline.lost == 0 && timeline.unfinished == 0;
    print_limits(timeline, record, unknown);
    print(all, options, is_sure && unknown.guessed == 0);
    if (!options.json_file.empty()) write_file(options.json_file, json_of(all, timeline, record, unknown), 1);
    if (!options.perfetto_file.empty()) {
        add_late(timeline.json["traceEvents"], all);
        add_cpus(timeline.json["traceEvents"], all, record);
        write_file(options.perfetto_file, timeline.json, -1);
    }
    return status == 0 && !is_sure ? unsure_status : shell_status(status);
}
