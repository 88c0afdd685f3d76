#include <kb/platform/recording.h>

#include <kb/modules/fabric/context.h>
#include <kb/tlm_if/errors.h>
#include <kb/traces/op_log_writer.h>
#include <kb/traces/perfetto_writer.h>
#include <kb/traces/sqlite_writer.h>
#include <kb/traces/vcd_writer.h>

#include <fmt/format.h>
#include <filesystem>

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
  std::vector<std::string> names;

  void record(const OpRecord& r) override {
    for (auto* s : sinks) s->record(r);
  }
  void flush() override {
    for (auto* s : sinks) s->flush();
  }
  void link_busy(std::uint32_t link, Ps from, Ps to) override {
    if (vcd) vcd->link_busy(link, from, to);
  }
  bool wanted() const { return want_log || traces.vcd || traces.perfetto || traces.sqlite; }

  template <typename Writer, typename... Args>
  void add(std::unique_ptr<Writer>& writer, const char* name, Args&&... args) {
    writer = std::make_unique<Writer>(dir + "/" + name, components, std::forward<Args>(args)...);
    sinks.push_back(writer.get());
    names.emplace_back(name);
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
  if (i.want_log) i.add(i.log, "op_log.jsonl");
  if (i.traces.vcd) {
    VcdWriter::Options v;
    v.filter = filter;
    v.queue_slots = platform.config().pe.ipcq.slots;
    i.add(i.vcd, "trace.vcd", v);
    i.vcd->set_links(platform.link_names());
  }
  if (i.traces.perfetto) i.add(i.perfetto, "trace.perfetto.json", filter);
  if (i.traces.sqlite) {
    i.add(i.sqlite, "trace.sqlite", filter);
    i.sqlite->set_config(config_items(platform.config()));
  }
}

void Recording::finish() {
  Impl& i = *impl_;
  if (i.platform == nullptr) return;
  i.platform->deliver_records();
  if (i.log) i.log->finish();
  if (i.vcd) i.vcd->finish();
  if (i.perfetto) i.perfetto->finish();
  if (i.sqlite) i.sqlite->finish();
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
  for (const auto& name : impl_->names) paths.push_back(impl_->dir + "/" + name + (impl_->finished ? "" : ".part"));
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
