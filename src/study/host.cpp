#include "study/host.h"

#include <torch/version.h>

#include <fstream>

#include "podaq/core/text.h"
#include "podaq/runtime/model.h"

namespace podaq {
namespace {

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown CPU";
}

}  // namespace

std::string host_description(int threads) {
  return concat(cpu_name(), ", podaq on ", name_of(selected_isa()), ", LibTorch ", TORCH_VERSION, ", ", threads,
                threads == 1 ? " thread" : " threads");
}

}  // namespace podaq
