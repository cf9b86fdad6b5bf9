// Arithmetic, clamps, activations, softmax.
#include <torch/torch.h>

#include <array>
#include <limits>

#include "capture/mapping.h"
#include "podaq/core/text.h"

namespace podaq::capture_detail {

namespace jit = torch::jit;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

bool is_value(const Mapping& mapping, const jit::Value* value) {
  const auto found = mapping.symbols.find(value);
  return found != mapping.symbols.end() && std::holds_alternative<ValueId>(found->second);
}

ValueId append_affine(Mapping& mapping, const jit::Node& node, ValueId value, double factor, double offset) {
  return append(mapping, node, "affine",
                Affine{.factor = static_cast<float>(factor), .offset = static_cast<float>(offset)}, {value});
}

// factor_a * a + factor_b * b, of which at least one is computed from the inputs.
void append_sum(Mapping& mapping, const jit::Node& node, const jit::Value* a, double factor_a, const jit::Value* b,
                double factor_b) {
  if (const auto constant = uniform_of(mapping, b)) {
    finish(mapping, node, append_affine(mapping, node, value_of(mapping, node, a), factor_a, factor_b * *constant));
    return;
  }
  if (const auto constant = uniform_of(mapping, a)) {
    finish(mapping, node, append_affine(mapping, node, value_of(mapping, node, b), factor_b, factor_a * *constant));
    return;
  }
  const auto scaled = [&](const jit::Value* value, double factor) {
    const ValueId id = value_of(mapping, node, value);
    return factor == 1.0 ? id : append_affine(mapping, node, id, factor, 0.0);
  };
  const ValueId left = scaled(a, factor_a);
  const ValueId right = scaled(b, factor_b);
  finish(mapping, node, append(mapping, node, "add", Add{}, {left, right}));
}

void map_add(Mapping& mapping, const jit::Node& node) {
  const double alpha = number(mapping, node, "alpha");
  const jit::Value* a = node.input(0);
  const jit::Value* b = node.input(1);
  if (alpha == 1.0 && is_value(mapping, a) && add_bias(mapping, node, a, b)) return;
  append_sum(mapping, node, a, 1.0, b, alpha);
}

void map_subtract(Mapping& mapping, const jit::Node& node) {
  append_sum(mapping, node, node.input(0), 1.0, node.input(1), -number(mapping, node, "alpha"));
}

// other - alpha * self
void map_reversed_subtract(Mapping& mapping, const jit::Node& node) {
  append_sum(mapping, node, node.input(0), -number(mapping, node, "alpha"), node.input(1), 1.0);
}

void map_negate(Mapping& mapping, const jit::Node& node) {
  finish(mapping, node, append_affine(mapping, node, value_of(mapping, node, node.input(0)), -1.0, 0.0));
}

void map_multiply(Mapping& mapping, const jit::Node& node) {
  const jit::Value* a = node.input(0);
  const jit::Value* b = node.input(1);
  if (const auto factor = uniform_of(mapping, b)) {
    finish(mapping, node, append_affine(mapping, node, value_of(mapping, node, a), *factor, 0.0));
  } else if (const auto left = uniform_of(mapping, a)) {
    finish(mapping, node, append_affine(mapping, node, value_of(mapping, node, b), *left, 0.0));
  } else {
    const std::vector<ValueId> factors = {value_of(mapping, node, a), value_of(mapping, node, b)};
    finish(mapping, node, append(mapping, node, "mul", Mul{}, factors));
  }
}

void map_divide(Mapping& mapping, const jit::Node& node) {
  const auto divisor = uniform_of(mapping, node.input(1));
  if (!divisor) refuse(mapping, node, "only a division by a constant is supported");
  if (node.inputs().size() > 2) refuse(mapping, node, "a division that rounds is not supported");
  finish(mapping, node, append_affine(mapping, node, value_of(mapping, node, node.input(0)), 1.0 / *divisor, 0.0));
}

void append_clamp(Mapping& mapping, const jit::Node& node, std::string_view kind, double minimum, double maximum) {
  const Clamp clamp{.minimum = static_cast<float>(minimum), .maximum = static_cast<float>(maximum)};
  finish(mapping, node, append(mapping, node, kind, clamp, {value_of(mapping, node, argument(mapping, node, "self"))}));
}

void map_relu(Mapping& mapping, const jit::Node& node) {
  append_clamp(mapping, node, "relu", 0.0, infinity);
}
void map_relu6(Mapping& mapping, const jit::Node& node) {
  append_clamp(mapping, node, "relu6", 0.0, 6.0);
}
void map_hardtanh(Mapping& mapping, const jit::Node& node) {
  append_clamp(mapping, node, "hardtanh", number(mapping, node, "min_val"), number(mapping, node, "max_val"));
}
void map_clamp(Mapping& mapping, const jit::Node& node) {
  append_clamp(mapping, node, "clamp", optional_number(mapping, node, "min").value_or(-infinity),
               optional_number(mapping, node, "max").value_or(infinity));
}

double required_bound(const Mapping& mapping, const jit::Node& node, const char* name) {
  const auto bound = optional_number(mapping, node, name);
  if (!bound) refuse(mapping, node, concat("it has no '", name, "'"));
  return *bound;
}

void map_clamp_min(Mapping& mapping, const jit::Node& node) {
  append_clamp(mapping, node, "clamp", required_bound(mapping, node, "min"), infinity);
}
void map_clamp_max(Mapping& mapping, const jit::Node& node) {
  append_clamp(mapping, node, "clamp", -infinity, required_bound(mapping, node, "max"));
}

void append_activation(Mapping& mapping, const jit::Node& node, std::string_view name, Activation activation) {
  finish(mapping, node, append(mapping, node, name, activation, {value_of(mapping, node, node.input(0))}));
}

template <Activation::Kind kind>
void map_activation(Mapping& mapping, const jit::Node& node) {
  std::string name = out_of_place_name(node);
  append_activation(mapping, node, name.substr(name.rfind(':') + 1), {.kind = kind});
}

void map_elu(Mapping& mapping, const jit::Node& node) {
  if (number(mapping, node, "scale") != 1.0 || number(mapping, node, "input_scale") != 1.0)
    refuse(mapping, node, "only scale 1 is supported");
  append_activation(mapping, node, "elu",
                    {.kind = Activation::Kind::elu, .alpha = static_cast<float>(number(mapping, node, "alpha"))});
}

void map_leaky_relu(Mapping& mapping, const jit::Node& node) {
  append_activation(
      mapping, node, "leaky_relu",
      {.kind = Activation::Kind::leaky_relu, .alpha = static_cast<float>(number(mapping, node, "negative_slope"))});
}

void map_gelu(Mapping& mapping, const jit::Node& node) {
  const bool is_tanh = text(mapping, node, "approximate") == "tanh";
  append_activation(mapping, node, "gelu", {.kind = is_tanh ? Activation::Kind::gelu_tanh : Activation::Kind::gelu});
}

void append_softmax(Mapping& mapping, const jit::Node& node, bool logarithm) {
  const ValueId input = value_of(mapping, node, argument(mapping, node, "self"));
  const std::size_t rank = mapping.graph.values[input].shape.size();
  const Softmax softmax{.axis = sample_axis(mapping, node, integer(mapping, node, "dim"), rank),
                        .logarithm = logarithm};
  finish(mapping, node, append(mapping, node, logarithm ? "log_softmax" : "softmax", softmax, {input}));
}

void map_softmax(Mapping& mapping, const jit::Node& node) {
  append_softmax(mapping, node, false);
}
void map_log_softmax(Mapping& mapping, const jit::Node& node) {
  append_softmax(mapping, node, true);
}

using Kind = Activation::Kind;

}  // namespace

std::span<const Rule> elementwise_rules() {
  static constexpr std::array rules = {
      Rule{"aten::add", map_add},
      Rule{"aten::sub", map_subtract},
      Rule{"aten::rsub", map_reversed_subtract},
      Rule{"aten::neg", map_negate},
      Rule{"aten::mul", map_multiply},
      Rule{"aten::div", map_divide},
      Rule{"aten::relu", map_relu},
      Rule{"aten::relu6", map_relu6},
      Rule{"aten::hardtanh", map_hardtanh},
      Rule{"aten::clamp", map_clamp},
      Rule{"aten::clamp_min", map_clamp_min},
      Rule{"aten::clamp_max", map_clamp_max},
      Rule{"aten::sigmoid", map_activation<Kind::sigmoid>},
      Rule{"aten::tanh", map_activation<Kind::tanh>},
      Rule{"aten::silu", map_activation<Kind::silu>},
      Rule{"aten::selu", map_activation<Kind::selu>},
      Rule{"aten::hardsigmoid", map_activation<Kind::hard_sigmoid>},
      Rule{"aten::hardswish", map_activation<Kind::hard_swish>},
      Rule{"aten::elu", map_elu},
      Rule{"aten::leaky_relu", map_leaky_relu},
      Rule{"aten::gelu", map_gelu},
      Rule{"aten::softmax", map_softmax},
      Rule{"aten::log_softmax", map_log_softmax},
  };
  return rules;
}

}  // namespace podaq::capture_detail
