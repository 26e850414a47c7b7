// See signals.hpp.
#include "signals.hpp"

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace {

// The handler's; atomics without locks, as it needs.
std::atomic<pid_t> receiver{0};
std::atomic<int> unheeded{0};
std::atomic<uint32_t> continues{0};
static_assert(std::atomic<pid_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

void handle(int number) {
    int error = errno;
    pid_t child = receiver;
    if (number == SIGCONT)
        continues++;
    else if (child > 0)
        kill(child, number);
    else
        unheeded = number;
    errno = error;
}

} // namespace

Signals::Signals() {
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction wish {};
        bool is_terminals = numbers[i] == SIGINT || numbers[i] == SIGQUIT;
        sigaction(numbers[i], nullptr, &before[i]);
        bool is_ignored = before[i].sa_handler == SIG_IGN && numbers[i] != SIGCONT; // nohup stays nohup
        wish.sa_handler = is_terminals || is_ignored ? SIG_IGN : handle;
        wish.sa_flags = SA_RESTART;
        sigaction(numbers[i], &wish, nullptr);
    }
}

void Signals::undo() {
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && !is_undone; i++) sigaction(numbers[i], &before[i], nullptr);
    is_undone = true;
}

void Signals::pass_to(pid_t child) {
    receiver = child;
    int early = child > 0 ? unheeded.exchange(0) : 0;
    if (early != 0) kill(child, early);
}

uint32_t Signals::continued() { return continues; }

void Signals::heed() {
    int number = unheeded.exchange(0);
    if (number != 0) raise(number);
}
