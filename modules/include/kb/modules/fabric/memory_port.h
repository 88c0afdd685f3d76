// Memory side of a network interface: hands messages to a base-protocol target and sends its answers back.
#pragma once

#include <kb/modules/fabric/network_interface.h>

#include <cstdint>
#include <vector>

namespace kb {

/// Forwards the initiator's own payload with the address that the target expects and a TransferExtension of its own
/// in place of the initiator's; both are put back before the response leaves. A target of ours gets requests at once,
/// with their time annotated; any other gets them at their time, one request phase at a time, in the order
/// (arrival, round-robin over senders, sender), and may answer by any path of the base protocol. A request phase ends
/// at the time that END_REQ, or what stands for it, is annotated with. What breaks the protocol is a ModelError.
///
/// Times of a target that knows nothing of trains: read data follows its first byte (BEGIN_RESP) at the link's
/// bandwidth; a write is answered when its last byte has been in the target for as long as the first one had
/// at BEGIN_RESP.
class MemoryPort final : private tlm::tlm_bw_transport_if<>, private TrainListener {
 public:
  MemoryPort(NetworkInterface& ni, FabricContext& context, const char* name);

  BaseInitiatorSocket socket;
  bool bound() const { return socket.get_base_port().size() != 0; }

  void deliver(Packet& packet);
  /// Hands on requests whose time has come.
  void service(Ps now);
  bool quiet() const { return requests_.out() == 0; }

  unsigned debug(tlm::tlm_generic_payload& trans, std::uint64_t address);
  bool direct(tlm::tlm_generic_payload& trans, std::uint64_t address, tlm::tlm_dmi& dmi);

 private:
  /// A transaction at the target. It is also the TransferExtension that the target sees.
  struct Request final : TransferExtension {
    tlm::tlm_generic_payload* trans = nullptr;
    TransferExtension* theirs = nullptr;
    std::uint64_t their_address = 0;
    unsigned char* their_data = nullptr;
    const Route* forth = nullptr;
    std::uint64_t context = 0;  // of the sender's message
    std::uint64_t address = 0;  // as the target sees it
    std::uint64_t bytes = 0;
    bool write = false;
    bool begun = false;     // BEGIN_REQ has gone out
    bool answered = false;  // BEGIN_RESP has come
    Ps due = 0;             // of BEGIN_REQ: the request, or the first byte of write data
    std::uint64_t delta = 0;
    std::uint64_t number = 0;  // of arrival; orders those of one sender
    Ps begun_at = 0;
    Ps answer_at = 0;
    Outgoing out;
    std::vector<unsigned char> scratch;

    void free() override {}  // of the pool: a payload that is destroyed in flight must not take it along
  };

  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& trans, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override;
  void invalidate_direct_mem_ptr(sc_dt::uint64 first, sc_dt::uint64 last) override;
  void train_extended(tlm::tlm_generic_payload& trans, TransferExtension& ext) override;

  Request& open(const Packet& packet);
  void begin(Request& r, Ps at);
  void answered(Request& r, Ps at);
  void send_back(Request& r);
  void respond_write(Request& r);
  void close(Request& r);
  void record(const Request& r, Ps end);
  Ps uncontended(const Request& r);
  Ps compute_uncontended(const Request& r, Ps service);
  Request* find(const tlm::tlm_generic_payload& trans);

  NetworkInterface& ni_;
  FabricContext& context_;
  ObjectPool<Request> requests_;
  std::vector<Request*> active_;   // BEGIN_REQ sent, or data still coming
  std::vector<Request*> waiting_;  // for their time or for the request phase, in no order that matters
  const tlm::tlm_generic_payload* in_request_phase_ = nullptr;
  Ps request_free_ = 0;  // end of the request phase before
  std::uint32_t served_ = 0xffffffffu;
  std::uint64_t arrived_ = 0;

  /// Uncontended times by (route, bytes, direction): a handful of shapes makes up almost all traffic.
  struct Known {
    const Route* forth = nullptr;
    std::uint64_t bytes = 0;
    bool write = false;
    Ps path = 0;
  };
  std::vector<Known> known_;
  FlitTrain scratch_, scratch2_;
};

}  // namespace kb
