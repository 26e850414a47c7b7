/* jobserver_help.h: a jobserver of the test's own, by a named pipe and by a pipe, and pools that share its tokens. A pipe counts only if
 * the process has it from its parent. So the test runs in a child of the process that makes it. */
#ifndef WEFT_TESTS_JOBSERVER_HELP_H
#define WEFT_TESTS_JOBSERVER_HELP_H

#include "sched/tokens.h"
#include "tally.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TOKENS_MAX 16u

static struct {
    int from, to; /* as make's: blocking */
    char directory[64], path[80];
    unsigned tokens;
} server;

static int makes_ends[2];
#define MAKES_FD 100 /* beyond those that a make around the test may have named */

static inline void pipe_at(int ends[2], int from, int to) {
    int made[2];
    REQUIRE(pipe(made) == 0);
    REQUIRE(dup2(made[0], from) == from && dup2(made[1], to) == to);
    for (int i = 0; i < 2; i++) close(made[i]);
    ends[0] = from;
    ends[1] = to;
}

/* First of all in main: returns in the child. */
static inline void server_process(void) {
    int status = 0;
    pipe_at(makes_ends, MAKES_FD, MAKES_FD + 1);
    fflush(stdout);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        return;
    }
    while (waitpid(child, &status, 0) < 0) REQUIRE(errno == EINTR);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static inline void server_fill(unsigned tokens, const char *style) {
    char flags[160];
    server.tokens = tokens;
    for (unsigned i = 0; i < tokens; i++) {
        char token = (char)('a' + i);
        REQUIRE(write(server.to, &token, 1) == 1);
    }
    if (strcmp(style, "fifo") == 0)
        snprintf(flags, sizeof flags, "kw -j%u --jobserver-auth=fifo:%s -- A=--jobserver-auth=x", tokens + 1, server.path);
    else
        snprintf(flags, sizeof flags, " -j%u --jobserver-%s=%d,%d", tokens + 1, style, server.from, server.to);
    REQUIRE(setenv("MAKEFLAGS", flags, 1) == 0);
}

static inline void server_begin(unsigned tokens, const char *style) {
    if (strcmp(style, "fifo") == 0) {
        strcpy(server.directory, "/tmp/weft-jobserver-XXXXXX");
        REQUIRE(mkdtemp(server.directory) != NULL);
        snprintf(server.path, sizeof server.path, "%s/fifo", server.directory);
        REQUIRE(mkfifo(server.path, 0600) == 0);
        server.from = open(server.path, O_RDWR | O_CLOEXEC);
        server.to = server.from;
        REQUIRE(server.from >= 0);
    } else {
        server.from = makes_ends[0];
        server.to = makes_ends[1];
    }
    server_fill(tokens, style);
}

static inline unsigned server_has(void) {
    int bytes = -1;
    REQUIRE(ioctl(server.from, FIONREAD, &bytes) == 0);
    return (unsigned)bytes;
}

/* The time limit of the whole test is the watchdog. */
static inline void server_until(unsigned tokens) {
    while (server_has() != tokens) nap();
}

/* All are there again, each once. */
static inline void server_expect_all(void) {
    char tokens[TOKENS_MAX];
    bool seen[TOKENS_MAX] = {false};
    REQUIRE(server_has() == server.tokens);
    if (server.tokens == 0) return;
    REQUIRE(read(server.from, tokens, sizeof tokens) == (ssize_t)server.tokens);
    for (unsigned i = 0; i < server.tokens; i++) {
        unsigned number = (unsigned)(tokens[i] - 'a');
        REQUIRE(number < server.tokens && !seen[number]);
        seen[number] = true;
    }
    REQUIRE(write(server.to, tokens, server.tokens) == (ssize_t)server.tokens);
}

static inline void server_end(void) {
    char tokens[TOKENS_MAX];
    server_expect_all();
    if (server.from == makes_ends[0]) /* it stays, empty */
        REQUIRE(server.tokens == 0 || read(server.from, tokens, sizeof tokens) == (ssize_t)server.tokens);
    else
        close(server.from);
    if (server.path[0] != 0) (void)unlink(server.path); /* make may have ended before */
    if (server.path[0] != 0) rmdir(server.directory);
    server.path[0] = 0;
    unsetenv("MAKEFLAGS");
}

static inline weft_pool *sharing_pool(uint32_t workers) {
    weft_config config = config_of(workers);
    config.flags = WEFT_POOL_JOBSERVER;
    return make_pool_with(&config);
}

/* A pool of three that holds two tokens. */
static gate held[3];
static inline weft_pool *holding_pool(weft_group *group) {
    weft_pool *pool = sharing_pool(3);
    for (unsigned i = 0; i < 3; i++) gate_occupy(&held[i], pool, group);
    return pool;
}

#endif
