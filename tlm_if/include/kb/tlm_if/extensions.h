// Ignorable extensions of the TLM-2.0 base protocol that our own end points understand. Foreign IP may leave
// them away: then routing is by address, and data follows its first byte at the socket's bandwidth.
#pragma once

#include <kb/tlm_if/flit_train.h>
#include <kb/tlm_if/route.h>

#include <cstdint>
#include <tlm>

namespace kb {

class TransferExtension;

/// Told when more of a data train becomes known. Calls follow the rule of callbacks: append and notify only.
class TrainListener {
 public:
  virtual ~TrainListener() = default;
  /// `ext.train` has grown; `ext.complete` says whether its tail is now known.
  virtual void train_extended(tlm::tlm_generic_payload& trans, TransferExtension& ext) = 0;
};

/// Told when write data has left its issuer.
class DepartureListener {
 public:
  virtual ~DepartureListener() = default;
  /// The last byte of `trans` leaves the issuer's link at `when` (not before now). Append and notify only.
  virtual void data_left(tlm::tlm_generic_payload& trans, Ps when) = 0;
};

/// How a transaction travels and when its data is there.
///
/// Reads: the target fills `train` with the times at which the flits of the data leave it; it is complete at
/// BEGIN_RESP of a built-in memory. At an initiator's socket BEGIN_RESP marks the first byte; the train may
/// then still grow (packets that meet contention on the way), and `listener`, set by the initiator, is told.
/// Writes: `train` holds the arrival of the write data; BEGIN_REQ marks its head; the target sets `listener`
/// during BEGIN_REQ when the train is not complete yet, and is told as further packets arrive.
/// Times are absolute model times in ps.
class TransferExtension : public tlm::tlm_extension<TransferExtension> {
 public:
  std::uint32_t lane = 0;                     // index of the PE that issued it, for the choice of UCIe connections
  std::uint32_t issuer = 0xffffffffu;         // rank of that PE
  VirtualChannel vc = VirtualChannel::compute;
  std::uint64_t serial = 0;                   // number of the transaction at its issuer
  FlitTrain train;
  bool complete = false;
  TrainListener* listener = nullptr;
  DepartureListener* departure = nullptr;     // writes: set by an initiator that wants to know (posted sends)
  bool timing_only = false;                   // data_ptr points at filler: memories must not store or fill it
  std::uint32_t origin = 0;                   // number of the end point that sent the request, for arbitration
  Ps path_ps = 0;                             // filled on the way: uncontended time of the whole transaction
  Ps turnaround_ps = 0;                       // filled by the memory: the most that one channel took to turn for it

  void reset() {
    lane = 0;
    issuer = 0xffffffffu;
    vc = VirtualChannel::compute;
    serial = 0;
    train.clear();
    complete = false;
    listener = nullptr;
    departure = nullptr;
    timing_only = false;
    origin = 0;
    path_ps = 0;
    turnaround_ps = 0;
  }
  tlm::tlm_extension_base* clone() const override { return new TransferExtension(*this); }
  void copy_from(const tlm::tlm_extension_base& other) override {
    *this = static_cast<const TransferExtension&>(other);
  }
};

}  // namespace kb
