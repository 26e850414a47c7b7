/* atomics.h: atomic operations with the order in the name. Layer 0.
 *
 * Every ordered operation takes a tag first, an identifier such as L1. The tag names a row of the ordering table in the
 * file's head, which says what the operation pairs with and what breaks without it. In ordinary builds a tag costs
 * nothing. In the explore build (WEFT_EXPLORE) each operation is a scheduling point of a model of the C11 memory model,
 * and one tag at a time can be weakened: a check must fail for each (`make mutants`).
 *
 * Relaxed operations take no tag: nothing but the value itself is meant to travel through them.
 *
 * Variables are declared ATOMIC(type), so that a plain access does not compile. */
#ifndef WEFT_ATOMICS_H
#define WEFT_ATOMICS_H

#include "os/base.h"

#define ATOMIC(type)                                                                                                        \
    struct {                                                                                                                \
        type raw;                                                                                                           \
    }

#if defined(WEFT_EXPLORE)
#include "explore_atomics.h"
#else

#define load_rlx(a) __atomic_load_n(&(a)->raw, __ATOMIC_RELAXED)
#define load_acq(tag, a) __atomic_load_n(&(a)->raw, __ATOMIC_ACQUIRE)
#define store_rlx(a, v) __atomic_store_n(&(a)->raw, (v), __ATOMIC_RELAXED)
#define store_rel(tag, a, v) __atomic_store_n(&(a)->raw, (v), __ATOMIC_RELEASE)

/* Strong compare-and-swap. Returns true if *a was *expected and is now v. Otherwise *expected becomes the value found
 * (relaxed). */
#define cas_rlx(tag, a, expected, v)                                                                                        \
    __atomic_compare_exchange_n(&(a)->raw, (expected), (v), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)
#define cas_acq(tag, a, expected, v)                                                                                        \
    __atomic_compare_exchange_n(&(a)->raw, (expected), (v), false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)
#define cas_acq_rel(tag, a, expected, v)                                                                                    \
    __atomic_compare_exchange_n(&(a)->raw, (expected), (v), false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)
#define cas_rel(tag, a, expected, v)                                                                                        \
    __atomic_compare_exchange_n(&(a)->raw, (expected), (v), false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)

/* Read-modify-writes; each returns the value before. */
#define add_rlx(a, v) __atomic_fetch_add(&(a)->raw, (v), __ATOMIC_RELAXED)
#define add_acq(tag, a, v) __atomic_fetch_add(&(a)->raw, (v), __ATOMIC_ACQUIRE)
#define add_rel(tag, a, v) __atomic_fetch_add(&(a)->raw, (v), __ATOMIC_RELEASE)
#define add_acq_rel(tag, a, v) __atomic_fetch_add(&(a)->raw, (v), __ATOMIC_ACQ_REL)
#define or_rlx(a, v) __atomic_fetch_or(&(a)->raw, (v), __ATOMIC_RELAXED)
#define or_rel(tag, a, v) __atomic_fetch_or(&(a)->raw, (v), __ATOMIC_RELEASE)
#define and_rlx(a, v) __atomic_fetch_and(&(a)->raw, (v), __ATOMIC_RELAXED)
#define and_acq(tag, a, v) __atomic_fetch_and(&(a)->raw, (v), __ATOMIC_ACQUIRE)
#define xchg_acq(tag, a, v) __atomic_exchange_n(&(a)->raw, (v), __ATOMIC_ACQUIRE)
#define xchg_rel(tag, a, v) __atomic_exchange_n(&(a)->raw, (v), __ATOMIC_RELEASE)

/* Adds 1 to a count that only one thread writes. Others may load it. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define count_one(a) __asm__("addq $1, %0" : "+m"((a)->raw) : : "cc")
#else
#define count_one(a) store_rlx(a, load_rlx(a) + 1)
#endif

/* A full fence. It orders flags only; a payload always travels by release and acquire. */
#define fence_sc(tag) __atomic_thread_fence(__ATOMIC_SEQ_CST)
/* The same, where the thread's last access other than loads was a read-modify-write: on x86 that is a full fence already. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(GENMC)
#define fence_rmw_sc(tag) fence_compiler()
#else
#define fence_rmw_sc(tag) fence_sc(tag)
#endif

/* For the compiler alone. */
#define fence_compiler() __atomic_signal_fence(__ATOMIC_SEQ_CST)

/* Reads a condition again after a fence, which closes a race. A mutant replaces it by `otherwise`, the answer that lets the
 * race happen. */
#define recheck(tag, condition, otherwise) (condition)

/* Tell the explorer that ordinary memory, shared by release and acquire, is about to be read or written. */
#define plain_read(p, size) ((void)0)
#define plain_write(p, size) ((void)0)

#endif

/* A count that only one thread writes. Its lowest byte counts on its own. */
typedef ATOMIC(uint64_t) byte_count;

/* Adds 1 to the lowest byte, without a carry. Returns whether it is 0 now. */
INLINE bool count_byte(byte_count *count) {
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) && !defined(WEFT_EXPLORE)
    bool is_zero;
    __asm__("addb $1, %1" : "=@ccz"(is_zero), "+m"(*(uint8_t *)&count->raw));
    return is_zero;
#else
    uint64_t before = load_rlx(count);
    uint8_t low = (uint8_t)(before + 1);
    store_rlx(count, (before & ~UINT64_C(255)) | low);
    return low == 0;
#endif
}

/* A pointer into an array of places. Only one thread writes it. */
typedef ATOMIC(void **) place_pointer;

/* Moves the pointer, whose value is `now`, one place on, or one back. x86 adds in memory, which saves each allocation one
 * instruction. */
INLINE void step_place(place_pointer *place, void **now, bool back) {
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) && !defined(WEFT_EXPLORE)
    (void)now;
    if (back)
        __asm__("subq $8, %0" : "+m"(place->raw) : : "cc");
    else
        __asm__("addq $8, %0" : "+m"(place->raw) : : "cc");
#else
    store_rlx(place, back ? now - 1 : now + 1);
#endif
}

/* os_fence_light(tag) and os_fence_heavy(tag) in os.h are the asymmetric pair: light on the frequent side, heavy on the rare
 * one, together as strong as two fence_sc. */

#endif
