#include "capture/symbols.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/torch.h>

#include <algorithm>
#include <charconv>

#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/graph/verify.h"

namespace podaq::capture_detail {

namespace jit = torch::jit;

namespace {

std::string text_of(const Shape& sizes) {
  std::string text = "[";
  for (const std::int64_t size : sizes) text += concat(text.size() > 1 ? ", " : "", size);
  return text + "]";
}

// The layer whose tensor a node reads, "" for none.
std::string layer_read_by(const Mapping& mapping, const jit::Node& node) {
  for (const jit::Value* input : node.inputs())
    if (input->node()->kind() == c10::prim::GetAttr)
      return layer_of(mapping.tensors[registered_index(*input->node())].name);
  return "";
}

// "in layer 'a'" where the node reads a tensor of that layer, else the last layer before it.
std::string place_of(const Mapping& mapping, const jit::Node& node) {
  if (const std::string own = layer_read_by(mapping, node); !own.empty()) return concat("in layer '", own, "'");
  std::string last;
  for (const jit::Node* before : mapping.trace.graph->nodes()) {
    if (before == &node) break;
    if (std::string layer = layer_read_by(mapping, *before); !layer.empty()) last = std::move(layer);
  }
  return last.empty() ? "before the first layer" : concat("after layer '", last, "'");
}

template <typename Type>
Type constant(const Mapping& mapping, const jit::Node& node, const char* name, const char* kind) {
  const jit::Value* value = argument(mapping, node, name);
  const auto found = jit::toIValue(value);
  if (!found || found->isNone()) refuse(mapping, node, concat("its argument '", name, "' is not a constant ", kind));
  if constexpr (std::is_same_v<Type, double>)
    return found->toScalar().toDouble();
  else
    return found->to<Type>();
}

bool is_layer(const Mapping& mapping, const std::string& name) {
  return std::ranges::any_of(mapping.tensors,
                             [&](const RegisteredTensor& registered) { return layer_of(registered.name) == name; });
}

// `wanted` or `wanted`_2, …; a node that is no layer takes no layer's name.
std::string unique_name(Mapping& mapping, const std::string& wanted, bool names_layer) {
  std::string name = wanted;
  for (int i = 2; (!names_layer && is_layer(mapping, name)) || !mapping.names.insert(name).second; ++i)
    name = concat(wanted, "_", i);
  return name;
}

}  // namespace

const TensorReference* reference_of(const Mapping& mapping, const jit::Value* value) {
  const auto found = mapping.symbols.find(value);
  return found == mapping.symbols.end() ? nullptr : std::get_if<TensorReference>(&found->second);
}

void refuse(const Mapping& mapping, const jit::Node& node, std::string_view reason) {
  throw Error(ErrorCode::capture, concat("cannot capture ", std::string_view(node.kind().toQualString()), " ",
                                         place_of(mapping, node), ": ", reason));
}

std::string out_of_place_name(const jit::Node& node) {
  std::string name = node.kind().toQualString();
  if (name.ends_with('_') && !name.ends_with("__")) name.pop_back();
  return name;
}

std::string layer_of(const std::string& tensor) {
  const std::size_t dot = tensor.rfind('.');
  return dot == std::string::npos ? tensor : tensor.substr(0, dot);
}

std::size_t registered_index(const jit::Node& get_attribute) {
  const std::string& name = get_attribute.s(c10::attr::name);  // "t12"
  std::size_t index = 0;
  std::from_chars(name.data() + 1, name.data() + name.size(), index);
  return index;
}

Shape sizes_of(const Mapping& mapping, const jit::Node& node, const jit::Value* value) {
  const auto type = value->type()->cast<c10::TensorType>();
  const auto sizes = type ? type->sizes().concrete_sizes() : std::nullopt;
  if (!sizes) refuse(mapping, node, "the trace knows no shape of it");
  return {sizes->begin(), sizes->end()};
}

const jit::Value* argument(const Mapping& mapping, const jit::Node& node, const char* name) {
  const c10::FunctionSchema* schema = node.maybeSchema();
  const auto index = schema != nullptr ? schema->argumentIndexWithName(name) : std::nullopt;
  if (!index) refuse(mapping, node, concat("this form of it has no argument '", name, "'"));
  return node.input(static_cast<std::size_t>(*index));
}

bool is_none(const jit::Value* value) {
  const auto constant = jit::toIValue(value);
  return constant && constant->isNone();
}

ValueId value_of(const Mapping& mapping, const jit::Node& node, const jit::Value* value) {
  const auto found = mapping.symbols.find(value);
  const ValueId* id = found == mapping.symbols.end() ? nullptr : std::get_if<ValueId>(&found->second);
  if (id != nullptr) return *id;
  if (reference_of(mapping, value) != nullptr)
    refuse(mapping, node, "it works on a parameter or buffer, which only layers may read");
  refuse(mapping, node, "it reads a tensor that is neither computed from the inputs nor registered by the module");
}

std::vector<std::int64_t> integers(const Mapping& mapping, const jit::Node& node, const char* name) {
  const jit::Value* value = argument(mapping, node, name);
  if (value->node()->kind() == c10::prim::ListConstruct) {
    std::vector<std::int64_t> list;
    for (const jit::Value* element : value->node()->inputs()) {
      const auto constant = jit::toIValue(element);
      if (!constant || !constant->isInt()) refuse(mapping, node, concat("its argument '", name, "' is computed"));
      list.push_back(constant->toInt());
    }
    return list;
  }
  const auto found = jit::toIValue(value);
  if (found && found->isInt()) return {found->toInt()};
  if (found && found->isIntList()) return found->toIntVector();
  refuse(mapping, node, concat("its argument '", name, "' is not a constant list of integers"));
}

std::vector<std::int64_t> spread(std::vector<std::int64_t> attribute, std::size_t spatial) {
  if (attribute.size() == 1) attribute.resize(spatial, attribute[0]);
  return attribute;
}

std::int64_t integer(const Mapping& mapping, const jit::Node& node, const char* name) {
  return constant<std::int64_t>(mapping, node, name, "integer");
}

double number(const Mapping& mapping, const jit::Node& node, const char* name) {
  return constant<double>(mapping, node, name, "number");
}

std::optional<double> optional_number(const Mapping& mapping, const jit::Node& node, const char* name) {
  const jit::Value* value = argument(mapping, node, name);
  if (is_none(value)) return std::nullopt;
  if (const auto uniform = uniform_of(mapping, value)) return uniform;
  refuse(mapping, node, concat("its argument '", name, "' is not a constant number"));
}

bool boolean(const Mapping& mapping, const jit::Node& node, const char* name) {
  return constant<bool>(mapping, node, name, "flag");
}

std::string text(const Mapping& mapping, const jit::Node& node, const char* name) {
  return constant<std::string>(mapping, node, name, "text");
}

std::optional<double> uniform_of(const Mapping& mapping, const jit::Value* value) {
  if (const auto found = mapping.symbols.find(value); found != mapping.symbols.end())
    if (const auto* uniform = std::get_if<Uniform>(&found->second)) return uniform->value;
  const auto constant = jit::toIValue(value);
  if (!constant) return std::nullopt;
  if (constant->isDouble() || constant->isInt()) return constant->toScalar().toDouble();
  if (constant->isTensor() && constant->toTensor().defined() && constant->toTensor().numel() == 1)
    return constant->toTensor().item<double>();
  return std::nullopt;
}

std::string use_tensor(Mapping& mapping, std::size_t index) {
  const RegisteredTensor& registered = mapping.tensors[index];
  const DType dtype = at::isFloatingType(registered.tensor.scalar_type()) ? DType::f32 : DType::i32;
  const auto sizes = registered.tensor.sizes();
  mapping.graph.tensors.try_emplace(
      registered.name, Tensor{.dtype = dtype, .shape = {sizes.begin(), sizes.end()}, .bytes = {}, .scales = {}});
  return registered.name;
}

std::optional<std::string> tensor_name(Mapping& mapping, const jit::Node& node, const char* name) {
  const jit::Value* value = argument(mapping, node, name);
  if (is_none(value)) return std::nullopt;
  const TensorReference* reference = reference_of(mapping, value);
  if (reference == nullptr)
    refuse(mapping, node,
           concat("its '", name, "' is not a parameter or buffer that the module registers, but computed"));
  if (reference->transposed) refuse(mapping, node, concat("its '", name, "' is transposed"));
  return use_tensor(mapping, reference->index);
}

std::int64_t sample_axis(const Mapping& mapping, const jit::Node& node, std::int64_t dimension, std::size_t rank) {
  const std::int64_t counted = dimension < 0 ? dimension + static_cast<std::int64_t>(rank) + 1 : dimension;
  if (counted == 0) refuse(mapping, node, "it works across the batch, whose samples must stay independent");
  return counted - 1;
}

ValueId append(Mapping& mapping, const jit::Node& node, std::string_view kind, Op op, std::vector<ValueId> inputs,
               std::vector<std::string> tensors) {
  std::string name;
  for (auto tensor = tensors.begin(); tensor != tensors.end() && name.empty(); ++tensor)
    if (!tensor->empty()) name = layer_of(*tensor);
  const bool names_layer = !name.empty();
  if (names_layer)
    mapping.last_layer = name;
  else
    name = mapping.last_layer.empty() ? std::string(kind) : concat(mapping.last_layer, ".", kind);
  Node appended{.op = std::move(op),
                .name = unique_name(mapping, name, names_layer),
                .inputs = std::move(inputs),
                .tensors = std::move(tensors),
                .output = 0};
  Shape shape;
  try {
    shape = infer_shape(mapping.graph, appended);
  } catch (const Error& error) {
    refuse(mapping, node, error.what());
  }
  const bool is_taken = mapping.boundary_names.contains(appended.name);
  appended.output = add_value(mapping.graph, is_taken ? appended.name + ".value" : appended.name, std::move(shape));
  mapping.graph.nodes.push_back(std::move(appended));
  return mapping.graph.nodes.back().output;
}

void finish(Mapping& mapping, const jit::Node& node, ValueId value) {
  const Shape traced = sizes_of(mapping, node, node.output(0));
  Shape expected = {mapping.batch};
  const Shape& shape = mapping.graph.values[value].shape;
  expected.insert(expected.end(), shape.begin(), shape.end());
  if (traced != expected)
    refuse(mapping, node,
           concat("its result has shape ", text_of(traced), " where ", text_of(expected),
                  " follows from the graph; the first dimension must stay the batch"));
  const auto type = node.output(0)->type()->expect<c10::TensorType>();
  const at::Tensor& input = mapping.trace.inputs[0];
  if (type->scalarType() != input.scalar_type() || type->device() != input.device())
    refuse(mapping, node, "it changes the element type or the device");
  mapping.symbols[node.output(0)] = value;
}

}  // namespace podaq::capture_detail
