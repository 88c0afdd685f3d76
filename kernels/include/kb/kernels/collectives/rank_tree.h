// Trees over ranks that reductions climb and broadcasts descend: PEs of a cube, cubes of a SIP, SIPs (spec 5.2, 6.3).
#pragma once

#include <kb/kernels/reduction.h>
#include <kb/tlm_if/machine_info.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kb::collectives {

/// One level after the other: each cube reduces to one of its PEs, these reduce within their SIP, the SIPs' PEs
/// reduce to the root.
class RankTree {
 public:
  struct Node {
    std::optional<std::uint32_t> parent;  // nothing: the root
    std::vector<std::uint32_t> children;  // in order of summation
  };

  /// Tree of spec 6.3 at each level over the first `world` ranks; SIPs on a switch form a binomial tree.
  static RankTree tree(const MachineInfo& machine, std::uint32_t world);
  /// Rows toward the root's column, then that column, at each level over the first `world` ranks. Within a cube or SIP
  /// that lacks the root's index the last PE or cube takes its place. Throws InputError unless root < world.
  static RankTree mesh(const MachineInfo& machine, std::uint32_t world, std::uint32_t root);
  /// As mesh over PE 0 of every cube of the first `sips` SIPs, toward the centre cube (column w/2, row h/2) of each
  /// SIP and, with `join_sips`, on to the centre SIP; otherwise one tree per SIP. Throws InputError unless
  /// 1 <= sips <= all SIPs.
  static RankTree centre(const MachineInfo& machine, std::uint32_t sips, bool join_sips);

  /// The root; of several trees that of the first SIP.
  std::uint32_t root() const { return root_; }
  /// Members, ascending.
  const std::vector<std::uint32_t>& ranks() const { return ranks_; }
  const Node& node(std::uint32_t rank) const { return nodes_.at(rank); }
  /// Rounds of messages up to the root: those of the levels added up.
  std::uint32_t rounds() const { return rounds_; }
  /// Longest chain of edges.
  std::uint32_t depth() const;
  /// A rank and all below it, each before its children, children in order of summation.
  std::vector<std::uint32_t> subtree(std::uint32_t rank) const;
  /// The rounds of each level: "PEs 4>0 5>1 | 0>1 | ...; cubes ...; SIPs ...", as cells of the first full group.
  const std::string& text() const { return text_; }

 private:
  struct Level;
  void add_level(const char* name, const std::vector<Level>& groups);

  std::uint32_t root_ = 0;
  std::vector<std::uint32_t> ranks_;
  std::map<std::uint32_t, Node> nodes_;
  std::uint32_t rounds_ = 0;
  std::string text_;
};

}  // namespace kb::collectives
