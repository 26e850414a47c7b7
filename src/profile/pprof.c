/* pprof.c: a profile as a message of profile.proto, as pprof reads it, uncompressed. Layer 3.
 *
 * A field is its number and kind, then its value; kind 2 has a length before the value. So inner messages are put together
 * in a buffer first. A location's id is its address. pprof finds the names of functions itself, in the files. */
#include <string.h>

#include "profile/write.h"
#include "weft.h"

/* Fields by their numbers in profile.proto. */
enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE,
    PROFILE_MAPPING,
    PROFILE_LOCATION,
    PROFILE_STRING = 6,
    PROFILE_PERIOD_TYPE = 11,
    PROFILE_PERIOD,
    PROFILE_COMMENT,
    PROFILE_DEFAULT_TYPE
};
enum { TYPE_TYPE = 1, TYPE_UNIT };
enum { SAMPLE_LOCATIONS = 1, SAMPLE_VALUES };
enum { MAPPING_ID = 1, MAPPING_START, MAPPING_END, MAPPING_OFFSET, MAPPING_FILE, MAPPING_BUILD_ID };
enum { LOCATION_ID = 1, LOCATION_MAPPING, LOCATION_ADDRESS };

/* The first strings of the table. */
enum {
    STRING_NONE,
    STRING_ALLOC_OBJECTS,
    STRING_COUNT,
    STRING_ALLOC_SPACE,
    STRING_BYTES,
    STRING_INUSE_OBJECTS,
    STRING_INUSE_SPACE,
    STRING_SPACE,
    STRING_LOST,
    STRINGS
};
static const char *const strings[STRING_LOST] = {"",      "alloc_objects", "count",       "alloc_space",
                                                 "bytes", "inuse_objects", "inuse_space", "space"};

#define NUMBER_BYTES 10 /* at most */
struct message {
    size_t length;
    uint8_t bytes[(OS_FRAMES_MAX + 16) * NUMBER_BYTES];
};

static void put_number(struct message *message, uint64_t n) {
    for (; n >= 128; n >>= 7) message->bytes[message->length++] = (uint8_t)(n | 128);
    message->bytes[message->length++] = (uint8_t)n;
}

static void put_field(struct message *message, unsigned field, uint64_t n) {
    put_number(message, field << 3);
    put_number(message, n);
}

static void put_packed(struct message *message, unsigned field, const struct message *numbers) {
    put_number(message, field << 3 | 2);
    put_number(message, numbers->length);
    memcpy(message->bytes + message->length, numbers->bytes, numbers->length);
    message->length += numbers->length;
}

static void write_bytes(struct text *out, const void *bytes, size_t length) {
    for (size_t i = 0; i < length; i++) text_put_char(out, ((const char *)bytes)[i]);
}

static void write_long(struct text *out, unsigned field, const void *bytes, size_t length) {
    struct message head = {0};
    put_number(&head, field << 3 | 2);
    put_number(&head, length);
    write_bytes(out, head.bytes, head.length);
    write_bytes(out, bytes, length);
}

static void write_message(struct text *out, unsigned field, const struct message *message) {
    write_long(out, field, message->bytes, message->length);
}

static void write_number(struct text *out, unsigned field, uint64_t n) {
    struct message message = {0};
    put_field(&message, field, n);
    write_bytes(out, message.bytes, message.length);
}

static void write_string(struct text *out, const char *string) { write_long(out, PROFILE_STRING, string, strlen(string)); }

static void write_type(struct text *out, unsigned field, unsigned type, unsigned unit) {
    struct message message = {0};
    put_field(&message, TYPE_TYPE, type);
    put_field(&message, TYPE_UNIT, unit);
    write_message(out, field, &message);
}

static void write_lost(struct text *out) {
    char words[64];
    struct text text = {.size = sizeof words, .fd = TEXT_TO_MEMORY};
    text.to = words;
    text_format(&text, "%lu samples had no memory", samples_lost());
    text_end(&text);
    write_string(out, words);
}

static void write_head(struct text *out, uint64_t interval_bytes) {
    for (unsigned i = 0; i < STRING_LOST; i++) write_string(out, strings[i]);
    write_lost(out);
    write_type(out, PROFILE_SAMPLE_TYPE, STRING_ALLOC_OBJECTS, STRING_COUNT);
    write_type(out, PROFILE_SAMPLE_TYPE, STRING_ALLOC_SPACE, STRING_BYTES);
    write_type(out, PROFILE_SAMPLE_TYPE, STRING_INUSE_OBJECTS, STRING_COUNT);
    write_type(out, PROFILE_SAMPLE_TYPE, STRING_INUSE_SPACE, STRING_BYTES);
    write_type(out, PROFILE_PERIOD_TYPE, STRING_SPACE, STRING_BYTES);
    write_number(out, PROFILE_PERIOD, interval_bytes);
    if (samples_lost() != 0) write_number(out, PROFILE_COMMENT, STRING_LOST);
    write_number(out, PROFILE_DEFAULT_TYPE, STRING_INUSE_SPACE);
}

/* ---- modules ------------------------------------------------------------------------------------------------------ */

/* The length of the UTF-8 character at text; 0: there is none. */
static size_t character_bytes(const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    if (at[0] < 0x80) return 1;
    size_t bytes = at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf5 ? 4 : 0;
    for (size_t i = 1; i < bytes; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    bool is_long = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    bool is_none = (at[0] == 0xed && at[1] >= 0xa0) || (at[0] == 0xf4 && at[1] >= 0x90);
    return is_long || is_none ? 0 : bytes;
}

/* Replaces bytes that are not UTF-8: readers refuse a whole file because of one such string. */
static void write_path(struct text *out, const char *path) {
    char clean[sizeof((struct os_module *)0)->path];
    size_t length = 0;
    while (path[length] != 0) {
        size_t bytes = character_bytes(path + length);
        if (bytes == 0) clean[length] = '?';
        for (size_t i = 0; i < bytes; i++) clean[length + i] = path[length + i];
        length += bytes == 0 ? 1 : bytes;
    }
    clean[length] = 0;
    write_string(out, clean);
}

/* Writes a mapping, and its two strings, whose numbers are `next` and the one after. */
static void write_module(struct text *out, uint64_t id, uint64_t next, const struct os_module *module) {
    struct message message = {0};
    put_field(&message, MAPPING_ID, id);
    put_field(&message, MAPPING_START, module->start);
    put_field(&message, MAPPING_END, module->end);
    put_field(&message, MAPPING_OFFSET, module->offset);
    put_field(&message, MAPPING_FILE, next);
    put_field(&message, MAPPING_BUILD_ID, next + 1);
    write_message(out, PROFILE_MAPPING, &message);
    write_path(out, module->path);
    char digits[2 * sizeof module->build_id + 1];
    for (unsigned i = 0; i < module->build_id_bytes; i++) {
        digits[2 * i] = "0123456789abcdef"[module->build_id[i] >> 4];
        digits[2 * i + 1] = "0123456789abcdef"[module->build_id[i] & 15];
    }
    digits[2 * module->build_id_bytes] = 0;
    write_string(out, digits);
}

/* The number of the module that has the address, counted from the newest; 0: none. */
static uint64_t module_of(const struct module *newest, uintptr_t address) {
    uint64_t id = 1;
    for (const struct module *module = newest; module != NULL; module = module->older, id++)
        if (address >= module->os.start && address < module->os.end) return id;
    return 0;
}

/* Writes the program first, because pprof takes the first mapping for the program. */
static uint64_t write_modules(struct text *out, const struct module *newest) {
    uint64_t strings_so_far = STRINGS;
    for (int others = 0; others < 2; others++) {
        uint64_t id = 1;
        for (const struct module *module = newest; module != NULL; module = module->older, id++) {
            if (module->os.is_program == (others == 1)) continue;
            write_module(out, id, strings_so_far, &module->os);
            strings_so_far += 2;
        }
    }
    return strings_so_far;
}

/* ---- locations and samples ---------------------------------------------------------------------------------------- */

/* If no module is known for an address, the kernel is asked, and the address gets a mapping of its own. 1 is subtracted
 * because a return address lies behind its call. */
static void write_locations(struct text *out, const struct addresses *addresses, const struct module *newest,
                            uint64_t strings_so_far) {
    uint64_t next_id = 1;
    for (const struct module *module = newest; module != NULL; module = module->older) next_id++;
    for (size_t i = 0; i < addresses->room; i++) {
        uintptr_t address = addresses->entries[i].address;
        if (address == 0) continue;
        uint64_t id = module_of(newest, address - 1);
        struct os_module mapped;
        if (id == 0 && os_module_mapped(address - 1, &mapped)) {
            id = next_id++;
            write_module(out, id, strings_so_far, &mapped);
            strings_so_far += 2;
        }
        struct message message = {0};
        put_field(&message, LOCATION_ID, address);
        put_field(&message, LOCATION_MAPPING, id);
        put_field(&message, LOCATION_ADDRESS, address - 1);
        write_message(out, PROFILE_LOCATION, &message);
    }
}

static void write_sample(struct text *out, const struct stack *stack) {
    struct message message = {0}, locations = {0}, values = {0};
    for (size_t i = 0; i < stack->count; i++) put_number(&locations, stack->frames[i]);
    for (enum total i = 0; i < TOTALS; i++) {
        uint64_t value = load_rlx(&stack->total[i]);
        put_number(&values, i % 2 == 0 ? (value + OBJECT_PARTS / 2) / OBJECT_PARTS : value);
    }
    put_packed(&message, SAMPLE_LOCATIONS, &locations);
    put_packed(&message, SAMPLE_VALUES, &values);
    write_message(out, PROFILE_SAMPLE, &message);
}

int pprof_write(int fd, uint64_t interval_bytes) {
    char buffer[4096];
    struct text out = {.to = buffer, .size = sizeof buffer, .fd = fd};
    const struct stack *stacks = samples_stacks();
    const struct module *modules = samples_modules();
    struct addresses addresses;
    if (!addresses_make(&addresses, stacks)) return WEFT_ENOMEM;
    write_head(&out, interval_bytes);
    write_locations(&out, &addresses, modules, write_modules(&out, modules));
    for (const struct stack *stack = stacks; stack != NULL && !out.failed; stack = stack->older) write_sample(&out, stack);
    addresses_end(&addresses);
    return text_end(&out) < 0 ? WEFT_EINVAL : WEFT_OK;
}
