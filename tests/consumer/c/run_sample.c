/* What a C program that deploys does: loads the sample network's file and runs it. */
#include <podaq/c_api.h>
#include <stdio.h>

int main(int argc, char** argv) {
  const float frame[2] = {10.0F, 100.0F};
  float results[2] = {0.0F, 0.0F};
  podaq_model* model = NULL;
  podaq_runner* runner = NULL;
  int failed;
  if (argc != 2) {
    fputs("usage: run_sample FILE\n", stderr);
    return 2;
  }

  failed = podaq_model_load(argv[1], &model) || podaq_runner_create(model, 64, 1, &runner) ||
           podaq_run(runner, frame, 2, results, 2);
  if (failed) fprintf(stderr, "%s\n", podaq_last_error());
  podaq_runner_free(runner);
  podaq_model_free(model);

  printf("podaq %s: %g %g\n", podaq_version(), results[0], results[1]);
  return failed || results[0] != 211.0F || results[1] != 429.0F;
}
