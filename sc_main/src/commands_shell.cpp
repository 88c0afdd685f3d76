// Shell completion and the manual page, made from the same table of commands as the help.
#include "commands.h"

#include <kb/platform/config.h>
#include <kb/platform/version.h>

#include <fmt/format.h>
#include <cctype>
#include <memory>

namespace kb::cli {

namespace {

/// Commands that people use, in the order of the help.
std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  std::vector<const CLI::App*> list;
  for (const auto* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!sub->get_group().empty()) list.push_back(sub);
  return list;
}

std::vector<const CLI::Option*> options_of(const CLI::App& command) {
  std::vector<const CLI::Option*> list;
  for (const auto* o : command.get_options([](const CLI::Option*) { return true; }))
    if (!o->get_positional()) list.push_back(o);
  return list;
}

// ---- completion ------------------------------------------------------------------------------------------------

std::string bash_completion(const CLI::App& app, const BenchRegistry& benches) {
  std::string commands, cases, bench_names, bench_cases, keys;
  for (const auto* c : commands_of(app)) {
    commands += (commands.empty() ? "" : " ") + c->get_name();
    std::string options;
    for (const auto* o : options_of(*c))
      for (const auto& name : o->get_lnames()) options += (options.empty() ? "--" : " --") + name;
    cases += fmt::format("    {}) options='{}' ;;\n", c->get_name(), options);
  }
  for (const auto* b : benches.list()) {
    bench_names += (bench_names.empty() ? "" : " ") + b->name();
    std::string params;
    for (const auto& p : b->params()) params += (params.empty() ? "bench." : " bench.") + p.name;
    bench_cases += fmt::format("    {}) params='{}' ;;\n", b->name(), params);
  }
  for (const auto& k : config_keys()) keys += (keys.empty() ? "" : " ") + k;
  // What stands between @ is filled in; braces belong to the shell.
  std::string script = R"(# bash completion of kernbench. Use it with:  source <(kernbench completion)
_kernbench() {
  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" command='' bench='' word options='' params='' i
  # The shell splits words at '='; a value stands after one.
  [ "$current" = '=' ] && current=''
  [ "$previous" = '=' ] && previous="${COMP_WORDS[COMP_CWORD-2]}"
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word="${COMP_WORDS[i]}"
    [ -z "$command" ] && [ "${word#-}" = "$word" ] && command="$word"
    [ "$word" = --bench ] && bench="${COMP_WORDS[i+1]}"
  done
  case "$command" in
@CASES@  esac
  case "$bench" in
@BENCH_CASES@  esac
  compopt +o nospace 2>/dev/null
  case "$previous" in
    --topology) mapfile -t COMPREPLY < <(compgen -f -X '!*.y?(a)ml' -- "$current"; compgen -d -- "$current"); compopt -o filenames 2>/dev/null; return ;;
    --bench) mapfile -t COMPREPLY < <(compgen -W '@BENCHES@' -- "$current"); return ;;
    --mode) mapfile -t COMPREPLY < <(compgen -W 'timing data emit' -- "$current"); return ;;
    --log) mapfile -t COMPREPLY < <(compgen -W 'on off' -- "$current"); return ;;
    --trace) mapfile -t COMPREPLY < <(compgen -W 'vcd perfetto sqlite' -- "$current"); return ;;
    --engine) mapfile -t COMPREPLY < <(compgen -W 'local slurm' -- "$current"); return ;;
    --out) mapfile -t COMPREPLY < <(compgen -d -- "$current"); compopt -o filenames 2>/dev/null; return ;;
    --set)
      mapfile -t COMPREPLY < <(compgen -S = -W "$params @KEYS@" -- "$current")
      compopt -o nospace 2>/dev/null
      return ;;
  esac
  if [ -z "$command" ]; then
    mapfile -t COMPREPLY < <(compgen -W '@COMMANDS@ --help --version' -- "$current")
  elif [ "${current#-}" != "$current" ]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
  elif [ "$command" = describe ]; then
    mapfile -t COMPREPLY < <(compgen -W '@BENCHES@ metrics' -- "$current")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
    compopt -o filenames 2>/dev/null
  fi
}
complete -F _kernbench kernbench
)";
  const std::vector<std::pair<std::string, std::string>> parts{{"@CASES@", cases},
                                                               {"@BENCH_CASES@", bench_cases},
                                                               {"@BENCHES@", bench_names},
                                                               {"@KEYS@", keys},
                                                               {"@COMMANDS@", commands}};
  for (const auto& [mark, text] : parts)
    for (auto at = script.find(mark); at != std::string::npos; at = script.find(mark, at + text.size()))
      script.replace(at, mark.size(), text);
  return script;
}

// ---- manual ----------------------------------------------------------------------------------------------------

/// Text as troff takes it: no requests by accident, hyphens that can be copied.
std::string roff(const std::string& text) {
  std::string out;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) out += "\\&";
    line_begins = c == '\n';
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

std::string upper(std::string text) {
  for (auto& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

/// "--jobs JOBS", "-h,--help"
std::string option_text(const CLI::Option& o) {
  std::string text;
  for (const auto& n : o.get_snames()) text += (text.empty() ? "-" : ", -") + n;
  for (const auto& n : o.get_lnames()) text += (text.empty() ? "--" : ", --") + n;
  if (o.get_items_expected_max() > 0 && !o.get_lnames().empty()) text += " " + upper(o.get_lnames().front());
  return text;
}

std::string manual(const CLI::App& app, const BenchRegistry& benches) {
  std::string page = fmt::format(".TH KERNBENCH 1 \"\" \"kernbench {}\" \"User Commands\"\n", version());
  page += ".SH NAME\nkernbench \\- transaction-level model of an accelerator built out of HBM cubes\n";
  page += ".SH SYNOPSIS\n.B kernbench\n.I COMMAND\n[\\fIOPTION\\fR]...\n";
  page += ".SH DESCRIPTION\n" + roff(
                                    "Runs benches on a SystemC/TLM-2.0 model of the machine that a topology file "
                                    "describes, and explains what they did.\n");
  page += ".SH COMMANDS\n";
  for (const auto* c : commands_of(app)) {
    std::string usage = "kernbench " + c->get_name();
    for (const auto* o : c->get_options([](const CLI::Option*) { return true; }))
      if (o->get_positional())
        usage += " " + o->get_name();
      else if (o->get_required())
        usage += " --" + o->get_lnames().front() + " " + upper(o->get_lnames().front());
    page += ".SS " + roff(usage) + "\n" + roff(c->get_description()) + ".\n";
    for (const auto* o : c->get_options([](const CLI::Option*) { return true; })) {
      if (o->get_name() == "--help" || o->get_lnames() == std::vector<std::string>{"help"}) continue;
      page += ".TP\n\\fB" + roff(o->get_positional() ? o->get_name() : option_text(*o)) + "\\fR\n" +
              roff(o->get_description()) + "\n";
    }
    if (!c->get_footer().empty() && c->get_footer() != app.get_footer()) page += ".PP\n.nf\n" + roff(c->get_footer()) + "\n.fi\n";
  }
  page += ".SH BENCHES\n";
  for (const auto* b : benches.list()) {
    page += ".TP\n\\fB" + roff(b->name()) + "\\fR\n" + roff(b->doc()) + "\n";
    for (const auto& p : b->params())
      page += ".br\n" + roff(fmt::format("bench.{} = {} ({}): {}", p.name, p.default_value, p.allowed(), p.doc)) + "\n";
  }
  page += ".SH EXIT STATUS\n";
  static const std::vector<std::pair<int, const char*>> kCodes{
      {0, "done"},
      {1, "wrong numerics, a law that does not hold, runs that differ, a point of a sweep that failed"},
      {2, "found before simulation: files, options, parameters, allocation"},
      {3, "found during simulation: kernel shapes, scratch, addresses, deadlock, a broken law"},
      {4, "input and output"},
      {130, "interrupted"}};
  for (const auto& [code, text] : kCodes) page += fmt::format(".TP\n\\fB{}\\fR\n{}\n", code, roff(text));
  if (!app.get_footer().empty()) page += ".SH EXAMPLES\n.nf\n" + roff(app.get_footer()) + "\n.fi\n";
  return page;
}

}  // namespace

void add_completion(CLI::App& app, CliContext& ctx) {
  auto* sub = app.add_subcommand("completion", "Print the completion script for bash");
  sub->footer("Example: source <(kernbench completion)");
  sub->callback([&app, &ctx] { fmt::print("{}", bash_completion(app, ctx.benches)); });
}

void add_manual(CLI::App& app, CliContext& ctx) {
  auto* sub = app.add_subcommand("manual", "Print the manual page (troff)");
  sub->footer("Example: kernbench manual | man -l -");
  sub->callback([&app, &ctx] { fmt::print("{}", manual(app, ctx.benches)); });
}

}  // namespace kb::cli
