/* rayon behind the table of patterns; its functions are in entrants/rayon/src/patterns.rs. */
#include "../patterns.h"

void *rayon_create(uint32_t workers);
void rayon_destroy(void *pool);
uint64_t rayon_fib(void *pool, unsigned n);
uint64_t rayon_nqueens(void *pool, unsigned n);
uint64_t rayon_uts(void *pool, const struct uts_tree *tree);
int rayon_loop(void *pool, const struct pattern_loop *loop);
void *rayon_graph_make(void *pool, const struct pattern_graph *graph);
int rayon_graph_run(void *pool, void *made);

static void *create(const struct entrant_config *config) { return rayon_create(config->workers); }

const struct patterns weft_patterns = {
    .version = PATTERNS_VERSION,
    .name = "rayon",
    .text = "rayon: install, join, par_iter, spawn with counters",
    .workers_min = 1,
    .create = create,
    .destroy = rayon_destroy,
    .fib = rayon_fib,
    .nqueens = rayon_nqueens,
    .uts = rayon_uts,
    .loop = rayon_loop,
    .graph_make = rayon_graph_make,
    .graph_run = rayon_graph_run,
};
