// A host for collectives: ranks are threads, commands are carried out at once, queues are first in, first out. Proves
// what the kernels send and sum without any engine.
#pragma once

#include <kb/kernels/emit_port.h>
#include <kb/tlm_if/errors.h>
#include <kb/tlm_if/host.h>
#include <kb/tlm_if/numerics.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace kb::test {

/// Data mode, for the commands of collectives: DMA, element-wise add, send, receive. The memory that a receive will
/// write is poisoned with NaN when the receive is issued, and the message put there when it is waited for or, at the
/// latest, when the kernel returns: a kernel that still needs the old value, or looks before it waits, ends with NaN.
class CollectivesHost : public Host {
 public:
  explicit CollectivesHost(const MachineInfo& machine, Mode mode = Mode::data) : machine_(machine), mode_(mode) {
    tcm_.resize(machine.total_pes());
  }

  const MachineInfo& machine() const override { return machine_; }
  Mode mode() const override { return mode_; }

  Tensor allocate(const std::string& name, DType dtype, Space space,
                  const std::vector<std::pair<std::uint32_t, Shape>>& shards) override {
    Tensor t;
    t.name = name;
    t.dtype = dtype;
    t.space = space;
    for (const auto& s : shards) {
      auto& memory = space == Space::hbm ? hbm_ : tcm_.at(s.first);
      if (space == Space::tcm && memory.empty())
        memory.assign(static_cast<std::size_t>(machine_.scratch_bytes), kPoison);
      const std::uint64_t addr = (memory.size() + 63) / 64 * 64;
      memory.resize(static_cast<std::size_t>(addr) + static_cast<std::size_t>(s.second.numel()) * size_of(dtype),
                    kPoison);
      t.shards.push_back({s.first, s.second, addr});
    }
    return t;
  }
  void free(const Tensor&) override {}
  void write(const Tensor& t, std::size_t shard, const void* bytes, std::size_t size) override {
    std::memcpy(at(t.shards[shard].pe, t.space, t.shards[shard].addr, size), bytes, size);
  }
  void read(const Tensor& t, std::size_t shard, void* bytes, std::size_t size) override {
    std::memcpy(bytes, at(t.shards[shard].pe, t.space, t.shards[shard].addr, size), size);
  }

  /// Throws what a kernel threw first, and ModelError for messages that nobody receives or that do not come in 20 s.
  LaunchResult launch(const KernelProgram& program, const LaunchOptions& options) override {
    queues_.clear();
    std::map<End, Queue*> by_sender, by_receiver;
    for (const auto& q : options.queues) {
      queues_.push_back(std::make_unique<Queue>());
      const bool fresh = by_sender.emplace(End{q.from, q.direction}, queues_.back().get()).second &&
                         by_receiver.emplace(End{q.to, q.arrives_as}, queues_.back().get()).second;
      if (!fresh) throw InputError("a direction is installed twice");
    }
    std::vector<std::unique_ptr<Port>> ports;
    for (const std::uint32_t rank : options.pes) {
      auto& memory = tcm_.at(rank);
      if (memory.empty()) memory.resize(static_cast<std::size_t>(machine_.scratch_bytes));
      std::fill_n(memory.begin(), machine_.scratch_bytes, kPoison);
      ports.push_back(std::make_unique<Port>(*this, rank));
    }
    for (auto& port : ports) port->connect(by_sender, by_receiver);
    std::vector<std::exception_ptr> failures(ports.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < ports.size(); ++i)
      threads.emplace_back([&, i] {
        try {
          program.run(*ports[i]);
          ports[i]->drain();
        } catch (...) {
          failures[i] = std::current_exception();
        }
      });
    for (auto& t : threads) t.join();
    for (const auto& f : failures)
      if (f) std::rethrow_exception(f);
    for (const auto& q : queues_)
      if (!q->messages.empty()) throw ModelError("a message was never received");
    LaunchResult result;
    for (auto& port : ports) {
      PeStats s;
      s.id = port->id();
      s.dispatch = port->counts();
      s.ipcq_sends = port->sends;
      s.ipcq_recvs = port->receives;
      s.ipcq_bytes = port->bytes_sent;
      result.pes.push_back(s);
    }
    result.end = 1'000'000'000'000;  // no time passes; benches may compare it with bounds
    return result;
  }
  LaunchResult run_transfers(const std::vector<DirectTransfer>&) override { return {}; }
  Ps host_copy(bool, std::uint64_t, std::uint64_t) override { return 0; }

 private:
  static constexpr std::uint8_t kPoison = 0xff;  // NaN in every float type
  using End = std::pair<std::uint32_t, Direction>;

  struct Queue {
    std::mutex mutex;
    std::condition_variable arrived;
    std::deque<std::vector<std::uint8_t>> messages;
  };

  class Port : public EmitPort {
   public:
    Port(CollectivesHost& host, std::uint32_t rank)
        : EmitPort(host.machine_, host.machine_.pe_of(rank), host.mode_), host_(host), rank_(rank) {
      on_issue = [this](const Command& c) { carry_out(c); };
    }
    void connect(const std::map<End, Queue*>& by_sender, const std::map<End, Queue*>& by_receiver) {
      std::bitset<kDirections> peers;
      for (int i = 0; i < kDirections; ++i) {
        const End end{rank_, static_cast<Direction>(i)};
        if (const auto s = by_sender.find(end); s != by_sender.end()) out_[static_cast<std::size_t>(i)] = s->second;
        if (const auto r = by_receiver.find(end); r != by_receiver.end()) in_[static_cast<std::size_t>(i)] = r->second;
        peers.set(static_cast<std::size_t>(i), out_[static_cast<std::size_t>(i)] || in_[static_cast<std::size_t>(i)]);
      }
      set_peers(peers);
    }
    void wait(CommandId id, const char*) override {
      for (std::size_t d = 0; d < kDirections; ++d)
        while (!expected_[d].empty() && expected_[d].front().first <= id && waits_for(d, id)) take(d);
    }
    void drain() {
      for (std::size_t d = 0; d < kDirections; ++d)
        while (!expected_[d].empty()) take(d);
    }

    std::uint64_t sends = 0, receives = 0, bytes_sent = 0;

   private:
    bool waits_for(std::size_t d, CommandId id) const {
      return std::any_of(expected_[d].begin(), expected_[d].end(), [id](const auto& e) { return e.first == id; });
    }

    void take(std::size_t d) {
      Queue& q = *in_[d];
      std::vector<std::uint8_t> message;
      {
        std::unique_lock<std::mutex> lock(q.mutex);
        if (!q.arrived.wait_for(lock, std::chrono::seconds(20), [&q] { return !q.messages.empty(); }))
          throw ModelError(name() + ": nothing comes from " + name_of(static_cast<Direction>(d)));
        message = std::move(q.messages.front());
        q.messages.pop_front();
      }
      const TensorHandle out = expected_[d].front().second;
      expected_[d].pop_front();
      if (message.size() != out.bytes()) throw ModelError(name() + ": a message of another size");
      std::copy(message.begin(), message.end(), host_.at(rank_, out.space, out.addr, out.bytes()));
    }

    void carry_out(const Command& c) {
      const OpSpec& op = c.ops[0];
      switch (c.kind) {
        case CommandKind::ipcq_recv: {
          ++receives;
          std::memset(host_.at(rank_, op.out.space, op.out.addr, op.out.bytes()), kPoison,
                      static_cast<std::size_t>(op.out.bytes()));
          expected_[static_cast<std::size_t>(c.direction)].emplace_back(c.id, op.out);
          break;
        }
        case CommandKind::ipcq_send: {
          const TensorHandle& src = op.operands[0].handle;
          const std::uint8_t* bytes = host_.at(rank_, src.space, src.addr, src.bytes());
          Queue* q = out_[static_cast<std::size_t>(c.direction)];
          if (q == nullptr) throw ModelError(name() + ": sends where it can only receive");
          ++sends;
          bytes_sent += src.bytes();
          const std::lock_guard<std::mutex> lock(q->mutex);
          q->messages.emplace_back(bytes, bytes + src.bytes());
          q->arrived.notify_one();
          break;
        }
        case CommandKind::dma_read:
        case CommandKind::dma_write: {
          const TensorHandle& src = op.operands[0].handle;
          std::memcpy(host_.at(rank_, op.out.space, op.out.addr, op.out.bytes()),
                      host_.at(rank_, src.space, src.addr, src.bytes()), static_cast<std::size_t>(src.bytes()));
          break;
        }
        case CommandKind::math: {
          if (op.kind != "add" || op.operands.size() != 2)
            throw ModelError(name() + ": found Math " + op.kind + "; allowed: add");
          std::vector<float> a = load(op.operands[0].handle);
          const std::vector<float> b = load(op.operands[1].handle);
          for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
          num::store_f32(op.out.dtype, a.data(), host_.at(rank_, op.out.space, op.out.addr, op.out.bytes()), a.size());
          break;
        }
        default: throw ModelError(name() + ": found " + name_of(c.kind) + "; allowed: the commands of collectives");
      }
    }

    std::vector<float> load(const TensorHandle& h) {
      std::vector<float> values(static_cast<std::size_t>(h.shape.numel()));
      num::load_f32(h.dtype, host_.at(rank_, h.space, h.addr, h.bytes()), values.data(), values.size());
      return values;
    }

    CollectivesHost& host_;
    std::uint32_t rank_;
    std::array<Queue*, kDirections> out_{}, in_{};
    std::array<std::deque<std::pair<CommandId, TensorHandle>>, kDirections> expected_;
  };

  std::uint8_t* at(std::uint32_t rank, Space space, std::uint64_t addr, std::uint64_t bytes) {
    static std::uint8_t nothing = 0;
    auto& memory = space == Space::hbm ? hbm_ : tcm_.at(rank);
    if (bytes == 0) return &nothing;
    if (addr + bytes > memory.size()) throw ModelError("address " + std::to_string(addr) + " is not allocated");
    return memory.data() + addr;
  }

  MachineInfo machine_;
  Mode mode_;
  std::vector<std::uint8_t> hbm_;
  std::vector<std::vector<std::uint8_t>> tcm_;
  std::vector<std::unique_ptr<Queue>> queues_;
};

}  // namespace kb::test
