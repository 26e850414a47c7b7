/* fuzz_text.c: text built in a buffer, held against snprintf. */
#include "fuzz.h"
#include "os/text.h"

const char *const fuzz_words[] = {"word", NULL};

enum { ROOM = 4096, PIECES = 40 };

static void put_both(struct fuzz *input, struct text *text, char *expected, size_t *length) {
    char word[60];
    unsigned long long n = fuzz_number(input, 1 + fuzz_below(input, 8));
    unsigned kind = fuzz_below(input, 6), width = fuzz_below(input, 30), digits = fuzz_below(input, 10);
    char *to = expected + *length;
    size_t room = ROOM - *length;
    unsigned long long unit = 1;
    for (unsigned i = 0; i < digits; i++) unit *= 10;
    switch (kind) {
    case 0: text_put_number(text, n), *length += (size_t)snprintf(to, room, "%llu", n); break;
    case 1: text_put_hex(text, n), *length += (size_t)snprintf(to, room, n == 0 ? "0x0" : "%#llx", n); break;
    case 2: text_put_column(text, n, width), *length += (size_t)snprintf(to, room, "%*llu", (int)width, n); break;
    case 3: text_put_field(text, "f", n), *length += (size_t)snprintf(to, room, "\"f\": %llu, ", n); break;
    case 4:
        text_put_decimal(text, n, digits);
        *length += (size_t)(digits == 0 ? snprintf(to, room, "%llu", n)
                                        : snprintf(to, room, "%llu.%0*llu", n / unit, (int)digits, n % unit));
        break;
    default: text_put(text, fuzz_text(input, word, sizeof word)), *length += (size_t)snprintf(to, room, "%s", word);
    }
}

void fuzz_one(struct fuzz *input) {
    static char expected[ROOM];
    size_t size = fuzz_below(input, 600), length = 0;
    char *to = malloc(size + 1);
    FUZZ_CHECK(to != NULL);
    struct text text = {.to = to, .size = size, .fd = TEXT_TO_MEMORY};
    expected[0] = 0;
    for (unsigned i = fuzz_below(input, PIECES); i > 0; i--) put_both(input, &text, expected, &length);
    to[size] = 'x';
    FUZZ_CHECK(text_end(&text) == (int)length && to[size] == 'x');
    if (size > 0) {
        size_t kept = length < size ? length : size - 1;
        FUZZ_CHECK(to[kept] == 0 && memcmp(to, expected, kept) == 0);
    }
    free(to);
}
