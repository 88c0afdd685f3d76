// The protocol monitor itself: silent about what the base protocol allows, one report for each thing that it does not.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "protocol_monitor.h"
#include "sc_fixture.h"

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

using namespace kb;
using namespace kb::test;

namespace {

DECLARE_EXTENDED_PHASE(own_phase);

using Trans = tlm::tlm_generic_payload;
using Answer = std::function<tlm::tlm_sync_enum(Trans&, tlm::tlm_phase&, sc_core::sc_time&)>;

struct Ends : sc_core::sc_module {
  tlm::tlm_initiator_socket<> initiator{"initiator"};
  tlm::tlm_target_socket<> target{"target"};
  explicit Ends(const sc_core::sc_module_name& name) : sc_module(name) {
    SC_HAS_PROCESS(Ends);
    SC_METHOD(start);  // without any process sc_start warns
  }
  void start() {}
};

/// An initiator and a target that do as they are told, right or wrong, with the monitor between them.
class Puppets : public FreshContext,
                public tlm::tlm_fw_transport_if<>,
                public tlm::tlm_bw_transport_if<>,
                public tlm::tlm_mm_interface {
 public:
  Ends ends{"ends"};
  tlm::tlm_initiator_socket<>& initiator = ends.initiator;
  tlm::tlm_target_socket<>& target = ends.target;
  ProtocolMonitor monitor{"monitor"};
  // What the target says to a forward call, and the initiator to a backward call.
  Answer fw = [](Trans&, tlm::tlm_phase&, sc_core::sc_time&) { return tlm::TLM_ACCEPTED; };
  Answer bw = fw;
  std::function<void(Trans&, sc_core::sc_time&)> blocking = [](Trans& t, sc_core::sc_time&) { answer(t); };
  std::function<unsigned(Trans&)> debug = [](Trans& t) { return t.get_data_length(); };
  std::function<bool(Trans&, tlm::tlm_dmi&)> direct = [](Trans&, tlm::tlm_dmi&) { return false; };

  Puppets() {
    initiator.bind(static_cast<tlm::tlm_bw_transport_if<>&>(*this));
    target.bind(static_cast<tlm::tlm_fw_transport_if<>&>(*this));
    initiator.bind(monitor.in);
    monitor.out.bind(target);
    sc_core::sc_start(sc_core::SC_ZERO_TIME);
  }

  static void answer(Trans& t) { t.set_response_status(tlm::TLM_OK_RESPONSE); }
  /// A read that the initiator holds a reference to.
  Trans& payload() {
    all_.push_back(std::make_unique<Trans>(this));
    Trans& t = *all_.back();
    t.acquire();
    t.set_command(tlm::TLM_READ_COMMAND);
    t.set_address(0x100);
    t.set_data_ptr(data_.data());
    t.set_data_length(8);
    t.set_streaming_width(8);
    return t;
  }
  tlm::tlm_sync_enum forward(Trans& t, tlm::tlm_phase phase, Ps delay = 0) {
    sc_core::sc_time time = to_sc_time(delay);
    return initiator->nb_transport_fw(t, phase, time);
  }
  tlm::tlm_sync_enum backward(Trans& t, tlm::tlm_phase phase, Ps delay = 0) {
    sc_core::sc_time time = to_sc_time(delay);
    return target->nb_transport_bw(t, phase, time);
  }
  /// Up to the response, which the initiator still holds.
  Trans& responding() {
    Trans& t = payload();
    forward(t, tlm::BEGIN_REQ);
    backward(t, tlm::END_REQ);
    answer(t);
    backward(t, tlm::BEGIN_RESP);
    return t;
  }
  /// Exactly one report, of this rule and with these words.
  void expect(const std::string& what) {
    BOOST_REQUIRE_MESSAGE(monitor.violations == 1, monitor.violations << " reports");
    BOOST_TEST_INFO(monitor.reports[0]);
    BOOST_TEST(monitor.reports[0].find(": " + what) != std::string::npos);
  }

  std::vector<unsigned char> data_ = std::vector<unsigned char>(64);

 private:
  tlm::tlm_sync_enum nb_transport_fw(Trans& t, tlm::tlm_phase& p, sc_core::sc_time& d) override { return fw(t, p, d); }
  tlm::tlm_sync_enum nb_transport_bw(Trans& t, tlm::tlm_phase& p, sc_core::sc_time& d) override { return bw(t, p, d); }
  void b_transport(Trans& t, sc_core::sc_time& d) override { blocking(t, d); }
  unsigned transport_dbg(Trans& t) override { return debug(t); }
  bool get_direct_mem_ptr(Trans& t, tlm::tlm_dmi& dmi) override { return direct(t, dmi); }
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}
  void free(Trans* t) override { t->reset(); }
  std::vector<std::unique_ptr<Trans>> all_;
};

/// Answers a call with TLM_UPDATED and this phase.
Answer updated(tlm::tlm_phase_enum phase, Ps more = 0) {
  return [phase, more](Trans&, tlm::tlm_phase& p, sc_core::sc_time& d) {
    p = phase;
    d += to_sc_time(more);
    return tlm::TLM_UPDATED;
  };
}
Answer says(tlm::tlm_sync_enum answer) {
  return [answer](Trans&, tlm::tlm_phase&, sc_core::sc_time&) { return answer; };
}

}  // namespace

BOOST_AUTO_TEST_SUITE(monitor)

BOOST_FIXTURE_TEST_CASE(silent_about_every_way_that_is_allowed, Puppets) {
  // Four phases, and all of them at once for the next transaction.
  Trans& a = responding();
  Trans& b = payload();
  forward(b, tlm::BEGIN_REQ);
  forward(a, tlm::END_RESP);
  a.release();
  // BEGIN_RESP in place of END_REQ, ended on the return path.
  answer(b);
  bw = updated(tlm::END_RESP, 5);
  backward(b, tlm::BEGIN_RESP, 10);
  b.release();
  bw = says(tlm::TLM_COMPLETED);
  fw = updated(tlm::END_REQ, 3);
  Trans& c = payload();
  forward(c, tlm::BEGIN_REQ, 20);
  answer(c);
  backward(c, tlm::BEGIN_RESP, 23);
  c.release();
  fw = [](Trans& t, tlm::tlm_phase& phase, sc_core::sc_time&) {
    if (phase == tlm::END_RESP) return tlm::TLM_COMPLETED;
    answer(t);
    phase = tlm::BEGIN_RESP;
    return tlm::TLM_UPDATED;
  };
  Trans& d = payload();
  forward(d, tlm::BEGIN_REQ, 30);
  forward(d, tlm::END_RESP, 30);
  d.release();
  fw = [](Trans& t, tlm::tlm_phase&, sc_core::sc_time&) {
    answer(t);
    return tlm::TLM_COMPLETED;
  };
  Trans& e = payload();
  forward(e, tlm::BEGIN_REQ, 40);
  e.release();
  // A payload without a memory manager is for b_transport, and an ignorable phase for nobody.
  Trans plain;
  plain.set_command(tlm::TLM_IGNORE_COMMAND);
  sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
  initiator->b_transport(plain, delay);
  fw = says(tlm::TLM_ACCEPTED);
  forward(payload(), own_phase);
  monitor.finish();
  BOOST_TEST(monitor.violations == 0u);
  BOOST_TEST(monitor.transactions == 6u);
}

// ---- phase order
BOOST_FIXTURE_TEST_CASE(begin_req_in_flight, Puppets) {
  Trans& t = payload();
  forward(t, tlm::BEGIN_REQ);
  backward(t, tlm::END_REQ);
  forward(t, tlm::BEGIN_REQ);
  expect("phase order: BEGIN_REQ of a transaction in flight");
}
BOOST_FIXTURE_TEST_CASE(end_req_twice, Puppets) {
  Trans& t = payload();
  forward(t, tlm::BEGIN_REQ);
  backward(t, tlm::END_REQ);
  backward(t, tlm::END_REQ);
  expect("phase order: END_REQ after");
}
BOOST_FIXTURE_TEST_CASE(begin_resp_twice, Puppets) {
  Trans& t = responding();
  backward(t, tlm::BEGIN_RESP);
  expect("phase order: a second BEGIN_RESP");
}
BOOST_FIXTURE_TEST_CASE(end_resp_before_begin_resp, Puppets) {
  Trans& t = payload();
  forward(t, tlm::BEGIN_REQ);
  forward(t, tlm::END_RESP);
  expect("phase order: END_RESP before");
}
BOOST_FIXTURE_TEST_CASE(end_resp_out_of_nothing, Puppets) {
  forward(payload(), tlm::END_RESP);
  expect("phase order: END_RESP of a transaction that is not in flight");
}
BOOST_FIXTURE_TEST_CASE(response_out_of_nothing, Puppets) {
  backward(payload(), tlm::BEGIN_RESP);
  expect("phase order: BEGIN_RESP of a transaction that is not in flight");
}
BOOST_FIXTURE_TEST_CASE(backward_phase_on_the_forward_path, Puppets) {
  forward(payload(), tlm::END_REQ);
  expect("phase order: END_REQ on the forward path");
}
BOOST_FIXTURE_TEST_CASE(forward_phase_on_the_backward_path, Puppets) {
  backward(payload(), tlm::END_RESP);
  expect("phase order: END_RESP on the backward path");
}
BOOST_FIXTURE_TEST_CASE(request_updated_to_end_resp, Puppets) {
  fw = updated(tlm::END_RESP);
  forward(payload(), tlm::BEGIN_REQ);
  expect("phase order: TLM_UPDATED with END_RESP");
}
BOOST_FIXTURE_TEST_CASE(response_updated_to_end_req, Puppets) {
  bw = updated(tlm::END_REQ);
  responding();
  expect("phase order: TLM_UPDATED with END_REQ");
}
BOOST_FIXTURE_TEST_CASE(end_req_completed, Puppets) {
  bw = says(tlm::TLM_COMPLETED);
  Trans& t = payload();
  forward(t, tlm::BEGIN_REQ);
  backward(t, tlm::END_REQ);
  expect("phase order: TLM_COMPLETED in answer to END_REQ");
}
BOOST_FIXTURE_TEST_CASE(end_resp_updated, Puppets) {
  Trans& t = responding();
  fw = updated(tlm::END_RESP);
  forward(t, tlm::END_RESP);
  expect("phase order: TLM_UPDATED in answer to END_RESP");
}
BOOST_FIXTURE_TEST_CASE(transaction_without_an_end, Puppets) {
  Trans& t = payload();
  forward(t, tlm::BEGIN_REQ);
  t.release();  // so that the payload is not reported as well
  monitor.finish();
  expect("phase order: 1 transactions without an end");
}

// ---- exclusion
BOOST_FIXTURE_TEST_CASE(two_requests_at_once, Puppets) {
  forward(payload(), tlm::BEGIN_REQ);
  forward(payload(), tlm::BEGIN_REQ);
  expect("exclusion: BEGIN_REQ during");
}
BOOST_FIXTURE_TEST_CASE(request_before_the_annotated_end, Puppets) {
  fw = updated(tlm::END_REQ, 100);
  forward(payload(), tlm::BEGIN_REQ);
  forward(payload(), tlm::BEGIN_REQ, 50);
  expect("exclusion: BEGIN_REQ before the annotated end");
}
BOOST_FIXTURE_TEST_CASE(two_responses_at_once, Puppets) {
  responding();
  responding();
  expect("exclusion: BEGIN_RESP during");
}
BOOST_FIXTURE_TEST_CASE(response_before_the_annotated_end, Puppets) {
  bw = [](Trans&, tlm::tlm_phase& phase, sc_core::sc_time& delay) {
    if (phase != tlm::BEGIN_RESP) return tlm::TLM_ACCEPTED;
    delay += to_sc_time(100);
    return tlm::TLM_COMPLETED;
  };
  responding();
  responding();
  expect("exclusion: BEGIN_RESP before the annotated end");
}

// ---- attributes
// An interconnect puts its own address in place for as long as a target has the request.
BOOST_FIXTURE_TEST_CASE(address_of_an_interconnect_at_the_end_of_the_request, Puppets) {
  Trans& t = payload();
  forward(t, tlm::BEGIN_REQ);
  t.set_address(0x104);
  backward(t, tlm::END_REQ);
  t.set_address(0x100);
  answer(t);
  backward(t, tlm::BEGIN_RESP);
  forward(t, tlm::END_RESP);
  t.release();
  BOOST_TEST(monitor.violations == 0u);
}
namespace {
const std::array<const char*, 6> kAttributes = {"command", "address",         "data",
                                                "length",  "streaming width", "byte enables"};
void change(Puppets& p, Trans& t, std::size_t which) {
  switch (which) {
    case 0: t.set_command(tlm::TLM_WRITE_COMMAND); break;
    case 1: t.set_address(0x104); break;
    case 2: t.set_data_ptr(p.data_.data() + 8); break;
    case 3: t.set_data_length(4); break;
    case 4: t.set_streaming_width(16); break;
    default: t.set_byte_enable_ptr(p.data_.data()); t.set_byte_enable_length(1);
  }
}
}  // namespace
BOOST_DATA_TEST_CASE(attribute_changed_in_flight, boost::unit_test::data::xrange(kAttributes.size()), which) {
  Puppets p;
  BOOST_TEST_INFO(kAttributes[which]);
  Trans& t = p.payload();
  p.forward(t, tlm::BEGIN_REQ);
  change(p, t, which);
  Puppets::answer(t);
  p.backward(t, tlm::BEGIN_RESP);
  p.expect("attributes: changed at BEGIN_RESP");
}
BOOST_FIXTURE_TEST_CASE(attribute_changed_by_b_transport, Puppets) {
  blocking = [](Trans& t, sc_core::sc_time&) {
    answer(t);
    t.set_address(0);
  };
  sc_core::sc_time delay;
  initiator->b_transport(payload(), delay);
  expect("attributes: changed by b_transport");
}
BOOST_FIXTURE_TEST_CASE(no_data, Puppets) {
  Trans& t = payload();
  t.set_data_ptr(nullptr);
  forward(t, tlm::BEGIN_REQ);
  expect("attributes: a request without data");
}
BOOST_FIXTURE_TEST_CASE(byte_enables_of_no_length, Puppets) {
  Trans& t = payload();
  t.set_byte_enable_ptr(data_.data());
  forward(t, tlm::BEGIN_REQ);
  expect("attributes: byte enables of length 0");
}

// ---- status
BOOST_FIXTURE_TEST_CASE(request_with_an_old_status, Puppets) {
  Trans& t = payload();
  answer(t);
  forward(t, tlm::BEGIN_REQ);
  expect("status: a request with the status");
}
BOOST_FIXTURE_TEST_CASE(request_with_a_dmi_hint, Puppets) {
  Trans& t = payload();
  t.set_dmi_allowed(true);
  forward(t, tlm::BEGIN_REQ);
  expect("status: a request with a DMI hint");
}
BOOST_FIXTURE_TEST_CASE(response_without_a_status, Puppets) {
  Trans& t = payload();
  forward(t, tlm::BEGIN_REQ);
  backward(t, tlm::BEGIN_RESP);
  expect("status: a response without a status");
}
BOOST_FIXTURE_TEST_CASE(status_changed_after_the_response, Puppets) {
  Trans& t = responding();
  t.set_response_status(tlm::TLM_GENERIC_ERROR_RESPONSE);
  forward(t, tlm::END_RESP);
  expect("status: changed after the response");
}
BOOST_FIXTURE_TEST_CASE(blocking_response_without_a_status, Puppets) {
  blocking = [](Trans&, sc_core::sc_time&) {};
  sc_core::sc_time delay;
  initiator->b_transport(payload(), delay);
  expect("status: a response without a status");
}

// ---- reference counts
BOOST_FIXTURE_TEST_CASE(nb_without_a_memory_manager, Puppets) {
  Trans plain;
  plain.set_command(tlm::TLM_IGNORE_COMMAND);
  forward(plain, tlm::BEGIN_REQ);
  expect("reference counts: BEGIN_REQ without a memory manager");
}
BOOST_FIXTURE_TEST_CASE(nb_without_a_reference, Puppets) {
  Trans& t = payload();
  t.release();
  t.set_command(tlm::TLM_IGNORE_COMMAND);
  forward(t, tlm::BEGIN_REQ);
  expect("reference counts: BEGIN_REQ without a reference");
}
BOOST_FIXTURE_TEST_CASE(payload_that_a_target_keeps, Puppets) {
  fw = [](Trans& t, tlm::tlm_phase& phase, sc_core::sc_time&) {
    if (phase == tlm::BEGIN_REQ) t.acquire();
    return tlm::TLM_ACCEPTED;
  };
  Trans& t = responding();
  forward(t, tlm::END_RESP);
  t.release();
  monitor.finish();
  expect("reference counts: 1 payloads that were not given back");
}
BOOST_FIXTURE_TEST_CASE(blocking_target_that_keeps_a_reference, Puppets) {
  blocking = [](Trans& t, sc_core::sc_time&) {
    answer(t);
    t.acquire();
  };
  sc_core::sc_time delay;
  initiator->b_transport(payload(), delay);
  expect("reference counts: changed by b_transport");
}

// ---- time
BOOST_FIXTURE_TEST_CASE(phase_before_the_one_that_it_follows, Puppets) {
  Trans& t = payload();
  forward(t, tlm::BEGIN_REQ, 100);
  backward(t, tlm::END_REQ, 50);
  expect("time: END_REQ before the phase that it follows");
}
BOOST_FIXTURE_TEST_CASE(result_before_the_call, Puppets) {
  fw = [](Trans& t, tlm::tlm_phase&, sc_core::sc_time& delay) {
    answer(t);
    delay = sc_core::SC_ZERO_TIME;
    return tlm::TLM_COMPLETED;
  };
  forward(payload(), tlm::BEGIN_REQ, 100);
  BOOST_TEST(monitor.violations >= 1u);
  BOOST_TEST(monitor.reports[0].find(": time: a result that is earlier than the call") != std::string::npos);
}
BOOST_FIXTURE_TEST_CASE(blocking_result_before_the_call, Puppets) {
  blocking = [](Trans& t, sc_core::sc_time& delay) {
    answer(t);
    delay = sc_core::SC_ZERO_TIME;
  };
  sc_core::sc_time delay = to_sc_time(100);
  initiator->b_transport(payload(), delay);
  expect("time: b_transport that ends before it began");
}

// ---- untimed
BOOST_FIXTURE_TEST_CASE(debug_access_of_more_than_was_asked, Puppets) {
  debug = [](Trans& t) { return t.get_data_length() + 1; };
  initiator->transport_dbg(payload());
  expect("debug: more bytes");
}
BOOST_FIXTURE_TEST_CASE(dmi_range_elsewhere, Puppets) {
  direct = [this](Trans&, tlm::tlm_dmi& dmi) {
    dmi.set_dmi_ptr(data_.data());
    dmi.set_start_address(0x200);
    dmi.set_end_address(0x2ff);
    return true;
  };
  tlm::tlm_dmi dmi;
  initiator->get_direct_mem_ptr(payload(), dmi);
  expect("DMI: a range that does not hold");
}
BOOST_FIXTURE_TEST_CASE(dmi_grant_of_nothing, Puppets) {
  direct = [](Trans&, tlm::tlm_dmi&) { return true; };
  tlm::tlm_dmi dmi;
  initiator->get_direct_mem_ptr(payload(), dmi);
  expect("DMI: a grant without a pointer");
}
BOOST_FIXTURE_TEST_CASE(dmi_invalidation_of_no_range, Puppets) {
  target->invalidate_direct_mem_ptr(8, 4);
  expect("DMI: an invalidation of no range");
}

BOOST_AUTO_TEST_SUITE_END()
