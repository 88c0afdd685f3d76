#include <kb/modules/fabric/base_protocol.h>
#include <kb/modules/pe/tcm_port.h>

#include <algorithm>
#include <cstring>

namespace kb {

TcmPort::TcmPort(const sc_core::sc_module_name& name, const BoxContext& context)
    : DecidingBox(name, context, Box::tcm), socket("socket"), slots("slots") {
  socket.bind(static_cast<tlm::tlm_fw_transport_if<>&>(*this));
}

TcmPort::Region TcmPort::locate(tlm::tlm_generic_payload& trans, std::uint64_t& offset) const {
  const std::uint64_t length = trans.get_data_length();
  Region region = Region::none;
  std::uint64_t size = 0;
  offset = trans.get_address();
  if (env().addresses == nullptr) {
    region = Region::tcm;
    size = params().tcm.bytes;
  } else {
    const Decoded d = env().addresses->decode(trans.get_address());
    const bool mine = d.sip == env().id.sip && d.die == env().id.cube && d.unit == env().id.pe;
    if (mine && d.kind == RegionKind::tcm) region = Region::tcm;
    if (mine && d.kind == RegionKind::queue) region = Region::queue;
    offset = d.offset;
    size = d.region_bytes;
  }
  if (region == Region::none || offset > size || length > size - offset) {
    trans.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
    return Region::none;
  }
  return region;
}

std::uint8_t* TcmPort::page(std::uint64_t index) {
  auto& bytes = pages_[index];
  // All ones is a NaN in every floating format: reading what nobody wrote shows (spec 2.4).
  if (bytes.empty()) bytes.assign(kPageBytes, 0xff);
  return bytes.data();
}

void TcmPort::copy(tlm::tlm_generic_payload& trans, std::uint64_t offset) {
  std::uint8_t* data = trans.get_data_ptr();
  const std::uint64_t length = trans.get_data_length();
  const bool read = trans.is_read();
  if (!read && !trans.is_write()) return;
  const std::uint8_t* enable = trans.get_byte_enable_ptr();
  const std::uint64_t enables = trans.get_byte_enable_length();
  const std::uint64_t width = trans.get_streaming_width();
  if (enable == nullptr && width >= length) {
    for (std::uint64_t done = 0; done < length;) {
      const std::uint64_t at = offset + done;
      const std::uint64_t part = std::min(length - done, kPageBytes - at % kPageBytes);
      const auto found = pages_.find(at / kPageBytes);
      if (!read)
        std::memcpy(page(at / kPageBytes) + at % kPageBytes, data + done, part);
      else if (found != pages_.end())
        std::memcpy(data + done, found->second.data() + at % kPageBytes, part);
      else
        std::memset(data + done, 0xff, part);
      done += part;
    }
    return;
  }
  for (std::uint64_t i = 0; i < length; ++i) {
    if (enable != nullptr && enables != 0 && enable[i % enables] != TLM_BYTE_ENABLED) continue;
    const std::uint64_t at = offset + (width == 0 ? i : i % width);
    std::uint8_t& byte = page(at / kPageBytes)[at % kPageBytes];
    if (read)
      data[i] = byte;
    else
      byte = data[i];
  }
}

// Moves the data, unless it is filler, and tells the queue engine of what came for it.
void TcmPort::complete(tlm::tlm_generic_payload& trans, Ps at, Ps now) {
  std::uint64_t offset = 0;
  const Region region = locate(trans, offset);
  if (region == Region::none) return;
  trans.set_response_status(tlm::TLM_OK_RESPONSE);
  if (region == Region::tcm) {
    const auto* ext = trans.get_extension<TransferExtension>();
    if (ext == nullptr || !ext->timing_only) copy(trans, offset);
  } else if (trans.is_write() && slots.size() != 0) {
    SlotArrival arrival{offset, trans.get_data_length()};
    SlotPhase phase = SlotPhase::arrived;
    sc_core::sc_time delay = delay_until(at, now);
    slots->nb_transport_fw(arrival, phase, delay);
  }
}

void TcmPort::b_transport(tlm::tlm_generic_payload& trans, sc_core::sc_time& delay) {
  if (delay != sc_core::SC_ZERO_TIME) sc_core::wait(delay);
  delay = sc_core::SC_ZERO_TIME;
  const Ps now = now_ps();
  complete(trans, now, now);
}

tlm::tlm_sync_enum TcmPort::nb_transport_fw(tlm::tlm_generic_payload& trans, tlm::tlm_phase& phase,
                                            sc_core::sc_time& delay) {
  switch (forward_phase(name(), trans, phase)) {
    case ForwardPhase::end_of_response:
      response_ends_.append(true, after(delay));
      wake_at(after(delay));
      return tlm::TLM_COMPLETED;
    case ForwardPhase::ignorable: return tlm::TLM_ACCEPTED;
    case ForwardPhase::request: break;
  }
  trans.acquire();
  const Ps at = after(delay);
  Access access{&trans, at, count_++};
  if (trans.is_write()) {
    auto* ext = trans.get_extension<TransferExtension>();
    if (ext == nullptr || ext->train.empty()) {
      access.due = at + transfer_ps(trans.get_data_length(), env().machine->pe_dma_bw_gbs);
    } else if (ext->complete) {
      access.due = std::max(at, ext->train.tail());
    } else {
      access.due = kNever;
      ext->listener = this;
    }
  }
  requests_.append(access, at);
  wake_at(at);
  phase = tlm::END_REQ;
  return tlm::TLM_UPDATED;
}

void TcmPort::train_extended(tlm::tlm_generic_payload& trans, TransferExtension& ext) {
  if (!ext.complete) return;
  const Ps tail = std::max(ext.train.tail(), now_ps());
  tails_.append(&trans, tail);
  wake_at(tail);
}

void TcmPort::decide(Ps now, std::uint64_t delta) {
  wake_at(response_ends_.drain(now, delta, [this](bool, Ps) { responding_ = false; }), now);
  wake_at(requests_.drain(now, delta, [this](const Access& access, Ps) { waiting_.push_back(access); }), now);
  wake_at(tails_.drain(now, delta,
                       [this](tlm::tlm_generic_payload* trans, Ps at) {
                         for (Access& a : waiting_)
                           if (a.trans == trans) a.due = at;
                       }),
          now);
  std::sort(waiting_.begin(), waiting_.end(),
            [](const Access& x, const Access& y) { return x.due != y.due ? x.due < y.due : x.number < y.number; });
  std::size_t served = 0;
  while (served < waiting_.size() && waiting_[served].due <= now) {
    complete(*waiting_[served].trans, now, now);
    responses_.push_back(waiting_[served].trans);
    ++served;
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(served));
  if (!waiting_.empty() && waiting_.front().due != kNever) wake_at(waiting_.front().due, now);
  respond(now);
}

void TcmPort::respond(Ps now) {
  while (!responding_ && !responses_.empty()) {
    tlm::tlm_generic_payload& trans = *responses_.front();
    responses_.pop_front();
    if (trans.is_read()) {
      if (auto* ext = trans.get_extension<TransferExtension>()) {
        const auto flits = ceil_div<std::uint64_t>(trans.get_data_length(), env().machine->burst_bytes);
        ext->train = FlitTrain::all_at(now, static_cast<std::uint32_t>(flits));
        ext->complete = true;
      }
    }
    tlm::tlm_phase phase = tlm::BEGIN_RESP;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    const auto answer = socket->nb_transport_bw(trans, phase, delay);
    if (answer == tlm::TLM_ACCEPTED) {
      responding_ = true;
    } else if (answer == tlm::TLM_UPDATED && phase == tlm::END_RESP && delay != sc_core::SC_ZERO_TIME) {
      responding_ = true;
      response_ends_.append(true, after(delay));
      wake_at(after(delay), now);
    }
    trans.release();
  }
}

bool TcmPort::get_direct_mem_ptr(tlm::tlm_generic_payload& trans, tlm::tlm_dmi& dmi) {
  std::uint64_t offset = 0;
  if (env().mode == Mode::timing || locate(trans, offset) != Region::tcm) return false;
  const std::uint64_t start = trans.get_address() - offset % kPageBytes;
  dmi.init();
  dmi.set_dmi_ptr(page(offset / kPageBytes));
  dmi.set_start_address(start);
  dmi.set_end_address(start + kPageBytes - 1);
  dmi.allow_read_write();
  dmi_given_ = true;
  return true;
}

void TcmPort::invalidate_dmi() {
  if (dmi_given_) socket->invalidate_direct_mem_ptr(0, ~sc_dt::uint64{0});
  dmi_given_ = false;
}

unsigned int TcmPort::transport_dbg(tlm::tlm_generic_payload& trans) {
  std::uint64_t offset = 0;
  const Region region = locate(trans, offset);
  if (region == Region::none) return 0;
  trans.set_response_status(tlm::TLM_OK_RESPONSE);
  if (region == Region::queue) {  // slots have no storage: a message is a snapshot that travels with its record
    if (trans.is_read()) std::memset(trans.get_data_ptr(), 0, trans.get_data_length());
    return trans.get_data_length();
  }
  copy(trans, offset);
  return trans.get_data_length();
}

}  // namespace kb
