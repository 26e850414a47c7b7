// cpp_help.hpp: what the tests of weft.hpp share.
#ifndef WEFT_TESTS_CPP_HELP_HPP
#define WEFT_TESTS_CPP_HELP_HPP

#include <atomic>
#include <cstddef>
#include <ostream> // doctest prints values that fail
#include <semaphore.h>
#include <weft.hpp>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

class event {
  public:
    event() { sem_init(&semaphore, 0, 0); }
    event(const event &) = delete;
    event &operator=(const event &) = delete;
    ~event() { sem_destroy(&semaphore); }
    void set() { sem_post(&semaphore); }
    void await() {
        while (sem_wait(&semaphore) != 0) {}
    }

  private:
    sem_t semaphore{};
};

// A task that says it runs and then stays until it is let go.
struct gate {
    event entered, opened;
    void operator()() {
        entered.set();
        opened.await();
    }
};

// Keeps one worker of the pool busy while it lives.
class occupied {
  public:
    explicit occupied(weft_pool *pool) : tasks(pool) {
        tasks.submit([this] { door(); });
        door.entered.await();
    }
    occupied(const occupied &) = delete;
    occupied &operator=(const occupied &) = delete;
    ~occupied() { door.opened.set(); }

  private:
    gate door;
    weft::group tasks;
};

#endif
