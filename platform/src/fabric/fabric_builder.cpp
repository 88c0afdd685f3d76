#include <kb/modules/fabric/initiator_port.h>
#include <kb/modules/fabric/memory_port.h>
#include <kb/modules/memory/memory_controller.h>
#include <kb/platform/fabric_builder.h>
#include <kb/platform/machine.h>
#include <kb/tlm_if/errors.h>
#include <kb/tlm_if/text.h>

#include <algorithm>
#include <random>
#include <utility>

namespace kb {

namespace {

/// A module that only holds others: a SIP, a cube, a UCIe port.
class Scope final : public sc_core::sc_module {
 public:
  template <typename Fill>
  Scope(const sc_core::sc_module_name& name, Fill&& fill) : sc_core::sc_module(name) {
    fill();
  }
};

std::string last_segment(const std::string& name) {
  return name.substr(name.rfind('.') + 1);
}

constexpr int kSipShift = AddressMap::kOffsetBits + AddressMap::kDieBits;
constexpr std::uint64_t kDieBytes = 1ull << AddressMap::kOffsetBits;

}  // namespace

struct Fabric::Impl {
  Impl(Fabric& self, const SystemConfig& c, FabricOptions o)
      : config(c),
        options(std::move(o)),
        registry(options.registry != nullptr ? options.registry : &own_registry),
        topology(c),
        table(topology),
        map(address_map(c)),
        order(options.shuffle) {
    context.directory = &self;
    context.granularity = c.granularity.granularity;
    context.flit_bytes = c.cube.hbm.burst_bytes;
    context.flits_per_packet = c.granularity.granularity == Granularity::flit
                                   ? 1
                                   : static_cast<std::uint32_t>(std::max<std::uint64_t>(
                                         1, c.granularity.packet_bytes / c.cube.hbm.burst_bytes));
    context.dmi = options.dmi;
    context.activity = options.activity;
    context.faults = options.faults;
    context.recorder = options.recorder;
    context.links = options.links;
    context.messages = options.messages;
    number_links();
    const std::size_t count = topology.nodes().size();
    nodes.resize(count, nullptr);
    interfaces.resize(count, nullptr);
    memories.resize(count, nullptr);
    pes.resize(c.total_pes());
    build();
    bind();
  }

  ~Impl() {
    while (!modules.empty()) modules.pop_back();
  }

  // ---- numbers --------------------------------------------------------------------------------------------

  void number_links() {
    for (const TopologyNode& n : topology.nodes()) {
      first_link.push_back(links);
      links += static_cast<std::uint32_t>(n.ports.size());
    }
  }

  NodeParams node_params(std::uint32_t n) const {
    const TopologyNode& node = topology.node(n);
    NodeParams p;
    p.number = n;
    p.title = node.name;
    p.end_overhead = node.end_overhead;
    for (std::uint32_t i = 0; i < node.ports.size(); ++i)
      p.links.push_back({first_link[n] + i, node.ports[i].bw_gbs, node.ports[i].prop,
                         transfer_ps(config.cube.hbm.burst_bytes, node.ports[i].bw_gbs)});
    return p;
  }

  // ---- construction ---------------------------------------------------------------------------------------

  /// Runs the steps, in a random order where the options ask for it.
  void in_some_order(std::vector<std::function<void()>> steps) {
    if (options.shuffle != 0) std::shuffle(steps.begin(), steps.end(), order);
    for (const auto& step : steps) step();
  }

  template <typename Fill>
  void scope(const std::string& name, Fill&& fill) {
    modules.push_back(nullptr);
    const std::size_t place = modules.size() - 1;
    auto module = std::make_unique<Scope>(name.c_str(), std::forward<Fill>(fill));
    modules[place] = std::move(module);
  }

  PacketNode& keep(std::uint32_t n, std::unique_ptr<PacketNode> node) {
    nodes[n] = node.get();
    modules.push_back(std::move(node));
    return *nodes[n];
  }
  void make_node(std::uint32_t n, const FactoryTable<FabricRegistry::Node>& table_of_kind, const std::string& impl) {
    keep(n, table_of_kind.find(impl)(last_segment(topology.node(n).name).c_str(), context, node_params(n)));
  }
  NetworkInterface& make_interface(std::uint32_t n, const std::string& name, NetworkInterfaceParams p) {
    p.node = node_params(n);
    auto ni = std::make_unique<NetworkInterface>(name.c_str(), context, p);
    interfaces[n] = ni.get();
    keep(n, std::move(ni));
    return *interfaces[n];
  }

  void build() {
    std::vector<std::function<void()>> steps;
    for (std::uint32_t s = 0; s < config.sips; ++s)
      steps.push_back([this, s] { scope("sip" + std::to_string(s), [this, s] { build_sip(s); }); });
    steps.push_back([this] {
      if (topology.sip_switch() != Topology::kNone) keep(topology.sip_switch(), plain("switch", topology.sip_switch()));
    });
    steps.push_back([this] {
      HostPortParams p;
      p.sips = config.sips;
      p.sip_shift = kSipShift;
      p.open = config.open.host_port;
      for (std::uint32_t s = 0; s < config.sips; ++s) {
        p.pcie_ep.push_back(topology.pcie_ep(s));
        p.io_cpu.push_back(topology.io_cpu(s));
      }
      auto port = std::make_unique<HostPort>("host_port", context, p);
      host = port.get();
      modules.push_back(std::move(port));
    });
    in_some_order(std::move(steps));
  }

  std::unique_ptr<PacketNode> plain(const char* name, std::uint32_t n) {
    return std::make_unique<PacketNode>(name, context, node_params(n));
  }

  void build_sip(std::uint32_t s) {
    std::vector<std::function<void()>> steps;
    for (std::uint32_t c = 0; c < config.cubes_per_sip(); ++c)
      steps.push_back([this, s, c] { scope("cube" + std::to_string(c), [this, s, c] { build_cube(s, c); }); });
    steps.push_back([this, s] { scope("io", [this, s] { build_io(s); }); });
    in_some_order(std::move(steps));
  }

  void build_cube(std::uint32_t s, std::uint32_t c) {
    const CubeConfig& cube = config.cube;
    std::vector<std::function<void()>> steps;
    for (std::uint32_t row = 0; row < cube.mesh_rows; ++row)
      for (std::uint32_t col = 0; col < cube.mesh_cols; ++col) {
        const std::uint32_t n = topology.router(s, c, {row, col});
        if (n != Topology::kNone) steps.push_back([this, n] { make_node(n, registry->router, config.cube.noc.impl); });
      }
    for (const Side side : kSides) {
      steps.push_back([this, s, c, side] {
        scope(std::string("ucie_") + letter_of(side), [this, s, c, side] {
          for (std::uint32_t i = 0; i < config.cube.ucie.connections; ++i)
            make_node(topology.ucie(s, c, side, i), registry->ucie, config.cube.ucie.impl);
          const std::uint32_t edge = topology.ucie_edge(s, c, side);
          if (edge != Topology::kNone) make_edge(edge, "edge");
        });
      });
    }
    for (std::uint32_t i = 0; i < config.pes_per_cube(); ++i) {
      steps.push_back([this, s, c, i] { make_hbm(s, c, i); });
      steps.push_back([this, s, c, i] { make_pe(s, c, i); });
    }
    steps.push_back([this, s, c] {
      MemoryControllerParams p = MemoryControllerParams::of(config.cube.sram, config.cube.hbm.burst_bytes);
      const std::uint32_t n = topology.sram(s, c);
      make_memory(n, "sram", registry->sram, config.cube.sram.impl, p);
    });
    steps.push_back([this, s, c] { make_m_cpu(s, c); });
    in_some_order(std::move(steps));
  }

  void build_io(std::uint32_t s) {
    std::vector<std::function<void()>> steps;
    steps.push_back([this, s] { make_pcie_ep(s); });
    steps.push_back([this, s] { make_node(topology.ual_ep(s), registry->ual_ep, config.sip.io.ual_ep_impl); });
    steps.push_back([this, s] { keep(topology.io_noc(s), plain("io_noc", topology.io_noc(s))); });
    steps.push_back([this, s] { make_io_cpu(s); });
    steps.push_back([this, s] {
      if (topology.inter_sip(s) != Topology::kNone) make_edge(topology.inter_sip(s), "ual_ep_port");
    });
    for (std::uint32_t p = 0; p < config.sip.io.phys; ++p)
      steps.push_back([this, s, p] {
        scope("phy" + std::to_string(p), [this, s, p] {
          for (std::uint32_t i = 0; i < config.cube.ucie.connections; ++i)
            make_node(topology.phy(s, p, i), registry->ucie, config.cube.ucie.impl);
        });
      });
    in_some_order(std::move(steps));
  }

  void make_memory(std::uint32_t n, const std::string& name, const FactoryTable<FabricRegistry::Memory>& table_of_kind,
                   const std::string& impl, MemoryControllerParams p) {
    p.title = topology.node(n).name;
    p.first_channel = first_channel(n);
    auto memory = table_of_kind.find(impl)(name.c_str(), context, p);
    NetworkInterfaceParams np;
    np.memory = true;
    np.memory_owns_link = true;
    np.memory_is_ours = memory->orders_requests();
    np.module = memory.get();
    NetworkInterface& ni = make_interface(n, name + "_ni", np);
    ni.initiator_socket().bind(memory->socket);
    memories[n] = memory.get();
    modules.push_back(std::move(memory));
  }

  void make_hbm(std::uint32_t s, std::uint32_t c, std::uint32_t i) {
    const std::uint32_t n = topology.hbm(s, c, i);
    const std::string name = "hbm" + std::to_string(i);
    const auto& open = config.open.hbm;
    if (std::find(open.begin(), open.end(), topology.node(n).name) == open.end()) {
      make_memory(n, name, registry->hbm, config.cube.hbm.impl, MemoryControllerParams::of(config.cube.hbm));
      return;
    }
    NetworkInterfaceParams p;
    p.memory = true;
    p.memory_owns_link = true;
    make_interface(n, name + "_ni", p);
  }

  void make_pe(std::uint32_t s, std::uint32_t c, std::uint32_t i) {
    const std::uint32_t n = topology.pe(s, c, i);
    NetworkInterfaceParams p;
    p.initiator = true;
    p.lane_policy = LanePolicy::own;
    p.own_lane = i;
    p.memory = true;
    p.memory_is_ours = true;
    p.control = true;
    const std::string name = "pe" + std::to_string(i);
    NetworkInterface& ni = make_interface(n, name + "_ni", p);
    const std::uint32_t rank = (s * config.cubes_per_sip() + c) * config.pes_per_cube() + i;
    PeAttachment& at = pes[rank];
    at.id = {s, c, i};
    at.rank = rank;
    at.dma = &ni.target_socket();
    at.tcm = &ni.initiator_socket();
    at.launch = &ni.launch_socket();
    at.completion = &ni.completion_socket();
    if (options.make_pe) modules.push_back(options.make_pe(name.c_str(), at));
  }

  void make_edge(std::uint32_t n, const std::string& name) {
    NetworkInterfaceParams p;
    p.initiator = true;
    p.foreign_initiator = true;
    p.lane_policy = LanePolicy::issuer;
    p.memory = true;
    make_interface(n, name, p);
  }

  void make_pcie_ep(std::uint32_t s) {
    const std::uint32_t n = topology.pcie_ep(s);
    NetworkInterfaceParams p;
    p.node = node_params(n);
    p.initiator = true;
    p.foreign_initiator = config.open.host_port;
    p.lane_policy = LanePolicy::target;
    p.control = true;
    auto ni = registry->pcie_ep.find(config.sip.io.pcie_ep_impl)("pcie_ep", context, p);
    interfaces[n] = ni.get();
    keep(n, std::move(ni));
  }

  Ps cpu_overhead() const { return ps_from_ns(config.pe.cpu.overhead_ns); }

  /// The distinct values of f over the launch's PEs, which are ascending.
  template <typename F>
  static std::vector<std::uint32_t> distinct(const LaunchMessage& launch, F&& f) {
    std::vector<std::uint32_t> found;
    for (const std::uint32_t rank : launch.pes) {
      const std::uint32_t n = f(rank);
      if (n != Topology::kNone && (found.empty() || found.back() != n)) found.push_back(n);
    }
    return found;
  }

  void make_m_cpu(std::uint32_t s, std::uint32_t c) {
    const std::uint32_t n = topology.m_cpu(s, c);
    LaunchCpuParams p;
    p.node = node_params(n);
    p.sip = s;
    const std::uint32_t first = (s * config.cubes_per_sip() + c) * config.pes_per_cube();
    p.children = [this, first](const LaunchMessage& launch) {
      return distinct(launch, [&](std::uint32_t rank) {
        return rank >= first && rank < first + config.pes_per_cube() ? topology.pe(rank) : Topology::kNone;
      });
    };
    keep(n, registry->m_cpu.find(config.cube.m_cpu_impl)("m_cpu", context, p));
  }

  void make_io_cpu(std::uint32_t s) {
    const std::uint32_t n = topology.io_cpu(s);
    LaunchCpuParams p;
    p.node = node_params(n);
    p.sip = s;
    const std::uint32_t per_cube = config.pes_per_cube();
    const std::uint32_t cubes = config.cubes_per_sip();
    p.children = [this, s, per_cube, cubes](const LaunchMessage& launch) {
      return distinct(launch, [&](std::uint32_t rank) {
        const std::uint32_t cube = rank / per_cube;
        if (cube / cubes == s) return topology.m_cpu(s, cube % cubes);
        return launch.lead_sip == s ? topology.io_cpu(cube / cubes) : Topology::kNone;
      });
    };
    p.latest_arrival = [this, n, per_cube, cubes](const LaunchMessage& launch, Ps at) {
      Ps latest = at;
      for (const std::uint32_t rank : launch.pes) {
        const std::uint32_t sip = rank / per_cube / cubes;
        const std::uint32_t m_cpu = topology.m_cpu(sip, rank / per_cube % cubes);
        Ps t = at + cpu_overhead();
        t += leg(topology.io_cpu(sip), m_cpu) + leg(m_cpu, topology.pe(rank));
        if (topology.io_cpu(sip) != n) t += leg(n, topology.io_cpu(sip));
        latest = std::max(latest, t);
      }
      return latest;
    };
    keep(n, registry->io_cpu.find(config.sip.io.io_cpu_impl)("io_cpu", context, p));
  }
  Ps leg(std::uint32_t from, std::uint32_t to) {
    const Route* r = table.route(from, to, 0);
    if (r == nullptr)
      throw InputError("launch: found PEs behind " + topology.node(to).name + ", which no route joins to " +
                       topology.node(from).name + "; allowed: PEs of SIPs that are joined by the tray's own fabric");
    return r->control_ps();
  }

  // ---- binding ----------------------------------------------------------------------------------------------

  void bind() {
    std::vector<std::function<void()>> steps;
    for (std::uint32_t n = 0; n < nodes.size(); ++n)
      for (std::uint32_t p = 0; p < topology.node(n).ports.size(); ++p)
        steps.push_back([this, n, p] {
          const TopologyPort& port = topology.node(n).ports[p];
          nodes[n]->out(p).bind(nodes[port.peer]->in(port.peer_port));
        });
    for (std::uint32_t s = 0; s < config.sips; ++s)
      steps.push_back([this, s] {
        NetworkInterface& ni = *interfaces[topology.pcie_ep(s)];
        host->to_sip(s).bind(ni.target_socket());
        host->launch_socket(s).bind(ni.completion_socket());
        ni.launch_socket().bind(host->completion_socket(s));
      });
    in_some_order(std::move(steps));
  }

  // ---- open ends ----------------------------------------------------------------------------------------------

  NetworkInterface& open_end(const std::string& name, const std::vector<std::string>& open, const std::string& key,
                             const std::string& suffix) {
    const std::string full = name.compare(0, 5, "tray.") == 0 ? name : "tray." + name;
    if (std::find(open.begin(), open.end(), full) == open.end())
      throw InputError("open end: found " + name + "; allowed: the entries of " + key + nearest_hint(full, open));
    return *interfaces[topology.find(full + suffix)];
  }

  std::uint32_t first_channel(std::uint32_t n) const {
    std::uint32_t first = links;
    for (std::uint32_t i = 0; i < n; ++i) {
      const NodeKind kind = topology.node(i).kind;
      if (kind == NodeKind::sram) ++first;
      if (kind == NodeKind::hbm && !is_open(i)) first += config.cube.hbm.pseudo_channels;
    }
    return first;
  }
  bool is_open(std::uint32_t n) const {
    const auto& open = config.open.hbm;
    return std::find(open.begin(), open.end(), topology.node(n).name) != open.end();
  }

  SystemConfig config;
  FabricOptions options;
  FabricRegistry own_registry;
  const FabricRegistry* registry;
  Topology topology;
  RouteTable table;
  AddressMap map;
  FabricContext context;
  std::mt19937_64 order;

  std::vector<std::uint32_t> first_link;  // of a node's ports
  std::uint32_t links = 0;
  std::vector<std::unique_ptr<sc_core::sc_module>> modules;
  std::vector<PacketNode*> nodes;
  std::vector<NetworkInterface*> interfaces;
  std::vector<MemoryModule*> memories;
  std::vector<PeAttachment> pes;
  HostPort* host = nullptr;
};

Fabric::Fabric(const SystemConfig& config, const FabricOptions& options)
    : impl_((adopt_time_resolution(), std::make_unique<Impl>(*this, config, options))) {}
Fabric::~Fabric() = default;

const SystemConfig& Fabric::config() const {
  return impl_->config;
}
const Topology& Fabric::topology() const {
  return impl_->topology;
}
RouteTable& Fabric::routes() {
  return impl_->table;
}
const AddressMap& Fabric::addresses() const {
  return impl_->map;
}
const PeAttachment& Fabric::pe(std::uint32_t rank) const {
  return impl_->pes.at(rank);
}
HostPort& Fabric::host() {
  return *impl_->host;
}
BaseTargetSocket& Fabric::host_socket() {
  return impl_->host->socket;
}

BaseInitiatorSocket& Fabric::open_hbm(const std::string& name) {
  return impl_->open_end(name, impl_->config.open.hbm, "open.hbm", "").initiator_socket();
}
OpenEdge Fabric::open_ucie(const std::string& name) {
  NetworkInterface& ni = impl_->open_end(name, impl_->config.open.ucie_edge, "open.ucie_edge", ".edge");
  return {ni.initiator_socket(), ni.target_socket()};
}
OpenEdge Fabric::open_inter_sip(const std::string& name) {
  NetworkInterface& ni = impl_->open_end(name, impl_->config.open.inter_sip, "open.inter_sip", "_port");
  return {ni.initiator_socket(), ni.target_socket()};
}

void Fabric::register_components(ComponentTable& table) {
  for (std::uint32_t n = 0; n < impl_->nodes.size(); ++n) {
    const TopologyNode& node = impl_->topology.node(n);
    if (node.kind == NodeKind::pe) continue;  // PEs register their engines
    const std::uint32_t number = table.add(node.name);
    if (NetworkInterface* ni = impl_->interfaces[n]) ni->set_component(number);
  }
}

std::vector<LinkStats> Fabric::link_stats() const {
  std::vector<LinkStats> stats;
  stats.reserve(impl_->links);
  for (std::uint32_t n = 0; n < impl_->nodes.size(); ++n) {
    const TopologyNode& node = impl_->topology.node(n);
    for (std::uint32_t p = 0; p < node.ports.size(); ++p) {
      LinkStats s;
      s.name = link_name(node.name, impl_->topology.node(node.ports[p].peer).name);
      s.bw_gbs = node.ports[p].bw_gbs;
      const LinkCounters& c = impl_->nodes[n]->counters(p);
      s.bytes = c.bytes;
      s.busy = c.busy;
      stats.push_back(std::move(s));
    }
  }
  for (const MemoryModule* m : impl_->memories)
    if (m != nullptr) m->append_stats(stats);
  return stats;
}

std::uint64_t Fabric::messages() const {
  return impl_->context.injected;
}
std::uint64_t Fabric::activations() const {
  return impl_->context.activations;
}

void Fabric::check_conservation() const {
  const FabricContext& c = impl_->context;
  std::string found;
  const auto note = [&](const std::string& what) { found += (found.empty() ? "" : ", ") + what; };
  if (c.injected != c.delivered)
    note(std::to_string(c.injected) + " messages injected and " + std::to_string(c.delivered) + " delivered");
  if (c.pool.messages_out() != 0) note(std::to_string(c.pool.messages_out()) + " messages outside their pool");
  if (c.pool.packets_out() != 0) note(std::to_string(c.pool.packets_out()) + " packets outside their pool");
  if (c.payloads.out() != 0) note(std::to_string(c.payloads.out()) + " payloads outside their pool");
  for (const PacketNode* n : impl_->nodes)
    if (!n->quiet()) note("work left at " + n->title());
  for (const MemoryModule* m : impl_->memories)
    if (m != nullptr && !m->quiet()) note(std::string("work left in ") + m->name());
  if (!impl_->host->quiet()) note("work left at the host port");
  if (!found.empty()) throw ModelError("conservation: found " + found + "; allowed: nothing in flight at the end");
}

unsigned Fabric::transport_dbg(tlm::tlm_generic_payload& trans) {
  FabricTarget target;
  if (!decode(kAnywhere, trans.get_address(), target)) return 0;
  MemoryPort* port = memory(target.node);
  if (port == nullptr) return 0;
  const unsigned length = trans.get_data_length();
  trans.set_data_length(static_cast<unsigned>(std::min<std::uint64_t>(length, target.room)));
  const unsigned done = port->debug(trans, target.address);
  trans.set_data_length(length);
  return done;
}

void Fabric::invalidate_dmi() {
  invalidate_dmi(0, ~std::uint64_t{0});
}

void Fabric::invalidate_dmi(std::uint64_t first, std::uint64_t last) {
  for (NetworkInterface* ni : impl_->interfaces)
    if (ni != nullptr && ni->initiator() != nullptr) ni->initiator()->invalidate_dmi(first, last);
}

bool Fabric::decode(std::uint32_t from, std::uint64_t address, FabricTarget& target) const {
  const Topology& topology = impl_->topology;
  const std::uint64_t sip = address >> kSipShift;
  const std::uint64_t offset = address & (kDieBytes - 1);
  const bool in_tray = sip < impl_->config.sips;
  const auto outward = [&](std::uint32_t port) {
    target.node = port;
    target.address = in_tray ? address : address - (std::uint64_t{impl_->config.sips} << kSipShift);
    target.room = kDieBytes - offset;
    target.index = 0;
    return true;
  };
  if (from != kAnywhere && topology.inter_sip(topology.node(from).sip) != Topology::kNone &&
      topology.node(from).sip != sip)
    return outward(topology.inter_sip(topology.node(from).sip));
  if (!in_tray) {
    for (std::uint32_t s = 0; from == kAnywhere && s < impl_->config.sips; ++s)
      if (topology.inter_sip(s) != Topology::kNone) return outward(topology.inter_sip(s));
    return false;
  }
  const auto s = static_cast<std::uint32_t>(sip);
  const std::uint32_t die =
      static_cast<std::uint32_t>(address >> AddressMap::kOffsetBits) & ((1u << AddressMap::kDieBits) - 1);
  if (die >= Topology::kFirstEdgeDie) {
    const std::uint32_t edge = die - Topology::kFirstEdgeDie;
    if (edge >= topology.edges(s).size()) return false;
    target = {topology.edges(s)[edge], offset, kDieBytes - offset, 0};
    return true;
  }
  const Decoded d = impl_->map.decode(address);
  target.address = d.offset;
  target.room = d.region_bytes - d.offset;
  target.index = d.unit;
  switch (d.kind) {
    case RegionKind::none: return false;
    case RegionKind::hbm: target.node = topology.hbm(d.sip, d.die, d.unit); return true;
    case RegionKind::sram: target.node = topology.sram(d.sip, d.die); return true;
    case RegionKind::tcm:
    case RegionKind::queue:
      target.node = topology.pe(d.sip, d.die, d.unit);
      target.address = address;  // a PE sorts out its windows itself
      return true;
  }
  return false;
}

const Route* Fabric::route(std::uint32_t from, std::uint32_t to, std::uint32_t lane) {
  return impl_->table.route(from, to, lane);
}

MemoryPort* Fabric::memory(std::uint32_t node) {
  NetworkInterface* ni = impl_->interfaces[node];
  return ni != nullptr ? ni->memory() : nullptr;
}

std::string Fabric::describe(std::uint64_t address) const {
  return impl_->map.describe(address);
}

}  // namespace kb
