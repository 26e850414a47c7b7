/* why_scene.c: tasks that are late for a known reason, to be recorded: `why_scene KIND COUNT`. A pool of one worker runs `victim`
 * twice each time: undisturbed, and while it is kept from ending by KIND. Exit status 77 and a line when this system cannot do
 * that. What `weft why` says of them is checked by test_why.py. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "pool_help.h"

#define DELAY_NS UINT64_C(15000000)
#define CANNOT 77

/* Shared with the helper process. */
static struct shared {
    atomic_uint asked, done; /* what the helper is to do next; what it has done */
    atomic_bool ends;
} * shared;

static pid_t helper;
static unsigned own_cpu;

static uint64_t cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void work(uint64_t ns) {
    uint64_t end = cpu_ns() + ns;
    while (cpu_ns() < end) {}
}

static void sleep_ns(uint64_t ns) {
    struct timespec time = {.tv_nsec = (long)ns};
    while (nanosleep(&time, &time) != 0) {}
}

static void stay_on(unsigned cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    REQUIRE(sched_setaffinity(0, sizeof set, &set) == 0);
}

static int cannot(const char *why) {
    printf("skipped, why_scene: %s: %s\n", why, strerror(errno));
    exit(CANNOT);
}

/* ---- the task ------------------------------------------------------------------------------------------------------ */

static char *page;        /* that comes late, or NULL */
static unsigned wait_for; /* what the helper is to have done before the task ends; 0: nothing */
static uint64_t work_ns = 100000;
static bool naps; /* that task sleeps for a moment */

static int victim(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    if (page != NULL) page[0]++;
    if (naps) work(work_ns);
    if (wait_for != 0) atomic_store(&shared->asked, wait_for);
    if (naps) sleep_ns(DELAY_NS / 3); /* the helper has begun before that is over */
    if (!naps) work(work_ns);
    while (wait_for != 0 && atomic_load(&shared->done) < wait_for) {}
    return 0;
}

static int long_task(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    work(DELAY_NS);
    return 0;
}

static int sleeping_task(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    sleep_ns(DELAY_NS);
    return 0;
}

/* ---- what keeps it ------------------------------------------------------------------------------------------------ */

/* The helper: does what it is asked, in turn. */
static void helper_start(void (*act)(pid_t parent)) {
    pid_t parent = getpid();
    helper = fork();
    REQUIRE(helper >= 0);
    if (helper > 0) return;
    while (!atomic_load(&shared->ends) && getppid() == parent) {
        unsigned asked = atomic_load(&shared->asked);
        if (asked == atomic_load(&shared->done)) {
            sleep_ns(50000);
            continue;
        }
        act(parent);
        atomic_store(&shared->done, asked);
    }
    _exit(0);
}

static void stop_parent(pid_t parent) {
    kill(parent, SIGSTOP);
    sleep_ns(DELAY_NS);
    kill(parent, SIGCONT);
}

/* On the worker's CPU, which has a priority that the kernel hardly serves beside this one. */
static void burn(pid_t parent) {
    (void)parent;
    stay_on(own_cpu);
    work(DELAY_NS);
}

/* So that no thread of the worker's kind gets that CPU meanwhile, also if it has slept. */
static void burn_first(pid_t parent) {
    struct sched_param first = {.sched_priority = 1};
    if (sched_setscheduler(0, SCHED_FIFO, &first) == 0) burn(parent);
}

static void low_priority(weft_worker *self, void *context) {
    (void)self, (void)context;
    stay_on(own_cpu);
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 19);
}

static int uffd;

static void *serve_faults(void *unused) {
    (void)unused;
    static char fresh[4096] __attribute__((aligned(4096)));
    struct uffd_msg message;
    while (read(uffd, &message, sizeof message) == sizeof message) {
        sleep_ns(DELAY_NS);
        struct uffdio_copy copy = {
            .dst = message.arg.pagefault.address & ~UINT64_C(4095), .src = (uintptr_t)fresh, .len = 4096};
        ioctl(uffd, UFFDIO_COPY, &copy);
    }
    return NULL;
}

static char *lazy_pages(unsigned count) {
    struct uffdio_api api = {.api = UFFD_API};
    uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) != 0) cannot("userfaultfd");
    char *pages = mmap(NULL, (size_t)count * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register all = {.range = {(uintptr_t)pages, (size_t)count * 4096}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    pthread_t thread;
    if (pages == MAP_FAILED || ioctl(uffd, UFFDIO_REGISTER, &all) != 0) cannot("UFFDIO_REGISTER");
    REQUIRE(pthread_create(&thread, NULL, serve_faults, NULL) == 0);
    return pages;
}

static char group[64];

static bool put(const char *file, const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", group, file);
    int fd = open(path, O_WRONLY);
    bool went = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0) close(fd);
    return went;
}

/* A cgroup with a tenth of a CPU, in which a process of this one's parent's stays until it is removed. */
static void quota_begin(void) {
    bool is_old = access("/sys/fs/cgroup/cpu/cgroup.procs", F_OK) == 0;
    char self[16];
    snprintf(group, sizeof group, "/sys/fs/cgroup/%sweft-why-%d", is_old ? "cpu/" : "", (int)getpid());
    snprintf(self, sizeof self, "%d", (int)getpid());
    if (mkdir(group, 0755) != 0) cannot(group);
    bool is_set =
        is_old ? put("cpu.cfs_quota_us", "3000") && put("cpu.cfs_period_us", "30000") : put("cpu.max", "3000 30000");
    if (is_set && put("cgroup.procs", self)) return;
    int error = errno;
    rmdir(group);
    errno = error;
    cannot("a cgroup with a quota");
}

/* The process goes back, so that the cgroup can go. */
static void quota_end(void) {
    char self[16], made[64];
    snprintf(self, sizeof self, "%d", (int)getpid());
    memcpy(made, group, sizeof made);
    *strrchr(group, '/') = 0;
    REQUIRE(put("cgroup.procs", self));
    REQUIRE(rmdir(made) == 0);
}

/* ---- the scene ---------------------------------------------------------------------------------------------------- */

static void run_one(weft_pool *pool, weft_fn before) {
    weft_group all = WEFT_GROUP_INIT;
    if (before != NULL) REQUIRE(weft_submit(pool, &all, before, NULL, 0) == WEFT_OK);
    REQUIRE(weft_submit(pool, &all, victim, NULL, 0) == WEFT_OK);
    REQUIRE(weft_group_wait(pool, &all) == WEFT_OK);
}

int main(int argc, char **argv) {
    REQUIRE(argc == 3);
    const char *kind = argv[1];
    unsigned count = (unsigned)strtoul(argv[2], NULL, 10);
    bool is_hog = strcmp(kind, "hog") == 0, is_stop = strcmp(kind, "stop") == 0, is_quota = strcmp(kind, "quota") == 0,
         is_nap = strcmp(kind, "nap") == 0;
    weft_fn before = strcmp(kind, "long") == 0 ? long_task : strcmp(kind, "sleep") == 0 ? sleeping_task : NULL;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(shared != MAP_FAILED);
    own_cpu = (unsigned)sched_getcpu();
    if (is_nap && sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1}) != 0) cannot("SCHED_FIFO");
    if (is_nap) REQUIRE(sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0}) == 0);
    if (is_hog || is_stop || is_nap) helper_start(is_stop ? stop_parent : is_nap ? burn_first : burn);
    if (is_quota) quota_begin();
    char *pages = strcmp(kind, "fault") == 0 ? lazy_pages(count) : NULL;
    weft_config config;
    REQUIRE(weft_config_init(&config) == WEFT_OK && weft_config_from_env(&config) == WEFT_OK);
    config.workers = 1;
    config.flags = WEFT_POOL_NO_HELP;
    if (is_hog || is_nap) config.start = low_priority;
    weft_pool *pool = make_pool_with(&config);
    for (unsigned i = 0; i < count; i++) {
        run_one(pool, NULL);
        nap();
        if (is_hog || is_stop || is_nap) wait_for = i + 1;
        naps = is_nap;
        if (is_quota) work_ns = DELAY_NS;
        if (pages != NULL) page = pages + (size_t)i * 4096;
        run_one(pool, before);
        wait_for = 0;
        naps = false;
        work_ns = 100000;
        page = NULL;
        nap();
    }
    end_pool(pool);
    atomic_store(&shared->ends, true);
    if (helper > 0) waitpid(helper, NULL, 0);
    if (is_quota) quota_end();
    return 0;
}
