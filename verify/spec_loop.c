/* spec_loop.c: what weft.h promises of loops and reductions. See spec.c. */
#include "spec.h"

/* weft_for: "WEFT_OK, also for an empty range; the error of the lowest index that failed: every index below has run, some
 * above may have; WEFT_ECANCELED when the calling task's group was cancelled". `runs` counts the calls for each index. */
void spec_loop(const struct frame *frame, const struct op *op, const uint32_t *runs, int error) {
    bool fails = op->fails < op->count;
    uint32_t must = error == WEFT_OK ? op->count : error > 0 ? op->fails : 0;
    if (error > 0          ? !fails || error != op->code
        : error == WEFT_OK ? fails
                           : error != WEFT_ECANCELED || !may_be_cancelled(frame->group))
        play_fail("%s over %u indices returned %d: %s%s", op_name(op->kind), op->count, error, weft_strerror(error),
                  fails ? ", one has failed" : "");
    for (uint32_t i = 0; i < op->count; i++)
        if (runs[i] > 1 || (runs[i] == 0 && i < must))
            play_fail("%s over %u indices, result %d: index %u was called %u times", op_name(op->kind), op->count, error, i,
                      runs[i]);
}

/* A combination that is neither commutative nor associative, and the value of a leaf. */
uint64_t reduce_combine(uint64_t left, uint64_t right) { return (left * 31 + 7) ^ (right * 17 + left / 3); }
uint64_t reduce_leaf(uint64_t begin, uint64_t end) { return begin * 1000003 + end; }

/* weft_reduce: "The range is cut into leaves of range.grain indices; the last leaf may have fewer. The leaves' values are combined
 * in pairs, then pairs of pairs, and so on, in order. If the grain is 0, there are at most 256 leaves. From 32 indices on, a leaf
 * has more than one index, up to 4." */
bool spec_reduced(const struct op *op, uint64_t result) {
    uint64_t value[512] = {0};
    uint32_t least = op->count >= 64 ? 4 : op->count >= 48 ? 3 : op->count >= 32 ? 2 : 1;
    uint32_t chosen = (op->count + 255u) / 256 > least ? (op->count + 255u) / 256 : least;
    uint32_t grain = op->grain != 0 ? op->grain : chosen;
    uint32_t count = (op->count + grain - 1) / grain;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t end = (i + 1) * grain;
        value[i] = reduce_leaf((uint64_t)i * grain, end < op->count ? end : op->count);
    }
    for (; count > 1; count = (count + 1) / 2)
        for (uint32_t i = 0; i < count; i += 2)
            value[i / 2] = i + 1 < count ? reduce_combine(value[i], value[i + 1]) : value[i];
    return value[0] == result;
}
