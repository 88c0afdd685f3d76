#include <kb/platform/transfer_splitter.h>

namespace kb {

std::vector<TransferPart> transfer_parts(const Route& forth, bool write) {
  std::vector<TransferPart> parts;
  const auto travel = [&](const Route& route, const char* stage) {
    for (const Hop& h : route.hops) parts.push_back({stage, h.node, &h, h.overhead + h.prop});
    if (route.end_overhead > 0) parts.push_back({stage, route.to, nullptr, route.end_overhead});
  };
  if (write) parts.push_back({"source", forth.from, nullptr, 0});
  travel(forth, write ? "data" : "request");
  parts.push_back({"memory", forth.to, nullptr, 0});
  travel(*forth.reverse, write ? "response" : "data");
  return parts;
}

void TransferSplitter::message_arrived(const Message& message) {
  if (message.kind == Message::Kind::read_request || message.kind == Message::Kind::write_data) {
    requests_[message.context] = message;
    return;
  }
  const auto found = requests_.find(message.context);
  if (found == requests_.end()) return;
  const Message& request = found->second;

  TransferTimes& t = times_;
  t.forth = request.route;
  t.write = request.kind == Message::Kind::write_data;
  t.bytes = request.bytes + message.bytes;
  t.begin = request.injected;
  t.end = message.reached.back();
  t.alone = message.path_ps;
  t.parts.clear();
  Ps now = t.begin;
  const auto reach = [&](Ps at) {
    t.parts.push_back(at - now);
    now = at;
  };
  const auto travel = [&](const Message& m) {
    for (std::size_t i = 1; i <= m.route->hops.size(); ++i) reach(m.reached[i]);
    if (m.route->end_overhead > 0) reach(m.reached.back());
  };
  if (t.write) reach(request.reached.front());
  travel(request);
  reach(message.reached.front());
  travel(message);
  requests_.erase(found);
  finished_(t);
}

}  // namespace kb
