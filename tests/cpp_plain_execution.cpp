// weft_execution.hpp where exceptions and RTTI are off: compiled, and not run.
#include <utility>
#include <weft_execution.hpp>

int scheduled_value(weft_pool *pool);
int scheduled_value(weft_pool *pool) {
    auto work = stdexec::schedule(weft::scheduler(pool)) | stdexec::then([] { return 1; });
    auto done = stdexec::sync_wait(std::move(work));
    return done ? std::get<0>(*done) : 0;
}
