#include "podaq/format/file.h"

#include <algorithm>
#include <limits>

#include "format/coders.h"
#include "format/container.h"
#include "format/decode_from.h"
#include "format/encode_as_it_is.h"
#include "format/graph_table.h"
#include "format/tensor_streams.h"
#include "podaq/core/atomic_file.h"
#include "podaq/core/crc32c.h"
#include "podaq/core/file.h"
#include "podaq/graph/verify.h"

namespace podaq {
namespace {

using namespace format;

constexpr int lowest_level = 0;
constexpr int highest_level = 22;

void check_options(const WriteOptions& options) {
  if (options.compression_level < lowest_level || options.compression_level > highest_level)
    throw Error(ErrorCode::invalid_argument, concat("compression_level is ", options.compression_level,
                                                    "; it must lie in ", lowest_level, " to ", highest_level));
}

// The objects of a graph take some 45 bytes for each of its table where it is made of the smallest nodes.
constexpr std::uint64_t graph_expansion = 64;

// The bytes of memory that reading a section takes for each that it decodes to.
std::uint64_t expansion_of(const Section& section) {
  if (section.kind == SectionKind::graph) return graph_expansion;
  if (section.kind == SectionKind::masks && section.coder == Coder::adaptive) return 1 + 8 * most_mask_model_bytes;
  if (section.kind == SectionKind::packed_codes) return 3;
  return 1;
}

// What a reader will hold at once: the decoded sections and what is made of them. file.h promises this sum.
void check_declared_size(const Container& container, const GraphTable& table, std::uint64_t cap) {
  std::uint64_t total = 0;
  const auto add = [&](std::uint64_t count, std::uint64_t bytes_each, std::string_view what) {
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(count, bytes_each, &bytes) || __builtin_add_overflow(total, bytes, &total) ||
        total > cap)
      fail(what, concat("with it the file decodes to more than the ", cap,
                        " bytes allowed; raise max_decoded_bytes if you trust it"));
  };
  for (const Section& section : container.sections)
    add(section.decoded_bytes, expansion_of(section), describe(section));
  for (const StoredTensor& stored : table.tensors) {
    const Tensor& tensor = table.graph.tensors.at(stored.name);
    const std::string what = concat("tensor '", stored.name, "'");
    add(static_cast<std::uint64_t>(element_count(tensor.shape)), size_of(tensor.dtype), what);
    add(stored.scale_count, sizeof(float), what);
  }
}

const Section* find_section(const Container& container, SectionKind kind) {
  for (const Section& section : container.sections)
    if (section.kind == kind) return &section;
  return nullptr;
}

Bytes decode_graph_section(const Container& container, std::uint64_t cap) {
  const Section* section = find_section(container, SectionKind::graph);
  if (section == nullptr) fail("header", "there is no section 'graph'");
  const std::uint64_t most_bytes = std::min(most_graph_bytes, cap / graph_expansion);
  if (section->decoded_bytes > most_bytes)
    fail(describe(*section), concat("its ", section->decoded_bytes, " decoded bytes exceed the ", most_bytes,
                                    " that a graph may have where max_decoded_bytes is ", cap));
  return decode_stream(*section, {});
}

// The decoded section, which must have `bytes` bytes; no section where that is none.
Bytes decode_numbers(const Container& container, SectionKind kind, std::uint64_t bytes, const StreamShape& shape) {
  const Section* section = find_section(container, kind);
  if (section == nullptr && bytes > 0)
    fail("header", concat("there is no section '", name_of(kind), "', but the graph needs ", bytes, " bytes of it"));
  if (section == nullptr) return {};
  if (section->decoded_bytes != bytes || bytes == 0)
    fail(describe(*section), concat("its decoded size is ", section->decoded_bytes, ", the graph needs ", bytes));
  return decode_stream(*section, shape);
}

Streams decode_streams(const Container& container, const GraphTable& table) {
  constexpr SectionKind masks = SectionKind::masks;
  Streams streams;
  streams[masks] = decode_numbers(container, masks, mask_bytes(table.graph, table.tensors),
                                  stream_shape(masks, table.graph, table.tensors, {}));
  auto sizes = stream_bytes(table.graph, table.tensors, streams[masks]);
  for (const SectionKind kind :
       {SectionKind::codes, SectionKind::packed_codes, SectionKind::integers, SectionKind::floats, SectionKind::scales})
    streams[kind] =
        decode_numbers(container, kind, sizes[kind], stream_shape(kind, table.graph, table.tensors, streams[masks]));
  return streams;
}

// How a stream is stored; the number is a compression level.
using StoreStream = CodedStream (*)(SectionKind, std::span<const std::byte>, const StreamShape&, int);

CodedStream store_as_it_is(SectionKind /*kind*/, std::span<const std::byte> bytes, const StreamShape& /*shape*/,
                           int /*level*/) {
  return {.coder = Coder::raw, .stored = Bytes(bytes.begin(), bytes.end())};
}

std::vector<std::byte> encode_by(StoreStream store, const Graph& graph, int level) {
  verify(graph);
  const std::vector<StoredTensor> stored = tensors_in_order(graph);
  Streams streams = split_tensors(graph, stored);
  const Bytes masks = streams[SectionKind::masks];
  std::erase_if(streams, [](const auto& stream) { return stream.second.empty(); });
  streams[SectionKind::graph] = write_graph_table(graph, stored);

  std::vector<CodedStream> coded;
  std::vector<Section> sections;
  coded.reserve(streams.size());  // Sections point into it.
  for (const auto& [kind, bytes] : streams) {
    const StreamShape shape = kind == SectionKind::graph ? StreamShape{} : stream_shape(kind, graph, stored, masks);
    coded.push_back(store(kind, bytes, shape, level));
    sections.push_back({.kind = kind,
                        .coder = coded.back().coder,
                        .checksum = crc32c(coded.back().stored),
                        .offset = 0,
                        .decoded_bytes = bytes.size(),
                        .stored = coded.back().stored});
  }
  return write_container(sections);
}

}  // namespace

std::vector<std::byte> encode(const Graph& graph, WriteOptions options) {
  check_options(options);
  return options.compression_level == 0 ? format::encode_as_it_is(graph)
                                        : encode_by(encode_stream, graph, options.compression_level);
}

std::vector<std::byte> format::encode_as_it_is(const Graph& graph) {
  return encode_by(store_as_it_is, graph, 0);
}

Graph decode(std::span<const std::byte> bytes, ReadOptions options) {
  const Container container = read_container(bytes);
  check_container(container, bytes);
  GraphTable table = read_graph_table(decode_graph_section(container, options.max_decoded_bytes));
  check_declared_size(container, table, options.max_decoded_bytes);
  fill_tensors(table.graph, table.tensors, decode_streams(container, table));
  verify(table.graph);
  return std::move(table.graph);
}

void save(const Graph& graph, const std::filesystem::path& path, WriteOptions options) {
  write_file_atomically(path, encode(graph, options));
}

Graph format::decode_from(const std::filesystem::path& path, std::span<const std::byte> bytes,
                          const ReadOptions& options) {
  try {
    return decode(bytes, options);
  } catch (const Error& error) {
    throw Error(error.code(), concat("'", path.string(), "': ", error.what()));
  }
}

Graph load(const std::filesystem::path& path, ReadOptions options) {
  return decode_from(path, read_file(path, std::numeric_limits<std::uint64_t>::max()), options);
}

FileReport inspect(std::span<const std::byte> bytes) {
  const Container container = read_container(bytes);
  FileReport report{.version = container.version,
                    .required_features = container.required_features,
                    .optional_features = container.optional_features,
                    .file_bytes = bytes.size(),
                    .sha256 = to_hexadecimal(container.sha256),
                    .sha256_matches = digest_of_file(bytes) == container.sha256,
                    .sections = {}};
  for (const Section& section : container.sections)
    report.sections.push_back({.name = std::string(name_of(section.kind)),
                               .offset = section.offset,
                               .stored_bytes = section.stored.size(),
                               .decoded_bytes = section.decoded_bytes,
                               .coder = std::string(name_of(section.coder)),
                               .checksum_matches = crc32c(section.stored) == section.checksum});
  return report;
}

}  // namespace podaq
