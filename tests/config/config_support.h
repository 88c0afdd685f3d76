// Helpers of the configuration tests.
#pragma once

#include <kb/platform/config.h>
#include <kb/tlm_if/errors.h>

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

namespace kb::test {

inline std::string topology(const std::string& file) {
  return std::string(KB_SOURCE_DIR) + "/topologies/" + file;
}

/// The message of the InputError that `action` throws; fails the case where it throws none.
template <typename Action>
std::string input_error(Action action) {
  try {
    action();
  } catch (const InputError& e) {
    BOOST_CHECK(e.code() == ExitCode::bad_input);
    return e.what();
  }
  BOOST_ERROR("no InputError was thrown");
  return {};
}

/// The message for a text named t.yaml, with overrides.
inline std::string error_of(const std::string& yaml, const std::vector<Override>& overrides = {}) {
  return input_error([&] { parse_config(yaml, "t.yaml", overrides); });
}

/// The message for an override of the default machine.
inline std::string error_of_set(const std::string& key, const std::string& value) {
  return error_of("system: {sips: 1}", {{key, value}});
}

}  // namespace kb::test

/// Checks that a message is exactly `expected`.
#define KB_CHECK_MESSAGE(message, expected) BOOST_CHECK_EQUAL(std::string(message), std::string(expected))
/// Checks that a message holds `part`.
#define KB_CHECK_HOLDS(message, part)                                                                             \
  do {                                                                                                            \
    const std::string kb_text = (message);                                                                        \
    BOOST_CHECK_MESSAGE(kb_text.find(part) != std::string::npos, "'" << kb_text << "' lacks '" << (part) << "'"); \
  } while (false)
