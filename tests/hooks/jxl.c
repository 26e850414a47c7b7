/* jxl.c: a picture of 768 x 512 encoded. */
#include "hooks.h"

#ifdef MISSING_JXL
const library library_jxl = {.name = "jxl", .missing = MISSING_JXL};
#else
#include <jxl/encode.h>
#include <jxl/thread_parallel_runner.h>
#include <hooks/jxl.h>

enum { WIDTH = 768, HEIGHT = 512, OUTPUT_MAX = 1 << 20 };
static unsigned char picture[3 * WIDTH * HEIGHT], output[OUTPUT_MAX];
static void *runner_data;
static JxlParallelRunner runner;

static void start(weft_pool *pool, int threads) {
    uint32_t state = 1;
    runner = pool != NULL ? weft_jxl_runner : JxlThreadParallelRunner;
    runner_data = pool != NULL ? (void *)pool : JxlThreadParallelRunnerCreate(NULL, (size_t)threads);
    REQUIRE(runner_data != NULL);
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < 3 * WIDTH; x++) picture[y * 3 * WIDTH + x] = pixel(x, y, &state);
}

static uint64_t encode(void) {
    JxlEncoder *encoder = JxlEncoderCreate(NULL);
    JxlBasicInfo info;
    JxlColorEncoding colours;
    const JxlPixelFormat format = {3, JXL_TYPE_UINT8, JXL_NATIVE_ENDIAN, 0};
    unsigned char *next = output;
    size_t left = sizeof output;
    REQUIRE(encoder != NULL && JxlEncoderSetParallelRunner(encoder, runner, runner_data) == JXL_ENC_SUCCESS);
    JxlEncoderInitBasicInfo(&info);
    info.xsize = WIDTH;
    info.ysize = HEIGHT;
    info.bits_per_sample = 8;
    REQUIRE(JxlEncoderSetBasicInfo(encoder, &info) == JXL_ENC_SUCCESS);
    JxlColorEncodingSetToSRGB(&colours, JXL_FALSE);
    REQUIRE(JxlEncoderSetColorEncoding(encoder, &colours) == JXL_ENC_SUCCESS);
    JxlEncoderFrameSettings *settings = JxlEncoderFrameSettingsCreate(encoder, NULL);
    JxlEncoderFrameSettingsSetOption(settings, JXL_ENC_FRAME_SETTING_EFFORT, 3);
    REQUIRE(JxlEncoderAddImageFrame(settings, &format, picture, sizeof picture) == JXL_ENC_SUCCESS);
    JxlEncoderCloseInput(encoder);
    REQUIRE(JxlEncoderProcessOutput(encoder, &next, &left) == JXL_ENC_SUCCESS);
    JxlEncoderDestroy(encoder);
    return digest(0, output, sizeof output - left);
}

static void stop(void) {
    if (runner == JxlThreadParallelRunner) JxlThreadParallelRunnerDestroy(runner_data);
}

const library library_jxl = {.name = "jxl", .open = start, .run = encode, .close = stop};
#endif
