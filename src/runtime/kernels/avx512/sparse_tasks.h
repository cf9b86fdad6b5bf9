#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/kernels/avx512/tasks.h"

// The sparse convolution's program, plain data like the tasks of tasks.h. Output positions are computed in panels
// of 64. Each element of the window (a channel under a tap) has the codes of neighbouring output positions side by
// side, in the input or in lines that each panel copies; each output channel, or several together, multiplies its
// nonzero weights with four elements ("a quad") at a time.
namespace podaq::runtime_detail::avx512 {

inline constexpr std::size_t panel_positions = 64;
inline constexpr std::size_t quad_elements = 4;
inline constexpr std::size_t most_joined_rows = 4;

/// Up to 64 codes that are copied for some panels in a row.
struct PanelLine {
  std::int32_t source = 0;  ///< Bytes from the first panel's first position in the first input plane.
  std::uint32_t mask = 0;   ///< Which of these panels' masks says what lies inside the input.
};

/// Neighbouring groups of output channels of one shape. Each group's quads are `rows + 4` words: the offsets of four
/// elements in bytes, from the panel's first position or in its lines, then four weights for each row of the group.
struct SparseRun {
  std::uint32_t rows = 1;    ///< Output channels of a group, which share quads: 1 to most_joined_rows.
  std::uint32_t quads = 0;   ///< Of each group.
  std::uint32_t groups = 0;  ///< How many follow one another.
};

/// The bits of 2^23 as a float, and of 2^23 + n for n below 2^23 with n added.
inline constexpr std::int32_t bits_of_2_to_23 = 0x4B000000;

/// What a row's accumulator starts from and turns into.
struct SparseRow {
  std::uint32_t channel = 0;  ///< Of the output.
  std::int32_t bias = 0;      ///< With `rectifies`, bits_of_2_to_23 is added.
  float multiplier = 0.0F;
  float addend = 0.0F;  ///< -2^23 * multiplier.
};

/// A sparse convolution of one sample. The accumulators times the multipliers, plus the residual, lie below 2^31.
struct SparseTask {
  const std::uint8_t* input = nullptr;    ///< Planes; loads reach up to 63 bytes past the last element's positions.
  std::size_t positions = 1;              ///< Of the output.
  const PanelLine* lines = nullptr;       ///< What is copied for each `panels_per_copy` panels, one after another.
  std::size_t line_count = 0;             ///< 0: the quads read the input.
  std::size_t line_bytes = 64;            ///< From one copied line to the next: 64, or less where there is one panel.
  std::size_t panels_per_copy = 1;        ///< The second of them reads 64 bytes behind the first, and so on.
  const std::uint64_t* inside = nullptr;  ///< [copy][mask]; null: all lies inside.
  std::size_t mask_count = 0;
  std::uint8_t outside = 0;         ///< The code outside the input.
  std::uint8_t* scratch = nullptr;  ///< 64-byte aligned; line_bytes for each line, and 64 more.
  const SparseRun* runs = nullptr;
  std::size_t run_count = 0;
  const std::uint32_t* quads = nullptr;  ///< Of all runs, one after another, as in the next one.
  const SparseRow* rows = nullptr;
  void* output = nullptr;                  ///< u8 codes or floats, planar.
  const std::uint8_t* residual = nullptr;  ///< Planar codes, or null.
  bool rectifies = false;                  ///< Codes of sums in (-2^30, 2^23), where 0 and less become `lowest`.
  EpilogueTask epilogue{};
};
void convolve_sparse(const SparseTask& task);

}  // namespace podaq::runtime_detail::avx512
