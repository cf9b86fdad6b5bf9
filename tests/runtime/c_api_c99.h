#pragma once

// What tests/runtime/c_api_test.cpp calls in C99 code, in plain C types.

#ifdef __cplusplus
extern "C" {
#endif

// Loads the file's bytes, runs two samples of two numbers each, and returns 0, or the line that failed.
int run_in_c99(const void* bytes, unsigned long size, const float* input, float* output);

#ifdef __cplusplus
}
#endif
