#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace podaq {

/// A labelled data set held in memory, as plain data. `validate` says what must hold between the fields.
struct Dataset {
  std::vector<std::int64_t> sample_shape = {};  ///< Shape of one sample, without the batch: {1, 28, 28}, {2, 128}.
  std::vector<float> samples = {};              ///< All samples, one after the other, each row-major.
  std::vector<std::int32_t> labels = {};        ///< One class number per sample, an index into `class_names`.
  std::vector<std::int32_t> groups = {};  ///< One stratum per sample (the SNR in dB, say); empty where there is none.
  std::vector<std::string> class_names = {};  ///< Name of each class.

  /// Number of samples.
  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(labels.size()); }

  /// Number of floats in one sample.
  [[nodiscard]] std::int64_t sample_size() const noexcept;

  /// The floats of sample `index`, which must be in [0, size()).
  [[nodiscard]] std::span<const float> sample(std::int64_t index) const;
};

/// Throws `Error` (invalid_argument), naming `name` and the first row or field at fault, unless: every dimension is
/// positive; `samples` holds size() × sample_size() finite floats; labels lie in [0, class_names.size()); `groups` is
/// empty or holds one entry per sample.
void validate(const Dataset& dataset, const std::string& name);

/// The samples at `indices`, in that order. An index outside [0, size()) throws `Error` (invalid_argument).
[[nodiscard]] Dataset subset(const Dataset& dataset, std::span<const std::int64_t> indices);

}  // namespace podaq
