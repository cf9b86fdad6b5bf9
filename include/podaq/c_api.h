#pragma once

// The stable C interface: load a .podaq file and run it, from C99 or from any language that can call C. The library is
// libpodaq.so, CMake target podaq::c.
//
//   podaq_model* model = NULL;
//   podaq_runner* runner = NULL;
//   if (podaq_model_load("net.podaq", &model) || podaq_runner_create(model, 64, 1, &runner) ||
//       podaq_run(runner, frame, frame_count, logits, logits_count))
//     fprintf(stderr, "%s\n", podaq_last_error());
//   podaq_runner_free(runner);
//   podaq_model_free(model);
//
// Every function may be called with null pointers and any number: what cannot be done is refused with a status, never a
// crash. (A pointer that is neither null nor what this page asks for cannot be recognized.) No C++ exception leaves it.
// A model may be used by several threads at once, a runner by one at a time.

// C++ compilers see the C headers under their C++ names' rules too.
#include <stddef.h>  // NOLINT(modernize-deprecated-headers)
#include <stdint.h>  // NOLINT(modernize-deprecated-headers)

#ifdef __cplusplus
extern "C" {
#endif

// Names and forms as C has them.
// NOLINTBEGIN(readability-identifier-naming, modernize-use-using)
#pragma GCC visibility push(default)

/// What became of a call. The numbers never change; later versions may add some.
typedef enum podaq_status {
  podaq_status_ok = 0,                ///< Done.
  podaq_status_invalid_argument = 1,  ///< An argument is null or outside its allowed range, or sizes do not fit.
  podaq_status_unsupported = 2,       ///< An instruction set or a feature of the file that this library lacks.
  podaq_status_graph = 3,             ///< The file is whole, but its network breaks a rule.
  podaq_status_format = 4,            ///< The file is malformed.
  podaq_status_io = 5,                ///< The operating system refused to read.
  podaq_status_out_of_memory = 6,     ///< There is not enough memory.
  podaq_status_internal = 7           ///< A fault of this library.
} podaq_status;

/// A network ready to run: immutable.
typedef struct podaq_model podaq_model;

/// Runs a model; holds the scratch memory.
typedef struct podaq_runner podaq_runner;

/// An input or output of a model. Its pointers live as long as the model.
typedef struct podaq_port {
  const char* name;        ///< As captured, UTF-8.
  size_t rank;             ///< Number of dimensions, the batch left out.
  const int64_t* dims;     ///< `rank` sizes, row-major; null where rank is 0.
  size_t sample_elements;  ///< Their product: how many floats a sample has.
} podaq_port;

/// Samples that a run reads.
typedef struct podaq_input {
  const float* data;  ///< Whole samples one after another, row-major; may be null if `count` is 0.
  size_t count;       ///< How many floats there are: the batch times the port's sample_elements.
} podaq_input;

/// Results that a run writes.
typedef struct podaq_output {
  float* data;   ///< Receives whole samples one after another; overlaps no other buffer; may be null if `count` is 0.
  size_t count;  ///< How many floats there are: the batch times the port's sample_elements.
} podaq_output;

/// The version of the library that runs, "major.minor.patch".
const char* podaq_version(void);

/// What was wrong, where, and what to do about it: the text of the last call that failed on this thread, empty if none
/// has. Valid until another call fails on this thread. Calls that succeed leave it as it is.
const char* podaq_last_error(void);

/// Loads the file at `path` (UTF-8) and stores a model that the caller frees. On failure, stores null.
podaq_status podaq_model_load(const char* path, podaq_model** model);

/// As podaq_model_load, but sooner from the second time on: the decoded file is kept beside it, as "<path>.cache", and
/// written whenever it is missing or was not made of this file, all bytes compared, by this version of the library.
/// Where it cannot be read or written, loading is as slow as without. Files that it would not help get none.
podaq_status podaq_model_load_cached(const char* path, podaq_model** model);

/// Loads a file's `size` bytes, which are not needed afterwards, and stores a model that the caller frees. On failure,
/// stores null.
podaq_status podaq_model_load_bytes(const void* bytes, size_t size, podaq_model** model);

/// Frees a model; null is allowed. Runners keep what they need of it.
void podaq_model_free(podaq_model* model);

/// The number of inputs; 0 for null.
size_t podaq_model_input_count(const podaq_model* model);

/// The number of outputs; 0 for null.
size_t podaq_model_output_count(const podaq_model* model);

/// Describes input `index`, in the order in which the network was captured.
podaq_status podaq_model_input(const podaq_model* model, size_t index, podaq_port* port);

/// Describes output `index`, in the order in which the network was captured.
podaq_status podaq_model_output(const podaq_model* model, size_t index, podaq_port* port);

/// The instruction set that the model's kernels were chosen for ("avx512", "reference", ...; see PODAQ_FORCE_ISA); null
/// for null.
const char* podaq_model_instruction_set(const podaq_model* model);

/// Plans and allocates all memory for runs and stores a runner that the caller frees. On failure, stores null.
/// @param max_batch  1 to 65536: the largest batch that memory is planned for; larger ones run in slices.
/// @param threads    1 to 1024: threads that share a batch, the caller's among them; used where a batch gains by it.
podaq_status podaq_runner_create(const podaq_model* model, size_t max_batch, size_t threads, podaq_runner** runner);

/// Frees a runner; null is allowed.
void podaq_runner_free(podaq_runner* runner);

/// Runs a batch through a network of one input and one output. Allocates nothing unless it fails.
/// @param input_count   floats at `input`: the batch times the input's sample_elements.
/// @param output_count  floats at `output`: the batch times the output's sample_elements.
podaq_status podaq_run(podaq_runner* runner, const float* input, size_t input_count, float* output,
                       size_t output_count);

/// Runs a batch through any network: all inputs and all outputs, in the model's order. Allocates nothing unless it
/// fails.
/// @param input_count   must be podaq_model_input_count.
/// @param output_count  must be podaq_model_output_count.
podaq_status podaq_run_all(podaq_runner* runner, const podaq_input* inputs, size_t input_count,
                           const podaq_output* outputs, size_t output_count);

#pragma GCC visibility pop
// NOLINTEND(readability-identifier-naming, modernize-use-using)

#ifdef __cplusplus
}
#endif
