#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "podaq/format/cache.h"
#include "podaq/format/file.h"
#include "podaq/graph/graph.h"
#include "podaq/runtime/tuning.h"

namespace podaq {

/// The instruction sets that kernels are written for, in rising order.
enum class Isa : unsigned char {
  reference,  ///< Scalar code, the definition of every result.
  avx2,
  avxvnni,
  avx512,  ///< AVX-512 F, BW, DQ, VL and VNNI.
  amx,     ///< AMX-INT8 beside all of avx512.
};

/// The name of an instruction set, as PODAQ_FORCE_ISA spells it.
[[nodiscard]] std::string_view name_of(Isa isa);

/// The instruction set used by new models: the widest that the CPU and the operating system support, or the one named
/// by the environment variable PODAQ_FORCE_ISA (reference | avx2 | avxvnni | avx512 | amx). Throws Error(unsupported)
/// naming the missing CPU feature if the forced one cannot run here, and Error(invalid_argument) for another word.
[[nodiscard]] Isa selected_isa();

/// Whether convolutions on codes may skip zero weights. Results are the same either way.
enum class SparseKernels : unsigned char {
  automatic,  ///< Where a cost model says that the whole network gains.
  never,      ///< All convolutions run dense.
  always,     ///< Wherever a sparse kernel can compute the layer, even if that is slower. For tests and benchmarks.
};

/// How a model is prepared.
struct ModelOptions {
  ReadOptions read = {};                            ///< How the file is read.
  Isa isa = selected_isa();                         ///< Which kernels may be used.
  SparseKernels sparse = SparseKernels::automatic;  ///< Whether zero weights may be skipped.
  /// What `podaq tune` measured on this CPU, on which automatic choices between kernels are based; empty, missing or
  /// of another CPU or version: the defaults that the library ships. Results are the same either way.
  std::filesystem::path tuning_file = selected_tuning_file();
  /// Where `Model::load` keeps the decoded file, so that later starts need not decode it (`load_cached` says how):
  /// `cache_beside(path)` or any other place; empty: nowhere, and nothing is written.
  std::filesystem::path cache = {};
};

/// One named input or output of a model.
struct Port {
  std::string name;  ///< As captured.
  Shape shape;       ///< Per sample.
  /// Elements per sample.
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(element_count(shape)); }
};

/// What a kernel list chose for one node.
struct KernelChoice {
  std::string node;           ///< The node's name.
  std::string op;             ///< The op's name.
  std::string kernel;         ///< The kernel's name.
  std::string reason;         ///< Why that one, for a person to read.
  double estimated_us = 0.0;  ///< Estimated time of one sample in microseconds, what it absorbed included; 0: none.
};

namespace runtime_detail {
struct Plan;
}

/// A network ready to run: verified, decoded, kernels chosen, weights packed. Immutable; share it between threads
/// freely. Copies share the packed network.
class Model {
 public:
  /// Loads the file at `path`.
  [[nodiscard]] static Model load(const std::filesystem::path& path, const ModelOptions& options = {});
  /// Loads the bytes of a file.
  [[nodiscard]] static Model from_bytes(std::span<const std::byte> bytes, const ModelOptions& options = {});
  /// Takes a converted (or any float) graph.
  explicit Model(const Graph& graph, const ModelOptions& options = {});

  /// Inputs, in the captured order.
  [[nodiscard]] const std::vector<Port>& inputs() const;
  /// Outputs, in the captured order.
  [[nodiscard]] const std::vector<Port>& outputs() const;
  /// The file's metadata: class labels, producer, recipe hash.
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const;
  /// The instruction set that kernels were chosen for.
  [[nodiscard]] Isa isa() const;
  /// The kernel of each node, in execution order; a node that a neighbour's kernel absorbed lists that one.
  [[nodiscard]] std::vector<KernelChoice> kernels() const;

 private:
  friend class Runner;
  std::shared_ptr<const runtime_detail::Plan> plan_;
};

}  // namespace podaq
