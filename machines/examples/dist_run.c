/* dist_run.c: a program over the pieces of a range, on the ranks of an MPI job:
 *
 *     mpirun -np 4 dist_run CUTS END x264 --seek {begin} --frames {count} -o part{piece}.264 clip.y4m
 *
 * CUTS is a file with the index at which each piece begins, one a line. A piece is run by one worker of some rank; where the program
 * fails the job ends with its exit status, that of the lowest piece that failed. */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft_dist.h>

enum { WORDS = 64, WORD_BYTES = 1024 };

struct job {
    size_t *cuts; /* one more than pieces: the last is the end */
    size_t pieces;
    char **words;
};

static void word_fill(const char *pattern, const struct job *job, size_t piece, char *word) {
    const struct {
        const char *name;
        size_t value;
    } names[] = {{"{begin}", job->cuts[piece]},
                 {"{end}", job->cuts[piece + 1]},
                 {"{piece}", piece},
                 {"{count}", job->cuts[piece + 1] - job->cuts[piece]}};
    size_t used = 0;
    while (*pattern != 0 && used + 32 < WORD_BYTES) {
        size_t i = 0;
        while (i < 4 && strncmp(pattern, names[i].name, strlen(names[i].name)) != 0) i++;
        if (i == 4) {
            word[used++] = *pattern++;
            continue;
        }
        used += (size_t)snprintf(word + used, WORD_BYTES - used, "%zu", names[i].value);
        pattern += strlen(names[i].name);
    }
    word[used] = 0;
}

static int piece_run(const struct job *job, size_t piece) {
    char texts[WORDS][WORD_BYTES], *words[WORDS + 1];
    int count = 0, status;
    for (; job->words[count] != NULL && count < WORDS; count++) {
        word_fill(job->words[count], job, piece, texts[count]);
        words[count] = texts[count];
    }
    words[count] = NULL;
    if (count == 0) return 127;
    pid_t child;
    int error = posix_spawnp(&child, words[0], NULL, NULL, words, environ);
    if (error != 0) {
        fprintf(stderr, "dist_run: %s: %s\n", words[0], strerror(error));
        return 127;
    }
    if (waitpid(child, &status, 0) != child) return 126;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int body(size_t begin, size_t end, void *context, weft_worker *self) {
    int error = 0;
    weft_block_begin(self); /* this worker only waits for another process */
    for (size_t piece = begin; piece < end && error == 0; piece++) error = piece_run(context, piece);
    weft_block_end(self);
    return error;
}

static int cuts_read(struct job *job, const char *name, size_t end) {
    FILE *file = fopen(name, "r");
    char line[32], *rest = line;
    size_t before = 0, room = 0;
    if (file == NULL) return 0;
    while (fgets(line, sizeof line, file) != NULL) {
        size_t cut = strtoul(line, &rest, 10);
        if (rest == line || *rest != '\n' || cut >= end || (job->pieces > 0 && cut <= before)) break;
        if (job->pieces + 2 > room) job->cuts = realloc(job->cuts, (room = room * 2 + 64) * sizeof *job->cuts);
        if (job->cuts == NULL) break;
        job->cuts[job->pieces++] = before = cut;
        job->cuts[job->pieces] = end;
    }
    int is_whole = feof(file) && job->pieces > 0;
    fclose(file);
    return is_whole;
}

int main(int argc, char **argv) {
    int level;
    struct job job = {NULL, 0, argv + 3};
    if (argc < 4 || argc > WORDS + 3 || !cuts_read(&job, argv[1], strtoul(argv[2], NULL, 10))) {
        free(job.cuts);
        fprintf(stderr, "usage: dist_run CUTS END PROGRAM WORD...: CUTS has rising numbers below END, one a line\n");
        return 2;
    }
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    weft_pool *pool = NULL;
    weft_dist *dist = NULL;
    weft_config config;
    weft_config_init(&config);
    config.workers = 1;
    int error = weft_config_from_env(&config);
    if (error == WEFT_OK) error = weft_pool_create(&pool, &config);
    if (error == WEFT_OK) error = weft_dist_open(&dist, pool, MPI_COMM_WORLD, NULL);
    if (error != WEFT_OK) {
        fprintf(stderr, "dist_run: %s\n", weft_strerror(error));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    error = weft_dist_for(dist, (weft_range){0, job.pieces, 1}, body, &job);
    if (weft_dist_rank(dist) == 0 && error != WEFT_OK) fprintf(stderr, "dist_run: a piece failed with %d\n", error);
    weft_dist_close(&dist);
    weft_pool_destroy(&pool);
    MPI_Finalize();
    free(job.cuts);
    return error < 0 ? 1 : error;
}
