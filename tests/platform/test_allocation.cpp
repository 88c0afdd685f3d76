// Allocation: first fit, coalescing, and the address spaces that tensors live in.
#include <kb/platform/machine.h>
#include <kb/platform/tensor_host.h>
#include <kb/tlm_if/errors.h>

#include <boost/test/unit_test.hpp>
#include <random>
#include <set>

namespace {

using namespace kb;

/// A host without a machine behind it.
class PlainHost : public TensorHost {
 public:
  explicit PlainHost(const SystemConfig& c) : TensorHost(c, Mode::timing) {}
  void write(const Tensor&, std::size_t, const void*, std::size_t) override {}
  void read(const Tensor&, std::size_t, void*, std::size_t) override {}
  LaunchResult launch(const KernelProgram&, const LaunchOptions&) override { return {}; }
  LaunchResult run_transfers(const std::vector<DirectTransfer>&) override { return {}; }
  Ps host_copy(bool, std::uint64_t, std::uint64_t) override { return 0; }
};

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const InputError& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(allocation)

BOOST_AUTO_TEST_CASE(lowest_range_that_fits_is_taken) {
  Allocator a("m", 0x1000, 0x1000, 0x100);
  BOOST_TEST(a.allocate(0x300, "x") == 0x1000u);
  BOOST_TEST(a.allocate(1, "y") == 0x1300u);  // rounded up to 0x100
  BOOST_TEST(a.allocate(0x200, "z") == 0x1400u);
  a.free(0x1000);
  BOOST_TEST(a.allocate(0x400, "w") == 0x1600u);  // the hole of 0x300 is too small
  BOOST_TEST(a.allocate(0x300, "v") == 0x1000u);
}

BOOST_AUTO_TEST_CASE(neighbouring_free_ranges_become_one) {
  Allocator a("m", 0, 0x300, 0x100);
  for (int i = 0; i < 3; ++i) a.allocate(0x100, "x");
  a.free(0x000);
  a.free(0x200);
  BOOST_TEST(a.largest_free() == 0x100u);
  a.free(0x100);  // joins both sides
  BOOST_TEST(a.largest_free() == 0x300u);
  BOOST_TEST(a.allocate(0x300, "y") == 0u);
}

BOOST_AUTO_TEST_CASE(too_much_and_double_free_are_refused) {
  Allocator a("tray.sip0.cube0.hbm0", 0, 0x200, 0x100);
  a.allocate(0x100, "x");
  BOOST_TEST(message_of([&] { a.allocate(0x101, "tensor k [8, 2] f16"); }) ==
             "tensor k [8, 2] f16: found 257 bytes asked of tray.sip0.cube0.hbm0; allowed: the largest free range of 256 "
             "bytes (256 in use)");
  a.free(0);
  BOOST_TEST(message_of([&] { a.free(0); }).find("not allocated") != std::string::npos);
  BOOST_TEST(message_of([&] { a.allocate(~0ull, "huge"); }).find("huge: found 18446744073709551615") == 0u);
}

// Random allocations and frees never overlap, never leave the region, and end with everything free again.
BOOST_AUTO_TEST_CASE(random_traffic_conserves_the_region) {
  std::mt19937 rng(7);
  Allocator a("m", 0x400, 0x10000, 0x40);
  std::map<std::uint64_t, std::uint64_t> live;
  for (int i = 0; i < 5000; ++i) {
    if (live.empty() || rng() % 2 == 0) {
      const std::uint64_t size = 1 + rng() % 0x800;
      try {
        const std::uint64_t at = a.allocate(size, "x");
        const auto next = live.lower_bound(at);
        BOOST_REQUIRE(next == live.end() || at + size <= next->first);
        if (next != live.begin()) BOOST_REQUIRE(std::prev(next)->first + std::prev(next)->second <= at);
        BOOST_REQUIRE(at >= 0x400u && at + size <= 0x10400u);
        live[at] = size;
      } catch (const InputError&) {
        BOOST_REQUIRE(a.largest_free() < size);
      }
    } else {
      auto it = live.begin();
      std::advance(it, rng() % live.size());
      a.free(it->first);
      live.erase(it);
    }
  }
  for (const auto& [at, size] : live) a.free(at);
  BOOST_TEST(a.in_use() == 0u);
  BOOST_TEST(a.largest_free() == 0x10000u);
}

BOOST_AUTO_TEST_CASE(shards_lie_in_the_memory_of_their_owner) {
  SystemConfig c;
  PlainHost host(c);
  const Tensor t = host.allocate("k", DType::f16, Space::hbm, {{3, Shape{64, 128}}, {200, Shape{1, 128}}, {5, Shape{0, 128}}});
  const PhysicalRun first = host.page_table().translate(t.shards[0].addr, 64 * 256);
  BOOST_TEST(first.bytes == 64u * 256u);
  const Decoded d0 = host.addresses().decode(first.address);
  BOOST_TEST(d0.sip == 0u);
  BOOST_TEST(d0.die == 0u);
  BOOST_TEST(d0.unit == 3u);
  const Decoded d1 = host.addresses().decode(host.page_table().translate(t.shards[1].addr, 256).address);
  BOOST_TEST(d1.sip == 1u);  // rank 200 = SIP 1, cube 9, PE 0
  BOOST_TEST(d1.die == 9u);
  BOOST_TEST(d1.unit == 0u);
  host.free(t);
  BOOST_TEST(host.page_table().translate(t.shards[0].addr, 1).bytes == 0u);
  BOOST_TEST(message_of([&] { host.free(t); }).find("not allocated") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(tcm_tensors_lie_above_the_scratch_arena) {
  SystemConfig c;
  PlainHost host(c);
  const Tensor t = host.allocate("o", DType::f32, Space::tcm, {{0, Shape{8, 128}}});
  BOOST_TEST(t.shards[0].addr == c.pe.tcm.scratch_bytes);
  BOOST_TEST(message_of([&] { host.allocate("big", DType::f32, Space::tcm, {{0, Shape{4096, 1024}}}); })
                 .find("tensor big [4096, 1024] f32: found 16777216 bytes asked of tray.sip0.cube0.pe0.tcm") == 0u);
}

BOOST_AUTO_TEST_CASE(a_tensor_larger_than_its_slice_is_refused) {
  PlainHost host{SystemConfig{}};
  BOOST_TEST(message_of([&] { host.allocate("k", DType::f32, Space::hbm, {{9, Shape{1 << 20, 2048}}}); })
                 .find("asked of tray.sip0.cube1.hbm1; allowed: the largest free range of 6442450944 bytes") != std::string::npos);
}

// The address map covers each region once, and describes what lies nowhere by its nearest neighbour.
BOOST_AUTO_TEST_CASE(addresses_decode_to_the_region_they_were_made_for) {
  const AddressMap map = address_map(SystemConfig{});
  for (std::uint32_t sip : {0u, 1u})
    for (std::uint32_t cube : {0u, 7u, 15u})
      for (std::uint32_t unit : {0u, 7u}) {
        const Decoded h = map.decode(map.hbm(sip, cube, unit, 12345));
        BOOST_TEST((h.kind == RegionKind::hbm && h.sip == sip && h.die == cube && h.unit == unit && h.offset == 12345));
        const Decoded t = map.decode(map.tcm(sip, cube, unit, 77));
        BOOST_TEST((t.kind == RegionKind::tcm && t.sip == sip && t.die == cube && t.unit == unit && t.offset == 77));
        const Decoded q = map.decode(map.queue(sip, cube, unit, 5));
        BOOST_TEST((q.kind == RegionKind::queue && q.unit == unit && q.offset == 5));
      }
  const std::uint64_t past_hbm = map.hbm(0, 0, 7, 6ull << 30);
  BOOST_TEST((map.decode(past_hbm + (1ull << 41)).kind == RegionKind::none));
  BOOST_TEST(map.describe(map.hbm(2, 0, 0)).find("tray.sip1 is the last SIP") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
