#include "podaq/quantize/calibrate.h"

#include <vector>

#include "compress/compressor_state.h"
#include "podaq/core/error.h"
#include "podaq/quantize/adaptive_rounding.h"
#include "podaq/quantize/bias_correction.h"
#include "podaq/quantize/cross_layer_equalization.h"

namespace podaq {

void Compressor::calibrate(std::span<const CalibrationBatch> batches) {
  State& state = *state_;
  if (!state.quantizer)
    throw Error(ErrorCode::invalid_argument, "calibrate: the recipe has no [quantize]; add one, or convert without");
  const PostTrainingRecipe after = state.recipe.quantize->post_training.value_or(PostTrainingRecipe{});
  GraphModule& model = *state.model;
  if (!batches.empty()) state.settle_on_average();
  if (after.equalize_layers && !batches.empty()) equalize_layers(model);
  podaq::calibrate(model, *state.quantizer, batches);
  if (after.adaptive_rounding) round_adaptively(model, *state.quantizer, batches, after.rounding);
  state.without_bias.clear();
  if (after.bias_correction) state.without_bias = correct_biases(model, *state.quantizer, batches);
  state.calibrated = true;
}

void Compressor::calibrate(std::span<const torch::Tensor> batches) {
  std::vector<CalibrationBatch> lists;
  for (const torch::Tensor& batch : batches) lists.push_back({batch});
  calibrate(std::span<const CalibrationBatch>(lists));
}

}  // namespace podaq
