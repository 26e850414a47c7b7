// See man.hpp.
#include "man.hpp"

#include <weft.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>
#include <vector>

using Apps = std::vector<const CLI::App *>; // the command, a subcommand, one of that, ...

static std::string roff(const std::string &text) {
    std::string out;
    for (char c : text) {
        if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
        if (c == '\\')
            out += "\\e";
        else if (c == '-')
            out += "\\-";
        else
            out += c;
    }
    return out;
}

static std::string joined(const Apps &apps, const char *between) {
    std::string out;
    for (const CLI::App *app : apps) out += (out.empty() ? "" : between) + app->get_name();
    return out;
}

static Apps subcommands(const CLI::App &app) {
    return app.get_subcommands([](const CLI::App *) { return true; });
}

static void put_option(std::ostream &out, const CLI::Option &option) {
    out << ".TP\n\\fB" << roff(option.get_name(false, true)) << "\\fP";
    if (option.get_type_size_max() > 0) out << " \\fI" << roff(option.get_type_name()) << "\\fP";
    out << "\n" << roff(option.get_description()) << ".\n";
}

// A footer's lines: those that begin with blanks are commands.
static void put_footer(std::ostream &out, const std::string &footer) {
    bool is_code = false;
    for (size_t at = 0; at < footer.size();) {
        size_t end = std::min(footer.find('\n', at), footer.size());
        std::string line = footer.substr(at, end - at);
        bool is_code_now = line.compare(0, 2, "  ") == 0;
        if (is_code_now != is_code) out << (is_code_now ? ".PP\n.nf\n.RS 4\n" : ".RE\n.fi\n.PP\n");
        is_code = is_code_now;
        out << roff(is_code ? line.substr(2) : line) << "\n";
        at = end + 1;
    }
    if (is_code) out << ".RE\n.fi\n";
}

static void put_page(std::ostream &out, const Apps &apps) {
    const CLI::App &app = *apps.back();
    std::string name = joined(apps, "-"), title = name;
    std::transform(title.begin(), title.end(), title.begin(), [](unsigned char c) { return static_cast<char>(toupper(c)); });
    out << ".TH " << title << " 1 \"\" \"weft " << weft_version() << "\" \"weft\"\n.SH NAME\n";
    out << roff(name) << " \\- " << roff(app.get_description()) << "\n.SH SYNOPSIS\n\\fB" << roff(joined(apps, " "))
        << "\\fP";
    out << (subcommands(app).empty() ? "" : " [\\fISUBCOMMAND\\fP]") << " [\\fIOPTION\\fP]...\n";
    if (!app.get_footer().empty()) {
        out << ".SH DESCRIPTION\n";
        put_footer(out, app.get_footer());
    }
    out << ".SH OPTIONS\n";
    for (const CLI::Option *option : app.get_options()) put_option(out, *option);
    if (!subcommands(app).empty()) out << ".SH SUBCOMMANDS\n";
    for (const CLI::App *below : subcommands(app))
        out << ".TP\n\\fB" << roff(name + "-" + below->get_name()) << "\\fP(1)\n" << roff(below->get_description()) << "\n";
    out << ".SH EXIT STATUS\n0 on success, 1 when something failed, with a line on standard error, 2 for a command line "
           "that is "
           "none.\n.SH SEE ALSO\n";
    out << (apps.size() > 1 ? "\\fBweft\\fP(1), " : "") << "\\fBweft\\fP(3)\n";
}

static void write_pages(const Apps &apps, const std::string &directory) {
    std::string file = directory + "/" + joined(apps, "-") + ".1";
    std::ofstream out(file);
    put_page(out, apps);
    out.close();
    if (!out) throw std::runtime_error("cannot write " + file);
    for (const CLI::App *below : subcommands(*apps.back())) {
        Apps deeper = apps;
        deeper.push_back(below);
        write_pages(deeper, directory);
    }
}

void man_write(const CLI::App &app, const std::string &directory) { write_pages({&app}, directory); }
