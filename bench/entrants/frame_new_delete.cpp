// The frame's job system, which makes its jobs with new and deletes them later.
#include "frame_jobs.hpp"

extern "C" const entrant weft_entrant =
    frame::Table<frame::NewDelete>::entry("frame-new-delete", "own job system, new and deferred delete");
extern "C" const patterns weft_patterns =
    frame::Table<frame::NewDelete>::loops("frame-new-delete", "own job system, new and deferred delete");
