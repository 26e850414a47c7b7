/* As libavutil has it. */
#include <assert.h>
#define av_assert0(condition) assert(condition)
