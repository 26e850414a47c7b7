/* folded.c: a profile as text, one line for each stack, for scripts that draw flame graphs. Layer 3. */
#include <string.h>

#include "profile/write.h"
#include "weft.h"

#define NAME_BYTES 128 /* longer ones are cut */

static void name_find(char *name, uintptr_t address) {
    for (const struct module *module = samples_modules(); module != NULL; module = module->older) {
        if (address < module->os.start || address >= module->os.end) continue;
        os_symbol_in(module->os.path, address - module->os.start + module->os.offset, name, NAME_BYTES);
        return;
    }
    os_symbol(address, name, NAME_BYTES);
}

/* Names by address. false: no memory. */
struct names {
    struct addresses addresses;
    char *memory;
    size_t bytes;
};

static bool names_make(struct names *names, const struct stack *newest) {
    if (!addresses_make(&names->addresses, newest)) return false;
    size_t count = 0;
    for (size_t i = 0; i < names->addresses.room; i++) count += names->addresses.entries[i].address != 0;
    names->bytes = round_up((count + 1) * NAME_BYTES, os_page_size());
    names->memory = os_map(names->bytes);
    if (names->memory == NULL) addresses_end(&names->addresses);
    return names->memory != NULL;
}

static void names_end(struct names *names) {
    os_unmap(names->memory, names->bytes);
    addresses_end(&names->addresses);
}

/* Replaces semicolons and newlines, which have a meaning in this format. */
static const char *name_of(struct names *names, char **next, uintptr_t address) {
    struct address *entry = addresses_find(&names->addresses, address);
    if (entry->name != NULL) return entry->name;
    entry->name = *next;
    *next += NAME_BYTES;
    name_find(entry->name, address - 1);
    for (char *c = entry->name; *c != 0; c++)
        if (*c == ';' || *c == '\n') *c = '_';
    return entry->name;
}

int folded_write(int fd, enum total total) {
    char buffer[4096];
    struct text out = {.to = buffer, .size = sizeof buffer, .fd = fd};
    const struct stack *newest = samples_stacks();
    struct names names;
    if (!names_make(&names, newest)) return WEFT_ENOMEM;
    char *next = names.memory;
    for (const struct stack *stack = newest; stack != NULL && !out.failed; stack = stack->older) {
        uint64_t value = load_rlx(&stack->total[total]);
        if (value == 0) continue;
        for (size_t i = stack->count; i > 0; i--) {
            text_put(&out, name_of(&names, &next, stack->frames[i - 1]));
            text_put(&out, i > 1 ? ";" : " ");
        }
        text_format(&out, "%lu\n", value);
    }
    names_end(&names);
    return text_end(&out) < 0 ? WEFT_EINVAL : WEFT_OK;
}
