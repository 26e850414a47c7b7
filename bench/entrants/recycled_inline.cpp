// Finished jobs are reused, and payloads up to 64 bytes lie inside them.
#include "queue_pool.hpp"

using Pool = QueuePool<Memory::inline_64, false, false>;

extern "C" const entrant weft_entrant = Table<Pool>::entry(
    "recycled-inline", "own: finished jobs are used again, 64 bytes of payload inside, one signal", ENTRANT_NESTED);
