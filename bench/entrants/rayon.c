/* rayon behind the entrant's table; its functions are in rayon/src/lib.rs. */
#include "../entrant.h"

void *rayon_create(uint32_t workers);
void rayon_destroy(void *pool);
void rayon_enter(void *pool, void (*body)(void *), void *arg);
int rayon_submit(void *pool, entrant_fn fn, const void *payload, size_t size);

static void *create(const struct entrant_config *config) { return rayon_create(config->workers); }

static int enter(void *pool, void (*body)(void *), void *arg) {
    rayon_enter(pool, body, arg);
    return 0;
}

static int wait(void *pool) {
    (void)pool;
    return 0; /* the scope's end has waited */
}

const struct entrant weft_entrant = {
    .version = ENTRANT_VERSION,
    .flags = ENTRANT_NESTED | ENTRANT_FORK_JOIN,
    .name = "rayon",
    .text = "rayon, spawned into an in-place scope",
    .workers_min = 1,
    .payload_max = 1024,
    .create = create,
    .enter = enter,
    .submit = rayon_submit,
    .wait = wait,
    .destroy = rayon_destroy,
};
