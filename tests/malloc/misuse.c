/* 38 kinds of misuse at three sizes, each in a child, with whatever allocator serves malloc: what became of each.
 *
 *   T  told: the process ended with words about it, before any damage
 *   S  stopped by a signal without words, at the call or the access itself
 *   -  silent: nothing was seen, neither words nor damage
 *   C  corrupt: a block was handed out that overlaps another, or memory that is not the allocator's; or a later call, with
 *      nothing wrong in it, crashed;  c: the same, and it was told afterwards
 *   H  hung
 *
 * `misuse [least told] [most corrupt]`: fails where fewer kinds are told or stopped at all three sizes, or more are corrupt at any. */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AROUND = 8, TAKEN = 48, OTHERS = 1000, FOREIGN_BYTES = 1 << 16, SECONDS = 20 };
enum stage { BEFORE, DONE };

static struct shared {
    enum stage stage;
    bool damaged;
} * shared;

/* The same value, of which compiler and analyser know nothing: the mistakes are meant. */
static void *same(void *p) {
    __asm__("" : "+r"(p));
    return p;
}
static void *(*hidden)(void *) = same;
static void drop(void *p) { free(hidden(p)); }
static char *at(void *p, ptrdiff_t offset) { return (char *)hidden(p) + offset; }

/* ---- what is live ------------------------------------------------------------------------------------------------- */

struct range {
    const char *start;
    size_t bytes;
};
static struct range live[4 * AROUND + 2 * TAKEN + 8];
static unsigned lives;
static char static_bytes[FOREIGN_BYTES] __attribute__((aligned(4096)));
static char *mapped;

static void note(const char *start, size_t bytes) {
    for (unsigned i = 0; i < lives; i++)
        if (start < live[i].start + live[i].bytes && live[i].start < start + bytes) shared->damaged = true;
    live[lives++] = (struct range){start, bytes};
}

static void forget(const void *p) {
    for (unsigned i = 0; i < lives; i++)
        if (live[i].start == p) {
            live[i] = live[--lives];
            return;
        }
}

static char *take(size_t size) {
    char *p = hidden(malloc(size));
    if (p == NULL) _exit(3);
    note(p, size);
    if (!shared->damaged) memset(p, 7, size);
    return p;
}

/* ---- afterwards --------------------------------------------------------------------------------------------------- */

static void take_and_free(size_t size) {
    char *taken[TAKEN];
    for (int i = 0; i < TAKEN; i++) taken[i] = take(size);
    for (int i = 0; i < TAKEN; i++) {
        forget(taken[i]);
        drop(taken[i]);
    }
}

static void *in_thread(void *size) {
    take_and_free(*(size_t *)size);
    return NULL;
}

static void run_thread(void *(*run)(void *), void *argument) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, argument) != 0) _exit(3);
    pthread_join(thread, NULL);
}

/* ---- the kinds ---------------------------------------------------------------------------------------------------- */

struct scene {
    size_t size;
    char *p; /* of `around` before and after it */
    char *around[2 * AROUND];
};

static void free_p(struct scene *s) {
    forget(s->p);
    drop(s->p);
}

static void free_others(size_t size, int count) {
    static void *others[OTHERS];
    for (int i = 0; i < count; i++) others[i] = hidden(malloc(size));
    for (int i = 0; i < count; i++) drop(others[i]);
}

static void twice(struct scene *s) { free_p(s), drop(s->p); }
static void twice_one_between(struct scene *s) {
    void *other = hidden(malloc(s->size));
    free_p(s), drop(other), drop(s->p);
}
static void twice_ten_between(struct scene *s) {
    static void *others[10];
    for (int i = 0; i < 10; i++) others[i] = hidden(malloc(s->size));
    free_p(s);
    for (int i = 0; i < 10; i++) drop(others[i]);
    drop(s->p);
}
static void twice_many_between(struct scene *s) {
    static void *others[OTHERS];
    int count = s->size < 100000 ? OTHERS : 100;
    for (int i = 0; i < count; i++) others[i] = hidden(malloc(s->size));
    free_p(s);
    for (int i = 0; i < count; i++) drop(others[i]);
    drop(s->p);
}
static void twice_trimmed(struct scene *s) {
    free_p(s);
    malloc_trim(0);
    drop(s->p);
}
static void *drop_in_thread(void *p) {
    drop(p);
    return NULL;
}
static void twice_other_first(struct scene *s) {
    forget(s->p);
    run_thread(drop_in_thread, s->p);
    drop(s->p);
}
static void twice_other_second(struct scene *s) {
    free_p(s);
    run_thread(drop_in_thread, s->p);
}
static void twice_by_others(struct scene *s) {
    forget(s->p);
    run_thread(drop_in_thread, s->p);
    run_thread(drop_in_thread, s->p);
}
static void *take_in_thread(void *scene) {
    struct scene *s = scene;
    s->p = take(s->size);
    return NULL;
}
static void twice_of_ended(struct scene *s) {
    free_p(s);
    run_thread(take_in_thread, s);
    free_p(s);
    drop(s->p);
}
static void twice_moved(struct scene *s) {
    void *blocker = hidden(malloc(s->size)), *moved = realloc(hidden(s->p), s->size * 9);
    if (moved == s->p) moved = realloc(moved, s->size * 200); /* grown where it stood */
    forget(s->p);
    if (moved == s->p) _exit(4);
    note(moved, s->size * 9);
    drop(blocker);
    drop(s->p);
}
static void twice_taken_again(struct scene *s) {
    free_p(s);
    char *again = take(s->size);
    drop(s->p);
    if (again != s->p) return;
    forget(again);
    drop(again);
}

static void foreign_stack(struct scene *s) {
    char local[4096];
    (void)s;
    memset(hidden(local), 0, sizeof local);
    note((char *)(((uintptr_t)local + 1024) & ~(uintptr_t)15), 2048);
    drop((void *)(((uintptr_t)local + 1024) & ~(uintptr_t)15));
}
static void foreign_static(struct scene *s) { (void)s, drop(static_bytes + 4096); }
static void foreign_mapped(struct scene *s) { (void)s, drop(mapped); }
static void foreign_filled(struct scene *s) {
    (void)s;
    for (size_t i = 0; i < FOREIGN_BYTES; i++) mapped[i] = (char)(i * 41 / 7);
    drop(mapped + FOREIGN_BYTES / 2 + 64);
}
static void foreign_code(struct scene *s) { (void)s, drop((void *)((uintptr_t)take_and_free & ~(uintptr_t)15)); }
static void foreign_environment(struct scene *s) { (void)s, drop((void *)(((uintptr_t)environ[0] + 15) & ~(uintptr_t)15)); }
static void foreign_number(struct scene *s) { (void)s, drop((void *)(uintptr_t)48); }
static void foreign_pattern(struct scene *s) { (void)s, drop((void *)(uintptr_t)UINT64_C(0x4141414141414140)); }

static void inside_1(struct scene *s) { drop(at(s->p, 1)); }
static void inside_8(struct scene *s) { drop(at(s->p, 8)); }
static void inside_16(struct scene *s) { drop(at(s->p, 16)); }
static void inside_half(struct scene *s) { drop(at(s->p, (ptrdiff_t)(s->size / 2 & ~(size_t)15))); }
static void before_8(struct scene *s) { drop(at(s->p, -8)); }
static void before_16(struct scene *s) { drop(at(s->p, -16)); }

static void resize(void *p, size_t size) {
    void *resized = realloc(hidden(p), size);
    if (resized != NULL) *(volatile char *)resized = 1;
}
static void realloc_freed(struct scene *s) { free_p(s), resize(s->p, s->size + s->size / 3); }
static void realloc_inside(struct scene *s) { resize(at(s->p, 16), s->size * 2); }
static void realloc_foreign(struct scene *s) { resize(static_bytes + 4096, s->size); }
typedef void (*sized_fn)(void *p, size_t size);
static void free_as(struct scene *s, size_t size) {
    sized_fn sized = (sized_fn)dlsym(RTLD_DEFAULT, "_ZdlPvm");
    if (sized == NULL) _exit(5);
    forget(s->p);
    sized(hidden(s->p), size);
}
static void sized_larger(struct scene *s) { free_as(s, s->size * 4); }
static void sized_smaller(struct scene *s) { free_as(s, s->size / 4); }

static void write_at(struct scene *s, ptrdiff_t from, size_t bytes) {
    memset(at(s->p, from), 0x41, bytes);
    shared->stage = DONE; /* what comes now was the write's doing */
    free_p(s);
}
static void past_1(struct scene *s) { write_at(s, (ptrdiff_t)malloc_usable_size(s->p), 1); }
static void past_8(struct scene *s) { write_at(s, (ptrdiff_t)malloc_usable_size(s->p), 8); }
static void past_1k(struct scene *s) { write_at(s, (ptrdiff_t)malloc_usable_size(s->p), 1024); }
static void past_64k(struct scene *s) { write_at(s, (ptrdiff_t)malloc_usable_size(s->p), 65536); }
static void under_8(struct scene *s) { write_at(s, -8, 8); }
static void under_16(struct scene *s) { write_at(s, -16, 16); }
static void under_1m(struct scene *s) {
    for (ptrdiff_t i = 1; i <= 1 << 20; i++) *at(s->p, -i) = 0x41;
    shared->stage = DONE;
    free_p(s);
}
static void after_free(struct scene *s) {
    free_p(s);
    memset(hidden(s->p), 0x41, 32);
}

static const struct kind {
    const char *name;
    void (*run)(struct scene *s);
} kinds[] = {
    {"freed twice at once", twice},
    {"freed twice, one other between", twice_one_between},
    {"freed twice, ten others between", twice_ten_between},
    {"freed twice, a thousand others between", twice_many_between},
    {"freed twice, a trim between", twice_trimmed},
    {"freed by another thread, then here", twice_other_first},
    {"freed here, then by another thread", twice_other_second},
    {"freed by two other threads", twice_by_others},
    {"an ended thread's block freed twice", twice_of_ended},
    {"freed after realloc moved it", twice_moved},
    {"freed, taken again, freed twice", twice_taken_again},
    {"free of a stack address", foreign_stack},
    {"free of a static object", foreign_static},
    {"free of a mapping's start", foreign_mapped},
    {"free inside a mapping full of data", foreign_filled},
    {"free of code", foreign_code},
    {"free in the environment", foreign_environment},
    {"free of a small number", foreign_number},
    {"free of 0x4141414141414140", foreign_pattern},
    {"free of block + 1", inside_1},
    {"free of block + 8", inside_8},
    {"free of block + 16", inside_16},
    {"free of block + half", inside_half},
    {"free of block - 8", before_8},
    {"free of block - 16", before_16},
    {"realloc of a freed block", realloc_freed},
    {"realloc of block + 16", realloc_inside},
    {"realloc of a static object", realloc_foreign},
    {"sized delete, four times the size", sized_larger},
    {"sized delete, a quarter of the size", sized_smaller},
    {"1 byte past the end, freed", past_1},
    {"8 bytes past the end, freed", past_8},
    {"1 KiB past the end, freed", past_1k},
    {"64 KiB past the end, freed", past_64k},
    {"8 bytes before the start, freed", under_8},
    {"16 bytes before the start, freed", under_16},
    {"1 MiB before the start, freed", under_1m},
    {"written after the free", after_free},
};
enum { KINDS = sizeof kinds / sizeof *kinds, SIZES = 3 };
static const size_t sizes[SIZES] = {40, 5000, 300000};

/* ---- one case ----------------------------------------------------------------------------------------------------- */

static void run_case(const struct kind *kind, size_t size) {
    struct scene s = {.size = size};
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    alarm(SECONDS);
    mapped = mmap(NULL, FOREIGN_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) _exit(3);
    note(mapped, FOREIGN_BYTES);
    note(static_bytes, sizeof static_bytes);
    free_others(size, 3);
    for (int i = 0; i < AROUND; i++) s.around[i] = take(size);
    s.p = take(size);
    for (int i = AROUND; i < 2 * AROUND; i++) s.around[i] = take(size);
    kind->run(&s);
    shared->stage = DONE;
    take_and_free(size);
    for (int i = 0; i < 2 * AROUND; i++) {
        forget(s.around[i]);
        drop(s.around[i]);
    }
    take_and_free(size);
    run_thread(in_thread, &size);
    malloc_trim(0);
    take_and_free(size / 2);
    _exit(0);
}

/* All that the child says is read, so that it never waits. */
static bool said_something(int from) {
    char text[512];
    bool any = false;
    for (ssize_t n; (n = read(from, text, sizeof text)) > 0 || (n < 0 && errno == EINTR);) any = any || n > 0;
    return any;
}

static char outcome(const struct kind *kind, size_t size) {
    int ends[2], status;
    *shared = (struct shared){0};
    if (pipe(ends) != 0) return '?';
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        run_case(kind, size);
    }
    close(ends[1]);
    bool told = said_something(ends[0]);
    close(ends[0]);
    if (child < 0 || waitpid(child, &status, 0) != child) return '?';
    bool ended = WIFSIGNALED(status);
    if (ended && WTERMSIG(status) == SIGALRM) return 'H';
    if (!ended && WEXITSTATUS(status) != 0 && !told) return WEXITSTATUS(status) == 4 ? 'n' : '?';
    if (shared->damaged) return told || (ended && WTERMSIG(status) == SIGABRT) ? 'c' : 'C';
    if (told || (ended && WTERMSIG(status) == SIGABRT)) return 'T';
    if (!ended) return '-';
    return shared->stage == BEFORE ? 'S' : 'C';
}

int main(int argc, char **argv) {
    int sums[128] = {0}, told = 0, corrupt = 0;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 1;
    for (unsigned i = 0; i < KINDS; i++) {
        char of[SIZES + 1] = {0};
        for (unsigned k = 0; k < SIZES; k++) sums[(unsigned char)(of[k] = outcome(&kinds[i], sizes[k]))]++;
        told += strspn(of, "TS") == SIZES;
        corrupt += strpbrk(of, "CcH?") != NULL;
        printf("%-40s %s\n", kinds[i].name, of);
    }
    printf("of %d: told T %d, stopped S %d, silent - %d, corrupt C %d c %d, hung H %d\n", KINDS * SIZES, sums['T'],
           sums['S'], sums['-'], sums['C'], sums['c'], sums['H']);
    printf("of %d kinds: told or stopped at all three sizes %d, corrupt or hung at any %d\n", KINDS, told, corrupt);
    return argc == 3 && (told < strtol(argv[1], NULL, 10) || corrupt > strtol(argv[2], NULL, 10));
}
