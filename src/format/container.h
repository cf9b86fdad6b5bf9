#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "format/bytes.h"
#include "podaq/core/sha256.h"

// The outer layer of a file: a header, a section table, and the sections' stored bytes, one after the other without
// gaps, in ascending order of their kinds. Since offsets are sums of sizes, sections cannot overlap.
//
//   offset  bytes
//        0      8  magic
//        8      2  version
//       10      2  number of sections
//       12      4  required features, one bit each: a reader that does not know one refuses the file
//       16      4  optional features: may be ignored
//       20     32  SHA-256 of the whole file, these 32 bytes taken as zero
//       52         for each section: kind (1), coder (1), CRC-32C of its stored bytes (4), stored and decoded size
//                  (varints)
namespace podaq::format {

// The high bit and the line ends show a file that went through a text-mode transfer.
inline constexpr std::array<std::byte, 8> magic = {std::byte{0x89}, std::byte{'P'}, std::byte{'O'},  std::byte{'D'},
                                                   std::byte{'A'},  std::byte{'Q'}, std::byte{'\r'}, std::byte{'\n'}};
inline constexpr std::uint16_t current_version = 1;
inline constexpr std::size_t sha256_offset = 20;
inline constexpr std::size_t header_bytes = 52;
inline constexpr std::size_t most_sections = 64;

// No feature has been added to version 1 yet. A new one gets the next bit and a name here.
inline constexpr std::array<std::string_view, 0> known_features = {};

// Kinds from `first_optional_kind` on may be skipped by a reader that does not know them.
enum class SectionKind : std::uint8_t {
  graph = 1,         // The FlatBuffers table of podaq.fbs.
  masks = 2,         // One bit an element of each masked tensor, 1 where it is not zero.
  codes = 3,         // s8 elements of tensors of more than 4 bits.
  packed_codes = 4,  // s8 elements of tensors of up to 4 bits, two a byte.
  integers = 5,      // i32 elements.
  floats = 6,        // f32 elements.
  scales = 7,        // f32 scales of s8 tensors.
};
inline constexpr std::uint8_t first_optional_kind = 128;

enum class Coder : std::uint8_t {
  raw = 0,
  zstd = 1,         // One frame without its magic number.
  planes_zstd = 2,  // The first bytes of all 4-byte numbers, then all second bytes, …; then as zstd.
  adaptive = 3,     // Range coder under a model of the section's kind.
};

[[nodiscard]] std::string_view name_of(SectionKind kind);
[[nodiscard]] std::string_view name_of(Coder coder);

struct Section {
  SectionKind kind = SectionKind::graph;
  Coder coder = Coder::raw;
  std::uint32_t checksum = 0;
  std::uint64_t offset = 0;  // In the file. Set by read_container.
  std::uint64_t decoded_bytes = 0;
  std::span<const std::byte> stored;
};

struct Container {
  std::uint16_t version = current_version;
  std::uint32_t required_features = 0;
  std::uint32_t optional_features = 0;
  Sha256Digest sha256{};
  std::vector<Section> sections;  // Point into the file's bytes.
};

// The file that holds `sections`, checksums computed.
[[nodiscard]] Bytes write_container(std::span<const Section> sections);

// Reads header and section table. Neither checks checksums nor refuses unknown features and kinds; what it returns
// lies within `file`.
[[nodiscard]] Container read_container(std::span<const std::byte> file);

// Refuses what this version must not read: unknown required features, unknown kinds and coders, wrong checksums.
void check_container(const Container& container, std::span<const std::byte> file);

[[nodiscard]] Sha256Digest digest_of_file(std::span<const std::byte> file);

// "section 'masks' at offset 123", for error texts.
[[nodiscard]] std::string describe(const Section& section);

}  // namespace podaq::format
