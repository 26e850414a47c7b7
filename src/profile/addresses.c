/* addresses.c: see write.h. Layer 3. */
#include "profile/write.h"

struct address *addresses_find(const struct addresses *addresses, uintptr_t address) {
    size_t i = (size_t)((uint64_t)address * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (addresses->room - 1);
    while (addresses->entries[i].address != 0 && addresses->entries[i].address != address)
        i = (i + 1) & (addresses->room - 1);
    return &addresses->entries[i];
}

bool addresses_make(struct addresses *addresses, const struct stack *newest) {
    size_t frames = 0, room = 1024;
    for (const struct stack *stack = newest; stack != NULL; stack = stack->older) frames += stack->count;
    while (room < 2 * frames) room *= 2; /* most addresses occur in several stacks, so far less of it is touched */
    *addresses = (struct addresses){os_map(room * sizeof *addresses->entries), room};
    if (addresses->entries == NULL) return false;
    for (const struct stack *stack = newest; stack != NULL; stack = stack->older)
        for (size_t i = 0; i < stack->count; i++) addresses_find(addresses, stack->frames[i])->address = stack->frames[i];
    return true;
}

void addresses_end(struct addresses *addresses) {
    os_unmap(addresses->entries, addresses->room * sizeof *addresses->entries);
}
