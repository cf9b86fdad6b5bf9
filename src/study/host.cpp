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

std::string isa_name(Isa isa) {
  switch (isa) {
    case Isa::reference:
      return "reference";
    case Isa::avx2:
      return "avx2";
    case Isa::avxvnni:
      return "avxvnni";
    case Isa::avx512:
      return "avx512";
  }
  return "?";
}

}  // namespace

std::string host_description(int threads) {
  return concat(cpu_name(), ", podaq on ", isa_name(selected_isa()), ", LibTorch ", TORCH_VERSION, ", ", threads,
                threads == 1 ? " thread" : " threads");
}

}  // namespace podaq
