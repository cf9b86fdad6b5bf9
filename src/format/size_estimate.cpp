#include "podaq/format/size_estimate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "format/tensor_streams.h"

namespace podaq {
namespace {

// Bits of `count` symbols of which each value came up `frequency` times: their entropy and, for each frequency that
// must be learned, half the logarithm of the count (Rissanen's price of a parameter). Never more than as they are.
class Frequencies {
 public:
  explicit Frequencies(double bits_each) : bits_each_(bits_each) {}

  void add(std::byte symbol) {
    ++counts_.at(std::to_integer<std::size_t>(symbol));
    ++count_;
  }

  [[nodiscard]] double bits() const {
    if (count_ == 0) return 0.0;
    const auto all = static_cast<double>(count_);
    double bits = 0.0;
    std::size_t values = 0;
    for (const std::size_t count : counts_) {
      if (count == 0) continue;
      ++values;
      bits += static_cast<double>(count) * std::log2(all / static_cast<double>(count));
    }
    bits += 0.5 * static_cast<double>(values - 1) * std::log2(all);
    return std::min(bits, bits_each_ * all);
  }

 private:
  double bits_each_;
  std::array<std::size_t, 256> counts_{};
  std::size_t count_ = 0;
};

// Bits of flags of which `ones` are set; a half is the price of learning how many.
double flag_bits(double ones, double count) {
  if (count == 0.0) return 0.0;
  const auto part = [&](double flags) { return flags == 0.0 ? 0.0 : flags * std::log2(count / flags); };
  return std::min(part(ones) + part(count - ones) + 0.5 * std::log2(count), count);
}

double mask_bits(const std::vector<bool>& kept, std::size_t rows) {
  const std::size_t columns = kept.size() / rows;
  std::vector<double> row_ones(rows, 0.0);
  std::vector<double> column_ones(columns, 0.0);
  double ones = 0.0;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (!kept[i]) continue;
    row_ones[i / columns] += 1.0;
    column_ones[i % columns] += 1.0;
    ones += 1.0;
  }
  const auto sum_of = [](std::span<const double> line_ones, std::size_t length) {
    double bits = 0.0;
    for (const double line : line_ones) bits += flag_bits(line, static_cast<double>(length));
    return bits;
  };
  return std::min(
      {flag_bits(ones, static_cast<double>(kept.size())), sum_of(row_ones, columns), sum_of(column_ones, rows)});
}

// Numbers of 4 bytes: each of their bytes by itself.
double word_bits(std::span<const std::byte> bytes, const std::vector<bool>& kept) {
  std::array<Frequencies, 4> planes = {Frequencies(8), Frequencies(8), Frequencies(8), Frequencies(8)};
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (kept.empty() || kept[i / planes.size()]) planes.at(i % planes.size()).add(bytes[i]);
  double bits = 0.0;
  for (const Frequencies& plane : planes) bits += plane.bits();
  return bits;
}

double code_bits(const Tensor& tensor, const std::vector<bool>& kept) {
  constexpr int packed_bits = 4;
  Frequencies codes(tensor.bits <= packed_bits ? packed_bits : 8);
  for (std::size_t i = 0; i < tensor.bytes.size(); ++i)
    if (kept.empty() || kept[i]) codes.add(tensor.bytes[i]);
  return codes.bits();
}

std::vector<bool> nonzeros_of(const Tensor& tensor) {
  const std::size_t width = size_of(tensor.dtype);
  std::vector<bool> nonzeros(tensor.bytes.size() / width, false);
  for (std::size_t i = 0; i < tensor.bytes.size(); ++i)
    if (tensor.bytes[i] != std::byte{0}) nonzeros[i / width] = true;
  return nonzeros;
}

}  // namespace

double estimate_stored_bytes(const Tensor& tensor) {
  std::vector<bool> kept;  // empty: all
  double bits = 0.0;
  if (format::is_worth_masking(tensor)) {
    kept = nonzeros_of(tensor);
    bits += mask_bits(kept, static_cast<std::size_t>(tensor.shape.at(0)));
  }
  bits += size_of(tensor.dtype) == 1 ? code_bits(tensor, kept) : word_bits(tensor.bytes, kept);
  bits += word_bits(std::as_bytes(std::span(tensor.scales)), {});
  return bits / 8.0;
}

double estimate_stored_bytes(const Graph& graph) {
  double bytes = 0.0;
  for (const auto& [name, tensor] : graph.tensors) bytes += estimate_stored_bytes(tensor);
  return bytes;
}

}  // namespace podaq
