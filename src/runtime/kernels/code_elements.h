#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/kernel.h"

namespace podaq::runtime_detail {

/// Packs a node that holds Clamp, Affine or Activation on codes.
[[nodiscard]] Packed prepare_table(const NodeView& view);

/// Packs a node that holds Add or Mul on codes.
[[nodiscard]] Packed prepare_integer_binary(const NodeView& view);

/// Packs a node that holds Concat.
[[nodiscard]] Packed prepare_concat(const NodeView& view);

namespace reference {

/// Replaces each code by its entry in the table. Input and output may be the same.
void replace_codes(const CodeTable& table, const std::uint8_t* input, std::uint8_t* output, std::size_t count);

}  // namespace reference

namespace avx512 {

/// The same with vectors.
void replace_codes(const CodeTable& table, const std::uint8_t* input, std::uint8_t* output, std::size_t count);

}  // namespace avx512

}  // namespace podaq::runtime_detail
