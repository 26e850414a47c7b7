/* record.h: records of groups, opened without a seat. */
#ifndef WEFT_EXPLORE_RECORD_H
#define WEFT_EXPLORE_RECORD_H

#include "queue/group.h"

/* Its id is record->id. NULL: no memory or too many groups at once. */
INLINE struct record *record_open(struct groups *groups, uint64_t parent, uint32_t flags) {
    struct record *record = pile_get(&groups->records);
    if (record != NULL) record_begin(groups, record, parent, flags);
    return record;
}

#endif
