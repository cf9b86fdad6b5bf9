#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "podaq/study/study_report.h"

// How reports spell numbers.
namespace podaq::study_detail {

/// "12.34 %" of a share.
[[nodiscard]] inline std::string percent(double share) {
  return fmt::format("{:.2f} %", 100 * share);
}

/// "+0.12 ± 0.05": a difference in points of a hundred; the spread only where there are several seeds.
[[nodiscard]] inline std::string points(const Statistic& difference) {
  if (difference.count == 1) return fmt::format("{:+.2f}", 100 * difference.mean);
  return fmt::format("{:+.2f} ± {:.2f}", 100 * difference.mean, 100 * difference.deviation);
}

/// Digits in groups of three: 405 948.
[[nodiscard]] inline std::string grouped_digits(std::uint64_t number) {
  if (number < 1000) return fmt::format("{}", number);
  return fmt::format("{} {:03}", grouped_digits(number / 1000), number % 1000);
}

}  // namespace podaq::study_detail
