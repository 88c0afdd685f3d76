// Collectives apart from time: routes, trees, message counts and the data that every algorithm leaves behind.
#include "collectives_host.h"
#include "emit_host.h"

#include <kb/kernels/bench.h>
#include <kb/kernels/collectives/plan.h>
#include <kb/kernels/launch.h>
#include <kb/tlm_if/errors.h>

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>

using namespace kb;
using namespace kb::collectives;
namespace bdata = boost::unit_test::data;

namespace {

MachineInfo machine(std::uint32_t sips = 2, SipFabric fabric = SipFabric::ring_1d, std::uint32_t sip_cols = 0) {
  MachineInfo m;
  m.sips = sips;
  m.sip_fabric = fabric;
  m.sip_cols = sip_cols == 0 ? sips : sip_cols;
  m.sip_rows = sips / m.sip_cols;
  m.cube_cols = m.cube_rows = 4;
  m.pes_per_cube = 8;
  m.pe_cols = 4;
  return m;
}

template <typename Error>
std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::uint32_t log2_ceil(std::uint32_t n) {
  std::uint32_t k = 0;
  while ((1u << k) < n) ++k;
  return k;
}

using Settings = std::map<std::string, std::string>;

BenchResult run_allreduce(Host& host, const Settings& settings, std::uint64_t seed = 1) {
  BenchRegistry registry;
  add_standard_benches(registry);
  BenchContext::Options options;
  options.seed = seed;
  return run_bench(registry.get("allreduce"), host, settings, options);
}

/// Runs the bench on threads and requires right numbers.
void check_data(const MachineInfo& m, const Settings& settings) {
  test::CollectivesHost host(m);
  std::string text;
  for (const auto& s : settings) text += s.first + "=" + s.second + " ";
  BOOST_TEST_CONTEXT(text) {
    const BenchResult r = run_allreduce(host, settings);
    BOOST_TEST(r.numerics.checked);
    BOOST_TEST(r.numerics.pass);
    BOOST_TEST(r.numerics.rel_rmse <= r.numerics.tolerance);
  }
}

Plan make(const MachineInfo& m, Op op, Algo algo, std::uint32_t world, std::int64_t n,
          std::uint64_t chunk_bytes = 65536, std::uint32_t root = 0) {
  Spec spec;
  spec.op = op;
  spec.algo = algo;
  spec.world = world;
  spec.n_elem = n;
  spec.chunk_bytes = chunk_bytes;
  spec.root = root;
  return Plan::make(m, spec);
}

constexpr Op kOps[] = {Op::all_reduce, Op::reduce_scatter, Op::all_gather, Op::broadcast, Op::reduce_to_root};

}  // namespace

BOOST_AUTO_TEST_SUITE(collective_kernels)

// ---- places and queues ----------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(snake_runs_through_cubes_and_sips) {
  const MachineInfo m = machine();
  const auto cube = snake_order(m, 8);
  BOOST_TEST(cube == (std::vector<std::uint32_t>{0, 1, 2, 3, 7, 6, 5, 4}), boost::test_tools::per_element());
  const auto all = snake_order(m, 256);
  BOOST_TEST(all.size() == 256u);
  BOOST_TEST((std::set<std::uint32_t>(all.begin(), all.end()).size()) == 256u);
  // The fifth cube of the snake is cube 7, below cube 3.
  BOOST_TEST(all[4 * 8] == 7u * 8);
  BOOST_TEST(all[128] == 128u);
  // Absent ranks are left out: cube 1 has pe0..pe2 only.
  const auto eleven = snake_order(m, 11);
  BOOST_TEST(eleven == (std::vector<std::uint32_t>{0, 1, 2, 3, 7, 6, 5, 4, 8, 9, 10}),
             boost::test_tools::per_element());
  BOOST_TEST(contains(message_of<InputError>([&m] { snake_order(m, 257); }), "allowed: 1 .. 256"));
  BOOST_TEST(contains(message_of<InputError>([&m] { snake_order(m, 0); }), "found 0"));
}

BOOST_AUTO_TEST_CASE(directions_join_neighbours_at_each_level) {
  const MachineInfo m = machine(6, SipFabric::torus_2d, 3);
  const auto rank = [&m](std::uint32_t s, std::uint32_t c, std::uint32_t p) { return m.rank_of({s, c, p}); };
  const auto link = [&m](std::uint32_t a, std::uint32_t b) {
    const auto d = link_direction(m, a, b);
    return d ? std::string(kb::name_of(*d)) : std::string("-");
  };
  BOOST_TEST(link(rank(0, 0, 0), rank(0, 0, 1)) == "intra_E");
  BOOST_TEST(link(rank(0, 0, 1), rank(0, 0, 0)) == "intra_W");
  BOOST_TEST(link(rank(0, 0, 0), rank(0, 0, 4)) == "intra_S");
  BOOST_TEST(link(rank(0, 0, 3), rank(0, 0, 4)) == "-");
  BOOST_TEST(link(rank(0, 5, 2), rank(0, 1, 2)) == "N");
  BOOST_TEST(link(rank(0, 5, 2), rank(0, 6, 2)) == "E");
  BOOST_TEST(link(rank(0, 5, 2), rank(0, 6, 3)) == "-");
  BOOST_TEST(link(rank(0, 3, 0), rank(0, 4, 0)) == "-");
  // Torus of 3 x 2: the row wraps, the column of two is joined directly.
  BOOST_TEST(link(rank(0, 9, 3), rank(1, 9, 3)) == "global_E");
  BOOST_TEST(link(rank(2, 9, 3), rank(0, 9, 3)) == "global_E");
  BOOST_TEST(link(rank(0, 9, 3), rank(2, 9, 3)) == "global_W");
  BOOST_TEST(link(rank(0, 9, 3), rank(3, 9, 3)) == "global_S");
  BOOST_TEST(link(rank(0, 9, 3), rank(4, 9, 3)) == "-");
  const MachineInfo flat = machine(6, SipFabric::mesh_2d_no_wrap, 3);
  BOOST_TEST(!link_direction(flat, flat.rank_of({2, 0, 0}), flat.rank_of({0, 0, 0})));
  const MachineInfo star = machine(6, SipFabric::sw);
  BOOST_TEST(are_neighbours(star, star.rank_of({0, 0, 0}), star.rank_of({4, 0, 0})));
  BOOST_TEST(!are_neighbours(star, star.rank_of({0, 0, 0}), star.rank_of({4, 1, 0})));
}

BOOST_AUTO_TEST_CASE(queue_set_gives_each_direction_once) {
  const MachineInfo m = machine();
  QueueSet q(m);
  const QueueRoute a = q.connect(0, 1);
  BOOST_TEST((a.direction == Direction::intra_E && a.arrives_as == Direction::intra_W));
  BOOST_TEST((q.connect(0, 1).arrives_as == a.arrives_as));
  BOOST_TEST(q.routes().size() == 1u);
  const QueueRoute far = q.connect(0, 7);  // no neighbours: names of the level that are free
  BOOST_TEST((far.direction != Direction::intra_E));
  BOOST_TEST(q.routed().size() == 1u);
  BOOST_TEST(q.routed()[0].to == 7u);
  q.connect(0, Direction::E, 8, Direction::W);
  BOOST_TEST(contains(message_of<InputError>([&q] { q.connect(0, Direction::E, 16, Direction::W); }), "taken"));
  BOOST_TEST(contains(message_of<InputError>([&q] { q.connect(3, 3); }), "two different ranks"));
  BOOST_TEST(contains(message_of<InputError>([&q] { q.connect(3, 256); }), "below 256"));
  // Thirteen queues into one PE are one too many.
  for (std::uint32_t i = 100; i < 112; ++i) q.connect(i, 20);
  BOOST_TEST(contains(message_of<InputError>([&q] { q.connect(112, 20); }), "no free direction"));
  std::set<std::pair<std::uint32_t, Direction>> sends, receives;
  for (const auto& r : q.routes()) {
    BOOST_TEST(sends.insert({r.from, r.direction}).second);
    BOOST_TEST(receives.insert({r.to, r.arrives_as}).second);
  }
}

BOOST_AUTO_TEST_CASE(paths_name_the_cubes_on_the_way) {
  const MachineInfo m = machine();
  BOOST_TEST(describe_path(m, 4, 8) == "sip0.cube0.pe4 > sip0.cube1.pe0");
  BOOST_TEST(describe_path(m, m.rank_of({0, 3, 0}), m.rank_of({0, 8, 1})) ==
             "sip0.cube3.pe0 > cube2 > cube1 > cube0 > cube4 > sip0.cube8.pe1");
  BOOST_TEST(describe_path(m, 0, 128) == "sip0.cube0.pe0 > sip0.io > sip1.io > sip1.cube0.pe0");
}

BOOST_AUTO_TEST_CASE(ring_is_routed_only_where_the_snake_has_no_link) {
  const MachineInfo m = machine();
  const auto routed = [&m](std::uint32_t world) {
    return make(m, Op::all_reduce, Algo::ring_1d, world, 1000).queues().routed().size();
  };
  BOOST_TEST(routed(1) == 0u);
  BOOST_TEST(routed(2) == 0u);
  BOOST_TEST(routed(3) == 1u);   // 2 -> 0
  BOOST_TEST(routed(5) == 1u);   // 0 1 2 3 4: 3 -> 4 is none, 4 -> 0 is a link
  BOOST_TEST(routed(7) == 1u);   // 0 1 2 3 6 5 4: 3 -> 6
  BOOST_TEST(routed(8) == 0u);   // the snake closes
  BOOST_TEST(routed(16) == 2u);  // 4 -> 8 and back from 12 to 0
  BOOST_TEST(routed(256) == 32u);
  // The ring's names are E and W wherever its queues lead.
  const Plan plan = make(m, Op::all_reduce, Algo::ring_1d, 256, 1000);
  for (const auto& q : plan.queues().routes())
    BOOST_TEST((q.direction == Direction::E && q.arrives_as == Direction::W));
}

// ---- chunks and pieces ----------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(chunks_cover_the_vector) {
  for (const std::int64_t n : {1LL, 3LL, 32LL, 1000LL, 49152LL, (1LL << 40) + 7}) {
    for (const std::uint32_t parts : {1u, 2u, 3u, 7u, 8u, 256u, 768u}) {
      std::int64_t at = 0;
      for (std::uint32_t i = 0; i < parts; ++i) {
        const Span c = chunk(n, i, parts);
        if (c.begin != at || c.count < 0) BOOST_ERROR("chunk " << i << " of " << parts << " of " << n);
        at = c.end();
      }
      BOOST_TEST(at == n);
    }
  }
  // The rule of the spec, literally.
  for (std::uint32_t i = 0; i < 7; ++i) BOOST_TEST(chunk(1000, i, 7).begin == i * 1000 / 7);
  BOOST_TEST(pieces({5, 0}, 10).size() == 1u);
  BOOST_TEST(pieces({5, 0}, 10)[0].count == 0);
  const auto p = pieces({5, 25}, 10);
  BOOST_TEST(p.size() == 3u);
  BOOST_TEST((p[2] == Span{25, 5}));
  BOOST_TEST(piece_count(0, 10) == 1);
  BOOST_TEST(piece_count(30, 10) == 3);
}

// ---- trees ----------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(tree_rounds_are_those_of_the_spec) {
  const MachineInfo m = machine();
  for (std::uint32_t world = 1; world <= 8; ++world) {
    const RankTree t = RankTree::tree(m, world);
    BOOST_TEST(t.rounds() == log2_ceil(world));
    BOOST_TEST(t.root() == (world == 1 ? 0u : 1u));
  }
  for (const std::uint32_t cubes : {1u, 2u, 3u, 4u, 7u, 8u, 12u, 13u, 14u, 15u, 16u})
    BOOST_TEST(RankTree::tree(m, cubes * 8).rounds() == 3 + log2_ceil(cubes));
  BOOST_TEST(RankTree::tree(m, 256).rounds() == 3u + 4u + 1u);
  BOOST_TEST(RankTree::tree(m, 256).root() == 128u + 10 * 8 + 1);
  // Full groups use links only; a last cube with one PE has another root.
  BOOST_TEST(make(m, Op::all_reduce, Algo::tree, 256, 1000).queues().routed().empty());
  BOOST_TEST(make(m, Op::all_reduce, Algo::tree, 17, 1000).queues().routed().size() == 2u);
  // A switch joins all SIPs: a binomial tree.
  BOOST_TEST(RankTree::tree(machine(6, SipFabric::sw), 768).rounds() == 3u + 4u + 3u);
  BOOST_TEST(RankTree::tree(machine(6, SipFabric::torus_2d, 3), 768).rounds() == 3u + 4u + 3u);
}

BOOST_AUTO_TEST_CASE(every_tree_has_one_root_and_each_rank_once) {
  const MachineInfo m = machine();
  for (std::uint32_t world = 1; world <= 256; world += world < 24 ? 1 : 29)
    for (int kind = 0; kind < 2; ++kind) {
      const std::uint32_t root = world * 7 / 9;
      const RankTree t = kind == 0 ? RankTree::tree(m, world) : RankTree::mesh(m, world, root);
      BOOST_TEST(t.ranks().size() == world);
      auto below = t.subtree(t.root());
      std::sort(below.begin(), below.end());
      BOOST_TEST(below == t.ranks(), boost::test_tools::per_element());
      if (kind == 1) BOOST_TEST(t.root() == root);
    }
  BOOST_TEST(contains(message_of<InputError>([&m] { RankTree::mesh(m, 8, 8); }), "below world = 8"));
}

BOOST_AUTO_TEST_CASE(mesh_goes_along_rows_then_the_roots_column) {
  const MachineInfo m = machine();
  // Root pe0: 3 > 2 > 1 > 0, 7 > 6 > 5 > 4, 4 > 0; 4 x 4 cubes likewise; two SIPs.
  const RankTree t = RankTree::mesh(m, 256, 0);
  BOOST_TEST(t.rounds() == (3u + 1u) + (3u + 3u) + 1u);
  BOOST_TEST(*t.node(3).parent == 2u);
  BOOST_TEST(*t.node(7).parent == 6u);
  BOOST_TEST(*t.node(4).parent == 0u);
  // A last row that ends before the root's column moves up where it ends.
  const RankTree partial = RankTree::mesh(m, 6, 3);
  BOOST_TEST(*partial.node(4).parent == 5u);
  BOOST_TEST(*partial.node(5).parent == 1u);
  BOOST_TEST(*partial.node(1).parent == 2u);
}

BOOST_AUTO_TEST_CASE(hierarchy_meets_in_the_centre_cube) {
  const MachineInfo m = machine(6, SipFabric::torus_2d, 3);
  const RankTree t = RankTree::centre(m, 6, false);
  BOOST_TEST(t.ranks().size() == 96u);
  const std::uint32_t centre = m.rank_of({0, 10, 0});
  BOOST_TEST(t.root() == centre);
  BOOST_TEST(t.rounds() == 2u + 2u);  // longest arms: columns 0, 1 to 2, rows 0, 1 to 2
  // Both halves of the row and both halves of the column end at the centre.
  const std::vector<std::uint32_t> children{m.rank_of({0, 9, 0}), m.rank_of({0, 11, 0}), m.rank_of({0, 6, 0}),
                                            m.rank_of({0, 14, 0})};
  BOOST_TEST(std::set<std::uint32_t>(t.node(centre).children.begin(), t.node(centre).children.end()) ==
                 std::set<std::uint32_t>(children.begin(), children.end()),
             boost::test_tools::per_element());
  const Plan plan = make(m, Op::all_reduce, Algo::hierarchical, 6, 49152);
  BOOST_TEST(plan.steps() == 4u + 2 * 2 + 2 * 1 + 4u);
  BOOST_TEST(plan.queues().routed().empty());
  // Without wrap-around the tree goes on over the SIPs.
  const MachineInfo flat = machine(6, SipFabric::mesh_2d_no_wrap, 3);
  const Plan joined = make(flat, Op::all_reduce, Algo::hierarchical, 6, 49152);
  BOOST_TEST(joined.root() == flat.rank_of({4, 10, 0}));
  BOOST_TEST(joined.queues().routed().empty());
}

// ---- message counts -------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(ring_sends_2_n_minus_1_chunks) {
  const MachineInfo m = machine();
  for (const std::uint32_t world : {2u, 3u, 4u, 7u, 8u, 64u, 128u, 256u})
    for (const std::int64_t n : {1, 3, 32, 1000, 49152}) {
      const Plan all = make(m, Op::all_reduce, Algo::ring_1d, world, n);
      const Plan half = make(m, Op::reduce_scatter, Algo::ring_1d, world, n);
      for (const std::uint32_t rank : {0u, world / 2, world - 1}) {
        const MoveCounts c = count(all.moves(rank)), h = count(half.moves(rank));
        BOOST_TEST(c.sends == 2 * (world - 1));
        BOOST_TEST(c.receives == 2 * (world - 1));
        BOOST_TEST(c.adds == world - 1);
        BOOST_TEST(h.sends == world - 1);
      }
      BOOST_TEST(alpha_beta(m, all).chain == 2 * (world - 1));
    }
}

BOOST_AUTO_TEST_CASE(large_chunks_go_in_pieces) {
  const MachineInfo m = machine();
  // 4 MiB over 8 ranks: 512 KiB a chunk, 8 pieces of 64 KiB.
  const Plan plan = make(m, Op::all_reduce, Algo::ring_1d, 8, 2 << 20);
  BOOST_TEST(count(plan.moves(5)).sends == 2u * 7 * 8);
  // Ragged: each chunk in ceil(bytes / chunk_bytes) pieces, whatever rank it passes.
  const std::int64_t n = 100003;
  const Plan ragged = make(m, Op::all_reduce, Algo::ring_1d, 7, n, 4096);
  for (std::uint32_t rank = 0; rank < 7; ++rank) {
    std::uint64_t all = 0;
    for (std::uint32_t c = 0; c < 7; ++c) all += static_cast<std::uint64_t>(piece_count(chunk(n, c, 7).count, 2048));
    const auto position = [](std::uint32_t r) { return std::vector<std::uint32_t>{0, 1, 2, 3, 6, 5, 4}[r % 7]; };
    // Reduce-scatter sends all chunks but its own, the all-gather all but its successor's.
    const std::uint64_t own = static_cast<std::uint64_t>(piece_count(chunk(n, rank, 7).count, 2048));
    const std::uint64_t successor =
        static_cast<std::uint64_t>(piece_count(chunk(n, position(position(rank) + 1), 7).count, 2048));
    BOOST_TEST(count(ragged.moves(rank)).sends == 2 * all - own - successor);
  }
}

BOOST_AUTO_TEST_CASE(trees_send_each_piece_once_per_edge_and_way) {
  const MachineInfo m = machine();
  for (const Algo algo : {Algo::tree, Algo::mesh})
    for (const std::uint32_t world : {2u, 3u, 5u, 8u, 17u, 64u, 128u, 256u}) {
      const std::int64_t n = 49152;  // 96 KiB: 2 pieces
      const auto total = [&](Op op) {
        const Plan plan = make(m, op, algo, world, n);
        std::uint64_t sends = 0;
        for (const std::uint32_t rank : plan.participants()) sends += count(plan.moves(rank)).sends;
        return sends;
      };
      BOOST_TEST(total(Op::all_reduce) == 2u * 2 * (world - 1));
      BOOST_TEST(total(Op::reduce_to_root) == 2u * (world - 1));
      BOOST_TEST(total(Op::broadcast) == 2u * (world - 1));
      const Plan scatter = make(m, Op::reduce_scatter, algo, world, n);
      std::uint64_t below = 0;  // every chunk passes every edge between the root and its owner
      const RankTree t = algo == Algo::tree ? RankTree::tree(m, world) : RankTree::mesh(m, world, 0);
      for (const std::uint32_t rank : t.ranks())
        if (t.node(rank).parent) below += t.subtree(rank).size();
      BOOST_TEST(total(Op::reduce_scatter) == 2u * (world - 1) + below);
      BOOST_TEST(total(Op::all_gather) == 2u * (world - 1) + below);
    }
}

BOOST_AUTO_TEST_CASE(emitted_commands_are_the_moves) {
  const MachineInfo m = machine();
  for (const std::string algo : {"ring_1d", "mesh", "tree", "hierarchical"})
    for (const std::string payload : {"tcm", "hbm"}) {
      test::CountingHost host(m);
      const Settings settings{
          {"algo", algo}, {"payload", payload}, {"n_elem", "1000"}, {"world", algo == "hierarchical" ? "2" : "64"}};
      const BenchResult r = run_allreduce(host, settings);
      const Plan plan = make(m, Op::all_reduce, algo_from_name(algo), algo == "hierarchical" ? 2 : 64, 1000);
      const LaunchResult& launch = r.launches.at(0).result;
      BOOST_TEST(launch.pes.size() == plan.size());
      for (const PeStats& pe : launch.pes) {
        const MoveCounts c = count(plan.moves(m.rank_of(pe.id)));
        const auto commands = [&pe](CommandKind k) { return pe.dispatch.commands[static_cast<std::size_t>(k)]; };
        BOOST_TEST(commands(CommandKind::ipcq_send) == c.sends);
        BOOST_TEST(commands(CommandKind::ipcq_recv) == c.receives);
        BOOST_TEST(commands(CommandKind::math) == c.adds);
        if (payload == "tcm") BOOST_TEST(commands(CommandKind::dma_read) + commands(CommandKind::dma_write) == 0u);
      }
    }
}

BOOST_AUTO_TEST_CASE(hbm_vectors_are_loaded_and_stored_once_per_use) {
  const MachineInfo m = machine();
  test::CountingHost host(m);
  const BenchResult r = run_allreduce(host, {{"payload", "hbm"}, {"n_elem", "524288"}, {"world", "8"}});
  // 2 pieces a chunk. Loads: the first chunk sent and the 7 added to; stores: the chunk summed and the 7 gathered.
  for (const PeStats& pe : r.launches.at(0).result.pes) {
    BOOST_TEST(pe.dispatch.commands[static_cast<std::size_t>(CommandKind::dma_read)] == 2u * 8);
    BOOST_TEST(pe.dispatch.commands[static_cast<std::size_t>(CommandKind::dma_write)] == 2u * 8);
  }
}

// ---- data -----------------------------------------------------------------------------------------------------

namespace {
const std::vector<std::string> kAlgos{"ring_1d", "mesh", "tree"};
const std::vector<std::string> kPayloads{"tcm", "hbm"};
}  // namespace

BOOST_DATA_TEST_CASE(all_algorithms_are_right_on_integers, bdata::make(kAlgos) * bdata::make(kPayloads), algo,
                     payload) {
  const MachineInfo m = machine();
  for (const Op op : kOps)
    for (const std::uint32_t world : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 11u, 17u})
      for (const int n : {1, 3, 32, 1000}) {
        Settings s{{"algo", algo},
                   {"payload", payload},
                   {"op", collectives::name_of(op)},
                   {"world", std::to_string(world)},
                   {"n_elem", std::to_string(n)},
                   {"inputs", "integers"},
                   {"chunk_bytes", n == 1000 ? "100" : "65536"}};
        if (algo != "tree") s["root"] = std::to_string((world * 3) / 4);
        check_data(m, s);
      }
}

BOOST_DATA_TEST_CASE(large_worlds_are_right, bdata::make(kAlgos) * bdata::make(kPayloads), algo, payload) {
  const MachineInfo m = machine();
  for (const std::uint32_t world : {64u, 100u, 256u})
    for (const int n : {32, 8192}) {
      Settings s{{"algo", algo}, {"payload", payload}, {"world", std::to_string(world)}, {"n_elem", std::to_string(n)}};
      check_data(m, s);
    }
}

BOOST_DATA_TEST_CASE(small_pieces_and_small_scratch_are_right, bdata::make(kAlgos) * bdata::make(kPayloads), algo,
                     payload) {
  MachineInfo m = machine();
  m.scratch_bytes = 256;
  for (const Op op : kOps)
    for (const char* chunk_bytes : {"4", "64", "128"})
      check_data(m, {{"algo", algo},
                     {"payload", payload},
                     {"op", collectives::name_of(op)},
                     {"world", "13"},
                     {"n_elem", "777"},
                     {"chunk_bytes", chunk_bytes},
                     {"dtype", "f32"},
                     {"inputs", "integers"}});
}

BOOST_AUTO_TEST_CASE(hierarchical_is_right_on_every_fabric) {
  struct Case {
    std::uint32_t sips, cols;
    SipFabric fabric;
  };
  const Case cases[] = {{1, 1, SipFabric::ring_1d},  {2, 2, SipFabric::ring_1d},         {5, 5, SipFabric::ring_1d},
                        {6, 3, SipFabric::torus_2d}, {6, 3, SipFabric::mesh_2d_no_wrap}, {6, 6, SipFabric::sw}};
  for (const Case& c : cases) {
    const MachineInfo m = machine(c.sips, c.fabric, c.cols);
    for (std::uint32_t world = 1; world <= c.sips; ++world)
      for (const Op op : kOps)
        for (const std::string payload : {"tcm", "hbm"})
          check_data(m, {{"algo", "hierarchical"},
                         {"op", collectives::name_of(op)},
                         {"payload", payload},
                         {"world", std::to_string(world)},
                         {"n_elem", "1000"},
                         {"chunk_bytes", "200"},
                         {"inputs", "integers"}});
  }
  check_data(machine(6, SipFabric::torus_2d, 3), {{"algo", "hierarchical"}, {"n_elem", "49152"}});
}

BOOST_AUTO_TEST_CASE(random_inputs_stay_within_the_gates) {
  const MachineInfo m = machine();
  for (const std::string algo : {"ring_1d", "mesh", "tree"})
    for (const std::string dtype : {"f16", "bf16", "f32"}) {
      test::CollectivesHost host(m);
      const BenchResult r =
          run_allreduce(host, {{"algo", algo}, {"dtype", dtype}, {"n_elem", "4096"}, {"world", "256"}});
      BOOST_TEST(r.numerics.pass);
      BOOST_TEST(r.numerics.rel_rmse > 0.0);
      BOOST_TEST(r.numerics.tolerance == (dtype == "f16" ? 5e-3 : dtype == "bf16" ? 4e-2 : 1e-6));
    }
}

BOOST_AUTO_TEST_CASE(a_wrong_sum_is_noticed) {
  // The check itself: a host that loses an addition.
  class Forgetful : public test::CollectivesHost {
   public:
    using CollectivesHost::CollectivesHost;
    void read(const Tensor& t, std::size_t shard, void* bytes, std::size_t size) override {
      CollectivesHost::read(t, shard, bytes, size);
      if (shard == 3) static_cast<std::uint8_t*>(bytes)[1] ^= 0x04;
    }
  };
  Forgetful host(machine());
  const BenchResult r = run_allreduce(host, {{"world", "8"}, {"n_elem", "64"}, {"inputs", "integers"}});
  BOOST_TEST(!r.numerics.pass);
  BOOST_TEST(r.numerics.tolerance == 0.0);
}

// ---- as a library ---------------------------------------------------------------------------------------------

namespace {

/// A user's kernel: means over a ring and, of a tensor in scratch, a sum over a tree.
void normalise(tl::Context& tl, const Ring& ring, const Tree& tree, const Tensor& x, const Tensor& y) {
  const tl::Handle mine = tl.resident(tl.shard_of(x).addr, Shape{4, 25}, DType::f32);
  ring_all_reduce(tl, ring.place(tl.rank()), Vector(tl, mine));
  const tl::Handle copy = tl.empty(Shape{4, 25}, DType::f32);
  tl.add(mine, mine, tl::into(copy));
  RunOptions options;
  options.chunk_bytes = 64;
  tree_all_reduce(tl, tree.place(tl.rank()), Vector(tl, copy), 4, options);
  tl.store(tl.shard_of(y).addr, copy);
}

}  // namespace

BOOST_AUTO_TEST_CASE(kernels_of_users_compose_them) {
  const MachineInfo m = machine();
  test::CollectivesHost host(m);
  QueueSet queues(m);
  const Ring ring(queues, snake_order(m, 8), Direction::E, Direction::W, true);
  const Tree tree(queues, RankTree::tree(m, 8), true, true);
  std::vector<std::pair<std::uint32_t, Shape>> shards;
  LaunchOptions options;
  for (std::uint32_t r = 0; r < 8; ++r) {
    shards.emplace_back(r, Shape{100});
    options.pes.push_back(r);
  }
  options.queues = queues.routes();
  const Tensor x = host.allocate("x", DType::f32, Space::tcm, shards),
               y = host.allocate("y", DType::f32, Space::hbm, shards);
  std::vector<float> values(100);
  for (std::size_t r = 0; r < 8; ++r) {
    for (std::size_t i = 0; i < 100; ++i) values[i] = static_cast<float>(r * 100 + i);
    host.write(x, r, values.data(), 400);
  }
  host.launch(tl::bind_kernel("normalise", normalise, ring, tree, x, y), options);
  for (std::size_t r = 0; r < 8; ++r) {
    host.read(y, r, values.data(), 400);
    for (std::size_t i = 0; i < 100; ++i) BOOST_TEST(values[i] == 16.0f * (2800.0f + 8.0f * static_cast<float>(i)));
  }
}

BOOST_AUTO_TEST_CASE(a_tensor_of_integers_is_refused) {
  const MachineInfo m = machine();
  EmitPort port(m);
  tl::Context tl(port);
  BOOST_TEST(contains(message_of<ModelError>([&tl] { Vector(tl, tl.empty(Shape{8}, DType::i8)); }),
                      "found a vector [8] i8 in tcm"));
  BOOST_TEST(contains(message_of<ModelError>([&tl] {
                        Vector(tl, tl.trans(tl.empty(Shape{8, 4}, DType::f16)));
                      }),
                      "not dense"));
}

// ---- parameters -----------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(parameters_that_do_not_fit_are_refused) {
  test::CountingHost host(machine());
  const auto error = [&host](const Settings& s) { return message_of<InputError>([&] { run_allreduce(host, s); }); };
  BOOST_TEST(
      contains(error({{"world", "257"}}), "bench allreduce, parameter world: found 257 ranks; allowed: 1 .. 256"));
  BOOST_TEST(contains(error({{"algo", "hierarchical"}, {"world", "3"}}), "found 3 SIPs; allowed: 1 .. 2"));
  BOOST_TEST(contains(error({{"root", "8"}, {"world", "8"}}), "below world = 8"));
  BOOST_TEST(contains(error({{"root", "8"}, {"world", "8"}, {"algo", "mesh"}}), "below world = 8"));
  BOOST_TEST(contains(error({{"root", "2"}, {"world", "8"}, {"algo", "tree"}}), "its own, 1"));
  BOOST_TEST(contains(error({{"algo", "star"}}), "ring_1d"));
  BOOST_TEST(contains(error({{"slots", "2"}}), "pe.ipcq.slots = 4"));
  BOOST_TEST(contains(error({{"chunk_bytes", "2097152"}, {"n_elem", "2097152"}}), "pe.tcm.scratch_bytes"));
  BOOST_TEST(error({{"root", "1"}, {"world", "8"}, {"algo", "tree"}}) == "no error");
  BOOST_TEST(error({{"slots", "4"}}) == "no error");
}

BOOST_AUTO_TEST_CASE(bounds_follow_alpha_and_beta) {
  const MachineInfo m = machine();
  // One message per step: 14 (alpha + 512 B / 256), alpha = 8 cycles + 2 ns.
  const AlphaBeta small = alpha_beta(m, make(m, Op::all_reduce, Algo::ring_1d, 8, 2048));
  BOOST_TEST(small.alpha_ns == 10.0);
  BOOST_TEST(small.beta_gbs == 256.0);
  BOOST_TEST(small.chain == 14u);
  BOOST_TEST(small.bound_ns == 14 * (10.0 + 2.0), boost::test_tools::tolerance(1e-12));
  BOOST_TEST(small.bytes_per_rank == 14u * 512);
  // Pieces hide each other's alpha: the busiest link decides, and the first piece of the chain.
  const AlphaBeta large = alpha_beta(m, make(m, Op::all_reduce, Algo::ring_1d, 8, 2 << 20));
  BOOST_TEST(large.bytes_per_rank == 14u * 512 * 1024);
  BOOST_TEST(large.bound_ns >= 14 * 2048.0);
  BOOST_TEST(large.bound_ns < 14 * 2048.0 + 14 * 10.0 + 256.0);
  // Empty messages are dispatched all the same.
  const AlphaBeta empty = alpha_beta(m, make(m, Op::all_reduce, Algo::ring_1d, 256, 1));
  BOOST_TEST(empty.chain == 510u);
  BOOST_TEST(empty.bound_ns > 510 * 8.0);
  BOOST_TEST(alpha_beta(m, make(m, Op::all_reduce, Algo::ring_1d, 1, 2048)).bound_ns == 0.0);
  // Trees: a chain of 2 x depth messages.
  BOOST_TEST(alpha_beta(m, make(m, Op::all_reduce, Algo::tree, 8, 1000)).chain == 2 * RankTree::tree(m, 8).depth());
}

// ---- pe2pe ----------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(pe2pe_tables_and_hops) {
  BenchRegistry registry;
  add_standard_benches(registry);
  test::CountingHost host(machine());
  const BenchResult r = run_bench(registry.get("pe2pe"), host, {{"hop", "all"}, {"bytes", "all"}, {"mode", "all"}});
  BOOST_TEST(r.tables.size() == 2u);
  BOOST_TEST(r.tables[0].name == "pe2pe");
  BOOST_TEST(r.tables[0].rows.size() == 4u * 9 * 3);
  BOOST_TEST(r.tables[1].rows.size() == 4u * 9);
  BOOST_TEST(r.launches.size() == 4u * 9 * 3);
  MachineInfo cube = machine(1);
  cube.cube_cols = cube.cube_rows = 1;
  test::CountingHost one(cube);
  BOOST_TEST(run_bench(registry.get("pe2pe"), one, {{"hop", "all"}}).launches.size() == 2u);
  BOOST_TEST(contains(message_of<InputError>([&] {
                        run_bench(registry.get("pe2pe"), one, {{"hop", "h3"}});
                      }),
                      "h1, h2"));
  cube.pes_per_cube = 1;
  test::CountingHost lonely(cube);
  BOOST_TEST(contains(message_of<InputError>([&] { run_bench(registry.get("pe2pe"), lonely, {}); }), "no neighbours"));
}

BOOST_AUTO_TEST_CASE(pe2pe_moves_the_bytes) {
  BenchRegistry registry;
  add_standard_benches(registry);
  test::CollectivesHost host(machine());
  const BenchResult r = run_bench(registry.get("pe2pe"), host, {{"hop", "all"}, {"bytes", "all"}, {"mode", "all"}});
  BOOST_TEST(r.numerics.checked);
  BOOST_TEST(r.numerics.pass);
  BOOST_TEST(r.launches[0].name == "h1.ipcq.128");
}

BOOST_AUTO_TEST_SUITE_END()
