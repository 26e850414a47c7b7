/* chunks.h: the parts of an open queue; include/weft_chunks.h says how the journal works.
 *
 *   why.c      what went wrong, in words
 *   plan.c     the file `queue`: written once, whole
 *   record.c   one record: its text, appending and reading it
 *   marks.c    what this process knows of each chunk's log
 *   worker.c   the worker's own file; whether another worker lives
 *   claim.c    claiming, finishing, the outcome
 *   queue.c    opening and closing
 *   for.c      weft_chunks_for */
#ifndef WEFT_CHUNKS_INTERNAL_H
#define WEFT_CHUNKS_INTERNAL_H

#include <weft_chunks.h>

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#define PRINTS __attribute__((format(printf, 1, 2)))
#define RECORD_BYTES 64u /* of a record's text, with the ending zero: file systems keep so short a link in its inode */
#define NAME_BYTES 32u
#define WORKER_BYTES 512u

/* ---- why.c ---- */

/* Sets weft_chunks_why's text and returns `error`. */
int why(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same with errno's text at its end; returns WEFT_CHUNKS_SYSTEM, or WEFT_ENOMEM for that errno. */
int why_system(const char *format, ...) PRINTS;

/* ---- plan.c ---- */

struct plan {
    weft_chunks_plan given; /* `cuts` and `label` point to what follows */
    size_t count;
    size_t *cuts;
    char label[WEFT_CHUNKS_LABEL_MAX + 1];
};

int plan_check(const weft_chunks_plan *plan);
int plan_write(int directory, const weft_chunks_plan *plan); /* WEFT_OK also if the same is there */
int plan_read(int directory, struct plan *plan);             /* plan_end frees what it has */
void plan_end(struct plan *plan);
void plan_chunk(const struct plan *plan, size_t index, weft_chunk *chunk);

/* ---- record.c ---- */

enum kind { KIND_HELD, KIND_DONE, KIND_FAIL, KIND_FREE, KIND_ANEW, KINDS };

struct record {
    enum kind kind;
    uint64_t worker; /* who wrote it */
    int64_t value;   /* held: the worker's count of claims; done: milliseconds; fail: the error */
};

struct place {
    size_t chunk;
    uint32_t number;
};

enum found { FOUND_NONE, FOUND_RECORD, FOUND_TORN, FOUND_ERROR };

/* Appends, if place.number is still free. FOUND_RECORD: `record` is there, written now or before. FOUND_NONE: another one was
 * first. FOUND_ERROR: neither, weft_chunks_why tells. */
enum found record_append(int directory, struct place place, const struct record *record);
enum found record_read(int directory, struct place place, struct record *record);
uint32_t text_check(const char *text, size_t length, uint32_t seed);

/* ---- marks.c ---- */

struct mark {
    uint32_t last;   /* number of the last record that was seen, sound or not; 0: none */
    uint32_t sound;  /* of the last sound one */
    uint32_t fails;  /* since the last `anew` */
    uint32_t losses; /* so often its worker has vanished, likewise */
    uint32_t torn;
    int32_t error;
    uint8_t state; /* enum weft_chunk_state */
    uint8_t kind;  /* enum kind of the last sound record */
    bool is_mine;  /* held, and this process knows that it holds it */
    uint64_t worker;
    int64_t value;
};

/* ---- worker.c ---- */

/* Another worker, as it was seen. */
struct peer {
    uint64_t id;
    uint64_t beat;
    uint64_t changed_ns; /* when `beat` was first seen */
    bool gone;           /* it ended on this machine */
};

struct weft_chunks {
    struct plan plan;
    int directory;
    int records;
    int workers;
    struct mark *marks;
    size_t hint;  /* no chunk below is free */
    size_t limit; /* chunks from here on are not begun: this one has failed, or there are no more */
    uint64_t claims;
    uint64_t id;
    struct peer *peers;
    size_t peer_count;
    pthread_mutex_t renewing;
    uint64_t beat;
};

uint64_t now_ns(void);                 /* CLOCK_MONOTONIC */
int worker_make(weft_chunks *queue);   /* WEFT_OK also where nothing can be written: who only looks need not */
int worker_appear(weft_chunks *queue); /* its file is there, or an error */
int worker_beat(weft_chunks *queue);
int worker_remove(weft_chunks *queue);
/* Has its lease expired? WEFT_OK: no; WEFT_CHUNKS_LOST: yes; else an error. */
int worker_expired(weft_chunks *queue, uint64_t id);
void worker_describe(const weft_chunks *queue, uint64_t id, weft_chunk_info *info);

/* ---- marks.c ---- */

int mark_read(weft_chunks *queue, size_t index, uint32_t until); /* of its log: at least to record `until` */
int marks_scan(weft_chunks *queue);

#endif
