/* record.c: one record of a chunk's log: the text of a symbolic link, "kind worker value check".
 *
 * The check covers the chunk's index and the record's number, so that a link that was copied or renamed does not count. Texts
 * differ whenever what they say does: `held` carries its worker's count of claims. So whoever is refused can read whether the
 * record that stands there is its own: of a call whose reply was lost, as NFS may repeat one, and on file systems that have
 * another errno for a name that is taken. */
#include "chunks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const kinds[KINDS] = {"held", "done", "fail", "free", "anew"};

/* FNV-1a. */
uint32_t text_check(const char *text, size_t length, uint32_t seed) {
    uint32_t hash = UINT32_C(2166136261) ^ seed;
    for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)text[i]) * UINT32_C(16777619);
    return hash;
}

static void name_write(struct place place, char name[NAME_BYTES]) {
    snprintf(name, NAME_BYTES, "%07zu.%" PRIu32, place.chunk, place.number);
}

static uint32_t check_of(struct place place, const char *text, size_t length) {
    char name[NAME_BYTES];
    name_write(place, name);
    return text_check(text, length, text_check(name, strlen(name), 0));
}

static void text_write(struct place place, const struct record *record, char text[RECORD_BYTES]) {
    int length =
        snprintf(text, RECORD_BYTES, "%s %016" PRIx64 " %" PRId64, kinds[record->kind], record->worker, record->value);
    snprintf(text + length, RECORD_BYTES - (size_t)length, " %08" PRIx32, check_of(place, text, (size_t)length));
}

/* Exactly what text_write makes of some record: the numbers are read as they may, and compared as text. */
static bool text_read(struct place place, const char *text, struct record *record) {
    char again[RECORD_BYTES], *end;
    if (strlen(text) < 5) return false;
    record->worker = strtoull(text + 5, &end, 16);
    record->value = strtoll(end, NULL, 10);
    for (int i = 0; i < KINDS; i++) {
        if (strncmp(text, kinds[i], 4) != 0) continue;
        record->kind = (enum kind)i;
        text_write(place, record, again);
        return strcmp(text, again) == 0;
    }
    return false;
}

enum found record_read(int directory, struct place place, struct record *record) {
    char name[NAME_BYTES], text[RECORD_BYTES];
    name_write(place, name);
    ssize_t length = readlinkat(directory, name, text, sizeof text - 1);
    if (length < 0 && errno == ENOENT) return FOUND_NONE;
    if (length < 0 && errno == EINVAL) return FOUND_TORN; /* something else has that name */
    if (length < 0) {
        why_system("chunks/%s cannot be read", name);
        return FOUND_ERROR;
    }
    text[length] = 0;
    return text_read(place, text, record) ? FOUND_RECORD : FOUND_TORN;
}

enum found record_append(int directory, struct place place, const struct record *record) {
    char name[NAME_BYTES], text[RECORD_BYTES], there[RECORD_BYTES];
    name_write(place, name);
    text_write(place, record, text);
    if (symlinkat(text, directory, name) == 0) return FOUND_RECORD;
    int number = errno;
    ssize_t length = readlinkat(directory, name, there, sizeof there - 1);
    if (length >= 0 && (size_t)length == strlen(text) && memcmp(there, text, (size_t)length) == 0) return FOUND_RECORD;
    if (length >= 0 || number == EEXIST) return FOUND_NONE;
    errno = number;
    why_system("chunks/%s cannot be written", name);
    return FOUND_ERROR;
}
