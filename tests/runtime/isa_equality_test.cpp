#include <gtest/gtest.h>

#include "runtime/support.h"

namespace podaq::test {
namespace {

constexpr std::uint64_t graph_count = 60;

// Every instruction set, batch and max_batch gives the bytes of the reference that runs one sample at a time.
void expect_same_everywhere(const Graph& graph, std::uint64_t seed) {
  const Model reference(graph, {.read = {}, .isa = Isa::reference});
  for (const std::size_t batch : {std::size_t{0}, std::size_t{1}, std::size_t{3}, std::size_t{64}}) {
    if (batch == 64 && seed % 10 != 0) continue;
    Draws draws(seed);
    const auto inputs = random_inputs(reference, batch, draws);
    const std::vector<float> expected = run_model(reference, inputs, batch, 1);
    for (const Isa isa : runnable_isas()) {
      const Model model(graph, {.read = {}, .isa = isa});
      for (const std::size_t max_batch : {std::size_t{1}, std::size_t{2}, std::size_t{100}})
        EXPECT_TRUE(same_bits(run_model(model, inputs, batch, max_batch), expected))
            << "seed " << seed << " batch " << batch << " max_batch " << max_batch << " isa " << name_of(isa) << "\n"
            << kernel_names(model);
    }
  }
}

TEST(IsaEquality, RandomFloatGraphsGiveTheSameBitsOnEveryInstructionSetAndBatch) {
  for (std::uint64_t seed = 0; seed < graph_count && !HasFailure(); ++seed)
    expect_same_everywhere(random_float_graph(seed), seed);
}

TEST(IsaEquality, RandomIntegerGraphsGiveTheSameBitsOnEveryInstructionSetAndBatch) {
  for (std::uint64_t seed = 0; seed < graph_count && !HasFailure(); ++seed)
    expect_same_everywhere(random_integer_graph(seed), seed);
}

}  // namespace
}  // namespace podaq::test
