/* jobserver_help.h: a jobserver of the test's own, by a named pipe and by a pipe, and pools that share its tokens. */
#ifndef WEFT_TESTS_JOBSERVER_HELP_H
#define WEFT_TESTS_JOBSERVER_HELP_H

#include "sched/tokens.h"
#include "tally.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOKENS_MAX 16u

static struct {
    int from, to; /* as make's: blocking */
    char directory[64], path[80];
    unsigned tokens;
} server;

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
    int ends[2];
    if (strcmp(style, "fifo") == 0) {
        strcpy(server.directory, "/tmp/weft-jobserver-XXXXXX");
        REQUIRE(mkdtemp(server.directory) != NULL);
        snprintf(server.path, sizeof server.path, "%s/fifo", server.directory);
        REQUIRE(mkfifo(server.path, 0600) == 0);
        server.from = open(server.path, O_RDWR | O_CLOEXEC);
        server.to = server.from;
        REQUIRE(server.from >= 0);
    } else {
        REQUIRE(pipe(ends) == 0);
        server.from = ends[0];
        server.to = ends[1];
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
    server_expect_all();
    close(server.from);
    if (server.to != server.from) close(server.to);
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
