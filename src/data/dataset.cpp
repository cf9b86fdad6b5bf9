#include "podaq/data/dataset.h"

#include <algorithm>
#include <cmath>

#include "podaq/core/error.h"
#include "podaq/core/text.h"

namespace podaq {

namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& fault) {
  throw Error(ErrorCode::invalid_argument, concat("data set '", name, "': ", fault));
}

}  // namespace

std::int64_t Dataset::sample_size() const noexcept {
  std::int64_t product = 1;
  for (const auto dimension : sample_shape) product *= dimension;
  return product;
}

std::span<const float> Dataset::sample(std::int64_t index) const {
  const auto length = static_cast<std::size_t>(sample_size());
  return std::span(samples).subspan(static_cast<std::size_t>(index) * length, length);
}

void validate(const Dataset& dataset, const std::string& name) {
  const auto count = dataset.labels.size();
  std::size_t per_sample = 1;
  for (const auto dimension : dataset.sample_shape) {
    if (dimension <= 0) refuse(name, concat("sample_shape has the dimension ", dimension, "; it must be positive"));
    if (__builtin_mul_overflow(per_sample, static_cast<std::size_t>(dimension), &per_sample)) {
      refuse(name, "sample_shape has more elements than memory can hold");
    }
  }
  std::size_t expected = 0;
  if (__builtin_mul_overflow(per_sample, count, &expected) || dataset.samples.size() != expected) {
    refuse(name, concat("holds ", dataset.samples.size(), " floats; ", count, " labels of ", per_sample,
                        " floats each need another number"));
  }
  if (!dataset.groups.empty() && dataset.groups.size() != count) {
    refuse(name, concat("holds ", dataset.groups.size(), " groups for ", count, " labels; give one each, or none"));
  }
  for (std::size_t row = 0; row < count; ++row) {
    const auto label = dataset.labels[row];
    if (label < 0 || static_cast<std::size_t>(label) >= dataset.class_names.size()) {
      refuse(name,
             concat("row ", row, " has the label ", label, ", outside 0 to ", dataset.class_names.size(), " − 1"));
    }
  }
  const auto bad = std::ranges::find_if_not(dataset.samples, [](float value) { return std::isfinite(value); });
  if (bad != dataset.samples.end()) {
    const auto row = static_cast<std::size_t>(bad - dataset.samples.begin()) / per_sample;
    refuse(name, concat("row ", row, " holds a value that is not finite"));
  }
}

Dataset subset(const Dataset& dataset, std::span<const std::int64_t> indices) {
  Dataset chosen{.sample_shape = dataset.sample_shape, .class_names = dataset.class_names};
  chosen.samples.reserve(indices.size() * static_cast<std::size_t>(dataset.sample_size()));
  chosen.labels.reserve(indices.size());
  for (const auto index : indices) {
    if (index < 0 || index >= dataset.size()) {
      throw Error(ErrorCode::invalid_argument,
                  concat("subset: index ", index, " is outside 0 to ", dataset.size(), " − 1"));
    }
    const auto sample = dataset.sample(index);
    const auto row = static_cast<std::size_t>(index);
    chosen.samples.insert(chosen.samples.end(), sample.begin(), sample.end());
    chosen.labels.push_back(dataset.labels[row]);
    if (!dataset.groups.empty()) chosen.groups.push_back(dataset.groups[row]);
  }
  return chosen;
}

}  // namespace podaq
