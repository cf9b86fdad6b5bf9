// What a program that deploys does: loads the sample network's file and runs it.
#include <podaq/runtime.h>

#include <array>
#include <cstdio>
#include <exception>

namespace {

int run(const char* path) {
  const std::array frame{10.0F, 100.0F};
  std::array<float, 2> results{};

  const auto model = podaq::Model::load(path);
  podaq::Runner runner(model, {.max_batch = 64});
  runner.run(frame, results);

  std::printf("%g %g\n", static_cast<double>(results[0]), static_cast<double>(results[1]));
  return results == std::array{211.0F, 429.0F} ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::fputs("usage: run_sample FILE\n", stderr);
    return 2;
  }
  return run(argv[1]);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
