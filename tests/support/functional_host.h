// A host whose PEs compute at once and take no time: tests what kernels compute, apart from how long they take.
#pragma once

#include <kb/kernels/emit_port.h>
#include <kb/platform/math_table.h>
#include <kb/tlm_if/errors.h>
#include <kb/tlm_if/host.h>
#include <kb/tlm_if/numerics.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace kb::test {

/// Data mode without engines: each PE's kernel runs in a thread of its own and every command is carried out when it is
/// issued. Arithmetic is that of the data pass (spec 2.4): f32 inside an operation, GEMMs summed per TILE_K block.
/// Scratch starts out as NaN. A receive that is not served within ten seconds ends the launch with an error.
class FunctionalHost : public Host {
 public:
  explicit FunctionalHost(const MachineInfo& machine, Mode mode = Mode::data) : machine_(machine), mode_(mode) {
    for (std::uint32_t r = 0; r < machine.total_pes(); ++r) tcm_.emplace_back(machine.scratch_bytes, 0xff);
  }

  const MachineInfo& machine() const override { return machine_; }
  Mode mode() const override { return mode_; }
  Tensor allocate(const std::string& name, DType dtype, Space space,
                  const std::vector<std::pair<std::uint32_t, Shape>>& shards) override {
    Tensor t;
    t.id = ++last_id_;
    t.name = name;
    t.dtype = dtype;
    t.space = space;
    for (const auto& s : shards) {
      const std::uint64_t bytes = static_cast<std::uint64_t>(s.second.numel()) * size_of(dtype);
      if (space == Space::hbm) {
        t.shards.push_back({s.first, s.second, next_hbm_});
        hbm_[next_hbm_].assign(static_cast<std::size_t>(bytes), 0xff);
        next_hbm_ += bytes + 256;
      } else {
        auto& memory = tcm_.at(s.first);
        memory.resize((memory.size() + 63) / 64 * 64, 0xff);
        if (memory.size() + bytes > machine_.tcm_bytes)
          throw InputError("tensor " + name + ": found " + std::to_string(bytes) +
                           " B; allowed: what is free in TCM, " + std::to_string(machine_.tcm_bytes - memory.size()) +
                           " B");
        t.shards.push_back({s.first, s.second, memory.size()});
        memory.resize(memory.size() + static_cast<std::size_t>(bytes), 0xff);
      }
    }
    return t;
  }
  void free(const Tensor& t) override {
    for (const auto& s : t.shards)
      if (t.space == Space::hbm) hbm_.erase(s.addr);
  }
  void write(const Tensor& t, std::size_t shard, const void* bytes, std::size_t size) override {
    std::memcpy(at(t.shards[shard].pe, t.space, t.shards[shard].addr, size), bytes, size);
  }
  void read(const Tensor& t, std::size_t shard, void* bytes, std::size_t size) override {
    std::memcpy(bytes, at(t.shards[shard].pe, t.space, t.shards[shard].addr, size), size);
  }

  LaunchResult launch(const KernelProgram& program, const LaunchOptions& options) override {
    std::vector<std::uint32_t> ranks = options.pes;
    if (ranks.empty())
      for (std::uint32_t r = 0; r < machine_.total_pes(); ++r) ranks.push_back(r);
    routes_.clear();
    messages_.clear();
    for (const auto& q : options.queues) routes_[{q.from, q.direction}] = {q.to, q.arrives_as};
    LaunchResult result;
    std::vector<std::unique_ptr<Port>> ports;
    for (const std::uint32_t rank : ranks) ports.push_back(std::make_unique<Port>(*this, rank));
    for (const auto& q : options.queues)
      for (auto& p : ports) p->add_peer(q);
    std::vector<std::string> failures(ranks.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < ranks.size(); ++i)
      threads.emplace_back([&, i] {
        try {
          program.run(*ports[i]);
        } catch (const std::exception& e) {
          failures[i] = e.what();
          if (failures[i].empty()) failures[i] = "unknown";
        }
      });
    for (auto& t : threads) t.join();
    for (const auto& f : failures)
      if (!f.empty()) throw ModelError(f);
    for (auto& p : ports) {
      PeStats s;
      s.id = p->id();
      s.dispatch = p->counts();
      s.done = p->now();
      result.end = std::max(result.end, s.done);
      result.pes.push_back(s);
    }
    return result;
  }
  LaunchResult run_transfers(const std::vector<DirectTransfer>&) override { return {}; }
  Ps host_copy(bool, std::uint64_t, std::uint64_t) override { return 0; }

 private:
  using Inbox = std::pair<std::uint32_t, Direction>;

  class Port : public EmitPort {
   public:
    Port(FunctionalHost& host, std::uint32_t rank)
        : EmitPort(host.machine_, host.machine_.pe_of(rank), host.mode_), host_(host), rank_(rank) {
      set_peers({});
      on_issue = [this](const Command& c) { carry_out(c); };
    }
    void add_peer(const QueueRoute& q) {
      if (q.from == rank_) peers_.set(static_cast<std::size_t>(q.direction));
      if (q.to == rank_) peers_.set(static_cast<std::size_t>(q.arrives_as));
      set_peers(peers_);
    }
    void wait(CommandId id, const char* why) override {
      const auto it = receives_.find(id);
      if (it == receives_.end()) return;
      const std::vector<std::uint8_t> bytes = host_.take({rank_, it->second.first}, name() + ", " + why);
      const TensorHandle& out = it->second.second;
      if (bytes.size() != out.bytes()) throw ModelError(name() + ", " + why + ": message of another size");
      std::memcpy(host_.at(rank_, out.space, out.addr, bytes.size()), bytes.data(), bytes.size());
      receives_.erase(it);
    }

   private:
    void carry_out(const Command& c) {
      if (c.kind == CommandKind::ipcq_recv) {
        receives_[c.id] = {c.direction, c.ops[0].out};
      } else if (c.kind == CommandKind::ipcq_send) {
        const TensorHandle& src = c.ops[0].operands[0].handle;
        const std::uint8_t* bytes = host_.at(rank_, src.space, src.addr, src.bytes());
        host_.put(host_.routes_.at({rank_, c.direction}), {bytes, bytes + src.bytes()});
      } else if (c.kind == CommandKind::dma_read || c.kind == CommandKind::dma_write || c.kind == CommandKind::copy) {
        store(c.ops[0].out, load(*c.ops[0].operand("src")));
      } else {
        const int gemm = c.gemm_index();
        for (std::size_t i = 0; i < c.ops.size(); ++i) {
          if (static_cast<int>(i) == gemm)
            multiply(c, c.ops[i]);
          else if (c.ops[i].scope == OpScope::kernel)
            math(c.ops[i]);
        }
      }
    }

    std::vector<float> load(const TensorHandle& h) {
      const std::uint8_t* base = host_.at(rank_, h.space, h.addr, h.extent_bytes());
      std::vector<float> values(static_cast<std::size_t>(h.shape.numel()));
      if (h.dense()) {
        num::load_f32(h.dtype, base, values.data(), values.size());
        return values;
      }
      for (std::size_t i = 0; i < values.size(); ++i) {
        std::int64_t rest = static_cast<std::int64_t>(i), at = 0;
        for (int axis = h.shape.rank() - 1; axis >= 0; --axis) {
          at += rest % h.shape[axis] * h.strides[static_cast<std::size_t>(axis)];
          rest /= h.shape[axis];
        }
        num::load_f32(h.dtype, base + at * size_of(h.dtype), &values[i], 1);
      }
      return values;
    }
    void store(const TensorHandle& h, const std::vector<float>& values) {
      num::store_f32(h.dtype, values.data(), host_.at(rank_, h.space, h.addr, h.bytes()), values.size());
    }

    /// Position by position, as the kernel API describes it.
    void causal_mask(const OpSpec& op) {
      const Shape& shape = op.out.shape;
      std::vector<float> out(static_cast<std::size_t>(shape.numel()));
      const double period = op.scalar("row_period", static_cast<double>(shape[0]));
      for (std::int64_t r = 0; r < shape[0]; ++r)
        for (std::int64_t c = 0; c < shape[1]; ++c) {
          const double query = op.scalar("row_pos") +
                               op.scalar("row_stride", 1) * static_cast<double>(r % static_cast<std::int64_t>(period));
          const double key = op.scalar("col_pos") + op.scalar("col_stride", 1) * static_cast<double>(c);
          out[static_cast<std::size_t>(r * shape[1] + c)] =
              key <= query ? 0.0f : -std::numeric_limits<float>::infinity();
        }
      store(op.out, out);
    }

    void math(const OpSpec& op) {
      if (op.kind == "causal_mask") return causal_mask(op);
      const MathOp& meaning = host_.table_.find(op, false);
      std::vector<std::vector<float>> inputs;
      std::vector<Values> values;
      for (const auto& name : meaning.operands) {
        const TensorHandle& h = *op.operand(name.c_str());
        inputs.push_back(load(h));
        values.push_back({h.shape, nullptr});
      }
      for (std::size_t i = 0; i < inputs.size(); ++i) values[i].data = inputs[i].data();
      std::vector<float> out(static_cast<std::size_t>(op.out.shape.numel()));
      if (meaning.transpose) {
        const std::int64_t rows = op.out.shape[0], cols = op.out.shape[1];
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < cols; ++c)
            out[static_cast<std::size_t>(r * cols + c)] = inputs[0][static_cast<std::size_t>(c * rows + r)];
      } else {
        evaluate(meaning, op, values.data(), values.size(), op.out.shape, out.data(), machine().vector_width, scratch_);
      }
      store(op.out, out);
    }

    void multiply(const Command& c, const OpSpec& gemm) {
      const auto m = static_cast<std::int64_t>(gemm.scalar("m")), k = static_cast<std::int64_t>(gemm.scalar("k")),
                 n = static_cast<std::int64_t>(gemm.scalar("n"));
      const std::vector<float> a = load(*gemm.operand("a")), b = load(*gemm.operand("b"));
      const auto element = [](const std::vector<float>& v, bool trans, std::int64_t i, std::int64_t j,
                              std::int64_t rows, std::int64_t cols) {
        return v[static_cast<std::size_t>(trans ? j * rows + i : i * cols + j)];
      };
      std::vector<float> sum(static_cast<std::size_t>(m * n), 0.0f), part(sum.size());
      const std::int64_t tile_k = machine().tile[1];
      for (std::int64_t k0 = 0; k0 < k; k0 += tile_k) {
        std::fill(part.begin(), part.end(), 0.0f);
        for (std::int64_t i = 0; i < m; ++i)
          for (std::int64_t x = k0; x < std::min(k, k0 + tile_k); ++x) {
            const float factor = element(a, gemm.trans_a, i, x, m, k);
            for (std::int64_t j = 0; j < n; ++j)
              part[static_cast<std::size_t>(i * n + j)] += factor * element(b, gemm.trans_b, x, j, k, n);
          }
        for (const auto& op : c.ops)
          if (op.scope == OpScope::k_tile) epilogue(op, part, m, n, k0 / tile_k);
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = k0 == 0 ? part[i] : sum[i] + part[i];
      }
      for (const auto& op : c.ops)
        if (op.scope == OpScope::output_tile && op.kind != "gemm") epilogue(op, sum, m, n, 0);
      store(gemm.out, sum);
    }

    void epilogue(const OpSpec& op, std::vector<float>& tile, std::int64_t m, std::int64_t n, std::int64_t k_tile) {
      const MathOp& meaning = host_.table_.find(op, true);
      std::vector<std::vector<float>> inputs;
      std::vector<Values> values;
      for (const auto& name : meaning.operands) {
        const TensorHandle* h = op.operand(name.c_str());
        if (h == nullptr) {
          inputs.push_back(tile);
          values.push_back({Shape{m, n}, nullptr});
          continue;
        }
        inputs.push_back(load(*h));
        Shape shape = h->shape;
        if (meaning.row_per_k_tile && op.scope == OpScope::k_tile && shape.rank() == 2 && shape[0] > 1) {
          const std::int64_t cols = shape[1];
          inputs.back() = {inputs.back().begin() + k_tile * cols, inputs.back().begin() + (k_tile + 1) * cols};
          shape = Shape{1, cols};
        }
        values.push_back({shape, nullptr});
      }
      for (std::size_t i = 0; i < inputs.size(); ++i) values[i].data = inputs[i].data();
      evaluate(meaning, op, values.data(), values.size(), Shape{m, n}, tile.data(), machine().vector_width, scratch_);
    }

    FunctionalHost& host_;
    std::uint32_t rank_;
    std::bitset<kDirections> peers_;
    std::map<CommandId, std::pair<Direction, TensorHandle>> receives_;
    std::vector<float> scratch_;
  };

  std::uint8_t* at(std::uint32_t rank, Space space, std::uint64_t addr, std::uint64_t bytes) {
    static std::uint8_t nothing = 0;
    if (bytes == 0) return &nothing;
    if (space == Space::tcm) {
      auto& memory = tcm_.at(rank);
      if (addr + bytes > memory.size()) throw ModelError("TCM offset " + std::to_string(addr) + " out of range");
      return memory.data() + addr;
    }
    auto it = hbm_.upper_bound(addr);
    if (it == hbm_.begin()) throw ModelError("address " + std::to_string(addr) + " is not allocated");
    --it;
    if (addr + bytes > it->first + it->second.size())
      throw ModelError("address " + std::to_string(addr) + " + " + std::to_string(bytes) + " is not allocated");
    return it->second.data() + (addr - it->first);
  }
  void put(const Inbox& inbox, std::vector<std::uint8_t> bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    messages_[inbox].push_back(std::move(bytes));
    arrived_.notify_all();
  }
  std::vector<std::uint8_t> take(const Inbox& inbox, const std::string& who) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!arrived_.wait_for(lock, std::chrono::seconds(10), [&] { return !messages_[inbox].empty(); }))
      throw ModelError(who + ": no message came");
    std::vector<std::uint8_t> bytes = std::move(messages_[inbox].front());
    messages_[inbox].pop_front();
    return bytes;
  }

  MachineInfo machine_;
  Mode mode_;
  MathTable table_ = MathTable::builtin();
  std::uint32_t last_id_ = 0;
  std::uint64_t next_hbm_ = 1 << 20;
  std::map<std::uint64_t, std::vector<std::uint8_t>> hbm_;
  std::vector<std::vector<std::uint8_t>> tcm_;
  std::map<std::pair<std::uint32_t, Direction>, Inbox> routes_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<Inbox, std::deque<std::vector<std::uint8_t>>> messages_;
};

}  // namespace kb::test
