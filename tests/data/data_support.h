// A flat memory, and a maker of the records that a run of a command leaves behind.
#pragma once

#include <kb/platform/data_pass.h>
#include <kb/platform/math_table.h>
#include <kb/platform/memory_view.h>
#include <kb/tlm_if/errors.h>
#include <kb/tlm_if/numerics.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace kb::test {

/// One HBM for everybody and a TCM per PE; 0xff bytes (NaN) where nothing was written.
class FlatMemory : public MemoryView {
 public:
  explicit FlatMemory(std::uint32_t pes, std::size_t hbm = 1 << 22, std::size_t tcm = 1 << 22)
      : hbm_(hbm, 0xff), tcm_(pes, std::vector<unsigned char>(tcm, 0xff)) {}

  void read(std::uint32_t pe, Space space, std::uint64_t addr, void* to, std::size_t bytes) override {
    ++accesses;
    std::memcpy(to, at(pe, space, addr, bytes), bytes);
  }
  void write(std::uint32_t pe, Space space, std::uint64_t addr, const void* from, std::size_t bytes) override {
    ++accesses;
    std::memcpy(at(pe, space, addr, bytes), from, bytes);
  }

  std::uint64_t accesses = 0;

 private:
  unsigned char* at(std::uint32_t pe, Space space, std::uint64_t addr, std::size_t bytes) {
    auto& bank = space == Space::tcm ? tcm_.at(pe) : hbm_;
    if (addr + bytes > bank.size()) throw ModelError("address " + std::to_string(addr) + " is not backed by memory");
    return bank.data() + addr;
  }

  std::vector<unsigned char> hbm_;
  std::vector<std::vector<unsigned char>> tcm_;
};

/// Writes and reads handles element by element, by address arithmetic only.
class Tensors {
 public:
  explicit Tensors(MemoryView& memory) : memory_(memory) {}

  void put(const TensorHandle& h, const std::vector<double>& values, std::uint32_t pe = 0) {
    each(h, [&](std::uint64_t addr, std::size_t i) {
      unsigned char raw[4];
      const auto f = static_cast<float>(values.at(i));
      const auto n = static_cast<std::int32_t>(values.at(i));
      if (is_float(h.dtype))
        num::store_f32(h.dtype, &f, raw, 1);
      else
        num::store_i32(h.dtype, &n, raw, 1);
      memory_.write(pe, h.space, addr, raw, size_of(h.dtype));
    });
  }
  std::vector<double> get(const TensorHandle& h, std::uint32_t pe = 0) {
    std::vector<double> values;
    each(h, [&](std::uint64_t addr, std::size_t) {
      unsigned char raw[4];
      memory_.read(pe, h.space, addr, raw, size_of(h.dtype));
      if (is_float(h.dtype)) {
        float f;
        num::load_f32(h.dtype, raw, &f, 1);
        values.push_back(static_cast<double>(f));
      } else {
        std::int32_t n;
        num::load_i32(h.dtype, raw, &n, 1);
        values.push_back(n);
      }
    });
    return values;
  }

 private:
  template <typename F>
  static void each(const TensorHandle& h, F f) {
    const auto dim = [&](int i) { return i < h.shape.rank() ? h.shape[i] : 1; };
    std::size_t count = 0;
    for (std::int64_t i = 0; i < dim(0); ++i)
      for (std::int64_t j = 0; j < dim(1); ++j)
        for (std::int64_t k = 0; k < dim(2); ++k)
          for (std::int64_t l = 0; l < dim(3); ++l)
            f(h.addr + static_cast<std::uint64_t>(i * h.strides[0] + j * h.strides[1] + k * h.strides[2] +
                                                  l * h.strides[3]) *
                           size_of(h.dtype),
              count++);
  }

  MemoryView& memory_;
};

inline TensorHandle tensor(const Shape& shape, DType dtype, Space space, std::uint64_t addr, bool pinned = true) {
  static std::uint32_t id = 0;
  return make_handle(++id, shape, dtype, space, addr, pinned);
}

inline OpSpec math_op(const std::string& kind, std::vector<Operand> operands, const TensorHandle& out,
                      std::vector<Scalar> extra = {}) {
  OpSpec op;
  op.kind = kind;
  op.operands = std::move(operands);
  op.extra = std::move(extra);
  op.has_out = true;
  op.out = out;
  return op;
}

inline OpSpec epilogue(const std::string& kind, OpScope scope, std::vector<Operand> operands = {},
                       std::vector<Scalar> extra = {}) {
  OpSpec op;
  op.kind = kind;
  op.scope = scope;
  op.operands = std::move(operands);
  op.extra = std::move(extra);
  return op;
}

inline OpSpec gemm_op(const TensorHandle& a, const TensorHandle& b, const TensorHandle& out, bool trans_a = false,
                      bool trans_b = false) {
  OpSpec op = math_op("gemm", {{"a", a}, {"b", b}}, out);
  op.trans_a = trans_a;
  op.trans_b = trans_b;
  op.extra = {{"m", static_cast<double>(out.shape[0])},
              {"k", static_cast<double>(a.shape[trans_a ? 0 : 1])},
              {"n", static_cast<double>(out.shape[1])}};
  return op;
}

inline CommandPtr command(CommandKind kind, std::vector<OpSpec> ops, CommandId id = 1) {
  auto c = std::make_shared<Command>();
  c->kind = kind;
  c->id = id;
  c->ops = std::move(ops);
  return c;
}

/// Collects records with ascending times and numbers.
class Records {
 public:
  explicit Records(const MachineInfo& machine) : machine_(machine) {}

  std::vector<OpRecord> list;
  std::uint32_t block_m = 1, block_n = 1;

  OpRecord& add(OpName name, OpKind kind, const CommandPtr& c, std::uint32_t pe = 0) {
    OpRecord r;
    r.t_start = time_;
    r.t_end = time_ += 1000;
    r.name = name;
    r.kind = kind;
    r.command = c;
    r.pe = pe;
    r.component = static_cast<std::uint32_t>(kind);
    r.number = numbers_[r.component]++;
    list.push_back(r);
    return list.back();
  }

  void accept(const CommandPtr& c, std::uint32_t pe = 0) {
    const bool queued = c->kind == CommandKind::ipcq_send || c->kind == CommandKind::ipcq_recv;
    OpRecord& r = add(OpName::command, queued ? OpKind::ipcq : OpKind::control, c, pe);
    r.block_m = block_m;
    r.block_n = block_n;
  }
  void done(const CommandPtr& c, std::uint32_t pe = 0) { add(OpName::command_done, OpKind::control, c, pe); }

  OpRecord& math(const CommandPtr& c, int op, std::uint32_t pe = 0) {
    OpRecord& r = add(OpName::math, OpKind::math, c, pe);
    r.op = static_cast<std::int16_t>(op);
    const OpSpec& spec = c->ops[static_cast<std::size_t>(op)];
    r.elements = static_cast<std::uint64_t>(spec.out.shape.numel());
    for (const auto& o : spec.operands)
      r.elements = std::max(r.elements, static_cast<std::uint64_t>(o.handle.shape.numel()));
    return r;
  }

  void single(const CommandPtr& c, std::uint32_t pe = 0) {
    accept(c, pe);
    math(c, 0, pe);
    done(c, pe);
  }

  void transfer(const CommandPtr& c, std::uint32_t pe = 0) {
    accept(c, pe);
    const bool read = c->kind == CommandKind::dma_read;
    OpRecord& r = add(read ? OpName::dma_read : OpName::dma_write, OpKind::memory, c, pe);
    const OpSpec& op = c->ops[0];
    r.op = 0;
    r.bytes = op.operands[0].handle.bytes();
    r.address = read ? op.operands[0].handle.addr : op.out.addr;
    done(c, pe);
  }

  /// All of a command with a GEMM, block after block; within a block k is the outer loop.
  void gemm(const CommandPtr& c, std::uint32_t pe = 0) {
    const auto g = static_cast<std::size_t>(c->gemm_index());
    const OpSpec& op = c->ops[g];
    const std::int64_t m = static_cast<std::int64_t>(op.scalar("m")), k = static_cast<std::int64_t>(op.scalar("k")),
                       n = static_cast<std::int64_t>(op.scalar("n"));
    const std::int64_t tm = machine_.tile[0], tk = machine_.tile[1], tn = machine_.tile[2];
    const std::int64_t rows = ceil_div(m, tm), deep = ceil_div(k, tk), cols = ceil_div(n, tn);
    accept(c, pe);
    for (std::size_t i = 0; i < g; ++i)
      if (c->ops[i].scope == OpScope::kernel) math(c, static_cast<int>(i), pe);
    for (std::int64_t i0 = 0; i0 < rows; i0 += block_m)
      for (std::int64_t j0 = 0; j0 < cols; j0 += block_n) {
        const std::int64_t i1 = std::min<std::int64_t>(rows, i0 + block_m),
                           j1 = std::min<std::int64_t>(cols, j0 + block_n);
        for (std::int64_t q = 0; q < deep; ++q)
          for (std::int64_t i = i0; i < i1; ++i)
            for (std::int64_t j = j0; j < j1; ++j) {
              const auto tile = [&](OpRecord& r) -> OpRecord& {
                r.tile_m = static_cast<std::int32_t>(i);
                r.tile_n = static_cast<std::int32_t>(j);
                r.tile_k = static_cast<std::int32_t>(q);
                r.m = std::min(tm, m - i * tm);
                r.n = std::min(tn, n - j * tn);
                r.k = std::min(tk, k - q * tk);
                return r;
              };
              // Tile (i, j) of a stored matrix lies after all tiles before it in row-major tile order.
              const auto blocked = [](const TensorHandle& h, std::int64_t cols_, std::int64_t ti, std::int64_t tj,
                                      std::int64_t tr, std::int64_t tc, std::int64_t height) {
                return h.addr + static_cast<std::uint64_t>(ti * tr * cols_ + height * tj * tc) * size_of(h.dtype);
              };
              const auto read = [&](TileRole role, std::uint64_t address, std::int64_t elements, DType dtype) {
                OpRecord& r = tile(add(OpName::dma_read, OpKind::memory, c, pe));
                r.role = role;
                r.address = address;
                r.bytes = static_cast<std::uint64_t>(elements) * size_of(dtype);
                if (role == TileRole::a)
                  r.tile_n = -1;
                else
                  r.tile_m = -1;
              };
              const TensorHandle& a = *op.operand("a");
              const TensorHandle& b = *op.operand("b");
              const std::int64_t sm = std::min(tm, m - i * tm), sk = std::min(tk, k - q * tk),
                                 sn = std::min(tn, n - j * tn);
              if (!a.pinned && j == j0)
                read(TileRole::a, op.trans_a ? blocked(a, m, q, i, tk, tm, sk) : blocked(a, k, i, q, tm, tk, sm),
                     sm * sk, a.dtype);
              if (!b.pinned && i == i0)
                read(TileRole::b, op.trans_b ? blocked(b, k, j, q, tn, tk, sn) : blocked(b, n, q, j, tk, tn, sk),
                     sk * sn, b.dtype);
              tile(add(OpName::fetch, OpKind::memory, c, pe));
              tile(add(OpName::gemm, OpKind::gemm, c, pe)).op = static_cast<std::int16_t>(g);
              const auto epilogues = [&](OpScope scope) {
                for (std::size_t e = 0; e < c->ops.size(); ++e)
                  if (c->ops[e].scope == scope) {
                    OpRecord& r = tile(add(OpName::math, OpKind::math, c, pe));
                    r.op = static_cast<std::int16_t>(e);
                    r.elements = static_cast<std::uint64_t>(sm * sn);
                    if (scope == OpScope::output_tile) r.tile_k = -1;
                  }
              };
              epilogues(OpScope::k_tile);
              if (q + 1 < deep) continue;
              epilogues(OpScope::output_tile);
              OpRecord& store = tile(add(OpName::store, OpKind::memory, c, pe));
              store.tile_k = -1;
              store.bytes = static_cast<std::uint64_t>(sm * sn) * size_of(op.out.dtype);
              if (op.out.space == Space::tcm) continue;
              OpRecord& write = tile(add(OpName::dma_write, OpKind::memory, c, pe));
              write.role = TileRole::out;
              write.tile_k = -1;
              write.bytes = static_cast<std::uint64_t>(sm * sn) * size_of(op.out.dtype);
              write.address = blocked(op.out, n, i, j, tm, tn, sm);
            }
      }
    for (std::size_t i = g + 1; i < c->ops.size(); ++i)
      if (c->ops[i].scope == OpScope::kernel) math(c, static_cast<int>(i), pe);
    done(c, pe);
  }

 private:
  const MachineInfo machine_;
  Ps time_ = 0;
  std::uint64_t numbers_[5] = {};
};

inline std::vector<double> random_values(std::size_t n, std::uint32_t seed, DType dtype = DType::f32) {
  std::mt19937 engine(seed);
  std::vector<double> values(n);
  for (auto& v : values) {
    // Sum of uniforms: bell-shaped, and the same everywhere, unlike std::normal_distribution.
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += engine() / 4294967296.0;
    v = static_cast<double>(
        num::round_to(dtype, static_cast<float>(dtype == DType::i8 || dtype == DType::i32 ? sum * 40 : sum)));
  }
  return values;
}

}  // namespace kb::test
