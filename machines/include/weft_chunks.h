/* weft_chunks: a loop that is kept in a directory, for any number of machines that come and go.
 *
 * A range is cut into chunks. Every process that opens the directory claims chunks, runs them and notes that they are
 * finished; a chunk whose holder has died is claimed anew, a finished one never.
 *
 *     weft_chunks_plan plan = {.struct_size = sizeof plan, .end = frames, .chunk = 48};
 *     if (weft_chunks_create("queue", &plan) != WEFT_OK) ...              once, or by every process with the same plan
 *     if (weft_chunks_open(&queue, "queue") != WEFT_OK) ...
 *     const weft_chunks_work work = {.pool = pool, .body = body, .context = context};
 *     int error = weft_chunks_for(queue, &work);                         returns when all chunks are finished, by whomever
 *     weft_chunks_close(&queue);
 *
 * The journal. Each chunk has a log of records, numbered from 1: `held`, `done`, `fail`, `free`, `anew`. Record n of chunk c
 * is the symbolic link chunks/c.n, and the record is the text that the link points to. symlink(2) makes a name together with
 * its content, or fails because somebody was first: it appends a record, whole, to the log as it was read, or not at all. So
 * of a holder that finishes late and of a worker that takes its chunk over exactly one succeeds, and what a cache shows of
 * the directory may be old: it costs a refused call. There is no lock, so nobody who dies or is cut off keeps one. A record
 * carries a checksum; one that does not fit (a file system that lost half of it) is reported, and counts as not written.
 * `done` is followed by an fsync of the directory.
 *
 * The lease. Who opens a queue is a worker with a random id and a file workers/ID, in which weft_chunks_renew counts up. A
 * worker whose count another one has seen unchanged for the lease, on its own CLOCK_MONOTONIC, has lost its chunks to
 * whoever asks. No time is compared between machines, and none is read that anybody can set. Of a worker on the same machine
 * its death is seen at once. A chunk may be what ends its workers (memory, a fault of the machine): when it has lost as many
 * as the plan has `losses` it has failed, with EOWNERDEAD.
 *
 * Bodies must be idempotent: the chunk of a worker that died, or was cut off and goes on, is run again from its beginning,
 * perhaps while the first is still at it. What a body leaves must be there, whole, before it returns, and the same each
 * time: write to a name of your own, fsync, rename. A worker that was stopped may do that late, over what another one has
 * left: where that matters, ask weft_chunks_check right before, and remove first what earlier workers of the chunk have left
 * (`record` rises).
 *
 * Every function that returns int returns WEFT_OK, one of weft.h's codes or one of those below; weft_chunks_why says in
 * words what the calling thread's last failure was. A queue is used by one thread at a time, but for weft_chunks_renew. Not
 * in a child of fork. File systems: those with symbolic links, as local ones, NFS, Lustre and CephFS; not SMB or FAT.
 *
 * Copyright the weft authors. MIT licence, see LICENSE.
 */
#ifndef WEFT_CHUNKS_H
#define WEFT_CHUNKS_H

#include <weft.h>
#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_CHUNKS_MAX 1000000u /* chunks of one queue; each takes two inodes of the file system */
#define WEFT_CHUNKS_LABEL_MAX 4000u

enum weft_chunks_error {
    WEFT_CHUNKS_BUSY = -101,   /* no chunk is free now; other workers hold some, whose leases may expire */
    WEFT_CHUNKS_END = -102,    /* nothing will be claimed any more: weft_chunks_result has the outcome */
    WEFT_CHUNKS_LOST = -103,   /* the chunk is no longer the caller's: its lease went to another worker */
    WEFT_CHUNKS_SYSTEM = -104, /* the file system or the system refused; nothing changed, unless the function says else */
    WEFT_CHUNKS_OTHER = -105,  /* the directory holds no queue, or one with another plan */
    WEFT_CHUNKS_DAMAGED = -106 /* the queue's own file is damaged */
};

/* The text of a code of this library or of weft.h. Never NULL; static storage. */
WEFT_API const char *weft_chunks_strerror(int error);
/* What the calling thread's last failed call was about: file, system's reason, chunk. Never NULL; until its next such
 * call. */
WEFT_API const char *weft_chunks_why(void);

typedef struct weft_chunks weft_chunks; /* an open queue; opaque */

/* weft_chunks_plan.flags: a chunk that failed does not keep those after it from being begun. */
#define WEFT_CHUNKS_KEEP_GOING 1u

/* What is to be done. Everything zero but struct_size, end and chunk (or cuts) means the default. */
typedef struct weft_chunks_plan {
    size_t struct_size; /* sizeof(weft_chunks_plan) */
    size_t begin, end;  /* the indices from begin to before end */
    size_t chunk;       /* so many in each chunk, fewer in the last; 0 with `cuts` */
    const size_t *cuts; /* or: where the second and each later chunk begins, rising, inside the range */
    size_t cut_count;
    uint64_t lease_ms; /* 100 to 10^9; 0: 30000. On NFS more than acdirmax: attributes are cached for so long */
    uint32_t tries;    /* a chunk whose body failed is begun again until it has failed so often; 0: once */
    uint32_t flags;    /* WEFT_CHUNKS_KEEP_GOING */
    const char *label; /* one line that says what is done, so that other work is not mixed in; NULL: none */
    uint32_t losses;   /* a chunk whose worker has vanished so often, killed or cut off, has failed; 0: ten times */
    uint32_t zero;     /* 0 */
} weft_chunks_plan;

/* Makes the queue in `directory`, which is made too if its parent is there. WEFT_OK, also when it holds a queue with the
 * same plan already; WEFT_EINVAL (NULL, an empty chunk, cuts out of order, more than WEFT_CHUNKS_MAX chunks, a label too
 * long or of two lines); WEFT_CHUNKS_OTHER; WEFT_CHUNKS_DAMAGED; WEFT_CHUNKS_SYSTEM; WEFT_ENOMEM. */
WEFT_API int weft_chunks_create(const char *directory, const weft_chunks_plan *plan);

/* Opens it as a new worker. The caller ends *queue with weft_chunks_close. Where nothing can be written (a read-only file
 * system, no permission, a full disk) it is opened all the same, for who only looks; claims say why they cannot be made.
 * WEFT_OK; or, *queue NULL, WEFT_EINVAL, WEFT_ENOMEM, WEFT_CHUNKS_OTHER, WEFT_CHUNKS_DAMAGED, WEFT_CHUNKS_SYSTEM. */
WEFT_API int weft_chunks_open(weft_chunks **queue, const char *directory);

/* Gives back what is still claimed, takes the worker's file away, frees the queue and sets *queue NULL. WEFT_OK;
 * WEFT_EINVAL (NULL or an already NULL *queue); WEFT_CHUNKS_SYSTEM: closed all the same, the leases will expire. */
WEFT_API int weft_chunks_close(weft_chunks **queue);

typedef struct weft_chunk {
    size_t index;      /* from 0 */
    size_t begin, end; /* its part of the range */
    uint32_t record;   /* weft's: the record that says it is the caller's */
    uint32_t tries;    /* how often it has failed before */
    uint64_t since_ns; /* weft's: when it was claimed, CLOCK_MONOTONIC */
} weft_chunk;

/* Claims the lowest chunk that is free, or else one whose lease has expired. WEFT_OK: it is the caller's until
 * weft_chunks_finish or _release, as long as the lease is renewed. WEFT_CHUNKS_BUSY: ask again, after some milliseconds.
 * WEFT_CHUNKS_END; WEFT_ECANCELED (weft_chunks_cancel); WEFT_EINVAL; WEFT_CHUNKS_SYSTEM; WEFT_ENOMEM. */
WEFT_API int weft_chunks_claim(weft_chunks *queue, weft_chunk *chunk);

/* Says that this worker lives, for all that it has claimed; to be called four times in a lease. From any thread, also while
 * another uses the queue. WEFT_OK; WEFT_EINVAL; WEFT_CHUNKS_SYSTEM: the lease runs on as it was. */
WEFT_API int weft_chunks_renew(weft_chunks *queue);

/* Is the chunk still the caller's? WEFT_OK; WEFT_CHUNKS_LOST; WEFT_EINVAL; WEFT_CHUNKS_SYSTEM. */
WEFT_API int weft_chunks_check(weft_chunks *queue, const weft_chunk *chunk);

/* Notes that the chunk is finished, with `error` 0, or has failed, with a positive one. What the body wrote must be on disk
 * before. On WEFT_OK the record is. WEFT_CHUNKS_LOST: nothing was noted, another worker has it, or has finished it;
 * WEFT_EINVAL (also a negative error); WEFT_CHUNKS_SYSTEM (a full disk): not noted, or not known to be on disk; call again,
 * or leave it to the lease. */
WEFT_API int weft_chunks_finish(weft_chunks *queue, const weft_chunk *chunk, int error);

/* Gives a claimed chunk back without having run it. As weft_chunks_finish. */
WEFT_API int weft_chunks_release(weft_chunks *queue, const weft_chunk *chunk);

/* Claims chunks and runs each as weft_for(pool, {begin, end, grain}, body, context) until none is left in the whole queue;
 * a thread renews the lease meanwhile. `grain` is weft_range's; SIZE_MAX: one call of the body for each chunk. A body that
 * returns a positive number has failed: so has its chunk. A negative one (weft's own, as WEFT_ENOMEM) concerns this process:
 * its chunk is given back and the call returns it. Returns what weft_chunks_result does when nothing is left; WEFT_EINVAL;
 * WEFT_EAGAIN (no thread to renew); WEFT_CHUNKS_SYSTEM; the errors of weft_for. */
typedef struct weft_chunks_work {
    weft_pool *pool;
    size_t grain;
    weft_range_fn body;
    void *context;
} weft_chunks_work;
WEFT_API int weft_chunks_for(weft_chunks *queue, const weft_chunks_work *work);

/* The outcome as the journal has it now. WEFT_OK: every chunk is done. The error of the lowest chunk that failed: every
 * chunk below is done. WEFT_ECANCELED; WEFT_CHUNKS_BUSY: some chunks are undecided; WEFT_EINVAL; WEFT_CHUNKS_SYSTEM;
 * WEFT_ENOMEM. */
WEFT_API int weft_chunks_result(weft_chunks *queue);

/* No chunk is claimed any more, by any worker; those that are claimed are finished as usual. WEFT_OK, also when it was
 * cancelled before; WEFT_EINVAL; WEFT_CHUNKS_SYSTEM. */
WEFT_API int weft_chunks_cancel(weft_chunks *queue);

/* Lifts that, and gives every chunk that has failed its tries anew. As weft_chunks_cancel. */
WEFT_API int weft_chunks_retry(weft_chunks *queue);

enum weft_chunk_state { WEFT_CHUNK_FREE = 0, WEFT_CHUNK_HELD = 1, WEFT_CHUNK_DONE = 2, WEFT_CHUNK_FAILED = 3 };

/* One chunk as the journal has it. */
typedef struct weft_chunk_info {
    size_t struct_size; /* set by the caller to sizeof(weft_chunk_info) */
    weft_chunk chunk;
    enum weft_chunk_state state;
    int error;       /* of the last failure, or 0 */
    uint32_t torn;   /* records of it whose checksum does not fit, or that are missing: they count as not written */
    uint32_t losses; /* so often the worker that held it has vanished */
    uint32_t zero;   /* 0 */
    uint64_t ms;     /* done: how long its holder had it. held: since when, by the file system's clock; a guess */
    uint64_t
        silent_ms; /* held: since its holder's last renewal, by the file system's clock; a guess; 0 where nothing can be written */
    char holder[96]; /* held: "host:pid", or the worker's id where its file is gone; else empty */
} weft_chunk_info;

/* Reads the journal anew and counts: chunks of each state, at enum weft_chunk_state. `counts` may be NULL. As
 * weft_chunks_cancel; WEFT_ENOMEM. */
WEFT_API int weft_chunks_read(weft_chunks *queue, size_t counts[4]);
/* Of chunk `index`, as the last weft_chunks_read or claim has seen it. WEFT_OK; WEFT_EINVAL; WEFT_CHUNKS_SYSTEM. */
WEFT_API int weft_chunks_info(weft_chunks *queue, size_t index, weft_chunk_info *info);
/* The plan; its texts and cuts belong to the queue. WEFT_OK; WEFT_EINVAL. */
WEFT_API int weft_chunks_plan_of(const weft_chunks *queue, weft_chunks_plan *plan);
WEFT_API size_t weft_chunks_count(const weft_chunks *queue); /* chunks; 0 for NULL */

#ifdef __cplusplus
}
#endif
#endif
