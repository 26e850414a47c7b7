/* late.c: a C program that loads its first C++ library, and the runtime with it, when it runs. `late SERVER LIBRARY`. */
#include "server.h"

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    require_server(argv[1]);
    if (dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD) != NULL) {
        fprintf(stderr, "the C++ runtime is there already\n");
        return 2;
    }
    void *library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    int (*run)(int, char **) = NULL;
    if (library != NULL) *(void **)&run = dlsym(library, "_Z8cxx_mainiPPc");
    if (run == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    return run(argc - 1, argv);
}
