#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "format/graph_table.h"
#include "format/podaq_generated.h"
#include "podaq/graph/verify.h"

namespace podaq::format {
namespace {

using Dimensions = std::vector<std::int64_t>;
using StoredDimensions = flatbuffers::Vector<std::uint32_t>;

constexpr std::string_view where = "section 'graph'";

// Limits that `verify` sets too, but that must hold before, or a small table could describe a huge graph: a shape is
// copied from node to node, a node's name into the names of its tensors.
constexpr std::size_t largest_rank = 8;
constexpr std::size_t most_tensors = 8;

[[noreturn]] void fail_at(std::string_view node, std::string_view problem) {
  fail(where, concat("node '", node, "': ", problem));
}

template <typename Shaped>
void check_rank(const Shaped& shape, std::string_view name) {
  if (shape.size() > largest_rank) fail_at(name, concat("rank ", shape.size(), " exceeds ", largest_rank));
}

Dimensions read_all(const StoredDimensions& stored) {
  return {stored.begin(), stored.end()};
}

Dimensions read_or(const StoredDimensions* stored, const Dimensions& assumed) {
  return stored == nullptr ? assumed : read_all(*stored);
}

std::optional<Clamp> read_clamp(const schema::Clamp* clamp) {
  if (clamp == nullptr) return std::nullopt;
  return Clamp{clamp->minimum(), clamp->maximum()};
}

template <typename Number>
Number need(const flatbuffers::Optional<Number>& number, std::string_view node, std::string_view attribute) {
  if (!number.has_value()) fail_at(node, concat(attribute, " is missing"));
  return *number;
}

Op read_conv(const schema::Conv& table) {
  const std::size_t spatial = table.spatial();
  Conv op;
  op.stride = read_or(table.stride(), Dimensions(spatial, 1));
  op.pads_begin = read_or(table.pads_begin(), Dimensions(spatial, 0));
  op.pads_end = read_or(table.pads_end(), op.pads_begin);
  op.dilation = read_or(table.dilation(), Dimensions(spatial, 1));
  op.groups = table.groups();
  op.adds_input = table.adds_input();
  op.clamp = read_clamp(table.clamp());
  return op;
}

Op read_max_pool(const schema::MaxPool& table) {
  MaxPool op;
  op.kernel = read_all(*table.kernel());
  op.stride = read_or(table.stride(), op.kernel);
  op.pads_begin = read_or(table.pads_begin(), Dimensions(op.kernel.size(), 0));
  op.pads_end = read_or(table.pads_end(), op.pads_begin);
  op.dilation = read_or(table.dilation(), Dimensions(op.kernel.size(), 1));
  return op;
}

Op read_avg_pool(const schema::AvgPool& table) {
  AvgPool op;
  op.kernel = read_all(*table.kernel());
  op.stride = read_or(table.stride(), op.kernel);
  op.pads_begin = read_or(table.pads_begin(), Dimensions(op.kernel.size(), 0));
  op.pads_end = read_or(table.pads_end(), op.pads_begin);
  op.count_padding = table.count_padding();
  return op;
}

Op read_batch_norm(const schema::BatchNorm& table, std::string_view name) {
  BatchNorm op{.epsilon = need(table.epsilon(), name, "epsilon"), .momentum = std::nullopt};
  if (const auto momentum = table.momentum(); momentum.has_value()) op.momentum = *momentum;
  return op;
}

Op read_op(const schema::Node& node, std::string_view name) {
  switch (node.op_type()) {
    case schema::Op::Conv:
      return read_conv(*node.op_as_Conv());
    case schema::Op::Linear:
      return Linear{node.op_as_Linear()->adds_input(), read_clamp(node.op_as_Linear()->clamp())};
    case schema::Op::BatchNorm:
      return read_batch_norm(*node.op_as_BatchNorm(), name);
    case schema::Op::ClampOp:
      return *read_clamp(node.op_as_ClampOp()->clamp());
    case schema::Op::MaxPool:
      return read_max_pool(*node.op_as_MaxPool());
    case schema::Op::AvgPool:
      return read_avg_pool(*node.op_as_AvgPool());
    case schema::Op::AdaptivePool: {
      const schema::AdaptivePool& table = *node.op_as_AdaptivePool();
      if (table.kind() > schema::PoolKind::MAX) fail_at(name, "its kind of pooling is unknown");
      return AdaptivePool{static_cast<AdaptivePool::Kind>(table.kind()), read_all(*table.output_size())};
    }
    case schema::Op::GlobalMean:
      return GlobalMean{};
    case schema::Op::GlobalMax:
      return GlobalMax{};
    case schema::Op::Add:
      return Add{read_clamp(node.op_as_Add()->clamp())};
    case schema::Op::Mul:
      return Mul{};
    case schema::Op::Affine:
      return Affine{need(node.op_as_Affine()->factor(), name, "factor"),
                    need(node.op_as_Affine()->offset(), name, "offset")};
    case schema::Op::Concat:
      return Concat{node.op_as_Concat()->axis()};
    case schema::Op::Reshape:
      return Reshape{read_all(*node.op_as_Reshape()->shape())};
    case schema::Op::Activation: {
      const schema::Activation& table = *node.op_as_Activation();
      if (table.kind() > schema::ActivationKind::MAX) fail_at(name, "its activation is unknown");
      return Activation{static_cast<ActivationKind>(table.kind()), table.alpha().has_value() ? *table.alpha() : 0.0F};
    }
    case schema::Op::Softmax:
      return Softmax{node.op_as_Softmax()->axis(), node.op_as_Softmax()->logarithm()};
    case schema::Op::Dropout:
      return Dropout{need(node.op_as_Dropout()->p(), name, "p"), node.op_as_Dropout()->channels()};
    case schema::Op::Quantize:
      return Quantize{};
    case schema::Op::Dequantize:
      return Dequantize{};
    case schema::Op::NONE:
      break;
  }
  fail_at(name, concat("op ", static_cast<int>(node.op_type()), " is unknown to this version of podaq"));
}

std::string lengthen(std::string_view stored, std::string_view node) {
  if (stored.starts_with('&')) return concat(node, stored.substr(1));
  return std::string(stored.starts_with('=') ? stored.substr(1) : stored);
}

class TableReader {
 public:
  TableReader(const schema::Graph& table, std::size_t table_bytes) : table_(table), budget_(table_bytes) {}

  GraphTable read() {
    for (const auto* input : *table_.inputs()) read_input(*input);
    for (const auto* node : *table_.nodes()) read_node(*node);
    for (const auto* output : *table_.outputs()) read_output(*output);
    name_values();
    if (table_.ids() != nullptr) renumber();
    if (table_.metadata() != nullptr) read_metadata();
    return std::move(result_);
  }

 private:
  // The verifier lets two places share one object, so a small table could describe a huge graph. Ours never share, so
  // each object is charged with what it must take at least.
  void charge(std::size_t bytes) {
    if (bytes > budget_) fail(where, "its objects are larger than the section; they are shared where they must not be");
    budget_ -= bytes;
  }
  // A place in a list of objects, an object's own first word, an offset, or the length of a list or a text.
  void charge_words(std::size_t count) { charge(count * sizeof(flatbuffers::uoffset_t)); }
  void charge(const StoredDimensions* stored) {
    if (stored != nullptr) charge(sizeof(std::uint32_t) * stored->size());
  }

  std::string_view read_text(const flatbuffers::String* text) {
    if (text == nullptr) return {};
    charge_words(1);
    charge(text->size());
    return {text->c_str(), text->size()};
  }

  void read_input(const schema::Input& input) {
    charge_words(5);  // Two required fields' offsets, the shape's length.
    charge(input.shape());
    const std::string_view name = read_text(input.name());
    check_rank(*input.shape(), name);
    Graph& graph = result_.graph;
    graph.inputs.push_back(static_cast<ValueId>(graph.values.size()));
    graph.values.push_back({.name = std::string(name), .shape = read_all(*input.shape()), .qparams = {}});
    take(name);
  }

  void charge_op(const schema::Node& node) {
    if (const auto* conv = node.op_as_Conv())
      for (const auto* stored : {conv->stride(), conv->pads_begin(), conv->pads_end(), conv->dilation()})
        charge(stored);
    if (const auto* pool = node.op_as_MaxPool())
      for (const auto* stored :
           {pool->kernel(), pool->stride(), pool->pads_begin(), pool->pads_end(), pool->dilation()})
        charge(stored);
    if (const auto* pool = node.op_as_AvgPool())
      for (const auto* stored : {pool->kernel(), pool->stride(), pool->pads_begin(), pool->pads_end()}) charge(stored);
    if (const auto* pool = node.op_as_AdaptivePool()) charge(pool->output_size());
    if (const auto* reshape = node.op_as_Reshape()) charge(reshape->shape());
  }

  void read_node(const schema::Node& stored) {
    charge_words(4);  // Its op's offset and first word.
    charge_op(stored);
    Graph& graph = result_.graph;
    Node node;
    node.name = read_text(stored.name());
    node.op = read_op(stored, node.name);
    node.output = static_cast<ValueId>(graph.values.size());
    node.inputs = read_edges(stored.inputs(), node);
    if (!node_names_.insert(node.name).second) fail_at(node.name, "the name is used twice");
    if (stored.tensors() != nullptr && stored.tensors()->size() > most_tensors)
      fail_at(node.name, concat("it has ", stored.tensors()->size(), " tensors, more than any op"));
    if (stored.tensors() != nullptr)
      for (const auto* tensor : *stored.tensors()) node.tensors.push_back(read_tensor(*tensor, node.name));
    Value value;
    value.shape = infer_shape(graph, node);
    check_rank(value.shape, node.name);
    if (const auto* codes = stored.qparams())
      value.qparams = QParams{codes->scale(), codes->zero_point(), codes->lowest(), codes->highest()};
    graph.values.push_back(std::move(value));
    graph.nodes.push_back(std::move(node));
  }

  std::vector<ValueId> read_edges(const StoredDimensions* distances, const Node& node) {
    charge(distances);
    std::vector<ValueId> inputs;
    for (const std::int64_t distance : read_or(distances, {1})) {
      if (distance < 1 || distance > node.output)
        fail_at(node.name, concat("an input lies ", distance, " values back, there are ", node.output, " before it"));
      inputs.push_back(static_cast<ValueId>(node.output - distance));
    }
    return inputs;
  }

  std::string read_tensor(const schema::Tensor& stored, const std::string& node) {
    charge_words(2);
    charge(stored.shape());
    const std::string_view short_name = read_text(stored.name());
    if (short_name.empty()) return {};
    std::string name = lengthen(short_name, node);
    const bool is_known = result_.graph.tensors.contains(name);
    if (stored.shape() == nullptr) {
      if (!is_known) fail_at(node, concat("tensor '", name, "' is not described"));
      return name;
    }
    if (is_known) fail_at(node, concat("tensor '", name, "' is described twice"));
    describe_tensor(stored, name);
    return name;
  }

  void describe_tensor(const schema::Tensor& stored, const std::string& name) {
    if (stored.dtype() > schema::DType::MAX) fail(where, concat("tensor '", name, "': its dtype is unknown"));
    if (stored.scales() > schema::Scales::MAX)
      fail(where, concat("tensor '", name, "': its kind of scales is unknown"));
    Tensor tensor{.dtype = static_cast<DType>(stored.dtype()),
                  .shape = read_all(*stored.shape()),
                  .bytes = {},
                  .scales = {},
                  .bits = stored.bits()};
    if (element_count(tensor.shape) < 0) fail(where, concat("tensor '", name, "': its size overflows"));
    if (stored.scales() == schema::Scales::per_channel && tensor.shape.empty())
      fail(where, concat("tensor '", name, "': it has scales per channel, but no channels"));
    const std::size_t scale_count = stored.scales() == schema::Scales::none ? 0
                                    : stored.scales() == schema::Scales::one
                                        ? 1
                                        : static_cast<std::size_t>(tensor.shape[0]);
    result_.tensors.push_back({.name = name, .masked = stored.masked(), .scale_count = scale_count});
    result_.graph.tensors.emplace(name, std::move(tensor));
  }

  void read_output(const schema::Output& stored) {
    charge_words(2);
    Graph& graph = result_.graph;
    const std::size_t inputs = graph.inputs.size();
    if (stored.value() < inputs || stored.value() >= graph.values.size())
      fail(where, concat("an output is value ", stored.value(), ", which no node computes"));
    Value& value = graph.values[stored.value()];
    value.name = stored.name() == nullptr ? graph.nodes[stored.value() - inputs].name : read_text(stored.name());
    take(value.name);
    graph.outputs.push_back(stored.value());
  }

  // Names every value that is neither input nor output after its node, behind which underscores avoid a name taken.
  void name_values() {
    Graph& graph = result_.graph;
    const std::set<ValueId> outputs(graph.outputs.begin(), graph.outputs.end());
    for (const Node& node : graph.nodes) {
      if (outputs.contains(node.output)) continue;
      graph.values[node.output].name = node.name;
      graph.values[node.output].name.append(take_extended(node.name), '_');
    }
  }

  // Long runs of underscores are counted, not compared: names of little else would be tried for minutes.
  struct SplitName {
    std::string stem;
    std::size_t underscores = 0;
  };

  static SplitName split(std::string_view name) {
    const std::size_t stem_size = name.find_last_not_of('_') + 1;
    return {.stem = std::string(name.substr(0, stem_size)), .underscores = name.size() - stem_size};
  }

  void take(std::string_view name) {
    const SplitName split_name = split(name);
    underscores_taken_[split_name.stem].insert(split_name.underscores);
  }

  // Takes the first name not taken that `name` and underscores give, and says how many those are.
  std::size_t take_extended(std::string_view name) {
    const SplitName split_name = split(name);
    std::set<std::size_t>& taken = underscores_taken_[split_name.stem];
    std::size_t underscores = split_name.underscores;
    auto next = taken.lower_bound(underscores);
    for (; next != taken.end() && *next == underscores; ++next) ++underscores;
    taken.insert(next, underscores);
    return underscores - split_name.underscores;
  }

  void renumber() {
    Graph& graph = result_.graph;
    const StoredDimensions& ids = *table_.ids();
    std::vector<bool> taken(graph.values.size(), false);
    if (ids.size() != taken.size()) fail(where, concat(ids.size(), " ids for ", taken.size(), " values"));
    for (const std::uint32_t id : ids) {
      if (id >= taken.size() || taken[id]) fail(where, concat("id ", id, " is out of range or taken twice"));
      taken[id] = true;
    }
    std::vector<Value> values(graph.values.size());
    for (std::uint32_t number = 0; number < ids.size(); ++number)
      values[ids.Get(number)] = std::move(graph.values[number]);
    graph.values = std::move(values);
    for (std::vector<ValueId>* list : {&graph.inputs, &graph.outputs})
      for (ValueId& id : *list) id = ids.Get(id);
    for (Node& node : graph.nodes) {
      for (ValueId& id : node.inputs) id = ids.Get(id);
      node.output = ids.Get(node.output);
    }
  }

  void read_metadata() {
    auto& metadata = result_.graph.metadata;
    for (const auto* entry : *table_.metadata()) {
      charge_words(4);
      const std::string_view key = read_text(entry->key());
      if (!metadata.empty() && key <= metadata.rbegin()->first)
        fail(where, concat("metadata key '", key, "' is a duplicate or out of order"));
      metadata.emplace_hint(metadata.end(), key, read_text(entry->text()));
    }
  }

  const schema::Graph& table_;
  std::size_t budget_;
  GraphTable result_;
  std::set<std::string> node_names_;
  std::map<std::string, std::set<std::size_t>> underscores_taken_;  // By what stands before them in a value's name.
};

}  // namespace

GraphTable read_graph_table(std::span<const std::byte> table) {
  constexpr flatbuffers::uoffset_t deepest = 8;
  const auto most_tables = static_cast<flatbuffers::uoffset_t>(table.size() / sizeof(flatbuffers::uoffset_t) + 1);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(table.data());
  flatbuffers::Verifier verifier(bytes, table.size(), deepest, most_tables);
  if (!schema::VerifyGraphBuffer(verifier)) fail(where, "its FlatBuffers table is malformed");
  return TableReader(*schema::GetGraph(bytes), table.size()).read();
}

}  // namespace podaq::format
