// Speed of the fabric model: elaboration of the default tray, packets against flits on 64 KiB transfers, messages per
// second of tile-sized ones. Run by hand: bench_fabric [repetitions]
#include <kb/platform/config.h>
#include <kb/platform/fabric_builder.h>
#include <kb/platform/kernel_scope.h>
#include <kb/tlm_if/payload_pool.h>

#include <fmt/format.h>

#include <sys/resource.h>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <random>
#include <systemc>
#include <vector>

namespace {

// Processor time: a busy machine must not look slow.
double seconds(std::clock_t from) {
  return static_cast<double>(std::clock() - from) / CLOCKS_PER_SEC;
}
double rss_mib() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  return static_cast<double>(u.ru_maxrss) / 1024.0;
}

/// Reads one after the other, as a DMA with one outstanding transfer does.
class Reader : public sc_core::sc_module, public tlm::tlm_bw_transport_if<>, public kb::TrainListener {
 public:
  tlm::tlm_initiator_socket<> socket{"socket"};
  std::vector<std::uint64_t> addresses;
  std::uint64_t bytes = 0;
  std::size_t count = 0;

  explicit Reader(const sc_core::sc_module_name& name) : sc_core::sc_module(name) {
    socket.bind(static_cast<tlm::tlm_bw_transport_if<>&>(*this));
    SC_HAS_PROCESS(Reader);
    SC_METHOD(next);
    sensitive << go_;
    dont_initialize();
  }
  void start(std::vector<std::uint64_t> to, std::uint64_t each, std::size_t times) {
    addresses = std::move(to);
    bytes = each;
    count = times;
    if (count > 0) go_.notify(sc_core::SC_ZERO_TIME);
  }

 private:
  void next() {
    if (count == 0) return;
    --count;
    auto& trans = pool_.take(tlm::TLM_READ_COMMAND, addresses[count % addresses.size()], bytes);
    kb::PayloadPool::extension(trans).listener = this;
    tlm::tlm_phase phase = tlm::BEGIN_REQ;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    socket->nb_transport_fw(trans, phase, delay);
  }
  void done(tlm::tlm_generic_payload& trans) {
    const kb::Ps end = kb::PayloadPool::extension(trans).train.tail();
    trans.release();
    go_.notify(kb::to_sc_time(end - kb::now_ps()));
  }
  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& trans, tlm::tlm_phase&, sc_core::sc_time&) override {
    if (kb::PayloadPool::extension(trans).complete) done(trans);
    return tlm::TLM_COMPLETED;
  }
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}
  void train_extended(tlm::tlm_generic_payload& trans, kb::TransferExtension& ext) override {
    if (ext.complete) done(trans);
  }
  kb::PayloadPool pool_;
  sc_core::sc_event go_;
};

class Tray : public sc_core::sc_module {
 public:
  Tray(const sc_core::sc_module_name& name, const kb::SystemConfig& config) : sc_core::sc_module(name) {
    kb::FabricOptions options;
    options.make_pe = [this](const char* pe, const kb::PeAttachment& at) {
      auto r = std::make_unique<Reader>(pe);
      r->socket.bind(*at.dma);
      readers.push_back(r.get());
      return r;
    };
    fabric = std::make_unique<kb::Fabric>(config, options);
  }
  std::vector<Reader*> readers;
  std::unique_ptr<kb::Fabric> fabric;
};

struct Speed {
  double wall = 0;
  double simulated_us = 0;
};

/// Each of the first PEs reads `count` times `bytes` from where `slice` says.
template <typename Where>
Speed run(Tray& tray, std::uint64_t bytes, std::size_t count, Where&& where, std::size_t pes = 256) {
  for (std::uint32_t r = 0; r < pes; ++r) tray.readers[r]->start(where(r), bytes, count);
  const auto from = std::clock();
  const kb::Ps start = kb::now_ps();
  sc_core::sc_start();
  tray.fabric->check_conservation();
  return {seconds(from), static_cast<double>(kb::now_ps() - start) / 1e6};
}

}  // namespace

int sc_main(int argc, char* argv[]) {
  const std::size_t repetitions = argc > 1 ? static_cast<std::size_t>(std::atoi(argv[1])) : 20;
  double wall[2][3] = {};
  const char* patterns[] = {"own slice", "next cube", "random"};
  for (const auto granularity : {kb::Granularity::packet, kb::Granularity::flit}) {
    const kb::KernelScope scope;
    sc_core::sc_report_handler::set_actions(sc_core::SC_ID_NO_SC_START_ACTIVITY_, sc_core::SC_DO_NOTHING);
    kb::SystemConfig config;
    config.granularity.granularity = granularity;
    const bool packet = granularity == kb::Granularity::packet;
    const auto from = std::clock();
    Tray tray("tray", config);
    sc_core::sc_start(sc_core::SC_ZERO_TIME);
    fmt::print("{}: elaboration of {} PEs {:.2f} s, {:.0f} MiB resident\n", packet ? "packet" : "flit",
               tray.readers.size(), seconds(from), rss_mib());
    const auto& map = tray.fabric->addresses();
    const auto place = [](std::uint32_t r) { return std::array<std::uint32_t, 3>{r / 128, r / 8 % 16, r % 8}; };
    std::mt19937_64 random(1);
    const auto targets = [&](int pattern, std::uint32_t r) {
      const auto [sip, cube, pe] = place(r);
      if (pattern == 0) return std::vector<std::uint64_t>{map.hbm(sip, cube, pe)};
      if (pattern == 1) return std::vector<std::uint64_t>{map.hbm(sip, cube ^ 1u, pe)};
      std::vector<std::uint64_t> some;
      for (int i = 0; i < 16; ++i)
        some.push_back(map.hbm(static_cast<std::uint32_t>(random() % 2), static_cast<std::uint32_t>(random() % 16),
                               static_cast<std::uint32_t>(random() % 8)));
      return some;
    };
    for (int pattern = 0; pattern < 3; ++pattern) {
      const Speed s = run(tray, 64 * kb::KiB, repetitions, [&](std::uint32_t r) { return targets(pattern, r); });
      wall[packet ? 0 : 1][pattern] = s.wall;
      fmt::print("  {} x 64 KiB, {}: {:.3f} s, {:.1f} us simulated\n", 256 * repetitions, patterns[pattern], s.wall,
                 s.simulated_us);
    }
    if (packet) {
      const Speed s = run(tray, 4 * kb::KiB, 50 * repetitions, [&](std::uint32_t r) { return targets(0, r); });
      fmt::print("  {} x 4 KiB, own slice: {:.3f} s, {:.2f} M transfers/s\n", 256 * 50 * repetitions, s.wall,
                 256.0 * 50 * static_cast<double>(repetitions) / s.wall / 1e6);
      const std::size_t many = 10'000 * repetitions;
      const Speed one = run(
          tray, 4 * kb::KiB, many, [&](std::uint32_t r) { return targets(0, r); }, 1);
      fmt::print("  {} x 4 KiB, one PE, own slice: {:.3f} s, {:.2f} M transfers/s\n", many, one.wall,
                 static_cast<double>(many) / one.wall / 1e6);
    }
  }
  for (int p = 0; p < 3; ++p)
    fmt::print("packet is {:.1f} times as fast as flit: 64 KiB, {}\n", wall[1][p] / wall[0][p], patterns[p]);
  return 0;
}
