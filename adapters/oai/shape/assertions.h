/* What adapters/oai uses of the host's assertions.h. */
#ifndef OAI_SHAPE_ASSERTIONS_H
#define OAI_SHAPE_ASSERTIONS_H

#include <stdio.h>
#include <stdlib.h>

#define AssertFatal(condition, ...)                                                                                         \
    do {                                                                                                                    \
        if (!(condition)) {                                                                                                 \
            fprintf(stderr, "Assertion (%s) failed: ", #condition);                                                         \
            fprintf(stderr, __VA_ARGS__);                                                                                   \
            abort();                                                                                                        \
        }                                                                                                                   \
    } while (0)
#define DevAssert(condition) AssertFatal(condition, "in %s\n", __func__)

#endif
