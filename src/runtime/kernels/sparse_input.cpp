#include "runtime/kernels/sparse_input.h"

#include <algorithm>
#include <limits>

#include "runtime/kernels/quad_packing.h"

namespace podaq::runtime_detail {

namespace {

using avx512::panel_positions;
using avx512::PlaneColumns;

constexpr std::size_t line = 64;

// Where the elements of the window lie: planes of equal size, whose rows are `width` long. Of a row of inputs, all
// columns of the kernel are shifts of one plane.
struct Planes {
  std::size_t per_channel = 1, bytes = 0, width = 0;
  std::size_t first = 0;  ///< Where a plane's rows begin.
  bool is_row = false;
};

// Windows of neighbouring positions are neighbours in the input itself, but for borders.
bool lies_in_order(const ConvGeometry& g) {
  if (g.stride_height != 1 || g.stride_width != 1) return false;
  return g.input_width == g.output_width || (g.input_height == 1 && g.output_height == 1 && g.kernel_height == 1);
}

bool has_borders(const ConvGeometry& g) {
  return g.pad_top > 0 || g.pad_left > 0 || g.reached_height() > g.input_height || g.reached_width() > g.input_width;
}

Planes planes_of_input(const ConvGeometry& g) {
  const bool is_row = g.input_height == 1 && g.output_height == 1 && g.kernel_height == 1;
  return {.per_channel = is_row ? 1 : g.kernel_width,
          .bytes = g.input_positions(),
          .width = is_row ? std::numeric_limits<std::uint32_t>::max() : g.input_width,
          .is_row = is_row};
}

std::size_t rows_per_phase(const ConvGeometry& g) {
  return (g.reached_height() + g.stride_height - 1) / g.stride_height;
}

// The part of a plane that comes from the input, for one column of the kernel.
PlaneColumns columns_of_plane(const ConvGeometry& g, std::size_t kernel_column) {
  PlaneColumns columns;
  for (std::size_t x = 0; x < g.output_width; ++x) {
    const std::size_t padded = x * g.stride_width + kernel_column * g.dilation_width;
    if (padded < g.pad_left || padded - g.pad_left >= g.input_width) continue;
    if (columns.count == 0) {
      columns.first = x;
      columns.source = padded - g.pad_left;
    }
    ++columns.count;
  }
  return columns;
}

// Whether planes consist of the input's rows, shifted, and borders.
bool can_shift_rows(const ConvGeometry& g) {
  return lies_in_order(g) && g.input_width == g.output_width && g.reached_height() >= g.pad_top + g.input_height;
}

void add_plane_masks(const ConvGeometry& g, SparseInput& input) {
  const std::size_t lines = (g.input_positions() + line - 1) / line;
  for (const PlaneColumns& columns : input.plane_columns) {
    std::vector<std::uint64_t> masks(lines, 0);
    for (std::size_t i = 0; i < g.input_positions(); ++i) {
      const std::size_t column = i % g.input_width;
      if (column >= columns.first && column - columns.first < columns.count)
        masks[i / line] |= std::uint64_t{1} << i % line;
    }
    input.plane_inside.insert(input.plane_inside.end(), masks.begin(), masks.end());
  }
}

Planes copy_planes(const ConvGeometry& g, SparseInput& input) {
  for (std::size_t column = 0; column < g.kernel_width; ++column)
    input.plane_columns.push_back(columns_of_plane(g, column));
  input.plane_rows = rows_per_phase(g) * g.stride_height;
  const std::size_t above = g.pad_top * g.output_width;
  if (can_shift_rows(g)) {
    input.plane_body = round_up(above, line);
    add_plane_masks(g, input);
  }
  const std::size_t first = can_shift_rows(g) ? input.plane_body - above : 0;
  // An odd number of cache lines spreads the planes over the cache's sets.
  input.plane_bytes = round_up(first + input.plane_rows * g.output_width, line);
  if (input.plane_bytes / line % 2 == 0) input.plane_bytes += line;
  return {.per_channel = g.kernel_width, .bytes = input.plane_bytes, .width = g.output_width, .first = first};
}

// An element's place from its window's: in rows and columns of the input, or of planes that hold the borders.
struct Shift {
  std::ptrdiff_t row = 0, column = 0;
};

// Builds a plan for one kind of planes.
class Planner {
 public:
  Planner(const ConvGeometry& geometry, SparseInput input, const Planes& planes)
      : g_(geometry), planes_(planes), plan_{.input = std::move(input), .offsets = {}} {}

  // Bytes of the cache lines that a panel's elements lie in.
  [[nodiscard]] std::size_t bytes_in_place() const {
    const bool is_aligned = planes_.bytes % line == 0;
    const std::size_t span = span_of_stretch(1);
    return g_.input_channels * planes_.per_channel * round_up(is_aligned ? span : span + line - 1, line);
  }
  [[nodiscard]] std::size_t stretch_lines(std::size_t panels) const {
    return round_up(span_of_stretch(panels), line) / line;
  }
  [[nodiscard]] std::size_t stretches() const { return g_.input_channels * planes_.per_channel; }

  SparseInputPlan read_in_place() {
    for (std::size_t channel = 0; channel < g_.input_channels; ++channel)
      for (std::size_t tap = 0; tap < g_.taps(); ++tap)
        plan_.offsets.push_back(static_cast<std::uint32_t>(source(channel, tap)));
    return std::move(plan_);
  }

  SparseInputPlan copy_elements() {
    // Of few positions, elements that lie close together stay in the first cache.
    while (plan_.input.line_bytes / 2 >= g_.output_positions()) plan_.input.line_bytes /= 2;
    for (std::size_t channel = 0; channel < g_.input_channels; ++channel)
      for (std::size_t tap = 0; tap < g_.taps(); ++tap) {
        plan_.offsets.push_back(static_cast<std::uint32_t>(plan_.input.lines.size() * plan_.input.line_bytes));
        plan_.input.lines.push_back(
            {.source = static_cast<std::int32_t>(source(channel, tap)), .mask = static_cast<std::uint32_t>(tap)});
      }
    std::vector<MaskShift> shifts;
    for (std::size_t tap = 0; tap < g_.taps(); ++tap) shifts.push_back({.shift = shift_of(tap)});
    add_masks(shifts);
    return std::move(plan_);
  }

  SparseInputPlan copy_stretches(std::size_t panels) {
    plan_.input.panels_per_copy = panels;
    const std::size_t lines = stretch_lines(panels);
    for (std::size_t channel = 0; channel < g_.input_channels; ++channel)
      for (std::size_t tap = 0; tap < g_.taps(); ++tap)
        plan_.offsets.push_back(
            static_cast<std::uint32_t>((channel * planes_.per_channel + plane_of(tap)) * lines * line + place(tap)));
    std::vector<MaskShift> shifts;
    for (std::size_t channel = 0; channel < g_.input_channels; ++channel)
      for (std::size_t plane = 0; plane < planes_.per_channel; ++plane)
        for (std::size_t i = 0; i < lines; ++i) {
          const auto first = source(channel, plane);  // the first tap of a plane has its number
          plan_.input.lines.push_back(
              {.source = static_cast<std::int32_t>(first + static_cast<std::ptrdiff_t>(i * line)),
               .mask = static_cast<std::uint32_t>(plane * lines + i)});
          if (channel == 0) shifts.push_back({.shift = shift_of(plane), .positions = i * line});
        }
    add_masks(shifts);
    return std::move(plan_);
  }

 private:
  // What one mask is about: elements at a shift from positions that lie so many behind the first panel's.
  struct MaskShift {
    Shift shift{};
    std::size_t positions = 0;
  };

  [[nodiscard]] bool has_planes() const { return !plan_.input.plane_columns.empty(); }

  // From a tap's first element to the last that the panels read of its plane.
  [[nodiscard]] std::size_t span_of_stretch(std::size_t panels) const {
    const std::size_t positions = std::min(panels * panel_positions, g_.output_positions());
    return positions + place(g_.taps() - 1);
  }

  [[nodiscard]] std::size_t plane_of(std::size_t tap) const { return planes_.is_row ? 0 : tap % g_.kernel_width; }

  // A tap's distance from the first one of its plane, where that holds the input's rows.
  [[nodiscard]] std::size_t place(std::size_t tap) const {
    if (planes_.is_row) return tap * g_.dilation_width;
    return tap / g_.kernel_width * g_.dilation_height * planes_.width;
  }

  [[nodiscard]] Shift shift_of(std::size_t tap) const {
    return {.row = static_cast<std::ptrdiff_t>(tap / g_.kernel_width * g_.dilation_height) -
                   static_cast<std::ptrdiff_t>(g_.pad_top),
            .column = static_cast<std::ptrdiff_t>(tap % g_.kernel_width * g_.dilation_width) -
                      static_cast<std::ptrdiff_t>(g_.pad_left)};
  }

  // Where the codes of an element begin, for the first output position.
  [[nodiscard]] std::ptrdiff_t source(std::size_t channel, std::size_t tap) const {
    if (has_planes()) {
      const std::size_t row = tap / g_.kernel_width * g_.dilation_height;
      const std::size_t plane_row = row % g_.stride_height * rows_per_phase(g_) + row / g_.stride_height;
      return static_cast<std::ptrdiff_t>((channel * g_.kernel_width + tap % g_.kernel_width) * planes_.bytes +
                                         planes_.first + plane_row * planes_.width);
    }
    const Shift shift = shift_of(tap);
    const auto width = static_cast<std::ptrdiff_t>(g_.input_width);
    return static_cast<std::ptrdiff_t>(channel * planes_.bytes) + shift.row * width + shift.column;
  }

  [[nodiscard]] bool is_inside(std::size_t position, const Shift& shift) const {
    const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(position / planes_.width) + shift.row;
    const std::ptrdiff_t column = static_cast<std::ptrdiff_t>(position % planes_.width) + shift.column;
    return row >= 0 && row < static_cast<std::ptrdiff_t>(g_.input_height) && column >= 0 &&
           column < static_cast<std::ptrdiff_t>(g_.input_width);
  }

  void add_masks(const std::vector<MaskShift>& shifts) {
    if (has_planes() || !has_borders(g_)) return;
    const std::size_t copied_positions = panel_positions * plan_.input.panels_per_copy;
    for (std::size_t first = 0; first < g_.output_positions(); first += copied_positions)
      for (const MaskShift& of : shifts) {
        std::uint64_t mask = 0;
        for (std::size_t i = 0; i < line; ++i)
          if (is_inside(first + of.positions + i, of.shift)) mask |= std::uint64_t{1} << i;
        plan_.input.inside.push_back(mask);
      }
  }

  const ConvGeometry& g_;
  Planes planes_;
  SparseInputPlan plan_;
};

// Stretches of neighbouring panels overlap: as many panels as leave half of the first cache to what is written, each
// copy serving as many as the next.
std::size_t panels_per_copy(const ConvGeometry& g, const Planner& planner) {
  constexpr std::size_t copy_bytes = 24 * 1024;
  const std::size_t panels = (g.output_positions() + panel_positions - 1) / panel_positions;
  std::size_t most = 1;
  while (most < panels && planner.stretches() * planner.stretch_lines(most + 1) * line <= copy_bytes) ++most;
  const std::size_t copies = (panels + most - 1) / most;
  return (panels + copies - 1) / copies;
}

}  // namespace

SparseInputPlan plan_sparse_input(const ConvGeometry& g, std::size_t quads) {
  constexpr std::size_t cache_bytes = 56 * 1024;  // beyond, quads lose more by the second cache than a copy takes
  SparseInput input;
  // The rows of the kernel make stretches overlap: from the third panel on, planes are less to copy.
  const bool has_large_planes =
      can_shift_rows(g) && has_borders(g) && g.kernel_height > 1 && g.output_positions() > 2 * panel_positions;
  const bool copies_planes = !lies_in_order(g) || has_large_planes;
  const Planes planes = copies_planes ? copy_planes(g, input) : planes_of_input(g);
  Planner planner(g, std::move(input), planes);
  const std::size_t elements = g.input_channels * g.taps();
  const bool reads_often = quads >= 4 * elements;
  if (copies_planes || !has_borders(g))
    return reads_often && planner.bytes_in_place() > cache_bytes ? planner.copy_elements() : planner.read_in_place();
  const std::size_t lines = planner.stretches() * planner.stretch_lines(1);
  if (lines >= elements || (reads_often && lines * line > cache_bytes)) return planner.copy_elements();
  return planner.copy_stretches(panels_per_copy(g, planner));
}

std::size_t copy_count(const SparseInput& input, const ConvGeometry& geometry) {
  const std::size_t positions = panel_positions * input.panels_per_copy;
  return (geometry.output_positions() + positions - 1) / positions;
}

std::size_t planes_bytes(const SparseInput& input, const ConvGeometry& geometry) {
  return geometry.input_channels * input.plane_columns.size() * input.plane_bytes;
}

std::size_t lines_bytes(const SparseInput& input) {
  return input.lines.empty() ? 0 : input.lines.size() * input.line_bytes + line;
}

std::size_t copied_bytes(const SparseInput& input, const ConvGeometry& geometry) {
  return planes_bytes(input, geometry) + copy_count(input, geometry) * input.lines.size() * line;
}

}  // namespace podaq::runtime_detail
