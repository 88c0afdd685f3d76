// A collective from its parameters to queues, the moves of every rank and the numbers that describe it (spec 5.2).
#pragma once

#include <kb/kernels/collectives/groups.h>
#include <kb/kernels/collectives/run.h>
#include <kb/tlm_if/host.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kb::collectives {

enum class Op : std::uint8_t { all_reduce, reduce_scatter, all_gather, broadcast, reduce_to_root };
inline const std::vector<std::string> kOpNames{"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                               "reduce_to_root"};
enum class Algo : std::uint8_t { ring_1d, mesh, tree, hierarchical };
inline const std::vector<std::string> kAlgoNames{"ring_1d", "mesh", "tree", "hierarchical"};
const char* name_of(Op op);
const char* name_of(Algo algo);
/// Throw InputError for other names.
Op op_from_name(const std::string& name);
Algo algo_from_name(const std::string& name);

struct Spec {
  Op op = Op::all_reduce;
  Algo algo = Algo::ring_1d;
  std::int64_t n_elem = 1024;  // per participant
  std::uint32_t world = 0;     // ranks (hierarchical: SIPs); 0: all
  DType dtype = DType::f16;
  std::uint64_t chunk_bytes = 64 * 1024;
  std::uint32_t root = 0;  // rank; ring_1d and mesh, where the operation has a root
};

/// Who takes part, over which queues, and what each rank does. A value that kernels share.
class Plan {
 public:
  /// Throws InputError for a world, root or chunk size that does not fit the machine.
  static Plan make(const MachineInfo& machine, const Spec& spec);

  const Spec& spec() const { return spec_; }
  /// Ranks that take part, ascending. Chunk i belongs to the i-th.
  const std::vector<std::uint32_t>& participants() const { return participants_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(participants_.size()); }
  /// Rank that has the result of reduce_to_root and the input of broadcast.
  std::uint32_t root() const { return root_; }
  const QueueSet& queues() const { return queues_; }
  LaunchOptions launch_options() const { return {participants_, queues_.routes()}; }

  /// What a participant does.
  Moves moves(std::uint32_t rank) const;
  /// Messages in the longest chain that the algorithm foresees for one piece: 2 (N - 1) for a ring, rounds up and down
  /// for trees.
  std::uint32_t steps() const { return steps_; }
  /// Order of summation, and the rounds of trees, for people.
  const std::string& order() const { return order_; }

 private:
  /// All-reduces between the roots of the SIPs, one after the other.
  struct Exchange {
    std::vector<Ring> rings;  // each rank is on at most one
  };
  Plan(const MachineInfo& machine, const Spec& spec) : spec_(spec), queues_(machine) {}
  void make_ring(const MachineInfo& machine);
  void make_tree(const MachineInfo& machine);
  void make_hierarchical(const MachineInfo& machine);
  void make_exchange(const MachineInfo& machine, const std::vector<std::uint32_t>& roots);
  void add_rings(std::vector<std::vector<std::uint32_t>> orders, Direction next, Direction previous);

  Spec spec_;
  QueueSet queues_;
  std::vector<std::uint32_t> participants_;
  std::uint32_t root_ = 0;
  std::uint32_t steps_ = 0;
  std::string order_;
  std::optional<Ring> ring_;
  std::optional<Tree> tree_;
  std::vector<Exchange> exchanges_;
};

/// The kernel: carries out this rank's moves on its shard of `x`, [n_elem] in HBM or TCM.
void collective(tl::Context& tl, const Plan& plan, const Tensor& x);

/// What no implementation on this machine can beat.
struct AlphaBeta {
  double alpha_ns = 0;               // of a message: its dispatch and the DMA's overhead
  double beta_gbs = 0;               // of a PE's link
  std::uint64_t messages = 0;        // most that a rank sends
  std::uint64_t bytes_per_rank = 0;  // most that a rank sends or receives
  std::uint64_t bytes_total = 0;     // sent by all
  std::uint32_t chain = 0;           // messages on the longest chain, each carrying on what the one before it brought
  double bound_ns = 0;
};

/// bound = the longest chain of messages: each starts alpha after the last message has arrived whose elements it
/// passes on, takes bytes / beta, and starts not before the one ahead of it in its queue has left; and not less than
/// alpha + bytes / beta of the busiest rank. An empty message pays its dispatch only.
AlphaBeta alpha_beta(const MachineInfo& machine, const Plan& plan);

}  // namespace kb::collectives
