#include <kb/modules/memory/memory_controller.h>

#include <kb/modules/fabric/base_protocol.h>

#include <algorithm>

namespace kb {

MemoryControllerParams MemoryControllerParams::of(const HbmParams& p) {
  MemoryControllerParams m;
  m.bytes = static_cast<std::uint64_t>(p.slice_gib * static_cast<double>(GiB));
  m.channels = p.pseudo_channels;
  m.channel_bw_gbs = p.pc_bw_gbs;
  m.link_bw_gbs = p.link_bw_gbs;
  m.burst_bytes = p.burst_bytes;
  m.access_ns = p.access_ns;
  m.switch_penalty_ns = p.switch_penalty_ns;
  return m;
}

MemoryControllerParams MemoryControllerParams::of(const SramParams& p, std::uint32_t burst_bytes) {
  MemoryControllerParams m;
  m.bytes = p.bytes;
  m.channel_name = "bank";
  m.channels = 1;
  m.channel_bw_gbs = p.link_bw_gbs;
  m.link_bw_gbs = p.link_bw_gbs;
  m.burst_bytes = burst_bytes;
  return m;
}

MemoryController::MemoryController(const sc_core::sc_module_name& name, FabricContext& context,
                                   const MemoryControllerParams& params)
    : MemoryModule(name), context_(context), params_(params), channels_(params.channels), gate_(socket, false) {
  while ((1u << burst_shift_) < params_.burst_bytes) ++burst_shift_;
  channel_flit_ = transfer_ps(params_.burst_bytes, params_.channel_bw_gbs);
  link_flit_ = transfer_ps(params_.burst_bytes, params_.link_bw_gbs);
  access_ = ps_from_ns(params_.access_ns);
  penalty_ = ps_from_ns(params_.switch_penalty_ns);
  socket.bind(static_cast<tlm::tlm_fw_transport_if<>&>(*this));
  SC_HAS_PROCESS(MemoryController);
  SC_METHOD(decide);
  sensitive << wake_;
  dont_initialize();
}

// ---- uncontended times --------------------------------------------------------------------------------------

std::uint64_t MemoryController::last_flit(std::uint64_t bytes) const {
  const std::uint64_t rest = bytes & (params_.burst_bytes - 1);
  return rest == 0 ? params_.burst_bytes : std::min<std::uint64_t>(round_last_flit(rest), params_.burst_bytes);
}

FlitTimes MemoryController::channel_times(std::uint64_t bytes) const {
  const std::uint64_t last = last_flit(bytes);
  return {channel_flit_, last == params_.burst_bytes ? channel_flit_ : transfer_ps(last, params_.channel_bw_gbs)};
}

FlitTimes MemoryController::link_times(std::uint64_t bytes) const {
  const std::uint64_t last = last_flit(bytes);
  return {link_flit_, last == params_.burst_bytes ? link_flit_ : transfer_ps(last, params_.link_bw_gbs)};
}

void MemoryController::idle_read(std::uint64_t bytes, FlitTrain& out) const {
  const auto flits = static_cast<std::uint32_t>(ceil_div<std::uint64_t>(bytes, params_.burst_bytes));
  const FlitTimes channel = channel_times(bytes);
  const FlitTimes link = link_times(bytes);
  // Groups of one flit per channel are done together; a short last flit alone in its group is done earlier.
  FlitTrain done;
  const std::uint32_t groups = (flits - 1) / params_.channels;
  for (std::uint32_t g = 0; g < groups; ++g)
    done.append_run(access_ + channel.whole * static_cast<Ps>(g + 1), 0, params_.channels);
  const std::uint32_t rest = flits - groups * params_.channels;
  const Ps end = access_ + channel.whole * static_cast<Ps>(groups);
  done.append_run(end + (rest == 1 ? channel.last : channel.whole), 0, rest);
  done.over_link(0, link.whole, link.last, 0, out);
}

Ps MemoryController::idle_write(std::uint64_t bytes, const FlitTrain& arrivals) const {
  const FlitTimes channel = channel_times(bytes);
  std::vector<Ps> free(params_.channels, 0);
  FlitTrain::Cursor at;
  Ps committed = 0;
  for (std::uint32_t j = 0; j < arrivals.flits(); ++j) {
    Ps& f = free[j & (params_.channels - 1)];
    f = std::max(arrivals.next(at), f) + (j + 1 == arrivals.flits() ? channel.last : channel.whole);
    committed = std::max(committed, f);
  }
  return committed + access_;
}

void MemoryController::append_stats(std::vector<LinkStats>& stats) const {
  for (std::uint32_t c = 0; c < params_.channels; ++c) {
    LinkStats s;
    s.name = params_.title + "." + params_.channel_name + std::to_string(c);
    s.bw_gbs = params_.channel_bw_gbs;
    s.bytes = channels_[c].counters.bytes;
    s.busy = channels_[c].counters.busy;
    stats.push_back(std::move(s));
  }
}

// ---- base protocol --------------------------------------------------------------------------------------------

bool MemoryController::accept(tlm::tlm_generic_payload& trans) const {
  const std::uint64_t bytes = trans.get_data_length();
  if (trans.get_address() >= params_.bytes || bytes > params_.bytes - trans.get_address()) {
    trans.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
    return false;
  }
  return check_attributes(trans);
}

MemoryController::Access& MemoryController::open(tlm::tlm_generic_payload& trans, Ps at) {
  Access& a = *accesses_.take();
  a.trans = &trans;
  a.ext = trans.get_extension<TransferExtension>();
  a.number = ++opened_;
  a.write = trans.is_write();
  a.origin = a.ext != nullptr ? a.ext->origin : 0;
  a.flits = static_cast<std::uint32_t>(ceil_div<std::uint64_t>(trans.get_data_length(), params_.burst_bytes));
  a.seen = 0;
  a.decided = 0;
  a.committed = at;
  a.cursor = {};
  a.done = nullptr;
  a.finished = false;
  a.turned.clear();
  if (!a.write || a.flits == 0) {
    a.seen = a.flits;
    append_piece(a, at, 0, a.flits);
    return a;
  }
  if (a.ext != nullptr && !a.ext->train.empty()) {
    a.arrivals = &a.ext->train;
    if (!a.ext->complete) {
      a.ext->listener = this;
      writes_.push_back(&a);
    }
    take_arrivals(a, a.ext->complete);
    return a;
  }
  // Without a train the data follows its first byte at the socket's bandwidth.
  const FlitTimes link = link_times(trans.get_data_length());
  a.own_train.clear();
  if (a.flits > 1) a.own_train.append_run(at + link.whole, link.whole, a.flits - 1);
  a.own_train.append(at + link.sum(a.flits));
  a.arrivals = &a.own_train;
  take_arrivals(a, true);
  return a;
}

void MemoryController::take_arrivals(Access& access, bool complete) {
  const std::uint32_t known = access.arrivals->flits();
  if (known > access.seen) {
    // The first of the new flits: everything before it has been read from the train, or waits in other pieces.
    FlitTrain::Cursor at;
    std::uint32_t skip = access.seen;
    const auto& runs = access.arrivals->runs();
    while (skip >= runs[at.run].count) skip -= runs[at.run++].count;
    at.used = skip;
    append_piece(access, access.arrivals->next(at), access.seen, known - access.seen);
    access.seen = known;
  }
  if (complete) writes_.erase(std::remove(writes_.begin(), writes_.end(), &access), writes_.end());
}

void MemoryController::append_piece(Access& access, Ps arrival, std::uint32_t first, std::uint32_t count) {
  pieces_.push_back({&access, arrival, sc_core::sc_delta_count(), first, count});
  wake_at(arrival);
}

void MemoryController::train_extended(tlm::tlm_generic_payload& trans, TransferExtension& ext) {
  for (Access* a : writes_) {
    if (a->trans != &trans) continue;
    take_arrivals(*a, ext.complete);
    return;
  }
}

tlm::tlm_sync_enum MemoryController::nb_transport_fw(tlm::tlm_generic_payload& trans, tlm::tlm_phase& phase,
                                                     sc_core::sc_time& delay) {
  const Ps at = after(delay);
  switch (forward_phase(params_.title, trans, phase)) {
    case ForwardPhase::end_of_response:
      gate_.ended(at);
      if (gate_.ready()) wake_at(now_ps());
      return tlm::TLM_COMPLETED;
    case ForwardPhase::ignorable: return tlm::TLM_ACCEPTED;
    case ForwardPhase::request: break;
  }
  if (trans.get_command() == tlm::TLM_IGNORE_COMMAND) {
    trans.set_response_status(tlm::TLM_OK_RESPONSE);
    return tlm::TLM_COMPLETED;
  }
  if (!accept(trans)) return tlm::TLM_COMPLETED;
  trans.acquire();
  open(trans, at);
  phase = tlm::END_REQ;
  return tlm::TLM_UPDATED;
}

void MemoryController::b_transport(tlm::tlm_generic_payload& trans, sc_core::sc_time& delay) {
  if (trans.get_command() == tlm::TLM_IGNORE_COMMAND) {
    trans.set_response_status(tlm::TLM_OK_RESPONSE);
    return;
  }
  if (!accept(trans)) return;
  sc_core::sc_event done;
  Access& a = open(trans, after(delay));
  a.done = &done;
  while (!a.finished) sc_core::wait(done);
  const sc_core::sc_time rest = until(a.response_at);
  accesses_.give(&a);
  if (rest != sc_core::SC_ZERO_TIME) sc_core::wait(rest);
  delay = sc_core::SC_ZERO_TIME;
}

unsigned MemoryController::transport_dbg(tlm::tlm_generic_payload& trans) {
  const std::uint64_t from = trans.get_address();
  if (from >= params_.bytes) return 0;
  const auto count = static_cast<unsigned>(std::min<std::uint64_t>(trans.get_data_length(), params_.bytes - from));
  if (trans.is_read())
    store_.read(from, trans.get_data_ptr(), count);
  else if (trans.is_write())
    store_.write(from, trans.get_data_ptr(), count);
  else
    return 0;
  return count;
}

bool MemoryController::get_direct_mem_ptr(tlm::tlm_generic_payload& trans, tlm::tlm_dmi& dmi) {
  if (!context_.dmi || trans.get_address() >= params_.bytes) return false;
  const std::uint64_t start = trans.get_address() / SparseStore::kPageBytes * SparseStore::kPageBytes;
  dmi.set_dmi_ptr(store_.page(start));
  dmi.set_start_address(start);
  dmi.set_end_address(std::min(start + SparseStore::kPageBytes, params_.bytes) - 1);
  dmi.set_read_latency(to_sc_time(channel_flit_) / params_.burst_bytes);
  dmi.set_write_latency(to_sc_time(channel_flit_) / params_.burst_bytes);
  dmi.allow_read_write();
  return true;
}

// ---- decisions --------------------------------------------------------------------------------------------------

void MemoryController::wake_at(Ps when) {
  if (when >= wake_at_) return;
  wake_at_ = when;
  wake_.notify(until(when));
}

void MemoryController::decide() {
  context_.guarded([this] {
    wake_at_ = kNever;
    while (const auto sent = gate_.next()) close(*sent.item);
    if (gate_.ready()) wake_at(now_ps());
    const Ps now = now_ps();
    const std::uint64_t delta = sc_core::sc_delta_count();
    for (;;) {
      const Piece* best = nullptr;
      std::uint32_t best_turn = 0;
      for (const Piece& p : pieces_) {
        if (p.arrival > now || p.delta == delta) continue;
        const std::uint32_t turn = p.access->origin - served_ - 1;
        if (best == nullptr || p.arrival < best->arrival ||
            (p.arrival == best->arrival &&
             (turn < best_turn || (turn == best_turn && (p.access->number < best->access->number ||
                                                         (p.access == best->access && p.first < best->first)))))) {
          best = &p;
          best_turn = turn;
        }
      }
      if (best == nullptr) break;
      const Piece piece = *best;
      pieces_[static_cast<std::size_t>(best - pieces_.data())] = pieces_.back();
      pieces_.pop_back();
      served_ = piece.access->origin;
      if (piece.access->write)
        serve_write(piece);
      else
        serve_read(*piece.access, piece.arrival);
    }
    Ps next = kNever;
    for (const Piece& p : pieces_) next = std::min(next, p.arrival);
    if (next != kNever) wake_at(next);
  });
}

Ps MemoryController::occupy(Access& access, std::uint32_t flit, Ps arrival, Ps head) {
  const std::uint64_t bytes = access.trans->get_data_length();
  const std::uint64_t address = access.trans->get_address() + std::uint64_t{flit} * params_.burst_bytes;
  const std::uint32_t number = static_cast<std::uint32_t>(address >> burst_shift_) & (params_.channels - 1);
  Channel& c = channels_[number];
  const bool last = flit + 1 == access.flits;
  const Ps own = last ? channel_times(bytes).last : channel_flit_;
  const Ps turn = c.used && c.writing != access.write ? penalty_ : 0;
  Ps start = std::max(arrival, c.free);
  if (c.last_access == access.number) start = std::max(start, c.last_end);
  start += turn;
  c.free = std::max(head, c.free) + turn + own;
  c.last_end = start + own;
  c.last_access = access.number;
  c.writing = access.write;
  c.used = true;
  if (turn > 0) {
    access.turned.resize(params_.channels);
    access.turned[number] += turn;
    if (access.ext != nullptr) access.ext->turnaround_ps = std::max(access.ext->turnaround_ps, access.turned[number]);
  }
  c.counters.bytes += last ? last_flit(bytes) : params_.burst_bytes;
  c.counters.busy += own;
  if (context_.links != nullptr) context_.links->link_busy(params_.first_channel + number, start, c.last_end);
  return c.last_end + access_;
}

void MemoryController::serve_read(Access& access, Ps arrival) {
  const FlitTimes link = link_times(access.trans->get_data_length());
  FlitTrain& train = access.ext != nullptr ? access.ext->train : access.own_train;
  train.clear();
  Ps left = link_free_;
  Ps first_done = 0;
  for (std::uint32_t j = 0; j < access.flits; ++j) {
    const Ps done = occupy(access, j, arrival, arrival);
    if (j == 0) first_done = done;
    left = std::max(left, done) + (j + 1 == access.flits ? link.last : link.whole);
    train.append(left);
  }
  move_data(access);
  access.trans->set_response_status(tlm::TLM_OK_RESPONSE);
  if (access.flits == 0) {
    finish(access, arrival + access_);
    return;
  }
  link_free_ = std::max(first_done, link_free_) + link.sum(access.flits);
  if (access.ext != nullptr) access.ext->complete = true;
  // BEGIN_RESP marks the first byte; a blocked caller waits for the last one.
  const Ps first_byte = train.head() - (access.flits == 1 ? link.last : link.whole);
  finish(access, access.done != nullptr ? train.tail() : first_byte);
}

void MemoryController::serve_write(const Piece& piece) {
  Access& a = *piece.access;
  for (std::uint32_t j = 0; j < piece.count; ++j)
    a.committed = std::max(a.committed, occupy(a, piece.first + j, a.arrivals->next(a.cursor), piece.arrival));
  a.decided += piece.count;
  if (a.decided < a.flits) return;
  move_data(a);
  a.trans->set_response_status(tlm::TLM_OK_RESPONSE);
  finish(a, a.committed);
}

void MemoryController::move_data(Access& access) {
  tlm::tlm_generic_payload& t = *access.trans;
  t.set_dmi_allowed(context_.dmi);
  if (access.ext != nullptr && access.ext->timing_only) return;
  const unsigned char* enable = t.get_byte_enable_ptr();
  if (enable != nullptr) {
    if (access.write)
      store_.write(t.get_address(), t.get_data_ptr(), t.get_data_length(), enable, t.get_byte_enable_length());
    else
      store_.read(t.get_address(), t.get_data_ptr(), t.get_data_length(), enable, t.get_byte_enable_length());
  } else if (access.write) {
    store_.write(t.get_address(), t.get_data_ptr(), t.get_data_length());
  } else {
    store_.read(t.get_address(), t.get_data_ptr(), t.get_data_length());
  }
}

void MemoryController::finish(Access& access, Ps at) {
  access.response_at = at;
  if (access.done != nullptr) {
    access.finished = true;
    access.done->notify(sc_core::SC_ZERO_TIME);
    return;
  }
  if (gate_.offer(access))
    close(access);
  else if (gate_.ready())
    wake_at(now_ps());
}

void MemoryController::close(Access& access) {
  tlm::tlm_generic_payload& trans = *access.trans;
  accesses_.give(&access);
  trans.release();
}

}  // namespace kb
