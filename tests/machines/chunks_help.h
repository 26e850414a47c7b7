/* chunks_help.h: directories for queues, and how their records look from outside. */
#ifndef WEFT_TESTS_CHUNKS_HELP_H
#define WEFT_TESTS_CHUNKS_HELP_H

#include "pool_help.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/stat.h>
#include <weft_chunks.h>

#define PATH_BYTES 256

static inline int path_remove(const char *path, const struct stat *about, int type, struct FTW *where) {
    (void)about;
    (void)type;
    (void)where;
    return remove(path);
}
static inline void tree_remove(const char *path) { nftw(path, path_remove, 16, FTW_DEPTH | FTW_PHYS); }

/* A new directory, as the base of what one case makes. */
static inline void base_make(char base[PATH_BYTES]) {
    const char *tmp = getenv("TMPDIR");
    snprintf(base, PATH_BYTES, "%s/weft-chunks-XXXXXX", tmp != NULL ? tmp : "/tmp");
    REQUIRE(mkdtemp(base) != NULL);
}

static inline weft_chunks_plan plan_of(size_t end, size_t chunk) {
    return (weft_chunks_plan){.struct_size = sizeof(weft_chunks_plan), .end = end, .chunk = chunk};
}

static inline weft_chunks *open_queue(const char *directory) {
    weft_chunks *queue = NULL;
    int error = weft_chunks_open(&queue, directory);
    if (error != WEFT_OK) fprintf(stderr, "open: %s: %s\n", weft_chunks_strerror(error), weft_chunks_why());
    REQUIRE(error == WEFT_OK && queue != NULL);
    return queue;
}
static inline void close_queue(weft_chunks *queue) {
    REQUIRE(weft_chunks_close(&queue) == WEFT_OK);
    REQUIRE(queue == NULL);
}

/* Where record `number` of a chunk lies. */
static inline void record_path(char path[PATH_BYTES + 64], const char *directory, size_t chunk, unsigned number) {
    snprintf(path, PATH_BYTES + 64, "%s/chunks/%07zu.%u", directory, chunk, number);
}

/* How many records of a chunk begin with `kind`. */
static inline unsigned records_of(const char *directory, size_t chunk, const char *kind) {
    unsigned found = 0;
    for (unsigned number = 1; number < 10000; number++) {
        char path[PATH_BYTES + 64], text[128];
        record_path(path, directory, chunk, number);
        ssize_t length = readlink(path, text, sizeof text - 1);
        if (length < 0) break;
        text[length] = 0;
        found += strncmp(text, kind, strlen(kind)) == 0;
    }
    return found;
}

#endif
