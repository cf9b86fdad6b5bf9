#include "capture/memory.h"

#include <torch/torch.h>

#include <algorithm>
#include <optional>

namespace podaq::capture_detail {

namespace jit = torch::jit;

namespace {

bool shares(const c10::AliasInfo* a, const c10::AliasInfo* b) {
  if (a == nullptr || b == nullptr) return false;
  return std::ranges::any_of(a->beforeSets(), [&](const auto& set) { return b->beforeSets().contains(set); });
}

// The argument whose memory the node's output of that index lies in, if any.
std::optional<std::size_t> base_of(const jit::Node& node, std::size_t output) {
  if (node.kind() == c10::prim::ListUnpack || node.kind() == c10::prim::TupleUnpack) return 0;
  const c10::FunctionSchema* schema = node.maybeSchema();
  if (schema == nullptr || output >= schema->returns().size()) return std::nullopt;
  const std::string_view name = node.kind().toQualString();
  // These return their argument itself where they have nothing to do.
  if (name == "aten::dropout" || name == "aten::feature_dropout") return 0;
  const c10::AliasInfo* result = schema->returns()[output].alias_info();
  for (std::size_t i = 0; i < schema->arguments().size(); ++i)
    if (shares(result, schema->arguments()[i].alias_info())) return i;
  // A list of views, Tensor(a -> *)[].
  if (result != nullptr && result->isWildcardBefore()) return 0;
  return std::nullopt;
}

}  // namespace

std::optional<std::size_t> written_argument(const jit::Node& node) {
  const c10::FunctionSchema* schema = node.maybeSchema();
  if (schema == nullptr) return std::nullopt;
  for (std::size_t i = 0; i < schema->arguments().size(); ++i)
    if (const c10::AliasInfo* alias = schema->arguments()[i].alias_info(); alias != nullptr && alias->isWrite())
      return i;
  return std::nullopt;
}

const Memory::View& Memory::view_of(const jit::Value* value) {
  const auto [view, is_new] = views_.try_emplace(value);
  if (is_new) {
    view->second.block = blocks_.size();
    blocks_.emplace_back();
  }
  return view->second;
}

void Memory::record(const jit::Node& node) {
  if (const auto written = written_argument(node)) {
    Block& block = blocks_[view_of(node.input(*written)).block];
    ++block.writes;
    block.last_write = &node;
  }
  for (std::size_t i = 0; i < node.outputs().size(); ++i) {
    const auto base = base_of(node, i);
    if (!base || *base >= node.inputs().size()) continue;
    const std::size_t block = view_of(node.input(*base)).block;
    views_[node.output(i)] = {.block = block, .writes_seen = blocks_[block].writes};
  }
}

void Memory::check_reads(const Mapping& mapping, const jit::Node& node) const {
  for (const jit::Value* input : node.inputs()) {
    const auto view = views_.find(input);
    if (view == views_.end()) continue;
    const Block& block = blocks_[view->second.block];
    if (block.writes > view->second.writes_seen)
      refuse(mapping, *block.last_write,
             "it writes into memory that is read again through another tensor; write the result into a new tensor");
  }
}

}  // namespace podaq::capture_detail
