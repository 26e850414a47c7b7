// status.cpp: `weft chunks status`.
#include "chunks.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <weft_chunks.h>

static const char *const states[] = {"free", "held", "done", "FAILED"};

static weft_chunk_info info_of(weft_chunks *queue, size_t index) {
    weft_chunk_info info = {};
    info.struct_size = sizeof info;
    weft_chunks_info(queue, index, &info);
    return info;
}

// What a chunk takes in the median, ms; 0: none is done.
static uint64_t usual_ms(weft_chunks *queue) {
    std::vector<uint64_t> times;
    for (size_t i = 0; i < weft_chunks_count(queue); i++) {
        weft_chunk_info info = info_of(queue, i);
        if (info.state == WEFT_CHUNK_DONE) times.push_back(info.ms);
    }
    if (times.empty()) return 0;
    std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2), times.end());
    return times[times.size() / 2];
}

// A holder is late when it has been silent for half of the lease, a chunk when it takes three times as long as usual.
static void chunk_print(const weft_chunk_info &info, uint64_t usual, uint64_t lease_ms) {
    printf("  %7zu  %-6s  %zu to %zu", info.chunk.index, states[info.state], info.chunk.begin, info.chunk.end);
    if (info.state == WEFT_CHUNK_DONE) printf("  in %.1f s", static_cast<double>(info.ms) / 1000);
    if (info.state == WEFT_CHUNK_HELD) {
        printf("  by %s for %.1f s", info.holder, static_cast<double>(info.ms) / 1000);
        if (info.silent_ms > lease_ms / 2) printf(", SILENT for %.1f s", static_cast<double>(info.silent_ms) / 1000);
        if (usual > 0 && info.ms > 3 * usual) printf(", LATE: others took %.1f s", static_cast<double>(usual) / 1000);
    }
    if (info.chunk.tries > 0) printf("  failed %u times, with %d", info.chunk.tries, info.error);
    if (info.losses > 0) printf("  lost its worker %u times", info.losses);
    if (info.torn > 0) printf("  %u torn records, which do not count", info.torn);
    printf("\n");
}

int chunks_status(const ChunksOptions &options) {
    weft_chunks *queue;
    size_t counts[4];
    int error = weft_chunks_open(&queue, options.directory.c_str());
    if (error != WEFT_OK) return chunks_fail(options.directory.c_str(), error);
    error = weft_chunks_read(queue, counts);
    weft_chunks_plan plan = {};
    plan.struct_size = sizeof plan;
    if (error == WEFT_OK) error = weft_chunks_plan_of(queue, &plan);
    if (error != WEFT_OK) {
        int status = chunks_fail(options.directory.c_str(), error);
        weft_chunks_close(&queue);
        return status;
    }
    printf("%zu chunks of %zu to %zu: %zu done, %zu held, %zu free, %zu failed\n", weft_chunks_count(queue), plan.begin,
           plan.end, counts[WEFT_CHUNK_DONE], counts[WEFT_CHUNK_HELD], counts[WEFT_CHUNK_FREE], counts[WEFT_CHUNK_FAILED]);
    if (plan.label[0] != 0) printf("%s\n", plan.label);
    uint64_t usual = usual_ms(queue);
    for (size_t i = 0; i < weft_chunks_count(queue); i++) {
        weft_chunk_info info = info_of(queue, i);
        if (options.all || info.state == WEFT_CHUNK_HELD || info.state == WEFT_CHUNK_FAILED || info.torn > 0)
            chunk_print(info, usual, plan.lease_ms);
    }
    int result = weft_chunks_result(queue);
    if (result == WEFT_ECANCELED) printf("cancelled\n");
    weft_chunks_close(&queue);
    return 0;
}
