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
/// each panel reads elements of the window where they are, or copies lines of 64 codes into the first cache: of each
/// element, or of stretches that the rows of the kernel share.
struct SparseInput {
  std::vector<avx512::PlaneColumns> plane_columns;  ///< One per column of the kernel; empty: no planes are copied.
  std::size_t plane_rows = 0, plane_bytes = 0;
  std::vector<std::uint64_t> plane_inside;  ///< See PlaneTask, as for the next one; empty: null.
  std::size_t plane_body = 0;
  std::vector<avx512::PanelLine> lines;  ///< Empty: elements are read where they are; as in the next one.
  std::vector<std::uint64_t> inside;     ///< See SparseTask; empty: null.
};

/// With each element's offset, {input channels, taps}, as the quads of a SparseProgram take them.
struct SparseInputPlan {
  SparseInput input;
  std::vector<std::uint32_t> offsets;
};

/// @param quads  Of the program, which say how often elements are read.
[[nodiscard]] SparseInputPlan plan_sparse_input(const ConvGeometry& geometry, std::size_t quads);

/// Panels of a sample's output positions.
[[nodiscard]] std::size_t panel_count(const ConvGeometry& geometry);

/// The planes that are copied, in bytes.
[[nodiscard]] std::size_t planes_bytes(const SparseInput& input, const ConvGeometry& geometry);

/// What it copies for a sample in all, in bytes.
[[nodiscard]] std::size_t copied_bytes(const SparseInput& input, const ConvGeometry& geometry);

}  // namespace podaq::runtime_detail
