#include "data/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "podaq/core/error.h"
#include "podaq/core/text.h"

namespace podaq {

struct GzipReader::State {
  z_stream stream = {};
  std::span<const std::uint8_t> rest;
  std::string name;
  bool ended = false;
};

bool is_gzip(std::span<const std::uint8_t> bytes) noexcept {
  return bytes.size() >= 2 && bytes[0] == 0x1F && bytes[1] == 0x8B;
}

GzipReader::GzipReader(std::span<const std::uint8_t> bytes, std::string name) : state_(std::make_unique<State>()) {
  constexpr int gzip_only = 16 + MAX_WBITS;
  state_->rest = bytes;
  state_->name = std::move(name);
  if (inflateInit2(&state_->stream, gzip_only) != Z_OK) {
    throw Error(ErrorCode::io, concat("'", state_->name, "': zlib cannot start; is memory exhausted?"));
  }
}

GzipReader::~GzipReader() {
  inflateEnd(&state_->stream);
}

std::size_t GzipReader::read(std::span<std::uint8_t> out) {
  constexpr std::size_t largest_step = std::numeric_limits<uInt>::max();
  auto& stream = state_->stream;
  std::size_t done = 0;
  while (done < out.size() && !state_->ended) {
    const auto space = std::min(out.size() - done, largest_step);
    const auto input = std::min(state_->rest.size(), largest_step);
    stream.next_in = const_cast<Bytef*>(state_->rest.data());  // zlib's older signature; it only reads
    stream.avail_in = static_cast<uInt>(input);
    stream.next_out = out.data() + done;
    stream.avail_out = static_cast<uInt>(space);
    const int status = inflate(&stream, Z_NO_FLUSH);
    done += space - stream.avail_out;
    state_->rest = state_->rest.subspan(input - stream.avail_in);
    state_->ended = status == Z_STREAM_END;
    if (status == Z_BUF_ERROR || (status == Z_OK && state_->rest.empty() && stream.avail_out != 0)) {
      throw Error(ErrorCode::format, concat("'", state_->name, "': the gzip stream ends too early; is it truncated?"));
    }
    if (status != Z_OK && status != Z_STREAM_END) {
      throw Error(ErrorCode::format, concat("'", state_->name, "': the gzip stream is corrupt (",
                                            stream.msg != nullptr ? stream.msg : "zlib gives no reason", ")"));
    }
  }
  return done;
}

bool GzipReader::has_trailing_bytes() const noexcept {
  return !state_->rest.empty();
}

}  // namespace podaq
