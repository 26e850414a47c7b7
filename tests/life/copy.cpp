// copy.cpp: the same in C++, where what the headers define is inline. Compiled with -fvisibility=hidden, as plugins should
// be.
#include "copy.h"

#include <weft.hpp>

#include <atomic>

static weft_pool *kept;

const char *copy_version() { return weft_version(); }

static unsigned add() { // not copy_again, which may be another copy's
    std::atomic<unsigned> count{0};
    weft::parallel_for(kept, 0, 100, [&](int) { count.fetch_add(1); });
    return count.load();
}

unsigned copy_work(unsigned tasks) {
    weft::pool pool(2);
    weft::group group(pool);
    std::atomic<unsigned> count{0};
    for (unsigned i = 0; i < tasks; i++) group.submit([&] { count.fetch_add(1); });
    group.wait();
    weft::parallel_for(pool, 0u, tasks, [&](unsigned) { count.fetch_add(1); });
    return count.load();
}

unsigned copy_keep() { return weft_pool_default(&kept) == WEFT_OK ? add() : 0; }
unsigned copy_again() { return add(); }
int copy_drop() { return weft_pool_destroy(&kept); }
