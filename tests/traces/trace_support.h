// Records, commands and files for tests of the traces.
#pragma once

#include <kb/tlm_if/op_log.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace kb::test {

/// A directory that goes with the test.
class TempDir {
 public:
  TempDir() {
    char name[] = "/tmp/kb_traces_XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~TempDir() {
    const std::string command = "rm -rf '" + path_ + "'";
    if (std::system(command.c_str()) != 0) std::perror("rm");
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline void spit(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline bool exists(const std::string& path) {
  return std::ifstream(path).good();
}

inline TensorHandle view(std::uint32_t id, const Shape& shape, DType dtype, Space space, std::uint64_t addr) {
  return make_handle(id, shape, dtype, space, addr, space == Space::tcm);
}

/// A GEMM with a prologue, epilogues, views, infinities and transposition: everything that a log can carry.
inline CommandPtr rich_command(CommandId id) {
  auto c = std::make_shared<Command>();
  c->kind = CommandKind::composite;
  c->id = id;
  OpSpec full;
  full.kind = "full";
  full.has_out = true;
  full.out = view(1, {4, 8}, DType::f32, Space::tcm, 64);
  full.extra = {{"value", -std::numeric_limits<double>::infinity()}, {"third", 1.0 / 3}, {"minus_zero", -0.0}};
  OpSpec gemm;
  gemm.kind = "gemm";
  TensorHandle a = view(2, {4, 8}, DType::f16, Space::tcm, 4096);
  a.strides = {1, 4, 0, 0};
  gemm.operands = {{"a", a}, {"b", view(3, {4, 8}, DType::f16, Space::hbm, 1ull << 50)}};
  gemm.extra = {{"m", 4}, {"k", 8}, {"n", 4}};
  gemm.has_out = true;
  gemm.out = view(4, {4, 4}, DType::bf16, Space::hbm, 12345678);
  gemm.trans_b = true;
  OpSpec scale;
  scale.kind = "scale";
  scale.scope = OpScope::output_tile;
  scale.extra = {{"factor", 0.08838834764831845}};
  c->ops = {full, gemm, scale};
  c->rw_handles = {view(5, {}, DType::i32, Space::sram, 0), view(6, {0, 3}, DType::i8, Space::tcm, 7)};
  return c;
}

inline CommandPtr queue_command(CommandId id, CommandKind kind, Direction direction) {
  auto c = std::make_shared<Command>();
  c->kind = kind;
  c->id = id;
  c->direction = direction;
  c->split = true;
  c->consume = false;
  OpSpec op;
  op.kind = name_of(kind);
  op.operands = {{"src", view(9, {16}, DType::f32, Space::tcm, 0)}};
  c->ops = {op};
  return c;
}

/// One record of every name, with every field set that can be; some large.
inline std::vector<OpRecord> rich_records() {
  std::vector<OpRecord> list;
  const CommandPtr rich = rich_command(1), send = queue_command(2, CommandKind::ipcq_send, Direction::global_W);
  Ps t = 0;
  std::uint64_t number = 0;
  const auto add = [&](OpName name, OpKind kind, const CommandPtr& c) -> OpRecord& {
    OpRecord r;
    r.t_start = t;
    r.t_end = t += 1001;
    r.name = name;
    r.kind = kind;
    r.command = c;
    r.component = static_cast<std::uint32_t>(kind) * 2;
    r.number = number++;
    if (c) r.pe = 3;
    list.push_back(r);
    return list.back();
  };
  add(OpName::launch, OpKind::control, nullptr);
  OpRecord& accept = add(OpName::command, OpKind::control, rich);
  accept.block_m = 3;
  accept.block_n = 2;
  accept.m_outer = false;
  accept.plan_bytes = 1ull << 63;
  for (TileRole role : {TileRole::a, TileRole::b, TileRole::out, TileRole::none}) {
    OpRecord& r = add(role == TileRole::out ? OpName::dma_write : OpName::dma_read, OpKind::memory, rich);
    r.role = role;
    r.op = 1;
    r.tile_m = 2;
    r.tile_k = 2147483647;
    r.address = 0xffffffffffffffffull;
    r.bytes = 4096;
    r.path_ps = 75001;
    r.t_ready = 0;
  }
  OpRecord& gemm = add(OpName::gemm, OpKind::gemm, rich);
  gemm.op = 1;
  gemm.tile_m = gemm.tile_n = gemm.tile_k = 0;
  gemm.m = 4;
  gemm.k = 8;
  gemm.n = 4;
  OpRecord& math = add(OpName::math, OpKind::math, rich);
  math.op = 2;
  math.elements = 16;
  add(OpName::fetch, OpKind::memory, rich).bytes = 5;
  add(OpName::store, OpKind::memory, rich).bytes = 6;
  add(OpName::mem_read, OpKind::memory, nullptr).bytes = 256;
  add(OpName::mem_write, OpKind::memory, nullptr);
  add(OpName::command, OpKind::control, send);
  add(OpName::command_done, OpKind::control, rich);
  add(OpName::command_done, OpKind::control, send);
  for (OpName name : {OpName::send, OpName::slot_write, OpName::recv, OpName::credit}) {
    OpRecord& r = add(name, OpKind::ipcq, send);
    r.peer = 7;
    r.arrives = Direction::global_E;
    if (r.has_message()) r.message = 11;
    r.bytes = name == OpName::credit ? 0 : 64;
  }
  add(OpName::launch_done, OpKind::control, nullptr).t_end = 4611686018427387904;
  return list;
}

inline ComponentTable rich_components() {
  ComponentTable t;
  for (const char* name :
       {"tray.sip0.cube0.pe0.dma", "tray.sip0.cube0.pe0.tcm", "tray.sip0.cube0.pe0.gemm", "\"odd\\name\n\"",
        "tray.sip0.cube0.pe0.math", "tray.sip0.cube0.hbm0", "tray.sip0.cube0.pe0.ipcq", "", "tray.host"})
    t.add(name);
  return t;
}

}  // namespace kb::test
