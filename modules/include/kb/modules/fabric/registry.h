// Which implementation of a component `impl:` means. Users add their own and hand the registry to the platform.
#pragma once

#include <kb/modules/control/launch_cpu.h>
#include <kb/modules/fabric/network_interface.h>
#include <kb/modules/memory/memory_controller.h>
#include <kb/modules/memory/memory_module.h>
#include <kb/modules/params.h>
#include <kb/tlm_if/errors.h>
#include <kb/tlm_if/text.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kb {

/// Factories of one kind of component by name.
template <typename Signature>
class FactoryTable;
template <typename Base, typename... Args>
class FactoryTable<std::unique_ptr<Base>(const char* name, Args...)> {
 public:
  using Factory = std::function<std::unique_ptr<Base>(const char* name, Args...)>;

  /// `key` is the topology key whose values the names are, for messages.
  explicit FactoryTable(std::string key) : key_(std::move(key)) {}
  /// Throws InputError when the name is taken.
  void add(const std::string& impl, Factory factory) {
    if (!factories_.emplace(impl, std::move(factory)).second)
      throw InputError(key_ + ": found a second implementation named " + impl + "; allowed: one of each name");
  }
  /// Throws InputError with the nearest name when there is none.
  const Factory& find(const std::string& impl) const {
    const auto it = factories_.find(impl);
    if (it != factories_.end()) return it->second;
    std::vector<std::string> names;
    std::string all;
    for (const auto& f : factories_) {
      names.push_back(f.first);
      all += (all.empty() ? "" : ", ") + f.first;
    }
    throw InputError(key_ + ": found implementation " + impl + "; allowed: " + all + nearest_hint(impl, names));
  }

 private:
  std::string key_;
  std::map<std::string, Factory> factories_;
};

/// A machine's replaceable components, apart from those inside PEs. Holds the built-in ones from the start.
struct FabricRegistry {
  FabricRegistry();

  using Memory = std::unique_ptr<MemoryModule>(const char*, FabricContext&, const MemoryControllerParams&);
  using Node = std::unique_ptr<PacketNode>(const char*, FabricContext&, const NodeParams&);
  using EndPoint = std::unique_ptr<NetworkInterface>(const char*, FabricContext&, const NetworkInterfaceParams&);
  using Cpu = std::unique_ptr<PacketNode>(const char*, FabricContext&, const LaunchCpuParams&);

  FactoryTable<Memory> hbm{"cube.hbm.impl"};
  FactoryTable<Memory> sram{"cube.sram.impl"};
  FactoryTable<Node> router{"cube.noc.impl"};
  FactoryTable<Node> ucie{"cube.ucie.impl"};       // one connection of a port or PHY
  FactoryTable<Node> ual_ep{"sip.io.ual_ep.impl"};
  FactoryTable<EndPoint> pcie_ep{"sip.io.pcie_ep.impl"};
  FactoryTable<Cpu> m_cpu{"cube.m_cpu.impl"};
  FactoryTable<Cpu> io_cpu{"sip.io.io_cpu.impl"};
};

}  // namespace kb
