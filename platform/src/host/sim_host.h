// The host on a simulated machine: launches, direct transfers and timed copies drive the simulation.
#pragma once

#include <kb/platform/memory_view.h>
#include <kb/platform/tensor_host.h>
#include <kb/tlm_if/activity.h>

#include <exception>
#include <functional>
#include <systemc>
#include <vector>

namespace kb {

class Pe;

/// What the host needs of the machine around it.
class SimMachine {
 public:
  virtual ~SimMachine() = default;
  virtual Pe& pe(std::uint32_t rank) = 0;
  /// Starts a launch at the host port; `done` is called (from a process) when its completion is back.
  virtual void start_launch(const KernelProgram& program, const std::vector<std::uint32_t>& pes,
                            std::function<void()> done) = 0;
  /// Common start of the last launch, as stamped.
  virtual Ps launch_start() const = 0;
  /// Starts a copy at the host port; `done` gets the latency of spec 7.2.
  virtual void start_copy(bool to_device, std::uint64_t physical, std::uint64_t bytes,
                          std::function<void(Ps)> done) = 0;
  virtual MemoryView& memory() = 0;
  /// Counters of links and channels start from zero.
  virtual void reset_links() = 0;
  virtual std::vector<LinkStats> links() const = 0;
  virtual std::uint64_t messages() const = 0;
  virtual Ps credit_latency(std::uint32_t from, std::uint32_t to) const = 0;
  /// Records up to the present time reach their sinks (data pass included).
  virtual void flush_records() = 0;
  /// The same after a failure: sinks keep what happened, nothing is complete.
  virtual void drain_records() = 0;
  virtual bool foreign_ip() const = 0;
};

class SimHost : public sc_core::sc_module, public TensorHost, public FaultSink {
 public:
  SC_HAS_PROCESS(SimHost);
  SimHost(const sc_core::sc_module_name& name, const SystemConfig& config, Mode mode, std::function<bool(Ps)> tick);

  void attach(SimMachine& machine) { sim_ = &machine; }
  Activity& activity() { return activity_; }

  void write(const Tensor& tensor, std::size_t shard, const void* bytes, std::size_t size) override;
  void read(const Tensor& tensor, std::size_t shard, void* bytes, std::size_t size) override;
  LaunchResult launch(const KernelProgram& program, const LaunchOptions& options) override;
  LaunchResult run_transfers(const std::vector<DirectTransfer>& transfers) override;
  Ps host_copy(bool to_device, std::uint64_t addr, std::uint64_t bytes) override;

  void fault(std::exception_ptr error) override;

 private:
  void run_until_done();
  void finished();
  void finish_records();
  void on_idle();
  void on_tick();
  void resume_caller();
  void watch_transfers();
  std::string deadlock_report() const;
  LaunchResult collect(const std::vector<std::uint32_t>& pes, Ps start, Ps end, std::uint64_t messages_before);

  SimMachine* sim_ = nullptr;
  Activity activity_;
  std::function<bool(Ps)> tick_;
  sc_core::sc_event done_event_{"host_done"};
  sc_core::sc_event tick_event_{"host_tick"};
  sc_core::sc_event watch_event_{"host_watch"};
  bool running_ = false;
  bool outside_ = false;   // the caller is no process
  bool watching_ = false;  // run_transfers has work for watch_transfers
  bool done_ = false;
  std::exception_ptr error_;
  std::vector<std::uint32_t> active_;  // PEs of the present launch
};

}  // namespace kb
