#include <kb/platform/platform.h>

#include "host/sim_host.h"

#include <kb/modules/pe/pe.h>
#include <kb/platform/data_pass.h>
#include <kb/platform/fabric_builder.h>
#include <kb/platform/machine.h>
#include <kb/tlm_if/errors.h>
#include <kb/traces/op_sorter.h>

#include <fmt/format.h>
#include <functional>
#include <map>

namespace kb {

namespace {

/// Credits travel on wires of their own: every queue engine reaches every other one in the time it states.
class CreditWires : public sc_core::sc_module, public CreditFwIf {
 public:
  CreditWires(const sc_core::sc_module_name& name, std::size_t pes) : sc_module(name), in("in") {
    in.bind(static_cast<CreditFwIf&>(*this));
    for (std::size_t i = 0; i < pes; ++i)
      out_.push_back(std::make_unique<CreditInitiatorSocket>(fmt::format("out{}", i).c_str()));
  }
  ProtocolTargetSocket<CreditProtocol, 0, sc_core::SC_ZERO_OR_MORE_BOUND> in;
  CreditInitiatorSocket& out(std::size_t rank) { return *out_[rank]; }

  tlm::tlm_sync_enum nb_transport_fw(Credit& credit, CreditPhase& phase, sc_core::sc_time& delay) override {
    return (*out_[credit.to])->nb_transport_fw(credit, phase, delay);
  }

 private:
  std::vector<std::unique_ptr<CreditInitiatorSocket>> out_;
};

/// Ends and forgets the methods below `top`, the latest first, where the kernel's list of processes begins. Left to
/// itself it removes them in another order, each with a search through all that are left: seconds on a machine of some
/// hundred PEs.
void end_methods(const sc_core::sc_object& top) {
  if (sc_core::sc_get_status() != sc_core::SC_PAUSED) return;  // they cannot be ended before they run, or after sc_stop
  std::vector<sc_core::sc_process_handle> methods;
  const std::function<void(const sc_core::sc_object&)> visit = [&](const sc_core::sc_object& object) {
    for (sc_core::sc_object* child : object.get_child_objects()) {
      const sc_core::sc_process_handle process(child);
      if (process.valid() && process.proc_kind() == sc_core::SC_METHOD_PROC_)
        methods.push_back(process);
      else
        visit(*child);
    }
  };
  visit(top);
  for (; !methods.empty(); methods.pop_back()) methods.back().kill();
}

}  // namespace

/// Everything of the machine but its name. Implements what the host needs of it.
struct Platform::Impl : public SimMachine, public MemoryView {
  Impl(const SystemConfig& c, PlatformOptions o)
      : config(c),
        options(std::move(o)),
        sim_host("host", config, options.mode, options.tick),
        wires("credits", config.total_pes()),
        pes(config.total_pes(), nullptr) {
    validate_config(config);
    if (options.mode == Mode::data) pass = std::make_unique<DataPass>(sim_host.machine(), *this, math, &table);
    if (pass || !options.sinks.empty()) {
      sorter = std::make_unique<OpSorter>();
      if (pass) sorter->add_sink(*pass);
      for (auto* s : options.sinks) sorter->add_sink(*s);
    }
    sim_host.attach(*this);
    components_of_pes();
    FabricOptions f;
    f.activity = &sim_host.activity();
    f.faults = &sim_host;
    f.recorder = sorter.get();
    f.links = options.links;
    f.messages = options.messages;
    f.registry = options.fabric_registry;
    f.dmi = options.mode == Mode::data;
    f.shuffle = options.build_shuffle;
    f.make_pe = [this](const char* name, const PeAttachment& at) { return make_pe(name, at); };
    fabric = std::make_unique<Fabric>(config, f);
    fabric->register_components(table);
    set_bank_paths();
  }

  // Ranks first, in the order of the hierarchy, so that numbers do not depend on the order of construction.
  void components_of_pes() {
    const auto& machine = sim_host.machine();
    for (std::uint32_t r = 0; r < machine.total_pes(); ++r)
      for (const auto& part : Pe::component_names()) table.add(pe_name(machine.pe_of(r)) + "." + part);
  }

  std::unique_ptr<sc_core::sc_module> make_pe(const char* name, const PeAttachment& at) {
    PeEnv env;
    env.id = at.id;
    env.rank = at.rank;
    env.machine = &sim_host.machine();
    env.mode = options.mode;
    env.recorder = sorter.get();
    env.component_base = static_cast<std::uint32_t>(at.rank * Pe::component_names().size());
    env.pages = &sim_host.page_table();
    env.addresses = &sim_host.addresses();
    env.registry = options.pe_registry;
    env.activity = &sim_host.activity();
    env.faults = &sim_host;
    auto pe = std::make_unique<Pe>(name, config.pe, env);
    pes[at.rank] = pe.get();
    pe->dma_socket.bind(*at.dma);
    at.tcm->bind(pe->tcm_socket);
    at.launch->bind(pe->control_in);
    pe->control_out.bind(*at.completion);
    pe->credit_out.bind(wires.in);
    wires.out(at.rank).bind(pe->credit_in);
    return pe;
  }

  // Queue slots in sram or hbm lie behind a path through the cube.
  void set_bank_paths() {
    if (config.pe.ipcq.buffer_kind == BufferKind::tcm) return;
    const auto& topology = fabric->topology();
    for (std::uint32_t r = 0; r < pes.size(); ++r) {
      const PeId id = sim_host.machine().pe_of(r);
      const std::uint32_t bank = config.pe.ipcq.buffer_kind == BufferKind::sram ? topology.sram(id.sip, id.cube)
                                                                                : topology.hbm(id.sip, id.cube, id.pe);
      const Route* route = fabric->routes().route(topology.pe(r), bank, id.pe);
      if (route == nullptr)
        throw InputError(fmt::format("{}: found no route to the bank of its queue slots", pe_name(id)));
      pes[r]->set_bank_path(route->control_ps());
    }
  }

  // ---- SimMachine
  Pe& pe(std::uint32_t rank) override { return *pes[rank]; }
  MemoryView& memory() override { return *this; }

  void start_launch(const KernelProgram& program, const std::vector<std::uint32_t>& ranks,
                    std::function<void()> done) override {
    fabric->invalidate_dmi();
    launch = LaunchMessage{};
    launch.id = ++launches;
    launch.program = &program;
    launch.pes = ranks;
    launch.lead_sip = sim_host.machine().pe_of(ranks.front()).sip;
    fabric->host().start_launch(launch, std::move(done));
  }
  Ps launch_start() const override { return launch.start; }
  void start_copy(bool to_device, std::uint64_t physical, std::uint64_t bytes, std::function<void(Ps)> done) override {
    fabric->host().start_copy(to_device, physical, bytes, std::move(done));
  }

  void reset_links() override { links_before = fabric->link_stats(); }
  std::vector<LinkStats> links() const override {
    auto now = fabric->link_stats();
    for (std::size_t i = 0; i < now.size() && i < links_before.size(); ++i) {
      now[i].bytes -= links_before[i].bytes;
      now[i].busy -= links_before[i].busy;
    }
    return now;
  }
  std::uint64_t messages() const override { return fabric->messages(); }

  Ps credit_latency(std::uint32_t from, std::uint32_t to) const override {
    const auto& topology = fabric->topology();
    const Route* route = fabric->routes().route(topology.pe(from), topology.pe(to), sim_host.machine().pe_of(from).pe);
    if (route == nullptr)
      throw InputError(fmt::format("launch: found a queue between PE {} and PE {}, which are not joined", from, to));
    // Path latency of credit_bytes on a wire of its own: overheads and propagation of the path, and the credit's
    // bytes once over the slowest link.
    double slowest = 0;
    for (const auto& h : route->hops) slowest = slowest == 0 ? h.bw_gbs : std::min(slowest, h.bw_gbs);
    const auto bytes = config.pe.ipcq.credit_bytes;
    return route->control_ps() + (bytes > 0 && slowest > 0 ? transfer_ps(bytes, slowest) : 0);
  }

  void flush_records() override {
    if (sorter) sorter->flush(now_ps());
  }
  void drain_records() override {
    if (sorter) sorter->drain();
  }
  bool foreign_ip() const override {
    const auto& o = config.open;
    return o.host_port || !o.hbm.empty() || !o.ucie_edge.empty() || !o.inter_sip.empty();
  }

  // ---- MemoryView
  void access(tlm::tlm_command command, std::uint32_t rank, Space space, std::uint64_t addr, void* data,
              std::size_t bytes) {
    auto* at = static_cast<unsigned char*>(data);
    while (bytes > 0) {
      std::uint64_t physical = 0;
      std::uint64_t run = std::min<std::uint64_t>(bytes, 1u << 30);
      if (space == Space::tcm) {
        const PeId id = sim_host.machine().pe_of(rank);
        if (addr + run > sim_host.machine().tcm_bytes)
          throw ModelError(fmt::format("{}.tcm: found an access of {} bytes at offset {}; allowed: {} bytes of TCM",
                                       pe_name(id), bytes, addr, sim_host.machine().tcm_bytes));
        physical = sim_host.addresses().tcm(id.sip, id.cube, id.pe, addr);
      } else {
        const PhysicalRun r = sim_host.page_table().translate(addr, run);
        if (r.bytes == 0)
          throw ModelError(fmt::format("{}: found virtual address {:#x}, which is not mapped; {}",
                                       pe_name(sim_host.machine().pe_of(rank)), addr,
                                       sim_host.page_table().describe(addr)));
        physical = r.address;
        run = r.bytes;
      }
      trans.set_command(command);
      trans.set_address(physical);
      trans.set_data_ptr(at);
      trans.set_data_length(static_cast<unsigned>(run));
      trans.set_streaming_width(static_cast<unsigned>(run));
      trans.set_byte_enable_ptr(nullptr);
      trans.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
      const unsigned done = fabric->transport_dbg(trans);
      if (done != run)
        throw ModelError(
            fmt::format("debug access at {}: found {} of {} bytes served; allowed: memory that answers "
                        "transport_dbg in full",
                        sim_host.addresses().describe(physical), done, run));
      at += run;
      addr += run;
      bytes -= run;
    }
  }
  void read(std::uint32_t rank, Space space, std::uint64_t addr, void* to, std::size_t bytes) override {
    access(tlm::TLM_READ_COMMAND, rank, space, addr, to, bytes);
  }
  void write(std::uint32_t rank, Space space, std::uint64_t addr, const void* from, std::size_t bytes) override {
    access(tlm::TLM_WRITE_COMMAND, rank, space, addr, const_cast<void*>(from), bytes);
  }

  SystemConfig config;
  PlatformOptions options;
  ComponentTable table;
  SimHost sim_host;
  CreditWires wires;
  const MathTable math = MathTable::builtin();
  std::unique_ptr<DataPass> pass;
  std::unique_ptr<OpSorter> sorter;
  std::vector<Pe*> pes;
  std::unique_ptr<Fabric> fabric;
  LaunchMessage launch;
  std::uint64_t launches = 0;
  std::vector<LinkStats> links_before;
  tlm::tlm_generic_payload trans;
};

Platform::Platform(const sc_core::sc_module_name& name, const SystemConfig& config, PlatformOptions options)
    : sc_module(name), impl_((adopt_time_resolution(), std::make_unique<Impl>(config, std::move(options)))) {}

Platform::~Platform() {
  end_methods(*this);
}

Host& Platform::host() {
  return impl_->sim_host;
}
BaseTargetSocket& Platform::host_port() {
  if (!impl_->config.open.host_port)
    throw InputError(
        "open end: found the host port, which the platform drives itself; allowed: one that open.host_port "
        "leaves open");
  return impl_->fabric->host_socket();
}
BaseInitiatorSocket& Platform::hbm(const std::string& name) {
  return impl_->fabric->open_hbm(name);
}
OpenEdge Platform::ucie_edge(const std::string& name) {
  return impl_->fabric->open_ucie(name);
}
OpenEdge Platform::inter_sip(const std::string& name) {
  return impl_->fabric->open_inter_sip(name);
}
std::uint64_t Platform::physical_address(const Tensor& tensor, std::size_t shard) const {
  return impl_->sim_host.physical_address(tensor, shard);
}
std::uint64_t Platform::map(std::uint64_t physical, std::uint64_t bytes, const std::string& what) {
  return impl_->sim_host.map(physical, bytes, what);
}
void Platform::deliver_records() {
  impl_->drain_records();
}
const SystemConfig& Platform::config() const {
  return impl_->config;
}
const ComponentTable& Platform::components() const {
  return impl_->table;
}
MemoryView& Platform::memory() {
  return *impl_;
}
Pe& Platform::pe(std::uint32_t rank) {
  return *impl_->pes[rank];
}
std::vector<std::string> Platform::link_names() const {
  std::vector<std::string> names;
  for (const auto& l : impl_->fabric->link_stats()) names.push_back(l.name);
  return names;
}
std::vector<std::string> Platform::node_names() const {
  std::vector<std::string> names;
  const Topology& topology = impl_->fabric->topology();
  for (const TopologyNode& node : topology.nodes()) names.push_back(node.name);
  return names;
}
std::uint64_t Platform::activations() const {
  std::uint64_t sum = impl_->fabric->activations();
  for (const Pe* pe : impl_->pes) sum += pe->activations();
  return sum;
}
void Platform::check_conservation() const {
  impl_->fabric->check_conservation();
}

}  // namespace kb
