/* front.c: a program with a malloc, realloc and free of its own in front of the C library's, by the names that are there
 * for that. Its other allocations come from who serves the process, and end in the program's free. `front SERVER`. */
#include "server.h"

void *__libc_malloc(size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void *__libc_valloc(size_t size);
void *__libc_pvalloc(size_t size);
void __libc_free(void *block);

static long allocated, freed;

void *malloc(size_t size) {
    allocated++;
    return __libc_malloc(size);
}

void *realloc(void *ptr, size_t size) { return __libc_realloc(ptr, size); }

void free(void *ptr) {
    freed++;
    __libc_free(ptr);
}

static char *last_line(void) {
    char *line = NULL;
    size_t size = 0;
    FILE *file = tmpfile();
    if (file == NULL || fputs("a line\n", file) < 0 || fseek(file, 0, SEEK_SET) != 0) exit(2);
    if (getline(&line, &size, file) != 7) exit(3);
    fclose(file);
    return line;
}

int main(int argc, char **argv) {
    Dl_info info;
    void *symbol = dlsym(RTLD_DEFAULT, "calloc");
    if (argc != 2 || symbol == NULL || dladdr(symbol, &info) == 0) return 2;
    if (strstr(info.dli_fname, argv[1]) == NULL) {
        fprintf(stderr, "calloc is not served by %s\n", argv[1]);
        return 2;
    }
    for (size_t size = 1; size < 300000; size = size * 3 / 2 + 1) {
        char *zeros = calloc(1, size), *others = __libc_calloc(size, 1);
        for (size_t i = 0; i < size; i++)
            if (zeros[i] != 0 || others[i] != 0) exit(1);
        memset(zeros, 7, size);
        zeros = realloc(zeros, 2 * size);
        if (zeros[0] != 7 || zeros[size - 1] != 7) exit(1);
        free(zeros);
        __libc_free(others);
        free(aligned_alloc(256, size));
        free(__libc_memalign(128, size));
        free(__libc_valloc(size));
        free(__libc_pvalloc(size));
        free(malloc(size));
        free(strdup("text"));
        free(last_line());
    }
    return allocated > 0 && freed > 0 ? 0 : 1;
}
