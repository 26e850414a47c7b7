/* A program whose profile is known: `heap_profile_scene FIRST SECOND FOLDED` writes it after 64 MB of frames are there, after 32 MB of
 * tables have come, both as pprof's, and as folded text. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "weft.h"

#define OPAQUE(p) __asm__ __volatile__("" : : "r"(p) : "memory")

static void check(int is_true, const char *what) {
    if (is_true) return;
    fprintf(stderr, "heap_profile_scene: %s\n", what);
    exit(1);
}

__attribute__((noinline)) void frames_allocate(void);
__attribute__((noinline)) void tables_allocate(void);
__attribute__((noinline)) void text_passes(void);

void frames_allocate(void) {
    for (int i = 0; i < 64000; i++) {
        void *p = weft_alloc(1000);
        check(p != NULL, "no memory");
        OPAQUE(p);
    }
}

void tables_allocate(void) {
    for (int i = 0; i < 320; i++) {
        void *p = weft_alloc(100000);
        check(p != NULL, "no memory");
        OPAQUE(p);
    }
}

void text_passes(void) {
    for (int i = 0; i < 1000000; i++) {
        void *p = weft_alloc(200);
        OPAQUE(p);
        weft_free(p);
    }
}

static void write_to(const char *path, uint32_t form) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    check(fd >= 0 && weft_heap_profile_write(fd, form) == WEFT_OK, path);
    close(fd);
}

int main(int count, char **arguments) {
    weft_heap_profile_config config = {.struct_size = sizeof config, .seed = 1};
    check(count == 4, "three files");
    check(weft_heap_profile_start(&config) == WEFT_OK, "no profile");
    frames_allocate();
    text_passes();
    write_to(arguments[1], WEFT_HEAP_PROFILE_PPROF);
    tables_allocate();
    write_to(arguments[2], WEFT_HEAP_PROFILE_PPROF);
    write_to(arguments[3], WEFT_HEAP_PROFILE_FOLDED);
    return 0;
}
