#include "podaq/format/cache.h"

#include <algorithm>
#include <array>
#include <exception>
#include <limits>
#include <optional>

#include "format/bytes.h"
#include "format/container.h"
#include "format/decode_from.h"
#include "format/encode_as_it_is.h"
#include "podaq/core/atomic_file.h"
#include "podaq/core/error.h"
#include "podaq/core/file.h"
#include "podaq/core/sha256.h"
#include "podaq/core/version.h"

// A cache is
//   offset  bytes
//        0      8  magic
//        8     32  key: SHA-256 of what the content depends on
//       40         a file (format/container.h) whose sections are stored as they are
namespace podaq {
namespace {

using format::Bytes;

constexpr std::array<std::byte, 8> cache_magic = {std::byte{0x89}, std::byte{'P'}, std::byte{'O'},  std::byte{'D'},
                                                  std::byte{'A'},  std::byte{'C'}, std::byte{'\r'}, std::byte{'\n'}};
constexpr std::size_t content_offset = cache_magic.size() + sizeof(Sha256Digest);

bool is_cache(std::span<const std::byte> bytes) {
  return bytes.size() >= cache_magic.size() && std::equal(cache_magic.begin(), cache_magic.end(), bytes.begin());
}

// Only the adaptive coder is slow. What others decode comes about as fast as a cache is read and checked, and a byte of
// the adaptive coder takes as long as some 64 of those.
bool is_slow_to_decode(std::span<const std::byte> file) {
  std::uint64_t slow_bytes = 0;
  std::uint64_t bytes = 0;
  try {
    for (const format::Section& section : format::read_container(file).sections) {
      bytes += section.decoded_bytes;
      if (section.coder == format::Coder::adaptive) slow_bytes += section.decoded_bytes;
    }
  } catch (const Error&) {
    return false;  // Decoding will say what is wrong.
  }
  return slow_bytes > bytes / 64;
}

Sha256Digest key_of(std::span<const std::byte> file, const ReadOptions& options) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(version)));
  hash.update(std::as_bytes(std::span(&options.max_decoded_bytes, 1)));
  hash.update(file);
  return hash.digest();
}

// Sections that are stored as they are have at most the size that is declared, which is held to the cap.
std::uint64_t most_cache_bytes(const ReadOptions& options) {
  constexpr std::uint64_t most_header_bytes = 4096;
  return std::min(options.max_decoded_bytes, std::numeric_limits<std::uint64_t>::max() - most_header_bytes) +
         most_header_bytes;
}

// What the cache answers; nothing where it does not.
std::optional<Graph> read_cache(const std::filesystem::path& cache, const Sha256Digest& key,
                                const ReadOptions& options) {
  try {
    const Bytes bytes = read_file(cache, most_cache_bytes(options));
    if (!is_cache(bytes) || bytes.size() < content_offset) return std::nullopt;
    if (!std::equal(key.begin(), key.end(), bytes.begin() + cache_magic.size())) return std::nullopt;
    return decode(std::span(bytes).subspan(content_offset), options);
  } catch (const std::exception&) {
    return std::nullopt;  // The file itself will do.
  }
}

// Nothing but a cache is overwritten, or what a crash left empty.
bool may_write(const std::filesystem::path& cache, const ReadOptions& options) {
  if (!std::filesystem::exists(cache)) return true;
  const Bytes bytes = read_file(cache, most_cache_bytes(options));
  return bytes.empty() || is_cache(bytes);
}

void write_cache(const std::filesystem::path& cache, const Sha256Digest& key, const Graph& graph,
                 const std::filesystem::path& file, const ReadOptions& options) {
  try {
    if (!may_write(cache, options)) return;
    Bytes bytes(cache_magic.begin(), cache_magic.end());
    format::append(bytes, key);
    format::append(bytes, format::encode_as_it_is(graph));
    constexpr auto no_program = static_cast<std::filesystem::perms>(0666);
    write_file_atomically(cache, bytes, std::filesystem::status(file).permissions() & no_program);
  } catch (const std::exception&) {
    return;  // The next start will be as slow as this one.
  }
}

}  // namespace

std::filesystem::path cache_beside(const std::filesystem::path& path) {
  std::filesystem::path cache = path;
  cache += ".cache";
  return cache;
}

Graph load_cached(const std::filesystem::path& path, const std::filesystem::path& cache, ReadOptions options) {
  const Bytes bytes = read_file(path, std::numeric_limits<std::uint64_t>::max());
  if (!is_slow_to_decode(bytes)) return format::decode_from(path, bytes, options);
  const Sha256Digest key = key_of(bytes, options);
  if (auto cached = read_cache(cache, key, options)) return *std::move(cached);
  Graph graph = format::decode_from(path, bytes, options);
  write_cache(cache, key, graph, path, options);
  return graph;
}

}  // namespace podaq
