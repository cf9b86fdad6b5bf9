#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "podaq/core/error.h"

namespace podaq::test {

/// The text with which an action is refused; "" where it is not.
inline std::string refusal_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

/// The same; a refusal must be of that code.
inline std::string refusal_of(ErrorCode code, const std::function<void()>& action) {
  return refusal_of([&] {
    try {
      action();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      throw;
    }
  });
}

inline void expect_names(const std::string& error, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(error.find(part), std::string::npos) << part << " in: " << error;
}

}  // namespace podaq::test
