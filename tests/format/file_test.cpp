#include "podaq/format/file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/graph/passes.h"
#include "support/random_graph.h"
#include "support/small_graph.h"
#include "support/temporary_folder.h"

namespace podaq {
namespace {

constexpr std::uint64_t seeds = 60;

// The graph as it must come back: values that are neither input nor output named after their nodes.
Graph with_stored_names(Graph graph) {
  std::set<ValueId> boundary(graph.inputs.begin(), graph.inputs.end());
  boundary.insert(graph.outputs.begin(), graph.outputs.end());
  std::set<std::string> taken;
  for (const ValueId id : boundary) taken.insert(graph.values[id].name);
  for (const Node& node : graph.nodes) {
    if (boundary.contains(node.output)) continue;
    std::string name = node.name;
    while (taken.contains(name)) name += "_";
    taken.insert(name);
    graph.values[node.output].name = name;
  }
  return graph;
}

void expect_round_trip(const Graph& graph) {
  const auto bytes = encode(graph);
  const Graph read = decode(bytes);
  EXPECT_EQ(read, with_stored_names(graph));
  for (const auto& [name, tensor] : graph.tensors)  // Their bits, since == takes -0 for 0.
    EXPECT_EQ(read.tensors.at(name).bytes, tensor.bytes) << name;
  EXPECT_EQ(encode(graph), bytes) << "the same graph gives the same bytes";
  EXPECT_EQ(encode(read), bytes);
}

Graph pruned(Graph graph, std::uint64_t seed) {
  test::Draws draws(seed);
  for (auto& [name, tensor] : graph.tensors) {
    if (tensor.dtype == DType::s8)
      for (std::int8_t& code : elements<std::int8_t>(tensor)) code = draws.chance(0.8) ? std::int8_t{0} : code;
    if (tensor.dtype != DType::f32) continue;
    for (float& element : elements<float>(tensor)) {
      if (draws.chance(0.7)) element = 0.0F;
      if (draws.chance(0.1)) element = -0.0F;  // No masked element: its sign must survive.
      if (draws.chance(0.1)) element = 1e-42F;
    }
  }
  return graph;
}

template <typename Action>
std::string error_of(Action action, ErrorCode code) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(File, RandomFloatGraphsComeBack) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    expect_round_trip(remove_unused(test::random_float_graph(seed)));
  }
}

TEST(File, RandomIntegerGraphsComeBack) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    expect_round_trip(remove_unused(test::random_integer_graph(seed)));
  }
}

TEST(File, PrunedGraphsComeBack) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    expect_round_trip(pruned(remove_unused(test::random_float_graph(seed)), seed));
    expect_round_trip(pruned(remove_unused(test::random_integer_graph(seed)), seed));
  }
}

TEST(File, IdsInAnyOrderComeBack) {
  test::SmallGraph net;
  net.output(net.conv(net.conv(net.conv(net.input()))));
  Graph graph = net.graph;
  std::reverse(graph.values.begin(), graph.values.end());
  const auto last = static_cast<ValueId>(graph.values.size() - 1);
  for (ValueId& id : graph.inputs) id = last - id;
  for (ValueId& id : graph.outputs) id = last - id;
  for (Node& node : graph.nodes) {
    node.output = last - node.output;
    for (ValueId& id : node.inputs) id = last - id;
  }
  expect_round_trip(graph);
}

TEST(File, NamesThatClashWithNodesComeBack) {
  test::SmallGraph net;
  net.output(net.conv(net.conv(net.input())));
  Graph graph = net.graph;
  graph.values[graph.inputs[0]].name = graph.nodes[0].name;
  graph.values[graph.outputs[0]].name = graph.nodes[0].name + "_";
  expect_round_trip(graph);
}

TEST(File, TensorNamesOfEveryKindComeBack) {
  test::SmallGraph net;
  net.output(net.conv(net.input()));
  for (const std::string name : {"&weight", "=weight", "&", "=", "weight", "gewicht-ß"}) {
    Graph graph = net.graph;
    auto tensor = graph.tensors.extract(graph.nodes[0].tensors[0]);
    tensor.key() = name;
    graph.tensors.insert(std::move(tensor));
    graph.nodes[0].tensors[0] = name;
    expect_round_trip(graph);
  }
}

TEST(File, MetadataComesBack) {
  test::SmallGraph net;
  net.output(net.conv(net.input()));
  net.graph.metadata = {
      {"classes", "BPSK,QPSK,Ü"}, {"empty", ""}, {"producer", "podaq"}, {"long", std::string(5000, 'x')}};
  expect_round_trip(net.graph);
}

TEST(File, FewBitsArePacked) {
  Graph graph = remove_unused(test::random_integer_graph(3));
  for (auto& [name, tensor] : graph.tensors) {
    if (tensor.dtype != DType::s8) continue;
    tensor.bits = 4;
    for (std::int8_t& code : elements<std::int8_t>(tensor)) code = static_cast<std::int8_t>(code % 8);
  }
  expect_round_trip(graph);
  const FileReport report = inspect(encode(graph));
  EXPECT_TRUE(std::any_of(report.sections.begin(), report.sections.end(),
                          [](const auto& section) { return section.name == "packed codes"; }));
}

TEST(File, RefusesWhatWouldNotComeBack) {
  test::SmallGraph net;
  net.output(net.conv(net.input()));
  Graph graph = net.graph;
  graph.tensors["spare"] = graph.tensors.begin()->second;
  EXPECT_NE(error_of([&] { (void)encode(graph); }, ErrorCode::graph).find("'spare'"), std::string::npos);
  graph = net.graph;
  add_value(graph, "loose", {3});
  EXPECT_NE(error_of([&] { (void)encode(graph); }, ErrorCode::graph).find("'loose'"), std::string::npos);
  graph = net.graph;
  graph.tensors.begin()->second.bytes.clear();
  (void)error_of([&] { (void)encode(graph); }, ErrorCode::graph);
}

TEST(File, RefusesLevelsThatZstdLacks) {
  test::SmallGraph net;
  net.output(net.conv(net.input()));
  for (const int level : {-1, 23}) {
    const auto text =
        error_of([&] { (void)encode(net.graph, {.compression_level = level}); }, ErrorCode::invalid_argument);
    EXPECT_NE(text.find("compression_level"), std::string::npos) << text;
    EXPECT_NE(text.find("0 to 22"), std::string::npos) << text;
  }
  for (const int level : {0, 1, 22})
    EXPECT_EQ(decode(encode(net.graph, {.compression_level = level})), decode(encode(net.graph)));
}

TEST(File, LevelZeroStoresSectionsAsTheyAre) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = pruned(remove_unused(test::random_float_graph(seed)), seed);
    const auto bytes = encode(graph, {.compression_level = 0});
    for (const FileReport::Section& section : inspect(bytes).sections) EXPECT_EQ(section.coder, "raw") << section.name;
    const Graph read = decode(bytes);
    EXPECT_EQ(read, with_stored_names(graph));
    for (const auto& [name, tensor] : graph.tensors) EXPECT_EQ(read.tensors.at(name).bytes, tensor.bytes) << name;
  }
}

TEST(File, SavesAndLoads) {
  const test::TemporaryFolder temporary;
  const std::filesystem::path& folder = temporary.path();
  test::SmallGraph net;
  net.output(net.conv(net.input()));
  save(net.graph, folder / "net.podaq");
  EXPECT_EQ(load(folder / "net.podaq"), decode(encode(net.graph)));

  net.graph.outputs.clear();  // A graph that does not verify must not touch the file.
  (void)error_of([&] { save(net.graph, folder / "net.podaq"); }, ErrorCode::graph);
  EXPECT_NO_THROW((void)load(folder / "net.podaq"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);

  const auto missing = error_of([&] { (void)load(folder / "none.podaq"); }, ErrorCode::io);
  EXPECT_NE(missing.find("none.podaq"), std::string::npos);
  const auto other = error_of([&] { (void)load(__FILE__); }, ErrorCode::format);
  EXPECT_NE(other.find("file_test.cpp"), std::string::npos);
}

TEST(File, ReportCountsEveryByte) {
  const auto bytes = encode(remove_unused(test::random_integer_graph(5)));
  const FileReport report = inspect(bytes);
  EXPECT_EQ(report.version, 1);
  EXPECT_EQ(report.file_bytes, bytes.size());
  EXPECT_TRUE(report.sha256_matches);
  EXPECT_EQ(report.sha256.size(), 64U);
  ASSERT_FALSE(report.sections.empty());
  std::uint64_t end = report.sections.front().offset;
  for (const auto& section : report.sections) {
    EXPECT_EQ(section.offset, end);
    EXPECT_TRUE(section.checksum_matches);
    end = section.offset + section.stored_bytes;
  }
  EXPECT_EQ(end, bytes.size());
}

TEST(File, ReportShowsDamage) {
  auto bytes = encode(remove_unused(test::random_integer_graph(5)));
  bytes.back() ^= std::byte{1};
  const FileReport report = inspect(bytes);
  EXPECT_FALSE(report.sha256_matches);
  EXPECT_FALSE(report.sections.back().checksum_matches);
  EXPECT_TRUE(report.sections.front().checksum_matches);
}

TEST(File, HoldsToTheCapOnDecodedBytes) {
  const auto bytes = encode(remove_unused(test::random_float_graph(1)));
  std::uint64_t enough = 1;
  while (true) {
    try {
      (void)decode(bytes, {.max_decoded_bytes = enough});
      break;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::format);
      EXPECT_NE(std::string(error.what()).find(concat(enough)), std::string::npos) << error.what();
    }
    enough *= 2;
  }
  EXPECT_GT(enough, bytes.size() / 2);
}

}  // namespace
}  // namespace podaq
