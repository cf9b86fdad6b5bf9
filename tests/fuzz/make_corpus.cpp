// Writes the seeds of the fuzz target: small random graphs as the writer stores them, and with every section raw, so
// that what is changed in them is not first garbled by a coder.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include "format/container.h"
#include "format/graph_table.h"
#include "format/tensor_streams.h"
#include "podaq/core/atomic_file.h"
#include "podaq/core/text.h"
#include "podaq/format/file.h"
#include "podaq/graph/passes.h"
#include "support/random_graph.h"

namespace podaq {
namespace {

constexpr std::size_t most_bytes = 3000;
constexpr std::uint64_t seeds = 40;

format::Bytes encode_raw(const Graph& graph) {
  const std::vector<format::StoredTensor> stored = format::tensors_in_order(graph);
  format::Streams streams = format::split_tensors(graph, stored);
  streams[format::SectionKind::graph] = format::write_graph_table(graph, stored);
  std::vector<format::Section> sections;
  for (const auto& [kind, bytes] : streams)
    sections.push_back({.kind = kind,
                        .coder = format::Coder::raw,
                        .checksum = 0,
                        .offset = 0,
                        .decoded_bytes = bytes.size(),
                        .stored = bytes});
  return format::write_container(sections);
}

void write_small(const format::Bytes& file, const std::filesystem::path& path) {
  if (file.size() <= most_bytes) write_file_atomically(path, file);
}

}  // namespace
}  // namespace podaq

int main(int argc, char** argv) try {
  using namespace podaq;
  if (argc != 2) {
    std::fputs("usage: make_corpus FOLDER\n", stderr);
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  for (std::uint64_t seed = 0; seed < seeds; ++seed)
    for (const auto& [kind, graph] : {std::pair("float", remove_unused(test::random_float_graph(seed))),
                                      std::pair("integer", remove_unused(test::random_integer_graph(seed)))}) {
      const std::string name = concat(kind, "_", seed);
      write_small(encode(graph), folder / concat(name, "_coded"));
      write_small(encode_raw(graph), folder / concat(name, "_raw"));
    }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "make_corpus: %s\n", error.what());
  return 1;
}
