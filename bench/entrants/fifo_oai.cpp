// Stands for OpenAirInterface's older pool: a FIFO of messages, each a malloc that holds its payload.
#include "queue_pool.hpp"

using Pool = QueuePool<Memory::one_block, false, false>;

extern "C" const entrant weft_entrant =
    Table<Pool>::entry("fifo-oai", "own: one list of malloc'ed messages, mutex and condition variable", ENTRANT_NESTED);
