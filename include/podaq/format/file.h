#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "podaq/graph/graph.h"

namespace podaq {

/// How a file is written.
struct WriteOptions {
  int compression_level = 19;  ///< zstd level, 1 to 22; 0 stores all sections as they are.
};

/// How a file is read.
struct ReadOptions {
  std::uint64_t max_decoded_bytes = std::uint64_t{1} << 30;  ///< Cap on the declared size that `decode` defines.
};

/// The bytes of a `.podaq` file that holds `graph`. The same graph gives the same bytes.
///
/// The graph must verify (Error(graph) otherwise), every value must be an input or computed by a node, and every tensor
/// be used by one: `remove_unused` sees to that. All of it comes back equal from `decode` but the names of values that
/// are neither inputs nor outputs: such a value takes the name of the node that computes it, followed by as many
/// underscores as keep it apart from the inputs', the outputs' and earlier nodes' values.
[[nodiscard]] std::vector<std::byte> encode(const Graph& graph, WriteOptions options = {});

/// The graph in `bytes`, verified. A malformed file throws Error(format) naming the section, field or offset; a
/// well-formed one whose graph breaks a rule of `verify` throws Error(graph).
///
/// No file, however hostile, makes it hold more than bytes.size() + the declared size + 4 MiB of memory at once. The
/// declared size is that of all sections when decoded, as the section table states it, and of all tensors with their
/// scales. A section that needs more memory than its own bytes counts several times: the graph 64 times (the objects
/// made of it), masks under the adaptive coder 81 times (its models), codes of up to 4 bits 3 times (unpacked once).
/// The declared size is held to the cap before any section but the graph's is decoded.
[[nodiscard]] Graph decode(std::span<const std::byte> bytes, ReadOptions options = {});

/// Writes `graph` to `path`, whole or not at all (temporary file, fsync, rename).
void save(const Graph& graph, const std::filesystem::path& path, WriteOptions options = {});

/// Reads the graph in the file at `path`, which takes the file's size more memory than `decode`.
[[nodiscard]] Graph load(const std::filesystem::path& path, ReadOptions options = {});

/// What `podaq inspect` shows of a file's bytes.
struct FileReport {
  /// One section of the file.
  struct Section {
    std::string name;                 ///< What it holds: "graph", "masks", "codes", …
    std::uint64_t offset = 0;         ///< From the start of the file.
    std::uint64_t stored_bytes = 0;   ///< In the file.
    std::uint64_t decoded_bytes = 0;  ///< As declared.
    std::string coder;                ///< How it is compressed.
    bool checksum_matches = false;    ///< CRC-32C of the stored bytes.
  };
  std::uint16_t version = 0;            ///< Of the format.
  std::uint64_t required_features = 0;  ///< Bits that a reader must know.
  std::uint64_t optional_features = 0;  ///< Bits that a reader may ignore.
  std::uint64_t file_bytes = 0;         ///< The whole file.
  std::string sha256;                   ///< Hexadecimal, as stored.
  bool sha256_matches = false;          ///< Whether the file is what was written.
  std::vector<Section> sections;        ///< In the order they are stored.
};

/// Reads the header and the section table of `bytes` and checks every checksum, without decoding the graph.
/// Wrong checksums are reported, not thrown; a header that cannot be read throws Error(format).
[[nodiscard]] FileReport inspect(std::span<const std::byte> bytes);

}  // namespace podaq
