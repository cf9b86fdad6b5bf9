#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <map>

#include "capture/symbols.h"

namespace podaq::capture_detail {

/// Follows which values of a trace share memory. A trace connects an in-place operation's result to later reads of
/// that very tensor only: another view of the same memory, or a base whose view was written, still stands for the old
/// contents. Such a read is stale.
class Memory {
 public:
  /// Notes the outputs of a node once it has been mapped: views share their base's memory, a write makes all values of
  /// that memory but its own output stale.
  void record(const torch::jit::Node& node);

  /// Throws Error(capture) naming the write where an input of `node` is stale.
  void check_reads(const Mapping& mapping, const torch::jit::Node& node) const;

 private:
  struct Block {
    int writes = 0;
    const torch::jit::Node* last_write = nullptr;
  };
  struct View {
    std::size_t block = 0;
    int writes_seen = 0;
  };

  const View& view_of(const torch::jit::Value* value);

  std::vector<Block> blocks_;
  std::map<const torch::jit::Value*, View> views_;
};

/// The argument that the operation writes into, if any.
[[nodiscard]] std::optional<std::size_t> written_argument(const torch::jit::Node& node);

}  // namespace podaq::capture_detail
