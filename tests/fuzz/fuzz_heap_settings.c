/* fuzz_heap_settings.c: the WEFT_HEAP variables of libweft-malloc.so, as its constructor reads them. CMakeLists.txt puts
 * malloc/report.c before it, most of whose functions are its own, and links malloc/profile.c. */
#include <fcntl.h>

#include "fuzz.h"

const char *const fuzz_words[] = {"adaptive", "off", "8/64", "hybrid", "home",        "keep", "-1", "json",
                                  "text",     "1",   "0",    "USR1",   "/dev/stderr", "USR2", NULL};

enum { SIGNALS = 64 };

/* What nobody understood had no effect, so the heap is always one that can be configured; checks never end. */
static void check_configuration(void) {
    weft_heap_config config = {.struct_size = sizeof config};
    int error = weft_heap_configure(&config);
    config.checks = error == WEFT_EBUSY;
    FUZZ_CHECK(error == WEFT_OK || weft_heap_configure(&config) == WEFT_OK);
    void *block = weft_alloc(100);
    FUZZ_CHECK(block != NULL);
    weft_free(block);
}

void fuzz_one(struct fuzz *input) {
    static int nowhere = -1;
    char text[300];
    struct sigaction actions[SIGNALS];
    bool known[SIGNALS];
    if (nowhere < 0) nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    int saved = dup(STDERR_FILENO);
    FUZZ_CHECK(nowhere >= 0 && saved >= 0);
    dup2(nowhere, STDERR_FILENO); /* it tells of what it does not understand */
    for (int i = 1; i < SIGNALS; i++) known[i] = sigaction(i, NULL, &actions[i]) == 0;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        unsetenv(variables[i].name);
        if (fuzz_below(input, 2) == 0) setenv(variables[i].name, fuzz_text(input, text, sizeof text), 1);
    }
    memset(&wish, 0, sizeof wish);
    wish.error_fd = -1;
    environment_read();
    if (wish.error_fd >= 0) close(wish.error_fd);
    memset(&wish, 0, sizeof wish);
    wish.error_fd = -1;
    for (int i = 1; i < SIGNALS; i++)
        if (known[i]) sigaction(i, &actions[i], NULL);
    dup2(saved, STDERR_FILENO);
    close(saved);
    check_configuration();
    profile_path_parse("/dev/null/none"); /* at the process's end its profile goes to no file */
}
