// Two mallocs per job, no bound, one signal per job.
#include "queue_pool.hpp"

using Pool = QueuePool<Memory::two_blocks, false, false>;

extern "C" const entrant weft_entrant =
    Table<Pool>::entry("mutex-queue-signal", "own: two mallocs per job, unbounded, one signal", ENTRANT_NESTED);
