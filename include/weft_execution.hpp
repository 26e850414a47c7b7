/* weft_execution.hpp: a weft pool as a scheduler of senders (P2300), over stdexec, which must be found by the compiler.
 *
 *     weft::pool pool;
 *     auto work = stdexec::schedule(weft::scheduler(pool)) | stdexec::then([] { return decode(); });
 *     auto [frame] = stdexec::sync_wait(std::move(work)).value();
 *
 * What is scheduled is a task, of the pool's own group or of the one given; its operation state is the task's payload by
 * pointer: nothing is allocated. A task that is dropped, because its group was cancelled or the pool aborted, completes with
 * set_stopped on the thread that drops it; so does one whose receiver's stop token was asked to stop before it begins. When
 * weft_submit gives an error, set_error has a weft::error; without exceptions, that ends the program. stdexec::sync_wait
 * blocks its thread and does not help: not inside tasks. A group can be urgent or in the background, and still has to be
 * waited for.
 *
 * Copyright the weft authors. MIT licence, see LICENSE.
 */
#ifndef WEFT_EXECUTION_HPP
#define WEFT_EXECUTION_HPP

#include <weft.hpp>

#if __cplusplus < 202002L
#error "weft_execution.hpp needs C++20"
#endif
#if !__has_include(<stdexec/execution.hpp>)
#error                                                                                                                      \
    "weft_execution.hpp needs stdexec, NVIDIA's reference implementation of P2300: headers alone; give the compiler their directory (-I)"
#endif
#include <stdexec/execution.hpp>

namespace weft {
inline namespace WEFT_WAYS WEFT_SEEN {

/// A small value, copied and compared like a pointer. The pool or the group must outlive the scheduled work.
class scheduler {
    template <class Receiver> class operation;
    class sender;

  public:
    using scheduler_concept = stdexec::scheduler_t;

    explicit scheduler(weft_pool *pool) noexcept : home(pool), counts(nullptr) {}
    explicit scheduler(group &in) noexcept : home(in.pool()), counts(in.native()) {}

    sender schedule() const noexcept;
    bool operator==(const scheduler &) const = default;

    auto query(stdexec::get_forward_progress_guarantee_t) const noexcept {
        return stdexec::forward_progress_guarantee::parallel;
    }
    auto query(stdexec::get_completion_scheduler_t<stdexec::set_value_t>) const noexcept { return *this; }

  private:
    weft_pool *home;
    weft_group *counts; ///< NULL: the pool's own
};

/// Lives from connect until its receiver has got the result.
template <class Receiver> class scheduler::operation {
  public:
    using operation_state_concept = stdexec::operation_state_t;

    operation(const scheduler &where, Receiver &&receiver) : at(where), to(std::move(receiver)) {}
    operation(operation &&) = delete;

    void start() &noexcept {
        operation *self = this;
        int error = weft_submit_object(at.home, at.counts, &type, &self);
        if (error != WEFT_OK) stdexec::set_error(std::move(to), failure(error));
    }

  private:
    static std::exception_ptr failure(int error) noexcept {
#if defined(__cpp_exceptions)
        try {
            return std::make_exception_ptr(weft::error(error, "weft::scheduler"));
        } catch (...) {
            return std::current_exception(); // no memory for its text
        }
#else
        detail::fail(error, "weft::scheduler");
#endif
    }
    static int run(void *payload, weft_worker *worker) noexcept {
        operation *self = *static_cast<operation **>(payload);
        if (worker == nullptr || stdexec::get_stop_token(stdexec::get_env(self->to)).stop_requested())
            stdexec::set_stopped(std::move(self->to));
        else
            stdexec::set_value(std::move(self->to));
        return 0;
    }
    static constexpr weft_object type = {sizeof(operation *), run, nullptr};

    scheduler at;
    Receiver to;
};

class scheduler::sender {
    struct environment {
        scheduler at;
        auto query(stdexec::get_completion_scheduler_t<stdexec::set_value_t>) const noexcept { return at; }
    };

  public:
    using sender_concept = stdexec::sender_t;
    using completion_signatures = stdexec::completion_signatures<stdexec::set_value_t(), stdexec::set_stopped_t(),
                                                                 stdexec::set_error_t(std::exception_ptr)>;

    explicit sender(const scheduler &where) noexcept : at(where) {}

    template <class Receiver> operation<Receiver> connect(Receiver receiver) const {
        return operation<Receiver>(at, std::move(receiver));
    }
    environment get_env() const noexcept { return {at}; }

  private:
    scheduler at;
};

inline scheduler::sender scheduler::schedule() const noexcept { return sender(*this); }

} // namespace WEFT_SEEN
} // namespace weft

#endif
