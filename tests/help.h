/* help.h: what several tests share. Assertions of cmocka work in the test's own thread and process only; code that runs
 * elsewhere uses REQUIRE, which ends the process and names the line. */
#ifndef WEFT_TESTS_HELP_H
#define WEFT_TESTS_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define REQUIRE(x)                                                                                                          \
    do {                                                                                                                    \
        if (!(x)) {                                                                                                         \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #x);                                               \
            _exit(99);                                                                                                      \
        }                                                                                                                   \
    } while (0)

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED_ADDRESS 1
#elif defined(__SANITIZE_THREAD__)
#define SANITIZED_THREAD 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED_ADDRESS 1
#elif __has_feature(thread_sanitizer)
#define SANITIZED_THREAD 1
#endif
#endif

#if defined(SANITIZED_ADDRESS) || defined(SANITIZED_THREAD)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* Ends a case that cannot run here, and says why. */
#define SKIP(reason)                                                                                                        \
    do {                                                                                                                    \
        printf("skipped, %s: %s\n", __func__, reason);                                                                      \
        skip();                                                                                                             \
    } while (0)

#if defined(_GNU_SOURCE)
static inline pid_t thread_id(void) { return (pid_t)syscall(SYS_gettid); }

/* Does a thread of this process sleep now? */
static inline int thread_sleeps(pid_t thread) {
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    FILE *file = fopen(path, "r");
    if (file == NULL) return 0;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 0;
    fclose(file);
    return state == 'S';
}
#endif

/* Does an emulator run this program? qemu-user shows the host's /proc/cpuinfo; only x86 has vendors there. */
static inline int is_emulated(void) {
    int is_foreign = 0;
#if !defined(__x86_64__) && !defined(__i386__)
    char line[256];
    FILE *info = fopen("/proc/cpuinfo", "r");
    while (info != NULL && !is_foreign && fgets(line, sizeof line, info) != NULL)
        is_foreign = strncmp(line, "vendor_id", 9) == 0;
    if (info != NULL) fclose(info);
#endif
    return is_foreign;
}

/* `test_name PATTERN` runs the cases whose names match, as "*cancel*"; `test_name '!PATTERN'` the others. */
static inline void choose_cases(int argc, char **argv) {
    if (argc != 2) return;
    if (argv[1][0] == '!')
        cmocka_set_skip_filter(argv[1] + 1);
    else
        cmocka_set_test_filter(argv[1]);
}

/* Runs a function in a forked child and returns its exit status; a child killed by a signal gives 1000 + the signal. */
static inline int child_status(pid_t child) {
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return -1;
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static inline int in_child(int (*run)(void *), void *argument) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) _exit(run(argument));
    return child_status(child);
}

/* The same; `said` is what the child wrote on standard error, at most a few kilobytes, cut to size - 1
 * characters. */
static inline int in_child_said(int (*run)(void *), void *argument, char *said, size_t size) {
    int ends[2], error = dup(STDERR_FILENO);
    REQUIRE(error >= 0 && pipe(ends) == 0 && dup2(ends[1], STDERR_FILENO) >= 0);
    int status = in_child(run, argument);
    REQUIRE(dup2(error, STDERR_FILENO) >= 0 && close(ends[1]) == 0 && close(error) == 0);
    size_t length = 0;
    for (ssize_t got; length < size - 1 && (got = read(ends[0], said + length, size - 1 - length)) > 0;)
        length += (size_t)got;
    said[length] = 0;
    REQUIRE(close(ends[0]) == 0);
    return status;
}

#endif
