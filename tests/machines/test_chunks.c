/* test_chunks.c: queues in a directory: plans, claims, leases, records that are torn, failures, cancelling. */
#include "chunks_help.h"

#include <sys/mman.h>

static char base[PATH_BYTES], place[PATH_BYTES + 8];

static int base_new(void **state) {
    (void)state;
    base_make(base);
    snprintf(place, sizeof place, "%s/q", base);
    return 0;
}
static int base_end(void **state) {
    (void)state;
    tree_remove(base);
    return 0;
}

static weft_chunks *make_queue(weft_chunks_plan plan) {
    assert_int_equal(weft_chunks_create(place, &plan), WEFT_OK);
    return open_queue(place);
}

static weft_chunk claim(weft_chunks *queue) {
    weft_chunk chunk;
    int error = weft_chunks_claim(queue, &chunk);
    if (error != WEFT_OK) fprintf(stderr, "claim: %s: %s\n", weft_chunks_strerror(error), weft_chunks_why());
    assert_int_equal(error, WEFT_OK);
    return chunk;
}

/* ---- plans --------------------------------------------------------------------------------------------------------- */

static void test_bad_plans(void **state) {
    (void)state;
    static const size_t falling[] = {5, 4}, outside[] = {5, 100}, at_begin[] = {0};
    weft_chunks_plan plans[16];
    size_t count = 0;
    for (size_t i = 0; i < 16; i++) plans[i] = plan_of(100, 10);
    plans[count++].struct_size = 1;
    plans[count++].end = 0;
    plans[count++].begin = 100;
    plans[count++].chunk = 0;
    plans[count++].cuts = falling; /* both */
    plans[count++].cut_count = 2;
    plans[count++].end = SIZE_MAX; /* too many */
    plans[count++].lease_ms = 99;
    plans[count++].lease_ms = 1000000001;
    plans[count++].flags = 2;
    plans[count++].label = "two\nlines";
    plans[count] = (weft_chunks_plan){.struct_size = sizeof *plans, .end = 100, .cuts = falling, .cut_count = 2};
    plans[count + 1] = plans[count];
    plans[count + 1].cuts = outside;
    plans[count + 2] = plans[count];
    plans[count + 2].cuts = at_begin;
    plans[count + 2].cut_count = 1;
    count += 3;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(weft_chunks_create(place, &plans[i]), WEFT_EINVAL);
        assert_true(strlen(weft_chunks_why()) > 5);
        assert_int_equal(access(place, F_OK), -1);
    }
    assert_int_equal(weft_chunks_create(NULL, &plans[15]), WEFT_EINVAL);
    assert_int_equal(weft_chunks_create(place, NULL), WEFT_EINVAL);
    snprintf(place, sizeof place, "%s/a/b", base);
    assert_int_equal(weft_chunks_create(place, &plans[15]), WEFT_CHUNKS_SYSTEM);
    assert_non_null(strstr(weft_chunks_why(), "No such file"));
}

static void test_same_plan_or_other(void **state) {
    (void)state;
    weft_chunks_plan plan = plan_of(100, 10), other = plan_of(100, 11);
    plan.label = "encode clip";
    weft_chunks *queue = make_queue(plan);
    assert_int_equal(weft_chunks_create(place, &plan), WEFT_OK);
    assert_int_equal(weft_chunks_create(place, &other), WEFT_CHUNKS_OTHER);
    assert_non_null(strstr(weft_chunks_why(), "encode clip"));
    weft_chunks_plan there = {.struct_size = sizeof there};
    assert_int_equal(weft_chunks_plan_of(queue, &there), WEFT_OK);
    assert_true(there.end == 100 && there.chunk == 10 && there.lease_ms == 30000 && there.tries == 1);
    assert_string_equal(there.label, "encode clip");
    assert_int_equal(weft_chunks_count(queue), 10);
    close_queue(queue);
}

static void test_cuts(void **state) {
    (void)state;
    static const size_t cuts[] = {17, 18, 90};
    weft_chunks_plan plan = {.struct_size = sizeof plan, .begin = 3, .end = 100, .cuts = cuts, .cut_count = 3};
    static const size_t begins[] = {3, 17, 18, 90, 100};
    weft_chunks *queue = make_queue(plan);
    assert_int_equal(weft_chunks_count(queue), 4);
    for (size_t i = 0; i < 4; i++) {
        weft_chunk chunk = claim(queue);
        assert_true(chunk.index == i && chunk.begin == begins[i] && chunk.end == begins[i + 1]);
        assert_int_equal(weft_chunks_finish(queue, &chunk, 0), WEFT_OK);
    }
    assert_int_equal(weft_chunks_result(queue), WEFT_OK);
    close_queue(queue);
}

static void write_file(const char *path, const char *text, size_t length) {
    FILE *file = fopen(path, "w");
    REQUIRE(file != NULL && fwrite(text, 1, length, file) == length && fclose(file) == 0);
}

/* Each prefix of the file, and each byte of it changed, is seen. */
static void test_damaged_plan(void **state) {
    (void)state;
    weft_chunks_plan plan = plan_of(1000, 10);
    plan.label = "x";
    close_queue(make_queue(plan));
    char path[PATH_BYTES + 16], text[512];
    snprintf(path, sizeof path, "%s/queue", place);
    FILE *file = fopen(path, "r");
    size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    weft_chunks *queue;
    for (size_t i = 0; i < length; i++) {
        write_file(path, text, i);
        assert_int_equal(weft_chunks_open(&queue, place), WEFT_CHUNKS_DAMAGED);
        assert_null(queue);
        text[i] ^= 1;
        write_file(path, text, length);
        assert_int_equal(weft_chunks_open(&queue, place), WEFT_CHUNKS_DAMAGED);
        text[i] ^= 1;
    }
    write_file(path, text, length);
    close_queue(open_queue(place));
    assert_int_equal(remove(path), 0);
    assert_int_equal(weft_chunks_open(&queue, place), WEFT_CHUNKS_OTHER);
    assert_int_equal(weft_chunks_open(&queue, base), WEFT_CHUNKS_OTHER);
    assert_int_equal(weft_chunks_open(&queue, "/no/such/place"), WEFT_CHUNKS_OTHER);
    assert_int_equal(weft_chunks_open(NULL, place), WEFT_EINVAL);
    assert_int_equal(weft_chunks_open(&queue, NULL), WEFT_EINVAL);
}

/* At the end of what a size_t can say, in chunks of which the last is smaller. */
static void test_far_range(void **state) {
    (void)state;
    weft_chunks_plan plan = plan_of(SIZE_MAX, 4);
    plan.begin = SIZE_MAX - 10;
    weft_chunks *queue = make_queue(plan);
    assert_int_equal(weft_chunks_count(queue), 3);
    for (size_t i = 0; i < 3; i++) {
        weft_chunk chunk = claim(queue);
        assert_true(chunk.begin == SIZE_MAX - 10 + 4 * i);
        assert_true(chunk.end == (i < 2 ? chunk.begin + 4 : SIZE_MAX));
        assert_int_equal(weft_chunks_finish(queue, &chunk, 0), WEFT_OK);
    }
    close_queue(queue);
    assert_int_equal(rmdir(place), -1);
    tree_remove(place);
    plan.begin = 0;
    plan.chunk = SIZE_MAX;
    queue = make_queue(plan);
    weft_chunk all = claim(queue);
    assert_true(all.begin == 0 && all.end == SIZE_MAX);
    close_queue(queue);
}

static void test_misuse(void **state) {
    (void)state;
    weft_chunks *queue = make_queue(plan_of(10, 1)), *none = NULL;
    weft_chunk chunk = claim(queue), wrong = chunk;
    weft_chunk_info info = {.struct_size = 3};
    weft_chunks_work work = {0};
    assert_int_equal(weft_chunks_claim(NULL, &chunk), WEFT_EINVAL);
    assert_int_equal(weft_chunks_claim(queue, NULL), WEFT_EINVAL);
    assert_int_equal(weft_chunks_finish(NULL, &chunk, 0), WEFT_EINVAL);
    assert_int_equal(weft_chunks_release(queue, NULL), WEFT_EINVAL);
    wrong.index = 10;
    assert_int_equal(weft_chunks_finish(queue, &wrong, 0), WEFT_EINVAL);
    wrong.index = 4;
    assert_int_equal(weft_chunks_finish(queue, &wrong, 0), WEFT_CHUNKS_LOST);
    assert_int_equal(weft_chunks_info(queue, 10, &info), WEFT_EINVAL);
    assert_int_equal(weft_chunks_info(queue, 1, &info), WEFT_EINVAL);
    assert_int_equal(weft_chunks_for(queue, &work), WEFT_EINVAL);
    assert_int_equal(weft_chunks_for(NULL, NULL), WEFT_EINVAL);
    assert_int_equal(weft_chunks_renew(NULL), WEFT_EINVAL);
    assert_int_equal(weft_chunks_close(NULL), WEFT_EINVAL);
    assert_int_equal(weft_chunks_close(&none), WEFT_EINVAL);
    assert_int_equal(weft_chunks_release(queue, &chunk), WEFT_OK);
    wrong = claim(queue); /* the same chunk: what was claimed before is another claim */
    assert_true(wrong.index == chunk.index && wrong.record == 3);
    assert_int_equal(weft_chunks_check(queue, &chunk), WEFT_CHUNKS_LOST);
    assert_int_equal(weft_chunks_finish(queue, &chunk, 0), WEFT_CHUNKS_LOST);
    assert_int_equal(weft_chunks_finish(queue, &wrong, WEFT_CHUNKS_BUSY), WEFT_EINVAL); /* no outcome of a chunk */
    assert_int_equal(weft_chunks_check(queue, &wrong), WEFT_OK);
    assert_int_equal(weft_chunks_finish(queue, &wrong, 0), WEFT_OK);
    close_queue(queue);
}

/* ---- claims -------------------------------------------------------------------------------------------------------- */

static void test_two_workers(void **state) {
    (void)state;
    weft_chunks *one = make_queue(plan_of(4, 1)), *other = open_queue(place);
    weft_chunk a = claim(one), b = claim(other), c = claim(one), d = claim(other), none;
    assert_true(a.index == 0 && b.index == 1 && c.index == 2 && d.index == 3);
    assert_int_equal(weft_chunks_claim(one, &none), WEFT_CHUNKS_BUSY);
    assert_int_equal(weft_chunks_result(one), WEFT_CHUNKS_BUSY);
    assert_int_equal(weft_chunks_release(other, &b), WEFT_OK);
    b = claim(one);
    assert_int_equal(b.index, 1);
    assert_int_equal(weft_chunks_check(one, &b), WEFT_OK);
    for (int i = 0; i < 2; i++) assert_int_equal(weft_chunks_finish(one, &a, 0), WEFT_OK); /* again: it is */
    assert_int_equal(weft_chunks_finish(one, &b, 0), WEFT_OK);
    assert_int_equal(weft_chunks_finish(one, &c, 0), WEFT_OK);
    assert_int_equal(weft_chunks_finish(other, &c, 0), WEFT_CHUNKS_LOST);
    size_t counts[4];
    assert_int_equal(weft_chunks_read(one, counts), WEFT_OK);
    assert_true(counts[WEFT_CHUNK_DONE] == 3 && counts[WEFT_CHUNK_HELD] == 1);
    weft_chunk_info info = {.struct_size = sizeof info};
    char me[64];
    snprintf(me, sizeof me, ":%d", (int)getpid());
    assert_int_equal(weft_chunks_info(one, 3, &info), WEFT_OK);
    assert_true(info.state == WEFT_CHUNK_HELD && strstr(info.holder, me) != NULL);
    close_queue(other); /* gives back what it holds */
    d = claim(one);
    assert_int_equal(d.index, 3);
    assert_int_equal(weft_chunks_finish(one, &d, 0), WEFT_OK);
    assert_int_equal(weft_chunks_claim(one, &none), WEFT_CHUNKS_END);
    assert_int_equal(weft_chunks_result(one), WEFT_OK);
    for (size_t i = 0; i < 4; i++) assert_int_equal(records_of(place, i, "done"), 1);
    close_queue(one);
}

/* A worker that claims one chunk and dies; the same machine sees it at once. */
static int claim_and_die(void *argument) {
    weft_chunk chunk;
    (void)argument;
    REQUIRE(weft_chunks_claim(open_queue(place), &chunk) == WEFT_OK);
    return (int)chunk.index;
}

static void test_dead_worker(void **state) {
    (void)state;
    weft_chunks *queue = make_queue(plan_of(2, 1));
    weft_chunk mine = claim(queue), its;
    assert_int_equal(in_child(claim_and_die, NULL), 1);
    its = claim(queue);
    assert_true(its.index == 1 && its.record == 2);
    assert_int_equal(weft_chunks_finish(queue, &its, 0), WEFT_OK);
    assert_int_equal(weft_chunks_finish(queue, &mine, 0), WEFT_OK);
    close_queue(queue);
}

/* Each worker that has it dies: in the end it has failed, and `retry` counts anew. Another one's end is not the chunk's failure. */
static void test_lost_workers(void **state) {
    (void)state;
    weft_chunks_plan plan = plan_of(2, 1), other;
    weft_chunk none;
    plan.losses = 3;
    plan.flags = WEFT_CHUNKS_KEEP_GOING;
    weft_chunks *queue = make_queue(plan);
    weft_chunk mine = claim(queue);
    assert_int_equal(weft_chunks_finish(queue, &mine, 0), WEFT_OK);
    other = plan;
    other.losses = 4;
    assert_int_equal(weft_chunks_create(place, &other), WEFT_CHUNKS_OTHER);
    assert_int_equal(weft_chunks_create(place, &plan), WEFT_OK);
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < 3; i++) assert_int_equal(in_child(claim_and_die, NULL), 1);
        for (int i = 0; i < 2; i++) assert_int_not_equal(weft_chunks_claim(queue, &none), WEFT_OK);
        assert_int_equal(weft_chunks_claim(queue, &none), WEFT_CHUNKS_END);
        assert_int_equal(weft_chunks_result(queue), EOWNERDEAD);
        assert_non_null(strstr(weft_chunks_why(), "vanished 3 times"));
        close_queue(queue);
        queue = open_queue(place); /* who reads it from the beginning has the same */
        weft_chunk_info info = {.struct_size = sizeof info};
        assert_int_equal(weft_chunks_info(queue, 1, &info), WEFT_OK);
        assert_true(info.state == WEFT_CHUNK_FAILED && info.losses == 3 && info.chunk.tries == 0 &&
                    info.error == EOWNERDEAD);
        assert_int_equal(records_of(place, 1, "held"), 3 * (turn + 1));
        assert_int_equal(weft_chunks_retry(queue), WEFT_OK);
    }
    mine = claim(queue);
    assert_int_equal(weft_chunks_finish(queue, &mine, 0), WEFT_OK);
    assert_int_equal(weft_chunks_result(queue), WEFT_OK);
    weft_chunks_plan there = {.struct_size = sizeof there};
    assert_int_equal(weft_chunks_plan_of(queue, &there), WEFT_OK);
    assert_int_equal(there.losses, 3);
    close_queue(queue);
}

/* ---- torn records -------------------------------------------------------------------------------------------------- */

static void record_replace(size_t chunk, unsigned number, const char *text) {
    char path[PATH_BYTES + 64];
    record_path(path, place, chunk, number);
    assert_int_equal(remove(path), 0);
    if (text != NULL) assert_int_equal(symlink(text, path), 0);
}

/* Waits for leases to expire. */
static weft_chunk claim_in_time(weft_chunks *queue) {
    weft_chunk chunk;
    int error;
    while ((error = weft_chunks_claim(queue, &chunk)) == WEFT_CHUNKS_BUSY) nap();
    assert_int_equal(error, WEFT_OK);
    return chunk;
}

/* A `done` of which a part is missing, that another chunk's was copied over, or that is no record at all, does not count. */
static void test_torn_done(void **state) {
    (void)state;
    char path[PATH_BYTES + 64], text[128], part[128];
    weft_chunks_plan plan = plan_of(2, 1);
    plan.lease_ms = 100;
    weft_chunks *queue = make_queue(plan);
    weft_chunk none, other = claim(queue), chunk = claim(queue);
    assert_int_equal(weft_chunks_finish(queue, &other, 0), WEFT_OK);
    for (size_t cut = 0;; cut += 7) {
        if (cut > 0) chunk = claim_in_time(queue);
        assert_int_equal(chunk.index, 1);
        assert_int_equal(weft_chunks_finish(queue, &chunk, 0), WEFT_OK);
        close_queue(queue);
        queue = NULL;
        record_path(path, place, 1, chunk.record + 1);
        ssize_t length = readlink(path, text, sizeof text - 1);
        assert_true(length > 20);
        text[length] = 0;
        if (cut >= (size_t)length) break;
        snprintf(part, sizeof part, "%.*s", (int)cut, text);
        record_replace(1, chunk.record + 1, cut == 0 ? "/dev/null" : part);
        queue = open_queue(place);
        assert_int_equal(weft_chunks_result(queue), WEFT_CHUNKS_BUSY);
    }
    record_replace(1, chunk.record + 1, text); /* as it was */
    queue = open_queue(place);
    weft_chunk_info info = {.struct_size = sizeof info};
    assert_int_equal(weft_chunks_info(queue, 1, &info), WEFT_OK);
    assert_true(info.state == WEFT_CHUNK_DONE && info.torn >= 4);
    assert_int_equal(weft_chunks_claim(queue, &none), WEFT_CHUNKS_END);
    close_queue(queue);
    record_replace(1, chunk.record + 1, NULL);
    assert_int_equal(mkdir(path, 0777), 0); /* no record, in the place of one */
    queue = open_queue(place);
    chunk = claim_in_time(queue);
    record_path(path, place, 1, chunk.record + 1);
    assert_int_equal(symlink(text, path), 0);                        /* one of other numbers */
    assert_int_equal(weft_chunks_finish(queue, &chunk, 0), WEFT_OK); /* goes behind it */
    assert_int_equal(weft_chunks_result(queue), WEFT_OK);
    close_queue(queue);
}

/* A name far from the log's end that is no record, as of a backup by date, is nobody's; a record as far away is. */
static void test_foreign_name(void **state) {
    (void)state;
    char path[PATH_BYTES + 64], there[PATH_BYTES + 64], text[128];
    close_queue(make_queue(plan_of(2, 1)));
    record_path(path, place, 0, 2026);
    write_file(path, "", 0);
    weft_chunks *queue = open_queue(place);
    weft_chunk_info info = {.struct_size = sizeof info};
    assert_int_equal(weft_chunks_info(queue, 0, &info), WEFT_OK);
    assert_int_equal(info.torn, 0);
    for (int i = 0; i < 30; i++) {
        weft_chunk chunk = claim(queue);
        assert_int_equal(chunk.index, 0);
        assert_int_equal(weft_chunks_release(queue, &chunk), WEFT_OK);
    }
    for (size_t i = 0; i < 2; i++) {
        weft_chunk chunk = claim(queue);
        assert_int_equal(chunk.index, i);
        assert_int_equal(weft_chunks_finish(queue, &chunk, 0), WEFT_OK);
    }
    close_queue(queue);
    for (unsigned number = 1; number < 62; number++) { /* what a file system has lost, but for the end */
        record_path(there, place, 0, number);
        assert_int_equal(remove(there), 0);
    }
    queue = open_queue(place);
    assert_int_equal(weft_chunks_info(queue, 0, &info), WEFT_OK);
    assert_true(info.state == WEFT_CHUNK_DONE && info.torn == 61);
    close_queue(queue);
    record_path(there, place, 0, 62);
    ssize_t length = readlink(there, text, sizeof text - 1);
    assert_true(length > 20);
    text[length] = 0;
    assert_int_equal(remove(path), 0);
    assert_int_equal(rename(there, path), 0); /* its number is another one: no record */
    queue = open_queue(place);
    assert_int_equal(weft_chunks_info(queue, 0, &info), WEFT_OK);
    assert_true(info.state == WEFT_CHUNK_FREE && info.torn == 0);
    close_queue(queue);
}

/* ---- failures ------------------------------------------------------------------------------------------------------ */

struct counted {
    atomic_uint runs[64];
    size_t fails_at; /* index; SIZE_MAX: none */
    int error;
};

static int counted_body(size_t begin, size_t end, void *context, weft_worker *self) {
    struct counted *counted = context;
    (void)self;
    for (size_t i = begin; i < end; i++) {
        atomic_fetch_add(&counted->runs[i], 1);
        if (i == counted->fails_at) return counted->error;
    }
    return 0;
}

static int run_all(weft_chunks *queue, struct counted *counted) {
    weft_pool *pool = make_pool(2);
    weft_chunks_work work = {.pool = pool, .body = counted_body, .context = counted};
    int error = weft_chunks_for(queue, &work);
    end_pool(pool);
    return error;
}

static void test_for(void **state) {
    (void)state;
    struct counted counted = {.fails_at = SIZE_MAX};
    weft_chunks *queue = make_queue(plan_of(64, 5));
    for (int i = 0; i < 2; i++) assert_int_equal(run_all(queue, &counted), WEFT_OK);
    for (size_t i = 0; i < 64; i++) assert_int_equal(counted.runs[i], 1);
    close_queue(queue);
}

static void test_failure(void **state) {
    (void)state;
    struct counted counted = {.fails_at = 23, .error = 42};
    weft_chunks *queue = make_queue(plan_of(64, 10));
    assert_int_equal(run_all(queue, &counted), 42);
    assert_non_null(strstr(weft_chunks_why(), "chunk 2"));
    for (size_t i = 0; i <= 23; i++) assert_int_equal(counted.runs[i], 1);
    for (size_t i = 30; i < 64; i++) assert_int_equal(counted.runs[i], 0);
    assert_int_equal(run_all(queue, &counted), 42); /* as everybody who comes later */
    assert_int_equal(counted.runs[23], 1);
    counted.fails_at = SIZE_MAX;
    assert_int_equal(weft_chunks_retry(queue), WEFT_OK);
    assert_int_equal(run_all(queue, &counted), WEFT_OK);
    for (size_t i = 0; i < 64; i++) assert_true(i < 20 || i >= 30 ? counted.runs[i] == 1 : counted.runs[i] >= 1 + (i <= 23));
    close_queue(queue);
}

static void test_keep_going_and_tries(void **state) {
    (void)state;
    struct counted counted = {.fails_at = 5, .error = 7};
    weft_chunks_plan plan = plan_of(64, 4);
    plan.flags = WEFT_CHUNKS_KEEP_GOING;
    plan.tries = 3;
    weft_chunks *queue = make_queue(plan);
    assert_int_equal(run_all(queue, &counted), 7);
    for (size_t i = 0; i < 64; i++) assert_true(i < 4 || i > 7 ? counted.runs[i] == 1 : i > 5 || counted.runs[i] == 3);
    weft_chunk_info info = {.struct_size = sizeof info};
    assert_int_equal(weft_chunks_info(queue, 1, &info), WEFT_OK);
    assert_true(info.state == WEFT_CHUNK_FAILED && info.error == 7 && info.chunk.tries == 3);
    close_queue(queue);
}

/* A negative number is no failure of the chunk: it is given back. */
static void test_process_gives_up(void **state) {
    (void)state;
    struct counted counted = {.fails_at = 5, .error = WEFT_ENOMEM};
    weft_chunks *queue = make_queue(plan_of(64, 4));
    assert_int_equal(run_all(queue, &counted), WEFT_ENOMEM);
    assert_int_equal(records_of(place, 1, "free"), 1);
    counted.fails_at = SIZE_MAX;
    assert_int_equal(run_all(queue, &counted), WEFT_OK);
    close_queue(queue);
}

static void test_cancel(void **state) {
    (void)state;
    struct counted counted = {.fails_at = SIZE_MAX};
    weft_chunks *queue = make_queue(plan_of(64, 4)), *other = open_queue(place);
    weft_chunk chunk = claim(queue), none;
    for (int i = 0; i < 2; i++) assert_int_equal(weft_chunks_cancel(other), WEFT_OK);
    assert_int_equal(weft_chunks_claim(queue, &none), WEFT_ECANCELED);
    assert_int_equal(weft_chunks_finish(queue, &chunk, 0), WEFT_OK); /* what is claimed is finished */
    assert_int_equal(run_all(queue, &counted), WEFT_ECANCELED);
    assert_int_equal(weft_chunks_result(other), WEFT_ECANCELED);
    assert_int_equal(weft_chunks_retry(other), WEFT_OK);
    assert_int_equal(run_all(queue, &counted), WEFT_OK);
    assert_int_equal(counted.runs[0], 0);
    assert_int_equal(counted.runs[63], 1);
    assert_int_equal(weft_chunks_cancel(other), WEFT_OK); /* too late: all is done */
    assert_int_equal(weft_chunks_result(queue), WEFT_OK);
    assert_int_equal(run_all(queue, &counted), WEFT_OK);
    close_queue(other);
    close_queue(queue);
}

/* The thread that renews leaves the process's signals to the program's own threads, as a pool's do. */
static int masks_body(size_t begin, size_t end, void *context, weft_worker *self) {
    DIR *threads = opendir("/proc/self/task");
    (void)begin;
    (void)end;
    (void)self;
    REQUIRE(threads != NULL);
    for (struct dirent *entry; (entry = readdir(threads)) != NULL;) {
        char path[PATH_BYTES + 64], line[256];
        unsigned long long blocked = 0;
        if (entry->d_name[0] == '.' || atoi(entry->d_name) == (int)getpid()) continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file == NULL) continue; /* it has ended */
        while (fgets(line, sizeof line, file) != NULL)
            if (sscanf(line, "SigBlk: %llx", &blocked) == 1) break;
        fclose(file);
        if ((blocked >> (SIGUSR1 - 1) & 1) == 0) atomic_fetch_add((atomic_uint *)context, 1);
    }
    closedir(threads);
    return 0;
}

static void test_signals(void **state) {
    (void)state;
    atomic_uint open_threads = 0;
    weft_pool *pool = make_pool(2);
    weft_chunks *queue = make_queue(plan_of(8, 1));
    const weft_chunks_work work = {.pool = pool, .grain = SIZE_MAX, .body = masks_body, .context = &open_threads};
    assert_int_equal(weft_chunks_for(queue, &work), WEFT_OK);
    assert_int_equal(open_threads, 0);
    end_pool(pool);
    close_queue(queue);
}

/* ---- several processes --------------------------------------------------------------------------------------------- */

static int work_in_child(void *argument) {
    struct counted *counted = argument; /* shared */
    weft_chunks *queue = open_queue(place);
    int error = run_all(queue, counted);
    close_queue(queue);
    return error;
}

static void test_processes(void **state) {
    (void)state;
    enum { PROCESSES = 4 };
    struct counted *counted = mmap(NULL, sizeof *counted, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(counted != MAP_FAILED);
    counted->fails_at = SIZE_MAX;
    close_queue(make_queue(plan_of(64, 1)));
    pid_t children[PROCESSES];
    fflush(NULL);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) _exit(work_in_child(counted));
    }
    for (int i = 0; i < PROCESSES; i++) assert_int_equal(child_status(children[i]), 0);
    for (size_t i = 0; i < 64; i++) {
        assert_int_equal(counted->runs[i], 1);
        assert_int_equal(records_of(place, i, "done"), 1);
    }
    munmap(counted, sizeof *counted);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, base_new, base_end)

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        CASE(test_bad_plans),
        CASE(test_same_plan_or_other),
        CASE(test_cuts),
        CASE(test_damaged_plan),
        CASE(test_far_range),
        CASE(test_misuse),
        CASE(test_two_workers),
        CASE(test_dead_worker),
        CASE(test_lost_workers),
        CASE(test_torn_done),
        CASE(test_foreign_name),
        CASE(test_for),
        CASE(test_failure),
        CASE(test_keep_going_and_tries),
        CASE(test_process_gives_up),
        CASE(test_cancel),
        CASE(test_signals),
        CASE(test_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
