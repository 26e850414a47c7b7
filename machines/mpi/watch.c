/* watch.c: each rank says about once a second what it holds, and that it lives; where memory is not shared also what it has held for
 * LOOK_NS, for a message to each chunk would be as many as the fetches. Rank 0 looks. A rank that is silent inside a call
 * is dead or cut off, and the job is aborted: it could not end. A rank that has not come to the call is named, for it may be busy
 * with something else. The other ranks look whether rank 0 answers: what they say is confirmed to them; where memory is shared, they
 * read whether it lives. */
#include "dist.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BEAT_NS UINT64_C(1000000000)

static uint64_t silence_ns(const weft_dist *dist) { return ns_of(dist->config.silence_ms); }

static uint64_t beat_ns(const weft_dist *dist) {
    uint64_t part = silence_ns(dist) / 4;
    return part < BEAT_NS ? part : BEAT_NS;
}

void watch_enter(weft_dist *dist) {
    uint64_t now = now_ns();
    dist->call++;
    dist->has_met = false; /* rank 0 may be elsewhere still, and answer nobody */
    int watched = dist->rank == 0 ? dist->ranks : 1;
    for (int rank = 0; rank < watched; rank++) {
        dist->seen[rank].since_ns = now;
        dist->seen[rank].silent_ns = dist->seen[rank].named_ns = 0;
    }
    dist->awake_ns = dist->looked_ns = now;
    watch_hold(dist, 0);
    watch_say(dist, true);
}

/* Where memory is shared any worker may say it. */
void watch_hold(weft_dist *dist, uint64_t held) {
    if (dist->is_near) {
        word_store(dist, WORD_OF(dist->rank) + 1, held);
        return;
    }
    dist->held = held;
    dist->held_ns = now_ns();
}

/* It has been long since this rank has said something, or has had a chunk that it has not told of. */
static bool say_is_due(const weft_dist *dist, uint64_t now) {
    return now - dist->said_ns >= beat_ns(dist) || (dist->held != dist->said[1] && now - dist->held_ns >= LOOK_NS);
}

/* Time since the last look, but no more than this rank can have been awake: one that was stopped does not accuse others. */
static uint64_t awake_since(const weft_dist *dist, uint64_t then, uint64_t now) {
    return now - then < beat_ns(dist) ? now - then : beat_ns(dist);
}

static void said_await(weft_dist *dist, uint64_t now) {
    dist->unheard_ns += awake_since(dist, dist->awake_ns, now);
    dist->awake_ns = now;
    if (dist->has_met && dist->unheard_ns > silence_ns(dist)) dist_abort(dist, "rank 0 does not answer", MPI_SUCCESS);
}

/* Fetched, so that its end says that rank 0 has it. */
static void say(weft_dist *dist) {
    dist_must(dist,
              MPI_Rget_accumulate(dist->said, RANK_WORDS, MPI_UINT64_T, dist->unsaid, RANK_WORDS, MPI_UINT64_T, 0,
                                  WORD_OF(dist->rank), RANK_WORDS, MPI_UINT64_T, MPI_REPLACE, dist->window, &dist->saying),
              "rank 0 cannot be told");
}

/* `now`: or when it is due. What is still on its way is not overtaken. */
void watch_say(weft_dist *dist, bool now) {
    uint64_t time = now_ns();
    if (!dist_test(dist, &dist->saying, "rank 0 cannot be told")) {
        said_await(dist, time);
        return;
    }
    dist->awake_ns = time;
    dist->unheard_ns = 0;
    if (!now && !say_is_due(dist, time)) return;
    const uint64_t words[RANK_WORDS] = {dist->call, dist->held, ++dist->beat};
    dist->said_ns = time;
    memcpy(dist->said, words, sizeof words);
    if (!dist->is_near) {
        say(dist);
        return;
    }
    word_store(dist, WORD_OF(dist->rank), words[0]);
    word_store(dist, WORD_OF(dist->rank) + 2, words[2]);
}

/* ---- rank 0 -------------------------------------------------------------------------------------------------------- */

static void name_rank(weft_dist *dist, int rank, uint64_t now) {
    struct seen *seen = &dist->seen[rank];
    uint64_t limit = ns_of(dist->config.watchdog_ms);
    uint64_t since = seen->since_ns, last = seen->named_ns == 0 ? since : seen->named_ns;
    uint64_t wait = seen->named_ns == 0 ? limit : last - since; /* then twice as long, and so on */
    bool is_here = seen->words[0] == dist->call;
    if (limit == 0 || now - last < wait || (is_here && seen->words[1] == 0)) return;
    seen->named_ns = now;
    double seconds = (double)(now - since) / 1e9;
    if (!is_here)
        fprintf(stderr, "weft_dist: rank %d has not come to call %" PRIu64 " for %.1f s\n", rank, dist->call, seconds);
    else
        fprintf(stderr, "weft_dist: rank %d has had the chunk from index %" PRIu64 " for %.1f s\n", rank, seen->words[1] - 1,
                seconds);
}

static void rank_look(weft_dist *dist, int rank, uint64_t now) {
    struct seen *seen = &dist->seen[rank];
    const uint64_t *words = dist->look + RANK_WORDS * (size_t)rank;
    seen->silent_ns = words[2] != seen->words[2] ? 0 : seen->silent_ns + awake_since(dist, dist->looked_ns, now);
    if (words[0] != seen->words[0] || words[1] != seen->words[1]) {
        seen->since_ns = now;
        seen->named_ns = 0;
    }
    memcpy(seen->words, words, sizeof seen->words);
    if (dist->rank == 0) name_rank(dist, rank, now);
    if (rank == dist->rank || words[0] != dist->call || seen->silent_ns <= silence_ns(dist)) return;
    char what[160];
    snprintf(what, sizeof what, "rank %d has been silent for %.1f s%s", rank, (double)seen->silent_ns / 1e9,
             words[1] == 0 ? "" : ", holding a chunk");
    dist_abort(dist, what, MPI_SUCCESS);
}

/* On rank 0 all of them; elsewhere rank 0. */
static void ranks_look(weft_dist *dist, uint64_t now) {
    int count = dist->rank == 0 ? dist->ranks : 1;
    for (int rank = 0; rank < count; rank++) rank_look(dist, rank, now);
    dist->looked_ns = now;
}

static uint64_t look_step(const weft_dist *dist) {
    uint64_t step = beat_ns(dist) / 2, watchdog = ns_of(dist->config.watchdog_ms) / 4;
    return watchdog > 0 && watchdog < step ? watchdog : step;
}

void watch_look(weft_dist *dist) {
    const char *what = "the ranks' words cannot be read";
    if (dist->rank != 0 && !dist->is_near) return;
    uint64_t now = now_ns();
    int count = dist->rank == 0 ? RANK_WORDS * dist->ranks : RANK_WORDS;
    if (dist->looking != MPI_REQUEST_NULL) {
        if (dist_test(dist, &dist->looking, what)) ranks_look(dist, now);
        return;
    }
    if (now - dist->looked_ns < look_step(dist)) return;
    for (int i = 0; dist->is_near && i < count; i++) dist->look[i] = word_load(dist, WORD_OF(0) + i);
    if (dist->is_near) {
        ranks_look(dist, now);
        return;
    }
    dist_must(dist,
              MPI_Rget_accumulate(NULL, 0, MPI_UINT64_T, dist->look, count, MPI_UINT64_T, 0, WORD_OF(0), count, MPI_UINT64_T,
                                  MPI_NO_OP, dist->window, &dist->looking),
              what);
}

void watch_end(weft_dist *dist) {
    unsigned turn = 0;
    while (!dist_test(dist, &dist->saying, "rank 0 cannot be told") ||
           !dist_test(dist, &dist->looking, "the ranks' words cannot be read"))
        dist_nap(dist, &turn);
}
