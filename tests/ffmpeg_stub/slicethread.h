/* The declarations that adapters/ffmpeg takes from FFmpeg's libavutil, for its test. */
#ifndef FFMPEG_STUB_SLICETHREAD_H
#define FFMPEG_STUB_SLICETHREAD_H

typedef struct AVSliceThread AVSliceThread;

int avpriv_slicethread_create(AVSliceThread **pctx, void *priv,
                              void (*worker_func)(void *priv, int jobnr, int threadnr, int nb_jobs, int nb_threads),
                              void (*main_func)(void *priv), int nb_threads);
void avpriv_slicethread_execute(AVSliceThread *ctx, int nb_jobs, int execute_main);
void avpriv_slicethread_free(AVSliceThread **pctx);

#endif
