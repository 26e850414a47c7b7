/* As libavutil has it. */
#include <weft.h>
static inline int av_cpu_count(void) { return (int)weft_cpu_count(); }
