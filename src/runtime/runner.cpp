#include "podaq/runtime/runner.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "runtime/plan_runner.h"
#include "runtime/slices.h"
#include "runtime/worker_pool.h"

namespace podaq {

namespace {

using runtime_detail::choose_slice;
using runtime_detail::choose_workers;
using runtime_detail::Plan;
using runtime_detail::PlanRunner;
using runtime_detail::WorkerPool;

constexpr std::size_t largest_max_batch = 65536;

constexpr std::size_t most_threads = 1024;

[[noreturn]] void refuse(std::string_view kind, std::string_view name, std::string_view problem) {
  throw Error(ErrorCode::invalid_argument, concat(kind, " '", name, "' ", problem));
}

// Puts each named buffer where its port stands.
template <typename Buffer, typename Span>
void place_by_name(std::string_view kind, const std::vector<Port>& ports, std::span<const Buffer> buffers,
                   std::vector<Span>& placed) {
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const auto matches = [&](const Buffer& buffer) { return buffer.name == ports[i].name; };
    const auto count = std::count_if(buffers.begin(), buffers.end(), matches);
    if (count != 1) refuse(kind, ports[i].name, concat("is given ", count, " times; give it once"));
    placed[i] = std::find_if(buffers.begin(), buffers.end(), matches)->data;
  }
  for (const Buffer& buffer : buffers)
    if (std::none_of(ports.begin(), ports.end(), [&](const Port& port) { return port.name == buffer.name; }))
      refuse(kind, buffer.name, concat("is not one of the model's ", kind, "s"));
}

}  // namespace

struct Runner::State {
  Model model;
  std::size_t slice = 1;                       ///< Samples that run through the network together.
  std::vector<PlanRunner> runners;             ///< One per thread.
  std::optional<WorkerPool> pool;              ///< With more than one thread.
  std::vector<std::span<const float>> inputs;  ///< In the model's order; an input not given yet has no data.
  std::vector<std::span<float>> outputs;

  State(Model shared, const RunnerOptions& options);
  [[nodiscard]] const Plan& plan() const { return *model.plan_; }
  void run_all();
  [[nodiscard]] std::size_t check_sizes() const;
  void check_overlaps() const;
  void run_in_parallel(std::size_t batch, std::size_t workers);
};

Runner::State::State(Model shared, const RunnerOptions& options) : model(std::move(shared)) {
  slice = choose_slice(plan(), options.max_batch, runtime_detail::second_level_cache_bytes());
  const std::size_t threads = std::min(options.threads, options.max_batch);
  for (std::size_t thread = 0; thread < threads; ++thread) runners.emplace_back(plan(), slice);
  if (threads > 1) pool.emplace(threads - 1);
  inputs.resize(plan().inputs.size());
  outputs.resize(plan().outputs.size());
}

// The batch that all buffers agree on.
std::size_t Runner::State::check_sizes() const {
  std::size_t batch = 0;
  std::string_view first;
  const auto check = [&](std::string_view kind, const Port& port, std::size_t size) {
    if (size % port.size() != 0)
      refuse(kind, port.name, concat("has ", size, " numbers, no multiple of the ", port.size(), " of one sample"));
    if (first.empty()) {
      batch = size / port.size();
      first = port.name;
    }
    if (size / port.size() != batch)
      refuse(kind, port.name,
             concat("has ", size / port.size(), " samples, but '", first, "' has ", batch, "; give all the same"));
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) check("input", plan().inputs[i], inputs[i].size());
  for (std::size_t i = 0; i < outputs.size(); ++i) check("output", plan().outputs[i], outputs[i].size());
  return batch;
}

// Results are written while inputs are still being read.
void Runner::State::check_overlaps() const {
  const auto overlap = [](std::span<const float> a, std::span<const float> b) {
    const std::less<const float*> before;
    return !a.empty() && !b.empty() && before(a.data(), b.data() + b.size()) && before(b.data(), a.data() + a.size());
  };
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (const auto& input : inputs)
      if (overlap(outputs[i], input)) refuse("output", plan().outputs[i].name, "overlaps an input in memory");
    for (std::size_t j = 0; j < i; ++j)
      if (overlap(outputs[i], outputs[j]))
        refuse("output", plan().outputs[i].name, concat("overlaps output '", plan().outputs[j].name, "' in memory"));
  }
}

// Slices are handed out one by one, so that a thread that is held up takes fewer.
void Runner::State::run_in_parallel(std::size_t batch, std::size_t workers) {
  struct Shared {
    State& state;
    std::size_t batch, slice, workers;
    std::atomic<std::size_t> next = 0;
  };
  Shared shared{*this, batch, std::min(slice, (batch + workers - 1) / workers), workers};
  pool->run(
      [](void* context, std::size_t worker) {
        Shared& work = *static_cast<Shared*>(context);
        if (worker >= work.workers) return;
        for (std::size_t first = work.next.fetch_add(work.slice, std::memory_order_relaxed); first < work.batch;
             first = work.next.fetch_add(work.slice, std::memory_order_relaxed))
          work.state.runners[worker].run(work.state.inputs, work.state.outputs, first,
                                         std::min(work.slice, work.batch - first));
      },
      &shared);
}

void Runner::State::run_all() {
  const std::size_t batch = check_sizes();
  check_overlaps();
  const std::size_t workers = choose_workers(plan(), batch, runners.size());
  if (workers > 1) return run_in_parallel(batch, workers);
  for (std::size_t first = 0; first < batch; first += slice)
    runners[0].run(inputs, outputs, first, std::min(slice, batch - first));
}

Runner::Runner(Model model, RunnerOptions options) {
  if (options.max_batch < 1 || options.max_batch > largest_max_batch)
    throw Error(ErrorCode::invalid_argument,
                concat("RunnerOptions.max_batch is ", options.max_batch, "; it must be 1 to ", largest_max_batch));
  if (options.threads < 1 || options.threads > most_threads)
    throw Error(ErrorCode::invalid_argument,
                concat("RunnerOptions.threads is ", options.threads, "; it must be 1 to ", most_threads));
  state_ = std::make_unique<State>(std::move(model), options);
}

Runner::Runner(Runner&&) noexcept = default;
Runner& Runner::operator=(Runner&&) noexcept = default;
Runner::~Runner() = default;

void Runner::run(std::span<const float> input, std::span<float> output) {
  State& state = *state_;
  if (state.inputs.size() != 1 || state.outputs.size() != 1)
    throw Error(ErrorCode::invalid_argument, concat("the model has ", state.inputs.size(), " inputs and ",
                                                    state.outputs.size(), " outputs; run it with named buffers"));
  state.inputs[0] = input;
  state.outputs[0] = output;
  state.run_all();
}

void Runner::run(std::span<const Input> inputs, std::span<const Output> outputs) {
  State& state = *state_;
  place_by_name("input", state.plan().inputs, inputs, state.inputs);
  place_by_name("output", state.plan().outputs, outputs, state.outputs);
  state.run_all();
}

const Model& Runner::model() const {
  return state_->model;
}

}  // namespace podaq
