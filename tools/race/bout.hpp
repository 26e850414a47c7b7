// bout.hpp: one entrant in one case, within the process that is its own.
#ifndef WEFT_RACE_BOUT_HPP
#define WEFT_RACE_BOUT_HPP

#include "wire.hpp"

#include <memory>

class Bout {
    uint64_t before_bytes = 0;

  protected:
    void note_memory();

  public:
    virtual ~Bout() = default;
    virtual void prove() {}                 // before a warm-up: throws when the entrant does not do what it should
    virtual void reset(uint64_t tasks) = 0; // before a round
    virtual void run(uint64_t tasks) = 0;   // throws what the entrant reports
    virtual void check(uint64_t tasks) = 0; // throws when the round did not do what it should
    virtual void amend(Reply &) {}          // where the round's time is not what counts
    uint64_t memory_before() const { return before_bytes; } // resident before the pool was created
};

// Loads the entrant and creates its pool. Throws.
std::unique_ptr<Bout> bout_make(const Seat &seat);

#endif
