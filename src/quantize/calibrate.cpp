#include "podaq/quantize/calibrate.h"

#include <c10/core/GradMode.h>

#include "podaq/core/error.h"
#include "quantize/eval_mode.h"

namespace podaq {

void calibrate(GraphModule& model, NetworkQuantizer& quantizer, std::span<const CalibrationBatch> batches) {
  if (batches.empty())
    throw Error(ErrorCode::invalid_argument,
                "calibrate: no data observed, since there are no batches; give at least one, better a few hundred "
                "samples");
  const torch::NoGradGuard no_grad;
  const quantize_detail::EvalMode eval(model);
  quantizer.enable(model);
  quantizer.observe_only(true);
  try {
    for (const CalibrationBatch& batch : batches) model.forward(batch);
  } catch (...) {
    quantizer.observe_only(false);
    throw;
  }
  quantizer.observe_only(false);
}

}  // namespace podaq
