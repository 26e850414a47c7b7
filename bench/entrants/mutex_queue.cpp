// Stands for libvmaf's pool: two mallocs per job, a queue bounded at the number of threads, a broadcast per job.
#include "queue_pool.hpp"

using Pool = QueuePool<Memory::two_blocks, true, true>;

extern "C" const entrant weft_entrant =
    Table<Pool>::entry("mutex-queue", "own: two mallocs per job, bounded at the thread count, broadcast", ENTRANT_BOUNDED);
