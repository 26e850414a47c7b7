/* As libavutil has them. */
#ifndef FFMPEG_STUB_MEM_H
#define FFMPEG_STUB_MEM_H

#include <stdlib.h>

static inline void *av_mallocz(size_t size) { return calloc(1, size); }
static inline void av_freep(void *address) {
    free(*(void **)address);
    *(void **)address = NULL;
}

#endif
