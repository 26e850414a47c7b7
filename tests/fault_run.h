/* fault_run.h: runs in processes of their own, watched. One that hangs says what its pools do, and is ended. */
#ifndef WEFT_TESTS_FAULT_RUN_H
#define WEFT_TESTS_FAULT_RUN_H

#include "fault_scene.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

/* What a child tells its parent. */
struct shared {
    struct outcome outcome;
    struct kept kept;
    unsigned made[CALLS], struck, by_wall_clock;
    long live_bytes, mapped_bytes, heap_bytes;
    atomic_uint events; /* the condition's own */
};
static struct shared *shared;
static int said_file; /* what the child writes on standard error */

enum { RUN_SECONDS = 240 }; /* only a hang takes this long */

static void on_hang(int number) {
    (void)number;
    scene_dump();
    _exit(98);
}

static inline bool run_all_wished(void) {
    const char *wish = getenv("WEFT_TEST_ALL");
    return wish != NULL && strcmp(wish, "1") == 0;
}

static atomic_ullong draw_state;
static inline uint64_t draw_seed(void) {
    if (atomic_load(&draw_state) == 0) {
        const char *given = getenv("WEFT_TEST_SEED");
        atomic_store(&draw_state, given != NULL ? strtoull(given, NULL, 0) : clock_ns() / 1000);
    }
    return atomic_load(&draw_state);
}

/* 0 .. below - 1. From any thread. */
static inline unsigned draw(unsigned below) {
    uint64_t mixed = atomic_fetch_add(&draw_state, UINT64_C(0x9e3779b97f4a7c15)) + UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return (unsigned)((mixed ^ mixed >> 31) >> 11) % below;
}

static inline void run_begin(void) {
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    REQUIRE(sigprocmask(SIG_BLOCK, &child, NULL) == 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(shared != MAP_FAILED);
    said_file = memfd_create("said", 0);
    REQUIRE(said_file >= 0);
    setenv("WEFT_SPIN_NS", "5000", 1);
}

static inline pid_t run_start(void (*child)(void)) {
    memset(shared, 0, sizeof *shared);
    REQUIRE(ftruncate(said_file, 0) == 0 && lseek(said_file, 0, SEEK_SET) == 0);
    fflush(NULL);
    pid_t process = fork();
    REQUIRE(process >= 0);
    if (process != 0) return process;
    sigset_t none;
    sigemptyset(&none);
    outcome = &shared->outcome;
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* who ends the test ends this */
    signal(SIGUSR1, on_hang);
    REQUIRE(sigprocmask(SIG_SETMASK, &none, NULL) == 0 && dup2(said_file, STDERR_FILENO) >= 0);
    child();
    exit(0); /* which looks for leaks, where LeakSanitizer is in it */
}

static inline void run_failed(const char *what, const char *how) {
    char line[4096];
    ssize_t length = pread(said_file, line, sizeof line, 0);
    printf("%s: %s; it said:\n%.*s\n", what, how, length > 0 ? (int)length : 0, line);
    exit(1);
}

/* Waits for its end; its status must be `wanted`. */
static inline void run_await(pid_t process, const char *what, int wanted) {
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    const struct timespec second = {1, 0};
    char how[64];
    int status = 0;
    bool hangs = false;
    for (int seconds = 0; waitpid(process, &status, WNOHANG) == 0;) {
        if (sigtimedwait(&child, NULL, &second) == SIGCHLD) continue;
        seconds++;
        if (seconds == RUN_SECONDS) hangs = kill(process, SIGUSR1) == 0;
        if (seconds == RUN_SECONDS + 10) kill(process, SIGKILL);
    }
    if (!hangs && WIFEXITED(status) && WEXITSTATUS(status) == wanted) return;
    snprintf(how, sizeof how, "%s %d",
             hangs                 ? "hung, then"
             : WIFSIGNALED(status) ? "signal"
                                   : "status",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    run_failed(what, how);
}

static inline void run_child(void (*child)(void), const char *what) { run_await(run_start(child), what, 0); }

#endif
