#include "fuzz/run_graph.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "podaq/core/error.h"
#include "podaq/runtime/runner.h"

namespace podaq::fuzz {
namespace {

constexpr double most_elements = 1 << 16;
constexpr double most_work = 1 << 21;

// In double, so that nothing overflows.
double count_of(std::span<const std::int64_t> shape) {
  double count = 1;
  for (const std::int64_t size : shape) count *= static_cast<double>(size);
  return count;
}

// The elements that one output element is computed from, at most.
double window_of(const Graph& graph, const Node& node) {
  const Shape& input = graph.values[node.inputs[0]].shape;
  if (std::holds_alternative<Conv>(node.op) || std::holds_alternative<Linear>(node.op))
    return count_of(std::span(graph.tensors.at(node.tensors[0]).shape).subspan(1));
  if (const auto* pool = std::get_if<MaxPool>(&node.op)) return count_of(pool->kernel);
  if (const auto* pool = std::get_if<AvgPool>(&node.op)) return count_of(pool->kernel);
  if (std::holds_alternative<AdaptivePool>(node.op)) return count_of(std::span(input).subspan(1));
  return 1;
}

using Results = std::vector<std::vector<float>>;

// Numbers of either sign, of the sizes that samples have.
std::vector<float> sample_of(const Port& port) {
  std::vector<float> numbers(port.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = 0.25F * static_cast<float>(i * 37 % 41) - 5.0F;
  return numbers;
}

// A graph that verifies may still hold numbers that no kernel takes, such as a negative variance.
std::optional<Model> prepare(const Graph& graph, Isa isa) {
  try {
    return Model(graph, {.read = {}, .isa = isa});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::graph) throw;
    return std::nullopt;
  }
}

Results run_one(const Model& model) {
  Runner runner(model);
  std::vector<std::vector<float>> samples;
  std::vector<Runner::Input> inputs;
  samples.reserve(model.inputs().size());  // The inputs point into them.
  for (const Port& port : model.inputs()) inputs.push_back({port.name, samples.emplace_back(sample_of(port))});
  Results results;
  std::vector<Runner::Output> outputs;
  results.reserve(model.outputs().size());
  for (const Port& port : model.outputs()) outputs.push_back({port.name, results.emplace_back(port.size())});
  runner.run(inputs, outputs);
  return results;
}

// Bit by bit; but any NaN is as good as another.
bool are_equal(float a, float b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b));
}

}  // namespace

bool is_small(const Graph& graph) {
  double elements = 0;
  double work = 0;
  for (const Value& value : graph.values) elements += count_of(value.shape);
  for (const Node& node : graph.nodes)
    if (!node.inputs.empty()) work += count_of(graph.values[node.output].shape) * window_of(graph, node);
  return elements <= most_elements && work <= most_work;
}

void run_everywhere(const Graph& graph) {
  const std::optional<Model> reference = prepare(graph, Isa::reference);
  const std::optional<Model> widest = prepare(graph, selected_isa());
  if (reference.has_value() != widest.has_value()) {
    std::fputs("one instruction set refuses what another takes\n", stderr);
    std::abort();
  }
  if (!reference) return;
  const Results expected = run_one(*reference);
  const Results results = run_one(*widest);
  for (std::size_t output = 0; output < expected.size(); ++output)
    for (std::size_t i = 0; i < expected[output].size(); ++i)
      if (!are_equal(expected[output][i], results[output][i])) {
        std::fprintf(stderr, "output %zu, element %zu: %a, the reference has %a\n", output, i,
                     static_cast<double>(results[output][i]), static_cast<double>(expected[output][i]));
        std::abort();
      }
}

}  // namespace podaq::fuzz
