#include "runtime/node_timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "runtime/arena.h"

namespace podaq::runtime_detail {

namespace {

using Clock = std::chrono::steady_clock;

double nanoseconds(Clock::duration time) {
  return std::chrono::duration<double, std::nano>(time).count();
}

double median(std::vector<float> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// What reading the clock adds to a measured time.
double clock_ns() {
  constexpr int readings = 101;
  std::vector<float> times;
  for (int i = 0; i < readings; ++i) {
    const auto start = Clock::now();
    times.push_back(static_cast<float>(nanoseconds(Clock::now() - start)));
  }
  return median(std::move(times));
}

}  // namespace

NodeRunner::NodeRunner(Plan plan, std::size_t batch) : plan_(std::move(plan)), batch_(batch) {
  const ArenaLayout layout = plan_arena(plan_, batch);
  memory_.resize(layout.bytes);
  scratch_ = memory_.data() + layout.scratch_offset;
  outside_.resize(plan_.values.size());
  for (std::size_t value = 0; value < plan_.values.size(); ++value) {
    if (layout.offsets[value] == ArenaLayout::external) {
      outside_[value].resize(plan_.values[value].sample_bytes * batch + over_read_bytes);
      places_.push_back(outside_[value].data());
    } else {
      places_.push_back(memory_.data() + layout.offsets[value]);
    }
  }
  for (const ValueId value : plan_.input_values) {
    auto* numbers = reinterpret_cast<float*>(places_[value]);
    for (std::size_t i = 0; i < plan_.values[value].sample_bytes * batch / sizeof(float); ++i)
      numbers[i] = std::sin(static_cast<float>(i));
  }
}

void NodeRunner::run(const PlanNode& node) {
  operands_.clear();
  for (const ValueId value : node.inputs) operands_.push_back(places_[value]);
  node.kernel->run(node.packed,
                   {.inputs = operands_, .output = places_[node.output], .scratch = scratch_, .batch = batch_});
}

void NodeRunner::run_all() {
  for (const PlanNode& node : plan_.nodes) run(node);
}

void NodeTimer::run_round() {
  const std::vector<PlanNode>& nodes = runner_->plan().nodes;
  auto start = Clock::now();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    runner_->run(nodes[i]);
    const auto end = Clock::now();
    times_[i].push_back(static_cast<float>(nanoseconds(end - start)));
    start = end;
  }
}

std::vector<double> NodeTimer::medians() const {
  const double clock = clock_ns();
  std::vector<double> medians;
  for (const std::vector<float>& times : times_) medians.push_back(std::max(1.0, median(times) - clock));
  return medians;
}

}  // namespace podaq::runtime_detail
