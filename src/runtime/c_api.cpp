#include "podaq/c_api.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/core/version.h"
#include "podaq/runtime/model.h"
#include "podaq/runtime/runner.h"

// The handles that C code holds.
struct podaq_model {  // NOLINT(readability-identifier-naming)
  podaq::Model model;
};

struct podaq_runner {  // NOLINT(readability-identifier-naming)
  podaq::Runner runner;
  std::vector<podaq::Runner::Input> inputs;    ///< Named; each run fills in the data.
  std::vector<podaq::Runner::Output> outputs;  ///< Likewise.
};

namespace podaq {
namespace {

// A plain array: setting it cannot fail, and it outlives whatever else a thread has.
constexpr std::size_t longest_error = 2047;
thread_local std::array<char, longest_error + 1> last_error{};

void keep_error(std::string_view text) noexcept {
  std::size_t length = std::min(text.size(), longest_error);
  // Cut before a character, not within one.
  if (length < text.size())
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0U) == 0x80U) --length;
  std::memcpy(last_error.data(), text.data(), length);
  last_error[length] = '\0';
}

podaq_status status_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument:
      return podaq_status_invalid_argument;
    case ErrorCode::unsupported:
      return podaq_status_unsupported;
    case ErrorCode::graph:
      return podaq_status_graph;
    case ErrorCode::format:
      return podaq_status_format;
    case ErrorCode::io:
      return podaq_status_io;
    case ErrorCode::capture:
    case ErrorCode::recipe:
    case ErrorCode::cancelled:
      break;
  }
  return podaq_status_internal;
}

// The border that no exception crosses.
template <typename Call>
podaq_status guarded(const Call& call) noexcept {
  try {
    call();
    return podaq_status_ok;
  } catch (const Error& error) {
    keep_error(error.what());
    return status_of(error.code());
  } catch (const std::bad_alloc&) {
    keep_error("out of memory");
    return podaq_status_out_of_memory;
  } catch (const std::exception& error) {
    keep_error(error.what());
  } catch (...) {
    keep_error("an exception of unknown type");
  }
  return podaq_status_internal;
}

[[noreturn]] void refuse(std::string_view function, std::string_view problem) {
  throw Error(ErrorCode::invalid_argument, concat(function, ": ", problem));
}

void require(const void* pointer, std::string_view function, std::string_view argument) {
  if (pointer == nullptr) refuse(function, concat("'", argument, "' is null"));
}

template <typename Element>
std::span<Element> require_buffer(Element* data, std::size_t count, std::string_view function, std::string_view name) {
  if (data == nullptr && count != 0) refuse(function, concat("the data of '", name, "' are null"));
  if (count > PTRDIFF_MAX / sizeof(Element))
    refuse(function, concat("'", name, "' has ", count, " numbers, more than memory can hold"));
  return {data, count};
}

template <typename Load>
podaq_status load_model(std::string_view function, podaq_model** model, const Load& load) noexcept {
  return guarded([&] {
    require(model, function, "model");
    *model = nullptr;
    *model = new podaq_model{load()};
  });
}

podaq_status describe(std::string_view function, const podaq_model* model, bool is_input, std::size_t index,
                      podaq_port* description) noexcept {
  return guarded([&] {
    require(model, function, "model");
    require(description, function, "port");
    const std::vector<Port>& ports = is_input ? model->model.inputs() : model->model.outputs();
    if (index >= ports.size()) refuse(function, concat("index ", index, " of ", ports.size(), "; it counts from 0"));
    const Port& port = ports[index];
    *description = {.name = port.name.c_str(),
                    .rank = port.shape.size(),
                    .dims = port.shape.empty() ? nullptr : port.shape.data(),
                    .sample_elements = port.size()};
  });
}

}  // namespace
}  // namespace podaq

const char* podaq_version() {
  return podaq::version.data();
}

const char* podaq_last_error() {
  return podaq::last_error.data();
}

podaq_status podaq_model_load(const char* path, podaq_model** model) {
  return podaq::load_model("podaq_model_load", model, [&] {
    podaq::require(path, "podaq_model_load", "path");
    return podaq::Model::load(path);
  });
}

podaq_status podaq_model_load_cached(const char* path, podaq_model** model) {
  return podaq::load_model("podaq_model_load_cached", model, [&] {
    podaq::require(path, "podaq_model_load_cached", "path");
    return podaq::Model::load(path, {.cache = podaq::cache_beside(path)});
  });
}

podaq_status podaq_model_load_bytes(const void* bytes, size_t size, podaq_model** model) {
  return podaq::load_model("podaq_model_load_bytes", model, [&] {
    podaq::require(bytes, "podaq_model_load_bytes", "bytes");
    return podaq::Model::from_bytes({static_cast<const std::byte*>(bytes), size});
  });
}

void podaq_model_free(podaq_model* model) {
  delete model;
}

size_t podaq_model_input_count(const podaq_model* model) {
  return model == nullptr ? 0 : model->model.inputs().size();
}

size_t podaq_model_output_count(const podaq_model* model) {
  return model == nullptr ? 0 : model->model.outputs().size();
}

podaq_status podaq_model_input(const podaq_model* model, size_t index, podaq_port* port) {
  return podaq::describe("podaq_model_input", model, true, index, port);
}

podaq_status podaq_model_output(const podaq_model* model, size_t index, podaq_port* port) {
  return podaq::describe("podaq_model_output", model, false, index, port);
}

const char* podaq_model_instruction_set(const podaq_model* model) {
  return model == nullptr ? nullptr : podaq::name_of(model->model.isa()).data();
}

podaq_status podaq_runner_create(const podaq_model* model, size_t max_batch, size_t threads, podaq_runner** runner) {
  constexpr std::string_view function = "podaq_runner_create";
  return podaq::guarded([&] {
    podaq::require(runner, function, "runner");
    *runner = nullptr;
    podaq::require(model, function, "model");
    auto created = std::make_unique<podaq_runner>(
        podaq_runner{.runner = podaq::Runner(model->model, {.max_batch = max_batch, .threads = threads}),
                     .inputs = {},
                     .outputs = {}});
    // The names are those of the runner's own share of the model.
    for (const podaq::Port& port : created->runner.model().inputs()) created->inputs.push_back({port.name, {}});
    for (const podaq::Port& port : created->runner.model().outputs()) created->outputs.push_back({port.name, {}});
    *runner = created.release();
  });
}

void podaq_runner_free(podaq_runner* runner) {
  delete runner;
}

podaq_status podaq_run(podaq_runner* runner, const float* input, size_t input_count, float* output,
                       size_t output_count) {
  return podaq::guarded([&] {
    podaq::require(runner, "podaq_run", "runner");
    runner->runner.run(podaq::require_buffer(input, input_count, "podaq_run", "input"),
                       podaq::require_buffer(output, output_count, "podaq_run", "output"));
  });
}

podaq_status podaq_run_all(podaq_runner* runner, const podaq_input* inputs, size_t input_count,
                           const podaq_output* outputs, size_t output_count) {
  constexpr std::string_view function = "podaq_run_all";
  return podaq::guarded([&] {
    podaq::require(runner, function, "runner");
    if (input_count != runner->inputs.size() || output_count != runner->outputs.size())
      podaq::refuse(function,
                    podaq::concat(input_count, " inputs and ", output_count, " outputs are given; the model has ",
                                  runner->inputs.size(), " and ", runner->outputs.size()));
    if (input_count > 0) podaq::require(inputs, function, "inputs");
    podaq::require(outputs, function, "outputs");
    for (std::size_t i = 0; i < input_count; ++i)
      runner->inputs[i].data = podaq::require_buffer(inputs[i].data, inputs[i].count, function, runner->inputs[i].name);
    for (std::size_t i = 0; i < output_count; ++i)
      runner->outputs[i].data =
          podaq::require_buffer(outputs[i].data, outputs[i].count, function, runner->outputs[i].name);
    runner->runner.run(runner->inputs, runner->outputs);
  });
}
