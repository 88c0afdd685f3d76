#include <kb/modules/fabric/registry.h>

namespace kb {

FabricRegistry::FabricRegistry() {
  const auto memory = [](const char* name, FabricContext& context, const MemoryControllerParams& params) {
    return std::make_unique<MemoryController>(name, context, params);
  };
  const auto node = [](const char* name, FabricContext& context, const NodeParams& params) {
    return std::make_unique<PacketNode>(name, context, params);
  };
  hbm.add(kBuiltin, memory);
  sram.add(kBuiltin, memory);
  router.add(kBuiltin, node);
  ucie.add(kBuiltin, node);
  ual_ep.add(kBuiltin, node);
  pcie_ep.add(kBuiltin, [](const char* name, FabricContext& context, const NetworkInterfaceParams& params) {
    return std::make_unique<NetworkInterface>(name, context, params);
  });
  const auto cpu = [](const char* name, FabricContext& context, const LaunchCpuParams& params) {
    return std::make_unique<LaunchCpu>(name, context, params);
  };
  m_cpu.add(kBuiltin, cpu);
  io_cpu.add(kBuiltin, cpu);
}

}  // namespace kb
