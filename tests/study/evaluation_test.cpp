#include "podaq/study/evaluation.h"

#include <gtest/gtest.h>

#include <csignal>

#include "podaq/core/cancellation.h"
#include "podaq/core/error.h"

namespace podaq {
namespace {

// A linear network that copies its two inputs, so the class is the larger of them.
Graph copying_graph() {
  Graph graph;
  const ValueId input = add_value(graph, "input", {2});
  const ValueId output = add_value(graph, "output", {2});
  graph.inputs = {input};
  graph.outputs = {output};
  const std::vector<float> identity = {1, 0, 0, 1};
  graph.tensors["weight"] = make_tensor<float>(DType::f32, {2, 2}, identity);
  graph.nodes.push_back(
      {.op = Linear{}, .name = "copy", .inputs = {input}, .tensors = {"weight", ""}, .output = output});
  return graph;
}

Dataset two_class_dataset(std::int64_t size) {
  Dataset dataset{.sample_shape = {2}, .samples = {}, .labels = {}, .groups = {}, .class_names = {"left", "right"}};
  for (std::int64_t i = 0; i < size; ++i) {
    const bool right = i % 3 == 0;
    dataset.samples.push_back(right ? 0.0F : 1.0F);
    dataset.samples.push_back(0.5F);
    dataset.labels.push_back(i % 5 == 0 ? static_cast<int>(!right) : static_cast<int>(right));
    dataset.groups.push_back(i % 2 == 0 ? -10 : 10);
  }
  return dataset;
}

TEST(Evaluate, CountsRightAnswersByGroupTheSameOnAnyNumberOfThreads) {
  const Model model(copying_graph());
  const Dataset dataset = two_class_dataset(203);
  const Evaluation one = evaluate(model, dataset, 1);
  EXPECT_EQ(one.all.total, 203);
  EXPECT_EQ(one.all.right, 203 - 41);  // every fifth label is wrong
  EXPECT_EQ(one.by_group.at(-10).total + one.by_group.at(10).total, 203);
  EXPECT_EQ(score_from_group(one, 0).total, one.by_group.at(10).total);
  EXPECT_EQ(score_from_group(one, -100).right, one.all.right);
  for (const int threads : {2, 7, 300}) EXPECT_EQ(evaluate(model, dataset, threads).predictions, one.predictions);
}

TEST(Evaluate, TellsTheFirstOfEqualClasses) {
  Dataset dataset = two_class_dataset(1);
  dataset.samples = {0.5F, 0.5F};
  EXPECT_EQ(evaluate(Model(copying_graph()), dataset).predictions, std::vector<std::int32_t>{0});
}

TEST(Evaluate, AnEmptyDataSetHasNoAnswers) {
  const Evaluation evaluation = evaluate(Model(copying_graph()), two_class_dataset(0), 2);
  EXPECT_EQ(evaluation.all.total, 0);
  EXPECT_EQ(evaluation.all.accuracy(), 0.0);
}

TEST(Evaluate, StopsWhenTheUserAsks) {
  std::signal(SIGINT, SIG_DFL);  // which background shells ignore
  const CancellationScope cancellation;
  std::raise(SIGINT);
  for (const int threads : {1, 3}) try {
      (void)evaluate(Model(copying_graph()), two_class_dataset(203), threads);
      ADD_FAILURE() << threads;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::cancelled);
    }
}

TEST(Evaluate, RefusesADataSetThatDoesNotFitTheModel) {
  const Model model(copying_graph());
  Dataset three_classes = two_class_dataset(4);
  three_classes.class_names.push_back("third");
  EXPECT_THROW(static_cast<void>(evaluate(model, three_classes)), Error);
  Dataset longer = two_class_dataset(4);
  longer.sample_shape = {1};
  EXPECT_THROW(static_cast<void>(evaluate(model, longer)), Error);
  EXPECT_THROW(static_cast<void>(evaluate(model, two_class_dataset(4), 0)), Error);
}

TEST(ConfidenceInterval, IsWilsonsScoreInterval) {
  // Reference values from the closed form in 30-digit arithmetic.
  const Interval half = confidence_interval({.right = 50, .total = 100});
  EXPECT_NEAR(half.lowest, 0.403832, 1e-6);
  EXPECT_NEAR(half.highest, 0.596168, 1e-6);
  const Interval none = confidence_interval({.right = 0, .total = 10});
  EXPECT_EQ(none.lowest, 0.0);
  EXPECT_NEAR(none.highest, 0.277533, 1e-6);
}

TEST(ConfidenceInterval, OfNothingIsEverything) {
  const Interval interval = confidence_interval({});
  EXPECT_EQ(interval.lowest, 0.0);
  EXPECT_EQ(interval.highest, 1.0);
}

TEST(Agreement, IsTheShareOfEqualEntries) {
  const std::vector<std::int32_t> a = {0, 1, 2, 3};
  const std::vector<std::int32_t> b = {0, 1, 5, 3};
  EXPECT_EQ(agreement(a, b), 0.75);
  EXPECT_THROW(static_cast<void>(agreement(a, std::vector<std::int32_t>{1})), Error);
}

}  // namespace
}  // namespace podaq
