/* What checked mode is to tell: `mistake twice | past | foreign | none`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    const char *which = argc == 2 ? argv[1] : "";
    char *p = malloc(40), local[32];
    if (p == NULL) return 1;
    strcpy(p, "nothing wrong yet");
    if (strcmp(which, "past") == 0) p[40] = 1;
    if (strcmp(which, "foreign") == 0) free(local + 16);
    free(p);
    if (strcmp(which, "twice") == 0) free(p);
    puts("at the end");
    return 0;
}
