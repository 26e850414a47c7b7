/* frame_times.c: when each call of x264_encoder_encode began and ended. Linked into the programs of the race with
 * -Wl,--wrap=x264_encoder_encode, so that the encoder's own code is the same with it.
 *
 * At the program's end the file that X264_FRAME_TIMES names has a line for each call: two times in ns since the first call. x264's
 * program calls from one thread. Without that variable, or beyond CALLS_MAX calls, nothing is kept. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CALLS_MAX = 1 << 16 };

static struct { long long begin, end; } calls[CALLS_MAX];
static int count;

int __real_x264_encoder_encode(void *encoder, void *units, int *unit_count, void *in, void *out);
int __wrap_x264_encoder_encode(void *encoder, void *units, int *unit_count, void *in, void *out);

static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void write_times(void) {
    const char *path = getenv("X264_FRAME_TIMES");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return; /* whoever asked finds no file */
    for (int i = 0; i < count; i++)
        fprintf(file, "%lld %lld\n", calls[i].begin - calls[0].begin, calls[i].end - calls[0].begin);
    fclose(file);
}

int __wrap_x264_encoder_encode(void *encoder, void *units, int *unit_count, void *in, void *out) {
    if (count == 0) atexit(write_times);
    if (count == CALLS_MAX) return __real_x264_encoder_encode(encoder, units, unit_count, in, out);
    calls[count].begin = now_ns();
    int result = __real_x264_encoder_encode(encoder, units, unit_count, in, out);
    calls[count++].end = now_ns();
    return result;
}
