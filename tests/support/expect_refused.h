#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "podaq/core/error.h"

namespace podaq::test {

/// Expects `work` to throw an `Error` of that code whose text holds each of `parts`.
inline void expect_refused(const std::function<void()>& work, const std::vector<std::string>& parts,
                           ErrorCode code = ErrorCode::format) {
  try {
    work();
    ADD_FAILURE() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const auto& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << part << " is not in: " << error.what();
  }
}

}  // namespace podaq::test
