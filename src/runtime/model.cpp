#include "podaq/runtime/model.h"

#include "runtime/plan.h"
#include "runtime/tuning_file.h"

namespace podaq {

Model Model::load(const std::filesystem::path& path, const ModelOptions& options) {
  return Model(options.cache.empty() ? podaq::load(path, options.read) : load_cached(path, options.cache, options.read),
               options);
}

Model Model::from_bytes(std::span<const std::byte> bytes, const ModelOptions& options) {
  return Model(decode(bytes, options.read), options);
}

Model::Model(const Graph& graph, const ModelOptions& options)
    : plan_(std::make_shared<const runtime_detail::Plan>(runtime_detail::build_plan(
          graph, options.isa, options.sparse,
          options.sparse == SparseKernels::automatic ? runtime_detail::read_tuning(options.tuning_file)
                                                     : runtime_detail::CostCoefficients{}))) {}

const std::vector<Port>& Model::inputs() const {
  return plan_->inputs;
}

const std::vector<Port>& Model::outputs() const {
  return plan_->outputs;
}

const std::map<std::string, std::string>& Model::metadata() const {
  return plan_->metadata;
}

Isa Model::isa() const {
  return plan_->isa;
}

std::vector<KernelChoice> Model::kernels() const {
  return plan_->choices;
}

}  // namespace podaq
