/* static.c: a program linked statically with libweft-malloc.a, with any C library: who serves it, in two threads. */
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

int main(void) {
    pthread_t thread;
    void *p = malloc(33);
    REQUIRE(malloc_usable_size(p) == 48); /* a class of weft's, and of none of the C libraries' */
    free(p);
    REQUIRE(pthread_create(&thread, NULL, work, NULL) == 0);
    work(NULL);
    REQUIRE(pthread_join(thread, NULL) == 0);
    errno = 0;
    REQUIRE(malloc(SIZE_MAX / 2) == NULL && errno == ENOMEM);
    puts("served by weft");
    return 0;
}
