#include <kb/traces/npy.h>

#include <kb/tlm_if/errors.h>
#include <kb/tlm_if/numerics.h>
#include <kb/traces/output_file.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace kb {

namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr std::size_t kMagicSize = 6;
constexpr std::size_t kAlignment = 64;
constexpr std::uint32_t kMaxHeader = 1u << 20;
constexpr std::size_t kChunk = 1 << 16;  // elements widened at a time

struct Descr {
  DType dtype;
  const char* text;
};
constexpr std::array<Descr, 4> kDescrs{
    {{DType::f16, "<f2"}, {DType::f32, "<f4"}, {DType::i8, "|i1"}, {DType::i32, "<i4"}}};

struct Closer {
  void operator()(std::FILE* f) const { std::fclose(f); }
};

/// Reads the header's Python dictionary: exactly the keys descr, fortran_order and shape, as NumPy writes them.
class HeaderParser {
 public:
  HeaderParser(const std::string& path, std::string_view text) : path_(path), text_(text) {}

  NpyArray parse() {
    NpyArray array;
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!take('}')) {
      const std::string_view key = string();
      expect(':');
      if (key == "descr" && !descr) {
        descr = true;
        array.dtype = dtype(string());
      } else if (key == "fortran_order" && !order) {
        order = true;
        if (word("True")) fail("fortran_order True", "False (numpy.ascontiguousarray makes it so)");
        if (!word("False")) fail("fortran_order " + rest(), "False");
      } else if (key == "shape" && !shape) {
        shape = true;
        array.shape = tuple();
      } else {
        fail("key '" + std::string(key) + "'", "descr, fortran_order and shape, once each");
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip();
    if (at_ != text_.size()) fail("text after the header: " + rest(), "spaces and a line feed");
    if (!descr || !order || !shape) fail("a header without all its keys", "descr, fortran_order and shape");
    return array;
  }

 private:
  [[noreturn]] void fail(const std::string& found, const std::string& allowed) const {
    throw InputError(path_ + ": NumPy header: found " + found + "; allowed: " + allowed);
  }
  std::string rest() const { return at_ == text_.size() ? "the end" : "'" + std::string(text_.substr(at_, 20)) + "'"; }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(rest(), std::string("'") + c + "'");
  }
  bool word(std::string_view w) {
    skip();
    if (text_.substr(at_, w.size()) != w) return false;
    at_ += w.size();
    return true;
  }
  std::string_view string() {
    skip();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail(rest(), "a string");
    const auto stop = text_.find(quote, at_ + 1);
    if (stop == std::string_view::npos) fail("a string without its end", "a string");
    const std::string_view s = text_.substr(at_ + 1, stop - at_ - 1);
    at_ = stop + 1;
    return s;
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> dims;
    expect('(');
    while (!take(')')) {
      dims.push_back(number());
      if (take(',')) continue;
      expect(')');
      if (dims.size() == 1) fail("a shape in parentheses without a comma", "a tuple");
      break;
    }
    return dims;
  }
  std::int64_t number() {
    skip();
    std::int64_t value = 0;
    const std::size_t start = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text_[at_] - '0', &value))
        fail("a dimension too large", "63 bits");
    if (at_ == start) fail("shape " + rest(), "whole numbers from 0");
    return value;
  }
  DType dtype(std::string_view descr) const {
    for (const auto& d : kDescrs)
      if (descr == d.text) return d.dtype;
    if (descr == "=f4" || descr == "=f2" || descr == ">f4" || descr == ">f2" || descr == ">i4")
      fail("descr '" + std::string(descr) + "'", "little endian: '<f2', '<f4', '|i1', '<i4'");
    fail("descr '" + std::string(descr) + "'", "'<f2' (float16), '<f4' (float32), '|i1' (int8), '<i4' (int32)");
  }

  const std::string& path_;
  std::string_view text_;
  std::size_t at_ = 0;
};

void read_exactly(std::FILE* file, const std::string& path, void* to, std::size_t bytes, const char* what) {
  const std::size_t n = std::fread(to, 1, bytes, file);
  if (n == bytes) return;
  if (std::ferror(file)) throw IoError(path + ": cannot read: " + std::strerror(errno));
  throw InputError(path + ": found " + std::to_string(n) + " bytes of " + what + "; allowed: " + std::to_string(bytes));
}

}  // namespace

NpyArray read_npy(const std::string& path) {
  std::unique_ptr<std::FILE, Closer> file(std::fopen(path.c_str(), "rb"));
  if (!file) throw IoError(path + ": cannot open: " + std::strerror(errno));
  unsigned char start[8];
  read_exactly(file.get(), path, start, sizeof start, "a NumPy header");
  if (std::memcmp(start, kMagic, kMagicSize) != 0)
    throw InputError(path + ": found no NumPy file; allowed: one made by numpy.save");
  if (start[6] < 1 || start[6] > 3 || start[7] != 0)
    throw InputError(path + ": found NumPy format " + std::to_string(start[6]) + "." + std::to_string(start[7]) +
                     "; allowed: 1.0, 2.0, 3.0");
  unsigned char length[4] = {};
  read_exactly(file.get(), path, length, start[6] == 1 ? 2 : 4, "a NumPy header");
  const std::uint32_t size = length[0] | length[1] << 8 | length[2] << 16 | static_cast<std::uint32_t>(length[3]) << 24;
  if (size > kMaxHeader)
    throw InputError(path + ": found a NumPy header of " + std::to_string(size) + " bytes; allowed: up to " +
                     std::to_string(kMaxHeader));
  std::string header(size, '\0');
  read_exactly(file.get(), path, header.data(), size, "a NumPy header");

  NpyArray array = HeaderParser(path, header).parse();
  std::int64_t bytes = size_of(array.dtype);
  bool fits = true;
  for (const std::int64_t dim : array.shape) fits = fits && !__builtin_mul_overflow(bytes, dim, &bytes);
  if (!fits) throw InputError(path + ": found a shape of more than 2^63 bytes; allowed: what fits memory");

  // Ask the file before memory: a corrupt shape must not become an allocation.
  const long data = std::ftell(file.get());
  if (data < 0 || std::fseek(file.get(), 0, SEEK_END) != 0)
    throw IoError(path + ": cannot seek: " + std::strerror(errno));
  const std::int64_t available = std::ftell(file.get()) - data;
  if (available != bytes)
    throw InputError(path + ": found " + std::to_string(available) +
                     " bytes of data; allowed: " + std::to_string(bytes) + ", what the shape says");
  if (std::fseek(file.get(), data, SEEK_SET) != 0) throw IoError(path + ": cannot seek: " + std::strerror(errno));
  array.data.resize(static_cast<std::size_t>(bytes));
  read_exactly(file.get(), path, array.data.data(), array.data.size(), "data");
  return array;
}

void write_npy(const std::string& path, DType dtype, const std::vector<std::int64_t>& shape, const void* data) {
  const bool widen = dtype == DType::bf16;
  const DType stored = widen ? DType::f32 : dtype;
  std::string header = "{'descr': '";
  for (const auto& d : kDescrs)
    if (d.dtype == stored) header += d.text;
  header += "', 'fortran_order': False, 'shape': (";
  std::size_t elements = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    header += (i > 0 ? ", " : "") + std::to_string(shape[i]);
    elements *= static_cast<std::size_t>(shape[i]);
  }
  header += shape.size() == 1 ? ",), }" : "), }";
  // Magic, version, length and header end at a multiple of 64, where the data starts.
  constexpr std::size_t kPreamble = kMagicSize + 4;
  const std::size_t total = (kPreamble + header.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  header.resize(total - kPreamble - 1, ' ');
  header += '\n';
  const auto size = static_cast<unsigned>(header.size());
  const char version[4] = {1, 0, static_cast<char>(size & 255u), static_cast<char>(size >> 8)};

  OutputFile file(path);
  file.append(std::string_view(kMagic, kMagicSize));
  file.append(std::string_view(version, sizeof version));
  file.append(header);
  const auto* bytes = static_cast<const char*>(data);
  if (!widen) {
    for (std::size_t i = 0, n = elements * size_of(dtype); i < n; i += kChunk)
      file.append(std::string_view(bytes + i, std::min(kChunk, n - i)));
  } else {
    std::vector<float> wide(std::min(kChunk, elements));
    for (std::size_t i = 0; i < elements; i += kChunk) {
      const std::size_t n = std::min(kChunk, elements - i);
      num::load_f32(dtype, bytes + i * size_of(dtype), wide.data(), n);
      file.append(std::string_view(reinterpret_cast<const char*>(wide.data()), n * sizeof(float)));
    }
  }
  file.finish();
}

}  // namespace kb
