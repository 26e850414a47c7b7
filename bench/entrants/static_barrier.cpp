// Threads that meet at a pthread_barrier before and after each batch.
#include "static_team.hpp"

#include <pthread.h>

namespace {

class BarrierGate {
    pthread_barrier_t barrier;

    void meet() { pthread_barrier_wait(&barrier); }

  public:
    explicit BarrierGate(unsigned size) { pthread_barrier_init(&barrier, nullptr, size); }
    ~BarrierGate() { pthread_barrier_destroy(&barrier); }
    void open() { meet(); }
    void pass() { meet(); }
    void done() { meet(); }
    void join() { meet(); }
};

} // namespace

extern "C" const entrant weft_entrant =
    StaticTable<BarrierGate>::entry("static-barrier", "no pool: threads at a pthread_barrier, a batch split ahead", 0);
