/* text.h: text built in a buffer, without allocation. Layer 1. Safe in signal handlers.
 *
 * With a full buffer it goes on counting, as snprintf does; or, with a file descriptor, it writes the buffer out and goes
 * on. */
#ifndef WEFT_TEXT_H
#define WEFT_TEXT_H

#include "os/base.h"

struct text {
    char *to;
    size_t size;
    size_t length; /* of all that was put; with a descriptor, of what is in the buffer */
    int fd;        /* TEXT_TO_MEMORY: none */
    bool failed;   /* a write to the descriptor failed */
};

#define TEXT_TO_MEMORY (-1)

#define TEXT_OF(x) TEXT(x)
#define TEXT(x) #x
#define VERSION_TEXT TEXT_OF(WEFT_VERSION_MAJOR) "." TEXT_OF(WEFT_VERSION_MINOR) "." TEXT_OF(WEFT_VERSION_PATCH)

void text_put(struct text *text, const char *from);
void text_put_char(struct text *text, char c);
void text_put_number(struct text *text, uint64_t n);
/* Formats as printf does, with these conversions alone: %s, %u, %lu and %#lx. %#lx puts 0x before a zero, too. */
void text_format(struct text *text, const char *form, ...) __attribute__((format(printf, 2, 3)));
void text_put_hex(struct text *text, uint64_t n);
/* Each byte that is no part of a UTF-8 character, or of a control character, as a question mark: names come from anywhere. */
void text_put_name(struct text *text, const char *from);
/* The same as a JSON string. */
void text_put_quoted(struct text *text, const char *from);
/* The length without a last character of which bytes are missing: of a text that was cut off. */
size_t text_whole(const char *text, size_t length);
/* n / 10^digits, with that many digits after the point. */
void text_put_decimal(struct text *text, uint64_t n, unsigned digits);
/* Right-aligned in `width` characters. */
void text_put_column(struct text *text, uint64_t n, unsigned width);
/* A member of a JSON object that is not its last one: "name": n, and a blank. */
void text_put_field(struct text *text, const char *name, uint64_t n);
/* Appends the terminating zero, or writes the rest of the buffer to the descriptor. Returns the length as snprintf does;
 * with a descriptor 0, or -1 if a write failed. */
int text_end(struct text *text);

/* Writes one line on standard error: "weft: " and the three strings. */
void text_tell(const char *first, const char *second, const char *third);

/* Reads decimal digits at *text and moves it past them. false: there are none, or the number is above `most`. */
bool digits_parse(const char **text, uint64_t most, uint64_t *number);

#endif
