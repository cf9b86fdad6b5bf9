#include <cstring>

#include "runtime/kernels/code_elements.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/registry.h"
#include "runtime/kernels/tables.h"

namespace podaq::runtime_detail {

namespace {

std::size_t element_bytes(const Value& value) {
  return size_of(value.qparams ? DType::u8 : DType::f32);
}

// The sizes of a value's dimensions in the order in which memory holds them.
Shape stored_shape(const Shape& shape, Layout layout) {
  if (layout == Layout::planar || shape.empty()) return shape;
  Shape stored(shape.begin() + 1, shape.end());
  stored.push_back(shape[0]);
  return stored;
}

}  // namespace

Packed prepare_concat(const NodeView& view) {
  const auto rank = static_cast<std::int64_t>(view.output().shape.size());
  std::int64_t axis = std::get<Concat>(view.node.op).axis;
  if (view.output_layout() == Layout::channels_last) axis = (axis + rank - 1) % rank;
  ConcatPacked packed;
  for (std::size_t i = 0; i < view.node.inputs.size(); ++i) {
    const Value& input = view.input(i);
    const Shape stored = stored_shape(input.shape, view.output_layout());
    const std::span<const std::int64_t> sizes(stored);
    packed.outer = static_cast<std::size_t>(element_count(sizes.first(static_cast<std::size_t>(axis))));
    packed.block_bytes.push_back(
        static_cast<std::size_t>(element_count(sizes.subspan(static_cast<std::size_t>(axis)))) * element_bytes(input));
    const bool same_codes = input.qparams == view.output().qparams;
    packed.tables.push_back(same_codes ? std::nullopt
                                       : std::optional(rescaling_table(*input.qparams, *view.output().qparams)));
  }
  return packed;
}

namespace reference {

namespace {

bool accepts_any(const NodeView&) {
  return true;
}

void run_concat(const Packed& packed, const Operands& operands) {
  const auto& concat = std::get<ConcatPacked>(packed);
  std::byte* output = operands.output;
  for (std::size_t repeat = 0; repeat < operands.batch * concat.outer; ++repeat)
    for (std::size_t i = 0; i < concat.block_bytes.size(); ++i) {
      const std::size_t bytes = concat.block_bytes[i];
      const std::byte* block = operands.inputs[i] + repeat * bytes;
      if (const auto& table = concat.tables[i])
        for (std::size_t b = 0; b < bytes; ++b)
          output[b] = static_cast<std::byte>((*table)[std::to_integer<std::size_t>(block[b])]);
      else
        std::memcpy(output, block, bytes);
      output += bytes;
    }
}

Packed prepare_rearrange(const NodeView& view) {
  return Rearrange{.size = sample_size(view.output().shape),
                   .element_bytes = element_bytes(view.output()),
                   .input_positions = position_count(view.input().shape),
                   .output_positions = position_count(view.output().shape),
                   .input = strides_of(view.input().shape, view.input_layout()),
                   .output = strides_of(view.output().shape, view.output_layout()),
                   .keeps_order = view.input_layout() == Layout::planar && view.output_layout() == Layout::planar};
}

bool keeps_order(const Packed& packed) {
  return std::get<Rearrange>(packed).keeps_order;
}

void run_rearrange(const Packed& packed, const Operands& operands) {
  const auto& rearrange = std::get<Rearrange>(packed);
  const std::size_t bytes = rearrange.size * rearrange.element_bytes;
  if (rearrange.keeps_order) {
    if (operands.output != operands.inputs[0]) std::memcpy(operands.output, operands.inputs[0], operands.batch * bytes);
    return;
  }
  // Only codes, single bytes, are ever stored with channels last.
  const std::size_t channels = rearrange.size / rearrange.input_positions;
  for (std::size_t sample = 0; sample < operands.batch; ++sample) {
    const std::byte* input = operands.inputs[0] + sample * bytes;
    std::byte* output = operands.output + sample * bytes;
    std::size_t index = 0;
    for (std::size_t channel = 0; channel < channels; ++channel)
      for (std::size_t position = 0; position < rearrange.input_positions; ++position, ++index) {
        const bool row_major = rearrange.output_positions == 1 || rearrange.output.position == 1;
        output[row_major ? index : offset_of(index, rearrange.output_positions, rearrange.output)] =
            input[channel * rearrange.input.channel + position * rearrange.input.position];
      }
  }
}

}  // namespace

const Kernel concat = {
    .name = "concat", .isa = Isa::reference, .accepts = accepts_any, .prepare = prepare_concat, .run = run_concat};
const Kernel rearrange = {.name = "rearrange",
                          .isa = Isa::reference,
                          .accepts = accepts_any,
                          .prepare = prepare_rearrange,
                          .run = run_rearrange,
                          .runs_in_place = keeps_order};

}  // namespace reference

}  // namespace podaq::runtime_detail
