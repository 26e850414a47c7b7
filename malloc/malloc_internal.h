/* malloc_internal.h: what the files of libweft-malloc.so share. */
#ifndef WEFT_MALLOC_INTERNAL_H
#define WEFT_MALLOC_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weft.h>

#define EXPORT __attribute__((visibility("default")))
#define NOINLINE __attribute__((noinline))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#ifdef __cplusplus
extern "C" {
#endif

enum report_form { REPORT_TEXT, REPORT_JSON };

/* Writes the heap's counts to a file descriptor by write(2) alone; one at a time, a second caller meanwhile writes
 * nothing. Keeps errno. May be called in a signal handler. false: the descriptor took not all of it. */
bool report_write(enum report_form form, int fd);

/* A line on standard error: weft: NAME=VALUE, and what is the matter with it. */
void report_say(const char *name, const char *value, const char *what);

/* profile.c: what the environment asks for; false: it is not understood. */
bool profile_path_parse(const char *value);
bool profile_form_parse(const char *value);
bool profile_interval_parse(int64_t bytes);
/* All of it is read. Whether there will be something to write at the end. */
bool profile_begin(void);
void profile_on_signal(int number);
void profile_at_exit(void);

/* operator new when there is no memory: asks the handler, and throws. */
void *operators_new_slow(size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
