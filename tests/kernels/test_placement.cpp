// Placements of tensors and tokens against brute force; neighbours, trees and chains.
#include "recording_port.h"

#include <kb/kernels/placement.h>
#include <kb/kernels/reduction.h>
#include <kb/kernels/token_placement.h>
#include <kb/tlm_if/errors.h>

#include <boost/test/unit_test.hpp>

#include <map>
#include <set>

using namespace kb;
using kb::test::message_of;

namespace {

/// Host memory only: enough to scatter and gather.
class MemoryHost : public Host {
 public:
  MachineInfo info;
  std::map<std::pair<std::uint32_t, std::size_t>, std::vector<std::uint8_t>> memory;
  const MachineInfo& machine() const override { return info; }
  Mode mode() const override { return Mode::data; }
  Tensor allocate(const std::string& name, DType dtype, Space space,
                  const std::vector<std::pair<std::uint32_t, Shape>>& shards) override {
    Tensor t;
    t.id = next_++;
    t.name = name;
    t.dtype = dtype;
    t.space = space;
    for (const auto& s : shards) {
      memory[{t.id, t.shards.size()}].resize(static_cast<std::size_t>(s.second.numel()) * size_of(dtype));
      t.shards.push_back({s.first, s.second, 0});
    }
    return t;
  }
  void free(const Tensor&) override {}
  void write(const Tensor& t, std::size_t shard, const void* bytes, std::size_t size) override {
    auto& m = memory.at({t.id, shard});
    BOOST_REQUIRE(m.size() == size);
    std::memcpy(m.data(), bytes, size);
  }
  void read(const Tensor& t, std::size_t shard, void* bytes, std::size_t size) override {
    const auto& m = memory.at({t.id, shard});
    BOOST_REQUIRE(m.size() == size);
    std::memcpy(bytes, m.data(), size);
  }
  LaunchResult launch(const KernelProgram&, const LaunchOptions&) override { return {}; }
  LaunchResult run_transfers(const std::vector<DirectTransfer>&) override { return {}; }
  Ps host_copy(bool, std::uint64_t, std::uint64_t) override { return 0; }

 private:
  std::uint32_t next_ = 1;
};

std::uint32_t log2_ceil(std::uint32_t n) {
  std::uint32_t r = 0;
  while ((1u << r) < n) ++r;
  return r;
}

/// Every cell but the root sends once, to a neighbour, after all that it receives; nobody takes part in two
/// transfers of one round of a tree.
void check_plan(const ReductionPlan& plan, bool exclusive) {
  const NeighbourGrid& grid = plan.grid();
  BOOST_TEST(plan.transfers() == grid.count - 1);
  std::vector<std::size_t> sent(grid.count, 0);
  for (std::size_t r = 0; r < plan.rounds().size(); ++r) {
    std::set<std::uint32_t> busy;
    for (const auto& e : plan.rounds()[r]) {
      BOOST_TEST(grid.compass(e.from, e.to).has_value());
      BOOST_TEST(sent[e.from] == 0u);
      BOOST_TEST(sent[e.to] == 0u);
      sent[e.from] = r + 1;
      if (exclusive) BOOST_TEST((busy.insert(e.from).second && busy.insert(e.to).second));
    }
  }
  for (std::uint32_t i = 0; i < grid.count; ++i) {
    BOOST_TEST((sent[i] == 0) == (i == plan.root()));
    if (i != plan.root()) BOOST_REQUIRE(plan.receiver(i).has_value());
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(placement)

BOOST_AUTO_TEST_CASE(row_wise_and_column_wise_over_cubes_and_pes) {
  MachineInfo m;
  m.cube_cols = 2;
  m.pes_per_cube = 2;
  const auto grid = pe_grid(m, 2, 2);
  const Placement p({10, 7}, Split::row_wise, Split::column_wise, grid);
  BOOST_REQUIRE(p.parts().size() == 4);
  BOOST_CHECK(p.shape_of(0) == (Shape{5, 3}));
  BOOST_CHECK(p.shape_of(3) == (Shape{5, 4}));
  BOOST_TEST(p.parts()[3].rank == 3u);
  BOOST_TEST(p.parts()[3].begin[0] == 5);
  BOOST_TEST(p.parts()[3].begin[1] == 3);
  BOOST_CHECK_THROW(pe_grid(m, 3, 1), InputError);
  BOOST_CHECK_THROW(pe_grid(m, 1, 3), InputError);
}

BOOST_AUTO_TEST_CASE(scatter_and_gather_are_inverse) {
  MemoryHost host;
  host.info.cube_cols = 3;
  host.info.pes_per_cube = 4;
  const Shape shapes[] = {{13}, {7, 5}, {3, 4, 5}, {2, 3, 5, 7}, {2, 2}};
  for (const Shape& shape : shapes) {
    for (const Split cubes : {Split::replicate, Split::row_wise, Split::column_wise}) {
      for (const Split pes : {Split::replicate, Split::row_wise, Split::column_wise}) {
        const Placement p(shape, cubes, pes, pe_grid(host.info, 3, 4));
        LogicalTensor data(shape, DType::i32);
        for (std::int64_t i = 0; i < data.numel(); ++i) data.set(i, static_cast<double>(1000 + i));
        const Tensor t = from_data(host, "t", data, p);
        BOOST_TEST(t.shards.size() == 12u);
        const LogicalTensor back = p.gather(host, t);
        for (std::int64_t i = 0; i < data.numel(); ++i) BOOST_REQUIRE(back.at(i) == data.at(i));
        // Each shard holds exactly its part, in row-major order.
        std::int64_t total = 0;
        for (std::size_t s = 0; s < 12; ++s) total += p.shape_of(s).numel();
        const std::int64_t copies = (cubes == Split::replicate ? 3 : 1) * (pes == Split::replicate ? 4 : 1);
        BOOST_TEST(total == copies * data.numel());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(tokens_against_brute_force) {
  for (const TokenOrder order : {TokenOrder::round_robin, TokenOrder::contiguous, TokenOrder::zigzag}) {
    for (const std::int64_t s : {0, 1, 2, 3, 7, 63, 64, 65, 96, 160, 1000, 4097}) {
      for (const std::uint32_t n : {1u, 2u, 3u, 8u, 64u}) {
        for (const std::uint64_t request : {0u, 1u, 5u, 66u}) {
          const TokenPlacement p(order, s, n, request);
          std::vector<std::vector<std::int64_t>> owned(n);
          for (std::int64_t i = 0; i < s; ++i) {
            std::uint32_t pe = 0;
            if (order == TokenOrder::round_robin) {
              pe = static_cast<std::uint32_t>((request % n + static_cast<std::uint64_t>(i)) % n);
            } else {
              const std::int64_t runs = order == TokenOrder::contiguous ? n : 2 * n;
              std::int64_t r = 0;
              while (!(i >= r * s / runs && i < (r + 1) * s / runs)) ++r;
              pe = static_cast<std::uint32_t>(r < n ? r : 2 * n - 1 - r);
            }
            BOOST_REQUIRE(p.owner(i) == pe);
            BOOST_REQUIRE(p.local(i) == static_cast<std::int64_t>(owned[pe].size()));
            BOOST_REQUIRE(p.global(pe, p.local(i)) == i);
            owned[pe].push_back(i);
          }
          for (std::uint32_t pe = 0; pe < n; ++pe) {
            BOOST_REQUIRE(p.count(pe) == static_cast<std::int64_t>(owned[pe].size()));
            if (order == TokenOrder::round_robin) {
              const auto o = static_cast<std::int64_t>((pe + n - request % n) % n);
              BOOST_REQUIRE(p.count(pe) == s / n + (o < s % n ? 1 : 0));
            }
            std::int64_t covered = 0;
            for (const auto& tile : p.tiles(pe, 16)) {
              BOOST_REQUIRE(tile.local == covered);
              BOOST_REQUIRE((tile.count >= 1 && tile.count <= 16));
              covered += tile.count;
              // A tile lies in one run: its tokens are equally spaced.
              for (std::int64_t j = 1; j < tile.count; ++j)
                BOOST_REQUIRE(p.global(pe, tile.local + j) - p.global(pe, tile.local + j - 1) ==
                              (order == TokenOrder::round_robin ? n : 1));
            }
            BOOST_REQUIRE(covered == p.count(pe));
          }
        }
      }
    }
  }
  BOOST_CHECK_THROW(token_order_from_name("random"), InputError);
}

BOOST_AUTO_TEST_CASE(directions) {
  const NeighbourGrid pes{4, 8};
  BOOST_CHECK(pes.compass(4, 0) == Compass::north);
  BOOST_CHECK(pes.compass(0, 1) == Compass::east);
  BOOST_CHECK(!pes.compass(3, 4));
  BOOST_CHECK(!pes.compass(0, 2));
  const QueueRoute r = neighbour_route(GridLevel::pe, pes, 4, 0, 104, 100);
  BOOST_CHECK(r.direction == Direction::intra_N);
  BOOST_CHECK(r.arrives_as == Direction::intra_S);
  BOOST_TEST(r.from == 104u);
  BOOST_CHECK(neighbour_route(GridLevel::cube, pes, 2, 1, 2, 1).direction == Direction::W);
  BOOST_CHECK(neighbour_route(GridLevel::sip, pes, 1, 5, 1, 5).arrives_as == Direction::global_N);
  BOOST_CHECK_THROW(neighbour_route(GridLevel::cube, pes, 0, 5, 0, 5), InputError);
  for (int d = 0; d < kDirections; ++d)
    BOOST_CHECK(opposite(opposite(static_cast<Direction>(d))) == static_cast<Direction>(d));
  BOOST_CHECK(opposite(Direction::global_E) == Direction::global_W);
}

BOOST_AUTO_TEST_CASE(trees_of_the_tables) {
  BOOST_TEST(ReductionPlan::tree({4, 8}).str() == "4>0 5>1 6>2 7>3 | 0>1 3>2 | 2>1");
  BOOST_TEST(ReductionPlan::tree({4, 16}).str() ==
             "0>4 1>5 2>6 3>7 12>8 13>9 14>10 15>11 | 4>8 5>9 6>10 7>11 | 8>9 11>10 | 9>10");
  BOOST_TEST(ReductionPlan::tree({4, 5}).str() == "4>0 | 0>1 3>2 | 2>1");
  BOOST_TEST(ReductionPlan::tree({4, 2}).str() == "0>1");
  BOOST_TEST(ReductionPlan::tree({4, 1}).root() == 0u);
  for (std::uint32_t n = 1; n <= 16; ++n) {
    const ReductionPlan plan = ReductionPlan::tree({4, n});
    check_plan(plan, true);
    BOOST_TEST(plan.rounds().size() == log2_ceil(n), n << " cells: " << plan.str());
    if (n > 1 && n <= 8) BOOST_TEST(plan.root() == 1u);
  }
}

BOOST_AUTO_TEST_CASE(trees_of_other_grids_take_the_fewest_rounds) {
  // A line of n cells: the middle cell needs ceil(n / 2) rounds.
  for (std::uint32_t n = 2; n <= 9; ++n) {
    const ReductionPlan plan = ReductionPlan::tree({n, n});
    check_plan(plan, true);
    BOOST_TEST(plan.rounds().size() == n / 2 + (n > 2 && n % 2 == 1 ? 1 : 0), n << ": " << plan.str());
  }
  for (const NeighbourGrid grid : {NeighbourGrid{2, 4}, NeighbourGrid{3, 6}, NeighbourGrid{3, 9}, NeighbourGrid{2, 7},
                                   NeighbourGrid{8, 16}, NeighbourGrid{8, 64}, NeighbourGrid{5, 23}})
    check_plan(ReductionPlan::tree(grid), true);
  BOOST_TEST(ReductionPlan::tree({2, 4}).rounds().size() == 2u);
  BOOST_TEST(ReductionPlan::tree({3, 6}).rounds().size() == 3u);
}

BOOST_AUTO_TEST_CASE(chains) {
  for (std::uint32_t cols : {1u, 2u, 3u, 4u, 5u})
    for (std::uint32_t n = 1; n <= 20; ++n) check_plan(ReductionPlan::chain({cols, n}), false);
  const auto rounds = [](std::uint32_t cols, std::uint32_t n) {
    return ReductionPlan::chain({cols, n}).rounds().size();
  };
  // Root 1 of 4 x 2: the right arm has 2 cells, the column one. Root 10 of 4 x 4: 2 + 2.
  BOOST_TEST(rounds(4, 8) == 3u);
  BOOST_TEST(rounds(4, 16) == 4u);
  BOOST_TEST(ReductionPlan::chain({4, 8}).str() == "0>1 3>2 4>5 7>6 | 2>1 6>5 | 5>1");
  // A last row that ends before the root's column moves up where it ends.
  BOOST_TEST(ReductionPlan::chain({4, 5}).str() == "3>2 4>0 | 0>1 2>1");
  BOOST_TEST(ReductionPlan::chain({4, 5}).root() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
