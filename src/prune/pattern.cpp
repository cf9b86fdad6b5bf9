#include "podaq/prune/pattern.h"

#include <torch/torch.h>

#include <algorithm>
#include <charconv>
#include <type_traits>
#include <utility>
#include <vector>

#include "podaq/core/error.h"
#include "podaq/core/text.h"

namespace podaq {
namespace {

constexpr std::int64_t largest_extent = 1024;

// A weight as {conv groups, outputs of a group, inputs, taps}, covered by blocks that may hang over its ends.
struct BlockGrid {
  std::int64_t groups, outputs, inputs, taps;
  std::int64_t rows, columns;              // of a block
  std::int64_t block_rows, block_columns;  // blocks of a group

  BlockGrid(const BlockPattern& block, torch::IntArrayRef shape, std::int64_t conv_groups)
      : groups(conv_groups), outputs(shape.at(0) / conv_groups), inputs(shape.at(1)), taps(1) {
    for (const std::int64_t size : shape.slice(2)) taps *= size;
    rows = std::clamp<std::int64_t>(outputs, 1, block.rows);
    columns = std::clamp<std::int64_t>(inputs, 1, block.columns);
    block_rows = (outputs + rows - 1) / rows;
    block_columns = (inputs + columns - 1) / columns;
  }

  [[nodiscard]] std::int64_t units() const { return groups * block_rows * block_columns * taps; }

  // [groups, block rows, rows, block columns, columns, taps]; what hangs over holds `beyond`.
  [[nodiscard]] torch::Tensor in_blocks(const torch::Tensor& elements, double beyond) const {
    const torch::Tensor plain = elements.reshape({groups, outputs, inputs, taps});
    const torch::Tensor padded = torch::constant_pad_nd(
        plain, {0, 0, 0, block_columns * columns - inputs, 0, block_rows * rows - outputs}, beyond);
    return padded.reshape({groups, block_rows, rows, block_columns, columns, taps});
  }

  [[nodiscard]] torch::Tensor spread(const torch::Tensor& units, torch::IntArrayRef shape) const {
    return units.reshape({groups, block_rows, 1, block_columns, 1, taps})
        .expand({groups, block_rows, rows, block_columns, columns, taps})
        .reshape({groups, block_rows * rows, block_columns * columns, taps})
        .narrow(1, 0, outputs)
        .narrow(2, 0, inputs)
        .reshape(shape)
        .contiguous();
  }
};

bool is_in(std::int64_t value, std::int64_t lowest, std::int64_t highest) {
  return value >= lowest && value <= highest;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

std::string name_of(const Pattern& pattern) {
  return std::visit(
      [](const auto& kind) -> std::string {
        using Kind = std::decay_t<decltype(kind)>;
        if constexpr (std::is_same_v<Kind, NOfMPattern>)
          return concat(kind.n, ':', kind.m);
        else if constexpr (std::is_same_v<Kind, BlockPattern>)
          return concat(kind.rows, 'x', kind.columns);
        else
          return std::is_same_v<Kind, ChannelPattern> ? "channels" : "unstructured";
      },
      pattern);
}

std::optional<Pattern> parse_pattern(std::string_view text) {
  if (text == "unstructured") return UnstructuredPattern{};
  if (text == "channels") return ChannelPattern{};
  const std::size_t separator = text.find_first_of(":x");
  if (separator == std::string_view::npos) return std::nullopt;
  const auto first = parse_integer(text.substr(0, separator));
  const auto second = parse_integer(text.substr(separator + 1));
  if (!first || !second) return std::nullopt;
  Pattern pattern = NOfMPattern{.n = *first, .m = *second};
  if (text[separator] == 'x') pattern = BlockPattern{.rows = *first, .columns = *second};
  if (!problem_with(pattern).empty()) return std::nullopt;
  return pattern;
}

std::string problem_with(const Pattern& pattern) {
  if (const auto* n_of_m = std::get_if<NOfMPattern>(&pattern)) {
    if (!is_in(n_of_m->m, 2, largest_extent))
      return concat("has m = ", n_of_m->m, ", must lie in [2, ", largest_extent, "]");
    if (!is_in(n_of_m->n, 1, n_of_m->m - 1)) return concat("has n = ", n_of_m->n, ", must lie in [1, m - 1]");
  }
  if (const auto* block = std::get_if<BlockPattern>(&pattern)) {
    if (!is_in(block->rows, 1, largest_extent))
      return concat("has rows = ", block->rows, ", must lie in [1, ", largest_extent, "]");
    if (!is_in(block->columns, 1, largest_extent))
      return concat("has columns = ", block->columns, ", must lie in [1, ", largest_extent, "]");
  }
  if (const auto* channels = std::get_if<ChannelPattern>(&pattern))
    if (!is_in(channels->align, 1, largest_extent))
      return concat("has align = ", channels->align, ", must lie in [1, ", largest_extent, "]");
  return {};
}

std::int64_t count_units(const Pattern& pattern, torch::IntArrayRef shape, std::int64_t groups) {
  if (const auto* block = std::get_if<BlockPattern>(&pattern)) return BlockGrid(*block, shape, groups).units();
  std::int64_t weights = 1;
  for (const std::int64_t size : shape) weights *= size;
  return std::holds_alternative<ChannelPattern>(pattern) && weights > 0 ? shape.at(0) : weights;
}

std::int64_t count_prunable_units(const Pattern& pattern, torch::IntArrayRef shape, std::int64_t groups) {
  const std::int64_t units = count_units(pattern, shape, groups);
  const auto* n_of_m = std::get_if<NOfMPattern>(&pattern);
  if (n_of_m == nullptr || units == 0) return std::max<std::int64_t>(units - 1, 0);
  const std::int64_t inputs = shape.at(1);
  const std::int64_t of_a_row =
      inputs / n_of_m->m * (n_of_m->m - n_of_m->n) + std::max<std::int64_t>(inputs % n_of_m->m - n_of_m->n, 0);
  return units / inputs * of_a_row;
}

torch::Tensor sum_units(const Pattern& pattern, const torch::Tensor& elements, std::int64_t groups) {
  if (const auto* block = std::get_if<BlockPattern>(&pattern))
    return BlockGrid(*block, elements.sizes(), groups).in_blocks(elements, 0).sum({2, 4}).reshape({-1});
  if (std::holds_alternative<ChannelPattern>(pattern) && elements.numel() > 0) return elements.flatten(1).sum(1);
  return elements.reshape({-1});
}

torch::Tensor units_of_mask(const Pattern& pattern, const torch::Tensor& mask, std::int64_t groups) {
  if (const auto* block = std::get_if<BlockPattern>(&pattern)) {
    const torch::Tensor blocks = BlockGrid(*block, mask.sizes(), groups).in_blocks(mask.to(torch::kByte), 1);
    return blocks.amin({2, 4}).reshape({-1}).to(torch::kBool);
  }
  if (std::holds_alternative<ChannelPattern>(pattern) && mask.numel() > 0) return mask.flatten(1).all(1);
  return mask.reshape({-1});
}

torch::Tensor mask_of_units(const Pattern& pattern, const torch::Tensor& units, torch::IntArrayRef shape,
                            std::int64_t groups) {
  if (const auto* block = std::get_if<BlockPattern>(&pattern))
    return BlockGrid(*block, shape, groups).spread(units, shape);
  if (std::holds_alternative<ChannelPattern>(pattern) && units.numel() > 0) {
    std::vector<std::int64_t> column(shape.size(), 1);
    column[0] = units.numel();
    return units.reshape(column).expand(shape).contiguous();
  }
  return units.reshape(shape);
}

torch::Tensor spared_weights(const NOfMPattern& pattern, const torch::Tensor& scores) {
  torch::Tensor spared = torch::zeros(scores.sizes(), torch::kBool);
  if (scores.numel() == 0) return spared.to(scores.device());
  const torch::Tensor plain = scores.detach().to(torch::kCPU, torch::kDouble).contiguous();
  const double* score_of = plain.const_data_ptr<double>();
  bool* is_spared = spared.mutable_data_ptr<bool>();
  const std::int64_t inputs = scores.size(1);
  const std::int64_t taps = scores.numel() / (scores.size(0) * inputs);
  std::vector<std::pair<double, std::int64_t>> group;  // score and place, so that equals are ordered too
  for (std::int64_t output = 0; output < scores.size(0); ++output)
    for (std::int64_t first = 0; first < inputs; first += pattern.m)
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        group.clear();
        for (std::int64_t input = first; input < std::min(first + pattern.m, inputs); ++input) {
          const std::int64_t place = (output * inputs + input) * taps + tap;
          group.emplace_back(score_of[place], place);
        }
        const auto kept = group.end() - std::min<std::int64_t>(pattern.n, std::ssize(group));
        std::nth_element(group.begin(), kept, group.end());
        std::for_each(kept, group.end(), [&](const auto& weight) { is_spared[weight.second] = true; });
      }
  return spared.to(scores.device());
}

}  // namespace podaq
