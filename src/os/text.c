/* text.c: text built in a buffer. Layer 1. */
#include <stdarg.h>

#include "os/os.h"
#include "os/text.h"

void text_put_char(struct text *text, char c) {
    if (text->fd != TEXT_TO_MEMORY && text->length == text->size) {
        text->failed |= !os_write(text->fd, text->to, text->length);
        text->length = 0;
    }
    size_t room = text->fd == TEXT_TO_MEMORY ? 1 : 0; /* for the terminating zero */
    if (text->length + room < text->size) text->to[text->length] = c;
    text->length++;
}

void text_put(struct text *text, const char *from) {
    for (; *from != 0; from++) text_put_char(text, *from);
}

/* How many bytes a UTF-8 character has that begins so; 0: none does. */
static size_t bytes_of_lead(unsigned char lead) {
    if (lead < 0x80) return 1;
    return lead < 0xc2 || lead > 0xf4 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

static bool is_within(unsigned char c, unsigned least, unsigned most) { return c >= least && c <= most; }

/* Does the second byte go with the first? Not for a character in more bytes than it needs, half a surrogate pair, one beyond
 * U+10FFFF, or U+0080 to U+009F, which are control characters. */
static bool is_second(unsigned char lead, unsigned char second) {
    switch (lead) {
    case 0xc2:
    case 0xe0: return is_within(second, 0xa0, 0xbf);
    case 0xed: return is_within(second, 0x80, 0x9f);
    case 0xf0: return is_within(second, 0x90, 0xbf);
    case 0xf4: return is_within(second, 0x80, 0x8f);
    default: return is_within(second, 0x80, 0xbf);
    }
}

/* The bytes of the character that the text begins with; 0: it is none to show. */
static size_t character_bytes(const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    size_t bytes = bytes_of_lead(*at);
    if (bytes <= 1) return bytes == 1 && *at >= 0x20 && *at != 0x7f;
    if (!is_second(at[0], at[1])) return 0;
    for (size_t i = 2; i < bytes; i++)
        if (!is_within(at[i], 0x80, 0xbf)) return 0;
    return bytes;
}

static void put_name(struct text *text, const char *from, bool is_quoted) {
    while (*from != 0) {
        size_t bytes = character_bytes(from);
        if (is_quoted && (*from == '"' || *from == '\\')) text_put_char(text, '\\');
        if (bytes == 0) text_put_char(text, '?');
        for (size_t i = 0; i < bytes; i++) text_put_char(text, from[i]);
        from += bytes == 0 ? 1 : bytes;
    }
}

void text_put_name(struct text *text, const char *from) { put_name(text, from, false); }

void text_put_quoted(struct text *text, const char *from) {
    text_put_char(text, '"');
    put_name(text, from, true);
    text_put_char(text, '"');
}

size_t text_whole(const char *text, size_t length) {
    size_t at = length;
    while (at > 0 && length - at < 3 && is_within((unsigned char)text[at - 1], 0x80, 0xbf)) at--;
    return at > 0 && bytes_of_lead((unsigned char)text[at - 1]) > length - at + 1 ? at - 1 : length;
}

/* The digits of n, at the end of *digits; at least `least` of them. */
static char *digits_of(char (*digits)[24], uint64_t n, unsigned base, unsigned least) {
    size_t at = sizeof *digits;
    (*digits)[--at] = 0;
    for (unsigned count = 0; n != 0 || count < least; count++) {
        (*digits)[--at] = "0123456789abcdef"[n % base];
        n /= base;
    }
    return *digits + at;
}

void text_put_number(struct text *text, uint64_t n) {
    char digits[24];
    text_put(text, digits_of(&digits, n, 10, 1));
}

void text_put_hex(struct text *text, uint64_t n) {
    char digits[24];
    text_put(text, "0x");
    text_put(text, digits_of(&digits, n, 16, 1));
}

void text_format(struct text *text, const char *form, ...) {
    va_list values;
    va_start(values, form);
    for (; *form != 0; form++) {
        if (*form != '%') {
            text_put_char(text, *form);
            continue;
        }
        switch (*++form) {
        case 's': text_put(text, va_arg(values, const char *)); break;
        case 'u': text_put_number(text, va_arg(values, uint32_t)); break;
        case 'l': text_put_number(text, va_arg(values, uint64_t)), form += 1; break;
        default: text_put_hex(text, va_arg(values, uint64_t)), form += 2; break;
        }
    }
    va_end(values);
}

void text_put_decimal(struct text *text, uint64_t n, unsigned digits) {
    uint64_t unit = 1;
    for (unsigned i = 0; i < digits; i++) unit *= 10;
    char rest[24];
    text_put_number(text, n / unit);
    if (digits == 0) return;
    text_put_char(text, '.');
    text_put(text, digits_of(&rest, n % unit, 10, digits));
}

void text_put_column(struct text *text, uint64_t n, unsigned width) {
    char digits[24];
    const char *from = digits_of(&digits, n, 10, 1);
    size_t length = (size_t)(digits + sizeof digits - 1 - from);
    for (size_t i = length; i < width; i++) text_put_char(text, ' ');
    text_put(text, from);
}

void text_put_field(struct text *text, const char *name, uint64_t n) {
    text_put_char(text, '"');
    text_put(text, name);
    text_put(text, "\": ");
    text_put_number(text, n);
    text_put(text, ", ");
}

int text_end(struct text *text) {
    if (text->fd == TEXT_TO_MEMORY) {
        if (text->size > 0) text->to[min_u64(text->length, text->size - 1)] = 0;
        return (int)text->length;
    }
    text->failed |= !os_write(text->fd, text->to, text->length);
    text->length = 0;
    return text->failed ? -1 : 0;
}

void text_tell(const char *first, const char *second, const char *third) {
    char buffer[256];
    struct text text = {.to = buffer, .size = sizeof buffer, .fd = 2};
    text_format(&text, "weft: %s%s%s\n", first, second, third);
    text_end(&text);
}

bool digits_parse(const char **text, uint64_t most, uint64_t *number) {
    const char *at = *text;
    for (*number = 0; *at >= '0' && *at <= '9'; at++) {
        bool is_over = __builtin_mul_overflow(*number, 10, number);
        if (__builtin_add_overflow(*number, (uint64_t)(*at - '0'), number) || is_over || *number > most) return false;
    }
    bool has_some = at != *text;
    *text = at;
    return has_some;
}
