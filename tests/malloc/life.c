/* life.c: blocks in the odd moments of a process: before constructors, in destructors of threads and of the process,
 * around fork, with threads that come and go. `life SERVER CASE`. */
#include "server.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define REQUIRE(x)                                                                                                          \
    do {                                                                                                                    \
        if (!(x)) {                                                                                                         \
            fprintf(stderr, "line %d: not true: %s\n", __LINE__, #x);                                                       \
            _exit(99);                                                                                                      \
        }                                                                                                                   \
    } while (0)

static unsigned char *filled(size_t size, unsigned char value) {
    unsigned char *block = malloc(size);
    REQUIRE(block != NULL);
    memset(block, value, size);
    return block;
}

static void freed(unsigned char *block, size_t size, unsigned char value) {
    for (size_t i = 0; i < size; i++) REQUIRE(block[i] == value);
    free(block);
}

/* ---- before main, after main -------------------------------------------------------------------------------------- */

static unsigned char *before_constructors, *in_constructor;

static void at_the_very_start(void) { before_constructors = filled(100, 1); }
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(void) = at_the_very_start;

__attribute__((constructor(101))) static void constructor(void) {
    freed(filled(5000, 2), 5000, 2);
    in_constructor = filled(200, 3);
}

__attribute__((destructor(101))) static void destructor(void) {
    freed(in_constructor, 200, 3);
    freed(filled(300000, 4), 300000, 4);
}

static void before_and_after_main(void) {
    REQUIRE(before_constructors != NULL && in_constructor != NULL);
    freed(before_constructors, 100, 1);
}

/* ---- thread-local destructors ------------------------------------------------------------------------------------- */

static pthread_key_t first_key, last_key;
static atomic_int destroyed;

/* Runs again as long as it sets a value: up to PTHREAD_DESTRUCTOR_ITERATIONS, long after the heap's own destructor. */
static void key_destructor(void *value) {
    freed(value, 64, 5);
    freed(filled(40, 6), 40, 6);
    freed(filled(100000, 7), 100000, 7);
    free(realloc(malloc(10), 1000));
    int round = atomic_fetch_add(&destroyed, 1);
    if (round % 3 != 2) pthread_setspecific(last_key, filled(64, 5));
}

static void *key_thread(void *argument) {
    (void)argument;
    pthread_setspecific(first_key, filled(64, 5));
    pthread_setspecific(last_key, filled(64, 5));
    return NULL;
}

static void *nothing_but_keys(void *argument) {
    pthread_key_t *keys = argument;
    for (int i = 0; i < 100; i++) REQUIRE(pthread_setspecific(keys[i], &keys[i]) == 0);
    return filled(24, 8);
}

static void in_thread(void *(*run)(void *), void *argument, void **result) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, run, argument) == 0);
    REQUIRE(pthread_join(thread, result) == 0);
}

static void thread_destructors(void) {
    static pthread_key_t keys[100]; /* those after the 32nd make pthread_setspecific itself allocate */
    void *block;
    REQUIRE(pthread_key_create(&first_key, key_destructor) == 0);
    for (int i = 0; i < 100; i++) REQUIRE(pthread_key_create(&keys[i], NULL) == 0);
    REQUIRE(pthread_key_create(&last_key, key_destructor) == 0);
    for (int i = 0; i < 100; i++) {
        in_thread(key_thread, NULL, NULL);
        in_thread(nothing_but_keys, keys, &block);
        freed(block, 24, 8);
    }
    REQUIRE(atomic_load(&destroyed) >= 200);
}

/* What the C library frees for a thread after all destructors (the values of its keys after the 32nd, texts of strerror)
 * must not cost the process a heap. */
static void *freed_after_destructors(void *keys) {
    void *block = nothing_but_keys(keys);
    REQUIRE(strlen(strerror(123456)) > 0);
    free(block);
    freed(filled(3000, 9), 3000, 9);
    return NULL;
}

/* Allocates in each round, the last one, too. */
static void key_again(void *key) {
    free(malloc(4000));
    pthread_setspecific(*(pthread_key_t *)key, key);
}

static void thread_ends(void) {
    enum { ENDS = 1000, SLACK = 16 << 20 }; /* checked mode keeps blocks for a while */
    static pthread_key_t keys[100], again;
    size_t before = 0;
    for (int i = 0; i < 100; i++) REQUIRE(pthread_key_create(&keys[i], NULL) == 0);
    REQUIRE(pthread_key_create(&again, key_again) == 0);
    for (int i = 0; i < ENDS; i++) {
        in_thread(freed_after_destructors, keys, NULL);
        if (i == ENDS / 10) before = mallinfo2().arena;
    }
    REQUIRE(mallinfo2().arena <= before + SLACK);
    keys[99] = again;
    for (int i = 0; i < ENDS; i++) in_thread(freed_after_destructors, keys, NULL);
    REQUIRE(mallinfo2().arena <= before + SLACK);
}

/* ---- fork --------------------------------------------------------------------------------------------------------- */

static atomic_bool stop;

static void *churn(void *argument) {
    unsigned char *blocks[64] = {0};
    size_t sizes[64] = {0};
    for (uint32_t i = *(uint32_t *)argument; !atomic_load(&stop); i = i * 1664525u + 1013904223u) {
        size_t k = i >> 26;
        if (blocks[k] != NULL) freed(blocks[k], sizes[k], (unsigned char)k);
        sizes[k] = 1 + (i >> 8) % (i % 64 == 0 ? 200000 : 600);
        blocks[k] = filled(sizes[k], (unsigned char)k);
    }
    for (size_t k = 0; k < 64; k++) free(blocks[k]);
    return NULL;
}

static void *child_thread(void *block) {
    freed(block, 700, 9);
    return filled(800, 10);
}

/* What a child does with what its parent's threads held when it was made. */
static void child(unsigned char *from_parent) {
    void *block;
    alarm(600); /* a lock that nobody will open ends the child, and its parent sees how */
    for (size_t size = 1; size < 2000000; size = size * 2 + 1) freed(filled(size, 11), size, 11);
    freed(from_parent, 500, 12);
    in_thread(child_thread, filled(700, 9), &block);
    freed(block, 800, 10);
    _exit(0);
}

static void fork_under_churn(void) {
    pthread_t threads[2];
    uint32_t seeds[2] = {1, 2};
    for (int i = 0; i < 2; i++) REQUIRE(pthread_create(&threads[i], NULL, churn, &seeds[i]) == 0);
    for (int i = 0; i < 200; i++) {
        int status = 0;
        unsigned char *block = filled(500, 12);
        pid_t made = fork();
        if (made == 0) child(block);
        REQUIRE(made > 0 && waitpid(made, &status, 0) == made);
        REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        freed(block, 500, 12);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

/* ---- threads that come and go ------------------------------------------------------------------------------------- */

enum { THREADS = 100000, KEPT = 8 };

/* Each thread frees what the one before it left behind, and leaves blocks that outlive it: frees are pending on it when
 * it ends. */
struct relay {
    unsigned char *blocks[KEPT];
};

static size_t kept_size(unsigned i) { return 16u << i % 7; }

static void *relay_thread(void *argument) {
    struct relay *relay = argument;
    for (unsigned i = 0; i < KEPT; i++) {
        if (relay->blocks[i] != NULL) freed(relay->blocks[i], kept_size(i), (unsigned char)i);
        relay->blocks[i] = filled(kept_size(i), (unsigned char)i);
    }
    return NULL;
}

static size_t resident_pages(void) {
    char line[256], *second;
    FILE *file = fopen("/proc/self/statm", "r");
    REQUIRE(file != NULL && fgets(line, sizeof line, file) != NULL);
    fclose(file);
    (void)strtoul(line, &second, 10);
    return strtoul(second, NULL, 10);
}

static void threads_come_and_go(void) {
    struct relay relays[2] = {0};
    size_t early = 0;
    for (int i = 0; i < THREADS / 2; i++) {
        pthread_t threads[2];
        for (int k = 0; k < 2; k++) REQUIRE(pthread_create(&threads[k], NULL, relay_thread, &relays[k]) == 0);
        for (int k = 0; k < 2; k++) REQUIRE(pthread_join(threads[k], NULL) == 0);
        struct relay swapped = relays[0];
        relays[0] = relays[1];
        relays[1] = swapped;
        if (i == THREADS / 20) early = resident_pages();
    }
    /* Nine tenths of the threads later: what those before left is used again. */
    REQUIRE(resident_pages() < early + early / 2 + 500);
    for (int k = 0; k < 2; k++) {
        for (unsigned i = 0; i < KEPT; i++) freed(relays[k].blocks[i], kept_size(i), (unsigned char)i);
    }
}

/* Many at once, all ending at once, with frees of one another's blocks under way. */
static sem_t full, go;
static unsigned char *shared[64];

static void *crowd_thread(void *argument) {
    size_t self = *(size_t *)argument;
    shared[self] = filled(1000 + self, (unsigned char)self);
    sem_post(&full);
    while (sem_wait(&go) != 0) {}
    size_t other = (self * 7 + 3) % 64;
    freed(shared[other], 1000 + other, (unsigned char)other);
    return NULL;
}

static void crowds(void) {
    sem_init(&full, 0, 0);
    sem_init(&go, 0, 0);
    for (int round = 0; round < 50; round++) {
        pthread_t threads[64];
        size_t numbers[64];
        for (size_t i = 0; i < 64; i++) {
            numbers[i] = i;
            REQUIRE(pthread_create(&threads[i], NULL, crowd_thread, &numbers[i]) == 0);
        }
        for (int i = 0; i < 64; i++) {
            while (sem_wait(&full) != 0) {}
        }
        for (int i = 0; i < 64; i++) sem_post(&go);
        for (int i = 0; i < 64; i++) pthread_join(threads[i], NULL);
    }
}

/* Each of many threads uses a few blocks of every size: of each slab a little. */
enum { MANY = 200 };

static void *every_size(void *argument) {
    for (size_t size = 1; size < 33000; size += size / 5 + 16) freed(filled(size, 3), size, 3);
    sem_post(&full);
    while (sem_wait(&go) != 0) {}
    return argument;
}

/* Mappings for which huge pages were asked. */
static size_t huge_mappings(void) {
    char line[512];
    size_t count = 0;
    FILE *file = fopen("/proc/self/smaps", "r");
    REQUIRE(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) count += strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " hg") != NULL;
    fclose(file);
    return count;
}

/* 100 MB of small blocks, which huge pages are for. */
static bool huge_pages_are_asked_for(void) {
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < 100000; i++) REQUIRE(malloc(1000) != NULL);
        _exit(huge_mappings() == 0);
    }
    REQUIRE(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status) == 0;
}

static void threads_of_many_sizes(void) {
    pthread_t threads[MANY];
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) == 0)
        REQUIRE(huge_pages_are_asked_for());
    else
        printf("skipped, that huge pages are not asked for: the system has none\n");
    sem_init(&full, 0, 0);
    sem_init(&go, 0, 0);
    size_t before = resident_bytes();
    for (int i = 0; i < MANY; i++) REQUIRE(pthread_create(&threads[i], NULL, every_size, NULL) == 0);
    for (int i = 0; i < MANY; i++)
        while (sem_wait(&full) != 0) {}
    REQUIRE(huge_mappings() == 0);
    for (int i = 0; i < MANY; i++) sem_post(&go);
    for (int i = 0; i < MANY; i++) pthread_join(threads[i], NULL);
    malloc_trim(0);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), each = (resident_bytes() - before) / MANY;
    printf("an ended thread leaves %zu bytes\n", each);
    REQUIRE(page > 4096 || each < 45000);
}

/* One thread allocates and never frees, the other frees and never allocates: what is freed comes back to the first. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned char *blocks[1024];
    size_t count;
    bool ended;
} one_way = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *free_only(void *argument) {
    unsigned char *mine[1024];
    for (;;) {
        pthread_mutex_lock(&one_way.lock);
        while (one_way.count == 0 && !one_way.ended) pthread_cond_wait(&one_way.changed, &one_way.lock);
        size_t count = one_way.count;
        memcpy(mine, one_way.blocks, count * sizeof mine[0]);
        one_way.count = 0;
        pthread_cond_signal(&one_way.changed);
        pthread_mutex_unlock(&one_way.lock);
        if (count == 0) return argument;
        for (size_t i = 0; i < count; i++) freed(mine[i], 300, 13);
    }
}

static void a_thread_that_only_frees(void) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, free_only, NULL) == 0);
    for (int i = 0; i < 1000000; i++) {
        unsigned char *block = filled(300, 13);
        pthread_mutex_lock(&one_way.lock);
        while (one_way.count == 1024) pthread_cond_wait(&one_way.changed, &one_way.lock);
        one_way.blocks[one_way.count++] = block;
        if (one_way.count == 1) pthread_cond_signal(&one_way.changed);
        pthread_mutex_unlock(&one_way.lock);
    }
    REQUIRE(resident_pages() < 20000); /* 300 MB have passed */
    pthread_mutex_lock(&one_way.lock);
    one_way.ended = true;
    pthread_cond_signal(&one_way.changed);
    pthread_mutex_unlock(&one_way.lock);
    pthread_join(thread, NULL);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"main", before_and_after_main},  {"destructors", thread_destructors},   {"ends", thread_ends},
    {"fork", fork_under_churn},       {"threads", threads_come_and_go},      {"crowds", crowds},
    {"sizes", threads_of_many_sizes}, {"one-way", a_thread_that_only_frees},
};

int main(int argc, char **argv) {
    bool found = false;
    if (argc != 3) return 2;
    require_server(argv[1]);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(cases[i].name, argv[2]) != 0) continue;
        found = true;
        cases[i].run();
    }
    return found ? 0 : 2;
}
