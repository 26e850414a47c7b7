// The frame's job system, which takes its jobs from a lock-free free list.
#include "frame_jobs.hpp"

extern "C" const entrant weft_entrant =
    frame::Table<frame::FreeList>::entry("frame-free-list", "own job system, lock-free free list");
extern "C" const patterns weft_patterns =
    frame::Table<frame::FreeList>::loops("frame-free-list", "own job system, lock-free free list");
