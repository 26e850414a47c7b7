#include <stdio.h>
#include <weft.h>

struct job {
    int number;
    int *square; /* where the result goes */
};

static int square(void *payload, weft_worker *self) {
    const struct job *job = payload; /* the task's own copy */
    (void)self;
    *job->square = job->number * job->number;
    return 0;
}

int main(void) {
    int squares[4];
    weft_pool *pool;
    weft_group group = WEFT_GROUP_INIT;
    int error = weft_pool_create(&pool, NULL); /* one worker for each CPU */
    if (error != WEFT_OK) {
        fprintf(stderr, "hello: %s\n", weft_strerror(error));
        return 1;
    }
    for (int i = 0; i < 4 && error == WEFT_OK; i++) {
        struct job job = {i + 1, &squares[i]};
        error = weft_submit(pool, &group, square, &job, sizeof job);
    }
    int failed = weft_group_wait(pool, &group); /* runs tasks of the group, then sleeps until all have finished */
    if (error == WEFT_OK) error = failed;
    if (error == WEFT_OK) printf("%d %d %d %d\n", squares[0], squares[1], squares[2], squares[3]);
    weft_pool_destroy(&pool);
    return error;
}
