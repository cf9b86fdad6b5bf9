#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace podaq {

/// Element types of tensors and values.
enum class DType : std::uint8_t {
  f32 = 0,  ///< IEEE binary32.
  u8 = 1,   ///< Activation codes.
  s8 = 2,   ///< Weight codes.
  i32 = 3,  ///< Bias codes.
};

[[nodiscard]] constexpr std::size_t size_of(DType dtype) {
  return dtype == DType::f32 || dtype == DType::i32 ? 4 : 1;
}

[[nodiscard]] constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::u8:
      return "u8";
    case DType::s8:
      return "s8";
    case DType::i32:
      return "i32";
  }
  return "?";
}

/// Sizes of each dimension. A value's shape leaves the batch out: {2, 1024} is [batch, 2, 1024].
using Shape = std::vector<std::int64_t>;

/// The number of elements, or -1 where a dimension is negative or the product overflows 63 bits.
[[nodiscard]] constexpr std::int64_t element_count(std::span<const std::int64_t> shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(count, size, &count)) return -1;
  return count;
}

/// A constant of the graph: a weight, a bias, a statistic. Row-major.
struct Tensor {
  DType dtype = DType::f32;      ///< Of the elements.
  Shape shape;                   ///< All dimensions; tensors have no batch.
  std::vector<std::byte> bytes;  ///< element_count(shape) * size_of(dtype) bytes; empty when the data live elsewhere
                                 ///< (the parameters of a network in training).
  std::vector<float> scales;     ///< s8: one scale per output channel (dimension 0), or a single one.
  int bits = 8;                  ///< s8: codes lie in [-(2^(bits-1)-1), 2^(bits-1)-1].

  friend bool operator==(const Tensor&, const Tensor&) = default;
};

/// The elements of a tensor. `Element` must be the C++ type of its dtype.
template <typename Element>
[[nodiscard]] std::span<const Element> elements(const Tensor& tensor) {
  return {reinterpret_cast<const Element*>(tensor.bytes.data()), tensor.bytes.size() / sizeof(Element)};
}
template <typename Element>
[[nodiscard]] std::span<Element> elements(Tensor& tensor) {
  return {reinterpret_cast<Element*>(tensor.bytes.data()), tensor.bytes.size() / sizeof(Element)};
}

/// The numbers that a tensor stands for: f32 elements as they are, each s8 code times its scale (one product, rounded
/// to float), any other element as a float.
[[nodiscard]] std::vector<float> numbers_of(const Tensor& tensor);

/// How many elements are not 0.
[[nodiscard]] std::int64_t count_nonzeros(const Tensor& tensor);

/// A tensor that holds a copy of `values`.
template <typename Element>
[[nodiscard]] Tensor make_tensor(DType dtype, Shape shape, std::span<const Element> values) {
  Tensor tensor{.dtype = dtype, .shape = std::move(shape), .bytes = {}, .scales = {}};
  tensor.bytes.resize(values.size_bytes());
  if (!values.empty()) std::memcpy(tensor.bytes.data(), values.data(), values.size_bytes());
  return tensor;
}

}  // namespace podaq
