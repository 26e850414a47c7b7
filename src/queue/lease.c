/* lease.c: a number of threads that all programs of a user share, without a server. Layer 3.
 *
 * A token is a byte of one file, and to hold it is to have a lock on that byte, which the kernel ends with the process (os/lock_file.c).
 * There are as many tokens as the process may use CPUs: bytes 0 to N - 1. Programs that may use different numbers of CPUs count their
 * own number of bytes. Who looks for a token begins with its highest byte, so that the low ones stay for those with few.
 *
 * The first thread. Each program runs at least one thread, whatever the others do. If all tokens are taken, it may be that all
 * others run one thread each; then the program runs its first thread by a pass, without a token. Or others have more than one. They give
 * one back soon, and the program waits for that; for how long, its caller decides (tokens.c: 100 ms). For this there are more bytes:
 *   HUNGRY  a range, of which a program locks one byte: it wants to run its first thread, or runs it by a pass, and has no token
 *   EXTRA   which many lock together: they have more than one token, or are about to take one more than one
 *   WAITS   which many lock together: they want a token of any kind, and will sleep until they are told
 *
 * The rules.
 *   1. To take its first token: it looks for a free byte. If there is none, it locks one of HUNGRY, and then looks whether another has
 *      locked EXTRA. If nobody has, it has a pass. With its first token it drops HUNGRY.
 *   2. To take one more: it locks EXTRA, and then counts whom else it finds in HUNGRY. It takes a byte. If fewer bytes are free now than
 *      others are hungry, it puts the byte back before anything runs on it. With one token or none it drops EXTRA.
 *   3. Who has more than one looks from time to time (lease_look), and gives one back if more others are hungry than bytes are free. Who
 *      has a pass looks whether a byte is free.
 *   4. Who waits locks WAITS before it looks for a token. Who has dropped a byte, HUNGRY or EXTRA looks at WAITS afterwards, and tells;
 *      for an EXTRA by which it took nothing, only if others are hungry, whom it may have kept from a pass.
 *
 * How many threads run. Never more than N, or one for each program. Either each thread has a byte; or some run by a pass. By 1 these have
 * locked HUNGRY, and after that nobody had EXTRA, so each had one token. By 2 nobody then gets more unless a byte stays free for
 * each pass, because of the two, the lock on HUNGRY and that on EXTRA, one came first, and is
 * seen by the program that made the other. (The kernel orders all locks on a file.) Only a first thread may take that byte, beside a
 * pass whose program does not look, in a long task or stopped; then there is one thread more until one with several tokens looks (3).
 * For that a program must have been hungry, so with at most N programs there is no such case.
 * What tokens.c lets run without either is in addition: threads in calls, and workers after the grace.
 *
 * Nobody sleeps beside a free token, or a pass that it could have. By 4: the lock on WAITS came before the look; so who frees something
 * after that look sees WAITS. What a killed process held, its end tells. Two waiting pools of one process: see tokens.c. Those that
 * wait do not tell each other without end: before 2 it looks at HUNGRY, and locks nothing if it would put the byte back.
 *
 * What it costs: for each thread that begins and stops three to six system calls; where tokens are short, as many as there are tokens
 * besides, at most once a millisecond for a caller (tokens.c). */
#include "queue/lease.h"

#include <string.h>

enum { HUNGRY = 0x10000, HUNGRY_BYTES = 0x400, EXTRA = 0x20000, WAITS };

int lease_open(struct lease *lease, const char *path, uint32_t tokens) {
    memset(lease, 0, sizeof *lease);
    lease->tokens = (uint32_t)min_u64(tokens, LEASE_TOKENS_MAX);
    lease->hunger = HUNGRY + os_process_id() % HUNGRY_BYTES; /* others begin elsewhere */
    return os_lock_file_open(path, &lease->file);
}

void lease_close(struct lease *lease) { os_lock_file_close(&lease->file); }

void lease_forked(struct lease *lease) { os_lock_file_forked(&lease->file); }

static bool is_locked(struct lease *lease, uint32_t byte) { return os_lock_file_count(&lease->file, byte, 1) > 0; }

static void tell_waiting(struct lease *lease) {
    if (is_locked(lease, WAITS)) os_lock_file_tell(&lease->file);
}

static uint64_t *word_of(struct lease *lease, uint32_t byte) { return &lease->mine[byte / 64]; }

static bool is_mine(struct lease *lease, uint32_t byte) { return (*word_of(lease, byte) >> byte % 64 & 1) != 0; }

/* LEASE_TOKENS_MAX: none is free. */
static uint32_t take_byte(struct lease *lease) {
    for (uint32_t byte = lease->tokens; byte-- > 0;) {
        if (is_mine(lease, byte) || !os_lock_file_hold(&lease->file, byte, false)) continue;
        *word_of(lease, byte) |= UINT64_C(1) << byte % 64;
        return byte;
    }
    return LEASE_TOKENS_MAX;
}

static void drop_byte(struct lease *lease, uint32_t byte) {
    *word_of(lease, byte) &= ~(UINT64_C(1) << byte % 64);
    os_lock_file_drop(&lease->file, byte);
}

/* The lowest one, which those with few look for. */
static uint32_t lowest_byte(struct lease *lease) {
    uint32_t byte = 0;
    while (!is_mine(lease, byte)) byte++;
    return byte;
}

/* More others are hungry than bytes are free, but for `less` of these. */
static bool others_need(struct lease *lease, uint32_t less) {
    uint32_t needed = os_lock_file_count(&lease->file, HUNGRY, HUNGRY_BYTES);
    if (needed == 0) return false;
    needed += less;
    for (uint32_t byte = 0; byte < lease->tokens && needed > 0; byte++)
        if (!is_mine(lease, byte) && !is_locked(lease, byte)) needed--;
    return needed > 0;
}

static bool lock_hungry(struct lease *lease) {
    for (uint32_t i = 0; i < HUNGRY_BYTES && !lease->is_hungry; i++) {
        lease->is_hungry = os_lock_file_hold(&lease->file, lease->hunger, false);
        if (!lease->is_hungry) lease->hunger = HUNGRY + (lease->hunger + 1) % HUNGRY_BYTES;
    }
    return lease->is_hungry;
}

static void drop_hungry(struct lease *lease) {
    if (!lease->is_hungry) return;
    lease->is_hungry = false;
    os_lock_file_drop(&lease->file, lease->hunger);
    tell_waiting(lease);
}

static bool drop_extra(struct lease *lease) {
    if (!lease->has_extra || lease->held > 1) return false;
    lease->has_extra = false;
    os_lock_file_drop(&lease->file, EXTRA);
    return true;
}

/* Rule 1. */
static bool take_first(struct lease *lease) {
    bool has_byte = take_byte(lease) < LEASE_TOKENS_MAX;
    lease->has_pass = !has_byte && lock_hungry(lease) && !is_locked(lease, EXTRA);
    lease->held = has_byte || lease->has_pass;
    if (has_byte) drop_hungry(lease);
    return lease->held > 0;
}

/* Rule 2. */
static bool take_more(struct lease *lease) {
    if (others_need(lease, 1)) return false;
    if (!lease->has_extra) lease->has_extra = os_lock_file_hold(&lease->file, EXTRA, true);
    uint32_t byte = lease->has_extra ? take_byte(lease) : LEASE_TOKENS_MAX;
    bool puts_back = byte < LEASE_TOKENS_MAX && others_need(lease, 0);
    bool has_one = byte < LEASE_TOKENS_MAX && !puts_back;
    if (puts_back) drop_byte(lease, byte);
    lease->held += has_one;
    bool may_have_kept = drop_extra(lease) && os_lock_file_count(&lease->file, HUNGRY, HUNGRY_BYTES) > 0;
    if (puts_back || may_have_kept) tell_waiting(lease);
    return has_one;
}

static bool turn_pass_into_byte(struct lease *lease) {
    if (take_byte(lease) == LEASE_TOKENS_MAX) return false;
    lease->has_pass = false;
    drop_hungry(lease);
    return true;
}

static bool take_any(struct lease *lease) {
    if (lease->has_pass && !turn_pass_into_byte(lease)) return false;
    return lease->held == 0 ? take_first(lease) : take_more(lease);
}

bool lease_take(struct lease *lease, bool is_waiting) {
    os_lock_file_check(&lease->file);
    if (is_waiting && !lease->waits) {
        (void)os_lock_file_heard(&lease->file); /* it listens from now on */
        lease->waits = os_lock_file_hold(&lease->file, WAITS, true);
    }
    bool has_taken = take_any(lease);
    while (!has_taken && is_waiting && os_lock_file_heard(&lease->file)) has_taken = take_any(lease);
    return has_taken && !lease->file.has_failed;
}

void lease_give(struct lease *lease) {
    os_lock_file_check(&lease->file);
    lease->held--;
    if (lease->has_pass) {
        lease->has_pass = false;
        drop_hungry(lease);
        return;
    }
    drop_byte(lease, lowest_byte(lease));
    (void)drop_extra(lease);
    tell_waiting(lease);
}

void lease_rest(struct lease *lease, bool runs) {
    if (lease->waits || (!runs && lease->is_hungry)) os_lock_file_check(&lease->file);
    if (lease->waits) {
        lease->waits = false;
        os_lock_file_drop(&lease->file, WAITS);
    }
    if (!runs) drop_hungry(lease);
}

enum lease_wish lease_look(struct lease *lease) {
    os_lock_file_check(&lease->file);
    if (lease->has_pass) (void)turn_pass_into_byte(lease);
    if (lease->held <= 1) return LEASE_NOTHING;
    if (others_need(lease, 0)) return LEASE_NEEDED;
    return is_locked(lease, WAITS) ? LEASE_WANTED : LEASE_NOTHING;
}
