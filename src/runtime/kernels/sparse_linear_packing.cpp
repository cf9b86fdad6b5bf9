#include <algorithm>
#include <array>
#include <numeric>

#include "runtime/kernels/avx512/sparse_linear_task.h"
#include "runtime/kernels/quad_packing.h"
#include "runtime/kernels/sparse_linear.h"

namespace podaq::runtime_detail {

namespace {

using avx512::sparse_lanes;
using avx512::step_bytes;
using avx512::step_slots;
using avx512::window_inputs;

// The inputs that each output channel has a nonzero weight for, in rising order.
struct NonzeroRows {
  std::vector<std::uint32_t> begins;  ///< One more than output channels.
  std::vector<std::uint32_t> inputs;

  [[nodiscard]] std::span<const std::uint32_t> row(std::size_t output) const {
    return std::span(inputs).subspan(begins[output], begins[output + 1] - begins[output]);
  }
};

NonzeroRows find_nonzeros(std::span<const std::int8_t> codes, std::size_t outputs, std::size_t inputs) {
  NonzeroRows rows{.begins = {0}, .inputs = {}};
  for (std::size_t output = 0; output < outputs; ++output) {
    for (std::size_t input = 0; input < inputs; ++input)
      if (codes[output * inputs + input] != 0) rows.inputs.push_back(static_cast<std::uint32_t>(input));
    rows.begins.push_back(static_cast<std::uint32_t>(rows.inputs.size()));
  }
  return rows;
}

// What each lane of a block has left.
using Lanes = std::array<std::span<const std::uint32_t>, sparse_lanes>;

// The first input of the next window, chosen so that it lies within the inputs.
std::size_t next_start(const Lanes& lanes, std::size_t inputs) {
  std::size_t start = inputs <= window_inputs ? 0 : inputs - window_inputs;
  for (const auto& lane : lanes)
    if (!lane.empty()) start = std::min<std::size_t>(start, lane.front());
  return start;
}

}  // namespace

void pack_nonzeros(SparseLinear& linear, std::span<const std::int8_t> codes) {
  const NonzeroRows rows = find_nonzeros(codes, linear.outputs, linear.inputs);
  linear.slots.clear();
  linear.starts.clear();
  linear.steps.clear();
  linear.lane_outputs.resize(round_up(linear.outputs, sparse_lanes));
  std::iota(linear.lane_outputs.begin(), linear.lane_outputs.end(), 0U);
  std::stable_sort(linear.lane_outputs.begin(),
                   linear.lane_outputs.begin() + static_cast<std::ptrdiff_t>(linear.outputs),
                   [&](std::uint32_t a, std::uint32_t b) { return rows.row(a).size() < rows.row(b).size(); });
  for (std::size_t first = 0; first < linear.outputs; first += sparse_lanes) {
    Lanes lanes;
    const std::span outputs = std::span(linear.lane_outputs).subspan(first, sparse_lanes);
    for (std::size_t lane = 0; lane < sparse_lanes && first + lane < linear.outputs; ++lane)
      lanes[lane] = rows.row(outputs[lane]);
    const std::size_t steps_before = linear.starts.size();
    while (std::any_of(lanes.begin(), lanes.end(), [](const auto& lane) { return !lane.empty(); })) {
      const std::size_t start = next_start(lanes, linear.inputs);
      const std::size_t places = linear.slots.size();
      linear.starts.push_back(static_cast<std::uint16_t>(start));
      linear.slots.resize(places + step_bytes);
      for (std::size_t lane = 0; lane < sparse_lanes; ++lane)
        for (std::size_t slot = places + lane * quad; slot < places + (lane + 1) * quad; ++slot) {
          if (lanes[lane].empty() || lanes[lane].front() >= start + window_inputs) break;
          const std::size_t input = lanes[lane].front();
          linear.slots[slot] = static_cast<std::uint8_t>(input - start);
          linear.slots[slot + step_slots] = static_cast<std::uint8_t>(codes[outputs[lane] * linear.inputs + input]);
          lanes[lane] = lanes[lane].subspan(1);
        }
    }
    linear.steps.push_back(static_cast<std::uint32_t>(linear.starts.size() - steps_before));
  }
  linear.slots.shrink_to_fit();
}

std::vector<std::int8_t> unpack_nonzeros(const SparseLinear& linear) {
  std::vector<std::int8_t> codes(linear.outputs * linear.inputs, 0);
  std::size_t step = 0;
  for (std::size_t block = 0; block < linear.steps.size(); ++block)
    for (const std::size_t end = step + linear.steps[block]; step < end; ++step)
      for (std::size_t slot = 0; slot < step_slots; ++slot) {
        const std::uint8_t* const place = linear.slots.data() + step * step_bytes + slot;
        const std::size_t output = linear.lane_outputs[block * sparse_lanes + slot / quad];
        if (place[step_slots] != 0)
          codes[output * linear.inputs + linear.starts[step] + *place] = static_cast<std::int8_t>(place[step_slots]);
      }
  return codes;
}

std::size_t least_steps(std::size_t nonzeros) {
  return (nonzeros + step_slots - 1) / step_slots;
}

}  // namespace podaq::runtime_detail
