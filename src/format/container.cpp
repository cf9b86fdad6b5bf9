#include "format/container.h"

#include <algorithm>

#include "podaq/core/crc32c.h"

namespace podaq::format {
namespace {

bool is_known(SectionKind kind) {
  return kind >= SectionKind::graph && kind <= SectionKind::scales;
}

void check_features(std::uint32_t required) {
  for (std::size_t bit = known_features.size(); bit < 32; ++bit)
    if (((required >> bit) & 1) != 0)
      fail("header", concat("required feature ", bit,
                            " is unknown to this version of podaq; read the file with the version that wrote it"));
}

void check_section(const Section& section) {
  if (!is_known(section.kind) && static_cast<std::uint8_t>(section.kind) < first_optional_kind)
    fail(describe(section), "its kind is unknown to this version of podaq and may not be skipped");
  if (is_known(section.kind) && section.coder > Coder::adaptive)
    fail(describe(section), concat("coder ", static_cast<int>(section.coder), " is unknown to this version of podaq"));
  if (crc32c(section.stored) != section.checksum)
    fail(describe(section), "its CRC-32C is wrong; the file is damaged, get it again");
}

}  // namespace

std::string_view name_of(SectionKind kind) {
  switch (kind) {
    case SectionKind::graph:
      return "graph";
    case SectionKind::masks:
      return "masks";
    case SectionKind::codes:
      return "codes";
    case SectionKind::packed_codes:
      return "packed codes";
    case SectionKind::integers:
      return "integers";
    case SectionKind::floats:
      return "floats";
    case SectionKind::scales:
      return "scales";
  }
  return "unknown";
}

std::string_view name_of(Coder coder) {
  switch (coder) {
    case Coder::raw:
      return "raw";
    case Coder::zstd:
      return "zstd";
    case Coder::planes_zstd:
      return "planes+zstd";
    case Coder::adaptive:
      return "adaptive";
  }
  return "unknown";
}

std::string describe(const Section& section) {
  if (is_known(section.kind)) return concat("section '", name_of(section.kind), "' at offset ", section.offset);
  return concat("section of kind ", static_cast<int>(section.kind), " at offset ", section.offset);
}

Bytes write_container(std::span<const Section> sections) {
  Bytes file;
  append(file, magic);
  append_number(file, current_version);
  append_number(file, static_cast<std::uint16_t>(sections.size()));
  append_number(file, std::uint32_t{0});
  append_number(file, std::uint32_t{0});
  append(file, Sha256Digest{});
  for (const Section& section : sections) {
    append_number(file, section.kind);
    append_number(file, section.coder);
    append_number(file, crc32c(section.stored));
    append_varint(file, section.stored.size());
    append_varint(file, section.decoded_bytes);
  }
  for (const Section& section : sections) append(file, section.stored);
  const Sha256Digest digest = sha256(file);
  std::copy(digest.begin(), digest.end(), file.begin() + sha256_offset);
  return file;
}

Container read_container(std::span<const std::byte> file) {
  ByteReader reader(file, "header");
  Container container;
  const auto start = reader.take(magic.size(), "the magic number");
  if (!std::equal(magic.begin(), magic.end(), start.begin())) fail("header", "this is no podaq file");
  container.version = reader.number<std::uint16_t>("the version");
  if (container.version == 0 || container.version > current_version)
    fail("header",
         concat("version ", container.version, " is not among those that this podaq reads, 1 to ", current_version));
  const auto section_count = reader.number<std::uint16_t>("the number of sections");
  if (section_count > most_sections)
    fail("header", concat(section_count, " sections exceed the ", most_sections, " allowed"));
  container.required_features = reader.number<std::uint32_t>("the required features");
  container.optional_features = reader.number<std::uint32_t>("the optional features");
  container.sha256 = reader.number<Sha256Digest>("the SHA-256");

  std::vector<std::uint64_t> stored_sizes;
  for (std::size_t i = 0; i < section_count; ++i) {
    Section section;
    section.kind = reader.number<SectionKind>("a section's kind");
    section.coder = reader.number<Coder>("a section's coder");
    section.checksum = reader.number<std::uint32_t>("a section's checksum");
    stored_sizes.push_back(reader.varint("a section's stored size"));
    section.decoded_bytes = reader.varint("a section's decoded size");
    if (i > 0 && section.kind <= container.sections.back().kind)
      fail("header", concat("section ", i, " of kind ", static_cast<int>(section.kind), " is out of order"));
    container.sections.push_back(section);
  }
  for (std::size_t i = 0; i < section_count; ++i) {
    Section& section = container.sections[i];
    section.offset = reader.offset();
    section.stored = reader.take(stored_sizes[i], describe(section));
  }
  if (reader.left() != 0) fail("end", concat(reader.left(), " bytes follow the last section"));
  return container;
}

Sha256Digest digest_of_file(std::span<const std::byte> file) {
  Sha256 hash;
  hash.update(file.first(sha256_offset));
  hash.update(Sha256Digest{});
  hash.update(file.subspan(sha256_offset + sizeof(Sha256Digest)));
  return hash.digest();
}

void check_container(const Container& container, std::span<const std::byte> file) {
  check_features(container.required_features);
  for (const Section& section : container.sections) check_section(section);
  if (digest_of_file(file) != container.sha256)
    fail("header", "the SHA-256 of the file is wrong; the file is damaged, get it again");
}

}  // namespace podaq::format
