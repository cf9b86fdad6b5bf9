#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "graph/node_access.h"
#include "graph/rules.h"
#include "podaq/numerics/rounding.h"

namespace podaq::graph_detail {

namespace {

[[noreturn]] void refuse(const std::string& name, std::string_view problem) {
  throw Error(ErrorCode::graph, concat("tensor '", name, "': ", problem));
}

void check_bits_and_scales(const std::string& name, const Tensor& tensor) {
  if (tensor.bits < 2 || tensor.bits > 8) refuse(name, concat("bits ", tensor.bits, " is outside 2 to 8"));
  if (tensor.shape.empty()) refuse(name, "weight codes need an output channel dimension");
  if (tensor.scales.size() != 1 && tensor.scales.size() != static_cast<std::size_t>(tensor.shape[0]))
    refuse(name, concat("has ", tensor.scales.size(), " scales for ", tensor.shape[0], " output channels"));
  for (const float scale : tensor.scales)
    if (!numerics::is_valid_scale(scale))
      refuse(name, concat("scale ", scale, " is not a positive normal float with a normal reciprocal"));
}

void check_weight_codes(const std::string& name, const Tensor& tensor) {
  const int limit = (1 << (tensor.bits - 1)) - 1;
  for (const std::int8_t code : elements<std::int8_t>(tensor))
    if (code < -limit || code > limit) refuse(name, concat("code ", static_cast<int>(code), " exceeds +-", limit));
}

constexpr int utf8_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

}  // namespace

bool is_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = 0; i < text.size();) {
    const auto length = static_cast<std::size_t>(utf8_length(byte(i)));
    if (length == 0 || i + length > text.size()) return false;
    for (std::size_t k = 1; k < length; ++k)
      if ((byte(i + k) & 0xC0U) != 0x80U) return false;
    const bool overlong = (byte(i) == 0xE0 && byte(i + 1) < 0xA0) || (byte(i) == 0xF0 && byte(i + 1) < 0x90);
    const bool surrogate = byte(i) == 0xED && byte(i + 1) > 0x9F;
    const bool too_high = byte(i) == 0xF4 && byte(i + 1) > 0x8F;
    if (overlong || surrogate || too_high) return false;
    i += length;
  }
  return true;
}

void check_tensor(const std::string& name, const Tensor& tensor, bool has_data) {
  if (tensor.dtype > DType::i32) refuse(name, concat("unknown dtype ", static_cast<int>(tensor.dtype)));
  if (tensor.dtype == DType::u8) refuse(name, "u8 is for values, not for tensors");
  const std::int64_t count = element_count(tensor.shape);
  std::int64_t bytes = 0;
  if (count < 0 || __builtin_mul_overflow(count, static_cast<std::int64_t>(size_of(tensor.dtype)), &bytes))
    refuse(name, concat("the size of shape ", text_of(tensor.shape), " overflows"));
  const bool may_be_empty = !has_data && tensor.bytes.empty();
  if (!may_be_empty && tensor.bytes.size() != static_cast<std::size_t>(bytes))
    refuse(name, concat("holds ", tensor.bytes.size(), " bytes, its shape ", text_of(tensor.shape), " needs ", bytes));
  if (tensor.dtype == DType::s8) {
    check_bits_and_scales(name, tensor);
    check_weight_codes(name, tensor);
  } else if (!tensor.scales.empty()) {
    refuse(name, concat("has scales, but holds ", name_of(tensor.dtype)));
  }
}

void check_accumulators(const Graph& graph, const Node& node) {
  if (!has_weights(node.op)) return;
  if (!input_of(graph, node, 0).qparams) return;
  const Tensor& weight = required_tensor(graph, node, 0);
  const auto codes = elements<std::int8_t>(weight);
  const auto channels = static_cast<std::size_t>(weight.shape[0]);
  const std::size_t per_channel = codes.size() / channels;
  const Tensor* bias = optional_tensor(graph, node, 1);
  for (std::size_t channel = 0; channel < channels; ++channel) {
    std::int64_t sum = 0;
    for (const std::int8_t code : codes.subspan(channel * per_channel, per_channel)) sum += std::abs(code);
    const std::int64_t offset = bias ? std::abs(std::int64_t{elements<std::int32_t>(*bias)[channel]}) : 0;
    if (sum * 255 + offset >= std::int64_t{1} << 31)
      fail(node, concat("output channel ", channel,
                        " can overflow its 32-bit accumulator: sum|w| * 255 + |bias| = ", sum * 255 + offset));
  }
}

}  // namespace podaq::graph_detail
