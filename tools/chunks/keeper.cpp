// keeper.cpp: the lease is renewed while the worker syncs an output or writes to a terminal that does not take it, however long
// that takes: the worker lives. When it is stopped or cut off, so is this thread.
#include "chunks.hpp"

#include <csignal>
#include <utility>

Keeper::Keeper(weft_chunks *queue_given, uint64_t step_ms) : queue(queue_given), step(step_ms) {
    // Signals are the worker's own thread's.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    try {
        thread = std::thread([this] { run(); });
    } catch (...) {
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Keeper::~Keeper() {
    {
        std::lock_guard<std::mutex> held(lock);
        ends = true;
    }
    ending.notify_one();
    thread.join();
}

void Keeper::run() {
    std::unique_lock<std::mutex> held(lock);
    while (!ending.wait_for(held, step, [this] { return ends; })) {
        held.unlock();
        int error = weft_chunks_renew(queue);
        std::string said = error == WEFT_OK ? "" : weft_chunks_why();
        held.lock();
        if (!said.empty()) trouble = said;
    }
}

std::string Keeper::take_trouble() {
    std::lock_guard<std::mutex> held(lock);
    return std::exchange(trouble, {});
}
