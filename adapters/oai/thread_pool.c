/* OpenAirInterface's older pool on weft; thread_pool.h says what each function promises.
 *
 * Messages wait in the pool's own FIFO, so that they start in their order and can be taken back; a weft task is only a
 * permit to process the oldest. */
#define _GNU_SOURCE
#include "thread_pool.h"

#include <ctype.h>
#include <stdio.h>

#include "../view.h"
#include "pin.h"

#define THREADS_MAX 512
#define ALIGNMENT 32u

/* A message that runs, on the stack of its worker. */
typedef struct running_message {
    uint64_t key;
    bool is_aborted;
    struct running_message *next;
} running_message;

struct tpool_threads {
    view view;
    running_message *running; /* under incomingFifo.lockF */
    int cores;
    int core_id[THREADS_MAX];
};

static uint64_t ticks(void) {
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_ia32_rdtsc();
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#endif
}

/* ---- messages ----------------------------------------------------------------------------------------------------- */

notifiedFIFO_elt_t *newNotifiedFIFO_elt(int size, uint64_t key, notifiedFIFO_t *reponseFifo,
                                        void (*processingFunc)(void *)) {
    if (size < 0) return NULL;
    size_t head = (sizeof(notifiedFIFO_elt_t) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    size_t all = (head + (size_t)size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    notifiedFIFO_elt_t *msg = aligned_alloc(ALIGNMENT, all);
    if (msg == NULL) return NULL;
    *msg = (notifiedFIFO_elt_t){.key = key, .reponseFifo = reponseFifo, .processingFunc = processingFunc, .malloced = true};
    msg->msgData = (unsigned char *)msg + head;
    return msg;
}

void delNotifiedFIFO_elt(notifiedFIFO_elt_t *elt) {
    if (elt == NULL || !elt->malloced) return; /* not ours to free */
    elt->malloced = false;
    free(elt);
}

void initNotifiedFIFO(notifiedFIFO_t *nf) {
    *nf = (notifiedFIFO_t){.lockF = PTHREAD_MUTEX_INITIALIZER, .notifF = PTHREAD_COND_INITIALIZER};
}

static void fifo_append(notifiedFIFO_t *nf, notifiedFIFO_elt_t *msg) {
    msg->next = NULL;
    if (nf->outF == NULL)
        nf->outF = msg;
    else
        nf->inF->next = msg;
    nf->inF = msg;
}

static notifiedFIFO_elt_t *fifo_take(notifiedFIFO_t *nf) {
    notifiedFIFO_elt_t *msg = nf->outF;
    if (msg == NULL) return NULL;
    nf->outF = msg->next;
    if (nf->outF == NULL) nf->inF = NULL;
    return msg;
}

void pushNotifiedFIFO(notifiedFIFO_t *nf, notifiedFIFO_elt_t *msg) {
    pthread_mutex_lock(&nf->lockF);
    bool ended = nf->abortFIFO;
    if (!ended) {
        fifo_append(nf, msg);
        pthread_cond_signal(&nf->notifF); /* with the lock: who pulls the message may end the FIFO */
    }
    pthread_mutex_unlock(&nf->lockF);
    if (ended) delNotifiedFIFO_elt(msg);
}

notifiedFIFO_elt_t *pullNotifiedFIFO(notifiedFIFO_t *nf) {
    notifiedFIFO_elt_t *msg;
    pthread_mutex_lock(&nf->lockF);
    while ((msg = fifo_take(nf)) == NULL && !nf->abortFIFO) pthread_cond_wait(&nf->notifF, &nf->lockF);
    pthread_mutex_unlock(&nf->lockF);
    return msg;
}

notifiedFIFO_elt_t *pollNotifiedFIFO(notifiedFIFO_t *nf) {
    if (pthread_mutex_trylock(&nf->lockF) != 0) return NULL;
    notifiedFIFO_elt_t *msg = fifo_take(nf);
    pthread_mutex_unlock(&nf->lockF);
    return msg;
}

/* With the lock held: deletes the messages of that key, or all. */
static int fifo_delete(notifiedFIFO_t *nf, uint64_t key, bool all) {
    int deleted = 0;
    notifiedFIFO_elt_t *msg = nf->outF;
    nf->outF = nf->inF = NULL;
    while (msg != NULL) {
        notifiedFIFO_elt_t *next = msg->next;
        if (all || msg->key == key) {
            delNotifiedFIFO_elt(msg);
            deleted++;
        } else {
            fifo_append(nf, msg);
        }
        msg = next;
    }
    return deleted;
}

int abortNotifiedFIFOJob(notifiedFIFO_t *nf, uint64_t key) {
    pthread_mutex_lock(&nf->lockF);
    int deleted = fifo_delete(nf, key, false);
    pthread_mutex_unlock(&nf->lockF);
    return deleted;
}

int abortNotifiedFIFO(notifiedFIFO_t *nf) {
    pthread_mutex_lock(&nf->lockF);
    nf->abortFIFO = true;
    int deleted = fifo_delete(nf, 0, true);
    pthread_cond_broadcast(&nf->notifF);
    pthread_mutex_unlock(&nf->lockF);
    return deleted;
}

/* ---- what a worker runs ------------------------------------------------------------------------------------------- */

static void process(const tpool_t *t, notifiedFIFO_elt_t *msg) {
    if (t->measurePerf) msg->startProcessingTime = ticks();
    msg->processingFunc(NotifiedFifoData(msg));
    if (t->measurePerf) msg->endProcessingTime = ticks();
}

static void answer(notifiedFIFO_elt_t *msg) {
    if (msg->reponseFifo != NULL)
        pushNotifiedFIFO(msg->reponseFifo, msg);
    else
        delNotifiedFIFO_elt(msg);
}

static void running_remove(running_message **link, const running_message *mine) {
    while (*link != mine) link = &(*link)->next;
    *link = mine->next;
}

/* false: there is none, or it was taken back. */
static bool process_one(tpool_t *t) {
    pthread_mutex_lock(&t->incomingFifo.lockF);
    notifiedFIFO_elt_t *msg = fifo_take(&t->incomingFifo);
    running_message mine = {.key = msg == NULL ? 0 : msg->key, .next = t->threads->running};
    if (msg != NULL) t->threads->running = &mine;
    pthread_mutex_unlock(&t->incomingFifo.lockF);
    if (msg == NULL) return false;
    process(t, msg);
    pthread_mutex_lock(&t->incomingFifo.lockF);
    running_remove(&t->threads->running, &mine);
    pthread_mutex_unlock(&t->incomingFifo.lockF);
    if (mine.is_aborted)
        delNotifiedFIFO_elt(msg);
    else
        answer(msg);
    return true;
}

static int process_oldest(void *payload, weft_worker *self) {
    (void)self;
    (void)process_one(*(tpool_t **)payload);
    return 0;
}

/* ---- the pool ----------------------------------------------------------------------------------------------------- */

/* On each worker before its first message; spares stay where they are. */
static void pin(weft_worker *self, void *context) {
    const struct tpool_threads *threads = context;
    int index = (int)weft_worker_index(self);
    if (index < threads->cores) pin_self(threads->core_id[index]);
}

/* "-1,2,3" -> core_id; the number of entries, 0 for "n", or -EINVAL. */
static int parse(const char *params, int *core_id) {
    int count = 0;
    while (isspace((unsigned char)*params)) params++;
    if ((params[0] == 'n' || params[0] == 'N') && params[1] == 0) return 0;
    for (;;) {
        char *end;
        errno = 0;
        long value = strtol(params, &end, 10);
        if (end == params || errno != 0 || value < -1 || value >= CPU_SETSIZE || count == THREADS_MAX) return -EINVAL;
        core_id[count++] = (int)value;
        if (*end == 0) return count;
        if (*end != ',') return -EINVAL;
        params = end + 1;
    }
}

static int open_threads(struct tpool_threads *threads) {
    weft_config config;
    bool pins = false;
    for (int i = 0; i < threads->cores; i++) pins = pins || threads->core_id[i] >= 0;
    if (!pins) return view_open(&threads->view, (unsigned)threads->cores, "Tpool");
    weft_config_init(&config);
    config.workers = (uint32_t)threads->cores;
    config.name = "Tpool";
    config.stack_size = VIEW_STACK_BYTES;
    config.flags = WEFT_NO_HELP;
    config.start = pin;
    config.context = threads;
    return view_open_with(&threads->view, &config);
}

int initTpool(const char *params, tpool_t *pool, bool performanceMeas) {
    if (pool == NULL) return -EINVAL;
    *pool = (tpool_t){.measurePerf = performanceMeas};
    initNotifiedFIFO(&pool->incomingFifo);
    if (params == NULL) return -EINVAL;
    struct tpool_threads *threads = calloc(1, sizeof *threads);
    if (threads == NULL) return -ENOMEM;
    threads->cores = parse(params, threads->core_id);
    int error = threads->cores > 0 ? open_threads(threads) : threads->cores;
    if (error != 0 || threads->cores == 0) {
        free(threads);
        return error;
    }
    pool->threads = threads;
    pool->nbThreads = threads->cores;
    return 0;
}

int initTpoolFloating(int n, tpool_t *pool, bool performanceMeas) {
    char params[THREADS_MAX * 3 + 1] = "n";
    if (n > THREADS_MAX) n = THREADS_MAX;
    for (int i = 0; i < n; i++) snprintf(&params[(size_t)i * 3], 4, "-1%s", i + 1 < n ? "," : "");
    return initTpool(params, pool, performanceMeas);
}

void pushTpool(tpool_t *t, notifiedFIFO_elt_t *msg) {
    if (t->measurePerf) msg->creationTime = ticks();
    if (t->threads != NULL) {
        pushNotifiedFIFO(&t->incomingFifo, msg);
        if (view_submit(&t->threads->view, process_oldest, &t, sizeof t) != 0) process_oldest(&t, NULL);
    } else {
        process(t, msg);
        answer(msg);
    }
}

static notifiedFIFO_elt_t *pulled(const tpool_t *t, notifiedFIFO_elt_t *msg) {
    if (msg != NULL && t->measurePerf) msg->returnTime = ticks();
    return msg;
}

/* In a task of weft's the thread may be the one that the message needs. */
notifiedFIFO_elt_t *pullTpool(notifiedFIFO_t *responseFifo, tpool_t *t) {
    notifiedFIFO_elt_t *msg = NULL;
    bool in_task = weft_worker_here() != NULL;
    while (in_task && (msg = pollNotifiedFIFO(responseFifo)) == NULL && process_one(t)) {}
    if (msg == NULL) {
        (void)view_sleep_begin();
        msg = pullNotifiedFIFO(responseFifo);
        view_sleep_end();
    }
    return pulled(t, msg);
}

notifiedFIFO_elt_t *tryPullTpool(notifiedFIFO_t *responseFifo, tpool_t *t) {
    return pulled(t, pollNotifiedFIFO(responseFifo));
}

int abortTpoolJob(tpool_t *t, uint64_t key) {
    pthread_mutex_lock(&t->incomingFifo.lockF);
    int aborted = fifo_delete(&t->incomingFifo, key, false);
    for (running_message *each = t->threads == NULL ? NULL : t->threads->running; each != NULL; each = each->next) {
        if (each->key != key || each->is_aborted) continue;
        each->is_aborted = true;
        aborted++;
    }
    pthread_mutex_unlock(&t->incomingFifo.lockF);
    return aborted;
}

/* Messages may be pushed again. */
static void reopen(tpool_t *t) {
    pthread_mutex_lock(&t->incomingFifo.lockF);
    t->incomingFifo.abortFIFO = false;
    pthread_mutex_unlock(&t->incomingFifo.lockF);
}

int abortTpool(tpool_t *t) {
    if (t->threads != NULL && view_is_refusal(view_check(&t->threads->view))) return 0;
    int deleted = abortNotifiedFIFO(&t->incomingFifo);
    if (t->threads != NULL && view_close(&t->threads->view, NULL) == 0) {
        free(t->threads);
        t->threads = NULL;
    } else if (t->threads != NULL) {
        reopen(t);
    }
    return deleted;
}
