// Finished jobs are reused; each payload is still a malloc.
#include "queue_pool.hpp"

using Pool = QueuePool<Memory::slots, false, false>;

extern "C" const entrant weft_entrant =
    Table<Pool>::entry("recycled", "own: finished jobs are used again, the payload is a malloc, one signal", ENTRANT_NESTED);
