#pragma once

#include <torch/types.h>

#include <vector>

namespace podaq::test {

/// The elements of a tensor in row-major order.
inline std::vector<float> numbers_of(const torch::Tensor& tensor) {
  const torch::Tensor row = tensor.to(torch::kFloat).contiguous();
  return {row.const_data_ptr<float>(), row.const_data_ptr<float>() + row.numel()};
}

}  // namespace podaq::test
