// doctor.hpp: `weft doctor`: what on this machine keeps short jobs waiting, what that costs, and the command that changes it. It only
// reads; `--script` prints a script that changes things and puts them back.
#ifndef WEFT_DOCTOR_DOCTOR_HPP
#define WEFT_DOCTOR_DOCTOR_HPP

#include <optional>
#include <string>
#include <utility>
#include <vector>

// So many cpu_set_t side by side have room for every CPU that Linux can have.
constexpr int cpu_sets = 8;

struct DoctorOptions {
    std::string root; // before each path: another tree than this machine's
    std::string json_file;
    bool script = false;
};

// A file to be written, and what was in it.
struct Setting {
    std::string path, wanted, before;
};

enum class Verdict {
    good,
    costs,   // time is lost; `command` changes it
    given,   // a fact that no command here changes
    unknown, // this kernel does not say
};

struct Finding {
    std::string item;
    std::string now;
    std::string cost; // of it as it is
    Verdict verdict = Verdict::unknown;
    std::string command;           // for a shell; may be empty
    std::vector<Setting> settings; // what the script writes
    std::string boot;              // a kernel parameter that the script adds

    Finding(std::string what, std::string as_it_is, std::string its_cost = "")
        : item(std::move(what)), now(std::move(as_it_is)), cost(std::move(its_cost)) {}
    void judge(bool is_good) { verdict = is_good ? Verdict::good : Verdict::costs; }
    // Another value in one file changes it.
    void change(const std::string &path, const std::string &wanted, const std::string &before) {
        settings.push_back({path, wanted, before});
        command = "echo " + wanted + " > " + path;
    }
};

// The files under a root.
class Tree {
    std::string root;

  public:
    explicit Tree(std::string where) : root(std::move(where)) {}
    // The first line of a file, trimmed; nothing when it cannot be read.
    std::optional<std::string> line(const std::string &path) const;
    std::vector<std::string> lines(const std::string &path) const;
    // The text of a .gz file, by gzip.
    std::vector<std::string> unpacked(const std::string &path) const;
    // Paths that match a shell pattern, sorted.
    std::vector<std::string> glob(const std::string &pattern) const;
};

// A list like "0-3,8" as numbers. What does not parse is left out.
std::vector<unsigned> cpu_list(const std::string &text);
// A text as one word of a shell.
std::string shell_quoted(const std::string &text);
std::string cpu_list_text(const std::vector<unsigned> &cpus);

// In the order of a report: how the kernel was built and started, what runs beside the jobs, power, memory and time, what this
// process may use, which cores there are, what a short time slice brings.
std::vector<Finding> findings_kernel(const Tree &tree);
std::vector<Finding> findings_noise(const Tree &tree);
std::vector<Finding> findings_power(const Tree &tree);
std::vector<Finding> findings_limits(const Tree &tree);
std::vector<Finding> findings_cores(const DoctorOptions &options);
// Tries for a moment what this machine does, so not under another root.
std::vector<Finding> findings_slices(const DoctorOptions &options);
// Under make alone: whether its tokens are there for this program.
std::vector<Finding> findings_make(const DoctorOptions &options);

void doctor_script_print(const std::vector<Finding> &findings);

// The command's exit status. Throws std::exception.
int doctor_main(const DoctorOptions &options);

#endif
