#include <kb/kernels/attention.h>
#include <kb/tlm_if/errors.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace kb::attention {

using tl::as;
using tl::Context;
using tl::Handle;
using tl::into;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct VariantName {
  Variant variant;
  const char* name;
};
constexpr VariantName kVariants[] = {{Variant::primitive, "primitive"},
                                     {Variant::opt2, "opt2"},
                                     {Variant::hybrid, "hybrid"},
                                     {Variant::composite, "composite"},
                                     {Variant::composite_extended, "composite_extended"}};

/// K as it is stored for `count` tokens, and as the operand [d, count] of Q x K^T.
Shape stored_k(const Problem& p, std::int64_t count) {
  return p.k_transposed ? Shape{p.d, count} : Shape{count, p.d};
}
Handle k_operand(Context& tl, const Problem& p, const Handle& stored) {
  return p.k_transposed ? stored : tl.trans(stored);
}

Handle k_of(Context& tl, const Problem& p, const KvTile& tile) {
  const Shape shape = stored_k(p, tile.count);
  return k_operand(tl, p, tile.in_tcm ? tl.resident(tile.k_addr, shape, p.dtype) : tl.ref(tile.k_addr, shape, p.dtype));
}

Handle v_of(Context& tl, const Problem& p, const KvTile& tile) {
  const Shape shape{tile.count, p.d};
  return tile.in_tcm ? tl.resident(tile.v_addr, shape, p.dtype) : tl.ref(tile.v_addr, shape, p.dtype);
}

/// Elements of the largest [rows, tokens] and the largest tile among the steps.
struct Largest {
  std::int64_t scores = 0;
  std::int64_t tokens = 0;
};
Largest largest_of(const std::vector<Step>& steps) {
  Largest most;
  for (const auto& s : steps) {
    most.scores = std::max(most.scores, s.q.dim(0) * s.tile.count);
    most.tokens = std::max(most.tokens, s.tile.count);
  }
  return most;
}

/// Scaled (and masked) scores q x K^T as one composite into `buffer`.
Handle scores(Context& tl, const Problem& p, const Step& step, const Handle& buffer) {
  const std::int64_t rows = step.q.dim(0), count = step.tile.count;
  tl::Composite command = tl::gemm(step.q, k_of(tl, p, step.tile));
  command.epilogue("scale", {{"factor", p.scale()}});
  if (step.tile.mask) command.epilogue("add", {{"other", tl.causal_mask(rows, count, *step.tile.mask)}});
  return tl.composite(command.into(tl.slice(buffer, 0, Shape{rows, count})));
}

/// The softmax merge as kernel math: corrects m, l and O for a score tile and returns its probabilities in `p`.
Handle merge_scores(Context& tl, const Handle& s, const State& state, const Handle& p) {
  const Handle m_new = tl.maximum(state.m, tl.max(s, -1));
  tl.exp_diff(s, m_new, into(p));
  const Handle corr = tl.exp_diff(state.m, m_new);
  tl.fma(state.l, corr, tl.sum(p, -1, as(DType::f32)), into(state.l));
  tl.mul(state.o, corr, into(state.o));
  tl.copy_to(state.m, m_new);
  return p;
}

void fold_primitive(Context& tl, const Problem& p, const std::vector<Step>& steps) {
  const auto scope = tl.scratch_scope("kv");
  struct Operands {
    Handle k, v;  // as stored
  };
  Operands buffer[2];
  const bool any_in_hbm = std::any_of(steps.begin(), steps.end(), [](const Step& s) { return !s.tile.in_tcm; });
  for (int i = 0; any_in_hbm && i < 2; ++i) {
    const std::int64_t size = largest_of(steps).tokens * p.d;
    buffer[i] = {tl.empty({size}, p.dtype), tl.empty({size}, p.dtype)};
  }
  const auto fetch = [&](std::size_t j) {
    const KvTile& t = steps[j].tile;
    const Shape k_shape = stored_k(p, t.count), v_shape{t.count, p.d};
    if (t.in_tcm) return Operands{tl.resident(t.k_addr, k_shape, p.dtype), tl.resident(t.v_addr, v_shape, p.dtype)};
    return Operands{tl.load(t.k_addr, k_shape, p.dtype, into(tl.slice(buffer[j % 2].k, 0, k_shape))),
                    tl.load(t.v_addr, v_shape, p.dtype, into(tl.slice(buffer[j % 2].v, 0, v_shape)))};
  };
  Operands next = fetch(0);
  for (std::size_t j = 0; j < steps.size(); ++j) {
    const Operands now = next;
    if (j + 1 < steps.size()) next = fetch(j + 1);
    const auto tile_scope = tl.scratch_scope("tile");
    const auto& [q, state, tile] = steps[j];
    Handle s = tl.dot(q, k_operand(tl, p, now.k));
    s = tl.mul(s, p.scale(), into(s));
    if (tile.mask) s = tl.add(s, tl.causal_mask(q.dim(0), tile.count, *tile.mask), into(s));
    const Handle m_new = tl.maximum(state.m, tl.max(s, -1));
    const Handle prob = tl.exp_diff(s, m_new, as(p.dtype));
    const Handle corr = tl.exp_diff(state.m, m_new);
    const Handle l_scaled = state.l * corr;
    const Handle l_new = tl.add(l_scaled, tl.sum(prob, -1, as(DType::f32)), into(l_scaled));
    const Handle pv = tl.dot(prob, now.v);
    const Handle o_scaled = state.o * corr;
    const Handle o_new = tl.add(o_scaled, pv, into(o_scaled));
    tl.copy_to(state.m, m_new);
    tl.copy_to(state.l, l_new);
    tl.copy_to(state.o, o_new);
  }
}

/// GEMMs as composites, the merge as kernel math. With two buffers the next tile's scores need not wait for this
/// tile's probabilities to be used up.
void fold_hybrid(Context& tl, const Problem& p, const std::vector<Step>& steps, std::size_t buffers) {
  const auto scope = tl.scratch_scope("scores");
  const std::int64_t size = largest_of(steps).scores;
  Handle s_buffer[2], p_buffer[2];
  for (std::size_t i = 0; i < std::min(buffers, steps.size()); ++i) {
    s_buffer[i] = tl.empty({size}, DType::f32);
    p_buffer[i] = tl.empty({size}, p.dtype);
  }
  for (std::size_t j = 0; j < steps.size(); ++j) {
    const auto tile_scope = tl.scratch_scope("tile");
    const auto& [q, state, tile] = steps[j];
    const Handle s = scores(tl, p, steps[j], s_buffer[j % buffers]);
    const Handle prob = merge_scores(tl, s, state, tl.slice(p_buffer[j % buffers], 0, s.shape()));
    tl.composite(tl::gemm(prob, v_of(tl, p, tile)).epilogue("add", {{"other", state.o}}).into(state.o));
  }
}

/// Two composites per tile: scores, then softmax_merge with P x V.
void fold_recipe(Context& tl, const Problem& p, const std::vector<Step>& steps, std::size_t buffers) {
  const auto scope = tl.scratch_scope("scores");
  const std::int64_t size = largest_of(steps).scores;
  Handle s_buffer[2];
  for (std::size_t i = 0; i < std::min(buffers, steps.size()); ++i) s_buffer[i] = tl.empty({size}, DType::f32);
  for (std::size_t j = 0; j < steps.size(); ++j) {
    const auto tile_scope = tl.scratch_scope("tile");
    const auto& [q, state, tile] = steps[j];
    const Handle s = scores(tl, p, steps[j], s_buffer[j % buffers]);
    tl.composite(tl::gemm_from_prologue(v_of(tl, p, tile))
                     .prologue("softmax_merge", {{"s", s}, {"m", state.m}, {"l", state.l}, {"O", state.o}})
                     .epilogue("add", {{"other", state.o}})
                     .into(state.o));
  }
}

}  // namespace

const char* name_of(Variant v) {
  for (const auto& e : kVariants)
    if (e.variant == v) return e.name;
  return "?";
}

Variant variant_from_name(const std::string& name) {
  std::string all;
  for (const auto& e : kVariants) {
    if (name == e.name) return e.variant;
    all += (all.empty() ? "" : " | ") + std::string(e.name);
  }
  throw InputError("variant: found '" + name + "'; allowed: " + all);
}

double Problem::scale() const {
  return 1.0 / std::sqrt(static_cast<double>(d));
}

State make_state(Context& tl, std::int64_t rows, std::int64_t d) {
  return {tl.empty({rows, 1}, DType::f32), tl.empty({rows, 1}, DType::f32), tl.empty({rows, d}, DType::f32)};
}

void reset(Context& tl, const State& state) {
  tl.fill(state.m, -kInf);
  tl.fill(state.l, 0);
  tl.fill(state.o, 0);
}

void fold(Context& tl, const Problem& problem, const std::vector<Step>& steps) {
  if (steps.empty()) return;
  switch (problem.variant) {
    case Variant::primitive: return fold_primitive(tl, problem, steps);
    case Variant::opt2: return fold_recipe(tl, problem, steps, 2);
    case Variant::hybrid: return fold_hybrid(tl, problem, steps, 2);
    case Variant::composite: return fold_hybrid(tl, problem, steps, 1);
    case Variant::composite_extended: return fold_recipe(tl, problem, steps, 1);
  }
}

void fold(Context& tl, const Problem& problem, const Handle& q, const State& state, const std::vector<KvTile>& tiles) {
  std::vector<Step> steps;
  steps.reserve(tiles.size());
  for (const auto& tile : tiles) steps.push_back({q, state, tile});
  fold(tl, problem, steps);
}

void merge(Context& tl, const State& state, const Handle& m, const Handle& l, const Handle& o) {
  const Handle m_new = tl.maximum(state.m, m);
  const Handle mine = tl.exp_diff(state.m, m_new);
  const Handle theirs = tl.exp_diff(m, m_new);
  tl.fma(state.l, mine, tl.mul(l, theirs, into(l)), into(state.l));
  tl.fma(state.o, mine, tl.mul(o, theirs, into(o)), into(state.o));
  tl.copy_to(state.m, m_new);
}

Handle normalised(Context& tl, const State& state, DType dtype) {
  return tl.div(state.o, tl.maximum(state.l, 1e-30), as(dtype));
}

void reduce(Context& tl, const ReductionPlan& plan, std::uint32_t cell, GridLevel level, const State& state) {
  const auto toward = [&](std::uint32_t other) { return direction_of(level, *plan.grid().compass(cell, other)); };
  const auto phase = tl.reduction_phase();
  for (const std::uint32_t sender : plan.senders(cell)) {
    const auto scope = tl.scratch_scope("merge");
    const Direction from = toward(sender);
    const Handle m = tl.recv(from, state.m.shape(), DType::f32);
    const Handle l = tl.recv(from, state.l.shape(), DType::f32);
    const Handle o = tl.recv(from, state.o.shape(), DType::f32);
    merge(tl, state, m, l, o);
  }
  if (const auto receiver = plan.receiver(cell)) {
    const Direction to = toward(*receiver);
    const auto slot = tl.machine().ipcq_slot_bytes;
    for (const Handle& h : {state.m, state.l, state.o}) tl.send(to, h, h.bytes() > slot);
  }
}

std::int64_t chunk_tokens(const Problem& problem, std::int64_t rows, std::int64_t local, std::uint64_t scratch_bytes) {
  const auto per_token = static_cast<std::uint64_t>(rows) * (size_of(DType::f32) + size_of(problem.dtype));
  const auto most = std::max<std::int64_t>(1, static_cast<std::int64_t>(scratch_bytes / 4 * 3 / per_token));
  const std::int64_t pieces = std::max<std::int64_t>(1, tl::cdiv(local, most));
  return std::max<std::int64_t>(1, tl::cdiv(local, pieces));
}

std::vector<TokenBlock> blocks_of(const Problem& problem, std::int64_t rows, const TokenPlacement& placement,
                                  std::uint32_t pe, std::uint64_t scratch_bytes) {
  if (!is_chunked(problem.variant)) return placement.tiles(pe, problem.tile);
  const std::int64_t local = placement.count(pe), chunk = chunk_tokens(problem, rows, local, scratch_bytes);
  std::vector<TokenBlock> all;
  for (std::int64_t at = 0; at < local; at += chunk) all.push_back({at, std::min(chunk, local - at)});
  return all;
}

}  // namespace kb::attention
