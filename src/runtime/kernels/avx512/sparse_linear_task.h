#pragma once

#include <cstddef>
#include <cstdint>

// The sparse linear's weights as its kernel reads them, plain data like the tasks of tasks.h. Sixteen output channels
// lie in the lanes of a vector; in each step a lane takes up to four of its nonzero weights, whose inputs lie within
// one window of neighbouring inputs that all lanes share.
namespace podaq::runtime_detail::avx512 {

inline constexpr std::size_t sparse_lanes = 16;
inline constexpr std::size_t window_inputs = 128;  ///< What two registers hold.
inline constexpr std::size_t step_slots = 64;      ///< Weights of a step, those of 0 that fill it up included.
inline constexpr std::size_t step_bytes = 2 * step_slots;

/// Sums of a linear on codes over its nonzero weights.
struct SparseLinearTask {
  const std::uint8_t* input = nullptr;  ///< `window_inputs` bytes are read from each step's start.
  std::size_t samples = 1;
  std::size_t sample_bytes = 0;           ///< Between neighbouring samples.
  const std::uint8_t* slots = nullptr;    ///< [step][64 places in the window, then their 64 weights], aligned to 64.
  const std::uint16_t* starts = nullptr;  ///< First input of each step's window.
  const std::uint32_t* steps = nullptr;   ///< Of each block of 16 output channels.
  std::size_t blocks = 0;
  const std::int32_t* bias = nullptr;      ///< [block][lane].
  const std::uint32_t* outputs = nullptr;  ///< [block][lane]: which output channel it is.
  std::int32_t* sums = nullptr;            ///< [sample][output channel].
  std::size_t sums_stride = 0;             ///< Between neighbouring samples' sums.
};

/// Needs VBMI besides what the other AVX-512 kernels do.
void multiply_sparse(const SparseLinearTask& task);

}  // namespace podaq::runtime_detail::avx512
