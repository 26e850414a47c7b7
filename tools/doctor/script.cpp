// The script that changes what was found, and puts it back.
#include "doctor.hpp"

#include <cstdio>

namespace {

const char *const head = R"(#!/bin/sh
# Printed by weft doctor for one machine as it was then. Needs root.
#   sh FILE            changes the settings; they last until the next start of the machine
#   sh FILE undo       puts back what was there
#   sh FILE boot       adds the kernel parameters (GRUB as Debian has it); in force after a restart
#   sh FILE undo-boot  takes them away again
# ROOT in the environment: another tree than this machine's.
ROOT=${ROOT-}
failed=0
put() {
    if printf '%s\n' "$1" 2>/dev/null >"$ROOT$2"; then echo "$2: $1"; else echo "$2: stays as it is" >&2; failed=1; fi
}
grub() {
    if [ -z "$ROOT" ] && command -v update-grub >/dev/null; then update-grub; fi
}
)";

void settings_print(const std::vector<Finding> &findings, const std::string &name, std::string Setting::*value) {
    printf("%s() {\n    :\n", name.c_str());
    for (const auto &finding : findings) {
        if (!finding.settings.empty()) printf("    # %s: %s\n", finding.item.c_str(), finding.cost.c_str());
        for (const auto &setting : finding.settings)
            printf("    put %s %s\n", shell_quoted(setting.*value).c_str(), shell_quoted(setting.path).c_str());
    }
    printf("}\n");
}

void boot_print(const std::vector<Finding> &findings) {
    const char *const file = "/etc/default/grub.d/weft.cfg";
    std::string parameters;
    for (const auto &finding : findings) {
        if (!finding.boot.empty()) parameters += " " + finding.boot;
    }
    printf("boot() {\n");
    if (parameters.empty())
        printf("    echo 'no kernel parameter is missing'\n");
    else
        printf("    mkdir -p \"$ROOT/etc/default/grub.d\"\n"
               "    put 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX%s\"' %s\n    grub\n",
               parameters.c_str(), file);
    printf("}\nundo_boot() {\n    rm -f \"$ROOT%s\"\n    grub\n}\n", file);
}

} // namespace

void doctor_script_print(const std::vector<Finding> &findings) {
    fputs(head, stdout);
    settings_print(findings, "change", &Setting::wanted);
    settings_print(findings, "undo", &Setting::before);
    boot_print(findings);
    printf("case ${1-change} in\nchange) change ;;\nundo) undo ;;\nboot) boot ;;\nundo-boot) undo_boot ;;\n"
           "*) echo \"usage: sh $0 [undo|boot|undo-boot]\" >&2; exit 2 ;;\nesac\nexit $failed\n");
}
