/* archive.c: what libweft-malloc.a has and the shared library need not have. In a C library's archive these two functions
 * are in one object with malloc: a program that called one would pull in that object, and the linker would find each
 * function twice. */
#include "malloc_internal.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>

int mallopt(int param, int value);
int malloc_info(int options, FILE *stream);

/* There is nothing to tune. 1 means success: a program could do nothing about a refusal. */
EXPORT int mallopt(int param, int value) {
    (void)param, (void)value;
    return 1;
}

EXPORT int malloc_info(int options, FILE *stream) {
    weft_heap_counts counts = {.struct_size = sizeof counts};
    if (options != 0) {
        errno = EINVAL;
        return -1;
    }
    (void)weft_heap_stats(&counts);
    return fprintf(stream, "<malloc version=\"1\">\n<system type=\"current\" size=\"%zu\"/>\n</malloc>\n",
                   (size_t)counts.mapped_bytes) < 0
               ? -1
               : 0;
}
