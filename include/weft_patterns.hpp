/* weft_patterns.hpp: the second part of weft.hpp, which includes it: pools, fork and join, loops, reductions, sorting,
 * graphs.
 *
 * Copyright the weft authors. MIT licence, see LICENSE.
 */
#ifndef WEFT_PATTERNS_HPP
#define WEFT_PATTERNS_HPP

#include <weft.hpp>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <typeinfo>
#include <vector>

namespace weft {
inline namespace WEFT_WAYS WEFT_SEEN {

// ---- pools -------------------------------------------------------------------------------------------------------------

/// A pool of worker threads. The destructor runs what is queued.
class pool {
  public:
    /// `workers` 0: weft_cpu_count().
    explicit pool(unsigned workers = 0) {
        weft_config config;
        weft_config_init(&config);
        config.workers = workers;
        create(&config);
    }
    /// Throws the error of weft_pool_create; what() names the field that is wrong.
    explicit pool(const weft_config &config) { create(&config); }
    pool(const pool &) = delete;
    pool &operator=(const pool &) = delete;

    /// Ends the program when called by one of the pool's own tasks.
    ~pool() {
        weft_group_wait(made, loose->native()); // helps
        if (weft_pool_destroy(&made) == WEFT_EDEADLK) std::terminate();
        *loose->native() = WEFT_GROUP_INIT; // what tasks queued meanwhile has run, too
    }

    /// Queues f in the pool's own group: see group::submit.
    template <class F> void submit(F &&f) { loose->submit(std::forward<F>(f)); }
    template <class F> void submit(F &&f, std::error_code &error) { loose->submit(std::forward<F>(f), error); }

    /// Waits for all tasks that `submit` has queued: see group::wait.
    void wait() { loose->wait(); }
    void wait(std::error_code &error) { loose->wait(error); }

    /// See weft::async.
    template <class F> auto async(F &&f) { return weft::async(made, std::forward<F>(f)); }

    unsigned workers() const noexcept { return weft_pool_workers(made); }
    weft_stats stats() const noexcept {
        weft_stats now{};
        now.struct_size = sizeof now;
        weft_pool_stats(made, &now);
        return now;
    }

    operator weft_pool *() const noexcept { return made; }

  private:
    void create(const weft_config *config) {
        const int code = weft_pool_create(&made, config);
        const char *wrong = code == WEFT_EINVAL ? weft_config_wrong(config) : nullptr;
        const bool is_field = wrong != nullptr && *wrong != 'W'; // else a variable, which is not read here
        detail::check(code, is_field ? ("weft::pool: " + std::string(wrong)).c_str() : "weft::pool");
        loose.emplace(made);
    }
    weft_pool *made = nullptr;
    std::optional<group> loose{};
};

// ---- fork and join -----------------------------------------------------------------------------------------------------

namespace detail {

/// A callable that was forked, and what it has thrown.
template <class F> class branch {
  public:
    explicit branch(F &callable) noexcept : f(std::addressof(callable)) {}
    branch(const branch &) = delete;
    branch &operator=(const branch &) = delete;

    void run([[maybe_unused]] weft_fork_slot *here) noexcept {
        WEFT_TRY {
            if constexpr (std::is_invocable_v<F, weft_fork_slot *>)
                std::invoke(std::forward<F>(*f), here);
            else
                std::invoke(std::forward<F>(*f));
        }
        WEFT_CATCH { thrown = std::current_exception(); }
    }
    weft_fork_slot *fork(weft_fork_slot *here) noexcept {
        branch *self = this;
        __builtin_memcpy(here->payload, &self, sizeof self);
        return weft_fork_slot_push(here, [](weft_fork_slot *place, void *payload) {
            branch *it;
            __builtin_memcpy(&it, payload, sizeof it);
            it->run(place);
        });
    }
    void join(weft_fork_slot *here) noexcept {
        const branch *self = this;
        if (!weft_fork_slot_pop(here) || !weft_fork_join_slow(here, &self, sizeof self)) run(here);
    }
    void rethrow() {
#if defined(__cpp_exceptions)
        if (thrown) std::rethrow_exception(std::move(thrown));
#endif
    }

  private:
    std::remove_reference_t<F> *f;
    std::exception_ptr thrown{};
};

/// The first runs here, between the others' forks and their joins.
template <class F> void invoke_all(weft_fork_slot *here, branch<F> &first) noexcept { first.run(here); }
template <class F, class G, class... Gs>
void invoke_all(weft_fork_slot *here, branch<F> &first, branch<G> &forked, branch<Gs> &...others) noexcept {
    detail::invoke_all(forked.fork(here), first, others...);
    forked.join(here);
}

template <class... Fs> void invoke_branches(weft_fork_slot *here, branch<Fs>... branches) {
    detail::invoke_all(here, branches...);
    (branches.rethrow(), ...);
}

} // namespace detail

/// Calls each of the callables, in parallel if workers are idle, and returns when all have returned. If several threw, throws
/// the exception of the leftmost. They are forked like functions of WEFT_FORK: nothing is allocated. A callable may take a
/// weft_fork_slot * and pass it to an invoke inside:
///
///     int fib(weft_fork_slot *here, int n) {
///         if (n < 2) return n;
///         int a, b;
///         weft::invoke(here, [&](weft_fork_slot *deeper) { a = fib(deeper, n - 1); }, [&](weft_fork_slot *deeper) { b = fib(deeper, n - 2); });
///         return a + b;
///     }
template <class F, class... Fs> void invoke(weft_fork_slot *here, F &&f, Fs &&...fs) {
    detail::invoke_branches<F, Fs...>(here, detail::branch<F>(f), detail::branch<Fs>(fs)...);
}

/// The same without a slot. Throws the error of weft_fork_enter; then nothing was called.
template <class F, class... Fs> void invoke(weft_pool *pool, F &&f, Fs &&...fs) {
    struct region {
        weft_fork_slot *here;
        ~region() { weft_fork_leave(here); }
    } entered{nullptr};
    detail::check(weft_fork_enter(pool, &entered.here), "weft::invoke");
    weft::invoke(entered.here, std::forward<F>(f), std::forward<Fs>(fs)...);
}

// ---- loops -------------------------------------------------------------------------------------------------------------

namespace detail {

/// What a body may return.
template <class T>
inline constexpr bool is_code = std::is_void_v<T> || std::is_same_v<T, int> || std::is_same_v<T, enum weft_error>;

template <class I, class F> struct loop {
    F *body;
    I first;
    failures thrown{};

    int piece(std::size_t begin, std::size_t end) {
        const I from = at(begin), to = at(end);
        if constexpr (std::is_invocable_v<F &, I, I>) {
            return code_of(from, to);
        } else {
            for (I i = from; i != to; ++i)
                if (int code = code_of(i); code != 0) return code;
            return 0;
        }
    }
    /// Half of a signed type's range can be more than the type holds.
    I at(std::size_t index) const noexcept { return static_cast<I>(static_cast<std::size_t>(first) + index); }
    template <class... Args> int code_of(Args... args) {
        using result = std::invoke_result_t<F &, Args...>;
        static_assert(is_code<result>, "a body returns void, int or enum weft_error");
        if constexpr (std::is_void_v<result>) {
            std::invoke(*body, args...);
            return 0;
        } else {
            return std::invoke(*body, args...);
        }
    }
    static int run(std::size_t begin, std::size_t end, void *context, weft_worker *) noexcept {
        auto *self = static_cast<loop *>(context);
        return detail::call(&self->thrown, [=] { return self->piece(begin, end); });
    }
};

/// Distinguishes loops whose callables have the same type; nullptr: weft_for distinguishes them as usual.
template <class F> const void *site_of(F &f) {
    if constexpr (std::is_function_v<F>)
        return reinterpret_cast<const void *>(&f);
    else if constexpr (std::is_pointer_v<F> && std::is_function_v<std::remove_pointer_t<F>>)
        return reinterpret_cast<const void *>(f);
#if defined(__cpp_rtti)
    else if constexpr (std::is_polymorphic_v<F>)
        return typeid(f).name();
#endif
    else
        return nullptr;
}
#if defined(__cpp_rtti)
template <class R, class... Args> const void *site_of(std::function<R(Args...)> &f) { return f.target_type().name(); }
template <class R, class... Args> const void *site_of(const std::function<R(Args...)> &f) { return f.target_type().name(); }
#endif

} // namespace detail

/// Calls body(i) for each i in [begin, end), or body(i, j) for pieces [i, j) that cover the range, as weft_for does. Throws the
/// exception of the lowest index that failed; a body may also return an int, as a task does. `grain`: least number of indices
/// in a piece; 0: weft chooses. Loops over function pointers, std::functions and polymorphic objects are distinguished by what
/// these call.
template <class B, class E, class F> void parallel_for(weft_pool *pool, B begin, E end, F &&body, std::size_t grain = 0) {
    using index = std::common_type_t<B, E>;
    static_assert(std::is_integral_v<index>, "the bounds of a loop are integers");
    static_assert(sizeof(index) <= sizeof(std::size_t), "the bounds of a loop are at most as wide as std::size_t");
    const auto first = static_cast<index>(begin), last = static_cast<index>(end);
    if (last < first) detail::fail(WEFT_EINVAL, "weft::parallel_for");
    detail::loop<index, std::remove_reference_t<F>> loop{std::addressof(body), first};
    const std::size_t count = static_cast<std::size_t>(last) - static_cast<std::size_t>(first);
    const void *site = detail::site_of(body);
    int code = site == nullptr ? weft_for(pool, {0, count, grain}, loop.run, std::addressof(loop))
                               : weft_for_site(pool, {0, count, grain}, loop.run, std::addressof(loop), site);
    detail::check(loop.thrown.rethrow(code), "weft::parallel_for");
}

namespace detail {

template <class F> struct tile_loop {
    F *body;
    failures thrown{};

    int piece(const weft_tile &tile) {
        if constexpr (std::is_invocable_v<F &, const weft_tile &>) {
            return code_of(tile);
        } else {
            for (std::size_t row = tile.row_begin; row != tile.row_end; ++row)
                for (std::size_t column = tile.column_begin; column != tile.column_end; ++column)
                    if (int code = code_of(row, column); code != 0) return code;
            return 0;
        }
    }
    template <class... Args> int code_of(const Args &...args) {
        using result = std::invoke_result_t<F &, const Args &...>;
        static_assert(is_code<result>, "a body returns void, int or enum weft_error");
        if constexpr (std::is_void_v<result>) {
            std::invoke(*body, args...);
            return 0;
        } else {
            return std::invoke(*body, args...);
        }
    }
    static int run(const weft_tile *tile, void *context, weft_worker *) noexcept {
        auto *self = static_cast<tile_loop *>(context);
        return detail::call(&self->thrown, [=] { return self->piece(*tile); });
    }
};

} // namespace detail

/// Calls body(row, column) for each element of the range, tile by tile, or body(tile) for each weft_tile, as weft_for_tiles
/// does. Throws the exception of the first tile that failed; a body may also return an int, as a task does. The grains are a
/// tile's height and width.
template <class F> void parallel_for_tiles(weft_pool *pool, weft_range rows, weft_range columns, F &&body) {
    detail::tile_loop<std::remove_reference_t<F>> loop{std::addressof(body)};
    int code = weft_for_tiles(pool, {rows, columns}, loop.run, std::addressof(loop));
    detail::check(loop.thrown.rethrow(code), "weft::parallel_for_tiles");
}

// ---- reductions --------------------------------------------------------------------------------------------------------

namespace detail {

/// A weft_reduction whose values are the numbers of leaves; the results themselves stay here, whatever they are.
template <class T, class Map, class Combine> class reducer {
  public:
    reducer(const weft_range &whole, Map &map_each, Combine &combine_two)
        : range(whole), map(map_each), combine(combine_two), parts(leaves(whole)) {}

    T run(weft_pool *pool) {
        weft_reduction how{};
        how.size = sizeof(std::size_t);
        how.leaf = [](std::size_t begin, std::size_t end, void *value, void *context, weft_worker *) {
            auto *self = static_cast<reducer *>(context);
            return detail::call(&self->thrown, [=] { return self->leaf(begin, end, static_cast<std::size_t *>(value)); });
        };
        how.combine = [](void *left, const void *right, void *context) {
            auto *self = static_cast<reducer *>(context);
            int code = detail::call(&self->thrown, [=] {
                return self->unite(*static_cast<const std::size_t *>(left), *static_cast<const std::size_t *>(right));
            });
            int none = 0;
            if (code != 0) self->combine_code.compare_exchange_strong(none, code);
        };
        how.context = this;
        std::size_t first = 0;
        int code = weft_reduce(pool, range, &how, &first);
        if (code == WEFT_OK) code = combine_code.load();
        check(thrown.rethrow(code), "weft::reduce");
        return std::move(*parts[first]);
    }

  private:
    /// More than a vector may have is too much memory, and no std::length_error.
    static std::size_t leaves(const weft_range &whole) {
        const std::size_t count = whole.end - whole.begin, most = std::vector<std::optional<T>>().max_size();
        const std::size_t all = count / whole.grain + (count % whole.grain != 0 ? 1 : 0);
#if defined(__cpp_exceptions)
        if (all > most) throw std::bad_alloc();
#else
        if (all > most) detail::fail(WEFT_ENOMEM, "weft::reduce");
#endif
        return all;
    }
    int leaf(std::size_t begin, std::size_t end, std::size_t *number) {
        *number = (begin - range.begin) / range.grain;
        if constexpr (std::is_invocable_v<Map &, std::size_t, std::size_t>) {
            parts[*number].emplace(std::invoke(map, begin, end));
        } else {
            T sum = std::invoke(map, begin);
            for (std::size_t i = begin + 1; i < end; i++) {
                T united(std::invoke(combine, std::move(sum), std::invoke(map, i))); // which may return an argument itself
                sum = std::move(united);
            }
            parts[*number].emplace(std::move(sum));
        }
        return 0;
    }
    int unite(std::size_t left, std::size_t right) {
        if (combine_code.load() != 0) return 0;
        T united(std::invoke(combine, std::move(*parts[left]), std::move(*parts[right]))); // as in leaf
        parts[left].emplace(std::move(united));
        return 0;
    }

    const weft_range range;
    Map &map;
    Combine &combine;
    std::vector<std::optional<T>> parts;
    failures thrown{};
    std::atomic<int> combine_code{0};
};

} // namespace detail

/// Combines the results of map(i), or of map(i, j) for pieces [i, j), by combine(left, right) of neighbours, in the tree of
/// weft_reduce. The number of indices and the grain alone determine that tree. So the result has the same bits for any number
/// of workers, and the same as in C, even if `combine` is not exactly associative. Returns `none` for an empty range. Allocates
/// room for the pieces' results. `grain`: indices in a piece; 0: weft_reduce chooses it, for values of sizeof(T) bytes.
template <class T, class Map, class Combine>
T reduce(weft_pool *pool, weft_range range, T none, Map &&map, Combine &&combine) {
    if (range.end < range.begin) detail::fail(WEFT_EINVAL, "weft::reduce");
    const std::size_t count = range.end - range.begin;
    if (count == 0) return none;
    if (range.grain == 0) range.grain = weft_reduce_grain(count, sizeof(T));
    return detail::reducer<T, std::remove_reference_t<Map>, std::remove_reference_t<Combine>>(range, map, combine).run(pool);
}

// ---- sorting -----------------------------------------------------------------------------------------------------------

namespace detail {

/// A stable merge sort of one thread, of the `count` elements at `from`, to and fro between them and as many other elements at
/// `to`. Each step looks at its own elements alone, whatever `less` says: std::stable_sort would look past them if it
/// contradicts itself.
template <class From, class To, class Compare> class run_sorter {
    /// Elements to sort by insertion. More or fewer take more instructions; with these it takes within 3 % of std::stable_sort's.
    static constexpr std::size_t longest = 16;

  public:
    run_sorter(From from_, To to_, std::size_t count_, Compare &compare)
        : from(from_), to(to_), count(count_), less(compare) {}

    /// The sorted elements are at `from` again, or at `to`.
    void sort(bool ends_at_from) {
        pieces = ends_at_from ? 2 : 1; // the last pass ends where it should
        while (count / pieces >= longest) pieces *= 4;
        for (std::size_t piece = 0; piece < pieces; piece++) insert(start(piece), start(piece + 1));
        bool is_at_to = true;
        for (std::size_t width = 1; width < pieces; width *= 2, is_at_to = !is_at_to) {
            if (is_at_to)
                merge_all(to, from, width);
            else
                merge_all(from, to, width);
        }
    }

  private:
    static auto place(std::size_t index) { return static_cast<std::ptrdiff_t>(index); }
    std::size_t start(std::size_t piece) const { return count / pieces * piece + std::min(piece, count % pieces); }

    /// Sorts a piece, from `from` to `to`.
    void insert(std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; i++) {
            auto in = from + place(i);
            auto out = to + place(i);
            std::size_t left = i - begin;
            for (; left > 0 && less(*in, *(out - 1)); left--, static_cast<void>(--out)) *out = std::move(*(out - 1));
            *out = std::move(*in);
        }
    }

    template <class A, class B> void merge_all(A a, B b, std::size_t width) {
        for (std::size_t piece = 0; piece < pieces; piece += 2 * width) {
            auto first = a + place(start(piece)), middle = a + place(start(piece + width));
            auto last = a + place(start(piece + 2 * width));
            auto second = middle;
            auto out = b + place(start(piece));
            for (; first != middle && second != last; ++out) {
                if (less(*second, *first)) {
                    *out = std::move(*second);
                    ++second;
                } else {
                    *out = std::move(*first);
                    ++first;
                }
            }
            std::move(second, last, std::move(first, middle, out));
        }
    }

    From from;
    To to;
    std::size_t count;
    std::size_t pieces = 1;
    Compare &less;
};

/// A merge sort whose passes are loops: runs are sorted, then pairs of them merged, to and fro between range and buffer.
/// Nothing is allocated while elements are in the buffer.
template <class It, class Compare> class sorter {
    using value = typename std::iterator_traits<It>::value_type;

  public:
    sorter(weft_pool *pool, It first, It last, Compare &compare)
        : home(pool), data(first), count(static_cast<std::size_t>(last - first)), less(compare) {}
    sorter(const sorter &) = delete;
    sorter &operator=(const sorter &) = delete;

    void sort() {
        const unsigned workers = weft_pool_workers(home);
        unsigned doublings = 3; // odd: the last pass ends in the range
        while (1u << doublings < 4 * workers && doublings < 15) doublings += 2;
        const bool is_alone = count < 2048 || (count >> doublings) < 64;
        runs = is_alone ? 1 : std::size_t{1} << doublings;
        if (count < 2) return;
        if (!is_alone) cuts.resize(runs + runs / 2), progress.resize(runs);
        std::vector<value> buffer(std::make_move_iterator(data), std::make_move_iterator(at(count)));
        if (is_alone) return sort_run(buffer.begin(), 0, false);
        each(runs, [&](std::size_t run) { sort_run(buffer.begin(), run, true); });
        bool is_in_buffer = true;
        for (std::size_t width = 1; width < runs; width *= 2, is_in_buffer = !is_in_buffer) {
            if (is_in_buffer)
                merge_all(buffer.begin(), data, width);
            else
                merge_all(data, buffer.begin(), width);
        }
    }

  private:
    static auto place(std::size_t index) { return static_cast<typename std::iterator_traits<It>::difference_type>(index); }
    It at(std::size_t index) const { return data + place(index); }
    std::size_t start(std::size_t run) const { return count / runs * run + std::min(run, count % runs); }

    template <class Buffer> void sort_run(Buffer buffer, std::size_t run, bool ends_in_buffer) {
        const std::size_t begin = start(run);
        run_sorter<Buffer, It, Compare>(buffer + place(begin), at(begin), start(run + 1) - begin, less).sort(ends_in_buffer);
    }

    /// Calls body for each index: also when the loop cannot be run, or is cancelled with the group of the calling task. Half
    /// sorted elements lie in two places.
    template <class F> void each(std::size_t indices, F &&body) {
        std::fill_n(progress.begin(), indices, waits);
        auto once = [&](std::size_t i) {
            progress[i] = begun;
            body(i);
            progress[i] = done;
        };
        loop<std::size_t, decltype(once)> all{std::addressof(once), 0};
        int code = all.thrown.rethrow(weft_for(home, {0, indices, 1}, all.run, std::addressof(all)));
        if (code == WEFT_OK) return;
        for (std::size_t i = 0; i < indices; i++) {
            if (progress[i] == begun) fail(code, "weft::sort"); // it threw what there was no memory to keep
            if (progress[i] == waits) body(i);
        }
    }

    /// How many of the first `k` elements of the merge of two runs come from the first run.
    template <class From> std::size_t split(From a, std::size_t as, From b, std::size_t bs, std::size_t k) const {
        std::size_t low = k > bs ? k - bs : 0, high = std::min(k, as);
        while (low < high) {
            std::size_t middle = low + (high - low) / 2;
            if (less(b[place(k - middle - 1)], a[place(middle)]))
                high = middle;
            else
                low = middle + 1;
        }
        return low;
    }

    /// Merges each two neighbours of `width` runs. Each merge is cut to pieces, as many in each pass; where is found out
    /// before anything moves.
    template <class From, class To> void merge_all(From from, To to, std::size_t width) {
        const std::size_t pieces = 2 * width; // of a pair
        auto cut = [&](std::size_t pair, std::size_t piece) -> std::size_t & { return cuts[pair * (pieces + 1) + piece]; };
        auto total = [&](std::size_t pair) { return start((pair + 1) * pieces) - start(pair * pieces); };
        auto until = [&](std::size_t pair, std::size_t piece) {
            return total(pair) / pieces * piece + std::min(piece, total(pair) % pieces);
        };
        each(runs / pieces, [&](std::size_t pair) {
            const std::size_t a = start(pair * pieces), b = start(pair * pieces + width), end = start((pair + 1) * pieces);
            for (std::size_t piece = 0; piece <= pieces; piece++) {
                std::size_t here = split(from + place(a), b - a, from + place(b), end - b, until(pair, piece));
                if (piece > 0) { // an order that contradicts itself still has each element in one piece
                    const std::size_t before = cut(pair, piece - 1);
                    here = std::clamp(here, before, before + until(pair, piece) - until(pair, piece - 1));
                }
                cut(pair, piece) = here;
            }
        });
        each(runs, [&](std::size_t index) {
            const std::size_t pair = index / pieces, piece = index % pieces;
            const std::size_t a = start(pair * pieces), b = start(pair * pieces + width);
            const std::size_t begin = until(pair, piece), end = until(pair, piece + 1);
            std::size_t i = cut(pair, piece), i_end = cut(pair, piece + 1), j = begin - i, j_end = end - i_end;
            To out = to + place(a + begin);
            for (; i < i_end && j < j_end; ++out) {
                const bool takes_b = static_cast<bool>(less(from[place(b + j)], from[place(a + i)]));
                *out = std::move(takes_b ? from[place(b + j++)] : from[place(a + i++)]);
            }
            out = std::move(from + place(a + i), from + place(a + i_end), out);
            std::move(from + place(b + j), from + place(b + j_end), out);
        });
    }

    weft_pool *home;
    It data;
    std::size_t count;
    std::size_t runs = 0;
    enum step : unsigned char { waits, begun, done };
    std::vector<step> progress{};    // of a pass's indices
    std::vector<std::size_t> cuts{}; // of a pass's merges
    Compare &less;
};

/// Elements without identity, and perhaps without places of their own (std::vector<bool>).
template <class It, class Compare> void sort_bools(It first, It last, Compare &less) {
    const bool no = false, yes = true;
    if (last - first < 2) return;
    const bool is_rising = static_cast<bool>(less(no, yes));
    if (is_rising == static_cast<bool>(less(yes, no))) return; // all are equal, or the order contradicts itself
    const auto trues = std::count(first, last, true);
    const It middle = is_rising ? last - trues : first + trues;
    std::fill(first, middle, !is_rising);
    std::fill(middle, last, is_rising);
}

} // namespace detail

/// Sorts like std::stable_sort, with the same requirements for `less`: equal elements keep their order. If `less` throws, the
/// elements are valid, but not more. If it contradicts itself, as `<` does with NaNs, or answers at random, each element is still
/// there once, in an unspecified order. Allocates a buffer as large as the range. Without memory it throws, and no element is
/// lost, unless moving one throws: that of a type which can only be copied may, and then elements may be lost, as in
/// std::stable_sort. If the group of the calling task is cancelled or the pool is closing, the sort continues on the calling
/// thread.
template <class It, class Compare = std::less<>> void sort(weft_pool *pool, It first, It last, Compare less = {}) {
    if constexpr (std::is_same_v<typename std::iterator_traits<It>::value_type, bool>)
        detail::sort_bools(first, last, less);
    else
        detail::sorter<It, Compare>(pool, first, last, less).sort();
}

// ---- graphs ------------------------------------------------------------------------------------------------------------

/// Callables with an order between them: built once, run many times, like weft_graph in weft.h. Must not run when it is
/// destroyed.
class graph {
  public:
    graph() { detail::check(weft_graph_create(&made), "weft::graph"); }
    graph(const graph &) = delete;
    graph &operator=(const graph &) = delete;
    ~graph() {
        if (weft_graph_destroy(&made) != WEFT_OK) std::terminate();
    }

    /// Adds a node that calls f in each run, after the nodes `after`. f is like a task's callable, but is called many times. If
    /// one of `after` is not a node of this graph, throws WEFT_EINVAL; the new node then exists, without that edge and those
    /// after it.
    template <class F> weft_node add(F &&f, std::initializer_list<weft_node> after = {}) {
        using kept = step_of<std::decay_t<F>>;
        steps.push_back(std::make_unique<kept>(&thrown, std::forward<F>(f)));
        weft_node node = 0;
        detail::check(weft_graph_add(made, &node, kept::run, static_cast<kept *>(steps.back().get())), "weft::graph::add");
        for (weft_node before : after) edge(before, node);
        return node;
    }
    void edge(weft_node before, weft_node after) {
        detail::check(weft_graph_edge(made, before, after), "weft::graph::edge");
    }

    /// Throws WEFT_ECYCLE; weft_graph_build(native(), &node) returns a node of the cycle.
    void build() { detail::check(weft_graph_build(made, nullptr), "weft::graph::build"); }

    /// Throws the exception of the first node, in the order of adding, that failed; WEFT_EBUSY until another run has returned.
    void run(weft_pool *pool) { detail::check(run_code(pool), "weft::graph::run"); }
    void run(weft_pool *pool, std::error_code &error) { error.assign(run_code(pool), category()); }

    /// Cancels the run in `pool`: nodes that have not started never will.
    void cancel(weft_pool *pool) { detail::check(weft_graph_cancel(pool, made), "weft::graph::cancel"); }

    /// For calls of weft.h, as group::native.
    weft_graph *native() noexcept { return made; }

  private:
    struct step {
        step() = default;
        step(const step &) = delete;
        step &operator=(const step &) = delete;
        virtual ~step() = default;
    };
    template <class F> struct step_of final : step {
        template <class G> step_of(detail::failures *failures, G &&g) : sink(failures), f(std::forward<G>(g)) {}
        step_of(const step_of &) = delete;
        step_of &operator=(const step_of &) = delete;
        static int run(void *payload, weft_worker *self) noexcept {
            auto *it = static_cast<step_of *>(payload);
            return detail::call_task(it->sink, it->f, self);
        }
        detail::failures *sink;
        F f;
    };
    /// `thrown` is of one run at a time, until that has asked for its exception.
    int run_code(weft_pool *pool) {
        if (runs.exchange(true, std::memory_order_acquire)) return WEFT_EBUSY;
        struct end {
            std::atomic<bool> *runs;
            ~end() { runs->store(false, std::memory_order_release); }
        } ended{&runs};
        return thrown.rethrow(weft_graph_run(pool, made));
    }
    weft_graph *made = nullptr;
    std::vector<std::unique_ptr<step>> steps{};
    detail::failures thrown{};
    std::atomic<bool> runs{false};
};

} // namespace WEFT_SEEN
} // namespace weft

#undef WEFT_TRY
#undef WEFT_CATCH
#endif
