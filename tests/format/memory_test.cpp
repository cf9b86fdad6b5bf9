#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "format/declared_size.h"
#include "format/live_memory.h"
#include "format/models.h"
#include "format/sealed_file.h"
#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/format/file.h"
#include "podaq/graph/passes.h"
#include "podaq/graph/verify.h"
#include "support/random_graph.h"

// Files that are small and ask for much memory, each kind of amplification by itself. zstd's own memory is not counted
// here; the fuzz target counts it.
namespace podaq {
namespace {

using format::Bytes;
using format::Coder;
using format::Section;
using format::SectionKind;
using Builder = flatbuffers::FlatBufferBuilder;

// Decodes, and holds the peak against what file.h promises. What was read, if it was.
std::optional<Graph> expect_bounded(const Bytes& file) {
  std::optional<Graph> graph;
  const test::PeakMemory peak;
  try {
    graph = decode(file);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::format) << error.what();
  }
  const std::size_t held = peak.bytes();
  const std::uint64_t declared = test::declared_size(file, graph.value_or(Graph{}));
  EXPECT_LE(held, file.size() + declared + test::fixed_decoding_bytes) << "declared: " << declared;
  return graph;
}

// A file of that graph, whose output is the first node's unless others are given.
Bytes seal_table(Builder& builder, const std::vector<flatbuffers::Offset<schema::Input>>& inputs,
                 const std::vector<flatbuffers::Offset<schema::Node>>& nodes,
                 std::vector<flatbuffers::Offset<schema::Output>> outputs = {}, std::size_t float_count = 0) {
  if (outputs.empty()) outputs = {schema::CreateOutput(builder, 0, static_cast<std::uint32_t>(inputs.size()))};
  const auto output_list = builder.CreateVector(outputs);
  const auto node_list = builder.CreateVector(nodes);
  builder.Finish(schema::CreateGraph(builder, builder.CreateVector(inputs), node_list, output_list));
  const auto table = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  test::SectionBytes sections = {{SectionKind::graph, Bytes(table.begin(), table.end())}};
  for (std::size_t i = 0; i < float_count; ++i) format::append_number(sections[SectionKind::floats], 1.5F);
  return test::seal(sections);
}

// A name of few bytes.
std::string short_name(std::size_t number) {
  std::string name;
  for (++number; number > 0; number /= 60) name += static_cast<char>('0' + number % 60);
  return name;
}

flatbuffers::Offset<schema::Input> make_input(Builder& builder, const std::string& name,
                                              const std::vector<std::uint32_t>& shape) {
  const auto stored = builder.CreateString(name);
  return schema::CreateInput(builder, stored, builder.CreateVector(shape));
}

TEST(Memory, TheSmallestNodes) {
  Builder builder;
  const auto input = make_input(builder, "x", std::vector<std::uint32_t>(8, 1));
  const auto op = schema::CreateDropout(builder, 0.5).Union();
  std::vector<flatbuffers::Offset<schema::Node>> nodes;
  for (std::size_t i = 0; i < 66000; ++i)  // Just beyond a power of two, where lists hold twice what they need.
    nodes.push_back(schema::CreateNode(builder, schema::Op::Dropout, op, builder.CreateString(short_name(i))));
  EXPECT_TRUE(expect_bounded(seal_table(builder, {input}, nodes)));
}

TEST(Memory, TheSmallestInputs) {
  Builder builder;
  std::vector<flatbuffers::Offset<schema::Input>> inputs;
  for (std::size_t i = 0; i < 66000; ++i) inputs.push_back(make_input(builder, short_name(i), {1}));
  const auto op = schema::CreateGlobalMean(builder).Union();
  const auto node = schema::CreateNode(builder, schema::Op::Dropout, op, builder.CreateString("node"));
  static_cast<void>(expect_bounded(seal_table(builder, inputs, {node})));
}

TEST(Memory, OneInputInManyPlaces) {
  Builder builder;
  const std::vector inputs(300000, make_input(builder, "", {}));
  EXPECT_FALSE(expect_bounded(seal_table(builder, inputs, {})));
}

TEST(Memory, LongNamesOfNodesInThoseOfTensors) {
  constexpr std::size_t count = 200;
  Builder builder;
  const auto input = make_input(builder, "x", {1});
  const auto op = schema::CreateBatchNorm(builder, 0.0).Union();
  const auto shape = builder.CreateVector(std::vector<std::uint32_t>{1});
  std::vector<flatbuffers::Offset<schema::Node>> nodes;
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<flatbuffers::Offset<schema::Tensor>> tensors;
    for (const char* name : {"&0", "&1", "&2", "&3"})
      tensors.push_back(schema::CreateTensor(builder, builder.CreateString(name), schema::DType::f32, shape));
    tensors.push_back(schema::CreateTensor(builder));
    const auto name = builder.CreateString(concat(short_name(i), std::string(10000, 'n')));
    nodes.push_back(schema::CreateNode(builder, schema::Op::BatchNorm, op, name, 0, builder.CreateVector(tensors)));
  }
  EXPECT_TRUE(expect_bounded(seal_table(builder, {input}, nodes, {}, 4 * count)));
}

// Values whose node's name is taken, by names that all begin alike.
TEST(Memory, LongRunsOfUnderscores) {
  constexpr std::size_t count = 1500;
  const auto underscored = [](std::size_t underscores) { return concat("a", std::string(underscores, '_')); };
  Builder builder;
  const auto input = make_input(builder, "x", {1});
  const auto op = schema::CreateDropout(builder, 0.5).Union();
  std::vector<flatbuffers::Offset<schema::Node>> nodes;
  std::vector<flatbuffers::Offset<schema::Output>> outputs;
  for (std::size_t i = 0; i < 2 * count; ++i) {
    const auto name = builder.CreateString(i < count ? underscored(i) : concat(short_name(i), "#"));
    nodes.push_back(schema::CreateNode(builder, schema::Op::Dropout, op, name));
    if (i < count) continue;
    const auto output_name = builder.CreateString(underscored(i - count));
    outputs.push_back(schema::CreateOutput(builder, output_name, static_cast<std::uint32_t>(1 + i)));
  }
  const std::optional<Graph> graph = expect_bounded(seal_table(builder, {input}, nodes, outputs));
  ASSERT_TRUE(graph);
  for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(graph->values[1 + i].name, underscored(count + i));
}

// One linear layer; `weight` is {outputs, inputs}.
Graph linear_network(Tensor weight) {
  Graph graph;
  const bool is_float = weight.dtype == DType::f32;
  const ValueId input = add_value(graph, "x", {weight.shape[1]});
  graph.inputs = {input};
  graph.nodes.push_back({.op = Linear{}, .name = "fc", .inputs = {input}, .tensors = {"weight", ""}, .output = 1});
  if (!is_float) {
    graph.nodes.front().inputs = {1};
    graph.nodes.front().output = 2;
    graph.nodes.insert(graph.nodes.begin(),
                       Node{.op = Quantize{}, .name = "codes", .inputs = {input}, .tensors = {}, .output = 1});
    add_value(graph, "codes", {weight.shape[1]}, QParams{.scale = 0.02F, .zero_point = 0, .lowest = 0, .highest = 255});
  }
  graph.outputs = {add_value(graph, "y", {weight.shape[0]})};
  graph.tensors.emplace("weight", std::move(weight));
  return graph;
}

Tensor codes(Shape shape, int bits, std::size_t kept) {
  const auto count = static_cast<std::size_t>(element_count(shape));
  Tensor tensor{.dtype = DType::s8, .shape = std::move(shape), .bytes = Bytes(count), .scales = {0.5F}, .bits = bits};
  for (std::size_t i = 0; i < kept; ++i) tensor.bytes[i * (count / kept)] = std::byte{1};
  return tensor;
}

Bytes quickly_encoded(const Graph& graph) {
  return encode(graph, {.compression_level = 1});
}

std::string coder_of(const Bytes& file, std::string_view section_name) {
  for (const FileReport::Section& section : inspect(file).sections)
    if (section.name == section_name) return section.coder;
  return "none";
}

TEST(Memory, CodesOfOneLongSparseRow) {
  const Bytes file = quickly_encoded(linear_network(codes({1, 1 << 22}, 8, 200)));
  EXPECT_EQ(coder_of(file, "codes"), "adaptive");
  EXPECT_TRUE(expect_bounded(file));
}

TEST(Memory, AdaptiveMaskOfOneLongRow) {
  constexpr std::int64_t columns = 8 * format::most_adaptive_bytes;
  const Bytes file = quickly_encoded(linear_network(codes({1, columns}, 8, 200)));
  const format::Container container = format::read_container(file);
  std::vector<Section> sections = container.sections;
  const format::StreamShape shape = {
      .tensors = {{.rows = 1, .channels = columns, .taps = 1, .masked = true, .first_mask_bit = 0}}, .masks = {}};
  Bytes mask(format::most_adaptive_bytes);
  for (std::size_t i = 0; i < 200; ++i) {
    const std::size_t element = i * (columns / 200);
    mask[element / 8] |= static_cast<std::byte>(1U << (element % 8));
  }
  const Bytes stored = format::encode_adaptive(SectionKind::masks, mask, shape);
  Section& masks = *std::find_if(sections.begin(), sections.end(),
                                 [](const Section& section) { return section.kind == SectionKind::masks; });
  masks.coder = Coder::adaptive;
  masks.stored = stored;
  EXPECT_EQ(expect_bounded(format::write_container(sections)), decode(file));
}

TEST(Memory, PackedCodes) {
  EXPECT_TRUE(expect_bounded(quickly_encoded(linear_network(codes({1024, 1 << 12}, 4, 1 << 21)))));
}

TEST(Memory, FloatsInPlanes) {
  std::vector<float> numbers(std::size_t{1} << 22);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = 1.0F + static_cast<float>(i % 1000);
  const Bytes file = quickly_encoded(linear_network(make_tensor<float>(DType::f32, {2048, 2048}, numbers)));
  EXPECT_EQ(coder_of(file, "floats"), "planes+zstd");
  EXPECT_TRUE(expect_bounded(file));
}

TEST(Memory, AScaleForEachWeight) {
  Tensor weight = codes({1 << 21, 1}, 8, 1 << 21);
  weight.scales.assign(std::size_t{1} << 21, 0.25F);
  EXPECT_TRUE(expect_bounded(quickly_encoded(linear_network(std::move(weight)))));
}

TEST(Memory, OrdinaryNetworks) {
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    EXPECT_TRUE(expect_bounded(encode(remove_unused(test::random_integer_graph(seed)))));
}

}  // namespace
}  // namespace podaq
