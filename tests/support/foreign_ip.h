// IP that knows nothing of this library: a four-phase AT memory and a blocking initiator, for tests of open ends.
#pragma once

#include <kb/tlm_if/units.h>

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <systemc>
#include <tlm>
#include <vector>

namespace kb::test {

/// How the memory answers BEGIN_REQ.
enum class AnswerStyle {
  four_phase,        // ACCEPTED, END_REQ later, BEGIN_RESP later, waits for END_RESP
  early_response,    // ACCEPTED, BEGIN_RESP without END_REQ
  updated_request,   // UPDATED with END_REQ, BEGIN_RESP later
  updated_response,  // UPDATED with BEGIN_RESP and the latency annotated
  completed,         // COMPLETED with the latency annotated
};

class ForeignMemory : public sc_core::sc_module, public tlm::tlm_fw_transport_if<> {
 public:
  tlm::tlm_target_socket<> socket{"socket"};
  AnswerStyle style = AnswerStyle::four_phase;
  Ps accept_ps = 0;                    // END_REQ after BEGIN_REQ
  Ps latency_ps = 8'000;               // BEGIN_RESP after BEGIN_REQ
  std::function<void()> each_request;  // called before a request is answered: may change the three above
  std::vector<unsigned char> bytes;
  std::vector<std::string> faults;  // of the initiator's protocol
  int served = 0;
  int most_in_request_phase = 0;

  ForeignMemory(const sc_core::sc_module_name& name, std::size_t size) : sc_core::sc_module(name), bytes(size, 0) {
    socket.bind(*this);
    SC_HAS_PROCESS(ForeignMemory);
    SC_METHOD(step);
    sensitive << wake_;
    dont_initialize();
  }

  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& trans, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override {
    if (phase == tlm::END_RESP) {
      if (responding_ != &trans) faults.push_back("END_RESP without BEGIN_RESP");
      end_response(trans);
      return tlm::TLM_COMPLETED;
    }
    if (phase != tlm::BEGIN_REQ) {
      faults.push_back("phase");
      return tlm::TLM_ACCEPTED;
    }
    if (in_request_) faults.push_back("BEGIN_REQ during the request phase of another transaction");
    if (!trans.has_mm()) faults.push_back("no memory manager");
    if (trans.get_response_status() != tlm::TLM_INCOMPLETE_RESPONSE)
      faults.push_back("response status not initialised");
    if (each_request) each_request();
    const Ps at = now_ps() + to_ps(delay);
    switch (style) {
      case AnswerStyle::completed:
        serve(trans);
        delay += to_sc_time(latency_ps);
        return tlm::TLM_COMPLETED;
      case AnswerStyle::updated_response:
        serve(trans);
        trans.acquire();
        responding_ = &trans;
        phase = tlm::BEGIN_RESP;
        delay += to_sc_time(latency_ps);
        return tlm::TLM_UPDATED;
      case AnswerStyle::updated_request:
        trans.acquire();
        add(at + latency_ps, trans, tlm::BEGIN_RESP);
        phase = tlm::END_REQ;
        return tlm::TLM_UPDATED;
      case AnswerStyle::early_response:
      case AnswerStyle::four_phase: break;
    }
    trans.acquire();
    in_request_ = true;
    request_ = &trans;
    if (style == AnswerStyle::four_phase) add(at + accept_ps, trans, tlm::END_REQ);
    add(at + latency_ps, trans, tlm::BEGIN_RESP);
    return tlm::TLM_ACCEPTED;
  }
  void b_transport(tlm::tlm_generic_payload& trans, sc_core::sc_time& delay) override {
    serve(trans);
    delay += to_sc_time(latency_ps);
  }
  unsigned transport_dbg(tlm::tlm_generic_payload& trans) override {
    if (trans.get_address() + trans.get_data_length() > bytes.size()) return 0;
    move(trans);
    return trans.get_data_length();
  }
  bool get_direct_mem_ptr(tlm::tlm_generic_payload&, tlm::tlm_dmi& dmi) override {
    dmi.set_dmi_ptr(bytes.data());
    dmi.set_start_address(0);
    dmi.set_end_address(bytes.size() - 1);
    dmi.allow_read_write();
    return true;
  }

 private:
  struct Step {
    tlm::tlm_generic_payload* trans;
    tlm::tlm_phase_enum phase;
  };
  void add(Ps at, tlm::tlm_generic_payload& trans, tlm::tlm_phase_enum phase) {
    steps_.emplace(at, Step{&trans, phase});
    wake_.notify(to_sc_time(at - now_ps()));
  }
  void step() {
    while (!steps_.empty() && steps_.begin()->first <= now_ps()) {
      const Step s = steps_.begin()->second;
      if (s.phase == tlm::BEGIN_RESP && responding_ != nullptr) break;  // END_RESP comes back here
      steps_.erase(steps_.begin());
      if (request_ == s.trans) in_request_ = false;
      tlm::tlm_phase phase = s.phase;
      sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
      if (s.phase == tlm::BEGIN_RESP) {
        serve(*s.trans);
        responding_ = s.trans;
      }
      const auto answer = socket->nb_transport_bw(*s.trans, phase, delay);
      if (s.phase == tlm::BEGIN_RESP &&
          (answer == tlm::TLM_COMPLETED || (answer == tlm::TLM_UPDATED && phase == tlm::END_RESP)))
        end_response(*s.trans);
    }
    if (!steps_.empty() && responding_ == nullptr)
      wake_.notify(to_sc_time(std::max<Ps>(0, steps_.begin()->first - now_ps())));
  }
  void end_response(tlm::tlm_generic_payload& trans) {
    responding_ = nullptr;
    trans.release();
    if (!steps_.empty()) wake_.notify(sc_core::SC_ZERO_TIME);
  }
  void serve(tlm::tlm_generic_payload& trans) {
    ++served;
    if (trans.get_address() + trans.get_data_length() > bytes.size()) {
      trans.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
      return;
    }
    move(trans);
    trans.set_response_status(tlm::TLM_OK_RESPONSE);
  }
  void move(tlm::tlm_generic_payload& trans) {
    const unsigned char* enables = trans.get_byte_enable_ptr();
    const unsigned period = trans.get_byte_enable_length();
    for (unsigned i = 0; i < trans.get_data_length(); ++i) {
      if (enables != nullptr && enables[i % period] != TLM_BYTE_ENABLED) continue;
      unsigned char& here = bytes[trans.get_address() + i];
      if (trans.is_read()) trans.get_data_ptr()[i] = here;
      if (trans.is_write()) here = trans.get_data_ptr()[i];
    }
  }

  std::multimap<Ps, Step> steps_;  // stable for equal times
  bool in_request_ = false;
  tlm::tlm_generic_payload* request_ = nullptr;
  tlm::tlm_generic_payload* responding_ = nullptr;
  sc_core::sc_event wake_;
};

/// Runs `body` in a thread; payloads without a memory manager go over b().
class ForeignInitiator : public sc_core::sc_module, public tlm::tlm_bw_transport_if<>, public tlm::tlm_mm_interface {
 public:
  tlm::tlm_initiator_socket<> socket{"socket"};
  std::function<void(ForeignInitiator&)> body;
  Ps hold_response_ps = 0;  // 0: early completion; else END_RESP that much later
  std::vector<std::pair<tlm::tlm_generic_payload*, Ps>> responses;  // BEGIN_RESP in order, with its time
  std::vector<std::string> faults;
  int invalidations = 0;
  bool finished = false;

  explicit ForeignInitiator(const sc_core::sc_module_name& name) : sc_core::sc_module(name) {
    socket.bind(*this);
    SC_HAS_PROCESS(ForeignInitiator);
    SC_THREAD(run);
    SC_METHOD(end_response);
    sensitive << end_;
    dont_initialize();
  }

  /// One blocking transaction; returns its duration.
  Ps b(tlm::tlm_command command, std::uint64_t address, void* data, unsigned length,
       tlm::tlm_response_status* status = nullptr, Ps annotated = 0) {
    tlm::tlm_generic_payload trans;
    fill(trans, command, address, data, length);
    sc_core::sc_time delay = to_sc_time(annotated);
    const Ps start = now_ps();
    socket->b_transport(trans, delay);
    if (status != nullptr) *status = trans.get_response_status();
    return now_ps() + to_ps(delay) - start;
  }
  static void fill(tlm::tlm_generic_payload& trans, tlm::tlm_command command, std::uint64_t address, void* data,
                   unsigned length) {
    trans.set_command(command);
    trans.set_address(address);
    trans.set_data_ptr(static_cast<unsigned char*>(data));
    trans.set_data_length(length);
    trans.set_streaming_width(length);
    trans.set_byte_enable_ptr(nullptr);
    trans.set_dmi_allowed(false);
    trans.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
  }
  /// A payload that is reference counted by this module, and its BEGIN_REQ.
  tlm::tlm_generic_payload& nb(tlm::tlm_command command, std::uint64_t address, void* data, unsigned length,
                               tlm::tlm_sync_enum* answer = nullptr, Ps annotated = 0) {
    auto* trans = new tlm::tlm_generic_payload(this);
    trans->acquire();
    ++alive;
    fill(*trans, command, address, data, length);
    tlm::tlm_phase phase = tlm::BEGIN_REQ;
    sc_core::sc_time delay = to_sc_time(annotated);
    const auto a = socket->nb_transport_fw(*trans, phase, delay);
    if (answer != nullptr) *answer = a;
    return *trans;
  }
  void free(tlm::tlm_generic_payload* trans) override {
    --alive;
    delete trans;
  }
  int alive = 0;

  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& trans, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override {
    if (phase != tlm::BEGIN_RESP) return tlm::TLM_ACCEPTED;
    if (holding_ != nullptr) faults.push_back("BEGIN_RESP during the response phase of another transaction");
    responses.emplace_back(&trans, now_ps() + to_ps(delay));
    if (hold_response_ps == 0) {
      phase = tlm::END_RESP;
      return tlm::TLM_COMPLETED;
    }
    holding_ = &trans;
    end_.notify(delay + to_sc_time(hold_response_ps));
    return tlm::TLM_ACCEPTED;
  }
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override { ++invalidations; }

 private:
  void run() {
    if (body) body(*this);
    finished = true;
  }
  void end_response() {
    tlm::tlm_generic_payload* trans = holding_;
    holding_ = nullptr;
    tlm::tlm_phase phase = tlm::END_RESP;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    socket->nb_transport_fw(*trans, phase, delay);
  }
  tlm::tlm_generic_payload* holding_ = nullptr;
  sc_core::sc_event end_;
};

}  // namespace kb::test
