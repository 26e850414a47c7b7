/* What checked mode is to tell: `mistake twice | past | foreign | none`. numbers: takes all numbers of files for one of its own. errno: ends
 * with what that is at the start. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The same address, of which compiler and analyser know nothing: the mistakes are meant. */
static char *hidden(char *p) {
    __asm__("" : "+r"(p));
    return p;
}

static void take_numbers(void) {
    int file = open("own", O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    for (int i = 3; i < 1024; i++) dup2(file, i);
}

int main(int argc, char **argv) {
    const char *which = argc == 2 ? argv[1] : "";
    if (strcmp(which, "errno") == 0) return errno; /* as it is when main begins */
    char local[32] = {0};
    char *p = hidden(aligned_alloc(8, 40));
    if (p == NULL) return 1;
    memset(p, 1, 40);
    if (strcmp(which, "numbers") == 0) take_numbers();
    if (strcmp(which, "past") == 0) hidden(p)[40] = 1;
    if (strcmp(which, "foreign") == 0) free(hidden(local + 16));
    free(hidden(p));
    if (strcmp(which, "twice") == 0) free(hidden(p));
    puts("at the end");
    return 0;
}
