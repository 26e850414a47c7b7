/* lease.h: what one process has of the threads that all programs of a user share (the lease). Layer 3. See lease.c.
 *
 * A struct lease is one process's side. One thread at a time may use it (tokens.c: under its lock), but another may sleep on a copy
 * of its file meanwhile (os_lock_file_wait). */
#ifndef WEFT_LEASE_H
#define WEFT_LEASE_H

#include "os/os.h"

#define LEASE_TOKENS_MAX 1024u

struct lease {
    os_lock_file file;
    uint32_t tokens; /* of the machine, as this process counts them: bytes 0 to tokens - 1 */
    uint32_t held;   /* how many threads may run: the bytes in `mine`, and one by a pass */
    bool has_pass;   /* held is 1, by no byte */
    uint32_t hunger; /* a byte of HUNGRY, */
    bool is_hungry;  /* which it has locked */
    bool has_extra;  /* has locked EXTRA */
    bool waits;      /* has locked WAITS */
    uint64_t mine[LEASE_TOKENS_MAX / 64];
};

/* path, errors: as os_lock_file_open. tokens: above LEASE_TOKENS_MAX it is that. */
int lease_open(struct lease *lease, const char *path, uint32_t tokens);
/* Ends it with all that it holds. */
void lease_close(struct lease *lease);
/* In a forked child, for the lease of its parent, as it was when that forked, perhaps zeros: closes its descriptors. Drops no lock. */
void lease_forked(struct lease *lease);

/* One thread more may run, if there is a token for it; held counts it. is_waiting: if not, a thread of this process will wait until
 * os_lock_file_heard says so. Never waits. false: there is none; or the file does not work any more (lease->file.has_failed). */
bool lease_take(struct lease *lease, bool is_waiting);
/* One thread less. */
void lease_give(struct lease *lease);
/* No thread of this process waits any more; and, if not `runs`, none runs or wants to. */
void lease_rest(struct lease *lease, bool runs);
/* What others want of what this process holds: nothing; one of several tokens, for more than their first thread; one of several, at once,
 * for their first. Turns a pass into a token if one is free. */
enum lease_wish { LEASE_NOTHING, LEASE_WANTED, LEASE_NEEDED };
enum lease_wish lease_look(struct lease *lease);

#endif
