/* explore_atomics.h: atomics.h's operations as accesses of a machine in virtual time. Included by atomics.h alone, in place
 * of the explorer's header of that name: the third form of the seam.
 *
 * Each operation has a site, which knows where it stands and gathers what it costs. The operation itself is done by the
 * engine, at the moment of the virtual CPU's clock. */
#ifndef WEFT_SIMULATE_ATOMICS_H
#define WEFT_SIMULATE_ATOMICS_H

enum sim_kind {
    SIM_LOAD,
    SIM_STORE,
    SIM_CAS,
    SIM_CHANGE,
    SIM_FENCE,
    SIM_HEAVY,
    SIM_PLAIN,
    SIM_SYSTEM,
    SIM_PAUSE,
    SIM_KINDS
};
enum sim_change { SIM_ADD, SIM_OR, SIM_AND, SIM_XCHG };

/* What one place in the sources has cost. `file` NULL: it is known by the address of its code. */
typedef struct sim_site {
    const char *file, *tag;
    int line;
    enum sim_kind kind;
    uintptr_t code;
    uint64_t planted_ps;               /* what each access costs more, to see what comes of it */
    uint64_t count, failed, moved, ps; /* times; CASes that failed; lines that came from other CPUs; time it took */
} sim_site;

uint64_t sim_load(sim_site *site, const void *address, size_t size);
void sim_store(sim_site *site, void *address, size_t size, uint64_t value);
bool sim_cas(sim_site *site, void *address, size_t size, void *expected, uint64_t value);
uint64_t sim_change(sim_site *site, void *address, size_t size, enum sim_change how, uint64_t operand);
void sim_fence(sim_site *site);
void sim_heavy(sim_site *site);

#define SIM_SITE(tag_text, its_kind)                                                                                        \
    ({                                                                                                                      \
        static sim_site site_here = {.file = __FILE__, .tag = tag_text, .line = __LINE__, .kind = its_kind};                \
        static sim_site *const site_entry __attribute__((section("sim_sites"), used)) = &site_here;                         \
        (void)site_entry;                                                                                                   \
        &site_here;                                                                                                         \
    })
#define SIM_TYPE(a) __typeof__(({ (a)->raw; }))
#define SIM_SIZE(a) sizeof((a)->raw)

#define SIM_LOAD_AT(tag, a) ((SIM_TYPE(a))sim_load(SIM_SITE(tag, SIM_LOAD), &(a)->raw, SIM_SIZE(a)))
#define SIM_STORE_AT(tag, a, v) sim_store(SIM_SITE(tag, SIM_STORE), &(a)->raw, SIM_SIZE(a), (uint64_t)(SIM_TYPE(a))(v))
#define SIM_CAS_AT(tag, a, expected, v)                                                                                     \
    sim_cas(SIM_SITE(tag, SIM_CAS), &(a)->raw, SIM_SIZE(a), expected, (uint64_t)(SIM_TYPE(a))(v))
#define SIM_CHANGE_AT(tag, how, a, v)                                                                                       \
    ({ (SIM_TYPE(a)) sim_change(SIM_SITE(tag, SIM_CHANGE), &(a)->raw, SIM_SIZE(a), how, (uint64_t)(SIM_TYPE(a))(v)); })

#define load_rlx(a) SIM_LOAD_AT("", a)
#define load_acq(tag, a) SIM_LOAD_AT(#tag, a)
#define store_rlx(a, v) SIM_STORE_AT("", a, v)
#define store_rel(tag, a, v) SIM_STORE_AT(#tag, a, v)
#define count_one(a) store_rlx(a, load_rlx(a) + 1)

#define cas_rlx(tag, a, expected, v) SIM_CAS_AT(#tag, a, expected, v)
#define cas_acq(tag, a, expected, v) SIM_CAS_AT(#tag, a, expected, v)
#define cas_rel(tag, a, expected, v) SIM_CAS_AT(#tag, a, expected, v)
#define cas_acq_rel(tag, a, expected, v) SIM_CAS_AT(#tag, a, expected, v)

#define add_rlx(a, v) SIM_CHANGE_AT("", SIM_ADD, a, v)
#define add_acq(tag, a, v) SIM_CHANGE_AT(#tag, SIM_ADD, a, v)
#define add_rel(tag, a, v) SIM_CHANGE_AT(#tag, SIM_ADD, a, v)
#define add_acq_rel(tag, a, v) SIM_CHANGE_AT(#tag, SIM_ADD, a, v)
#define or_rlx(a, v) SIM_CHANGE_AT("", SIM_OR, a, v)
#define or_rel(tag, a, v) SIM_CHANGE_AT(#tag, SIM_OR, a, v)
#define and_rlx(a, v) SIM_CHANGE_AT("", SIM_AND, a, v)
#define and_acq(tag, a, v) SIM_CHANGE_AT(#tag, SIM_AND, a, v)
#define xchg_acq(tag, a, v) SIM_CHANGE_AT(#tag, SIM_XCHG, a, v)
#define xchg_rel(tag, a, v) SIM_CHANGE_AT(#tag, SIM_XCHG, a, v)

#define fence_sc(tag) sim_fence(SIM_SITE(#tag, SIM_FENCE))
#define fence_rmw_sc(tag) ((void)0)
#define fence_compiler() ((void)0)
#define recheck(tag, condition, otherwise) (condition)
#define plain_read(p, size) ((void)0) /* the compiler tells (plain.c) */
#define plain_write(p, size) ((void)0)

/* os.h's asymmetric pair. */
#define os_fence_light(tag) FENCE_LIGHT(tag)
#define os_fence_heavy(tag) sim_heavy(SIM_SITE(#tag, SIM_HEAVY))
#define os_settle_heavy(tag) sim_fence(SIM_SITE(#tag, SIM_FENCE))

/* weft.h's inline functions. */
#define WEFT_FORK_CHUNK 16384u
#define weft_store_rel(tag, a, v) store_rel(tag, a, v)
#define weft_store_rlx(a, v) store_rlx(a, v)
#define weft_load_rlx(a) load_rlx(a)
#define weft_fence_light(tag) ((void)0)

#endif
