/* FFmpeg's slice threads on a weft pool. For a codec, after it was opened with FF_THREAD_SLICE and a thread_count:
 *
 *     avcodec_open2(codec, ...);
 *     weft_ffmpeg_codec(codec, pool);
 *
 * For a filter graph, before filters are added:
 *
 *     graph = avfilter_graph_alloc();
 *     weft_ffmpeg_graph(graph, pool);
 *
 * Both use the `opaque` field of the codec or graph. A graph then has no threads of its own; a codec's threads were started
 * when it was opened, and sleep. Frame threads stay FFmpeg's. Jobs of VP7 and VP8 wait for later ones, so these codecs keep
 * FFmpeg's threads. */
#ifndef WEFT_HOOKS_FFMPEG_H
#define WEFT_HOOKS_FFMPEG_H

#include <libavcodec/avcodec.h>
#include <libavfilter/avfilter.h>
#include <libavutil/error.h>

#include "jobs.h"

typedef int (*weft_ffmpeg_one)(AVCodecContext *codec, void *arg);
typedef int (*weft_ffmpeg_two)(AVCodecContext *codec, void *arg, int job, int thread);

typedef struct weft_ffmpeg_jobs {
    hook_jobs jobs;
    AVCodecContext *codec;
    AVFilterContext *filter;
    weft_ffmpeg_one one; /* one of these three is set */
    weft_ffmpeg_two two;
    avfilter_action_func *action;
    char *arg;
    int size;
    int *results; /* may be NULL */
} weft_ffmpeg_jobs;

static inline void weft_ffmpeg_run(const hook_jobs *jobs, size_t index, unsigned slot) {
    const weft_ffmpeg_jobs *ff = (const weft_ffmpeg_jobs *)jobs;
    int result = ff->one != NULL   ? ff->one(ff->codec, ff->arg + index * (size_t)ff->size)
                 : ff->two != NULL ? ff->two(ff->codec, ff->arg, (int)index, (int)slot)
                                   : ff->action(ff->filter, ff->arg, (int)index, (int)jobs->count);
    if (ff->results != NULL) ff->results[index] = result;
}

static inline int weft_ffmpeg_start(weft_ffmpeg_jobs *ff, int count, int threads) {
    weft_pool *pool = (weft_pool *)(ff->codec != NULL ? ff->codec->opaque : ff->filter->graph->opaque);
    ff->jobs.run = weft_ffmpeg_run;
    ff->jobs.count = count > 0 ? (size_t)count : 0;
    hook_run(pool, &ff->jobs, threads > 0 ? (size_t)threads : 1);
    return 0;
}

static inline int weft_ffmpeg_execute(AVCodecContext *codec, weft_ffmpeg_one one, void *arg, int *results, int count,
                                      int size) {
    weft_ffmpeg_jobs ff = {.codec = codec, .one = one, .arg = (char *)arg, .size = size, .results = results};
    return weft_ffmpeg_start(&ff, count, codec->thread_count);
}

static inline int weft_ffmpeg_execute2(AVCodecContext *codec, weft_ffmpeg_two two, void *arg, int *results, int count) {
    weft_ffmpeg_jobs ff = {.codec = codec, .two = two, .arg = (char *)arg, .results = results};
    return weft_ffmpeg_start(&ff, count, codec->thread_count);
}

static inline int weft_ffmpeg_filter(AVFilterContext *filter, avfilter_action_func *action, void *arg, int *results,
                                     int count) {
    weft_ffmpeg_jobs ff = {.filter = filter, .action = action, .arg = (char *)arg, .results = results};
    return weft_ffmpeg_start(&ff, count, filter->graph->nb_threads);
}

/* 0; AVERROR(EINVAL): no slice threads are active; AVERROR(EBUSY): `opaque` is in use; AVERROR(ENOSYS): the codec cannot be
 * served. After an error nothing has changed: the codec runs on its own threads. */
static inline int weft_ffmpeg_codec(AVCodecContext *codec, weft_pool *pool) {
    if (!(codec->active_thread_type & FF_THREAD_SLICE) || codec->thread_count < 2) return AVERROR(EINVAL);
    if (codec->opaque != NULL && codec->opaque != pool) return AVERROR(EBUSY);
    if (codec->codec_id == AV_CODEC_ID_VP8 || codec->codec_id == AV_CODEC_ID_VP7) return AVERROR(ENOSYS);
    codec->opaque = pool;
    codec->execute = weft_ffmpeg_execute;
    codec->execute2 = weft_ffmpeg_execute2;
    return 0;
}

/* 0; AVERROR(EBUSY): `opaque` is in use, or the graph has filters already; nothing has changed. */
static inline int weft_ffmpeg_graph(AVFilterGraph *graph, weft_pool *pool) {
    if ((graph->opaque != NULL && graph->opaque != pool) || graph->nb_filters > 0) return AVERROR(EBUSY);
    graph->opaque = pool;
    graph->execute = weft_ffmpeg_filter;
    if (graph->nb_threads <= 0) graph->nb_threads = (int)weft_pool_workers(pool);
    return 0;
}

#endif
