// Reshapes, concatenation, copies, constants.
#include <torch/torch.h>

#include <array>
#include <numeric>

#include "capture/mapping.h"
#include "podaq/core/text.h"

namespace podaq::capture_detail {

namespace jit = torch::jit;

namespace {

// Any operation that keeps the elements' row-major order: what it does shows in the shapes of the trace.
void map_reshape(Mapping& mapping, const jit::Node& node) {
  const ValueId input = value_of(mapping, node, node.input(0));
  const Shape traced = sizes_of(mapping, node, node.output(0));
  if (traced.empty() || traced[0] != mapping.batch)
    refuse(mapping, node,
           concat("it does not keep the batch of ", mapping.batch,
                  " as the first dimension; is a batch size written into it as a number?"));
  Shape shape(traced.begin() + 1, traced.end());
  if (shape == mapping.graph.values[input].shape) {
    finish(mapping, node, input);
    return;
  }
  finish(mapping, node, append(mapping, node, "reshape", Reshape{.shape = std::move(shape)}, {input}));
}

// A permutation is a reshape where it moves dimensions of size 1 only.
void map_permutation(Mapping& mapping, const jit::Node& node, const std::vector<std::int64_t>& order) {
  const Shape sizes = sizes_of(mapping, node, node.input(0));
  std::int64_t last = 0;
  bool keeps_order = !order.empty() && order[0] == 0;
  for (const std::int64_t dimension : order) {
    if (sizes.at(static_cast<std::size_t>(dimension)) == 1) continue;
    keeps_order = keeps_order && dimension >= last;
    last = dimension;
  }
  if (!keeps_order) refuse(mapping, node, "a transposition that reorders elements is not supported");
  map_reshape(mapping, node);
}

std::int64_t from_front(std::int64_t dimension, std::size_t rank) {
  return dimension < 0 ? dimension + static_cast<std::int64_t>(rank) : dimension;
}

void map_transpose(Mapping& mapping, const jit::Node& node) {
  const std::size_t rank = sizes_of(mapping, node, node.input(0)).size();
  std::vector<std::int64_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  std::swap(order.at(static_cast<std::size_t>(from_front(integer(mapping, node, "dim0"), rank))),
            order.at(static_cast<std::size_t>(from_front(integer(mapping, node, "dim1"), rank))));
  map_permutation(mapping, node, order);
}

void map_permute(Mapping& mapping, const jit::Node& node) {
  const std::size_t rank = sizes_of(mapping, node, node.input(0)).size();
  std::vector<std::int64_t> order = integers(mapping, node, "dims");
  for (std::int64_t& dimension : order) dimension = from_front(dimension, rank);
  map_permutation(mapping, node, order);
}

// Copies and conversions that change nothing; `finish` refuses another element type, device or shape.
void map_identity(Mapping& mapping, const jit::Node& node) {
  finish(mapping, node, value_of(mapping, node, node.input(0)));
}

void map_concat(Mapping& mapping, const jit::Node& node) {
  const jit::Node& list = *argument(mapping, node, "tensors")->node();
  if (list.kind() != c10::prim::ListConstruct) refuse(mapping, node, "its list of tensors is computed");
  std::vector<ValueId> inputs;
  for (const jit::Value* element : list.inputs()) inputs.push_back(value_of(mapping, node, element));
  const std::size_t rank = mapping.graph.values[inputs.at(0)].shape.size();
  const Concat joined{.axis = sample_axis(mapping, node, integer(mapping, node, "dim"), rank)};
  finish(mapping, node, append(mapping, node, "concat", joined, std::move(inputs)));
}

// Tensors of one constant, which arithmetic with numbers leaves in a trace ("1 - x").
void set_uniform(Mapping& mapping, const jit::Node& node, double value) {
  mapping.symbols[node.output(0)] = Uniform{.value = value};
}

void map_full(Mapping& mapping, const jit::Node& node) {
  set_uniform(mapping, node, number(mapping, node, "fill_value"));
}
void map_scalar_tensor(Mapping& mapping, const jit::Node& node) {
  set_uniform(mapping, node, number(mapping, node, "s"));
}
void map_ones(Mapping& mapping, const jit::Node& node) {
  set_uniform(mapping, node, 1.0);
}
void map_zeros(Mapping& mapping, const jit::Node& node) {
  set_uniform(mapping, node, 0.0);
}

// Memory without contents: of use only once it is filled.
void map_empty(Mapping& mapping, const jit::Node& node) {
  mapping.symbols[node.output(0)] = std::monostate();
}

void map_fill(Mapping& mapping, const jit::Node& node) {
  const auto value = uniform_of(mapping, argument(mapping, node, "value"));
  if (!value) refuse(mapping, node, "its value is computed");
  set_uniform(mapping, node, *value);
}

}  // namespace

std::span<const Rule> shape_rules() {
  static constexpr std::array rules = {
      Rule{"aten::view", map_reshape},
      Rule{"aten::reshape", map_reshape},
      Rule{"aten::flatten", map_reshape},
      Rule{"aten::unflatten", map_reshape},
      Rule{"aten::squeeze", map_reshape},
      Rule{"aten::unsqueeze", map_reshape},
      Rule{"aten::view_as", map_reshape},
      Rule{"aten::reshape_as", map_reshape},
      Rule{"aten::_unsafe_view", map_reshape},
      Rule{"aten::transpose", map_transpose},
      Rule{"aten::permute", map_permute},
      Rule{"aten::contiguous", map_identity},
      Rule{"aten::to", map_identity},
      Rule{"aten::clone", map_identity},
      Rule{"aten::alias", map_identity},
      Rule{"aten::expand", map_identity},
      Rule{"aten::cat", map_concat},
      Rule{"aten::full", map_full},
      Rule{"aten::full_like", map_full},
      Rule{"aten::scalar_tensor", map_scalar_tensor},
      Rule{"aten::ones", map_ones},
      Rule{"aten::ones_like", map_ones},
      Rule{"aten::zeros", map_zeros},
      Rule{"aten::zeros_like", map_zeros},
      Rule{"aten::empty", map_empty},
      Rule{"aten::empty_like", map_empty},
      Rule{"aten::fill", map_fill},
      Rule{"aten::zero", map_zeros},
  };
  return rules;
}

}  // namespace podaq::capture_detail
