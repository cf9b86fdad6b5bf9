#include "podaq/numerics/elementwise.h"

#include <cmath>

#include "podaq/graph/passes.h"
#include "runtime/kernels/code_elements.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/registry.h"
#include "runtime/kernels/tables.h"
#include "runtime/kernels/weights.h"

namespace podaq::runtime_detail {

Packed prepare_table(const NodeView& view) {
  return Table{.size = sample_size(view.output().shape),
               .codes = table_of(view.node.op, *view.input().qparams, *view.output().qparams)};
}

Packed prepare_integer_binary(const NodeView& view) {
  const QParams& first = *view.input(0).qparams;
  const QParams& second = *view.input(1).qparams;
  const QParams& output = *view.output().qparams;
  IntegerBinary binary{.size = sample_size(view.output().shape),
                       .multiplies = std::holds_alternative<Mul>(view.node.op),
                       .first_zero_point = first.zero_point,
                       .second_zero_point = second.zero_point,
                       .zero_point = output.zero_point,
                       .lowest = output.lowest,
                       .highest = output.highest};
  if (binary.multiplies) {
    binary.first_multiplier = numerics::product_multiplier(first.scale, second.scale, output.scale);
    return binary;
  }
  binary.first_multiplier = numerics::rescaling_multiplier(first.scale, output.scale);
  binary.second_multiplier = numerics::rescaling_multiplier(second.scale, output.scale);
  if (const auto& clamp = std::get<Add>(view.node.op).clamp) {
    const numerics::CodeBounds bounds = numerics::clamp_codes(output, clamp->minimum, clamp->maximum);
    binary.lowest = bounds.lowest;
    binary.highest = bounds.highest;
  }
  return binary;
}

namespace reference {

namespace {

bool all_float(const NodeView& view) {
  return !view.has_codes();
}

bool all_codes(const NodeView& view) {
  return view.has_codes();
}

void run_table(const Packed& packed, const Operands& operands) {
  const auto& table = std::get<Table>(packed);
  replace_codes(table.codes, as<std::uint8_t>(operands.inputs[0]), as<std::uint8_t>(operands.output),
                operands.batch * table.size);
}

Packed prepare_float_unary(const NodeView& view) {
  FloatUnary unary{.size = sample_size(view.output().shape), .op = {}};
  if (const auto* clamp = std::get_if<Clamp>(&view.node.op)) unary.op = *clamp;
  if (const auto* affine = std::get_if<Affine>(&view.node.op)) unary.op = *affine;
  if (const auto* activation = std::get_if<Activation>(&view.node.op)) unary.op = *activation;
  return unary;
}

void run_float_unary(const Packed& packed, const Operands& operands) {
  const auto& unary = std::get<FloatUnary>(packed);
  const float* input = as<float>(operands.inputs[0]);
  float* output = as<float>(operands.output);
  std::visit(
      [&](const auto& op) {
        for (std::size_t i = 0; i < operands.batch * unary.size; ++i) output[i] = apply(op, input[i]);
      },
      unary.op);
}

Packed prepare_float_binary(const NodeView& view) {
  const auto* add = std::get_if<Add>(&view.node.op);
  return FloatBinary{.size = sample_size(view.output().shape),
                     .multiplies = add == nullptr,
                     .bounds = add == nullptr ? FloatBounds{} : float_bounds(add->clamp)};
}

void run_float_binary(const Packed& packed, const Operands& operands) {
  const auto& binary = std::get<FloatBinary>(packed);
  const float* first = as<float>(operands.inputs[0]);
  const float* second = as<float>(operands.inputs[1]);
  float* output = as<float>(operands.output);
  for (std::size_t i = 0; i < operands.batch * binary.size; ++i)
    output[i] = binary.multiplies ? first[i] * second[i] : bounded(first[i] + second[i], binary.bounds);
}

void run_integer_binary(const Packed& packed, const Operands& operands) {
  const auto& binary = std::get<IntegerBinary>(packed);
  const std::uint8_t* first = as<std::uint8_t>(operands.inputs[0]);
  const std::uint8_t* second = as<std::uint8_t>(operands.inputs[1]);
  std::uint8_t* output = as<std::uint8_t>(operands.output);
  const numerics::CodeBounds bounds{.lowest = binary.lowest, .highest = binary.highest};
  for (std::size_t i = 0; i < operands.batch * binary.size; ++i) {
    const std::int32_t a = first[i] - binary.first_zero_point;
    const std::int32_t b = second[i] - binary.second_zero_point;
    const std::int32_t code =
        binary.multiplies
            ? numerics::multiply_codes(a, b, binary.first_multiplier, binary.zero_point, bounds)
            : numerics::add_codes(a, binary.first_multiplier, b, binary.second_multiplier, binary.zero_point, bounds);
    output[i] = static_cast<std::uint8_t>(code);
  }
}

Packed prepare_batch_norm(const NodeView& view) {
  BatchNormAffine affine = batch_norm_affine(view.graph, view.node);
  return BatchNormPacked{.positions = position_count(view.output().shape),
                         .scale = std::move(affine.scale),
                         .shift = std::move(affine.shift)};
}

void run_batch_norm(const Packed& packed, const Operands& operands) {
  const auto& norm = std::get<BatchNormPacked>(packed);
  const float* input = as<float>(operands.inputs[0]);
  float* output = as<float>(operands.output);
  const std::size_t channels = norm.scale.size();
  for (std::size_t row = 0; row < operands.batch * channels; ++row)
    for (std::size_t i = row * norm.positions; i < (row + 1) * norm.positions; ++i) {
      const float product = input[i] * norm.scale[row % channels];
      output[i] = product + norm.shift[row % channels];
    }
}

}  // namespace

void replace_codes(const CodeTable& entries, const std::uint8_t* input, std::uint8_t* output, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) output[i] = entries[input[i]];
}

const Kernel table = {.name = "table",
                      .isa = Isa::reference,
                      .accepts = all_codes,
                      .prepare = prepare_table,
                      .run = run_table,
                      .runs_in_place = is_elementwise};
const Kernel float_unary = {.name = "float_unary",
                            .isa = Isa::reference,
                            .accepts = all_float,
                            .prepare = prepare_float_unary,
                            .run = run_float_unary,
                            .runs_in_place = is_elementwise};
const Kernel float_binary = {.name = "float_binary",
                             .isa = Isa::reference,
                             .accepts = all_float,
                             .prepare = prepare_float_binary,
                             .run = run_float_binary,
                             .runs_in_place = is_elementwise};
const Kernel integer_binary = {.name = "integer_binary",
                               .isa = Isa::reference,
                               .accepts = all_codes,
                               .prepare = prepare_integer_binary,
                               .run = run_integer_binary,
                               .runs_in_place = is_elementwise};
const Kernel batch_norm = {.name = "batch_norm",
                           .isa = Isa::reference,
                           .accepts = all_float,
                           .prepare = prepare_batch_norm,
                           .run = run_batch_norm,
                           .runs_in_place = is_elementwise};
}  // namespace reference

}  // namespace podaq::runtime_detail
