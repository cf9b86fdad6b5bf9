#include "podaq/runtime/runner.h"

#include <algorithm>
#include <functional>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "runtime/arena.h"

namespace podaq {

namespace {

using runtime_detail::ArenaLayout;
using runtime_detail::Plan;
using runtime_detail::PlanNode;

constexpr std::size_t largest_max_batch = 65536;

using Memory = std::unique_ptr<std::byte[], void (*)(std::byte*)>;

Memory allocate_arena(std::size_t bytes, std::size_t max_batch) {
  constexpr std::align_val_t cache_line{64};
  void* memory = ::operator new(bytes, cache_line, std::nothrow);
  if (memory == nullptr)
    throw Error(ErrorCode::invalid_argument, concat("max_batch ", max_batch, " needs ", bytes,
                                                    " bytes of scratch memory, more than there are; lower max_batch"));
  return {static_cast<std::byte*>(memory), [](std::byte* block) { ::operator delete(block, cache_line); }};
}

[[noreturn]] void refuse(std::string_view kind, std::string_view name, std::string_view problem) {
  throw Error(ErrorCode::invalid_argument, concat(kind, " '", name, "' ", problem));
}

// Puts each named buffer where its port stands.
template <typename Buffer, typename Span>
void place_by_name(std::string_view kind, const std::vector<Port>& ports, std::span<const Buffer> buffers,
                   std::vector<Span>& placed) {
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const auto matches = [&](const Buffer& buffer) { return buffer.name == ports[i].name; };
    const auto count = std::count_if(buffers.begin(), buffers.end(), matches);
    if (count != 1) refuse(kind, ports[i].name, concat("is given ", count, " times; give it once"));
    placed[i] = std::find_if(buffers.begin(), buffers.end(), matches)->data;
  }
  for (const Buffer& buffer : buffers)
    if (std::none_of(ports.begin(), ports.end(), [&](const Port& port) { return port.name == buffer.name; }))
      refuse(kind, buffer.name, concat("is not one of the model's ", kind, "s"));
}

}  // namespace

struct Runner::State {
  Model model;
  std::size_t max_batch;
  Memory arena{nullptr, [](std::byte*) {}};
  std::byte* scratch = nullptr;
  std::vector<std::span<const float>> inputs;  ///< In the model's order; an input not given yet has no data.
  std::vector<std::span<float>> outputs;
  std::vector<std::byte*> written;         ///< By ValueId; the model's outputs move with each slice.
  std::vector<const std::byte*> read;      ///< By ValueId; the model's inputs and outputs likewise.
  std::vector<const std::byte*> operands;  ///< The inputs of the node that runs.

  State(Model shared, std::size_t batch);
  [[nodiscard]] const Plan& plan() const { return *model.plan_; }
  void run_all();
  [[nodiscard]] std::size_t check_sizes() const;
  void check_overlaps() const;
  void run_slice(std::size_t first, std::size_t batch);
};

Runner::State::State(Model shared, std::size_t batch) : model(std::move(shared)), max_batch(batch) {
  const ArenaLayout layout = runtime_detail::plan_arena(plan(), max_batch);
  arena = allocate_arena(layout.bytes, max_batch);
  scratch = arena.get() + layout.scratch_offset;
  written.resize(plan().values.size(), nullptr);
  for (std::size_t value = 0; value < written.size(); ++value)
    if (layout.offsets[value] != ArenaLayout::external) written[value] = arena.get() + layout.offsets[value];
  read.assign(written.begin(), written.end());
  inputs.resize(plan().inputs.size());
  outputs.resize(plan().outputs.size());
  std::size_t most_inputs = 0;
  for (const PlanNode& node : plan().nodes) most_inputs = std::max(most_inputs, node.inputs.size());
  operands.resize(most_inputs);
}

// The batch that all buffers agree on.
std::size_t Runner::State::check_sizes() const {
  std::size_t batch = 0;
  std::string_view first;
  const auto check = [&](std::string_view kind, const Port& port, std::size_t size) {
    if (size % port.size() != 0)
      refuse(kind, port.name, concat("has ", size, " numbers, no multiple of the ", port.size(), " of one sample"));
    if (first.empty()) {
      batch = size / port.size();
      first = port.name;
    }
    if (size / port.size() != batch)
      refuse(kind, port.name,
             concat("has ", size / port.size(), " samples, but '", first, "' has ", batch, "; give all the same"));
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) check("input", plan().inputs[i], inputs[i].size());
  for (std::size_t i = 0; i < outputs.size(); ++i) check("output", plan().outputs[i], outputs[i].size());
  return batch;
}

// Results are written while inputs are still being read.
void Runner::State::check_overlaps() const {
  const auto overlap = [](std::span<const float> a, std::span<const float> b) {
    const std::less<const float*> before;
    return !a.empty() && !b.empty() && before(a.data(), b.data() + b.size()) && before(b.data(), a.data() + a.size());
  };
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (const auto& input : inputs)
      if (overlap(outputs[i], input)) refuse("output", plan().outputs[i].name, "overlaps an input in memory");
    for (std::size_t j = 0; j < i; ++j)
      if (overlap(outputs[i], outputs[j]))
        refuse("output", plan().outputs[i].name, concat("overlaps output '", plan().outputs[j].name, "' in memory"));
  }
}

void Runner::State::run_slice(std::size_t first, std::size_t batch) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    read[plan().input_values[i]] =
        reinterpret_cast<const std::byte*>(inputs[i].data() + first * plan().inputs[i].size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ValueId value = plan().output_values[i];
    written[value] = reinterpret_cast<std::byte*>(outputs[i].data() + first * plan().outputs[i].size());
    read[value] = written[value];
  }
  for (const PlanNode& node : plan().nodes) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) operands[i] = read[node.inputs[i]];
    node.kernel->run(node.packed, {.inputs = std::span(operands).first(node.inputs.size()),
                                   .output = written[node.output],
                                   .scratch = scratch,
                                   .batch = batch});
  }
}

void Runner::State::run_all() {
  const std::size_t batch = check_sizes();
  check_overlaps();
  for (std::size_t first = 0; first < batch; first += max_batch) run_slice(first, std::min(max_batch, batch - first));
}

Runner::Runner(Model model, RunnerOptions options) {
  if (options.max_batch < 1 || options.max_batch > largest_max_batch)
    throw Error(ErrorCode::invalid_argument,
                concat("RunnerOptions.max_batch is ", options.max_batch, "; it must be 1 to ", largest_max_batch));
  state_ = std::make_unique<State>(std::move(model), options.max_batch);
}

Runner::Runner(Runner&&) noexcept = default;
Runner& Runner::operator=(Runner&&) noexcept = default;
Runner::~Runner() = default;

void Runner::run(std::span<const float> input, std::span<float> output) {
  State& state = *state_;
  if (state.inputs.size() != 1 || state.outputs.size() != 1)
    throw Error(ErrorCode::invalid_argument, concat("the model has ", state.inputs.size(), " inputs and ",
                                                    state.outputs.size(), " outputs; run it with named buffers"));
  state.inputs[0] = input;
  state.outputs[0] = output;
  state.run_all();
}

void Runner::run(std::span<const Input> inputs, std::span<const Output> outputs) {
  State& state = *state_;
  place_by_name("input", state.plan().inputs, inputs, state.inputs);
  place_by_name("output", state.plan().outputs, outputs, state.outputs);
  state.run_all();
}

const Model& Runner::model() const {
  return state_->model;
}

}  // namespace podaq
