#include <kb/tlm_if/command.h>

namespace kb {

const char* name_of(CommandKind k) {
  static constexpr const char* kNames[] = {"dma_read", "dma_write", "gemm",      "math",
                                           "copy",     "composite", "ipcq_send", "ipcq_recv"};
  return kNames[static_cast<int>(k)];
}

const char* name_of(OpScope s) {
  static constexpr const char* kNames[] = {"kernel", "k_tile", "output_tile"};
  return kNames[static_cast<int>(s)];
}

const char* name_of(Direction d) {
  static constexpr const char* kNames[] = {"N",       "S",       "E",        "W",        "intra_N",  "intra_S",
                                           "intra_E", "intra_W", "global_N", "global_S", "global_E", "global_W"};
  return kNames[static_cast<int>(d)];
}

const TensorHandle* OpSpec::operand(const char* name) const {
  for (const auto& o : operands)
    if (o.name == name) return &o.handle;
  return nullptr;
}

double OpSpec::scalar(const char* name, double fallback) const {
  for (const auto& s : extra)
    if (s.name == name) return s.value;
  return fallback;
}

bool OpSpec::has_scalar(const char* name) const {
  for (const auto& s : extra)
    if (s.name == name) return true;
  return false;
}

std::uint32_t OpSpec::logical_bytes() const {
  return static_cast<std::uint32_t>(2 + (1 + 8 * operands.size()) + (has_out ? 8 : 0) + (1 + 4 * extra.size()));
}

int Command::gemm_index() const {
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (ops[i].kind == "gemm") return static_cast<int>(i);
  return -1;
}

std::uint32_t Command::logical_bytes() const {
  std::uint32_t bytes = 4;
  for (const auto& op : ops) bytes += op.logical_bytes();
  if (kind == CommandKind::composite) bytes += 2 + 8 * static_cast<std::uint32_t>(rw_handles.size());
  return bytes;
}

CommandRanges ranges_of(const Command& command) {
  CommandRanges r;
  auto add = [](std::vector<AddressRange>& to, const TensorHandle& h) {
    const AddressRange range = range_of(h);
    if (range.begin != range.end) to.push_back(range);
  };
  for (const auto& op : command.ops) {
    for (const auto& o : op.operands) add(r.reads, o.handle);
    if (op.has_out) add(r.writes, op.out);
  }
  for (const auto& h : command.rw_handles) {
    add(r.reads, h);
    add(r.writes, h);
  }
  return r;
}

}  // namespace kb
