// The sparse linear gives the bits of the reference for every size, sparsity, batch and operand.

#include "runtime/kernels/sparse_linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "podaq/graph/verify.h"
#include "runtime/avx512.h"
#include "runtime/guarded_buffer.h"
#include "runtime/kernels/quad_conv.h"
#include "runtime/kernels/registry.h"
#include "runtime/layers.h"
#include "runtime/linear_choice.h"
#include "runtime/support.h"

namespace podaq::test {
namespace {

constexpr QParams input_qparams{.scale = 0.016F, .zero_point = 117, .lowest = 0, .highest = 255};
constexpr QParams output_qparams{.scale = 0.05F, .zero_point = 101, .lowest = 3, .highest = 250};
constexpr double densities[] = {1.0, 0.5, 0.1, 0.01, 0.0};

bool has_vbmi() {
  return has_avx512() && detect_cpu().avx512vbmi;
}

std::string linear_kernel(const Model& model) {
  for (const KernelChoice& choice : model.kernels())
    if (choice.op == "linear") return choice.kernel;
  return {};
}

CodeLayer linear_layer(std::int64_t inputs, std::int64_t outputs, double density, Draws& draws) {
  CodeLayer layer{.input = {inputs},
                  .op = Linear{},
                  .weight_shape = {outputs, inputs},
                  .weights = std::vector<std::int8_t>(static_cast<std::size_t>(inputs * outputs), 0),
                  .bias = std::vector<std::int32_t>(static_cast<std::size_t>(outputs)),
                  .weight_scales = {},
                  .input_qparams = input_qparams,
                  .output_qparams = output_qparams};
  for (auto& code : layer.weights)
    if (draws.chance(density)) code = static_cast<std::int8_t>(draws.integer(-127, 127));
  for (auto& code : layer.bias) code = static_cast<std::int32_t>(draws.integer(-20000, 20000));
  for (std::int64_t i = 0; i < outputs; ++i) layer.weight_scales.push_back(draws.real(0.0005F, 0.002F));
  return layer;
}

// Draws what else a linear may have: zero point, residual, float outputs, clamp.
CodeLayer random_linear(std::int64_t inputs, std::int64_t outputs, double density, Draws& draws) {
  CodeLayer layer = linear_layer(inputs, outputs, density, draws);
  layer.input_qparams.zero_point = static_cast<std::int32_t>(draws.integer(0, 255));
  if (draws.chance(0.3)) layer.output_qparams.reset();
  if (draws.chance(0.3)) layer.added_qparams = QParams{.scale = 0.03F, .zero_point = 77, .lowest = 0, .highest = 255};
  if (draws.chance(0.3)) layer.op = Linear{.clamp = Clamp{.minimum = 0.0F}};
  return layer;
}

void expect_reference_bits(const Graph& graph, std::size_t batch, Draws& draws, const std::string& where) {
  const Model reference(graph, {.read = {}, .isa = Isa::reference});
  const auto inputs = random_inputs(reference, batch, draws);
  const std::vector<float> expected = run_model(reference, inputs, batch, 1);
  const Model sparse(graph, {.read = {}, .isa = Isa::avx512, .sparse = SparseKernels::always});
  ASSERT_EQ(linear_kernel(sparse), "avx512_sparse_linear") << where;
  EXPECT_TRUE(same_bits(run_model(sparse, inputs, batch, batch), expected)) << where;
}

TEST(SparseLinearProperty, GivesTheReferenceBits) {
  if (!has_vbmi()) GTEST_SKIP() << "needs AVX-512 with VNNI and VBMI";
  std::vector<std::int64_t> sizes = {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 300};
  Draws draws(1);
  for (const std::int64_t inputs : sizes)
    for (const std::int64_t outputs : sizes)
      for (const double density : densities) {
        const auto batch = static_cast<std::size_t>(draws.integer(1, 9));
        expect_reference_bits(graph_of(random_linear(inputs, outputs, density, draws)), batch, draws,
                              std::to_string(inputs) + " inputs, " + std::to_string(outputs) + " outputs, density " +
                                  std::to_string(density) + ", batch " + std::to_string(batch));
        if (HasFailure()) return;
      }
}

TEST(SparseLinearProperty, EveryBatchGivesTheReferenceBits) {
  if (!has_vbmi()) GTEST_SKIP() << "needs AVX-512 with VNNI and VBMI";
  Draws draws(2);
  for (const std::int64_t inputs : {100, 1000})
    for (std::size_t batch = 1; batch <= 20; ++batch)
      expect_reference_bits(graph_of(random_linear(inputs, 70, 0.1, draws)), batch, draws,
                            "batch " + std::to_string(batch));
}

TEST(SparseLinear, IsChosenWhereItPays) {
  if (!has_vbmi()) GTEST_SKIP() << "needs AVX-512 with VNNI and VBMI";
  Draws draws(4);
  const auto kernel = [&](double density, SparseKernels sparse) {
    return linear_kernel(
        Model(graph_of(linear_layer(512, 512, density, draws)), {.read = {}, .isa = Isa::avx512, .sparse = sparse}));
  };
  EXPECT_EQ(kernel(0.05, SparseKernels::automatic), "avx512_sparse_linear");
  EXPECT_EQ(kernel(0.9, SparseKernels::automatic), "avx512_quad_linear");
  EXPECT_EQ(kernel(0.05, SparseKernels::never), "avx512_quad_linear");
  EXPECT_EQ(kernel(1.0, SparseKernels::always), "avx512_sparse_linear");
}

// One linear on codes, to run kernels on directly, each buffer at the edge of a page that may not be touched.
struct KernelRun {
  Graph graph;
  std::vector<runtime_detail::Layout> layouts;
  std::size_t inputs, outputs;

  KernelRun(const CodeLayer& layer)
      : graph(graph_of(layer)),
        layouts(graph.values.size(), runtime_detail::Layout::planar),
        inputs(static_cast<std::size_t>(layer.input[0])),
        outputs(static_cast<std::size_t>(layer.weight_shape[0])) {}

  [[nodiscard]] runtime_detail::NodeView view() const {
    return {.graph = graph, .node = graph.nodes[1], .layouts = layouts};
  }

  [[nodiscard]] std::vector<std::byte> run(const runtime_detail::Kernel& kernel, const runtime_detail::Packed& packed,
                                           const std::vector<std::uint8_t>& codes, GuardedBuffer::Guard guard) const {
    // The arena puts other values right behind a kernel's operands and the margin that it may read.
    const auto room = [](std::size_t bytes) { return (bytes + runtime_detail::over_read_bytes + 63) / 64 * 64; };
    const std::size_t batch = codes.size() / inputs;
    const GuardedBuffer input(room(codes.size()), guard);
    std::memcpy(input.bytes().data(), codes.data(), codes.size());
    const GuardedBuffer output(room(batch * outputs), guard);
    const GuardedBuffer scratch(room(kernel.scratch_bytes == nullptr ? 0 : kernel.scratch_bytes(packed)), guard);
    const std::vector<const std::byte*> operands = {input.bytes().data()};
    kernel.run(
        packed,
        {.inputs = operands, .output = output.bytes().data(), .scratch = scratch.bytes().data(), .batch = batch});
    return {output.bytes().begin(), output.bytes().begin() + static_cast<std::ptrdiff_t>(batch * outputs)};
  }

  [[nodiscard]] std::vector<std::byte> reference(const std::vector<std::uint8_t>& codes) const {
    const runtime_detail::Kernel& kernel = runtime_detail::reference::integer_linear;
    return run(kernel, kernel.prepare(view()), codes, GuardedBuffer::Guard::after);
  }
};

std::vector<std::uint8_t> random_codes(std::size_t count, Draws& draws) {
  std::vector<std::uint8_t> codes(count);
  for (auto& code : codes) code = static_cast<std::uint8_t>(draws.integer(0, 255));
  return codes;
}

// A layer that is faster sparse for few samples and dense for many has both, with the same bits on either side.
TEST(SparseLinear, LargeBatchesAreComputedDense) {
  if (!has_vbmi()) GTEST_SKIP() << "needs AVX-512 with VNNI and VBMI";
  const runtime_detail::LinearCoefficients slow_samples{.step = 0.0, .step_sample = 2.0};
  Draws draws(5);
  const KernelRun layer(linear_layer(512, 300, 0.1, draws));
  for (const Isa isa : runnable_isas()) {
    if (isa < Isa::avx512) continue;
    const auto packed = choose_sparse_linear(layer.view(), isa, SparseKernels::automatic, slow_samples);
    ASSERT_TRUE(packed.has_value());
    const auto& linear = std::get<runtime_detail::SparseLinear>(*packed);
    ASSERT_TRUE(linear.dense.has_value());
    ASSERT_LT(linear.most_samples, 64U);
    for (const std::size_t batch : {std::size_t{1}, linear.most_samples, linear.most_samples + 1, std::size_t{64}}) {
      const auto codes = random_codes(batch * layer.inputs, draws);
      EXPECT_EQ(layer.run(runtime_detail::avx512::sparse_linear, *packed, codes, GuardedBuffer::Guard::after),
                layer.reference(codes))
          << "batch " << batch << " " << name_of(isa);
    }
  }
}

// A flatten of channels-last codes only puts them in another order, for which the weights can make up.
TEST(SparseLinear, ReadsWhatAFlattenReorders) {
  if (!has_vbmi()) GTEST_SKIP() << "needs AVX-512 with VNNI and VBMI";
  constexpr std::size_t channels = 5;
  constexpr std::size_t positions = 42;
  constexpr std::size_t batch = 3;
  Draws draws(3);
  const KernelRun layer(linear_layer(channels * positions, 40, 0.1, draws));
  Graph flatten;
  const ValueId input = add_value(flatten, "input", {5, 7, 6}, input_qparams);
  const ValueId output = add_value(flatten, "output", {channels * positions}, input_qparams);
  flatten.nodes = {{.op = Reshape{.shape = {channels * positions}},
                    .name = "flatten",
                    .inputs = {input},
                    .tensors = {},
                    .output = output}};
  const auto codes = random_codes(batch * channels * positions, draws);
  const auto expected = layer.reference(codes);
  std::vector<std::uint8_t> channels_last(codes.size());
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const std::size_t feature = i % (channels * positions);
    channels_last[i - feature + feature % positions * channels + feature / positions] = codes[i];
  }
  const runtime_detail::Kernel& kernel = runtime_detail::avx512::sparse_linear;
  for (const auto layout : {runtime_detail::Layout::planar, runtime_detail::Layout::channels_last})
    for (const std::size_t most_samples : {std::size_t{1}, batch}) {
      const std::vector<runtime_detail::Layout> layouts(2, layout);
      runtime_detail::Packed packed = kernel.prepare(layer.view());
      auto& linear = std::get<runtime_detail::SparseLinear>(packed);
      linear.most_samples = most_samples;
      linear.dense =
          runtime_detail::TileConv{.conv = runtime_detail::prepare_quad_linear(layer.view(), 1), .chunk_offsets = {}};
      ASSERT_TRUE(kernel.absorb_producer(packed, {.graph = flatten, .node = flatten.nodes[0], .layouts = layouts}));
      const auto& given = layout == runtime_detail::Layout::planar ? codes : channels_last;
      EXPECT_EQ(layer.run(kernel, packed, given, GuardedBuffer::Guard::after), expected)
          << "up to " << most_samples << " samples sparse";
    }
}

// What leads to a linear that is faster sparse is no longer computed.
TEST(SparseLinear, AbsorbsTheFlattenBeforeIt) {
  if (!has_vbmi()) GTEST_SKIP() << "needs AVX-512 with VNNI and VBMI";
  Draws draws(8);
  const CodeLayer layer = linear_layer(8 * 8 * 8, 512, 0.05, draws);
  Graph graph;
  graph.inputs = {add_value(graph, "input", {8, 8, 8})};
  graph.tensors["weight"] = make_tensor<std::int8_t>(DType::s8, layer.weight_shape, layer.weights);
  graph.tensors["weight"].scales = layer.weight_scales;
  const ValueId codes = add_value(graph, "codes", {8, 8, 8}, input_qparams);
  const ValueId flat = add_value(graph, "flat", {512}, input_qparams);
  graph.outputs = {add_value(graph, "output", {512})};
  graph.nodes = {
      {.op = Quantize{}, .name = "quantize", .inputs = graph.inputs, .tensors = {}, .output = codes},
      {.op = Reshape{.shape = {512}}, .name = "flatten", .inputs = {codes}, .tensors = {}, .output = flat},
      {.op = Linear{}, .name = "linear", .inputs = {flat}, .tensors = {"weight", ""}, .output = graph.outputs[0]}};
  const Model reference(graph, {.read = {}, .isa = Isa::reference});
  const auto inputs = random_inputs(reference, 5, draws);
  const std::vector<float> expected = run_model(reference, inputs, 5, 1);
  const Model model(graph, {.read = {}, .isa = Isa::avx512});
  EXPECT_NE(kernel_names(model).find("flatten:avx512_sparse_linear"), std::string::npos) << kernel_names(model);
  for (const std::size_t max_batch : {std::size_t{1}, std::size_t{5}})
    EXPECT_TRUE(same_bits(run_model(model, inputs, 5, max_batch), expected));
}

TEST(SparseLinear, StaysWithinItsMemory) {
  if (!has_vbmi()) GTEST_SKIP() << "needs AVX-512 with VNNI and VBMI";
  const runtime_detail::Kernel& kernel = runtime_detail::avx512::sparse_linear;
  Draws draws(6);
  for (const std::int64_t inputs : {1, 63, 127, 128, 129, 191, 300})
    for (const double density : {1.0, 0.1}) {
      const KernelRun layer(linear_layer(inputs, 33, density, draws));
      const auto codes = random_codes(3 * layer.inputs, draws);
      const auto expected = layer.reference(codes);
      for (const auto guard : {GuardedBuffer::Guard::before, GuardedBuffer::Guard::after})
        EXPECT_EQ(layer.run(kernel, kernel.prepare(layer.view()), codes, guard), expected) << inputs << " inputs";
    }
}

TEST(SparseLinearPacking, HoldsEveryWeightOnceAndLeavesFewSlotsEmpty) {
  Draws draws(7);
  for (const std::int64_t inputs : {5, 128, 1000})
    for (const double density : densities) {
      const CodeLayer layer = linear_layer(inputs, 50, density, draws);
      runtime_detail::SparseLinear linear;
      linear.inputs = static_cast<std::size_t>(inputs);
      linear.outputs = 50;
      pack_nonzeros(linear, layer.weights);
      EXPECT_EQ(unpack_nonzeros(linear), layer.weights);
      const auto zeros = std::count(layer.weights.begin(), layer.weights.end(), std::int8_t{0});
      const auto nonzeros = layer.weights.size() - static_cast<std::size_t>(zeros);
      EXPECT_GE(linear.starts.size(), runtime_detail::least_steps(nonzeros));
      if (inputs == 1000 && density >= 0.1) {
        // 50 outputs leave 14 lanes of the last block of 16 empty.
        const double filled =
            static_cast<double>(nonzeros) * 64.0 / 50.0 / static_cast<double>(linear.starts.size() * 64);
        EXPECT_GT(filled, 0.8) << density;
      }
      EXPECT_TRUE(std::all_of(linear.starts.begin(), linear.starts.end(),
                              [&](std::size_t start) { return start == 0 || start + 128 <= linear.inputs; }));
    }
}

}  // namespace
}  // namespace podaq::test
