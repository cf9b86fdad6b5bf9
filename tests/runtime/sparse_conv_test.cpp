// The sparse convolution gives the bits of the reference for every shape, pattern and operand that it accepts.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "podaq/graph/verify.h"
#include "runtime/avx512.h"
#include "runtime/guarded_buffer.h"
#include "runtime/kernels/registry.h"
#include "runtime/layers.h"
#include "runtime/support.h"

namespace podaq::test {
namespace {

constexpr std::size_t batch = 2;
constexpr QParams input_qparams{.scale = 0.02F, .zero_point = 91, .lowest = 0, .highest = 255};
constexpr QParams output_qparams{.scale = 0.03F, .zero_point = 120, .lowest = 0, .highest = 255};

ModelOptions with(Isa isa, SparseKernels sparse = SparseKernels::automatic) {
  return {.read = {}, .isa = isa, .sparse = sparse};
}

bool uses(const Model& model, std::string_view kernel) {
  const auto choices = model.kernels();
  return std::any_of(choices.begin(), choices.end(),
                     [&](const KernelChoice& choice) { return choice.kernel.find(kernel) != std::string::npos; });
}

// Weights of which each block of `rows` neighbouring output channels keeps a share, with one channel always dead.
std::vector<std::int8_t> sparse_weights(const Shape& shape, double density, std::int64_t rows, Draws& draws) {
  const std::int64_t outputs = shape[0];
  const std::int64_t columns = element_count(shape) / outputs;
  std::vector<std::int8_t> weights(static_cast<std::size_t>(outputs * columns), 0);
  const std::int64_t dead = draws.integer(0, outputs - 1);
  for (std::int64_t block = 0; block < outputs; block += rows)
    for (std::int64_t column = 0; column < columns; ++column) {
      if (!draws.chance(density)) continue;
      for (std::int64_t row = block; row < std::min(block + rows, outputs); ++row)
        if (row != dead || density == 1.0)
          weights[static_cast<std::size_t>(row * columns + column)] =
              static_cast<std::int8_t>(draws.integer(-127, 127));
    }
  return weights;
}

Shape shape_with(std::vector<std::int64_t> first, std::size_t spatial, std::int64_t size) {
  first.insert(first.end(), spatial, size);
  return first;
}

struct Sweep {
  std::size_t spatial;
  std::int64_t inputs, outputs, groups;
};

CodeLayer random_layer(const Sweep& sweep, const ConvShape& conv, std::int64_t kernel, std::int64_t size,
                       double density, std::int64_t rows, Draws& draws) {
  const Shape weight_shape = shape_with({sweep.outputs, sweep.inputs / sweep.groups}, sweep.spatial, kernel);
  CodeLayer layer{.input = shape_with({sweep.inputs}, sweep.spatial, size),
                  .op = conv_of(conv),
                  .weight_shape = weight_shape,
                  .weights = sparse_weights(weight_shape, density, rows, draws),
                  .bias = std::vector<std::int32_t>(static_cast<std::size_t>(sweep.outputs)),
                  .weight_scales = {0.001F},
                  .input_qparams = input_qparams,
                  .output_qparams = output_qparams};
  for (auto& b : layer.bias) b = static_cast<std::int32_t>(draws.integer(-9000, 9000));
  return layer;
}

void expect_same(const Graph& graph, Draws& draws, const std::string& where) {
  const Model reference(graph, with(Isa::reference));
  const auto inputs = random_inputs(reference, batch, draws);
  const std::vector<float> expected = run_model(reference, inputs, batch, 1);
  const Model model(graph, with(Isa::avx512, SparseKernels::always));
  ASSERT_TRUE(uses(model, "sparse_conv")) << where << " " << kernel_names(model);
  EXPECT_TRUE(same_bits(run_model(model, inputs, batch, batch), expected)) << where;
}

class SparseConvProperty : public ::testing::TestWithParam<Sweep> {};

TEST_P(SparseConvProperty, GivesTheReferenceBits) {
  if (!has_avx512()) GTEST_SKIP() << "needs AVX-512 with VNNI";
  const Sweep& sweep = GetParam();
  Draws draws(static_cast<std::uint64_t>(sweep.inputs * 1000 + sweep.outputs));
  for (const std::int64_t stride : {1, 2, 3})
    for (const std::int64_t pad : {0, 1, 3})
      for (const std::int64_t dilation : {1, 2})
        for (const std::int64_t kernel : {1, 3, 4}) {
          const std::int64_t size = kernel == 3 ? (sweep.spatial == 1 ? 131 : 13) : 9;
          if (size + 2 * pad < (kernel - 1) * dilation + 1) continue;
          const double density = std::vector{0.0, 0.05, 0.1, 0.3, 1.0}[static_cast<std::size_t>(draws.integer(0, 4))];
          const std::int64_t rows = draws.chance(0.5) ? 1 : 4;
          const ConvShape shape{
              .spatial = sweep.spatial, .stride = stride, .pad = pad, .dilation = dilation, .groups = sweep.groups};
          CodeLayer layer = random_layer(sweep, shape, kernel, size, density, rows, draws);
          const std::string where = "kernel " + std::to_string(kernel) + " size " + std::to_string(size) + " stride " +
                                    std::to_string(stride) + " pad " + std::to_string(pad) + " dilation " +
                                    std::to_string(dilation) + " density " + std::to_string(density) + " rows " +
                                    std::to_string(rows);
          expect_same(graph_of(layer), draws, where);
          layer.output_qparams->zero_point = 0;
          expect_same(graph_of(layer), draws, where + " rectified");
          layer.output_qparams.reset();
          expect_same(graph_of(layer), draws, where + " to floats");
        }
}

INSTANTIATE_TEST_SUITE_P(Shapes, SparseConvProperty,
                         ::testing::Values(Sweep{1, 1, 1, 1}, Sweep{1, 2, 64, 1}, Sweep{1, 5, 17, 1},
                                           Sweep{1, 64, 70, 1}, Sweep{1, 12, 12, 4}, Sweep{1, 7, 7, 7},
                                           Sweep{1, 140, 67, 1}, Sweep{1, 8, 280, 1}, Sweep{2, 3, 33, 1},
                                           Sweep{2, 8, 40, 2}, Sweep{2, 50, 9, 1}, Sweep{2, 20, 20, 20}),
                         [](const ::testing::TestParamInfo<Sweep>& shape) {
                           const Sweep& s = shape.param;
                           return std::to_string(s.spatial) + "d_" + std::to_string(s.inputs) + "_to_" +
                                  std::to_string(s.outputs) + "_groups_" + std::to_string(s.groups);
                         });

// quantize -> 1x1 -> 3x3, which adds the 1x1's output: the residual comes in whatever layout the first one gives.
Graph residual_graph(const Shape& input, double density, bool gives_codes, Draws& draws) {
  Graph graph;
  const std::int64_t channels = input[0];
  const std::size_t spatial = input.size() - 1;
  graph.inputs = {add_value(graph, "input", input)};
  const auto append = [&](Node node, std::optional<QParams> qparams) {
    node.output = add_value(graph, node.name + ".output", infer_shape(graph, node), qparams);
    graph.nodes.push_back(std::move(node));
    return graph.nodes.back().output;
  };
  const auto weight = [&](const std::string& name, std::int64_t kernel, double share) {
    const Shape shape = shape_with({channels, channels}, spatial, kernel);
    graph.tensors[name] = make_tensor<std::int8_t>(DType::s8, shape, sparse_weights(shape, share, 1, draws));
    graph.tensors[name].scales = {0.004F};
    return name;
  };
  const ValueId codes =
      append({.op = Quantize{}, .name = "quantize", .inputs = graph.inputs, .tensors = {}}, input_qparams);
  const ValueId first = append({.op = conv_of({.spatial = spatial}),
                                .name = "first",
                                .inputs = {codes},
                                .tensors = {weight("first.weight", 1, 1.0), ""}},
                               output_qparams);
  Conv adding = conv_of({.spatial = spatial, .pad = 1});
  adding.adds_input = true;
  adding.clamp = Clamp{.minimum = 0.0F};
  ValueId last = append(
      {.op = adding, .name = "second", .inputs = {first, first}, .tensors = {weight("second.weight", 3, density), ""}},
      gives_codes ? std::optional(input_qparams) : std::nullopt);
  if (gives_codes)
    last = append({.op = Dequantize{}, .name = "dequantize", .inputs = {last}, .tensors = {}}, std::nullopt);
  graph.outputs = {last};
  return graph;
}

TEST(SparseConv, AddsResidualsInEitherLayout) {
  if (!has_avx512()) GTEST_SKIP() << "needs AVX-512 with VNNI";
  Draws draws(5);
  for (const Shape& input : {Shape{24, 70}, Shape{17, 9, 13}, Shape{64, 64}})
    for (const double density : {0.02, 0.2})
      for (const bool gives_codes : {true, false}) {
        const Graph graph = residual_graph(input, density, gives_codes, draws);
        expect_same(graph, draws, "all sparse");
        const Model reference(graph, with(Isa::reference));
        const auto inputs = random_inputs(reference, batch, draws);
        for (const SparseKernels sparse : {SparseKernels::automatic, SparseKernels::never})
          EXPECT_TRUE(same_bits(run_model(Model(graph, with(Isa::avx512, sparse)), inputs, batch, batch),
                                run_model(reference, inputs, batch, batch)));
      }
}

// A kernel of one node, given layouts that the choice of kernels would not mix.
struct KernelRun {
  const runtime_detail::Kernel& kernel;
  const Graph& graph;
  std::vector<runtime_detail::Layout> layouts;

  // Each buffer ends where the arena may put the next, so that nothing beyond the promised margin is touched.
  std::vector<std::uint8_t> run(const std::vector<std::uint8_t>& input, std::size_t node_index) const {
    const Node& node = graph.nodes[node_index];
    const runtime_detail::NodeView view{.graph = graph, .node = node, .layouts = layouts};
    const runtime_detail::Packed packed = kernel.prepare(view);
    const auto room = [](std::size_t bytes) { return (bytes + runtime_detail::over_read_bytes + 63) / 64 * 64; };
    const GuardedBuffer input_buffer(room(input.size()), GuardedBuffer::Guard::after);
    std::memcpy(input_buffer.bytes().data(), input.data(), input.size());
    const std::size_t output_bytes = batch * runtime_detail::sample_size(view.output().shape);
    const GuardedBuffer output_buffer(room(output_bytes), GuardedBuffer::Guard::after);
    const std::size_t scratch_bytes = kernel.scratch_bytes == nullptr ? 0 : kernel.scratch_bytes(packed);
    const GuardedBuffer scratch(room(scratch_bytes), GuardedBuffer::Guard::after);
    const std::vector<const std::byte*> inputs(node.inputs.size(), input_buffer.bytes().data());
    kernel.run(
        packed,
        {.inputs = inputs, .output = output_buffer.bytes().data(), .scratch = scratch.bytes().data(), .batch = batch});
    const auto* codes = reinterpret_cast<const std::uint8_t*>(output_buffer.bytes().data());
    return {codes, codes + output_bytes};
  }
};

std::vector<std::uint8_t> to_layout(const std::vector<std::uint8_t>& planar, const Shape& shape,
                                    runtime_detail::Layout layout) {
  const std::size_t positions = runtime_detail::position_count(shape);
  const runtime_detail::Strides strides = runtime_detail::strides_of(shape, layout);
  const std::size_t size = runtime_detail::sample_size(shape);
  std::vector<std::uint8_t> codes(planar.size());
  for (std::size_t sample = 0; sample < planar.size() / size; ++sample)
    for (std::size_t i = 0; i < size; ++i)
      codes[sample * size + runtime_detail::offset_of(i, positions, strides)] = planar[sample * size + i];
  return codes;
}

TEST(SparseConv, EitherKernelReadsEitherLayoutWithinItsMemory) {
  if (!has_avx512()) GTEST_SKIP() << "needs AVX-512 with VNNI";
  using runtime_detail::Layout;
  Draws draws(6);
  for (const Sweep& sweep : {Sweep{1, 1, 3, 1}, Sweep{1, 33, 18, 1}, Sweep{2, 5, 16, 1}, Sweep{1, 140, 20, 1}})
    for (const std::int64_t stride : {1, 2})
      for (const std::int64_t size : {2, 7, 65, 130}) {
        if (sweep.spatial == 2 && size > 65) continue;
        const ConvShape shape{.spatial = sweep.spatial, .stride = stride, .pad = 1};
        const CodeLayer layer = random_layer(sweep, shape, 3, size, 0.2, 1, draws);
        const Graph graph = graph_of(layer);
        const ValueId input = graph.nodes[1].inputs[0];
        const ValueId output = graph.nodes[1].output;
        std::vector<std::uint8_t> planar(batch * runtime_detail::sample_size(graph.values[input].shape));
        for (auto& code : planar) code = static_cast<std::uint8_t>(draws.integer(0, 255));
        std::vector<Layout> layouts(graph.values.size(), Layout::planar);
        const std::vector<std::uint8_t> expected =
            KernelRun{runtime_detail::reference::integer_conv, graph, layouts}.run(planar, 1);
        for (const Layout given : {Layout::planar, Layout::channels_last}) {
          layouts[input] = given;
          const auto codes = to_layout(planar, graph.values[input].shape, given);
          layouts[output] = Layout::planar;
          EXPECT_EQ((KernelRun{runtime_detail::avx512::sparse_conv, graph, layouts}.run(codes, 1)), expected);
          layouts[output] = Layout::channels_last;
          EXPECT_EQ((KernelRun{runtime_detail::avx512::quad_conv, graph, layouts}.run(codes, 1)),
                    to_layout(expected, graph.values[output].shape, Layout::channels_last));
        }
      }
}

Graph pool_graph(const Shape& input, const Op& pool, const QParams& output) {
  Graph graph;
  graph.inputs = {add_value(graph, "input", input)};
  const ValueId codes = add_value(graph, "codes", input, input_qparams);
  graph.nodes.push_back({.op = Quantize{}, .name = "quantize", .inputs = graph.inputs, .tensors = {}, .output = codes});
  Node node{.op = pool, .name = "pool", .inputs = {codes}, .tensors = {}};
  node.output = add_value(graph, "pooled", infer_shape(graph, node), output);
  graph.outputs = {add_value(graph, "output", graph.values[node.output].shape)};
  graph.nodes.push_back(node);
  graph.nodes.push_back({.op = Dequantize{},
                         .name = "dequantize",
                         .inputs = {graph.nodes[1].output},
                         .tensors = {},
                         .output = graph.outputs[0]});
  return graph;
}

TEST(PlanarPool, GivesTheReferenceBits) {
  if (!has_avx512()) GTEST_SKIP() << "needs AVX-512 with VNNI";
  Draws draws(7);
  std::vector<Op> pools = {GlobalMax{}, GlobalMean{}};
  for (const std::int64_t kernel : {1, 2, 3, 5})
    for (const std::int64_t stride : {1, 2, 3})
      for (const std::int64_t pad : {0, 1})
        for (const std::int64_t dilation : {1, 2}) {
          if (pad >= kernel) continue;
          for (const std::size_t spatial : {1U, 2U})
            pools.push_back(MaxPool{.kernel = std::vector(spatial, kernel),
                                    .stride = std::vector(spatial, stride),
                                    .pads_begin = std::vector(spatial, pad),
                                    .pads_end = std::vector(spatial, pad),
                                    .dilation = std::vector(spatial, dilation)});
        }
  for (const Op& pool : pools)
    for (const Shape& input : {Shape{3, 12}, Shape{2, 64}, Shape{5, 131}, Shape{3, 12, 12}, Shape{2, 9, 70}}) {
      const auto* max_pool = std::get_if<MaxPool>(&pool);
      if (max_pool != nullptr && max_pool->kernel.size() != input.size() - 1) continue;
      for (const QParams& output : {input_qparams, output_qparams}) {
        const Graph graph = pool_graph(input, pool, output);
        const Model reference(graph, with(Isa::reference));
        const Model planar(graph, with(Isa::avx512, SparseKernels::always));
        ASSERT_TRUE(uses(planar, "planar")) << kernel_names(planar);
        const auto inputs = random_inputs(reference, batch, draws);
        EXPECT_TRUE(same_bits(run_model(planar, inputs, batch, batch), run_model(reference, inputs, batch, 1)));
      }
    }
}

TEST(SparseConv, RandomGraphsGiveTheSameBitsForEveryChoiceOfKernels) {
  if (!has_avx512()) GTEST_SKIP() << "needs AVX-512 with VNNI";
  for (std::uint64_t seed = 100; seed < 180 && !HasFailure(); ++seed) {
    const Graph graph = random_integer_graph(seed);
    const Model reference(graph, with(Isa::reference));
    Draws draws(seed);
    const auto inputs = random_inputs(reference, 3, draws);
    const std::vector<float> expected = run_model(reference, inputs, 3, 1);
    for (const SparseKernels sparse : {SparseKernels::automatic, SparseKernels::never, SparseKernels::always}) {
      const Model model(graph, with(Isa::avx512, sparse));
      EXPECT_TRUE(same_bits(run_model(model, inputs, 3, 2), expected)) << "seed " << seed << kernel_names(model);
    }
  }
}

}  // namespace
}  // namespace podaq::test
