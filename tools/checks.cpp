// See checks.hpp.
#include "checks.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

namespace {

bool ends_with(const std::string &text, const std::string &end) {
    return text.size() > end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// Of opening it to write; 0: it can be. Leaves no trace.
int open_error(const std::string &file) {
    struct stat what {};
    if (file.empty()) return ENOENT;
    if (stat(file.c_str(), &what) == 0) {
        if (S_ISFIFO(what.st_mode)) return 0; // it may have no reader yet
        int fd = open(file.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0) return errno;
        close(fd);
        return 0;
    }
    if (errno != ENOENT) return errno;
    if (file.back() == '/') return EISDIR;
    size_t slash = file.rfind('/');
    std::string folder = slash == std::string::npos ? "." : file.substr(0, slash + 1);
    return access(folder.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
}

std::string write_problem(const std::string &file) {
    int error = open_error(file);
    std::string name = file.empty() ? "a file without a name" : file;
    return error == 0 ? "" : "cannot write " + name + ": " + strerror(error);
}

bool is_installed(const std::string &program) {
    const char *path = getenv("PATH");
    std::stringstream folders(path != nullptr ? path : "");
    for (std::string folder; std::getline(folders, folder, ':');) {
        if (access(((folder.empty() ? "." : folder) + "/" + program).c_str(), X_OK) == 0) return true;
    }
    return false;
}

std::string plot_problem(const std::string &file) {
    if (!ends_with(file, ".svg") && !ends_with(file, ".png")) return file + " is neither .svg nor .png";
    std::string problem = write_problem(file);
    return problem.empty() && !is_installed("gnuplot") ? "no gnuplot here; package gnuplot-nox has it" : problem;
}

} // namespace

CLI::Validator number_between(double least, double most) {
    std::stringstream range;
    range << "in [" << least << " - " << most << "]";
    auto check = [least, most, text = range.str()](const std::string &word) {
        double value = 0;
        bool good = CLI::detail::lexical_cast(word, value) && value >= least && value <= most; // NaN is neither
        return good ? std::string() : word + " is not " + text;
    };
    return {check, range.str()};
}

CLI::Validator writable_file() { return {write_problem, ""}; }

CLI::Validator plot_file() { return {plot_problem, ""}; }

void standard_open() {
    for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (fcntl(fd, F_GETFD) < 0) open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
    }
}

bool standard_flush() { return fflush(stdout) == 0 && ferror(stdout) == 0; }
