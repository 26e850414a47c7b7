/* plan.c: the file `queue`, which says what is to be done. Lines of text, the last of them a checksum of those before; written to
 * a name of its own, synced, then given its name by link(2), which fails where there is one already. It never changes after. */
#include "chunks.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX (64u << 20)
#define HEAD_BYTES (WEFT_CHUNKS_LABEL_MAX + 512u)
#define LINE_BYTES 24u /* of a cut */
#define LEASE_MS 30000u
#define LOSSES 10u
#define LINE_SAID 200u /* bytes of a line that are said */

static size_t count_of(const weft_chunks_plan *plan) {
    if (plan->chunk == 0) return plan->cut_count + 1;
    size_t indices = plan->end - plan->begin;
    return indices / plan->chunk + (indices % plan->chunk != 0);
}

static bool cuts_are_sound(const weft_chunks_plan *plan) {
    size_t before = plan->begin;
    for (size_t i = 0; i < plan->cut_count; i++) {
        if (plan->cuts[i] <= before || plan->cuts[i] >= plan->end) return false;
        before = plan->cuts[i];
    }
    return true;
}

int plan_check(const weft_chunks_plan *plan) {
    if (plan == NULL || plan->struct_size != sizeof *plan) return why(WEFT_EINVAL, "no plan, or one of another size");
    if (plan->begin >= plan->end) return why(WEFT_EINVAL, "the range %zu to %zu is empty", plan->begin, plan->end);
    if ((plan->chunk == 0) != (plan->cuts != NULL)) return why(WEFT_EINVAL, "either a chunk's size or cuts");
    if (plan->cuts == NULL && plan->cut_count > 0) return why(WEFT_EINVAL, "a count of cuts without cuts");
    if (plan->cut_count >= WEFT_CHUNKS_MAX || count_of(plan) > WEFT_CHUNKS_MAX)
        return why(WEFT_EINVAL, "more than %u chunks", WEFT_CHUNKS_MAX);
    if (!cuts_are_sound(plan)) return why(WEFT_EINVAL, "the cuts do not rise from %zu to below %zu", plan->begin, plan->end);
    if (plan->lease_ms != 0 && (plan->lease_ms < 100 || plan->lease_ms > 1000000000))
        return why(WEFT_EINVAL, "a lease of %" PRIu64 " ms: 100 to 1000000000 are possible", plan->lease_ms);
    if (plan->zero != 0) return why(WEFT_EINVAL, "a plan's `zero` is %u", plan->zero);
    if ((plan->flags & ~WEFT_CHUNKS_KEEP_GOING) != 0) return why(WEFT_EINVAL, "unknown flags %#x", plan->flags);
    if (plan->label != NULL && (strlen(plan->label) > WEFT_CHUNKS_LABEL_MAX || strchr(plan->label, '\n') != NULL))
        return why(WEFT_EINVAL, "the label is longer than %u bytes or has several lines", WEFT_CHUNKS_LABEL_MAX);
    return WEFT_OK;
}

/* ---- writing ------------------------------------------------------------------------------------------------------- */

/* The file's text, which the caller frees; NULL: no memory. The usual count of losses is left out. */
static char *plan_text(const weft_chunks_plan *plan, size_t *length) {
    char *text = malloc(HEAD_BYTES + plan->cut_count * LINE_BYTES);
    if (text == NULL) return NULL;
    size_t used = (size_t)snprintf(
        text, HEAD_BYTES, "weft chunks 1\nbegin %zu\nend %zu\nchunk %zu\nlease_ms %" PRIu64 "\ntries %u\nflags %u\n",
        plan->begin, plan->end, plan->chunk, plan->lease_ms == 0 ? LEASE_MS : plan->lease_ms,
        plan->tries == 0 ? 1 : plan->tries, plan->flags);
    if (plan->losses != 0 && plan->losses != LOSSES)
        used += (size_t)snprintf(text + used, LINE_BYTES, "losses %u\n", plan->losses);
    used += (size_t)snprintf(text + used, HEAD_BYTES - used, "label %s\ncuts %zu\n", plan->label == NULL ? "" : plan->label,
                             plan->cut_count);
    for (size_t i = 0; i < plan->cut_count; i++) used += (size_t)snprintf(text + used, LINE_BYTES, "%zu\n", plan->cuts[i]);
    used += (size_t)snprintf(text + used, LINE_BYTES, "check %08" PRIx32 "\n", text_check(text, used, 0));
    *length = used;
    return text;
}

static bool write_all(int fd, const char *text, size_t length) {
    while (length > 0) {
        ssize_t put = write(fd, text, length);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return false;
        text += put;
        length -= (size_t)put;
    }
    return true;
}

/* Whole, and on disk. */
static int file_write(int directory, const char *name, const char *text, size_t length) {
    int fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) return why_system("%s cannot be made", name);
    int error = write_all(fd, text, length) && fsync(fd) == 0 ? WEFT_OK : why_system("%s cannot be written", name);
    if (close(fd) != 0 && error == WEFT_OK) error = why_system("%s cannot be written", name);
    return error;
}

/* The text of the file `queue`, which the caller frees. WEFT_CHUNKS_OTHER: there is none. */
static int file_read(int directory, char **text, size_t *length) {
    struct stat about;
    int fd = openat(directory, "queue", O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) return why(WEFT_CHUNKS_OTHER, "there is no queue in this directory");
    if (fd < 0) return why_system("the queue's file cannot be opened");
    int error = fstat(fd, &about) == 0 ? WEFT_OK : why_system("the queue's file cannot be read");
    if (error == WEFT_OK && (about.st_size <= 0 || about.st_size > FILE_BYTES_MAX))
        error = why(WEFT_CHUNKS_DAMAGED, "the queue's file has %jd bytes", (intmax_t)about.st_size);
    *text = error == WEFT_OK ? malloc((size_t)about.st_size + 1) : NULL;
    if (error == WEFT_OK && *text == NULL) error = why(WEFT_ENOMEM, "no memory for the queue's file");
    for (*length = 0; error == WEFT_OK && *length < (size_t)about.st_size;) {
        ssize_t got = read(fd, *text + *length, (size_t)about.st_size - *length);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) error = why_system("the queue's file cannot be read");
        if (got == 0) error = why(WEFT_CHUNKS_DAMAGED, "the queue's file ends early");
        if (got > 0) *length += (size_t)got;
    }
    close(fd);
    if (error == WEFT_OK && *text != NULL) (*text)[*length] = 0;
    if (error != WEFT_OK) free(*text);
    return error;
}

/* The first line of `text` that `other` has otherwise, as far as it can be said. */
static void line_that_differs(const char *text, const char *other, char line[LINE_SAID]) {
    size_t at = 0;
    while (text[at] != 0 && text[at] == other[at]) at++;
    while (at > 0 && text[at - 1] != '\n') at--;
    snprintf(line, LINE_SAID, "%.*s", (int)strcspn(text + at, "\n"), text + at);
}

/* There is a queue: is it this one? */
static int file_compare(int directory, const char *text, size_t length) {
    char *there = NULL;
    size_t there_length = 0;
    int error = file_read(directory, &there, &there_length);
    if (error != WEFT_OK || there == NULL) return error;
    if (there_length != length || memcmp(there, text, length) != 0) {
        struct plan plan;
        char has[LINE_SAID], asked[LINE_SAID];
        error = plan_read(directory, &plan); /* damaged? */
        if (error == WEFT_OK) {
            line_that_differs(there, text, has);
            line_that_differs(text, there, asked);
            error = why(WEFT_CHUNKS_OTHER,
                        "the directory holds another queue, with \"%s\", not \"%s\": %zu to %zu in %zu chunks%s%s", has,
                        asked, plan.given.begin, plan.given.end, plan.count, plan.label[0] == 0 ? "" : ", ", plan.label);
            plan_end(&plan);
        }
    }
    free(there);
    return error;
}

/* Written, and given its name if nobody has been quicker. */
static int file_make(int directory, const char *text, size_t length) {
    uint64_t random;
    char name[NAME_BYTES];
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) return why_system("no random numbers");
    snprintf(name, sizeof name, "queue.%016" PRIx64, random);
    int error = file_write(directory, name, text, length);
    if (error == WEFT_OK && linkat(directory, name, directory, "queue", 0) != 0) {
        int number = errno;
        error = file_compare(directory, text, length); /* also of a link whose reply was lost */
        errno = number;
        if (error == WEFT_CHUNKS_OTHER && faccessat(directory, "queue", F_OK, 0) != 0) {
            errno = number;
            error = why_system("the queue's file cannot get its name");
        }
    }
    unlinkat(directory, name, 0);
    return error;
}

/* Who joins a queue writes nothing, so that it may be full, or only be read. */
int plan_write(int directory, const weft_chunks_plan *plan) {
    size_t length;
    char *text = plan_text(plan, &length);
    if (text == NULL) return why(WEFT_ENOMEM, "no memory for the plan");
    bool is_there = faccessat(directory, "queue", F_OK, 0) == 0;
    int error = is_there ? file_compare(directory, text, length) : file_make(directory, text, length);
    if (error == WEFT_OK && fsync(directory) != 0) error = why_system("the directory cannot be synced");
    free(text);
    return error;
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

/* `*at` moves behind a line "word number". */
static bool line_number(const char **at, const char *word, size_t *number) {
    char *end;
    size_t length = strlen(word);
    if (strncmp(*at, word, length) != 0) return false;
    if ((*at)[length] < '0' || (*at)[length] > '9') return false;
    errno = 0;
    *number = strtoul(*at + length, &end, 10);
    if (errno != 0 || *end != '\n') return false;
    *at = end + 1;
    return true;
}

static bool label_read(const char **at, struct plan *plan) {
    const char *end = strchr(*at, '\n');
    if (strncmp(*at, "label ", 6) != 0 || end == NULL) return false;
    size_t length = (size_t)(end - *at) - 6;
    if (length > WEFT_CHUNKS_LABEL_MAX) return false;
    memcpy(plan->label, *at + 6, length);
    plan->label[length] = 0;
    plan->given.label = plan->label;
    *at = end + 1;
    return true;
}

static bool text_is_whole(const char *text, size_t length) {
    char line[LINE_BYTES];
    const size_t line_length = strlen("check 12345678\n");
    if (length < line_length || strlen(text) != length) return false;
    snprintf(line, sizeof line, "check %08" PRIx32 "\n", text_check(text, length - line_length, 0));
    return strcmp(text + length - line_length, line) == 0;
}

/* False: the text is none of plan_text's. *enough false: no memory. */
static bool text_read(const char *at, struct plan *plan, bool *enough) {
    weft_chunks_plan *given = &plan->given;
    static const char first[] = "weft chunks 1\n";
    size_t lease, tries, flags, losses = LOSSES;
    if (strncmp(at, first, sizeof first - 1) != 0) return false;
    at += sizeof first - 1;
    if (!line_number(&at, "begin ", &given->begin) || !line_number(&at, "end ", &given->end)) return false;
    if (!line_number(&at, "chunk ", &given->chunk) || !line_number(&at, "lease_ms ", &lease)) return false;
    if (!line_number(&at, "tries ", &tries) || !line_number(&at, "flags ", &flags)) return false;
    if (strncmp(at, "losses ", 7) == 0 && !line_number(&at, "losses ", &losses)) return false;
    if (!label_read(&at, plan) || !line_number(&at, "cuts ", &given->cut_count)) return false;
    given->lease_ms = lease;
    given->tries = (uint32_t)tries;
    given->flags = (uint32_t)flags;
    given->losses = (uint32_t)losses;
    if (given->cut_count >= WEFT_CHUNKS_MAX || tries > UINT32_MAX || flags > UINT32_MAX || losses > UINT32_MAX) return false;
    if (given->chunk == 0) plan->cuts = calloc(given->cut_count + 1, sizeof *plan->cuts);
    *enough = given->chunk != 0 || plan->cuts != NULL;
    given->cuts = plan->cuts;
    for (size_t i = 0; *enough && i < given->cut_count; i++)
        if (plan->cuts == NULL || !line_number(&at, "", &plan->cuts[i])) return false;
    return true;
}

int plan_read(int directory, struct plan *plan) {
    char *text = NULL;
    size_t length = 0;
    bool enough = true;
    memset(plan, 0, sizeof *plan);
    plan->given.struct_size = sizeof plan->given;
    int error = file_read(directory, &text, &length);
    if (error != WEFT_OK) return error;
    if (!text_is_whole(text, length))
        error = why(WEFT_CHUNKS_DAMAGED, "the queue's file does not have its checksum");
    else if (!text_read(text, plan, &enough))
        error = why(WEFT_CHUNKS_DAMAGED, "the queue's file is of another version");
    else if (!enough)
        error = why(WEFT_ENOMEM, "no memory for the cuts");
    else if (plan_check(&plan->given) != WEFT_OK)
        error = WEFT_CHUNKS_DAMAGED;
    free(text);
    if (error == WEFT_OK) plan->count = count_of(&plan->given);
    if (error != WEFT_OK) plan_end(plan);
    return error;
}

void plan_end(struct plan *plan) {
    free(plan->cuts);
    plan->cuts = NULL;
}

void plan_chunk(const struct plan *plan, size_t index, weft_chunk *chunk) {
    const weft_chunks_plan *given = &plan->given;
    chunk->index = index;
    if (plan->cuts != NULL) {
        chunk->begin = index == 0 ? given->begin : plan->cuts[index - 1];
        chunk->end = index < given->cut_count ? plan->cuts[index] : given->end;
        return;
    }
    chunk->begin = given->begin + index * given->chunk;
    chunk->end = given->end - chunk->begin > given->chunk ? chunk->begin + given->chunk : given->end;
}
