#include "commands.h"
#include "files.h"
#include "report_data.h"

#include <fmt/format.h>
#include <memory>

namespace kb {

// traces/report/dist/report.js, embedded by the build.
extern const char kReportScript[];
extern const unsigned long kReportScript_size;

}  // namespace kb

namespace kb::cli {

namespace {

std::string html_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      default: out += c;
    }
  }
  return out;
}

/// JSON that may stand in a script element: '<' occurs in strings only, where it can be written otherwise.
std::string script_text(const nlohmann::ordered_json& data) {
  const std::string plain = data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string out;
  out.reserve(plain.size());
  for (const char c : plain) out += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return out;
}

std::string page_of(const nlohmann::ordered_json& data) {
  std::string page = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  page +=
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n";
  page += "<title>" + html_text(data.value("title", "kernbench")) + "</title>\n</head>\n<body>\n";
  page += "<noscript><p>" + html_text(data.value("sentence", "")) +
          "</p><p>The pictures of this page need JavaScript.</p></noscript>\n";
  page += "<script type=\"application/json\" id=\"data\">" + script_text(data) + "</script>\n<script>";
  page.append(kReportScript, kReportScript_size);
  return page + "</script>\n</body>\n</html>\n";
}

}  // namespace

void add_report(CLI::App& app, CliContext&) {
  struct Options {
    std::string dir, out;
    std::vector<std::string> pes;
  };
  auto* sub = app.add_subcommand("report", "Make a page with pictures from a finished run or sweep");
  auto o = std::make_shared<Options>();
  sub->add_option("DIR", o->dir, "folder of a run (--out) or of a sweep")->required();
  sub->add_option("--out", o->out, "the page (default: DIR/report.html)");
  sub->add_option("--pe", o->pes, "PE whose engines the timeline shows, such as sip0.cube0.pe3; may be repeated");
  sub->footer(
      "The page is one file that opens in a browser without a network.\n"
      "Examples:\n"
      "  kernbench report out\n"
      "  kernbench report out --pe sip0.cube0.pe0 --pe sip0.cube1.pe7 --out explained.html");
  sub->callback([o] {
    const bool sweep = file_exists(o->dir + "/sweep.json");
    const auto data = sweep ? sweep_report(SweepStore::open(o->dir, false)) : run_report(open_run(o->dir), o->pes);
    if (o->out.empty()) o->out = o->dir + "/report.html";
    write_atomically(o->out, page_of(data));
    fmt::print("{}\n{}\n", data.value("sentence", ""), o->out);
  });
}

}  // namespace kb::cli
