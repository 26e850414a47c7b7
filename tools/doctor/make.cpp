// Under make: can pools that ask for it share its tokens? A pool that asks is made, and has no tasks.
#include "doctor.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <weft.h>

std::vector<Finding> findings_make(const DoctorOptions &options) {
    const char *flags = getenv("MAKEFLAGS");
    if (!options.root.empty() || flags == nullptr || strstr(flags, "--jobserver-") == nullptr) return {};
    Finding found("make's tokens", "pools with WEFT_JOBSERVER=1 share them",
                  "each program has a worker for every CPU, beside make's other jobs");
    weft_config config;
    weft_config_init(&config);
    config.flags = WEFT_POOL_JOBSERVER;
    weft_pool *pool = nullptr;
    weft_real_time outcome{};
    outcome.struct_size = sizeof outcome;
    if (weft_pool_create(&pool, &config) != WEFT_OK) return {};
    weft_pool_real_time(pool, &outcome);
    weft_pool_destroy(&pool);
    found.judge(outcome.jobserver_errno == 0);
    if (outcome.jobserver_errno != 0) {
        found.now = std::string("not for this program: ") + strerror(outcome.jobserver_errno);
        if (outcome.jobserver_errno == EBADF) found.command = "begin the recipe's line with +";
    }
    return {found};
}
