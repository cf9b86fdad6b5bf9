#include "format/tensor_streams.h"

#include <algorithm>
#include <utility>

#include "format/bits.h"

namespace podaq::format {
namespace {

SectionKind stream_of(const Tensor& tensor) {
  switch (tensor.dtype) {
    case DType::i32:
      return SectionKind::integers;
    case DType::f32:
      return SectionKind::floats;
    case DType::u8:
    case DType::s8:
      break;
  }
  return tensor.bits <= 4 ? SectionKind::packed_codes : SectionKind::codes;
}

std::size_t count_of(const Tensor& tensor) {
  return static_cast<std::size_t>(element_count(tensor.shape));
}

bool is_zero(std::span<const std::byte> element) {
  return std::all_of(element.begin(), element.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

std::size_t count_zeros(const Tensor& tensor) {
  const std::size_t width = size_of(tensor.dtype);
  const std::span<const std::byte> bytes = tensor.bytes;
  std::size_t zeros = 0;
  for (std::size_t i = 0; i < bytes.size(); i += width) zeros += is_zero(bytes.subspan(i, width)) ? 1 : 0;
  return zeros;
}

std::size_t count_ones(std::span<const std::byte> bits, std::size_t first, std::size_t count) {
  std::size_t ones = 0;
  for (std::size_t i = first; i < first + count; ++i) ones += get_bit(bits, i) ? 1 : 0;
  return ones;
}

// Two codes a byte, the first in the low half; an odd last byte's high half is 0.
Bytes pack(std::span<const std::byte> codes) {
  Bytes packed((codes.size() + 1) / 2);
  for (std::size_t i = 0; i < codes.size(); ++i)
    packed[i / 2] |= (codes[i] & std::byte{0xF}) << static_cast<int>(4 * (i % 2));
  return packed;
}

Bytes unpack(std::span<const std::byte> packed, std::size_t count) {
  Bytes codes(count);
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned half = std::to_integer<unsigned>(packed[i / 2]) >> (4 * (i % 2)) & 0xFU;
    codes[i] = static_cast<std::byte>(half >= 8 ? half | 0xF0U : half);
  }
  return codes;
}

StreamTensor structure_of(const Tensor& tensor) {
  const std::size_t count = count_of(tensor);
  StreamTensor structure;
  if (count == 0 || tensor.shape.empty()) return {.rows = count};
  structure.rows = static_cast<std::size_t>(tensor.shape[0]);
  if (tensor.shape.size() > 1) structure.channels = static_cast<std::size_t>(tensor.shape[1]);
  structure.taps = count / structure.rows / structure.channels;
  return structure;
}

}  // namespace

bool is_worth_masking(const Tensor& tensor) {
  if (tensor.dtype != DType::s8 && tensor.dtype != DType::f32) return false;
  const std::size_t bits = tensor.dtype == DType::f32 ? 32 : tensor.bits <= 4 ? 4 : 8;
  const std::size_t count = count_of(tensor);
  return count > 0 && count_zeros(tensor) * bits > count;
}

Streams split_tensors(const Graph& graph, std::span<const StoredTensor> stored) {
  Streams streams;
  Bytes& masks = streams[SectionKind::masks];
  masks.resize(mask_bytes(graph, stored));
  std::size_t next_bit = 0;
  for (const StoredTensor& entry : stored) {
    const Tensor& tensor = graph.tensors.at(entry.name);
    Bytes& stream = streams[stream_of(tensor)];
    const std::size_t width = size_of(tensor.dtype);
    const std::span<const std::byte> bytes = tensor.bytes;
    for (std::size_t i = 0; i < bytes.size(); i += width) {
      const auto element = bytes.subspan(i, width);
      const bool kept = !entry.masked || !is_zero(element);
      if (entry.masked) set_bit(masks, next_bit++, kept);
      if (kept) append(stream, element);
    }
    append(streams[SectionKind::scales], std::as_bytes(std::span(tensor.scales)));
  }
  streams[SectionKind::packed_codes] = pack(streams[SectionKind::packed_codes]);
  std::erase_if(streams, [](const auto& stream) { return stream.second.empty(); });
  return streams;
}

std::uint64_t mask_bytes(const Graph& graph, std::span<const StoredTensor> stored) {
  std::uint64_t bits = 0;
  for (const StoredTensor& entry : stored)
    if (entry.masked) bits += count_of(graph.tensors.at(entry.name));
  return (bits + 7) / 8;
}

std::map<SectionKind, std::uint64_t> stream_bytes(const Graph& graph, std::span<const StoredTensor> stored,
                                                  std::span<const std::byte> masks) {
  std::map<SectionKind, std::uint64_t> sizes;
  std::size_t next_bit = 0;
  for (const StoredTensor& entry : stored) {
    const Tensor& tensor = graph.tensors.at(entry.name);
    const std::size_t count = count_of(tensor);
    sizes[stream_of(tensor)] += size_of(tensor.dtype) * (entry.masked ? count_ones(masks, next_bit, count) : count);
    sizes[SectionKind::scales] += sizeof(float) * std::uint64_t{entry.scale_count};
    if (entry.masked) next_bit += count;
  }
  if (count_ones(masks, next_bit, 8 * masks.size() - next_bit) != 0)
    fail("section 'masks'", "bits behind the last element are not zero");
  if (const auto packed = sizes.find(SectionKind::packed_codes); packed != sizes.end())
    packed->second = (packed->second + 1) / 2;
  return sizes;
}

StreamShape stream_shape(SectionKind kind, const Graph& graph, std::span<const StoredTensor> stored,
                         std::span<const std::byte> masks) {
  StreamShape shape{.tensors = {}, .masks = masks};
  std::size_t next_bit = 0;
  for (const StoredTensor& entry : stored) {
    const Tensor& tensor = graph.tensors.at(entry.name);
    const bool belongs = kind == SectionKind::masks ? entry.masked : stream_of(tensor) == kind;
    if (belongs) {
      shape.tensors.push_back(structure_of(tensor));
      shape.tensors.back().masked = entry.masked;
      shape.tensors.back().first_mask_bit = next_bit;
    }
    if (entry.masked) next_bit += count_of(tensor);
  }
  return shape;
}

namespace {

// Hands out a stream's bytes from front to back.
class StreamReader {
 public:
  explicit StreamReader(const Bytes& bytes) : rest_(bytes) {}

  std::span<const std::byte> take(std::size_t count) {
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

  [[nodiscard]] std::size_t left() const { return rest_.size(); }

 private:
  std::span<const std::byte> rest_;
};

void fill_tensor(Tensor& tensor, bool masked, StreamReader& numbers, std::span<const std::byte> masks,
                 std::size_t& next_bit) {
  const std::size_t width = size_of(tensor.dtype);
  const std::size_t count = count_of(tensor);
  if (!masked) {
    const auto bytes = numbers.take(count * width);
    tensor.bytes.assign(bytes.begin(), bytes.end());
    return;
  }
  tensor.bytes.assign(count * width, std::byte{0});
  for (std::size_t i = 0; i < count; ++i) {
    if (!get_bit(masks, next_bit++)) continue;
    const auto element = numbers.take(width);
    std::copy(element.begin(), element.end(), tensor.bytes.begin() + static_cast<std::ptrdiff_t>(i * width));
    // Else one tensor would have several files, and a pruned weight could hide among the kept.
    if (is_zero(element))
      fail(concat("section '", name_of(stream_of(tensor)), "'"), "a number that the masks keep is zero");
  }
}

}  // namespace

void fill_tensors(Graph& graph, std::span<const StoredTensor> stored, const Streams& streams) {
  static const Bytes nothing;
  const auto stream = [&](SectionKind kind) -> const Bytes& {
    const auto found = streams.find(kind);
    return found == streams.end() ? nothing : found->second;
  };
  const Bytes& masks = stream(SectionKind::masks);
  const Bytes unpacked = unpack(stream(SectionKind::packed_codes), 2 * stream(SectionKind::packed_codes).size());
  std::map<SectionKind, StreamReader> readers = {{SectionKind::codes, StreamReader(stream(SectionKind::codes))},
                                                 {SectionKind::packed_codes, StreamReader(unpacked)},
                                                 {SectionKind::integers, StreamReader(stream(SectionKind::integers))},
                                                 {SectionKind::floats, StreamReader(stream(SectionKind::floats))}};
  StreamReader scales(stream(SectionKind::scales));
  std::size_t next_bit = 0;
  for (const StoredTensor& entry : stored) {
    Tensor& tensor = graph.tensors.at(entry.name);
    fill_tensor(tensor, entry.masked, readers.at(stream_of(tensor)), masks, next_bit);
    tensor.scales.resize(entry.scale_count);
    const auto bytes = scales.take(entry.scale_count * sizeof(float));
    if (!bytes.empty()) std::memcpy(tensor.scales.data(), bytes.data(), bytes.size());
  }
  const std::size_t left = readers.at(SectionKind::packed_codes).left();
  if (left == 1 && unpacked.back() != std::byte{0})
    fail("section 'packed codes'", "the unused half of the last byte is not zero");
}

}  // namespace podaq::format
