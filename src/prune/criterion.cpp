#include "podaq/prune/criterion.h"

#include <torch/torch.h>

#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/core/variant.h"
#include "podaq/data/counter_random.h"

namespace podaq {
namespace {

constexpr std::array<std::string_view, std::variant_size_v<Criterion>> names = {
    "magnitude_l1",     "magnitude_l2",     "taylor", "movement",  "lamp",
    "geometric_median", "batch_norm_scale", "random", "threshold", "custom"};

template <std::size_t... Index>
std::optional<Criterion> default_of(std::string_view name, std::index_sequence<Index...> /*all*/) {
  std::optional<Criterion> found;
  ((names[Index] == name ? void(found = Criterion(std::in_place_index<Index>)) : void()), ...);
  return found;
}

torch::Tensor lamp_scores(const torch::Tensor& squares) {
  constexpr std::optional<bool> is_stable = true;
  const auto [sorted, order] = squares.sort(is_stable);
  const torch::Tensor no_smaller = sorted.nan_to_num(0.0, 0.0).flip(0).cumsum(0).flip(0);
  const torch::Tensor scores = torch::where(sorted == 0, torch::zeros_like(sorted), sorted / no_smaller);
  return torch::empty_like(squares).scatter_(0, order, scores);
}

// Channels that hold NaN or infinities are nobody's neighbours and, like every NaN, stay.
torch::Tensor distance_sums(const torch::Tensor& weight, const torch::Tensor& pruned) {
  const torch::Tensor channels = weight.flatten(1);
  const torch::Tensor is_finite = channels.isfinite().all(1);
  const torch::Tensor plain = channels.nan_to_num(0.0, 0.0, 0.0);
  constexpr int each_pair = 2;  // not by a matrix product, so that equal channels have equal distances
  torch::Tensor distances = torch::cdist(plain, plain, 2.0, each_pair);
  const torch::Tensor counts = pruned.defined() ? is_finite.logical_and(pruned.logical_not()) : is_finite;
  return (distances * counts.to(distances.scalar_type()))
      .sum(1)
      .masked_fill(is_finite.logical_not(), std::numeric_limits<double>::infinity());
}

torch::Tensor random_scores(std::uint64_t seed, std::size_t layer, std::int64_t units, torch::Device device) {
  CounterRandom random(RandomStream{.seed = seed, .words = {static_cast<std::uint32_t>(layer), 0, 0}});
  torch::Tensor scores = torch::empty({units}, torch::kDouble);
  double* values = scores.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < units; ++i) values[i] = random.word();
  return scores.to(device);
}

torch::Tensor custom_scores(const CustomScore& criterion, const WeightedLayer& layer, const torch::Tensor& weight) {
  const torch::Tensor scores = criterion.score(layer, weight.detach(), weight.grad());
  if (!scores.defined() || scores.sizes() != weight.sizes() || !scores.is_floating_point())
    throw Error(ErrorCode::invalid_argument,
                concat("criterion '", criterion.name, "', layer '", layer.name,
                       "': the function must return a floating-point tensor of the weight's shape"));
  return scores.detach().to(weight.device());
}

}  // namespace

std::string_view name_of(const Criterion& criterion) {
  return names[criterion.index()];
}

std::optional<Criterion> parse_criterion(std::string_view name) {
  if (name == names.back()) return std::nullopt;
  return default_of(name, std::make_index_sequence<std::variant_size_v<Criterion>>());
}

bool gathers(const Criterion& criterion) {
  return is_any_of<Taylor, Movement>(criterion);
}

std::string problem_with(const Criterion& criterion, const Pattern& pattern) {
  if (is_any_of<GeometricMedian, BatchNormScale>(criterion) && !std::holds_alternative<ChannelPattern>(pattern))
    return concat("is ", name_of(criterion), ", which scores whole output channels, but the pattern is ",
                  name_of(pattern), "; use the pattern channels");
  if (is_any_of<DeviationThreshold>(criterion) && !std::holds_alternative<UnstructuredPattern>(pattern))
    return concat("is ", name_of(criterion), ", which masks single weights, but the pattern is ", name_of(pattern),
                  "; use the pattern unstructured");
  if (const auto* threshold = std::get_if<DeviationThreshold>(&criterion))
    if (!(threshold->alpha > 0 && threshold->alpha <= 10))
      return concat("has alpha = ", threshold->alpha, ", must lie in (0, 10]");
  constexpr std::uint64_t largest_seed = std::numeric_limits<std::int64_t>::max();  // that recipes in text can hold
  if (const auto* random = std::get_if<RandomScore>(&criterion))
    if (random->seed > largest_seed)
      return concat("has seed = ", random->seed, ", must lie in [0, ", largest_seed, "]");
  if (const auto* custom = std::get_if<CustomScore>(&criterion))
    if (!custom->score) return concat("'", custom->name, "' has no function");
  return {};
}

std::string problem_with(const Criterion& criterion, const GraphModule& model, const WeightedLayer& layer) {
  if (gathers(criterion) && !model.tensor(layer.weight).requires_grad())
    return concat("is ", name_of(criterion), ", which needs gradients, but the weight of layer '", layer.name,
                  "' needs none; leave the layer out or use another criterion");
  if (is_any_of<BatchNormScale>(criterion) && layer.batch_norm_weight.empty())
    return concat("is ", name_of(criterion), ", but no batch norm with a weight follows layer '", layer.name,
                  "' directly; leave the layer out or use another criterion");
  return {};
}

torch::Tensor score_units(const Criterion& criterion, const Pattern& pattern, const GraphModule& model,
                          const WeightedLayer& layer, const ScoreSources& sources) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor weight = model.tensor(layer.weight);
  const auto summed = [&](const torch::Tensor& elements) { return sum_units(pattern, elements, layer.groups); };
  const auto squares = [&] { return summed(weight.detach().to(torch::kDouble).square()); };
  return std::visit(
      [&](const auto& kind) -> torch::Tensor {
        using Kind = std::decay_t<decltype(kind)>;
        if constexpr (std::is_same_v<Kind, MagnitudeL2>)
          return squares();
        else if constexpr (std::is_same_v<Kind, Taylor> || std::is_same_v<Kind, Movement>)
          return summed(sources.gathered);
        else if constexpr (std::is_same_v<Kind, Lamp>)
          return lamp_scores(squares());
        else if constexpr (std::is_same_v<Kind, GeometricMedian>)
          return distance_sums(weight.detach(), sources.pruned_units);
        else if constexpr (std::is_same_v<Kind, BatchNormScale>)
          return model.tensor(layer.batch_norm_weight).detach().abs();
        else if constexpr (std::is_same_v<Kind, RandomScore>)
          return random_scores(kind.seed, layer.index, count_units(pattern, weight.sizes(), layer.groups),
                               weight.device());
        else if constexpr (std::is_same_v<Kind, CustomScore>)
          return summed(custom_scores(kind, layer, weight));
        else
          return summed(weight.detach().abs());
      },
      criterion);
}

double deviation_threshold(const torch::Tensor& weight, double alpha) {
  const torch::NoGradGuard no_grad;
  if (weight.numel() == 0) return 0;
  torch::Tensor deviation = weight.detach().std(/*unbiased=*/false);
  if (!deviation.isfinite().item<bool>())
    deviation = weight.detach().masked_select(weight.isfinite()).std(/*unbiased=*/false);
  const auto threshold = alpha * deviation.item<double>();
  return std::isfinite(threshold) ? threshold : 0;
}

torch::Tensor threshold_mask(const torch::Tensor& weight, double threshold) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor magnitude = weight.detach().abs();
  if (magnitude.numel() == 0 || !(threshold > 0)) return torch::zeros_like(magnitude, torch::kBool);
  torch::Tensor mask = magnitude.le(threshold).contiguous();  // of weights in any memory format
  const torch::Tensor largest = magnitude.reshape({-1}).nan_to_num(std::numeric_limits<double>::infinity()).argmax();
  mask.view({-1}).index_fill_(0, largest, false);
  return mask;
}

}  // namespace podaq
