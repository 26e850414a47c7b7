/* OpenAirInterface's pool of messages on weft; thread-pool.h says what each function promises.
 *
 * Messages wait in the pool's own FIFO, so that they start in their order and can be taken back. A weft task is only a
 * permit to process the oldest message. */
#define _GNU_SOURCE
#include "thread-pool.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../threads.h"

#define ALIGNMENT 32u

/* A message that is being processed; the record is on the stack of its thread. */
typedef struct running_message {
    uint64_t key;
    pthread_t thread;
    bool is_aborted;
    struct running_message *next;
} running_message;

struct tpool_threads {
    view view;
    running_message *running; /* under incomingFifo.lockF */
    unsigned active;          /* also: messages that run on the pool's threads, without those that a pull or push runs */
    oai_threads threads;
};

static oai_cputime_t ticks(void) {
#if __has_include("common/utils/time_meas.h")
    return (oai_cputime_t)rdtsc_oai();
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (oai_cputime_t)now.tv_sec * 1000000000 + now.tv_nsec;
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

void pushNotifiedFIFO_nothreadSafe(notifiedFIFO_t *nf, notifiedFIFO_elt_t *msg) { fifo_append(nf, msg); }

notifiedFIFO_elt_t *pullNotifiedFIFO_nothreadSafe(notifiedFIFO_t *nf) { return nf->abortFIFO ? NULL : fifo_take(nf); }

void pushNotifiedFIFO(notifiedFIFO_t *nf, notifiedFIFO_elt_t *msg) {
    pthread_mutex_lock(&nf->lockF);
    bool ended = nf->abortFIFO;
    if (!ended) {
        fifo_append(nf, msg);
        pthread_cond_signal(&nf->notifF); /* with the lock held: the thread that pulls the message may end the FIFO */
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

/* Deletes the messages of that key, or all. Call it with the lock held. */
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

/* Processes the oldest message; with `is_extra` also if as many run as there are threads. false: there is none, it was taken back,
 * too many run, or the pool has no threads, so nothing waits. */
static bool process_one(tpool_t *t, bool is_extra) {
    if (t->threads == NULL) return false;
    const unsigned most = is_extra ? 0 : t->threads->view.own;
    pthread_mutex_lock(&t->incomingFifo.lockF);
    notifiedFIFO_elt_t *msg = most > 0 && t->threads->active >= most ? NULL : fifo_take(&t->incomingFifo);
    t->threads->active += !is_extra && msg != NULL;
    running_message mine = {.key = msg == NULL ? 0 : msg->key, .thread = pthread_self(), .next = t->threads->running};
    if (msg != NULL) t->threads->running = &mine;
    pthread_mutex_unlock(&t->incomingFifo.lockF);
    if (msg == NULL) return false;
    process(t, msg);
    pthread_mutex_lock(&t->incomingFifo.lockF);
    running_remove(&t->threads->running, &mine);
    t->threads->active -= !is_extra;
    pthread_mutex_unlock(&t->incomingFifo.lockF);
    if (mine.is_aborted)
        delNotifiedFIFO_elt(msg);
    else
        answer(msg);
    return true;
}

/* A permit. One that comes while as many messages run as there are threads is lost, so those that run go on until nothing
 * waits: a spare that stands in for a thread that sleeps starts no message, unless another thread has ended its own. */
static int process_waiting(void *payload, weft_worker *self) {
    (void)self;
    while (process_one(*(tpool_t **)payload, false)) {}
    return 0;
}

/* ---- the pool ----------------------------------------------------------------------------------------------------- */

/* Opens a pipe for readers. It is also opened for reading here, so that a write never fails for want of a reader. */
static int open_trace(void) {
    const char *path = getenv("OAI_THREADPOOLMEASUREMENTS");
    if (path == NULL) return -1;
    (void)mkfifo(path, 0666); /* it may exist already */
    const int keep = open(path, O_RDONLY | O_NONBLOCK);
    const int fd = keep < 0 ? -1 : open(path, O_WRONLY | O_APPEND | O_NONBLOCK);
    if (fd < 0) fprintf(stderr, "OAI_THREADPOOLMEASUREMENTS: %s: %s\n", path, strerror(errno));
    return fd;
}

static int open_pool(tpool_t *pool, struct tpool_threads *wish, bool performanceMeas, const char *name) {
    wish->threads.name = name == NULL ? "Tpool" : name;
    pool->measurePerf = performanceMeas || getenv("OAI_THREADPOOLMEASUREMENTS") != NULL;
    pool->traceFd = open_trace();
    const int error = wish->threads.count > 0 ? oai_threads_open(&wish->threads, &wish->view, false) : 0;
    if (error != 0 || wish->threads.count == 0) {
        if (error != 0) fprintf(stderr, "%s: no threads: %s\n", wish->threads.name, strerror(-error));
        free(wish);
        return error;
    }
    pool->threads = wish;
    pool->nbThreads = (int)weft_pool_workers(wish->view.pool); /* the system may have started fewer */
    return 0;
}

/* `params` NULL: `floating` threads on any CPU. */
static int init_pool(tpool_t *pool, const char *params, int floating, bool measures, const char *name) {
    if (pool == NULL) return -EINVAL;
    *pool = (tpool_t){.measurePerf = measures, .traceFd = -1};
    initNotifiedFIFO(&pool->incomingFifo);
    struct tpool_threads *wish = calloc(1, sizeof *wish);
    if (wish == NULL) return -ENOMEM;
    if (params == NULL && floating > OAI_THREADS_MAX) {
        fprintf(stderr, "%s: %d threads: at most %d are possible\n", name == NULL ? "Tpool" : name, floating,
                OAI_THREADS_MAX);
        free(wish);
        return -EINVAL;
    }
    if (params == NULL) {
        for (int i = 0; i < floating; i++) wish->threads.core_id[wish->threads.count++] = OAI_FLOATING;
    } else if (oai_threads_parse(&wish->threads, params) != 0) {
        fprintf(stderr, "%s: not a list of CPUs, -1 and n: \"%s\"\n", name == NULL ? "Tpool" : name, params);
        free(wish);
        return -EINVAL;
    }
    return open_pool(pool, wish, measures, name);
}

int initNamedTpool(const char *params, tpool_t *pool, bool performanceMeas, const char *name) {
    return init_pool(pool, params == NULL ? "(null)" : params, 0, performanceMeas, name);
}

int initFloatingCoresTpool(int nbThreads, tpool_t *pool, bool performanceMeas, const char *name) {
    return init_pool(pool, NULL, nbThreads, performanceMeas, name);
}

void pushTpool(tpool_t *t, notifiedFIFO_elt_t *msg) {
    if (t->measurePerf) msg->creationTime = ticks();
    if (t->threads != NULL) {
        pushNotifiedFIFO(&t->incomingFifo, msg);
        if (view_submit(&t->threads->view, process_waiting, &t, sizeof t) != 0) (void)process_one(t, true);
    } else {
        process(t, msg);
        answer(msg);
    }
}

static notifiedFIFO_elt_t *pulled(const tpool_t *t, notifiedFIFO_elt_t *msg) {
    if (msg != NULL && t->measurePerf) msg->returnTime = ticks();
    /* Never waits for the reader: what does not fit into the pipe is lost. */
    if (msg != NULL && t->traceFd >= 0 && write(t->traceFd, msg, sizeof *msg) < 0 && errno != EAGAIN)
        perror("OAI_THREADPOOLMEASUREMENTS");
    return msg;
}

/* In a task of weft, the calling thread may be the one that has to process the message. So it processes messages itself. */
notifiedFIFO_elt_t *pullTpool(notifiedFIFO_t *responseFifo, tpool_t *t) {
    notifiedFIFO_elt_t *msg = NULL;
    bool in_task = weft_worker_here() != NULL;
    while (in_task && (msg = pollNotifiedFIFO(responseFifo)) == NULL && process_one(t, true)) {}
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

/* Whether the caller is in the function of a message of this pool: on one of its threads, or on another pool's thread that
 * processed the message itself. */
static bool is_in_message(tpool_t *t) {
    bool is_found = false;
    pthread_mutex_lock(&t->incomingFifo.lockF);
    for (const running_message *each = t->threads->running; each != NULL && !is_found; each = each->next)
        is_found = pthread_equal(each->thread, pthread_self()) != 0;
    pthread_mutex_unlock(&t->incomingFifo.lockF);
    return is_found;
}

int abortTpool(tpool_t *t) {
    int error = 0;
    if (t->threads != NULL && is_in_message(t)) return 0;
    while (t->threads != NULL && view_tries_again(error = view_check(&t->threads->view))) {}
    if (error == -EDEADLK) return 0;
    int deleted = abortNotifiedFIFO(&t->incomingFifo);
    if (t->threads != NULL && view_close_in_time(&t->threads->view) == 0) {
        free(t->threads);
        t->threads = NULL;
    } else if (t->threads != NULL) {
        reopen(t);
    }
    return deleted;
}
