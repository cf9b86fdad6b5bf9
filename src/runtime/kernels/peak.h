#pragma once

#include <cstddef>
#include <cstdint>

// Loops that multiply int8 as fast as an instruction set can, from registers alone.
namespace podaq::runtime_detail {

namespace avx512 {

/// Runs vpdpbusd `rounds` times on each of independent accumulators; returns the multiply-accumulates done.
std::uint64_t multiply_at_peak(std::size_t rounds);

}  // namespace avx512

namespace amx {

/// Likewise tdpbusd.
std::uint64_t multiply_at_peak(std::size_t rounds);

}  // namespace amx

}  // namespace podaq::runtime_detail
