// late.cpp: a static object whose destructor still submits.
#include "late.h"

namespace {
struct at_end {
    at_end() = default;
    at_end(const at_end &) = delete;
    at_end &operator=(const at_end &) = delete;
    ~at_end() {
        if (late_is_armed != 0) late_work();
    }
} the_end;
} // namespace
