/* As libavutil has it. */
#include <errno.h>
#define AVERROR(code) (-(code))
