// quota.hpp: a control group of a contestant's own that gives it a part of a CPU.
#ifndef WEFT_LATENCY_QUOTA_HPP
#define WEFT_LATENCY_QUOTA_HPP

#include <string>
#include <sys/types.h>

class Quota {
    std::string folder;

    void write(const std::string &file, const std::string &value) const;

  public:
    // Beside this process's own group, cgroup v2 or v1. Throws std::runtime_error with the reason where that is not possible.
    Quota(unsigned percent, const std::string &name);
    ~Quota(); // its processes must have ended
    Quota(const Quota &) = delete;
    Quota &operator=(const Quota &) = delete;

    void join(pid_t pid) const;
};

#endif
