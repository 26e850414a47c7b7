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

/* Our operators new, new[], delete and delete[], by names of their own. */
#define OURS __attribute__((visibility("hidden")))
OURS void *operators_new(size_t bytes);
OURS void *operators_new_array(size_t bytes);
OURS void operators_delete(void *block);
OURS void operators_delete_array(void *block);
/* Those that the process uses: of the program, if it has its own. */
void *operators_new_used(size_t bytes);
void operators_delete_used(void *block);
void operators_delete_array_used(void *block);
/* Whether some of those are not ours: then the other forms ask them, as C++ has it. Set before main. */
extern __attribute__((visibility("hidden"))) bool operators_new_is_replaced, operators_delete_is_replaced;

#ifdef __cplusplus
}
#endif
#endif
