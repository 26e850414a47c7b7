/* static.c: a program linked statically with libweft-malloc.a, with any C library: who serves it, in two threads. It has names
 * of its own that the library has inside, and with WITH_POOL libweft.a beside it. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(holds)                                                                                                      \
    do {                                                                                                                    \
        if (holds) break;                                                                                                   \
        fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #holds);                                               \
        exit(1);                                                                                                            \
    } while (0)

static void *work(void *unused) {
    (void)unused;
    for (size_t i = 1; i < 2000; i++) {
        unsigned char *p = malloc(i * 50), *zeros = calloc(i, 7);
        void *aligned = aligned_alloc(64, i * 64);
        REQUIRE(p != NULL && zeros != NULL && aligned != NULL && (uintptr_t)aligned % 64 == 0);
        memset(p, 1, i * 50);
        for (size_t k = 0; k < i * 7; k++) REQUIRE(zeros[k] == 0);
        p = realloc(p, i * 60);
        REQUIRE(p != NULL && p[i * 50 - 1] == 1);
        free(p), free(zeros), free(aligned);
    }
    return NULL;
}

/* The first is a function of the library's, the second its data. */
void os_free(void *block);
void os_free(void *block) { free(block); }
int heaps;

#ifdef WITH_POOL
#include <weft.h>

static void use_pool(void) {
    weft_pool *pool = NULL;
    REQUIRE(weft_pool_create(&pool, NULL) == WEFT_OK);
    weft_free(weft_alloc(33));
    REQUIRE(weft_pool_destroy(&pool) == WEFT_OK);
}
#else
static void use_pool(void) {}
#endif

int main(void) {
    pthread_t thread;
    use_pool();
    os_free(malloc(1));
    REQUIRE(heaps == 0);
    void *p = malloc(33);
    REQUIRE(malloc_usable_size(p) == 48); /* a class of weft's, and of none of the C libraries' */
    free(p);
    REQUIRE(pthread_create(&thread, NULL, work, NULL) == 0);
    work(NULL);
    REQUIRE(pthread_join(thread, NULL) == 0);
#if defined(__GLIBC__) /* others declare neither */
    REQUIRE(mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1);
    char text[300] = "";
    FILE *file = fmemopen(text, sizeof text, "w");
    REQUIRE(file != NULL && malloc_info(0, file) == 0 && malloc_info(1, file) == -1 && errno == EINVAL);
    fclose(file);
    REQUIRE(strncmp(text, "<malloc version=\"1\">", 20) == 0);
#endif
    errno = 0;
    REQUIRE(malloc(SIZE_MAX / 2) == NULL && errno == ENOMEM);
    puts("served by weft");
    return 0;
}
