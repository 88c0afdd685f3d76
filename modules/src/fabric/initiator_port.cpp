#include <kb/modules/fabric/initiator_port.h>

#include <kb/modules/fabric/base_protocol.h>
#include <kb/modules/fabric/memory_port.h>
#include <kb/tlm_if/errors.h>

#include <algorithm>

namespace kb {

InitiatorPort::InitiatorPort(NetworkInterface& ni, FabricContext& context, const char* name)
    : socket(name), ni_(ni), context_(context), gate_(socket, ni.params().lane_policy != LanePolicy::own) {
  socket.bind(static_cast<tlm::tlm_fw_transport_if<>&>(*this));
}

const Route* InitiatorPort::resolve(tlm::tlm_generic_payload& trans, FabricTarget& target) {
  if (!context_.directory->decode(ni_.number(), trans.get_address(), target) || trans.get_data_length() > target.room) {
    trans.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
    return nullptr;
  }
  if (!check_attributes(trans)) return nullptr;
  const NetworkInterfaceParams& params = ni_.params();
  std::uint32_t lane = target.index;
  if (params.lane_policy == LanePolicy::own) {
    lane = params.own_lane;
  } else if (params.lane_policy == LanePolicy::issuer) {
    const auto* ext = trans.get_extension<TransferExtension>();
    if (ext != nullptr && ext->issuer != kNoPe) lane = ext->lane;
  }
  const MemoryPort* memory = context_.directory->memory(target.node);
  // What came in at an open edge does not turn round and leave by it.
  const bool reachable = memory != nullptr && memory->bound() && target.node != ni_.number();
  const Route* route = reachable ? context_.directory->route(ni_.number(), target.node, lane) : nullptr;
  if (route == nullptr) trans.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
  return route;
}

void InitiatorPort::start(Pending& p, const Route& route, const FabricTarget& target, Ps at) {
  tlm::tlm_generic_payload& trans = *p.trans;
  p.ext = trans.get_extension<TransferExtension>();
  p.number = ++started_;
  p.write = trans.is_write();
  p.announced = false;
  p.all_there = false;
  p.begun = at;
  p.response_at = 0;
  p.end = 0;
  trans.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
  if (context_.activity != nullptr) context_.activity->begin();
  const VirtualChannel vc = p.ext != nullptr ? p.ext->vc : VirtualChannel::compute;
  const auto context = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(&p));
  const std::uint64_t bytes = trans.get_data_length();

  const Message::Kind kind = p.write ? Message::Kind::write_data : Message::Kind::read_request;
  if (!p.write || Message::is_control(kind, bytes, vc)) {
    Message& m = context_.pool.take_message(kind, route);
    m.vc = vc;
    m.trans = &trans;
    m.context = context;
    m.address = target.address;
    if (!p.write && p.ext != nullptr) {
      p.ext->train.clear();
      p.ext->complete = false;
    }
    ni_.send(m, at);
    return;
  }

  ni_.begin_data(p.out, kind, route, vc, bytes);
  p.out.message->trans = &trans;
  p.out.message->context = context;
  p.out.message->address = target.address;
  if (p.ext == nullptr || p.ext->train.empty()) {
    p.own_train.clear();
    p.own_train.append_run(at, 0, p.out.flits);
    ni_.send_data(p.out, p.own_train, true, 0);
    return;
  }
  if (!p.ext->complete) {
    p.ext->listener = this;
    growing_.push_back(&p);
  }
  ni_.send_data(p.out, p.ext->train, p.ext->complete, 0);
}

void InitiatorPort::train_extended(tlm::tlm_generic_payload& trans, TransferExtension& ext) {
  for (std::size_t i = 0; i < growing_.size(); ++i) {
    Pending& p = *growing_[i];
    if (p.trans != &trans) continue;
    if (ext.complete) growing_.erase(growing_.begin() + static_cast<std::ptrdiff_t>(i));
    ni_.send_data(p.out, ext.train, ext.complete, 0);
    return;
  }
}

tlm::tlm_sync_enum InitiatorPort::nb_transport_fw(tlm::tlm_generic_payload& trans, tlm::tlm_phase& phase,
                                                  sc_core::sc_time& delay) {
  const Ps at = after(delay);
  switch (forward_phase(ni_.title(), trans, phase)) {
    case ForwardPhase::end_of_response:
      gate_.ended(at);
      if (gate_.ready()) ni_.service_at(now_ps());
      return tlm::TLM_COMPLETED;
    case ForwardPhase::ignorable: return tlm::TLM_ACCEPTED;
    case ForwardPhase::request: break;
  }
  if (trans.get_command() == tlm::TLM_IGNORE_COMMAND) {
    trans.set_response_status(tlm::TLM_OK_RESPONSE);
    return tlm::TLM_COMPLETED;
  }
  FabricTarget target;
  const Route* route = resolve(trans, target);
  if (route == nullptr) return tlm::TLM_COMPLETED;
  trans.acquire();
  Pending& p = *pendings_.take();
  p.trans = &trans;
  p.done = nullptr;
  start(p, *route, target, at);
  phase = tlm::END_REQ;
  return tlm::TLM_UPDATED;
}

void InitiatorPort::b_transport(tlm::tlm_generic_payload& trans, sc_core::sc_time& delay) {
  if (trans.get_command() == tlm::TLM_IGNORE_COMMAND) {
    trans.set_response_status(tlm::TLM_OK_RESPONSE);
    return;
  }
  FabricTarget target;
  const Route* route = resolve(trans, target);
  if (route == nullptr) return;

  // The fabric holds payloads by reference count; one without a memory manager travels as a copy.
  tlm::tlm_generic_payload* carrier = &trans;
  if (trans.has_mm()) {
    trans.acquire();
  } else {
    carrier = &context_.payloads.take(trans.get_command(), trans.get_address(), trans.get_data_length(),
                                      trans.get_data_ptr());
    carrier->set_byte_enable_ptr(trans.get_byte_enable_ptr());
    carrier->set_byte_enable_length(trans.get_byte_enable_length());
    TransferExtension& ext = PayloadPool::extension(*carrier);
    if (const auto* theirs = trans.get_extension<TransferExtension>()) {
      ext.lane = theirs->lane;
      ext.issuer = theirs->issuer;
      ext.vc = theirs->vc;
      ext.serial = theirs->serial;
      ext.timing_only = theirs->timing_only;
    }
  }
  sc_core::sc_event done;
  Pending& p = *pendings_.take();
  p.trans = carrier;
  p.done = &done;
  start(p, *route, target, after(delay));
  while (!p.all_there) sc_core::wait(done);
  const sc_core::sc_time rest = until(p.end);
  pendings_.give(&p);
  if (rest != sc_core::SC_ZERO_TIME) sc_core::wait(rest);
  delay = sc_core::SC_ZERO_TIME;
  trans.set_response_status(carrier->get_response_status());
  trans.set_dmi_allowed(carrier->is_dmi_allowed());
  carrier->release();
  if (context_.activity != nullptr) context_.activity->end();
}

unsigned InitiatorPort::transport_dbg(tlm::tlm_generic_payload& trans) {
  FabricTarget target;
  if (!context_.directory->decode(ni_.number(), trans.get_address(), target)) return 0;
  MemoryPort* memory = context_.directory->memory(target.node);
  if (memory == nullptr) return 0;
  // What crosses the end of the region is left out, as the return value tells.
  const unsigned length = trans.get_data_length();
  trans.set_data_length(static_cast<unsigned>(std::min<std::uint64_t>(length, target.room)));
  const unsigned done = memory->debug(trans, target.address);
  trans.set_data_length(length);
  return done;
}

bool InitiatorPort::get_direct_mem_ptr(tlm::tlm_generic_payload& trans, tlm::tlm_dmi& dmi) {
  FabricTarget target;
  if (!context_.dmi) return false;  // anywhere: the range of a refusal is everything until it is narrowed
  MemoryPort* memory = context_.directory->decode(ni_.number(), trans.get_address(), target)
                           ? context_.directory->memory(target.node)
                           : nullptr;
  if (memory == nullptr) {
    dmi.set_start_address(trans.get_address());
    dmi.set_end_address(trans.get_address());
    return false;
  }
  const bool given = memory->direct(trans, target.address, dmi);
  // Granted or refused, the range goes back from the target's addresses to the initiator's, no further than the region.
  const std::uint64_t shift = trans.get_address() - target.address;
  dmi.set_start_address(dmi.get_start_address() + shift);
  dmi.set_end_address(std::min<std::uint64_t>(dmi.get_end_address(), target.address + (target.room - 1)) + shift);
  dmi_given_ = dmi_given_ || given;
  return given;
}

void InitiatorPort::invalidate_dmi(std::uint64_t first, std::uint64_t last) {
  if (!dmi_given_) return;
  dmi_given_ = false;
  if (socket.get_base_port().size() != 0) socket->invalidate_direct_mem_ptr(first, last);
}

void InitiatorPort::deliver(Packet& packet) {
  const Message& m = *packet.message;
  Pending& p = *reinterpret_cast<Pending*>(static_cast<std::uintptr_t>(m.context));
  const bool last = packet.last();
  const bool data = m.kind == Message::Kind::read_data;
  if (p.ext != nullptr) {
    if (data) {
      FlitTrain::Cursor all;
      p.ext->train.append_from(packet.train, all, packet.train.flits());
    }
    p.ext->complete = last;
    p.ext->path_ps = m.path_ps;
    p.ext->turnaround_ps = m.turnaround_ps;
  }
  if (packet.index == 0) {
    // BEGIN_RESP: the first byte of data, or the response of a write.
    Ps first_flit = 0;
    if (data) {
      const Hop& hop = m.route->hops.back();
      const bool only = packet.train.flits() == 1 && packet.last_flit_bytes != context_.flit_bytes;
      first_flit = only ? transfer_ps(packet.last_flit_bytes, hop.bw_gbs) : hop.flit;
    }
    p.response_at = packet.train.head() - first_flit;
  }
  const bool first = packet.index == 0;
  if (last) {
    p.end = packet.train.tail();
    p.all_there = true;
    if (ni_.params().foreign_initiator)
      ni_.record(p.write, p.begun, p.end, kNoPe, p.trans->get_address(), p.trans->get_data_length());
  }
  context_.consume(packet);

  if (p.done != nullptr) {
    if (last) p.done->notify(sc_core::SC_ZERO_TIME);
    return;
  }
  if (first)
    announce(p);
  else if (p.announced && p.ext != nullptr && p.ext->listener != nullptr)
    p.ext->listener->train_extended(*p.trans, *p.ext);
  close_if_done(p);
}

void InitiatorPort::announce(Pending& p) {
  p.announced = gate_.offer(p);
  if (gate_.ready()) ni_.service_at(now_ps());
}

void InitiatorPort::close_if_done(Pending& p) {
  if (!p.all_there || !p.announced) return;
  tlm::tlm_generic_payload& trans = *p.trans;
  pendings_.give(&p);
  trans.release();
  if (context_.activity != nullptr) context_.activity->end();
}

void InitiatorPort::departed(const Message& message, Ps when) {
  const Pending& p = *reinterpret_cast<Pending*>(static_cast<std::uintptr_t>(message.context));
  if (p.ext != nullptr && p.ext->departure != nullptr) p.ext->departure->data_left(*p.trans, when);
}

void InitiatorPort::service() {
  while (const auto sent = gate_.next()) {
    sent.item->announced = true;
    close_if_done(*sent.item);
  }
  if (gate_.ready()) ni_.service_at(now_ps());
}

}  // namespace kb
