// A base-protocol initiator that knows nothing of this library and does everything that the protocol lets it do, in a
// seeded random order, while it checks the data that comes back.
#pragma once

#include <kb/tlm_if/units.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <systemc>
#include <tlm>
#include <vector>

namespace kb::test {

/// Non-blocking transactions from `lanes` slots at a time, and, from a thread, blocking ones from one more slot. Each
/// slot owns `window` bytes at every target and remembers what lies there, so that each read is checked. Requests come
/// with random sizes, byte enables, annotated times and gaps; responses are ended in the call, with a later time or by
/// a call of their own that comes later.
class RandomInitiator : public sc_core::sc_module, private tlm::tlm_bw_transport_if<>, public tlm::tlm_mm_interface {
 public:
  static constexpr unsigned kWindow = 1024;
  struct Options {
    std::uint64_t seed = 1;
    std::uint64_t count = 0;     // of non-blocking transactions
    std::uint64_t blocking = 0;  // of blocking ones
    unsigned lanes = 4;
    Ps quantum = 0;  // how far the thread of the blocking ones runs ahead of simulated time between them
    Ps start = 0;    // nothing is done before
    std::vector<std::uint64_t> targets;  // one window of (lanes + 1) * kWindow bytes each
  };

  tlm::tlm_initiator_socket<> socket{"socket"};
  std::uint64_t done = 0;
  std::uint64_t wrong = 0;  // reads of other bytes than were written, error responses
  bool finished_blocking = false;

  SC_HAS_PROCESS(RandomInitiator);
  RandomInitiator(const sc_core::sc_module_name& name, Options options)
      : sc_core::sc_module(name), options_(std::move(options)), random_(options_.seed) {
    socket.bind(static_cast<tlm::tlm_bw_transport_if<>&>(*this));
    slots_.resize(options_.lanes + 1);
    for (unsigned i = 0; i < slots_.size(); ++i) {
      slots_[i].index = i;
      slots_[i].ready = options_.start;
      slots_[i].memory.assign(options_.targets.size() * kWindow, 0);
    }
    SC_METHOD(issue);
    sensitive << issue_;
    SC_METHOD(end_responses);
    sensitive << end_;
    dont_initialize();
    SC_THREAD(block);
  }
  std::uint64_t outstanding() const { return begun_ - done_nb_; }

  /// Bytes that do not lie where they were written, seen through debug transport.
  std::uint64_t misplaced() {
    std::uint64_t n = 0;
    for (const Slot& s : slots_)
      for (std::size_t target = 0; target < options_.targets.size(); ++target) {
        std::vector<unsigned char> there(kWindow);
        tlm::tlm_generic_payload t;
        t.set_command(tlm::TLM_READ_COMMAND);
        t.set_address(options_.targets[target] + s.index * kWindow);
        t.set_data_ptr(there.data());
        t.set_data_length(kWindow);
        t.set_streaming_width(kWindow);
        if (socket->transport_dbg(t) != kWindow) n += kWindow;
        for (unsigned i = 0; i < kWindow; ++i) n += there[i] != s.memory[target * kWindow + i];
      }
    return n;
  }

 private:
  struct Slot {
    unsigned index = 0;
    bool busy = false;
    tlm::tlm_generic_payload* trans = nullptr;
    std::vector<unsigned char> data, enables;
    std::vector<unsigned char> memory;  // this slot's bytes at each target
    std::size_t at = 0;                 // of the transaction in it
    Ps ready = 0;                       // the next one not before
  };

  unsigned pick(unsigned below) { return static_cast<unsigned>(random_() % below); }
  /// Below this many picoseconds, in steps of the simulation's time resolution: at 1 fs between picoseconds.
  sc_core::sc_time some_time(Ps below) { return sc_core::sc_time::from_value(random_() % to_sc_time(below).value()); }

  void fill(Slot& s, tlm::tlm_generic_payload& t) {
    const std::size_t target = pick(static_cast<unsigned>(options_.targets.size()));
    const unsigned length = 1 + (pick(4) == 0 ? pick(kWindow) : pick(64));
    const unsigned offset = pick(kWindow - length + 1);
    const bool write = pick(2) == 0;
    s.at = target * kWindow + offset;
    s.data.assign(length, 0xcc);
    if (write)
      for (auto& byte : s.data) byte = static_cast<unsigned char>(random_());
    s.enables.clear();
    if (pick(8) == 0) {
      s.enables.resize(1 + pick(8));
      for (auto& e : s.enables) e = pick(2) == 0 ? TLM_BYTE_ENABLED : TLM_BYTE_DISABLED;
    }
    t.set_command(write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND);
    t.set_address(options_.targets[target] + s.index * kWindow + offset);
    t.set_data_ptr(s.data.data());
    t.set_data_length(length);
    t.set_streaming_width(length);
    t.set_byte_enable_ptr(s.enables.empty() ? nullptr : s.enables.data());
    t.set_byte_enable_length(static_cast<unsigned>(s.enables.size()));
    t.set_dmi_allowed(false);
    t.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
  }

  /// At the response: reads have brought what was written last, writes are what lies there now.
  void check(Slot& s, const tlm::tlm_generic_payload& t) {
    ++done;
    bool good = t.is_response_ok();
    for (std::size_t i = 0; i < s.data.size(); ++i) {
      const bool enabled = s.enables.empty() || s.enables[i % s.enables.size()] == TLM_BYTE_ENABLED;
      if (t.is_write() && enabled) s.memory[s.at + i] = s.data[i];
      if (t.is_read()) good = good && s.data[i] == (enabled ? s.memory[s.at + i] : 0xcc);
    }
    if (!good) ++wrong;
  }

  void issue() {
    Ps next = kNever;
    for (unsigned i = 0; i < options_.lanes && begun_ < options_.count; ++i) {
      Slot& s = slots_[i];
      if (s.busy) continue;
      if (s.ready > now_ps()) {
        next = std::min(next, s.ready);
        continue;
      }
      if (in_request_ != nullptr) return;  // END_REQ comes back here
      s.busy = true;
      ++begun_;
      s.trans = &take();
      fill(s, *s.trans);
      s.trans->acquire();
      in_request_ = s.trans;
      tlm::tlm_phase phase = tlm::BEGIN_REQ;
      // Annotated times never run ahead of the request phase before.
      const sc_core::sc_time now = sc_core::sc_time_stamp();
      sc_core::sc_time delay = pick(3) == 0 ? some_time(4'000) : sc_core::SC_ZERO_TIME;
      if (now + delay < request_free_) delay = request_free_ - now;
      const auto answer = socket->nb_transport_fw(*s.trans, phase, delay);
      if (answer == tlm::TLM_ACCEPTED) continue;
      in_request_ = nullptr;
      request_free_ = now + delay;
      if (answer == tlm::TLM_UPDATED && phase == tlm::END_REQ) continue;
      if (answer == tlm::TLM_UPDATED) {
        phase = tlm::END_RESP;
        socket->nb_transport_fw(*s.trans, phase, delay);
      }
      complete(s);
    }
    if (next != kNever) issue_.notify(to_sc_time(next - now_ps()));
  }

  void complete(Slot& s) {
    check(s, *s.trans);
    ++done_nb_;
    s.busy = false;
    s.ready = now_ps() + (pick(4) == 0 ? pick(50'000) : pick(2'000));
    s.trans->release();
    issue_.notify(to_sc_time(s.ready - now_ps()));
  }

  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& trans, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override {
    if (in_request_ == &trans) {
      in_request_ = nullptr;
      request_free_ = sc_core::sc_time_stamp() + delay;
      issue_.notify(delay);
    }
    if (phase != tlm::BEGIN_RESP) return tlm::TLM_ACCEPTED;
    Slot& s = *std::find_if(slots_.begin(), slots_.end(), [&](const Slot& x) { return x.busy && x.trans == &trans; });
    switch (pick(4)) {
      case 0:
        ending_ = &s;
        end_.notify(delay + some_time(20'000));
        return tlm::TLM_ACCEPTED;
      case 1:
        phase = tlm::END_RESP;
        delay += some_time(5'000);
        complete(s);
        return tlm::TLM_UPDATED;
      default: complete(s); return tlm::TLM_COMPLETED;
    }
  }
  void end_responses() {
    Slot& s = *ending_;
    tlm::tlm_phase phase = tlm::END_RESP;
    sc_core::sc_time delay = pick(2) == 0 ? some_time(3'000) : sc_core::SC_ZERO_TIME;
    socket->nb_transport_fw(*s.trans, phase, delay);
    complete(s);
  }

  void block() {
    Slot& s = slots_.back();
    sc_core::wait(to_sc_time(options_.start));
    sc_core::sc_time ahead = sc_core::SC_ZERO_TIME;  // of this thread's local time
    for (std::uint64_t i = 0; i < options_.blocking; ++i) {
      tlm::tlm_generic_payload plain;  // without a memory manager
      fill(s, plain);
      sc_core::sc_time delay = ahead + (pick(3) == 0 ? some_time(100'000) : sc_core::SC_ZERO_TIME);
      socket->b_transport(plain, delay);
      check(s, plain);
      ahead = delay + some_time(3'000);
      if (ahead < to_sc_time(options_.quantum)) continue;
      sc_core::wait(ahead);
      ahead = sc_core::SC_ZERO_TIME;
    }
    finished_blocking = true;
  }

  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}
  /// A payload that nobody refers to any more.
  tlm::tlm_generic_payload& take() {
    if (free_.empty()) {
      owned_.push_back(std::make_unique<tlm::tlm_generic_payload>(this));
      free_.push_back(owned_.back().get());
    }
    tlm::tlm_generic_payload* t = free_.back();
    free_.pop_back();
    return *t;
  }
  void free(tlm::tlm_generic_payload* trans) override {
    trans->reset();
    free_.push_back(trans);
  }

  Options options_;
  std::mt19937_64 random_;
  std::vector<Slot> slots_;
  std::vector<std::unique_ptr<tlm::tlm_generic_payload>> owned_;
  std::vector<tlm::tlm_generic_payload*> free_;
  std::uint64_t begun_ = 0, done_nb_ = 0;
  const tlm::tlm_generic_payload* in_request_ = nullptr;
  sc_core::sc_time request_free_;
  Slot* ending_ = nullptr;
  sc_core::sc_event issue_, end_;
};

}  // namespace kb::test
