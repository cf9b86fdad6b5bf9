#include "podaq/study/evaluation.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <numeric>
#include <thread>

#include "podaq/core/cancellation.h"
#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/runtime/runner.h"

namespace podaq {
namespace {

constexpr std::size_t batch = 64;

// Calls visit(index of the sample, its logits) for the samples in [first, last).
template <typename Visit>
void run_range(const Model& model, const Dataset& dataset, std::int64_t first, std::int64_t last, const Visit& visit) {
  Runner runner(model, {.max_batch = batch});
  const auto sample_size = static_cast<std::size_t>(dataset.sample_size());
  const std::size_t classes = model.outputs()[0].size();
  std::vector<float> logits(batch * classes);
  for (std::int64_t start = first; start < last; start += batch) {
    throw_if_cancelled();
    const auto count = static_cast<std::size_t>(std::min<std::int64_t>(batch, last - start));
    const auto begin = static_cast<std::size_t>(start) * sample_size;
    runner.run(std::span(dataset.samples).subspan(begin, count * sample_size),
               std::span(logits).first(count * classes));
    for (std::size_t i = 0; i < count; ++i)
      visit(static_cast<std::size_t>(start) + i, std::span<const float>(logits).subspan(i * classes, classes));
  }
}

void predict_range(const Model& model, const Dataset& dataset, std::int64_t first, std::int64_t last,
                   std::span<std::int32_t> predictions) {
  run_range(model, dataset, first, last, [&](std::size_t sample, std::span<const float> logits) {
    predictions[sample] = static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
  });
}

void require_classifier(const Model& model, const Dataset& dataset) {
  if (model.inputs().size() != 1 || model.outputs().size() != 1)
    throw Error(ErrorCode::invalid_argument, concat("evaluate: the model has ", model.inputs().size(), " inputs and ",
                                                    model.outputs().size(), " outputs; one of each is needed"));
  if (model.inputs()[0].size() != static_cast<std::size_t>(dataset.sample_size()))
    throw Error(ErrorCode::invalid_argument, concat("evaluate: the model takes ", model.inputs()[0].size(),
                                                    " numbers a sample, the data set has ", dataset.sample_size()));
  if (model.outputs()[0].size() != dataset.class_names.size())
    throw Error(ErrorCode::invalid_argument, concat("evaluate: the model tells ", model.outputs()[0].size(),
                                                    " classes, the data set has ", dataset.class_names.size()));
}

}  // namespace

Interval confidence_interval(const Score& score) {
  if (score.total == 0) return {};
  constexpr double z = 1.959963984540054;
  const auto n = static_cast<double>(score.total);
  const double p = score.accuracy();
  const double center = (p + z * z / (2 * n)) / (1 + z * z / n);
  const double half = z / (1 + z * z / n) * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
  return {.lowest = std::max(0.0, center - half), .highest = std::min(1.0, center + half)};
}

Evaluation evaluate(const Model& model, const Dataset& dataset, int threads) {
  if (threads < 1 || threads > 1024)
    throw Error(ErrorCode::invalid_argument, concat("evaluate: threads is ", threads, ", must lie in [1, 1024]"));
  require_classifier(model, dataset);
  Evaluation result;
  result.predictions.resize(static_cast<std::size_t>(dataset.size()));
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(threads));
  {
    std::vector<std::jthread> workers;
    for (int worker = 0; worker < threads; ++worker)
      workers.emplace_back([&, worker] {
        try {
          predict_range(model, dataset, dataset.size() * worker / threads, dataset.size() * (worker + 1) / threads,
                        result.predictions);
        } catch (...) {
          failures[static_cast<std::size_t>(worker)] = std::current_exception();
        }
      });
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);

  for (std::size_t i = 0; i < result.predictions.size(); ++i) {
    const bool right = result.predictions[i] == dataset.labels[i];
    const auto count = [right](Score& score) { score.right += right, ++score.total; };
    count(result.all);
    if (!dataset.groups.empty()) count(result.by_group[dataset.groups[i]]);
  }
  return result;
}

std::vector<float> logits_of(const Model& model, const Dataset& dataset) {
  require_classifier(model, dataset);
  std::vector<float> all;
  run_range(model, dataset, 0, dataset.size(),
            [&](std::size_t, std::span<const float> logits) { all.insert(all.end(), logits.begin(), logits.end()); });
  return all;
}

Score score_from_group(const Evaluation& evaluation, std::int32_t lowest_group) {
  Score sum;
  for (const auto& [group, score] : evaluation.by_group)
    if (group >= lowest_group) sum = {.right = sum.right + score.right, .total = sum.total + score.total};
  return sum;
}

double agreement(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  if (a.size() != b.size())
    throw Error(ErrorCode::invalid_argument, concat("agreement: ", a.size(), " and ", b.size(), " predictions"));
  if (a.empty()) return 1.0;
  const auto equal = std::inner_product(a.begin(), a.end(), b.begin(), std::int64_t{0}, std::plus<>(),
                                        [](std::int32_t x, std::int32_t y) { return std::int64_t{x == y}; });
  return static_cast<double>(equal) / static_cast<double>(a.size());
}

}  // namespace podaq
