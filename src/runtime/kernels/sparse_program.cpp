#include "runtime/kernels/sparse_program.h"

#include <algorithm>
#include <utility>

namespace podaq::runtime_detail {

namespace {

using avx512::most_joined_rows;
using avx512::quad_elements;

// One or several neighbouring output channels that read the same elements.
struct Unit {
  std::size_t first_row = 0, rows = 1;
  std::size_t columns = 0;  ///< That it reads.
};

// The output channels [first_row, first_row + rows) of one group: their weights as a matrix.
struct Matrix {
  std::span<const std::int8_t> codes;  ///< {output channels, columns}, of the whole layer.
  std::size_t columns = 0;

  [[nodiscard]] std::int8_t at(std::size_t row, std::size_t column) const { return codes[row * columns + column]; }
  [[nodiscard]] std::size_t nonzeros(const Unit& unit) const {
    const auto begin = codes.begin() + static_cast<std::ptrdiff_t>(unit.first_row * columns);
    const auto count = static_cast<std::ptrdiff_t>(unit.rows * columns);
    return static_cast<std::size_t>(count - std::count(begin, begin + count, std::int8_t{0}));
  }
  [[nodiscard]] bool reads(const Unit& unit, std::size_t column) const {
    for (std::size_t row = unit.first_row; row < unit.first_row + unit.rows; ++row)
      if (at(row, column) != 0) return true;
    return false;
  }
  [[nodiscard]] std::size_t columns_read(const Unit& unit) const {
    std::size_t count = 0;
    for (std::size_t column = 0; column < columns; ++column) count += reads(unit, column) ? 1 : 0;
    return count;
  }
};

// A quad of n rows takes 8 unpacks on one port and 4n dot products on that or another: as measured, 2.0 + 0.6 n.
bool is_worth_joining(const Matrix& matrix, const Unit& unit) {
  return unit.columns * (20 + 6 * unit.rows) < matrix.nonzeros(unit) * 26;
}

void append_units(const Matrix& matrix, std::size_t first_row, std::size_t rows, std::vector<Unit>& units) {
  Unit unit{.first_row = first_row, .rows = rows};
  unit.columns = matrix.columns_read(unit);
  if (rows == 1 || is_worth_joining(matrix, unit)) {
    units.push_back(unit);
    return;
  }
  append_units(matrix, first_row, rows / 2, units);
  append_units(matrix, first_row + rows / 2, rows - rows / 2, units);
}

void append_units_of_group(const Matrix& matrix, std::size_t first_row, std::size_t rows, std::vector<Unit>& units) {
  for (std::size_t row = 0; row < rows; row += most_joined_rows)
    append_units(matrix, first_row + row, std::min(most_joined_rows, rows - row), units);
}

// Turns the units into the program's streams.
class ProgramWriter {
 public:
  ProgramWriter(const SparseWeights& weights, const Matrix& matrix) : weights_(weights), matrix_(matrix) {}

  void write(const Unit& unit) {
    const std::vector<std::size_t> columns = columns_of(unit);
    const auto rows = static_cast<std::uint32_t>(unit.rows);
    const auto quads = static_cast<std::uint32_t>((columns.size() + quad_elements - 1) / quad_elements);
    if (program_.runs.empty() || program_.runs.back().rows != rows || program_.runs.back().quads != quads)
      program_.runs.push_back({.rows = rows, .quads = quads, .groups = 0});
    ++program_.runs.back().groups;
    for (std::size_t i = 0; i < columns.size(); i += quad_elements)
      write_quad(unit, std::span(columns).subspan(i, std::min(quad_elements, columns.size() - i)));
    for (std::size_t row = unit.first_row; row < unit.first_row + unit.rows; ++row)
      program_.rows.push_back({.channel = static_cast<std::uint32_t>(row),
                               .bias = weights_.bias[row],
                               .multiplier = weights_.multipliers[row]});
  }

  [[nodiscard]] SparseProgram take() { return std::move(program_); }

 private:
  [[nodiscard]] std::vector<std::size_t> columns_of(const Unit& unit) const {
    std::vector<std::size_t> columns;
    for (std::size_t column = 0; column < matrix_.columns; ++column)
      if (matrix_.reads(unit, column)) columns.push_back(column);
    return columns;
  }

  // Where columns are fewer than four, weights of 0 meet the first one.
  void write_quad(const Unit& unit, std::span<const std::size_t> columns) {
    const ConvGeometry& g = weights_.geometry;
    const std::size_t group = unit.first_row / g.outputs_per_group();
    for (std::size_t i = 0; i < quad_elements; ++i)
      program_.quads.push_back(
          static_cast<std::uint32_t>(group * matrix_.columns + columns[i < columns.size() ? i : 0]));
    for (std::size_t row = unit.first_row; row < unit.first_row + unit.rows; ++row) {
      std::uint32_t word = 0;
      for (std::size_t i = 0; i < columns.size(); ++i)
        word |= std::uint32_t{static_cast<std::uint8_t>(matrix_.at(row, columns[i]))} << 8 * i;
      program_.quads.push_back(word);
    }
  }

  const SparseWeights& weights_;
  const Matrix& matrix_;
  SparseProgram program_;
};

}  // namespace

SparseProgram make_sparse_program(const SparseWeights& weights) {
  const ConvGeometry& g = weights.geometry;
  const Matrix matrix{.codes = weights.codes, .columns = g.channels_per_group() * g.taps()};
  std::vector<Unit> units;
  for (std::size_t group = 0; group < g.groups; ++group)
    append_units_of_group(matrix, group * g.outputs_per_group(), g.outputs_per_group(), units);
  std::ranges::stable_sort(units, {}, [](const Unit& unit) {
    return std::pair(unit.rows, (unit.columns + quad_elements - 1) / quad_elements);
  });
  ProgramWriter writer(weights, matrix);
  for (const Unit& unit : units) writer.write(unit);
  return writer.take();
}

bool has_small_sums(const SparseWeights& weights) {
  const ConvGeometry& g = weights.geometry;
  const std::size_t columns = g.channels_per_group() * g.taps();
  constexpr std::int64_t largest_code = 255;
  for (std::size_t row = 0; row < g.output_channels; ++row) {
    std::int64_t lowest = 0, highest = 0;
    for (const std::int8_t code : weights.codes.subspan(row * columns, columns)) (code < 0 ? lowest : highest) += code;
    lowest = weights.bias[row] + lowest * largest_code;
    highest = weights.bias[row] + highest * largest_code;
    if (lowest <= -(std::int64_t{1} << 30) || highest >= std::int64_t{1} << 23) return false;
  }
  return true;
}

void rectify(SparseProgram& program) {
  for (avx512::SparseRow& row : program.rows) {
    row.bias += avx512::bits_of_2_to_23;
    row.addend = row.multiplier * -8388608.0F;
  }
}

std::size_t quads_of(const SparseProgram& program) {
  std::size_t quads = 0;
  for (const avx512::SparseRun& run : program.runs) quads += std::size_t{run.groups} * run.quads;
  return quads;
}

void place_elements(SparseProgram& program, std::span<const std::uint32_t> offsets) {
  std::uint32_t* quad = program.quads.data();
  for (const avx512::SparseRun& run : program.runs)
    for (std::uint32_t i = 0; i < run.groups * run.quads; ++i, quad += quad_elements + run.rows)
      std::for_each(quad, quad + quad_elements, [&](std::uint32_t& element) { element = offsets[element]; });
}

}  // namespace podaq::runtime_detail
