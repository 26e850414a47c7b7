/* dist_run.c: a program over the pieces of a range, on the ranks of an MPI job:
 *
 *     mpirun -np 4 dist_run CUTS END x264 --seek {begin} --frames {count} -o part{piece}.264 clip.y4m
 *
 * CUTS is a file with the index at which each piece begins, one a line. A piece is run by one worker of some rank; where the program
 * fails the job ends with its exit status, that of the lowest piece that failed. */
#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft_dist.h>

enum { WORDS = 64 };

struct job {
    size_t *cuts; /* one more than pieces: the last is the end */
    size_t pieces;
    char **words;
};

/* 20 digits at most stand for 5 characters. */
static size_t word_room(const char *pattern) { return 4 * strlen(pattern) + 1; }

/* Where the next word may stand. */
static char *word_fill(const char *pattern, const struct job *job, size_t piece, char *word) {
    const struct {
        const char *name;
        size_t value;
    } names[] = {{"{begin}", job->cuts[piece]},
                 {"{end}", job->cuts[piece + 1]},
                 {"{piece}", piece},
                 {"{count}", job->cuts[piece + 1] - job->cuts[piece]}};
    const char *end = word + word_room(pattern);
    while (*pattern != 0) {
        size_t i = 0;
        while (i < 4 && strncmp(pattern, names[i].name, strlen(names[i].name)) != 0) i++;
        if (i == 4) {
            *word++ = *pattern++;
            continue;
        }
        word += snprintf(word, (size_t)(end - word), "%zu", names[i].value);
        pattern += strlen(names[i].name);
    }
    *word = 0;
    return word + 1;
}

/* A worker of weft blocks nearly all signals, and a child would inherit that: SIGTERM or an alarm would never reach it. */
static int spawn(pid_t *child, char **words) {
    posix_spawnattr_t how;
    sigset_t none;
    sigemptyset(&none);
    int error = posix_spawnattr_init(&how);
    if (error != 0) return error;
    error = posix_spawnattr_setsigmask(&how, &none);
    if (error == 0) error = posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK);
    if (error == 0) error = posix_spawnp(child, words[0], NULL, &how, words, environ);
    posix_spawnattr_destroy(&how);
    return error;
}

static int piece_run(const struct job *job, size_t piece) {
    char *words[WORDS + 1] = {NULL};
    size_t room = 0;
    int status;
    pid_t child;
    for (int i = 0; i < WORDS && job->words[i] != NULL; i++) room += word_room(job->words[i]);
    if (room == 0) return 127;
    char *text = malloc(room), *next = text;
    for (int i = 0; i < WORDS && job->words[i] != NULL && text != NULL; i++) {
        words[i] = next;
        next = word_fill(job->words[i], job, piece, next);
    }
    int error = text != NULL ? spawn(&child, words) : ENOMEM;
    free(text);
    if (error != 0) {
        fprintf(stderr, "dist_run: %s: %s\n", job->words[0], strerror(error));
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

/* The text is a number, and at most a line's end behind it. */
static bool number_read(const char *text, size_t *number) {
    char *rest;
    errno = 0;
    *number = strtoul(text, &rest, 10);
    return isdigit((unsigned char)*text) && errno == 0 && (*rest == 0 || strcmp(rest, "\n") == 0);
}

static bool cut_add(struct job *job, const char *line, size_t end) {
    size_t cut;
    if (!number_read(line, &cut) || cut >= end || (job->pieces > 0 && cut <= job->cuts[job->pieces - 1])) return false;
    size_t *cuts = realloc(job->cuts, (job->pieces + 2) * sizeof *cuts);
    if (cuts == NULL) return false;
    job->cuts = cuts;
    cuts[job->pieces++] = cut;
    cuts[job->pieces] = end;
    return true;
}

static bool cuts_read(struct job *job, const char *name, const char *last) {
    FILE *file = fopen(name, "r");
    char line[32];
    size_t end;
    if (file == NULL) return false;
    bool is_good = number_read(last, &end);
    while (is_good && fgets(line, sizeof line, file) != NULL) is_good = cut_add(job, line, end);
    is_good = is_good && !ferror(file) && job->pieces > 0;
    fclose(file);
    return is_good;
}

int main(int argc, char **argv) {
    int level;
    struct job job = {NULL, 0, argv + 3};
    if (argc < 4 || argc > WORDS + 3 || !cuts_read(&job, argv[1], argv[2])) {
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
