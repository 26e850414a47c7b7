/* weft.hpp: weft for C++17, over weft.h alone. Nothing to link but weft itself.
 *
 *     weft::pool pool;
 *     weft::group group(pool);
 *     group.submit([&] { left = decode(a); });
 *     group.submit([&] { right = decode(b); });
 *     group.wait();                                       // helps; rethrows what a task threw
 *     auto sum = pool.async([=] { return left + right; }); // a weft::future<int>
 *     use(sum.get());
 *     weft::parallel_for(pool, 0, rows, [&](int row) { filter(row); });
 *
 * weft_patterns.hpp, which comes with it, has pool, invoke, parallel_for and parallel_for_tiles, reduce, sort and graph.
 *
 * Every weft_pool * parameter accepts a weft::pool, and a pool created in C works as well.
 *
 * Callables are decayed and called once, as rvalues. A task's callable is stored in the queue itself, without allocation, if
 * it fits WEFT_INLINE_MAX and is trivially copyable or has a move that cannot throw; otherwise it costs one allocation. It
 * is destroyed before its task counts as finished, even if it never runs. A task returns void, or int as a weft_fn does, and
 * may take the weft_worker * that runs it.
 *
 * The wait rethrows what a task has thrown; if several threw, that of the task submitted first, as in weft_group_wait. Every
 * other failure is a weft::error with a WEFT_* code (or the number that a task returned), or std::bad_alloc. Functions that
 * take a std::error_code & store the code there instead of throwing; tasks' exceptions still pass through. Without
 * exceptions (-fno-exceptions), an error ends the program with a message. The numbers below INT_MIN / 4 are not for tasks to
 * return: weft.hpp uses them for what tasks have thrown, and for those of their codes that a wait could return as its own.
 *
 * Copyright the weft authors. MIT licence, see LICENSE.
 */
#ifndef WEFT_HPP
#define WEFT_HPP

#if __cplusplus < 201703L
#error "weft.hpp needs C++17 or later; weft.h serves C++11"
#endif

#include <weft.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#if !defined(WEFT_PREFIX)
#define WEFT_NAME(name) name
#endif
#if defined(WEFT_STATIC)
#define WEFT_SEEN WEFT_API
#else
#define WEFT_SEEN
#endif
#if defined(__cpp_exceptions)
#define WEFT_TRY try
#define WEFT_CATCH catch (...)
#define WEFT_WAYS WEFT_NAME(throwing)
#else
#define WEFT_TRY if constexpr (true)
#define WEFT_CATCH else
#define WEFT_WAYS WEFT_NAME(aborting)
#endif

namespace weft {
inline namespace WEFT_WAYS WEFT_SEEN { // units with and without exceptions, and other copies of weft, can be linked together

// ---- errors ------------------------------------------------------------------------------------------------------------

namespace detail {

class category final : public std::error_category {
  public:
    const char *name() const noexcept override { return "weft"; }

    std::string message(int code) const override {
        return code > 0 ? "a task returned " + std::to_string(code) : weft_strerror(code);
    }

    std::error_condition default_error_condition(int code) const noexcept override {
        switch (code) {
        case WEFT_EINVAL: return std::errc::invalid_argument;
        case WEFT_ENOMEM: return std::errc::not_enough_memory;
        case WEFT_EAGAIN: return std::errc::resource_unavailable_try_again;
        case WEFT_EDEADLK: return std::errc::resource_deadlock_would_occur;
        case WEFT_ETIMEDOUT: return std::errc::timed_out;
        case WEFT_ECANCELED: return std::errc::operation_canceled;
        default: return {code, *this};
        }
    }
};

} // namespace detail

/// The category of WEFT_* codes and of the numbers that tasks return.
inline const std::error_category &category() noexcept {
    static const detail::category instance;
    return instance;
}

/// A WEFT_* code, or the number that a task returned, as an exception: code().value() is the number.
class error : public std::system_error {
  public:
    error(int code, const char *what) : std::system_error(code, category(), what) {}
};

namespace detail {

[[noreturn]] inline void fail(int code, const char *what) {
#if defined(__cpp_exceptions)
    throw error(code, what);
#else
    std::fprintf(stderr, "%s: %s\n", what, category().message(code).c_str());
    std::abort();
#endif
}

inline void check(int code, const char *what) {
    if (code != WEFT_OK) detail::fail(code, what);
}

/// The exceptions that tasks have thrown. Each exception gets a number, which its task returns: so the number that the group
/// reports selects the exception. A group that has ended may be in use again before its wait asks here. So each exception is
/// also stored with the group's id, which is a different one then.
/// Tasks may return codes by which a wait says that it could not wait, such as WEFT_ETIMEDOUT. These are translated (`told`).
/// So if a wait returns such a code, the group goes on, unless a task of weft.h has returned it.
class failures {
  public:
    explicit failures(const weft_group *counted = nullptr) noexcept : of(counted) {}
    failures(const failures &) = delete;
    failures &operator=(const failures &) = delete;
    ~failures() { drop(newest); }

    /// The id that the group has now. Called by a wait before it begins, and by a task.
    std::uint64_t use() const noexcept { return of == nullptr ? 0 : __atomic_load_n(&of->id, __ATOMIC_RELAXED); }

    /// Call inside a catch clause, on any thread.
    int keep() noexcept {
        auto *mine = new (std::nothrow) failure{nullptr, use(), 0, std::current_exception()};
        if (mine == nullptr) return told(WEFT_ENOMEM);
        const std::lock_guard<std::mutex> guard(lock);
        mine->code = INT_MIN + static_cast<int>(count++ % kept_most);
        mine->next = newest;
        newest = mine;
        return mine->code;
    }

    /// What a task returns in place of its code.
    static constexpr int told(int code) noexcept { return code >= 0 || is_end(code) ? code : told_zero + code; }

  private:
    struct failure {
        failure *next;
        std::uint64_t use;
        int code;
        std::exception_ptr what;
    };

    static void drop(failure *list) noexcept {
        while (list != nullptr) delete std::exchange(list, list->next);
    }

  public:
    /// What a wait has taken from here: its exception, and others, whose destructors are the user's.
    class taken {
      public:
        taken() = default;
        taken(const taken &) = delete;
        taken &operator=(const taken &) = delete;
        ~taken() { drop(others); }

        /// Throws the exception if there is one; otherwise returns what the number means.
        int rethrow(int number) {
#if defined(__cpp_exceptions)
            if (what) std::rethrow_exception(std::move(what));
#endif
            return number < told_zero && number >= told_zero - told_most ? number - told_zero : number;
        }

      private:
        friend class failures;
        std::exception_ptr what{};
        failure *others = nullptr;
    };

    /// Takes the exception of that number, and the others of that use of the group: unless the number says that not all its tasks
    /// have ended. Then a later wait asks for them.
    void take(int number, std::uint64_t in, taken &to) noexcept {
        if (!is_end(number)) return;
        const std::lock_guard<std::mutex> guard(lock);
        for (failure *it = newest; it != nullptr; it = it->next) {
            if (it->code != number) continue;
            to.what = std::move(it->what);
            in = it->use;
        }
        for (failure **link = &newest; *link != nullptr;) {
            failure *it = *link;
            if (it->use != in) {
                link = &it->next;
                continue;
            }
            *link = it->next;
            it->next = to.others;
            to.others = it;
        }
    }

    int rethrow(int number, std::uint64_t in = 0) {
        taken mine;
        take(number, in, mine);
        return mine.rethrow(number);
    }

  private:
    static constexpr unsigned kept_most = 1u << 30; ///< numbers of exceptions, from INT_MIN up
    static constexpr int told_most = 64;            ///< more than there are WEFT_* codes
    static constexpr int told_zero = INT_MIN + static_cast<int>(kept_most) + told_most;

    /// Of a wait's result. false: nothing was thrown, or the wait could not be.
    static constexpr bool is_end(int code) noexcept {
        switch (code) {
        case WEFT_OK:
        case WEFT_EINVAL:
        case WEFT_ENOMEM:
        case WEFT_EAGAIN:
        case WEFT_ESHUTDOWN:
        case WEFT_EDEADLK:
        case WEFT_EFORK:
        case WEFT_ETIMEDOUT:
        case WEFT_EBUSY: return false;
        default: return true;
        }
    }
    const weft_group *of; ///< NULL: of no group, and in use once
    std::mutex lock{};    ///< of the next two
    failure *newest = nullptr;
    unsigned count = 0;
};

// ---- callables as payloads ---------------------------------------------------------------------------------------------

/// Calls f as a task's function: what it throws goes to `sink`.
template <class F, class... Args> int call(failures *sink, F &&f, Args... args) noexcept {
    using result = std::invoke_result_t<F, Args...>;
    static_assert(std::is_void_v<result> || std::is_same_v<result, int>, "a task returns void or int");
    WEFT_TRY {
        if constexpr (std::is_void_v<result>) {
            std::invoke(std::forward<F>(f), args...);
            return 0;
        } else {
            return failures::told(std::invoke(std::forward<F>(f), args...));
        }
    }
    WEFT_CATCH { return sink->keep(); }
}

/// The callable of a task, or of a graph's node, may take its worker. A call with a type of the user's is qualified, as is taking an
/// address: their namespace may have functions of that name.
template <class F> int call_task(failures *sink, F &&f, [[maybe_unused]] weft_worker *self) noexcept {
    if constexpr (std::is_invocable_v<F, weft_worker *>)
        return detail::call(sink, std::forward<F>(f), self);
    else
        return detail::call(sink, std::forward<F>(f));
}

template <class F> struct task {
    failures *sink;
    F f;
    int run(weft_worker *self) noexcept { return detail::call_task(sink, std::move(f), self); }
};

/// Payloads are aligned to this.
inline constexpr std::size_t payload_align = 16;

/// A type that is not trivially copyable, as a weft_object. For a greater alignment, the payload is larger and the object is
/// aligned inside it.
template <class T> struct object {
    static constexpr std::size_t padding = alignof(T) > payload_align ? alignof(T) - payload_align : 0;
    static constexpr std::size_t size = sizeof(T) + padding;

    static void *place(void *payload) noexcept {
        auto address = reinterpret_cast<std::uintptr_t>(payload);
        return static_cast<char *>(payload) + ((alignof(T) - address % alignof(T)) % alignof(T));
    }
    static void move(void *payload, void *from) noexcept { ::new (place(payload)) T(std::move(*static_cast<T *>(from))); }
    static int run(void *payload, weft_worker *self) noexcept {
        T *it = std::launder(static_cast<T *>(place(payload)));
        struct end {
            T *it;
            ~end() { it->~T(); }
        } ended{it};
        return self == nullptr ? 0 : it->run(self);
    }
    static constexpr weft_object type = {size, run, move};
};

template <class T> int run_bytes(void *payload, weft_worker *self) noexcept {
    return std::launder(static_cast<T *>(payload))->run(self);
}

/// A callable that cannot be stored in the queue.
template <class F> struct boxed {
    std::unique_ptr<F> f;
    template <class... Args> auto operator()(Args... args) -> std::invoke_result_t<F, Args...> {
        return std::invoke(std::move(*f), args...);
    }
};

/// How a T travels: as bytes, as an object, or (neither) boxed.
template <class T>
inline constexpr bool is_bytes = std::is_trivially_copyable_v<T> && alignof(T) <= payload_align &&
                                 sizeof(T) <= WEFT_INLINE_MAX;
template <class T>
inline constexpr bool is_object = std::is_nothrow_move_constructible_v<T> &&object<T>::size <= WEFT_INLINE_MAX;

template <class T> int submit_task(weft_pool *pool, weft_group *group, T &&it) {
    if constexpr (is_bytes<T>)
        return weft_submit_plain(pool, group, run_bytes<T>, std::addressof(it),
                                 sizeof it); // a pool's clean is for payloads of C
    else
        return weft_submit_object(pool, group, &object<T>::type, std::addressof(it));
}

template <class F> int submit_boxed(weft_pool *pool, weft_group *group, failures *sink, std::unique_ptr<F> f) {
    return f ? detail::submit_task(pool, group, task<boxed<F>>{sink, {std::move(f)}}) : int{WEFT_ENOMEM};
}

template <class F> int submit(weft_pool *pool, weft_group *group, failures *sink, F &&f) {
    using kept = std::decay_t<F>;
    static_assert(std::is_invocable_v<kept> || std::is_invocable_v<kept, weft_worker *>, "a task is called with nothing, or "
                                                                                         "with its weft_worker *");
    if constexpr (is_bytes<task<kept>> || is_object<task<kept>>)
        return detail::submit_task(pool, group, task<kept>{sink, std::forward<F>(f)});
    else
        return detail::submit_boxed(pool, group, sink, std::unique_ptr<kept>(new (std::nothrow) kept(std::forward<F>(f))));
}

struct group_parts; // weft_coroutine.hpp

/// For waits of destructors: a thread that is new to the pool found no memory or no place in it. Then it is to try again, after
/// this has given the CPU to others. In a task WEFT_EAGAIN says that every other thread waits already.
inline bool is_shortage(const weft_pool *pool, int code) noexcept {
    const weft_worker *self = weft_worker_here();
    bool is_new = self == nullptr || weft_worker_pool(self) != pool;
    if (code != WEFT_ENOMEM && (code != WEFT_EAGAIN || !is_new)) return false;
    std::this_thread::yield();
    return true;
}

inline std::uint64_t nanoseconds(std::chrono::steady_clock::time_point deadline) noexcept {
    auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.time_since_epoch()).count();
    return since > 0 ? static_cast<std::uint64_t>(since) : 1;
}

} // namespace detail

// ---- groups ------------------------------------------------------------------------------------------------------------

/// A set of tasks to wait for. The destructor waits, so tasks may refer to objects that were constructed before the group; it
/// drops errors that no wait has reported. Must be destroyed before its pool. Any thread may submit. Several threads and coroutines
/// may wait: one of them gets the exception, the others a weft::error; one that begins when the group has ended finds no tasks and
/// no error. Once it has ended, it may be destroyed although coroutines that were suspended in a co_await of it have not gone on yet.
class group {
  public:
    /// `flags`: those of a weft_group: WEFT_GROUP_CANCEL_ON_ERROR, _DROP_LATE, _URGENT, _BACKGROUND.
    explicit group(weft_pool *pool, std::uint32_t flags = 0) noexcept : home(pool), counted{0, flags, 0} {}
    group(const group &) = delete;
    group &operator=(const group &) = delete;

    /// Ends the program if one of the group's own tasks calls it, because it cannot wait for that task, or a task of an ordered
    /// pool in which every other thread waits already.
    ~group() {
        if (has_ended()) return;
        int code = weft_group_wait(home, &counted);
        while (!has_ended() && detail::is_shortage(home, code)) code = weft_group_wait(home, &counted);
        if (!has_ended() && code != WEFT_EFORK) std::terminate();
    }

    /// Queues f. Throws the error of weft_submit (WEFT_ECANCELED if the group is cancelled); then f has been destroyed.
    template <class F> void submit(F &&f) {
        detail::check(detail::submit(home, &counted, &thrown, std::forward<F>(f)), "weft::group::submit");
    }
    template <class F> void submit(F &&f, std::error_code &error) {
        error.assign(detail::submit(home, &counted, &thrown, std::forward<F>(f)), category());
    }

    /// Waits for all tasks, and helps. Throws the error that weft_group_wait returns, or the exception of the task. Afterwards
    /// the group can be used again.
    void wait() { detail::check(wait_code(), "weft::group::wait"); }
    void wait(std::error_code &error) { error.assign(wait_code(), category()); }

    /// The same with a deadline. false: the deadline has passed, and tasks are unfinished.
    bool wait_until(std::chrono::steady_clock::time_point deadline, weft_help help = WEFT_HELP_BELOW) {
        const std::uint64_t use = thrown.use();
        int code = weft_group_wait_until(home, &counted, help, detail::nanoseconds(deadline));
        if (code == WEFT_ETIMEDOUT) return false;
        detail::check(thrown.rethrow(code, use), "weft::group::wait_until");
        return true;
    }

    /// Tasks that have not started never run; their callables are destroyed. The group must still be waited for.
    void cancel() { detail::check(weft_group_cancel(home, &counted), "weft::group::cancel"); }

    /// Makes the group urgent until its wait ends, including the tasks queued before.
    void boost() { detail::check(weft_group_boost(home, &counted), "weft::group::boost"); }

    /// Sets the moment by which the group should have finished; if it is later, its wait throws WEFT_ELATE. The group is urgent
    /// until its wait ends. See weft_group_deadline.
    void deadline(std::chrono::steady_clock::time_point when) {
        detail::check(weft_group_deadline(home, &counted, detail::nanoseconds(when)), "weft::group::deadline");
    }

    weft_pool *pool() const noexcept { return home; }
    /// For calls of weft.h. A wait of weft.h returns numbers below INT_MIN / 4 for what tasks of `submit` have thrown, which is
    /// then kept until the group goes, and for some of their codes. A task of weft.h must not return a code by which a wait
    /// says that it could not wait: WEFT_EINVAL to WEFT_ETIMEDOUT, and WEFT_EBUSY.
    weft_group *native() noexcept { return &counted; }

  private:
    friend struct detail::group_parts;
    /// By this thread, or by one that ended it for a coroutine.
    bool has_ended() const noexcept { return __atomic_load_n(&counted.id, __ATOMIC_ACQUIRE) == 0; }
    int wait_code() {
        const std::uint64_t use = thrown.use();
        return thrown.rethrow(weft_group_wait(home, &counted), use);
    }
    weft_pool *home;
    weft_group counted;
    detail::failures thrown{&counted};
};

// ---- futures -----------------------------------------------------------------------------------------------------------

namespace detail {

/// The state that a future and its task share. The task is in the pool's queue. Either a worker or the future's wait begins it,
/// whichever comes first; the wait calls it as a function. A wait sleeps only if the task already runs elsewhere; meanwhile it
/// helps with tasks that this one has submitted. That is what the group is for.
class promise {
  public:
    promise(const promise &) = delete;
    promise &operator=(const promise &) = delete;

    /// Waits until the task has run, here or elsewhere. Only the future's thread calls this, so a task that runs here has called
    /// it itself.
    int wait() noexcept {
        state now = queued;
        if (begun.compare_exchange_strong(now, here, std::memory_order_acquire)) {
            run();
            begun.store(done, std::memory_order_release);
            return WEFT_OK;
        }
        switch (now) {
        case here: return WEFT_EDEADLK;
        case dropped: return WEFT_ECANCELED;
        case elsewhere: return wait_elsewhere();
        case queued:
        case done: break;
        }
        return WEFT_OK;
    }

    weft_pool *pool() const noexcept { return home; }

    bool is_ready() const noexcept {
        const state now = begun.load(std::memory_order_acquire);
        return now == done || now == dropped;
    }

    /// Called on a worker: runs the task unless it has begun. If there is no memory for the group, the future has to run it.
    void run_queued() noexcept {
        if (begun.load(std::memory_order_relaxed) != queued) return;
        weft_run(home, &group, run_elsewhere, this);
        weft_group_wait(home, &group); // ends the group: the future may outlive the pool
        state now = elsewhere;
        begun.compare_exchange_strong(now, done, std::memory_order_release);
    }

    /// The task will not run on a worker any more.
    void drop() noexcept {
        state now = queued;
        begun.compare_exchange_strong(now, dropped, std::memory_order_acq_rel);
    }

    /// Destroys callable, result and exception.
    virtual void clear() noexcept = 0;

    void rethrow() {
#if defined(__cpp_exceptions)
        if (thrown) std::rethrow_exception(std::move(thrown));
#endif
    }

  protected:
    explicit promise(weft_pool *pool) noexcept : home(pool) {}
    ~promise() = default;
    void set_thrown(std::exception_ptr what) noexcept { thrown = std::move(what); }

  private:
    enum state { queued, here, elsewhere, done, dropped };

    /// The worker may say a little later that the task is done.
    int wait_elsewhere() noexcept {
        const int code = weft_group_wait(home, &group);
        state now = elsewhere;
        if (__atomic_load_n(&group.id, __ATOMIC_ACQUIRE) == 0)
            begun.compare_exchange_strong(now, done, std::memory_order_release, std::memory_order_relaxed);
        return code;
    }
    virtual void run() noexcept = 0;
    static int run_elsewhere(void *payload, weft_worker *) noexcept {
        auto *it = static_cast<promise *>(payload);
        state now = queued;
        if (it->begun.compare_exchange_strong(now, elsewhere, std::memory_order_acq_rel)) it->run();
        return 0;
    }

    weft_pool *home;
    weft_group group = WEFT_GROUP_INIT;
    std::atomic<state> begun{queued};
    std::exception_ptr thrown{};
};

/// The queue's share of a promise.
class queued_promise {
  public:
    explicit queued_promise(std::shared_ptr<promise> shared) noexcept : it(std::move(shared)) {}
    queued_promise(queued_promise &&) noexcept = default;
    queued_promise &operator=(queued_promise &&) = delete;
    ~queued_promise() {
        if (it) it->drop();
    }
    int run(weft_worker *) noexcept {
        it->run_queued();
        it.reset();
        return 0;
    }

  private:
    std::shared_ptr<promise> it;
};

/// Adds the result.
template <class T> class promise_of : public promise {
  public:
    T get() {
        if constexpr (std::is_reference_v<T>)
            return static_cast<T>(**value);
        else if constexpr (!std::is_void_v<T>)
            return std::move(*value);
    }

  protected:
    using promise::promise;
    ~promise_of() = default;
    template <class F> void keep(F &&f) {
        if constexpr (std::is_void_v<T>) {
            std::invoke(std::forward<F>(f));
        } else if constexpr (std::is_reference_v<T>) {
            T result = std::invoke(std::forward<F>(f));
            value.emplace(std::addressof(result));
        } else {
            value.emplace(std::invoke(std::forward<F>(f)));
        }
    }
    void forget() noexcept {
        value.reset();
        this->set_thrown(nullptr);
    }

  private:
    struct nothing {};
    using pointer = std::remove_reference_t<T> *;
    using stored = std::conditional_t<std::is_void_v<T>, nothing, std::conditional_t<std::is_reference_v<T>, pointer, T>>;
    std::optional<stored> value{};
};

/// Adds the callable.
template <class T, class F> class promise_by final : public promise_of<T> {
  public:
    template <class G> promise_by(weft_pool *pool, G &&g) : promise_of<T>(pool), f(std::forward<G>(g)) {}

  private:
    void run() noexcept override {
        WEFT_TRY { this->keep(std::move(*f)); }
        WEFT_CATCH { this->set_thrown(std::current_exception()); }
        f.reset();
    }
    void clear() noexcept override {
        f.reset();
        this->forget();
    }
    std::optional<F> f;
};

} // namespace detail

/// The result of async, for one thread at a time. One allocation holds callable and result. Like std::async's, the
/// destructor waits; in the callable itself it ends the program, as in a task of an ordered pool in which every other thread
/// waits already. In a forked child it leaves alone what a thread of the parent has begun.
template <class T> class [[nodiscard]] future {
  public:
    future() noexcept = default;
    future(future &&other) noexcept = default;
    future &operator=(future other) noexcept {
        std::swap(shared, other.shared);
        return *this;
    }
    ~future() {
        if (!shared) return;
        int code = shared->wait();
        while (detail::is_shortage(shared->pool(), code)) code = shared->wait();
        if (code != WEFT_OK && code != WEFT_ECANCELED && code != WEFT_EFORK) std::terminate();
        if (code != WEFT_EFORK) shared->clear();
    }

    /// Whether there is a result to get.
    bool valid() const noexcept { return shared != nullptr; }

    /// Whether get() and wait() would return at once. Afterwards it stays so.
    bool is_ready() const noexcept { return shared && shared->is_ready(); }

    /// Waits until the callable has returned or thrown. If no worker has begun it, calls it at once on this thread, also in
    /// a pool that is ordered or has WEFT_POOL_NO_HELP. Throws
    /// WEFT_ECANCELED if the pool was aborted first, WEFT_EDEADLK in the callable itself, and WEFT_EINVAL if not valid().
    void wait() { detail::check(wait_code(), "weft::future::wait"); }

    /// Waits, then returns the result or throws what the callable threw. Can be called once: afterwards the future is not valid(),
    /// nor is it after WEFT_ECANCELED.
    T get() {
        int code = wait_code();
        if (code != WEFT_ECANCELED) detail::check(code, "weft::future::get");
        future last(std::move(*this));
        detail::check(code, "weft::future::get");
        last.shared->rethrow();
        return last.shared->get();
    }

  private:
    using promise = detail::promise_of<T>;
    explicit future(std::shared_ptr<promise> made) noexcept : shared(std::move(made)) {}
    int wait_code() noexcept { return shared ? shared->wait() : int{WEFT_EINVAL}; }
    template <class F> friend future<std::invoke_result_t<std::decay_t<F>>> async(weft_pool *pool, F &&f);

    std::shared_ptr<promise> shared;
};

/// Queues f, which takes nothing, and returns its result as a future. From any thread. Throws the error of weft_submit.
template <class F> future<std::invoke_result_t<std::decay_t<F>>> async(weft_pool *pool, F &&f) {
    using result = std::invoke_result_t<std::decay_t<F>>;
    auto made = std::make_shared<detail::promise_by<result, std::decay_t<F>>>(pool, std::forward<F>(f));
    detail::check(detail::submit_task(pool, nullptr, detail::queued_promise(made)), "weft::async");
    return future<result>(std::move(made));
}

} // namespace WEFT_SEEN
} // namespace weft

#include <weft_patterns.hpp>

#endif
