/* fuzz_config.c: configurations from the environment. A wrong one leaves the caller's as it was; a right one can be written
 * out, and a pool's own check finds nothing wrong with its numbers. */
#define _GNU_SOURCE
#include "fuzz.h"
#include "weft.h"

const char *const fuzz_words[] = {"fifo:10", "rr:1", "deadline:1ms", "other", "0-3", "ordinary",
                                  "-1",      "1024", "1000000000",   "us",    "ms",  "9223372036854775807",
                                  "stderr",  NULL};

static const char *const names[] = {"WEFT_WORKERS",        "WEFT_SPARES",         "WEFT_SPIN_NS",     "WEFT_STACK_SIZE",
                                    "WEFT_QUEUE_MAX",      "WEFT_TRACE_EVENTS",   "WEFT_WATCHDOG_NS", "WEFT_STACK_WAIT_NS",
                                    "WEFT_EXPECT_PERCENT", "WEFT_BACKGROUND_MAX", "WEFT_SLICE_NS",    "WEFT_POLICY",
                                    "WEFT_CPUS",           "WEFT_STATS",          "WEFT_TRACE",       "WEFT_TOP",
                                    "WEFT_JOBSERVER",      "WEFT_LEASE"};

static void check_format(const weft_config *config) {
    char text[512], cut[40];
    int length = weft_config_format(config, text, sizeof text);
    if (length < 0) return;
    FUZZ_CHECK(weft_config_format(config, NULL, 0) == length);
    FUZZ_CHECK(weft_config_format(config, cut, sizeof cut) == length && strlen(cut) == (length < 40 ? (size_t)length : 39));
    FUZZ_CHECK(strncmp(text, cut, strlen(cut)) == 0);
}

void fuzz_one(struct fuzz *input) {
    char text[512];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unsetenv(names[i]);
        if (fuzz_below(input, 3) == 0) setenv(names[i], fuzz_text(input, text, sizeof text), 1);
    }
    weft_config config, before;
    memset(&config, 0, sizeof config);
    config.struct_size = fuzz_below(input, 4) == 0 ? 8 + fuzz_below(input, (unsigned)sizeof config - 7) : sizeof config;
    config.flags = fuzz_below(input, 2) == 0 ? 0 : fuzz_byte(input);
    before = config;
    if (weft_config_from_env(&config) != WEFT_OK) {
        FUZZ_CHECK(memcmp(&config, &before, sizeof config) == 0);
    } else {
        size_t size = config.struct_size;
        FUZZ_CHECK(size == before.struct_size);
        FUZZ_CHECK(memcmp((char *)&config + size, (char *)&before + size, sizeof config - size) == 0);
        FUZZ_CHECK(config.workers <= WEFT_WORKERS_MAX && config.spares <= WEFT_WORKERS_MAX);
        check_format(&config);
    }
    weft_config_wrong(&before);
}
