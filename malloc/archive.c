/* archive.c: what libweft-malloc.a needs beside the shared form. A C library's archive has these two in one object with its malloc: who
 * calls them would get that as well, and the linker two of each function. */
#include "malloc_internal.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>

int mallopt(int param, int value);
int malloc_info(int options, FILE *stream);

/* Nothing is tuned here; and no program would mend what it is refused. */
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
