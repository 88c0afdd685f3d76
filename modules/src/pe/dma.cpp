#include <kb/modules/pe/dma.h>
#include <kb/tlm_if/errors.h>

#include <algorithm>

namespace kb {

namespace {

// One generic payload holds at most 2^32 - 1 bytes; longer pieces are cut at a multiple of every burst.
constexpr std::uint64_t kMaxPieceBytes = 1ull << 31;

}  // namespace

Dma::Dma(const sc_core::sc_module_name& name, const BoxContext& context)
    : TokenEngine(name, context, Box::dma), socket("socket"), mmu("mmu"), slots("slots"), direct_done_("direct_done") {
  socket.bind(static_cast<tlm::tlm_bw_transport_if<>&>(*this));
  slots.bind(static_cast<ProtocolFwIf<SlotTransferProtocol>&>(*this));
  ways_[kRead].engines.resize(params().dma.read_engines);
  ways_[kWrite].engines.resize(params().dma.write_engines);
  ways_[kQueue].engines.resize(params().dma.write_engines);
}

void Dma::on_token(TileToken& token, Ps at) {
  tokens_.append(&token, at);
  wake_at(std::max(at, earliest_start(token.now().engine == EngineKind::dma_read ? kRead : kWrite)));
}

void Dma::on_signal(const Signal& signal, Ps at) {
  loops_opened_.append(signal, at);
  wake_at(at);
}

tlm::tlm_sync_enum Dma::nb_transport_fw(SlotTransfer& transfer, SlotTransferPhase&, sc_core::sc_time& delay) {
  const Ps at = after(delay);
  slots_new_.append(&transfer, at);
  wake_at(std::max(at, earliest_start(kQueue)));
  return tlm::TLM_ACCEPTED;
}

void Dma::start_direct(const std::vector<Host::DirectTransfer>& transfers, Ps start) {
  first_issue_ = kNever;
  last_end_ = 0;
  for (const auto& t : transfers) {
    if (t.pe != env().rank) continue;
    Job& job = new_job(t.write ? kWrite : kRead, t.addr, t.bytes, start, direct_order_++);
    direct_new_.append(&job, start);
    ++direct_left_;
    if (env().activity != nullptr) env().activity->begin();
  }
  if (direct_left_ != 0) wake_at(start);
}

// The answers of the socket. A read whose data train is known is not looked at before its last flit is here.
tlm::tlm_sync_enum Dma::nb_transport_bw(tlm::tlm_generic_payload& trans, tlm::tlm_phase& phase,
                                        sc_core::sc_time& delay) {
  const Ps at = after(delay);
  const auto* ext = trans.get_extension<TransferExtension>();
  const std::uint64_t serial = ext == nullptr ? 0 : ext->serial;
  if (phase == tlm::END_REQ) {
    answers_.append({Answer::Kind::request_taken, &trans, serial}, at);
    if (!requesting_.empty()) wake_at(at);
    return tlm::TLM_ACCEPTED;
  }
  if (phase != tlm::BEGIN_RESP) return tlm::TLM_ACCEPTED;  // an ignorable phase
  // BEGIN_RESP implies END_REQ.
  if (request_ == &trans) {
    answers_.append({Answer::Kind::request_taken, &trans, serial}, at);
    wake_at(at);
  }
  const Ps due = answered_at(trans, at);
  answers_.append({Answer::Kind::responded, &trans, serial}, due);
  wake_at(due);
  return tlm::TLM_COMPLETED;
}

// When the data of a response is here: with the train's last flit, or, where the target tells nothing of flits,
// behind its first byte at the bandwidth of the socket (spec 1.5). An unfinished train is due at its head.
Ps Dma::answered_at(const tlm::tlm_generic_payload& trans, Ps at) const {
  if (!trans.is_read() || trans.is_response_error()) return at;
  const auto* ext = trans.get_extension<TransferExtension>();
  if (ext == nullptr || ext->train.empty())
    return at + transfer_ps(trans.get_data_length(), env().machine->pe_dma_bw_gbs);
  return ext->complete ? std::max(at, ext->train.tail()) : at;
}

void Dma::train_extended(tlm::tlm_generic_payload& trans, TransferExtension& ext) {
  if (!ext.complete || !trans.is_read()) return;
  const Ps tail = std::max(ext.train.tail(), now_ps());
  answers_.append({Answer::Kind::tail_known, &trans, ext.serial}, tail);
  wake_at(tail);
}

void Dma::data_left(tlm::tlm_generic_payload& trans, Ps when) {
  answers_.append({Answer::Kind::left, &trans, PayloadPool::extension(trans).serial}, when);
  wake_at(when);
}

Dma::Job& Dma::new_job(Direction way, std::uint64_t address, std::uint64_t bytes, Ps place, std::uint64_t order) {
  Job& job = *jobs_.take();
  job = Job{};
  job.way = way;
  job.address = address;
  job.bytes = bytes;
  job.place = job.from = place;
  job.order = order;
  return job;
}

void Dma::wait_in(Way& way, Job& job) {
  const auto later = [&](const Job* w) {
    if (w->ahead != job.ahead) return w->ahead;
    return w->place != job.place ? w->place > job.place : w->order > job.order;
  };
  way.waiting.insert(std::find_if(way.waiting.begin(), way.waiting.end(), later), &job);
}

Dma::Job& Dma::job_of(TileToken& token, Ps place) {
  const StageWork work = token.work();
  Job& job = new_job(token.now().engine == EngineKind::dma_read ? kRead : kWrite, work.address, work.bytes, place,
                     token.order);
  job.token = &token;
  const std::uint32_t slot = token.context->slot;
  job.ahead = token.gated && (slot >= open_loops_.size() || open_loops_[slot] != token.context->serial);
  return job;
}

void Dma::open_loop(const Signal& signal, Ps now) {
  if (open_loops_.size() <= signal.slot) open_loops_.resize(signal.slot + 1, 0);
  open_loops_[signal.slot] = signal.serial;
  std::vector<Job*> waiting;
  waiting.swap(ways_[kRead].waiting);
  for (Job* job : waiting) {
    if (job->ahead && job->token->context->slot == signal.slot) {
      job->ahead = false;
      job->place = now;
    }
    wait_in(ways_[kRead], *job);
  }
}

void Dma::decide(Ps now, std::uint64_t delta) {
  const auto wait_for = [this](Job& job) { wait_in(ways_[job.way], job); };
  Ps next = tokens_.drain(now, delta, [&](TileToken* token, Ps at) { wait_for(job_of(*token, at)); });
  next = std::min(next, slots_new_.drain(now, delta, [&](SlotTransfer* slot, Ps at) {
    Job& job = new_job(kQueue, slot->address, slot->bytes, at, slot->order);
    job.slot = slot;
    wait_for(job);
  }));
  next = std::min(next, direct_new_.drain(now, delta, [&](Job* job, Ps) { wait_for(*job); }));

  wake_at(loops_opened_.drain(now, delta, [&](const Signal& s, Ps) { open_loop(s, now); }), now);
  wake_at(answers_.drain(now, delta, [&](const Answer& answer, Ps at) { take(answer, at); }), now);
  for (Way& way : ways_) end_jobs(way, now);
  for (Way& way : ways_) start_jobs(way, now);
  send_requests(now);
  for (Way& way : ways_) end_jobs(way, now);  // transfers of no bytes and no overhead

  Ps possible = kNever;  // the earliest start of any transfer still to come
  for (std::size_t w = 0; w < kWays; ++w) {
    const Ps earliest = earliest_start(static_cast<Direction>(w));
    possible = std::min(possible, earliest);
    if (earliest == kNever) continue;
    for (const Job* job : ways_[w].waiting) wake_at(std::max(earliest, job->from), now);
  }
  if (next != kNever && possible != kNever) wake_at(std::max(next, possible), now);
  for (const Way& way : ways_)
    for (const Job* job : way.ending) wake_at(job->end, now);
}

Ps Dma::earliest_start(Direction way) const {
  Ps earliest = kNever;
  for (const Engine& e : ways_[way].engines)
    if (e.held < params().dma.outstanding) earliest = std::min(earliest, e.port_free);
  return earliest;
}

void Dma::start_jobs(Way& way, Ps now) {
  for (std::size_t i = 0; i < way.waiting.size();) {
    Job& job = *way.waiting[i];
    if (job.from > now) {
      ++i;
      continue;
    }
    const auto engine = std::find_if(way.engines.begin(), way.engines.end(), [&](const Engine& e) {
      return e.held < params().dma.outstanding && e.port_free <= now;
    });
    if (engine == way.engines.end()) return;
    way.waiting.erase(way.waiting.begin() + static_cast<std::ptrdiff_t>(i));
    job.engine = static_cast<std::uint32_t>(engine - way.engines.begin());
    start(job, *engine, now);
  }
}

void Dma::start(Job& job, Engine& engine, Ps now) {
  const Ps overhead = ps_from_ns(params().dma.overhead_ns);
  ++engine.held;
  engine.port_free = now + overhead;
  job.issue = now;
  job.request_at = now + overhead + (job.way == kQueue ? 0 : mmu->overhead_ps());
  job.end = job.request_at;
  if (job.way != kQueue) {
    EngineAccount& a = account(job.way == kRead ? EngineKind::dma_read : EngineKind::dma_write);
    if (job.token != nullptr) {
      job.token->trail.push(now, Cause::engine);
      a.begin(now, *job.token, Cause::engine, job.way == kRead ? Cause::buffer : Cause::operands_gemm);
    } else {
      a.begin(now, Cause::engine);
      first_issue_ = std::min(first_issue_, now);
    }
  }
  if (job.bytes == 0 && job.way != kQueue) {
    ways_[job.way].ending.push_back(&job);
    return;
  }
  const auto later = [&](const Job* r) {
    if (r->request_at != job.request_at) return r->request_at > job.request_at;
    return r->way != job.way ? r->way > job.way : r->order > job.order;
  };
  requesting_.insert(std::find_if(requesting_.begin(), requesting_.end(), later), &job);
}

// BEGIN_REQ goes out early with the rest of the overhead as its annotated delay, one at a time: the request
// exclusion rule of the base protocol keeps the next one back until END_REQ.
void Dma::send_requests(Ps now) {
  while (request_ == nullptr && !requesting_.empty()) {
    Job& job = *requesting_.front();
    send(job, now);
    if (job.requested == job.bytes) requesting_.erase(std::find(requesting_.begin(), requesting_.end(), &job));
  }
}

void Dma::send(Job& job, Ps now) {
  const bool read = job.way == kRead;
  const std::uint64_t address = job.address + job.requested;
  const std::uint64_t left = std::min(job.bytes - job.requested, kMaxPieceBytes);
  const PhysicalRun run = job.way == kQueue ? PhysicalRun{address, left} : mmu->translate(address, left, name());

  if (open_pieces_ == pieces_.size()) pieces_.push_back(std::make_unique<Piece>());
  Piece& piece = *pieces_[open_pieces_++];
  piece.job = &job;
  piece.posted = job.way == kQueue;
  piece.trans = &pool().take(read ? tlm::TLM_READ_COMMAND : tlm::TLM_WRITE_COMMAND, run.address, run.bytes);
  piece.serial = ++serial_;
  TransferExtension& ext = PayloadPool::extension(*piece.trans);
  ext.lane = env().id.pe;
  ext.issuer = env().rank;
  ext.vc = job.way == kQueue ? VirtualChannel::ipcq : VirtualChannel::compute;
  ext.serial = piece.serial;
  ext.timing_only = true;
  if (read) ext.listener = this;
  if (job.way == kQueue) ext.departure = this;

  const Ps at = std::max({now, job.request_at, request_free_});
  job.requested += run.bytes;
  ++job.open_pieces;

  tlm::tlm_generic_payload& trans = *piece.trans;
  tlm::tlm_phase phase = tlm::BEGIN_REQ;
  sc_core::sc_time delay = delay_until(at, now);
  request_ = &trans;
  const auto answer = socket->nb_transport_fw(trans, phase, delay);
  const Ps answered = after(delay);
  if (answer == tlm::TLM_ACCEPTED) return;
  if (answer == tlm::TLM_UPDATED && phase != tlm::END_REQ && phase != tlm::BEGIN_RESP) return;
  request_ = nullptr;
  request_free_ = answered;
  if (answer == tlm::TLM_UPDATED && phase == tlm::END_REQ) return;
  if (answer == tlm::TLM_UPDATED) {  // BEGIN_RESP on the return path is ended by a call
    phase = tlm::END_RESP;
    sc_core::sc_time end_delay = delay;
    socket->nb_transport_fw(trans, phase, end_delay);
  }
  const Ps due = answered_at(trans, answered);
  answers_.append({Answer::Kind::responded, &trans, piece.serial}, due);
  wake_at(std::max(due, now), now);
}

Dma::Piece* Dma::piece_of(const Answer& answer) {
  for (std::size_t i = 0; i < open_pieces_; ++i)
    if (pieces_[i]->trans == answer.trans && pieces_[i]->serial == answer.serial) return pieces_[i].get();
  return nullptr;
}

void Dma::take(const Answer& answer, Ps at) {
  if (answer.kind == Answer::Kind::request_taken) {
    if (request_ != answer.trans) return;
    request_ = nullptr;
    request_free_ = at;
    return;
  }
  Piece* piece = piece_of(answer);
  if (piece == nullptr) return;
  if (answer.kind == Answer::Kind::left) {
    piece_done(*piece, at);
    return;
  }
  const tlm::tlm_generic_payload& trans = *answer.trans;
  if (answer.kind == Answer::Kind::responded) {
    if (trans.is_response_error()) refuse(*piece);
    const TransferExtension& ext = PayloadPool::extension(*piece->trans);
    if (trans.is_read() && !ext.train.empty() && !ext.complete) return;  // its tail will be told
  }
  ended(*piece, at);
}

void Dma::refuse(const Piece& piece) const {
  const tlm::tlm_generic_payload& trans = *piece.trans;
  const std::uint64_t address = trans.get_address();
  std::string message = std::string(name()) + ": " + (trans.is_read() ? "read" : "write") + " of " +
                        std::to_string(trans.get_data_length()) + " bytes at address " + std::to_string(address) +
                        ": found " + trans.get_response_string();
  if (env().addresses != nullptr) message += "; " + env().addresses->describe(address);
  throw ModelError(message);
}

void Dma::piece_done(Piece& piece, Ps at) {
  Job* job = piece.job;
  if (job == nullptr) return;
  piece.job = nullptr;
  const TransferExtension& ext = PayloadPool::extension(*piece.trans);
  job->path = std::max(job->path, ext.path_ps != 0 ? ext.path_ps : at - job->request_at);
  job->turnaround = std::max(job->turnaround, ext.turnaround_ps);
  job->end = std::max(job->end, at);
  if (--job->open_pieces == 0 && job->requested == job->bytes) ways_[job->way].ending.push_back(job);
}

void Dma::ended(Piece& piece, Ps at) {
  if (piece.posted) {
    const TransferExtension& ext = PayloadPool::extension(*piece.trans);
    counters().serial_ps += ext.path_ps + ext.turnaround_ps;
  }
  piece_done(piece, at);
  piece.trans->release();
  piece.trans = nullptr;
  for (std::size_t i = 0; i < open_pieces_; ++i)
    if (pieces_[i].get() == &piece) {
      std::swap(pieces_[i], pieces_[--open_pieces_]);
      break;
    }
}

void Dma::end_jobs(Way& way, Ps now) {
  if (way.ending.empty()) return;
  std::sort(way.ending.begin(), way.ending.end(),
            [](const Job* x, const Job* y) { return x->end != y->end ? x->end < y->end : x->order < y->order; });
  std::size_t done = 0;
  while (done < way.ending.size() && way.ending[done]->end <= now) ++done;
  for (std::size_t i = 0; i < done; ++i) end(*way.ending[i], now);
  way.ending.erase(way.ending.begin(), way.ending.begin() + static_cast<std::ptrdiff_t>(done));
}

void Dma::close(Stream& stream) {
  if (stream.serial == 0) return;
  ++counters().streams;
  counters().stream_bytes += stream.bytes;
  counters().stream_ps += stream.last - stream.first;
  stream = Stream{};
}

void Dma::close_streams() {
  for (Stream& stream : streams_) close(stream);
}

void Dma::end(Job& job, Ps now) {
  --ways_[job.way].engines[job.engine].held;
  if (job.way == kQueue) {
    counters().serial_ps += job.request_at - job.issue;
    SlotTransferPhase phase = SlotTransferPhase::left;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    SlotTransfer& slot = *job.slot;
    jobs_.give(&job);
    slots->nb_transport_bw(slot, phase, delay);
    return;
  }
  const bool read = job.way == kRead;
  account(read ? EngineKind::dma_read : EngineKind::dma_write).finish(job.end);
  ++(read ? counters().dma_reads : counters().dma_writes);
  (read ? counters().dma_read_bytes : counters().dma_write_bytes) += job.bytes;
  const Ps path = job.request_at - job.issue + job.path;
  counters().serial_ps += path + job.turnaround;
  if (read && job.token != nullptr && job.token->in_loop) {
    const CommandContext& command = *job.token->context;
    if (streams_.size() <= command.slot) streams_.resize(command.slot + 1);
    Stream& stream = streams_[command.slot];
    if (stream.serial != command.serial) {
      close(stream);
      stream = {command.serial, 0, job.issue, job.end};
    }
    stream.bytes += job.bytes;
    stream.first = std::min(stream.first, job.issue);
    stream.last = std::max(stream.last, job.end);
  }
  if (records()) {
    const OpName name = read ? OpName::dma_read : OpName::dma_write;
    OpRecord r = job.token != nullptr ? records().of(*job.token, OpKind::memory, name, job.from, job.issue, job.end)
                                      : records().blank(OpKind::memory, name, job.issue, job.end);
    r.t_ready = job.from;
    r.address = job.address;
    r.bytes = job.bytes;
    r.path_ps = path;
    records().emit(std::move(r));
  }

  TileToken* token = job.token;
  const Ps place = job.place;
  const Direction way = job.way;
  if (token == nullptr) {
    last_end_ = std::max(last_end_, job.end);
    if (env().activity != nullptr) env().activity->end();
    if (--direct_left_ == 0) direct_done_.notify(sc_core::SC_ZERO_TIME);
  }
  jobs_.give(&job);
  if (token == nullptr) return;
  token->trail.push(now, Cause::operands_dma);
  if (!read && token->in_loop) {
    Signal free;
    free.kind = Signal::Kind::staging_free;
    free.slot = token->context->slot;
    raise(Box::fetch_store, free, now, now);
  }
  if (pass_on(*token, now, now)) {
    Job& next = job_of(*token, place);
    if (next.way != way) next.place = now;
    next.from = now;
    wait_in(ways_[next.way], next);
  }
}

}  // namespace kb
