/* hooks.h: a real library as a case: something to compute again and again, on its own threads or on a weft pool. */
#ifndef WEFT_TESTS_HOOKS_H
#define WEFT_TESTS_HOOKS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>

#define REQUIRE(x)                                                                                                          \
    do {                                                                                                                    \
        if (!(x)) {                                                                                                         \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #x);                                               \
            exit(99);                                                                                                       \
        }                                                                                                                   \
    } while (0)

typedef struct library {
    const char *name;
    const char *missing;                        /* why it is not here, or NULL; the functions are then NULL */
    void (*open)(weft_pool *pool, int threads); /* pool NULL: its own threads */
    uint64_t (*run)(void);                      /* some 10 ms of work; a digest of the output */
    void (*close)(void);
} library;

extern const library library_fftw, library_jxl, library_ffmpeg, library_openblas, library_blosc2;

/* FNV-1a over what was computed. */
static inline uint64_t digest(uint64_t before, const void *bytes, size_t size) {
    uint64_t hash = before ^ UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++) hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Numbers in place of data, the same each time. */
static inline uint32_t noise(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* A picture: slopes with some noise on them. */
static inline unsigned char pixel(int x, int y, uint32_t *state) {
    return (unsigned char)(((x + 2 * y) / 3 + ((x / 32 + y / 32) % 2) * 40 + (int)(noise(state) % 8)) & 255);
}

#endif
