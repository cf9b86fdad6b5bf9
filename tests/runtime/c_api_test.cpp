#include "podaq/c_api.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "consumer/sample_network.h"
#include "podaq/core/version.h"
#include "podaq/format/file.h"
#include "podaq/runtime/model.h"
#include "runtime/allocation_count.h"
#include "runtime/c_api_c99.h"
#include "support/temporary_folder.h"

namespace podaq::test {
namespace {

using Model = std::unique_ptr<podaq_model, decltype(&podaq_model_free)>;
using Runner = std::unique_ptr<podaq_runner, decltype(&podaq_runner_free)>;

// Inputs "a" {3} and "b" {2, 1}; outputs "sum" = a + 10 and "twice" = 2 b.
Graph two_ports() {
  Graph graph;
  const ValueId a = add_value(graph, "a", {3});
  const ValueId b = add_value(graph, "b", {2, 1});
  const ValueId sum = add_value(graph, "sum", {3});
  const ValueId twice = add_value(graph, "twice", {2, 1});
  graph.inputs = {a, b};
  graph.outputs = {sum, twice};
  graph.nodes = {
      {.op = Affine{.factor = 1.0F, .offset = 10.0F}, .name = "add", .inputs = {a}, .tensors = {}, .output = sum},
      {.op = Affine{.factor = 2.0F, .offset = 0.0F}, .name = "double", .inputs = {b}, .tensors = {}, .output = twice}};
  return graph;
}

Model load(const Graph& graph) {
  const std::vector<std::byte> bytes = encode(graph);
  podaq_model* model = nullptr;
  EXPECT_EQ(podaq_model_load_bytes(bytes.data(), bytes.size(), &model), podaq_status_ok) << podaq_last_error();
  return {model, podaq_model_free};
}

Runner runner_of(const Model& model, std::size_t max_batch) {
  podaq_runner* runner = nullptr;
  EXPECT_EQ(podaq_runner_create(model.get(), max_batch, 1, &runner), podaq_status_ok) << podaq_last_error();
  return {runner, podaq_runner_free};
}

void expect_refused(podaq_status got, podaq_status expected, std::string_view part) {
  EXPECT_EQ(got, expected);
  EXPECT_NE(std::string_view(podaq_last_error()).find(part), std::string_view::npos) << podaq_last_error();
}

TEST(CApi, VersionIsTheLibrarys) {
  EXPECT_EQ(podaq_version(), version);
}

TEST(CApi, C99CodeLoadsAndRuns) {
  const std::vector<std::byte> bytes = encode(sample_network());
  const std::array input{10.0F, 100.0F, 0.0F, 1.0F};
  std::array<float, 4> output{};
  EXPECT_EQ(run_in_c99(bytes.data(), bytes.size(), input.data(), output.data()), 0) << podaq_last_error();
  EXPECT_EQ(output, (std::array{211.0F, 429.0F, 3.0F, 3.0F}));
}

TEST(CApi, LoadsAFileByItsPath) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "sample.podaq").string();
  save(sample_network(), path);
  podaq_model* model = nullptr;
  ASSERT_EQ(podaq_model_load(path.c_str(), &model), podaq_status_ok) << podaq_last_error();
  EXPECT_EQ(podaq_model_input_count(model), 1U);
  podaq_model_free(model);
}

TEST(CApi, DescribesPortsByIndex) {
  const Model model = load(two_ports());
  ASSERT_EQ(podaq_model_input_count(model.get()), 2U);
  ASSERT_EQ(podaq_model_output_count(model.get()), 2U);
  podaq_port port;
  ASSERT_EQ(podaq_model_input(model.get(), 1, &port), podaq_status_ok);
  EXPECT_STREQ(port.name, "b");
  EXPECT_EQ(std::vector(port.dims, port.dims + port.rank), (Shape{2, 1}));
  EXPECT_EQ(port.sample_elements, 2U);
  ASSERT_EQ(podaq_model_output(model.get(), 0, &port), podaq_status_ok);
  EXPECT_STREQ(port.name, "sum");
  EXPECT_EQ(port.sample_elements, 3U);
  EXPECT_EQ(podaq_model_instruction_set(model.get()), name_of(selected_isa()));
}

TEST(CApi, APortMayHaveNoDimensions) {
  Graph graph;
  graph.inputs = {add_value(graph, "x", {})};
  graph.outputs = {add_value(graph, "y", {})};
  graph.nodes = {
      {.op = Affine{.factor = 3.0F, .offset = 0.0F}, .name = "triple", .inputs = {0}, .tensors = {}, .output = 1}};
  const Model model = load(graph);
  podaq_port port;
  ASSERT_EQ(podaq_model_input(model.get(), 0, &port), podaq_status_ok);
  EXPECT_EQ(port.rank, 0U);
  EXPECT_EQ(port.dims, nullptr);
  EXPECT_EQ(port.sample_elements, 1U);
}

TEST(CApi, RunsSeveralInputsAndOutputsWithoutAllocatingAfterTheModelIsFreed) {
  Model model = load(two_ports());
  const Runner runner = runner_of(model, 2);
  model.reset();
  const std::vector<float> a = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const std::vector<float> b = {1, 2, 3, 4, 5, 6};
  std::vector<float> sum(9);
  std::vector<float> twice(6);
  const std::array inputs{podaq_input{a.data(), a.size()}, podaq_input{b.data(), b.size()}};
  const std::array outputs{podaq_output{sum.data(), sum.size()}, podaq_output{twice.data(), twice.size()}};

  const std::size_t before = allocation_count();
  const podaq_status status = podaq_run_all(runner.get(), inputs.data(), 2, outputs.data(), 2);
  EXPECT_EQ(allocation_count(), before);
  ASSERT_EQ(status, podaq_status_ok) << podaq_last_error();
  EXPECT_EQ(sum, (std::vector<float>{11, 12, 13, 14, 15, 16, 17, 18, 19}));
  EXPECT_EQ(twice, (std::vector<float>{2, 4, 6, 8, 10, 12}));
}

TEST(CApi, AnEmptyBatchNeedsNoData) {
  const Model model = load(two_ports());
  const Runner runner = runner_of(model, 1);
  const std::array<podaq_input, 2> inputs{};
  const std::array<podaq_output, 2> outputs{};
  EXPECT_EQ(podaq_run_all(runner.get(), inputs.data(), 2, outputs.data(), 2), podaq_status_ok) << podaq_last_error();
  const Model single = load(sample_network());
  EXPECT_EQ(podaq_run(runner_of(single, 1).get(), nullptr, 0, nullptr, 0), podaq_status_ok) << podaq_last_error();
}

TEST(CApi, NullIsRefusedByName) {
  const std::vector<std::byte> bytes = encode(sample_network());
  const Model model = load(sample_network());
  const Runner runner = runner_of(model, 1);
  podaq_model* loaded = model.get();
  podaq_runner* created = runner.get();
  podaq_port port;
  const std::array<float, 2> numbers{};
  std::array<float, 2> results{};

  expect_refused(podaq_model_load(nullptr, &loaded), podaq_status_invalid_argument, "'path' is null");
  EXPECT_EQ(loaded, nullptr);
  expect_refused(podaq_model_load("x", nullptr), podaq_status_invalid_argument, "'model' is null");
  expect_refused(podaq_model_load_bytes(nullptr, 5, &loaded), podaq_status_invalid_argument, "'bytes' is null");
  expect_refused(podaq_model_load_bytes(bytes.data(), bytes.size(), nullptr), podaq_status_invalid_argument,
                 "'model' is null");
  EXPECT_EQ(podaq_model_input_count(nullptr), 0U);
  EXPECT_EQ(podaq_model_output_count(nullptr), 0U);
  EXPECT_EQ(podaq_model_instruction_set(nullptr), nullptr);
  expect_refused(podaq_model_input(nullptr, 0, &port), podaq_status_invalid_argument, "'model' is null");
  expect_refused(podaq_model_output(model.get(), 0, nullptr), podaq_status_invalid_argument, "'port' is null");
  expect_refused(podaq_runner_create(nullptr, 1, 1, &created), podaq_status_invalid_argument, "'model' is null");
  EXPECT_EQ(created, nullptr);
  expect_refused(podaq_runner_create(model.get(), 1, 1, nullptr), podaq_status_invalid_argument, "'runner' is null");
  expect_refused(podaq_run(nullptr, numbers.data(), 2, results.data(), 2), podaq_status_invalid_argument,
                 "'runner' is null");
  expect_refused(podaq_run(runner.get(), nullptr, 2, results.data(), 2), podaq_status_invalid_argument, "'input'");
  expect_refused(podaq_run(runner.get(), numbers.data(), 2, nullptr, 2), podaq_status_invalid_argument, "'output'");
  expect_refused(podaq_run_all(nullptr, nullptr, 1, nullptr, 1), podaq_status_invalid_argument, "'runner' is null");
  expect_refused(podaq_run_all(runner.get(), nullptr, 1, nullptr, 1), podaq_status_invalid_argument, "'inputs'");
  const podaq_input input{numbers.data(), 2};
  expect_refused(podaq_run_all(runner.get(), &input, 1, nullptr, 1), podaq_status_invalid_argument, "'outputs'");
  const podaq_output nowhere{nullptr, 2};
  expect_refused(podaq_run_all(runner.get(), &input, 1, &nowhere, 1), podaq_status_invalid_argument, "'y'");
  podaq_model_free(nullptr);
  podaq_runner_free(nullptr);
}

TEST(CApi, WrongNumbersAreRefused) {
  const Model model = load(two_ports());
  const Runner runner = runner_of(model, 1);
  podaq_runner* created = nullptr;
  podaq_port port;
  const std::array<float, 3> numbers{};
  std::array<float, 3> results{};
  expect_refused(podaq_model_input(model.get(), 2, &port), podaq_status_invalid_argument, "index 2 of 2");
  expect_refused(podaq_runner_create(model.get(), 0, 1, &created), podaq_status_invalid_argument, "max_batch is 0");
  expect_refused(podaq_runner_create(model.get(), 1, 0, &created), podaq_status_invalid_argument, "threads is 0");
  expect_refused(podaq_runner_create(model.get(), std::numeric_limits<std::size_t>::max(), 1, &created),
                 podaq_status_invalid_argument, "max_batch");
  expect_refused(podaq_run(runner.get(), numbers.data(), 3, results.data(), 3), podaq_status_invalid_argument,
                 "2 inputs");
  const std::array inputs{podaq_input{numbers.data(), 3}, podaq_input{numbers.data(), 3}};
  std::array outputs{podaq_output{results.data(), 3}, podaq_output{results.data(), 2}};
  expect_refused(podaq_run_all(runner.get(), inputs.data(), 1, outputs.data(), 2), podaq_status_invalid_argument,
                 "1 inputs and 2 outputs");
  expect_refused(podaq_run_all(runner.get(), inputs.data(), 2, outputs.data(), 2), podaq_status_invalid_argument,
                 "'b' has 3 numbers");
  outputs[0].count = std::numeric_limits<std::size_t>::max();
  expect_refused(podaq_run_all(runner.get(), inputs.data(), 2, outputs.data(), 2), podaq_status_invalid_argument,
                 "more than memory can hold");
}

TEST(CApi, AFileThatCannotBeReadLeavesNoModel) {
  const TemporaryFolder folder;
  podaq_model* model = nullptr;
  expect_refused(podaq_model_load((folder.path() / "absent.podaq").c_str(), &model), podaq_status_io, "absent.podaq");
  EXPECT_EQ(model, nullptr);
  expect_refused(podaq_model_load_bytes("", 0, &model), podaq_status_format, "");
  std::vector<std::byte> bytes = encode(sample_network());
  bytes[bytes.size() / 2] ^= std::byte{1};
  expect_refused(podaq_model_load_bytes(bytes.data(), bytes.size(), &model), podaq_status_format, "");
  EXPECT_EQ(model, nullptr);
}

TEST(CApi, AnUnknownInstructionSetIsAStatus) {
  const std::vector<std::byte> bytes = encode(sample_network());
  podaq_model* model = nullptr;
  const char* before = std::getenv("PODAQ_FORCE_ISA");
  const std::string kept = before == nullptr ? "" : before;
  setenv("PODAQ_FORCE_ISA", "abacus", 1);
  expect_refused(podaq_model_load_bytes(bytes.data(), bytes.size(), &model), podaq_status_invalid_argument, "abacus");
  if (before == nullptr)
    unsetenv("PODAQ_FORCE_ISA");
  else
    setenv("PODAQ_FORCE_ISA", kept.c_str(), 1);
}

TEST(CApi, EachThreadHasItsOwnErrorAndSuccessKeepsIt) {
  podaq_model* model = nullptr;
  ASSERT_NE(podaq_model_load("/absent/here.podaq", &model), podaq_status_ok);
  const std::string here = podaq_last_error();
  std::string elsewhere_before = "unset";
  std::string elsewhere;
  std::thread([&] {
    elsewhere_before = podaq_last_error();
    podaq_model* none = nullptr;
    EXPECT_NE(podaq_model_load("/absent/there.podaq", &none), podaq_status_ok);
    elsewhere = podaq_last_error();
  }).join();
  EXPECT_EQ(elsewhere_before, "");
  EXPECT_NE(elsewhere.find("there"), std::string::npos);
  static_cast<void>(load(sample_network()));
  EXPECT_EQ(podaq_last_error(), here);
}

TEST(CApi, ALongErrorIsCutBeforeACharacter) {
  std::string path = "/";
  for (int i = 0; i < 1500; ++i) path += "\u00e9";
  for (const std::string& shifted : {path, "/" + path}) {
    podaq_model* model = nullptr;
    ASSERT_NE(podaq_model_load(shifted.c_str(), &model), podaq_status_ok);
    const std::string text = podaq_last_error();
    ASSERT_GT(text.size(), 2000U);
    EXPECT_EQ(text.substr(text.size() - 2), "\u00e9");
  }
}

}  // namespace
}  // namespace podaq::test
