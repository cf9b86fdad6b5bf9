#include "compress/quantizer_tensors.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>

#include "podaq/core/error.h"

namespace podaq::compress_detail {
namespace {

constexpr std::int64_t numbers_of_range = 7;
constexpr std::int64_t numbers_before_counts = 3;
constexpr double most_elements = 9e15;  // below 2^53, so that doubles hold them

void require(bool holds, const std::string& name, std::string_view problem) {
  if (!holds) throw Error(ErrorCode::invalid_argument, fmt::format("the quantizer's '{}' {}", name, problem));
}

torch::Tensor range_tensor(const ObservedRange& range) {
  return torch::tensor(
      {range.minimum, range.maximum, range.is_observed ? 1.0 : 0.0, static_cast<double>(range.not_finite_elements),
       static_cast<double>(range.batches), range.histogram.smallest, range.histogram.largest},
      torch::kDouble);
}

ObservedRange range_in(const std::string& name, const torch::Tensor& tensor) {
  require(tensor.scalar_type() == torch::kDouble && tensor.dim() == 1 && tensor.size(0) == numbers_of_range, name,
          "is no range");
  const auto number = [&](std::int64_t index) { return tensor[index].item<double>(); };
  const auto lies_in = [&](std::int64_t index, double lowest, double highest) {
    return number(index) >= lowest && number(index) <= highest;  // false for NaN
  };
  constexpr double largest = std::numeric_limits<float>::max();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const bool holds_numbers = lies_in(0, -largest, largest) && lies_in(1, number(0), largest) &&
                             lies_in(3, 0, most_elements) && lies_in(4, 0, most_elements);
  const bool holds_extremes = (lies_in(5, -largest, largest) && lies_in(6, number(5), largest)) ||
                              (number(5) == infinity && number(6) == -infinity);  // no number was counted
  require(holds_numbers && holds_extremes, name, "is no range");
  return {.minimum = number(0),
          .maximum = number(1),
          .is_observed = number(2) != 0.0,
          .not_finite_elements = static_cast<std::int64_t>(number(3)),
          .batches = static_cast<std::int64_t>(number(4)),
          .histogram = {.counts = {}, .smallest = number(5), .largest = number(6)}};
}

torch::Tensor histogram_tensor(const Histogram& histogram) {
  std::vector<std::int64_t> numbers = {histogram.width_exponent, histogram.first, histogram.zeros};
  numbers.insert(numbers.end(), histogram.counts.begin(), histogram.counts.end());
  return torch::tensor(numbers, torch::kLong);
}

void read_histogram(const std::string& name, const torch::Tensor& tensor, Histogram& histogram) {
  const bool has_shape =
      tensor.scalar_type() == torch::kLong && tensor.dim() == 1 &&
      (tensor.size(0) == numbers_before_counts || tensor.size(0) == numbers_before_counts + Histogram::bins);
  require(has_shape, name, "is no histogram");
  const torch::Tensor row = tensor.contiguous();
  const std::int64_t* numbers = row.const_data_ptr<std::int64_t>();
  constexpr int largest_exponent = 128;
  const bool fits = numbers[0] >= Histogram::smallest_exponent && numbers[0] <= largest_exponent &&
                    numbers[1] > -Histogram::bins && numbers[1] <= 0 &&
                    std::all_of(numbers + 2, numbers + row.numel(), [](std::int64_t count) {
                      return count >= 0 && static_cast<double>(count) <= most_elements;
                    });
  require(fits, name, "is no histogram");
  histogram.width_exponent = static_cast<int>(numbers[0]);
  histogram.first = numbers[1];
  histogram.zeros = numbers[2];
  histogram.counts.assign(numbers + numbers_before_counts, numbers + row.numel());
}

bool is_row_of_floats(const torch::Tensor& tensor) {
  return tensor.defined() && tensor.scalar_type() == torch::kFloat && tensor.dim() == 1;
}

// Whether every step is 0, not begun, or one that may have been learned.
bool are_steps(const torch::Tensor& steps) {
  const torch::Tensor fits = (steps == 0).logical_or((steps >= smallest_step).logical_and(steps.isfinite()));
  return fits.all().item<bool>();
}

void write_steps(NamedTensors& tensors, std::string_view kind, const std::map<std::string, LearnedSteps>& steps) {
  for (const auto& [name, learned] : steps) {
    if (!learned.steps.defined()) continue;
    tensors.emplace_back(fmt::format("{}_steps:{}", kind, name), learned.steps.detach());
    tensors.emplace_back(fmt::format("{}_momentum:{}", kind, name), learned.momentum);
    if (learned.steps.grad().defined())
      tensors.emplace_back(fmt::format("{}_gradient:{}", kind, name), learned.steps.grad());
  }
}

using TensorsByName = std::map<std::string, torch::Tensor>;

// Takes a tensor out, so that those nobody asked for remain.
torch::Tensor take(TensorsByName& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) return {};
  torch::Tensor tensor = found->second;
  tensors.erase(found);
  return tensor;
}

LearnedSteps read_steps(TensorsByName& tensors, std::string_view kind, const std::string& name) {
  const std::string steps_name = fmt::format("{}_steps:{}", kind, name);
  const torch::Tensor steps = take(tensors, steps_name);
  if (!steps.defined()) return {};
  const torch::Tensor momentum = take(tensors, fmt::format("{}_momentum:{}", kind, name));
  const torch::Tensor gradient = take(tensors, fmt::format("{}_gradient:{}", kind, name));
  require(is_row_of_floats(steps) && are_steps(steps), steps_name, "are no learned steps");
  require(is_row_of_floats(momentum) && momentum.isfinite().all().item<bool>(), steps_name, "have no momentum");
  LearnedSteps learned{.steps = steps.clone().set_requires_grad(true), .momentum = momentum.clone()};
  if (!gradient.defined()) return learned;
  require(is_row_of_floats(gradient) && gradient.numel() == steps.numel(), steps_name, "have another one's gradient");
  learned.steps.mutable_grad() = gradient.clone();
  return learned;
}

}  // namespace

NamedTensors tensors_of(const QuantizerState& state) {
  NamedTensors tensors;
  for (const auto& [name, range] : state.ranges) {
    tensors.emplace_back("range:" + name, range_tensor(range));
    if (range.histogram != Histogram()) tensors.emplace_back("histogram:" + name, histogram_tensor(range.histogram));
  }
  write_steps(tensors, "weight", state.weight_steps);
  write_steps(tensors, "activation", state.activation_steps);
  return tensors;
}

QuantizerState state_in(const NamedTensors& tensors, const QuantizerState& own) {
  TensorsByName remaining(tensors.begin(), tensors.end());
  QuantizerState state;
  for (const auto& [name, own_range] : own.ranges) {
    const torch::Tensor range = take(remaining, "range:" + name);
    require(range.defined(), "range:" + name, "is missing");
    ObservedRange& read = state.ranges.emplace(name, range_in("range:" + name, range)).first->second;
    if (const torch::Tensor histogram = take(remaining, "histogram:" + name); histogram.defined())
      read_histogram("histogram:" + name, histogram, read.histogram);
  }
  for (const auto& [name, steps] : own.weight_steps)
    state.weight_steps.emplace(name, read_steps(remaining, "weight", name));
  for (const auto& [name, steps] : own.activation_steps)
    state.activation_steps.emplace(name, read_steps(remaining, "activation", name));
  if (!remaining.empty()) require(false, remaining.begin()->first, "belongs to nothing here");
  return state;
}

}  // namespace podaq::compress_detail
