#include <algorithm>
#include <bit>
#include <limits>
#include <set>

#include "format/graph_table.h"
#include "format/podaq_generated.h"

namespace podaq::format {
namespace {

using flatbuffers::Offset;
using Builder = flatbuffers::FlatBufferBuilder;
using Dimensions = std::vector<std::int64_t>;

[[noreturn]] void refuse(std::string_view what, std::string_view name, std::string_view problem) {
  throw Error(ErrorCode::graph, concat(what, " '", name, "' cannot be stored: ", problem));
}

std::uint32_t to_stored(std::int64_t number, const std::string& name) {
  if (number < 0 || number > std::numeric_limits<std::uint32_t>::max())
    refuse("node", name, concat("the number ", number, " is outside 0 to 2^32 - 1"));
  return static_cast<std::uint32_t>(number);
}

// Null where the dimensions are the ones that a reader assumes.
struct DimensionWriter {
  Builder& builder;
  const std::string& name;

  Offset<flatbuffers::Vector<std::uint32_t>> all(const Dimensions& dimensions) const {
    std::vector<std::uint32_t> stored;
    for (const std::int64_t size : dimensions) stored.push_back(to_stored(size, name));
    return builder.CreateVector(stored);
  }
  Offset<flatbuffers::Vector<std::uint32_t>> unless(const Dimensions& dimensions, const Dimensions& assumed) const {
    return dimensions == assumed ? 0 : all(dimensions);
  }
};

schema::Clamp to_struct(const Clamp& clamp) {
  return {clamp.minimum, clamp.maximum};
}

// Writes an op's table; an overload for each op.
struct OpWriter {
  Builder& builder;
  DimensionWriter dimensions;

  Offset<void> operator()(const Conv& op) const {
    const std::size_t spatial = op.stride.size();
    const auto stride = dimensions.unless(op.stride, Dimensions(spatial, 1));
    const auto pads_begin = dimensions.unless(op.pads_begin, Dimensions(spatial, 0));
    const auto pads_end = dimensions.unless(op.pads_end, op.pads_begin);
    const auto dilation = dimensions.unless(op.dilation, Dimensions(spatial, 1));
    const auto clamp = to_struct(op.clamp.value_or(Clamp{}));
    return schema::CreateConv(builder, static_cast<std::uint8_t>(spatial), stride, pads_begin, pads_end, dilation,
                              to_stored(op.groups, dimensions.name), op.adds_input, op.clamp ? &clamp : nullptr)
        .Union();
  }
  Offset<void> operator()(const Linear& op) const {
    const auto clamp = to_struct(op.clamp.value_or(Clamp{}));
    return schema::CreateLinear(builder, op.adds_input, op.clamp ? &clamp : nullptr).Union();
  }
  Offset<void> operator()(const BatchNorm& op) const {
    const auto momentum = op.momentum ? flatbuffers::Optional<double>(*op.momentum) : flatbuffers::nullopt;
    return schema::CreateBatchNorm(builder, op.epsilon, momentum).Union();
  }
  Offset<void> operator()(const Clamp& op) const {
    const auto clamp = to_struct(op);
    return schema::CreateClampOp(builder, &clamp).Union();
  }
  Offset<void> operator()(const MaxPool& op) const {
    const std::size_t spatial = op.kernel.size();
    const auto kernel = dimensions.all(op.kernel);
    const auto stride = dimensions.unless(op.stride, op.kernel);
    const auto pads_begin = dimensions.unless(op.pads_begin, Dimensions(spatial, 0));
    const auto pads_end = dimensions.unless(op.pads_end, op.pads_begin);
    const auto dilation = dimensions.unless(op.dilation, Dimensions(spatial, 1));
    return schema::CreateMaxPool(builder, kernel, stride, pads_begin, pads_end, dilation).Union();
  }
  Offset<void> operator()(const AvgPool& op) const {
    const auto kernel = dimensions.all(op.kernel);
    const auto stride = dimensions.unless(op.stride, op.kernel);
    const auto pads_begin = dimensions.unless(op.pads_begin, Dimensions(op.kernel.size(), 0));
    const auto pads_end = dimensions.unless(op.pads_end, op.pads_begin);
    return schema::CreateAvgPool(builder, kernel, stride, pads_begin, pads_end, op.count_padding).Union();
  }
  Offset<void> operator()(const AdaptivePool& op) const {
    const auto kind = op.kind == AdaptivePool::Kind::max ? schema::PoolKind::max : schema::PoolKind::mean;
    return schema::CreateAdaptivePool(builder, kind, dimensions.all(op.output_size)).Union();
  }
  Offset<void> operator()(const GlobalMean&) const { return schema::CreateGlobalMean(builder).Union(); }
  Offset<void> operator()(const GlobalMax&) const { return schema::CreateGlobalMax(builder).Union(); }
  Offset<void> operator()(const Add& op) const {
    const auto clamp = to_struct(op.clamp.value_or(Clamp{}));
    return schema::CreateAdd(builder, op.clamp ? &clamp : nullptr).Union();
  }
  Offset<void> operator()(const Mul&) const { return schema::CreateMul(builder).Union(); }
  Offset<void> operator()(const Affine& op) const {
    return schema::CreateAffine(builder, op.factor, op.offset).Union();
  }
  Offset<void> operator()(const Concat& op) const {
    return schema::CreateConcat(builder, to_stored(op.axis, dimensions.name)).Union();
  }
  Offset<void> operator()(const Reshape& op) const {
    return schema::CreateReshape(builder, dimensions.all(op.shape)).Union();
  }
  Offset<void> operator()(const Activation& op) const {
    const bool is_zero = std::bit_cast<std::uint32_t>(op.alpha) == 0;
    const auto alpha = is_zero ? flatbuffers::nullopt : flatbuffers::Optional<float>(op.alpha);
    return schema::CreateActivation(builder, static_cast<schema::ActivationKind>(op.kind), alpha).Union();
  }
  Offset<void> operator()(const Softmax& op) const {
    return schema::CreateSoftmax(builder, to_stored(op.axis, dimensions.name), op.logarithm).Union();
  }
  Offset<void> operator()(const Dropout& op) const { return schema::CreateDropout(builder, op.p, op.channels).Union(); }
  Offset<void> operator()(const Quantize&) const { return schema::CreateQuantize(builder).Union(); }
  Offset<void> operator()(const Dequantize&) const { return schema::CreateDequantize(builder).Union(); }
};

// The union's tags are numbered as the variant's alternatives, one later.
schema::Op tag_of(const Op& op) {
  return static_cast<schema::Op>(op.index() + 1);
}
static_assert(std::variant_size_v<Op> == static_cast<std::size_t>(schema::Op::MAX));
static_assert(static_cast<std::size_t>(schema::ActivationKind::MAX) ==
              static_cast<std::size_t>(ActivationKind::gelu_tanh));

std::string shorten(const std::string& tensor, const std::string& node) {
  if (tensor.starts_with(node)) return concat("&", std::string_view(tensor).substr(node.size()));
  return tensor.starts_with('&') || tensor.starts_with('=') ? concat("=", tensor) : tensor;
}

// The number of each value in the file, by its id: inputs first, then one per node.
std::vector<std::uint32_t> number_values(const Graph& graph) {
  constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  std::vector<std::uint32_t> numbers(graph.values.size(), none);
  std::uint32_t next = 0;
  for (const ValueId input : graph.inputs) numbers[input] = next++;
  for (const Node& node : graph.nodes) numbers[node.output] = next++;
  for (std::size_t id = 0; id < numbers.size(); ++id)
    if (numbers[id] == none)
      refuse("value", graph.values[id].name, "it is neither an input nor computed by a node; call remove_unused first");
  return numbers;
}

template <typename Range, typename Write>
auto write_all(Builder& builder, const Range& range, Write write) {
  std::vector<decltype(write(*range.begin()))> offsets;
  for (const auto& element : range) offsets.push_back(write(element));
  return builder.CreateVector(offsets);
}

class TableWriter {
 public:
  TableWriter(const Graph& graph, std::span<const StoredTensor> stored)
      : graph_(graph), numbers_(number_values(graph)) {
    for (const StoredTensor& tensor : stored) stored_.emplace(tensor.name, tensor);
  }

  Bytes write() {
    const auto inputs =
        write_all(builder_, graph_.inputs, [this](ValueId id) { return write_input(graph_.values[id]); });
    const auto nodes = write_all(builder_, graph_.nodes, [this](const Node& node) { return write_node(node); });
    const auto outputs = write_all(builder_, graph_.outputs, [this](ValueId id) { return write_output(id); });
    const auto ids = write_ids();
    const auto metadata = graph_.metadata.empty() ? 0 : write_all(builder_, graph_.metadata, [this](const auto& entry) {
      const auto key = builder_.CreateString(entry.first);
      return schema::CreateEntry(builder_, key, builder_.CreateString(entry.second));
    });
    builder_.Finish(schema::CreateGraph(builder_, inputs, nodes, outputs, ids, metadata));
    const auto bytes = std::as_bytes(std::span(builder_.GetBufferPointer(), builder_.GetSize()));
    return {bytes.begin(), bytes.end()};
  }

 private:
  Offset<schema::Input> write_input(const Value& value) {
    const auto name = builder_.CreateString(value.name);
    return schema::CreateInput(builder_, name, DimensionWriter{builder_, value.name}.all(value.shape));
  }

  Offset<schema::Output> write_output(ValueId id) {
    const std::string& name = graph_.values[id].name;
    const bool is_named_after_node = producer(graph_, id)->name == name;
    return schema::CreateOutput(builder_, is_named_after_node ? 0 : builder_.CreateString(name), numbers_[id]);
  }

  Offset<schema::Tensor> write_tensor(const std::string& name, const Node& node) {
    if (name.empty()) return schema::CreateTensor(builder_);
    const auto short_name = builder_.CreateString(shorten(name, node.name));
    if (!described_.insert(name).second) return schema::CreateTensor(builder_, short_name);
    const Tensor& tensor = graph_.tensors.at(name);
    if (tensor.bits < 0 || tensor.bits > 255) refuse("tensor", name, concat(tensor.bits, " bits"));
    const auto scales = tensor.scales.empty()       ? schema::Scales::none
                        : tensor.scales.size() == 1 ? schema::Scales::one
                                                    : schema::Scales::per_channel;
    return schema::CreateTensor(builder_, short_name, static_cast<schema::DType>(tensor.dtype),
                                DimensionWriter{builder_, name}.all(tensor.shape),
                                static_cast<std::uint8_t>(tensor.bits), scales, stored_.at(name).masked);
  }

  Offset<schema::Node> write_node(const Node& node) {
    const auto op = std::visit(OpWriter{builder_, {builder_, node.name}}, node.op);
    const auto name = builder_.CreateString(node.name);
    const std::uint32_t number = numbers_[node.output];
    std::vector<std::uint32_t> distances;
    for (const ValueId input : node.inputs) distances.push_back(number - numbers_[input]);
    const auto inputs = distances == std::vector<std::uint32_t>{1} ? 0 : builder_.CreateVector(distances);
    const auto tensors = node.tensors.empty() ? 0 : write_all(builder_, node.tensors, [&](const std::string& tensor) {
      return write_tensor(tensor, node);
    });
    const auto& qparams = graph_.values[node.output].qparams;
    const QParams chosen = qparams.value_or(QParams{});
    const schema::QParams codes(chosen.scale, static_cast<std::uint8_t>(chosen.zero_point),
                                static_cast<std::uint8_t>(chosen.lowest), static_cast<std::uint8_t>(chosen.highest));
    return schema::CreateNode(builder_, tag_of(node.op), op, name, inputs, tensors, qparams ? &codes : nullptr);
  }

  Offset<flatbuffers::Vector<std::uint32_t>> write_ids() {
    std::vector<std::uint32_t> ids(numbers_.size());
    for (std::size_t id = 0; id < ids.size(); ++id) ids[numbers_[id]] = static_cast<std::uint32_t>(id);
    return std::is_sorted(ids.begin(), ids.end()) ? 0 : builder_.CreateVector(ids);
  }

  const Graph& graph_;
  std::vector<std::uint32_t> numbers_;
  std::map<std::string, StoredTensor> stored_;
  std::set<std::string> described_;
  Builder builder_;
};

}  // namespace

std::vector<StoredTensor> tensors_in_order(const Graph& graph) {
  std::vector<StoredTensor> stored;
  std::set<std::string> seen;
  for (const Node& node : graph.nodes)
    for (const std::string& name : node.tensors) {
      if (name.empty() || !seen.insert(name).second) continue;
      const Tensor& tensor = tensor_at(graph, name);
      stored.push_back({.name = name, .masked = is_worth_masking(tensor), .scale_count = tensor.scales.size()});
    }
  for (const auto& [name, tensor] : graph.tensors)
    if (!seen.contains(name)) refuse("tensor", name, "no node uses it; call remove_unused first");
  return stored;
}

Bytes write_graph_table(const Graph& graph, std::span<const StoredTensor> stored) {
  return TableWriter(graph, stored).write();
}

}  // namespace podaq::format
