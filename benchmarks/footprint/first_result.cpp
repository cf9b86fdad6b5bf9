// The program whose start footprint.sh measures: it loads a model, runs one sample of zeros and says how much memory it
// took, as /proc has it. It uses the shared library alone. With --cached, it loads from the decoded copy beside the
// model, making that first where it is missing.
#include <podaq/c_api.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

namespace {

struct Sample {
  std::vector<std::vector<float>> numbers;
  std::vector<podaq_input> inputs;
  std::vector<podaq_output> outputs;
};

Sample make_sample(const podaq_model* model) {
  Sample sample;
  podaq_port port{};
  for (std::size_t i = 0; i < podaq_model_input_count(model); ++i) {
    podaq_model_input(model, i, &port);
    sample.numbers.emplace_back(port.sample_elements);
    sample.inputs.push_back({sample.numbers.back().data(), port.sample_elements});
  }
  for (std::size_t i = 0; i < podaq_model_output_count(model); ++i) {
    podaq_model_output(model, i, &port);
    sample.numbers.emplace_back(port.sample_elements);
    sample.outputs.push_back({sample.numbers.back().data(), port.sample_elements});
  }
  return sample;
}

using Load = podaq_status (*)(const char*, podaq_model**);

bool give_first_result(Load load, const char* path) {
  podaq_model* model = nullptr;
  podaq_runner* runner = nullptr;
  bool succeeds = load(path, &model) == podaq_status_ok && podaq_runner_create(model, 1, 1, &runner) == podaq_status_ok;
  if (succeeds) {
    const Sample sample = make_sample(model);
    succeeds = podaq_run_all(runner, sample.inputs.data(), sample.inputs.size(), sample.outputs.data(),
                             sample.outputs.size()) == podaq_status_ok;
  }
  if (!succeeds) std::fprintf(stderr, "first_result: %s\n", podaq_last_error());
  podaq_runner_free(runner);
  podaq_model_free(model);
  return succeeds;
}

// "VmHWM:      1234 kB" is the most that was resident at once.
bool print_peak_memory() {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> status(std::fopen("/proc/self/status", "r"), std::fclose);
  char line[256];
  while (status && std::fgets(line, sizeof line, status.get()) != nullptr)
    if (std::strncmp(line, "VmHWM:", 6) == 0) return std::fputs(line, stdout) >= 0;
  std::fputs("first_result: /proc/self/status does not say how much memory was resident\n", stderr);
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  const bool is_cached = argc == 3 && std::strcmp(argv[1], "--cached") == 0;
  if (argc != 2 && !is_cached) {
    std::fputs("usage: first_result [--cached] FILE\n", stderr);
    return 2;
  }
  const Load load = is_cached ? podaq_model_load_cached : podaq_model_load;
  return give_first_result(load, argv[argc - 1]) && print_peak_memory() ? 0 : 1;
}
