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

/* Writes the heap's counts to a file descriptor by write(2) alone. Only one call writes at a time; a second caller meanwhile
 * writes nothing. Keeps errno. Signal handlers may call it. false: a write failed. */
bool report_write(enum report_form form, int fd);

/* Writes a line on standard error: weft: NAME=VALUE, and what is wrong with it. */
void report_say(const char *name, const char *value, const char *what);

/* profile.c: takes what the environment asks for. false: it is not understood. */
bool profile_path_parse(const char *value);
bool profile_form_parse(const char *value);
bool profile_interval_parse(int64_t bytes);
/* Call it when all of the environment was read. Returns whether there will be something to write at the end. */
bool profile_begin(void);
void profile_on_signal(int number);
void profile_at_exit(void);

/* operator new without memory: calls the handler, and throws. */
void *operators_new_slow(size_t bytes);

/* Our operators new, new[], delete and delete[], under separate names. */
#define OURS __attribute__((visibility("hidden")))
OURS void *operators_new(size_t bytes);
OURS void *operators_new_array(size_t bytes);
OURS void operators_delete(void *block);
OURS void operators_delete_array(void *block);
/* The operators that the process uses: the program's, if it has its own. */
void *operators_new_used(size_t bytes);
void operators_delete_used(void *block);
void operators_delete_array_used(void *block);
/* Whether some of them are not ours. Then the other forms call them, as the C++ standard says. Set before main. */
extern __attribute__((visibility("hidden"))) bool operators_new_is_replaced, operators_delete_is_replaced;

#ifdef __cplusplus
}
#endif
#endif
