// See idle.hpp. Through the public header alone.
#include "idle.hpp"

#include <weft.h>

#include <atomic>
#include <cstdio>
#include <ctime>
#include <stdexcept>
#include <string>

static double clock_ms(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

static void sleep_seconds(double seconds) {
    timespec left{};
    left.tv_sec = static_cast<time_t>(seconds);
    left.tv_nsec = static_cast<long>((seconds - static_cast<double>(left.tv_sec)) * 1e9);
    clock_nanosleep(CLOCK_MONOTONIC, 0, &left, nullptr);
}

static void require(int error, const char *what) {
    if (error != WEFT_OK) throw std::runtime_error(std::string(what) + ": " + weft_strerror(error));
}

static int count_task(void *payload, weft_worker *) {
    (*static_cast<std::atomic<unsigned> **>(payload))->fetch_add(1, std::memory_order_relaxed);
    return 0;
}

// A flood of tiny tasks, all of them run at the end.
static void burst(weft_pool *pool, unsigned tasks) {
    std::atomic<unsigned> ran{0};
    std::atomic<unsigned> *payload = &ran;
    weft_group group = WEFT_GROUP_INIT;
    for (unsigned i = 0; i < tasks; i++)
        require(weft_submit(pool, &group, count_task, &payload, sizeof payload), "weft_submit");
    require(weft_group_wait(pool, &group), "weft_group_wait");
    if (ran != tasks) throw std::runtime_error("tasks are missing");
}

static void idle_row(unsigned workers, const IdleOptions &options) {
    weft_config config;
    weft_config_init(&config);
    config.workers = workers;
    weft_pool *pool = nullptr;
    require(weft_pool_create(&pool, &config), "weft_pool_create");
    burst(pool, options.tasks);
    double cpu_ms = clock_ms(CLOCK_PROCESS_CPUTIME_ID);
    sleep_seconds(options.seconds);
    cpu_ms = clock_ms(CLOCK_PROCESS_CPUTIME_ID) - cpu_ms;
    unsigned running = weft_pool_workers(pool);
    double end_ms = clock_ms(CLOCK_MONOTONIC);
    require(weft_pool_destroy(&pool), "weft_pool_destroy");
    end_ms = clock_ms(CLOCK_MONOTONIC) - end_ms;
    printf("%7u  %13.3f  %12.3f\n", running, cpu_ms, end_ms);
}

int idle_main(const IdleOptions &options) {
    printf("After %u tiny tasks: CPU time of the whole process in %g s without any, and the pool's end.\n", options.tasks,
           options.seconds);
    printf("workers  idle CPU (ms)  destroy (ms)\n");
    for (unsigned workers : options.workers) idle_row(workers, options);
    return 0;
}
