/* why.c: what went wrong, in words, for the thread that asked. */
#include "chunks.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char words[1024];

const char *weft_chunks_why(void) { return words; }

int why(int error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    return error;
}

int why_system(const char *format, ...) {
    int number = errno;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    size_t used = length < 0 ? 0 : (size_t)length < sizeof words ? (size_t)length : sizeof words - 1;
    snprintf(words + used, sizeof words - used, ": %s", strerror(number));
    return number == ENOMEM ? WEFT_ENOMEM : WEFT_CHUNKS_SYSTEM;
}

const char *weft_chunks_strerror(int error) {
    switch (error) {
    case WEFT_CHUNKS_BUSY: return "no chunk is free now";
    case WEFT_CHUNKS_END: return "nothing is left to claim";
    case WEFT_CHUNKS_LOST: return "the chunk is no longer this worker's";
    case WEFT_CHUNKS_SYSTEM: return "the file system refused";
    case WEFT_CHUNKS_OTHER: return "the directory holds no queue, or one with another plan";
    case WEFT_CHUNKS_DAMAGED: return "the queue's own file is damaged";
    default: return weft_strerror(error);
    }
}
