// crew.hpp: a contestant's process, stopped whenever it is not its turn.
#ifndef WEFT_LATENCY_CREW_HPP
#define WEFT_LATENCY_CREW_HPP

#include "latency.hpp"
#include "quota.hpp"

#include <memory>
#include <sys/types.h>

class Crew {
    std::unique_ptr<Quota> quota; // or none
    pid_t pid = -1;
    int to = -1, from = -1;
    std::string failure; // why it can no longer be used

    bool join_quota();
    bool receive(SliceReport &report, uint64_t limit_ns);

  public:
    // To be called while this process has one thread.
    Crew(const Contestant &who, const LatencyOptions &options);
    ~Crew();
    Crew(const Crew &) = delete;
    Crew &operator=(const Crew &) = delete;

    const std::string &error() const { return failure; }
    // Runs a slice; nothing is added to the makespans when it fails.
    SliceReport slice(const SliceOrder &order, std::vector<float> &makespans_ns);
};

#endif
