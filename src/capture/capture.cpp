#include "podaq/capture/capture.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "capture/mapping.h"
#include "capture/module_state.h"
#include "capture/self_check.h"
#include "capture/trace.h"
#include "podaq/core/error.h"
#include "podaq/core/text.h"

namespace podaq {

namespace {

using namespace capture_detail;

// Enough samples for a batch norm to have statistics even where a sample gives it one value per channel.
constexpr std::int64_t training_batch = 8;

void check_arguments(const std::shared_ptr<torch::nn::Module>& module, const std::vector<torch::Tensor>& samples,
                     const CaptureOptions& options) {
  const auto fail = [](const std::string& text) { throw Error(ErrorCode::invalid_argument, text); };
  if (module == nullptr) fail("capture: the module is null");
  if (samples.empty()) fail("capture: give at least one sample");
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const torch::Tensor& sample = samples[i];
    if (!sample.defined() || sample.dim() < 1 || sample.numel() == 0)
      fail(concat("capture: sample ", i, " must be a tensor [batch, ...] with elements"));
    if (!at::isFloatingType(sample.scalar_type()))
      fail(concat("capture: sample ", i, " must hold floating-point numbers"));
    if (sample.size(0) != samples[0].size(0))
      fail(concat("capture: sample ", i, " has batch ", sample.size(0), ", sample 0 has ", samples[0].size(0)));
  }
  if (!(options.tolerance > 0.0 && std::isfinite(options.tolerance)))
    fail(concat("capture: tolerance ", options.tolerance, " must be a finite number above 0"));
}

std::vector<std::string> boundary_names(const std::vector<std::string>& chosen, std::size_t count,
                                        const std::string& word) {
  std::vector<std::string> names = chosen;
  if (names.empty())
    for (std::size_t i = 0; i < count; ++i) names.push_back(count == 1 ? word : concat(word, i));
  const bool distinct = std::set<std::string>(names.begin(), names.end()).size() == names.size();
  if (names.size() != count || !distinct || std::ranges::find(names, "") != names.end())
    throw Error(ErrorCode::invalid_argument,
                concat("capture: ", word, "_names needs ", count, " different names, or none"));
  return names;
}

// A trace shows the number that an averaging momentum came to; only the module knows that it is an average.
std::map<std::string, std::optional<double>> momenta_of(const torch::nn::Module& module) {
  std::map<std::string, std::optional<double>> momenta;
  for (const auto& item : module.named_modules()) {
    const auto note = [&](const auto* norm) {
      if (norm != nullptr) momenta[item.key()] = norm->options.momentum();
    };
    note(dynamic_cast<const torch::nn::BatchNorm1dImpl*>(item.value().get()));
    note(dynamic_cast<const torch::nn::BatchNorm2dImpl*>(item.value().get()));
  }
  return momenta;
}

// Random inputs like the samples; `offset` and `scale` make tests on the data's sign or size come out both ways.
std::vector<torch::Tensor> random_inputs(const std::vector<torch::Tensor>& samples, std::int64_t batch, double scale,
                                         double offset, at::Generator& generator) {
  std::vector<torch::Tensor> inputs;
  for (const torch::Tensor& sample : samples) {
    std::vector<std::int64_t> sizes = sample.sizes().vec();
    sizes[0] = batch;
    const torch::Tensor normal = at::randn(sizes, generator, torch::TensorOptions().dtype(torch::kFloat));
    inputs.push_back((normal * scale + offset).to(sample.options()));
  }
  return inputs;
}

// The module's runs that the captured network is made of and compared with.
struct Runs {
  Trace sample, other_batch, multiple_batch, training;
};

Runs run_module(torch::nn::Module& module, const ForwardFunction& forward, const std::vector<RegisteredTensor>& tensors,
                const std::vector<torch::Tensor>& samples, const ModuleState& state, const RandomState& random) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(check_seed);
  const std::int64_t batch = samples[0].size(0);
  const auto run = [&](const std::vector<torch::Tensor>& inputs, bool training) {
    module.train(training);
    random.seed(check_seed);
    Trace result = trace(forward, tensors, inputs, training);
    state.restore_tensors();
    return result;
  };
  return {.sample = run(samples, false),
          .other_batch = run(random_inputs(samples, batch == 3 ? 4 : 3, 1.0, 0.5, generator), false),
          .multiple_batch = run(random_inputs(samples, 2 * batch, 2.0, -0.5, generator), false),
          .training = run(random_inputs(samples, training_batch, 1.0, 0.0, generator), true)};
}

std::shared_ptr<GraphModule> capture_checked(const std::shared_ptr<torch::nn::Module>& module,
                                             const ForwardFunction& forward, const std::vector<torch::Tensor>& samples,
                                             const CaptureOptions& options) {
  const ModuleState state(module);
  const RandomState random(samples[0].device());
  const std::vector<RegisteredTensor> tensors = registered_tensors(*module);
  const auto momenta = momenta_of(*module);
  const Runs runs = run_module(*module, forward, tensors, samples, state, random);
  const auto input_names = boundary_names(options.input_names, samples.size(), "input");
  const auto output_names = boundary_names(options.output_names, runs.sample.outputs.size(), "output");
  const auto graph_of = [&](const Trace& run) {
    Mapping mapping{.trace = run,
                    .tensors = tensors,
                    .momenta = momenta,
                    .batch = 0,
                    .graph = {},
                    .symbols = {},
                    .last_layer = {},
                    .names = {},
                    .boundary_names = {}};
    map_trace(mapping, input_names, output_names);
    return mapping.graph;
  };
  const Graph eval = graph_of(runs.sample);
  check_same_structure(eval, graph_of(runs.other_batch), "other values and another batch size");
  check_same_structure(eval, graph_of(runs.multiple_batch), "other values and a larger batch");
  // Dropouts appear while training only, and there they stand apart from their inputs.
  const Graph graph = graph_of(runs.training);
  check_same_structure(eval, graph, "train mode");

  std::map<std::string, torch::Tensor> parameters, buffers;
  for (const RegisteredTensor& registered : tensors)
    (registered.is_parameter ? parameters : buffers).emplace(registered.name, registered.tensor);
  auto captured = std::make_shared<GraphModule>(graph, parameters, buffers);
  for (const Trace* run : {&runs.sample, &runs.other_batch, &runs.multiple_batch, &runs.training})
    check_outputs(*captured, *run, tensors, state, random, options.tolerance);
  return captured;
}

}  // namespace

std::shared_ptr<GraphModule> capture(const std::shared_ptr<torch::nn::Module>& module, const ForwardFunction& forward,
                                     const std::vector<torch::Tensor>& samples, const CaptureOptions& options) {
  check_arguments(module, samples, options);
  const bool is_training = module->is_training();
  try {
    auto captured = capture_checked(module, forward, samples, options);
    captured->train(is_training);
    return captured;
  } catch (const c10::Error& error) {
    throw Error(ErrorCode::capture, concat("the module's forward failed while it was captured: ",
                                           std::string_view(error.what_without_backtrace())));
  }
}

}  // namespace podaq
