#include <kb/kernels/collectives/plan.h>
#include <kb/tlm_if/errors.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace kb::collectives {

namespace {

std::uint32_t index_of(const std::vector<std::string>& names, const std::string& name, const char* what) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<std::uint32_t>(found - names.begin());
  std::string all;
  for (const auto& n : names) all += (all.empty() ? "" : " | ") + n;
  throw InputError(std::string(what) + ": found '" + name + "'; allowed: " + all);
}

bool reduces(Op op) {
  return op == Op::all_reduce || op == Op::reduce_scatter || op == Op::reduce_to_root;
}

std::vector<std::uint32_t> first_ranks(std::uint32_t count) {
  std::vector<std::uint32_t> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0u);
  return ranks;
}

}  // namespace

const char* name_of(Op op) {
  return kOpNames[static_cast<std::size_t>(op)].c_str();
}
const char* name_of(Algo algo) {
  return kAlgoNames[static_cast<std::size_t>(algo)].c_str();
}
Op op_from_name(const std::string& name) {
  return static_cast<Op>(index_of(kOpNames, name, "op"));
}
Algo algo_from_name(const std::string& name) {
  return static_cast<Algo>(index_of(kAlgoNames, name, "algo"));
}

Plan Plan::make(const MachineInfo& machine, const Spec& given) {
  Spec spec = given;
  const bool by_sip = spec.algo == Algo::hierarchical;
  const std::uint32_t all = by_sip ? machine.sips : machine.total_pes();
  if (spec.world == 0) spec.world = all;
  if (spec.world > all)
    throw InputError("world: found " + std::to_string(spec.world) + (by_sip ? " SIPs" : " ranks") + "; allowed: 1 .. " +
                     std::to_string(all));
  if (spec.n_elem < 1) throw InputError("n_elem: found " + std::to_string(spec.n_elem) + "; allowed: 1 and above");
  if (!is_float(spec.dtype))
    throw InputError(std::string("dtype: found ") + kb::name_of(spec.dtype) + "; allowed: f16 | bf16 | f32");
  if (spec.chunk_bytes < size_of(spec.dtype))
    throw InputError("chunk_bytes: found " + std::to_string(spec.chunk_bytes) + "; allowed: an element, " +
                     std::to_string(size_of(spec.dtype)) + ", and above");
  Plan plan(machine, spec);
  switch (spec.algo) {
    case Algo::ring_1d: plan.make_ring(machine); break;
    case Algo::mesh:
    case Algo::tree: plan.make_tree(machine); break;
    case Algo::hierarchical: plan.make_hierarchical(machine); break;
  }
  if ((spec.algo == Algo::tree || spec.algo == Algo::hierarchical) && spec.root != 0 && spec.root != plan.root_)
    throw InputError("root: found " + std::to_string(spec.root) + "; allowed with algo " + name_of(spec.algo) +
                     ": its own, " + std::to_string(plan.root_));
  if (!reduces(spec.op)) plan.order_ = "nothing is summed" + (plan.order_.empty() ? "" : "; " + plan.order_);
  return plan;
}

void Plan::make_ring(const MachineInfo& machine) {
  participants_ = first_ranks(spec_.world);
  root_ = spec_.root;
  if (root_ >= spec_.world)
    throw InputError("root: found " + std::to_string(root_) +
                     "; allowed: a rank below world = " + std::to_string(spec_.world));
  ring_.emplace(queues_, snake_order(machine, spec_.world), Direction::E, Direction::W, true);
  steps_ = (spec_.op == Op::all_reduce ? 2 : 1) * (spec_.world - 1);
  switch (spec_.op) {
    case Op::all_reduce:
    case Op::reduce_scatter:
      order_ = "a chunk starts at the rank after its owner and runs along the ring, the owner adds last";
      break;
    case Op::reduce_to_root: order_ = "from the rank after the root along the ring, the root adds last"; break;
    case Op::all_gather:
    case Op::broadcast: break;
  }
}

void Plan::make_tree(const MachineInfo& machine) {
  participants_ = first_ranks(spec_.world);
  const RankTree ranks = spec_.algo == Algo::tree ? RankTree::tree(machine, spec_.world)
                                                  : RankTree::mesh(machine, spec_.world, spec_.root);
  root_ = ranks.root();
  const bool climbs = spec_.op != Op::broadcast, descends = spec_.op != Op::reduce_to_root;
  tree_.emplace(queues_, ranks, climbs, descends);
  steps_ = ((climbs ? 1 : 0) + (descends ? 1 : 0)) * ranks.rounds();
  order_ = ranks.text();
}

void Plan::make_hierarchical(const MachineInfo& machine) {
  // All-reduces between the SIPs' roots need wrap-around links to pay; without them the SIPs' tree goes on upwards.
  const bool exchanges =
      spec_.op == Op::all_reduce && machine.sip_fabric != SipFabric::mesh_2d_no_wrap && spec_.world > 1;
  const RankTree ranks = RankTree::centre(machine, spec_.world, !exchanges);
  participants_ = ranks.ranks();
  root_ = ranks.root();
  const bool climbs = spec_.op != Op::broadcast, descends = spec_.op != Op::reduce_to_root;
  tree_.emplace(queues_, ranks, climbs, descends);
  steps_ = ((climbs ? 1 : 0) + (descends ? 1 : 0)) * ranks.rounds();
  order_ = ranks.text();
  if (!exchanges) return;
  std::vector<std::uint32_t> roots;
  for (const std::uint32_t rank : participants_)
    if (!ranks.node(rank).parent) roots.push_back(rank);
  make_exchange(machine, roots);
}

void Plan::make_exchange(const MachineInfo& machine, const std::vector<std::uint32_t>& roots) {
  const auto count = static_cast<std::uint32_t>(roots.size());
  const std::uint32_t cols = machine.sip_cols;
  std::vector<std::uint32_t> sips = first_ranks(count);
  if (machine.sip_fabric == SipFabric::torus_2d && count % cols == 0 && count > cols) {
    std::vector<std::vector<std::uint32_t>> rows(count / cols), columns(cols);
    for (const std::uint32_t s : sips) {
      rows[s / cols].push_back(roots[s]);
      columns[s % cols].push_back(roots[s]);
    }
    add_rings(std::move(rows), Direction::global_E, Direction::global_W);
    add_rings(std::move(columns), Direction::global_S, Direction::global_N);
    order_ += "; SIPs: ring all-reduce in each row, then in each column";
    return;
  }
  // A torus whose last row is short has no columns of one length.
  if (machine.sip_fabric == SipFabric::torus_2d) sips = snake_cells(cols, count);
  std::vector<std::uint32_t> order;
  for (const std::uint32_t s : sips) order.push_back(roots[s]);
  add_rings({order}, Direction::global_E, Direction::global_W);
  order_ += "; SIPs: ring all-reduce";
}

void Plan::add_rings(std::vector<std::vector<std::uint32_t>> orders, Direction next, Direction previous) {
  Exchange exchange;
  std::uint32_t longest = 1;
  for (auto& order : orders) {
    exchange.rings.emplace_back(queues_, std::move(order), next, previous, false);
    longest = std::max(longest, exchange.rings.back().size());
  }
  steps_ += 2 * (longest - 1);
  exchanges_.push_back(std::move(exchange));
}

Moves Plan::moves(std::uint32_t rank) const {
  const std::int64_t n = spec_.n_elem, piece = piece_elements(spec_.chunk_bytes, spec_.dtype);
  if (ring_) {
    const RingPlace place = ring_->place(rank);
    switch (spec_.op) {
      case Op::all_reduce: return ring_all_reduce(place, n, piece);
      case Op::reduce_scatter: return ring_reduce_scatter(place, n, piece);
      case Op::all_gather: return ring_all_gather(place, n, piece);
      case Op::broadcast: return ring_broadcast(place, ring_->position(root_), n, piece);
      case Op::reduce_to_root: return ring_reduce(place, ring_->position(root_), n, piece);
    }
  }
  const TreePlace place = tree_->place(rank);
  Moves moves;
  switch (spec_.op) {
    case Op::all_reduce:
      if (exchanges_.empty()) return tree_all_reduce(place, n, piece, 2 * tree_->ranks().rounds());
      moves = tree_reduce(place, n, piece);
      for (const Exchange& exchange : exchanges_)
        for (const Ring& ring : exchange.rings)
          if (ring.has(rank)) moves += ring_all_reduce(ring.place(rank), n, piece);
      return moves += tree_broadcast(place, n, piece);
    case Op::reduce_scatter: moves = tree_reduce(place, n, piece); return moves += tree_scatter(place, n, piece);
    case Op::all_gather: moves = tree_gather(place, n, piece); return moves += tree_broadcast(place, n, piece);
    case Op::broadcast: return tree_broadcast(place, n, piece);
    case Op::reduce_to_root: return tree_reduce(place, n, piece);
  }
  return moves;
}

void collective(tl::Context& tl, const Plan& plan, const Tensor& x) {
  RunOptions options;
  options.chunk_bytes = plan.spec().chunk_bytes;
  run(tl, Vector(tl, x), plan.moves(tl.rank()), options);
}

}  // namespace kb::collectives
