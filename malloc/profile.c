/* profile.c: profiles who holds the program's memory, if the environment asks for it. See docs/howto/heap-profile.md.
 *
 * A process writes its profile when it ends, unless it is empty, and on each signal, into files named after the process's
 * number: child processes have the same environment. */
#include "malloc_internal.h"
#include "profile/profile.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static char wished_path[PATH_MAX]; /* a copy: programs write their titles over the environment */

static struct {
    const char *path; /* NULL: no profile is asked for */
    uint32_t form;
    weft_heap_profile_config config;
    atomic_uint signals; /* how many came */
} wish = {.config = {.struct_size = sizeof wish.config}};

bool profile_path_parse(const char *value) {
    size_t length = strlen(value);
    if (length >= sizeof wished_path - 64) return false;
    memcpy(wished_path, value, length + 1);
    wish.path = wished_path;
    return true;
}

bool profile_form_parse(const char *value) {
    static const char *const forms[] = {"pprof", "folded", "folded-allocated"}; /* enum weft_heap_profile_form */
    for (uint32_t i = 0; i < 3; i++) {
        if (strcmp(value, forms[i]) != 0) continue;
        wish.form = i;
        return true;
    }
    return false;
}

bool profile_interval_parse(int64_t bytes) {
    if (bytes > 0) wish.config.interval_bytes = (uint64_t)bytes;
    return bytes > 0;
}

bool profile_begin(void) {
    if (wish.path == NULL || weft_heap_profile_start(&wish.config) == WEFT_OK) return wish.path != NULL;
    report_say("WEFT_HEAP_PROFILE", wish.path, ": no profile can be taken\n");
    wish.path = NULL;
    return false;
}

/* signal: the number of the signal among those that came; 0: the process ends. */
static void write_now(unsigned signal) {
    char path[PATH_MAX];
    struct text text = {.size = sizeof path, .fd = TEXT_TO_MEMORY};
    text.to = path;
    text_put(&text, wish.path);
    text_put(&text, ".");
    text_put_number(&text, (uint64_t)getpid());
    if (signal != 0) text_put(&text, ".");
    if (signal != 0) text_put_number(&text, signal);
    text_end(&text);
    int fd = os_create(path);
    if (fd < 0 || weft_heap_profile_write(fd, wish.form) != WEFT_OK)
        report_say("WEFT_HEAP_PROFILE", path, " could not be written, or not all of it\n");
    if (fd >= 0) os_close(fd);
}

void profile_on_signal(int number) {
    (void)number;
    int saved = errno;
    if (wish.path != NULL) write_now(atomic_fetch_add(&wish.signals, 1) + 1);
    errno = saved;
}

void profile_at_exit(void) {
    if (wish.path != NULL && !profile_is_empty()) write_now(0);
}
