/* server.h: who serves malloc in this process. A library that cannot be preloaded is passed over in silence, and the test
 * would be one of the C library. And how much memory the process holds. */
#ifndef WEFT_TESTS_MALLOC_SERVER_H
#define WEFT_TESTS_MALLOC_SERVER_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Ends the process when the file that serves malloc has not `part` in its name. NULL: anybody may. */
static inline void require_server(const char *part) {
    Dl_info info;
    void *symbol = dlsym(RTLD_DEFAULT, "malloc");
    if (part == NULL) return;
    if (symbol != NULL && dladdr(symbol, &info) != 0 && strstr(info.dli_fname, part) != NULL) return;
    fprintf(stderr, "malloc is not served by %s\n", part);
    exit(2);
}

static inline size_t resident_bytes(void) {
    char line[256] = "", *second;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fgets(line, sizeof line, file) == NULL) {
        fprintf(stderr, "/proc/self/statm cannot be read\n");
        exit(2);
    }
    fclose(file);
    (void)strtoul(line, &second, 10);
    return strtoul(second, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

#endif
