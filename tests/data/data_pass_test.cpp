// GEMM tile loops, epilogues, transfers and queues replayed from hand-made records; records that cannot be.
#include "data_support.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace kb;
using namespace kb::test;

namespace {

struct Bench {
  MachineInfo machine;
  FlatMemory memory{2};
  Tensors tensors{memory};
  MathTable table = MathTable::builtin();
  std::uint64_t next_tcm = 64, next_hbm = 128;

  Bench() {
    machine.pes_per_cube = 2;
    machine.tile = {4, 8, 4};
  }

  void run(const std::vector<OpRecord>& records) {
    DataPass pass(machine, memory, table);
    for (const auto& r : records) pass.record(r);
    pass.flush();
    BOOST_CHECK_EQUAL(pass.records(), records.size());
  }

  TensorHandle tcm(const Shape& shape, DType dtype) {
    const TensorHandle h = tensor(shape, dtype, Space::tcm, next_tcm, true);
    next_tcm += h.bytes() + 64;
    return h;
  }
  TensorHandle hbm(const Shape& shape, DType dtype) {
    const TensorHandle h = tensor(shape, dtype, Space::hbm, next_hbm, false);
    next_hbm += h.bytes() + 64;
    return h;
  }
  TensorHandle filled(TensorHandle h, std::uint32_t seed) {
    tensors.put(h, random_values(static_cast<std::size_t>(h.shape.numel()), seed, h.dtype));
    return h;
  }
};

/// The sum that the pass is specified to form: each k tile from its first product on, tiles added in order.
std::vector<float> reference(const std::vector<double>& a, const std::vector<double>& b, std::int64_t m, std::int64_t k,
                             std::int64_t n, std::int64_t tile_k) {
  std::vector<float> c(static_cast<std::size_t>(m * n), 0.0f);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t q = 0; q < k; q += tile_k) {
        float sum = 0.0f;
        for (std::int64_t p = q; p < std::min(k, q + tile_k); ++p) {
          const float product = static_cast<float>(a[static_cast<std::size_t>(i * k + p)]) *
                                static_cast<float>(b[static_cast<std::size_t>(p * n + j)]);
          sum = sum + product;
        }
        c[static_cast<std::size_t>(i * n + j)] += sum;
      }
  return c;
}

std::vector<double> turned(const std::vector<double>& x, std::int64_t rows, std::int64_t cols) {
  std::vector<double> y(x.size());
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < cols; ++j)
      y[static_cast<std::size_t>(j * rows + i)] = x[static_cast<std::size_t>(i * cols + j)];
  return y;
}

double rel_rmse(const std::vector<double>& found, const std::vector<double>& exact) {
  double error = 0, power = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    error += (found[i] - exact[i]) * (found[i] - exact[i]);
    power += exact[i] * exact[i];
  }
  return std::sqrt(error / power);
}

std::vector<double> double_product(const std::vector<double>& a, const std::vector<double>& b, std::size_t m,
                                   std::size_t k, std::size_t n) {
  std::vector<double> c(m * n, 0.0);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t p = 0; p < k; ++p)
      for (std::size_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + p] * b[p * n + j];
  return c;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(data_pass, Bench)

BOOST_AUTO_TEST_CASE(gemm_equals_the_specified_order_of_summation) {
  // Every edge case of each tile dimension, streamed or resident, both ways round, all block sizes.
  std::uint32_t seed = 1;
  for (std::int64_t m : {1, 3, 4, 5, 11})
    for (std::int64_t k : {1, 7, 8, 9, 19})
      for (std::int64_t n : {1, 3, 4, 5, 11}) {
        ++seed;
        const bool trans_a = seed % 2, trans_b = seed % 3 == 0, stream_a = seed % 5 < 3, stream_b = seed % 7 < 4;
        next_tcm = 64;
        next_hbm = 128;
        const DType dtype = seed % 3 == 0 ? DType::f16 : seed % 3 == 1 ? DType::bf16 : DType::f32;
        const Shape a_shape = trans_a ? Shape{k, m} : Shape{m, k}, b_shape = trans_b ? Shape{n, k} : Shape{k, n};
        const TensorHandle a = filled(stream_a ? hbm(a_shape, dtype) : tcm(a_shape, dtype), seed);
        const TensorHandle b = filled(stream_b ? hbm(b_shape, dtype) : tcm(b_shape, dtype), seed + 1000);
        const TensorHandle out = seed % 2 ? hbm({m, n}, DType::f32) : tcm({m, n}, DType::f32);
        Records records(machine);
        records.block_m = 1 + seed % 3;
        records.block_n = 1 + seed % 2;
        records.gemm(command(CommandKind::gemm, {gemm_op(a, b, out, trans_a, trans_b)}));
        run(records.list);
        const auto av = trans_a ? turned(tensors.get(a), k, m) : tensors.get(a);
        const auto bv = trans_b ? turned(tensors.get(b), n, k) : tensors.get(b);
        const auto expected = reference(av, bv, m, k, n, machine.tile[1]);
        const auto found = tensors.get(out);
        for (std::size_t i = 0; i < found.size(); ++i) BOOST_REQUIRE_EQUAL(found[i], static_cast<double>(expected[i]));
      }
}

BOOST_AUTO_TEST_CASE(dense_operands_of_other_ranks_are_taken_in_element_order) {
  const TensorHandle a = filled(tcm({2, 3, 9}, DType::f32), 1), b = filled(hbm({9, 1, 5}, DType::f32), 2);
  const TensorHandle out = tcm({2, 3, 5}, DType::f32);
  OpSpec op = gemm_op(a, b, out);
  op.extra = {{"m", 6}, {"k", 9}, {"n", 5}};
  Records records(machine);
  records.gemm(command(CommandKind::gemm, {op}));
  run(records.list);
  const auto expected = reference(tensors.get(a), tensors.get(b), 6, 9, 5, machine.tile[1]);
  const auto found = tensors.get(out);
  for (std::size_t i = 0; i < found.size(); ++i) BOOST_REQUIRE_EQUAL(found[i], static_cast<double>(expected[i]));
}

BOOST_AUTO_TEST_CASE(gemm_is_accurate_against_double_precision) {
  machine.tile = {32, 64, 32};
  const TensorHandle a = filled(hbm({70, 300}, DType::f16), 1), b = filled(hbm({300, 90}, DType::f16), 2);
  const TensorHandle out = hbm({70, 90}, DType::f16);
  Records records(machine);
  records.block_m = 2;
  records.block_n = 2;
  records.gemm(command(CommandKind::composite, {gemm_op(a, b, out)}));
  run(records.list);
  BOOST_CHECK_LT(rel_rmse(tensors.get(out), double_product(tensors.get(a), tensors.get(b), 70, 300, 90)), 5e-4);
}

BOOST_AUTO_TEST_CASE(small_integers_multiply_exactly_in_every_dtype) {
  for (DType dtype : {DType::f16, DType::bf16, DType::f32, DType::i8}) {
    next_tcm = 64;
    next_hbm = 128;
    const TensorHandle a = hbm({13, 21}, dtype), b = tcm({21, 10}, dtype);
    const TensorHandle out = tcm({13, 10}, dtype == DType::i8 ? DType::i32 : DType::f32);
    std::vector<double> av, bv;
    for (int i = 0; i < 13 * 21; ++i) av.push_back(i * 7 % 17 - 8);
    for (int i = 0; i < 21 * 10; ++i) bv.push_back(i * 5 % 17 - 8);
    tensors.put(a, av);
    tensors.put(b, bv);
    Records records(machine);
    records.gemm(command(CommandKind::gemm, {gemm_op(a, b, out)}));
    run(records.list);
    BOOST_CHECK(tensors.get(out) == double_product(av, bv, 13, 21, 10));
  }
}

BOOST_AUTO_TEST_CASE(i8_sums_stay_exact_where_f32_would_round) {
  machine.tile = {4, 512, 4};
  const std::int64_t k = 4001;
  const TensorHandle a = tcm({1, k}, DType::i8), b = tcm({k, 2}, DType::i8), out = tcm({1, 2}, DType::i32);
  std::vector<double> av(static_cast<std::size_t>(k), -127), bv(static_cast<std::size_t>(2 * k), -127);
  bv[1] = 1;
  tensors.put(a, av);
  tensors.put(b, bv);
  Records records(machine);
  records.gemm(command(CommandKind::gemm, {gemm_op(a, b, out)}));
  run(records.list);
  BOOST_CHECK((tensors.get(out) == std::vector<double>{127.0 * 127 * k, 127.0 * 127 * (k - 1) - 127}));
}

BOOST_AUTO_TEST_CASE(dequantised_i8_accumulates_in_f32_per_k_tile) {
  const std::int64_t m = 5, k = 19, n = 6, tiles_k = 3;
  const TensorHandle a = filled(tcm({m, k}, DType::i8), 1), b = filled(hbm({k, n}, DType::i8), 2);
  const auto av = tensors.get(a), bv = tensors.get(b);
  const std::vector<Shape> shapes{Shape{n}, Shape{1, n}, Shape{tiles_k, n}, Shape{1, 1}, Shape{tiles_k, 1}};
  for (const Shape& shape : shapes) {
    const TensorHandle scale = filled(tcm(shape, DType::f32), 3), out = tcm({m, n}, DType::f32);
    const auto sv = tensors.get(scale);
    Records records(machine);
    records.gemm(command(CommandKind::composite,
                         {gemm_op(a, b, out), epilogue("dequant", OpScope::k_tile, {{"scale", scale}})}));
    run(records.list);
    const auto found = tensors.get(out);
    const std::int64_t rows = shape.rank() > 1 ? shape[0] : 1, cols = shape.back();
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        float sum = 0.0f;
        for (std::int64_t q = 0; q < tiles_k; ++q) {
          std::int32_t part = 0;
          for (std::int64_t p = 8 * q; p < std::min<std::int64_t>(k, 8 * q + 8); ++p)
            part += static_cast<std::int32_t>(av[static_cast<std::size_t>(i * k + p)] *
                                              bv[static_cast<std::size_t>(p * n + j)]);
          const float s =
              static_cast<float>(sv[static_cast<std::size_t>((rows > 1 ? q : 0) * cols + (cols > 1 ? j : 0))]);
          const float scaled = static_cast<float>(part) * s;
          sum += scaled;
        }
        BOOST_REQUIRE_EQUAL(found[static_cast<std::size_t>(i * n + j)], static_cast<double>(sum));
      }
  }
}

BOOST_AUTO_TEST_CASE(epilogues_work_on_the_f32_sum_in_their_order) {
  const std::int64_t m = 9, k = 10, n = 7;
  const TensorHandle a = filled(tcm({m, k}, DType::f16), 1), b = filled(tcm({k, n}, DType::f16), 2);
  const TensorHandle bias = filled(tcm({n}, DType::f16), 3), other = filled(tcm({m, n}, DType::f32), 4);
  const TensorHandle gain = filled(tcm({m, 1}, DType::f32), 5), out = hbm({m, n}, DType::f16);
  Records records(machine);
  records.gemm(
      command(CommandKind::composite,
              {gemm_op(a, b, out), epilogue("bias", OpScope::output_tile, {{"bias", bias}}),
               epilogue("relu", OpScope::output_tile), epilogue("scale", OpScope::output_tile, {}, {{"factor", 0.1}}),
               epilogue("add", OpScope::output_tile, {{"other", other}}),
               epilogue("mul", OpScope::output_tile, {{"other", gain}})}));
  run(records.list);
  const auto sum = reference(tensors.get(a), tensors.get(b), m, k, n, 8);
  const auto bv = tensors.get(bias), ov = tensors.get(other), gv = tensors.get(gain), found = tensors.get(out);
  for (std::size_t i = 0; i < found.size(); ++i) {
    float x = sum[i] + static_cast<float>(bv[i % static_cast<std::size_t>(n)]);
    x = x > 0 ? x : 0.0f;
    x = x * 0.1f;
    x = x + static_cast<float>(ov[i]);
    x = x * static_cast<float>(gv[i / static_cast<std::size_t>(n)]);
    BOOST_REQUIRE_EQUAL(found[i], static_cast<double>(num::round_to(DType::f16, x)));
  }
}

BOOST_AUTO_TEST_CASE(a_cast_epilogue_rounds_where_it_stands) {
  const TensorHandle a = tcm({1, 1}, DType::f32), b = tcm({1, 1}, DType::f32), out = tcm({1, 1}, DType::f32);
  tensors.put(a, {2049});
  tensors.put(b, {1});
  Records records(machine);
  records.gemm(command(
      CommandKind::composite,
      {gemm_op(a, b, out), epilogue("cast", OpScope::output_tile, {}, {{"dtype", static_cast<double>(DType::f16)}}),
       epilogue("scale", OpScope::output_tile, {}, {{"factor", 3}})}));
  run(records.list);
  BOOST_CHECK_EQUAL(tensors.get(out)[0], 2048 * 3);
}

BOOST_AUTO_TEST_CASE(in_place_accumulation_reads_and_writes_each_tile_once) {
  const TensorHandle a = filled(tcm({5, 9}, DType::f32), 1), b = filled(tcm({9, 6}, DType::f32), 2);
  const TensorHandle o = filled(tcm({5, 6}, DType::f32), 3);
  const auto before = tensors.get(o);
  Records records(machine);
  records.gemm(
      command(CommandKind::composite, {gemm_op(a, b, o), epilogue("add", OpScope::output_tile, {{"other", o}})}));
  run(records.list);
  const auto sum = reference(tensors.get(a), tensors.get(b), 5, 9, 6, 8);
  const auto found = tensors.get(o);
  for (std::size_t i = 0; i < found.size(); ++i)
    BOOST_CHECK_EQUAL(found[i], static_cast<double>(sum[i] + static_cast<float>(before[i])));
}

BOOST_AUTO_TEST_CASE(products_that_finish_out_of_turn_are_added_in_order) {
  // The vector unit lags: both k tiles are multiplied before the first one's epilogue ends, or k 1 is first.
  const TensorHandle a = filled(tcm({4, 16}, DType::f32), 1), b = filled(tcm({16, 4}, DType::f32), 2);
  for (const bool swapped : {false, true}) {
    const TensorHandle out = tcm({4, 4}, DType::f32);
    Records records(machine);
    const auto c =
        command(CommandKind::composite, {gemm_op(a, b, out), epilogue("scale", OpScope::k_tile, {}, {{"factor", 3}})});
    records.gemm(c);
    // accept, fetch, gemm 0, math 0, fetch, gemm 1, math 1, store, done
    std::vector<OpRecord> list = records.list;
    std::swap(list[3], list[5]);
    if (swapped) std::swap(list[2], list[3]);
    for (std::size_t i = 0; i < list.size(); ++i) list[i].t_start = list[i].t_end = static_cast<Ps>(i);
    run(list);
    const auto av = tensors.get(a), bv = tensors.get(b), found = tensors.get(out);
    for (std::size_t i = 0; i < 4; ++i)
      for (std::size_t j = 0; j < 4; ++j) {
        float sum = 0;
        for (std::size_t q = 0; q < 16; q += 8) {
          float part = 0;
          for (std::size_t p = q; p < q + 8; ++p) {
            const float product = static_cast<float>(av[i * 16 + p]) * static_cast<float>(bv[p * 4 + j]);
            part += product;
          }
          part = part * 3.0f;
          sum += part;
        }
        BOOST_CHECK_EQUAL(found[i * 4 + j], static_cast<double>(sum));
      }
  }
}

BOOST_AUTO_TEST_CASE(a_streamed_tile_keeps_the_value_it_was_read_with) {
  const TensorHandle a = hbm({4, 8}, DType::f32), b = tcm({8, 4}, DType::f32), out = tcm({4, 4}, DType::f32);
  tensors.put(a, std::vector<double>(32, 1));
  tensors.put(b, std::vector<double>(32, 1));
  Records records(machine);
  records.gemm(command(CommandKind::gemm, {gemm_op(a, b, out)}));
  DataPass pass(machine, memory, table);
  for (const auto& r : records.list) {
    if (r.name == OpName::gemm) tensors.put(a, std::vector<double>(32, 5));
    pass.record(r);
  }
  BOOST_CHECK(tensors.get(out) == std::vector<double>(16, 8));
}

BOOST_AUTO_TEST_CASE(prologue_feeds_the_gemm_and_post_ops_follow) {
  const TensorHandle s = filled(tcm({4, 8}, DType::f32), 1), p = tcm({4, 8}, DType::f16),
                     v = filled(hbm({8, 4}, DType::f16), 2);
  const TensorHandle out = tcm({4, 4}, DType::f32), last = tcm({4, 1}, DType::f32);
  Records records(machine);
  records.gemm(command(CommandKind::composite, {math_op("exp", {{"src", s}}, p), gemm_op(p, v, out),
                                                math_op("rsum", {{"src", out}}, last, {{"axis", -1}})}));
  run(records.list);
  const auto sum = reference(tensors.get(p), tensors.get(v), 4, 8, 4, 8);
  const auto found = tensors.get(out), total = tensors.get(last);
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 4; ++j) BOOST_CHECK_EQUAL(found[i * 4 + j], static_cast<double>(sum[i * 4 + j]));
    BOOST_CHECK_EQUAL(total[i], static_cast<double>((sum[i * 4] + sum[i * 4 + 1]) + (sum[i * 4 + 2] + sum[i * 4 + 3])));
  }
}

BOOST_AUTO_TEST_CASE(a_list_without_gemm_runs_as_a_chain) {
  const TensorHandle x = filled(tcm({3, 3}, DType::f32), 1), y = tcm({3, 3}, DType::f16);
  const auto c =
      command(CommandKind::composite, {math_op("neg", {{"src", x}}, y), epilogue("relu", OpScope::output_tile)});
  Records records(machine);
  records.accept(c);
  records.math(c, 0);
  records.math(c, 1).elements = 9;
  records.done(c);
  run(records.list);
  const auto xv = tensors.get(x), yv = tensors.get(y);
  for (std::size_t i = 0; i < 9; ++i)
    BOOST_CHECK_EQUAL(yv[i],
                      static_cast<double>(num::round_to(DType::f16, std::max(0.0f, -static_cast<float>(xv[i])))));
}

BOOST_AUTO_TEST_CASE(softmax_merge_equals_an_online_softmax_in_double_precision) {
  // The ten ops of spec 3.5 over several chunks, the first of them fully masked.
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const std::int64_t m = 3, t = 8, d = 4, chunks = 5;
  const TensorHandle max = tcm({m, 1}, DType::f32), l = tcm({m, 1}, DType::f32), o = tcm({m, d}, DType::f32);
  const TensorHandle m_loc = tcm({m, 1}, DType::f32), m_new = tcm({m, 1}, DType::f32), corr = tcm({m, 1}, DType::f32);
  const TensorHandle l_loc = tcm({m, 1}, DType::f32), p = tcm({m, t}, DType::f32);
  const TensorHandle s = tcm({m, t}, DType::f32), v = hbm({t, d}, DType::f32);
  tensors.put(max, std::vector<double>(3, -kInf));
  tensors.put(l, std::vector<double>(3, 0));
  tensors.put(o, std::vector<double>(12, 0));
  std::vector<double> weight(3, 0), sum(12, 0);
  Records records(machine);
  DataPass pass(machine, memory, table);
  std::size_t played = 0;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    auto scores = random_values(static_cast<std::size_t>(m * t), static_cast<std::uint32_t>(10 + chunk));
    if (chunk == 0) std::fill(scores.begin(), scores.end(), -kInf);
    tensors.put(s, scores);
    filled(v, static_cast<std::uint32_t>(20 + chunk));
    const auto values = tensors.get(v);
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 8; ++j) {
        const double e = std::exp(scores[i * 8 + j]);
        weight[i] += e;
        for (std::size_t q = 0; q < 4; ++q) sum[i * 4 + q] += e * values[j * 4 + q];
      }
    const Scalar axis{"axis", -1}, bcast{"bcast_axis", -1};
    records.gemm(
        command(CommandKind::composite,
                {math_op("rmax", {{"src", s}}, m_loc, {axis}), math_op("max_elem", {{"a", max}, {"b", m_loc}}, m_new),
                 math_op("exp_diff", {{"a", max}, {"b", m_new}}, corr),
                 math_op("exp_diff", {{"a", s}, {"b", m_new}}, p, {bcast}),
                 math_op("rsum", {{"src", p}}, l_loc, {axis}), math_op("fma", {{"a", l}, {"b", corr}, {"c", l_loc}}, l),
                 math_op("mul_bcast", {{"a", o}, {"b", corr}}, o, {bcast}), math_op("copy", {{"src", m_new}}, max),
                 gemm_op(p, v, o), epilogue("add", OpScope::output_tile, {{"other", o}})},
                static_cast<CommandId>(chunk + 1)));
    for (; played < records.list.size(); ++played) pass.record(records.list[played]);
  }
  pass.flush();
  const auto lv = tensors.get(l), mv = tensors.get(max), found = tensors.get(o);
  for (std::size_t i = 0; i < 3; ++i) {
    BOOST_CHECK_CLOSE(lv[i] * std::exp(mv[i]), weight[i], 1e-4);
    for (std::size_t q = 0; q < 4; ++q) BOOST_CHECK_SMALL(found[i * 4 + q] / lv[i] - sum[i * 4 + q] / weight[i], 1e-5);
  }
}

BOOST_AUTO_TEST_CASE(transfers_copy_between_memory_and_tcm) {
  const TensorHandle src = filled(hbm({3, 5}, DType::f16), 1), in = tcm({3, 5}, DType::f16),
                     back = hbm({3, 5}, DType::f16);
  OpSpec read = math_op("dma_read", {{"src", src}}, in), write = math_op("dma_write", {{"src", in}}, back);
  Records records(machine);
  records.transfer(command(CommandKind::dma_read, {read}, 1), 1);
  records.transfer(command(CommandKind::dma_write, {write}, 2), 1);
  run(records.list);
  BOOST_CHECK(tensors.get(back) == tensors.get(src));
  BOOST_CHECK(tensors.get(in, 1) == tensors.get(src));
  // Transfers issued directly at an engine have no other end.
  Records direct(machine);
  direct.add(OpName::dma_read, OpKind::memory, nullptr).bytes = 4096;
  run(direct.list);
}

BOOST_AUTO_TEST_CASE(a_message_is_the_value_at_its_send) {
  const TensorHandle src = filled(tcm({2, 3}, DType::f32), 1), dst = tcm({6}, DType::f32), none = tcm({0}, DType::f32);
  const auto sent = tensors.get(src);
  const auto make = [](CommandKind kind, OpSpec op, CommandId id, Direction direction) {
    auto c = std::make_shared<Command>();
    c->kind = kind;
    c->id = id;
    c->ops = {std::move(op)};
    c->direction = direction;
    return CommandPtr(c);
  };
  OpSpec send = math_op("ipcq_send", {{"src", src}}, src), receive = math_op("ipcq_recv", {}, dst);
  send.has_out = false;
  OpSpec send_none = send, receive_none = receive;
  send_none.operands[0].handle = none;
  receive_none.out = none;
  // E of PE 0 arrives as W at PE 1, W arrives as E: a ring of two.
  const auto s1 = make(CommandKind::ipcq_send, send, 1, Direction::E),
             s2 = make(CommandKind::ipcq_send, send_none, 2, Direction::W);
  const auto r1 = make(CommandKind::ipcq_recv, receive, 1, Direction::W),
             r2 = make(CommandKind::ipcq_recv, receive_none, 2, Direction::E);
  Records records(machine);
  const auto queue = [&](OpName name, const CommandPtr& c, std::uint32_t pe, Direction arrives,
                         std::uint64_t bytes) -> OpRecord& {
    OpRecord& r = records.add(name, OpKind::ipcq, c, pe);
    r.peer = 1 - pe;
    r.arrives = arrives;
    r.bytes = bytes;
    return r;
  };
  records.accept(s1, 0);
  records.done(s1, 0);  // handed over
  records.accept(s2, 0);
  queue(OpName::send, s1, 0, Direction::W, 24);
  queue(OpName::send, s2, 0, Direction::E, 0);
  records.done(s2, 0);
  records.accept(r2, 1);
  records.accept(r1, 1);
  queue(OpName::recv, r2, 1, Direction::E, 0);
  queue(OpName::slot_write, s1, 0, Direction::W, 24);
  queue(OpName::recv, r1, 1, Direction::W, 24);
  records.done(r2, 1);
  records.done(r1, 1);
  {
    DataPass pass(machine, memory, table);
    for (const auto& r : records.list) {
      pass.record(r);
      if (r.name == OpName::send && r.bytes > 0) tensors.put(src, std::vector<double>(6, 99));
    }
    pass.flush();
  }
  BOOST_CHECK(tensors.get(dst, 1) == sent);
  auto lost = records.list;
  lost.erase(std::find_if(lost.begin(), lost.end(),
                          [](const OpRecord& r) { return r.name == OpName::recv && r.bytes == 24; }));
  BOOST_CHECK_EXCEPTION(run(lost), ModelError, [](const ModelError& e) {
    return std::string(e.what()).find("no command_done of command 1 (ipcq_recv) of PE 1") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(an_impossible_record_is_refused_by_name_and_field) {
  const TensorHandle a = filled(hbm({9, 17}, DType::f16), 1), b = filled(hbm({17, 9}, DType::f16), 2),
                     out = hbm({9, 9}, DType::f16);
  const TensorHandle bias = filled(tcm({9}, DType::f32), 3);
  Records records(machine);
  records.block_m = 2;
  records.gemm(
      command(CommandKind::composite, {gemm_op(a, b, out), epilogue("scale", OpScope::k_tile, {}, {{"factor", 2}}),
                                       epilogue("bias", OpScope::output_tile, {{"bias", bias}})}));
  run(records.list);

  const auto index_of = [&](OpName name, TileRole role, int nth = 0) {
    for (std::size_t i = 0; i < records.list.size(); ++i)
      if (records.list[i].name == name && records.list[i].role == role && nth-- == 0) return i;
    throw std::logic_error("no such record");
  };
  const auto refused = [&](const std::vector<OpRecord>& list, const std::string& part) {
    BOOST_CHECK_EXCEPTION(run(list), ModelError, [&](const ModelError& e) {
      const bool found = std::string(e.what()).find(part) != std::string::npos;
      BOOST_CHECK_MESSAGE(found, "expected '" << part << "' in '" << e.what() << "'");
      return true;
    });
  };
  const auto changed = [&](OpName name, TileRole role, auto change) {
    auto list = records.list;
    change(list[index_of(name, role)]);
    return list;
  };
  const auto without = [&](OpName name, TileRole role, int nth = 0) {
    auto list = records.list;
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(index_of(name, role, nth)));
    return list;
  };
  const TileRole none = TileRole::none;

  refused(changed(OpName::gemm, none, [](OpRecord& r) { r.tile_k = 3; }), "field tile_k: found 3; allowed: 0..2");
  refused(changed(OpName::gemm, none, [](OpRecord& r) { r.tile_n = -1; }), "field tile_n: found -1; allowed: 0..2");
  refused(changed(OpName::gemm, none, [](OpRecord& r) { r.n = 5; }), "field n: found 5; allowed: 4");
  refused(changed(OpName::gemm, none, [](OpRecord& r) { r.tile_k = 1; }), "with tile_k 1; allowed: a tile of operand");
  refused(changed(OpName::gemm, none, [](OpRecord& r) { r.kind = OpKind::math; }),
          "field kind: found math; allowed: gemm");
  refused(changed(OpName::gemm, none, [](OpRecord& r) { r.command = nullptr; }), "field command: found none");
  refused(changed(OpName::gemm, none, [](OpRecord& r) { r.pe = 1; }),
          "field command: found 1; allowed: a command that was accepted");
  refused(changed(OpName::gemm, none, [](OpRecord& r) { r.pe = 2; }), "field pe: found 2; allowed: 0..1");
  refused(changed(OpName::gemm, none, [](OpRecord& r) { r.t_start = r.t_end + 1; }), "field t_start_ns");
  refused(changed(OpName::gemm, none, [](OpRecord& r) { r.t_end = r.t_start = 0; }),
          "field t_end_ns: found 0.000; allowed: records in the order");
  refused(changed(OpName::dma_read, TileRole::a, [](OpRecord& r) { r.bytes += 2; }), "field bytes");
  refused(changed(OpName::dma_read, TileRole::b, [](OpRecord& r) { r.address += 2; }), "field address");
  refused(changed(OpName::dma_read, TileRole::a, [](OpRecord& r) { r.role = TileRole::out; }), "field role");
  refused(changed(OpName::dma_read, TileRole::a, [](OpRecord& r) { r.role = none; }),
          "field command: found composite; allowed: dma_read");
  refused(changed(OpName::store, none, [](OpRecord& r) { r.bytes = 1; }), "field bytes");
  refused(changed(OpName::dma_write, TileRole::out, [](OpRecord& r) { r.tile_n = 2; }), "a tile that has been stored");
  refused(changed(OpName::dma_write, TileRole::out, [](OpRecord& r) { r.address = 0; }), "field address: found 0");
  refused(changed(OpName::math, none, [](OpRecord& r) { r.op = 3; }), "field op: found 3; allowed: 0..2");
  refused(changed(OpName::math, none, [](OpRecord& r) { r.op = 0; }),
          "field op: found 0 (gemm); allowed: a math operation");
  refused(changed(OpName::math, none, [](OpRecord& r) { r.elements = 1; }), "field elements: found 1; allowed: 16");
  refused(changed(OpName::math, none, [](OpRecord& r) { r.tile_k = 2; }), "field tile_k: found 2");
  refused(changed(OpName::command, none, [](OpRecord& r) { r.block_n = 0; }), "field block_n: found 0");
  refused(without(OpName::command, none),
          "field command: found 1; allowed: a command that was accepted and is not done");
  refused(without(OpName::gemm, none),
          "field tile_m: found 0 with tile_n 0; allowed: a tile that is being accumulated");
  refused(without(OpName::math, none), "field tile_m: found tile (0, 0) with 0 of 3 k tiles");
  refused(without(OpName::dma_read, TileRole::a, 1), "field tile_m");
  refused(without(OpName::store, none), "field tile_m");
  refused(without(OpName::dma_write, TileRole::out, 8), "found 8 output dma_writes; allowed: 9 before command_done");
  refused(without(OpName::command_done, none), "no command_done of command 1 (composite) of PE 0");
  refused(without(OpName::fetch, none),
          "found 89 records of component 0 with numbers up to 89; allowed: each number from 0 once");
  auto twice = records.list;
  for (const auto& r : records.list) {
    twice.push_back(r);
    twice.back().t_start += records.list.back().t_end;
    twice.back().t_end += records.list.back().t_end;
  }
  for (std::size_t i = 0; i < twice.size(); ++i) twice[i].number = i;
  twice.erase(twice.begin() + static_cast<std::ptrdiff_t>(records.list.size()) - 1);
  refused(twice, "field command: found 1; allowed: a number that is not in flight");
  // The last tile's epilogue without its bias.
  auto list = records.list;
  for (std::size_t i = list.size(); i-- > 0;)
    if (list[i].name == OpName::math) {
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
  refused(list, "after 0 of 1 epilogue operations");
}

BOOST_AUTO_TEST_CASE(an_impossible_command_is_refused_when_accepted) {
  const TensorHandle a = tcm({4, 8}, DType::f16), b = tcm({8, 4}, DType::f16), out = tcm({4, 4}, DType::f32);
  const auto refused = [&](const CommandPtr& c, const std::string& part) {
    Records records(machine);
    records.accept(c);
    BOOST_CHECK_EXCEPTION(run(records.list), ModelError, [&](const ModelError& e) {
      BOOST_CHECK_MESSAGE(std::string(e.what()).find(part) != std::string::npos, e.what());
      return true;
    });
  };
  OpSpec wrong = gemm_op(a, b, out);
  wrong.extra[1].value = 9;
  refused(command(CommandKind::gemm, {wrong}), "found a of shape [4, 8]; expected 4 x 9 elements");
  refused(command(CommandKind::gemm, {gemm_op(a, tcm({8, 4}, DType::f32), out)}),
          "found dtypes f16 and f32; expected one dtype");
  refused(command(CommandKind::composite, {gemm_op(a, b, out), epilogue("fade", OpScope::output_tile)}),
          "math operation fade");
  refused(command(CommandKind::composite,
                  {gemm_op(a, b, out), epilogue("bias", OpScope::output_tile, {{"bias", tcm({5}, DType::f32)}})}),
          "operand bias: found shape [5]; allowed: 1 or 4 rows and 1 or 4 columns");
  refused(command(CommandKind::composite, {epilogue("relu", OpScope::output_tile)}),
          "found nothing before it to work on");
}

BOOST_AUTO_TEST_CASE(results_are_the_same_bytes_with_every_compiler_and_optimisation) {
  // The constant was computed with g++ 12 at -O0; -O2, -O3 -mavx2 -mfma and clang 14 give it too.
  const TensorHandle a = filled(tcm({37, 150}, DType::f32), 1), b = filled(hbm({150, 41}, DType::f32), 2);
  const TensorHandle c = tcm({37, 41}, DType::f32), e = tcm({37, 41}, DType::f16), s = tcm({37, 1}, DType::f32);
  const TensorHandle shift = tcm({1}, DType::f32);
  tensors.put(shift, {20});
  machine.tile = {32, 64, 32};
  Records records(machine);
  records.gemm(command(CommandKind::gemm, {gemm_op(a, b, c)}, 1));
  records.single(command(CommandKind::math, {math_op("exp_diff", {{"a", c}, {"b", shift}}, e)}, 2));
  records.single(command(CommandKind::math, {math_op("rsum", {{"src", e}}, s, {{"axis", -1}})}, 3));
  records.single(command(CommandKind::math, {math_op("log", {{"src", s}}, s)}, 4));
  run(records.list);
  std::uint64_t hash = 14695981039346656037ull;
  for (const TensorHandle& h : {c, e, s})
    for (double v : tensors.get(h)) {
      const std::uint32_t bits = num::bits_of(static_cast<float>(v));
      for (int i = 0; i < 32; i += 8) hash = (hash ^ ((bits >> i) & 0xffu)) * 1099511628211ull;
    }
  BOOST_CHECK_EQUAL(hash, 4293001915007761331ull);
}

BOOST_AUTO_TEST_CASE(a_record_beyond_the_component_table_is_refused) {
  ComponentTable components;
  components.add("tray.sip0.cube0.pe0.dma");
  DataPass pass(machine, memory, table, &components);
  OpRecord r;
  r.kind = OpKind::control;
  r.name = OpName::launch;
  pass.record(r);
  r.t_end = 5;
  r.component = 1;
  BOOST_CHECK_EXCEPTION(pass.record(r), ModelError, [](const ModelError& e) {
    return std::string(e.what()).find("field component: found 1; allowed: 0..0") != std::string::npos;
  });
}

BOOST_AUTO_TEST_SUITE_END()
