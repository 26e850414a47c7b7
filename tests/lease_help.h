/* lease_help.h: the lease on a file of the test's own, what is locked in it, and other programs that share it. These are the test itself,
 * started anew (ThreadSanitizer lets no child of a threaded process start threads). The number of tokens is the test's: it stands in
 * for os_cpu_count_lately. */
#ifndef WEFT_TESTS_LEASE_HELP_H
#define WEFT_TESTS_LEASE_HELP_H

#include "sched/tokens.h"
#include "tally.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TOKENS_MAX 16u
enum { HUNGRY = 0x10000, HUNGRY_BYTES = 0x400, EXTRA = 0x20000, WAITS }; /* as in lease.c */

static struct {
    char directory[64], path[80];
    int fd;
    unsigned tokens;
} shared;

unsigned __wrap_os_cpu_count_lately(void);
unsigned __wrap_os_cpu_count_lately(void) { return shared.tokens; }

static inline void lease_begin(unsigned tokens) {
    strcpy(shared.directory, "/tmp/weft-lease-XXXXXX");
    REQUIRE(mkdtemp(shared.directory) != NULL);
    snprintf(shared.path, sizeof shared.path, "%s/lease", shared.directory);
    shared.fd = open(shared.path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    REQUIRE(shared.fd >= 0);
    shared.tokens = tokens;
    REQUIRE(setenv("WEFT_LEASE", shared.path, 1) == 0);
}

/* By anybody but this test. */
static inline bool is_locked(unsigned byte) {
    unsigned bytes = byte == HUNGRY ? HUNGRY_BYTES : 1;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = bytes};
    REQUIRE(fcntl(shared.fd, F_OFD_GETLK, &lock) == 0);
    return lock.l_type != F_UNLCK;
}
static inline unsigned lease_taken(void) {
    unsigned taken = 0;
    for (unsigned byte = 0; byte < TOKENS_MAX; byte++) taken += is_locked(byte);
    return taken;
}
static inline void lease_until(unsigned taken) {
    while (lease_taken() != taken) nap();
}

/* Nobody has anything. */
static inline void lease_end(void) {
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
    REQUIRE(fcntl(shared.fd, F_OFD_GETLK, &all) == 0);
    REQUIRE(all.l_type == F_UNLCK);
    close(shared.fd);
    unlink(shared.path);
    rmdir(shared.directory);
    unsetenv("WEFT_LEASE");
}

static inline weft_pool *leasing_pool(uint32_t workers) {
    weft_config config = config_of(workers);
    config.flags = WEFT_POOL_LEASE;
    weft_pool *pool = make_pool_with(&config);
    weft_real_time found = {.struct_size = sizeof found};
    REQUIRE(weft_pool_real_time(pool, &found) == WEFT_OK && found.lease_errno == 0);
    return pool;
}

/* Submits tasks that stay; the first `held` have begun when this returns. */
static inline void gates_fill(gate *gates, unsigned count, unsigned held, weft_pool *pool, weft_group *group) {
    for (unsigned i = 0; i < count; i++) {
        gate *to = &gates[i];
        gate_init(to);
        REQUIRE(weft_submit(pool, group, gate_task, &to, sizeof to) == WEFT_OK);
    }
    for (unsigned i = 0; i < held; i++) await(&gates[i].entered);
}
static inline void gates_open(gate *gates, unsigned count, weft_pool *pool, weft_group *group) {
    for (unsigned i = 0; i < count; i++) gate_open(&gates[i]);
    REQUIRE(weft_group_wait_until(pool, group, WEFT_HELP_NONE, 0) == WEFT_OK);
}

/* ---- other programs ----------------------------------------------------------------------------------------------- */

static int tally_fd;
static inline void tally_share(void) {
    tally_fd = memfd_create("tally", 0);
    REQUIRE(tally_fd >= 0 && ftruncate(tally_fd, sizeof *tally) == 0);
    tally = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED, tally_fd, 0);
    REQUIRE(tally != MAP_FAILED);
}
static inline void tally_unshare(void) {
    tally_end();
    close(tally_fd);
}

/* Starts this test as `scene`, which sees the tally and the number of tokens. It ends with the test. */
static inline pid_t program_start(const char *scene) {
    char fd[16], tokens[16];
    snprintf(fd, sizeof fd, "%d", tally_fd);
    snprintf(tokens, sizeof tokens, "%u", shared.tokens);
    fflush(stdout);
    pid_t child = vfork();
    REQUIRE(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", "scene", scene, fd, tokens, (char *)NULL);
        _exit(98);
    }
    return child;
}
static inline int program_end(pid_t program) {
    int status = 0;
    while (waitpid(program, &status, 0) < 0) REQUIRE(errno == EINTR);
    return status;
}

/* In such a program, from its main. */
static inline void program_begin(char **argv) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    tally_fd = atoi(argv[2]);
    shared.tokens = (unsigned)atoi(argv[3]);
    tally = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED, tally_fd, 0);
    REQUIRE(tally != MAP_FAILED);
}

static inline void until(const atomic_uint *count, unsigned value) {
    while (atomic_load(count) < value) nap();
}

#endif
