/* fuzz.h: what a fuzz target sees: an input, bytes that it draws its choices from. Each fuzz_NAME.c of this directory is one
 * target and defines fuzz_one; an input that shows a fault ends the process.
 *
 * With clang's libFuzzer (`make fuzz`) the inputs grow with what they reach. Otherwise main.c draws them (`make test`).
 * A generator that draws its choices by fuzz_below can be driven by either. */
#ifndef WEFT_FUZZ_H
#define WEFT_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One input. What lies behind its end reads as zeros. */
struct fuzz {
    const uint8_t *at;
    size_t left;
};

#define FUZZ_CHECK(x)                                                                                                       \
    do {                                                                                                                    \
        if (!(x)) {                                                                                                         \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #x);                                               \
            abort();                                                                                                        \
        }                                                                                                                   \
    } while (0)

static inline uint8_t fuzz_byte(struct fuzz *input) {
    if (input->left == 0) return 0;
    input->left--;
    return *input->at++;
}
static inline uint64_t fuzz_number(struct fuzz *input, unsigned bytes) {
    uint64_t number = 0;
    for (unsigned i = 0; i < bytes; i++) number = number << 8 | fuzz_byte(input);
    return number;
}
/* 0 to before n, of at most 2^16. */
static inline unsigned fuzz_below(struct fuzz *input, unsigned n) {
    return (unsigned)fuzz_number(input, n > 256 ? 2 : 1) % n;
}
/* The bytes up to a newline or a zero, which is passed, as text; at most size - 1 of them. */
static inline char *fuzz_text(struct fuzz *input, char *text, size_t size) {
    size_t length = 0;
    while (input->left > 0) {
        char c = (char)fuzz_byte(input);
        if (c == 0 || c == '\n') break;
        if (length + 1 < size) text[length++] = c;
    }
    text[length] = 0;
    return text;
}

/* The target's; may be called any number of times. */
void fuzz_one(struct fuzz *input);
/* The target's: texts that belong into an input, for who draws inputs without knowing the code; ends with NULL. */
extern const char *const fuzz_words[];

#endif
