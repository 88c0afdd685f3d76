#include <kb/platform/recording.h>

#include <kb/modules/fabric/context.h>
#include <kb/platform/routing.h>
#include <kb/platform/transfer_splitter.h>
#include <kb/tlm_if/errors.h>
#include <kb/traces/op_log_writer.h>
#include <kb/traces/perfetto_writer.h>
#include <kb/traces/sqlite_writer.h>
#include <kb/traces/vcd_writer.h>

#include <fmt/format.h>
#include <algorithm>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>

namespace kb {

/// Stands in for the writers, which need the names of a platform that is built after they have to be known to it.
struct Recording::Impl : OpSink, LinkObserver {
  std::string dir;
  bool want_log = false;
  TraceOptions traces;

  Platform* platform = nullptr;
  ComponentTable components;  // the platform's, which may be gone when files are closed
  bool finished = false;
  std::unique_ptr<OpLogWriter> log;
  std::unique_ptr<VcdWriter> vcd;
  std::unique_ptr<PerfettoWriter> perfetto;
  std::unique_ptr<SqliteWriter> sqlite;
  std::vector<OpSink*> sinks;
  struct Stream {
    std::string name;
    std::function<void()> finish;
    bool finished = false;
  };
  std::vector<Stream> streams;  // in the order in which they are finished
  TransferSplitter splitter{[this](const TransferTimes& t) { transfer(t); }};
  std::vector<std::string> nodes;
  std::map<std::pair<const Route*, bool>, std::uint32_t> paths;  // looked up only

  /// A stream that fails ends there; the others go on to where the run ends for it.
  void record(const OpRecord& r) override {
    std::exception_ptr failed;
    for (auto*& s : sinks) {
      if (s == nullptr) continue;
      try {
        s->record(r);
      } catch (...) {
        s = nullptr;
        if (!failed) failed = std::current_exception();
      }
    }
    if (failed) std::rethrow_exception(failed);
  }
  void flush() override {
    for (auto* s : sinks)
      if (s != nullptr) s->flush();
  }
  void link_busy(std::uint32_t link, Ps from, Ps to) override {
    if (vcd) vcd->link_busy(link, from, to);
  }
  void transfer(const TransferTimes& t) {
    if (!sqlite) return;
    const auto [path, added] = paths.try_emplace({t.forth, t.write}, 0);
    if (added) path->second = sqlite->add_path(path_of(*t.forth, t.write));
    sqlite->transfer(path->second, t.bytes, t.begin, t.end, t.alone, t.parts);
  }
  SqliteWriter::Path path_of(const Route& forth, bool write) const {
    SqliteWriter::Path path{write, nodes[forth.from], nodes[forth.to], {}};
    for (const TransferPart& p : transfer_parts(forth, write)) {
      SqliteWriter::PathPart part;
      part.stage = p.stage;
      part.component = nodes[p.node];
      part.fixed = p.fixed;
      if (p.hop != nullptr) {
        part.link = link_name(nodes[p.node], nodes[p.hop->next]);
        part.gb_per_s = p.hop->bw_gbs;
      }
      path.parts.push_back(std::move(part));
    }
    return path;
  }
  bool wanted() const { return want_log || traces.vcd || traces.perfetto || traces.sqlite; }

  template <typename Writer, typename... Args>
  void add(std::unique_ptr<Writer>& writer, const char* name, Args&&... args) {
    writer = std::make_unique<Writer>(dir + "/" + name, components, std::forward<Args>(args)...);
    sinks.push_back(writer.get());
    streams.push_back({name, [&writer] { writer->finish(); }});
  }
};

Recording::Recording(std::string dir, bool op_log, TraceOptions traces) : impl_(std::make_unique<Impl>()) {
  impl_->dir = std::move(dir);
  impl_->want_log = op_log;
  impl_->traces = std::move(traces);
}

Recording::~Recording() {
  abandon();
}

void Recording::observe(PlatformOptions& options) {
  if (!impl_->wanted()) return;
  options.sinks.push_back(impl_.get());
  if (impl_->traces.vcd) options.links = impl_.get();
  if (impl_->traces.sqlite) options.messages = &impl_->splitter;
}

void Recording::open(Platform& platform) {
  Impl& i = *impl_;
  if (!i.wanted()) return;
  i.platform = &platform;
  i.components = platform.components();
  std::error_code error;
  std::filesystem::create_directories(i.dir, error);
  if (error) throw IoError(fmt::format("{}: cannot create the directory: {}", i.dir, error.message()));
  TraceFilter filter;
  filter.scope = i.traces.scope;
  if (i.traces.window_ns)
    filter.window = std::make_pair(ps_from_ns(i.traces.window_ns->first), ps_from_ns(i.traces.window_ns->second));
  const std::vector<std::string> links = platform.link_names();
  bool covers = std::any_of(links.begin(), links.end(), [&](const std::string& l) { return filter.covers(l); });
  for (std::uint32_t c = 0; !covers && c < i.components.size(); ++c) covers = filter.covers(i.components.name(c));
  if (!covers)
    throw InputError(
        fmt::format("trace scope: found '{}', which covers nothing; allowed: a pattern of component or link "
                    "names, such as '{}*'",
                    filter.scope, i.components.name(0)));
  if (i.want_log) i.add(i.log, "op_log.jsonl");
  if (i.traces.vcd) {
    VcdWriter::Options v;
    v.filter = filter;
    v.queue_slots = platform.config().pe.ipcq.slots;
    i.add(i.vcd, "trace.vcd", v);
    i.vcd->set_links(links);
  }
  if (i.traces.perfetto) i.add(i.perfetto, "trace.perfetto.json", filter);
  if (i.traces.sqlite) {
    i.nodes = platform.node_names();
    i.add(i.sqlite, "trace.sqlite", filter);
    i.sqlite->set_config(config_items(platform.config()));
  }
}

void Recording::finish() {
  Impl& i = *impl_;
  if (i.platform == nullptr) return;
  i.platform->deliver_records();
  // One that cannot be finished does not keep the others from it; the first error is the one that counts.
  std::exception_ptr first;
  for (Impl::Stream& s : i.streams) {
    try {
      s.finish();
      s.finished = true;
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
  i.finished = true;
}

void Recording::abandon() noexcept {
  Impl& i = *impl_;
  if (i.finished) return;
  if (i.log) i.log->abandon();
  if (i.vcd) i.vcd->abandon();
  if (i.perfetto) i.perfetto->abandon();
  if (i.sqlite) i.sqlite->abandon();
}

std::vector<std::string> Recording::files() const {
  std::vector<std::string> paths;
  for (const auto& s : impl_->streams) paths.push_back(impl_->dir + "/" + s.name + (s.finished ? "" : ".part"));
  return paths;
}

std::string Recording::view_command() const {
  return impl_->vcd && impl_->finished ? impl_->vcd->view_command() : std::string();
}

std::optional<Recording::Digest> Recording::op_log() const {
  if (!impl_->log) return std::nullopt;
  return Digest{impl_->log->records(), impl_->log->hash()};
}

}  // namespace kb
