// Stands for OpenAirInterface's older pool. Messages wait in a FIFO with a mutex and a condition variable; each is a malloc
// that holds its payload. A finished message goes into a second such FIFO, from which the caller pulls and frees it.
#include "queue_pool.hpp"

class FifoPool {
    struct Message {
        Message *next;
        entrant_fn fn;
        alignas(16) unsigned char payload[];
    };

    class Fifo {
        pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
        Message *head = nullptr;
        Message *tail = nullptr;
        bool aborted = false;

      public:
        void push(Message *message) {
            message->next = nullptr;
            pthread_mutex_lock(&lock);
            if (tail != nullptr)
                tail->next = message;
            else
                head = message;
            tail = message;
            pthread_cond_signal(&changed);
            pthread_mutex_unlock(&lock);
        }
        // Sleeps until there is a message. nullptr: the FIFO was aborted.
        Message *pull() {
            pthread_mutex_lock(&lock);
            while (head == nullptr && !aborted) pthread_cond_wait(&changed, &lock);
            Message *message = head;
            if (message != nullptr) head = message->next;
            if (head == nullptr) tail = nullptr;
            pthread_mutex_unlock(&lock);
            return message;
        }
        void abort() {
            pthread_mutex_lock(&lock);
            aborted = true;
            pthread_cond_broadcast(&changed);
            pthread_mutex_unlock(&lock);
        }
    };

    alignas(64) Fifo incoming;
    alignas(64) Fifo outgoing;
    uint64_t unanswered = 0; // messages that the caller has not pulled yet
    std::vector<std::thread> threads;

    void work() {
        while (Message *message = incoming.pull()) {
            message->fn(message->payload, nullptr);
            outgoing.push(message);
        }
    }

  public:
    explicit FifoPool(unsigned workers) {
        for (unsigned i = 0; i < workers; i++) threads.emplace_back([this] { work(); });
    }

    ~FifoPool() {
        incoming.abort();
        for (auto &thread : threads) thread.join();
    }

    int submit(entrant_fn fn, const void *payload, size_t size) {
        auto *message = static_cast<Message *>(malloc(sizeof(Message) + size));
        if (message == nullptr) return -1;
        message->fn = fn;
        memcpy(message->payload, payload, size);
        incoming.push(message);
        unanswered++;
        return 0;
    }

    int wait() {
        for (; unanswered != 0; unanswered--) free(outgoing.pull());
        return 0;
    }
};

extern "C" const entrant weft_entrant =
    Table<FifoPool>::entry("fifo-oai", "own: FIFOs of malloc'ed messages, there and back, mutex and condition variable", 0);
