#include <kb/modules/control/host_port.h>

#include <kb/modules/fabric/base_protocol.h>
#include <kb/tlm_if/errors.h>

#include <algorithm>

namespace kb {

namespace {
/// A transaction's length is a 32-bit number; longer copies go in pieces.
constexpr std::uint64_t kPieceBytes = 1ull << 30;
}  // namespace

HostPort::HostPort(const sc_core::sc_module_name& name, FabricContext& context, const HostPortParams& params)
    : sc_core::sc_module(name), context_(context), params_(params) {
  socket.bind(static_cast<tlm::tlm_fw_transport_if<>&>(*this));
  for (std::uint32_t s = 0; s < params_.sips; ++s) {
    auto sip = std::make_unique<Sip>();
    const std::string suffix = std::to_string(s);
    sip->port = this;
    sip->number = s;
    sip->socket = std::make_unique<BaseInitiatorSocket>(("sip" + suffix).c_str());
    sip->socket->bind(static_cast<tlm::tlm_bw_transport_if<>&>(*sip));
    sip->launch = std::make_unique<PacketInitiatorSocket>(("launch" + suffix).c_str());
    sip->completion = std::make_unique<PacketTargetSocket>(("completion" + suffix).c_str());
    sip->completion->bind(static_cast<PacketFwIf&>(*sip));
    sips_.push_back(std::move(sip));
  }
  if (!params_.open) {
    driver_ = std::make_unique<BaseInitiatorSocket>("driver");
    driver_->bind(static_cast<tlm::tlm_bw_transport_if<>&>(*this));
    driver_->bind(socket);
  }
  SC_HAS_PROCESS(HostPort);
  SC_METHOD(pump);
  sensitive << pump_;
  dont_initialize();
  SC_METHOD(submit);
  sensitive << submit_;
  dont_initialize();
  SC_METHOD(finish);
  sensitive << finish_;
  dont_initialize();
}

// ---- port ---------------------------------------------------------------------------------------------------

BaseInitiatorSocket* HostPort::by_address(std::uint64_t address) {
  const std::uint64_t sip = address >> params_.sip_shift;
  return sip < params_.sips ? sips_[sip]->socket.get() : nullptr;
}

tlm::tlm_sync_enum HostPort::nb_transport_fw(tlm::tlm_generic_payload& trans, tlm::tlm_phase& phase,
                                             sc_core::sc_time& delay) {
  BaseInitiatorSocket* to = by_address(trans.get_address());
  switch (forward_phase(name(), trans, phase)) {
    case ForwardPhase::end_of_response: {
      gate_.ended(after(delay));
      if (gate_.ready()) pump_.notify(sc_core::SC_ZERO_TIME);
      const auto answer = (*to)->nb_transport_fw(trans, phase, delay);
      trans.release();
      return answer;
    }
    case ForwardPhase::ignorable: return tlm::TLM_ACCEPTED;
    case ForwardPhase::request: break;
  }
  if (to == nullptr) {
    trans.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
    return tlm::TLM_COMPLETED;
  }
  return (*to)->nb_transport_fw(trans, phase, delay);
}

void HostPort::b_transport(tlm::tlm_generic_payload& trans, sc_core::sc_time& delay) {
  if (BaseInitiatorSocket* to = by_address(trans.get_address()))
    (*to)->b_transport(trans, delay);
  else
    trans.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
}

unsigned HostPort::transport_dbg(tlm::tlm_generic_payload& trans) {
  BaseInitiatorSocket* to = by_address(trans.get_address());
  return to != nullptr ? (*to)->transport_dbg(trans) : 0;
}

bool HostPort::get_direct_mem_ptr(tlm::tlm_generic_payload& trans, tlm::tlm_dmi& dmi) {
  BaseInitiatorSocket* to = by_address(trans.get_address());
  return to != nullptr && (*to)->get_direct_mem_ptr(trans, dmi);
}

tlm::tlm_sync_enum HostPort::Sip::nb_transport_bw(tlm::tlm_generic_payload& trans, tlm::tlm_phase& phase,
                                                  sc_core::sc_time& delay) {
  if (phase != tlm::BEGIN_RESP) return port->socket->nb_transport_bw(trans, phase, delay);
  trans.acquire();
  Response& r = *port->responses_.take();
  r = {&trans, after(delay), number};
  port->gate_.offer(r);
  port->pump_.notify(sc_core::SC_ZERO_TIME);
  return tlm::TLM_ACCEPTED;
}

void HostPort::Sip::invalidate_direct_mem_ptr(sc_dt::uint64 first, sc_dt::uint64 last) {
  if (port->socket.get_base_port().size() != 0) port->socket->invalidate_direct_mem_ptr(first, last);
}

void HostPort::pump() {
  context_.guarded([this] {
    while (const auto sent = gate_.next()) {
      const Response r = *sent.item;
      responses_.give(sent.item);
      if (!sent.ended) return;
      tlm::tlm_phase phase = tlm::END_RESP;
      sc_core::sc_time delay = sent.delay;
      (*sips_[r.number]->socket)->nb_transport_fw(*r.trans, phase, delay);
      r.trans->release();
    }
    if (gate_.ready()) pump_.notify(sc_core::SC_ZERO_TIME);
  });
}

// ---- launches -----------------------------------------------------------------------------------------------

void HostPort::start_launch(LaunchMessage& launch, std::function<void()> done) {
  if (launch.lead_sip >= params_.sips || launch.pes.empty())
    throw InputError("launch: found " + std::to_string(launch.pes.size()) + " PEs led by SIP " +
                     std::to_string(launch.lead_sip) + "; allowed: at least one PE, SIPs 0 to " +
                     std::to_string(params_.sips - 1));
  launches_.push_back({&launch, std::move(done), false, kNever});
  if (context_.activity != nullptr) context_.activity->begin();
  submit_.notify(sc_core::SC_ZERO_TIME);
}

void HostPort::submit() {
  context_.guarded([this] {
    for (Launch& l : launches_) {
      if (l.sent) continue;
      l.sent = true;
      send(*l.message);
      if (context_.activity != nullptr) context_.activity->end();
    }
    if (!copies_.empty() && piece_ == nullptr) next_piece();
  });
}

void HostPort::send(LaunchMessage& launch) {
  const Route* route = context_.directory->route(params_.pcie_ep[launch.lead_sip], params_.io_cpu[launch.lead_sip], 0);
  Message& m = context_.pool.take_message(Message::Kind::launch, *route);
  m.launch = &launch;
  Packet& packet = context_.pool.take_packet(m);
  PacketPhase phase = PacketPhase::send;
  sc_core::sc_time now = sc_core::SC_ZERO_TIME;
  (*sips_[launch.lead_sip]->launch)->nb_transport_fw(packet, phase, now);
}

tlm::tlm_sync_enum HostPort::Sip::nb_transport_fw(Packet& packet, PacketPhase&, sc_core::sc_time& delay) {
  const LaunchMessage* completed = packet.message->launch;
  packet.message->owner->packet_consumed(packet);
  for (Launch& l : port->launches_)
    if (l.message == completed) l.end = after(delay);
  if (port->context_.activity != nullptr) port->context_.activity->begin();
  port->finish_.notify(std::max(delay, sc_core::SC_ZERO_TIME));
  return tlm::TLM_ACCEPTED;
}

// ---- copies -------------------------------------------------------------------------------------------------

void HostPort::start_copy(bool to_device, std::uint64_t address, std::uint64_t bytes, std::function<void(Ps)> done,
                          unsigned char* data) {
  if (!driver_)
    throw InputError(
        "host copy: found an open host port (open.host_port), which foreign IP drives; allowed: a host "
        "port of the platform's own");
  FabricTarget target;
  if (!context_.directory->decode(FabricDirectory::kAnywhere, address, target) || bytes > target.room)
    throw ModelError("host copy of " + std::to_string(bytes) + " bytes at " + context_.directory->describe(address) +
                     ": found an address error; allowed: memory, up to the end of its region");
  if (context_.activity != nullptr) context_.activity->begin();
  copies_.push_back({to_device, address, bytes, 0, data, 0, std::move(done)});
  submit_.notify(sc_core::SC_ZERO_TIME);
}

void HostPort::next_piece() {
  Copy& c = copies_.front();
  if (c.done_bytes == 0) c.start = now_ps();
  copy_end_ = kNever;
  const std::uint64_t bytes = std::min(kPieceBytes, c.bytes - c.done_bytes);
  const std::uint64_t address = c.address + c.done_bytes;
  tlm::tlm_generic_payload& trans =
      context_.payloads.take(c.to_device ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND, address, bytes,
                             c.data != nullptr ? c.data + c.done_bytes : nullptr);
  PayloadPool::extension(trans).listener = c.to_device ? nullptr : this;
  piece_ = &trans;
  c.done_bytes += bytes;
  tlm::tlm_phase phase = tlm::BEGIN_REQ;
  sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
  if ((*driver_)->nb_transport_fw(trans, phase, delay) != tlm::TLM_COMPLETED) return;
  // Refused: nothing has been sent.
  trans.release();
  piece_ = nullptr;
  copies_.pop_front();
  if (context_.activity != nullptr) context_.activity->end();
  throw ModelError("host copy of " + std::to_string(bytes) + " bytes at " + context_.directory->describe(address) +
                   ": found a refused transaction; allowed: memory that is bound");
}

tlm::tlm_sync_enum HostPort::nb_transport_bw(tlm::tlm_generic_payload& trans, tlm::tlm_phase& phase,
                                             sc_core::sc_time& delay) {
  if (phase != tlm::BEGIN_RESP || &trans != piece_) return tlm::TLM_ACCEPTED;
  const TransferExtension& ext = PayloadPool::extension(trans);
  if (trans.is_write() || trans.is_response_error() || trans.get_data_length() == 0)
    piece_done(after(delay));
  else if (ext.complete)
    piece_done(ext.train.tail());
  phase = tlm::END_RESP;
  return tlm::TLM_COMPLETED;
}

void HostPort::train_extended(tlm::tlm_generic_payload&, TransferExtension& ext) {
  if (ext.complete) piece_done(ext.train.tail());
}

void HostPort::piece_done(Ps at) {
  copy_end_ = at;
  finish_.notify(until(at));
}

void HostPort::finish() {
  context_.guarded([this] {
    const Ps now = now_ps();
    if (piece_ != nullptr && copy_end_ <= now) {
      const bool failed = piece_->is_response_error();
      const std::uint64_t address = piece_->get_address();
      const Ps end = copy_end_;
      piece_->release();
      piece_ = nullptr;
      if (failed)
        throw ModelError("host copy at " + context_.directory->describe(address) +
                         ": found an error response of the memory; allowed: TLM_OK_RESPONSE");
      if (copies_.front().done_bytes < copies_.front().bytes) {
        next_piece();
      } else {
        const Copy c = std::move(copies_.front());
        copies_.pop_front();
        if (!copies_.empty()) next_piece();
        c.done(end - c.start);
        if (context_.activity != nullptr) context_.activity->end();
      }
    }
    for (std::size_t i = 0; i < launches_.size();) {
      if (launches_[i].end > now) {
        ++i;
        continue;
      }
      const std::function<void()> done = std::move(launches_[i].done);
      launches_.erase(launches_.begin() + static_cast<std::ptrdiff_t>(i));
      done();
      if (context_.activity != nullptr) context_.activity->end();
    }
    Ps next = piece_ != nullptr ? copy_end_ : kNever;
    for (const Launch& l : launches_) next = std::min(next, l.end);
    if (next != kNever) finish_.notify(until(next));
  });
}

}  // namespace kb
