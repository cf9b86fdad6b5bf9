#include "runtime/kernels/linear_geometry.h"

namespace podaq::runtime_detail {

LinearGeometry linear_geometry(const NodeView& view) {
  const Shape& input = view.input().shape;
  const Shape& output = view.output().shape;
  LinearGeometry geometry{.inputs = static_cast<std::size_t>(input.back()),
                          .outputs = static_cast<std::size_t>(output.back())};
  geometry.rows = sample_size(input) / geometry.inputs;
  if (input.size() == 1) return geometry;  // features lie side by side in either layout
  geometry.rows_per_channel = position_count(input) / geometry.inputs;
  geometry.input = strides_of(input, view.input_layout());
  geometry.output = strides_of(output, view.output_layout());
  if (view.node.inputs.size() > 1) geometry.residual = strides_of(output, view.input_layout(1));
  return geometry;
}

}  // namespace podaq::runtime_detail
