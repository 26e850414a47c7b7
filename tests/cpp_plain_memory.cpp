// weft_memory.hpp where exceptions are off: the first unit of test_cpp_memory, so that the linker keeps its functions of those that
// have the same name in both.
#include <weft_memory.hpp>

template struct weft::allocator<long>;
