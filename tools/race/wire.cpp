// See wire.hpp.
#include "wire.hpp"

#include <cerrno>
#include <unistd.h>

bool write_all(int fd, const void *data, size_t size) {
    const char *next = static_cast<const char *>(data);
    while (size != 0) {
        ssize_t n = write(fd, next, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        next += n;
        size -= static_cast<size_t>(n);
    }
    return true;
}

bool read_all(int fd, void *data, size_t size) {
    char *next = static_cast<char *>(data);
    while (size != 0) {
        ssize_t n = read(fd, next, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        next += n;
        size -= static_cast<size_t>(n);
    }
    return true;
}

std::vector<std::string> seat_arguments(const Seat &seat) {
    return {seat.entrant,
            seat.workload,
            seat.name,
            std::to_string(seat.workers),
            std::to_string(seat.slices),
            std::to_string(seat.iterations_per_us),
            seat.traced ? "traced" : "plain"};
}
