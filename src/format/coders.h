#pragma once

#include <span>

#include "format/bytes.h"
#include "format/container.h"
#include "format/models.h"

// Turns a stream into a section's stored bytes and back, with the coder that makes it smallest.
namespace podaq::format {

struct CodedStream {
  Coder coder = Coder::raw;
  Bytes stored;
};

// The smallest of all coders that suit the stream; the first of equals. At level 0 the stream as it is.
[[nodiscard]] CodedStream encode_stream(SectionKind kind, std::span<const std::byte> bytes, const StreamShape& shape,
                                        int compression_level);

// Exactly section.decoded_bytes bytes, whatever is stored; throws Error(format) where it decodes to more or fewer.
// `shape` must fit that size.
[[nodiscard]] Bytes decode_stream(const Section& section, const StreamShape& shape);

}  // namespace podaq::format
