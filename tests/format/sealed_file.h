#pragma once

#include <map>

#include "format/container.h"
#include "format/podaq_generated.h"

// Files made by hand, with right checksums, so that what they hold is judged and not only their damage.
namespace podaq::test {

using SectionBytes = std::map<format::SectionKind, format::Bytes>;

/// A file of raw sections.
[[nodiscard]] inline format::Bytes seal(const SectionBytes& sections) {
  std::vector<format::Section> stored;
  for (const auto& [kind, bytes] : sections)
    stored.push_back({.kind = kind,
                      .coder = format::Coder::raw,
                      .checksum = 0,
                      .offset = 0,
                      .decoded_bytes = bytes.size(),
                      .stored = bytes});
  return format::write_container(stored);
}

/// Makes the SHA-256 of a file that was patched right again.
inline void reseal(format::Bytes& file) {
  const Sha256Digest digest = format::digest_of_file(file);
  std::copy(digest.begin(), digest.end(), file.begin() + format::sha256_offset);
}

/// The graph section of a network of one linear node, 2 inputs and 3 outputs, with one thing about it wrong.
struct TableSpec {
  std::uint32_t input_size = 2;
  std::vector<std::uint32_t> input_shape = {};  ///< Instead of {input_size}.
  std::vector<std::uint32_t> weight_shape = {3, 2};
  int dtype = 0;
  std::uint8_t bits = 8;
  int scales = 0;
  bool masked = false;
  bool describes_weight = true;
  std::string weight_name = "&.weight";
  int op_type = static_cast<int>(schema::Op::Linear);
  std::vector<std::uint32_t> distances = {1};
  std::uint32_t output = 1;
  std::string node_name = "fc";
  std::size_t nodes = 1;          ///< How often the node stands in the list, as one shared object.
  std::size_t tensor_copies = 2;  ///< How many tensors the node lists; all but the first are absent.
  std::vector<std::uint32_t> ids = {};
  std::vector<std::pair<std::string, std::string>> metadata = {};
};

[[nodiscard]] inline format::Bytes make_table(const TableSpec& spec) {
  flatbuffers::FlatBufferBuilder builder;
  const auto input_shape = spec.input_shape.empty() ? std::vector<std::uint32_t>{spec.input_size} : spec.input_shape;
  const auto input_name = builder.CreateString("x");
  const auto input = schema::CreateInput(builder, input_name, builder.CreateVector(input_shape));
  const auto inputs = builder.CreateVector(&input, 1);

  const auto weight_name = builder.CreateString(spec.weight_name);
  const auto shape = spec.describes_weight ? builder.CreateVector(spec.weight_shape) : 0;
  std::vector<flatbuffers::Offset<schema::Tensor>> tensors = {
      schema::CreateTensor(builder, weight_name, static_cast<schema::DType>(spec.dtype), shape, spec.bits,
                           static_cast<schema::Scales>(spec.scales), spec.masked)};
  tensors.resize(spec.tensor_copies, schema::CreateTensor(builder));
  const auto tensor_list = builder.CreateVector(tensors);
  const auto op = schema::CreateLinear(builder).Union();
  const auto node_name = builder.CreateString(spec.node_name);
  const auto distances = builder.CreateVector(spec.distances);
  const auto node =
      schema::CreateNode(builder, static_cast<schema::Op>(spec.op_type), op, node_name, distances, tensor_list);
  const auto nodes = builder.CreateVector(std::vector(spec.nodes, node));

  const auto output_name = builder.CreateString("y");
  const auto output = schema::CreateOutput(builder, output_name, spec.output);
  const auto outputs = builder.CreateVector(&output, 1);
  const auto ids = spec.ids.empty() ? 0 : builder.CreateVector(spec.ids);
  std::vector<flatbuffers::Offset<schema::Entry>> entries;
  for (const auto& [key, text] : spec.metadata) {
    const auto stored_key = builder.CreateString(key);
    entries.push_back(schema::CreateEntry(builder, stored_key, builder.CreateString(text)));
  }
  const auto metadata = builder.CreateVector(entries);
  builder.Finish(schema::CreateGraph(builder, inputs, nodes, outputs, ids, metadata));
  const auto bytes = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  return {bytes.begin(), bytes.end()};
}

}  // namespace podaq::test
