#include "runtime/kernels/sparse_input.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "runtime/support.h"

namespace podaq::test {
namespace {

using runtime_detail::ConvGeometry;
using runtime_detail::SparseInput;
using runtime_detail::SparseInputPlan;
using runtime_detail::avx512::panel_positions;

constexpr std::uint8_t outside = 255;
constexpr std::size_t margin = 128;  // before and behind the codes: lines may lie there, masked

ConvGeometry random_geometry(Draws& draws) {
  ConvGeometry g;
  g.input_channels = static_cast<std::size_t>(draws.integer(1, 5));
  const bool is_row = draws.chance(0.3);
  g.input_height = is_row ? 1 : static_cast<std::size_t>(draws.integer(1, 20));
  g.input_width = static_cast<std::size_t>(draws.integer(1, is_row ? 300 : 40));
  g.kernel_height = is_row ? 1 : static_cast<std::size_t>(draws.integer(1, 3));
  g.kernel_width = static_cast<std::size_t>(draws.integer(1, 4));
  g.stride_height = draws.chance(0.7) ? 1 : 2;
  g.stride_width = draws.chance(0.7) ? 1 : static_cast<std::size_t>(draws.integer(1, 3));
  g.dilation_height = static_cast<std::size_t>(draws.integer(1, 2));
  g.dilation_width = static_cast<std::size_t>(draws.integer(1, 2));
  g.pad_top = is_row ? 0 : static_cast<std::size_t>(draws.integer(0, 2));
  g.pad_left = static_cast<std::size_t>(draws.integer(0, 3));
  const auto outputs = [](std::size_t input, std::size_t pad, std::size_t kernel, std::size_t dilation,
                          std::size_t stride) {
    const std::size_t window = (kernel - 1) * dilation + 1;
    return input + 2 * pad < window ? 0 : (input + 2 * pad - window) / stride + 1;
  };
  g.output_height = outputs(g.input_height, g.pad_top, g.kernel_height, g.dilation_height, g.stride_height);
  g.output_width = outputs(g.input_width, g.pad_left, g.kernel_width, g.dilation_width, g.stride_width);
  return g;
}

std::uint8_t window_code(const ConvGeometry& g, const std::vector<std::uint8_t>& codes, std::size_t channel,
                         std::size_t tap, std::size_t position) {
  const std::size_t row = position / g.output_width * g.stride_height + tap / g.kernel_width * g.dilation_height;
  const std::size_t column = position % g.output_width * g.stride_width + tap % g.kernel_width * g.dilation_width;
  if (row < g.pad_top || row - g.pad_top >= g.input_height || column < g.pad_left ||
      column - g.pad_left >= g.input_width)
    return outside;
  return codes[(channel * g.input_height + row - g.pad_top) * g.input_width + column - g.pad_left];
}

// The planes that a plan asks for, margins around them; else the codes themselves.
std::vector<std::uint8_t> planes_of(const ConvGeometry& g, const SparseInput& input,
                                    const std::vector<std::uint8_t>& codes) {
  const std::size_t planes = input.plane_columns.size();
  std::vector<std::uint8_t> result(2 * margin + std::max(codes.size(), g.input_channels * planes * input.plane_bytes));
  if (planes == 0) {
    std::copy(codes.begin(), codes.end(), result.begin() + margin);
    return result;
  }
  const std::size_t phase_rows = input.plane_rows / g.stride_height;
  const std::size_t first = input.plane_inside.empty() ? 0 : input.plane_body - g.pad_top * g.output_width;
  for (std::size_t plane = 0; plane < g.input_channels * planes; ++plane)
    for (std::size_t row = 0; row < input.plane_rows; ++row)
      for (std::size_t x = 0; x < g.output_width; ++x) {
        const auto& columns = input.plane_columns[plane % planes];
        const std::size_t padded = row % phase_rows * g.stride_height + row / phase_rows;
        std::uint8_t& code = result[margin + plane * input.plane_bytes + first + row * g.output_width + x];
        code = outside;
        if (padded < g.pad_top || padded - g.pad_top >= g.input_height) continue;
        if (x < columns.first || x - columns.first >= columns.count) continue;
        code = codes[(plane / planes * g.input_height + padded - g.pad_top) * g.input_width + columns.source +
                     (x - columns.first) * g.stride_width];
      }
  return result;
}

// What the kernel reads of an element at the positions of a panel.
std::vector<std::uint8_t> panel_codes(const ConvGeometry& g, const SparseInput& input,
                                      const std::vector<std::uint8_t>& planes, std::size_t first) {
  if (input.lines.empty()) return {planes.begin() + static_cast<std::ptrdiff_t>(margin + first), planes.end()};
  const std::size_t copied_positions = panel_positions * input.panels_per_copy;
  const std::size_t copies = (g.output_positions() + copied_positions - 1) / copied_positions;
  const std::size_t copy = first / copied_positions;
  std::vector<std::uint8_t> copied;
  for (const auto& line : input.lines)
    for (std::size_t i = 0; i < input.line_bytes; ++i) {
      const std::uint64_t inside =
          input.inside.empty() ? ~std::uint64_t{0} : input.inside[copy * (input.inside.size() / copies) + line.mask];
      const auto source = static_cast<std::ptrdiff_t>(margin + copy * copied_positions + i) + line.source;
      const bool is_inside = (inside >> i & 1U) != 0;
      copied.push_back(is_inside ? planes.at(static_cast<std::size_t>(source)) : outside);
    }
  copied.erase(copied.begin(), copied.begin() + static_cast<std::ptrdiff_t>(first % copied_positions));
  copied.resize(copied.size() + copied_positions);
  return copied;
}

TEST(SparseInputProperty, EveryElementHasTheCodesUnderItsTap) {
  std::set<std::string> kinds;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Draws draws(seed);
    const ConvGeometry g = random_geometry(draws);
    if (g.output_positions() == 0) continue;
    std::vector<std::uint8_t> codes(g.input_channels * g.input_positions());
    for (auto& code : codes) code = static_cast<std::uint8_t>(draws.integer(0, 254));
    const SparseInputPlan plan = runtime_detail::plan_sparse_input(g, draws.chance(0.5) ? 1 : 100000);
    const std::vector<std::uint8_t> planes = planes_of(g, plan.input, codes);
    ASSERT_EQ(plan.offsets.size(), g.input_channels * g.taps());
    kinds.insert((plan.input.plane_columns.empty() ? "input, " : "planes, ") +
                 std::string(plan.input.lines.empty()                         ? "in place"
                             : plan.input.lines.size() == plan.offsets.size() ? "elements"
                                                                              : "stretches"));
    for (std::size_t first = 0; first < g.output_positions(); first += panel_positions) {
      const std::vector<std::uint8_t> panel = panel_codes(g, plan.input, planes, first);
      for (std::size_t element = 0; element < plan.offsets.size(); ++element)
        for (std::size_t i = 0; i < panel_positions && first + i < g.output_positions(); ++i)
          ASSERT_EQ(panel.at(plan.offsets[element] + i),
                    window_code(g, codes, element / g.taps(), element % g.taps(), first + i))
              << "seed " << seed << " element " << element << " position " << first + i;
    }
  }
  for (const char* kind : {"input, in place", "input, elements", "input, stretches", "planes, in place"})
    EXPECT_TRUE(kinds.count(kind) == 1) << kind;
}

TEST(SparseInput, ManyReadsOfWhatOverflowsTheCacheCopyElements) {
  ConvGeometry g{.input_channels = 512, .input_height = 14, .input_width = 14, .output_height = 14, .output_width = 14};
  EXPECT_TRUE(runtime_detail::plan_sparse_input(g, 1000).input.lines.empty());
  EXPECT_EQ(runtime_detail::plan_sparse_input(g, 10000).input.lines.size(), 512U);
  g.input_channels = 1024;
  g.stride_height = g.stride_width = 2;
  g.input_height = g.input_width = 28;
  const SparseInput strided = runtime_detail::plan_sparse_input(g, 10000).input;
  EXPECT_EQ(strided.plane_columns.size(), 1U);
  EXPECT_EQ(strided.lines.size(), 1024U);
}

}  // namespace
}  // namespace podaq::test
