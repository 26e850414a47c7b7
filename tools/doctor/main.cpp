// weft doctor: the report.
#include "doctor.hpp"

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

using nlohmann::ordered_json;

namespace {

const char *verdict_text(Verdict verdict) {
    switch (verdict) {
    case Verdict::good: return "good";
    case Verdict::costs: return "COSTS";
    case Verdict::given: return "given";
    case Verdict::unknown: break;
    }
    return "-";
}

void report_print(const std::vector<Finding> &findings) {
    for (const auto &finding : findings) {
        printf("%-6s %-30s %s\n", verdict_text(finding.verdict), finding.item.c_str(), finding.now.c_str());
        if (finding.verdict == Verdict::good || finding.verdict == Verdict::unknown) continue;
        printf("         %s\n", finding.cost.c_str());
        if (!finding.command.empty()) printf("         > %s\n", finding.command.c_str());
    }
    printf("\nNothing was changed. `weft doctor --script` prints a script that changes what can be changed, and puts it "
           "back.\n");
}

void json_write(const std::string &file, const std::vector<Finding> &findings) {
    ordered_json json = {{"program", "weft doctor"}, {"findings", ordered_json::array()}};
    for (const auto &finding : findings) {
        json["findings"].push_back({{"item", finding.item},
                                    {"now", finding.now},
                                    {"verdict", verdict_text(finding.verdict)},
                                    {"cost", finding.cost},
                                    {"command", finding.command}});
    }
    std::ofstream output(file);
    output << json.dump(1, ' ', false, ordered_json::error_handler_t::replace) << "\n"; // files need not be UTF-8
    if (!output.flush()) throw std::runtime_error("cannot write " + file);
}

} // namespace

int doctor_main(const DoctorOptions &options) {
    Tree tree(options.root);
    std::vector<Finding> all;
    for (const auto &part : {findings_kernel(tree), findings_noise(tree), findings_power(tree), findings_limits(tree),
                             findings_cores(options), findings_slices(options), findings_make(options)})
        all.insert(all.end(), part.begin(), part.end());
    if (options.script)
        doctor_script_print(all);
    else
        report_print(all);
    if (!options.json_file.empty()) json_write(options.json_file, all); // what it cannot take is on the screen
    return 0;
}
