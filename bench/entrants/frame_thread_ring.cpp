// The frame's job system, which takes its jobs from a ring per thread.
#include "frame_jobs.hpp"

extern "C" const entrant weft_entrant =
    frame::Table<frame::ThreadRing>::entry("frame-thread-ring", "own job system, a ring per thread");
extern "C" const patterns weft_patterns =
    frame::Table<frame::ThreadRing>::loops("frame-thread-ring", "own job system, a ring per thread");
