// The frame's job system, which takes its jobs from one ring with an atomic counter.
#include "frame_jobs.hpp"

extern "C" const entrant weft_entrant =
    frame::Table<frame::GlobalRing>::entry("frame-global-ring", "own job system, one ring with an atomic counter");
extern "C" const patterns weft_patterns =
    frame::Table<frame::GlobalRing>::loops("frame-global-ring", "own job system, one ring with an atomic counter");
