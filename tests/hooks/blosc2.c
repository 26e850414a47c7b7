/* blosc2.c: 4 MB of numbers compressed and decompressed. With its own threads, too, blocks lie in the compressed data in
 * the order in which they were done: compared are its size and what comes out again. */
#include "hooks.h"

#ifdef MISSING_BLOSC2
const library library_blosc2 = {.name = "blosc2", .missing = MISSING_BLOSC2};
#else
#include <blosc2.h>
#include <hooks/blosc2.h>

enum { NUMBERS = 1 << 20, BYTES = 4 * NUMBERS, ROOM = BYTES + BLOSC2_MAX_OVERHEAD };
static int32_t numbers[NUMBERS], again[NUMBERS];
static unsigned char packed[ROOM];
static blosc2_context *packer, *unpacker;

static void start(weft_pool *pool, int threads) {
    uint32_t state = 1;
    for (int i = 0; i < NUMBERS; i++) numbers[i] = i / 3 + (int32_t)(noise(&state) % 16);
    if (pool != NULL) blosc2_set_threads_callback(weft_blosc2_loop, pool);
    blosc2_init();
    blosc2_cparams to = BLOSC2_CPARAMS_DEFAULTS;
    blosc2_dparams from = BLOSC2_DPARAMS_DEFAULTS;
    to.typesize = sizeof *numbers;
    to.compcode = BLOSC_LZ4;
    to.nthreads = from.nthreads = (int16_t)threads;
    packer = blosc2_create_cctx(to);
    unpacker = blosc2_create_dctx(from);
    REQUIRE(packer != NULL && unpacker != NULL);
}

static uint64_t pack(void) {
    int size = 0;
    for (int i = 0; i < 3; i++) {
        size = blosc2_compress_ctx(packer, numbers, BYTES, packed, ROOM);
        REQUIRE(size > 0);
        REQUIRE(blosc2_decompress_ctx(unpacker, packed, size, again, BYTES) == BYTES);
    }
    REQUIRE(memcmp(numbers, again, sizeof again) == 0);
    return digest((uint64_t)size, again, sizeof again / 8);
}

static void stop(void) {
    blosc2_free_ctx(packer);
    blosc2_free_ctx(unpacker);
    blosc2_destroy();
}

const library library_blosc2 = {.name = "blosc2", .open = start, .run = pack, .close = stop};
#endif
