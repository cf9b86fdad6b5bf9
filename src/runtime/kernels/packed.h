#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <variant>
#include <vector>

#include "podaq/graph/ops.h"
#include "podaq/numerics/qparams.h"
#include "runtime/aligned_vector.h"
#include "runtime/kernels/avx512/plane_tasks.h"
#include "runtime/kernels/borders.h"
#include "runtime/kernels/sparse_input.h"
#include "runtime/kernels/sparse_program.h"
#include "runtime/kernels/tasks.h"
#include "runtime/layout.h"
#include "runtime/window.h"

namespace podaq::runtime_detail {

// What the kernels keep of a node once its plan is built: plain data, one struct a family.

/// For each code of one tensor, a code of another.
using CodeTable = std::array<std::uint8_t, 256>;

/// Limits that a float result is clamped to; NaN passes.
struct FloatBounds {
  float minimum = -std::numeric_limits<float>::infinity();
  float maximum = std::numeric_limits<float>::infinity();
};

/// What a conv or linear with int32 accumulators does with each of them.
struct IntegerEpilogue {
  bool gives_codes = true;         ///< Else float numbers.
  bool adds_codes = false;         ///< Whether the node's second input, codes, is added.
  bool sums_fit = false;           ///< Codes: no scaled sum reaches 2^31 or is NaN, whatever the accumulator.
  std::vector<float> multipliers;  ///< One per output channel.
  float residual_multiplier = 1.0F;
  std::int32_t residual_zero_point = 0;
  std::int32_t zero_point = 0;  ///< Of the output's codes.
  std::int32_t lowest = 0;      ///< Of the output's codes, clamp included.
  std::int32_t highest = 255;
  FloatBounds bounds{};  ///< Of float outputs.
};

/// Float convolution. Weights {K, C/groups, taps}, for the vector kernel reordered (see its file).
struct FloatConv {
  ConvGeometry geometry;
  AlignedVector<float> weights;
  std::vector<std::uint32_t> tap_offsets;  ///< Of the vector kernel's copy of the input; else empty.
  std::vector<float> bias;
  bool adds_input = false;
  FloatBounds bounds{};
};

/// Convolution of codes, weights and bias as in the graph.
struct IntegerConv {
  ConvGeometry geometry;
  std::vector<std::int8_t> weights;
  std::vector<std::int32_t> bias;
  std::int32_t input_zero_point = 0;
  Strides input{}, output{}, residual{};
  IntegerEpilogue epilogue{};
};

/// How a linear op walks its operands: `rows` of them per sample, each reduced over `inputs` features.
struct LinearGeometry {
  std::size_t rows = 1;
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  std::size_t rows_per_channel = 1;  ///< Row r lies in channel r / rows_per_channel of every value.
  Strides input{}, output{}, residual{};
};

/// Float linear. Weights {out, in}, for the vector kernel {in, out padded}.
struct FloatLinear {
  LinearGeometry geometry;
  AlignedVector<float> weights;
  std::vector<float> bias;
  bool adds_input = false;
  FloatBounds bounds{};
};

/// Linear on codes, weights and bias as in the graph.
struct IntegerLinear {
  LinearGeometry geometry;
  std::vector<std::int8_t> weights;
  std::vector<std::int32_t> bias;
  std::int32_t input_zero_point = 0;
  IntegerEpilogue epilogue{};
};

/// A quantize that a convolution of codes took over: the parameters, and the function of the convolution's instruction
/// set.
struct AbsorbedQuantize {
  QParams qparams{};
  void (*quantize)(const QuantizeTask&) = nullptr;
};

/// Convolution or linear of codes, four input bytes at a time (kernels/quad_conv.cpp). A linear is a convolution whose
/// positions are the samples of the batch.
struct QuadConv {
  ConvGeometry geometry{};                                   ///< Small groups merged.
  BorderedPlane plane{};                                     ///< Copy of the input; not needed: read in place.
  bool input_is_planar = false, residual_is_planar = false;  ///< Then transposed first.
  std::uint8_t input_zero_point = 0;
  std::vector<std::uint32_t> run_offsets;  ///< Bytes from a window's start to each contiguous run of its input.
  std::size_t quads_per_run = 0;
  std::size_t padded_outputs = 0;      ///< Output channels of a group, rounded up to 16.
  AlignedVector<std::int8_t> weights;  ///< [group][block of 64 outputs][quad][vector of 16 outputs][16][4].
  AlignedVector<std::int32_t> bias;    ///< -zero_point * sum of weights folded in; padded like the multipliers.
  AlignedVector<float> multipliers;
  Strides output{};
  IntegerEpilogue epilogue{};                   ///< Its multipliers are in the field above.
  std::size_t pool_height = 1, pool_width = 1;  ///< Of the max pooling that it absorbed.
  std::optional<AbsorbedQuantize> quantizes;    ///< Set: it reads floats.
};

/// The same for 256-bit registers, by lists of quads (kernels/quad_list_conv.cpp).
struct QuadListConv {
  /// What one group of the convolution needs; see QuadListTask.
  struct Group {
    std::vector<QuadBlock> blocks;
    std::vector<std::uint32_t> offsets;
    AlignedVector<std::int8_t> weights;
  };

  QuadConv conv{};  ///< Its weights and runs are in the groups.
  std::vector<Group> groups;
  bool has_wide_blocks = false;
};

/// Convolution or linear of codes by tiles (kernels/tile_conv.cpp, tile_linear.cpp).
struct TileConv {
  QuadConv conv{};                           ///< Quads per run are a multiple of 16, a chunk of 64 bytes.
  std::vector<std::uint32_t> chunk_offsets;  ///< Bytes from a position's first byte to each chunk of its window.
  std::size_t pitch = 1;                     ///< Positions between the starts of two rows.
  std::size_t position_bytes = 1;            ///< Input bytes between neighbouring positions.
  bool gathers = false;                      ///< Whether windows are first copied, each to `position_bytes`.
};

/// Convolution of planar codes by the nonzero weights alone (kernels/sparse_conv.cpp).
struct SparseConv {
  ConvGeometry geometry{};
  bool input_is_planar = true, residual_is_planar = true;
  std::uint8_t input_zero_point = 0;
  SparseInput input{};
  SparseProgram program{};
  bool rectifies = false;      ///< See SparseTask.
  IntegerEpilogue epilogue{};  ///< Its multipliers are in the program.
};

/// Linear of codes by the nonzero weights alone (kernels/sparse_linear.cpp; steps: avx512/sparse_linear_task.h).
struct SparseLinear {
  std::size_t inputs = 1, outputs = 1;
  AlignedVector<std::uint8_t> slots;        ///< [step][64 places in the window, then their 64 weights].
  std::vector<std::uint16_t> starts;        ///< First input of each step's window.
  std::vector<std::uint32_t> steps;         ///< Of each block of 16 output channels.
  std::vector<std::uint32_t> lane_outputs;  ///< [block][lane]: an output channel, or one behind the last.
  std::vector<std::int32_t> bias;           ///< [block][lane], -zero_point * sum of weights folded in.
  AlignedVector<float> multipliers;         ///< By output channel, padded to 16.
  IntegerEpilogue epilogue{};               ///< Its multipliers are in the field above.
  std::size_t most_samples = std::numeric_limits<std::size_t>::max();  ///< Of a batch that it computes; larger ones
  std::optional<TileConv> dense;  ///< are computed by this: by tiles where it has chunks, else by quads.
};

/// Max and mean pooling, plain, adaptive and global, on floats or codes.
struct Pool {
  std::size_t channels = 0;
  std::size_t input_positions = 0;
  WindowList rows{}, columns{};  ///< Where each output row / column's window lies in the input.
  std::size_t input_width = 1;
  Strides input{}, output{};
  std::size_t counted_padding = 0;  ///< Means: the fixed divisor where padding counts, else 0.
  QParams input_qparams{}, output_qparams{};
  CodeTable table{};                               ///< Maximum's code -> output's code.
  std::size_t first_regular = 0, end_regular = 0;  ///< Output columns with equal windows at equal distances,
  std::size_t regular_stride = 1;                  ///< for the planar kernel.
};

/// An elementwise op of one operand on codes.
struct Table {
  std::size_t size = 0;
  CodeTable codes{};
};

/// An elementwise op of one operand on floats.
struct FloatUnary {
  std::size_t size = 0;
  std::variant<Clamp, Affine, Activation> op;
};

/// Add and Mul on floats.
struct FloatBinary {
  std::size_t size = 0;
  bool multiplies = false;
  FloatBounds bounds{};
};

/// Add and Mul on codes.
struct IntegerBinary {
  std::size_t size = 0;
  bool multiplies = false;
  std::int32_t first_zero_point = 0, second_zero_point = 0;
  float first_multiplier = 1.0F, second_multiplier = 1.0F;  ///< Mul uses the first alone.
  std::int32_t zero_point = 0, lowest = 0, highest = 255;
};

/// Scale and shift per channel.
struct BatchNormPacked {
  std::size_t positions = 1;
  std::vector<float> scale, shift;
};

/// Concat: blocks of each input go side by side.
struct ConcatPacked {
  std::size_t outer = 1;                         ///< How often the sequence of blocks repeats per sample.
  std::vector<std::size_t> block_bytes;          ///< Of each input.
  std::vector<std::optional<CodeTable>> tables;  ///< Of each input: none where its elements are copied as they are.
};

/// Reshape, dropout: the same elements, possibly in another layout.
struct Rearrange {
  std::size_t size = 0, element_bytes = 4;
  std::size_t input_positions = 1, output_positions = 1;
  Strides input{}, output{};
  bool keeps_order = true;  ///< Whether both layouts are row-major, so that the bytes stay as they are.
};

/// Softmax along one axis.
struct SoftmaxPacked {
  std::size_t outer = 1, length = 1, inner = 1;
  bool logarithm = false;
};

/// Float to codes and back.
struct Conversion {
  std::size_t channels = 1, positions = 1;
  Strides input{}, output{};
  QParams qparams{};
};

using Packed = std::variant<std::monostate, FloatConv, IntegerConv, FloatLinear, IntegerLinear, QuadConv, QuadListConv,
                            TileConv, SparseConv, SparseLinear, Pool, Table, FloatUnary, FloatBinary, IntegerBinary,
                            BatchNormPacked, ConcatPacked, Rearrange, SoftmaxPacked, Conversion>;

}  // namespace podaq::runtime_detail
