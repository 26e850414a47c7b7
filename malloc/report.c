/* report.c: prints the heap's counts, and reads the environment that asks for them. See docs/howto/malloc.md.
 *
 * The environment is read once, when the library is loaded. Blocks are served before that, too, with the defaults. */
#include "malloc_internal.h"
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the counts as text ------------------------------------------------------------------------------------------- */

#define TEXT_BYTES (1u << 17) /* written by one call, because other processes may append to the same file */

/* Writes two digits after the point. */
static void put_ratio(struct text *text, double value) {
    uint64_t hundredths = (uint64_t)(value * 100 + 0.5);
    text_put(text, "  ");
    text_put_column(text, hundredths / 100, 12);
    text_put_char(text, '.');
    text_put_number(text, hundredths / 10 % 10);
    text_put_number(text, hundredths % 10);
}

static double share(uint64_t part, uint64_t whole) { return whole == 0 ? 0 : (double)part / (double)whole; }

static void put_line(struct text *text, const char *name, uint64_t value) {
    text_put(text, "  ");
    text_put_column(text, value, 15);
    text_put(text, "  ");
    text_put(text, name);
    text_put(text, "\n");
}

/* How many slabs refills took, from all sources. */
static uint64_t slabs_taken(const weft_heap_counts *counts) {
    return counts->from_pool_count + counts->from_list_count + counts->from_lru_count + counts->from_orphans_count +
           counts->from_depot_count + counts->from_system_count;
}

static void put_totals(struct text *text, const weft_heap_counts *counts) {
    put_line(text, "allocations", counts->alloc_count);
    put_line(text, "frees", counts->free_count);
    put_line(text, "allocations served by a thread's cache", counts->hit_count);
    put_line(text, "misses, each a refill", counts->miss_count);
    put_line(text, "of them served by what a cache had no room for (overflow)", counts->from_overflow_count);
    put_line(text, "slabs from the warm pool", counts->from_pool_count);
    put_line(text, "slabs from the thread's others with room", counts->from_list_count);
    put_line(text, "slabs from the thread's empty ones (LRU)", counts->from_lru_count);
    put_line(text, "slabs from threads that ended", counts->from_orphans_count);
    put_line(text, "slabs from the depot", counts->from_depot_count);
    put_line(text, "slabs from the system", counts->from_system_count);
    put_line(text, "slabs prefilled", counts->prefill_count);
    put_line(text, "pushes into a warm pool", counts->push_count);
    put_line(text, "slabs that left it (tier)", counts->tier_drop_count);
    put_line(text, "slabs emptied and kept (LRU in)", counts->lru_in_count);
    put_line(text, "of them used again (LRU out)", counts->lru_out_count);
    put_line(text, "blocks of fresh memory (cold)", counts->cold_count);
    put_line(text, "cache overflows", counts->flush_count);
    put_line(text, "blocks sent home to another thread", counts->remote_free_count);
    put_line(text, "messages they went in", counts->remote_send_count);
    put_line(text, "purges", counts->purge_count);
    put_line(text, "page faults of the process", counts->page_fault_count);
    put_line(text, "bytes mapped", counts->mapped_bytes);
    put_line(text, "bytes resident", counts->resident_bytes);
    put_line(text, "bytes live", counts->live_bytes);
    put_line(text, "blocks over 3.9 MiB in memory of freed ones", counts->reuse_count);
    put_line(text, "bytes kept for such", counts->kept_bytes);
    put_line(text, "heaps made, of threads and private ones", counts->heap_count);
}

static void put_ratios(struct text *text, const weft_heap_counts *counts) {
    put_ratio(text, 100 * share(counts->from_pool_count, slabs_taken(counts)));
    text_put(text, "  % of slabs taken came from the warm pool\n");
    put_ratio(text, 100 * share(counts->miss_count, counts->alloc_count));
    text_put(text, "  % of allocations refill\n");
    put_ratio(text, share(counts->refill_ns, counts->refill_timed_count));
    text_put(text, "  ns per refill\n");
    put_ratio(text, share(counts->find_ns, counts->find_timed_count));
    text_put(text, "  ns to find a slab\n");
}

static void put_class(struct text *text, unsigned index) {
    weft_heap_counts counts = {.struct_size = sizeof counts};
    size_t block_size;
    if (weft_heap_class_stats(index, &block_size, &counts) != WEFT_OK || counts.alloc_count == 0) return;
    text_put_column(text, block_size, 10);
    text_put_column(text, counts.alloc_count, 14);
    text_put_column(text, counts.miss_count, 11);
    text_put_column(text, counts.from_pool_count, 10);
    text_put_column(text, counts.from_list_count, 10);
    text_put_column(text, counts.from_lru_count, 10);
    text_put_column(text, counts.from_orphans_count + counts.from_depot_count, 10);
    text_put_column(text, counts.from_system_count, 10);
    text_put_column(text, counts.prefill_count, 10);
    text_put_column(text, counts.remote_free_count, 12);
    text_put_column(text, counts.live_bytes, 14);
    text_put(text, "\n");
}

static size_t put_text(char *to, size_t size) {
    weft_heap_counts counts = {.struct_size = sizeof counts};
    if (weft_heap_stats(&counts) != WEFT_OK) return 0;
    struct text all = {.size = size, .fd = TEXT_TO_MEMORY}, *text = &all;
    all.to = to;
    text_put(text, "weft heap, process ");
    text_put_number(text, (uint64_t)getpid());
    text_put(text, "\n");
    put_totals(text, &counts);
    put_ratios(text, &counts);
    text_put(text,
             "     block   allocations     misses      pool      list       LRU     depot    system   prefill      remote"
             "    live bytes\n");
    for (unsigned i = 0; i < counts.classes; i++) put_class(text, i);
    return (size_t)text_end(text);
}

bool report_write(enum report_form form, int fd) {
    bool is_written = true; /* or another call is writing it */
    static atomic_flag busy = ATOMIC_FLAG_INIT;
    static char bytes[TEXT_BYTES];
    int saved = errno;
    if (!atomic_flag_test_and_set(&busy)) {
        size_t length =
            form == REPORT_JSON ? (size_t)weft_heap_stats_json(bytes, sizeof bytes) : put_text(bytes, sizeof bytes);
        is_written = os_write(fd, bytes, min_u64(length, sizeof bytes - 1));
        atomic_flag_clear(&busy);
    }
    errno = saved;
    return is_written;
}

/* ---- for programs that ask ---------------------------------------------------------------------------------------- */

#if defined(__GLIBC__) /* musl has neither structure */
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
#endif

EXPORT void malloc_stats(void) { (void)report_write(REPORT_TEXT, STDERR_FILENO); }

/* ---- the environment ---------------------------------------------------------------------------------------------- */

#define ERROR_FD_MIN 900 /* out of the way of programs that expect low numbers, and of scripts that lock with 200 */

static struct {
    bool at_exit;
    enum report_form form;
    const char *file; /* NULL: standard error */
    int error_fd;     /* standard error as it was at the start: many programs close it before they end */
    struct stat error_file;
} wish = {.error_fd = STDERR_FILENO};

/* If the program has closed this descriptor, too, its number may be another file's. Then standard error is used. */
static int error_fd(void) {
    struct stat now;
    bool is_there =
        fstat(wish.error_fd, &now) == 0 && now.st_dev == wish.error_file.st_dev && now.st_ino == wish.error_file.st_ino;
    return is_there ? wish.error_fd : STDERR_FILENO;
}

void report_say(const char *name, const char *value, const char *what) {
    char buffer[256];
    struct text text = {.to = buffer, .size = sizeof buffer, .fd = error_fd()};
    text_put(&text, "weft: ");
    text_put(&text, name);
    text_put(&text, "=");
    text_put(&text, value);
    text_put(&text, what);
    text_end(&text);
}

static void report_wished(void) {
    int saved = errno;
    int fd = wish.file == NULL ? error_fd() : os_append(wish.file);
    bool is_written = fd >= 0 && report_write(wish.form, fd);
    if (fd >= 0 && wish.file != NULL) os_close(fd);
    if (!is_written && wish.file != NULL) report_say("WEFT_HEAP_STATS_FILE", wish.file, " took not all of it\n");
    errno = saved;
}

static void on_signal(int number) {
    (void)number;
    report_wished();
}

static bool is(const char *value, const char *word) { return strcmp(value, word) == 0; }

/* The number that the whole text consists of, from -1 to INT32_MAX; otherwise -2. */
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
        config->pool_capacity = WEFT_HEAP_POOL_NONE;
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
    if (config->decay_ms == 0) config->decay_ms = 1; /* a structure's 0 is the default */
    return config->decay_ms >= -1;
}

static bool check_parse(const char *value, weft_heap_config *config) {
    if (is(value, "1")) config->checks = WEFT_HEAP_CHECKED;
    return is(value, "0") || is(value, "1");
}

static bool mode_parse(const char *value, weft_heap_config *config) {
    static const char *const names[] = {"default", "checked", "secure"}; /* enum weft_heap_checks */
    for (uint32_t i = 0; i < 3; i++) {
        if (!is(value, names[i])) continue;
        config->checks = i;
        return true;
    }
    return false;
}

static bool purge_parse(const char *value, weft_heap_config *config) {
    config->purge_thread = is(value, "1");
    return is(value, "0") || is(value, "1");
}

static bool stats_parse(const char *value, weft_heap_config *config) {
    (void)config;
    bool is_json = is(value, "json");
    wish.at_exit = is_json || is(value, "1") || is(value, "text");
    wish.form = is_json ? REPORT_JSON : REPORT_TEXT;
    return wish.at_exit || is(value, "0");
}

static bool file_parse(const char *value, weft_heap_config *config) {
    (void)config;
    bool is_default = strcmp(value, "/dev/stderr") == 0; /* error_fd has it even if the program closes it */
    static char copy[4096];                              /* programs write their titles over the environment */
    size_t length = strlen(value);
    if (length == 0 || length >= sizeof copy) return false;
    memcpy(copy, value, length + 1);
    if (!is_default) wish.file = copy;
    return true;
}

/* Has the handler called when the signal of that name or number comes. */
static bool signal_take(const char *value, void (*handler)(int number)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    int64_t number = is(value, "USR1") ? SIGUSR1 : is(value, "USR2") ? SIGUSR2 : number_of(value);
    return number > 0 && sigaction((int)number, &action, NULL) == 0;
}

static bool signal_parse(const char *value, weft_heap_config *config) {
    (void)config;
    return signal_take(value, on_signal);
}

static bool profile_parse(const char *value, weft_heap_config *config) {
    (void)config;
    return profile_path_parse(value);
}

static bool form_parse(const char *value, weft_heap_config *config) {
    (void)config;
    return profile_form_parse(value);
}

static bool interval_parse(const char *value, weft_heap_config *config) {
    (void)config;
    return profile_interval_parse(number_of(value));
}

static bool profile_signal_parse(const char *value, weft_heap_config *config) {
    (void)config;
    return signal_take(value, profile_on_signal);
}

static const struct {
    const char *name;
    bool (*parse)(const char *value, weft_heap_config *config);
} variables[] = {
    {"WEFT_HEAP_POOL", pool_parse},
    {"WEFT_HEAP_REMOTE", remote_parse},
    {"WEFT_HEAP_DECAY_MS", decay_parse},
    {"WEFT_HEAP", mode_parse},
    {"WEFT_HEAP_CHECK", check_parse},
    {"WEFT_HEAP_PURGE_THREAD", purge_parse},
    {"WEFT_HEAP_STATS", stats_parse},
    {"WEFT_HEAP_STATS_FILE", file_parse},
    {"WEFT_HEAP_STATS_SIGNAL", signal_parse},
    {"WEFT_HEAP_PROFILE", profile_parse},
    {"WEFT_HEAP_PROFILE_FORM", form_parse},
    {"WEFT_HEAP_PROFILE_INTERVAL", interval_parse},
    {"WEFT_HEAP_PROFILE_SIGNAL", profile_signal_parse},
};

__attribute__((constructor)) static void environment_read(void) {
    weft_heap_config config = {.struct_size = sizeof config};
    int saved = errno;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        weft_heap_config trial = config;
        const char *value = secure_getenv(variables[i].name);
        if (value == NULL || value[0] == 0) continue; /* empty counts as unset: so scripts switch off what is inherited */
        bool is_sound = variables[i].parse(value, &trial);
        int error = is_sound ? weft_heap_configure(&trial) : WEFT_EINVAL;
        if (error == WEFT_OK)
            config = trial;
        else
            report_say(variables[i].name, value,
                       error == WEFT_EBUSY ? " comes too late, a thread has the heap in use, and has no effect\n"
                                           : " is not understood and has no effect\n");
    }
    bool is_profiled = profile_begin();
    int fd = wish.at_exit || is_profiled ? fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, ERROR_FD_MIN) : -1;
    if (fd >= 0 && fstat(fd, &wish.error_file) == 0) wish.error_fd = fd;
    errno = saved; /* a program finds it 0 when main begins */
}

__attribute__((destructor)) static void report_at_exit(void) {
    profile_at_exit();
    if (wish.at_exit) report_wished();
}
