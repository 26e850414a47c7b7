// output.cpp: what a program has written gets its name, and what is left of earlier runs of its chunk goes.
//
// A file's own name has the number of the record by which its worker has the chunk, so it tells earlier from later. A worker looks
// whether the chunk is still its own when its program has ended. If it is stopped or cut off right then, and the chunk goes to
// another one, that one removes this file before it gives its own the name: the rename that comes late finds nothing.
#include "chunks.hpp"

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static const char part_end[] = ".part";
static const size_t token_digits = 16;
static const size_t probe_bytes = 65536;

static size_t name_at(const std::string &path) {
    size_t slash = path.rfind('/');
    return slash == std::string::npos ? 0 : slash + 1;
}

static std::string folder_of(const std::string &path) {
    size_t at = name_at(path);
    return at == 0 ? "." : at == 1 ? "/" : path.substr(0, at - 1);
}

// Beside the place where it goes, so that a rename gets it there.
std::string output_part(const std::string &output, uint64_t token, uint32_t record) {
    char own[64];
    snprintf(own, sizeof own, ".%016" PRIx64 ".%u%s", token, record, part_end);
    return output.substr(0, name_at(output)) + "." + output.substr(name_at(output)) + own;
}

// The record's number in the name of a part of `output`; 0: it is none.
static uint32_t part_record(const std::string &name, const std::string &output) {
    const std::string before = "." + output.substr(name_at(output)) + ".";
    if (name.compare(0, before.size(), before) != 0) return 0;
    const std::string token = name.substr(before.size(), token_digits + 1);
    if (token.size() <= token_digits || token.find_first_not_of("0123456789abcdef") != token_digits || token.back() != '.')
        return 0;
    const std::string number = name.substr(before.size() + token.size());
    size_t digits = number.find_first_not_of("0123456789");
    if (digits == 0 || digits > 10 ||
        number.compare(digits == std::string::npos ? 0 : digits, std::string::npos, part_end) != 0)
        return 0;
    return static_cast<uint32_t>(strtoul(number.c_str(), nullptr, 10));
}

bool output_clear(const std::string &output, uint32_t record) {
    if (record <= 1) return true; // nobody had the chunk before
    const std::string folder = folder_of(output);
    DIR *names = opendir(folder.c_str());
    if (names == nullptr) return false;
    int number = 0;
    struct dirent *entry;
    while (number == 0 && (errno = 0, entry = readdir(names)) != nullptr) {
        uint32_t earlier = part_record(entry->d_name, output);
        if (earlier == 0 || earlier >= record) continue;
        if (unlinkat(dirfd(names), entry->d_name, 0) != 0 && errno != ENOENT && errno != EISDIR) number = errno;
    }
    if (number == 0) number = errno;
    closedir(names);
    errno = number;
    return number == 0;
}

static bool sync_path(const std::string &path, int flags) {
    int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
    if (fd < 0) return false;
    bool is_synced = fsync(fd) == 0;
    int number = errno;
    close(fd);
    errno = number;
    return is_synced;
}

bool output_sync(const std::string &part) { return sync_path(part, 0); }

bool output_place(const std::string &part, const std::string &output) {
    return rename(part.c_str(), output.c_str()) == 0 && sync_path(folder_of(output), O_DIRECTORY);
}

bool output_is_wrong(int number) { return number == ENOTDIR || number == EISDIR || number == ENOTEMPTY || number == EEXIST; }

static bool write_probe(int fd) {
    static const char zeros[probe_bytes] = {};
    struct stat about;
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) return true;
    ssize_t put = pwrite(fd, zeros, sizeof zeros, about.st_size);
    if (put >= 0 && put < static_cast<ssize_t>(sizeof zeros)) errno = ENOSPC;
    return put == static_cast<ssize_t>(sizeof zeros) && fsync(fd) == 0;
}

bool output_is_full(const std::string &part) {
    int fd = open(part.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    bool is_written = fd >= 0 && write_probe(fd);
    int number = errno;
    if (fd >= 0) close(fd);
    return !is_written && (number == ENOSPC || number == EDQUOT);
}
