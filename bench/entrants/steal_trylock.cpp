// Stands for OpenAirInterface's work-stealing task manager: a queue per thread behind a mutex; a push that goes on to the
// next queue if one is busy; idle workers that look into all queues and then sleep on their own; rings that grow. Tasks are
// {function, argument} by value: arguments larger than a pointer lie in the user's memory, here a malloc.
#include "queue_pool.hpp"

#include <atomic>

class StealPool {
    struct Task {
        entrant_fn fn;
        union {
            void *pointer;
            unsigned char bytes[sizeof(void *)];
        } argument;
        bool is_inline;
    };

    struct alignas(128) Queue {
        pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER;
        std::vector<Task> ring = std::vector<Task>(32);
        size_t head = 0;
        size_t tail = 0;

        // Call it under the lock. Growing copies the tasks to the front of a ring twice as large.
        void push(const Task &task) {
            if (tail - head == ring.size()) grow();
            ring[tail++ & (ring.size() - 1)] = task;
        }
        void grow() {
            std::vector<Task> larger(ring.size() * 2);
            for (size_t i = head; i != tail; i++) larger[i - head] = ring[i & (ring.size() - 1)];
            tail -= head;
            head = 0;
            ring.swap(larger);
        }
        bool pop(Task &task) {
            if (head == tail) return false;
            task = ring[head++ & (ring.size() - 1)];
            return true;
        }
    };

    std::vector<Queue> queues;
    std::vector<std::thread> threads;
    std::atomic<uint64_t> turn{0};
    std::atomic<bool> stop{false};
    alignas(128) std::atomic<int64_t> unfinished{0};
    pthread_mutex_t wait_lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t all_done = PTHREAD_COND_INITIALIZER;

    void signal_push(Queue &queue, const Task &task) {
        queue.push(task);
        pthread_cond_signal(&queue.not_empty);
        pthread_mutex_unlock(&queue.lock);
    }

    void run(Task &task) {
        task.fn(task.is_inline ? task.argument.bytes : task.argument.pointer, nullptr);
        if (!task.is_inline) free(task.argument.pointer);
        if (unfinished.fetch_sub(1) != 1) return;
        pthread_mutex_lock(&wait_lock);
        pthread_cond_signal(&all_done);
        pthread_mutex_unlock(&wait_lock);
    }

    bool steal(size_t self, Task &task) {
        for (size_t i = 0; i < queues.size(); i++) {
            Queue &queue = queues[(self + i) % queues.size()];
            if (pthread_mutex_trylock(&queue.lock) != 0) continue;
            bool found = queue.pop(task);
            pthread_mutex_unlock(&queue.lock);
            if (found) return true;
        }
        return false;
    }

    // Pops from the worker's own queue, sleeping while it is empty. false: the pool stops.
    bool pop_own(Queue &queue, Task &task) {
        pthread_mutex_lock(&queue.lock);
        while (!queue.pop(task)) {
            if (stop.load()) {
                pthread_mutex_unlock(&queue.lock);
                return false;
            }
            pthread_cond_wait(&queue.not_empty, &queue.lock);
        }
        pthread_mutex_unlock(&queue.lock);
        return true;
    }

    void work(size_t self) {
        Task task;
        while (steal(self, task) || pop_own(queues[self], task)) run(task);
    }

  public:
    explicit StealPool(unsigned workers) : queues(workers) {
        for (unsigned i = 0; i < workers; i++) threads.emplace_back([this, i] { work(i); });
    }

    ~StealPool() {
        stop.store(true);
        for (auto &queue : queues) {
            pthread_mutex_lock(&queue.lock);
            pthread_cond_signal(&queue.not_empty);
            pthread_mutex_unlock(&queue.lock);
        }
        for (auto &thread : threads) thread.join();
    }

    int submit(entrant_fn fn, const void *payload, size_t size) {
        Task task;
        task.fn = fn;
        task.is_inline = size <= sizeof task.argument;
        if (!task.is_inline) task.argument.pointer = malloc(size);
        memcpy(task.is_inline ? task.argument.bytes : task.argument.pointer, payload, size);
        unfinished.fetch_add(1);
        uint64_t first = turn.fetch_add(1);
        for (size_t i = 0; i < queues.size(); i++) {
            Queue &queue = queues[(first + i) % queues.size()];
            if (pthread_mutex_trylock(&queue.lock) != 0) continue;
            signal_push(queue, task);
            return 0;
        }
        Queue &queue = queues[first % queues.size()];
        pthread_mutex_lock(&queue.lock);
        signal_push(queue, task);
        return 0;
    }

    int wait() {
        pthread_mutex_lock(&wait_lock);
        while (unfinished.load() != 0) pthread_cond_wait(&all_done, &wait_lock);
        pthread_mutex_unlock(&wait_lock);
        return 0;
    }
};

extern "C" const entrant weft_entrant = Table<StealPool>::entry(
    "steal-trylock", "own: a queue per thread, trylock to the next, idle workers steal", ENTRANT_NESTED);
