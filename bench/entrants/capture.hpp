// capture.hpp: a job as a callable that contains its payload by value, as users of C++ pools write it.
#ifndef WEFT_BENCH_CAPTURE_HPP
#define WEFT_BENCH_CAPTURE_HPP

#include "records.h"

template <size_t Size> struct Capture {
    entrant_fn fn;
    alignas(16) unsigned char payload[Size];
    int operator()() const {
        auto *self = const_cast<Capture *>(this); // the callable is the pool's copy, and the job may write to its payload
        return self->fn(self->payload, nullptr);
    }
};

struct Reference {
    record *job;
    int operator()() const { return record_run(job); }
};

template <size_t Size> Capture<Size> capture(entrant_fn fn, const void *payload, size_t size) {
    Capture<Size> job;
    job.fn = fn;
    memcpy(job.payload, payload, size);
    return job;
}

// Calls post(job) with the smallest callable that holds the payload. Payloads over 64 bytes stay in the caller's memory.
template <class Post> int post_captured(records &all, entrant_fn fn, const void *payload, size_t size, Post post) {
    if (size <= 16) {
        post(capture<16>(fn, payload, size));
        return 0;
    }
    if (size <= 64) {
        post(capture<64>(fn, payload, size));
        return 0;
    }
    record *job = records_fill(&all, fn, payload, size);
    if (job == nullptr) return -1;
    post(Reference{job});
    return 0;
}

#endif
