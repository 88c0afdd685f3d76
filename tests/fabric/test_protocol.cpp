// The base protocol at the fabric's sockets: every way to start and to answer a transaction, data, errors, DMI.
#include <boost/test/unit_test.hpp>

#include "fabric_bench.h"
#include "foreign_ip.h"
#include "sc_fixture.h"

using namespace kb;
using namespace kb::test;

namespace {

/// A tray whose PE 0 is a foreign initiator.
class ForeignTray : public sc_core::sc_module {
 public:
  explicit ForeignTray(const SystemConfig& config, FabricOptions options = {},
                       const sc_core::sc_module_name& name = "tray")
      : sc_core::sc_module(name) {
    options.make_pe = [this](const char* pe, const PeAttachment& at) -> std::unique_ptr<sc_core::sc_module> {
      auto i = std::make_unique<ForeignInitiator>(pe);
      i->socket.bind(*at.dma);
      if (at.rank == 0) initiator = i.get();
      return i;
    };
    fabric = std::make_unique<Fabric>(config, options);
  }
  ForeignInitiator* initiator = nullptr;
  std::unique_ptr<Fabric> fabric;
  std::uint64_t hbm(std::uint32_t cube, std::uint32_t slice, std::uint64_t offset = 0) const {
    return fabric->addresses().hbm(0, cube, slice, offset);
  }
  void run(std::function<void(ForeignInitiator&)> body) {
    initiator->body = std::move(body);
    sc_core::sc_start();
    BOOST_TEST(initiator->finished);
    BOOST_TEST(initiator->faults.empty());
    BOOST_TEST(initiator->alive == 0);
    fabric->check_conservation();
  }
};

std::vector<unsigned char> pattern(std::size_t n, unsigned char first) {
  std::vector<unsigned char> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<unsigned char>(first + i * 5);
  return v;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(fabric_protocol)

BOOST_FIXTURE_TEST_CASE(blocking_transactions_take_the_same_time_and_carry_data, FreshContext) {
  ForeignTray tray(machine("one_cube"));
  tray.run([&](ForeignInitiator& i) {
    auto out = pattern(16 * KiB, 1);
    std::vector<unsigned char> in(out.size());
    tlm::tlm_response_status status{};
    // 64 flits leave at 1..64, arrive one link later, the last is committed 8 ns after.
    BOOST_TEST(i.b(tlm::TLM_WRITE_COMMAND, tray.hbm(0, 0, 777), out.data(), 16 * KiB, &status) == 64'000 + 1'000 + 8'000);
    BOOST_TEST(status == tlm::TLM_OK_RESPONSE);
    sc_core::wait(1, sc_core::SC_US);
    BOOST_TEST(i.b(tlm::TLM_READ_COMMAND, tray.hbm(0, 0, 777), in.data(), 16 * KiB, &status) == 73'000);
    BOOST_TEST(in == out);
    // The delay that a caller is ahead by is realised: it changes nothing but where time is spent.
    sc_core::wait(1, sc_core::SC_US);
    BOOST_TEST(i.b(tlm::TLM_READ_COMMAND, tray.hbm(0, 0, 777), in.data(), 16 * KiB, &status, 500'000) == 573'000);
  });
}

BOOST_FIXTURE_TEST_CASE(non_blocking_without_extensions, FreshContext) {
  ForeignTray tray(machine("one_cube"));
  tray.run([&](ForeignInitiator& i) {
    auto out = pattern(1000, 9);
    std::vector<unsigned char> in(1000);
    tlm::tlm_sync_enum answer{};
    auto& w = i.nb(tlm::TLM_WRITE_COMMAND, tray.hbm(0, 1), out.data(), 1000, &answer);
    BOOST_TEST(answer == tlm::TLM_UPDATED);
    sc_core::wait(1, sc_core::SC_US);
    BOOST_REQUIRE(i.responses.size() == 1u);
    BOOST_TEST(w.is_response_ok());
    BOOST_TEST(w.get_address() == tray.hbm(0, 1));
    w.release();
    const Ps start = now_ps();
    auto& r = i.nb(tlm::TLM_READ_COMMAND, tray.hbm(0, 1), in.data(), 1000, &answer, 3'000);
    sc_core::wait(1, sc_core::SC_US);
    // First byte: request 30 ps, channel 8, HBM 1, mesh link 1 and 30 ps; the PE's link brings it then.
    BOOST_TEST(i.responses[1].second == start + 3'000 + 30 + 8'000 + 1'000 + 1'000 + 30);
    BOOST_TEST(in == out);
    r.release();
  });
}

BOOST_FIXTURE_TEST_CASE(payload_without_memory_manager_is_refused_on_nb, FreshContext) {
  ForeignTray tray(machine("one_cube"));
  tray.run([&](ForeignInitiator& i) {
    tlm::tlm_generic_payload trans;
    unsigned char data[32] = {};
    ForeignInitiator::fill(trans, tlm::TLM_READ_COMMAND, tray.hbm(0, 0), data, 32);
    tlm::tlm_phase phase = tlm::BEGIN_REQ;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    bool refused = false;
    try {
      i.socket->nb_transport_fw(trans, phase, delay);
    } catch (const ModelError& e) {
      refused = std::string(e.what()).find("memory manager") != std::string::npos &&
                std::string(e.what()).find("tray.sip0.cube0.pe0") != std::string::npos;
    }
    BOOST_TEST(refused);
  });
}

BOOST_FIXTURE_TEST_CASE(responses_wait_for_end_resp, FreshContext) {
  ForeignTray tray(machine("one_cube"));
  tray.run([&](ForeignInitiator& i) {
    i.hold_response_ps = 40'000;
    std::vector<unsigned char> in(4 * 512);
    std::vector<tlm::tlm_generic_payload*> all;
    for (unsigned k = 0; k < 4; ++k)
      all.push_back(&i.nb(tlm::TLM_READ_COMMAND, tray.hbm(0, k), in.data() + 512 * k, 512));
    sc_core::wait(1, sc_core::SC_US);
    BOOST_REQUIRE(i.responses.size() == 4u);
    for (std::size_t k = 0; k + 1 < 4; ++k) BOOST_TEST(i.responses[k + 1].second >= i.responses[k].second + 40'000);
    for (auto* t : all) {
      BOOST_TEST(t->is_response_ok());
      t->release();
    }
  });
}

BOOST_FIXTURE_TEST_CASE(address_errors_at_once, FreshContext) {
  ForeignTray tray(machine("one_cube"));
  tray.run([&](ForeignInitiator& i) {
    std::vector<unsigned char> d(512);
    const auto refused = [&](std::uint64_t address, unsigned length) {
      tlm::tlm_sync_enum answer{};
      auto& t = i.nb(tlm::TLM_READ_COMMAND, address, d.data(), length, &answer);
      const bool good = answer == tlm::TLM_COMPLETED && t.get_response_status() == tlm::TLM_ADDRESS_ERROR_RESPONSE;
      t.release();
      tlm::tlm_response_status status{};
      const Ps took = i.b(tlm::TLM_READ_COMMAND, address, d.data(), length, &status);
      return good && took == 0 && status == tlm::TLM_ADDRESS_ERROR_RESPONSE;
    };
    const std::uint64_t slice = 6ull << 30;
    BOOST_TEST(refused(tray.hbm(0, 0, slice - 256), 257));     // crosses the end of a slice
    BOOST_TEST(refused(tray.hbm(0, 7, slice), 32));            // beyond the last slice
    BOOST_TEST(refused(1ull << 42, 32));                       // no such cube
    BOOST_TEST(refused(3ull << 47, 32));                       // no such SIP
    BOOST_TEST(refused(tray.fabric->addresses().tcm(0, 0, 1), 32));  // a TCM that nothing is bound to
    tlm::tlm_response_status status{};
    i.b(tlm::TLM_READ_COMMAND, tray.hbm(0, 0, slice - 256), d.data(), 256, &status);
    BOOST_TEST(status == tlm::TLM_OK_RESPONSE);
  });
}

BOOST_FIXTURE_TEST_CASE(byte_enables_are_honoured_and_streaming_is_refused, FreshContext) {
  ForeignTray tray(machine("one_cube"));
  tray.run([&](ForeignInitiator& i) {
    auto out = pattern(64, 1);
    std::vector<unsigned char> in(64, 0xee);
    unsigned char every_other[2] = {0xff, 0x00};
    tlm::tlm_generic_payload t;
    ForeignInitiator::fill(t, tlm::TLM_WRITE_COMMAND, tray.hbm(0, 0), out.data(), 64);
    t.set_byte_enable_ptr(every_other);
    t.set_byte_enable_length(2);
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    i.socket->b_transport(t, delay);
    BOOST_TEST(t.is_response_ok());
    i.b(tlm::TLM_READ_COMMAND, tray.hbm(0, 0), in.data(), 64);
    for (std::size_t k = 0; k < 64; ++k) BOOST_TEST(in[k] == (k % 2 == 0 ? out[k] : 0));
    ForeignInitiator::fill(t, tlm::TLM_WRITE_COMMAND, tray.hbm(0, 0), out.data(), 64);
    t.set_streaming_width(16);
    i.socket->b_transport(t, delay);
    BOOST_TEST(t.get_response_status() == tlm::TLM_BURST_ERROR_RESPONSE);
    ForeignInitiator::fill(t, tlm::TLM_IGNORE_COMMAND, tray.hbm(0, 0), out.data(), 64);
    i.socket->b_transport(t, delay);
    BOOST_TEST(t.is_response_ok());
  });
}

BOOST_FIXTURE_TEST_CASE(attributes_that_make_no_sense_are_refused, FreshContext) {
  ForeignTray tray(machine("one_cube"));
  tray.run([&](ForeignInitiator& i) {
    unsigned char data[32] = {};
    const auto status = [&](auto&& spoil) {
      tlm::tlm_generic_payload t;
      ForeignInitiator::fill(t, tlm::TLM_READ_COMMAND, tray.hbm(0, 0), data, 32);
      spoil(t);
      sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
      i.socket->b_transport(t, delay);
      BOOST_TEST(now_ps() == 0);
      return t.get_response_status();
    };
    BOOST_TEST(status([](auto& t) { t.set_data_ptr(nullptr); }) == tlm::TLM_GENERIC_ERROR_RESPONSE);
    BOOST_TEST(status([](auto& t) { t.set_streaming_width(31); }) == tlm::TLM_BURST_ERROR_RESPONSE);
    BOOST_TEST(status([&](auto& t) { t.set_byte_enable_ptr(data); }) == tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE);
  });
}

namespace {
/// Whether the call throws a ModelError with these words.
template <typename Call>
bool broken(const std::string& words, Call&& call) {
  try {
    call();
  } catch (const ModelError& e) {
    return std::string(e.what()).find(words) != std::string::npos;
  }
  return false;
}
}  // namespace

BOOST_FIXTURE_TEST_CASE(phases_that_never_travel_forward_are_errors, FreshContext) {
  ForeignTray tray(machine("one_cube"));
  tray.run([&](ForeignInitiator& i) {
    unsigned char data[32] = {};
    auto& t = i.nb(tlm::TLM_READ_COMMAND, tray.hbm(0, 0), data, 32);
    for (const auto wrong : {tlm::END_REQ, tlm::BEGIN_RESP, tlm::UNINITIALIZED_PHASE}) {
      tlm::tlm_phase phase = wrong;
      sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
      BOOST_TEST(broken("tray.sip0.cube0.pe0: found phase", [&] { i.socket->nb_transport_fw(t, phase, delay); }));
    }
    sc_core::wait(1, sc_core::SC_US);
    BOOST_TEST(t.is_response_ok());
    t.release();
  });
}

namespace {
/// Says END_REQ and BEGIN_RESP twice.
class Stutterer : public sc_core::sc_module, tlm::tlm_fw_transport_if<> {
 public:
  tlm::tlm_target_socket<> socket{"socket"};
  int refused = 0;
  SC_HAS_PROCESS(Stutterer);
  explicit Stutterer(const sc_core::sc_module_name& name) : sc_module(name) {
    socket.bind(static_cast<tlm::tlm_fw_transport_if<>&>(*this));
    SC_THREAD(answer);
  }

 private:
  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& trans, tlm::tlm_phase&, sc_core::sc_time&) override {
    trans_ = &trans;
    trans.acquire();
    go_.notify(sc_core::SC_ZERO_TIME);
    return tlm::TLM_ACCEPTED;
  }
  void answer() {
    wait(go_);
    trans_->set_response_status(tlm::TLM_OK_RESPONSE);
    for (const auto phase : {tlm::END_REQ, tlm::END_REQ, tlm::END_RESP, tlm::BEGIN_RESP, tlm::BEGIN_RESP}) {
      tlm::tlm_phase p = phase;
      sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
      refused += broken("tray.sip0.cube0.hbm0: found", [&] { socket->nb_transport_bw(*trans_, p, delay); });
    }
    trans_->release();
  }
  void b_transport(tlm::tlm_generic_payload&, sc_core::sc_time&) override {}
  unsigned transport_dbg(tlm::tlm_generic_payload&) override { return 0; }
  bool get_direct_mem_ptr(tlm::tlm_generic_payload&, tlm::tlm_dmi& dmi) override {
    dmi.set_dmi_ptr(reinterpret_cast<unsigned char*>(this));  // all addresses there are, from 0 on
    dmi.allow_read_write();
    return true;
  }
  tlm::tlm_generic_payload* trans_ = nullptr;
  sc_core::sc_event go_;
};
}  // namespace

BOOST_FIXTURE_TEST_CASE(a_memory_that_repeats_a_phase_is_an_error, FreshContext) {
  ForeignTray tray(machine("one_cube", {{"open.hbm", "[tray.sip0.cube0.hbm0]"}}));
  Stutterer memory("memory");
  tray.fabric->open_hbm("tray.sip0.cube0.hbm0").bind(memory.socket);
  tray.run([&](ForeignInitiator& i) {
    unsigned char data[32] = {};
    auto& t = i.nb(tlm::TLM_READ_COMMAND, tray.hbm(0, 0), data, 32);
    sc_core::wait(1, sc_core::SC_US);
    BOOST_TEST(t.is_response_ok());
    t.release();
  });
  BOOST_TEST(memory.refused == 3);  // the second END_REQ, END_RESP on the way back, the second BEGIN_RESP
}

BOOST_FIXTURE_TEST_CASE(dmi_ranges_end_with_the_region, FreshContext) {
  FabricOptions options;
  options.dmi = true;
  ForeignTray tray(machine("one_cube", {{"open.hbm", "[tray.sip0.cube0.hbm1]"}}), options);
  Stutterer memory("memory");
  tray.fabric->open_hbm("tray.sip0.cube0.hbm1").bind(memory.socket);
  tray.run([&](ForeignInitiator& i) {
    tlm::tlm_generic_payload t;
    tlm::tlm_dmi region;
    ForeignInitiator::fill(t, tlm::TLM_READ_COMMAND, tray.hbm(0, 1, 4096), nullptr, 0);
    BOOST_TEST(i.socket->get_direct_mem_ptr(t, region));
    BOOST_TEST(region.get_start_address() == tray.hbm(0, 1));
    BOOST_TEST(region.get_end_address() == tray.hbm(0, 2) - 1);
    // Where nothing lies, that address alone is refused.
    region.init();
    t.set_address(std::uint64_t{1} << 46);
    BOOST_TEST(!i.socket->get_direct_mem_ptr(t, region));
    BOOST_TEST(region.get_start_address() == t.get_address());
    BOOST_TEST(region.get_end_address() == t.get_address());
  });
}

BOOST_FIXTURE_TEST_CASE(debug_transport_answers_in_every_mode, FreshContext) {
  for (const bool dmi : {false, true}) {
    FreshContext fresh;
    FabricOptions options;
    options.dmi = dmi;
    ForeignTray tray(machine("one_cube"), options);
    tray.run([&](ForeignInitiator& i) {
      auto out = pattern(200'000, 3);
      std::vector<unsigned char> in(out.size());
      tlm::tlm_generic_payload t;
      ForeignInitiator::fill(t, tlm::TLM_WRITE_COMMAND, tray.hbm(0, 3, 99), out.data(), 200'000);
      BOOST_TEST(i.socket->transport_dbg(t) == 200'000u);
      ForeignInitiator::fill(t, tlm::TLM_READ_COMMAND, tray.hbm(0, 3, 99), in.data(), 200'000);
      BOOST_TEST(tray.fabric->transport_dbg(t) == 200'000u);
      BOOST_TEST(in == out);
      // Up to the end of the region, and nothing where nothing is.
      ForeignInitiator::fill(t, tlm::TLM_READ_COMMAND, tray.hbm(0, 3, (6ull << 30) - 10), in.data(), 64);
      BOOST_TEST(i.socket->transport_dbg(t) == 10u);
      BOOST_TEST(t.get_data_length() == 64u);
      ForeignInitiator::fill(t, tlm::TLM_READ_COMMAND, 1ull << 46, in.data(), 64);
      BOOST_TEST(i.socket->transport_dbg(t) == 0u);
      BOOST_TEST(now_ps() == 0);
    });
  }
}

BOOST_FIXTURE_TEST_CASE(dmi_only_outside_of_timing_and_taken_back_at_launches, FreshContext) {
  for (const bool dmi : {false, true}) {
    FreshContext fresh;
    FabricOptions options;
    options.dmi = dmi;
    ForeignTray tray(machine("one_cube"), options);
    tray.run([&](ForeignInitiator& i) {
      tlm::tlm_generic_payload t;
      unsigned char byte = 0x5a;
      ForeignInitiator::fill(t, tlm::TLM_READ_COMMAND, tray.hbm(0, 5, 1'000'000), &byte, 1);
      tlm::tlm_dmi region;
      const bool given = i.socket->get_direct_mem_ptr(t, region);
      BOOST_TEST(given == dmi);
      if (!given) return;
      BOOST_TEST(region.get_start_address() <= tray.hbm(0, 5, 1'000'000));
      BOOST_TEST(region.get_end_address() >= tray.hbm(0, 5, 1'000'000));
      region.get_dmi_ptr()[tray.hbm(0, 5, 1'000'000) - region.get_start_address()] = byte;
      unsigned char back = 0;
      i.b(tlm::TLM_READ_COMMAND, tray.hbm(0, 5, 1'000'000), &back, 1);
      BOOST_TEST(back == byte);
      tray.fabric->invalidate_dmi();
      BOOST_TEST(i.invalidations == 1);
      tray.fabric->invalidate_dmi();
      BOOST_TEST(i.invalidations == 1);  // nothing is out any more
    });
  }
}

// Transfers that only take time leave memory alone, built-in and foreign.
BOOST_FIXTURE_TEST_CASE(timing_only_transfers_do_not_touch_data, FreshContext) {
  TrafficTray tray(machine("one_cube", {{"open.hbm", "[tray.sip0.cube0.hbm2]"}}));
  ForeignMemory memory("memory", 1 << 20);
  tray.fabric->open_hbm("tray.sip0.cube0.hbm2").bind(memory.socket);
  const auto filled = pattern(8192, 1);
  std::copy(filled.begin(), filled.end(), memory.bytes.begin());
  tray.write(0, tray.hbm(0, 0, 2), 8192);
  tray.read(1, tray.hbm(0, 0, 2), 8192);
  tray.write(2, tray.hbm(0, 0, 3), 8192);
  sc_core::sc_start(sc_core::SC_ZERO_TIME);
  std::vector<unsigned char> copy(filled);
  tlm::tlm_generic_payload t;
  ForeignInitiator::fill(t, tlm::TLM_WRITE_COMMAND, tray.hbm(0, 0, 3), copy.data(), 8192);
  tray.fabric->transport_dbg(t);
  tray.run();
  BOOST_TEST(std::equal(filled.begin(), filled.end(), memory.bytes.begin()));
  std::vector<unsigned char> in(8192);
  ForeignInitiator::fill(t, tlm::TLM_READ_COMMAND, tray.hbm(0, 0, 3), in.data(), 8192);
  tray.fabric->transport_dbg(t);
  BOOST_TEST(in == filled);
  BOOST_TEST(memory.faults.empty());
  tray.fabric->check_conservation();
}

// An external memory with the built-in one's latency gives the built-in results, however it answers.
namespace {
std::vector<Ps> own_slice_times(const AnswerStyle* style, Ps accept) {
  FreshContext fresh;
  TrafficTray tray(machine("one_cube", style != nullptr
                                           ? std::vector<Override>{{"open.hbm", "[tray.sip0.cube0.hbm0]"}}
                                           : std::vector<Override>{}));
  std::unique_ptr<ForeignMemory> memory;
  if (style != nullptr) {
    memory = std::make_unique<ForeignMemory>("memory", 1 << 20);
    memory->style = *style;
    memory->accept_ps = accept;
    tray.fabric->open_hbm("sip0.cube0.hbm0").bind(memory->socket);
  }
  Ps at = 0;
  for (const std::uint64_t bytes : {16 * KiB, std::uint64_t{100}, std::uint64_t{256}, std::uint64_t{5000}, 64 * KiB}) {
    tray.read(0, tray.hbm(0, 0, 0), bytes, at += 1'000'000);
    tray.write(0, tray.hbm(0, 0, 0), bytes, at += 1'000'000);
    tray.read(6, tray.hbm(0, 0, 0), bytes, at += 1'000'000);
  }
  tray.run();
  std::vector<Ps> all;
  for (const std::uint32_t pe : {0u, 6u})
    for (const auto& t : tray.traffic[pe]->transfers) {
      BOOST_TEST(t.status == tlm::TLM_OK_RESPONSE);
      BOOST_TEST(t.end - t.at == t.path);
      all.push_back(t.end);
    }
  if (memory) {
    BOOST_TEST(memory->faults.empty());
    BOOST_TEST(memory->served == 15);
  }
  tray.fabric->check_conservation();
  return all;
}
}  // namespace

BOOST_AUTO_TEST_CASE(external_memory_of_equal_latency_gives_equal_results) {
  // Whole bursts in the comparison: a channel is quicker with a short one, which a fixed latency is not.
  const auto built_in = own_slice_times(nullptr, 0);
  for (const AnswerStyle style : {AnswerStyle::four_phase, AnswerStyle::early_response, AnswerStyle::updated_request,
                                  AnswerStyle::updated_response, AnswerStyle::completed}) {
    const auto foreign = own_slice_times(&style, 2'000);
    BOOST_REQUIRE(foreign.size() == built_in.size());
    for (std::size_t i = 0; i < foreign.size(); ++i) {
      const std::size_t kind = i < 10 ? i / 2 : i - 10;
      if (kind == 1 || kind == 3) continue;  // 100 and 5000 bytes end in a short burst
      BOOST_TEST_INFO("answer style " << static_cast<int>(style) << ", transfer " << i);
      BOOST_TEST(foreign[i] == built_in[i]);
    }
  }
}

// Many requesters, a slow memory with a long request phase: the exclusion rules hold and everybody is served.
BOOST_FIXTURE_TEST_CASE(slow_four_phase_memory_under_load, FreshContext) {
  for (const AnswerStyle style : {AnswerStyle::four_phase, AnswerStyle::early_response, AnswerStyle::updated_request,
                                  AnswerStyle::updated_response, AnswerStyle::completed}) {
    FreshContext fresh;
    TrafficTray tray(machine("one_cube", {{"open.hbm", "[tray.sip0.cube0.hbm0]"}}));
    ForeignMemory memory("memory", 1 << 20);
    memory.style = style;
    memory.accept_ps = 30'000;
    memory.latency_ps = 70'000;
    tray.fabric->open_hbm("tray.sip0.cube0.hbm0").bind(memory.socket);
    for (std::uint32_t pe = 0; pe < 8; ++pe)
      for (int k = 0; k < 6; ++k) {
        tray.read(pe, tray.hbm(0, 0, 0, 4096 * pe), 3000, k * 10'000);
        tray.write(pe, tray.hbm(0, 0, 0, 4096 * pe), 3000, k * 10'000);
      }
    tray.run();
    for (const auto* t : tray.traffic) BOOST_TEST(t->done());
    BOOST_TEST(memory.faults.empty());
    BOOST_TEST(memory.served == 96);
    tray.fabric->check_conservation();
  }
}

BOOST_FIXTURE_TEST_CASE(error_response_of_a_foreign_memory_reaches_the_initiator, FreshContext) {
  TrafficTray tray(machine("one_cube", {{"open.hbm", "[tray.sip0.cube0.hbm0]"}}));
  ForeignMemory memory("memory", 4096);
  tray.fabric->open_hbm("tray.sip0.cube0.hbm0").bind(memory.socket);
  tray.read(0, tray.hbm(0, 0, 0, 8192), 256);
  tray.write(0, tray.hbm(0, 0, 0, 8192), 100'000);
  tray.run();
  for (const auto& t : tray.traffic[0]->transfers) BOOST_TEST(t.status == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  tray.fabric->check_conservation();
}

BOOST_FIXTURE_TEST_CASE(unknown_implementations_and_open_ends_are_refused, FreshContext) {
  FabricRegistry registry;
  int built = 0;
  registry.hbm.add("mine", [&](const char* name, FabricContext& context, const MemoryControllerParams& params) {
    ++built;
    return std::make_unique<MemoryController>(name, context, params);
  });
  BOOST_CHECK_THROW(registry.hbm.add("mine", {}), InputError);
  FabricOptions options;
  options.registry = &registry;
  SystemConfig c = machine("one_cube", {{"cube.hbm.impl", "mine"}});
  TrafficTray tray(c, options);
  BOOST_TEST(built == 8);
  BOOST_CHECK_THROW(tray.fabric->open_hbm("tray.sip0.cube0.hbm1"), InputError);
  c.cube.hbm.impl = "mien";
  BOOST_CHECK_EXCEPTION(registry.hbm.find("mien"), InputError, [](const InputError& e) {
    return std::string(e.what()).find("nearest: mine") != std::string::npos;
  });
  tray.read(0, tray.hbm(0, 0, 0), 16 * KiB);
  BOOST_TEST(tray.run() == 73'000);
}

BOOST_AUTO_TEST_SUITE_END()
