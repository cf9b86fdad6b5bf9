#include "podaq/quantize/learned_step.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "podaq/quantize/fake_quantize.h"
#include "quantize/fake_quantize_rows.h"
#include "quantize/saved_parameters.h"
#include "training/memory_layout.h"

namespace podaq {
namespace {

using namespace quantize_detail;
using namespace training_detail;

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// `dy` in the memory order of `x`.
torch::Tensor alike(const torch::Tensor& dy, const torch::Tensor& x) {
  if (dy.strides() == x.strides() && dy.scalar_type() == x.scalar_type()) return dy;
  return at::empty_like(x).copy_(dy);
}

struct Gradients {
  torch::Tensor x;
  double step = 0;
};

// Chunks of one size, whatever the number of threads, so that sums always add up alike.
double pass_gradients(const float* x, const float* dy, float* dx, std::int64_t count, const QParams& q) {
  constexpr std::int64_t chunk = 1 << 15;
  const std::int64_t chunks = (count + chunk - 1) / chunk;
  std::vector<double> sums(static_cast<std::size_t>(chunks));
  at::parallel_for(0, chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      const std::int64_t first = c * chunk;
      sums[static_cast<std::size_t>(c)] =
          pass_gradients_row(x + first, dy + first, dx + first, std::min(chunk, count - first), q);
    }
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

Gradients composed_gradients(const torch::Tensor& x, const torch::Tensor& dy, const QParams& q) {
  const double low = static_cast<double>(q.lowest) - q.zero_point;
  const double high = static_cast<double>(q.highest) - q.zero_point;
  const torch::Tensor scaled = x.mul(1.0F / q.scale);
  const torch::Tensor rounded = scaled.round();
  const torch::Tensor passes = rounded.ge(low).logical_and_(rounded.le(high));  // false for NaN
  const torch::Tensor derivative = at::where(passes, rounded - scaled, rounded.clamp(low, high)).nan_to_num(0.0);
  return {.x = at::where(passes, dy, at::zeros({}, dy.options())), .step = (derivative * dy).sum().item<double>()};
}

Gradients gradients_of(const torch::Tensor& x, const torch::Tensor& dy, const QParams& q) {
  if (!is_dense_float(x)) return composed_gradients(x, dy, q);
  const torch::Tensor ordered = alike(dy, x);
  Gradients result{.x = at::empty_like(x)};
  result.step = pass_gradients(x.const_data_ptr<float>(), ordered.const_data_ptr<float>(), result.x.data_ptr<float>(),
                               x.numel(), q);
  return result;
}

// The gradients of all channels; those of the steps in order.
std::vector<double> channel_gradients(const torch::Tensor& x, const torch::Tensor& dy, std::span<const float> scales,
                                      std::int32_t limit, torch::Tensor& dx) {
  std::vector<double> sums(scales.size());
  const std::int64_t count = scales.empty() ? 0 : x.numel() / x.size(0);
  for (std::size_t c = 0; c < scales.size(); ++c) {
    const QParams q = channel_parameters(scales[c], limit);
    const auto channel = static_cast<std::int64_t>(c);
    if (has_channel_runs(x)) {
      sums[c] =
          pass_gradients_row(x.const_data_ptr<float>() + channel * count, dy.const_data_ptr<float>() + channel * count,
                             dx.data_ptr<float>() + channel * count, count, q);
    } else {
      const Gradients gradients = gradients_of(x.select(0, channel), dy.select(0, channel), q);
      dx.select(0, channel).copy_(gradients.x);
      sums[c] = gradients.step;
    }
  }
  return sums;
}

class FakeQuantizeLearned : public torch::autograd::Function<FakeQuantizeLearned> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x, const torch::Tensor& /*step*/,
                               const QParams& q, double gradient_factor) {
    context->save_for_backward({x});
    save(*context, q);
    context->saved_data["factor"] = gradient_factor;
    return fake_quantize(x, q);
  }

  static variable_list backward(AutogradContext* context, const variable_list& dy) {
    const Gradients gradients = gradients_of(context->get_saved_variables()[0], dy[0], saved_qparams(*context));
    const double step = gradients.step * context->saved_data["factor"].toDouble();
    return {gradients.x, at::tensor({static_cast<float>(step)}, torch::kFloat), Variable(), Variable()};
  }
};

class FakeQuantizeChannelsLearned : public torch::autograd::Function<FakeQuantizeChannelsLearned> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x, const torch::Tensor& steps,
                               const std::vector<float>& scales, std::int32_t limit, double gradient_factor) {
    context->save_for_backward({x, steps});
    save(*context, scales, limit);
    context->saved_data["factor"] = gradient_factor;
    return fake_quantize_channels(x, scales, limit);
  }

  static variable_list backward(AutogradContext* context, const variable_list& dy) {
    const torch::Tensor x = context->get_saved_variables()[0];
    const torch::Tensor steps = context->get_saved_variables()[1];
    const auto [scales, limit] = saved_channel_scales(*context);
    torch::Tensor dx = at::empty_like(x);
    const torch::Tensor ordered = alike(dy[0], x);
    const std::vector<double> sums = channel_gradients(x, ordered, scales, limit, dx);

    const double factor = context->saved_data["factor"].toDouble();
    torch::Tensor step_gradients = at::zeros(steps.sizes(), torch::kFloat);
    auto* gradients = step_gradients.data_ptr<float>();
    const float* values = steps.const_data_ptr<float>();
    const bool is_shared = steps.numel() == 1;
    std::vector<double> totals(static_cast<std::size_t>(steps.numel()));
    for (std::size_t c = 0; c < scales.size(); ++c) {
      const std::size_t step = is_shared ? 0 : c;
      if (scales[c] == values[step]) totals[step] += sums[c];
    }
    std::transform(totals.begin(), totals.end(), gradients,
                   [factor](double sum) { return static_cast<float>(sum * factor); });
    return {dx, step_gradients, Variable(), Variable(), Variable()};
  }
};

}  // namespace

double step_gradient_factor(std::int64_t elements, std::int32_t highest) {
  return 1.0 / std::sqrt(std::max(static_cast<double>(elements) * highest, 1.0));
}

torch::Tensor fake_quantize_learned(const torch::Tensor& x, const torch::Tensor& step, const QParams& q,
                                    double gradient_factor) {
  return FakeQuantizeLearned::apply(x, step, q, gradient_factor);
}

torch::Tensor fake_quantize_channels_learned(const torch::Tensor& x, const torch::Tensor& steps,
                                             std::span<const float> scales, std::int32_t limit,
                                             double gradient_factor) {
  return FakeQuantizeChannelsLearned::apply(x, steps, std::vector<float>(scales.begin(), scales.end()), limit,
                                            gradient_factor);
}

LearnedSteps begin_steps(std::span<const float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  LearnedSteps learned{.steps = at::zeros({count}, torch::kFloat), .momentum = at::zeros({count}, torch::kFloat)};
  std::transform(values.begin(), values.end(), learned.steps.data_ptr<float>(),
                 [](float value) { return value > 0 ? std::max(value, smallest_step) : 0.0F; });
  learned.steps.set_requires_grad(true);
  return learned;
}

void descend(LearnedSteps& learned, double learning_rate) {
  constexpr double friction = 0.9;
  constexpr double largest_change = 0.01;
  constexpr double largest_step = static_cast<double>(std::numeric_limits<float>::max()) / 4.0;
  if (!learned.steps.defined() || !learned.steps.grad().defined()) return;
  const torch::NoGradGuard no_grad;
  auto* steps = learned.steps.data_ptr<float>();
  auto* momentum = learned.momentum.data_ptr<float>();
  const torch::Tensor gradient = learned.steps.grad().contiguous();
  const float* gradients = gradient.const_data_ptr<float>();
  for (std::int64_t i = 0; i < learned.steps.numel(); ++i) {
    if (steps[i] == 0.0F) continue;
    if (!std::isfinite(gradients[i])) {
      momentum[i] = 0.0F;
      continue;
    }
    const double bound = largest_change * steps[i] / learning_rate;
    momentum[i] = static_cast<float>(std::clamp(friction * momentum[i] + gradients[i], -bound, bound));
    steps[i] = static_cast<float>(
        std::clamp(steps[i] - learning_rate * momentum[i], static_cast<double>(smallest_step), largest_step));
  }
  learned.steps.mutable_grad() = torch::Tensor();
}

std::span<const float> values_of(const LearnedSteps& learned) {
  if (!learned.steps.defined()) return {};
  return {learned.steps.const_data_ptr<float>(), static_cast<std::size_t>(learned.steps.numel())};
}

}  // namespace podaq
