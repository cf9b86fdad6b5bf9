#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace podaq {

/// Whether the bytes start as a gzip stream does (RFC 1952: 1F 8B).
[[nodiscard]] bool is_gzip(std::span<const std::uint8_t> bytes) noexcept;

/// The most that deflate can expand its input: a 258-byte match from two bits, rounded up (zlib's technical notes).
inline constexpr std::size_t max_deflate_ratio = 1032;

/// Reads one gzip stream held in memory, piece by piece, so that a header can be judged before the rest is decoded.
class GzipReader {
 public:
  /// `bytes` must outlive the reader; `name` stands for them in error texts.
  GzipReader(std::span<const std::uint8_t> bytes, std::string name);
  ~GzipReader();
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  /// Decodes up to out.size() bytes and says how many came; fewer means that the stream has ended.
  /// Throws `Error` (format) if it is corrupt, truncated, or its checksum is wrong.
  std::size_t read(std::span<std::uint8_t> out);

  /// Whether input is left after the end of the stream.
  [[nodiscard]] bool has_trailing_bytes() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace podaq
