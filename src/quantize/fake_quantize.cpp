#include "podaq/quantize/fake_quantize.h"

#include <ATen/TensorIterator.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <vector>

#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/numerics/quantize.h"
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

constexpr std::size_t most_operands = 3;

// Runs `row(pointers, count)` on runs of consecutive floats of all operands, on several threads where that pays.
// LibTorch's iterator puts the operands into storage order, so that dense tensors of any memory format are single runs.
template <typename Row>
void for_each_run(at::TensorIterator& iterator, const Row& row) {
  const auto operands = static_cast<std::size_t>(iterator.ntensors());
  iterator.for_each([&](char** data, const std::int64_t* strides, std::int64_t count, std::int64_t rows) {
    const bool is_run =
        std::all_of(strides, strides + operands, [](std::int64_t stride) { return stride == sizeof(float); });
    std::array<char*, most_operands> element{};
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::size_t operand = 0; operand < operands; ++operand)
        element[operand] = data[operand] + r * strides[operands + operand];
      if (is_run) {
        row(element.data(), count);
        continue;
      }
      for (std::int64_t i = 0; i < count; ++i) {
        row(element.data(), 1);
        for (std::size_t operand = 0; operand < operands; ++operand) element[operand] += strides[operand];
      }
    }
  });
}

torch::Tensor quantized(const torch::Tensor& x, const QParams& q) {
  if (!takes_one_pass(x)) {
    const double low = static_cast<double>(q.lowest) - q.zero_point;
    const double high = static_cast<double>(q.highest) - q.zero_point;
    return x.mul(1.0F / q.scale).nan_to_num(0.0, high, low).clamp(low, high).round().mul(q.scale);
  }
  torch::Tensor y = torch::empty_like(x);
  auto iterator = at::TensorIteratorConfig().add_output(y).add_const_input(x).build();
  for_each_run(iterator, [&q](char** data, std::int64_t count) {
    fake_quantize_row(reinterpret_cast<const float*>(data[1]), reinterpret_cast<float*>(data[0]), count, q);
  });
  return y;
}

torch::Tensor passed_gradient(const torch::Tensor& x, const torch::Tensor& dy, const QParams& q) {
  if (!takes_one_pass(x) || !takes_one_pass(dy)) {
    const torch::Tensor rounded = x.mul(1.0F / q.scale).round();
    const auto passes =
        rounded.ge(q.lowest - q.zero_point).logical_and_(rounded.le(q.highest - q.zero_point));  // false for NaN
    return torch::where(passes, dy, torch::zeros({}, dy.options()));
  }
  torch::Tensor dx = torch::empty_like(x);
  auto iterator = at::TensorIteratorConfig().add_output(dx).add_const_input(x).add_const_input(dy).build();
  for_each_run(iterator, [&q](char** data, std::int64_t count) {
    pass_gradient_row(reinterpret_cast<const float*>(data[1]), reinterpret_cast<const float*>(data[2]),
                      reinterpret_cast<float*>(data[0]), count, q);
  });
  return dx;
}

torch::Tensor column(std::span<const float> values, const torch::Tensor& x) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(x.dim()), 1);
  shape[0] = x.size(0);
  const at::ArrayRef<float> row(values.data(), values.size());
  return torch::tensor(row, torch::kFloat).reshape(shape).to(x.options());
}

torch::Tensor inverse_column(std::span<const float> scales, const torch::Tensor& x) {
  std::vector<float> inverses(scales.size());
  std::transform(scales.begin(), scales.end(), inverses.begin(), [](float scale) { return 1.0F / scale; });
  return column(inverses, x);
}

torch::Tensor quantized_channels(const torch::Tensor& x, std::span<const float> scales, std::int32_t limit) {
  if (!has_channel_runs(x)) {
    return x.mul(inverse_column(scales, x))
        .nan_to_num(0.0, limit, -limit)
        .clamp(-limit, limit)
        .round()
        .mul(column(scales, x));
  }
  torch::Tensor y = torch::empty_like(x);
  const std::int64_t count = x.numel() / x.size(0);
  for (std::int64_t c = 0; c < x.size(0); ++c)
    fake_quantize_row(x.const_data_ptr<float>() + c * count, y.data_ptr<float>() + c * count, count,
                      channel_parameters(scales[static_cast<std::size_t>(c)], limit));
  return y;
}

torch::Tensor passed_gradient_channels(const torch::Tensor& x, const torch::Tensor& dy, std::span<const float> scales,
                                       std::int32_t limit) {
  if (!has_channel_runs(x) || !takes_one_pass(dy) || dy.strides() != x.strides()) {
    const torch::Tensor rounded = x.mul(inverse_column(scales, x)).round();
    return torch::where(rounded.ge(-limit).logical_and_(rounded.le(limit)), dy, torch::zeros({}, dy.options()));
  }
  torch::Tensor dx = torch::empty_like(x);
  const std::int64_t count = x.numel() / x.size(0);
  for (std::int64_t c = 0; c < x.size(0); ++c)
    pass_gradient_row(x.const_data_ptr<float>() + c * count, dy.const_data_ptr<float>() + c * count,
                      dx.data_ptr<float>() + c * count, count,
                      channel_parameters(scales[static_cast<std::size_t>(c)], limit));
  return dx;
}

torch::Tensor rounded_bias(const torch::Tensor& bias, std::span<const float> scales) {
  torch::Tensor rounded = bias.to(torch::kCPU, torch::kFloat, /*non_blocking=*/false, /*copy=*/true).contiguous();
  float* values = rounded.data_ptr<float>();
  for (std::size_t c = 0; c < scales.size(); ++c)
    values[c] = static_cast<float>(numerics::quantize_bias(values[c], scales[c])) * scales[c];
  return rounded.to(bias.options());
}

class FakeQuantize : public torch::autograd::Function<FakeQuantize> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x, const QParams& q) {
    context->save_for_backward({x});
    save(*context, q);
    return quantized(x, q);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {passed_gradient(context->get_saved_variables()[0], gradients[0], saved_qparams(*context)), Variable()};
  }
};

class FakeQuantizeChannels : public torch::autograd::Function<FakeQuantizeChannels> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x, const std::vector<float>& scales,
                               std::int32_t limit) {
    context->save_for_backward({x});
    save(*context, scales, limit);
    return quantized_channels(x, scales, limit);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto [scales, limit] = saved_channel_scales(*context);
    return {passed_gradient_channels(context->get_saved_variables()[0], gradients[0], scales, limit), Variable(),
            Variable()};
  }
};

class FakeQuantizeBias : public torch::autograd::Function<FakeQuantizeBias> {
 public:
  static torch::Tensor forward(AutogradContext* /*context*/, const torch::Tensor& bias,
                               const std::vector<float>& scales) {
    return rounded_bias(bias, scales);
  }

  static variable_list backward(AutogradContext* /*context*/, const variable_list& gradients) {
    return {gradients[0], Variable()};
  }
};

std::vector<float> one_per_channel(const torch::Tensor& x, std::span<const float> scales) {
  if (x.dim() < 1 || x.size(0) != static_cast<std::int64_t>(scales.size()))
    throw Error(ErrorCode::invalid_argument,
                concat("fake quantization per channel: ", scales.size(), " scales for a tensor of ",
                       x.dim() < 1 ? 0 : x.size(0), " channels; give one scale per channel"));
  return {scales.begin(), scales.end()};
}

}  // namespace

torch::Tensor fake_quantize(const torch::Tensor& x, const QParams& q) {
  return FakeQuantize::apply(x, q);
}

torch::Tensor fake_quantize_channels(const torch::Tensor& x, std::span<const float> scales, std::int32_t limit) {
  return FakeQuantizeChannels::apply(x, one_per_channel(x, scales), limit);
}

torch::Tensor fake_quantize_bias(const torch::Tensor& bias, std::span<const float> scales) {
  return FakeQuantizeBias::apply(bias, one_per_channel(bias, scales));
}

}  // namespace podaq
