#include "runtime/kernels/sparse_program.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace podaq::runtime_detail {

namespace {

using avx512::ElementPair;
using avx512::most_joined_rows;
using avx512::pair_bytes;

constexpr std::size_t most_units = 64;     // of a block: one bit each
constexpr std::size_t most_columns = 384;  // of a block: their codes and the sums then stay in the first cache
constexpr std::size_t most_rows_handed_on = 64;
constexpr std::uint32_t none = static_cast<std::uint32_t>(-1);

// One or several neighbouring output channels that read the same elements.
struct Unit {
  std::size_t first_row = 0, rows = 1;
};

// An entry of a unit's program: a pair, and which of its elements the unit reads.
struct PairUse {
  std::uint32_t pair = 0;
  bool first = true, second = true;
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

// A quad of n rows takes 4 unpacks and 4n dot products on two ports; single rows need about one more than the unpacks
// alone would take, since few of their pairs are filled.
bool is_worth_joining(const Matrix& matrix, const Unit& unit) {
  if (unit.rows < 2) return false;
  const std::size_t joined = matrix.columns_read(unit) * (unit.rows + 1);
  return joined * 4 < matrix.nonzeros(unit) * 9;
}

void append_units(const Matrix& matrix, const Unit& candidate, std::vector<Unit>& units) {
  if (candidate.rows == 1 || is_worth_joining(matrix, candidate)) {
    units.push_back(candidate);
    return;
  }
  const std::size_t half = candidate.rows / 2;
  append_units(matrix, {.first_row = candidate.first_row, .rows = half}, units);
  append_units(matrix, {.first_row = candidate.first_row + half, .rows = candidate.rows - half}, units);
}

// The units of a group's rows.
std::vector<Unit> find_units(const Matrix& matrix, std::size_t first_row, std::size_t rows) {
  std::vector<Unit> units;
  for (std::size_t row = 0; row < rows; row += most_joined_rows)
    append_units(matrix, {.first_row = first_row + row, .rows = std::min(most_joined_rows, rows - row)}, units);
  return units;
}

struct ColumnPair {
  std::uint32_t first = 0, second = 0;
};

// Chooses the pairs of a block and what each unit reads of them.
class Pairing {
 public:
  Pairing(std::vector<std::uint64_t> readers, std::size_t units)
      : open_(std::move(readers)), uses_(units), pair_of_column_(open_.size(), none), laid_out_(open_.size(), 0) {}

  void choose() {
    pair_shared_columns();
    pair_remaining_columns();
    for (std::uint32_t column = 0; column < open_.size(); ++column) {
      if (open_[column] == 0) continue;
      const std::uint32_t pair = pair_of_column_[column];
      const bool is_first = pairs_[pair].first == column;
      for_each_unit(open_[column], [&](std::size_t unit) {
        uses_[unit].push_back({.pair = pair, .first = is_first, .second = !is_first});
      });
    }
  }

  [[nodiscard]] const std::vector<ColumnPair>& pairs() const { return pairs_; }
  [[nodiscard]] const std::vector<PairUse>& uses(std::size_t unit) const { return uses_[unit]; }

 private:
  template <typename Visit>
  static void for_each_unit(std::uint64_t mask, Visit visit) {
    for (; mask != 0; mask &= mask - 1) visit(static_cast<std::size_t>(std::countr_zero(mask)));
  }

  // Greedy: the pairs that gain most first. A gain counts uses saved; laying out a column once more costs about as much
  // as one use. Gains only fall, so each column's last best bounds its next.
  void pair_shared_columns() {
    const auto columns = static_cast<std::uint32_t>(open_.size());
    std::vector<int> bounds(columns);
    int largest = 0;
    for (std::uint32_t column = 0; column < columns; ++column) {
      bounds[column] = std::popcount(open_[column]);
      largest = std::max(largest, bounds[column]);
    }
    for (int least = largest; least > 0; --least)
      for (std::uint32_t column = 0; column < columns; ++column)
        while (bounds[column] >= least) {
          const auto [partner, gain] = best_partner(column);
          bounds[column] = gain;
          if (gain >= least) add_pair(column, partner);
        }
  }

  [[nodiscard]] avx512::Partner best_partner(std::uint32_t column) const {
    return avx512::best_partner({.open = open_.data(),
                                 .laid_out = laid_out_.data(),
                                 .columns = static_cast<std::uint32_t>(open_.size()),
                                 .column = column});
  }

  void add_pair(std::uint32_t first, std::uint32_t second) {
    const auto pair = static_cast<std::uint32_t>(pairs_.size());
    pairs_.push_back({.first = first, .second = second});
    const std::uint64_t shared = first == second ? 0 : open_[first] & open_[second];
    for_each_unit(shared, [&](std::size_t unit) { uses_[unit].push_back({.pair = pair}); });
    open_[first] &= ~shared;
    open_[second] &= ~shared;
    for (const std::uint32_t column : {first, second}) {
      if (pair_of_column_[column] == none) {
        pair_of_column_[column] = pair;
        laid_out_[column] = 1;
      }
    }
  }

  // Columns that are read but lie in no pair yet: paired with one that some unit reads too, else as they come.
  void pair_remaining_columns() {
    std::vector<std::uint32_t> waiting;
    for (std::uint32_t column = 0; column < open_.size(); ++column)
      if (open_[column] != 0 && pair_of_column_[column] == none) waiting.push_back(column);
    while (!waiting.empty()) {
      const std::uint32_t column = waiting.back();
      waiting.pop_back();
      if (waiting.empty()) {
        add_pair(column, column);
        return;
      }
      auto partner = std::find_if(waiting.begin(), waiting.end(),
                                  [&](std::uint32_t other) { return (open_[column] & open_[other]) != 0; });
      if (partner == waiting.end()) --partner;
      add_pair(column, *partner);
      waiting.erase(partner);
    }
  }

  std::vector<std::uint64_t> open_;  ///< By column: units that read it and do not yet get it from a pair.
  std::vector<std::vector<PairUse>> uses_;
  std::vector<std::uint32_t> pair_of_column_;  ///< The first that it came to lie in.
  std::vector<std::uint64_t> laid_out_;        ///< 1 where it lies in one.
  std::vector<ColumnPair> pairs_;
};

// What one block computes: some units of a group, from some columns of their matrix.
struct BlockPlace {
  std::size_t group = 0;
  std::span<const Unit> units;
  std::size_t first_column = 0, columns = 0;
  bool is_first = true, is_last = true;
};

// Turns one block into the program's streams.
class BlockWriter {
 public:
  BlockWriter(const SparseWeights& weights, const Matrix& matrix, const BlockPlace& place, SparseProgram& program)
      : weights_(weights), matrix_(matrix), place_(place), program_(program), pairing_(readers(), place.units.size()) {
    pairing_.choose();
    sort_pairs();
  }

  void write() {
    std::vector<std::size_t> order(place_.units.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto shape = [&](std::size_t unit) { return std::pair(place_.units[unit].rows, quads_of(unit)); };
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return shape(a) < shape(b); });
    const std::size_t first_run = program_.runs.size();
    for (const std::size_t unit : order) write_unit(unit, first_run);
    const std::size_t first_element = place_.group * matrix_.columns + place_.first_column;
    for (const std::uint32_t pair : order_) {
      const ColumnPair& columns = pairing_.pairs()[pair];
      program_.pairs.push_back({.first = weights_.elements[first_element + columns.first],
                                .second = weights_.elements[first_element + columns.second]});
    }
    program_.blocks.push_back({.pairs = static_cast<std::uint32_t>(order_.size()),
                               .runs = static_cast<std::uint32_t>(program_.runs.size() - first_run),
                               .is_first = place_.is_first,
                               .is_last = place_.is_last});
    program_.most_pairs = std::max(program_.most_pairs, order_.size());
  }

 private:
  [[nodiscard]] std::size_t quads_of(std::size_t unit) const { return (pairing_.uses(unit).size() + 1) / 2; }

  [[nodiscard]] std::vector<std::uint64_t> readers() const {
    std::vector<std::uint64_t> masks(place_.columns, 0);
    for (std::size_t unit = 0; unit < place_.units.size(); ++unit)
      for (std::size_t column = 0; column < place_.columns; ++column)
        if (matrix_.reads(place_.units[unit], place_.first_column + column)) masks[column] |= std::uint64_t{1} << unit;
    return masks;
  }

  // In the order of their columns, so that laying them out walks through the input.
  void sort_pairs() {
    const auto& pairs = pairing_.pairs();
    order_.resize(pairs.size());
    std::iota(order_.begin(), order_.end(), 0U);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return pairs[a].first < pairs[b].first; });
    place_of_pair_.resize(pairs.size());
    for (std::uint32_t i = 0; i < order_.size(); ++i) place_of_pair_[order_[i]] = i;
  }

  void write_unit(std::size_t index, std::size_t first_run) {
    const Unit& unit = place_.units[index];
    const auto rows = static_cast<std::uint32_t>(unit.rows);
    const auto quads = static_cast<std::uint32_t>(quads_of(index));
    if (quads == 0 && !place_.is_first && !place_.is_last) return;
    if (program_.runs.size() == first_run || program_.runs.back().rows != rows || program_.runs.back().quads != quads)
      program_.runs.push_back({.rows = rows, .quads = quads, .groups = 0});
    ++program_.runs.back().groups;
    const std::vector<PairUse>& uses = pairing_.uses(index);
    for (std::size_t i = 0; i < uses.size(); i += 2) {
      const PairUse nothing{.pair = uses[i].pair, .first = false, .second = false};
      write_quad(unit, uses[i], i + 1 < uses.size() ? uses[i + 1] : nothing);
    }
    for (std::size_t row = unit.first_row; row < unit.first_row + unit.rows; ++row)
      program_.rows.push_back({.channel = static_cast<std::uint32_t>(row),
                               .bias = weights_.bias[row],
                               .multiplier = weights_.multipliers[row],
                               .sums = static_cast<std::uint32_t>(row - place_.units[0].first_row)});
  }

  void write_quad(const Unit& unit, const PairUse& first, const PairUse& second) {
    for (const PairUse& use : {first, second})
      program_.quads.push_back(place_of_pair_[use.pair] * static_cast<std::uint32_t>(pair_bytes));
    for (std::size_t row = unit.first_row; row < unit.first_row + unit.rows; ++row)
      program_.quads.push_back(weights_of(row, first) | weights_of(row, second) << 16);
  }

  // The two weights that a row multiplies a pair with.
  [[nodiscard]] std::uint32_t weights_of(std::size_t row, const PairUse& use) const {
    const ColumnPair& columns = pairing_.pairs()[use.pair];
    const auto byte = [&](bool reads, std::uint32_t column) {
      return reads ? static_cast<std::uint8_t>(matrix_.at(row, place_.first_column + column)) : std::uint32_t{0};
    };
    return byte(use.first, columns.first) | byte(use.second, columns.second) << 8;
  }

  const SparseWeights& weights_;
  const Matrix& matrix_;
  const BlockPlace& place_;
  SparseProgram& program_;
  Pairing pairing_;
  std::vector<std::uint32_t> order_;          ///< Pairs by place.
  std::vector<std::uint32_t> place_of_pair_;  ///< The inverse.
};

// Units that one block may compute: as many as fit a mask, fewer where their sums are handed on.
std::size_t units_of_block(std::span<const Unit> units, bool hands_on) {
  std::size_t count = 0;
  std::size_t rows = 0;
  while (count < std::min(most_units, units.size())) {
    rows += units[count].rows;
    if (hands_on && count > 0 && rows > most_rows_handed_on) break;
    ++count;
  }
  return count;
}

}  // namespace

SparseProgram make_sparse_program(const SparseWeights& weights) {
  const ConvGeometry& g = weights.geometry;
  const Matrix matrix{.codes = weights.codes, .columns = g.channels_per_group() * g.taps()};
  const std::size_t parts = (matrix.columns + most_columns - 1) / most_columns;
  SparseProgram program;
  if (parts > 1) program.most_sums = std::max(most_rows_handed_on, most_joined_rows);
  for (std::size_t group = 0; group < g.groups; ++group) {
    const std::vector<Unit> all = find_units(matrix, group * g.outputs_per_group(), g.outputs_per_group());
    for (std::span<const Unit> left = all; !left.empty();) {
      const std::span<const Unit> units = left.first(units_of_block(left, parts > 1));
      left = left.subspan(units.size());
      for (std::size_t part = 0; part < parts; ++part) {
        const std::size_t first = part * matrix.columns / parts;
        const BlockPlace place{.group = group,
                               .units = units,
                               .first_column = first,
                               .columns = (part + 1) * matrix.columns / parts - first,
                               .is_first = part == 0,
                               .is_last = part + 1 == parts};
        BlockWriter(weights, matrix, place, program).write();
      }
    }
  }
  return program;
}

}  // namespace podaq::runtime_detail
