// run.cpp: `weft chunks run`: a worker whose chunks are programs.
//
// One thread claims, starts and waits for children by pidfd; another renews the lease. A program that fails, or dies, has failed its
// chunk; one whose chunk has gone to another worker is ended. SIGINT, SIGTERM and SIGHUP end the programs, give their chunks back
// and end the worker: what a program that was told to end returns then says nothing, 0 too. When the worker itself is killed, the
// kernel kills its programs. What the system refuses the worker is not the chunk's failure: that is given back, and the worker ends.
#include "chunks.hpp"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <memory>
#include <poll.h>
#include <random>
#include <spawn.h>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <system_error>
#include <time.h>
#include <unistd.h>
#include <weft_chunks.h>

namespace {

// The worker cannot go on, and nothing has failed: as EX_TEMPFAIL of sysexits.h.
const int EXIT_WORKER = 75;

uint64_t now_ms() {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000 + static_cast<uint64_t>(now.tv_nsec) / 1000000;
}

struct Child {
    weft_chunk chunk = {};
    pid_t pid = -1;
    int fd = -1; // readable when it has ended
    std::string written, output;
    uint64_t since_ms = 0;
    bool is_lost = false, is_over_limit = false;
};

// How a program's run has ended.
struct Outcome {
    int error = 0;  // the program's
    int number = 0; // errno of what it has left, or of what the system has refused
    bool is_given_back = false;
};

// Where {word} stands its text is put; other braces stay.
std::string replaced(const std::string &text, const std::map<std::string, std::string> &words) {
    std::string result;
    for (size_t at = 0; at < text.size();) {
        size_t end = text[at] == '{' ? text.find('}', at) : std::string::npos;
        auto found = end == std::string::npos ? words.end() : words.find(text.substr(at + 1, end - at - 1));
        result += found == words.end() ? text.substr(at, 1) : found->second;
        at = found == words.end() ? at + 1 : end + 1;
    }
    return result;
}

class Worker {
    const ChunksOptions &options;
    weft_chunks *queue = nullptr;
    weft_chunks_plan plan = {};
    std::vector<Child> children;
    sigset_t old_signals;
    int signals = -1;
    uint64_t token;
    struct sigaction old_pipe;
    std::unique_ptr<Keeper> keeper;
    uint64_t looked_ms = 0, shown_ms = 0, start_ms = now_ms();
    size_t done_at_start = 0;
    int ending = WEFT_OK; // why no more is claimed
    int signal_number = 0;
    size_t kept = 0; // chunks that could not be given back
    bool has_shown = false;

    void start(const weft_chunk &chunk);
    [[noreturn]] void become(pid_t parent, char **arguments);
    void claim();
    void give_back(const Child &child);
    void place(Child &child, Outcome &outcome);
    Outcome outcome_of(Child &child, int status);
    void say_end(const Child &child, const Outcome &outcome, int status) const;
    void finish(Child &child, int status);
    void end_children(int number);
    void hear_signals();
    void look_after();
    void wait();
    void end_late();
    void look_for_losses();
    void show(bool at_end);

  public:
    explicit Worker(const ChunksOptions &options_given);
    ~Worker();
    Worker(const Worker &) = delete;
    Worker &operator=(const Worker &) = delete;
    int run();
};

Worker::Worker(const ChunksOptions &options_given) : options(options_given) {
    std::random_device random;
    token = (static_cast<uint64_t>(random()) << 32) | random();
    sigset_t caught;
    sigemptyset(&caught);
    for (int number : {SIGINT, SIGTERM, SIGHUP}) {
        struct sigaction asked;
        bool is_ignored = sigaction(number, nullptr, &asked) == 0 && asked.sa_handler == SIG_IGN; // as nohup has it
        if (!is_ignored) sigaddset(&caught, number);
    }
    sigprocmask(SIG_BLOCK, &caught, &old_signals);
    // Nobody reads the messages any more: the work goes on.
    struct sigaction ignored = {};
    ignored.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignored, &old_pipe);
    signals = signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0) throw std::runtime_error(std::string("signalfd: ") + strerror(errno));
}

Worker::~Worker() {
    end_children(SIGKILL);
    keeper.reset();
    if (queue != nullptr) weft_chunks_close(&queue);
    close(signals);
}

// In the child, where the thread that renews is not. The worker may be process 1 itself, as a container's.
void Worker::become(pid_t parent, char **arguments) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127); // it died before
    setpgid(0, 0);
    // Programs would share the worker's input, and be stopped for reading from its terminal.
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0) {
        fprintf(stderr, "weft chunks: /dev/null: %s\n", strerror(errno));
        _exit(127);
    }
    if (nothing != STDIN_FILENO) close(nothing);
    sigaction(SIGPIPE, &old_pipe, nullptr);
    sigprocmask(SIG_SETMASK, &old_signals, nullptr);
    execvp(arguments[0], arguments);
    fprintf(stderr, "weft chunks: %s: %s\n", arguments[0], strerror(errno));
    _exit(127);
}

void Worker::start(const weft_chunk &chunk) {
    Child child;
    child.chunk = chunk;
    std::map<std::string, std::string> words = {{"begin", std::to_string(chunk.begin)},
                                                {"end", std::to_string(chunk.end)},
                                                {"last", std::to_string(chunk.end - 1)},
                                                {"count", std::to_string(chunk.end - chunk.begin)},
                                                {"chunk", std::to_string(chunk.index)}};
    if (!options.output.empty()) {
        child.output = replaced(options.output, words);
        child.written = words["output"] = output_part(child.output, token, chunk.record);
    }
    std::vector<std::string> texts;
    texts.reserve(options.program.size());
    std::vector<char *> arguments;
    for (const std::string &word : options.program) texts.push_back(replaced(word, words));
    for (std::string &text : texts) arguments.push_back(&text[0]);
    arguments.push_back(nullptr);
    fflush(nullptr);
    const pid_t self = getpid();
    child.pid = fork();
    if (child.pid == 0) become(self, arguments.data());
    child.since_ms = now_ms();
    child.fd = child.pid < 0 ? -1 : static_cast<int>(syscall(SYS_pidfd_open, child.pid, 0));
    if (child.fd < 0) {
        fprintf(stderr, "\nweft chunks: no process for chunk %zu: %s\n", chunk.index, strerror(errno));
        if (child.pid > 0) kill(child.pid, SIGKILL), waitpid(child.pid, nullptr, 0);
        weft_chunks_release(queue, &chunk);
        ending = WEFT_EAGAIN;
        return;
    }
    children.push_back(child);
}

void Worker::claim() {
    while (ending == WEFT_OK && children.size() < options.jobs) {
        weft_chunk chunk;
        int error = weft_chunks_claim(queue, &chunk);
        if (error == WEFT_CHUNKS_BUSY) return;
        if (error == WEFT_OK)
            start(chunk);
        else
            ending = error;
        if (error == WEFT_CHUNKS_SYSTEM || error == WEFT_ENOMEM) chunks_fail("no chunk can be claimed", error);
    }
}

// The program's group, once it has made one.
void end_child(const Child &child, int number) { kill(-child.pid, number) == 0 || kill(child.pid, number); }

void Worker::end_children(int number) {
    for (const Child &child : children) end_child(child, number);
}

void Worker::give_back(const Child &child) {
    int error = weft_chunks_release(queue, &child.chunk);
    if (error == WEFT_OK || error == WEFT_CHUNKS_LOST) return;
    kept++;
    chunks_fail("a chunk cannot be given back", error);
}

// The program has succeeded. What it has left gets its name, on disk; or outcome.number or child.is_lost says why not.
void Worker::place(Child &child, Outcome &outcome) {
    if (!output_sync(child.written)) {
        outcome.number = errno;
        outcome.is_given_back = errno != ENOENT; // that one is the program's
        return;
    }
    int error = weft_chunks_check(queue, &child.chunk);
    child.is_lost = error == WEFT_CHUNKS_LOST;
    if (child.is_lost) return;
    if (error != WEFT_OK)
        outcome.number = EIO;
    else if (!output_clear(child.output, child.chunk.record) || !output_place(child.written, child.output))
        outcome.number = errno;
    outcome.is_given_back = outcome.number != 0 && !output_is_wrong(outcome.number);
    // Who has it now may have removed the file.
    if (outcome.number != 0) child.is_lost = weft_chunks_check(queue, &child.chunk) == WEFT_CHUNKS_LOST;
}

Outcome Worker::outcome_of(Child &child, int status) {
    Outcome outcome;
    outcome.error = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    outcome.is_given_back = signal_number != 0;
    if (outcome.is_given_back || child.is_lost || child.output.empty()) return outcome;
    if (outcome.error == 0)
        place(child, outcome);
    else if (!child.is_over_limit && output_is_full(child.written))
        outcome.number = ENOSPC, outcome.is_given_back = true;
    return outcome;
}

// The program has ended. That is recorded first, and said then: nobody may read what is said.
void Worker::finish(Child &child, int status) {
    const Outcome outcome = outcome_of(child, status);
    bool is_done = outcome.error == 0 && outcome.number == 0 && !outcome.is_given_back && !child.is_lost;
    int noted = WEFT_OK;
    if (!is_done && !child.written.empty()) unlink(child.written.c_str());
    if (!child.is_lost && !outcome.is_given_back)
        noted = weft_chunks_finish(queue, &child.chunk, is_done ? 0 : std::max(outcome.error, 1));
    if (!child.is_lost && outcome.is_given_back) give_back(child);
    if (!child.is_lost && outcome.is_given_back && signal_number == 0) ending = WEFT_CHUNKS_SYSTEM;
    child.is_lost = child.is_lost || noted == WEFT_CHUNKS_LOST;
    say_end(child, outcome, status);
    if (noted == WEFT_OK || noted == WEFT_CHUNKS_LOST) return;
    chunks_fail("a chunk cannot be finished", noted);
    ending = noted;
}

void Worker::say_end(const Child &child, const Outcome &outcome, int status) const {
    const size_t index = child.chunk.index;
    if (child.is_lost) {
        fprintf(stderr, "\nweft chunks: chunk %zu went to another worker meanwhile\n", index);
        return;
    }
    if (signal_number != 0) return;
    if (outcome.error != 0)
        fprintf(stderr, "\nweft chunks: chunk %zu: %s %s %d\n", index, options.program[0].c_str(),
                child.is_over_limit   ? "was ended, over the limit,"
                : WIFSIGNALED(status) ? "was killed by signal"
                                      : "failed with",
                WIFSIGNALED(status) ? WTERMSIG(status) : outcome.error);
    if (outcome.number == ENOENT && !outcome.is_given_back)
        fprintf(stderr, "\nweft chunks: chunk %zu: the program ended with 0, but there is no {output}, that is %s\n", index,
                child.written.c_str());
    else if (outcome.number != 0)
        fprintf(stderr, "\nweft chunks: chunk %zu: %s: %s%s\n", index, child.written.c_str(), strerror(outcome.number),
                outcome.is_given_back ? "; the chunk was given back" : "");
}

void Worker::end_late() {
    if (options.limit_seconds <= 0) return;
    for (Child &child : children) {
        child.is_over_limit = static_cast<double>(now_ms() - child.since_ms) > options.limit_seconds * 1000;
        if (child.is_over_limit) end_child(child, SIGKILL);
    }
}

// Of the lease, and of chunks that have gone to others.
void Worker::look_for_losses() {
    uint64_t now = now_ms();
    if (now - looked_ms < plan.lease_ms / 4) return;
    looked_ms = now;
    const std::string trouble = keeper->take_trouble();
    if (!trouble.empty()) fprintf(stderr, "\nweft chunks: the lease cannot be renewed: %s\n", trouble.c_str());
    for (Child &child : children) {
        if (weft_chunks_check(queue, &child.chunk) == WEFT_CHUNKS_LOST) child.is_lost = true;
        if (child.is_lost) end_child(child, SIGKILL);
    }
}

void Worker::hear_signals() {
    struct signalfd_siginfo got;
    if (read(signals, &got, sizeof got) != sizeof got) return;
    end_children(signal_number == 0 ? SIGTERM : SIGKILL);
    signal_number = static_cast<int>(got.ssi_signo);
    ending = WEFT_ECANCELED;
}

void Worker::look_after() {
    hear_signals();
    for (size_t i = 0; i < children.size();) {
        int status;
        if (waitpid(children[i].pid, &status, WNOHANG) != children[i].pid) {
            i++;
            continue;
        }
        Child child = children[i];
        children.erase(children.begin() + static_cast<ptrdiff_t>(i));
        close(child.fd);
        hear_signals(); // one that was sent to both may have ended it
        finish(child, status);
    }
}

// Until a program has ended or a signal come; at most until it is to be seen whose the chunks are.
void Worker::wait() {
    std::vector<struct pollfd> fds = {{signals, POLLIN, 0}};
    for (const Child &child : children) fds.push_back({child.fd, POLLIN, 0});
    uint64_t most = std::min<uint64_t>(plan.lease_ms / 8, 500);
    if (options.limit_seconds > 0) most = std::min<uint64_t>(most, 100);
    poll(fds.data(), fds.size(), static_cast<int>(std::max<uint64_t>(most, 10)));
}

void Worker::show(bool at_end) {
    uint64_t now = now_ms();
    size_t counts[4];
    if (options.quiet || (!at_end && (!isatty(STDERR_FILENO) || now - shown_ms < 1000))) return;
    shown_ms = now;
    if (weft_chunks_read(queue, counts) != WEFT_OK) return;
    size_t all = weft_chunks_count(queue), done = counts[WEFT_CHUNK_DONE], here = done - done_at_start;
    char bar[41];
    for (size_t i = 0; i < 40; i++) bar[i] = i < done * 40 / all ? '#' : '.';
    bar[40] = 0;
    fprintf(stderr, "%s[%s] %zu of %zu done, %zu held", isatty(STDERR_FILENO) ? "\r\033[K" : "", bar, done, all,
            counts[WEFT_CHUNK_HELD]);
    if (counts[WEFT_CHUNK_FAILED] > 0) fprintf(stderr, ", %zu FAILED", counts[WEFT_CHUNK_FAILED]);
    if (here > 0 && done < all)
        fprintf(stderr, ", about %.0f s still",
                static_cast<double>(now - start_ms) / 1000 / static_cast<double>(here) * static_cast<double>(all - done));
    has_shown = true;
    if (at_end) fprintf(stderr, "\n");
    fflush(stderr);
}

int Worker::run() {
    int error = weft_chunks_open(&queue, options.directory.c_str());
    if (error != WEFT_OK) return chunks_fail(options.directory.c_str(), error);
    plan.struct_size = sizeof plan;
    size_t counts[4] = {};
    weft_chunks_plan_of(queue, &plan);
    if (weft_chunks_read(queue, counts) == WEFT_OK) done_at_start = counts[WEFT_CHUNK_DONE];
    looked_ms = now_ms();
    try {
        keeper.reset(new Keeper(queue, plan.lease_ms / 4));
    } catch (const std::system_error &refused) {
        fprintf(stderr, "weft chunks: no thread to renew the lease: %s\n", refused.what());
        return EXIT_WORKER;
    }
    for (;;) {
        claim();
        show(false);
        if (children.empty() && ending != WEFT_OK) break;
        wait();
        look_after();
        end_late();
        look_for_losses();
    }
    show(true);
    if (signal_number != 0) {
        if (kept > 0)
            fprintf(stderr,
                    "weft chunks: ended by a signal; %zu of what was begun could not be given back: others get it after the "
                    "lease\n",
                    kept);
        else
            fprintf(stderr, "weft chunks: ended by a signal; what was begun was given back\n");
        return 128 + signal_number;
    }
    bool is_over = ending == WEFT_CHUNKS_END || ending == WEFT_ECANCELED;
    if (!is_over) return EXIT_WORKER; // that was said when it happened
    if (weft_chunks_result(queue) == WEFT_OK) return 0;
    fprintf(stderr, "weft chunks: %s\n", weft_chunks_why());
    return 1;
}

} // namespace

int chunks_run(const ChunksOptions &options) {
    if (!options.output.empty() && options.output.find("{begin}") == std::string::npos &&
        options.output.find("{chunk}") == std::string::npos) {
        fprintf(stderr, "weft chunks: --output %s names one file for all chunks: it needs {begin} or {chunk}\n",
                options.output.c_str());
        return 2;
    }
    if (options.has_plan) {
        int status = chunks_create(options);
        if (status != 0) return status;
    }
    Worker worker(options);
    return worker.run();
}
