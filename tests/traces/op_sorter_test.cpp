// The order of the event stream, whatever the order of emission.
#include <kb/tlm_if/errors.h>
#include <kb/traces/op_sorter.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <tuple>
#include <vector>

using namespace kb;

namespace {

using Place = std::tuple<Ps, int, std::uint32_t, std::uint64_t>;
Place place(const OpRecord& r) {
  return {r.t_end, static_cast<int>(r.kind), r.component, r.number};
}

struct Collect : OpSink {
  void record(const OpRecord& r) override {
    if (throw_at == places.size()) throw std::runtime_error("full");
    places.push_back(place(r));
    if (r.command) ++commands;
  }
  void flush() override { ++flushes; }
  std::vector<Place> places;
  std::size_t throw_at = ~std::size_t{0};
  int commands = 0, flushes = 0;
};

OpRecord make(Ps t_end, OpKind kind, std::uint32_t component, std::uint64_t number) {
  OpRecord r;
  r.t_start = r.t_end = t_end;
  r.kind = kind;
  r.component = component;
  r.number = number;
  return r;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(op_sorter)

BOOST_AUTO_TEST_CASE(any_emission_comes_out_in_order) {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    OpSorter sorter(OpSorter::Clock::manual);
    Collect sink, second;
    sorter.add_sink(sink);
    sorter.add_sink(second);
    std::vector<std::uint64_t> numbers(7);
    std::vector<Place> emitted;
    Ps now = 0;
    std::size_t most_held = 0;
    for (int i = 0; i < 2000; ++i) {
      now += random() % 4;
      const std::uint32_t c = random() % 7;
      OpRecord r = make(now + static_cast<Ps>(random() % (random() % 50 + 1)), static_cast<OpKind>(random() % 5), c,
                        numbers[c]++);
      emitted.push_back(place(r));
      sorter.emit(std::move(r));
      if (random() % 10 == 0) {
        sorter.advance(now);
        BOOST_REQUIRE(
            std::all_of(sink.places.begin(), sink.places.end(), [&](const Place& p) { return std::get<0>(p) < now; }));
      }
      most_held = std::max(most_held, sorter.held());
    }
    sorter.flush();
    std::sort(emitted.begin(), emitted.end());
    BOOST_REQUIRE(sink.places == emitted);
    BOOST_REQUIRE(second.places == emitted);
    BOOST_CHECK_EQUAL(sink.flushes, 1);
    BOOST_CHECK_EQUAL(sorter.delivered(), 2000u);
    BOOST_CHECK_EQUAL(sorter.held(), 0u);
    BOOST_CHECK_LT(most_held, 300u);
  }
}

BOOST_AUTO_TEST_CASE(commands_are_let_go_once_delivered) {
  OpSorter sorter(OpSorter::Clock::manual);
  Collect sink;
  sorter.add_sink(sink);
  auto command = std::make_shared<const Command>();
  for (int i = 0; i < 5; ++i) {
    OpRecord r = make(i, OpKind::math, 0, static_cast<std::uint64_t>(i));
    r.command = command;
    sorter.emit(std::move(r));
  }
  sorter.drain();
  BOOST_CHECK_EQUAL(sink.commands, 5);
  BOOST_CHECK_EQUAL(sink.flushes, 0);
  BOOST_CHECK_EQUAL(command.use_count(), 1);
}

BOOST_AUTO_TEST_CASE(a_record_from_the_past_is_refused) {
  OpSorter sorter(OpSorter::Clock::manual);
  sorter.emit(make(10, OpKind::math, 0, 0));
  sorter.advance(10);
  BOOST_CHECK_EQUAL(sorter.held(), 1u);  // others may still end at 10
  sorter.emit(make(10, OpKind::memory, 1, 0));
  BOOST_CHECK_EXCEPTION(sorter.emit(make(9, OpKind::math, 0, 1)), ModelError, [](const ModelError& e) {
    return std::string(e.what()).find("ends at 9 ps; allowed: not before 10 ps") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(a_sink_that_throws_gets_nothing_twice) {
  OpSorter sorter(OpSorter::Clock::manual);
  Collect sink;
  sorter.add_sink(sink);
  sink.throw_at = 3;
  for (int i = 0; i < 10; ++i) sorter.emit(make(i, OpKind::math, 0, static_cast<std::uint64_t>(i)));
  BOOST_CHECK_THROW(sorter.advance(8), std::runtime_error);
  BOOST_CHECK_EQUAL(sorter.held(), 6u);
  sink.throw_at = ~std::size_t{0};
  sorter.drain();
  BOOST_REQUIRE_EQUAL(sink.places.size(), 9u);  // all but the one that it refused
  BOOST_CHECK_EQUAL(std::get<0>(sink.places[3]), 4);
  Collect other;
  sorter.remove_sink(sink);
  sorter.add_sink(other);
  sorter.emit(make(20, OpKind::math, 0, 20));
  sorter.flush();
  BOOST_CHECK_EQUAL(sink.places.size(), 9u);
  BOOST_CHECK_EQUAL(other.places.size(), 1u);
}

// Foreign traffic may go on when a launch ends: what ends later is not delivered yet, as others may end before it.
BOOST_AUTO_TEST_CASE(the_end_of_a_launch_delivers_what_has_ended) {
  OpSorter sorter(OpSorter::Clock::manual);
  Collect sink;
  sorter.add_sink(sink);
  const auto emit = [&](Ps end, std::uint32_t component, const CommandPtr& command = nullptr) {
    OpRecord r = make(end, OpKind::memory, component, 0);
    r.command = command;
    sorter.emit(std::move(r));
  };
  emit(20, 0);
  emit(10, 1);
  emit(9, 2);
  sorter.flush(10);
  BOOST_CHECK_EQUAL(sink.places.size(), 1u);
  BOOST_CHECK_EQUAL(sink.flushes, 1);
  emit(15, 3, std::make_shared<const Command>());
  emit(15, 4);
  sorter.flush(15);  // the launch needs its command now
  BOOST_CHECK_EQUAL(sink.places.size(), 4u);
  emit(16, 5);
  sorter.drain();
  BOOST_CHECK_EQUAL(sink.places.size(), 6u);
  BOOST_CHECK(std::is_sorted(sink.places.begin(), sink.places.end()));
}

BOOST_AUTO_TEST_CASE(the_simulations_clock_bounds_what_is_held) {
  OpSorter sorter;
  Collect sink;
  sorter.add_sink(sink);
  // Simulated time stands at 0: nothing is final, so everything is held.
  for (int i = 0; i < 20000; ++i) sorter.emit(make(i, OpKind::math, 0, static_cast<std::uint64_t>(i)));
  BOOST_CHECK_EQUAL(sorter.held(), 20000u);
  sorter.flush();
  BOOST_CHECK_EQUAL(sink.places.size(), 20000u);
}

BOOST_AUTO_TEST_SUITE_END()
