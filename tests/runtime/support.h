#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "podaq/core/cpu.h"
#include "podaq/runtime.h"
#include "runtime/isa.h"
#include "support/random_graph.h"

namespace podaq::test {

/// The instruction sets that this CPU can be forced to.
inline std::vector<Isa> runnable_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::reference, Isa::avx2, Isa::avxvnni, Isa::avx512, Isa::amx})
    if (runtime_detail::missing_feature(isa, detect_cpu()).empty()) isas.push_back(isa);
  return isas;
}

/// Random samples for each input of a model.
inline std::vector<std::vector<float>> random_inputs(const Model& model, std::size_t batch, Draws& draws) {
  std::vector<std::vector<float>> inputs;
  for (const Port& port : model.inputs()) {
    std::vector<float>& input = inputs.emplace_back(batch * port.size());
    for (float& x : input) x = draws.real(-2.0F, 2.0F);
  }
  return inputs;
}

/// All outputs of a model, one after another.
inline std::vector<float> run_model(const Model& model, const std::vector<std::vector<float>>& inputs,
                                    std::size_t batch, std::size_t max_batch) {
  Runner runner(model, {.max_batch = max_batch});
  std::vector<std::vector<float>> outputs;
  for (const Port& port : model.outputs()) outputs.emplace_back(batch * port.size());
  std::vector<Runner::Input> given;
  std::vector<Runner::Output> wanted;
  for (std::size_t i = 0; i < inputs.size(); ++i) given.push_back({model.inputs()[i].name, inputs[i]});
  for (std::size_t i = 0; i < outputs.size(); ++i) wanted.push_back({model.outputs()[i].name, outputs[i]});
  runner.run(given, wanted);
  std::vector<float> all;
  for (const auto& output : outputs) all.insert(all.end(), output.begin(), output.end());
  return all;
}

/// Whether two results are the same bit for bit; a NaN is the same as any other.
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i]) && !(a[i] != a[i] && b[i] != b[i]))
      return false;
  return true;
}

/// The kernels of a model, for the messages of failing tests.
inline std::string kernel_names(const Model& model) {
  std::string names;
  for (const KernelChoice& choice : model.kernels()) names += choice.node + ":" + choice.kernel + " ";
  return names;
}

}  // namespace podaq::test
