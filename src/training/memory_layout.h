#pragma once

#include <torch/types.h>

// What single passes over a tensor's memory ask of it.
namespace podaq::training_detail {

/// Floats on the CPU in strided memory.
inline bool takes_one_pass(const torch::Tensor& x) {
  return x.device().is_cpu() && x.scalar_type() == torch::kFloat && x.layout() == torch::kStrided;
}

/// The same, without gaps: all elements follow one another in some order.
inline bool is_dense_float(const torch::Tensor& x) {
  return takes_one_pass(x) && x.is_non_overlapping_and_dense();
}

/// The same, and the elements of each index of dimension 0 follow one another.
inline bool has_channel_runs(const torch::Tensor& x) {
  return is_dense_float(x) && x.numel() > 0 && x.stride(0) * x.size(0) == x.numel();
}

}  // namespace podaq::training_detail
