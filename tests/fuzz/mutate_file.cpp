#include "fuzz/mutate_file.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "format/coders.h"
#include "format/container.h"
#include "format/graph_table.h"
#include "format/sealed_file.h"
#include "format/tensor_streams.h"
#include "podaq/core/error.h"

// libFuzzer's own.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace podaq::fuzz {
namespace {

using format::Bytes;
using format::Coder;
using format::Section;
using format::SectionKind;

constexpr std::size_t most_numbers = 1 << 12;

// A section as it is changed.
struct Part {
  Coder coder = Coder::raw;
  std::uint64_t decoded_bytes = 0;
  Bytes stored;

  void set_raw(Bytes bytes) {
    coder = Coder::raw;
    decoded_bytes = bytes.size();
    stored = std::move(bytes);
  }
};
using Parts = std::map<SectionKind, Part>;

class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  std::size_t below(std::size_t end) { return engine_() % end; }
  bool once_in(std::size_t times) { return below(times) == 0; }

 private:
  std::minstd_rand engine_;
};

// With libFuzzer's mutations, dictionary and comparisons seen.
void change_bytes(Bytes& bytes, std::size_t most_bytes) {
  const std::size_t size = bytes.size();
  bytes.resize(std::max(size, most_bytes));
  bytes.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(bytes.data()), size, bytes.size()));
}

// A table is made of words that point at each other: changed one by one, most of them stay right.
void change_word(Bytes& table, Dice& dice) {
  const std::size_t width = dice.once_in(2) ? 1 : 4;
  if (table.size() < width) return;
  const std::size_t place = dice.below(table.size() / width) * width;
  std::uint32_t word = 0;
  std::memcpy(&word, table.data() + place, width);
  const std::uint32_t changes[] = {word + 1, word - 1, static_cast<std::uint32_t>(dice.below(9)),
                                   word ^ (1U << dice.below(8 * width)), std::numeric_limits<std::uint32_t>::max()};
  word = changes[dice.below(std::size(changes))];
  std::memcpy(table.data() + place, &word, width);
}

Parts split(std::span<const std::byte> file) {
  Parts parts;
  for (const Section& section : format::read_container(file).sections)
    parts[section.kind] = {.coder = section.coder,
                           .decoded_bytes = section.decoded_bytes,
                           .stored = Bytes(section.stored.begin(), section.stored.end())};
  return parts;
}

Bytes join(const Parts& parts) {
  std::vector<Section> sections;
  for (const auto& [kind, part] : parts)
    sections.push_back({.kind = kind,
                        .coder = part.coder,
                        .checksum = 0,
                        .offset = 0,
                        .decoded_bytes = part.decoded_bytes,
                        .stored = part.stored});
  return format::write_container(sections);
}

void decode_graph(Part& part) {
  if (part.coder == Coder::raw || part.decoded_bytes > format::most_adaptive_bytes) return;
  part.set_raw(format::decode_stream({.kind = SectionKind::graph,
                                      .coder = part.coder,
                                      .checksum = 0,
                                      .offset = 0,
                                      .decoded_bytes = part.decoded_bytes,
                                      .stored = part.stored},
                                     {}));
}

// Numbers that no kind of tensor is refused for: 0.5 where they are floats.
Bytes plain_numbers(SectionKind kind, std::size_t count) {
  Bytes bytes(count, kind == SectionKind::masks ? std::byte{0} : std::byte{1});
  if (kind == SectionKind::floats || kind == SectionKind::scales)
    for (std::size_t i = 0; i < count; ++i) bytes[i] = i % 4 == 3 ? std::byte{0x3F} : std::byte{0};
  return bytes;
}

// A section of `count` decoded bytes; one that has them already stays as it is.
void fit(Parts& parts, SectionKind kind, std::uint64_t count) {
  if (count == 0 || count > most_numbers) {
    parts.erase(kind);
    return;
  }
  Part& part = parts[kind];
  if (part.decoded_bytes == count) return;
  Bytes numbers = part.coder == Coder::raw ? std::move(part.stored) : Bytes{};
  const std::size_t known = std::min<std::size_t>(numbers.size(), count);
  Bytes fitting = plain_numbers(kind, count);
  std::copy_n(numbers.begin(), known, fitting.begin());
  part.set_raw(std::move(fitting));
}

// Throws Error where the graph is malformed.
void fit_numbers_to_graph(Parts& parts) {
  const format::GraphTable table = format::read_graph_table(parts[SectionKind::graph].stored);
  const std::uint64_t mask_bytes = format::mask_bytes(table.graph, table.tensors);
  if (mask_bytes > most_numbers) return;
  fit(parts, SectionKind::masks, mask_bytes);
  Bytes masks;
  if (mask_bytes > 0) {
    Part& part = parts[SectionKind::masks];
    // A raw section may have been cut or lengthened before without its declared size.
    if (part.coder != Coder::raw || part.stored.size() != mask_bytes)
      part.set_raw(plain_numbers(SectionKind::masks, mask_bytes));
    masks = part.stored;
  }
  auto sizes = format::stream_bytes(table.graph, table.tensors, masks);
  for (const SectionKind kind :
       {SectionKind::codes, SectionKind::packed_codes, SectionKind::integers, SectionKind::floats, SectionKind::scales})
    fit(parts, kind, sizes[kind]);
}

void change_graph(Parts& parts, Dice& dice, std::size_t most_bytes) {
  Part& part = parts[SectionKind::graph];
  decode_graph(part);
  Bytes table = std::move(part.stored);
  for (std::size_t changes = 1 + dice.below(3); changes > 0; --changes) {
    if (dice.once_in(4))
      change_bytes(table, most_bytes);
    else
      change_word(table, dice);
  }
  part.set_raw(std::move(table));
  if (!dice.once_in(8)) fit_numbers_to_graph(parts);
}

void change_part(Part& part, Dice& dice, std::size_t most_bytes) {
  switch (dice.below(8)) {
    case 0:
      part.coder = static_cast<Coder>(dice.below(5));
      break;
    case 1:
      part.decoded_bytes += dice.below(17);
      part.decoded_bytes -= std::min<std::uint64_t>(part.decoded_bytes, dice.below(17));
      break;
    case 2:
      part.decoded_bytes = std::uint64_t{1} << dice.below(64);
      break;
    default:
      change_bytes(part.stored, most_bytes);
      if (part.coder == Coder::raw) part.decoded_bytes = part.stored.size();
  }
}

void change_parts(Parts& parts, Dice& dice, std::size_t most_bytes) {
  if (dice.once_in(16)) parts[static_cast<SectionKind>(dice.below(256))];
  if (parts.empty()) return;
  if (parts.contains(SectionKind::graph) && dice.below(3) > 0) {
    change_graph(parts, dice, most_bytes);
    return;
  }
  const auto victim = std::next(parts.begin(), static_cast<std::ptrdiff_t>(dice.below(parts.size())));
  if (dice.once_in(16))
    parts.erase(victim);
  else
    change_part(victim->second, dice, most_bytes);
}

// The header's fields too.
Bytes change_anything(Bytes file, std::size_t most_bytes) {
  change_bytes(file, most_bytes);
  if (file.size() >= format::header_bytes) test::reseal(file);
  return file;
}

Bytes changed(const Bytes& file, Dice& dice, std::size_t most_bytes) {
  if (dice.once_in(16)) return change_anything(file, most_bytes);
  Parts parts;
  try {
    parts = split(file);
    change_parts(parts, dice, most_bytes);
  } catch (const Error&) {
    if (parts.empty()) return change_anything(file, most_bytes);
  }
  return join(parts);
}

}  // namespace

std::size_t mutate_file(std::span<std::byte> bytes, std::size_t size, unsigned seed) {
  Dice dice(seed);
  const Bytes file(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
  const Bytes result = changed(file, dice, bytes.size());
  if (result.size() > bytes.size()) return size;
  std::copy(result.begin(), result.end(), bytes.begin());
  return result.size();
}

}  // namespace podaq::fuzz
