#include "podaq/quantize/adaptive_rounding.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/numerics/choose_qparams.h"
#include "quantize/layer_probe.h"

namespace podaq {
namespace {

// The sigmoid is stretched beyond [0, 1] and clipped, so that it reaches both (arXiv 2004.10568, eq. 23).
constexpr double stretch_low = -0.1;
constexpr double stretch_high = 1.1;

void require_options(const AdaptiveRoundingOptions& options) {
  const auto require = [](bool holds, const std::string& problem) {
    if (!holds) throw Error(ErrorCode::invalid_argument, concat("adaptive rounding: ", problem));
  };
  require(options.iterations >= 1 && options.iterations <= 1000000,
          concat("iterations is ", options.iterations, ", must lie in [1, 1000000]"));
  require(options.learning_rate > 0 && options.learning_rate <= 1,
          concat("learning_rate is ", options.learning_rate, ", must lie in (0, 1]"));
  require(options.regularization >= 0 && options.regularization <= 1000,
          concat("regularization is ", options.regularization, ", must lie in [0, 1000]"));
}

// One layer's problem: which way to round each weight.
struct LayerProblem {
  const GraphModule& model;
  const Step& step;
  LayerParameters rounded;   // nearest, for its bias
  torch::Tensor scale = {};  // [channels, 1, ...]
  torch::Tensor below = {};  // the code next below each weight, or the nearest one where it may not move
  torch::Tensor share = {};  // how far up to the next code the weight lies
  torch::Tensor may_move = {};
  std::int32_t limit = 127;
  std::vector<torch::Tensor> inputs = {};    // of the quantized network, per batch
  std::vector<torch::Tensor> expected = {};  // outputs of the float network, per batch

  // What the weight stands for when each code is `up` above the one below.
  [[nodiscard]] torch::Tensor weight_for(const torch::Tensor& up) const {
    return (below + up * may_move).clamp(-limit, limit) * scale;
  }

  [[nodiscard]] torch::Tensor clamped(const torch::Tensor& output) const {
    if (step.add || !step.clamp) return output;
    const auto& bounds = std::get<Clamp>(model.graph().nodes[*step.clamp].op);
    return output.clamp(bounds.minimum, bounds.maximum);
  }

  [[nodiscard]] torch::Tensor error(const torch::Tensor& weight, std::size_t batch) const {
    const torch::Tensor output =
        clamped(quantize_detail::layer_output(model, step, inputs[batch], {.weight = weight, .bias = rounded.bias}));
    const std::int64_t channels = weight.size(0);
    const double places = static_cast<double>(output.numel()) / static_cast<double>(channels);
    return (output - expected[batch]).square().sum() / places;
  }

  [[nodiscard]] double mean_error(const torch::Tensor& weight) const {
    const torch::NoGradGuard no_grad;
    double sum = 0;
    for (std::size_t batch = 0; batch < inputs.size(); ++batch) sum += error(weight, batch).item<double>();
    return sum / static_cast<double>(inputs.size());
  }
};

LayerProblem problem_of(GraphModule& model, GraphModule& original, const NetworkQuantizer& quantizer, std::size_t index,
                        std::span<const CalibrationBatch> batches) {
  const Step& step = model.steps()[index];
  const ValueId input = model.graph().nodes[step.node].inputs[0];
  const LayerParameters folded = model.folded_parameters(step);
  const torch::Tensor weight = folded.weight.detach();
  const std::vector<float> scales = quantizer.weight_scales(index, folded);
  std::vector<std::int64_t> shape(static_cast<std::size_t>(weight.dim()), 1);
  shape[0] = -1;

  LayerProblem problem{.model = model, .step = step, .rounded = quantizer.rounded(index, folded)};
  problem.rounded.bias = problem.rounded.bias.defined() ? problem.rounded.bias.detach() : torch::Tensor();
  problem.limit = numerics::weight_code_limit(quantizer.weight_quantization(index).bits);
  problem.scale = torch::tensor(scales).reshape(shape).to(weight.options());
  const torch::Tensor position = weight / problem.scale;
  problem.may_move = (weight != 0).logical_and(position.abs() < problem.limit - 0.5);
  problem.below =
      torch::where(problem.may_move, position.floor(), position.round()).clamp(-problem.limit, problem.limit);
  problem.share = torch::where(problem.may_move, position - problem.below, torch::zeros_like(position));
  problem.inputs = quantize_detail::values_at(model, &quantizer, input, batches);
  const LayerParameters exact = original.folded_parameters(step);
  for (const torch::Tensor& value : quantize_detail::values_at(original, nullptr, input, batches))
    problem.expected.push_back(problem.clamped(quantize_detail::layer_output(original, step, value, exact)).detach());
  return problem;
}

torch::Tensor stretched_sigmoid(const torch::Tensor& v) {
  return (torch::sigmoid(v) * (stretch_high - stretch_low) + stretch_low).clamp(0, 1);
}

// Whether each weight goes up, found by gradient descent on a relaxed choice that hardens as it goes (eq. 21 to 25).
torch::Tensor choose_directions(const LayerProblem& problem, const AdaptiveRoundingOptions& options) {
  const torch::Tensor start = ((problem.share - stretch_low) / (stretch_high - stretch_low)).clamp(1e-4, 1 - 1e-4);
  const torch::Tensor v = torch::logit(start).detach().clone().set_requires_grad(true);
  torch::optim::Adam optimizer({v}, torch::optim::AdamOptions(options.learning_rate));
  const int free_until = options.iterations / 5;
  constexpr double hardest = 20;
  constexpr double softest = 2;
  for (int i = 0; i < options.iterations; ++i) {
    const torch::Tensor up = stretched_sigmoid(v);
    torch::Tensor loss = problem.error(problem.weight_for(up), static_cast<std::size_t>(i) % problem.inputs.size());
    if (i >= free_until) {
      const double progress = static_cast<double>(i - free_until) / std::max(options.iterations - free_until, 1);
      const double beta = hardest + (softest - hardest) * progress;
      const torch::Tensor undecided = 1 - (up * 2 - 1).abs().pow(beta);
      loss = loss + options.regularization * (undecided * problem.may_move).sum();
    }
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  return stretched_sigmoid(v.detach()) >= 0.5;
}

// The layer's own weight, such that the folded one becomes `folded`; only where weights moved or may move.
void write_weight(GraphModule& model, const Step& step, const torch::Tensor& folded, const torch::Tensor& factor) {
  torch::Tensor weight = model.tensor(model.graph().nodes[step.node].tensors.at(0));
  if (!factor.defined()) {
    weight.copy_(folded);
    return;
  }
  std::vector<std::int64_t> shape(static_cast<std::size_t>(folded.dim()), 1);
  shape[0] = -1;
  const torch::Tensor by = factor.reshape(shape);
  weight.copy_(torch::where(by != 0, folded / by, weight));
}

}  // namespace

std::vector<RoundingReport> round_adaptively(GraphModule& model, const NetworkQuantizer& quantizer,
                                             std::span<const CalibrationBatch> batches,
                                             const AdaptiveRoundingOptions& options) {
  require_options(options);
  if (batches.empty())
    throw Error(ErrorCode::invalid_argument, "adaptive rounding: there are no batches; give at least one");
  const auto original = std::dynamic_pointer_cast<GraphModule>(model.clone());
  std::vector<RoundingReport> reports;
  for (const std::size_t index : quantize_detail::layers_on_codes(model, quantizer)) {
    const Step& step = model.steps()[index];
    const LayerProblem problem = problem_of(model, *original, quantizer, index, batches);
    const torch::Tensor nearest = problem.weight_for((problem.share >= 0.5).to(problem.share.scalar_type()));
    const torch::Tensor up = choose_directions(problem, options);
    const torch::Tensor adaptive = problem.weight_for(up.to(problem.share.scalar_type()));
    RoundingReport report{.layer = model.graph().nodes[step.node].name, .nearest = problem.mean_error(nearest)};
    report.adaptive = problem.mean_error(adaptive);
    if (report.adaptive < report.nearest) {
      const torch::NoGradGuard no_grad;
      report.moved = (adaptive != nearest).sum().item<std::int64_t>();
      write_weight(model, step, adaptive, model.folded_parameters(step).factor);
    } else {
      report.adaptive = report.nearest;
    }
    reports.push_back(report);
  }
  quantizer.enable(model);
  return reports;
}

}  // namespace podaq
