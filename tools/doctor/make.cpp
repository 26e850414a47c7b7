// Under make: do pools share its tokens? Asked of one that tries.
#include "doctor.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <weft.h>

std::vector<Finding> findings_make(const DoctorOptions &options) {
    const char *flags = getenv("MAKEFLAGS");
    if (!options.root.empty() || flags == nullptr || strstr(flags, "--jobserver-") == nullptr) return {};
    Finding found("make's tokens", "pools share them", "each program has a worker for every CPU, beside make's other jobs");
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
    const char *wish = getenv("WEFT_JOBSERVER");
    if (wish != nullptr && strcmp(wish, "off") == 0) found.now += "; WEFT_JOBSERVER=off";
    return {found};
}
