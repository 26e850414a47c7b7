/* ffmpeg.c: a picture blurred (AVFilterGraph.execute), then encoded in two formats (execute and execute2), one of them
 * decoded. */
#include "hooks.h"

#ifdef MISSING_FFMPEG
const library library_ffmpeg = {.name = "ffmpeg", .missing = MISSING_FFMPEG};
#else
#include <libavcodec/avcodec.h>
#include <libavfilter/avfilter.h>
#include <libavfilter/buffersink.h>
#include <libavfilter/buffersrc.h>
#include <libavutil/log.h>
#include <libavutil/opt.h>
#include <hooks/ffmpeg.h>

enum { WIDTH = 640, HEIGHT = 384, CODECS = 2 };
static AVFilterGraph *graph;
static AVFilterContext *source, *sink;
static AVCodecContext *encoders[CODECS], *decoder;
static AVFrame *picture;

static void graph_make(weft_pool *pool, int threads) {
    char arguments[128];
    AVFilterContext *blur = NULL;
    graph = avfilter_graph_alloc();
    REQUIRE(graph != NULL);
    graph->nb_threads = threads;
    if (pool != NULL) REQUIRE(weft_ffmpeg_graph(graph, pool) == 0);
    snprintf(arguments, sizeof arguments, "video_size=%dx%d:pix_fmt=%d:time_base=1/25", WIDTH, HEIGHT, AV_PIX_FMT_YUV422P10);
    REQUIRE(avfilter_graph_create_filter(&source, avfilter_get_by_name("buffer"), "in", arguments, NULL, graph) >= 0);
    REQUIRE(avfilter_graph_create_filter(&blur, avfilter_get_by_name("gblur"), "blur", "sigma=2", NULL, graph) >= 0);
    REQUIRE(avfilter_graph_create_filter(&sink, avfilter_get_by_name("buffersink"), "out", NULL, NULL, graph) >= 0);
    REQUIRE(avfilter_link(source, 0, blur, 0) == 0 && avfilter_link(blur, 0, sink, 0) == 0);
    REQUIRE(avfilter_graph_config(graph, NULL) >= 0);
}

static AVCodecContext *codec_open(const AVCodec *codec, weft_pool *pool, int threads) {
    REQUIRE(codec != NULL);
    AVCodecContext *context = avcodec_alloc_context3(codec);
    REQUIRE(context != NULL);
    context->width = WIDTH;
    context->height = HEIGHT;
    context->pix_fmt = AV_PIX_FMT_YUV422P10;
    context->time_base = (AVRational){1, 25};
    context->thread_count = threads;
    context->thread_type = FF_THREAD_SLICE;
    context->level = codec->id == AV_CODEC_ID_FFV1 ? 3 : context->level;
    context->slices = 4;
    REQUIRE(avcodec_open2(context, codec, NULL) == 0);
    if (pool != NULL) REQUIRE(weft_ffmpeg_codec(context, pool) == 0);
    return context;
}

static void start(weft_pool *pool, int threads) {
    uint32_t state = 1;
    av_log_set_level(AV_LOG_ERROR);
    graph_make(pool, threads);
    encoders[0] = codec_open(avcodec_find_encoder_by_name("ffv1"), pool, threads);
    encoders[1] = codec_open(avcodec_find_encoder_by_name("prores_ks"), pool, threads);
    decoder = codec_open(avcodec_find_decoder(AV_CODEC_ID_PRORES), pool, threads);
    picture = av_frame_alloc();
    REQUIRE(picture != NULL);
    picture->width = WIDTH;
    picture->height = HEIGHT;
    picture->format = AV_PIX_FMT_YUV422P10;
    REQUIRE(av_frame_get_buffer(picture, 0) == 0);
    for (int plane = 0; plane < 3; plane++)
        for (int y = 0; y < HEIGHT; y++)
            for (int x = 0; x < (plane == 0 ? WIDTH : WIDTH / 2); x++)
                ((uint16_t *)(picture->data[plane] + (ptrdiff_t)y * picture->linesize[plane]))[x] =
                    (uint16_t)(4 * pixel(x, y, &state));
}

static uint64_t frame_digest(uint64_t hash, const AVFrame *frame) {
    for (int plane = 0; plane < 3; plane++)
        for (int y = 0; y < HEIGHT; y += 4)
            hash = digest(hash, frame->data[plane] + (ptrdiff_t)y * frame->linesize[plane],
                          (size_t)2 * (plane == 0 ? WIDTH : WIDTH / 2));
    return hash;
}

static uint64_t process(void) {
    uint64_t hash = 0;
    AVFrame *frame = av_frame_alloc();
    AVPacket *packet = av_packet_alloc();
    REQUIRE(frame != NULL && packet != NULL);
    REQUIRE(av_buffersrc_add_frame_flags(source, picture, AV_BUFFERSRC_FLAG_KEEP_REF) >= 0);
    REQUIRE(av_buffersink_get_frame(sink, frame) >= 0);
    hash = frame_digest(hash, frame);
    for (int i = 0; i < CODECS; i++) {
        frame->pts++;
        REQUIRE(avcodec_send_frame(encoders[i], frame) == 0);
        av_packet_unref(packet);
        REQUIRE(avcodec_receive_packet(encoders[i], packet) == 0);
        hash = digest(hash, packet->data, (size_t)packet->size);
    }
    av_frame_unref(frame);
    REQUIRE(avcodec_send_packet(decoder, packet) == 0);
    REQUIRE(avcodec_receive_frame(decoder, frame) == 0);
    hash = frame_digest(hash, frame);
    av_frame_free(&frame);
    av_packet_free(&packet);
    return hash;
}

static void stop(void) {
    for (int i = 0; i < CODECS; i++) avcodec_free_context(&encoders[i]);
    avcodec_free_context(&decoder);
    avfilter_graph_free(&graph);
    av_frame_free(&picture);
}

const library library_ffmpeg = {.name = "ffmpeg", .open = start, .run = process, .close = stop};
#endif
