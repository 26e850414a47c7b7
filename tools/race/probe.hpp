// probe.hpp: what one process spends, as the kernel counts it.
#ifndef WEFT_RACE_PROBE_HPP
#define WEFT_RACE_PROBE_HPP

#include "wire.hpp"

#include <sys/resource.h>

uint64_t clock_ns();
uint64_t resident_bytes();
uint64_t peak_bytes();

// Asks for this process's futex and memory system calls to be reported to its tracer from now on. Throws.
void trace_request();

// Opens the processor's event counters, stopped, for this process and its later threads. Nothing where there are none.
void hardware_open();
// Whether a process here can have them.
bool hardware_available();

// From its construction to stop(): the time, and what changed in the process's accounts.
class Probe {
    rusage usage;
    int64_t migrations;
    int64_t malloc_calls;
    bool hardware;
    uint64_t start_ns;

  public:
    explicit Probe(bool with_hardware);
    void stop(Reply &reply);
};

#endif
