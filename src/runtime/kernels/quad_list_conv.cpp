#include "runtime/kernels/avx2/tasks.h"
#include "runtime/kernels/avxvnni/tasks.h"
#include "runtime/kernels/quad_conv.h"
#include "runtime/kernels/quad_list_packing.h"
#include "runtime/kernels/quad_packing.h"
#include "runtime/kernels/registry.h"

namespace podaq::runtime_detail {

namespace {

using Convolve = void (*)(const QuadListTask&);

bool accepts_conv(const NodeView& view) {
  if (!view.has_codes() || is_planar(view.input(), view.input_layout())) return false;
  if (view.gives_codes() && is_planar(view.output(), view.output_layout())) return false;
  if (std::get<Conv>(view.node.op).adds_input && is_planar(view.input(1), view.input_layout(1))) return false;
  return groups_to_merge(geometry_of(view.graph, view.node), list_vector_outputs) != 0;
}

template <QuadSums sums>
Packed prepare_conv(const NodeView& view) {
  return list_quads(prepare_quad_conv(view, list_vector_outputs), sums);
}

template <QuadSums sums>
Packed prepare_linear(const NodeView& view) {
  return list_quads(prepare_quad_linear(view, 1), sums);
}

QuadListTask list_task(const QuadTask& conv, const QuadListConv::Group& group, const std::int16_t* wide_input) {
  return {.conv = conv,
          .wide_input = wide_input,
          .blocks = group.blocks.data(),
          .block_count = group.blocks.size(),
          .offsets = group.offsets.data(),
          .weights = group.weights.data()};
}

// The bytes of one sample as windows read it.
std::size_t readable_bytes(const QuadConv& conv) {
  const ConvGeometry& g = conv.geometry;
  return conv.plane.is_needed() ? conv.plane.bytes(g) : g.input_channels * g.input_positions();
}

// The scratch memory holds what for_each_group() needs, then the wide input.
std::size_t wide_input_offset(const QuadListConv& lists) {
  return round_up(quad_scratch(lists.conv).bytes, over_read_bytes);
}

std::size_t scratch_bytes(const Packed& packed) {
  const auto& lists = std::get<QuadListConv>(packed);
  if (!lists.has_wide_blocks) return quad_scratch(lists.conv).bytes;
  return wide_input_offset(lists) + readable_bytes(lists.conv) * sizeof(std::int16_t);
}

template <Convolve convolve>
void run_conv(const Packed& packed, const Operands& operands) {
  const auto& lists = std::get<QuadListConv>(packed);
  for_each_group(lists.conv, operands, [&](const QuadTask& task, std::size_t group) {
    const std::int16_t* wide_input = nullptr;
    if (lists.has_wide_blocks) {
      auto* wide_sample = as<std::int16_t>(operands.scratch + wide_input_offset(lists));
      if (group == 0)
        avx2::widen_codes({.input = task.input, .output = wide_sample, .count = readable_bytes(lists.conv)});
      wide_input = wide_sample + group * lists.conv.geometry.channels_per_group();
    }
    convolve(list_task(task, lists.groups[group], wide_input));
  });
}

template <Convolve convolve>
void run_linear(const Packed& packed, const Operands& operands) {
  const auto& lists = std::get<QuadListConv>(packed);
  convolve(list_task(quad_linear_task(lists.conv, operands), lists.groups[0], nullptr));
}

bool absorb_conv_reader(Packed& packed, const NodeView& reader) {
  return absorb_small_pool(std::get<QuadListConv>(packed).conv, reader);
}

bool absorb_conv_producer(Packed& packed, const NodeView& producer) {
  return absorb_quantize(std::get<QuadListConv>(packed).conv, producer, avx2::quantize_floats);
}

}  // namespace

const Kernel avx2::quad_conv = {.name = "avx2_quad_conv",
                                .isa = Isa::avx2,
                                .accepts = accepts_conv,
                                .prepare = prepare_conv<QuadSums::in_16_bits_or_wide>,
                                .run = run_conv<avx2::convolve_quad_lists>,
                                .scratch_bytes = scratch_bytes,
                                .absorb_reader = absorb_conv_reader,
                                .absorb_producer = absorb_conv_producer};
const Kernel avx2::quad_linear = {.name = "avx2_quad_linear",
                                  .isa = Isa::avx2,
                                  .accepts = is_linear_over_one_row,
                                  .prepare = prepare_linear<QuadSums::in_16_bits>,
                                  .run = run_linear<avx2::convolve_quad_lists>};
const Kernel avxvnni::quad_conv = {.name = "avxvnni_quad_conv",
                                   .isa = Isa::avxvnni,
                                   .accepts = accepts_conv,
                                   .prepare = prepare_conv<QuadSums::in_32_bits>,
                                   .run = run_conv<avxvnni::convolve_quad_lists>,
                                   .scratch_bytes = scratch_bytes,
                                   .absorb_reader = absorb_conv_reader,
                                   .absorb_producer = absorb_conv_producer};
const Kernel avxvnni::quad_linear = {.name = "avxvnni_quad_linear",
                                     .isa = Isa::avxvnni,
                                     .accepts = is_linear_over_one_row,
                                     .prepare = prepare_linear<QuadSums::in_32_bits>,
                                     .run = run_linear<avxvnni::convolve_quad_lists>};

}  // namespace podaq::runtime_detail
