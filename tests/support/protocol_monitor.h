// A base-protocol monitor: passes everything through, changes nothing, and reports what breaks IEEE 1666.
#pragma once

#include <kb/modules/fabric/sockets.h>
#include <kb/tlm_if/units.h>

#include <cstdint>
#include <memory>
#include <string>
#include <systemc>
#include <tlm>
#include <unordered_map>
#include <vector>

namespace kb::test {

/// Payloads that passed a monitor and have not come back to their memory manager. Shared by the monitors that the
/// same payloads pass.
struct PayloadLedger {
  std::int64_t out = 0;
};

/// Sits between an initiator and a target: initiator.bind(monitor.in), monitor.out.bind(target).
///
/// What it checks, with "effective" for the time of a call plus its delay:
///   phase order       each phase on its path, once, in order; the return values that the base protocol allows
///   exclusion         one request and one response phase at a time, also by effective times
///   attributes        command, address, data, length, streaming width, byte enables as they were at the start;
///                     at END_REQ the address may be that of an interconnect, at the response it is put back
///   status            TLM_INCOMPLETE_RESPONSE and no DMI hint at the start, until the response; not any more then
///   reference counts  a memory manager and a reference on nb_transport; every payload is given back; b_transport
///                     leaves the count as it was
///   time              effective times of a transaction do not decrease, also from argument to result
/// and that debug transport and DMI answer within what was asked. Ignorable phases pass unseen.
class ProtocolMonitor : public sc_core::sc_module,
                        private tlm::tlm_fw_transport_if<>,
                        private tlm::tlm_bw_transport_if<> {
 public:
  BaseTargetSocket in{"in"};
  BaseInitiatorSocket out{"out"};
  std::vector<std::string> reports;  // the first few
  std::uint64_t violations = 0;
  std::uint64_t transactions = 0;  // completed, blocking and non-blocking
  std::uint64_t blocking = 0;

  explicit ProtocolMonitor(const sc_core::sc_module_name& name,
                           std::shared_ptr<PayloadLedger> ledger = std::make_shared<PayloadLedger>())
      : sc_core::sc_module(name), ledger_(std::move(ledger)) {
    in.bind(static_cast<tlm::tlm_fw_transport_if<>&>(*this));
    out.bind(static_cast<tlm::tlm_bw_transport_if<>&>(*this));
  }

  /// At the end of a simulation: nothing may be in flight, no payload outside of its pool.
  void finish() {
    if (!flights_.empty()) report("phase order", std::to_string(flights_.size()) + " transactions without an end");
    if (ledger_->out != 0)
      report("reference counts", std::to_string(ledger_->out) + " payloads that were not given back");
  }

 private:
  using Trans = tlm::tlm_generic_payload;
  enum class Stage : std::uint8_t { requesting, requested, responding };

  struct Attributes {
    explicit Attributes(const Trans& t)
        : command(t.get_command()),
          address(t.get_address()),
          data(t.get_data_ptr()),
          length(t.get_data_length()),
          width(t.get_streaming_width()),
          enables(t.get_byte_enable_ptr()),
          enable_length(t.get_byte_enable_length()) {}
    bool operator==(const Attributes& o) const {
      return command == o.command && address == o.address && data == o.data && length == o.length && width == o.width &&
             enables == o.enables && enable_length == o.enable_length;
    }
    tlm::tlm_command command;
    std::uint64_t address;
    const unsigned char* data;
    unsigned length;
    unsigned width;
    const unsigned char* enables;
    unsigned enable_length;
  };
  struct Flight {
    Attributes attributes;
    Stage stage = Stage::requesting;
    sc_core::sc_time last;  // effective time of its latest phase
    tlm::tlm_response_status status = tlm::TLM_INCOMPLETE_RESPONSE;
  };
  /// The phase that last had the channel, over effective times.
  struct Channel {
    const Trans* owner = nullptr;
    sc_core::sc_time begin, end;
  };

  /// Counts a payload for as long as it is outside of its memory manager: an extension that reset() takes away.
  struct Tag : tlm::tlm_extension<Tag> {
    explicit Tag(std::shared_ptr<PayloadLedger> l) : ledger(std::move(l)) { ++ledger->out; }
    ~Tag() override { --ledger->out; }
    tlm::tlm_extension_base* clone() const override { return nullptr; }
    void copy_from(const tlm::tlm_extension_base&) override {}
    std::shared_ptr<PayloadLedger> ledger;
  };

  void report(const char* rule, const std::string& what) {
    ++violations;
    if (reports.size() < 20)
      reports.push_back(std::string(name()) + " at " + sc_core::sc_time_stamp().to_string() + ": " + rule + ": " +
                        what);
  }
  static sc_core::sc_time effective(const sc_core::sc_time& delay) { return sc_core::sc_time_stamp() + delay; }

  void check_start(const Trans& t) {
    if (t.get_response_status() != tlm::TLM_INCOMPLETE_RESPONSE)
      report("status", "a request with the status " + t.get_response_string());
    if (t.is_dmi_allowed()) report("status", "a request with a DMI hint");
    if (t.get_data_ptr() == nullptr && t.get_data_length() != 0) report("attributes", "a request without data");
    if (t.get_byte_enable_ptr() != nullptr && t.get_byte_enable_length() == 0)
      report("attributes", "byte enables of length 0");
  }
  void check_attributes(const Flight& f, const Trans& t, const char* phase, bool address_too = true) {
    Attributes now(t);
    if (!address_too) now.address = f.attributes.address;
    if (!(now == f.attributes)) report("attributes", std::string("changed at ") + phase);
  }
  void advance(Flight& f, const sc_core::sc_time& at, const char* phase) {
    if (at < f.last) report("time", std::string(phase) + " before the phase that it follows");
    f.last = at;
  }
  void take(Channel& channel, const Trans& t, const sc_core::sc_time& at, const char* phase) {
    if (channel.owner != nullptr)
      report("exclusion", std::string(phase) + " during that of another transaction");
    else if (channel.begin <= at && at < channel.end)
      report("exclusion", std::string(phase) + " before the annotated end of that of another transaction");
    channel.owner = &t;
    channel.begin = channel.end = at;
  }
  void release(Channel& channel, const Trans& t, const sc_core::sc_time& at) {
    if (channel.owner != &t) return;
    channel.owner = nullptr;
    channel.end = at;
  }

  // ---- phases, whichever way they were said
  void begin_request(Trans& t, const sc_core::sc_time& at) {
    if (!t.has_mm() || t.get_ref_count() < 1)
      report("reference counts", t.has_mm() ? "BEGIN_REQ without a reference" : "BEGIN_REQ without a memory manager");
    else if (t.get_extension<Tag>() == nullptr)
      t.set_auto_extension(new Tag(ledger_));
    check_start(t);
    take(request_, t, at, "BEGIN_REQ");
    const auto [it, fresh] =
        flights_.insert({&t, Flight{Attributes(t), Stage::requesting, at, tlm::TLM_INCOMPLETE_RESPONSE}});
    if (!fresh) {
      report("phase order", "BEGIN_REQ of a transaction in flight");
      it->second = Flight{Attributes(t), Stage::requesting, at, tlm::TLM_INCOMPLETE_RESPONSE};
    }
  }
  void end_request(Flight& f, const Trans& t, const sc_core::sc_time& at) {
    if (f.stage != Stage::requesting) report("phase order", "END_REQ after the request phase");
    check_attributes(f, t, "END_REQ", false);
    advance(f, at, "END_REQ");
    f.stage = Stage::requested;
    release(request_, t, at);
  }
  void begin_response(Flight& f, const Trans& t, const sc_core::sc_time& at) {
    if (f.stage == Stage::responding) {
      report("phase order", "a second BEGIN_RESP");
      return;
    }
    check_attributes(f, t, "BEGIN_RESP");
    advance(f, at, "BEGIN_RESP");
    release(request_, t, at);
    take(response_, t, at, "BEGIN_RESP");
    f.stage = Stage::responding;
    f.status = t.get_response_status();
    if (f.status == tlm::TLM_INCOMPLETE_RESPONSE) report("status", "a response without a status");
  }
  void end_response(Flight& f, const Trans& t, const sc_core::sc_time& at, const char* how) {
    if (f.stage != Stage::responding) report("phase order", std::string(how) + " before the response phase");
    advance(f, at, how);
    release(request_, t, at);
    release(response_, t, at);
    flights_.erase(&t);
    ++transactions;
  }

  Flight* flight(const Trans& t, const tlm::tlm_phase& phase) {
    const auto it = flights_.find(&t);
    if (it != flights_.end()) return &it->second;
    report("phase order", std::string(phase.get_name()) + " of a transaction that is not in flight");
    return nullptr;
  }
  void check_delay(const sc_core::sc_time& given, const sc_core::sc_time& returned) {
    if (returned < given) report("time", "a result that is earlier than the call");
  }

  // ---- forward
  tlm::tlm_sync_enum nb_transport_fw(Trans& t, tlm::tlm_phase& phase, sc_core::sc_time& delay) override {
    const tlm::tlm_phase called = phase;
    const sc_core::sc_time given = delay;
    if (called == tlm::END_RESP) {
      if (Flight* f = flight(t, called)) {
        check_attributes(*f, t, "END_RESP");
        if (t.get_response_status() != f->status) report("status", "changed after the response");
        end_response(*f, t, effective(given), "END_RESP");
      }
      const auto answer = out->nb_transport_fw(t, phase, delay);
      if (answer == tlm::TLM_UPDATED) report("phase order", "TLM_UPDATED in answer to END_RESP");
      return answer;
    }
    if (called == tlm::END_REQ || called == tlm::BEGIN_RESP || called == tlm::UNINITIALIZED_PHASE) {
      report("phase order", std::string(called.get_name()) + " on the forward path");
      return out->nb_transport_fw(t, phase, delay);
    }
    if (called != tlm::BEGIN_REQ) return out->nb_transport_fw(t, phase, delay);

    begin_request(t, effective(given));
    const auto answer = out->nb_transport_fw(t, phase, delay);
    if (answer == tlm::TLM_ACCEPTED) return answer;
    // The target may have gone on to a later phase from within the call.
    Flight* f = flight(t, called);
    if (f == nullptr) return answer;
    check_delay(given, delay);
    const sc_core::sc_time at = effective(delay);
    if (answer == tlm::TLM_COMPLETED) {
      check_attributes(*f, t, "TLM_COMPLETED");
      if (t.get_response_status() == tlm::TLM_INCOMPLETE_RESPONSE) report("status", "a response without a status");
      f->stage = Stage::responding;
      end_response(*f, t, at, "TLM_COMPLETED");
    } else if (phase == tlm::END_REQ) {
      end_request(*f, t, at);
    } else if (phase == tlm::BEGIN_RESP) {
      begin_response(*f, t, at);
    } else {
      report("phase order", std::string("TLM_UPDATED with ") + phase.get_name() + " in answer to BEGIN_REQ");
    }
    return answer;
  }

  void b_transport(Trans& t, sc_core::sc_time& delay) override {
    const Attributes before(t);
    const sc_core::sc_time start = effective(delay);
    const int references = t.has_mm() ? t.get_ref_count() : 0;
    check_start(t);
    out->b_transport(t, delay);
    if (!(Attributes(t) == before)) report("attributes", "changed by b_transport");
    if (t.get_response_status() == tlm::TLM_INCOMPLETE_RESPONSE) report("status", "a response without a status");
    if (t.has_mm() && t.get_ref_count() != references) report("reference counts", "changed by b_transport");
    if (effective(delay) < start) report("time", "b_transport that ends before it began");
    ++transactions;
    ++blocking;
  }

  unsigned transport_dbg(Trans& t) override {
    const Attributes before(t);
    const sc_core::sc_time start = sc_core::sc_time_stamp();
    const unsigned done = out->transport_dbg(t);
    if (!(Attributes(t) == before)) report("attributes", "changed by transport_dbg");
    if (done > t.get_data_length()) report("debug", "more bytes than were asked for");
    if (sc_core::sc_time_stamp() != start) report("time", "debug transport that took time");
    return done;
  }

  bool get_direct_mem_ptr(Trans& t, tlm::tlm_dmi& dmi) override {
    const bool given = out->get_direct_mem_ptr(t, dmi);
    if (dmi.get_start_address() > t.get_address() || dmi.get_end_address() < t.get_address())
      report("DMI", "a range that does not hold the address that was asked for");
    if (given && dmi.get_dmi_ptr() == nullptr) report("DMI", "a grant without a pointer");
    return given;
  }

  // ---- backward
  tlm::tlm_sync_enum nb_transport_bw(Trans& t, tlm::tlm_phase& phase, sc_core::sc_time& delay) override {
    const tlm::tlm_phase called = phase;
    const sc_core::sc_time given = delay;
    if (called == tlm::BEGIN_REQ || called == tlm::END_RESP || called == tlm::UNINITIALIZED_PHASE) {
      report("phase order", std::string(called.get_name()) + " on the backward path");
      return in->nb_transport_bw(t, phase, delay);
    }
    if (called != tlm::END_REQ && called != tlm::BEGIN_RESP) return in->nb_transport_bw(t, phase, delay);

    Flight* f = flight(t, called);
    if (f != nullptr) {
      if (called == tlm::END_REQ)
        end_request(*f, t, effective(given));
      else
        begin_response(*f, t, effective(given));
    }
    const auto answer = in->nb_transport_bw(t, phase, delay);
    if (called == tlm::END_REQ) {
      if (answer == tlm::TLM_COMPLETED) report("phase order", "TLM_COMPLETED in answer to END_REQ");
      return answer;
    }
    if (answer == tlm::TLM_ACCEPTED || f == nullptr) return answer;
    if (answer == tlm::TLM_UPDATED && phase != tlm::END_RESP) {
      report("phase order", std::string("TLM_UPDATED with ") + phase.get_name() + " in answer to BEGIN_RESP");
      return answer;
    }
    check_delay(given, delay);
    // The initiator may have given its reference back: the payload is not looked at any more.
    if (const auto it = flights_.find(&t); it != flights_.end())
      end_response(it->second, t, effective(delay), "END_RESP");
    return answer;
  }

  void invalidate_direct_mem_ptr(sc_dt::uint64 first, sc_dt::uint64 last) override {
    if (first > last) report("DMI", "an invalidation of no range");
    if (in.get_base_port().size() != 0) in->invalidate_direct_mem_ptr(first, last);
  }

  std::shared_ptr<PayloadLedger> ledger_;
  std::unordered_map<const Trans*, Flight> flights_;  // looked up only
  Channel request_, response_;
};

}  // namespace kb::test
