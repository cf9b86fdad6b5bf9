#include "format/coders.h"

#include <zstd.h>

#include <memory>
#include <utility>

namespace podaq::format {
namespace {

// Stored frames leave out the magic number that every frame starts with.
constexpr std::uint32_t frame_magic = ZSTD_MAGICNUMBER;

Bytes encode_zstd(std::span<const std::byte> bytes, int level) {
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(), ZSTD_freeCCtx);
  if (!context) throw std::bad_alloc();
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, level);
  // The section table holds size and checksum.
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_contentSizeFlag, 0);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 0);
  Bytes frame(ZSTD_compressBound(bytes.size()));
  const std::size_t size = ZSTD_compress2(context.get(), frame.data(), frame.size(), bytes.data(), bytes.size());
  if (ZSTD_isError(size) != 0)
    throw Error(ErrorCode::format, concat("zstd cannot compress: ", ZSTD_getErrorName(size)));
  frame.resize(size);
  frame.erase(frame.begin(), frame.begin() + sizeof frame_magic);
  return frame;
}

Bytes decode_zstd(const Section& section) {
  Bytes frame;
  frame.reserve(sizeof frame_magic + section.stored.size());
  append_number(frame, frame_magic);
  append(frame, section.stored);
  Bytes bytes(section.decoded_bytes);
  // A second frame would be more than one way to store the same bytes.
  const std::size_t frame_size = ZSTD_findFrameCompressedSize(frame.data(), frame.size());
  if (ZSTD_isError(frame_size) != 0)
    fail(describe(section), concat("zstd cannot decode it: ", ZSTD_getErrorName(frame_size)));
  if (frame_size != frame.size()) fail(describe(section), "bytes follow the zstd frame");
  const std::size_t size = ZSTD_decompress(bytes.data(), bytes.size(), frame.data(), frame.size());
  if (ZSTD_isError(size) != 0) fail(describe(section), concat("zstd cannot decode it: ", ZSTD_getErrorName(size)));
  if (size != bytes.size())
    fail(describe(section), concat("it decodes to ", size, " bytes instead of the ", bytes.size(), " declared"));
  return bytes;
}

// Numbers of 4 bytes as planes: all first bytes, then all second ones, ….
constexpr std::size_t planes = 4;

Bytes to_planes(std::span<const std::byte> words) {
  const std::size_t count = words.size() / planes;
  Bytes shuffled(words.size());
  for (std::size_t i = 0; i < words.size(); ++i) shuffled[i % planes * count + i / planes] = words[i];
  return shuffled;
}

Bytes from_planes(std::span<const std::byte> shuffled) {
  const std::size_t count = shuffled.size() / planes;
  Bytes words(shuffled.size());
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = shuffled[i % planes * count + i / planes];
  return words;
}

bool holds_words(SectionKind kind) {
  return kind == SectionKind::integers || kind == SectionKind::floats || kind == SectionKind::scales;
}

}  // namespace

CodedStream encode_stream(SectionKind kind, std::span<const std::byte> bytes, const StreamShape& shape,
                          int compression_level) {
  CodedStream best{.coder = Coder::raw, .stored = Bytes(bytes.begin(), bytes.end())};
  const auto consider = [&best](Coder coder, Bytes stored) {
    if (stored.size() < best.stored.size()) best = {.coder = coder, .stored = std::move(stored)};
  };
  consider(Coder::zstd, encode_zstd(bytes, compression_level));
  if (holds_words(kind)) consider(Coder::planes_zstd, encode_zstd(to_planes(bytes), compression_level));
  if (bytes.size() <= most_adaptive_bytes) consider(Coder::adaptive, encode_adaptive(kind, bytes, shape));
  return best;
}

Bytes decode_stream(const Section& section, const StreamShape& shape) {
  switch (section.coder) {
    case Coder::raw:
      if (section.stored.size() != section.decoded_bytes)
        fail(describe(section),
             concat("its ", section.stored.size(), " stored bytes are not the ", section.decoded_bytes, " declared"));
      return {section.stored.begin(), section.stored.end()};
    case Coder::zstd:
      return decode_zstd(section);
    case Coder::planes_zstd:
      if (!holds_words(section.kind) || section.decoded_bytes % planes != 0)
        fail(describe(section), "it does not hold numbers of 4 bytes, so it has no byte planes");
      return from_planes(decode_zstd(section));
    case Coder::adaptive: {
      if (section.decoded_bytes > most_adaptive_bytes)
        fail(describe(section),
             concat("the adaptive coder is for at most ", most_adaptive_bytes, " bytes, not ", section.decoded_bytes));
      Bytes bytes(section.decoded_bytes);
      if (!decode_adaptive(section.kind, section.stored, shape, bytes))
        fail(describe(section), "bytes follow the coded numbers");
      return bytes;
    }
  }
  fail(describe(section), concat("coder ", static_cast<int>(section.coder), " is unknown to this version of podaq"));
}

}  // namespace podaq::format
