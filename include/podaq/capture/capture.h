#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "podaq/training/graph_module.h"

namespace podaq {

/// How a capture checks itself.
struct CaptureOptions {
  double tolerance = 1e-4;  ///< Largest accepted difference to the module, relative to the output's largest magnitude.
  std::vector<std::string> input_names = {};   ///< Default: "input", or "input0", "input1", …
  std::vector<std::string> output_names = {};  ///< Default: "output", or "output0", …
};

/// The module's forward on a list of inputs, for modules of several inputs or outputs.
using ForwardFunction = std::function<std::vector<torch::Tensor>(const std::vector<torch::Tensor>&)>;

/// Turns `module` into a GraphModule that shares its parameters and buffers, by tracing `forward` on `samples`
/// ([batch, ...] each).
///
/// The result proves itself before it is returned: it agrees with the module on a second input of another batch size,
/// in eval mode and in train mode. The module's buffers, flags, gradients, the samples and the random state stay as
/// they were. What cannot be mapped throws Error(capture) naming the ATen operation and the layer that called it.
[[nodiscard]] std::shared_ptr<GraphModule> capture(const std::shared_ptr<torch::nn::Module>& module,
                                                   const ForwardFunction& forward,
                                                   const std::vector<torch::Tensor>& samples,
                                                   const CaptureOptions& options = {});

/// The same for a module whose forward takes one tensor and returns one.
template <typename Module>
[[nodiscard]] std::shared_ptr<GraphModule> capture(const std::shared_ptr<Module>& module, const torch::Tensor& sample,
                                                   const CaptureOptions& options = {}) {
  return capture(
      std::shared_ptr<torch::nn::Module>(module),
      [&module](const std::vector<torch::Tensor>& inputs) {
        return std::vector<torch::Tensor>{module->forward(inputs.at(0))};
      },
      {sample}, options);
}

}  // namespace podaq
