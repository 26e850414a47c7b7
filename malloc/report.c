/* report.c: the heap's counts in words, and the environment that asks for them. See docs/malloc.md.
 *
 * The environment is read once, when the library is loaded. Blocks are served before that, too, by the defaults. */
#include "malloc_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- text, without stdio ------------------------------------------------------------------------------------------ */

#define TEXT_BYTES (1u << 17)

static struct {
    atomic_flag busy; /* of `bytes` and `used` */
    size_t used;
    char bytes[TEXT_BYTES];
} text = {.busy = ATOMIC_FLAG_INIT};

static void put(const char *words) {
    size_t length = strlen(words), room = TEXT_BYTES - text.used;
    if (length > room) length = room;
    memcpy(text.bytes + text.used, words, length);
    text.used += length;
}

/* Right-aligned. */
static void put_number(uint64_t value, unsigned width) {
    char digits[32];
    size_t at = sizeof digits - 1;
    digits[at] = 0;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    for (size_t length = sizeof digits - 1 - at; length < width && at > 0; length++) digits[--at] = ' ';
    put(digits + at);
}

/* With two digits after the point. */
static void put_ratio(double value, unsigned width) {
    uint64_t hundredths = (uint64_t)(value * 100 + 0.5);
    char digits[4] = {'.', (char)('0' + hundredths / 10 % 10), (char)('0' + hundredths % 10), 0};
    put_number(hundredths / 100, width - 3);
    put(digits);
}

static double share(uint64_t part, uint64_t whole) { return whole == 0 ? 0 : (double)part / (double)whole; }

static void put_line(const char *name, uint64_t value) {
    put("  ");
    put_number(value, 15);
    put("  ");
    put(name);
    put("\n");
}

/* The slabs that refills took, by source. */
static uint64_t slabs_taken(const weft_heap_counts *counts) {
    return counts->from_pool + counts->from_list + counts->from_lru + counts->from_orphans + counts->from_depot +
           counts->from_system;
}

static void put_totals(const weft_heap_counts *counts) {
    put_line("allocations", counts->allocs);
    put_line("frees", counts->frees);
    put_line("of them served by a thread's cache", counts->hits);
    put_line("misses, each a refill", counts->misses);
    put_line("slabs from the warm pool", counts->from_pool);
    put_line("slabs from the thread's others with room", counts->from_list);
    put_line("slabs from the thread's empty ones (LRU)", counts->from_lru);
    put_line("slabs from threads that ended", counts->from_orphans);
    put_line("slabs from the depot", counts->from_depot);
    put_line("slabs from the system", counts->from_system);
    put_line("slabs prefilled", counts->prefilled);
    put_line("pushes into a warm pool", counts->pushes);
    put_line("slabs that left it (tier)", counts->tier_drops);
    put_line("slabs emptied and kept (LRU in)", counts->lru_in);
    put_line("of them used again (LRU out)", counts->lru_out);
    put_line("blocks of fresh memory (cold)", counts->cold);
    put_line("cache overflows", counts->flushes);
    put_line("blocks sent home to another thread", counts->remote_frees);
    put_line("messages they went in", counts->remote_sends);
    put_line("purges", counts->purges);
    put_line("page faults of the process", counts->page_faults);
    put_line("bytes mapped", counts->mapped_bytes);
    put_line("bytes resident", counts->resident_bytes);
    put_line("bytes live", counts->live_bytes);
    put_line("blocks over 2 MiB in the place of a freed one", counts->reused);
    put_line("bytes in such places", counts->kept_bytes);
    put_line("heaps of threads", counts->heaps);
}

static void put_ratios(const weft_heap_counts *counts) {
    put("  ");
    put_ratio(100 * share(counts->from_pool, slabs_taken(counts)), 15);
    put("  % of slabs taken came from the warm pool\n  ");
    put_ratio(100 * share(counts->misses, counts->allocs), 15);
    put("  % of allocations refill\n  ");
    put_ratio(share(counts->refill_ns, counts->refills_timed), 15);
    put("  ns per refill\n  ");
    put_ratio(share(counts->find_ns, counts->finds_timed), 15);
    put("  ns to find a slab\n");
}

static void put_class(unsigned index) {
    weft_heap_counts counts = {.struct_size = sizeof counts};
    size_t block_size;
    if (weft_heap_class_stats(index, &block_size, &counts) != WEFT_OK || counts.allocs == 0) return;
    put_number(block_size, 10);
    put_number(counts.allocs, 14);
    put_number(counts.misses, 11);
    put_number(counts.from_pool, 10);
    put_number(counts.from_list, 10);
    put_number(counts.from_lru, 10);
    put_number(counts.from_orphans + counts.from_depot, 10);
    put_number(counts.from_system, 10);
    put_number(counts.prefilled, 10);
    put_number(counts.remote_frees, 12);
    put_number(counts.live_bytes, 14);
    put("\n");
}

static void put_text(void) {
    weft_heap_counts counts = {.struct_size = sizeof counts};
    if (weft_heap_stats(&counts) != WEFT_OK) return;
    put("weft heap, process ");
    put_number((uint64_t)getpid(), 0);
    put("\n");
    put_totals(&counts);
    put_ratios(&counts);
    put("     block   allocations     misses      pool      list       LRU     depot    system   prefill      remote    "
        "live bytes\n");
    for (unsigned i = 0; i < counts.classes; i++) put_class(i);
}

static void put_json(void) {
    int length = weft_heap_json(text.bytes, TEXT_BYTES - 1);
    if (length < 0) return;
    text.used = (size_t)length < TEXT_BYTES - 2 ? (size_t)length : TEXT_BYTES - 2;
}

void report_write(enum report_form form, int fd) {
    int saved = errno;
    if (!atomic_flag_test_and_set(&text.busy)) {
        text.used = 0;
        if (form == REPORT_JSON)
            put_json();
        else
            put_text();
        for (size_t at = 0; at < text.used;) {
            ssize_t n = write(fd, text.bytes + at, text.used - at);
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) break;
            at += (size_t)n;
        }
        atomic_flag_clear(&text.busy);
    }
    errno = saved;
}

/* ---- for programs that ask ---------------------------------------------------------------------------------------- */

EXPORT struct mallinfo2 mallinfo2(void) {
    weft_heap_counts counts = {.struct_size = sizeof counts};
    struct mallinfo2 info = {0};
    if (weft_heap_stats(&counts) != WEFT_OK) return info;
    info.arena = counts.mapped_bytes;
    info.uordblks = counts.live_bytes;
    info.fordblks = counts.mapped_bytes > counts.live_bytes ? counts.mapped_bytes - counts.live_bytes : 0;
    return info;
}

static int narrow(size_t value) { return value > INT_MAX ? INT_MAX : (int)value; }

EXPORT struct mallinfo mallinfo(void) {
    struct mallinfo2 wide = mallinfo2();
    struct mallinfo info = {0};
    info.arena = narrow(wide.arena);
    info.uordblks = narrow(wide.uordblks);
    info.fordblks = narrow(wide.fordblks);
    return info;
}

EXPORT void malloc_stats(void) { report_write(REPORT_TEXT, STDERR_FILENO); }

/* ---- the environment ---------------------------------------------------------------------------------------------- */

#define ERROR_FD_MIN 200 /* out of the way of programs that count on low numbers */

static struct {
    bool at_exit;
    enum report_form form;
    const char *file; /* NULL: standard error */
    int error_fd;     /* standard error as it was at the start: many programs close it before they end */
} wish = {.error_fd = STDERR_FILENO};

static void report_wished(void) {
    int saved = errno;
    int fd = wish.file == NULL ? wish.error_fd : open(wish.file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd >= 0) report_write(wish.form, fd);
    if (fd >= 0 && wish.file != NULL) close(fd);
    errno = saved;
}

static void on_signal(int number) {
    (void)number;
    report_wished();
}

static void complain(const char *name, const char *value) {
    const char *words[] = {"weft: ", name, "=", value, " is not understood and has no effect\n"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        ssize_t n = write(STDERR_FILENO, words[i], strlen(words[i]));
        (void)n;
    }
}

static bool is(const char *value, const char *word) { return strcmp(value, word) == 0; }

/* A number in the whole of the text, from -1 to INT32_MAX; or -2. */
static int64_t number_of(const char *value) {
    char *end;
    long number = strtol(value, &end, 10);
    return end == value || *end != 0 || number < -1 || number > INT32_MAX ? -2 : number;
}

/* "prefill/capacity" */
static bool pool_parse(const char *value, weft_heap_config *config) {
    char *end;
    if (is(value, "adaptive")) return true;
    if (is(value, "off")) {
        config->pool_capacity = WEFT_HEAP_NO_POOL;
        return true;
    }
    long prefill = strtol(value, &end, 10);
    int64_t capacity = *end == '/' ? number_of(end + 1) : -2;
    if (prefill < 1 || prefill > capacity) return false;
    config->pool_prefill = (int32_t)prefill;
    config->pool_capacity = (int32_t)capacity;
    return true;
}

static bool remote_parse(const char *value, weft_heap_config *config) {
    static const char *const names[] = {"hybrid", "home", "keep"}; /* enum weft_heap_remote */
    for (uint32_t i = 0; i < 3; i++) {
        if (!is(value, names[i])) continue;
        config->remote = i;
        return true;
    }
    return false;
}

static bool decay_parse(const char *value, weft_heap_config *config) {
    config->decay_ms = number_of(value);
    return config->decay_ms > 0 || config->decay_ms == -1;
}

static bool check_parse(const char *value, weft_heap_config *config) {
    config->checks = is(value, "1");
    return is(value, "0") || is(value, "1");
}

static bool purge_parse(const char *value, weft_heap_config *config) {
    config->purge_thread = is(value, "1");
    return is(value, "0") || is(value, "1");
}

static bool stats_parse(const char *value, weft_heap_config *config) {
    (void)config;
    wish.at_exit = !is(value, "0");
    wish.form = is(value, "json") ? REPORT_JSON : REPORT_TEXT;
    return is(value, "0") || is(value, "1") || is(value, "text") || is(value, "json");
}

static bool file_parse(const char *value, weft_heap_config *config) {
    (void)config;
    wish.file = value;
    return value[0] != 0;
}

static bool signal_parse(const char *value, weft_heap_config *config) {
    (void)config;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    int64_t number = is(value, "USR1") ? SIGUSR1 : is(value, "USR2") ? SIGUSR2 : number_of(value);
    return number > 0 && sigaction((int)number, &action, NULL) == 0;
}

static const struct {
    const char *name;
    bool (*parse)(const char *value, weft_heap_config *config);
} variables[] = {
    {"WEFT_HEAP_POOL", pool_parse},       {"WEFT_HEAP_REMOTE", remote_parse},       {"WEFT_HEAP_DECAY_MS", decay_parse},
    {"WEFT_HEAP_CHECK", check_parse},     {"WEFT_HEAP_PURGE_THREAD", purge_parse},  {"WEFT_HEAP_STATS", stats_parse},
    {"WEFT_HEAP_STATS_FILE", file_parse}, {"WEFT_HEAP_STATS_SIGNAL", signal_parse},
};

__attribute__((constructor)) static void environment_read(void) {
    weft_heap_config config = {.struct_size = sizeof config};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        weft_heap_config trial = config;
        const char *value = secure_getenv(variables[i].name);
        if (value == NULL) continue;
        if (variables[i].parse(value, &trial) && weft_heap_configure(&trial) == WEFT_OK)
            config = trial;
        else
            complain(variables[i].name, value);
    }
    int fd = wish.at_exit && wish.file == NULL ? fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, ERROR_FD_MIN) : -1;
    if (fd >= 0) wish.error_fd = fd;
}

__attribute__((destructor)) static void report_at_exit(void) {
    if (wish.at_exit) report_wished();
}
