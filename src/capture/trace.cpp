#include "capture/trace.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/torch.h>

#include <set>

#include "podaq/core/error.h"
#include "podaq/core/text.h"

namespace podaq::capture_detail {

namespace jit = torch::jit;

namespace {

// The tracer warns about module code that it cannot follow; the capture checks itself instead.
class QuietTracer {
 public:
  QuietTracer() : before_(jit::tracer::getTracerStateWarnMode()) { jit::tracer::getTracerStateWarnMode() = false; }
  ~QuietTracer() { jit::tracer::getTracerStateWarnMode() = before_; }
  QuietTracer(const QuietTracer&) = delete;
  QuietTracer& operator=(const QuietTracer&) = delete;

 private:
  bool before_;
};

jit::Module holder_of(const std::vector<RegisteredTensor>& tensors) {
  jit::Module holder("podaq_capture");
  for (std::size_t i = 0; i < tensors.size(); ++i) holder.register_buffer(concat("t", i), tensors[i].tensor);
  return holder;
}

std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : tensors) copies.push_back(tensor.detach().clone());
  return copies;
}

}  // namespace

std::vector<RegisteredTensor> registered_tensors(const torch::nn::Module& module) {
  std::vector<RegisteredTensor> tensors;
  std::set<const at::TensorImpl*> known;
  const auto add = [&](const auto& named, bool is_parameter) {
    for (const auto& item : named)
      if (item.value().defined() && known.insert(item.value().unsafeGetTensorImpl()).second)
        tensors.push_back({.name = item.key(), .tensor = item.value(), .is_parameter = is_parameter});
  };
  add(module.named_parameters(), true);
  add(module.named_buffers(), false);
  return tensors;
}

Trace trace(const ForwardFunction& forward, const std::vector<RegisteredTensor>& tensors,
            const std::vector<at::Tensor>& inputs, bool training) {
  const torch::NoGradGuard no_grad;
  const QuietTracer quiet;
  jit::Module holder = holder_of(tensors);
  Trace result{.graph = {}, .training = training, .inputs = inputs, .outputs = {}, .buffers = {}};
  // The forward gets copies: it may write into its inputs.
  jit::Stack stack;
  for (at::Tensor& input : copies_of(inputs)) stack.emplace_back(std::move(input));
  const auto run = [&](const jit::Stack& traced) {
    std::vector<at::Tensor> arguments;
    for (const c10::IValue& value : traced) arguments.push_back(value.toTensor());
    jit::Stack results;
    for (at::Tensor& output : forward(arguments)) {
      if (!output.defined()) throw Error(ErrorCode::capture, "the module's forward returns an undefined tensor");
      result.outputs.push_back(output);
      results.emplace_back(std::move(output));
    }
    return results;
  };
  const auto no_names = [](const at::Tensor&) { return std::string(); };
  result.graph = jit::tracer::trace(std::move(stack), run, no_names, true, false, &holder).first->graph;
  result.outputs = copies_of(result.outputs);
  for (const RegisteredTensor& registered : tensors)
    if (!registered.is_parameter) result.buffers.push_back(registered.tensor.detach().clone());
  return result;
}

}  // namespace podaq::capture_detail
