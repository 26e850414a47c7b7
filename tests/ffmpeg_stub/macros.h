/* As libavutil has it. */
#define FFMIN(a, b) ((a) > (b) ? (b) : (a))
