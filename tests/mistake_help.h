/* mistake_help.h: a program's mistakes, each in a child of its own, and what the heap says of them. */
#ifndef WEFT_MISTAKE_HELP_H
#define WEFT_MISTAKE_HELP_H

#include <signal.h>

#include "help.h"

static char said[1024];

/* Runs it in a child whose standard error comes here, and returns how the child ended, as child_status does. */
static int outcome(void (*run)(void)) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL); /* cmocka catches it */
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        run();
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t n = 1; n > 0; length += (size_t)(n > 0 ? n : 0)) n = read(ends[0], said + length, sizeof said - 1 - length);
    said[length] = 0;
    close(ends[0]);
    return child_status(child);
}

/* It aborts, and says all of `words` (separated by '|') on one line. */
__attribute__((unused)) static void dies(void (*run)(void), const char *words) {
    char left[256];
    int status = outcome(run);
    if (status != 1000 + SIGABRT) print_error("status %d, said: %s\n", status, said);
    assert_int_equal(status, 1000 + SIGABRT);
    snprintf(left, sizeof left, "%s", words);
    for (const char *word = strtok(left, "|"); word != NULL; word = strtok(NULL, "|")) {
        if (strstr(said, word) == NULL) print_error("no \"%s\" in: %s\n", word, said);
        assert_non_null(strstr(said, word));
    }
    assert_memory_equal(said, "weft heap: ", 11);
    if (!is_emulated()) assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1); /* an emulator adds a line */
}

static void lives(void (*run)(void)) {
    int status = outcome(run);
    if (status != 0) print_error("said: %s\n", said);
    assert_int_equal(status, 0);
    assert_string_equal(said, "");
}

#if defined(SANITIZED_ADDRESS)
void __asan_unpoison_memory_region(const void *p, size_t size);
#endif

/* Past what the caller may touch, as the mistakes below do. The address is hidden from the compiler, and opened to
 * AddressSanitizer, which would be first to tell. */
__attribute__((unused)) static void scribble(void *p, size_t offset, char value) {
    char *to = (char *)p + offset;
#if defined(SANITIZED_ADDRESS)
    __asan_unpoison_memory_region(to, 1);
#endif
    __asm__("" : "+r"(to));
    *to = value;
}

#endif
