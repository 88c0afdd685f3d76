// Collectives on the simulated machine: their data, their messages, and that they always end.
#include "collective_runs.h"
#include "covering.h"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <tuple>
#include <vector>

using namespace kb;
using namespace kb::test;
namespace bdata = boost::unit_test::data;

namespace {

const std::vector<std::string> kAlgos{"ring_1d", "mesh", "tree"};
const std::vector<std::string> kOps{"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce_to_root"};

/// The smallest machine of ours that holds a world.
std::string machine_for(const std::string& world) {
  const int ranks = std::stoi(world);
  return ranks <= 8 ? "one_cube" : ranks <= 64 ? "eight_cubes" : "default";
}

const Setup kFourCubes = two_sips_of_two_cubes();

}  // namespace

BOOST_AUTO_TEST_SUITE(collectives_on_the_machine)

// ---- data: every pair of parameter values (scripts/collectives_full.sh runs their product) -----------------------

namespace {

const std::vector<Factor> kSmall{{"world", {"1", "2", "3", "4", "7", "8"}},
                                 {"n_elem", {"1", "3", "32", "1000", "49152"}},
                                 {"op", kOps},
                                 {"algo", kAlgos},
                                 {"slots", {"1", "2", "4"}},
                                 {"buffer_kind", {"tcm", "sram", "hbm"}},
                                 {"dtype", {"f16", "bf16", "f32"}},
                                 {"payload", {"tcm", "hbm"}},
                                 {"inputs", {"normal", "integers"}}};
const std::vector<Combination> kSmallRows = covering_set(kSmall);

// Rings of 64 and more have a case of their own below: a run of 256 ranks sends 130,000 messages.
const std::vector<Factor> kLarge{{"world", {"64", "128", "256"}},
                                 {"n_elem", {"1", "3", "32", "1000", "4000"}},
                                 {"op", kOps},
                                 {"algo", {"mesh", "tree"}},
                                 {"slots", {"1", "2", "4"}},
                                 {"buffer_kind", {"tcm", "sram", "hbm"}},
                                 {"payload", {"tcm", "hbm"}},
                                 {"inputs", {"normal", "integers"}}};
const std::vector<Combination> kLargeRows = covering_set(kLarge);

const std::vector<Factor> kSips{{"kind", {"torus_2d", "ring_1d", "mesh_2d_no_wrap", "switch"}},
                                {"world", {"1", "2", "3", "4", "5", "6"}},
                                {"n_elem", {"1", "3", "32", "1000", "4000"}},
                                {"op", kOps},
                                {"slots", {"1", "2", "4"}},
                                {"buffer_kind", {"tcm", "sram", "hbm"}},
                                {"payload", {"tcm", "hbm"}},
                                {"inputs", {"normal", "integers"}}};
const std::vector<Combination> kSipRows = covering_set(kSips);

/// One PE in each cube: the hierarchical algorithm uses no other.
const std::vector<Override> kOnePe{{"cube.pes", "[r0c0]"}, {"cube.pe_grid_cols", "1"}};

/// Six SIPs of 3 x 2 cubes, with the given fabric between them; rings and switches have one row of SIPs.
Setup six_sips(const std::string& kind) {
  Setup six =
      Setup{"six_sips", {{"system.fabric.kind", kind}, {"sip.cube_mesh", "[3, 2]"}, {"sip.io.phys", "3"}}}.with(kOnePe);
  if (kind == "ring_1d" || kind == "switch") six.keys.push_back({"system.fabric.shape", "[6, 1]"});
  return six;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_lists_hold_every_pair) {
  BOOST_TEST(missing_pairs(kSmall, kSmallRows) == "");
  BOOST_TEST(missing_pairs(kLarge, kLargeRows) == "");
  BOOST_TEST(missing_pairs(kSips, kSipRows) == "");
  BOOST_TEST_MESSAGE(kSmallRows.size() << ", " << kLargeRows.size() << " and " << kSipRows.size() << " runs");
}

BOOST_DATA_TEST_CASE(every_pair_of_parameters, bdata::xrange(kSmallRows.size()), row) {
  check_collective({"one_cube", {}}, kSmallRows[row]);
}

BOOST_DATA_TEST_CASE(every_pair_of_parameters_in_large_worlds, bdata::xrange(kLargeRows.size()), row) {
  check_collective({machine_for(kLargeRows[row].at("world")), {}}, kLargeRows[row]);
}

/// Rings over cubes, and over half of a cube more than one.
BOOST_DATA_TEST_CASE(rings_over_cubes,
                     bdata::make(kOps) ^ bdata::make({"64", "12", "64", "64", "23"}) ^
                         bdata::make({"1", "1000", "300", "4000", "3"}),
                     op, world, n_elem) {
  check_collective({"eight_cubes", {}}, {{"op", op}, {"world", world}, {"n_elem", n_elem}, {"inputs", "integers"}});
}

BOOST_DATA_TEST_CASE(every_pair_of_parameters_hierarchical, bdata::xrange(kSipRows.size()), row) {
  Combination params = kSipRows[row];
  const Setup six = six_sips(params.at("kind"));
  params.erase("kind");
  params["algo"] = "hierarchical";
  check_collective(six, params);
}

BOOST_DATA_TEST_CASE(hierarchical_over_one_and_two_sips, bdata::make({"1", "2"}), sips) {
  for (const std::string& op : kOps)
    check_collective(
        Setup{}.with(kOnePe),
        {{"algo", "hierarchical"}, {"op", op}, {"world", sips}, {"n_elem", "1000"}, {"inputs", "integers"}});
}

/// The published size, on the published machine.
BOOST_AUTO_TEST_CASE(hierarchical_over_six_sips_at_96_kib) {
  check_collective({"six_sips", {}}, {{"algo", "hierarchical"}, {"n_elem", "49152"}, {"inputs", "integers"}});
}

/// Every operation on every small world, with more messages in flight than slots.
BOOST_DATA_TEST_CASE(small_worlds, bdata::make(kAlgos), algo) {
  const Setup cube{"one_cube", {}};
  int i = 0;
  for (const std::string& op : kOps)
    for (const char* world : {"1", "2", "3", "4", "5", "6", "7", "8"}) {
      Settings params{{"algo", algo},        {"op", op},
                      {"world", world},      {"n_elem", "1000"},
                      {"slots", "2"},        {"payload", i++ % 2 == 0 ? "tcm" : "hbm"},
                      {"chunk_bytes", "96"}, {"inputs", "integers"}};
      if (algo != "tree") params["root"] = std::to_string(std::stoi(world) * 2 / 3);
      check_collective(cube, params);
    }
}

/// Pieces of many slots each, and all of them at once in flight.
BOOST_DATA_TEST_CASE(long_vectors, bdata::make(kAlgos) * bdata::make({"tcm", "hbm"}), algo, payload) {
  for (const char* slots : {"1", "4"})
    check_collective(
        {"one_cube", {}},
        {{"algo", algo}, {"n_elem", "49153"}, {"payload", payload}, {"slots", slots}, {"chunk_bytes", "9000"}});
}

/// The slot-refill fault of the seed design: 256 ranks over two SIPs, 4 slots; 8192 elements are 32 per message, 32
/// leave 7 of 8 messages empty. With credits that come back at once a slot is refilled as early as it can be. The other
/// two combinations are in scripts/collectives_full.sh.
BOOST_DATA_TEST_CASE(refilled_slots_do_not_change_what_was_sent,
                     bdata::make({"8192", "32"}) ^ bdata::make({"fast", "modelled"}) ^
                         bdata::make({"normal", "integers"}),
                     n_elem, credits, inputs) {
  Setup two_sips;
  if (std::string(credits) == "fast") two_sips.keys = {{"pe.ipcq.credit_bytes", "0"}, {"system.ns_per_mm", "0"}};
  check_collective(two_sips, {{"n_elem", n_elem}, {"slots", "4"}, {"inputs", inputs}});
}

/// Empty messages travel behind full ones over slow links too, whatever the number of slots.
BOOST_DATA_TEST_CASE(empty_chunks_keep_their_place, bdata::make({"1", "6", "30"}) * bdata::make({"1", "3", "4"}),
                     n_elem, slots) {
  check_collective(kFourCubes.with({{"system.fabric.link_bw_gbs", "1"}, {"pe.dma.outstanding", "4"}}),
                   {{"n_elem", n_elem}, {"slots", slots}, {"inputs", "integers"}});
}

/// One link ten times slower than the others, in either direction of the ring.
BOOST_DATA_TEST_CASE(a_slow_link_keeps_data_right, bdata::make(kAlgos), algo) {
  check_collective(kFourCubes.with({{"system.fabric.link_bw_gbs", "12.8"}}),
                   {{"algo", algo}, {"n_elem", "4000"}, {"slots", "1"}, {"inputs", "integers"}});
}

// ---- messages in the op log --------------------------------------------------------------------------------------

namespace {

/// Sender, receiver, number on their queue.
using Message = std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>;
struct Logged {
  std::map<std::uint32_t, int> sends, recvs;               // by rank
  std::map<std::uint32_t, std::vector<Message>> messages;  // that a rank sends and receives, in the order of the log
};

/// Runs an all-reduce and reads its op log.
Logged logged(const Setup& setup, const Settings& params) {
  TempDir dir;
  RunSpec with_log = spec_of("allreduce", setup, params);
  with_log.out = dir.path().string();
  run(with_log);
  Logged log;
  const MachineInfo machine = machine_of(setup);
  std::ifstream in(with_log.out + "/op_log.jsonl");
  for (std::string line; std::getline(in, line);) {
    const auto record = nlohmann::json::parse(line);
    if (!record.contains("op_kind") || record["op_kind"] != "ipcq") continue;
    const bool sends = record["op_name"] == "send";
    if (!sends && record["op_name"] != "recv") continue;
    PeId id;
    const std::string component = record["component"];
    BOOST_REQUIRE(std::sscanf(component.c_str(), "tray.sip%u.cube%u.pe%u", &id.sip, &id.cube, &id.pe) == 3);
    const std::uint32_t rank = machine.rank_of(id), peer = record["params"]["peer"];
    const std::uint64_t number = record["params"]["message"];
    ++(sends ? log.sends : log.recvs)[rank];
    log.messages[rank].push_back(sends ? Message{rank, peer, number} : Message{peer, rank, number});
  }
  return log;
}

/// Rounds that the messages need when a rank takes part in one message per round, in the order of its messages.
std::uint32_t rounds_of(const Logged& log) {
  std::map<std::uint32_t, std::size_t> next;
  std::map<std::uint32_t, std::uint32_t> last;
  std::uint32_t rounds = 0;
  const auto front = [&](std::uint32_t rank) {
    const auto& own = log.messages.at(rank);
    return next[rank] < own.size() ? own[next[rank]] : Message{rank, rank, 0};
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (const auto& [rank, own] : log.messages) {
      const Message m = front(rank);
      const auto [from, to, number] = m;
      if (from == to || front(from) != m || front(to) != m) continue;
      last[from] = last[to] = std::max(last[from], last[to]) + 1;
      rounds = std::max(rounds, last[from]);
      ++next[from];
      ++next[to];
      moved = true;
    }
  }
  for (const auto& [rank, own] : log.messages) BOOST_TEST(next[rank] == own.size());
  return rounds;
}

std::uint32_t log2_ceil(std::uint32_t n) {
  std::uint32_t k = 0;
  while ((1u << k) < n) ++k;
  return k;
}

}  // namespace

// Chunks of at most one message: every rank sends 2 (N - 1) of them and receives as many, empty ones included.
BOOST_DATA_TEST_CASE(rings_log_2_n_minus_1_sends, bdata::make({2, 3, 7, 8, 64}), world) {
  for (const char* n : {"3", "1000"}) {
    const Setup setup{machine_for(std::to_string(world)), {}, Mode::timing};
    const Logged log = logged(setup, {{"world", std::to_string(world)}, {"n_elem", n}});
    BOOST_TEST(log.sends.size() == static_cast<std::size_t>(world));
    BOOST_TEST(log.recvs.size() == static_cast<std::size_t>(world));
    for (const auto& s : log.sends)
      BOOST_TEST(s.second == 2 * (world - 1), "rank " << s.first << ": " << s.second << " sends");
    for (const auto& r : log.recvs)
      BOOST_TEST(r.second == 2 * (world - 1), "rank " << r.first << ": " << r.second << " recvs");
  }
}

// Spec 6.3: ceil(log2 P) rounds in a cube, ceil(log2 C) between 1..8 and 12..16 cubes, one between two SIPs; the same
// back.
BOOST_DATA_TEST_CASE(trees_log_their_rounds, bdata::make({2, 3, 4, 5, 7, 8, 16, 64, 128, 256}), world) {
  const Setup setup{machine_for(std::to_string(world)), {}, Mode::timing};
  const Logged log = logged(setup, {{"world", std::to_string(world)}, {"algo", "tree"}, {"n_elem", "32"}});
  const auto n = static_cast<std::uint32_t>(world);
  const std::uint32_t pes = std::min(n, 8u), cubes = std::min((n + 7) / 8, 16u), sips = (n + 127) / 128;
  BOOST_TEST(rounds_of(log) == 2 * (log2_ceil(pes) + log2_ceil(cubes) + log2_ceil(sips)));
  int sends = 0;
  for (const auto& s : log.sends) sends += s.second;
  BOOST_TEST(sends == 2 * (world - 1));
}

// ---- liveness (law 9) --------------------------------------------------------------------------------------------

namespace {
const std::vector<Override> kSmallest{
    {"pe.ipcq.slots", "1"},      {"pe.scheduler.queue_depth", "1"}, {"pe.scheduler.tile_buffers", "1"},
    {"pe.dma.outstanding", "1"}, {"pe.dma.read_engines", "1"},      {"pe.dma.write_engines", "1"}};
}

/// Scratch of one message (TCM) or two (HBM) besides: nothing can be had ahead.
BOOST_DATA_TEST_CASE(everything_at_its_minimum_still_ends, bdata::make(kAlgos) * bdata::make({"tcm", "hbm"}), algo,
                     payload) {
  const Setup smallest = Setup{"one_cube", {}}.with(kSmallest).with(
      {{"pe.tcm.scratch_bytes", std::string(payload) == "tcm" ? "1024" : "2048"}});
  for (const std::string& op : kOps)
    for (const char* world : {"2", "7", "8"})
      check_collective(smallest, {{"algo", algo},
                                  {"op", op},
                                  {"world", world},
                                  {"payload", payload},
                                  {"n_elem", "9001"},
                                  {"chunk_bytes", "1024"},
                                  {"inputs", "integers"}});
}

BOOST_DATA_TEST_CASE(everything_at_its_minimum_still_ends_across_sips, bdata::make(kAlgos), algo) {
  for (const std::string& op : kOps)
    check_collective(kFourCubes.with(kSmallest),
                     {{"algo", algo}, {"op", op}, {"n_elem", "300"}, {"inputs", "integers"}});
}

BOOST_DATA_TEST_CASE(everything_at_its_minimum_still_ends_hierarchical,
                     bdata::make({"torus_2d", "ring_1d", "mesh_2d_no_wrap", "switch"}), kind) {
  for (const std::string& op : kOps)
    check_collective(
        six_sips(kind).with(kSmallest),
        {{"algo", "hierarchical"}, {"op", op}, {"n_elem", "3000"}, {"chunk_bytes", "512"}, {"inputs", "integers"}});
}

BOOST_AUTO_TEST_SUITE_END()
