#include <stdio.h>
#include <weft.h>

static int fib(weft_fork_slot *here, int n);
WEFT_FORK(fib, int, int)

static int fib(weft_fork_slot *here, int n) {
    if (n < 2) return n;
    int less = n - 1;
    weft_fork_slot *deeper = fib_fork(here, &less); /* may run on another thread from now on */
    int other = fib(deeper, n - 2);
    return fib_join(here, &less) + other;
}

int main(void) {
    weft_pool *pool;
    weft_fork_slot *here;
    if (weft_pool_create(&pool, NULL) != WEFT_OK || weft_fork_enter(pool, &here) != WEFT_OK) return 1;
    printf("%d\n", fib(here, 32));
    weft_fork_leave(here);
    weft_pool_destroy(&pool);
    return 0;
}
