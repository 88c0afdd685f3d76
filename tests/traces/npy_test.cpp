// NumPy files: round trip of every dtype, and what is refused.
#include "trace_support.h"

#include <kb/tlm_if/errors.h>
#include <kb/tlm_if/numerics.h>
#include <kb/traces/npy.h>

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <numeric>

using namespace kb;
using namespace kb::test;

namespace {

struct Dir {
  TempDir dir;

  /// A version 1.0 file with this header text and data.
  std::string file(const std::string& header, const std::string& data) {
    const std::string path = dir / "x.npy";
    std::string text = std::string("\x93NUMPY\x01\x00", 8);
    text += static_cast<char>(header.size() & 255);
    text += static_cast<char>(header.size() >> 8);
    spit(path, text + header + data);
    return path;
  }
  void refused(const std::string& path, const std::string& part) {
    BOOST_CHECK_EXCEPTION(read_npy(path), InputError, [&](const InputError& e) {
      BOOST_CHECK_MESSAGE(std::string(e.what()).find(part) != std::string::npos,
                          "expected '" << part << "' in '" << e.what() << "'");
      return std::string(e.what()).rfind(path, 0) == 0;
    });
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(npy, Dir)

BOOST_AUTO_TEST_CASE(every_dtype_and_shape_survives) {
  const std::vector<std::vector<std::int64_t>> shapes{{}, {5}, {2, 3}, {2, 0, 4}, {1, 2, 3, 4}, {70000}};
  for (const auto& shape : shapes)
    for (DType dtype : {DType::f16, DType::f32, DType::i8, DType::i32}) {
      const auto n =
          static_cast<std::size_t>(std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
      std::vector<std::uint8_t> data(n * size_of(dtype));
      for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::uint8_t>(i * 37 + 11);
      write_npy(dir / "x.npy", dtype, shape, data.data());
      const NpyArray back = read_npy(dir / "x.npy");
      BOOST_CHECK(back.dtype == dtype);
      BOOST_CHECK(back.shape == shape);
      BOOST_CHECK(back.data == data);
      BOOST_CHECK(!exists(dir / "x.npy.part"));
    }
}

BOOST_AUTO_TEST_CASE(bf16_is_widened_exactly) {
  std::vector<std::uint16_t> values(65536);
  std::iota(values.begin(), values.end(), std::uint16_t{0});
  values.insert(values.end(), values.begin(), values.begin() + 100);  // no multiple of a chunk
  write_npy(dir / "x.npy", DType::bf16, {static_cast<std::int64_t>(values.size())}, values.data());
  const NpyArray back = read_npy(dir / "x.npy");
  BOOST_CHECK(back.dtype == DType::f32);
  BOOST_REQUIRE_EQUAL(back.data.size(), 4 * values.size());
  std::size_t different = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, back.data.data() + 4 * i, 4);
    different += bits != static_cast<std::uint32_t>(values[i]) << 16;
  }
  BOOST_CHECK_EQUAL(different, 0u);
}

BOOST_AUTO_TEST_CASE(files_are_those_that_numpy_writes) {
  const float x[3] = {1, 2, 3};
  write_npy(dir / "x.npy", DType::f32, {3}, x);
  const std::string text = slurp(dir / "x.npy");
  // numpy.save of float32 [1, 2, 3]: 128 bytes of header, then the data.
  std::string expected("\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 67);
  expected.resize(127, ' ');
  expected += '\n';
  expected.append(reinterpret_cast<const char*>(x), sizeof x);
  BOOST_CHECK_EQUAL(text, expected);
}

BOOST_AUTO_TEST_CASE(other_layouts_of_the_header_are_read) {
  const std::string data(12, 'x');
  BOOST_CHECK_EQUAL(read_npy(file("{\"shape\":(3,),'fortran_order':False,'descr':'<f4'}", data)).data.size(), 12u);
  BOOST_CHECK_EQUAL(read_npy(file("{'descr': '|i1', 'fortran_order': False, 'shape': (3, 4)}   \n", data)).shape.size(),
                    2u);
  std::string v2 = std::string("\x93NUMPY\x02\x00\x3a\x00\x00\x00", 12) +
                   "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n";
  spit(dir / "v2.npy", v2 + data);
  BOOST_CHECK_EQUAL(read_npy(dir / "v2.npy").shape[0], 3);
}

BOOST_AUTO_TEST_CASE(what_is_not_understood_is_refused) {
  const std::string data(12, 'x');
  const auto header = [](const std::string& descr, const std::string& order, const std::string& shape) {
    return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
  };
  BOOST_CHECK_THROW(read_npy(dir / "none.npy"), IoError);
  spit(dir / "x.npy", "PK\x03\x04 this is a zip");
  refused(dir / "x.npy", "found no NumPy file");
  spit(dir / "x.npy", "\x93NUM");
  refused(dir / "x.npy", "found 4 bytes of a NumPy header");
  spit(dir / "x.npy", std::string("\x93NUMPY\x04\x00\x01\x00 ", 11));
  refused(dir / "x.npy", "found NumPy format 4.0; allowed: 1.0, 2.0, 3.0");
  refused(file(header("'<f8'", "False", "(3,)"), data), "descr '<f8'; allowed: '<f2' (float16)");
  refused(file(header("'>f4'", "False", "(3,)"), data), "little endian");
  refused(file(header("[('a', '<f4')]", "False", "(3,)"), data), "allowed: a string");
  refused(file(header("'<f4'", "True", "(3,)"), data), "numpy.ascontiguousarray");
  refused(file(header("'<f4'", "0", "(3,)"), data), "fortran_order '0, ");
  refused(file(header("'<f4'", "False", "(3)"), data), "without a comma");
  refused(file(header("'<f4'", "False", "(-3,)"), data), "whole numbers from 0");
  refused(file(header("'<f4'", "False", "(99999999999999999999,)"), data), "a dimension too large");
  refused(file(header("'<f4'", "False", "(4294967296, 4294967296)"), data), "more than 2^63 bytes");
  refused(file(header("'<f4'", "False", "(2000000000, 1000000000)"), data),
          "found 12 bytes of data; allowed: 8000000000000000000");
  refused(file(header("'<f4'", "False", "(4,)"), data), "found 12 bytes of data; allowed: 16");
  refused(file(header("'<f4'", "False", "(2,)"), data), "found 12 bytes of data; allowed: 8");
  refused(file("{'descr': '<f4', 'shape': (3,), }", data), "without all its keys");
  refused(file("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", data), "key 'descr'");
  refused(file("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), } x", data), "text after the header");
  refused(file("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)", data), "allowed: '}'");
}

BOOST_AUTO_TEST_SUITE_END()
