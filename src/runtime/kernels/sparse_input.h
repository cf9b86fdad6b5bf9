#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/kernels/avx512/plane_tasks.h"
#include "runtime/kernels/avx512/sparse_tasks.h"
#include "runtime/window.h"

namespace podaq::runtime_detail {

/// How a sparse convolution reaches the codes under its windows. Strided ones, and those of large planes with borders,
/// first copy the input into planes, borders filled in, where windows of neighbouring positions are neighbours. Then
/// each panel reads elements of the window where they are, or lines of 64 codes are copied into the first cache: of
/// each element for one panel, or of stretches that the taps of the kernel and several panels share.
struct SparseInput {
  std::vector<avx512::PlaneColumns> plane_columns;  ///< One per column of the kernel; empty: no planes are copied.
  std::size_t plane_rows = 0, plane_bytes = 0;
  std::vector<std::uint64_t> plane_inside;  ///< See PlaneTask, as for the next one; empty: null.
  std::size_t plane_body = 0;
  std::vector<avx512::PanelLine> lines;  ///< Empty: elements are read where they are.
  std::size_t line_bytes = 64;           ///< See SparseTask, as for the next two.
  std::size_t panels_per_copy = 1;
  std::vector<std::uint64_t> inside;  ///< Empty: null.
};

/// With each element's offset, {input channels, taps}, as the quads of a SparseProgram take them.
struct SparseInputPlan {
  SparseInput input;
  std::vector<std::uint32_t> offsets;
};

/// @param quads  Of the program, which say how often elements are read.
[[nodiscard]] SparseInputPlan plan_sparse_input(const ConvGeometry& geometry, std::size_t quads);

/// How often lines are copied for a sample, if any are.
[[nodiscard]] std::size_t copy_count(const SparseInput& input, const ConvGeometry& geometry);

/// The planes that are copied, in bytes.
[[nodiscard]] std::size_t planes_bytes(const SparseInput& input, const ConvGeometry& geometry);

/// The lines that are copied at a time, in bytes.
[[nodiscard]] std::size_t lines_bytes(const SparseInput& input);

/// What it copies for a sample in all, in bytes.
[[nodiscard]] std::size_t copied_bytes(const SparseInput& input, const ConvGeometry& geometry);

}  // namespace podaq::runtime_detail
