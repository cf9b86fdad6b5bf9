/* Compiled as C99 with -pedantic-errors: the C interface is C. */
#include "c_api_c99.h"

#include "podaq/c_api.h"

int run_in_c99(const void* bytes, unsigned long size, const float* input, float* output) {
  podaq_model* model = NULL;
  podaq_runner* runner = NULL;
  podaq_port port;
  int failed_line = 0;
  if (podaq_model_load_bytes(bytes, size, &model) != podaq_status_ok)
    failed_line = __LINE__;
  else if (podaq_model_input(model, 0, &port) != podaq_status_ok || port.rank != 1 || port.dims[0] != 2)
    failed_line = __LINE__;
  else if (podaq_runner_create(model, 2, 1, &runner) != podaq_status_ok)
    failed_line = __LINE__;
  else if (podaq_run(runner, input, 4, output, 4) != podaq_status_ok)
    failed_line = __LINE__;
  podaq_runner_free(runner);
  podaq_model_free(model);
  return failed_line;
}
