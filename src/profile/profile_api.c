/* profile_api.c: the public functions; their contracts are in weft/heap.h. Layer 3. */
#include "profile/profile.h"
#include "profile/write.h"
#include "weft.h"

#define INTERVAL_BYTES ((uint64_t)512 << 10)

static PROCESS_STATE ATOMIC(uint64_t) interval; /* of the last start */

int weft_heap_profile_start(const weft_heap_profile_config *config) {
    weft_heap_profile_config c = {0};
    if (config != NULL && !struct_read(&c, sizeof c, config)) return WEFT_EINVAL;
    if (c.interval_bytes > INT64_MAX) return WEFT_EINVAL;
    if (c.interval_bytes == 0) c.interval_bytes = INTERVAL_BYTES;
    int error = samples_start(c.interval_bytes, c.seed != 0 ? c.seed : os_ticks());
    if (error == WEFT_OK) store_rlx(&interval, c.interval_bytes);
    return error;
}

bool profile_is_empty(void) { return samples_stacks() == NULL; }

int weft_heap_profile_stop(void) { return samples_stop(); }

int weft_heap_profile_write(int fd, uint32_t form) {
    if (fd < 0 || form > WEFT_HEAP_PROFILE_FOLDED_ALLOCATED || !sampling_is_set()) return WEFT_EINVAL;
    if (form == WEFT_HEAP_PROFILE_PPROF) return pprof_write(fd, load_rlx(&interval));
    return folded_write(fd, form == WEFT_HEAP_PROFILE_FOLDED ? LIVE_BYTES : ALLOCATED_BYTES);
}
