/**
 * @file weft/base.h
 * The version, how functions are exported, and what they return. Part of weft.h; include that one.
 *
 * Copyright the weft authors. MIT licence, see LICENSE.
 */
#ifndef WEFT_API_BASE_H
#define WEFT_API_BASE_H

#include <stddef.h>
#include <stdint.h>

/** The header's version; weft_version returns the library's. Before 1.0 each minor version may change the interface. */
#define WEFT_VERSION_MAJOR 0
/** See WEFT_VERSION_MAJOR. */
#define WEFT_VERSION_MINOR 1
/** A patch changes no interface. */
#define WEFT_VERSION_PATCH 0

/** @cond */
#if defined(WEFT_STATIC) /* for code that links libweft.a and does not export it: docs/howto/embedding.md */
#define WEFT_API __attribute__((visibility("hidden")))
#else
#define WEFT_API __attribute__((visibility("default")))
#endif
#if defined(WEFT_PREFIX) /* prefix of the functions' names: see weft_prefix.h */
#include <weft_prefix.h>
#endif
/** @endcond */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- results ------------------------------------------------------------------------------------------------------ */

/** The codes and their texts: X(name, value, text) for each. */
#define WEFT_ERROR_LIST(X)                                                                                                  \
    X(WEFT_OK, 0, "success")                                                                                                \
    X(WEFT_EINVAL, -1, "an argument is NULL, zero or out of range")                                                         \
    X(WEFT_ENOMEM, -2, "out of memory")                                                                                     \
    X(WEFT_EAGAIN, -3, "the system or the pool has no thread left to give")                                                 \
    X(WEFT_ESHUTDOWN, -4, "the pool is being destroyed")                                                                    \
    X(WEFT_EDEADLK, -5, "the call would wait for its own caller")                                                           \
    X(WEFT_EFORK, -6, "the pool belongs to the parent process")                                                             \
    X(WEFT_ETIMEDOUT, -7, "the deadline passed")                                                                            \
    X(WEFT_EFULL, -8, "the bounded queue is full")                                                                          \
    X(WEFT_ECANCELED, -9, "the group was cancelled")                                                                        \
    X(WEFT_EBUSY, -10, "it is in use: the graph runs, or other threads have heaps")                                         \
    X(WEFT_ECYCLE, -11, "a node would run before itself")                                                                   \
    X(WEFT_ELATE, -12, "the group's deadline passed before its end")

/** The codes of WEFT_ERROR_LIST. */
enum weft_error {
#define WEFT_ERROR_ENUM(name, value, text) name = (value),
    WEFT_ERROR_LIST(WEFT_ERROR_ENUM)
#undef WEFT_ERROR_ENUM
};

/**
 * Returns the text of a code.
 * @param error a WEFT_* code, or any other number
 * @return the text, in static storage; a fixed text for an unknown number; never NULL
 * @threads Any thread, signal handlers too.
 */
WEFT_API const char *weft_strerror(int error);

/**
 * Returns the version of the library, which may differ from the header's.
 * @return "major.minor.patch", in static storage
 * @threads Any thread, signal handlers too.
 */
WEFT_API const char *weft_version(void);

#ifdef __cplusplus
}
#endif
#endif
