// Float layers whose weights are codes compute what the same layers with the floats that the codes stand for compute.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "podaq/core/error.h"
#include "podaq/format/file.h"
#include "podaq/graph/dead_channels.h"
#include "podaq/graph/passes.h"
#include "podaq/graph/verify.h"
#include "runtime/support.h"
#include "support/temporary_folder.h"

namespace podaq::test {
namespace {

constexpr std::size_t batch = 3;

TEST(WeightOnlyProperty, CodesGiveTheBitsOfTheFloatsTheyStandFor) {
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    Draws draws(seed);
    const Graph codes = with_weight_codes(fuse(random_float_graph(seed)), draws);
    verify(codes);
    const Graph floats = without_weight_codes(codes);
    for (const Isa isa : runnable_isas()) {
      const ModelOptions options{.read = {}, .isa = isa};
      const Model expected(floats, options);
      const auto inputs = random_inputs(expected, batch, draws);
      EXPECT_TRUE(
          same_bits(run_model(Model(codes, options), inputs, batch, batch), run_model(expected, inputs, batch, batch)))
          << "seed " << seed;
    }
  }
}

TEST(WeightOnlyProperty, DeadChannelsGoAsInFloat) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Draws draws(seed);
    const Graph codes = with_weight_codes(fuse(random_float_graph(seed)), draws);
    const Graph smaller = remove_dead_channels(codes);
    const ModelOptions options{.read = {}, .isa = Isa::reference};
    const Model model(codes, options);
    const auto inputs = random_inputs(model, batch, draws);
    EXPECT_TRUE(
        same_bits(run_model(model, inputs, batch, batch), run_model(Model(smaller, options), inputs, batch, batch)))
        << "seed " << seed;
  }
}

TEST(WeightOnly, SurvivesTheFile) {
  Draws draws(7);
  const Graph graph = with_weight_codes(fuse(random_float_graph(7)), draws);
  const TemporaryFolder folder;
  save(graph, folder.path() / "net.podaq");
  EXPECT_EQ(load(folder.path() / "net.podaq").tensors, graph.tensors);
}

TEST(WeightOnly, BiasCodesOfALayerOnCodesStayIntegers) {
  Graph graph = random_integer_graph(11);
  for (const Node& node : graph.nodes) {
    if (!has_weights(node.op)) continue;
    if (!graph.values[node.inputs[0]].qparams || node.tensors[1].empty()) continue;
    Tensor& bias = graph.tensors.at(node.tensors[1]);
    bias = Tensor{.dtype = DType::s8,
                  .shape = bias.shape,
                  .bytes = std::vector<std::byte>(static_cast<std::size_t>(bias.shape[0])),
                  .scales = {1.0F}};
    EXPECT_THROW(verify(graph), Error);
    return;
  }
  GTEST_FAIL() << "no biased layer on codes in this graph: take another seed";
}

}  // namespace
}  // namespace podaq::test
