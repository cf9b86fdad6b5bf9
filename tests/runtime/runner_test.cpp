#include "podaq/runtime/runner.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <thread>

#include "podaq/core/error.h"
#include "podaq/graph/verify.h"
#include "runtime/allocation_count.h"
#include "runtime/layers.h"
#include "runtime/support.h"

namespace podaq::test {
namespace {

std::string error_text(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "no error";
}

void expect_error(const std::function<void()>& call, std::string_view part) {
  const std::string text = error_text(call);
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

// Two inputs of 3 and 2 numbers; outputs "sum" of 3 and "twice" of 2.
Graph two_ports() {
  Graph graph;
  const ValueId a = add_value(graph, "a", {3});
  const ValueId b = add_value(graph, "b", {2});
  const ValueId sum = add_value(graph, "sum", {3});
  const ValueId twice = add_value(graph, "twice", {2});
  graph.inputs = {a, b};
  graph.outputs = {sum, twice};
  graph.nodes = {
      {.op = Affine{.factor = 1.0F, .offset = 10.0F}, .name = "add", .inputs = {a}, .tensors = {}, .output = sum},
      {.op = Affine{.factor = 2.0F, .offset = 0.0F}, .name = "double", .inputs = {b}, .tensors = {}, .output = twice}};
  return graph;
}

TEST(Runner, PortsHaveTheNamesShapesAndMetadataOfTheGraph) {
  Graph graph = two_ports();
  graph.metadata["labels"] = "x,y";
  const Model model(graph);
  ASSERT_EQ(model.inputs().size(), 2U);
  EXPECT_EQ(model.inputs()[1].name, "b");
  EXPECT_EQ(model.inputs()[1].shape, Shape{2});
  EXPECT_EQ(model.outputs()[0].name, "sum");
  EXPECT_EQ(model.metadata().at("labels"), "x,y");
}

TEST(Runner, NamedBuffersMayComeInAnyOrder) {
  Runner runner(Model(two_ports()), {.max_batch = 2});
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};
  const std::vector<float> b = {1, 2, 3, 4};
  std::vector<float> sum(6);
  std::vector<float> twice(4);
  runner.run(std::vector<Runner::Input>{{"b", b}, {"a", a}},
             std::vector<Runner::Output>{{"twice", twice}, {"sum", sum}});
  EXPECT_EQ(sum, (std::vector<float>{11, 12, 13, 14, 15, 16}));
  EXPECT_EQ(twice, (std::vector<float>{2, 4, 6, 8}));
}

TEST(Runner, WrongBuffersAreRefusedByName) {
  Runner runner(Model(two_ports()), {.max_batch = 2});
  const std::vector<float> a(6);
  const std::vector<float> b(4);
  const std::vector<float> odd(5);
  std::vector<float> sum(6);
  std::vector<float> twice(4);
  const std::vector<Runner::Output> outputs = {{"sum", sum}, {"twice", twice}};
  const auto run = [&](std::vector<Runner::Input> inputs) { runner.run(inputs, outputs); };
  expect_error([&] { run({{"a", a}}); }, "'b' is given 0 times");
  expect_error([&] { run({{"a", a}, {"a", a}, {"b", b}}); }, "'a' is given 2 times");
  expect_error([&] { run({{"a", a}, {"b", b}, {"c", b}}); }, "'c' is not one of the model's inputs");
  expect_error([&] { run({{"a", odd}, {"b", b}}); }, "'a' has 5 numbers, no multiple of the 3");
  expect_error([&] { run({{"a", std::span(a).first(3)}, {"b", b}}); }, "'b' has 2 samples, but 'a' has 1");
  expect_error([&] { runner.run(a, sum); }, "2 inputs and 2 outputs");
  expect_error([&] { run({{"a", sum}, {"b", b}}); }, "'sum' overlaps an input");
  run({{"a", a}, {"b", b}});
}

TEST(Runner, MaxBatchIsCheckedBeforeAnyWork) {
  const Model model(two_ports());
  expect_error([&] { Runner(model, {.max_batch = 0}); }, "max_batch is 0; it must be 1 to 65536");
  expect_error([&] { Runner(model, {.max_batch = 65537}); }, "max_batch is 65537");
  expect_error([&] { Runner(model, {.threads = 0}); }, "threads is 0; it must be 1 to 1024");
  expect_error([&] { Runner(model, {.threads = 1025}); }, "threads is 1025");
}

TEST(Runner, ABatchOfNothingDoesNothing) {
  const Model model(random_integer_graph(3));
  Draws draws(1);
  EXPECT_TRUE(run_model(model, random_inputs(model, 0, draws), 0, 4).empty());
}

TEST(Runner, AMovedRunnerStillRuns) {
  Runner first(Model(two_ports()), {.max_batch = 2});
  Runner runner = std::move(first);
  const std::vector<float> a = {1, 2, 3};
  const std::vector<float> b = {1, 2};
  std::vector<float> sum(3);
  std::vector<float> twice(2);
  runner.run(std::vector<Runner::Input>{{"a", a}, {"b", b}},
             std::vector<Runner::Output>{{"sum", sum}, {"twice", twice}});
  EXPECT_EQ(sum, (std::vector<float>{11, 12, 13}));
}

TEST(Runner, RunningAllocatesNothing) {
  for (const Isa isa : runnable_isas())
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      const Model model(seed % 2 == 0 ? random_integer_graph(seed) : random_float_graph(seed),
                        {.read = {}, .isa = isa});
      Draws draws(seed);
      const auto inputs = random_inputs(model, 7, draws);
      std::vector<std::vector<float>> outputs;
      std::vector<Runner::Input> given;
      std::vector<Runner::Output> wanted;
      for (const Port& port : model.outputs()) outputs.emplace_back(7 * port.size());
      for (std::size_t i = 0; i < inputs.size(); ++i) given.push_back({model.inputs()[i].name, inputs[i]});
      for (std::size_t i = 0; i < outputs.size(); ++i) wanted.push_back({model.outputs()[i].name, outputs[i]});
      Runner runner(model, {.max_batch = 3});
      const std::size_t before = allocation_count();
      runner.run(given, wanted);
      EXPECT_EQ(allocation_count(), before) << "seed " << seed << " " << kernel_names(model);
    }
}

TEST(Runner, EightThreadsShareOneModel) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const Model model(seed % 2 == 0 ? random_integer_graph(seed) : random_float_graph(seed));
    Draws draws(seed);
    const auto inputs = random_inputs(model, 5, draws);
    const std::vector<float> expected = run_model(model, inputs, 5, 5);
    std::vector<std::vector<float>> results(8);
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < results.size(); ++i)
        threads.emplace_back([&, i] {
          for (int repeat = 0; repeat < 3; ++repeat) results[i] = run_model(model, inputs, 5, 1 + i);
        });
    }
    for (const auto& result : results) EXPECT_TRUE(same_bits(result, expected)) << "seed " << seed;
  }
}

// 9.4 million multiply-accumulates a sample: enough for threads to be woken.
Graph convolution_of_some_size() {
  Draws draws(5);
  std::vector<std::int8_t> weights(std::size_t{32} * 32 * 9);
  for (auto& weight : weights) weight = static_cast<std::int8_t>(draws.integer(-127, 127));
  const QParams codes{.scale = 0.02F, .zero_point = 128, .lowest = 0, .highest = 255};
  return graph_of(CodeLayer{.input = {32, 32, 32},
                            .op = conv_of({.spatial = 2, .pad = 1}),
                            .weight_shape = {32, 32, 3, 3},
                            .weights = weights,
                            .bias = {},
                            .weight_scales = {0.001F},
                            .input_qparams = codes,
                            .output_qparams = codes});
}

TEST(Runner, ThreadsThatShareABatchGiveTheSameBits) {
  const Model model(convolution_of_some_size());
  for (const std::size_t batch : {1, 2, 3, 5, 13}) {
    Draws draws(batch);
    const auto inputs = random_inputs(model, batch, draws);
    const std::vector<float> expected = run_model(model, inputs, batch, 1);
    for (const std::size_t threads : {2, 3, 8}) {
      Runner runner(model, {.max_batch = 13, .threads = threads});
      std::vector<float> output(expected.size());
      for (int repeat = 0; repeat < 20; ++repeat) {
        std::fill(output.begin(), output.end(), 0.0F);
        runner.run(inputs[0], output);
        ASSERT_TRUE(same_bits(output, expected)) << batch << " samples, " << threads << " threads, run " << repeat;
      }
    }
  }
}

TEST(Runner, RunningWithThreadsAllocatesNothing) {
  const Model model(convolution_of_some_size());
  Draws draws(1);
  const auto inputs = random_inputs(model, 9, draws);
  std::vector<float> output(9 * model.outputs()[0].size());
  Runner runner(model, {.max_batch = 4, .threads = 3});
  const std::size_t before = allocation_count();
  for (int repeat = 0; repeat < 5; ++repeat) runner.run(inputs[0], output);
  EXPECT_EQ(allocation_count(), before);
}

TEST(Runner, AModelOutlivesTheGraphAndTheModelItWasCopiedFrom) {
  std::optional<Runner> runner;
  std::vector<float> expected;
  std::vector<std::vector<float>> inputs;
  {
    const Graph graph = random_integer_graph(11);
    const Model model(graph);
    Draws draws(1);
    inputs = random_inputs(model, 2, draws);
    expected = run_model(model, inputs, 2, 2);
    runner.emplace(model, RunnerOptions{.max_batch = 2});
  }
  EXPECT_TRUE(same_bits(run_model(runner->model(), inputs, 2, 2), expected));
}

TEST(Runner, AGraphThatBreaksARuleIsRefused) {
  Graph graph = two_ports();
  graph.nodes[0].inputs = {99};
  try {
    const Model model(graph);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::graph);
  }
}

}  // namespace
}  // namespace podaq::test
