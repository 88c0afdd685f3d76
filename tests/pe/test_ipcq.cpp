// Queues between PEs: slots, credits, tiers, order, independence, snapshots, deadlock reports.
#include "pe_bench.h"

#include <boost/test/unit_test.hpp>
#include <sc_fixture.h>

#include <map>
#include <random>

using namespace kb;
using namespace kb::test;

namespace {

constexpr Ps kPath = 10000;  // one way, ps

/// PEs of one cube with wires between them: the data of a write leaves at 256 B/ns, one after the other per PE, and
/// is there 10 ns later; its response takes 10 ns back. Credits go straight.
class Cluster : public sc_core::sc_module, protected CreditFwIf {
 public:
  Cluster(std::uint32_t pes, const PeParams& p, const sc_core::sc_module_name& module = "cluster")
      : sc_core::sc_module(module), params(p), machine(machine_of(p)) {
    SC_HAS_PROCESS(Cluster);
    AddressMap::Geometry g;
    g.pes = pes;
    map = AddressMap(g);
    machine.pes_per_cube = pes;
    credits_.bind(static_cast<CreditFwIf&>(*this));
    for (std::uint32_t i = 0; i < pes; ++i) {
      ports_.push_back(std::make_unique<Port>(("port" + std::to_string(i)).c_str(), *this, i));
      PeEnv env;
      env.id = {0, 0, i};
      env.rank = i;
      env.machine = &machine;
      env.recorder = &recorder;
      env.component_base = i * 9;
      env.addresses = &map;
      env.pool = &pool;
      env.activity = &activity;
      env.faults = &faults;
      pe.push_back(std::make_unique<Pe>(("pe" + std::to_string(i)).c_str(), params, env));
      pe[i]->dma_socket.bind(ports_[i]->from_pe);
      ports_[i]->to_pe.bind(pe[i]->tcm_socket);
      ports_[i]->launch.bind(pe[i]->control_in);
      pe[i]->credit_out.bind(credits_);
      ports_[i]->credit.bind(pe[i]->credit_in);
      programs_.push_back(nullptr);
    }
    SC_METHOD(respond);
    sensitive << event_;
    dont_initialize();
  }

  PeParams params;
  MachineInfo machine;
  AddressMap map;
  KeepRecords recorder;
  KeepFaults faults;
  Activity activity;
  PayloadPool pool;
  std::vector<std::unique_ptr<Pe>> pe;
  Ps credit_ps = 5000;
  std::uint64_t writes = 0;

  /// A queue from `a`, which names it `da`, to `b`, which names it `db`.
  void join(std::uint32_t a, Direction da, std::uint32_t b, Direction db) {
    QueueEnd s;
    s.direction = da;
    s.peer = b;
    s.peer_direction = db;
    s.sends = true;
    s.peer_window = map.queue(0, 0, b);
    ends_[a].push_back(s);
    QueueEnd r;
    r.direction = db;
    r.peer = a;
    r.peer_direction = da;
    r.credit_ps = credit_ps;
    ends_[b].push_back(r);
  }

  /// Runs the kernels to the end; returns the time of the last PE.
  Ps run(std::function<void(PePort&)> kernel) {
    if (sc_core::sc_get_status() != sc_core::SC_PAUSED) sc_core::sc_start(sc_core::SC_ZERO_TIME);
    const LambdaProgram program(std::move(kernel));
    start = now_ps();
    LaunchMessage message;
    message.program = &program;
    std::vector<Message> control(pe.size());
    std::vector<Packet> packets(pe.size());
    for (std::size_t i = 0; i < pe.size(); ++i) {
      pe[i]->prepare_launch(ends_[static_cast<std::uint32_t>(i)]);
      control[i].kind = Message::Kind::launch;
      control[i].launch = &message;
      control[i].packets = 1;
      packets[i].message = &control[i];
      PacketPhase phase = PacketPhase::send;
      sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
      ports_[i]->launch->nb_transport_fw(packets[i], phase, delay);
    }
    sc_core::sc_start();
    if (faults.first) std::rethrow_exception(faults.first);
    Ps end = 0;
    std::string waiting;
    for (auto& p : pe) {
      end = std::max(end, p->finish_time());
      const std::string state = p->blocked_state();
      if (!state.empty()) waiting += "\n" + state;
    }
    if (!waiting.empty()) throw ModelError("deadlock:" + waiting);
    for (auto& p : pe) stats.push_back(p->stats(start, end));
    BOOST_REQUIRE(!activity.any());
    BOOST_REQUIRE_EQUAL(pool.out(), 0u);
    return end - start;
  }
  Ps start = 0;
  std::vector<PeStats> stats;

 protected:
  tlm::tlm_sync_enum nb_transport_fw(Credit& credit, CreditPhase& phase, sc_core::sc_time& delay) override {
    return ports_[credit.to]->credit->nb_transport_fw(credit, phase, delay);
  }

 private:
  struct Port : sc_core::sc_module, tlm::tlm_fw_transport_if<>, tlm::tlm_bw_transport_if<> {
    Port(const sc_core::sc_module_name& n, Cluster& c, std::uint32_t i) : sc_core::sc_module(n), cluster(c), index(i) {
      from_pe.bind(static_cast<tlm::tlm_fw_transport_if<>&>(*this));
      to_pe.bind(static_cast<tlm::tlm_bw_transport_if<>&>(*this));
    }
    tlm::tlm_target_socket<> from_pe{"from_pe"};
    tlm::tlm_initiator_socket<> to_pe{"to_pe"};
    PacketInitiatorSocket launch{"launch"};
    CreditInitiatorSocket credit{"credit"};
    Cluster& cluster;
    std::uint32_t index;
    Ps free = 0;

    tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& trans, tlm::tlm_phase& phase,
                                       sc_core::sc_time& delay) override {
      if (phase != tlm::BEGIN_REQ) return tlm::TLM_COMPLETED;
      const Ps at = std::max(now_ps() + to_ps(delay), free);
      free = at + transfer_ps(trans.get_data_length(), 256);
      ++cluster.writes;
      auto& ext = PayloadPool::extension(trans);
      BOOST_CHECK(ext.vc == VirtualChannel::ipcq);
      if (ext.departure != nullptr) ext.departure->data_left(trans, free);
      trans.acquire();
      trans.set_response_status(tlm::TLM_OK_RESPONSE);
      cluster.answers_.emplace(free + 2 * kPath, std::make_pair(this, &trans));
      cluster.wake();

      const Decoded d = cluster.map.decode(trans.get_address());
      auto& copy = cluster.pool.take(tlm::TLM_WRITE_COMMAND, trans.get_address(), trans.get_data_length());
      auto& copy_ext = PayloadPool::extension(copy);
      copy_ext.train = FlitTrain::all_at(free + kPath, 1);
      copy_ext.complete = true;
      tlm::tlm_phase begin = tlm::BEGIN_REQ;
      sc_core::sc_time head = to_sc_time(at + kPath - now_ps());
      cluster.ports_[d.unit]->to_pe->nb_transport_fw(copy, begin, head);
      copy.release();
      phase = tlm::END_REQ;
      return tlm::TLM_UPDATED;
    }
    tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& trans, tlm::tlm_phase&, sc_core::sc_time&) override {
      BOOST_CHECK(trans.is_response_ok());
      return tlm::TLM_COMPLETED;
    }
    void b_transport(tlm::tlm_generic_payload&, sc_core::sc_time&) override {}
    bool get_direct_mem_ptr(tlm::tlm_generic_payload&, tlm::tlm_dmi&) override { return false; }
    unsigned int transport_dbg(tlm::tlm_generic_payload&) override { return 0; }
    void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}
  };

  void wake() {
    if (answers_.empty()) return;
    const Ps next = answers_.begin()->first;
    event_.notify(next <= now_ps() ? sc_core::SC_ZERO_TIME : to_sc_time(next - now_ps()));
  }
  void respond() {
    while (!answers_.empty() && answers_.begin()->first <= now_ps()) {
      const auto [port, trans] = answers_.begin()->second;
      answers_.erase(answers_.begin());
      PayloadPool::extension(*trans).path_ps = 2 * kPath + transfer_ps(trans->get_data_length(), 256);
      tlm::tlm_phase phase = tlm::BEGIN_RESP;
      sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
      port->from_pe->nb_transport_bw(*trans, phase, delay);
      trans->release();
    }
    wake();
  }

  ProtocolTargetSocket<CreditProtocol, 0, sc_core::SC_ZERO_OR_MORE_BOUND> credits_{"credits"};
  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<const KernelProgram*> programs_;
  std::map<std::uint32_t, std::vector<QueueEnd>> ends_;
  std::multimap<Ps, std::pair<Port*, tlm::tlm_generic_payload*>> answers_;
  sc_core::sc_event event_;
};

Command send(Direction d, std::int64_t bytes, std::uint64_t from = 0, bool split = false) {
  Command c;
  c.kind = CommandKind::ipcq_send;
  c.direction = d;
  c.split = split;
  OpSpec op;
  op.kind = "ipcq_send";
  op.operands = {{"src", tcm_tensor(from, {bytes}, DType::i8)}};
  c.ops = {op};
  return c;
}
Command recv(Direction d, std::int64_t bytes, std::uint64_t to = 0x100000, bool split = false, bool consume = true) {
  Command c;
  c.kind = CommandKind::ipcq_recv;
  c.direction = d;
  c.split = split;
  c.consume = consume;
  c.ops = {math_op("ipcq_recv", {}, tcm_tensor(to, {bytes}, DType::i8))};
  return c;
}

PeParams queue_params(std::uint32_t slots = 4) {
  PeParams p = free_params();
  p.ipcq.slots = slots;
  return p;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(ipcq)

// 4096 B: left after 16 ns, there at 26; slot write 8, slot read 8, credit 5 ns: 47 ns.
BOOST_FIXTURE_TEST_CASE(one_message, FreshContext) {
  Cluster c(2, queue_params());
  c.join(0, Direction::intra_E, 1, Direction::intra_W);
  const Ps time = c.run([](PePort& pe) {
    if (pe.id().pe == 0)
      pe.issue(send(Direction::intra_E, 4096));
    else
      pe.wait(pe.issue(recv(Direction::intra_W, 4096)), "recv");
  });
  BOOST_CHECK_EQUAL(time, 16000 + 10000 + 8000 + 8000 + 5000);
  const auto sent = c.recorder.of(OpName::send), got = c.recorder.of(OpName::recv),
             slot = c.recorder.of(OpName::slot_write), credit = c.recorder.of(OpName::credit);
  BOOST_REQUIRE(sent.size() == 1 && got.size() == 1 && slot.size() == 1 && credit.size() == 1);
  BOOST_CHECK_EQUAL(sent[0].t_end, 0);
  BOOST_CHECK_EQUAL(sent[0].peer, 1u);
  BOOST_CHECK(sent[0].arrives == Direction::intra_W);
  BOOST_CHECK_EQUAL(slot[0].t_start, 26000);
  BOOST_CHECK_EQUAL(slot[0].t_end, 34000);
  BOOST_CHECK_EQUAL(credit[0].t_start, 42000);
  BOOST_CHECK_EQUAL(got[0].t_start, 34000);
  BOOST_CHECK_EQUAL(got[0].t_end, 47000);
  BOOST_CHECK_EQUAL(c.stats[1].tcm_write_bytes, 4096u);
  BOOST_CHECK_EQUAL(c.stats[1].tcm_read_bytes, 4096u);
  BOOST_CHECK_EQUAL(c.stats[1].engines[static_cast<std::size_t>(EngineKind::ipcq)][Cause::operands_ipcq], 26000);
  BOOST_CHECK_EQUAL(c.stats[1].engines[static_cast<std::size_t>(EngineKind::cpu)][Cause::operands_ipcq], 47000);
  BOOST_CHECK_EQUAL(c.stats[0].ipcq_bytes, 4096u);
  Ps serial = 0;
  for (const auto& s : c.stats) serial += s.serial_ps;
  BOOST_CHECK_GE(serial, time);
}

namespace {
Ps message_time(FreshContext&, std::int64_t bytes, bool consume, BufferKind kind = BufferKind::tcm, Ps bank = 0) {
  PeParams p = queue_params();
  p.ipcq.buffer_kind = kind;
  Cluster c(2, p);
  for (auto& pe : c.pe) pe->set_bank_path(bank);
  c.join(0, Direction::E, 1, Direction::W);
  return c.run([&](PePort& pe) {
    if (pe.id().pe == 0)
      pe.issue(send(Direction::E, bytes));
    else
      pe.wait(pe.issue(recv(Direction::W, bytes, 0x100000, false, consume)), "recv");
  });
}
}  // namespace

// The slot read of 128 B: 0.25 ns (published N6).
BOOST_AUTO_TEST_CASE(recv_without_consume_saves_the_slot_read) {
  Ps with = 0, without = 0;
  {
    FreshContext fresh;
    with = message_time(fresh, 128, true);
  }
  {
    FreshContext fresh;
    without = message_time(fresh, 128, false);
  }
  BOOST_CHECK_EQUAL(with - without, 250);
}

// sram: 512 B/ns and 2 ns per access, hbm: 256 and 6, both and the path to the bank for write and read alike.
BOOST_FIXTURE_TEST_CASE(sram_slots, FreshContext) {
  BOOST_CHECK_EQUAL(message_time(*this, 4096, true, BufferKind::sram, 1500), 26000 + 2 * (8000 + 2000 + 1500) + 5000);
}
BOOST_FIXTURE_TEST_CASE(hbm_slots, FreshContext) {
  BOOST_CHECK_EQUAL(message_time(*this, 4096, true, BufferKind::hbm, 1500), 26000 + 2 * (16000 + 6000 + 1500) + 5000);
}
BOOST_FIXTURE_TEST_CASE(empty_messages_take_a_slot_and_a_credit, FreshContext) {
  Cluster c(2, queue_params(1));
  c.join(0, Direction::E, 1, Direction::W);
  const Ps time = c.run([&](PePort& pe) {
    for (int i = 0; i < 2; ++i) {
      if (pe.id().pe == 0)
        pe.issue(send(Direction::E, 0));
      else
        pe.wait(pe.issue(recv(Direction::W, 0)), "recv");
    }
  });
  BOOST_CHECK_EQUAL(c.writes, 2u);
  BOOST_CHECK_EQUAL(c.recorder.of(OpName::credit).size(), 2u);
  BOOST_CHECK_EQUAL(time, 2 * (10000 + 5000));
}

// A receiver that comes late: the sender fills the slots and its queue engine waits; its kernel does not.
BOOST_FIXTURE_TEST_CASE(full_slots_hold_up_the_queue_engine_only, FreshContext) {
  Cluster c(2, queue_params(2));
  c.join(0, Direction::E, 1, Direction::W);
  Ps kernel_end = 0;
  c.run([&](PePort& pe) {
    if (pe.id().pe == 0) {
      for (int i = 0; i < 5; ++i) pe.issue(send(Direction::E, 256));
      kernel_end = pe.now();
    } else {
      pe.spend_cycles(1000);
      for (int i = 0; i < 5; ++i) pe.wait(pe.issue(recv(Direction::W, 256)), "recv");
    }
  });
  BOOST_CHECK_EQUAL(kernel_end, 0);
  const auto slots = c.recorder.of(OpName::slot_write);
  BOOST_REQUIRE_EQUAL(slots.size(), 5u);
  BOOST_CHECK_LT(slots[1].t_end, 20000);
  BOOST_CHECK_GT(slots[2].t_start, 1000000);
  BOOST_CHECK_GT(c.stats[0].engines[static_cast<std::size_t>(EngineKind::ipcq)][Cause::credit], 900000);
}

// A message larger than a slot: refused, or segmented as one command.
BOOST_FIXTURE_TEST_CASE(large_messages_are_refused, FreshContext) {
  Cluster c(2, queue_params());
  c.join(0, Direction::E, 1, Direction::W);
  BOOST_CHECK_EXCEPTION(c.run([](PePort& pe) {
    if (pe.id().pe == 0) pe.issue(send(Direction::E, 4097));
  }), ModelError, [](const ModelError& e) {
    return std::string(e.what()).find("4097 bytes without split") != std::string::npos;
  });
}
BOOST_FIXTURE_TEST_CASE(split_messages, FreshContext) {
  Cluster c(2, queue_params(2));
  c.join(0, Direction::E, 1, Direction::W);
  c.run([](PePort& pe) {
    if (pe.id().pe == 0)
      pe.issue(send(Direction::E, 10000, 0, true));
    else
      pe.wait(pe.issue(recv(Direction::W, 10000, 0x100000, true)), "recv");
  });
  const auto slots = c.recorder.of(OpName::slot_write);
  BOOST_REQUIRE_EQUAL(slots.size(), 3u);
  BOOST_CHECK_EQUAL(slots[2].bytes, 10000u - 8192);
  BOOST_CHECK_EQUAL(c.recorder.of(OpName::send).size(), 1u);
  BOOST_CHECK_EQUAL(c.recorder.of(OpName::recv).size(), 1u);
  BOOST_CHECK_EQUAL(c.stats[0].dispatch.commands[static_cast<std::size_t>(CommandKind::ipcq_send)], 1u);
}

BOOST_FIXTURE_TEST_CASE(uninstalled_directions_are_refused, FreshContext) {
  Cluster c(2, queue_params());
  c.join(0, Direction::E, 1, Direction::W);
  BOOST_CHECK_EXCEPTION(c.run([](PePort& pe) {
    if (pe.id().pe == 0) BOOST_CHECK(pe.has_peer(Direction::E) && !pe.has_peer(Direction::W));
    if (pe.id().pe == 1) pe.issue(send(Direction::W, 16));
  }), ModelError, [](const ModelError& e) {
    return std::string(e.what()).find("cluster.pe1.ipcq: ipcq_send command 1, direction W: found a direction that is not "
                                      "installed") != std::string::npos;
  });
}

// The value is taken when the send reaches the queue engine: a write to the source right behind it does not wait
// for the transfer, which waits for a slot, and the record of the value stands before the record of the write.
BOOST_FIXTURE_TEST_CASE(values_are_taken_at_send_time, FreshContext) {
  Cluster c(2, queue_params(1));
  c.join(0, Direction::E, 1, Direction::W);
  c.run([](PePort& pe) {
    if (pe.id().pe == 0) {
      for (int i = 0; i < 3; ++i) {
        pe.issue(send(Direction::E, 256));
        pe.issue(math_command({{"src", tcm_tensor(0, {64})}}, tcm_tensor(0, {64})));  // overwrites it
      }
    } else {
      pe.spend_cycles(500);
      for (int i = 0; i < 3; ++i) pe.wait(pe.issue(recv(Direction::W, 256)), "recv");
    }
  });
  const auto sends = c.recorder.of(OpName::send), writes = c.recorder.of(OpName::math);
  for (std::size_t i = 0; i < 3; ++i) {
    BOOST_CHECK_LE(sends[i].t_end, writes[i].t_start);
    if (i > 0) BOOST_CHECK_GE(sends[i].t_end, writes[i - 1].t_end);
    BOOST_CHECK_LT(writes[i].t_end, 10000);
  }
}

// A write to what is being received waits for it (WAW), a reader too (RAW).
BOOST_FIXTURE_TEST_CASE(received_values_are_protected, FreshContext) {
  Cluster c(2, queue_params());
  c.join(0, Direction::E, 1, Direction::W);
  c.run([](PePort& pe) {
    if (pe.id().pe == 0) {
      pe.spend_cycles(100);
      pe.issue(send(Direction::E, 256));
    } else {
      pe.issue(recv(Direction::W, 256, 0x1000));
      pe.issue(math_command({{"src", tcm_tensor(0x1000, {64})}}, tcm_tensor(0x2000, {64})));
      pe.issue(math_command({{"src", tcm_tensor(0x3000, {64})}}, tcm_tensor(0x4000, {64})));
    }
  });
  const auto math = c.recorder.of(OpName::math);
  BOOST_REQUIRE_EQUAL(math.size(), 2u);
  BOOST_CHECK_EQUAL(math[0].t_start, 0);  // the unrelated one
  BOOST_CHECK_EQUAL(math[1].t_start, c.recorder.of(OpName::recv)[0].t_end);
}

// A recv that waits does not hold back another direction, nor sends, nor the command queue.
BOOST_FIXTURE_TEST_CASE(directions_are_independent, FreshContext) {
  PeParams p = queue_params(1);
  p.scheduler.queue_depth = 1;
  Cluster c(3, p);
  c.join(0, Direction::E, 1, Direction::W);
  c.join(2, Direction::W, 1, Direction::E);
  c.join(1, Direction::W, 0, Direction::E);
  c.run([](PePort& pe) {
    switch (pe.id().pe) {
      case 0:
        pe.wait(pe.issue(recv(Direction::E, 64)), "recv");  // what pe1 sends after it has heard from pe2
        pe.issue(send(Direction::E, 64));
        break;
      case 1: {
        const CommandId late = pe.issue(recv(Direction::W, 64, 0x1000));
        pe.wait(pe.issue(recv(Direction::E, 64, 0x2000)), "recv");
        pe.issue(send(Direction::W, 64));
        pe.wait(late, "recv");
        break;
      }
      default: pe.issue(send(Direction::W, 64));
    }
  });
  BOOST_CHECK_EQUAL(c.recorder.of(OpName::recv).size(), 3u);
}

// A ring of two: both directions lead to the same peer, and arrivals are told apart by where they were written.
BOOST_FIXTURE_TEST_CASE(two_directions_to_one_peer, FreshContext) {
  Cluster c(2, queue_params(2));
  for (std::uint32_t i = 0; i < 2; ++i) {
    c.join(i, Direction::E, 1 - i, Direction::W);
    c.join(i, Direction::W, 1 - i, Direction::E);
  }
  c.run([](PePort& pe) {
    for (int i = 0; i < 10; ++i) {
      pe.issue(send(Direction::E, 64 + i));
      pe.issue(send(Direction::W, 128 + i));
      pe.wait(pe.issue(recv(Direction::W, 64 + i)), "recv");
      pe.wait(pe.issue(recv(Direction::E, 128 + i)), "recv");
    }
  });
}

// Many messages through few slots, in bursts that do not divide them, with stalls on both sides: order kept, none
// lost, every wait accounted for.
BOOST_AUTO_TEST_CASE(bursts_through_few_slots) {
  for (std::uint32_t slots = 1; slots <= 4; ++slots) {
    FreshContext fresh;
    Cluster c(2, queue_params(slots));
    c.join(0, Direction::E, 1, Direction::W);
    constexpr int kMessages = 1500;
    c.run([&](PePort& pe) {
      std::mt19937 random(slots * 2 + pe.id().pe);
      for (int i = 0; i < kMessages; ++i) {
        if (i % 7 == 0) pe.spend_cycles(static_cast<double>(random() % 200));
        if (pe.id().pe == 0)
          pe.issue(send(Direction::E, i % 300));
        else
          pe.wait(pe.issue(recv(Direction::W, i % 300)), "recv");  // a wrong size would be refused
      }
    });
    const auto got = c.recorder.of(OpName::recv);
    BOOST_REQUIRE_EQUAL(got.size(), static_cast<std::size_t>(kMessages));
    for (std::size_t i = 0; i < got.size(); ++i) BOOST_REQUIRE_EQUAL(got[i].message, i);
  }
}

// Two kernels that wait for each other: who waits for whom, with pointers and credits.
BOOST_FIXTURE_TEST_CASE(deadlocks_are_described, FreshContext) {
  Cluster c(2, queue_params(2));
  c.join(0, Direction::E, 1, Direction::W);
  c.join(1, Direction::W, 0, Direction::E);
  std::string message;
  try {
    c.run([](PePort& pe) {
      pe.wait(pe.issue(recv(pe.id().pe == 0 ? Direction::E : Direction::W, 64)), "tl.recv");
    });
  } catch (const ModelError& e) {
    message = e.what();
  }
  for (const char* part : {"cluster.pe0 waits in tl.recv for ipcq_recv command 1 since 0", "cluster.pe1 waits",
                           "E from PE 1: head 0, tail 0, 1 recvs wait", "E to PE 1: head 0, tail 0, credits 2 of 2"})
    BOOST_CHECK_MESSAGE(message.find(part) != std::string::npos, "found '" << message << "', expected '" << part << "'");
  BOOST_CHECK(!c.activity.any());
  for (auto& p : c.pe) p->abandon();
  sc_core::sc_start(sc_core::SC_ZERO_TIME);
}

// What nobody receives is reported when the launch's counters are read.
BOOST_FIXTURE_TEST_CASE(messages_left_over_are_an_error, FreshContext) {
  Cluster c(2, queue_params());
  c.join(0, Direction::E, 1, Direction::W);
  BOOST_CHECK_EXCEPTION(c.run([](PePort& pe) {
    if (pe.id().pe == 0) pe.issue(send(Direction::E, 64));
    if (pe.id().pe == 1) pe.spend_cycles(1000);
  }), ModelError, [](const ModelError& e) {
    return std::string(e.what()).find("without a credit at the end of the launch") != std::string::npos;
  });
}

// Throughput: with enough slots and outstanding transfers the link is full. 256 messages of 4 KiB, 16 ns each.
BOOST_FIXTURE_TEST_CASE(outstanding_transfers_fill_the_link, FreshContext) {
  PeParams p = queue_params(8);
  p.dma.overhead_ns = 2;
  p.dma.outstanding = 4;
  Cluster c(2, p);
  c.join(0, Direction::E, 1, Direction::W);
  const Ps time = c.run([](PePort& pe) {
    if (pe.id().pe == 0)
      pe.issue(send(Direction::E, 256 * 4096, 0, true));
    else
      pe.wait(pe.issue(recv(Direction::W, 256 * 4096, 0x100000, true)), "recv");
  });
  BOOST_CHECK_LE(time, 256 * 16000 + 60000);
}

BOOST_AUTO_TEST_SUITE_END()
