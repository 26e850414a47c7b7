/* A library whose code allocates, and is unloaded. */
#include <stddef.h>

void *call_of_a_plugin(void *(*alloc)(size_t), size_t size);

void *call_of_a_plugin(void *(*alloc)(size_t), size_t size) {
    void *p = alloc(size);
    __asm__ __volatile__("" : : "r"(p) : "memory"); /* no tail call */
    return p;
}
