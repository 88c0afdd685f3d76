// What a PE is given besides its parameters: its place, and what it shares with the platform.
#pragma once

#include <kb/tlm_if/activity.h>
#include <kb/tlm_if/address_map.h>
#include <kb/tlm_if/machine_info.h>
#include <kb/tlm_if/op_log.h>
#include <kb/tlm_if/page_table.h>
#include <kb/tlm_if/payload_pool.h>

#include <cstdint>

namespace kb {

class PeRegistry;

/// All pointers outlive the PE. Those marked optional may be null.
struct PeEnv {
  PeId id;
  std::uint32_t rank = 0;
  const MachineInfo* machine = nullptr;
  Mode mode = Mode::timing;
  OpRecorder* recorder = nullptr;        // optional: null when nobody listens
  std::uint32_t component_base = 0;      // of the cpu; the others follow in the order of Pe::component_names()
  const PageTable* pages = nullptr;      // optional: null makes virtual addresses physical ones
  const AddressMap* addresses = nullptr; // optional: null makes every address at tcm_socket a TCM offset
  PayloadPool* pool = nullptr;           // optional: null gives the PE a pool of its own
  const PeRegistry* registry = nullptr;  // optional: null knows the built-in implementations only
  Activity* activity = nullptr;          // optional
  FaultSink* faults = nullptr;           // optional: null lets exceptions of processes reach SystemC
};

}  // namespace kb
