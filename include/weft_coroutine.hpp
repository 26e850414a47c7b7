/* weft_coroutine.hpp: weft for C++20 coroutines, over weft.hpp.
 *
 *     weft::co<int> decode(weft_pool *pool, frame &f) {
 *         weft::group slices(pool);
 *         for (slice &s : f.slices) slices.submit([&] { decode_slice(s); });
 *         co_await slices;                                  // no thread waits here; throws what a task has thrown
 *         co_return f.checksum();
 *     }
 *     int checksum = weft::sync_wait(pool, decode(pool, f)); // or weft::spawn(group, ...), or co_await in another
 *
 * A coroutine that awaits an unfinished group goes on as a task of the pool when that has finished, on any thread; of a
 * finished one, at once. It counts in the group that it was spawned into until its end: that group's wait waits for it, and
 * throws what it has thrown. Should its task never run, because its group was cancelled or the pool aborted, co_await throws
 * WEFT_ECANCELED, or what the awaited group has failed with by then, on the thread that drops the task: so coroutines always
 * end, and what they hold is freed. That is why a co awaits what is here alone: another co, a group, resume_on. Coroutines
 * of other types may await these, too. What a coroutine throws out of itself on that thread is dropped: the wait throws
 * WEFT_ECANCELED, or what a task that ran has thrown.
 *
 * A co that another awaits takes no stack where the compiler makes tail calls of them: clang always, gcc from -O2 or with
 * -foptimize-sibling-calls, neither under AddressSanitizer or ThreadSanitizer. Else each that ends without having waited
 * leaves its caller's stack a little deeper until that one waits: some ten thousand of them in one loop overflow it.
 *
 * Copyright the weft authors. MIT licence, see LICENSE.
 */
#ifndef WEFT_COROUTINE_HPP
#define WEFT_COROUTINE_HPP

#include <weft.hpp>

#if !defined(__cpp_impl_coroutine)
#error "weft_coroutine.hpp needs coroutines: C++20, and a compiler that has them"
#endif

#include <coroutine>

namespace weft {
inline namespace WEFT_WAYS WEFT_SEEN {

namespace detail {

struct group_parts {
    static failures &thrown(group &of) noexcept { return of.thrown; }
};

/// Where a spawned coroutine, and those that it awaits, count.
struct co_root {
    group *home = nullptr;
    int *report = nullptr; ///< the code that the task which runs it now will return
};

/// Part of an awaiter. The task that resumes a coroutine knows its frame by address: if the frame is destroyed before, the
/// program ends.
class sleeper {
  public:
    sleeper() = default;
    sleeper(const sleeper &) = delete;
    sleeper &operator=(const sleeper &) = delete;
    ~sleeper() {
        if (sleeps) std::terminate();
    }
    void set(bool now) noexcept { sleeps = now; }

  private:
    bool sleeps = false;
};

/// What this thread is about to queue. A submission that finds the queue full may run the task itself: then the coroutine goes
/// on where it is, when the submission has returned, and not on top of it, where each such await would take more of the stack.
class queueing {
  public:
    explicit queueing(void *frame) noexcept : mine(frame), outer(std::exchange(newest, this)) {}
    queueing(const queueing &) = delete;
    queueing &operator=(const queueing &) = delete;
    ~queueing() { newest = outer; }
    bool is_here() const noexcept { return here; } ///< its task has run
    static bool met(void *frame) noexcept {
        for (queueing *one = newest; one != nullptr; one = one->outer)
            if (one->mine == frame) return one->here = true;
        return false;
    }

  private:
    void *mine;
    queueing *outer;
    bool here = false;
    static inline constinit thread_local queueing *newest = nullptr;
};

/// A suspended coroutine as a task's payload.
struct resumption {
    void *frame;
    co_root *root; ///< or NULL
    int *code;     ///< told when it will not be resumed by its task

    static int run(void *payload, weft_worker *self) noexcept {
        const resumption it = *static_cast<const resumption *>(payload);
        int result = WEFT_OK;
        if (self == nullptr) *it.code = WEFT_ECANCELED;
        if (queueing::met(it.frame)) return WEFT_OK;
        if (it.root != nullptr) it.root->report = &result;
        std::coroutine_handle<>::from_address(it.frame).resume(); // may end the root
        return result;
    }
};
inline constexpr weft_object resumption_type = {sizeof(resumption), resumption::run, nullptr};

} // namespace detail

class resume_on;
template <class T> class co;

namespace detail {

struct co_promise {
    static group &await_transform(group &after) noexcept { return after; }
    static resume_on await_transform(const resume_on &to) noexcept;
    template <class T> static co<T> &&await_transform(co<T> &&child) noexcept { return std::move(child); }

    struct ending {
        bool await_ready() const noexcept { return false; }
        template <class P> std::coroutine_handle<> await_suspend(std::coroutine_handle<P> ended) const noexcept {
            return ended.promise().next;
        }
        void await_resume() const noexcept {}
    };
    std::suspend_always initial_suspend() const noexcept { return {}; }
    ending final_suspend() const noexcept { return {}; }
    void unhandled_exception() noexcept { thrown = std::current_exception(); }
    void rethrow() {
#if defined(__cpp_exceptions)
        if (thrown) std::rethrow_exception(std::move(thrown));
#endif
    }

    co_root *root = nullptr;
    std::coroutine_handle<> next{}; ///< who awaits it
    std::exception_ptr thrown{};
};

template <class T> class co_promise_of : public co_promise {
  public:
    template <class U = T> void return_value(U &&result) { value.emplace(std::forward<U>(result)); }
    T take() {
        rethrow();
        return std::move(*value);
    }

  private:
    std::optional<T> value{};
};
template <> class co_promise_of<void> : public co_promise {
  public:
    void return_void() const noexcept {}
    void take() { rethrow(); }
};

/// The outermost coroutine, which destroys itself at its end.
struct root_task {
    struct promise_type : co_root {
        root_task get_return_object() noexcept { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() const noexcept { return {}; }
        std::suspend_never final_suspend() const noexcept { return {}; }
        void return_void() const noexcept {}
        void unhandled_exception() noexcept { *report = group_parts::thrown(*home).keep(); }
    };
    std::coroutine_handle<promise_type> handle;

    static int start(void *payload, weft_worker *self) noexcept {
        auto handle = std::coroutine_handle<promise_type>::from_address(*static_cast<void **>(payload));
        if (self == nullptr) {
            handle.destroy();
            return WEFT_OK;
        }
        int result = WEFT_OK;
        handle.promise().report = &result;
        handle.resume();
        return result;
    }
    static constexpr weft_object type = {sizeof(void *), start, nullptr};
};

template <class P> co_root *root_of(std::coroutine_handle<P> of) noexcept {
    if constexpr (std::is_base_of_v<co_promise, P>)
        return of.promise().root;
    else if constexpr (std::is_base_of_v<co_root, P>)
        return &of.promise();
    else
        return nullptr;
}

} // namespace detail

/// A coroutine that returns a T. It begins when it is spawned, or awaited, on the awaiting thread. It can be awaited once: after
/// that, and after a move, awaiting throws WEFT_EINVAL. It is destroyed with this object; if it waits for a group at that time,
/// the program ends.
template <class T = void> class [[nodiscard]] co {
    static_assert(!std::is_reference_v<T>, "a coroutine returns a value; return a pointer instead");

  public:
    struct promise_type : detail::co_promise_of<T> {
        co get_return_object() noexcept { return co(std::coroutine_handle<promise_type>::from_promise(*this)); }
    };
    co(co &&other) noexcept : handle(std::exchange(other.handle, nullptr)) {}
    co &operator=(co other) noexcept {
        std::swap(handle, other.handle);
        return *this;
    }
    ~co() {
        if (handle) handle.destroy();
    }

    /// Runs it to its end. Returns its result, or throws what it has thrown.
    auto operator co_await() &&noexcept { return awaiter{handle && !handle.promise().next ? handle : nullptr}; }

  private:
    struct awaiter {
        std::coroutine_handle<promise_type> child; ///< NULL: none that could begin
        bool await_ready() const noexcept { return !child; }
        template <class P> std::coroutine_handle<> await_suspend(std::coroutine_handle<P> parent) const noexcept {
            child.promise().next = parent;
            child.promise().root = detail::root_of(parent);
            return child;
        }
        T await_resume() const {
            if (!child) detail::fail(WEFT_EINVAL, "co_await weft::co");
            return child.promise().take();
        }
    };
    explicit co(std::coroutine_handle<promise_type> made) noexcept : handle(made) {}
    std::coroutine_handle<promise_type> handle;
};

namespace detail {

inline root_task root_of_all(co<> work) { co_await std::move(work); }

class group_awaiter {
  public:
    explicit group_awaiter(group &awaited) noexcept : after(awaited) {}

    bool await_ready() noexcept { return ends(); }
    template <class P> bool await_suspend(std::coroutine_handle<P> waiting) noexcept {
        return queue(detail::root_of(waiting), waiting.address());
    }
    void await_resume() {
        asleep.set(false);
        if (is_told) check(mine.rethrow(result), "co_await weft::group"); // the group may be gone
        if (!is_over) check(code, "co_await weft::group");                // it was dropped, or could not be queued
        if (is_told) return;
        if (!is_over) { // of another pool than the coroutine's
            use = group_parts::thrown(after).use();
            code = weft_group_wait(after.pool(), after.native());
        }
        check(group_parts::thrown(after).rethrow(code, use), "co_await weft::group");
    }

  private:
    struct payload {
        resumption task;
        group_awaiter *waits;
    };
    static constexpr weft_object type = {sizeof(payload), resumption::run, nullptr}; // which reads `task` alone

    /// The group has finished. If this wait does not end it, it may be gone.
    static void tell(void *of, int result, int has_ended) noexcept {
        group_awaiter *it = static_cast<payload *>(of)->waits;
        it->result = result;
        it->is_told = true;
        if (has_ended == 0) return;
        failures &thrown = group_parts::thrown(it->after);
        thrown.take(result, thrown.use(), it->mine);
    }

    /// Waits until a moment that has passed.
    bool ends() noexcept {
        use = group_parts::thrown(after).use();
        code = weft_group_wait_until(after.pool(), after.native(), WEFT_HELP_NONE, 1);
        is_over = code != WEFT_ETIMEDOUT;
        return is_over;
    }

    /// After a successful submission, another thread may continue the coroutine and destroy this object. Not inline: a compiler
    /// could keep what stands on the stack in the coroutine's frame.
    [[gnu::noinline]] bool queue(co_root *root, void *frame) noexcept {
        code = WEFT_OK;
        if (root != nullptr && root->home->pool() != after.pool()) return false; // its group cannot be kept from there
        payload it{{frame, root, &code}, this};
        const weft_after groups = {after.native(), root == nullptr ? nullptr : root->home->native()};
        queueing now(frame);
        do {
            code = WEFT_OK;
            asleep.set(true);
            const int error = weft_submit_await(after.pool(), groups, &type, &it, tell);
            if (error == WEFT_OK) return !now.is_here();
            asleep.set(false);
            code = error;
            if (error != 1) return false;
        } while (!ends()); // it has finished, or goes on
        return false;
    }

    group &after;
    int code = WEFT_OK;
    int result = WEFT_OK;   ///< the group's, if is_told
    std::uint64_t use = 0;  ///< of the group, when this was about to wait
    bool is_over = false;   ///< and `code` is what the group's wait returned
    bool is_told = false;   ///< it was suspended, and the group has finished
    failures::taken mine{}; ///< if its own wait has ended the group
    sleeper asleep{};
};

} // namespace detail

/// Suspends until the group has finished; throws as its wait does, also if another wait has ended the group: if several wait, one
/// gets the exception. In a coroutine that belongs to this group it throws WEFT_EDEADLK. Coroutines of types other than co may
/// await it, too: they continue as tasks of the pool's own group. In a coroutine that was spawned in another pool, the thread
/// waits. What is submitted to the group after it has ended is not waited for, and does not give its error. The coroutine does
/// not touch the group when it goes on: it may have been destroyed by then.
inline detail::group_awaiter operator co_await(group &after) noexcept { return detail::group_awaiter(after); }

namespace detail {

class resumer {
  public:
    explicit resumer(group &where) noexcept : to(where) {}
    bool await_ready() const noexcept { return false; }
    template <class P> bool await_suspend(std::coroutine_handle<P> waiting) noexcept {
        return queue(detail::root_of(waiting), waiting.address());
    }
    void await_resume() {
        asleep.set(false);
        check(code, "weft::resume_on");
    }

  private:
    [[gnu::noinline]] bool queue(co_root *root, void *frame) noexcept { // as in group_awaiter
        group &home = root == nullptr ? to : *root->home;
        resumption it{frame, root, &code};
        int error = WEFT_EINVAL;
        asleep.set(true);
        queueing now(it.frame);
        if (home.pool() == to.pool()) error = weft_submit_object(home.pool(), home.native(), &resumption_type, &it);
        if (error == WEFT_OK) return !now.is_here();
        asleep.set(false);
        code = error;
        return false;
    }

    group &to;
    int code = WEFT_OK;
    sleeper asleep{};
};

} // namespace detail

/// `co_await weft::resume_on(group)`: continues as a new task of the group's pool, after what is queued; where the queue is full and
/// weft_submit would run a task at once, at once. A spawned coroutine still belongs to its own group, which must be of that pool:
/// otherwise it throws WEFT_EINVAL.
class resume_on {
  public:
    explicit resume_on(group &where) noexcept : to(&where) {}
    detail::resumer operator co_await() const noexcept { return detail::resumer(*to); }

  private:
    group *to;
};

inline resume_on detail::co_promise::await_transform(const resume_on &to) noexcept { return to; }

/// Begins the coroutine as a task of the group, which does not finish before the coroutine has. Throws the error of weft_submit;
/// then the coroutine has been destroyed.
inline void spawn(group &where, co<> work) {
    detail::root_task root = detail::root_of_all(std::move(work));
    root.handle.promise().home = &where;
    void *frame = root.handle.address();
    int error = weft_submit_object(where.pool(), where.native(), &detail::root_task::type, &frame);
    if (error == WEFT_OK) return;
    root.handle.destroy();
    detail::fail(error, "weft::spawn");
}

/// Runs the coroutine on the pool, waits for its end and helps. Returns its result, or throws what it has thrown. In a
/// task whose own group the coroutine awaits, neither could end: it throws WEFT_EDEADLK if this thread runs the coroutine at
/// that time, and ends the program if another does.
template <class T> T sync_wait(weft_pool *pool, co<T> work) {
    using kept = std::conditional_t<std::is_void_v<T>, bool, T>;
    std::optional<kept> result;
    auto keep = [](co<T> inner, std::optional<kept> &to) -> co<> {
        if constexpr (std::is_void_v<T>) {
            co_await std::move(inner);
            to.emplace(true);
        } else {
            to.emplace(co_await std::move(inner));
        }
    };
    group counted(pool);
    weft::spawn(counted, keep(std::move(work), result));
    counted.wait();
    if (!result) detail::fail(WEFT_ECANCELED, "weft::sync_wait"); // the pool was aborted
    if constexpr (!std::is_void_v<T>) return std::move(*result);
}

} // namespace WEFT_SEEN
} // namespace weft

#endif
