/* explore_atomics.h: atomics.h's operations as steps of the explorer's memory model. Included by atomics.h alone.
 *
 * Each operation has a site: where it stands, its tag, its order. Sites are found through a linker section, so that the
 * explorer can list every tagged operation of the sources it was built with and weaken one. */
#ifndef WEFT_EXPLORE_ATOMICS_H
#define WEFT_EXPLORE_ATOMICS_H

enum explore_op {
    EXPLORE_LOAD,
    EXPLORE_STORE,
    EXPLORE_CAS,
    EXPLORE_ADD,
    EXPLORE_OR,
    EXPLORE_AND,
    EXPLORE_XCHG,
    EXPLORE_FENCE,
    EXPLORE_FENCE_RMW,
    EXPLORE_LIGHT,
    EXPLORE_HEAVY,
    EXPLORE_SETTLE,
    EXPLORE_RECHECK
};

enum explore_order { EXPLORE_RLX = 0, EXPLORE_ACQ = 1, EXPLORE_REL = 2, EXPLORE_ACQ_REL = 3, EXPLORE_SC = 7 };

typedef struct explore_site {
    const char *tag; /* "" for relaxed operations without one */
    const char *file;
    int line;
    enum explore_op op;
    enum explore_order order; /* as written, or as a mutant has weakened it */
    bool split;               /* mutant: a read-modify-write that is a load and a store */
    bool dropped;             /* mutant: a fence or re-check that is not there */
    uint64_t hits;
} explore_site;

void *explore_load(explore_site *site, const void *address, size_t size, void *result);
void explore_store(explore_site *site, void *address, size_t size, const void *value);
bool explore_cas(explore_site *site, void *address, size_t size, void *expected, const void *value);
void *explore_change(explore_site *site, void *address, size_t size, const void *operand, void *before);
void explore_fence(explore_site *site);
bool explore_recheck(explore_site *site);
void explore_plain(const void *address, size_t size, bool write, const char *file, int line);

#define EXPLORE_SITE(tag_text, op_kind, op_order)                                                                           \
    ({                                                                                                                      \
        static explore_site site_here = {tag_text, __FILE__, __LINE__, op_kind, op_order, false, false, 0};                 \
        static explore_site *const site_entry __attribute__((section("explore_sites"), used)) = &site_here;                 \
        (void)site_entry;                                                                                                   \
        &site_here;                                                                                                         \
    })

/* The type of the variable without qualifiers, and an unnamed object of it: no name of ours can hide one in the operands. */
#define EXPLORE_TYPE(a) __typeof__(({ (a)->raw; }))
#define EXPLORE_BOX(a, v) ((EXPLORE_TYPE(a)[1]){(v)})

#define EXPLORE_LOAD_AT(tag, order, a)                                                                                      \
    (*(EXPLORE_TYPE(a) *)explore_load(EXPLORE_SITE(tag, EXPLORE_LOAD, order), &(a)->raw, sizeof((a)->raw),                  \
                                      EXPLORE_BOX(a, 0)))
#define EXPLORE_STORE_AT(tag, order, a, v)                                                                                  \
    explore_store(EXPLORE_SITE(tag, EXPLORE_STORE, order), &(a)->raw, sizeof((a)->raw), EXPLORE_BOX(a, v))
#define EXPLORE_CAS_AT(tag, order, a, expected, v)                                                                          \
    explore_cas(EXPLORE_SITE(tag, EXPLORE_CAS, order), &(a)->raw, sizeof((a)->raw), expected, EXPLORE_BOX(a, v))
#define EXPLORE_CHANGE_AT(tag, op, order, a, v)                                                                             \
    ({                                                                                                                      \
        *(EXPLORE_TYPE(a) *)explore_change(EXPLORE_SITE(tag, op, order), &(a)->raw, sizeof((a)->raw), EXPLORE_BOX(a, v),    \
                                           EXPLORE_BOX(a, 0));                                                              \
    })

#define load_rlx(a) EXPLORE_LOAD_AT("", EXPLORE_RLX, a)
#define load_acq(tag, a) EXPLORE_LOAD_AT(#tag, EXPLORE_ACQ, a)
#define load_sc(tag, a) EXPLORE_LOAD_AT(#tag, EXPLORE_SC, a)
#define store_rlx(a, v) EXPLORE_STORE_AT("", EXPLORE_RLX, a, v)
#define store_rel(tag, a, v) EXPLORE_STORE_AT(#tag, EXPLORE_REL, a, v)
#define store_sc(tag, a, v) EXPLORE_STORE_AT(#tag, EXPLORE_SC, a, v)

#define count_one(a) store_rlx(a, load_rlx(a) + 1)

#define cas_rlx(tag, a, expected, v) EXPLORE_CAS_AT(#tag, EXPLORE_RLX, a, expected, v)
#define cas_acq(tag, a, expected, v) EXPLORE_CAS_AT(#tag, EXPLORE_ACQ, a, expected, v)
#define cas_rel(tag, a, expected, v) EXPLORE_CAS_AT(#tag, EXPLORE_REL, a, expected, v)
#define cas_acq_rel(tag, a, expected, v) EXPLORE_CAS_AT(#tag, EXPLORE_ACQ_REL, a, expected, v)
#define cas_sc(tag, a, expected, v) EXPLORE_CAS_AT(#tag, EXPLORE_SC, a, expected, v)

#define add_rlx(a, v) EXPLORE_CHANGE_AT("", EXPLORE_ADD, EXPLORE_RLX, a, v)
#define add_acq(tag, a, v) EXPLORE_CHANGE_AT(#tag, EXPLORE_ADD, EXPLORE_ACQ, a, v)
#define add_rel(tag, a, v) EXPLORE_CHANGE_AT(#tag, EXPLORE_ADD, EXPLORE_REL, a, v)
#define add_acq_rel(tag, a, v) EXPLORE_CHANGE_AT(#tag, EXPLORE_ADD, EXPLORE_ACQ_REL, a, v)
#define or_rlx(a, v) EXPLORE_CHANGE_AT("", EXPLORE_OR, EXPLORE_RLX, a, v)
#define or_rel(tag, a, v) EXPLORE_CHANGE_AT(#tag, EXPLORE_OR, EXPLORE_REL, a, v)
#define and_rlx(a, v) EXPLORE_CHANGE_AT("", EXPLORE_AND, EXPLORE_RLX, a, v)
#define and_acq(tag, a, v) EXPLORE_CHANGE_AT(#tag, EXPLORE_AND, EXPLORE_ACQ, a, v)
#define xchg_rlx(a, v) EXPLORE_CHANGE_AT("", EXPLORE_XCHG, EXPLORE_RLX, a, v)
#define xchg_acq(tag, a, v) EXPLORE_CHANGE_AT(#tag, EXPLORE_XCHG, EXPLORE_ACQ, a, v)
#define xchg_rel(tag, a, v) EXPLORE_CHANGE_AT(#tag, EXPLORE_XCHG, EXPLORE_REL, a, v)

#define fence_acq(tag) explore_fence(EXPLORE_SITE(#tag, EXPLORE_FENCE, EXPLORE_ACQ))
#define fence_rel(tag) explore_fence(EXPLORE_SITE(#tag, EXPLORE_FENCE, EXPLORE_REL))
#define fence_sc(tag) explore_fence(EXPLORE_SITE(#tag, EXPLORE_FENCE, EXPLORE_SC))
#define fence_rmw_sc(tag) explore_fence(EXPLORE_SITE(#tag, EXPLORE_FENCE_RMW, EXPLORE_SC))

#define fence_compiler() ((void)0)
/* The time that it waits has done to every thread what a heavy fence does. */
#define os_settle_heavy(tag) explore_fence(EXPLORE_SITE(#tag, EXPLORE_SETTLE, EXPLORE_SC))

/* os.h's asymmetric pair. */
#define os_fence_light(tag) explore_fence(EXPLORE_SITE(#tag, EXPLORE_LIGHT, EXPLORE_SC))
#define os_fence_heavy(tag) explore_fence(EXPLORE_SITE(#tag, EXPLORE_HEAVY, EXPLORE_SC))

/* weft.h's: its light fence is one for the compiler alone. Short spans, so that they are left and entered. */
#define WEFT_FORK_CHUNK 512u
#define weft_store_rel(tag, a, v) store_rel(tag, a, v)
#define weft_store_rlx(a, v) store_rlx(a, v)
#define weft_load_rlx(a) load_rlx(a)
#define weft_fence_light(tag) (os_fence_is_asymmetric() ? os_fence_light(tag) : (void)0)

#define recheck(tag, condition, otherwise)                                                                                  \
    (explore_recheck(EXPLORE_SITE(#tag, EXPLORE_RECHECK, EXPLORE_SC)) ? (condition) : (otherwise))

#define plain_read(p, size) explore_plain(p, size, false, __FILE__, __LINE__)
#define plain_write(p, size) explore_plain(p, size, true, __FILE__, __LINE__)

#endif
