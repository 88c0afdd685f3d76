#include <kb/platform/path_times.h>

#include <algorithm>

namespace kb {

namespace {

/// Sizes of a message's flits as links and memories see them.
struct Flits {
  std::size_t count = 0;
  std::uint64_t whole = 0, last = 0;  // bytes

  Flits(std::uint64_t bytes, std::uint64_t burst)
      : count(static_cast<std::size_t>(ceil_div(bytes, burst))),
        whole(burst),
        last(bytes % burst == 0 ? burst : ceil_div<std::uint64_t>(bytes % burst, 32) * 32) {}
  Ps time(std::size_t j, double gbs) const { return transfer_ps(j + 1 == count ? last : whole, gbs); }
};

class Path {
 public:
  Path(const Topology& topology, std::uint64_t bytes)
      : topology_(topology), hbm_(topology.config().cube.hbm), flits_(bytes, hbm_.burst_bytes), there_(flits_.count, 0) {}

  PathTimes result;

  void add(PathTime::Part part, const std::string& component, Ps time) {
    result.parts.push_back({part, component, time});
    now_ += time;
  }

  void control(const Route& route, PathTime::Part part) {
    for (const Hop& h : route.hops) add(part, topology_.node(h.node).name, h.overhead + h.prop);
    if (route.end_overhead > 0) add(part, topology_.node(route.to).name, route.end_overhead);
  }

  /// All flits are at the first component now.
  void begin_data() { std::fill(there_.begin(), there_.end(), now_); }

  void link(const Hop& hop, Ps overhead) {
    Ps left = 0;
    for (std::size_t j = 0; j < there_.size(); ++j) {
      left = std::max(left, there_[j] + overhead) + flits_.time(j, hop.bw_gbs);
      there_[j] = left + hop.prop;
    }
    const std::string& from = topology_.node(hop.node).name;
    narrow(hop.bw_gbs, link_name(from, topology_.node(hop.next).name));
    arrived(PathTime::Part::data, from);
  }
  void end(const Route& route) {
    if (route.end_overhead == 0) return;
    for (Ps& t : there_) t += route.end_overhead;
    arrived(PathTime::Part::data, topology_.node(route.to).name);
  }

  /// Each flit takes its channel, in address order; channels work side by side.
  void memory(std::uint32_t node) {
    std::vector<Ps> free(hbm_.pseudo_channels, 0);
    const Ps access = ps_from_ns(hbm_.access_ns);
    for (std::size_t j = 0; j < there_.size(); ++j) {
      Ps& f = free[j % free.size()];
      f = std::max(f, there_[j]) + flits_.time(j, hbm_.pc_bw_gbs);
      there_[j] = f + access;
    }
    narrow(hbm_.pseudo_channels * hbm_.pc_bw_gbs, topology_.node(node).name + " channels");
    arrived(PathTime::Part::memory, topology_.node(node).name);
  }

 private:
  // The transfer is where its last byte is. A short last flit on a channel of its own may be done before others.
  void arrived(PathTime::Part part, const std::string& component) {
    add(part, component, *std::max_element(there_.begin(), there_.end()) - now_);
  }
  void narrow(double gbs, const std::string& name) {
    if (!result.bottleneck.empty() && gbs >= result.bottleneck_gbs) return;
    result.bottleneck_gbs = gbs;
    result.bottleneck = name;
  }

  const Topology& topology_;
  const HbmParams& hbm_;
  Flits flits_;
  std::vector<Ps> there_;  // when each flit is at the present component
  Ps now_ = 0;
};

}  // namespace

const char* name_of(PathTime::Part part) {
  switch (part) {
    case PathTime::Part::issue: return "issue";
    case PathTime::Part::request: return "request";
    case PathTime::Part::data: return "data";
    case PathTime::Part::memory: return "memory";
    case PathTime::Part::response: return "response";
  }
  return "?";
}

Ps PathTimes::total() const {
  Ps sum = 0;
  for (const PathTime& p : parts) sum += p.time;
  return sum;
}

PathTimes path_times(const Topology& topology, const Route& route, bool write, std::uint64_t bytes, Ps issue) {
  Path path(topology, bytes);
  if (issue > 0) path.add(PathTime::Part::issue, topology.node(route.from).name, issue);
  if (write) {
    path.begin_data();
    for (const Hop& h : route.hops) path.link(h, h.overhead);
    path.end(route);
    path.memory(route.to);
    path.control(*route.reverse, PathTime::Part::response);
    return path.result;
  }
  path.control(route, PathTime::Part::request);
  path.begin_data();
  path.memory(route.to);
  // The controller drives its own link, without an overhead of a component before it.
  for (const Hop& h : route.reverse->hops) path.link(h, &h == &route.reverse->hops.front() ? 0 : h.overhead);
  path.end(*route.reverse);
  return path.result;
}

}  // namespace kb
