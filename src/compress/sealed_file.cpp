#include "compress/sealed_file.h"

#include <algorithm>
#include <array>
#include <span>

#include "podaq/core/atomic_file.h"
#include "podaq/core/crc32c.h"
#include "podaq/core/file.h"

namespace podaq::compress_detail {
namespace {

std::array<std::byte, sizeof(std::uint32_t)> seal_of(std::span<const std::byte> bytes) {
  const std::uint32_t sum = crc32c(bytes);
  std::array<std::byte, sizeof(sum)> seal{};
  for (std::size_t i = 0; i < seal.size(); ++i) seal[i] = static_cast<std::byte>(sum >> (8 * i));
  return seal;
}

}  // namespace

void write_sealed(const std::filesystem::path& path, std::vector<std::byte> bytes) {
  const auto seal = seal_of(bytes);
  bytes.insert(bytes.end(), seal.begin(), seal.end());
  write_file_atomically(path, bytes);
}

std::optional<std::vector<std::byte>> read_sealed(const std::filesystem::path& path, std::uint64_t max_bytes) {
  std::vector<std::byte> bytes = read_file(path, max_bytes);
  if (bytes.size() < sizeof(std::uint32_t)) return std::nullopt;
  const std::size_t size = bytes.size() - sizeof(std::uint32_t);
  if (!std::ranges::equal(seal_of(std::span(bytes).first(size)), std::span(bytes).subspan(size))) return std::nullopt;
  bytes.resize(size);
  return bytes;
}

}  // namespace podaq::compress_detail
