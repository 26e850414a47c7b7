// Does not compile: an argument of WEFT_FORK is copied byte by byte, which a string does not survive (CMakeLists.txt).
#include <weft.hpp>

#include <string>

static int length(weft_fork_slot *here, std::string text);
WEFT_FORK(length, int, std::string)
static int length(weft_fork_slot *, std::string text) { return static_cast<int>(text.size()); }

int refused(weft_fork_slot *here, const std::string &text);
int refused(weft_fork_slot *here, const std::string &text) {
    length_fork(here, &text);
    return length_join(here, &text);
}
