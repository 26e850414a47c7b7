// The frame's job system with its jobs from: new and deferred delete.
#include "frame_jobs.hpp"

extern "C" const entrant weft_entrant =
    frame::Table<frame::NewDelete>::entry("frame-new-delete", "own job system, new and deferred delete");
extern "C" const patterns weft_patterns =
    frame::Table<frame::NewDelete>::loops("frame-new-delete", "own job system, new and deferred delete");
